//! The sending end of a flow of MPTCP: which data is whose.

use super::super::tcp::{Arrived, Receiver};
use std::collections::VecDeque;
use std::collections::vec_deque::Drain;

/// A packet that a subflow has in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sent {
    /// Its number in the flow.
    pub(super) data: u32,
    /// When it was sent, in ns.
    pub(super) time: u32,
    /// Sent more than once: its acknowledgement says nothing of the round trip (Karn's algorithm).
    pub(super) is_repeated: bool,
    /// Other subflows were given it, too.
    pub(super) is_elsewhere: bool,
}

impl Sent {
    /// When the packet of this number was sent, if it is among those in flight and was sent once.
    pub(super) fn time_of(sent: &VecDeque<Self>, first: u32, number: u32) -> Option<u32> {
        let index = number.checked_sub(first)? as usize;
        sent.get(index).filter(|it| !it.is_repeated).map(|it| it.time)
    }
}

/// Data that no subflow has, and what the receiver has.
#[derive(Debug, Clone, Default)]
pub(super) struct Connection {
    /// First packet that no subflow has taken.
    next: u32,
    /// Packets of subflows that have timed out.
    again: VecDeque<u32>,
    /// What was acknowledged on any subflow.
    known: Receiver,
    known_behind: Arrived,
    /// A timer of the flow is pending.
    pub(super) has_timer: bool,
}

impl Connection {
    /// Maximum number of packets that are left to take, of a flow with so many.
    pub(super) fn left(&self, packets: u32) -> u32 {
        packets - self.next + self.again.len() as u32
    }

    /// Takes a packet: one of a subflow that timed out, or the next.
    pub(super) fn take(&mut self, packets: u32) -> Option<u32> {
        while let Some(data) = self.again.pop_front() {
            if !self.known.has(&self.known_behind, data) {
                return Some(data);
            }
        }
        (self.next < packets).then(|| {
            self.next += 1;
            self.next - 1
        })
    }

    /// What a subflow has in flight may be taken by others, each packet once.
    pub(super) fn give_to_others(&mut self, sent: &mut VecDeque<Sent>) {
        for packet in sent {
            if !std::mem::replace(&mut packet.is_elsewhere, true) {
                self.again.push_back(packet.data);
            }
        }
    }

    /// A subflow's packets were acknowledged.
    pub(super) fn acknowledge(&mut self, packets: Drain<'_, Sent>) {
        for packet in packets {
            self.known.accept(&mut self.known_behind, packet.data);
        }
    }

    /// Whether all of a flow's packets were acknowledged.
    pub(super) fn is_complete(&self, packets: u32) -> bool {
        self.known.expected == packets
    }
}
