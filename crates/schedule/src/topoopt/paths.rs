//! Shortest paths between the servers that talk to each other.

use super::links::{Links, Neighbors};

/// Paths of several pairs in one array.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Routes {
    /// Where each path begins in `servers`, and the end of the last.
    pub offsets: Vec<u32>,
    /// Source, relays, destination of each path.
    pub servers: Vec<u32>,
}

impl Routes {
    /// Number of paths.
    pub fn len(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Circuits that a path crosses.
    pub(super) fn hops(&self, path: usize) -> usize {
        (self.offsets[path + 1] - self.offsets[path]) as usize - 1
    }

    /// Each path in turn.
    pub fn iter(&self) -> impl Iterator<Item = &[u32]> {
        self.offsets.windows(2).map(|ends| &self.servers[ends[0] as usize..ends[1] as usize])
    }
}

const FAR: u32 = u32::MAX;

/// Up to `max_routes` shortest paths of every pair; pairs are sorted. All of them can be reached.
pub(super) fn shortest(links: &Links, pairs: &[(u32, u32)], max_routes: u32) -> Routes {
    let neighbors = links.neighbors();
    let mut search = Search::new(&neighbors);
    let mut routes = Routes { offsets: vec![0], servers: Vec::new() };
    for from_one in pairs.chunk_by(|x, y| x.0 == y.0) {
        search.run(from_one[0].0, from_one);
        for &(_, to) in from_one {
            search.collect(to, max_routes as usize, &mut routes);
        }
    }
    routes
}

struct Search<'a> {
    neighbors: &'a Neighbors,
    distance: Vec<u32>,
    queue: Vec<u32>,
    wanted: Vec<bool>,
    path: Vec<u32>,
}

impl<'a> Search<'a> {
    fn new(neighbors: &'a Neighbors) -> Self {
        let n = neighbors.servers();
        Self {
            neighbors,
            distance: vec![FAR; n],
            queue: Vec::with_capacity(n),
            wanted: vec![false; n],
            path: Vec::new(),
        }
    }

    /// Breadth-first distances from `from`, until all its targets are found.
    fn run(&mut self, from: u32, pairs: &[(u32, u32)]) {
        for &server in &self.queue {
            self.distance[server as usize] = FAR;
        }
        self.queue.clear();
        self.queue.push(from);
        self.distance[from as usize] = 0;
        for &(_, to) in pairs {
            self.wanted[to as usize] = true;
        }
        let (mut missing, mut next) = (pairs.len(), 0);
        while missing > 0 {
            let server = *self.queue.get(next).expect("talking servers are connected");
            next += 1;
            for &peer in self.neighbors.of(server) {
                if self.distance[peer as usize] == FAR {
                    self.distance[peer as usize] = self.distance[server as usize] + 1;
                    self.queue.push(peer);
                    missing -= usize::from(self.wanted[peer as usize]);
                }
            }
        }
        for &(_, to) in pairs {
            self.wanted[to as usize] = false;
        }
    }

    /// Appends up to `max_routes` shortest paths to `to`.
    fn collect(&mut self, to: u32, max_routes: usize, routes: &mut Routes) {
        self.path.clear();
        self.walk_back(to, max_routes, routes);
    }

    /// Extends the path, which is held back to front, by `server`; divides the paths that may
    /// still be made among the servers before it, beginning with another one for each
    /// destination so that destinations do not crowd on one relay.
    fn walk_back(&mut self, server: u32, max_routes: usize, routes: &mut Routes) {
        self.path.push(server);
        let distance = self.distance[server as usize];
        if distance == 0 {
            routes.servers.extend(self.path.iter().rev());
            routes.offsets.push(routes.servers.len() as u32);
        } else {
            let neighbors = self.neighbors;
            let before: Vec<u32> = neighbors
                .of(server)
                .iter()
                .copied()
                .filter(|&peer| self.distance[peer as usize] == distance - 1)
                .collect();
            let used = before.len().min(max_routes);
            for index in 0..used {
                let share = max_routes / used + usize::from(index < max_routes % used);
                let peer = before[(index + self.path[0] as usize) % before.len()];
                self.walk_back(peer, share, routes);
            }
        }
        self.path.pop();
    }
}
