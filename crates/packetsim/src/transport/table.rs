//! Arrays with an item per flow or NIC.

use crate::flow::FlowId;
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
    pub(super) fn make_room(&mut self, flow: FlowId, item: T) {
        if flow.index() >= self.0.len() {
            self.0.resize(flow.index() + 1, item);
        }
    }

    /// Prefetches the item of a flow.
    #[inline]
    pub(super) fn prefetch(&self, flow: FlowId) {
        prefetch(&self.0, flow.index());
    }

    /// The item of a flow, if there is room for it.
    #[inline]
    pub(super) fn get(&self, flow: FlowId) -> Option<&T> {
        self.0.get(flow.index())
    }
}

impl<T> Index<FlowId> for PerFlow<T> {
    type Output = T;

    #[inline]
    fn index(&self, flow: FlowId) -> &T {
        &self.0[flow.index()]
    }
}

impl<T> IndexMut<FlowId> for PerFlow<T> {
    #[inline]
    fn index_mut(&mut self, flow: FlowId) -> &mut T {
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
        table.make_room(FlowId(3), 7);
        table[FlowId(1)] = 9;
        table.make_room(FlowId(2), 8);
        table.make_room(FlowId(5), 8);
        let items: Vec<u32> = (0..6).map(|flow| table[FlowId(flow)]).collect();
        assert_eq!(items, [7, 9, 7, 7, 8, 8]);
        assert_eq!((table.get(FlowId(5)), table.get(FlowId(6))), (Some(&8), None));
        table.prefetch(FlowId(1_000));
    }

    #[test]
    fn nics_are_all_there_from_the_start() {
        let mut table = PerNic::new(3, |nic| nic.0 * 10);
        table[NicId(1)] += 1;
        assert_eq!([0, 1, 2].map(|nic| table[NicId(nic)]), [0, 11, 20]);
    }
}
