//! Circuits under construction, never more at a server than it has ports.

use lightloom_model::Circuit;

/// A search copies these with each swap, hence a row of as many places as ports for each server
/// rather than a tree.
#[derive(Clone, PartialEq)]
pub(super) struct Links {
    /// Of each server its neighbors, sorted, with the parallel circuits to each.
    rows: Vec<(u32, u32)>,
    /// Neighbors of each server.
    neighbors: Vec<u32>,
    free: Vec<u32>,
    degree: u32,
}

impl Links {
    pub(super) fn new(servers: u32, degree: u32) -> Self {
        let n = servers as usize;
        let rows = vec![(0, 0); n * degree as usize];
        Self { rows, neighbors: vec![0; n], free: vec![degree; n], degree }
    }

    /// Ports of all servers.
    pub(super) fn ports(&self) -> u32 {
        self.degree * self.free.len() as u32
    }

    /// The neighbors of a server, sorted, with the parallel circuits to each.
    fn row(&self, server: u32) -> &[(u32, u32)] {
        let start = server as usize * self.degree as usize;
        &self.rows[start..start + self.neighbors[server as usize] as usize]
    }

    /// Where a neighbor is in the row of a server, or would be.
    fn place(&self, server: u32, peer: u32) -> Result<usize, usize> {
        let start = server as usize * self.degree as usize;
        let place = self.row(server).binary_search_by_key(&peer, |&(peer, _)| peer);
        place.map(|index| start + index).map_err(|index| start + index)
    }

    /// Parallel circuits of a pair.
    pub(super) fn count(&self, a: u32, b: u32) -> u32 {
        self.place(a, b).map_or(0, |place| self.rows[place].1)
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
        for (server, peer) in [(a, b), (b, a)] {
            match self.place(server, peer) {
                Ok(place) => self.rows[place].1 += 1,
                Err(place) => {
                    let end = self.end(server);
                    self.rows.copy_within(place..end, place + 1);
                    self.rows[place] = (peer, 1);
                    self.neighbors[server as usize] += 1;
                }
            }
            self.free[server as usize] -= 1;
        }
    }

    pub(super) fn remove(&mut self, a: u32, b: u32) {
        for (server, peer) in [(a, b), (b, a)] {
            let place = self.place(server, peer).expect("a circuit that is there");
            self.rows[place].1 -= 1;
            if self.rows[place].1 == 0 {
                let end = self.end(server);
                self.rows.copy_within(place + 1..end, place);
                self.rows[end - 1] = (0, 0);
                self.neighbors[server as usize] -= 1;
            }
            self.free[server as usize] += 1;
        }
    }

    /// Where the row of a server ends.
    fn end(&self, server: u32) -> usize {
        server as usize * self.degree as usize + self.neighbors[server as usize] as usize
    }

    /// Bundles, sorted.
    pub(super) fn circuits(&self) -> impl Iterator<Item = Circuit> + Clone {
        (0..self.servers() as u32).flat_map(move |a| {
            let upward = self.row(a).iter().filter(move |&&(b, _)| a < b);
            upward.map(move |&(b, count)| Circuit { a, b, count })
        })
    }

    /// Whether there is a path between the two of every pair.
    pub(super) fn all_connected(&self, pairs: &[(u32, u32)]) -> bool {
        let mut parts = Parts::of(self);
        pairs.iter().all(|&(a, b)| parts.find(a) == parts.find(b))
    }

    /// Distinct neighbors of every server, sorted, as one array and its offsets.
    pub(super) fn neighbors(&self) -> Neighbors {
        let mut offsets = Vec::with_capacity(self.servers() + 1);
        offsets.push(0);
        let mut servers = Vec::with_capacity(self.rows.len());
        for server in 0..self.servers() as u32 {
            servers.extend(self.row(server).iter().map(|&(peer, _)| peer));
            offsets.push(servers.len() as u32);
        }
        Neighbors { offsets, servers }
    }

    /// Parallel circuits to each of these neighbors.
    pub(super) fn counts(&self) -> Vec<u32> {
        let rows = (0..self.servers() as u32).flat_map(|server| self.row(server));
        rows.map(|&(_, count)| count).collect()
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
