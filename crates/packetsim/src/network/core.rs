//! The state of the network: what a transport may use and change, and what can be read of it.
//!
//! Links are settled lazily (see [`super::fabric`]), and settling them for a reader could change
//! the order of simultaneous events: what is read is worked out without that.

mod classes;
mod planes;

use super::balancing::{Balancer, wait};
use super::clock::{Clock, Timer};
use super::detours::{Detour, Detours, KnownPath};
use super::fabric::Fabric;
use super::failures::Failures;
use super::flows::{Flows, RouteKey};
use super::halves::Half;
use super::links::DARK;
use super::nics::Nics;
use super::routing::Routing;
use super::slab::NO_PACKET;
use super::telemetry::Stamp;
use crate::config::{Balancing, Config};
use crate::counters::{Counters, LinkCounters};
use crate::error::PacketError;
use crate::events::PacketEvent;
use crate::failure::Failure;
use crate::flow::{Endpoints, FlowProgress, FlowSpec, PacketFlowId};
use crate::hash::mix;
use crate::packet::{Control, DETOUR, Packet, PacketId, PacketKind, priority_flags};
use crate::topology::{NicId, NodeId, PacketLinkId, Topology};
use lightloom_model::{Duration, Rate, Time};

/// The state of the network, but for that of the transport.
#[derive(Debug, Clone)]
pub struct Core {
    /// Of the first class of traffic, and what is about the whole network.
    config: Config,
    /// Of the other classes.
    others: Vec<Config>,
    /// The class whose transport is at work.
    class: usize,
    topology: Topology,
    pub(super) routing: Routing,
    pub(super) balancer: Balancer,
    detours: Option<Detours>,
    failures: Failures,
    pub(super) clock: Clock,
    pub(super) fabric: Fabric,
    pub(super) flows: Flows,
    pub(super) nics: Nics,
    /// Which half of a network this is, if it is one.
    pub(super) half: Option<Half>,
    /// Maximum number of packets in the network at one time.
    max_packets: u64,
    /// Whether the paths of a flow are drawn by its ends, not by its number.
    hashes_ends: bool,
}

/// Default of [`Core::max_packets`]: below 2^26, of which the slots take 2 GB.
const MAX_PACKETS: u64 = 60_000_000;

/// Set-up and routing, for the engine.
impl Core {
    pub(super) fn new(topology: Topology, config: Config) -> Result<Self, PacketError> {
        Self::of_classes(topology, &[config], &[config])
    }

    /// With the settings of each class of traffic, and those by which packets of each priority are
    /// queued: of all of them, if there is one.
    pub(super) fn of_classes(
        topology: Topology,
        classes: &[Config],
        queues: &[Config],
    ) -> Result<Self, PacketError> {
        for config in classes {
            config.validate()?;
        }
        let (config, others) = (classes[0], classes[1..].to_vec());
        let shared = Config {
            pfc: classes.iter().find_map(|it| it.pfc),
            telemetry: classes.iter().any(|it| it.telemetry),
            ..config
        };
        let fabric = Fabric::new(&topology, &shared, queues)?;
        let nics = Nics::new(&topology, classes.len());
        let horizon = fabric.links().longest_hop().unwrap_or(Duration(1));
        Ok(Self {
            clock: Clock::new(fabric.links().len(), nics.len() * classes.len(), horizon),
            routing: Routing::new(&topology, config.seed)?,
            balancer: Balancer::new(&config, &topology),
            detours: Detours::new(&shared, &topology)?,
            failures: Failures::default(),
            flows: Flows::default(),
            fabric,
            nics,
            half: None,
            topology,
            config,
            others,
            class: 0,
            max_packets: MAX_PACKETS,
            hashes_ends: false,
        })
    }

    /// From now on the paths of a flow are drawn by the NICs at its ends.
    pub(super) fn hash_by_ends(&mut self) {
        self.hashes_ends = true;
    }

    /// Where packets go.
    pub(crate) fn routing(&self) -> &Routing {
        &self.routing
    }

    /// Whether all flows are done and no packet is left.
    pub(super) fn is_drained(&self) -> bool {
        self.flows.done_count() == self.flows.len() && self.fabric.packets().live() == 0
    }

    /// Adds a flow; it starts by a timer.
    pub(super) fn add_flow(&mut self, spec: &FlowSpec) -> Result<PacketFlowId, PacketError> {
        self.check_flow(spec)?;
        let flow = self.insert_flow(spec);
        self.clock.set_timer(spec.start, Timer::Start(flow));
        Ok(flow)
    }

    /// Adds a flow that starts in the other half of the network.
    pub(super) fn add_foreign_flow(&mut self, spec: &FlowSpec) -> Result<(), PacketError> {
        self.check_flow(spec)?;
        self.insert_flow(spec);
        self.flows.leave_to_other_half();
        Ok(())
    }

    /// Adds a flow that starts when [`Self::start_flow`] says so.
    pub(super) fn hold_flow(&mut self, spec: &FlowSpec) -> Result<PacketFlowId, PacketError> {
        self.check_flow(spec)?;
        let held = FlowSpec { start: FlowProgress::NEVER, ..spec.clone() };
        Ok(self.insert_flow(&held))
    }

    /// A flow that was held starts now.
    pub(super) fn start_flow(&mut self, flow: PacketFlowId) {
        let now = self.clock.now();
        self.flows.set_start(flow, now);
        self.clock.set_timer(now, Timer::Start(flow));
    }

    fn insert_flow(&mut self, spec: &FlowSpec) -> PacketFlowId {
        let mut index = self.flows.len() as u64;
        if self.hashes_ends {
            index = u64::from(spec.source.0) << 32 | u64::from(spec.destination.0);
        }
        let hash = (mix(self.config.seed ^ mix(index)) >> 32) as u32;
        self.flows.add(spec, self.config_of_class(usize::from(spec.class)).mtu, hash)
    }

    pub(super) fn limit_packets(&mut self, packets: u64) {
        self.max_packets = packets;
    }

    /// Fails where packets pile up in the network beyond all bounds, as they do in queues without
    /// a limit.
    pub(super) fn check_packets(&self) -> Result<(), PacketError> {
        self.check_packet_count(self.peak_packets())
    }

    /// As [`Self::check_packets`], where so many packets were in the network.
    pub(super) fn check_packet_count(&self, packets: u64) -> Result<(), PacketError> {
        if packets <= self.max_packets {
            return Ok(());
        }
        Err(PacketError::invalid(format!(
            "more than {} packets are in the network at once, {} us after the start; limit the \
             queues, make flows smaller or packets larger",
            self.max_packets,
            self.now().0 / 1_000_000
        )))
    }

    pub(crate) fn check_flow(&self, spec: &FlowSpec) -> Result<(), PacketError> {
        let highest = self.config.highest_priority;
        if spec.priority > highest {
            return Err(PacketError::invalid(format!(
                "a flow of priority {}; the network has priorities up to {highest}",
                spec.priority
            )));
        }
        if usize::from(spec.class) > self.others.len() {
            return Err(PacketError::invalid(format!(
                "a flow of class {}; the network has classes up to {}",
                spec.class,
                self.others.len()
            )));
        }
        let mtu = self.config_of_class(usize::from(spec.class)).mtu;
        let nics = self.topology.nic_count() as u32;
        let (source, destination) = (spec.source, spec.destination);
        if source.0 >= nics || destination.0 >= nics {
            return Err(PacketError::invalid(format!(
                "flow from NIC {} to NIC {}: there are {nics} NICs, from 0 on",
                source.0, destination.0
            )));
        }
        let refuse = |reason: String| {
            let [from, to] = [source, destination].map(|nic| self.topology.nic_title(nic));
            Err(PacketError::invalid(format!("flow from {from} to {to}: {reason}")))
        };
        if self.topology.host_of(source) == self.topology.host_of(destination) {
            return refuse("both are of one host".into());
        }
        if spec.size.0.div_ceil(u64::from(mtu)) >= 1 << 31 {
            let size = spec.size.0;
            return refuse(format!("{size} B are over 2^31 packets of {mtu} B"));
        }
        let Some(route) = &spec.route else {
            // Acknowledgements take other paths.
            let there = Endpoints::new(source, destination);
            let back = Endpoints::new(destination, source);
            let joins = |ends| self.routing.path(&self.topology, ends, 0).is_some();
            if joins(there) && joins(back) {
                return Ok(());
            }
            return refuse("no path of switches joins them; through hosts, give it a route".into());
        };
        if !self.topology.is_route(source, destination, route) {
            let links: Vec<u32> = route.iter().map(|link| link.0).collect();
            return refuse(format!("links {links:?} are no path from the one to the other"));
        }
        Ok(())
    }

    /// The link that a packet takes from a switch, if its flow has no explicit route.
    #[inline(always)]
    pub(super) fn route(
        &self,
        node: NodeId,
        key: RouteKey,
        packet: &Packet,
    ) -> Option<PacketLinkId> {
        let is_forward = packet.kind.is_forward();
        let entropy = key.entropy(packet.path, is_forward);
        self.routing.next(node, key.endpoints.target(is_forward), entropy)
    }

    /// As [`Self::route`] towards a NIC, where switches look at their queues: all links of
    /// [`Routing::several`] are settled.
    pub(super) fn route_by_load(
        &mut self,
        node: NodeId,
        to: NicId,
        key: RouteKey,
        packet: &Packet,
    ) -> Option<PacketLinkId> {
        let entropy = key.entropy(packet.path, packet.kind.is_forward());
        let hashed = self.routing.next(node, to, entropy)?;
        let links = self.routing.several(node, to);
        if links.is_empty() {
            return Some(hashed);
        }
        let now = self.clock.now();
        if let Some(planes) = self.fabric.planes.as_ref().filter(|planes| planes.has_avoided()) {
            let heard = |link: &&PacketLinkId| !planes.avoids(**link, to, now);
            let kept: Vec<PacketLinkId> = links.iter().filter(heard).copied().collect();
            let links = if kept.is_empty() { links } else { &kept };
            return Some(self.balancer.choose(&self.fabric, links, hashed, node, packet, now));
        }
        Some(self.balancer.choose(&self.fabric, links, hashed, node, packet, now))
    }

    /// The detour that a packet, which came over `over`, may take or continue at a switch.
    pub(super) fn detour(
        &self,
        node: NodeId,
        over: PacketLinkId,
        key: RouteKey,
        packet: &Packet,
    ) -> Option<Detour> {
        let detours = self.detours.as_ref()?;
        detours.at(&self.topology, &self.routing, node, over, key, packet)
    }

    /// Whether a packet of a priority is to take a detour that is open to it; the links to read are
    /// settled.
    pub(super) fn prefers(&self, detour: &Detour, priority: u8) -> bool {
        let now = self.clock.now();
        let cost = |path: &KnownPath| {
            let waits = path.read.iter().map(|&link| wait(&self.fabric, link, priority, now));
            let sum = |(stopped, span): (bool, u128), (also, more): (bool, Duration)| {
                (stopped || also, span + u128::from(more.0))
            };
            let (is_stopped, span) = waits.fold((false, 0), sum);
            (is_stopped, span * u128::from(path.length))
        };
        cost(&detour.minimal) > cost(&detour.other)
    }

    /// Notes that a packet takes a detour.
    pub(super) fn set_detour(&mut self, id: PacketId) {
        self.fabric.packet_mut(id).flags |= DETOUR;
    }

    /// Adds a failure that is yet to come.
    pub(super) fn add_failure(&mut self, failure: Failure) {
        let index = self.failures.add(failure);
        let &Failure { time, repaired, detection, .. } = self.failures.get(index);
        self.clock.set_timer(time, Timer::Fail(index));
        self.clock.set_timer(time + detection, Timer::Avoid(index));
        if let Some(repaired) = repaired {
            self.clock.set_timer(repaired, Timer::Repair(index));
            self.clock.set_timer(repaired + detection, Timer::Restore(index));
        }
    }

    /// The links of a failure.
    pub(super) fn failing_links(&self, index: u32) -> Vec<PacketLinkId> {
        self.failures.get(index).links.clone()
    }

    /// A link fails once more, or is repaired once more; returns whether it was up before, or is
    /// after.
    pub(super) fn count_failure(&mut self, link: PacketLinkId, fails: bool) -> bool {
        self.failures.count(link, fails)
    }

    /// All switches know of a failure, or that it is over, and choose anew among shortest paths.
    pub(super) fn reroute(&mut self, index: u32, avoids: bool) {
        if self.failures.initial.is_none() {
            self.failures.initial = Some(Box::new(self.routing.clone()));
        }
        self.failures.learn(index, avoids);
        let failures = &self.failures;
        let has_failed = |link| failures.is_avoided(link);
        self.routing = Routing::without(&self.topology, self.config.seed, has_failed)
            .expect("as many switches as before");
        self.fabric.links.forget_next_hops();
    }

    /// Paths as they were before all failures.
    pub(super) fn initial_routing(&self) -> &Routing {
        self.failures.initial.as_deref().unwrap_or(&self.routing)
    }

    /// Records that the first packet on the wire of a link has arrived.
    #[cold]
    pub(super) fn record_arrival(&mut self, link: PacketLinkId) {
        let Some((arriving, packet)) = self.fabric.arriving(link) else { return };
        let key = self.flows.key(packet.flow);
        let is_delivered = if key.is_explicit() {
            let crossed = packet.path + 1;
            self.flows.route_link(key, packet.kind.is_forward(), crossed).is_none()
        } else {
            arriving.is_to_host
        };
        self.fabric.record_arrival(link, self.clock.now(), is_delivered);
    }

    /// Packets on explicit routes count the links that they have crossed, whatever path a transport
    /// chose.
    #[inline]
    fn initial_path(&self, flow: PacketFlowId, path: u16) -> u16 {
        if self.flows.key(flow).is_explicit() { 0 } else { path }
    }
}

/// For transports.
impl Core {
    /// The settings of the run: of the class of traffic whose transport is called.
    #[inline]
    pub fn config(&self) -> &Config {
        self.config_of_class(self.class)
    }

    /// The simulated time.
    #[inline]
    pub fn now(&self) -> Time {
        self.clock.now()
    }

    /// Number of NICs.
    pub fn nic_count(&self) -> usize {
        self.nics.len()
    }

    /// Rate at which a NIC sends.
    pub fn nic_rate(&self, nic: NicId) -> Rate {
        self.fabric.links().rate(self.nics.uplink(nic))
    }

    /// Progress of a flow.
    #[inline]
    pub fn flow(&self, flow: PacketFlowId) -> &FlowProgress {
        self.flows.get(flow)
    }

    /// Sending and receiving NIC of a flow.
    #[inline]
    pub fn endpoints(&self, flow: PacketFlowId) -> Endpoints {
        self.flows.key(flow).endpoints
    }

    /// Priority of a flow.
    #[inline]
    pub fn priority(&self, flow: PacketFlowId) -> u8 {
        self.flows.priority(flow)
    }

    /// Number of priorities that flows may have.
    pub fn priorities(&self) -> u8 {
        self.config.highest_priority + 1
    }

    /// The priorities of which a NIC may not send now, as bits: PFC has paused them.
    #[inline]
    pub fn paused_priorities(&self, nic: NicId) -> u8 {
        self.fabric.links().paused_lanes(self.nics.uplink(nic))
    }

    /// Whether a flow has an explicit route, which all of its packets take.
    #[inline]
    pub fn has_route(&self, flow: PacketFlowId) -> bool {
        self.flows.key(flow).is_explicit()
    }

    /// Payload of a data packet of a flow, in bytes.
    pub fn payload(&self, flow: PacketFlowId, sequence: u32) -> u32 {
        let mtu = u64::from(self.config_of(flow).mtu);
        (self.flow(flow).size.0 - u64::from(sequence) * mtu).min(mtu) as u32
    }

    /// Size of a data packet of a flow on the wire, in bytes.
    #[inline]
    pub fn packet_size(&self, flow: PacketFlowId, sequence: u32) -> u32 {
        let config = self.config_of(flow);
        if !config.full_tail && sequence + 1 == self.flow(flow).packets {
            self.payload(flow, sequence) + config.header
        } else {
            config.packet_bytes()
        }
    }

    /// Makes a data packet, for [`crate::transport::Transport::next`] to return.
    #[inline]
    pub fn new_data(&mut self, flow: PacketFlowId, sequence: u32, path: u16) -> PacketId {
        let size = self.packet_size(flow, sequence);
        let path = self.initial_path(flow, path);
        self.fabric.insert(Packet {
            next_arrival: Time::ZERO,
            flow,
            sequence,
            value: 0,
            next: NO_PACKET,
            size: size as u16,
            path,
            ingress: 0,
            kind: PacketKind::Data,
            flags: priority_flags(self.priority(flow)),
        })
    }

    /// Changes a packet made by [`Self::new_data`].
    #[inline]
    pub fn packet_mut(&mut self, id: PacketId) -> &mut Packet {
        self.fabric.packet_mut(id)
    }

    /// Sends a control packet from the NIC for which the transport was called.
    #[inline]
    pub fn send_control(&mut self, nic: NicId, control: Control) {
        let Control { kind, flow, sequence, value, path, flags } = control;
        let path = self.initial_path(flow, path);
        let id = self.fabric.insert(Packet {
            next_arrival: Time::ZERO,
            flow,
            sequence,
            value,
            next: NO_PACKET,
            size: self.config_of(flow).control_bytes as u16,
            path,
            ingress: 0,
            kind,
            flags: flags | priority_flags(self.priority(flow)),
        });
        self.fabric.echo_stamps(id);
        self.fabric.push_control(self.nics.uplink(nic), id);
    }

    /// What switches wrote into the packet that the transport now receives, or into the data that
    /// it responds to; empty without [`Config::telemetry`].
    pub fn stamps(&self) -> &[Stamp] {
        self.fabric.delivered_stamps()
    }

    /// Calls [`crate::transport::Transport::wake`] for a NIC at this time, unless it is called
    /// earlier.
    #[inline]
    pub fn wake(&mut self, nic: NicId, time: Time) {
        self.nics.wake(&mut self.clock, self.nics.place(nic, self.class), time);
    }

    /// Calls [`crate::transport::Transport::timer`] for a flow at this time.
    pub fn set_timer(&mut self, flow: PacketFlowId, time: Time) {
        self.clock.set_timer(time, Timer::Flow(flow));
    }

    /// The receiver has one more packet of a flow; returns whether that was the last.
    #[inline]
    pub fn receive(&mut self, flow: PacketFlowId) -> bool {
        self.flows.receive(flow, self.clock.now())
    }

    /// The sender knows that the receiver has all packets of a flow.
    pub fn complete(&mut self, flow: PacketFlowId) {
        self.flows.complete(flow, self.clock.now());
    }
}

/// For observers.
impl Core {
    /// Hosts, switches, links.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Number of flows.
    pub fn flow_count(&self) -> usize {
        self.flows.len()
    }

    /// Number of flows whose senders know that everything has arrived.
    pub fn done_count(&self) -> usize {
        self.flows.done_count()
    }

    /// Flows whose senders do not know yet that everything has arrived.
    pub fn unfinished(&self) -> Vec<PacketFlowId> {
        self.flows.ids().filter(|&flow| !self.flow(flow).is_done()).collect()
    }

    /// Packets that receivers have, each counted once.
    pub fn received_packets(&self) -> u64 {
        self.flows.ids().map(|flow| u64::from(self.flow(flow).received)).sum()
    }

    /// Payload that the receiver of a flow has, if its last packet is the last to come.
    pub(crate) fn received_bytes(&self, flow: PacketFlowId) -> u64 {
        let it = self.flow(flow);
        (u64::from(it.received) * u64::from(self.config_of(flow).mtu)).min(it.size.0)
    }

    /// Totals until now.
    pub fn counters(&self) -> Counters {
        self.fabric.counters(self.clock.events())
    }

    /// Counters of a link until now.
    pub fn link_counters(&self, link: PacketLinkId) -> LinkCounters {
        self.fabric.link_counters(link, self.clock.now())
    }

    /// Bytes of the packets that a link has sent or is sending, as far as it is settled.
    pub fn sent_bytes(&self, link: PacketLinkId) -> u64 {
        self.fabric.links().sent_bytes(link)
    }

    /// Bytes that wait for a link, without the packet that it is sending.
    pub fn waiting_bytes(&self, link: PacketLinkId) -> u64 {
        self.fabric.waiting_bytes(link, self.clock.now())
    }

    /// Those of them that are packets of data, whole ones.
    pub(crate) fn waiting_data(&self, link: PacketLinkId) -> u64 {
        self.fabric.waiting_data(link, self.clock.now())
    }

    /// Maximum number of bytes of data that a packet that came since the last call left waiting
    /// for a link.
    pub(crate) fn take_peak(&mut self, link: PacketLinkId) -> u32 {
        self.fabric.take_peak(link)
    }

    /// Maximum number of bytes of data that waited for a link.
    pub fn peak_bytes(&self, link: PacketLinkId) -> u32 {
        self.fabric.links().peak_bytes(link)
    }

    /// Maximum number of packets in the network at one time.
    pub fn peak_packets(&self) -> u64 {
        self.fabric.packets().peak() as u64
    }

    /// Whether a link is a dark circuit.
    pub fn is_dark(&self, link: PacketLinkId) -> bool {
        self.fabric.has(link, DARK)
    }

    /// Whether a link is paused by PFC.
    pub fn is_paused(&self, link: PacketLinkId) -> bool {
        self.fabric.links().is_paused(link)
    }

    /// Links that may not send, and before which packets wait that came over a paused one.
    pub(crate) fn stopped_behind(&self, over: PacketLinkId) -> Vec<PacketLinkId> {
        self.fabric.stopped_behind(over)
    }

    /// Whether no event is pending.
    pub fn is_idle(&self) -> bool {
        self.clock.is_idle()
    }

    /// The recorded packet events, as far as links are settled.
    pub fn packet_events(&self) -> Vec<PacketEvent> {
        self.fabric.events(self.clock.arrivals())
    }

    /// Per link, when the first packet on its wire has arrived; zero if there is none.
    pub(crate) fn arrivals(&self) -> Vec<Time> {
        let mut arrivals = vec![Time::ZERO; self.fabric.links().len()];
        for (link, time) in self.clock.arrivals() {
            arrivals[link.index()] = time;
        }
        arrivals
    }

    /// Bytes that have come out of the far end of a link, including the arrived part of a packet;
    /// the first packet on it has arrived at `arrival`, see [`Self::arrivals`].
    pub(crate) fn carried_bytes(&self, link: PacketLinkId, arrival: Time) -> u64 {
        self.fabric.carried_bytes(link, arrival, self.clock.now())
    }

    /// The link over which a flow leaves its source.
    pub fn first_link(&self, flow: PacketFlowId) -> PacketLinkId {
        self.nics.uplink(self.endpoints(flow).source())
    }

    /// The links of one of the shortest paths from NIC to NIC, chosen by `entropy`; `None` if
    /// there is none.
    pub fn path(
        &self,
        source: NicId,
        destination: NicId,
        entropy: u64,
    ) -> Option<Vec<PacketLinkId>> {
        self.routing.path(&self.topology, Endpoints::new(source, destination), mix(entropy))
    }

    /// The links that a flow's packets take (the first path, if it has several).
    pub(super) fn path_of(&self, flow: PacketFlowId) -> Option<Vec<PacketLinkId>> {
        let key = self.flows.key(flow);
        if key.is_explicit() {
            let link = |crossed| self.flows.route_link(key, true, crossed);
            return Some((0..).map_while(link).collect());
        }
        let is_certain = self.config.balancing == Balancing::Valiant;
        let detoured = if is_certain { self.detoured_path(key) } else { None };
        let path =
            || self.initial_routing().path(&self.topology, key.endpoints, key.entropy(0, true));
        detoured.or_else(path)
    }

    /// The links of the detour that packets on the first path of a flow may take.
    fn detoured_path(&self, key: RouteKey) -> Option<Vec<PacketLinkId>> {
        let detours = self.detours.as_ref().filter(|_| !key.is_explicit())?;
        detours.path(&self.topology, self.initial_routing(), key.endpoints, key.entropy(0, true))
    }

    /// Number of links from the sender of a flow to its receiver.
    pub fn link_count(&self, flow: PacketFlowId) -> u32 {
        self.path_of(flow).map_or(0, |links| links.len() as u32)
    }

    /// Packet-hops of data if no packet is sent twice.
    pub fn expected_hops(&self) -> u64 {
        let hops = |flow: PacketFlowId| {
            u64::from(self.flow(flow).packets) * u64::from(self.link_count(flow))
        };
        self.flows.ids().map(hops).fold(0, u64::saturating_add)
    }

    /// Time from when a flow begins to send a full packet until its acknowledgement is there, on
    /// an idle network; zero if there is no path.
    pub fn round_trip(&self, flow: PacketFlowId) -> Duration {
        let links = self.fabric.links();
        let config = self.config_of(flow);
        let (full, control) = (config.packet_bytes(), config.control_bytes);
        let there_and_back = |link: PacketLinkId| {
            let there = links.delay(link) + links.transmission(link, full as u16);
            let back = links.delay(link.reverse());
            there + back + links.transmission(link.reverse(), control as u16)
        };
        let path = self.detoured_path(self.flows.key(flow)).or_else(|| self.path_of(flow));
        path.unwrap_or_default()
            .into_iter()
            .map(there_and_back)
            .fold(Duration::ZERO, |sum, span| sum + span)
    }

    /// Bytes that the NIC of a flow sends in its [`Self::round_trip`].
    pub(crate) fn bytes_in_flight(&self, flow: PacketFlowId) -> u128 {
        sent_bytes(self.nic_rate(self.endpoints(flow).source()), self.round_trip(flow))
    }

    /// The longest [`Self::round_trip`] of a flow that has been added, of those of the class whose
    /// transport is called.
    pub fn longest_round_trip(&self) -> Duration {
        let flows = self.flows.ids().filter(|&flow| self.is_at_work(flow));
        flows.map(|flow| self.round_trip(flow)).max().unwrap_or_default()
    }

    /// Whether packets of a flow overtake each other though the transport sends them on one path.
    pub(crate) fn reorders(&self) -> bool {
        !matches!(self.config.balancing, Balancing::Hash | Balancing::Valiant)
            || !self.topology.spraying_nics().is_empty()
    }
}

/// Bytes that a link of this rate sends in a time.
pub(crate) fn sent_bytes(rate: Rate, span: Duration) -> u128 {
    let bits = u128::from(rate.0) * u128::from(span.0) / 1_000_000_000_000;
    bits.div_ceil(8)
}

/// For tests.
#[cfg(test)]
impl Core {
    /// The state of an idle network with flows that have not started.
    pub(crate) fn with_flows(topology: Topology, config: Config, flows: &[FlowSpec]) -> Self {
        let mut core = Self::new(topology, config).expect("a valid configuration");
        for spec in flows {
            core.add_flow(spec).expect("a valid flow");
        }
        core
    }

    /// Moves the time, whatever is pending.
    pub(crate) fn set_now(&mut self, now: Time) {
        self.clock.advance_to(now);
    }

    /// Takes the packets out of the queues of a NIC.
    pub(crate) fn take_queued(&mut self, nic: NicId) -> Vec<Packet> {
        let link = self.nics.uplink(nic);
        std::iter::from_fn(|| self.fabric.take_queued(link)).collect()
    }

    /// Takes a packet that a transport has made.
    pub(crate) fn take_packet(&mut self, id: PacketId) -> Packet {
        let packet = *self.fabric.packet_mut(id);
        self.fabric.free(id);
        packet
    }

    /// The packets on the wire and in the queues of a link.
    pub(crate) fn packets_on(&self, link: PacketLinkId) -> Vec<Packet> {
        let packets = self.fabric.packets();
        let on_wire = packets.chain(self.fabric.links().wire(link)).map(|id| packets[id]);
        on_wire.chain(self.packets_in_queues(link)).collect()
    }

    /// The packets in the queues of a link.
    pub(crate) fn packets_in_queues(&self, link: PacketLinkId) -> Vec<Packet> {
        let packets = self.fabric.packets();
        let queues = self.fabric.links().queues(link);
        queues.flat_map(|(queue, _)| packets.chain(queue)).map(|id| packets[id]).collect()
    }

    /// Number of packets in the network.
    pub(crate) fn live_packets(&self) -> u32 {
        self.fabric.packets().live()
    }
}
