//! The network of a packet simulation: its topology, its flows and when its circuits are dark.

use super::refuse;
use crate::execute::{column, value};
use lightloom_model::{Bytes, Duration, Rate, Time};
use lightloom_packetsim::{
    CircuitChange, FlowSpec, LinkId, NicId, NodeId, PacketError, Topology, presets,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

pub fn read_topology(network: &Bound<'_, PyDict>) -> PyResult<Topology> {
    let kind: String = value(network, "topology")?;
    let hosts = value(network, "hosts")?;
    let rate = Rate(value(network, "rate_bps")?);
    let delay = Duration(value(network, "link_delay_ps")?);
    let built = match kind.as_str() {
        "fat-tree" => presets::fat_tree(hosts, value(network, "radix")?, rate, delay),
        "star" => presets::star(hosts, rate, delay),
        "leaf-spine" => {
            let uplinks = Rate(value(network, "uplink_rate_bps")?);
            let leaves = value(network, "hosts_per_leaf")?;
            presets::leaf_spine(hosts, leaves, value(network, "spines")?, (rate, uplinks), delay)
        }
        "rail" => {
            let nvlink_rate = Rate(value(network, "nvlink_rate_bps")?);
            let nvlinks = (nvlink_rate, Duration(value(network, "nvlink_delay_ps")?));
            presets::rail(hosts, value(network, "hosts_per_server")?, (rate, delay), nvlinks)
        }
        "links" => return of_links(network, hosts),
        _ => Err(PacketError::Invalid(format!("there is no topology '{kind}'"))),
    };
    built.map_err(refuse)
}

/// Hosts, switches with names, and links as they are listed.
fn of_links(network: &Bound<'_, PyDict>, hosts: u32) -> PyResult<Topology> {
    let mut topology = Topology::new();
    let mut nodes: Vec<NodeId> = (0..hosts).map(|_| topology.add_host()).collect();
    let switches: Vec<String> = value(network, "switches")?;
    nodes.extend(switches.into_iter().map(|name| topology.add_named_switch(name)));
    let node = |number: u32| {
        let found = nodes.get(number as usize).copied();
        found.ok_or_else(|| PyValueError::new_err(format!("there is no node {number}")))
    };
    let (first, second) = (column::<u32>(network, "first")?, column::<u32>(network, "second")?);
    let rates = column::<u64>(network, "rates_bps")?;
    let delays = column::<u64>(network, "delays_ps")?;
    for (((a, b), rate), delay) in first.into_iter().zip(second).zip(rates).zip(delays) {
        let (a, b) = (node(a)?, node(b)?);
        let layers = match (topology.is_host(a), topology.is_host(b)) {
            (true, true) => ("between hosts", "between hosts"),
            (true, false) => ("host up", "host down"),
            (false, true) => ("host down", "host up"),
            (false, false) => ("between switches", "between switches"),
        };
        topology.connect((a, b), Rate(rate), Duration(delay), layers).map_err(refuse)?;
    }
    Ok(topology)
}

/// What nodes are called: hosts by their number, switches by their name.
pub fn names(topology: &Topology) -> Vec<String> {
    let nodes = (0..topology.node_count() as u32).map(NodeId);
    let name = |node: NodeId| {
        if topology.is_host(node) { node.0.to_string() } else { topology.title(node) }
    };
    nodes.map(name).collect()
}

/// Flows from host to host: along the links of their route, if they have one; else, over rails, by
/// the rail-aware one, and everywhere else from first NIC to first NIC.
pub fn read_flows(
    flows: &Bound<'_, PyDict>,
    network: &Bound<'_, PyDict>,
    topology: &Topology,
) -> PyResult<Vec<FlowSpec>> {
    let source = column::<u32>(flows, "source")?;
    let destination = column::<u32>(flows, "destination")?;
    let size = column::<u64>(flows, "size_bytes")?;
    let start = column::<u64>(flows, "start_ps")?;
    // The links of flow f are those from place f of the starts on, to the next one's.
    let starts = column::<u64>(flows, "route_starts")?;
    let links = column::<u32>(flows, "route_links")?;
    let per_server: Option<u32> = match value::<String>(network, "topology")?.as_str() {
        "rail" => Some(value(network, "hosts_per_server")?),
        _ => None,
    };
    let nics = Nics::new(topology);
    let route = |flow: usize| match starts.get(flow..flow + 2) {
        Some(&[from, to]) if from < to => {
            Some(links[from as usize..to as usize].iter().copied().map(LinkId).collect())
        }
        _ => per_server.map(|most| presets::rail_route(most, source[flow], destination[flow])),
    };
    let flow = |flow: usize| {
        let route: Option<Vec<LinkId>> = route(flow);
        let ends = match route.as_deref() {
            Some([first, .., last]) => [nics.sending_by(*first)?, nics.sending_by(last.reverse())?],
            Some([only]) => [nics.sending_by(*only)?, nics.sending_by(only.reverse())?],
            _ => [nics.first_of(source[flow])?, nics.first_of(destination[flow])?],
        };
        let [source, destination] = ends;
        let (size, start) = (Bytes(size[flow]), Time(start[flow]));
        Ok(FlowSpec { source, destination, size, start, route })
    };
    (0..source.len()).map(flow).collect()
}

/// Which NICs hosts have, and which link is that of which NIC.
struct Nics {
    first: Vec<Option<NicId>>,
    by_link: Vec<Option<NicId>>,
}

impl Nics {
    fn new(topology: &Topology) -> Self {
        let mut first = vec![None; topology.node_count()];
        let mut by_link = vec![None; topology.links().len()];
        for nic in (0..topology.nic_count() as u32).map(NicId) {
            first[topology.host_of(nic).0 as usize].get_or_insert(nic);
            by_link[topology.uplink(nic).0 as usize] = Some(nic);
        }
        Self { first, by_link }
    }

    fn first_of(&self, host: u32) -> PyResult<NicId> {
        let found = self.first.get(host as usize).copied().flatten();
        found.ok_or_else(|| PyValueError::new_err(format!("no link joins host {host} to others")))
    }

    fn sending_by(&self, link: LinkId) -> PyResult<NicId> {
        let found = self.by_link.get(link.0 as usize).copied().flatten();
        found.ok_or_else(|| PyValueError::new_err(format!("link {} leaves no host", link.0)))
    }
}

/// When circuits are dark: one row per link and time.
pub fn read_circuits(network: &Bound<'_, PyDict>) -> PyResult<Vec<CircuitChange>> {
    let Some(table) = network.get_item("circuits")? else { return Ok(Vec::new()) };
    let table = table.cast_into::<PyDict>()?;
    let times = column::<u64>(&table, "time_ps")?.into_iter();
    let links = column::<u32>(&table, "link")?.into_iter();
    let dark = column::<bool>(&table, "is_dark")?.into_iter();
    let changes = times.zip(links).zip(dark);
    let change =
        |((time, link), dark)| CircuitChange { time: Time(time), link: LinkId(link), dark };
    Ok(changes.map(change).collect())
}
