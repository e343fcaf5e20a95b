//! Which link comes next: tables of shortest paths, and the hash that chooses among equal ones.
//!
//! NICs under one switch form a group; a node's table says, per group, the links on shortest paths
//! to it. Sets of links are stored once. Hosts do not pass packets on here; those that shall do so
//! are on explicit routes.

use crate::topology::{LinkId, NicId, NodeId, Topology};
use std::collections::BTreeMap;

const UNREACHABLE: u32 = u32::MAX;
const NO_GROUP: u32 = u32::MAX;

/// Equal-cost links: a range of `Routing::candidates`.
#[derive(Debug, Clone, Copy, Default)]
struct Choice {
    start: u32,
    count: u32,
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
    /// Group whose NICs hang on each node.
    group_of_node: Vec<u32>,
    groups: u32,
    /// Per node and group.
    table: Vec<Choice>,
    candidates: Vec<u32>,
    /// Differs per node, so that the choices of successive switches are independent.
    salts: Vec<u64>,
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
        let nodes = topology.node_count();
        let mut group_of_node = vec![NO_GROUP; nodes];
        let mut roots = Vec::new();
        let mut places = Vec::with_capacity(topology.nic_count());
        for nic in 0..topology.nic_count() as u32 {
            let uplink = topology.uplink(NicId(nic));
            let attached = topology.links()[uplink.0 as usize].to;
            let group = &mut group_of_node[attached.0 as usize];
            if *group == NO_GROUP {
                *group = roots.len() as u32;
                roots.push(attached);
            }
            places.push(Place { group: *group, downlink: uplink.reverse().0 });
        }
        let mut routing = Self {
            places,
            group_of_node,
            groups: roots.len() as u32,
            table: vec![Choice::default(); nodes * roots.len()],
            candidates: Vec::new(),
            salts: (0..nodes as u64).map(|node| mix(seed ^ mix(node))).collect(),
        };
        routing.fill(topology, &roots);
        routing
    }

    fn fill(&mut self, topology: &Topology, roots: &[NodeId]) {
        let out = topology.links_out();
        let mut known: BTreeMap<Vec<u32>, Choice> = BTreeMap::new();
        for (group, &root) in roots.iter().enumerate() {
            let distance = distances(topology, &out, root);
            for node in 0..topology.node_count() {
                let own = distance[node];
                if own == UNREACHABLE || own == 0 {
                    continue;
                }
                let nearer = |link: &&LinkId| {
                    let to = topology.links()[link.0 as usize].to;
                    let passes = !topology.is_host(to) || to == root;
                    passes && distance[to.0 as usize] + 1 == own
                };
                let links: Vec<u32> = out[node].iter().filter(nearer).map(|link| link.0).collect();
                let candidates = &mut self.candidates;
                let choice = known.entry(links).or_insert_with_key(|links| {
                    let start = candidates.len() as u32;
                    candidates.extend_from_slice(links);
                    Choice { start, count: links.len() as u32 }
                });
                self.table[node * roots.len() + group] = *choice;
            }
        }
    }

    /// The link that a packet for a NIC takes from a node; `None` if there is no path.
    ///
    /// `entropy` is what the packet's flow and path hash to.
    #[inline]
    pub fn next(&self, node: u32, to: NicId, entropy: u64) -> Option<u32> {
        let place = self.places[to.0 as usize];
        if self.group_of_node[node as usize] == place.group {
            return Some(place.downlink);
        }
        let choice = self.table[node as usize * self.groups as usize + place.group as usize];
        if choice.count <= 1 {
            return (choice.count == 1).then(|| self.candidates[choice.start as usize]);
        }
        let hash = (entropy ^ self.salts[node as usize]).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let index = (hash * u64::from(choice.count)) >> 32;
        Some(self.candidates[choice.start as usize + index as usize])
    }

    /// The links of one path from NIC to NIC; `None` if there is none.
    pub fn path(
        &self,
        topology: &Topology,
        ends: (NicId, NicId),
        entropy: u64,
    ) -> Option<Vec<u32>> {
        let mut link = topology.uplink(ends.0).0;
        let target = topology.host_of(ends.1);
        let mut path = vec![link];
        while topology.links()[link as usize].to != target {
            link = self.next(topology.links()[link as usize].to.0, ends.1, entropy)?;
            path.push(link);
        }
        Some(path)
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
