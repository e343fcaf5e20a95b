//! Shortest paths between the servers that talk to each other.

use super::links::Neighbors;

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
pub(super) fn shortest(neighbors: &Neighbors, pairs: &[(u32, u32)], max_routes: u32) -> Routes {
    let mut search = Search::new(neighbors);
    let mut routes = Routes { offsets: vec![0], servers: Vec::new() };
    let mut path = Vec::new();
    for from_one in pairs.chunk_by(|x, y| x.0 == y.0) {
        search.run(from_one[0].0, from_one);
        for &(_, to) in from_one {
            search.walk_back(to, max_routes as usize, &mut path, &mut routes);
        }
    }
    routes
}

struct Search<'a> {
    neighbors: &'a Neighbors,
    distance: Vec<u32>,
    queue: Vec<u32>,
    wanted: Vec<bool>,
}

impl<'a> Search<'a> {
    fn new(neighbors: &'a Neighbors) -> Self {
        let n = neighbors.servers();
        Self {
            neighbors,
            distance: vec![FAR; n],
            queue: Vec::with_capacity(n),
            wanted: vec![false; n],
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

    /// Extends the path, which is held back to front, by `server`, and appends up to `max_routes`
    /// shortest paths that end so; divides them among the servers before it, beginning with
    /// another one for each destination so that destinations do not crowd on one relay.
    fn walk_back(&self, server: u32, max_routes: usize, path: &mut Vec<u32>, routes: &mut Routes) {
        path.push(server);
        let distance = self.distance[server as usize];
        if distance == 0 {
            routes.servers.extend(path.iter().rev());
            routes.offsets.push(routes.servers.len() as u32);
        } else {
            let peers = self.neighbors.of(server).iter().copied();
            let before = peers.filter(|&peer| self.distance[peer as usize] == distance - 1);
            let all = before.clone().count();
            let used = all.min(max_routes);
            let first = path[0] as usize % all;
            for (index, peer) in before.cycle().skip(first).take(used).enumerate() {
                let share = max_routes / used + usize::from(index < max_routes % used);
                self.walk_back(peer, share, path, routes);
            }
        }
        path.pop();
    }
}
