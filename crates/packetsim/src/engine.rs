//! The run: one event per packet and link.
//!
//! The only event of a link is the arrival of the first packet on its wire. Its transmitter has
//! none: whenever anything touches a link at some time, the transmissions that began until then
//! are made up for (`settle`). That is exact, as whatever arrived earlier touched the link, so no
//! choice that the transmitter had to make depended on anything later. The packet on the wire makes
//! sure that the link is touched before the next one would have to arrive.

use crate::agenda::Due;
use crate::config::{Config, Marking, Overflow};
use crate::core::{Core, DARK, FROM_HOST, PAUSED, TO_HOST, Timer};
use crate::error::PacketError;
use crate::flow::{FlowId, FlowSpec, NO_ROUTE};
use crate::memory::prefetch;
use crate::packet::{Kind, NONE, Packet};
use crate::report::What;
use crate::scenario::Tracing;
use crate::topology::{LinkId, Topology};
use crate::trace::Trace;
use crate::transport::{Next, Transport};
use lightloom_kernel::{Interrupted, Observer};
use lightloom_model::Time;

/// Events between two looks at the observer.
const CHECK_EVERY: u64 = 1 << 16;

/// A network, a transport, and the flows between.
#[derive(Debug, Clone)]
pub struct Simulation<T> {
    core: Core,
    transport: T,
}

impl<T: Transport> Simulation<T> {
    /// An idle network.
    ///
    /// # Errors
    /// If the configuration makes no sense.
    pub fn new(
        topology: Topology,
        config: Config,
        transport: impl FnOnce(&Core) -> T,
    ) -> Result<Self, PacketError> {
        let core = Core::new(topology, config)?;
        let transport = transport(&core);
        Ok(Self { core, transport })
    }

    /// Adds a flow; one that should have started earlier starts now.
    ///
    /// # Errors
    /// If its ends do not exist or no path joins them.
    pub fn add_flow(&mut self, spec: &FlowSpec) -> Result<FlowId, PacketError> {
        self.core.add_flow(spec).map(FlowId)
    }

    /// From now on a flow has finished when its receiver has everything, not when its sender knows
    /// that.
    pub fn finish_on_arrival(&mut self) {
        self.core.finish_on_arrival = true;
    }

    /// A link goes dark, or comes up, at this time: what is on it arrives, its queue waits.
    pub fn set_dark(&mut self, time: Time, link: LinkId, dark: bool) {
        let timer = if dark { Timer::Dark(link.0) } else { Timer::Light(link.0) };
        self.core.agenda.set_timer(time.0.max(self.core.now), timer);
    }

    /// Makes all transmissions that began until now be counted.
    pub fn settle_all(&mut self) {
        for link in 0..self.core.links.len() as u32 {
            self.settle(link);
        }
    }

    /// Notes what happens to packets from now on, see [`Core::trace`].
    pub fn set_tracing(&mut self, tracing: Tracing) {
        self.core.trace = Some(Box::new(Trace::new(tracing)));
    }

    /// The state of the network.
    pub fn core(&self) -> &Core {
        &self.core
    }

    /// The transport, for what it knows of flows.
    pub fn transport(&self) -> &T {
        &self.transport
    }

    /// Runs until a flow finishes (all that finish at that time are then in `finished`), until
    /// `limit`, or until nothing is left to happen. Returns whether any finished.
    ///
    /// # Errors
    /// If the observer asks to stop; what had finished is in `finished`.
    pub fn advance(
        &mut self,
        limit: Time,
        finished: &mut Vec<FlowId>,
        observer: &mut dyn Observer,
    ) -> Result<bool, PacketError> {
        loop {
            // At one instant several may finish.
            let end = if self.core.finished.is_empty() { limit.0 } else { self.core.now };
            let Some((time, due)) = self.core.agenda.pop(end) else { break };
            debug_assert!(time >= self.core.now, "time does not run backwards");
            self.core.now = time;
            self.core.counters.events += 1;
            self.look_ahead();
            self.happen(due);
            if self.core.counters.events.is_multiple_of(CHECK_EVERY) {
                // Of data alone, as those can be foretold.
                let hops = self.core.counters.data_hops;
                if observer.progress(Time(time), hops).is_break() {
                    finished.extend(self.core.finished.drain(..).map(FlowId));
                    return Err(Interrupted { now: Time(time), done: hops }.into());
                }
            }
        }
        let any = !self.core.finished.is_empty();
        if !any && limit.0 != u64::MAX {
            self.core.now = self.core.now.max(limit.0);
        }
        finished.extend(self.core.finished.drain(..).map(FlowId));
        Ok(any)
    }

    /// Asks for what the next events will look at: the sooner, the more is known of it.
    #[inline]
    fn look_ahead(&mut self) {
        let core = &self.core;
        let Some(upcoming) = core.agenda.upcoming() else { return };
        let link = |later: usize| upcoming[later].1 as usize;
        prefetch(&core.links, link(11));
        if let Some(slot) = core.links.get(link(8)) {
            core.packets.prefetch(slot.wire.head);
            core.packets.prefetch(slot.control.head);
            core.packets.prefetch(slot.data.head);
        }
        if let Some(slot) = core.links.get(link(1)) {
            if let Some(next) = core.links.get(slot.onward as usize) {
                core.packets.prefetch(next.control.head);
                core.packets.prefetch(next.data.head);
            } else if let Some(packet) = core.packets.get(slot.wire.head) {
                self.transport.prefetch_more(packet);
            }
        }
        let (_, soon) = upcoming[4];
        self.look_up(soon);
    }

    /// Finds out where the first packet on a wire goes on.
    #[inline]
    fn look_up(&mut self, link: u32) {
        let core = &mut self.core;
        let Some(slot) = core.links.get(link as usize) else { return };
        let Some(packet) = core.packets.get(slot.wire.head) else { return };
        let way = core.flows.ways[packet.flow as usize];
        if way.route != NO_ROUTE {
            return;
        }
        if slot.flags & TO_HOST != 0 {
            prefetch(&core.flows.state, packet.flow as usize);
            self.transport.prefetch(packet);
            let nic = way.ends[usize::from(packet.kind.is_forward())];
            prefetch(&core.links, core.uplinks[nic as usize] as usize);
            return;
        }
        let next = core.routed(slot.to, way, packet);
        core.links[link as usize].onward = next;
        prefetch(&core.links, next as usize);
        if let Some(ingress) = &core.ingress {
            ingress.prefetch(next);
        }
    }

    fn happen(&mut self, due: Due<Timer>) {
        let links = self.core.links.len() as u32;
        match due {
            Due::Source(link) if link < links => self.arrive(link),
            Due::Source(source) if source < 2 * links => {
                let link = source - links;
                if let Some(ingress) = &mut self.core.ingress {
                    ingress.woken(link);
                }
                self.count_out(link);
                self.core.watch(link);
            }
            Due::Source(source) => {
                let nic = source - 2 * links;
                self.core.clear_event(nic);
                self.wake(nic);
            }
            Due::Timer(timer) => self.run_timer(timer),
        }
    }

    fn run_timer(&mut self, timer: Timer) {
        match timer {
            Timer::Start(flow) => {
                let [source, _] = self.core.ends(flow);
                let link = self.core.uplinks[source as usize];
                self.settle(link);
                self.transport.start(&mut self.core, flow);
                self.kick(link);
            }
            Timer::Flow { flow, tag } => {
                let [source, _] = self.core.ends(flow);
                let link = self.core.uplinks[source as usize];
                self.settle(link);
                self.transport.timer(&mut self.core, flow, tag);
                self.kick(link);
            }
            Timer::Wake(nic) => self.wake(nic),
            Timer::Pause(link) => self.stop(link, PAUSED),
            Timer::Dark(link) => self.stop(link, DARK),
            Timer::Resume(link) => self.resume(link, PAUSED),
            Timer::Light(link) => self.resume(link, DARK),
        }
    }

    fn stop(&mut self, link: u32, flag: u8) {
        self.settle(link);
        if flag == PAUSED {
            self.core.note_pause(link);
        }
        self.core.links[link as usize].flags |= flag;
    }

    fn resume(&mut self, link: u32, flag: u8) {
        self.settle(link);
        if flag == PAUSED {
            self.core.note_resume(link);
        }
        self.core.links[link as usize].flags &= !flag;
        self.kick(link);
    }

    fn wake(&mut self, nic: u32) {
        if !self.core.is_woken(nic) {
            return;
        }
        let link = self.core.uplinks[nic as usize];
        self.settle(link);
        self.transport.wake(&mut self.core, nic);
        self.kick(link);
    }

    /// Makes up for the transmissions that began until now.
    #[inline]
    fn settle(&mut self, link: u32) {
        let slot = &self.core.links[link as usize];
        if slot.free_at <= self.core.now && slot.has_waiting() {
            self.make_up(link);
        }
    }

    /// As [`Self::settle`]; also counts what has left the switch if nothing follows.
    fn count_out(&mut self, link: u32) {
        if self.core.links[link as usize].free_at <= self.core.now {
            self.make_up(link);
        }
    }

    fn make_up(&mut self, link: u32) {
        let now = self.core.now;
        loop {
            if self.core.ingress.is_some() {
                self.core.unbuffer(link);
            }
            let slot = &mut self.core.links[link as usize];
            let mut begin = slot.free_at;
            if slot.is_stopped() {
                return;
            }
            let flags = slot.flags;
            let (id, packet) = if !slot.control.is_empty() {
                let (id, packet) = self.core.packets.pop(&mut slot.control);
                slot.control_bytes -= u32::from(packet.size);
                (id, packet)
            } else if !slot.data.is_empty() {
                let queued = slot.data_bytes;
                let (id, packet) = self.core.packets.pop(&mut slot.data);
                slot.data_bytes -= u32::from(packet.size);
                if let Some(ecn) = self.core.config.ecn
                    && ecn.marking == Marking::Departure
                    && queued > ecn.min_bytes
                {
                    self.core.mark(ecn, link, id, queued);
                }
                (id, packet)
            } else if flags & FROM_HOST != 0 {
                let Some(id) = self.pull(link, &mut begin) else { return };
                (id, self.core.packets[id])
            } else {
                return;
            };
            if flags & FROM_HOST == 0 {
                self.core.serve(link, &packet);
            }
            if self.core.transmit(link, id, &packet, begin) > now {
                return;
            }
        }
    }

    /// Asks the transport for a packet that a NIC sends from `begin` on, or from a later time
    /// until now.
    #[inline]
    fn pull(&mut self, link: u32, begin: &mut u64) -> Option<u32> {
        let nic = self.core.nic_of[link as usize];
        loop {
            match self.transport.next(&mut self.core, nic, *begin) {
                Next::Packet(id) => return Some(id),
                Next::At(time) if time <= self.core.now => *begin = time.max(*begin + 1),
                Next::At(time) => {
                    self.core.wake(nic, time);
                    return None;
                }
                Next::Nothing => return None,
            }
        }
    }

    /// A settled link has something new: an idle transmitter begins now.
    #[inline]
    fn kick(&mut self, link: u32) {
        let slot = &mut self.core.links[link as usize];
        if slot.free_at <= self.core.now {
            slot.free_at = self.core.now;
            self.make_up(link);
        }
    }

    /// The first packet on a wire has arrived.
    #[inline]
    fn arrive(&mut self, link: u32) {
        if self.core.trace.is_some() {
            self.core.note_arrival(link);
        }
        // Before it is taken off, so that what follows finds the wire's event pending.
        self.settle(link);
        let slot = &mut self.core.links[link as usize];
        let (node, flags) = (slot.to, slot.flags);
        let onward = std::mem::replace(&mut slot.onward, NONE);
        let (id, packet) = self.core.packets.pop(&mut slot.wire);
        if !slot.wire.is_empty() {
            self.core.agenda.schedule(link, packet.next_arrival);
        }
        if onward != NONE {
            return self.enqueue(onward, link, (id, &packet));
        }
        let way = self.core.flows.ways[packet.flow as usize];
        let next = if way.route == NO_ROUTE {
            if flags & TO_HOST != 0 {
                return self.deliver(id, packet);
            }
            self.core.routed(node, way, &packet)
        } else {
            let packet = &mut self.core.packets[id];
            packet.path += 1;
            let is_forward = packet.kind.is_forward();
            let Some(next) = self.core.flows.route_link(way.route, is_forward, packet.path) else {
                // Transports know no paths but those that they chose.
                packet.path = 0;
                let packet = *packet;
                return self.deliver(id, packet);
            };
            next
        };
        self.enqueue(next, link, (id, &packet));
    }

    #[inline]
    fn deliver(&mut self, id: u32, packet: Packet) {
        let ends = self.core.ends(packet.flow);
        let nic = ends[usize::from(packet.kind.is_forward())];
        let uplink = self.core.uplinks[nic as usize];
        self.settle(uplink);
        self.core.packets.free(id);
        self.transport.receive(&mut self.core, nic, packet);
        self.kick(uplink);
    }

    /// A packet that came over `over` goes to `link`.
    #[inline]
    fn enqueue(&mut self, link: u32, over: u32, (id, packet): (u32, &Packet)) {
        self.settle(link);
        let now = self.core.now;
        let slot = &mut self.core.links[link as usize];
        let crowded = if slot.free_at <= now && !slot.is_stopped() {
            // An idle transmitter: nothing waits.
            slot.free_at = now;
            let crowded =
                self.core.is_buffered(over) && self.core.buffer_at_once(link, over, packet.size);
            self.core.transmit(link, id, packet, now);
            crowded
        } else {
            if !self.join(link, id, packet) {
                return;
            }
            self.core.watch(link);
            self.core.is_buffered(over) && self.core.buffer(over, id)
        };
        if crowded {
            self.crowd(over);
        }
    }

    /// Queues a packet at a busy link; returns whether it is there.
    fn join(&mut self, link: u32, id: u32, packet: &Packet) -> bool {
        let size = u32::from(packet.size);
        if packet.kind == Kind::Data {
            if !self.admit(link, id, size) {
                return false;
            }
            let slot = &mut self.core.links[link as usize];
            slot.data_bytes += size;
            slot.peak_bytes = slot.peak_bytes.max(slot.data_bytes);
            self.core.packets.push(&mut slot.data, id);
            return true;
        }
        let slot = &self.core.links[link as usize];
        let control = self.core.config.control_priority && self.core.ingress.is_none();
        if control && slot.control_bytes + size > self.core.config.control_queue_bytes {
            self.core.link_counters[link as usize].control_drops += 1;
            self.core.note(self.core.now, What::Dropped, link, id);
            self.core.packets.free(id);
            return false;
        }
        self.core.push_control(link, id);
        true
    }

    /// Whether a data packet may join the queue of a link; marks it, or cuts or drops one.
    #[inline]
    fn admit(&mut self, link: u32, id: u32, size: u32) -> bool {
        let core = &mut self.core;
        let queued = core.links[link as usize].data_bytes;
        if let Some(ecn) = core.config.ecn
            && ecn.marking == Marking::Arrival
            && queued > ecn.min_bytes
        {
            core.mark(ecn, link, id, queued);
        }
        if queued + size <= core.config.queue_bytes || core.ingress.is_some() {
            return true;
        }
        if core.config.overflow == Overflow::Drop {
            core.link_counters[link as usize].drops += 1;
            core.note(core.now, What::Dropped, link, id);
            core.packets.free(id);
            return false;
        }
        self.trim(link, id);
        false
    }

    /// Cuts the payload off a packet that finds a full queue, or off the last one there.
    fn trim(&mut self, link: u32, id: u32) {
        let core = &mut self.core;
        core.link_counters[link as usize].trims += 1;
        let tail = core.links[link as usize].data.tail;
        let has_tail = !core.links[link as usize].data.is_empty();
        if has_tail && core.random() & 1 == 1 && core.packets[tail].kind == Kind::Data {
            let (old, new) = (core.packets[tail].size, core.packets[id].size);
            core.packets.swap_contents(tail, id);
            let slot = &mut core.links[link as usize];
            slot.data_bytes = slot.data_bytes - u32::from(old) + u32::from(new);
        }
        core.note(core.now, What::Trimmed, link, id);
        let header = core.config.header;
        if core.links[link as usize].control_bytes + header > core.config.control_queue_bytes {
            core.link_counters[link as usize].drops += 1;
            core.note(core.now, What::Dropped, link, id);
            core.packets.free(id);
            return;
        }
        let packet = &mut core.packets[id];
        packet.kind = Kind::Header;
        packet.size = header as u16;
        core.push_control(link, id);
    }

    /// Too much is buffered of what came over a link, if all that left is counted.
    #[cold]
    fn crowd(&mut self, over: u32) {
        let node = self.core.links[over as usize].to as usize;
        let count = self.core.ingress.as_ref().map_or(0, |ingress| ingress.out[node].len());
        for index in 0..count {
            let out = self.core.ingress.as_ref().expect("counted").out[node][index];
            self.count_out(out);
        }
        self.core.pause(over);
    }
}
