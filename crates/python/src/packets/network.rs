//! The network of a packet simulation: its topology, its flows and when its circuits are dark.

use super::errors::refuse;
use crate::arrays::Column;
use crate::choices::Named;
use lightloom_model::{Bytes, Duration, Rate, Time};
use lightloom_packetsim::presets::{self, Preset};
use lightloom_packetsim::{
    Cable, CircuitSwitching, Dragonfly, Failure, FlowSpec, NicId, NodeId, PacketError,
    PacketLinkId, PlaneChoice, PlaneTurns, Topology,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// `lightloom.packets.core_columns.LinkColumns`.
#[derive(FromPyObject)]
struct LinkColumns {
    switches: Vec<String>,
    first: Column<u32>,
    second: Column<u32>,
    rates_bps: Column<u64>,
    delays_ps: Column<u64>,
}

/// `lightloom.packets.core_columns.PacketTopologyRequest`.
#[derive(FromPyObject)]
pub(super) struct PacketTopologyRequest {
    topology: String,
    hosts: u32,
    rate_bps: u64,
    link_delay_ps: u64,
    radix: u32,
    hosts_per_leaf: u32,
    spines: u32,
    uplink_rate_bps: u64,
    hosts_per_server: u32,
    nvlink_rate_bps: u64,
    nvlink_delay_ps: u64,
    hosts_per_switch: u32,
    switches_per_group: u32,
    global_links: u32,
    planes: u32,
    plane_choice: Named<PlaneChoice>,
    links: Option<LinkColumns>,
}

impl PacketTopologyRequest {
    /// Rate of the NICs.
    pub(super) fn rate(&self) -> Rate {
        Rate(self.rate_bps)
    }

    /// Builds the network.
    pub(super) fn build(&self) -> PyResult<Topology> {
        match self.topology.as_str() {
            "rail" => self.build_rail().and_then(|built| built.map_err(refuse)),
            "links" => match &self.links {
                Some(links) => of_links(self.hosts, links),
                None => Err(PyValueError::new_err("this topology needs links")),
            },
            _ => self.build_fabric(self.fabric()?).map_err(refuse),
        }
    }

    /// A fabric that may have several planes.
    fn fabric(&self) -> PyResult<Preset> {
        let cable = self.cable();
        Ok(match self.topology.as_str() {
            "fat-tree" => Preset::FatTree { radix: needed("radix", self.radix)?, cable },
            "star" => Preset::Star { cable },
            "leaf-spine" => {
                let rate = Rate(needed("uplink_rate_bps", self.uplink_rate_bps)?);
                Preset::LeafSpine {
                    hosts_per_leaf: needed("hosts_per_leaf", self.hosts_per_leaf)?,
                    spines: needed("spines", self.spines)?,
                    host: cable,
                    spine: Cable { rate, ..cable },
                }
            }
            "dragonfly" => {
                let shape = Dragonfly {
                    hosts_per_switch: needed("hosts_per_switch", self.hosts_per_switch)?,
                    switches_per_group: needed("switches_per_group", self.switches_per_group)?,
                    global_links: needed("global_links", self.global_links)?,
                };
                Preset::Dragonfly { shape, cable }
            }
            other => {
                let name: String = other.chars().take(60).flat_map(char::escape_debug).collect();
                let unknown = format!("there is no topology '{name}'");
                return Err(refuse(PacketError::Invalid(unknown)));
            }
        })
    }

    fn build_fabric(&self, fabric: Preset) -> Result<Topology, PacketError> {
        match (self.planes, self.plane_choice.0) {
            (1, _) => fabric.build(self.hosts),
            (planes, PlaneChoice::Spray) => fabric.build_sprayed_planes(self.hosts, planes),
            (planes, _) => fabric.build_planes(self.hosts, planes),
        }
    }

    fn build_rail(&self) -> PyResult<Result<Topology, PacketError>> {
        let rate = Rate(needed("nvlink_rate_bps", self.nvlink_rate_bps)?);
        let nvlink = Cable { rate, delay: Duration(self.nvlink_delay_ps) };
        let servers = needed("hosts_per_server", self.hosts_per_server)?;
        Ok(presets::rail(self.hosts, servers, self.cable(), nvlink))
    }

    /// The links of hosts.
    fn cable(&self) -> Cable {
        Cable { rate: self.rate(), delay: Duration(self.link_delay_ps) }
    }

    /// Which plane flows take.
    fn plane_turns(&self, seed: u64) -> PlaneTurns {
        PlaneTurns::new(self.plane_choice.0, self.planes, seed)
    }

    /// Hosts of a server, where flows between servers take the rail-aware route.
    fn rail_servers(&self) -> PyResult<Option<u32>> {
        if self.topology != "rail" {
            return Ok(None);
        }
        let servers = needed("hosts_per_server", self.hosts_per_server)?;
        Ok(Some(servers))
    }
}

/// A size that is 0 where it belongs to another topology.
fn needed<T: Default + PartialEq>(name: &str, value: T) -> PyResult<T> {
    if value != T::default() {
        return Ok(value);
    }
    Err(PyValueError::new_err(format!("this topology needs {name} above 0")))
}

/// Hosts, switches with names, and links as they are listed.
fn of_links(hosts: u32, links: &LinkColumns) -> PyResult<Topology> {
    let Column(first) = &links.first;
    let lengths = [links.second.0.len(), links.rates_bps.0.len(), links.delays_ps.0.len()];
    if lengths.iter().any(|&length| length != first.len()) {
        return Err(PyValueError::new_err("the columns of the links differ in length"));
    }
    check_hosts(hosts)?;
    let mut topology = Topology::new();
    let mut nodes: Vec<NodeId> = (0..hosts).map(|_| topology.add_host()).collect();
    nodes.extend(links.switches.iter().map(|name| topology.add_named_switch(name.clone())));
    let node = |index: u32| {
        let found = nodes.get(index as usize).copied();
        found.ok_or_else(|| PyValueError::new_err(format!("there is no node {index}")))
    };
    for (row, &first) in first.iter().enumerate() {
        let (a, b) = (node(first)?, node(links.second.0[row])?);
        let layers = match (topology.is_host(a), topology.is_host(b)) {
            (true, true) => ["between hosts", "between hosts"],
            (true, false) => ["host up", "host down"],
            (false, true) => ["host down", "host up"],
            (false, false) => ["between switches", "between switches"],
        };
        let (rate, delay) = (Rate(links.rates_bps.0[row]), Duration(links.delays_ps.0[row]));
        topology.connect(a, b, Cable { rate, delay }, layers).map_err(refuse)?;
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

/// `lightloom.packets.core_columns.FlowColumns`.
#[derive(FromPyObject)]
pub(super) struct FlowColumns {
    source: Column<u32>,
    destination: Column<u32>,
    size_bytes: Column<u64>,
    start_ps: Column<u64>,
    route_starts: Column<u64>,
    route_links: Column<u32>,
}

impl FlowColumns {
    fn check(&self) -> PyResult<()> {
        let flows = self.source.0.len();
        let lengths = [self.destination.0.len(), self.size_bytes.0.len(), self.start_ps.0.len()];
        if lengths.iter().any(|&length| length != flows) {
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
        network: &PacketTopologyRequest,
        topology: &Topology,
        seed: u64,
    ) -> PyResult<Vec<FlowSpec>> {
        self.check()?;
        let mut turns = network.plane_turns(seed);
        let per_server = network.rail_servers()?;
        let nics = Nics::new(topology);
        let mut flow = |flow: usize| {
            let (from, to) = (self.source.0[flow], self.destination.0[flow]);
            let plane = turns.next(from);
            let (source, destination) = (nics.of(from, plane)?, nics.of(to, plane)?);
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
            Ok(FlowSpec { source, destination, size, start, route })
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

    /// The NIC of a host on a plane.
    fn of(&self, host: u32, plane: u32) -> PyResult<NicId> {
        let found = self.by_host.get(host as usize).and_then(|nics| nics.get(plane as usize));
        let text = || format!("no link joins host {host} to others");
        found.copied().ok_or_else(|| PyValueError::new_err(text()))
    }

    fn sending_by(&self, link: PacketLinkId) -> PyResult<NicId> {
        let found = self.by_link.get(link.0 as usize).copied().flatten();
        found.ok_or_else(|| PyValueError::new_err(format!("link {} leaves no host", link.0)))
    }
}

/// `lightloom.packets.core_columns.FailureColumns`.
#[derive(FromPyObject)]
pub(super) struct FailureColumns {
    time_ps: Column<u64>,
    repaired_ps: Column<u64>,
    starts: Column<u64>,
    links: Column<u32>,
    detection_ps: u64,
}

impl FailureColumns {
    pub(super) fn failures(&self) -> PyResult<Vec<Failure>> {
        let (times, starts, links) = (&self.time_ps.0, &self.starts.0, &self.links.0);
        let fits = self.repaired_ps.0.len() == times.len()
            && starts.len() == times.len() + 1
            && starts.is_sorted()
            && starts.last().is_some_and(|&end| end <= links.len() as u64);
        if !fits {
            let text = "failures: expected a time, a repair and a rising place in links for each";
            return Err(PyValueError::new_err(text));
        }
        let spans = starts.windows(2).map(|ends| &links[ends[0] as usize..ends[1] as usize]);
        let rows = times.iter().zip(&self.repaired_ps.0).zip(spans);
        let failure = |((&time, &repaired), links): ((&u64, &u64), &[u32])| {
            let latest = time.max(if repaired == u64::MAX { 0 } else { repaired });
            if repaired <= time || latest.checked_add(self.detection_ps).is_none() {
                let text = format!("a failure from {time} to {repaired} ps: expected a later end");
                return Err(PyValueError::new_err(text));
            }
            Ok(Failure {
                links: links.iter().copied().map(PacketLinkId).collect(),
                time: Time(time),
                repaired: (repaired != u64::MAX).then_some(Time(repaired)),
                detection: Duration(self.detection_ps),
            })
        };
        rows.map(failure).collect()
    }
}

/// `lightloom.packets.core_columns.CircuitColumns`: when circuits are dark, one row per link and
/// time.
#[derive(FromPyObject)]
pub(super) struct CircuitColumns {
    time_ps: Column<u64>,
    link: Column<u32>,
    is_dark: Column<bool>,
}

impl CircuitColumns {
    pub(super) fn changes(self) -> PyResult<Vec<CircuitSwitching>> {
        let (times, links, dark) = (self.time_ps.0, self.link.0, self.is_dark.0);
        if times.len() != links.len() || times.len() != dark.len() {
            return Err(PyValueError::new_err("the columns of the circuits differ in length"));
        }
        let rows = times.into_iter().zip(links).zip(dark);
        let change = |((time, link), dark)| CircuitSwitching {
            time: Time(time),
            link: PacketLinkId(link),
            dark,
        };
        Ok(rows.map(change).collect())
    }
}
