//! Which link comes next: tables of shortest paths, and the hash that chooses among equal ones.
//!
//! NICs under one switch form a group; a switch has a few *choices*, sets of links, and a row says,
//! per group, which of them lies on shortest paths to it. Choices are numbered as they come up, so
//! switches in alike places (all at the top of a fat tree, all of one pod) have the same row, which
//! is stored once: each hop looks here, and in a large network a table of all switches would be in
//! no near cache. Hosts do not pass packets on here; those that shall do so are on explicit routes.

use crate::error::PacketError;
use crate::topology::{LinkId, NicId, NodeId, Topology};
use rustc_hash::FxHashMap;

const UNREACHABLE: u32 = u32::MAX;
const NO_GROUP: u32 = u32::MAX;
const NO_ROW: u32 = u32::MAX;

/// Equal-cost links.
#[derive(Debug, Clone, Copy, Default)]
struct Choice {
    /// If there is one, that; if there are several, where in `Routing::candidates` they begin.
    first: u32,
    count: u32,
}

/// What a node needs to choose.
#[derive(Debug, Clone, Copy)]
struct Node {
    /// Differs per node, so that the choices of successive switches are independent.
    salt: u64,
    /// Group whose NICs hang on it.
    group: u32,
    /// Where in `rows` its row begins.
    row: u32,
    /// Its first choice.
    first_choice: u32,
}

/// Where a NIC is.
#[derive(Debug, Clone, Copy)]
struct Place {
    /// Its group.
    group: u32,
    /// The link to it.
    downlink: u32,
}

/// Routing tables of a topology.
#[derive(Debug, Clone)]
pub struct Routing {
    places: Vec<Place>,
    nodes: Vec<Node>,
    /// Per group the number of a choice among those of the switch.
    rows: Vec<u16>,
    choices: Vec<Choice>,
    candidates: Vec<u32>,
}

/// A well-mixed 64-bit hash (the finaliser of splitmix64, Steele et al., OOPSLA 2014).
#[inline]
pub(crate) fn mix(word: u64) -> u64 {
    let mut x = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

impl Routing {
    /// Finds all shortest paths.
    ///
    /// # Errors
    /// If NICs hang on more than 65,535 nodes.
    pub fn new(topology: &Topology, seed: u64) -> Result<Self, PacketError> {
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
            let attached = topology.links()[uplink.0 as usize].to;
            let group = &mut nodes[attached.0 as usize].group;
            if *group == NO_GROUP {
                *group = roots.len() as u32;
                roots.push(attached);
            }
            places.push(Place { group: *group, downlink: uplink.reverse().0 });
        }
        if roots.len() > usize::from(u16::MAX) {
            return Err(PacketError::invalid(format!(
                "NICs hang on {} switches; expected at most 65,535",
                roots.len()
            )));
        }
        let (rows, choices, candidates) = Default::default();
        let mut routing = Self { places, nodes, rows, choices, candidates };
        routing.fill(topology, &roots);
        Ok(routing)
    }

    fn fill(&mut self, topology: &Topology, roots: &[NodeId]) {
        let out = topology.links_out();
        let switches: Vec<usize> = (0..topology.node_count())
            .filter(|&node| !topology.is_host(NodeId(node as u32)))
            .collect();
        let mut table = vec![0_u16; switches.len() * roots.len()];
        // Per switch, first of all no link at all.
        let mut choices = vec![vec![Choice::default()]; switches.len()];
        let mut known: FxHashMap<Vec<u32>, u16> = FxHashMap::default();
        let mut links = Vec::new();
        for (group, &root) in roots.iter().enumerate() {
            let distance = distances(topology, &out, root);
            for (row, &node) in switches.iter().enumerate() {
                let own = distance[node];
                if own == UNREACHABLE || own == 0 {
                    continue;
                }
                links.clear();
                links.extend(out[node].iter().map(|link| link.0).filter(|&link| {
                    let to = topology.links()[link as usize].to;
                    let passes = !topology.is_host(to) || to == root;
                    passes && distance[to.0 as usize] == own - 1
                }));
                let choice = known.get(&links).copied().unwrap_or_else(|| {
                    choices[row].push(self.choice(&links));
                    let choice = (choices[row].len() - 1) as u16;
                    known.insert(links.clone(), choice);
                    choice
                });
                table[row * roots.len() + group] = choice;
            }
        }
        let mut known: FxHashMap<Vec<u16>, u32> = FxHashMap::default();
        for ((&node, own), row) in switches.iter().zip(choices).zip(table.chunks_mut(roots.len())) {
            let node = &mut self.nodes[node];
            node.first_choice = self.choices.len() as u32;
            self.choices.extend(own);
            if node.group != NO_GROUP {
                // Nobody asks for the way to its own NICs: as for any other.
                row[node.group as usize] = row[usize::from(node.group == 0).min(row.len() - 1)];
            }
            node.row = *known.entry(row.to_vec()).or_insert_with(|| {
                self.rows.extend_from_slice(row);
                (self.rows.len() - row.len()) as u32
            });
        }
    }

    fn choice(&mut self, links: &[u32]) -> Choice {
        let count = links.len() as u32;
        if let &[first] = links {
            return Choice { first, count };
        }
        let first = self.candidates.len() as u32;
        self.candidates.extend_from_slice(links);
        Choice { first, count }
    }

    /// The link that a packet for a NIC takes from a node; `None` if there is no path.
    ///
    /// `entropy` is what the packet's flow and path hash to.
    #[inline]
    pub fn next(&self, node: u32, to: NicId, entropy: u64) -> Option<u32> {
        let place = self.places[to.0 as usize];
        let node = self.nodes[node as usize];
        if node.group == place.group {
            return Some(place.downlink);
        }
        if node.row == NO_ROW {
            return None;
        }
        let choice = u32::from(self.rows[(node.row + place.group) as usize]);
        let choice = self.choices[(node.first_choice + choice) as usize];
        if choice.count <= 1 {
            return (choice.count == 1).then_some(choice.first);
        }
        let hash = (entropy ^ node.salt).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let index = (hash * u64::from(choice.count)) >> 32;
        Some(self.candidates[choice.first as usize + index as usize])
    }

    /// The links of one path from NIC to NIC, not through hosts; `None` if there is none.
    pub fn path(
        &self,
        topology: &Topology,
        ends: (NicId, NicId),
        entropy: u64,
    ) -> Option<Vec<u32>> {
        let mut link = topology.uplink(ends.0).0;
        let target = topology.host_of(ends.1);
        let mut path = vec![link];
        loop {
            let node = topology.links()[link as usize].to;
            if node == target {
                return Some(path);
            }
            if topology.is_host(node) {
                return None;
            }
            link = self.next(node.0, ends.1, entropy)?;
            path.push(link);
        }
    }
}

/// Links from every node to the root, not through hosts.
fn distances(topology: &Topology, out: &[Vec<LinkId>], root: NodeId) -> Vec<u32> {
    let mut distance = vec![UNREACHABLE; topology.node_count()];
    distance[root.0 as usize] = 0;
    let mut reached = vec![root];
    let mut next = 0;
    while next < reached.len() {
        let node = reached[next];
        next += 1;
        if topology.is_host(node) && node != root {
            continue;
        }
        for link in &out[node.0 as usize] {
            let other = topology.links()[link.0 as usize].to;
            if distance[other.0 as usize] == UNREACHABLE {
                distance[other.0 as usize] = distance[node.0 as usize] + 1;
                reached.push(other);
            }
        }
    }
    distance
}
