//! The network of a packet simulation: its topology, its flows and when its circuits are dark.

use super::errors::refuse;
use crate::arrays::Column;
use crate::choices::parse;
use lightloom_model::{Bytes, Duration, Rate, Time};
use lightloom_packetsim::presets::{self, Preset};
use lightloom_packetsim::{
    Cable, CircuitSwitching, Dragonfly, Extent, Failure, FlowSpec, NicId, NodeId, PacketLinkId,
    PlaneChoice, PlaneTurns, Topology,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde::Deserialize;

/// A network to build.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NetworkValues {
    hosts: u32,
    rate_bps: Rate,
    link_delay_ps: Duration,
    planes: u32,
    plane_choice: String,
    shape: Shape,
}

/// A topology and its sizes.
#[derive(Deserialize)]
#[serde(tag = "topology", rename_all = "kebab-case", deny_unknown_fields)]
enum Shape {
    FatTree { radix: u32 },
    Star {},
    LeafSpine { hosts_per_leaf: u32, spines: u32, uplink_rate_bps: Rate },
    Rail { hosts_per_server: u32, nvlink_rate_bps: Rate, nvlink_delay_ps: Duration },
    Dragonfly { hosts_per_switch: u32, switches_per_group: u32, global_links: u32 },
    Links { switches: Vec<String>, links: Vec<Link> },
}

/// A link between hosts (by index) and switches (whose indices follow those of hosts): its ends,
/// its rate in bits per second and its delay in picoseconds.
type Link = (u32, u32, u64, u64);

impl NetworkValues {
    /// Builds the network.
    pub(super) fn build(&self) -> PyResult<Topology> {
        let cable = Cable { rate: self.rate_bps, delay: self.link_delay_ps };
        let fabric = match &self.shape {
            &Shape::FatTree { radix } => Preset::FatTree { radix, cable },
            Shape::Star {} => Preset::Star { cable },
            &Shape::LeafSpine { hosts_per_leaf, spines, uplink_rate_bps: rate } => {
                Preset::LeafSpine {
                    hosts_per_leaf,
                    spines,
                    host: cable,
                    spine: Cable { rate, ..cable },
                }
            }
            &Shape::Dragonfly { hosts_per_switch, switches_per_group, global_links } => {
                let shape = Dragonfly { hosts_per_switch, switches_per_group, global_links };
                Preset::Dragonfly { shape, cable }
            }
            &Shape::Rail { hosts_per_server, nvlink_rate_bps: rate, nvlink_delay_ps: delay } => {
                let nvlink = Cable { rate, delay };
                return presets::rail(self.hosts, hosts_per_server, cable, nvlink).map_err(refuse);
            }
            Shape::Links { switches, links } => return of_links(self.hosts, switches, links),
        };
        let (hosts, planes) = (self.hosts, self.planes);
        let built = match (planes, parse(&self.plane_choice)?) {
            (1, _) => fabric.build(hosts),
            (_, PlaneChoice::Spray) => fabric.build_sprayed_planes(hosts, planes),
            _ => fabric.build_planes(hosts, planes),
        };
        built.map_err(refuse)
    }

    /// What transports are fitted to: the rate of NICs, and the longest of the shortest paths.
    pub(super) fn extent(&self) -> PyResult<Extent> {
        let (rate, delay) = (self.rate_bps, self.link_delay_ps);
        let links = |count: u64| Duration(count * delay.0);
        let delay = match self.shape {
            Shape::FatTree { .. } => links(6),
            Shape::Star {} => links(2),
            Shape::LeafSpine { .. } => links(4),
            Shape::Dragonfly { .. } => links(5),
            Shape::Rail { nvlink_delay_ps: nvlink, .. } => links(2) + Duration(2 * nvlink.0),
            Shape::Links { ref switches, links: ref listed } => {
                let topology = of_links(self.hosts, switches, listed)?;
                let nics = (0..topology.nic_count() as u32).map(NicId);
                let rates = nics.map(|nic| topology.links()[topology.uplink(nic).0 as usize].rate);
                let rate = rates.max().unwrap_or(rate);
                return Ok(Extent { rate, delay: topology.longest_delay() });
            }
        };
        Ok(Extent { rate, delay })
    }

    /// Which plane flows take.
    fn plane_turns(&self, seed: u64) -> PyResult<PlaneTurns> {
        Ok(PlaneTurns::new(parse(&self.plane_choice)?, self.planes, seed))
    }

    /// Hosts of a server, where flows between servers take the rail-aware route.
    fn rail_servers(&self) -> Option<u32> {
        match self.shape {
            Shape::Rail { hosts_per_server, .. } => Some(hosts_per_server),
            _ => None,
        }
    }
}

/// Hosts, switches with names, and links as they are listed.
fn of_links(hosts: u32, switches: &[String], links: &[Link]) -> PyResult<Topology> {
    check_hosts(hosts)?;
    let mut topology = Topology::new();
    let mut nodes: Vec<NodeId> = (0..hosts).map(|_| topology.add_host()).collect();
    nodes.extend(switches.iter().map(|name| topology.add_named_switch(name.clone())));
    let node = |index: u32| {
        let node = nodes.get(index as usize).copied();
        node.ok_or_else(|| PyValueError::new_err(format!("there is no node {index}")))
    };
    for &(first, second, rate, delay) in links {
        let (a, b) = (node(first)?, node(second)?);
        let layers = match (topology.is_host(a), topology.is_host(b)) {
            (true, true) => ["between hosts", "between hosts"],
            (true, false) => ["host up", "host down"],
            (false, true) => ["host down", "host up"],
            (false, false) => ["between switches", "between switches"],
        };
        let cable = Cable { rate: Rate(rate), delay: Duration(delay) };
        topology.connect(a, b, cable, layers).map_err(refuse)?;
    }
    Ok(topology)
}

/// Refuses more hosts than the presets build.
fn check_hosts(hosts: u32) -> PyResult<()> {
    const MAX_HOSTS: u32 = 1 << 20;
    if hosts <= MAX_HOSTS {
        return Ok(());
    }
    Err(PyValueError::new_err(format!("{hosts} hosts: expected at most {MAX_HOSTS}")))
}

/// What nodes are called: hosts by their number, switches by their name.
pub(super) fn names(topology: &Topology) -> Vec<String> {
    let nodes = (0..topology.node_count() as u32).map(NodeId);
    let name = |node: NodeId| {
        if topology.is_host(node) { node.0.to_string() } else { topology.title(node) }
    };
    nodes.map(name).collect()
}

/// Flows; the route of flow `f` is `route_links[route_starts[f]..route_starts[f + 1]]`. Both are
/// empty where no flow has a route of its own.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(super) struct FlowColumns {
    source: Column<u32>,
    destination: Column<u32>,
    size_bytes: Column<u64>,
    start_ps: Column<u64>,
    priority: Column<u8>,
    class: Column<u8>,
    /// Which NIC of its host a flow leaves and arrives by; empty where every host's first is taken.
    source_nic: Column<u32>,
    destination_nic: Column<u32>,
    route_starts: Column<u64>,
    route_links: Column<u32>,
}

impl FlowColumns {
    fn check(&self) -> PyResult<()> {
        let flows = self.source.0.len();
        let lengths = [
            self.destination.0.len(),
            self.size_bytes.0.len(),
            self.start_ps.0.len(),
            self.priority.0.len(),
            self.class.0.len(),
        ];
        let nics = [self.source_nic.0.len(), self.destination_nic.0.len()];
        let is_wrong = nics != [0; 2] && nics != [flows; 2];
        if is_wrong || lengths.iter().any(|&length| length != flows) {
            return Err(PyValueError::new_err("the columns of the flows differ in length"));
        }
        let (Column(starts), Column(links)) = (&self.route_starts, &self.route_links);
        let fits = starts.len() == flows + 1
            && starts.is_sorted()
            && starts.last().is_some_and(|&end| end <= links.len() as u64);
        if fits || starts.is_empty() {
            return Ok(());
        }
        let text = format!("route_starts: expected {flows} + 1 rising places in route_links");
        Err(PyValueError::new_err(text))
    }

    /// The highest priority of a flow.
    pub(super) fn highest_priority(&self) -> u8 {
        self.priority.0.iter().copied().max().unwrap_or(0)
    }

    /// The links of the route of a flow, if it has one of its own.
    fn route(&self, flow: usize) -> Option<Vec<PacketLinkId>> {
        let Some(&[from, to]) = self.route_starts.0.get(flow..flow + 2) else { return None };
        let links = &self.route_links.0[from as usize..to as usize];
        (!links.is_empty()).then(|| links.iter().copied().map(PacketLinkId).collect())
    }

    /// Flows from host to host: along the links of their route, if they have one; else, over rails,
    /// by the rail-aware one, and everywhere else between the NICs of one plane, by default the
    /// first.
    pub(super) fn specs(
        &self,
        network: &NetworkValues,
        topology: &Topology,
        seed: u64,
    ) -> PyResult<Vec<FlowSpec>> {
        self.check()?;
        let mut turns = network.plane_turns(seed)?;
        let per_server = network.rail_servers();
        let nics = Nics::new(topology);
        let mut flow = |flow: usize| {
            let (from, to) = (self.source.0[flow], self.destination.0[flow]);
            let plane = turns.next(from);
            let number = |column: &Column<u32>| column.0.get(flow).copied().unwrap_or(plane);
            let source = nics.of(flow, from, number(&self.source_nic))?;
            let destination = nics.of(flow, to, number(&self.destination_nic))?;
            let rail = || per_server.map(|hosts| presets::rail_route(hosts, from, to));
            let route = self.route(flow).or_else(rail);
            let [source, destination] = match route.as_deref() {
                Some([first, .., last]) => {
                    [nics.sending_by(*first)?, nics.sending_by(last.reverse())?]
                }
                Some([only]) => [nics.sending_by(*only)?, nics.sending_by(only.reverse())?],
                _ => [source, destination],
            };
            let (size, start) = (Bytes(self.size_bytes.0[flow]), Time(self.start_ps.0[flow]));
            let (priority, class) = (self.priority.0[flow], self.class.0[flow]);
            Ok(FlowSpec { source, destination, size, start, priority, class, route })
        };
        (0..self.source.0.len()).map(&mut flow).collect()
    }
}

/// Which NICs hosts have, and which link is that of which NIC.
struct Nics {
    by_host: Vec<Vec<NicId>>,
    by_link: Vec<Option<NicId>>,
}

impl Nics {
    fn new(topology: &Topology) -> Self {
        let mut by_host = vec![Vec::new(); topology.node_count()];
        let mut by_link = vec![None; topology.links().len()];
        for nic in (0..topology.nic_count() as u32).map(NicId) {
            by_host[topology.host_of(nic).0 as usize].push(nic);
            by_link[topology.uplink(nic).0 as usize] = Some(nic);
        }
        Self { by_host, by_link }
    }

    /// The NIC of a host on a plane, for a flow, whose number is part of the error.
    fn of(&self, flow: usize, host: u32, plane: u32) -> PyResult<NicId> {
        let nic = self.by_host.get(host as usize).and_then(|nics| nics.get(plane as usize));
        let text = || match plane {
            0 => format!("no link joins host {host} to others"),
            _ => format!("host {host} has no NIC {plane}; they are counted from 0 on"),
        };
        nic.copied().ok_or_else(|| PyValueError::new_err((text(), flow)))
    }

    fn sending_by(&self, link: PacketLinkId) -> PyResult<NicId> {
        let port = self.by_link.get(link.0 as usize).copied().flatten();
        port.ok_or_else(|| PyValueError::new_err(format!("link {} leaves no host", link.0)))
    }
}

/// When links fail and are repaired, if ever, in picoseconds, and which, both ways.
pub(super) type FailureRow = (u64, Option<u64>, Vec<u32>);

pub(super) fn parse_failures(rows: Vec<FailureRow>, detection_ps: u64) -> PyResult<Vec<Failure>> {
    let failure = |(time, repaired, links): FailureRow| {
        let links = links.into_iter().map(PacketLinkId).collect();
        Failure::new(links, Time(time), repaired.map(Time), Duration(detection_ps)).map_err(refuse)
    };
    rows.into_iter().map(failure).collect()
}

/// When a link changes, in picoseconds, which, and whether it goes dark.
pub(super) type CircuitRow = (u64, u32, bool);

pub(super) fn parse_circuits(rows: Vec<CircuitRow>) -> Vec<CircuitSwitching> {
    let change =
        |(time, link, dark)| CircuitSwitching { time: Time(time), link: PacketLinkId(link), dark };
    rows.into_iter().map(change).collect()
}
