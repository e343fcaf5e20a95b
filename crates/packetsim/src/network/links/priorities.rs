//! What links do with priorities, see [`super::lanes`].

use super::super::slab::{Chain, PacketSlab};
use super::{FROM_HOST, LANED, Links, PAUSED, Queue, Turn, Waiting};
use crate::packet::{Packet, PacketId};
use crate::topology::PacketLinkId;

/// Links with priorities.
impl Links {
    /// Whether PFC has paused it, or some of its priorities.
    pub(in super::super) fn is_paused(&self, link: PacketLinkId) -> bool {
        self.has(link, PAUSED) || self.lanes.paused(link) != 0
    }

    /// Whether PFC has paused a priority.
    pub(in super::super) fn is_lane_paused(&self, link: PacketLinkId, priority: u8) -> bool {
        if self.lanes.highest() == 0 {
            return self.has(link, PAUSED);
        }
        self.lanes.is_paused(link, priority)
    }

    /// The priorities that PFC has paused, as bits; none where there is but one.
    #[inline]
    pub(in super::super) fn paused_lanes(&self, link: PacketLinkId) -> u8 {
        self.lanes.paused(link)
    }

    /// PFC pauses a priority, or ends its pause; returns whether it is paused now.
    pub(in super::super) fn toggle_pause(&mut self, link: PacketLinkId, priority: u8) -> bool {
        if self.lanes.highest() == 0 {
            self.all[link.index()].flags ^= PAUSED.0;
            return self.has(link, PAUSED);
        }
        let is_paused = self.lanes.toggle_pause(link, priority);
        self.look_at_lanes(link);
        is_paused
    }

    /// Renews whether lanes matter.
    pub(super) fn look_at_lanes(&mut self, link: PacketLinkId) {
        if self.lanes.paused(link) == 0 && self.lanes.are_empty(link) {
            self.clear(link, LANED);
        } else {
            self.set(link, LANED);
        }
    }

    /// As [`Self::take_turn`], among priorities.
    #[cold]
    pub(super) fn take_turn_of_lanes(
        &mut self,
        link: PacketLinkId,
        packets: &mut PacketSlab,
    ) -> Turn {
        let it = &self.all[link.index()];
        let (begin, is_from_host) = (it.free_at, it.has(FROM_HOST));
        if it.is_stopped() {
            return Turn::Idle;
        }
        let is_next = |&(queue, priority): &(Queue, u8)| {
            let (chain, _) = self.queue(link, queue, priority);
            !chain.is_empty() && !self.lanes.is_paused(link, priority)
        };
        if let Some((queue, priority)) = self.order().find(is_next) {
            let (id, packet, queued) = self.pop(link, queue, priority, packets);
            let queued = if queue == Queue::Data { queued } else { 0 };
            return Turn::Packet(Waiting { id, packet, begin, queued, is_from_host });
        }
        if is_from_host && !self.lanes.are_all_paused(link) {
            return Turn::Pull(begin);
        }
        Turn::Idle
    }

    /// A queue, and the bytes in it.
    #[inline]
    pub(super) fn queue(&self, link: PacketLinkId, queue: Queue, priority: u8) -> (Chain, u32) {
        if priority > 0 {
            return self.lanes.queue(link, priority, queue);
        }
        let link = &self.all[link.index()];
        match queue {
            Queue::Data => (link.data, link.data_bytes),
            Queue::Control => (link.control, link.control_bytes),
        }
    }

    /// Removes the first packet of a queue that has one; returns the bytes that were in it, too.
    pub(super) fn pop(
        &mut self,
        link: PacketLinkId,
        queue: Queue,
        priority: u8,
        packets: &mut PacketSlab,
    ) -> (PacketId, Packet, u32) {
        if priority > 0 {
            let popped = self.lanes.pop(link, priority, queue, packets);
            self.look_at_lanes(link);
            return popped;
        }
        let link = &mut self.all[link.index()];
        let (chain, bytes) = match queue {
            Queue::Data => (&mut link.data, &mut link.data_bytes),
            Queue::Control => (&mut link.control, &mut link.control_bytes),
        };
        let (id, packet) = packets.pop(chain);
        let queued = *bytes;
        *bytes -= u32::from(packet.size);
        (id, packet, queued)
    }

    /// Notes that a link sends a packet of a priority above the lowest.
    #[inline]
    pub(in super::super) fn count_sent(&mut self, link: PacketLinkId, packet: &Packet) {
        let priority = packet.priority();
        if priority > 0 {
            self.lanes.count_sent(link, priority, packet.size);
        }
    }

    /// Bytes of data that wait, and that it has sent or is sending, of a priority and higher ones.
    #[inline]
    pub(in super::super) fn load(&self, link: PacketLinkId, priority: u8) -> (u32, u64) {
        let it = &self.all[link.index()];
        if self.lanes.highest() == 0 {
            return (it.data_bytes, it.sent_bytes);
        }
        let above = self.lanes.data_bytes(link, priority);
        if priority == 0 {
            return (it.data_bytes + above, it.sent_bytes);
        }
        (above, self.lanes.sent_bytes(link, priority))
    }

    /// Bytes that a packet of a priority finds before it.
    pub(in super::super) fn bytes_ahead(&self, link: PacketLinkId, priority: u8) -> u64 {
        let control = |it| u64::from(self.queued_bytes(link, Queue::Control, it));
        let (data, _) = self.load(link, priority);
        u64::from(data) + (priority..=self.lanes.highest()).map(control).sum::<u64>()
    }

    /// Bytes in all queues.
    pub(in super::super) fn all_queued_bytes(&self, link: PacketLinkId) -> u64 {
        self.bytes_ahead(link, 0)
    }

    /// The queues of a link in the order of service.
    pub(super) fn order(&self) -> impl Iterator<Item = (Queue, u8)> + use<> {
        let highest = self.lanes.highest();
        let queues = [Queue::Control, Queue::Data].into_iter();
        queues.flat_map(move |queue| (0..=highest).rev().map(move |priority| (queue, priority)))
    }

    /// The queues in the order of service, and whether each is stopped.
    pub(in super::super) fn queues(
        &self,
        link: PacketLinkId,
    ) -> impl Iterator<Item = (Chain, bool)> {
        self.order().map(move |(queue, priority)| {
            (self.queue(link, queue, priority).0, self.is_stopped(link, priority))
        })
    }

    /// The last packet in the data queue of a priority, or [`NO_PACKET`].
    pub(in super::super) fn last_data(&self, link: PacketLinkId, priority: u8) -> PacketId {
        self.queue(link, Queue::Data, priority).0.tail()
    }
}
