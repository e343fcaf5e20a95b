//! The graph: hosts, switches and the directed links between them.
//!
//! A duplex connection is two links, `2 i` and `2 i + 1`. A link that leaves a host is a NIC of
//! it; flows begin and end at NICs. A host may have several, and may relay packets from one to
//! another along explicit routes.

use crate::error::PacketError;
use lightloom_model::{Duration, Rate};
use rustc_hash::{FxHashMap, FxHashSet};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A host or a switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

/// A directed link with the output queue at its sending end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PacketLinkId(pub u32);

/// A host's end of a connection, where flows begin and end; indices are in the order in which hosts
/// were connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NicId(pub u32);

impl NodeId {
    /// Its index, for arrays.
    #[inline]
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

impl NicId {
    /// Its index, for arrays.
    #[inline]
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

impl PacketLinkId {
    /// Its index, for arrays.
    #[inline]
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }

    /// The link in the other direction.
    #[must_use]
    pub fn reverse(self) -> Self {
        Self(self.0 ^ 1)
    }
}

/// What both directions of a connection have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cable {
    /// Rate of each direction.
    pub rate: Rate,
    /// Propagation delay.
    pub delay: Duration,
}

/// One direction of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkSpec {
    /// Sending end.
    pub from: NodeId,
    /// Receiving end.
    pub to: NodeId,
    /// Rate.
    pub rate: Rate,
    /// Propagation delay.
    pub delay: Duration,
    /// Index of its layer, for statistics; see [`Topology::layers`].
    pub layer: u8,
}

/// Maximum number of duplex links: what memory of some gigabytes holds.
pub(crate) const MAX_LINKS: u64 = 1 << 22;

/// So that sums of times fit 64 bits.
const LONGEST_DELAY: Duration = Duration(1_000_000_000_000_000_000);

/// Hosts, switches, links.
#[derive(Debug, Clone, Default)]
pub struct Topology {
    is_host: Vec<bool>,
    /// Names of switches that have one.
    names: FxHashMap<NodeId, String>,
    links: Vec<LinkSpec>,
    uplinks: Vec<PacketLinkId>,
    layers: Vec<String>,
    /// NICs with several ports that spray packets over them, and over how many.
    spraying: Vec<NodeId>,
    ports: u32,
    dragonfly: Option<Dragonfly>,
    /// Switches of the dragonfly, with their index in its plane.
    routers: Vec<(NodeId, u32)>,
    /// Links between its groups, both ways.
    global: FxHashSet<PacketLinkId>,
}

/// Sizes of a dragonfly (Kim et al., ISCA 2008): each switch has `hosts_per_switch` hosts (p of the
/// paper), a link to each other of the `switches_per_group` ones of its group (a), and
/// `global_links` to other groups (h).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dragonfly {
    /// p of the paper.
    pub hosts_per_switch: u32,
    /// a of the paper.
    pub switches_per_group: u32,
    /// h of the paper.
    pub global_links: u32,
}

impl Topology {
    /// An empty graph.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a host.
    pub fn add_host(&mut self) -> NodeId {
        self.is_host.push(true);
        NodeId(self.is_host.len() as u32 - 1)
    }

    /// Adds a switch.
    pub fn add_switch(&mut self) -> NodeId {
        self.is_host.push(false);
        NodeId(self.is_host.len() as u32 - 1)
    }

    /// Adds a switch with a name for messages.
    pub fn add_named_switch(&mut self, name: impl Into<String>) -> NodeId {
        let node = self.add_switch();
        self.names.insert(node, name.into());
        node
    }

    /// Adds a NIC that is joined to its host and sprays packets over its other links, its ports on
    /// so many planes; all such NICs of a topology are alike.
    pub fn add_spraying_nic(&mut self, name: impl Into<String>, ports: u32) -> NodeId {
        let node = self.add_named_switch(name);
        self.spraying.push(node);
        self.ports = ports;
        node
    }

    /// A dragonfly has these switches, a plane of it, in their order.
    pub(crate) fn add_dragonfly(&mut self, shape: Dragonfly, switches: &[NodeId]) {
        self.dragonfly = Some(shape);
        self.routers.extend(switches.iter().zip(0..).map(|(&node, index)| (node, index)));
    }

    /// A link, and its reverse, joins two groups of a dragonfly.
    pub(crate) fn set_global(&mut self, link: PacketLinkId) {
        self.global.extend([link, link.reverse()]);
    }

    /// Whether a link joins two groups of a dragonfly.
    pub fn is_global(&self, link: PacketLinkId) -> bool {
        self.global.contains(&link)
    }

    /// The sizes of a dragonfly, and its switches with their index in their plane.
    pub fn dragonfly(&self) -> Option<(Dragonfly, &[(NodeId, u32)])> {
        self.dragonfly.map(|shape| (shape, self.routers.as_slice()))
    }

    /// What a link adds to the length of a path: three if it joins groups of a dragonfly, so that
    /// no shortest path crosses two of these where one leads there; else one.
    pub(crate) fn cost(&self, link: PacketLinkId) -> u32 {
        if self.is_global(link) { 3 } else { 1 }
    }

    /// The NICs that spray packets over their ports.
    pub fn spraying_nics(&self) -> &[NodeId] {
        &self.spraying
    }

    /// Over how many links like this one, side by side, NICs spray the packets of a flow.
    pub fn width(&self, link: PacketLinkId) -> u32 {
        let LinkSpec { from, to, .. } = self.links[link.index()];
        let inside = self.is_host(from) || self.is_host(to);
        if self.spraying.is_empty() || inside { 1 } else { self.ports }
    }

    /// The name of a node in messages: that of a switch if it has one, else its kind and index.
    pub fn title(&self, node: NodeId) -> String {
        let kind = if self.is_host(node) { "host" } else { "switch" };
        self.names.get(&node).cloned().unwrap_or_else(|| format!("{kind} {}", node.0))
    }

    /// The name of a NIC in messages: its host if that has no other, else its index and host.
    pub fn nic_title(&self, nic: NicId) -> String {
        let host = self.host_of(nic);
        let nics = self.uplinks.iter().filter(|link| self.links[link.index()].from == host);
        match nics.count() {
            1 => self.title(host),
            _ => format!("NIC {} of {}", nic.0, self.title(host)),
        }
    }

    /// Refuses so many more duplex links if memory would not hold all.
    ///
    /// # Errors
    /// If there would be over 4,194,304.
    pub fn check_room(&self, more: u64) -> Result<(), PacketError> {
        let links = (self.links.len() as u64 / 2).saturating_add(more);
        if links <= MAX_LINKS {
            return Ok(());
        }
        Err(PacketError::invalid(format!("{links} links; expected at most {MAX_LINKS}")))
    }

    /// Connects two nodes both ways; returns the link from `a` to `b`. The layers' names are those
    /// of the link from `a` to `b` and of its reverse, as in `["host up", "host down"]`.
    ///
    /// # Errors
    /// If a node does not exist, both are one, the rate is zero, the delay over 1,000,000 s, or
    /// there are 4,194,304 already.
    pub fn connect(
        &mut self,
        a: NodeId,
        b: NodeId,
        cable: Cable,
        layers: [&str; 2],
    ) -> Result<PacketLinkId, PacketError> {
        let Cable { rate, delay } = cable;
        let nodes = self.is_host.len() as u32;
        if a.0 >= nodes || b.0 >= nodes || a == b {
            return Err(PacketError::invalid(format!(
                "a link joins node {} and node {}; expected two different ones of {nodes}",
                a.0, b.0
            )));
        }
        if rate.0 == 0 {
            return Err(PacketError::invalid(format!(
                "the link between node {} and node {} has rate 0; give a rate above 0 b/s",
                a.0, b.0
            )));
        }
        if delay > LONGEST_DELAY {
            return Err(PacketError::invalid(format!(
                "the link between node {} and node {} has a delay of {} s; expected at most \
                 1,000,000 s",
                a.0,
                b.0,
                delay.as_seconds()
            )));
        }
        self.check_room(1)?;
        let link = PacketLinkId(self.links.len() as u32);
        for (from, to, layer) in [(a, b, layers[0]), (b, a, layers[1])] {
            let layer = self.layer(layer);
            if self.is_host[from.index()] {
                self.uplinks.push(PacketLinkId(self.links.len() as u32));
            }
            self.links.push(LinkSpec { from, to, rate, delay, layer });
        }
        Ok(link)
    }

    fn layer(&mut self, name: &str) -> u8 {
        let layer = self.layers.iter().position(|other| other == name);
        let index = layer.unwrap_or_else(|| {
            self.layers.push(name.to_owned());
            self.layers.len() - 1
        });
        u8::try_from(index).expect("a topology has at most 256 layers")
    }

    /// All links by their ids.
    pub fn link_ids(&self) -> impl Iterator<Item = PacketLinkId> + use<> {
        (0..self.links.len() as u32).map(PacketLinkId)
    }

    /// All links.
    pub fn links(&self) -> &[LinkSpec] {
        &self.links
    }

    /// Names of the layers of links.
    pub fn layers(&self) -> &[String] {
        &self.layers
    }

    /// Number of nodes.
    pub fn node_count(&self) -> usize {
        self.is_host.len()
    }

    /// Whether a node is a host.
    pub fn is_host(&self, node: NodeId) -> bool {
        self.is_host[node.index()]
    }

    /// Number of NICs.
    pub fn nic_count(&self) -> usize {
        self.uplinks.len()
    }

    /// The link by which a NIC sends; it receives by the reverse one.
    pub fn uplink(&self, nic: NicId) -> PacketLinkId {
        self.uplinks[nic.index()]
    }

    /// The host of a NIC.
    pub fn host_of(&self, nic: NicId) -> NodeId {
        self.links[self.uplink(nic).index()].from
    }

    /// Whether links lead from one NIC to another, one after the other.
    pub(crate) fn is_route(
        &self,
        source: NicId,
        destination: NicId,
        route: &[PacketLinkId],
    ) -> bool {
        let follows = |pair: &[PacketLinkId]| {
            self.links[pair[0].index()].to == self.links[pair[1].index()].from
        };
        route.iter().all(|link| link.index() < self.links.len())
            && route.windows(2).all(follows)
            && route.first() == Some(&self.uplink(source))
            && route.last() == Some(&self.uplink(destination).reverse())
            && route.len() <= 1 << 15
    }

    /// The longest of the shortest delays from a host to others, from 64 hosts at most, evenly
    /// spread.
    pub fn longest_delay(&self) -> Duration {
        let out = self.links_out();
        let hosts: Vec<usize> =
            (0..self.node_count()).filter(|&node| self.is_host(NodeId(node as u32))).collect();
        let step = hosts.len().div_ceil(64).max(1);
        let farthest = |&from: &usize| {
            let reached = self.delays_from(&out, from);
            hosts.iter().map(|&host| reached[host]).filter(|&it| it < u64::MAX).max()
        };
        Duration(hosts.iter().step_by(step).filter_map(farthest).max().unwrap_or_default())
    }

    /// The shortest delay from a node to every other, in ps; [`u64::MAX`] if there is no way.
    fn delays_from(&self, out: &[Vec<PacketLinkId>], from: usize) -> Vec<u64> {
        let mut reached = vec![u64::MAX; out.len()];
        reached[from] = 0;
        let mut waiting = BinaryHeap::from([Reverse((0, from))]);
        while let Some(Reverse((delay, node))) = waiting.pop() {
            if delay > reached[node] {
                continue;
            }
            for link in out[node].iter().map(|link| &self.links[link.index()]) {
                let (next, sum) = (link.to.index(), delay + link.delay.0);
                if sum < reached[next] {
                    reached[next] = sum;
                    waiting.push(Reverse((sum, next)));
                }
            }
        }
        reached
    }

    /// The links that leave each node, in the order of creation.
    pub(crate) fn links_out(&self) -> Vec<Vec<PacketLinkId>> {
        let mut out = vec![Vec::new(); self.node_count()];
        for (index, link) in self.links.iter().enumerate() {
            out[link.from.index()].push(PacketLinkId(index as u32));
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_two_links_and_hosts_ends_are_nics() {
        let mut topology = Topology::new();
        let (host, switch) = (topology.add_host(), topology.add_switch());
        let (cable, names) = (Cable { rate: Rate(5), delay: Duration(7) }, ["up", "down"]);
        let up = topology.connect(host, switch, cable, names).unwrap();
        assert_eq!(up, PacketLinkId(0));
        assert_eq!(topology.links()[1].from, switch);
        assert_eq!((topology.nic_count(), topology.uplink(NicId(0))), (1, up));
        assert_eq!(topology.layers(), ["up", "down"]);
        let other = topology.add_named_switch("core-1");
        assert_eq!(topology.title(other), "core-1");
        assert_eq!([host, switch].map(|node| topology.title(node)), ["host 0", "switch 1"]);
        let other = topology.add_host();
        let down = topology.connect(switch, other, cable, ["down", "up"]).unwrap();
        assert_eq!(topology.uplink(NicId(1)), down.reverse());
        assert_eq!(topology.host_of(NicId(1)), other);
        topology.connect(other, host, cable, names).unwrap();
        let titles = [0, 1, 2].map(|nic| topology.nic_title(NicId(nic)));
        assert_eq!(titles, ["NIC 0 of host 0", "NIC 1 of host 3", "NIC 2 of host 3"]);
        assert_eq!(topology.links()[down.index()].layer, topology.links()[1].layer);
    }

    #[test]
    fn wrong_links_are_refused() {
        let mut topology = Topology::new();
        let (a, b) = (topology.add_host(), topology.add_host());
        let mut text = |a, b, rate| {
            let cable = Cable { rate: Rate(rate), delay: Duration(1) };
            topology.connect(a, b, cable, ["", ""]).unwrap_err().to_string()
        };
        assert_eq!(
            text(a, a, 1),
            "a link joins node 0 and node 0; expected two different ones of 2"
        );
        assert_eq!(
            text(a, b, 0),
            "the link between node 0 and node 1 has rate 0; give a rate above 0 b/s"
        );
    }

    #[test]
    fn routes_begin_and_end_at_their_nics_and_have_no_gap() {
        let mut topology = Topology::new();
        let hosts: Vec<_> = (0..4).map(|_| topology.add_host()).collect();
        let cable = Cable { rate: Rate(1), delay: Duration(1) };
        // A line of hosts: links 0, 2 and 4 lead forward.
        for pair in hosts.windows(2) {
            topology.connect(pair[0], pair[1], cable, ["there", "back"]).unwrap();
        }
        let is_route = |source, destination, links: &[u32]| {
            let links: Vec<PacketLinkId> = links.iter().copied().map(PacketLinkId).collect();
            topology.is_route(NicId(source), NicId(destination), &links)
        };
        // NICs in the order of connection: 0-1, 2-3, 4-5.
        assert!(is_route(0, 1, &[0]) && is_route(0, 5, &[0, 2, 4]) && is_route(5, 0, &[5, 3, 1]));
        assert!(!is_route(0, 5, &[0, 4]), "a gap");
        assert!(!is_route(0, 5, &[0, 2]), "too short");
        assert!(!is_route(2, 5, &[0, 2, 4]), "begins elsewhere");
        assert!(!is_route(0, 5, &[]) && !is_route(0, 1, &[6]));
        assert!(!is_route(0, 1, &[0, 1, 0].repeat(20_000)), "longer than a packet can count");
        assert_eq!(topology.link_ids().map(|link| link.0).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn links_out_are_in_the_order_of_creation() {
        let mut topology = Topology::new();
        let [a, b, c] = [topology.add_switch(), topology.add_switch(), topology.add_host()];
        let cable = Cable { rate: Rate(1), delay: Duration(1) };
        for (from, to) in [(a, b), (c, a), (b, c), (a, b)] {
            topology.connect(from, to, cable, ["x", "y"]).unwrap();
        }
        let out: Vec<Vec<u32>> = topology
            .links_out()
            .into_iter()
            .map(|links| links.into_iter().map(|link| link.0).collect())
            .collect();
        assert_eq!(out, [vec![0, 3, 6], vec![1, 4, 7], vec![2, 5]]);
    }
}
