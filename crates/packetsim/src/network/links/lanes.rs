//! Queues of priorities above the lowest, and which priorities PFC has paused; the queues of the
//! lowest are in the links.
//!
//! A port sends control packets before data, where they have queues of their own, and among either
//! those of the highest priority that is not paused. A packet that is being sent is never
//! interrupted.

use super::super::slab::{Chain, PacketSlab};
use crate::packet::{Packet, PacketId};
use crate::topology::PacketLinkId;

/// The queues of a link and priority.
#[derive(Debug, Clone, Copy)]
struct Lane {
    data: Chain,
    control: Chain,
    data_bytes: u32,
    control_bytes: u32,
    sent_bytes: u64,
}

impl Lane {
    const EMPTY: Self = Self {
        data: Chain::EMPTY,
        control: Chain::EMPTY,
        data_bytes: 0,
        control_bytes: 0,
        sent_bytes: 0,
    };
}

/// Which queue of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Queue {
    Data,
    /// Served first.
    Control,
}

/// The lanes of all links; priorities count from 1.
#[derive(Debug, Clone)]
pub(super) struct Lanes {
    highest: u8,
    /// Link by link, from priority 1 up.
    all: Vec<Lane>,
    /// Per link the priorities that are paused, the lowest included, as bits.
    paused: Vec<u8>,
}

impl Lanes {
    pub(super) fn new(links: usize, highest: u8) -> Self {
        let all = vec![Lane::EMPTY; links * usize::from(highest)];
        Self { highest, all, paused: vec![0; if highest == 0 { 0 } else { links }] }
    }

    /// The highest priority.
    #[inline]
    pub(super) fn highest(&self) -> u8 {
        self.highest
    }

    fn lane(&self, link: PacketLinkId, priority: u8) -> &Lane {
        &self.all[link.index() * usize::from(self.highest) + usize::from(priority) - 1]
    }

    fn lane_mut(&mut self, link: PacketLinkId, priority: u8) -> &mut Lane {
        &mut self.all[link.index() * usize::from(self.highest) + usize::from(priority) - 1]
    }

    /// Whether PFC has paused a priority of a link.
    pub(super) fn is_paused(&self, link: PacketLinkId, priority: u8) -> bool {
        self.paused(link) & 1 << priority != 0
    }

    /// The paused priorities of a link, as bits.
    #[inline]
    pub(super) fn paused(&self, link: PacketLinkId) -> u8 {
        self.paused.get(link.index()).copied().unwrap_or(0)
    }

    /// Pauses a priority of a link, or ends its pause; returns whether it is paused now.
    pub(super) fn toggle_pause(&mut self, link: PacketLinkId, priority: u8) -> bool {
        self.paused[link.index()] ^= 1 << priority;
        self.is_paused(link, priority)
    }

    /// Whether all priorities of a link are paused.
    pub(super) fn are_all_paused(&self, link: PacketLinkId) -> bool {
        (0..=self.highest).all(|priority| self.is_paused(link, priority))
    }

    /// Whether all lanes of a link are empty.
    pub(super) fn are_empty(&self, link: PacketLinkId) -> bool {
        (1..=self.highest).all(|priority| {
            let lane = self.lane(link, priority);
            lane.data.is_empty() && lane.control.is_empty()
        })
    }

    /// A queue of a lane, and the bytes in it.
    pub(super) fn queue(&self, link: PacketLinkId, priority: u8, queue: Queue) -> (Chain, u32) {
        let lane = self.lane(link, priority);
        match queue {
            Queue::Data => (lane.data, lane.data_bytes),
            Queue::Control => (lane.control, lane.control_bytes),
        }
    }

    /// Bytes of data in the lanes of a link from a priority on.
    pub(super) fn data_bytes(&self, link: PacketLinkId, from: u8) -> u32 {
        (from.max(1)..=self.highest).map(|it| self.lane(link, it).data_bytes).sum()
    }

    /// Bytes that a link has sent, or is sending, of priorities from one above the lowest on.
    pub(super) fn sent_bytes(&self, link: PacketLinkId, from: u8) -> u64 {
        (from..=self.highest).map(|it| self.lane(link, it).sent_bytes).sum()
    }

    /// A link sends a packet.
    pub(super) fn count_sent(&mut self, link: PacketLinkId, priority: u8, size: u16) {
        self.lane_mut(link, priority).sent_bytes += u64::from(size);
    }

    /// Appends a packet to its lane.
    pub(super) fn push(
        &mut self,
        link: PacketLinkId,
        queue: Queue,
        id: PacketId,
        packets: &mut PacketSlab,
    ) {
        let Packet { size, .. } = packets[id];
        let lane = self.lane_mut(link, packets[id].priority());
        let (chain, bytes) = match queue {
            Queue::Data => (&mut lane.data, &mut lane.data_bytes),
            Queue::Control => (&mut lane.control, &mut lane.control_bytes),
        };
        *bytes += u32::from(size);
        packets.push(chain, id);
    }

    /// Removes the first packet of a queue that has one; returns the bytes that were in it, too.
    pub(super) fn pop(
        &mut self,
        link: PacketLinkId,
        priority: u8,
        queue: Queue,
        packets: &mut PacketSlab,
    ) -> (PacketId, Packet, u32) {
        let lane = self.lane_mut(link, priority);
        let (chain, bytes) = match queue {
            Queue::Data => (&mut lane.data, &mut lane.data_bytes),
            Queue::Control => (&mut lane.control, &mut lane.control_bytes),
        };
        let (id, packet) = packets.pop(chain);
        let queued = *bytes;
        *bytes -= u32::from(packet.size);
        (id, packet, queued)
    }

    /// A packet in a data queue has been replaced by one of another size.
    pub(super) fn resize_queued(&mut self, link: PacketLinkId, priority: u8, sizes: [u16; 2]) {
        let lane = self.lane_mut(link, priority);
        lane.data_bytes = lane.data_bytes - u32::from(sizes[0]) + u32::from(sizes[1]);
    }
}
