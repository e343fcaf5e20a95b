//! Circuits under construction, never more at a server than it has ports.

use std::collections::BTreeMap;

use lightloom_model::Circuit;

#[derive(Clone)]
pub(super) struct Links {
    /// Parallel circuits by pair, lower server first.
    count: BTreeMap<(u32, u32), u32>,
    free: Vec<u32>,
    degree: u32,
}

impl Links {
    pub(super) fn new(servers: u32, degree: u32) -> Self {
        Self { count: BTreeMap::new(), free: vec![degree; servers as usize], degree }
    }

    /// Ports of all servers.
    pub(super) fn ports(&self) -> u32 {
        self.degree * self.free.len() as u32
    }

    /// Parallel circuits of a pair.
    pub(super) fn count(&self, a: u32, b: u32) -> u32 {
        self.count.get(&(a.min(b), a.max(b))).copied().unwrap_or(0)
    }

    pub(super) fn servers(&self) -> usize {
        self.free.len()
    }

    pub(super) fn free(&self, server: u32) -> u32 {
        self.free[server as usize]
    }

    pub(super) fn has_room(&self, a: u32, b: u32) -> bool {
        a != b && self.free(a) > 0 && self.free(b) > 0
    }

    pub(super) fn add(&mut self, a: u32, b: u32) {
        assert!(self.has_room(a, b), "no port left for a circuit {a} - {b}");
        *self.count.entry((a.min(b), a.max(b))).or_insert(0) += 1;
        self.free[a as usize] -= 1;
        self.free[b as usize] -= 1;
    }

    pub(super) fn remove(&mut self, a: u32, b: u32) {
        let pair = (a.min(b), a.max(b));
        let count = self.count.get_mut(&pair).expect("a circuit that is there");
        *count -= 1;
        if *count == 0 {
            self.count.remove(&pair);
        }
        self.free[a as usize] += 1;
        self.free[b as usize] += 1;
    }

    /// Bundles, sorted.
    pub(super) fn circuits(&self) -> Vec<Circuit> {
        self.count.iter().map(|(&(a, b), &count)| Circuit { a, b, count }).collect()
    }

    /// Whether there is a path between the two of every pair.
    pub(super) fn all_connected(&self, pairs: &[(u32, u32)]) -> bool {
        let mut parts = Parts::of(self);
        pairs.iter().all(|&(a, b)| parts.find(a) == parts.find(b))
    }

    /// Distinct neighbors of every server, sorted, as one array and its offsets.
    pub(super) fn neighbors(&self) -> Neighbors {
        let n = self.servers();
        let mut offsets = vec![0_u32; n + 1];
        for &(a, b) in self.count.keys() {
            offsets[a as usize + 1] += 1;
            offsets[b as usize + 1] += 1;
        }
        for server in 0..n {
            offsets[server + 1] += offsets[server];
        }
        let mut next = offsets.clone();
        let mut servers = vec![0; offsets[n] as usize];
        for &(a, b) in self.count.keys() {
            for (from, to) in [(a, b), (b, a)] {
                servers[next[from as usize] as usize] = to;
                next[from as usize] += 1;
            }
        }
        for server in 0..n {
            servers[offsets[server] as usize..offsets[server + 1] as usize].sort_unstable();
        }
        Neighbors { offsets, servers }
    }
}

#[derive(Clone)]
pub(super) struct Neighbors {
    offsets: Vec<u32>,
    servers: Vec<u32>,
}

impl Neighbors {
    pub(super) fn of(&self, server: u32) -> &[u32] {
        let (start, end) = (self.offsets[server as usize], self.offsets[server as usize + 1]);
        &self.servers[start as usize..end as usize]
    }

    pub(super) fn servers(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Number of bundles, each counted once per direction.
    pub(super) fn directed(&self) -> usize {
        self.servers.len()
    }

    /// Index of the bundle between two neighbors, in this direction.
    pub(super) fn index(&self, from: u32, to: u32) -> usize {
        let place = self.of(from).binary_search(&to).expect("two neighbors");
        self.offsets[from as usize] as usize + place
    }
}

/// Union-find over servers.
pub(super) struct Parts {
    parent: Vec<u32>,
}

impl Parts {
    pub(super) fn of(links: &Links) -> Self {
        let mut parts = Self { parent: (0..links.servers() as u32).collect() };
        for circuit in links.circuits() {
            parts.join(circuit.a, circuit.b);
        }
        parts
    }

    pub(super) fn find(&mut self, server: u32) -> u32 {
        let mut root = server;
        while self.parent[root as usize] != root {
            let above = self.parent[root as usize];
            self.parent[root as usize] = self.parent[above as usize];
            root = self.parent[root as usize];
        }
        root
    }

    pub(super) fn join(&mut self, a: u32, b: u32) {
        let (a, b) = (self.find(a), self.find(b));
        self.parent[a.max(b) as usize] = a.min(b);
    }
}
