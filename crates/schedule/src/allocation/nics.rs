//! From circuits between servers to circuits between NICs (step 4 of MixNet's Algorithm 1).
//!
//! When a pair has several circuits, they end at NICs of different NUMA nodes, so that their
//! traffic does not meet on one node's links inside the server.

use lightloom_model::Failures;
use serde::{Deserialize, Serialize};

/// One end of a circuit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct NicEnd {
    /// Server within the region.
    pub server: u32,
    /// Optical NIC of that server, counted from 0 over the optical ones only.
    pub nic: u32,
}

/// A circuit between two NICs, `a.server < b.server`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct NicCircuit {
    /// End at the lower server.
    pub a: NicEnd,
    /// End at the higher server.
    pub b: NicEnd,
}

/// Picks the NICs of every circuit.
///
/// NIC k of a server with p optical NICs sits on NUMA node `k * numa_nodes / p`. `previous` are
/// circuits that are up now (empty if none): those that are still wanted keep their NICs.
///
/// # Panics
/// If `circuits` is not n x n for n entries of `ports`, or takes more ports than there are.
pub fn map_nics(
    circuits: &[u16],
    ports: &[u32],
    numa_nodes: u32,
    previous: &[NicCircuit],
) -> Vec<NicCircuit> {
    let width = ports.iter().copied().max().unwrap_or(0) as usize;
    let working = Failures::default().working_nics(ports, width);
    map_working_nics(circuits, ports, &working, numa_nodes, previous)
}

/// Most NUMA nodes of a server: each circuit looks at those of its ends.
pub const MAX_NUMA_NODES: u32 = 1 << 10;

/// As [`map_nics`], on NICs that work: one row of `working` per server, of equal widths.
///
/// # Panics
/// As [`map_nics`]; also if a server has more circuits than working NICs.
pub fn map_working_nics(
    circuits: &[u16],
    ports: &[u32],
    working: &[bool],
    numa_nodes: u32,
    previous: &[NicCircuit],
) -> Vec<NicCircuit> {
    let n = ports.len();
    assert_eq!(circuits.len(), n * n, "circuits are n x n");
    let width = working.len().checked_div(n).unwrap_or(0);
    let mut servers: Vec<Server> = (0..n)
        .map(|server| {
            let works = &working[server * width..][..ports[server] as usize];
            Server::new(works, numa_nodes.max(1), n)
        })
        .collect();
    let mut left = circuits.to_vec();
    let mut mapped = Vec::new();
    for old in previous {
        let (a, b) = (old.a.server as usize, old.b.server as usize);
        let usable = a < b && b < n && left[a * n + b] > 0;
        if usable && servers[a].is_free(old.a.nic) && servers[b].is_free(old.b.nic) {
            left[a * n + b] -= 1;
            servers[a].take(old.a.nic, b);
            servers[b].take(old.b.nic, a);
            mapped.push(*old);
        }
    }
    let mut pairs: Vec<(usize, usize)> = (0..n)
        .flat_map(|a| (a + 1..n).map(move |b| (a, b)))
        .filter(|&(a, b)| left[a * n + b] > 0)
        .collect();
    // Pairs with most circuits first: they depend most on free NICs on several nodes.
    pairs.sort_by_key(|&(a, b)| std::cmp::Reverse(left[a * n + b]));
    for (a, b) in pairs {
        for _ in 0..left[a * n + b] {
            let ends = [(a, b), (b, a)].map(|(server, peer)| NicEnd {
                server: server as u32,
                nic: servers[server].pick(peer),
            });
            mapped.push(NicCircuit { a: ends[0], b: ends[1] });
        }
    }
    mapped.sort_unstable();
    mapped
}

struct Server {
    free: Vec<bool>,
    nodes: usize,
    /// A NIC of each node before which none is free.
    first: Vec<usize>,
    /// Free NICs of each node.
    spare: Vec<u32>,
    /// Circuits to each peer on each node, `[peer][node]`.
    used: Vec<u16>,
}

impl Server {
    fn new(working: &[bool], numa_nodes: u32, peers: usize) -> Self {
        let ports = working.len();
        // With more nodes than NICs each NIC has its own.
        let nodes = (numa_nodes as usize).min(ports.max(1));
        let mut spare = vec![0; nodes];
        for nic in (0..ports).filter(|&nic| working[nic]) {
            spare[nic * nodes / ports] += 1;
        }
        let first = (0..nodes).map(|node| (node * ports).div_ceil(nodes)).collect();
        Self { free: working.to_vec(), nodes, first, spare, used: vec![0; nodes * peers] }
    }

    fn node(&self, nic: usize) -> usize {
        nic * self.nodes / self.free.len()
    }

    fn is_free(&self, nic: u32) -> bool {
        self.free.get(nic as usize).copied().unwrap_or(false)
    }

    fn take(&mut self, nic: u32, peer: usize) {
        let node = self.node(nic as usize);
        self.free[nic as usize] = false;
        self.spare[node] -= 1;
        self.used[peer * self.nodes + node] += 1;
    }

    /// A free NIC on the node that this peer uses least, then on the node with most free NICs.
    fn pick(&mut self, peer: usize) -> u32 {
        let used = &self.used[peer * self.nodes..][..self.nodes];
        let node = (0..self.nodes)
            .filter(|&node| self.spare[node] > 0)
            .min_by_key(|&node| (used[node], std::cmp::Reverse(self.spare[node]), node))
            .expect("circuits that take more ports than there are");
        let nic = (self.first[node]..self.free.len())
            .find(|&nic| self.free[nic])
            .expect("a node with spare NICs has a free one");
        self.first[node] = nic + 1;
        self.take(nic as u32, peer);
        nic as u32
    }
}
