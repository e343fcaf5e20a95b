//! Transfers over links of a network as flows of packets.
//!
//! A link of the caller's is a bundle: the NICs of a server that share a transfer, or parallel
//! circuits. A transfer becomes as many flows as it takes to load every member of every bundle on
//! its path alike. Over the packet fabric alone, switches choose their paths; where a circuit or a
//! relay is on the path, it is explicit, and what of it crosses the fabric is drawn by hash.

use super::flows::PacketFlows;
use super::graph::Graph;
use super::launched::{Launched, Turns};
use super::transport::{PacketTransport, PlaneFailure};
use crate::error::{ExecuteError, network as unfit};
use crate::links::link::{End, Flow, Link};
use crate::links::shares::equal_shares;
use crate::recording::{SentFlow, SentPackets};
use crate::slab::Slab;
use lightloom_flowsim::LinkId;
use lightloom_kernel::Observer;
use lightloom_model::{Bytes, Time};
use lightloom_packetsim::{
    Cable, Config, Failure, FlowSpec, HIGHEST_PRIORITY, NicId, PacketError, PacketFlowId,
    PacketLinkId, SceneHops,
};
use rustc_hash::FxHashMap;

/// Simulated time without any arrival after which transfers are given up: 10 s.
const PATIENCE: u64 = 10_000_000_000_000;

/// What a bundle consists of.
#[derive(Debug, Clone)]
enum Members {
    /// NICs at which bytes enter the packet fabric.
    Entry(Vec<NicId>),
    /// NICs at which they leave it.
    Exit(Vec<NicId>),
    /// Links between switches, which these choose.
    Switches,
    /// Into a server's inner end and back.
    Relay([PacketLinkId; 2]),
    /// Parallel circuits, the first `lit` of them lit, and how many a transfer takes that begins
    /// in the dark; and how many bytes may be on their way over each, where they are counted.
    Circuits { links: Vec<PacketLinkId>, lit: usize, awaited: usize, room: Option<u64> },
}

/// A part of a path whose members share its bytes.
enum Hop<'a> {
    Fabric(&'a [NicId], &'a [NicId]),
    Relay([PacketLinkId; 2]),
    Circuits(&'a [PacketLinkId]),
}

impl Hop<'_> {
    fn width(&self) -> usize {
        match self {
            Self::Fabric(from, _) => from.len(),
            Self::Relay(_) => 1,
            Self::Circuits(links) => links.len(),
        }
    }
}

#[derive(Debug, Default)]
struct Transfer {
    token: u64,
    bytes: u64,
    flows_left: u32,
    path: Vec<LinkId>,
    /// What it is a batch of, if it is one; then its flows and their bytes, and how many members
    /// of each bundle it takes.
    launched: Option<u32>,
    flows: Vec<(PacketFlowId, u64)>,
    members: Vec<usize>,
}

/// The owner of flows that nobody waits for.
const NOBODY: u32 = u32::MAX;

/// What a link between racks holds beyond its bandwidth times delays, in packets: two batches that
/// eight NICs share.
const RACK_PACKETS: u64 = 16;
/// Propagation delays for which a link between racks may have bytes on their way: those of a path
/// over two circuits, and one more.
const RACK_DELAYS: u128 = 5;

/// A network of packets.
pub struct PacketNetwork {
    options: PacketTransport,
    /// The priorities that transfers may have, ascending: packets have their places.
    priorities: Vec<u8>,
    graph: Graph,
    bundles: Vec<Members>,
    /// None until sealed.
    simulation: Option<PacketFlows>,
    /// By the link that leaves it.
    nics: FxHashMap<PacketLinkId, NicId>,
    transfers: Slab<Transfer>,
    /// Transfer of each flow, or [`NOBODY`].
    owner: Vec<u32>,
    pub(super) launched: Slab<Launched>,
    pub(super) turns: Turns,
    pub(super) carried: Vec<u64>,
    finished: Vec<PacketFlowId>,
    failure: Option<PacketError>,
    /// What was sent, and by how many transfers, if that is recorded.
    recorded: Option<(Vec<SentFlow>, u32)>,
}

impl std::fmt::Debug for PacketNetwork {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("PacketNetwork")
            .field("options", &self.options)
            .field("transfers", &self.transfers.in_use())
            .finish_non_exhaustive()
    }
}

impl PacketNetwork {
    /// Over this graph, which the links of circuits and relays are added to, for transfers of these
    /// priorities, in ascending order.
    ///
    /// # Errors
    /// If there are more of them than packets have.
    pub(crate) fn new(
        graph: Graph,
        options: &PacketTransport,
        priorities: &[u8],
    ) -> Result<Self, ExecuteError> {
        let most = usize::from(HIGHEST_PRIORITY) + 1;
        if priorities.len() > most {
            return Err(unfit(format!(
                "packets have {most} priorities, the task graph has {}: use fewer, or flows",
                priorities.len()
            )));
        }
        let highest_priority = priorities.len().saturating_sub(1) as u8;
        let config = Config { highest_priority, ..options.config };
        Ok(Self {
            options: PacketTransport { config, ..*options },
            priorities: priorities.to_vec(),
            graph,
            bundles: Vec::new(),
            simulation: None,
            nics: FxHashMap::default(),
            transfers: Slab::default(),
            owner: Vec::new(),
            launched: Slab::default(),
            turns: Turns::default(),
            carried: Vec::new(),
            finished: Vec::new(),
            failure: None,
            recorded: None,
        })
    }

    /// Records flows from now on.
    pub(crate) fn record(&mut self) {
        self.recorded = Some((Vec::new(), 0));
    }

    /// What was sent, if it was recorded.
    pub(crate) fn sent_packets(&mut self) -> Option<SentPackets> {
        let (flows, _) = self.recorded.take()?;
        let PacketTransport { config, transport, extent, .. } = self.options;
        let topology = self.graph.topology().clone();
        Some(SentPackets { topology, config, transport, extent, flows })
    }

    /// The priority that packets have in place of that of a transfer.
    pub(super) fn rank(&self, priority: u8) -> u8 {
        self.priorities.partition_point(|&other| other < priority) as u8
    }

    /// Adds a link of which so many members are lit.
    pub fn add_link(&mut self, link: &Link, lit: u32) {
        let members = self.members(link, lit as usize).unwrap_or_else(|error| {
            self.failure.get_or_insert(error);
            Members::Switches
        });
        self.bundles.push(members);
        let most = self.most_on_way(LinkId(self.bundles.len() as u32 - 1));
        self.turns.add_bundle(most.unwrap_or(u64::MAX));
        self.carried.push(0);
    }

    fn members(&mut self, link: &Link, lit: usize) -> Result<Members, PacketError> {
        let each = Cable { rate: link.rate, delay: link.delay };
        Ok(match (link.from, link.to) {
            (End::Nics { server, group }, _) => {
                Members::Entry(self.graph.nics(server, group, link.members).to_vec())
            }
            (_, End::Nics { server, group }) => {
                Members::Exit(self.graph.nics(server, group, link.members).to_vec())
            }
            (End::Server(server), End::Server(_)) if link.is_relay() => {
                Members::Relay(self.graph.relay(server, each)?)
            }
            (End::Server(from), End::Server(to)) => {
                let links = self.graph.circuits(from, to, link.members, each)?;
                Members::Circuits { links, lit, awaited: link.awaited as usize, room: None }
            }
            (End::Rack(_) | End::Store(_), _) | (_, End::Rack(_) | End::Store(_)) => {
                let links = self.graph.rack_links(link.from, link.to, link.members, each)?;
                let is_between = matches!((link.from, link.to), (End::Rack(_), End::Rack(_)));
                let room = is_between.then(|| self.room(each));
                Members::Circuits { links, lit, awaited: link.awaited as usize, room }
            }
            (End::Switches, _) | (_, End::Switches) => Members::Switches,
        })
    }

    /// Bytes that may be on their way over a link between racks.
    fn room(&self, each: Cable) -> u64 {
        let bits = u128::from(each.rate.0) * u128::from(each.delay.0) * RACK_DELAYS;
        let bytes = bits / (8 * u128::from(lightloom_model::units::PS_PER_S));
        bytes as u64 + RACK_PACKETS * u64::from(self.options.config.mtu)
    }

    /// Ends the adding of links.
    ///
    /// # Errors
    /// If one of them cannot be.
    pub fn seal(&mut self) -> Result<(), ExecuteError> {
        if let Some(error) = self.failure.take() {
            return Err(error.into());
        }
        let topology = self.graph.topology();
        let all = (0..topology.nic_count() as u32).map(NicId);
        self.nics = all.map(|nic| (topology.uplink(nic), nic)).collect();
        let between_racks =
            |members: &Members| matches!(members, Members::Circuits { room: Some(_), .. });
        let withdraws = self.bundles.iter().any(between_racks);
        let mut simulation = PacketFlows::new(topology.clone(), &self.options, withdraws)?;
        for bundle in &self.bundles {
            if let Members::Circuits { links, lit, .. } = bundle {
                for &link in &links[*lit..] {
                    simulation.set_dark(Time::ZERO, link, true);
                }
            }
        }
        if let Some(failure) = self.options.plane_failure {
            simulation.add_failure(&self.failure_of(failure)?);
        }
        self.simulation = Some(simulation);
        Ok(())
    }

    /// The links of a plane that fails.
    fn failure_of(&self, failure: PlaneFailure) -> Result<Failure, ExecuteError> {
        let PlaneFailure { plane, time, repaired, detection } = failure;
        let links = self.graph.links_of_plane(plane);
        if links.is_empty() || self.graph.topology().spraying_nics().is_empty() {
            return Err(unfit(format!(
                "plane {plane} cannot fail: expected a plane of a fabric with several, and a \
                 transport that sprays packets over them, such as uet-nscc"
            )));
        }
        Ok(Failure::new(links, time, repaired, detection)?)
    }

    /// Changes how many circuits of a bundle are lit.
    pub fn set_lit(&mut self, now: Time, bundle: LinkId, wanted: u32) {
        let Members::Circuits { links, lit, .. } = &mut self.bundles[bundle.0 as usize] else {
            unreachable!("only circuits change")
        };
        let wanted = wanted as usize;
        // What is dark at the start is set when the links are sealed.
        if let Some(simulation) = &mut self.simulation {
            for &link in &links[wanted.min(*lit)..wanted.max(*lit)] {
                simulation.set_dark(now, link, wanted < *lit);
            }
        }
        *lit = wanted;
        if let Some(most) = self.most_on_way(bundle) {
            self.turns.most[bundle.0 as usize] = most;
        }
        if self.simulation.is_some() {
            self.follow_lit(now, bundle, wanted);
        }
    }

    /// Starts a transfer; its token comes back when the last byte has arrived.
    pub fn start(&mut self, now: Time, flow: Flow, path: &[LinkId]) {
        let number = self.send(now, Flow { priority: self.rank(flow.priority), ..flow }, path);
        self.transfers[number].launched = None;
    }

    /// Starts the flows of a transfer, whose priority is that of packets; returns its number.
    fn send(&mut self, now: Time, flow: Flow, path: &[LinkId]) -> u32 {
        let Flow { bytes, token, priority, .. } = flow;
        let hops = hops(&self.bundles, path);
        let width = hops.iter().map(Hop::width).fold(1, least_common_multiple);
        let parts = equal_shares(bytes, width).enumerate().filter(|&(_, size)| size > 0);
        let spec =
            |(index, size)| FlowSpec { priority, ..self.flow(&hops, index, Bytes(size), now) };
        let specs: Vec<FlowSpec> = parts.map(spec).collect();
        let number = self.transfers.take();
        let flows_left = specs.len() as u32;
        let transfer = &mut self.transfers[number];
        *transfer =
            Transfer { token, bytes, flows_left, path: path.to_vec(), ..Transfer::default() };
        let simulation = self.simulation.as_mut().expect("sealed");
        for spec in specs {
            let size = spec.size.0;
            if let Some((flows, transfer)) = &mut self.recorded {
                flows.push(SentFlow { transfer: *transfer, spec: spec.clone(), arrived: now });
            }
            match simulation.add_flow(spec) {
                Ok(flow) => {
                    self.owner.push(number);
                    transfer.flows.push((flow, size));
                }
                Err(error) => {
                    self.failure.get_or_insert(error);
                }
            }
        }
        if let Some((_, transfers)) = &mut self.recorded {
            *transfers += 1;
        }
        number
    }

    /// Starts a batch of a launched transfer, which returns to it.
    pub(super) fn send_batch_of(
        &mut self,
        launched: u32,
        now: Time,
        bytes: u64,
        path: &[LinkId],
    ) -> u32 {
        let priority = self.launched[launched].priority;
        let flow = Flow { bytes, stretch: 1.0, priority, token: 0 };
        let number = self.send(now, flow, path);
        let lit = |link: &LinkId| match &self.bundles[link.0 as usize] {
            Members::Circuits { lit, .. } => *lit,
            _ => 0,
        };
        self.transfers[number].members = path.iter().map(lit).collect();
        self.transfers[number].launched = Some(launched);
        number
    }

    /// How many flows load every member of every bundle of a path alike.
    pub(super) fn width(&self, path: &[LinkId]) -> usize {
        hops(&self.bundles, path).iter().map(Hop::width).fold(1, least_common_multiple)
    }

    /// Payload of a full packet.
    pub(super) fn mtu(&self) -> u32 {
        self.options.config.mtu
    }

    /// Bytes that may be on their way over a bundle, where they are counted.
    pub(super) fn most_on_way(&self, bundle: LinkId) -> Option<u64> {
        match &self.bundles[bundle.0 as usize] {
            Members::Circuits { lit, room, .. } => room.map(|room| room * *lit as u64),
            _ => None,
        }
    }

    /// Bytes of a batch.
    pub(super) fn batch_bytes(&self, batch: u32) -> u64 {
        self.transfers[batch].bytes
    }

    /// Bytes of a batch that have not arrived.
    pub(super) fn missing(&self, batch: u32) -> u64 {
        let core = self.simulation.as_ref().expect("sealed").core();
        let missing = |&(flow, bytes): &(PacketFlowId, u64)| {
            let progress = core.flow(flow);
            let arrived = u64::from(progress.received) * u64::from(self.mtu());
            if progress.received == progress.packets { 0 } else { bytes - arrived.min(bytes) }
        };
        self.transfers[batch].flows.iter().map(missing).sum()
    }

    /// The launched transfer of a batch.
    pub(super) fn transfer_of(&self, batch: u32) -> u32 {
        self.transfers[batch].launched.expect("batches are of launched transfers")
    }

    /// How many members of a bundle a batch takes.
    pub(super) fn members_of(&self, batch: u32, bundle: LinkId) -> usize {
        let Transfer { path, members, .. } = &self.transfers[batch];
        path.iter().position(|&link| link == bundle).map_or(0, |place| members[place])
    }

    /// Nobody waits for a batch any more: its path and bytes.
    pub(super) fn forget(&mut self, batch: u32) -> (Vec<LinkId>, u64) {
        let transfer = std::mem::take(&mut self.transfers[batch]);
        for (flow, _) in transfer.flows {
            self.owner[flow.0 as usize] = NOBODY;
        }
        self.transfers.free(batch);
        (transfer.path, transfer.bytes)
    }

    /// A flow has arrived: the token of the transfer that is whole with that, if one is.
    fn flow_arrived(&mut self, flow: PacketFlowId) -> Option<u64> {
        if let (Some((flows, _)), Some(simulation)) = (&mut self.recorded, &self.simulation) {
            flows[flow.0 as usize].arrived = simulation.now();
        }
        let number = self.owner[flow.0 as usize];
        if number == NOBODY {
            return None;
        }
        let transfer = &mut self.transfers[number];
        transfer.flows_left -= 1;
        if transfer.flows_left > 0 {
            return None;
        }
        if let Some(launched) = transfer.launched {
            return self.batch_arrived(launched, number);
        }
        for link in &transfer.path {
            self.carried[link.0 as usize] += transfer.bytes;
        }
        let token = transfer.token;
        self.transfers.free(number);
        Some(token)
    }

    /// One of the flows of a transfer.
    fn flow(&self, hops: &[Hop], index: usize, size: Bytes, start: Time) -> FlowSpec {
        if let [Hop::Fabric(from, to)] = hops {
            let (source, destination) = (from[index], to[index]);
            return FlowSpec {
                source,
                destination,
                size,
                start,
                priority: 0,
                class: 0,
                route: None,
            };
        }
        let core = self.simulation.as_ref().expect("sealed").core();
        let mut route = Vec::new();
        for hop in hops {
            match hop {
                Hop::Circuits(links) => route.push(links[index % links.len()]),
                Hop::Relay(links) => route.extend(links),
                Hop::Fabric(from, to) => {
                    let (from, to) = (from[index % from.len()], to[index % to.len()]);
                    let entropy = u64::from(from.0) << 32 | u64::from(to.0);
                    route.extend(
                        core.path(from, to, entropy).expect("one fabric joins all servers"),
                    );
                }
            }
        }
        let source = self.nics[&route[0]];
        let destination = self.nics[&route[route.len() - 1].reverse()];
        FlowSpec { source, destination, size, start, priority: 0, class: 0, route: Some(route) }
    }

    /// Continues to the next time, but not beyond `limit`, at which transfers end.
    ///
    /// # Errors
    /// If the observer asks to stop, or nothing arrives for 10 s.
    pub fn run_until(
        &mut self,
        limit: Option<Time>,
        done: &mut Vec<u64>,
        observer: &mut dyn Observer,
    ) -> Result<Option<Time>, ExecuteError> {
        if let Some(error) = self.failure.take() {
            return Err(error.into());
        }
        self.pump_due(limit);
        while self.transfers.in_use() > 0 {
            let simulation = self.simulation.as_mut().expect("sealed");
            let now = simulation.now();
            let patience = Time(now.0.saturating_add(PATIENCE));
            let until = limit.map_or(patience, |limit| limit.min(patience));
            if !simulation.advance(until, &mut self.finished, observer)? {
                if limit.is_some_and(|limit| limit <= until) {
                    return Ok(None);
                }
                return Err(unfit(format!(
                    "{} transfers of packets are stuck from {} s on",
                    self.transfers.in_use(),
                    now.as_seconds()
                )));
            }
            let now = simulation.now();
            let mut finished = std::mem::take(&mut self.finished);
            done.extend(finished.drain(..).filter_map(|flow| self.flow_arrived(flow)));
            self.finished = finished;
            self.pump(now);
            if !done.is_empty() {
                return Ok(Some(now));
            }
        }
        Ok(None)
    }

    /// Whether transfers are on their way.
    pub fn is_busy(&self) -> bool {
        self.transfers.in_use() > 0 || self.turns.due.is_some()
    }

    /// Bytes of the transfers that have crossed a link.
    pub fn carried(&self, bundle: LinkId) -> u64 {
        self.carried[bundle.0 as usize]
    }

    /// Packets that left a link, once for each.
    ///
    /// # Errors
    /// If the observer asks to stop.
    pub fn packet_hops(&mut self, observer: &mut dyn Observer) -> Result<SceneHops, ExecuteError> {
        match &mut self.simulation {
            Some(simulation) => simulation.hops(observer),
            None => Ok(SceneHops::default()),
        }
    }
}

/// The parts of a path.
fn hops<'a>(bundles: &'a [Members], path: &[LinkId]) -> Vec<Hop<'a>> {
    let mut hops = Vec::with_capacity(path.len());
    let mut from: &[NicId] = &[];
    for link in path {
        match &bundles[link.0 as usize] {
            Members::Entry(nics) => from = nics,
            Members::Exit(nics) => hops.push(Hop::Fabric(from, nics)),
            Members::Switches => {}
            Members::Relay(links) => hops.push(Hop::Relay(*links)),
            Members::Circuits { links, lit, awaited, .. } => {
                let taken = if *lit > 0 { *lit } else { *awaited };
                hops.push(Hop::Circuits(&links[..taken]));
            }
        }
    }
    hops
}

fn least_common_multiple(a: usize, b: usize) -> usize {
    let (mut divisor, mut rest) = (a, b);
    while rest > 0 {
        (divisor, rest) = (rest, divisor % rest);
    }
    a / divisor * b
}
