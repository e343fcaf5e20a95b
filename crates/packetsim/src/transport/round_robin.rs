//! Round robin among the flows of a NIC.

use super::table::{PerFlow, PerNic};
use crate::flow::PacketFlowId;
use crate::topology::NicId;

const NONE: PacketFlowId = PacketFlowId(u32::MAX);
const OUT: PacketFlowId = PacketFlowId(u32::MAX - 1);

/// First and last flow of a circle.
#[derive(Debug, Clone, Copy)]
struct Circle {
    first: PacketFlowId,
    last: PacketFlowId,
}

/// Per NIC a circle of flows that take turns.
#[derive(Debug, Clone)]
pub(super) struct RoundRobin {
    circles: PerNic<Circle>,
    next: PerFlow<PacketFlowId>,
}

impl RoundRobin {
    /// Empty circles for this number of NICs.
    pub(super) fn new(nics: usize) -> Self {
        let empty = |_| Circle { first: NONE, last: NONE };
        Self { circles: PerNic::new(nics, empty), next: PerFlow::default() }
    }

    /// The flow whose turn it is.
    #[inline]
    pub(super) fn first(&self, nic: NicId) -> Option<PacketFlowId> {
        let first = self.circles[nic].first;
        (first != NONE).then_some(first)
    }

    /// Appends a flow, unless it is in the circle already.
    #[inline]
    pub(super) fn add(&mut self, nic: NicId, flow: PacketFlowId) {
        self.next.make_room(flow, OUT);
        if self.next[flow] != OUT {
            return;
        }
        self.next[flow] = NONE;
        let circle = &mut self.circles[nic];
        if circle.first == NONE {
            circle.first = flow;
        } else {
            self.next[circle.last] = flow;
        }
        circle.last = flow;
    }

    /// Removes the first flow.
    #[inline]
    pub(super) fn remove_first(&mut self, nic: NicId) -> Option<PacketFlowId> {
        let circle = &mut self.circles[nic];
        let flow = circle.first;
        if flow == NONE {
            return None;
        }
        circle.first = self.next[flow];
        self.next[flow] = OUT;
        Some(flow)
    }

    /// Moves the first flow to the end.
    #[inline]
    pub(super) fn rotate(&mut self, nic: NicId) {
        let circle = &mut self.circles[nic];
        if circle.first != NONE && circle.first != circle.last {
            let flow = circle.first;
            circle.first = self.next[flow];
            self.next[circle.last] = flow;
            self.next[flow] = NONE;
            circle.last = flow;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_take_turns() {
        let (idle, busy) = (NicId(0), NicId(1));
        let mut circle = RoundRobin::new(2);
        for flow in [4, 2, 4, 7].map(PacketFlowId) {
            circle.add(busy, flow);
        }
        assert_eq!(circle.first(idle), None);
        let mut order = Vec::new();
        for _ in 0..4 {
            order.push(circle.first(busy).unwrap());
            circle.rotate(busy);
        }
        assert_eq!(order, [4, 2, 7, 4].map(PacketFlowId));
        assert_eq!(circle.remove_first(busy), Some(PacketFlowId(2)));
        circle.add(busy, PacketFlowId(2));
        let rest: Vec<PacketFlowId> = std::iter::from_fn(|| circle.remove_first(busy)).collect();
        assert_eq!(rest, [7, 4, 2].map(PacketFlowId));
        circle.rotate(busy);
        assert_eq!(circle.first(busy), None);
    }
}
