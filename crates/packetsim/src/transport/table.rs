//! Arrays with an item per flow or NIC.

use crate::flow::PacketFlowId;
use crate::memory::prefetch;
use crate::topology::NicId;
use std::ops::{Index, IndexMut};

/// An item per flow.
#[derive(Debug, Clone)]
pub(super) struct PerFlow<T>(Vec<T>);

impl<T> Default for PerFlow<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: Clone> PerFlow<T> {
    /// Makes room for a flow; `item` is that of all new ones.
    pub(super) fn make_room(&mut self, flow: PacketFlowId, item: T) {
        if flow.index() >= self.0.len() {
            self.0.resize(flow.index() + 1, item);
        }
    }

    /// Prefetches the item of a flow.
    #[inline]
    pub(super) fn prefetch(&self, flow: PacketFlowId) {
        prefetch(&self.0, flow.index());
    }

    /// The item of a flow, if there is room for it.
    #[inline]
    pub(super) fn get(&self, flow: PacketFlowId) -> Option<&T> {
        self.0.get(flow.index())
    }
}

impl<T> Index<PacketFlowId> for PerFlow<T> {
    type Output = T;

    #[inline]
    fn index(&self, flow: PacketFlowId) -> &T {
        &self.0[flow.index()]
    }
}

impl<T> IndexMut<PacketFlowId> for PerFlow<T> {
    #[inline]
    fn index_mut(&mut self, flow: PacketFlowId) -> &mut T {
        &mut self.0[flow.index()]
    }
}

/// An item per NIC.
#[derive(Debug, Clone, Default)]
pub(super) struct PerNic<T>(Vec<T>);

impl<T> PerNic<T> {
    /// Items for this number of NICs.
    pub(super) fn new(nics: usize, item: impl FnMut(NicId) -> T) -> Self {
        Self((0..nics as u32).map(NicId).map(item).collect())
    }
}

impl<T> Index<NicId> for PerNic<T> {
    type Output = T;

    #[inline]
    fn index(&self, nic: NicId) -> &T {
        &self.0[nic.index()]
    }
}

impl<T> IndexMut<NicId> for PerNic<T> {
    #[inline]
    fn index_mut(&mut self, nic: NicId) -> &mut T {
        &mut self.0[nic.index()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn flows_get_room_once_and_keep_their_items() {
        let mut table: PerFlow<u32> = PerFlow::default();
        table.make_room(PacketFlowId(3), 7);
        table[PacketFlowId(1)] = 9;
        table.make_room(PacketFlowId(2), 8);
        table.make_room(PacketFlowId(5), 8);
        let items: Vec<u32> = (0..6).map(|flow| table[PacketFlowId(flow)]).collect();
        assert_eq!(items, [7, 9, 7, 7, 8, 8]);
        assert_eq!((table.get(PacketFlowId(5)), table.get(PacketFlowId(6))), (Some(&8), None));
        table.prefetch(PacketFlowId(1_000));
    }

    #[test]
    fn nics_are_all_there_from_the_start() {
        let mut table = PerNic::new(3, |nic| nic.0 * 10);
        table[NicId(1)] += 1;
        assert_eq!([0, 1, 2].map(|nic| table[NicId(nic)]), [0, 11, 20]);
    }
}
