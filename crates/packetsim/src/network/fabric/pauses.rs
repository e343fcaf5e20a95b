//! The part of the fabric that pauses links, see [`super::super::pfc`].

use super::super::clock::Clock;
use super::super::links::{TO_HOST, WATCHED};
use super::Fabric;
use crate::packet::{Packet, PacketId};
use crate::topology::PacketLinkId;
use lightloom_model::{Duration, Time};

/// PFC.
impl Fabric {
    /// Whether a switch counts what it buffers of a priority that arrives over a link.
    #[inline]
    pub(super) fn is_buffered(&self, over: PacketLinkId, priority: u8) -> bool {
        self.pfc.as_ref().is_some_and(|pfc| pfc.counts(priority)) && !self.links.has(over, TO_HOST)
    }

    /// See [`Pfc::buffer`].
    #[inline]
    pub(super) fn buffer(&mut self, over: PacketLinkId, id: PacketId) -> bool {
        let Some(pfc) = &mut self.pfc else { return false };
        pfc.buffer(over, &mut self.packets[id])
    }

    /// See [`Pfc::pass`].
    #[inline(always)]
    pub(super) fn pass(
        &mut self,
        link: PacketLinkId,
        over: PacketLinkId,
        packet: &Packet,
        clock: &mut Clock,
    ) -> bool {
        self.release(link, clock);
        let Some(pfc) = &mut self.pfc else { return false };
        pfc.pass(link, over, packet)
    }

    /// What a link was sending has left the switch.
    #[inline(always)]
    pub(super) fn release(&mut self, link: PacketLinkId, clock: &mut Clock) {
        if let Some(pfc) = &mut self.pfc
            && let Some((over, priority)) = pfc.release(link)
        {
            // A link that fails while it sends releases that at once.
            let time = self.links.free_at(link).min(clock.now());
            self.resume(over, priority, time, clock);
        }
    }

    /// Tells the sending end of a link to resume packets of a priority.
    fn resume(&mut self, over: PacketLinkId, priority: u8, time: Time, clock: &mut Clock) {
        self.signal_over(over, priority, time + self.links.delay(over), clock);
        let Some(pfc) = &mut self.pfc else { return };
        for &out in pfc.resume(self.links.to(over)) {
            self.links.clear(out, WATCHED);
        }
    }

    /// Schedules the event of a watched link, if it matters when its transmission ends.
    #[inline]
    pub(in super::super) fn watch(&mut self, link: PacketLinkId, clock: &mut Clock) {
        if self.links.has(link, WATCHED) && !self.links.is_free(link, clock.now()) {
            self.watch_departure(link, clock);
        }
    }

    pub(super) fn watch_departure(&mut self, link: PacketLinkId, clock: &mut Clock) {
        let is_last = self.links.is_empty(link);
        if let Some(pfc) = &mut self.pfc
            && pfc.needs_departure(link, is_last)
        {
            clock.schedule_departure(link, self.links.free_at(link));
        }
    }

    /// The event of a watched link is no longer pending.
    pub(in super::super) fn clear_departure(&mut self, link: PacketLinkId) {
        if let Some(pfc) = &mut self.pfc {
            pfc.clear_departure(link);
        }
    }

    /// Number of links out of the node to which a link leads; 0 without PFC.
    pub(in super::super) fn out_count(&self, over: PacketLinkId) -> usize {
        self.pfc.as_ref().map_or(0, |pfc| pfc.out(self.links.to(over)).len())
    }

    /// One of the links that [`Self::out_count`] counts.
    pub(in super::super) fn out(&self, over: PacketLinkId, index: usize) -> PacketLinkId {
        self.pfc.as_ref().expect("links are counted with PFC").out(self.links.to(over))[index]
    }

    /// Tells the sending end of a link to pause packets of a priority, if too much is buffered of
    /// these now that all links out of the switch are settled.
    pub(in super::super) fn pause(&mut self, over: PacketLinkId, priority: u8, clock: &mut Clock) {
        let node = self.links.to(over);
        let Some(pfc) = &mut self.pfc else { return };
        if !pfc.pause(over, priority, node) {
            return;
        }
        self.signal_over(over, priority, clock.now() + self.links.delay(over), clock);
        for index in 0..self.out_count(over) {
            let out = self.out(over, index);
            self.links.set(out, WATCHED);
            self.watch(out, clock);
        }
    }

    /// PFC reaches the sending end of a link, which pauses packets of a priority or resumes;
    /// returns whether it may send them again.
    pub(in super::super) fn signal(&mut self, link: PacketLinkId, priority: u8, now: Time) -> bool {
        let Some(pfc) = &mut self.pfc else { return false };
        if self.links.toggle_pause(link, priority) {
            pfc.begin_pause(link, priority, now);
            self.links.count(link).pauses += 1;
            return false;
        }
        let span = pfc.paused_for(link, priority, now);
        self.links.count(link).paused += span;
        true
    }

    /// For how long a link has been paused, added up over priorities.
    pub(super) fn current_pause(&self, link: PacketLinkId, now: Time) -> Duration {
        let Some(pfc) = &self.pfc else { return Duration::ZERO };
        let paused = (0..pfc.priorities()).filter(|&it| self.links.is_lane_paused(link, it));
        paused.fold(Duration::ZERO, |sum, it| sum + pfc.paused_for(link, it, now))
    }

    /// The links out of a switch that may not send and before which packets wait that came over a
    /// link.
    pub(in super::super) fn stopped_behind(&self, over: PacketLinkId) -> Vec<PacketLinkId> {
        let Some(pfc) = &self.pfc else { return Vec::new() };
        let came_over = |id| pfc.came_over(&self.packets[id], over);
        let holds = |link: &PacketLinkId| {
            let mut stopped = self.links.queues(*link).filter(|&(_, stops)| stops);
            stopped.any(|(queue, _)| self.packets.chain(queue).any(came_over))
        };
        pfc.out(self.links.to(over)).iter().copied().filter(holds).collect()
    }
}
