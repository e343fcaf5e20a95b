//! Which link comes next: tables of shortest paths, and the hash that chooses among equal ones.
//!
//! NICs under one switch form a group; a switch has a few *choices*, sets of links, and a row gives
//! per group the choice of shortest paths to it. Choices are indexed in the order in which they
//! come up, so switches in alike places (all at the top of a fat tree, all of one pod) have the
//! same row, which is stored once: every hop reads here, and in a large network a table of all
//! switches would be in no near cache. Hosts do not forward packets here; those that shall are on
//! explicit routes.

use crate::error::PacketError;
use crate::flow::Endpoints;
use crate::hash::mix;
use crate::topology::{NicId, NodeId, PacketLinkId, Topology};
use rustc_hash::FxHashMap;

const UNREACHABLE: u32 = u32::MAX;
const NO_GROUP: u32 = u32::MAX;
const NO_ROW: u32 = u32::MAX;

/// Equal-cost links.
#[derive(Debug, Clone, Copy, Default)]
struct Choice {
    /// If there is one link, its index; if several, where in `Routing::candidates` they begin.
    first: u32,
    count: u32,
}

/// Routing state of a node.
#[derive(Debug, Clone, Copy)]
struct Node {
    /// Differs per node, so that the choices of successive switches are independent.
    salt: u64,
    /// Group of the NICs attached to it.
    group: u32,
    /// Where in `rows` its row begins.
    row: u32,
    /// Its first choice.
    first_choice: u32,
}

/// Where a NIC is attached.
#[derive(Debug, Clone, Copy)]
struct Place {
    /// Its group.
    group: u32,
    /// The link to it.
    downlink: PacketLinkId,
}

/// Routing tables of a topology.
#[derive(Debug, Clone)]
pub(crate) struct Routing {
    places: Vec<Place>,
    nodes: Vec<Node>,
    /// Per group the index of a choice among those of the switch.
    rows: Vec<u16>,
    choices: Vec<Choice>,
    candidates: Vec<PacketLinkId>,
}

impl Routing {
    /// Finds all shortest paths.
    ///
    /// # Errors
    /// If NICs are attached to more than 65,535 nodes.
    pub(crate) fn new(topology: &Topology, seed: u64) -> Result<Self, PacketError> {
        Self::without(topology, seed, |_| false)
    }

    /// As [`Self::new`], over no link that has failed (in both directions).
    pub(crate) fn without(
        topology: &Topology,
        seed: u64,
        has_failed: impl Fn(PacketLinkId) -> bool,
    ) -> Result<Self, PacketError> {
        let node = |index: u64| Node {
            salt: mix(seed ^ mix(index)),
            group: NO_GROUP,
            row: NO_ROW,
            first_choice: 0,
        };
        let mut nodes: Vec<Node> = (0..topology.node_count() as u64).map(node).collect();
        let mut roots = Vec::new();
        let mut places = Vec::with_capacity(topology.nic_count());
        for nic in 0..topology.nic_count() as u32 {
            let uplink = topology.uplink(NicId(nic));
            let attached = topology.links()[uplink.index()].to;
            let group = &mut nodes[attached.index()].group;
            if *group == NO_GROUP {
                *group = roots.len() as u32;
                roots.push(attached);
            }
            places.push(Place { group: *group, downlink: uplink.reverse() });
        }
        if roots.len() > usize::from(u16::MAX) {
            return Err(PacketError::invalid(format!(
                "NICs are attached to {} switches; expected at most 65,535",
                roots.len()
            )));
        }
        let (rows, choices, candidates) = Default::default();
        let mut routing = Self { places, nodes, rows, choices, candidates };
        let mut out = topology.links_out();
        for links in &mut out {
            links.retain(|&link| !has_failed(link));
        }
        routing.fill(topology, &out, &roots);
        Ok(routing)
    }

    fn fill(&mut self, topology: &Topology, out: &[Vec<PacketLinkId>], roots: &[NodeId]) {
        let switches: Vec<usize> = (0..topology.node_count())
            .filter(|&node| !topology.is_host(NodeId(node as u32)))
            .collect();
        let mut table = vec![0_u16; switches.len() * roots.len()];
        // Per switch, first of all no link at all.
        let mut choices = vec![vec![Choice::default()]; switches.len()];
        let mut number_of: FxHashMap<Vec<PacketLinkId>, u16> = FxHashMap::default();
        let mut links = Vec::new();
        for (group, &root) in roots.iter().enumerate() {
            let distance = distances(topology, out, root);
            for (row, &node) in switches.iter().enumerate() {
                let hops = distance[node];
                if hops == UNREACHABLE || hops == 0 {
                    continue;
                }
                links.clear();
                links.extend(out[node].iter().copied().filter(|link| {
                    let to = topology.links()[link.index()].to;
                    let forwards = !topology.is_host(to) || to == root;
                    let rest = distance[to.index()];
                    forwards && rest < hops && rest + topology.cost(*link) == hops
                }));
                let choice = number_of.get(&links).copied().unwrap_or_else(|| {
                    choices[row].push(self.choice(&links));
                    let choice = (choices[row].len() - 1) as u16;
                    number_of.insert(links.clone(), choice);
                    choice
                });
                table[row * roots.len() + group] = choice;
            }
        }
        let mut number_of: FxHashMap<Vec<u16>, u32> = FxHashMap::default();
        for ((&node, choice), row) in
            switches.iter().zip(choices).zip(table.chunks_mut(roots.len()))
        {
            let node = &mut self.nodes[node];
            node.first_choice = self.choices.len() as u32;
            self.choices.extend(choice);
            if node.group != NO_GROUP {
                // Its own NICs are reached by their downlinks, so any entry will do.
                row[node.group as usize] = row[usize::from(node.group == 0).min(row.len() - 1)];
            }
            node.row = *number_of.entry(row.to_vec()).or_insert_with(|| {
                self.rows.extend_from_slice(row);
                (self.rows.len() - row.len()) as u32
            });
        }
    }

    fn choice(&mut self, links: &[PacketLinkId]) -> Choice {
        let count = links.len() as u32;
        if let &[link] = links {
            return Choice { first: link.0, count };
        }
        let first = self.candidates.len() as u32;
        self.candidates.extend_from_slice(links);
        Choice { first, count }
    }

    /// The link that a packet to a NIC takes from a node; `None` if there is no path.
    ///
    /// `entropy` is the hash of the packet's flow and path.
    #[inline]
    pub(crate) fn next(&self, node: NodeId, to: NicId, entropy: u64) -> Option<PacketLinkId> {
        let place = self.places[to.index()];
        let node = self.nodes[node.index()];
        if node.group == place.group {
            return Some(place.downlink);
        }
        if node.row == NO_ROW {
            return None;
        }
        let choice = u32::from(self.rows[(node.row + place.group) as usize]);
        let choice = self.choices[(node.first_choice + choice) as usize];
        if choice.count <= 1 {
            return (choice.count == 1).then_some(PacketLinkId(choice.first));
        }
        let hash = (entropy ^ node.salt).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let index = (hash * u64::from(choice.count)) >> 32;
        Some(self.candidates[choice.first as usize + index as usize])
    }

    /// The links among which a switch chooses on the way to a NIC; empty where there is no choice.
    #[inline]
    pub(crate) fn several(&self, node: NodeId, to: NicId) -> &[PacketLinkId] {
        let (place, node) = (self.places[to.index()], self.nodes[node.index()]);
        if node.group == place.group || node.row == NO_ROW {
            return &[];
        }
        let choice = u32::from(self.rows[(node.row + place.group) as usize]);
        let Choice { first, count } = self.choices[(node.first_choice + choice) as usize];
        if count <= 1 {
            return &[];
        }
        &self.candidates[first as usize..(first + count) as usize]
    }

    /// All sets of links among which switches choose.
    pub(crate) fn choices(&self) -> impl Iterator<Item = &[PacketLinkId]> {
        let several = self.choices.iter().filter(|choice| choice.count > 1);
        several.map(|&Choice { first, count }| &self.candidates[first as usize..][..count as usize])
    }

    /// The links of one path from NIC to NIC, not through hosts; `None` if there is none.
    pub(crate) fn path(
        &self,
        topology: &Topology,
        endpoints: Endpoints,
        entropy: u64,
    ) -> Option<Vec<PacketLinkId>> {
        let mut link = topology.uplink(endpoints.source());
        let target = topology.host_of(endpoints.destination());
        let mut path = vec![link];
        loop {
            let node = topology.links()[link.index()].to;
            if node == target {
                return Some(path);
            }
            if topology.is_host(node) {
                return None;
            }
            link = self.next(node, endpoints.destination(), entropy)?;
            path.push(link);
        }
    }
}

/// Costs of the links from every node to the root, not through hosts.
fn distances(topology: &Topology, out: &[Vec<PacketLinkId>], root: NodeId) -> Vec<u32> {
    let mut distance = vec![UNREACHABLE; topology.node_count()];
    distance[root.index()] = 0;
    // Nodes by their distance, some too early.
    let mut reached = vec![vec![root]];
    let mut count = 0;
    while count < reached.len() {
        for node in std::mem::take(&mut reached[count]) {
            let is_late = distance[node.index()] as usize != count;
            if is_late || topology.is_host(node) && node != root {
                continue;
            }
            for &link in &out[node.index()] {
                let other = topology.links()[link.index()].to;
                let next = count as u32 + topology.cost(link);
                if next < distance[other.index()] {
                    distance[other.index()] = next;
                    reached.resize_with(reached.len().max(next as usize + 1), Vec::new);
                    reached[next as usize].push(other);
                }
            }
        }
        count += 1;
    }
    distance
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presets::{fat_tree, leaf_spine, star};
    use crate::topology::Cable;
    use lightloom_model::{Duration, Rate};
    use std::collections::BTreeMap;

    const CABLE: Cable = Cable { rate: Rate(1), delay: Duration(1) };

    fn endpoints(source: u32, destination: u32) -> Endpoints {
        Endpoints::new(NicId(source), NicId(destination))
    }

    /// Nodes along a path.
    fn nodes(topology: &Topology, path: &[PacketLinkId]) -> Vec<u32> {
        path.iter().map(|link| topology.links()[link.index()].to.0).collect()
    }

    #[test]
    fn paths_are_connected_shortest_and_end_at_the_destination() {
        let topology = fat_tree(54, 6, Rate(1), Duration(1)).unwrap();
        let routing = Routing::new(&topology, 7).unwrap();
        for source in 0..54 {
            for destination in (0..54).filter(|&other| other != source) {
                let path = routing.path(&topology, endpoints(source, destination), 99).unwrap();
                let links: Vec<_> =
                    path.iter().map(|link| topology.links()[link.index()]).collect();
                assert!(links.windows(2).all(|pair| pair[0].to == pair[1].from));
                assert_eq!(links[0].from, NodeId(source));
                assert_eq!(links[links.len() - 1].to, NodeId(destination));
                let expected = match (source / 3 == destination / 3, source / 9 == destination / 9)
                {
                    (true, _) => 2,
                    (_, true) => 4,
                    _ => 6,
                };
                assert_eq!(path.len(), expected, "{source} to {destination}");
            }
        }
    }

    #[test]
    fn equal_paths_are_chosen_alike_often() {
        let topology = leaf_spine(8, 4, 5, Rate(1), Rate(1), Duration(1)).unwrap();
        let routing = Routing::new(&topology, 1).unwrap();
        let mut counts: BTreeMap<Vec<u32>, u32> = BTreeMap::new();
        for entropy in 0..10_000 {
            let path = routing.path(&topology, endpoints(0, 7), mix(entropy)).unwrap();
            *counts.entry(nodes(&topology, &path)).or_default() += 1;
        }
        assert_eq!(counts.len(), 5);
        // 2,000 each, within five deviations of 40.
        assert!(counts.values().all(|count| (1_800..2_200).contains(count)), "{counts:?}");
    }

    /// The choices of two successive switches are independent: all pairs of them come up.
    #[test]
    fn successive_switches_choose_independently() {
        let topology = fat_tree(128, 8, Rate(1), Duration(1)).unwrap();
        let routing = Routing::new(&topology, 3).unwrap();
        let mut counts: BTreeMap<Vec<u32>, u32> = BTreeMap::new();
        for entropy in 0..16_000 {
            let path = routing.path(&topology, endpoints(0, 127), mix(entropy)).unwrap();
            *counts.entry(nodes(&topology, &path)[1..3].to_vec()).or_default() += 1;
        }
        assert_eq!(counts.len(), 16, "four aggregation switches, four cores each");
        assert!(counts.values().all(|count| (850..1_150).contains(count)), "{counts:?}");
    }

    #[test]
    fn another_seed_draws_other_paths() {
        let topology = fat_tree(128, 8, Rate(1), Duration(1)).unwrap();
        let paths = |seed| {
            let routing = Routing::new(&topology, seed).unwrap();
            (64..128)
                .map(|host| routing.path(&topology, endpoints(0, host), 5).unwrap())
                .collect::<Vec<_>>()
        };
        assert_eq!(paths(1), paths(1));
        let same = paths(1).iter().zip(paths(2)).filter(|(a, b)| *a == b).count();
        assert!(same < 16, "{same} of 64 paths are the same");
    }

    #[test]
    fn hosts_forward_nothing() {
        // Two switches that only a host joins.
        let mut topology = Topology::new();
        let hosts: Vec<_> = (0..3).map(|_| topology.add_host()).collect();
        let switches: Vec<_> = (0..2).map(|_| topology.add_switch()).collect();
        for (host, switch) in [(0, 0), (1, 0), (1, 1), (2, 1)] {
            topology.connect(hosts[host], switches[switch], CABLE, ["up", "down"]).unwrap();
        }
        let routing = Routing::new(&topology, 1).unwrap();
        assert_eq!(routing.path(&topology, endpoints(0, 3), 0), None, "only over host 1");
        // The host in the middle is reached by either of its NICs.
        for nic in [1, 2] {
            let near = routing.path(&topology, endpoints(if nic == 1 { 0 } else { 3 }, nic), 0);
            assert_eq!(near.unwrap().len(), 2);
        }
        assert_eq!(routing.path(&topology, endpoints(0, 2), 0), None, "that NIC is elsewhere");
    }

    #[test]
    fn switches_in_alike_places_share_a_row() {
        let topology = fat_tree(128, 8, Rate(1), Duration(1)).unwrap();
        let routing = Routing::new(&topology, 1).unwrap();
        let rows = |kind: &str| {
            let switches = (0..topology.node_count())
                .filter(|&node| topology.title(NodeId(node as u32)).starts_with(kind));
            let mut rows: Vec<u32> = switches.map(|node| routing.nodes[node].row).collect();
            rows.sort_unstable();
            rows.dedup();
            rows.len()
        };
        assert_eq!((rows("core"), rows("agg")), (1, 8), "all cores, and each pod's aggregation");
    }

    #[test]
    fn a_switch_routes_to_its_own_nics_by_their_downlinks() {
        let topology = star(5, Rate(1), Duration(1)).unwrap();
        let routing = Routing::new(&topology, 1).unwrap();
        let switch = topology.links()[0].to;
        for nic in (0..5).map(NicId) {
            let next = routing.next(switch, nic, 12_345);
            assert_eq!(next, Some(topology.uplink(nic).reverse()));
        }
    }
}
