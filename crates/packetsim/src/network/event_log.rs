//! The first packet events of a run.
//!
//! Links are settled lazily (see [`super::fabric`]), so events are not recorded in the order of
//! time: the earliest are kept in a heap.

use crate::events::{EventKind, EventLogging, PacketEvent};
use crate::packet::Packet;
use crate::topology::PacketLinkId;
use lightloom_model::Time;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// The earliest recorded events; of simultaneous ones, those recorded first.
#[derive(Debug, Clone)]
pub(super) struct EventLog {
    logging: EventLogging,
    earliest: BinaryHeap<Entry>,
    recorded: u64,
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

impl EventLog {
    pub(super) fn new(logging: EventLogging) -> Self {
        Self { logging, earliest: BinaryHeap::new(), recorded: 0 }
    }

    pub(super) fn record(
        &mut self,
        time: Time,
        event: EventKind,
        link: PacketLinkId,
        packet: &Packet,
    ) {
        if self.logging.flow.is_some_and(|flow| flow != packet.flow) {
            return;
        }
        if self.earliest.len() == self.logging.max_events {
            if self.earliest.peek().is_none_or(|last| last.event.time <= time) {
                return;
            }
            self.earliest.pop();
        }
        let Packet { flow, sequence, kind: packet_kind, .. } = *packet;
        let event = PacketEvent { time, event, link, flow, sequence, packet_kind };
        self.earliest.push(Entry { event, sequence: self.recorded });
        self.recorded += 1;
    }

    /// The events in order of time.
    pub(super) fn into_events(self) -> Vec<PacketEvent> {
        self.earliest.into_sorted_vec().into_iter().map(|entry| entry.event).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::PacketFlowId;
    use crate::packet::PacketKind;

    fn packet(flow: u32) -> Packet {
        Packet::data(flow, 7, 64)
    }

    #[test]
    fn the_earliest_are_kept_in_order_of_time() {
        let logging = EventLogging { max_events: 3, flow: Some(PacketFlowId(2)) };
        let mut log = EventLog::new(logging);
        for (time, flow) in [(50, 2), (40, 2), (1, 3), (60, 2), (40, 2), (30, 2), (50, 2)] {
            log.record(Time(time), EventKind::Sent, PacketLinkId(time as u32), &packet(flow));
        }
        let events = log.into_events();
        let times: Vec<u64> = events.iter().map(|event| event.time.0).collect();
        assert_eq!(times, [30, 40, 40]);
        assert!(events.iter().all(|event| event.flow == PacketFlowId(2) && event.sequence == 7));
        let mut none = EventLog::new(EventLogging { max_events: 0, flow: None });
        none.record(Time(1), EventKind::Sent, PacketLinkId(0), &packet(2));
        assert!(none.into_events().is_empty());
    }

    #[test]
    fn simultaneous_events_keep_the_order_of_recording_and_the_first_stay() {
        let mut log = EventLog::new(EventLogging { max_events: 4, flow: None });
        let kinds = [EventKind::Arrived, EventKind::Trimmed, EventKind::Dropped];
        for (index, &kind) in kinds.iter().cycle().take(9).enumerate() {
            log.record(Time(5), kind, PacketLinkId(index as u32), &packet(1));
        }
        log.record(Time(4), EventKind::Sent, PacketLinkId(99), &packet(1));
        let links: Vec<u32> = log.into_events().iter().map(|event| event.link.0).collect();
        assert_eq!(links, [99, 0, 1, 2]);
    }

    #[test]
    fn an_event_describes_its_packet() {
        let mut log = EventLog::new(EventLogging { max_events: 1, flow: None });
        let nack = Packet { kind: PacketKind::Nack, sequence: 12, ..packet(8) };
        log.record(Time(3), EventKind::Delivered, PacketLinkId(4), &nack);
        let expected = PacketEvent {
            time: Time(3),
            event: EventKind::Delivered,
            link: PacketLinkId(4),
            flow: PacketFlowId(8),
            sequence: 12,
            packet_kind: PacketKind::Nack,
        };
        assert_eq!(log.into_events(), [expected]);
    }
}
