//! Round robin among the flows of a NIC: those of the highest priority, but for priorities that PFC
//! has paused.

use super::table::PerFlow;
use crate::flow::PacketFlowId;
use crate::network::core::Core;
use crate::topology::NicId;

const NONE: PacketFlowId = PacketFlowId(u32::MAX);
const OUT: PacketFlowId = PacketFlowId(u32::MAX - 1);

/// First and last flow of a circle.
#[derive(Debug, Clone, Copy)]
struct Circle {
    first: PacketFlowId,
    last: PacketFlowId,
}

impl Circle {
    const EMPTY: Self = Self { first: NONE, last: NONE };
}

/// Per NIC and priority a circle of flows that take turns.
#[derive(Debug, Clone)]
pub(super) struct RoundRobin {
    /// NIC by NIC, the lowest priority first.
    circles: Vec<Circle>,
    next: PerFlow<PacketFlowId>,
    priorities: usize,
    /// Per NIC the priorities that wait, as bits; empty if there is one priority.
    paused: Vec<u8>,
}

impl RoundRobin {
    /// Empty circles for the NICs of a network.
    pub(super) fn new(core: &Core) -> Self {
        Self::of(core.nic_count(), usize::from(core.priorities()))
    }

    fn of(nics: usize, priorities: usize) -> Self {
        Self {
            circles: vec![Circle::EMPTY; nics * priorities],
            next: PerFlow::default(),
            priorities,
            paused: vec![0; if priorities == 1 { 0 } else { nics }],
        }
    }

    /// Flows of the priorities that PFC has paused at a NIC wait from now on.
    #[inline]
    pub(super) fn heed_pauses(&mut self, core: &Core, nic: NicId) {
        if self.priorities > 1 {
            self.paused[nic.index()] = core.paused_priorities(nic);
        }
    }

    /// Where the circle is whose turn it is, if any has a flow.
    #[inline]
    fn place(&self, nic: NicId) -> Option<usize> {
        let start = nic.index() * self.priorities;
        if self.priorities == 1 {
            return (self.circles[start].first != NONE).then_some(start);
        }
        let paused = self.paused[nic.index()];
        let has_turn = |it: &usize| paused & 1 << it == 0 && self.circles[start + it].first != NONE;
        (0..self.priorities).rev().find(has_turn).map(|it| start + it)
    }

    /// The priority of the flow whose turn it is.
    #[inline]
    pub(super) fn priority(&self, nic: NicId) -> Option<u8> {
        self.place(nic).map(|place| (place % self.priorities) as u8)
    }

    /// The flow whose turn it is.
    #[inline]
    pub(super) fn first(&self, nic: NicId) -> Option<PacketFlowId> {
        self.place(nic).map(|place| self.circles[place].first)
    }

    /// Appends a flow to the circle of its priority, unless it is there already.
    #[inline]
    pub(super) fn add(&mut self, nic: NicId, flow: PacketFlowId, priority: u8) {
        self.next.make_room(flow, OUT);
        if self.next[flow] != OUT {
            return;
        }
        self.next[flow] = NONE;
        let circle = &mut self.circles[nic.index() * self.priorities + usize::from(priority)];
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
        let place = self.place(nic)?;
        let circle = &mut self.circles[place];
        let flow = circle.first;
        circle.first = self.next[flow];
        self.next[flow] = OUT;
        Some(flow)
    }

    /// Moves the first flow to the end.
    #[inline]
    pub(super) fn rotate(&mut self, nic: NicId) {
        let Some(place) = self.place(nic) else { return };
        let circle = &mut self.circles[place];
        let flow = circle.first;
        if flow != circle.last {
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
        let mut circle = RoundRobin::of(2, 1);
        for flow in [4, 2, 4, 7].map(PacketFlowId) {
            circle.add(busy, flow, 0);
        }
        assert_eq!(circle.first(idle), None);
        let mut order = Vec::new();
        for _ in 0..4 {
            order.push(circle.first(busy).unwrap());
            circle.rotate(busy);
        }
        assert_eq!(order, [4, 2, 7, 4].map(PacketFlowId));
        assert_eq!(circle.remove_first(busy), Some(PacketFlowId(2)));
        circle.add(busy, PacketFlowId(2), 0);
        let rest: Vec<PacketFlowId> = std::iter::from_fn(|| circle.remove_first(busy)).collect();
        assert_eq!(rest, [7, 4, 2].map(PacketFlowId));
        circle.rotate(busy);
        assert_eq!(circle.first(busy), None);
    }

    #[test]
    fn higher_priorities_come_first_unless_they_are_paused() {
        let nic = NicId(1);
        let mut circle = RoundRobin::of(2, 3);
        for (flow, priority) in [(1, 0), (2, 2), (3, 0), (4, 2), (5, 1)] {
            circle.add(nic, PacketFlowId(flow), priority);
        }
        circle.rotate(nic);
        assert_eq!(circle.first(nic), Some(PacketFlowId(4)));
        circle.paused[1] = 0b100;
        assert_eq!(circle.remove_first(nic), Some(PacketFlowId(5)));
        circle.rotate(nic);
        assert_eq!(circle.first(nic), Some(PacketFlowId(3)));
        circle.paused[1] = 0b101;
        assert_eq!((circle.first(nic), circle.remove_first(nic)), (None, None));
        circle.paused[1] = 0;
        let rest: Vec<PacketFlowId> = std::iter::from_fn(|| circle.remove_first(nic)).collect();
        assert_eq!(rest, [4, 2, 3, 1].map(PacketFlowId));
    }
}
