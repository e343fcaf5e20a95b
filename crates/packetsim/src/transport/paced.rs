//! Flows that wait to send, each from a time on: among those that may, of the highest priority that
//! is not paused, the NIC chooses the one that could first, so that flows take turns.

use super::table::{PerFlow, PerNic};
use crate::flow::PacketFlowId;
use crate::network::core::Core;
use crate::topology::NicId;
use lightloom_model::{Bytes, Time};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

/// What a NIC does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Waiting {
    /// A flow may send.
    Ready(PacketFlowId),
    /// None may before this time.
    From(Time),
    /// None waits.
    None,
}

type Heap = BinaryHeap<Reverse<(Time, PacketFlowId)>>;

/// Per NIC the flows with something to send, by the time from which on they may.
#[derive(Debug, Clone)]
pub(super) struct Paced {
    /// Per NIC a heap for each priority, the lowest first.
    heaps: PerNic<Vec<Heap>>,
    /// Per NIC the priority of its last packet.
    last: PerNic<u8>,
    /// Whether a flow waits.
    is_waiting: PerFlow<bool>,
}

impl Paced {
    /// Nobody waits at the NICs of a network.
    pub(super) fn new(core: &Core) -> Self {
        let heaps = vec![Heap::new(); usize::from(core.priorities())];
        Self {
            heaps: PerNic::new(core.nic_count(), |_| heaps.clone()),
            last: PerNic::new(core.nic_count(), |_| u8::MAX),
            is_waiting: PerFlow::default(),
        }
    }

    /// Makes room for a flow.
    pub(super) fn make_room(&mut self, flow: PacketFlowId) {
        self.is_waiting.make_room(flow, false);
    }

    /// Whether a flow waits.
    #[inline]
    pub(super) fn has(&self, flow: PacketFlowId) -> bool {
        self.is_waiting[flow]
    }

    /// Lets a flow wait at its source from a time on, unless it does already.
    #[inline]
    pub(super) fn add(&mut self, core: &Core, flow: PacketFlowId, time: Time) {
        if !std::mem::replace(&mut self.is_waiting[flow], true) {
            let nic = core.endpoints(flow).source();
            self.heaps[nic][usize::from(core.priority(flow))].push(Reverse((time, flow)));
        }
    }

    /// What a NIC does next, at a time.
    #[inline]
    pub(super) fn next(&self, core: &Core, nic: NicId, at: Time) -> Waiting {
        let mut next = Waiting::None;
        let paused = core.paused_priorities(nic);
        for (priority, heap) in self.heaps[nic].iter().enumerate().rev() {
            let Some(&Reverse((time, flow))) = heap.peek() else { continue };
            if paused & 1 << priority != 0 {
                continue;
            }
            if time <= at {
                return Waiting::Ready(flow);
            }
            next = match next {
                Waiting::From(earlier) => Waiting::From(earlier.min(time)),
                _ => Waiting::From(time),
            };
        }
        next
    }

    /// From when on the pace of a flow that is ready counts, which sends at `at`. What a lower
    /// priority had begun to send before is made up for.
    #[inline]
    pub(super) fn begin(&mut self, core: &Core, flow: PacketFlowId, at: Time) -> Time {
        let (nic, priority) = (core.endpoints(flow).source(), core.priority(flow));
        let last = std::mem::replace(&mut self.last[nic], priority);
        if last.min(core.last_priority(nic)) >= priority {
            return at;
        }
        let packet = Bytes(core.config().packet_bytes().into());
        let span = core.nic_rate(nic).transmission(packet);
        let due = self.heaps[nic][usize::from(priority)].peek().map_or(at, |first| first.0.0);
        due.max(Time(at.0.saturating_sub(span.0)))
    }

    /// The flow that is ready has sent: it waits until another time, or no longer.
    #[inline]
    pub(super) fn renew(&mut self, core: &Core, flow: PacketFlowId, until: Option<Time>) {
        let nic = core.endpoints(flow).source();
        let heap = &mut self.heaps[nic][usize::from(core.priority(flow))];
        let Some(mut first) = heap.peek_mut() else { return };
        debug_assert_eq!(first.0.1, flow, "it was ready");
        if let Some(time) = until {
            *first = Reverse((time, flow));
        } else {
            PeekMut::pop(first);
            self.is_waiting[flow] = false;
        }
    }
}
