//! Moves packets over links: queues, transmitters, wires, and PFC between them.
//!
//! The only event of a link is the arrival of the first packet on its wire. Its transmitter has
//! none: whenever anything touches a link at some time, the transmissions that began until then are
//! worked out first; the link is then *settled*. That is exact: whatever arrived earlier touched
//! the link, so no choice of the transmitter depended on anything later. The packet on the wire
//! makes sure that the link is touched before the next one would have to arrive.

mod pauses;

use super::clock::{Clock, Timer};
use super::crossing::{Cargo, Crossing, Message};
use super::event_log::EventLog;
use super::links::{
    Arrived, Arriving, CROSSES, DARK, FAILED, FROM_HOST, Flag, Links, Queue, Turn, Waiting,
};
use super::pfc::Pfc;
use super::plane_watch::{PlaneWatch, watches_planes};
use super::queueing::{Chance, Queueing};
use super::shared_buffer::SharedBuffers;
use super::slab::{NO_PACKET, PacketSlab};
use super::telemetry::{Stamp, Telemetry};
use crate::config::Config;
use crate::counters::{Counters, LinkCounters};
use crate::error::PacketError;
use crate::events::{EventKind, EventLogging, PacketEvent};
use crate::hash::mix;
use crate::packet::{MARKED, Packet, PacketId, PacketKind};
use crate::topology::{PacketLinkId, Topology};
use lightloom_model::Time;

/// What a transmitter that is free does next.
#[derive(Debug, Clone, Copy)]
pub(super) enum Next {
    /// It has begun to send a packet, and is free again at this time.
    Sending(Time),
    /// Nothing waits; it is the transmitter of a NIC, and free since this time.
    Pull(Time),
    /// Nothing waits, or it may not send.
    Idle,
}

/// All links, and the packets in their queues and on their wires.
#[derive(Debug, Clone)]
pub(super) struct Fabric {
    pub(super) links: Links,
    packets: PacketSlab,
    /// Per priority.
    queueing: Box<[Queueing]>,
    pfc: Option<Pfc>,
    shared: Option<Box<SharedBuffers>>,
    telemetry: Option<Box<Telemetry>>,
    /// When each link failed last, and whether it ever did; empty if none did.
    failed_at: Vec<Option<Time>>,
    /// Whether arrivals are recorded or may be lost.
    is_observed: bool,
    /// Probability that a packet is lost on a link, and the seed of that.
    loss: (f64, u64),
    /// Where NICs spray packets over planes, and links may fail.
    pub(super) planes: Option<Box<PlaneWatch>>,
    data_hops: u64,
    control_hops: u64,
    log: Option<Box<EventLog>>,
    /// What goes to the other half of the network, where this is one.
    crossing: Option<Box<Crossing>>,
}

impl Fabric {
    /// With settings by which packets of each priority are queued: of all of them, if there is one.
    pub(super) fn new(
        topology: &Topology,
        config: &Config,
        queues: &[Config],
    ) -> Result<Self, PacketError> {
        let queues = (0..=usize::from(config.highest_priority))
            .map(|priority| queues.get(priority).unwrap_or(&queues[0]));
        let thresholds: Vec<Option<crate::config::Pfc>> = queues.clone().map(|it| it.pfc).collect();
        let pauses = thresholds.iter().any(Option::is_some);
        Ok(Self {
            links: Links::new(topology, config)?,
            packets: PacketSlab::new(),
            queueing: queues.map(Queueing::new).collect(),
            pfc: pauses.then(|| Pfc::new(topology, thresholds)),
            shared: config.shared_buffer.map(|rule| Box::new(SharedBuffers::new(topology, rule))),
            telemetry: config.telemetry.then(Box::default),
            failed_at: Vec::new(),
            is_observed: config.links_fail || config.loss > 0.0,
            loss: (config.loss, mix(config.seed ^ 0x6c6f_7373)),
            planes: watches_planes(topology, config)
                .then(|| Box::new(PlaneWatch::new(config.overflow))),
            data_hops: 0,
            control_hops: 0,
            log: None,
            crossing: None,
        })
    }

    /// The links, for what can be read of them.
    #[inline]
    pub(super) fn links(&self) -> &Links {
        &self.links
    }

    /// The packets, for what can be read of them.
    #[inline]
    pub(super) fn packets(&self) -> &PacketSlab {
        &self.packets
    }

    #[inline]
    pub(super) fn insert(&mut self, packet: Packet) -> PacketId {
        let id = self.packets.insert(packet);
        if let Some(telemetry) = &mut self.telemetry {
            telemetry.begin(id);
        }
        id
    }

    /// A control packet takes back the stamps of the packet that was delivered last.
    #[inline]
    pub(super) fn echo_stamps(&mut self, id: PacketId) {
        if let Some(telemetry) = &mut self.telemetry {
            telemetry.echo(id);
        }
    }

    /// The stamps of the packet that was delivered last.
    pub(super) fn delivered_stamps(&self) -> &[Stamp] {
        self.telemetry.as_ref().map_or(&[], |telemetry| telemetry.delivered())
    }

    /// A packet has arrived at the NIC that it is for.
    #[inline]
    pub(super) fn deliver(&mut self, id: PacketId) {
        if let Some(telemetry) = &mut self.telemetry {
            telemetry.deliver(id);
        }
        self.free(id);
    }

    /// A switch that begins to send data writes what it knows of the link: of the packet's priority
    /// and higher ones, as lower ones give way.
    #[cold]
    fn stamp(&mut self, link: PacketLinkId, id: PacketId, begin: Time) {
        let Some(telemetry) = &mut self.telemetry else { return };
        if !self.links.has(link, FROM_HOST) {
            let rate = self.links.rate(link);
            let (queued_bytes, sent_bytes) = self.links.load(link, self.packets[id].priority());
            telemetry
                .stamp(id, Stamp { link: link.0, time: begin, sent_bytes, rate, queued_bytes });
        }
    }

    /// The rules by which packets of a priority are queued.
    #[inline]
    fn queueing(&self, priority: u8) -> &Queueing {
        &self.queueing[usize::from(priority)]
    }

    #[inline]
    pub(super) fn packet_mut(&mut self, id: PacketId) -> &mut Packet {
        &mut self.packets[id]
    }

    #[inline]
    pub(super) fn free(&mut self, id: PacketId) {
        self.packets.free(id);
    }

    /// Packet-hops so far.
    #[inline]
    pub(super) fn data_hops(&self) -> u64 {
        self.data_hops
    }

    pub(super) fn counters(&self, events: u64) -> Counters {
        Counters { data_hops: self.data_hops, control_hops: self.control_hops, events }
    }

    /// Queues a packet other than data at a settled link.
    #[inline]
    pub(super) fn push_control(&mut self, link: PacketLinkId, id: PacketId) {
        let rules = self.queueing(self.packets[id].priority());
        let queue = if rules.has_control_queue() { Queue::Control } else { Queue::Data };
        self.links.push(link, queue, id, &mut self.packets);
    }

    /// The link at a place among those out of the switch at the sending end of a link, where these
    /// share a buffer.
    #[inline]
    pub(super) fn sharing(&self, link: PacketLinkId, index: usize) -> Option<PacketLinkId> {
        self.shared.as_ref()?.ports(link).get(index).copied()
    }

    /// Puts a packet on the wire of a link whose transmitter is free at `begin`; returns when it is
    /// free again.
    #[inline(always)]
    pub(super) fn transmit(
        &mut self,
        link: PacketLinkId,
        id: PacketId,
        packet: &Packet,
        begin: Time,
        clock: &mut Clock,
    ) -> Time {
        if packet.kind == PacketKind::Data {
            self.data_hops += 1;
            if self.telemetry.is_some() {
                self.stamp(link, id, begin);
            }
        } else {
            self.control_hops += 1;
        }
        let sent = self.links.transmit(link, id, packet.size, begin, &mut self.packets);
        self.links.count_sent(link, packet);
        if sent.is_first {
            clock.schedule_arrival(link, sent.arrival);
        } else if sent.crosses {
            self.cross(link, id, sent.arrival);
        }
        if sent.is_watched && sent.free_at > clock.now() {
            self.watch_departure(link, clock);
        }
        sent.free_at
    }

    /// As [`Self::transmit`], for a packet that a NIC has pulled from its transport.
    #[inline(always)]
    pub(super) fn transmit_pulled(
        &mut self,
        link: PacketLinkId,
        id: PacketId,
        begin: Time,
        clock: &mut Clock,
    ) -> Time {
        let packet = self.packets[id];
        self.transmit(link, id, &packet, begin, clock)
    }

    /// The next transmission of a link whose transmitter is free.
    #[inline(always)]
    pub(super) fn send_next(&mut self, link: PacketLinkId, clock: &mut Clock) -> Next {
        if self.pfc.is_some() {
            self.release(link, clock);
        }
        let waiting = match self.links.take_turn(link, &mut self.packets) {
            Turn::Packet(waiting) => waiting,
            Turn::Pull(begin) => return Next::Pull(begin),
            Turn::Idle => return Next::Idle,
        };
        let Waiting { id, packet, begin, queued, is_from_host } = waiting;
        if self.queueing(packet.priority()).may_mark_departure(queued) {
            self.mark(link, id, queued, begin);
        }
        if !is_from_host && let Some(pfc) = &mut self.pfc {
            pfc.serve(link, &packet);
        }
        Next::Sending(self.transmit(link, id, &packet, begin, clock))
    }

    /// Removes the packet that has arrived from the wire of a link.
    #[inline(always)]
    pub(super) fn take_arrived(&mut self, link: PacketLinkId, clock: &mut Clock) -> Arrived {
        let arrived = self.links.take_arrived(link, &mut self.packets);
        if arrived.is_followed {
            clock.schedule_arrival(link, arrived.packet.next_arrival);
        }
        arrived
    }

    /// A packet that came over `over` goes to a settled link; returns whether the switch has
    /// buffered too much of what came over `over`, see [`Self::pause`].
    #[inline(always)]
    pub(super) fn enqueue(
        &mut self,
        link: PacketLinkId,
        over: PacketLinkId,
        id: PacketId,
        packet: &Packet,
        clock: &mut Clock,
    ) -> bool {
        let now = clock.now();
        if self.links.catch_up_to_send(link, packet.priority(), now) {
            // An idle transmitter: nothing waits that it may send.
            let is_crowded = if self.is_buffered(over, packet.priority()) {
                self.pass(link, over, packet, clock)
            } else {
                self.release(link, clock);
                false
            };
            self.transmit(link, id, packet, now, clock);
            return is_crowded;
        }
        if !self.join(link, id, packet, clock) {
            return false;
        }
        self.watch(link, clock);
        self.is_buffered(over, packet.priority()) && self.buffer(over, id)
    }

    /// Queues a packet at a busy link; returns whether it is there.
    #[inline(always)]
    fn join(
        &mut self,
        link: PacketLinkId,
        id: PacketId,
        packet: &Packet,
        clock: &mut Clock,
    ) -> bool {
        let now = clock.now();
        let size = u32::from(packet.size);
        if self.links.has(link, FAILED) {
            self.lose(link, id, clock);
            return false;
        }
        if packet.kind == PacketKind::Data {
            if !self.admit(link, id, packet, now) {
                return false;
            }
            self.links.push_data(link, id, size, &mut self.packets);
            return true;
        }
        let queued = self.links.queued_bytes(link, Queue::Control, packet.priority());
        if !self.queueing(packet.priority()).admits_control(queued, size) {
            self.links.count(link).control_drops += 1;
            self.drop_packet(link, id, now);
            return false;
        }
        self.push_control(link, id);
        true
    }

    /// Whether a data packet may join the queue of a link; marks it, or trims or drops one.
    #[inline]
    fn admit(&mut self, link: PacketLinkId, id: PacketId, packet: &Packet, now: Time) -> bool {
        let (size, priority) = (u32::from(packet.size), packet.priority());
        let queued = self.links.queued_bytes(link, Queue::Data, priority);
        if self.queueing(priority).may_mark_arrival(queued) {
            self.mark(link, id, queued, now);
        }
        if let Some(shared) = &self.shared {
            if shared.admits(&self.links, link, queued, size) {
                return true;
            }
        } else if self.queueing(priority).admits_data(queued, size) {
            return true;
        } else {
            let chance = Chance { link, packet: &self.packets[id], time: now };
            if self.queueing(priority).admits_late_data(queued, size, &chance) {
                return true;
            }
        }
        if self.queueing(priority).is_trimming() {
            self.trim(link, id, now);
        } else {
            self.links.count(link).drops += 1;
            self.drop_packet(link, id, now);
        }
        false
    }

    /// Marks a packet, certainly or perhaps, at a link where more than Kmin is queued.
    fn mark(&mut self, link: PacketLinkId, id: PacketId, queued: u32, now: Time) {
        let packet = &self.packets[id];
        if packet.kind == PacketKind::Data
            && self.queueing(packet.priority()).marks(queued, &Chance { link, packet, time: now })
        {
            self.packets[id].flags |= MARKED;
            self.links.count(link).marks += 1;
            self.record(now, EventKind::Marked, link, id);
        }
    }

    /// Trims a packet that finds a full queue, or the last one there.
    fn trim(&mut self, link: PacketLinkId, id: PacketId, now: Time) {
        self.links.count(link).trims += 1;
        let priority = self.packets[id].priority();
        let last = self.links.last_data(link, priority);
        let packet = &self.packets[id];
        if last != NO_PACKET
            && self.queueing(priority).trims_last(&Chance { link, packet, time: now })
            && self.packets[last].kind == PacketKind::Data
        {
            let sizes = [last, id].map(|it| self.packets[it].size);
            self.packets.swap_contents(last, id);
            if let Some(planes) = &mut self.planes {
                planes.swap([last, id]);
            }
            self.links.resize_queued(link, priority, sizes);
        }
        self.record(now, EventKind::Trimmed, link, id);
        let header = self.queueing(priority).header();
        let queued = self.links.queued_bytes(link, Queue::Control, priority);
        if !self.queueing(priority).admits_header(queued) {
            self.links.count(link).drops += 1;
            return self.drop_packet(link, id, now);
        }
        let packet = &mut self.packets[id];
        packet.kind = PacketKind::Header;
        packet.size = header;
        self.push_control(link, id);
    }

    fn drop_packet(&mut self, link: PacketLinkId, id: PacketId, now: Time) {
        self.record(now, EventKind::Dropped, link, id);
        if let Some(planes) = &mut self.planes {
            planes.forget(id);
        }
        self.packets.free(id);
    }

    /// If the transmitter of a settled link is free, its next transmission begins now or later;
    /// returns whether it is.
    #[inline]
    pub(super) fn catch_up(&mut self, link: PacketLinkId, now: Time) -> bool {
        self.links.catch_up(link, now)
    }

    /// A circuit goes dark.
    pub(super) fn darken(&mut self, link: PacketLinkId) {
        self.links.set(link, DARK);
    }

    /// A circuit is there again.
    pub(super) fn light(&mut self, link: PacketLinkId) {
        self.links.clear(link, DARK);
    }
}

/// Failures.
impl Fabric {
    /// A settled link fails: what is on its wire is lost, and what waits in a switch for it. Hosts
    /// keep what waits in them.
    pub(super) fn fail(&mut self, link: PacketLinkId, clock: &mut Clock) {
        self.links.set(link, FAILED);
        self.failed_at.resize(self.links.len(), None);
        self.failed_at[link.index()] = Some(clock.now());
        if self.links.has(link, FROM_HOST) {
            return;
        }
        while let Some((id, packet)) = self.links.take_queued(link, &mut self.packets) {
            self.release(link, clock);
            if let Some(pfc) = &mut self.pfc {
                pfc.serve(link, &packet);
            }
            self.lose(link, id, clock);
        }
        self.release(link, clock);
    }

    /// A link works again.
    pub(super) fn repair(&mut self, link: PacketLinkId) {
        self.links.clear(link, FAILED);
    }

    /// Whether the first packet on the wire of a link, which has arrived, is lost: at random, or as
    /// the link failed after it began to be sent.
    pub(super) fn is_lost(&self, link: PacketLinkId, now: Time) -> bool {
        let (probability, seed) = self.loss;
        if probability > 0.0
            && let Some(packet) = self.packets.get(self.links.wire(link).head())
            && (Chance { link, packet, time: now }).happens(seed, probability)
        {
            return true;
        }
        let Some(&Some(failed_at)) = self.failed_at.get(link.index()) else { return false };
        let packet = self.packets.get(self.links.wire(link).head());
        packet.is_some_and(|packet| self.begin_of(link, packet, now) <= failed_at)
    }

    /// When a packet began to be sent that arrives at a time.
    fn begin_of(&self, link: PacketLinkId, packet: &Packet, arrival: Time) -> Time {
        let span = self.links.delay(link).0 + self.links.transmission(link, packet.size).0;
        Time(arrival.0 - span)
    }

    /// Takes the first packet, which is lost, off the wire of a settled link.
    pub(super) fn lose_arrived(&mut self, link: PacketLinkId, clock: &mut Clock) {
        let arrived = self.take_arrived(link, clock);
        self.lose(link, arrived.id, clock);
    }

    /// A packet is lost on a link, or behind it.
    pub(super) fn lose(&mut self, link: PacketLinkId, id: PacketId, clock: &mut Clock) {
        if let Some(planes) = &mut self.planes
            && let Some((stream, time)) = planes.lose(id, clock.now())
        {
            clock.set_timer(time, Timer::Plane(stream));
        }
        let counters = self.links.count(link);
        if self.packets[id].kind == PacketKind::Data {
            counters.drops += 1;
        } else {
            counters.control_drops += 1;
        }
        self.drop_packet(link, id, clock.now());
    }
}

/// The other half of the network.
impl Fabric {
    /// Becomes one half of a network.
    pub(super) fn halve(&mut self, crossing: Crossing) {
        for &link in crossing.links() {
            self.links.set(link, CROSSES);
        }
        self.crossing = Some(Box::new(crossing));
    }

    /// A packet leaves for the other half.
    #[inline(never)]
    fn cross(&mut self, link: PacketLinkId, id: PacketId, time: Time) {
        if let Some(crossing) = &mut self.crossing {
            let stamps = self.telemetry.as_ref().map(|telemetry| telemetry.of(id));
            crossing.send(Message { time, link, cargo: Cargo::Packet(self.packets[id]) }, stamps);
            self.packets.free(id);
        }
    }

    /// Tells the sending end of a link to pause packets of a priority, or to resume.
    fn signal_over(&mut self, over: PacketLinkId, priority: u8, time: Time, clock: &mut Clock) {
        match &mut self.crossing {
            Some(crossing) if crossing.is_outside(over) => {
                let cargo = Cargo::Signal(priority);
                crossing.send(Message { time, link: over, cargo }, None);
            }
            _ => clock.set_timer(time, Timer::Signal(over, priority)),
        }
    }

    /// Takes what comes from the other half.
    pub(super) fn admit_crossing(&mut self, from: &mut Crossing, clock: &mut Clock) {
        from.deliver(|Message { time, link, cargo }, stamps| match cargo {
            Cargo::Packet(packet) => {
                let id = self.packets.insert(packet);
                if let (Some(telemetry), Some(stamps)) = (&mut self.telemetry, stamps) {
                    telemetry.restore(id, &stamps);
                }
                if self.links.push_arriving(link, id, time, &mut self.packets) {
                    clock.schedule_arrival(link, time);
                }
            }
            Cargo::Signal(priority) => clock.set_timer(time, Timer::Signal(link, priority)),
        });
    }

    /// What goes to the other half.
    pub(super) fn crossing(&mut self) -> Option<&mut Crossing> {
        self.crossing.as_deref_mut()
    }

    /// Number of links that lead to the other half.
    pub(super) fn crossing_count(&self) -> usize {
        self.crossing.as_ref().map_or(0, |crossing| crossing.links().len())
    }

    /// One of these.
    pub(super) fn crossing_link(&self, index: usize) -> PacketLinkId {
        self.crossing.as_ref().expect("links cross between halves").links()[index]
    }

    /// When a settled link begins its next transmission, if anything waits that it may send.
    pub(super) fn next_begin(&self, link: PacketLinkId) -> Option<Time> {
        let waits = self.links.queues(link).any(|(queue, stops)| !queue.is_empty() && !stops);
        waits.then(|| self.links.free_at(link))
    }
}

/// Prefetching: what is known of the next events is loaded before it is needed.
impl Fabric {
    #[inline]
    pub(super) fn prefetch_link(&self, link: PacketLinkId) {
        self.links.prefetch(link);
    }

    /// See [`Links::prefetch_fronts`].
    #[inline]
    pub(super) fn prefetch_fronts(&self, link: PacketLinkId) {
        self.links.prefetch_fronts(link, &self.packets);
    }

    /// See [`Links::prefetch_next_hop`].
    #[inline]
    pub(super) fn prefetch_next_hop(&self, link: PacketLinkId) -> Option<&Packet> {
        self.links.prefetch_next_hop(link, &self.packets)
    }

    /// The first packet on the wire of a link, if there is such a link and a packet on it.
    #[inline]
    pub(super) fn arriving(&self, link: PacketLinkId) -> Option<(Arriving, &Packet)> {
        let arriving = self.links.arriving(link)?;
        Some((arriving, self.packets.get(arriving.id)?))
    }

    /// Notes where the first packet on the wire of a link goes next, and prefetches that.
    #[inline]
    pub(super) fn set_next_hop(&mut self, link: PacketLinkId, next: PacketLinkId) {
        self.links.set_next_hop(link, next);
        self.links.prefetch(next);
        if let Some(pfc) = &self.pfc {
            pfc.prefetch(next);
        }
    }
}

/// Observation.
impl Fabric {
    /// Records packet events from now on.
    pub(super) fn record_events(&mut self, logging: EventLogging) {
        self.log = Some(Box::new(EventLog::new(logging)));
        self.is_observed = true;
    }

    /// Whether arrivals are recorded or may be lost.
    #[inline]
    pub(super) fn is_observed(&self) -> bool {
        self.is_observed
    }

    pub(super) fn is_recording(&self) -> bool {
        self.log.is_some()
    }

    #[inline]
    fn record(&mut self, time: Time, event: EventKind, link: PacketLinkId, id: PacketId) {
        if let Some(log) = &mut self.log {
            log.record(time, event, link, &self.packets[id]);
        }
    }

    /// Records that the first packet on a wire has arrived, and when it was sent: together, so that
    /// one place per hop tests whether events are recorded.
    #[cold]
    pub(super) fn record_arrival(&mut self, link: PacketLinkId, now: Time, is_delivered: bool) {
        let Some(mut log) = self.log.take() else { return };
        let packet = &self.packets[self.links.wire(link).head()];
        self.record_departure(&mut log, link, packet, now);
        let event = if is_delivered { EventKind::Delivered } else { EventKind::Arrived };
        log.record(now, event, link, packet);
        self.log = Some(log);
    }

    /// Records when a packet on a wire was sent, from when it arrives.
    fn record_departure(
        &self,
        log: &mut EventLog,
        link: PacketLinkId,
        packet: &Packet,
        arrival: Time,
    ) {
        log.record(self.begin_of(link, packet, arrival), EventKind::Sent, link, packet);
    }

    /// The recorded events, as far as links are settled; `arrivals` are those of the first packets
    /// on wires.
    pub(super) fn events(
        &self,
        arrivals: impl Iterator<Item = (PacketLinkId, Time)>,
    ) -> Vec<PacketEvent> {
        let Some(log) = &self.log else { return Vec::new() };
        let mut log = EventLog::clone(log);
        let mut arrivals: Vec<(PacketLinkId, Time)> = arrivals.collect();
        arrivals.sort_unstable();
        for (link, mut arrival) in arrivals {
            for id in self.packets.chain(self.links.wire(link)) {
                let packet = &self.packets[id];
                self.record_departure(&mut log, link, packet, arrival);
                arrival = packet.next_arrival;
            }
        }
        log.into_events()
    }

    /// Events of a link until now.
    pub(super) fn link_counters(&self, link: PacketLinkId, now: Time) -> LinkCounters {
        let mut counters = self.links.counters(link);
        counters.paused += self.current_pause(link, now);
        counters
    }

    /// Bytes that have come out of the far end of a link, including the arrived part of a packet;
    /// the first packet on it has arrived at `arrival`.
    pub(super) fn carried_bytes(&self, link: PacketLinkId, arrival: Time, now: Time) -> u64 {
        let wire = self.links.wire(link);
        let sizes = self.packets.chain(wire).map(|id| u64::from(self.packets[id].size));
        let mut left: u64 = sizes.sum();
        // Only the first can have begun to arrive; what begins to be sent later is known by the
        // time at which the one before it has arrived.
        if let Some(packet) = self.packets.get(wire.head()) {
            let span = self.links.transmission(link, packet.size).0;
            let arrived = span - arrival.since(now).0.min(span);
            // A packet of no bytes takes no time.
            let bytes = (u128::from(packet.size) * u128::from(arrived)).checked_div(span.into());
            left -= bytes.map_or(0, |bytes| bytes as u64);
        }
        self.links.sent_bytes(link) - left
    }

    /// Bytes that wait for a link, without the packet that it is sending.
    pub(super) fn waiting_bytes(&self, link: PacketLinkId, now: Time) -> u64 {
        let mut waiting = self.links.all_queued_bytes(link);
        let mut free_at = self.links.free_at(link);
        for (queue, _) in self.links.queues(link).filter(|&(_, stops)| !stops) {
            for id in self.packets.chain(queue) {
                if free_at > now {
                    break;
                }
                let size = self.packets[id].size;
                waiting -= u64::from(size);
                free_at += self.links.transmission(link, size);
            }
        }
        waiting
    }

    /// Those of them that are packets of data, whole ones.
    pub(super) fn waiting_data(&self, link: PacketLinkId, now: Time) -> u64 {
        if self.links.queued_data(link) == 0 {
            return 0;
        }
        let (mut waiting, mut free_at) = (0, self.links.free_at(link));
        for (queue, stops) in self.links.queues(link) {
            for packet in self.packets.chain(queue).map(|id| &self.packets[id]) {
                if !stops && free_at <= now {
                    free_at += self.links.transmission(link, packet.size);
                } else if packet.kind == PacketKind::Data {
                    waiting += u64::from(packet.size);
                }
            }
        }
        waiting
    }

    /// See [`Links::take_peak`].
    pub(super) fn take_peak(&mut self, link: PacketLinkId) -> u32 {
        self.links.take_peak(link)
    }

    /// Whether a link is in a state.
    pub(super) fn has(&self, link: PacketLinkId, flag: Flag) -> bool {
        self.links.has(link, flag)
    }
}

/// For tests.
#[cfg(test)]
impl Fabric {
    /// Takes the first packet out of the queues of a link.
    pub(super) fn take_queued(&mut self, link: PacketLinkId) -> Option<Packet> {
        let Turn::Packet(waiting) = self.links.take_turn(link, &mut self.packets) else {
            return None;
        };
        self.packets.free(waiting.id);
        Some(waiting.packet)
    }
}
