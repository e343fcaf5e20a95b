//! The run: takes events in order, calls the transport, and moves packets; see [`super::fabric`]
//! for the part that no transport takes part in.

use super::clock::{Event, Timer};
use super::core::Core;
use super::fabric::Next as Transmitter;
use super::flows::RouteKey;
use super::halves::Half;
use super::links::{Arrived, NO_LINK};
use crate::config::Config;
use crate::error::PacketError;
use crate::events::EventLogging;
use crate::failure::Failure;
use crate::flow::{FlowSpec, PacketFlowId};
use crate::packet::{Packet, PacketId};
use crate::topology::{NicId, PacketLinkId, Topology};
use crate::transport::{Next, Transport};
use lightloom_kernel::{Due, Interrupted, Observer};
use lightloom_model::{Duration, Time};

/// Events between two calls of the observer.
pub(super) const OBSERVE_EVERY: u64 = 1 << 16;

/// The shortest time there is.
const PICOSECOND: Duration = Duration(1);

/// A network, a transport, and the flows between.
#[derive(Debug, Clone)]
pub struct Simulation<T> {
    pub(super) core: Core,
    pub(super) transport: T,
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
    pub fn add_flow(&mut self, spec: &FlowSpec) -> Result<PacketFlowId, PacketError> {
        self.core.add_flow(spec)
    }

    /// Adds a flow that starts when [`Self::start_flow`] says so.
    ///
    /// # Errors
    /// As [`Self::add_flow`].
    pub fn hold_flow(&mut self, spec: &FlowSpec) -> Result<PacketFlowId, PacketError> {
        self.core.hold_flow(spec)
    }

    /// A flow that was held starts now.
    pub fn start_flow(&mut self, flow: PacketFlowId) {
        self.core.start_flow(flow);
    }

    /// From now on the paths of a flow are drawn by the NICs at its ends, not by its number: flows
    /// that follow one another on a connection take one path.
    pub fn hash_by_ends(&mut self) {
        self.core.hash_by_ends();
    }

    /// From now on a flow finishes twice: when its receiver has everything, and when its sender
    /// knows that.
    pub fn finish_twice(&mut self) {
        self.core.flows.finish_twice();
    }

    /// From now on a flow finishes when its receiver has everything, not when its sender knows
    /// that.
    pub fn finish_on_arrival(&mut self) {
        self.core.flows.finish_on_arrival();
    }

    /// A link goes dark, or comes up, at this time: packets on it arrive, its queue waits.
    pub fn set_dark(&mut self, time: Time, link: PacketLinkId, dark: bool) {
        let timer = if dark { Timer::Darken(link) } else { Timer::Light(link) };
        self.core.clock.set_timer(time, timer);
    }

    /// Links will fail, in a network whose configuration says so ([`Config::links_fail`]).
    pub fn add_failure(&mut self, failure: &Failure) {
        debug_assert!(self.core.config().links_fail, "transports have to know");
        self.core.add_failure(failure.clone());
    }

    /// Settles all links: works out the transmissions that began until now.
    pub fn settle_all(&mut self) {
        for link in self.core.fabric.links().ids() {
            self.settle(link);
        }
    }

    /// Records packet events from now on, see [`Core::packet_events`].
    pub fn record_events(&mut self, logging: EventLogging) {
        self.core.fabric.record_events(logging);
    }

    /// A run ends with an error once there are more packets in the network than this at a time; by
    /// default 60 million, which take 2 GB.
    pub fn limit_packets(&mut self, packets: u64) {
        self.core.limit_packets(packets);
    }

    /// The state of the network.
    pub fn core(&self) -> &Core {
        &self.core
    }

    /// The transport, for its state of flows.
    pub fn transport(&self) -> &T {
        &self.transport
    }

    /// Runs until a flow finishes (all that finish at that time are then in `finished`), until
    /// `limit`, or until no event is pending. Returns whether any finished.
    ///
    /// # Errors
    /// If the observer asks to stop, or if more packets are in the network than
    /// [`Self::limit_packets`] allows; what had finished is in `finished`.
    pub fn advance(
        &mut self,
        limit: Time,
        finished: &mut Vec<PacketFlowId>,
        observer: &mut dyn Observer,
    ) -> Result<bool, PacketError> {
        loop {
            // At one instant several may finish.
            let end = if self.core.flows.has_finished() { self.core.now() } else { limit };
            let Some(due) = self.core.clock.next(end) else { break };
            self.handle(due);
            if self.core.clock.events().is_multiple_of(OBSERVE_EVERY) {
                // Of data alone, as the number of these hops can be estimated.
                let (now, done) = (self.core.now(), self.core.fabric.data_hops());
                if observer.progress(now, done).is_break() {
                    self.core.flows.collect_finished(finished);
                    return Err(Interrupted { now, done }.into());
                }
                if let Err(error) = self.core.check_packets() {
                    self.core.flows.collect_finished(finished);
                    return Err(error);
                }
            }
        }
        let any = self.core.flows.has_finished();
        if !any && limit.0 != u64::MAX {
            self.core.clock.advance_to(limit);
        }
        self.core.flows.collect_finished(finished);
        Ok(any)
    }

    /// Processes an event.
    #[inline(always)]
    fn handle(&mut self, due: Due<Timer>) {
        self.prefetch_upcoming();
        if let Some(link) = self.core.clock.arrival(due) {
            self.arrive(link);
        } else {
            self.process(self.core.clock.other(due));
        }
    }

    /// Runs until a time; if all flows that begin in this half of a network are done by then and
    /// `stops`, until the time at which the last one was.
    pub(super) fn run_window(&mut self, limit: Time, stops: bool) {
        loop {
            let is_over = stops && self.core.flows.open_count() == 0;
            let end = if is_over { self.core.now() } else { limit };
            let Some(due) = self.core.clock.next(end) else { break };
            self.handle(due);
        }
    }

    /// Hands over all that crosses to the other half of the network and begins to be sent until a
    /// time up to which everything is done; returns when more begins of what waits.
    pub(super) fn settle_crossing(&mut self, limit: Time) -> Option<Time> {
        self.core.clock.advance_to(limit);
        let mut next: Option<Time> = None;
        for index in 0..self.core.fabric.crossing_count() {
            let link = self.core.fabric.crossing_link(index);
            self.settle(link);
            next = next.into_iter().chain(self.core.fabric.next_begin(link)).min();
        }
        next
    }

    /// Prefetches what the next events will use: the sooner an event, the more is known of it.
    #[inline]
    fn prefetch_upcoming(&mut self) {
        let core = &self.core;
        let Some(upcoming) = core.clock.upcoming() else { return };
        // Sources other than arrivals are no links, and nothing is prefetched for them.
        let link = |position: usize| PacketLinkId(upcoming[position].source);
        core.fabric.prefetch_link(link(11));
        core.fabric.prefetch_fronts(link(8));
        if let Some(packet) = core.fabric.prefetch_next_hop(link(1)) {
            self.transport.prefetch_packet(packet);
        }
        self.look_up_next_hop(link(4));
    }

    /// Finds out where the first packet on the wire of a link goes next.
    #[inline]
    fn look_up_next_hop(&mut self, link: PacketLinkId) {
        let core = &mut self.core;
        let Some((arriving, packet)) = core.fabric.arriving(link) else { return };
        let key = core.flows.key(packet.flow);
        if key.is_explicit() {
            return;
        }
        if arriving.is_to_host {
            core.flows.prefetch(packet.flow);
            self.transport.prefetch_flow(packet);
            let nic = key.endpoints.target(packet.kind.is_forward());
            core.fabric.prefetch_link(core.nics.uplink(nic));
            return;
        }
        if core.balancer.reads_queues() {
            return;
        }
        if let Some(next) = core.route(arriving.node, key, packet) {
            core.fabric.set_next_hop(link, next);
        }
    }

    fn process(&mut self, event: Event) {
        match event {
            Event::Departure(link) => {
                self.core.fabric.clear_departure(link);
                self.settle_switch(link);
                self.core.fabric.watch(link, &mut self.core.clock);
            }
            Event::Nic(nic) => {
                self.core.nics.clear_event(nic);
                self.wake(nic);
            }
            Event::Timer(timer) => self.run_timer(timer),
        }
    }

    fn run_timer(&mut self, timer: Timer) {
        match timer {
            Timer::Start(flow) => {
                let link = self.core.first_link(flow);
                self.settle(link);
                self.transport.start(&mut self.core, flow);
                self.kick(link);
            }
            Timer::Flow(flow) => {
                let link = self.core.first_link(flow);
                self.settle(link);
                self.transport.timer(&mut self.core, flow);
                self.kick(link);
            }
            Timer::Wake(nic) => self.wake(nic),
            Timer::Signal(link, priority) => {
                self.settle(link);
                if self.core.fabric.signal(link, priority, self.core.clock.now()) {
                    self.kick(link);
                }
            }
            Timer::Darken(link) => {
                self.settle(link);
                self.core.fabric.darken(link);
            }
            Timer::Light(link) => {
                self.settle(link);
                self.core.fabric.light(link);
                self.kick(link);
            }
            Timer::Fail(index) => self.fail(index),
            Timer::Repair(index) => self.repair(index),
            Timer::Plane(stream) => self.check_plane(stream),
            Timer::Avoid(index) => self.core.reroute(index, true),
            Timer::Restore(index) => self.core.reroute(index, false),
        }
        let is_of_all = matches!(
            timer,
            Timer::Fail(_) | Timer::Repair(_) | Timer::Avoid(_) | Timer::Restore(_)
        );
        if is_of_all && self.core.half == Some(Half::Second) {
            self.core.clock.discount();
        }
    }

    /// Wakes the transport for a NIC; of several transports that of a class, see [`Nics::place`].
    ///
    /// [`Nics::place`]: super::nics::Nics::place
    fn wake(&mut self, place: NicId) {
        if !self.core.nics.is_woken(place, self.core.clock.now()) {
            return;
        }
        let (nic, class) = self.core.nics.at(place);
        let link = self.core.nics.uplink(nic);
        self.settle(link);
        self.core.set_class(class);
        self.transport.wake(&mut self.core, nic);
        self.kick(link);
    }

    /// Works out the transmissions of a link that began until now.
    #[inline]
    fn settle(&mut self, link: PacketLinkId) {
        if self.core.fabric.links().is_behind(link, self.core.clock.now()) {
            self.serve(link);
        }
    }

    /// As [`Self::settle`]; also counts what has left the switch if nothing follows.
    fn settle_switch(&mut self, link: PacketLinkId) {
        if self.core.fabric.links().is_free(link, self.core.clock.now()) {
            self.serve(link);
        }
    }

    /// Sends from a link whose transmitter is free until it is busy or has nothing to send.
    fn serve(&mut self, link: PacketLinkId) {
        loop {
            let core = &mut self.core;
            let free_at = match core.fabric.send_next(link, &mut core.clock) {
                Transmitter::Sending(free_at) => free_at,
                Transmitter::Idle => return,
                Transmitter::Pull(since) => {
                    let mut begin = since;
                    let Some(id) = self.pull(link, &mut begin) else { return };
                    let core = &mut self.core;
                    core.fabric.transmit_pulled(link, id, begin, &mut core.clock)
                }
            };
            if free_at > self.core.clock.now() {
                return;
            }
        }
    }

    /// Pulls a packet from the transport that a NIC sends from `begin` on, or from a later time
    /// until now.
    #[inline]
    fn pull(&mut self, link: PacketLinkId, begin: &mut Time) -> Option<PacketId> {
        let nic = self.core.nics.sender(link);
        loop {
            match self.transport.next(&mut self.core, nic, *begin) {
                Next::Packet(id) => return Some(id),
                Next::At(time) if time <= self.core.now() => {
                    *begin = time.max(*begin + PICOSECOND);
                }
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
    fn kick(&mut self, link: PacketLinkId) {
        if self.core.fabric.catch_up(link, self.core.clock.now()) {
            self.serve(link);
        }
    }

    /// The first packet on a wire has arrived.
    #[inline]
    fn arrive(&mut self, link: PacketLinkId) {
        if self.core.fabric.is_observed() && self.observe_arrival(link) {
            return;
        }
        // Before it is taken off, so that what follows finds the wire's event pending.
        self.settle(link);
        let core = &mut self.core;
        let arrived = core.fabric.take_arrived(link, &mut core.clock);
        if arrived.next_hop != NO_LINK {
            return self.enqueue(arrived.next_hop, link, arrived.id, &arrived.packet);
        }
        let key = core.flows.key(arrived.packet.flow);
        if key.is_explicit() {
            return self.follow_route(key, link, arrived.id);
        }
        if arrived.is_to_host {
            return self.deliver(arrived.id, arrived.packet);
        }
        if let Some(next) = self.route(link, key, &arrived) {
            if self.core.watches_planes() {
                let lost = self.core.watch_plane(link, next, arrived.id, &arrived.packet);
                self.send_again(lost);
            }
            return self.enqueue(next, link, arrived.id, &arrived.packet);
        }
        // Since a failure no path leads there.
        let core = &mut self.core;
        core.fabric.lose(link, arrived.id, &mut core.clock);
    }

    /// The link that a packet takes from a switch to which `over` leads, if its flow has no
    /// explicit route.
    #[inline]
    fn route(
        &mut self,
        over: PacketLinkId,
        key: RouteKey,
        arrived: &Arrived,
    ) -> Option<PacketLinkId> {
        let Arrived { node, ref packet, .. } = *arrived;
        if !self.core.balancer.reads_queues() {
            return self.core.route(node, key, packet);
        }
        let target = key.endpoints.target(packet.kind.is_forward());
        let to = self.detour(over, key, arrived).unwrap_or(target);
        for index in 0..self.core.routing.several(node, to).len() {
            self.settle(self.core.routing.several(node, to)[index]);
        }
        self.core.route_by_load(node, to, key, packet)
    }

    /// The NIC that a packet goes to first, if it takes or continues a detour.
    fn detour(&mut self, over: PacketLinkId, key: RouteKey, arrived: &Arrived) -> Option<NicId> {
        let detour = self.core.detour(arrived.node, over, key, &arrived.packet)?;
        for &link in detour.minimal.read.iter().chain(&detour.other.read) {
            self.settle(link);
        }
        if detour.is_open {
            if !self.core.prefers(&detour, arrived.packet.priority()) {
                return None;
            }
            self.core.set_detour(arrived.id);
        }
        Some(detour.to)
    }

    /// The first packet on a wire has arrived, and is recorded, or was lost there; returns whether
    /// it was.
    #[cold]
    fn observe_arrival(&mut self, link: PacketLinkId) -> bool {
        // As in [`Self::arrive`].
        if self.core.fabric.is_lost(link, self.core.clock.now()) {
            self.settle(link);
            self.core.fabric.lose_arrived(link, &mut self.core.clock);
            return true;
        }
        if self.core.fabric.is_recording() {
            self.core.record_arrival(link);
        }
        false
    }

    /// Links fail.
    fn fail(&mut self, index: u32) {
        for link in self.core.failing_links(index) {
            self.settle(link);
            if self.core.count_failure(link, true) {
                self.core.fabric.fail(link, &mut self.core.clock);
            }
        }
    }

    /// A NIC that hears nothing over a plane sends by other ports what it sent there.
    fn check_plane(&mut self, stream: u32) {
        let lost = self.core.check_plane(stream);
        self.send_again(lost);
    }

    /// NICs send packets again, as if they had just come over these links from hosts.
    fn send_again(&mut self, packets: Vec<(PacketLinkId, Packet)>) {
        for (over, packet) in packets {
            let key = self.core.flows.key(packet.flow);
            let id = self.core.fabric.insert(packet);
            let node = self.core.topology().links()[over.index()].to;
            let arrived = Arrived {
                id,
                packet,
                node,
                is_to_host: false,
                next_hop: NO_LINK,
                is_followed: false,
            };
            if let Some(next) = self.route(over, key, &arrived) {
                self.core.watch_plane(over, next, id, &packet);
                self.enqueue(next, over, id, &packet);
            } else {
                self.core.fabric.free(id);
            }
        }
    }

    /// They are repaired.
    fn repair(&mut self, index: u32) {
        for link in self.core.failing_links(index) {
            if self.core.count_failure(link, false) {
                self.settle(link);
                self.core.fabric.repair(link);
                self.kick(link);
            }
        }
    }

    /// A packet has crossed one more link of its explicit route.
    fn follow_route(&mut self, key: RouteKey, over: PacketLinkId, id: PacketId) {
        let core = &mut self.core;
        let packet = core.fabric.packet_mut(id);
        packet.path += 1;
        let mut packet = *packet;
        if let Some(next) = core.flows.route_link(key, packet.kind.is_forward(), packet.path) {
            return self.enqueue(next, over, id, &packet);
        }
        // Transports see no paths but those that they chose.
        packet.path = 0;
        self.deliver(id, packet);
    }

    #[inline]
    fn deliver(&mut self, id: PacketId, packet: Packet) {
        let nic = self.core.endpoints(packet.flow).target(packet.kind.is_forward());
        let uplink = self.core.nics.uplink(nic);
        self.settle(uplink);
        self.core.fabric.deliver(id);
        self.transport.receive(&mut self.core, nic, packet);
        self.kick(uplink);
    }

    /// A packet that came over `over` goes to `link`.
    #[inline]
    fn enqueue(&mut self, link: PacketLinkId, over: PacketLinkId, id: PacketId, packet: &Packet) {
        self.settle(link);
        let mut index = 0;
        while let Some(port) = self.core.fabric.sharing(link, index) {
            self.settle_switch(port);
            index += 1;
        }
        let core = &mut self.core;
        if core.fabric.enqueue(link, over, id, packet, &mut core.clock) {
            self.pause(over, packet.priority());
        }
    }

    /// Pauses packets of a priority over a link if too much is buffered of these, once all that
    /// left is counted.
    #[cold]
    fn pause(&mut self, over: PacketLinkId, priority: u8) {
        for index in 0..self.core.fabric.out_count(over) {
            self.settle_switch(self.core.fabric.out(over, index));
        }
        let core = &mut self.core;
        core.fabric.pause(over, priority, &mut core.clock);
    }
}
