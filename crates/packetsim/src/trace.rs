//! The first events in the lives of packets.
//!
//! Links are settled lazily (see `engine`), so that events are not noted in the order of time:
//! the earliest are kept in a heap.

use crate::core::{Core, TO_HOST};
use crate::flow::{FlowId, NO_ROUTE};
use crate::packet::Packet;
use crate::report::{PacketEvent, What};
use crate::scenario::Tracing;
use crate::topology::LinkId;
use lightloom_model::Time;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// The earliest events of those that were noted; of simultaneous ones, those noted first.
#[derive(Debug, Clone)]
pub(crate) struct Trace {
    tracing: Tracing,
    earliest: BinaryHeap<Entry>,
    noted: u64,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    event: PacketEvent,
    sequence: u64,
}

impl Entry {
    fn key(&self) -> (Time, u64) {
        (self.event.time, self.sequence)
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl Trace {
    pub(crate) fn new(tracing: Tracing) -> Self {
        Self { tracing, earliest: BinaryHeap::new(), noted: 0 }
    }

    fn note(&mut self, time: u64, what: What, link: u32, packet: &Packet) {
        if self.tracing.flow.is_some_and(|flow| flow != packet.flow) {
            return;
        }
        if self.earliest.len() == self.tracing.first {
            if self.earliest.peek().is_none_or(|last| last.event.time.0 <= time) {
                return;
            }
            self.earliest.pop();
        }
        let (flow, link) = (FlowId(packet.flow), LinkId(link));
        let (number, kind) = (packet.number, packet.kind);
        let event = PacketEvent { time: Time(time), what, link, flow, number, kind };
        self.earliest.push(Entry { event, sequence: self.noted });
        self.noted += 1;
    }

    /// In order of time.
    fn events(self) -> Vec<PacketEvent> {
        self.earliest.into_sorted_vec().into_iter().map(|entry| entry.event).collect()
    }
}

impl Core {
    /// What happened to packets, as far as links are settled; empty unless asked for.
    pub fn trace(&self) -> Vec<PacketEvent> {
        let Some(trace) = &self.trace else { return Vec::new() };
        let mut trace = Trace::clone(trace);
        for (link, mut arrival) in self.arrivals().into_iter().enumerate() {
            for id in self.packets.chain(self.links[link].wire) {
                self.note_departure(&mut trace, link as u32, (id, arrival));
                arrival = self.packets[id].next_arrival;
            }
        }
        trace.events()
    }

    /// Notes what happens to a packet, if anyone wants to know.
    #[inline]
    pub(crate) fn note(&mut self, time: u64, what: What, link: u32, id: u32) {
        if let Some(trace) = &mut self.trace {
            trace.note(time, what, link, &self.packets[id]);
        }
    }

    /// Notes that the first packet on a wire has arrived, and when it was sent: together, so that
    /// one place per hop asks whether anyone wants to know.
    #[cold]
    pub(crate) fn note_arrival(&mut self, link: u32) {
        let Some(mut trace) = self.trace.take() else { return };
        let slot = &self.links[link as usize];
        self.note_departure(&mut trace, link, (slot.wire.head, self.now));
        let packet = &self.packets[slot.wire.head];
        let way = self.flows.ways[packet.flow as usize];
        let is_last = if way.route == NO_ROUTE {
            slot.flags & TO_HOST != 0
        } else {
            let behind = packet.path + 1;
            self.flows.route_link(way.route, packet.kind.is_forward(), behind).is_none()
        };
        let what = if is_last { What::Delivered } else { What::Arrived };
        trace.note(self.now, what, link, packet);
        self.trace = Some(trace);
    }

    /// Notes when a packet on a wire was sent, from when it arrives.
    fn note_departure(&self, trace: &mut Trace, link: u32, (id, arrival): (u32, u64)) {
        let packet = &self.packets[id];
        let class = &self.classes[usize::from(self.links[link as usize].class)];
        let begin = arrival - class.delay - class.transmission(packet.size);
        trace.note(begin, What::Sent, link, packet);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Kind;

    fn packet(flow: u32) -> Packet {
        Packet {
            next_arrival: 0,
            flow,
            number: 7,
            value: 0,
            next: crate::packet::NONE,
            size: 64,
            path: 0,
            ingress: 0,
            kind: Kind::Data,
            flags: 0,
        }
    }

    #[test]
    fn the_earliest_are_kept_in_order_of_time() {
        let mut trace = Trace::new(Tracing { first: 3, flow: Some(2) });
        for (time, flow) in [(50, 2), (40, 2), (1, 3), (60, 2), (40, 2), (30, 2), (50, 2)] {
            trace.note(time, What::Sent, time as u32, &packet(flow));
        }
        let events = trace.events();
        let times: Vec<u64> = events.iter().map(|event| event.time.0).collect();
        assert_eq!(times, [30, 40, 40]);
        assert!(events.iter().all(|event| event.flow == FlowId(2) && event.number == 7));
        let mut none = Trace::new(Tracing { first: 0, flow: None });
        none.note(1, What::Sent, 0, &packet(2));
        assert!(none.events().is_empty());
    }
}
