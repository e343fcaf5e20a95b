//! Which link comes next: tables of shortest paths, and the hash that chooses among equal ones.
//!
//! NICs under one switch form a group; a node's table says, per group, the links on shortest paths
//! to it. Sets of links are stored once. Hosts do not pass packets on here; those that shall do so
//! are on explicit routes.

use crate::topology::{LinkId, NicId, NodeId, Topology};
use rustc_hash::FxHashMap;

const UNREACHABLE: u32 = u32::MAX;
const NO_GROUP: u32 = u32::MAX;
const NO_ROW: u32 = u32::MAX;

/// Equal-cost links: a range of `Routing::candidates`.
#[derive(Debug, Clone, Copy, Default)]
struct Choice {
    start: u32,
    count: u32,
}

/// What a node needs to choose.
#[derive(Debug, Clone, Copy)]
struct Node {
    /// Differs per node, so that the choices of successive switches are independent.
    salt: u64,
    /// Group whose NICs hang on it.
    group: u32,
    /// Where in `table` its row begins.
    row: u32,
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
    /// Per switch and group the number of a choice.
    table: Vec<u32>,
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
    pub fn new(topology: &Topology, seed: u64) -> Self {
        let node = |index: u64| Node { salt: mix(seed ^ mix(index)), group: NO_GROUP, row: NO_ROW };
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
        let mut routing = Self {
            places,
            nodes,
            table: Vec::new(),
            choices: vec![Choice::default()],
            candidates: Vec::new(),
        };
        routing.fill(topology, &roots);
        routing
    }

    fn fill(&mut self, topology: &Topology, roots: &[NodeId]) {
        let out = topology.links_out();
        let switches: Vec<usize> = (0..topology.node_count())
            .filter(|&node| !topology.is_host(NodeId(node as u32)))
            .collect();
        for (row, &node) in switches.iter().enumerate() {
            self.nodes[node].row = (row * roots.len()) as u32;
        }
        self.table = vec![0; switches.len() * roots.len()];
        let mut known: FxHashMap<Vec<u32>, u32> = FxHashMap::default();
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
                    let choice = self.add_choice(&links);
                    known.insert(links.clone(), choice);
                    choice
                });
                self.table[row * roots.len() + group] = choice;
            }
        }
    }

    fn add_choice(&mut self, links: &[u32]) -> u32 {
        let (start, count) = (self.candidates.len() as u32, links.len() as u32);
        self.candidates.extend_from_slice(links);
        self.choices.push(Choice { start, count });
        self.choices.len() as u32 - 1
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
        let choice = self.choices[self.table[(node.row + place.group) as usize] as usize];
        if choice.count <= 1 {
            return (choice.count == 1).then(|| self.candidates[choice.start as usize]);
        }
        let hash = (entropy ^ node.salt).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let index = (hash * u64::from(choice.count)) >> 32;
        Some(self.candidates[choice.start as usize + index as usize])
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
