//! Everything but the transport: links with their queues and wires, packets, flows, the agenda.

use crate::agenda::Agenda;
use crate::config::{Config, Ecn, Marking};
use crate::error::PacketError;
use crate::flow::{Flow, FlowSpec, Flows, Way};
use crate::memory::room_for;
use crate::packet::{Chain, Kind, MARKED, NONE, Packet, Packets};
use crate::pfc::Ingress;
use crate::report::What;
use crate::routing::{Routing, mix};
use crate::topology::{LinkId, NicId, Topology};
use crate::trace::Trace;
use lightloom_model::{Bytes, Duration, Rate, Time};

/// In `Link::flags`: the receiving end is a host.
pub(crate) const TO_HOST: u8 = 1;
/// The sending end is a host.
pub(crate) const FROM_HOST: u8 = 2;
/// PFC: the receiving end asked the link to be silent.
pub(crate) const PAUSED: u8 = 4;
/// A circuit that is not there.
pub(crate) const DARK: u8 = 8;
/// PFC: other links wait for what leaves here, see `pfc`.
pub(crate) const WATCHED: u8 = 16;

/// A link: the queues before it, the time when its transmitter is free, the packets on it.
///
/// 64 bytes, for there are many and each hop looks at one or two.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
pub(crate) struct Link {
    pub(crate) free_at: u64,
    pub(crate) sent_bytes: u64,
    pub(crate) wire: Chain,
    pub(crate) data: Chain,
    pub(crate) control: Chain,
    pub(crate) data_bytes: u32,
    pub(crate) control_bytes: u32,
    /// Most data that ever waited here, in bytes.
    pub(crate) peak_bytes: u32,
    pub(crate) to: u32,
    /// Where the first packet on the wire goes on, if that has been looked up, or `NONE`.
    pub(crate) onward: u32,
    pub(crate) class: u16,
    pub(crate) flags: u8,
}

impl Link {
    /// Whether the transmitter may have something to send.
    #[inline]
    pub(crate) fn has_waiting(&self) -> bool {
        !self.is_empty() || self.flags & FROM_HOST != 0
    }

    /// Whether its queues are empty.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.data.is_empty() && self.control.is_empty()
    }

    #[inline]
    pub(crate) fn is_stopped(&self) -> bool {
        self.flags & (PAUSED | DARK) != 0
    }
}

/// Links that are alike.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Class {
    rate: Rate,
    pub(crate) delay: u64,
    sizes: [(u16, u64); 2],
}

impl Class {
    /// Time to send so many bytes, in ps, rounded up.
    #[inline]
    pub(crate) fn transmission(&self, size: u16) -> u64 {
        let [data, control] = &self.sizes;
        if size == data.0 {
            return data.1;
        }
        if size == control.0 {
            return control.1;
        }
        self.rate.transmission(Bytes(u64::from(size))).0
    }
}

/// When a NIC is woken next.
#[derive(Debug, Clone, Copy)]
struct Wake {
    /// `u64::MAX` if it is not.
    time: u64,
    /// Whether the event of the NIC is pending, then or later; an earlier time has a timer.
    has_event: bool,
}

/// A timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Timer {
    Start(u32),
    Flow { flow: u32, tag: u32 },
    Wake(u32),
    Pause(u32),
    Resume(u32),
    Dark(u32),
    Light(u32),
}

/// What happened on a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LinkCounters {
    /// Data packets lost at its queue.
    pub drops: u64,
    /// Data packets whose payload was cut off.
    pub trims: u64,
    /// Data packets marked.
    pub marks: u64,
    /// Times that PFC paused it.
    pub pauses: u64,
    /// How long it was paused.
    pub paused: Duration,
    /// Control packets lost.
    pub control_drops: u64,
}

/// Sums over a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Packets that left a link: data with payload.
    pub data_hops: u64,
    /// Packets that left a link: all others.
    pub control_hops: u64,
    /// Events.
    pub events: u64,
}

/// The state of a network, as a transport sees it.
#[derive(Debug, Clone)]
pub struct Core {
    pub(crate) config: Config,
    pub(crate) now: u64,
    pub(crate) links: Vec<Link>,
    pub(crate) classes: Vec<Class>,
    pub(crate) packets: Packets,
    pub(crate) flows: Flows,
    pub(crate) agenda: Agenda<Timer>,
    pub(crate) routing: Routing,
    pub(crate) topology: Topology,
    pub(crate) uplinks: Vec<u32>,
    /// NIC of each link that leaves a host.
    pub(crate) nic_of: Vec<u32>,
    pub(crate) link_counters: Vec<LinkCounters>,
    pub(crate) counters: Counters,
    pub(crate) ingress: Option<Ingress>,
    wakes: Vec<Wake>,
    /// State of the random choices in queues.
    random: u64,
    /// Flows that have finished since the last look.
    pub(crate) finished: Vec<u32>,
    /// Whether a flow has finished when its receiver has everything, not when its sender knows.
    pub(crate) finish_on_arrival: bool,
    /// What happened to packets, if anyone wants to know.
    pub(crate) trace: Option<Box<Trace>>,
}

impl Core {
    pub(crate) fn new(topology: Topology, config: Config) -> Result<Self, PacketError> {
        config.validate()?;
        let mut classes: Vec<Class> = Vec::new();
        let mut links = room_for(topology.links().len());
        let mut nic_of = vec![NONE; topology.links().len()];
        for nic in 0..topology.nic_count() as u32 {
            nic_of[topology.uplink(NicId(nic)).0 as usize] = nic;
        }
        for spec in topology.links() {
            let (rate, delay) = (spec.rate, spec.delay.0);
            let known = classes.iter().position(|class| class.rate == rate && class.delay == delay);
            let class = known.unwrap_or_else(|| {
                let sizes = [config.packet_bytes() as u16, config.control_bytes as u16];
                let span = |size: u16| (size, rate.transmission(Bytes(u64::from(size))).0);
                classes.push(Class { rate, delay, sizes: sizes.map(span) });
                classes.len() - 1
            });
            let end = |is_host: bool, flag: u8| if is_host { flag } else { 0 };
            links.push(Link {
                free_at: 0,
                sent_bytes: 0,
                wire: Chain::EMPTY,
                data: Chain::EMPTY,
                control: Chain::EMPTY,
                data_bytes: 0,
                control_bytes: 0,
                peak_bytes: 0,
                to: spec.to.0,
                onward: NONE,
                class: u16::try_from(class).map_err(|_| {
                    PacketError::invalid("a topology may have at most 65,536 kinds of links")
                })?,
                flags: end(topology.is_host(spec.to), TO_HOST)
                    | end(topology.is_host(spec.from), FROM_HOST),
            });
        }
        // Sources of events: links, links watched for PFC, NICs.
        let sources = 2 * links.len() + topology.nic_count();
        let spans = classes.iter().map(|class| class.sizes[0].1 + class.delay);
        let horizon = spans.max().unwrap_or(1);
        let ingress = config.pfc.map(|pfc| Ingress::new(&topology, pfc));
        Ok(Self {
            now: 0,
            link_counters: vec![LinkCounters::default(); links.len()],
            classes,
            packets: Packets::new(),
            flows: Flows::default(),
            agenda: Agenda::new(sources, horizon),
            routing: Routing::new(&topology, config.seed)?,
            uplinks: (0..topology.nic_count() as u32)
                .map(|nic| topology.uplink(NicId(nic)).0)
                .collect(),
            nic_of,
            counters: Counters::default(),
            ingress,
            wakes: vec![Wake { time: u64::MAX, has_event: false }; topology.nic_count()],
            random: mix(config.seed ^ 0x7175_6575_6573),
            finished: Vec::new(),
            finish_on_arrival: false,
            trace: None,
            links,
            topology,
            config,
        })
    }

    /// Adds a flow; it starts by a timer.
    pub(crate) fn add_flow(&mut self, spec: &FlowSpec) -> Result<u32, PacketError> {
        self.check_flow(spec)?;
        let number = self.flows.ways.len() as u64;
        let hash = (mix(self.config.seed ^ mix(number)) >> 32) as u32;
        let flow = self.flows.add(spec, self.config.mtu, hash);
        self.agenda.set_timer(spec.start.0.max(self.now), Timer::Start(flow));
        Ok(flow)
    }

    fn check_flow(&self, spec: &FlowSpec) -> Result<(), PacketError> {
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
        if spec.size.0.div_ceil(u64::from(self.config.mtu)) >= 1 << 31 {
            let (size, mtu) = (spec.size.0, self.config.mtu);
            return refuse(format!("{size} B are over 2^31 packets of {mtu} B"));
        }
        let Some(route) = &spec.route else {
            let reaches = |ends| self.routing.path(&self.topology, ends, 0).is_some();
            // Acknowledgements find their own way.
            if reaches((source, destination)) && reaches((destination, source)) {
                return Ok(());
            }
            return refuse("no path of switches joins them; through hosts, give it a route".into());
        };
        let specs = self.topology.links();
        let known = route.iter().all(|link| (link.0 as usize) < specs.len());
        let joined = known
            && route
                .windows(2)
                .all(|pair| specs[pair[0].0 as usize].to == specs[pair[1].0 as usize].from);
        let begins = route.first() == Some(&self.topology.uplink(source));
        let end = self.topology.uplink(destination).reverse();
        if !joined || !begins || route.last() != Some(&end) || route.len() > 1 << 15 {
            let links: Vec<u32> = route.iter().map(|link| link.0).collect();
            return refuse(format!("links {links:?} are no path from the one to the other"));
        }
        Ok(())
    }

    /// The link that a packet takes from a switch, if its flow has no explicit route.
    #[inline(always)]
    pub(crate) fn routed(&self, node: u32, way: Way, packet: &Packet) -> u32 {
        let is_forward = packet.kind.is_forward();
        let target = NicId(way.ends[usize::from(is_forward)]);
        let entropy = way.entropy(packet.path, is_forward);
        let next = self.routing.next(node, target, entropy);
        next.expect("checked when the flow was added")
    }

    /// What holds for all packets.
    #[inline]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The time, in ps.
    #[inline]
    pub fn now(&self) -> u64 {
        self.now
    }

    /// A flow's progress.
    #[inline]
    pub fn flow(&self, flow: u32) -> &Flow {
        &self.flows.state[flow as usize]
    }

    /// Sending and receiving NIC of a flow.
    #[inline]
    pub fn ends(&self, flow: u32) -> [u32; 2] {
        self.flows.ways[flow as usize].ends
    }

    /// Number of NICs.
    pub fn nic_count(&self) -> usize {
        self.uplinks.len()
    }

    /// Rate at which a NIC sends.
    pub fn nic_rate(&self, nic: u32) -> Rate {
        self.classes[self.links[self.uplinks[nic as usize] as usize].class as usize].rate
    }

    /// Payload of a packet of a flow, in bytes.
    pub fn payload(&self, flow: u32, number: u32) -> u32 {
        let mtu = u64::from(self.config.mtu);
        (self.flow(flow).bytes - u64::from(number) * mtu).min(mtu) as u32
    }

    /// Size of a data packet of a flow on the wire, in bytes.
    #[inline]
    pub fn packet_size(&self, flow: u32, number: u32) -> u32 {
        if !self.config.full_tail && number + 1 == self.flows.state[flow as usize].packets {
            self.payload(flow, number) + self.config.header
        } else {
            self.config.packet_bytes()
        }
    }

    /// Makes a data packet, for [`crate::transport::Transport::next`] to return.
    #[inline]
    pub fn new_data(&mut self, flow: u32, number: u32, path: u16) -> u32 {
        let size = self.packet_size(flow, number);
        let path = self.path_number(flow, path);
        self.packets.take(Packet {
            next_arrival: 0,
            flow,
            number,
            value: 0,
            next: NONE,
            size: size as u16,
            path,
            ingress: 0,
            kind: Kind::Data,
            flags: 0,
        })
    }

    /// Explicit routes are counted from their first link on, whatever path a transport chose.
    #[inline]
    fn path_number(&self, flow: u32, path: u16) -> u16 {
        let is_explicit = self.flows.ways[flow as usize].route != crate::flow::NO_ROUTE;
        if is_explicit { 0 } else { path }
    }

    /// Changes a packet made by [`Self::new_data`].
    #[inline]
    pub fn packet_mut(&mut self, id: u32) -> &mut Packet {
        &mut self.packets[id]
    }

    /// Sends a control packet from the NIC whose turn it is: of `number`, `value`, `path`, `flags`
    /// the network looks at the path alone.
    #[inline]
    pub fn send_control(
        &mut self,
        nic: u32,
        kind: Kind,
        flow: u32,
        (number, value): (u32, u32),
        (path, flags): (u16, u8),
    ) {
        let size = self.config.control_bytes as u16;
        let path = self.path_number(flow, path);
        let id = self.packets.take(Packet {
            next_arrival: 0,
            flow,
            number,
            value,
            next: NONE,
            size,
            path,
            ingress: 0,
            kind,
            flags,
        });
        self.push_control(self.uplinks[nic as usize], id);
    }

    /// Queues a packet other than data at a link that is settled.
    #[inline]
    pub(crate) fn push_control(&mut self, link: u32, id: u32) {
        let size = u32::from(self.packets[id].size);
        let slot = &mut self.links[link as usize];
        let (chain, bytes) = if self.config.control_priority {
            (&mut slot.control, &mut slot.control_bytes)
        } else {
            (&mut slot.data, &mut slot.data_bytes)
        };
        *bytes += size;
        self.packets.push(chain, id);
    }

    /// Has the transport's `wake` called for a NIC at this time, in ps, if not earlier.
    #[inline]
    pub fn wake(&mut self, nic: u32, time: u64) {
        let time = time.max(self.now);
        let wake = &mut self.wakes[nic as usize];
        if wake.time <= time {
            return;
        }
        wake.time = time;
        if std::mem::replace(&mut wake.has_event, true) {
            self.agenda.set_timer(time, Timer::Wake(nic));
        } else {
            self.agenda.schedule(2 * self.links.len() as u32 + nic, time);
        }
    }

    /// Whether a NIC is to be woken now, and not by a later event.
    pub(crate) fn is_woken(&mut self, nic: u32) -> bool {
        let wake = &mut self.wakes[nic as usize];
        let is_due = wake.time == self.now;
        if is_due {
            wake.time = u64::MAX;
        }
        is_due
    }

    /// The event of a NIC has happened.
    pub(crate) fn clear_event(&mut self, nic: u32) {
        self.wakes[nic as usize].has_event = false;
    }

    /// Has the transport's `timer` called for a flow at this time, in ps.
    pub fn set_timer(&mut self, flow: u32, time: u64, tag: u32) {
        self.agenda.set_timer(time.max(self.now), Timer::Flow { flow, tag });
    }

    /// The receiver has one more packet of a flow; returns whether that was the last.
    #[inline]
    pub fn received(&mut self, flow: u32) -> bool {
        let state = &mut self.flows.state[flow as usize];
        state.received += 1;
        debug_assert!(state.received <= state.packets, "each packet is counted once");
        if state.received == state.packets {
            state.received_at = self.now;
            if self.finish_on_arrival {
                self.finished.push(flow);
            }
            return true;
        }
        false
    }

    /// The sender knows that everything has arrived.
    pub fn finish(&mut self, flow: u32) {
        let state = &mut self.flows.state[flow as usize];
        debug_assert_eq!(state.received, state.packets, "nothing is acknowledged unseen");
        if state.done_at == u64::MAX {
            state.done_at = self.now;
            self.flows.done += 1;
            if !self.finish_on_arrival {
                self.finished.push(flow);
            }
        }
    }

    /// The next random word of the run.
    #[inline]
    pub fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(1);
        mix(self.random)
    }

    /// Marks a packet, certainly or perhaps, at a link where more than Kmin is queued.
    pub(crate) fn mark(&mut self, ecn: Ecn, link: u32, id: u32, queued: u32) {
        let span = f64::from(ecn.max_bytes - ecn.min_bytes);
        let part = f64::from(queued - ecn.min_bytes) / span * ecn.probability;
        let is_certain = queued > ecn.max_bytes;
        let is_data = self.packets[id].kind == Kind::Data;
        if is_data && (is_certain || ((self.random() >> 11) as f64) < part * (1_u64 << 53) as f64) {
            self.packets[id].flags |= MARKED;
            self.link_counters[link as usize].marks += 1;
            let is_late = ecn.marking == Marking::Departure;
            let time = if is_late { self.links[link as usize].free_at } else { self.now };
            self.note(time, What::Marked, link, id);
        }
    }

    /// Puts a packet on the wire of a link whose transmitter is free at `begin`; returns when it is
    /// so again.
    #[inline(always)]
    pub(crate) fn transmit(&mut self, link: u32, id: u32, packet: &Packet, begin: u64) -> u64 {
        let slot = &mut self.links[link as usize];
        let class = &self.classes[slot.class as usize];
        let free_at = begin + class.transmission(packet.size);
        let arrival = free_at + class.delay;
        slot.free_at = free_at;
        slot.sent_bytes += u64::from(packet.size);
        if packet.kind == Kind::Data {
            self.counters.data_hops += 1;
        } else {
            self.counters.control_hops += 1;
        }
        if self.packets.push_arriving(&mut slot.wire, id, arrival) {
            self.agenda.schedule(link, arrival);
        }
        self.watch(link);
        free_at
    }

    /// The links that a flow's packets take (the first path, if it has several).
    fn links_of(&self, flow: u32) -> Option<Vec<u32>> {
        let way = self.flows.ways[flow as usize];
        if way.route != crate::flow::NO_ROUTE {
            let link = |behind| self.flows.route_link(way.route, true, behind);
            return Some((0..).map_while(link).collect());
        }
        let [source, destination] = way.ends.map(NicId);
        self.routing.path(&self.topology, (source, destination), way.entropy(0, true))
    }

    /// Links that packets of data will leave if none is sent twice.
    pub fn expected_hops(&self) -> u64 {
        let hops = |flow: u32| {
            let links = self.links_of(flow).map_or(0, |links| links.len() as u64);
            u64::from(self.flow(flow).packets) * links
        };
        (0..self.flows.ways.len() as u32).map(hops).fold(0, u64::saturating_add)
    }

    /// Time until which a flow would last on an idle network, in ps: the closed form of
    /// store-and-forward along its path (the first one, if it has several), until the last byte is
    /// received.
    pub fn ideal_time(&self, flow: u32) -> Option<u64> {
        let links = self.links_of(flow)?;
        let state = self.flow(flow);
        let full = self.config.packet_bytes() as u16;
        let tail = if self.config.full_tail {
            full
        } else {
            (self.payload(flow, state.packets - 1) + self.config.header) as u16
        };
        // Equal packets follow one another at the pace of the slowest link so far; the last one
        // waits for the one before it, which may be longer.
        let others = u64::from(state.packets - 1);
        let (mut first_arrival, mut slowest, mut tail_arrival) = (0_u64, 0_u64, 0_u64);
        for &link in &links {
            let class = &self.classes[self.links[link as usize].class as usize];
            let span = class.transmission(full);
            slowest = slowest.max(span);
            first_arrival += span + class.delay;
            let free_at = match others {
                0 => 0,
                _ => first_arrival - class.delay + (others - 1) * slowest,
            };
            tail_arrival = tail_arrival.max(free_at) + class.transmission(tail) + class.delay;
        }
        Some(tail_arrival)
    }

    /// The links of one of the shortest paths from NIC to NIC, chosen by `entropy`; `None` if
    /// there is none.
    pub fn path(&self, ends: (NicId, NicId), entropy: u64) -> Option<Vec<LinkId>> {
        let links = self.routing.path(&self.topology, ends, mix(entropy))?;
        Some(links.into_iter().map(LinkId).collect())
    }

    /// Sums up to now.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// The simulated time.
    pub fn time(&self) -> Time {
        Time(self.now)
    }
}
