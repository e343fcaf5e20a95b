//! The graph of a network, or of some of its servers: NICs, switches, circuits, relays.
//!
//! The packet fabric adds its switches and NICs itself (see [`crate::network::PacketFabric`]). A
//! circuit joins two servers directly. What a server passes on crosses a link inside it, to an
//! inner end and back. Racks whose circuits change have a switch each, and links one way between
//! them: the way back is for acknowledgments alone, and always lit, as matchings need not have the
//! circuit back. What a rack stores is at a host of its own.

use crate::links::link::End;
use lightloom_model::{Duration, Rate, ServerId};
use lightloom_packetsim::{Cable, NicId, NodeId, PacketError, PacketLinkId, Topology};
use rustc_hash::{FxHashMap, FxHashSet};

/// Where a packet fabric has a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Place {
    /// Its pod.
    pub pod: u32,
    /// Its ToR (rail: set of ToRs), over all pods.
    pub tor: u32,
}

/// Hosts are servers; links are in the order in which they were added.
#[derive(Debug)]
pub struct Graph {
    topology: Topology,
    hosts: Vec<NodeId>,
    /// NICs of each server on the packet fabric.
    nics: Vec<Vec<NicId>>,
    /// Circuits of each pair, from the smaller server to the larger.
    circuits: FxHashMap<(ServerId, ServerId), Vec<PacketLinkId>>,
    /// The path in and out of each server that passes bytes on.
    relays: FxHashMap<ServerId, [PacketLinkId; 2]>,
    /// Switches of racks, and hosts that store what racks pass on.
    rack_nodes: FxHashMap<End, NodeId>,
    /// Links of hosts at the switches of racks, up.
    rack_links: FxHashMap<(End, End), Vec<PacketLinkId>>,
    /// Whether NICs may spray packets over planes.
    sprays: bool,
    /// Switches of each plane over which they do.
    planes: Vec<Vec<NodeId>>,
}

impl Graph {
    /// So many servers that nothing joins yet, whose NICs may spray packets over planes or not.
    pub(crate) fn new(servers: usize, sprays: bool) -> Self {
        let mut topology = Topology::new();
        let hosts = (0..servers).map(|_| topology.add_host()).collect();
        Self {
            topology,
            hosts,
            nics: vec![Vec::new(); servers],
            circuits: FxHashMap::default(),
            relays: FxHashMap::default(),
            rack_nodes: FxHashMap::default(),
            rack_links: FxHashMap::default(),
            sprays,
            planes: Vec::new(),
        }
    }

    /// Refuses so many more links if memory would not hold all.
    ///
    /// # Errors
    /// Says how many there would be.
    pub fn check_room(&self, links: u64) -> Result<(), PacketError> {
        self.topology.check_room(links)
    }

    /// Adds a switch.
    pub fn add_switch(&mut self) -> NodeId {
        self.topology.add_switch()
    }

    /// Over how many of so many planes NICs spray packets: one, where they must not.
    pub(crate) fn planes(&self, planes: u32) -> u32 {
        if self.sprays { planes } else { 1 }
    }

    /// Adds a switch of a plane.
    pub(crate) fn add_switch_of(&mut self, plane: u32) -> NodeId {
        let node = self.topology.add_switch();
        let planes = self.planes.len().max(plane as usize + 1);
        self.planes.resize(planes, Vec::new());
        self.planes[plane as usize].push(node);
        node
    }

    /// All links of a plane, both ways; none if there is no such plane.
    pub(super) fn links_of_plane(&self, plane: u32) -> Vec<PacketLinkId> {
        let Some(switches) = self.planes.get(plane as usize) else { return Vec::new() };
        let switches: FxHashSet<NodeId> = switches.iter().copied().collect();
        let links = self.topology.links();
        let is_in = |link: &PacketLinkId| {
            let spec = links[link.0 as usize];
            switches.contains(&spec.from) || switches.contains(&spec.to)
        };
        (0..links.len() as u32).map(PacketLinkId).filter(is_in).collect()
    }

    /// Adds a NIC of a server on the packet fabric, connected to a switch, or by a port each to
    /// those of several planes.
    ///
    /// # Errors
    /// If the graph is too large.
    pub fn add_nic(
        &mut self,
        server: ServerId,
        switches: &[NodeId],
        port: Cable,
    ) -> Result<(), PacketError> {
        let nic = NicId(self.topology.nic_count() as u32);
        let (host, layers) = (self.hosts[server.index()], ["nic up", "nic down"]);
        if let &[switch] = switches {
            self.connect(host, switch, port, layers)?;
        } else {
            let ports = switches.len() as u32;
            let node = self.topology.add_spraying_nic(format!("nic {}", nic.0), ports);
            let rate = Rate(port.rate.0.saturating_mul(u64::from(ports)));
            self.connect(host, node, Cable { rate, delay: Duration::ZERO }, layers)?;
            for &switch in switches {
                self.connect(node, switch, port, ["port up", "port down"])?;
            }
        }
        self.nics[server.index()].push(nic);
        Ok(())
    }

    /// Connects two nodes by a link each way.
    ///
    /// # Errors
    /// If the graph is too large.
    pub fn connect(
        &mut self,
        a: NodeId,
        b: NodeId,
        cable: Cable,
        layers: [&str; 2],
    ) -> Result<(), PacketError> {
        self.topology.connect(a, b, cable, layers).map(|_| ())
    }

    /// The graph as the simulator takes it.
    pub(super) fn topology(&self) -> &Topology {
        &self.topology
    }

    /// A group of the NICs of a server on the packet fabric; groups are of `count` each.
    pub(super) fn nics(&self, server: ServerId, group: u16, count: u32) -> &[NicId] {
        let count = count as usize;
        &self.nics[server.index()][usize::from(group) * count..][..count]
    }

    /// The links of all circuits that may ever lead from one server to another.
    pub(super) fn circuits(
        &mut self,
        from: ServerId,
        to: ServerId,
        members: u32,
        cable: Cable,
    ) -> Result<Vec<PacketLinkId>, PacketError> {
        let (low, high) = (from.min(to), from.max(to));
        let [a, b] = [low, high].map(|server| self.hosts[server.index()]);
        let links = self.circuits.entry((low, high)).or_default();
        while links.len() < members as usize {
            links.push(self.topology.connect(a, b, cable, ["circuit", "circuit"])?);
        }
        let is_forward = from == low;
        Ok(links.iter().map(|link| if is_forward { *link } else { link.reverse() }).collect())
    }

    /// The links from one end to another, one of which is the switch of a rack.
    pub(super) fn rack_links(
        &mut self,
        from: End,
        to: End,
        members: u32,
        cable: Cable,
    ) -> Result<Vec<PacketLinkId>, PacketError> {
        if let (End::Rack(_), End::Server(_) | End::Store(_)) = (from, to) {
            let up = self.rack_links(to, from, members, cable)?;
            return Ok(up.into_iter().map(PacketLinkId::reverse).collect());
        }
        if let Some(links) = self.rack_links.get(&(from, to)) {
            return Ok(links.clone());
        }
        let [a, b] = [from, to].map(|end| self.rack_node(end));
        let is_between = matches!((from, to), (End::Rack(_), End::Rack(_)));
        let layers = if is_between { ["between racks", "back"] } else { ["nic up", "nic down"] };
        let mut connect = |_| self.topology.connect(a, b, cable, layers);
        let links: Vec<_> = (0..members).map(&mut connect).collect::<Result<_, _>>()?;
        if !is_between {
            self.rack_links.insert((from, to), links.clone());
        }
        Ok(links)
    }

    fn rack_node(&mut self, end: End) -> NodeId {
        if let End::Server(server) = end {
            return self.hosts[server.index()];
        }
        let topology = &mut self.topology;
        *self.rack_nodes.entry(end).or_insert_with(|| match end {
            End::Store(_) => topology.add_host(),
            _ => topology.add_switch(),
        })
    }

    /// The links into a server's inner end and back, over which it passes bytes on.
    pub(super) fn relay(
        &mut self,
        server: ServerId,
        cable: Cable,
    ) -> Result<[PacketLinkId; 2], PacketError> {
        if let Some(links) = self.relays.get(&server) {
            return Ok(*links);
        }
        let inner = self.topology.add_host();
        let half = Cable { delay: Duration(cable.delay.0.div_ceil(2)), ..cable };
        let host = self.hosts[server.index()];
        let link = self.topology.connect(host, inner, half, ["relay in", "relay out"])?;
        let links = [link, link.reverse()];
        self.relays.insert(server, links);
        Ok(links)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::Eps;
    use crate::testing::{GBPS, eps, packet};
    use std::collections::{BTreeMap, VecDeque};

    const NIC_RATE: u64 = 400 * GBPS;

    /// The graph that a fabric builds for these servers, the first of which are its hosts.
    fn built(fabric: &Eps, servers: u32, chosen: &[u32]) -> Graph {
        let network = packet(servers).with(fabric.clone());
        let fabric = network.packet_fabric().expect("a packet fabric");
        let places: Vec<Place> =
            chosen.iter().map(|&server| fabric.place(ServerId(server))).collect();
        let mut graph = Graph::new(chosen.len(), true);
        fabric.connect(&network, &places, &mut graph).expect("a small graph");
        graph
    }

    /// How many links there are of each layer, and the bits per second of all of them.
    fn layers(graph: &Graph) -> BTreeMap<&str, (usize, u64)> {
        let mut found = BTreeMap::new();
        for link in graph.topology.links() {
            let name = graph.topology.layers()[usize::from(link.layer)].as_str();
            let (count, rate) = found.entry(name).or_insert((0, 0));
            *count += 1;
            *rate += link.rate.0;
        }
        found
    }

    /// Links from a NIC's first switch to the host at the other end of another NIC, plus its own.
    fn distance(graph: &Graph, from: NicId, to: NicId) -> u64 {
        let links = graph.topology.links();
        let up = graph.topology.uplink(from).0 as usize;
        let down = graph.topology.uplink(to).0 as usize;
        let (start, end) = (links[up].to, links[down].to);
        let mut seen = vec![None; graph.topology.node_count()];
        seen[start.0 as usize] = Some(0);
        let mut next = VecDeque::from([start]);
        while let Some(node) = next.pop_front() {
            for link in links.iter().filter(|link| link.from == node) {
                if !graph.topology.is_host(link.to) && seen[link.to.0 as usize].is_none() {
                    seen[link.to.0 as usize] = seen[node.0 as usize].map(|hops: u64| hops + 1);
                    next.push_back(link.to);
                }
            }
        }
        seen[end.0 as usize].expect("a connected fabric") + 2
    }

    #[test]
    fn the_shortest_paths_are_as_long_as_the_fabric_says() {
        for (rails, planes) in [(1, 1), (2, 1), (2, 2)] {
            let sizes = Eps { nics: 2, servers_per_tor: 2, servers_per_pod: 4, ..eps(8) };
            let fabric = Eps { rails, planes, ..sizes };
            let graph = built(&fabric, 8, &[0, 1, 2, 3, 4, 5, 6, 7]);
            let network = packet(8).with(fabric);
            let described = network.packet_fabric().expect("a packet fabric");
            let all = (0..8_u32).flat_map(|server| [(server, 0_u16), (server, 1)]);
            let pairs = all.clone().flat_map(|one| all.clone().map(move |two| (one, two)));
            // nothing joins two planes
            let joined = pairs.filter(|((_, rail), (_, other))| planes == 1 || rail == other);
            for ((from, rail), (to, other)) in joined {
                let [source, destination] = [(from, rail), (to, other)]
                    .map(|(server, group)| graph.nics(ServerId(server), group, 1)[0]);
                let places = [from, to].map(|server| described.place(ServerId(server)));
                let expected = described.hops(places[0], places[1], rail == other);
                let hops = distance(&graph, source, destination);
                assert_eq!(hops, expected, "{from}.{rail} to {to}.{other}");
            }
        }
    }

    #[test]
    fn a_fabric_without_a_bottleneck_has_as_much_above_as_below() {
        for (servers_per_tor, servers_per_pod) in [(1, 2), (2, 4), (1, 4)] {
            let fabric = Eps { nics: 4, servers_per_tor, servers_per_pod, ..eps(8) };
            let graph = built(&fabric, 8, &[0, 1, 2, 3, 4, 5, 6, 7]);
            let whole = (8 * 4, 8 * 4 * NIC_RATE);
            for (layer, found) in layers(&graph) {
                assert_eq!(found, whole, "{layer} of {servers_per_tor}, {servers_per_pod}");
            }
            assert_eq!(layers(&graph).len(), 6);
        }
    }

    #[test]
    fn the_uplinks_of_a_tor_are_together_as_fast_as_they_are_said_to_be() {
        // Eight NICs below each ToR: 3.2 Tb/s. More than that is of no use to anybody.
        for (uplink, count, total) in [
            (3200, 8, 3200),
            (6400, 8, 3200),
            (1600, 4, 1600),
            (900, 3, 900),
            (400, 1, 400),
            (100, 1, 100),
        ] {
            let fabric = Eps {
                servers_per_tor: 1,
                servers_per_pod: 2,
                tor_uplink: Some(Rate(uplink * GBPS)),
                ..eps(2)
            };
            let graph = built(&fabric, 2, &[0, 1]);
            for layer in ["tor up", "tor down"] {
                let (links, rate) = layers(&graph)[layer];
                assert_eq!((links, rate / GBPS), (2 * count, 2 * total), "{uplink} Gb/s");
            }
        }
    }

    #[test]
    fn servers_under_one_tor_need_nothing_above_it() {
        let fabric = Eps { nics: 3, servers_per_tor: 4, servers_per_pod: 8, ..eps(16) };
        let near = built(&fabric, 16, &[0, 3, 2]);
        assert_eq!(near.topology.node_count(), 3 + 1);
        assert_eq!(layers(&near).keys().copied().collect::<Vec<_>>(), ["nic down", "nic up"]);
        // Two ToRs of one pod: no cores. Two pods: cores as well.
        let pod = layers(&built(&fabric, 16, &[0, 4])).len();
        let far = layers(&built(&fabric, 16, &[0, 8])).len();
        assert_eq!((pod, far), (4, 6));
    }

    #[test]
    fn which_servers_of_a_fabric_these_are_does_not_matter() {
        let fabric = Eps { nics: 2, servers_per_tor: 2, servers_per_pod: 4, ..eps(16) };
        let links = |chosen: &[u32]| built(&fabric, 16, chosen).topology.links().to_vec();
        let first = links(&[0, 1, 2, 4]);
        assert_eq!(links(&[8, 9, 10, 12]), first);
        assert_eq!(links(&[15, 14, 13, 3]), first);
        assert_ne!(links(&[0, 2, 1, 4]), first);
    }

    #[test]
    fn the_rails_of_a_server_are_under_tors_of_their_own() {
        let fabric = Eps { nics: 4, rails: 4, ..eps(3) };
        let graph = built(&fabric, 3, &[0, 1, 2]);
        let tor = |server: u32, nic: u16| {
            let nic = graph.nics(ServerId(server), nic, 1)[0];
            graph.topology.links()[graph.topology.uplink(nic).0 as usize].to
        };
        for nic in 0..4 {
            assert!((1..3).all(|server| tor(server, nic) == tor(0, nic)));
            assert!((0..nic).all(|other| tor(0, other) != tor(0, nic)));
        }
        // Each rail reaches the others over as many uplinks as it has NICs.
        assert_eq!(layers(&graph)["tor up"], (4 * 3, 4 * 3 * NIC_RATE));
    }

    #[test]
    fn consecutive_nics_share_a_tor() {
        let graph = built(&Eps { nics: 6, rails: 2, ..eps(3) }, 3, &[0, 1, 2]);
        let tor = |nic: u16| {
            let nic = graph.nics(ServerId(1), nic, 1)[0];
            graph.topology.links()[graph.topology.uplink(nic).0 as usize].to
        };
        assert!((0..6).all(|nic| (tor(nic) == tor(0)) == (nic < 3)));
        assert_eq!(layers(&graph)["tor up"].1, 6 * 3 * NIC_RATE);
    }

    #[test]
    fn groups_of_nics_partition_those_of_a_server() {
        let graph = built(&Eps { nics: 6, ..eps(2) }, 2, &[0, 1]);
        for server in [ServerId(0), ServerId(1)] {
            let all = graph.nics(server, 0, 6).to_vec();
            for count in [1, 2, 3] {
                let groups = (0..6 / count as u16).map(|group| graph.nics(server, group, count));
                assert_eq!(groups.collect::<Vec<_>>().concat(), all);
            }
            for nic in all {
                assert_eq!(graph.topology.host_of(nic), graph.hosts[server.index()]);
            }
        }
    }

    #[test]
    fn racks_are_joined_one_way_and_servers_both_ways() {
        let mut graph = Graph::new(2, true);
        let mut links = |from, to, members| {
            graph.rack_links(from, to, members, cable(7)).expect("links of racks")
        };
        let [server, rack, other] = [End::Server(ServerId(1)), End::Rack(0), End::Rack(1)];
        let up = links(server, rack, 3);
        let down: Vec<_> = up.iter().map(|link| link.reverse()).collect();
        assert_eq!(links(rack, server, 3), down);
        let there = links(rack, other, 2);
        let back = links(other, rack, 2);
        assert!(there.iter().all(|link| !back.contains(&link.reverse())));
        let store = links(rack, End::Store(0), 1);
        assert_eq!(links(End::Store(0), rack, 1), [store[0].reverse()]);
        let spec = |link: PacketLinkId| graph.topology.links()[link.0 as usize];
        assert_eq!((spec(up[0]).from, spec(up[2]).to), (graph.hosts[1], spec(there[0]).from));
        assert_eq!(spec(there[1]).to, spec(back[0]).from);
        assert!(graph.topology.is_host(spec(store[0]).to));
    }

    fn cable(delay: u64) -> Cable {
        Cable { rate: Rate(NIC_RATE), delay: Duration(delay) }
    }

    #[test]
    fn both_ways_of_a_pair_are_the_same_circuits() {
        let mut graph = Graph::new(3, true);
        let mut circuits = |from, to, members| {
            graph.circuits(ServerId(from), ServerId(to), members, cable(7)).expect("circuits")
        };
        let there = circuits(0, 2, 2);
        let back = circuits(2, 0, 3);
        let reverse: Vec<_> = there.iter().map(|link| link.reverse()).collect();
        assert_eq!((there.len(), &back[..2]), (2, &reverse[..]));
        // A pair keeps the circuits that it once had, and those of others are not among them.
        assert_eq!(circuits(0, 2, 1).len(), 3);
        let other = circuits(1, 2, 1);
        assert!(!back.contains(&other[0]) && !back.contains(&other[0].reverse()));
        for (link, ends) in [(there[0], [0, 2]), (back[2], [2, 0]), (other[0], [1, 2])] {
            let spec = graph.topology.links()[link.0 as usize];
            assert_eq!([spec.from, spec.to], ends.map(|server: usize| graph.hosts[server]));
        }
    }

    #[test]
    fn a_relay_takes_its_delay_in_all() {
        let mut graph = Graph::new(2, true);
        for (server, delay) in [(0, 10), (1, 7)] {
            let [inward, outward] = graph.relay(ServerId(server), cable(delay)).expect("a relay");
            let links = graph.topology.links();
            let [inward, outward] = [inward, outward].map(|link| links[link.0 as usize]);
            assert_eq!((inward.from, inward.to), (outward.to, outward.from));
            assert_eq!(inward.from, graph.hosts[server as usize]);
            let both = inward.delay.0 + outward.delay.0;
            assert!(both == delay || both == delay + 1, "{both} of {delay}");
        }
        let nodes = graph.topology.node_count();
        let again = graph.relay(ServerId(1), cable(7)).expect("a relay");
        assert_eq!(again, graph.relay(ServerId(1), cable(99)).expect("a relay"));
        assert_eq!(graph.topology.node_count(), nodes);
    }
}
