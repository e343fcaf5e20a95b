//! Swaps circuits until no crowded route is left that a direct circuit would relieve.
//!
//! Matchings see demand only, not what multi-hop routes do to the circuits they cross: a light pair
//! that got no circuit may crowd onto the one circuit that joins two parts of the graph. TopoOpt
//! finds such cases by alternating between topology and routes; here a few pairs at a time get a
//! direct circuit for the least used ones of their servers, and the swap stays if loads are better
//! spread afterwards.

use rustc_hash::FxHashSet;

use super::links::{Links, Neighbors};
use super::matching;
use super::paths::{self, Routes};

/// Evaluations of a changed topology, times servers: each routes all pairs anew.
const EFFORT: usize = 60_000;

/// Minimum and maximum number of evaluations.
const ROUNDS: (usize, usize) = (24, 200);

/// Exponent of the norm over circuits: high enough that the most loaded ones dominate, low enough
/// that relieving one of several equally loaded ones counts.
const NORM: i32 = 4;

/// How much more than its own bytes a new circuit may take off crowded ones, as others reroute
/// over it. Larger values try more swaps that fail.
const OTHERS: f64 = 4.0;

/// Minimum relative progress that counts.
const PROGRESS: f64 = 1e-6;

/// A topology with its routes and what they carry.
struct Plan {
    links: Links,
    routes: Routes,
    loads: Loads,
    norm: f64,
}

/// Bytes over each bundle, per direction and per circuit.
struct Loads {
    neighbors: Neighbors,
    bytes: Vec<f64>,
    counts: Vec<u32>,
}

impl Loads {
    fn new(links: &Links) -> Self {
        let neighbors = links.neighbors();
        let mut counts = vec![0; neighbors.directed()];
        for circuit in links.circuits() {
            counts[neighbors.index(circuit.a, circuit.b)] = circuit.count;
            counts[neighbors.index(circuit.b, circuit.a)] = circuit.count;
        }
        Self { bytes: vec![0.0; counts.len()], neighbors, counts }
    }

    /// Bytes per circuit, one way.
    fn directed(&self, from: u32, to: u32) -> f64 {
        let index = self.neighbors.index(from, to);
        self.bytes[index] / f64::from(self.counts[index])
    }

    fn count(&self, from: u32, to: u32) -> u32 {
        self.counts[self.neighbors.index(from, to)]
    }

    /// Bytes per circuit, the busier way.
    fn of(&self, a: u32, b: u32) -> f64 {
        self.directed(a, b).max(self.directed(b, a))
    }

    fn norm(&self) -> f64 {
        let each = self.bytes.iter().zip(&self.counts);
        each.map(|(&bytes, &count)| f64::from(count) * (bytes / f64::from(count)).powi(NORM)).sum()
    }
}

/// Improves `links` and returns the routes over them. `pairs` are sorted, `bytes` theirs.
pub(super) fn relieve(
    links: Links,
    pairs: &[(u32, u32)],
    bytes: &[f64],
    max_routes: u32,
) -> (Links, Routes) {
    let mut plan = evaluate(links, pairs, bytes, max_routes);
    let servers = plan.links.servers();
    let mut batch = servers.div_ceil(8);
    let mut futile = FxHashSet::default();
    for _ in 0..(EFFORT / servers).clamp(ROUNDS.0, ROUNDS.1) {
        let (next, swapped) = swap(&plan, pairs, bytes, batch, &futile);
        if swapped.is_empty() {
            break;
        }
        // A swap must not cut off servers that talk.
        let next = next.all_connected(pairs).then(|| evaluate(next, pairs, bytes, max_routes));
        match next {
            Some(next) if next.norm < plan.norm * (1.0 - PROGRESS) => plan = next,
            _ if swapped.len() > 1 => batch = swapped.len().div_ceil(4),
            _ => futile.extend(swapped),
        }
    }
    (plan.links, plan.routes)
}

fn evaluate(links: Links, pairs: &[(u32, u32)], bytes: &[f64], max_routes: u32) -> Plan {
    let routes = paths::shortest(&links, pairs, max_routes);
    let mut loads = Loads::new(&links);
    let mut all = routes.iter().peekable();
    for (&(from, to), &size) in pairs.iter().zip(bytes) {
        let mut own = Vec::with_capacity(max_routes as usize);
        while let Some(route) =
            all.next_if(|route| route[0] == from && route[route.len() - 1] == to)
        {
            own.push(route);
        }
        let share = size / own.len() as f64;
        for hop in own.iter().flat_map(|route| route.windows(2)) {
            let index = loads.neighbors.index(hop[0], hop[1]);
            loads.bytes[index] += share;
        }
    }
    drop(all);
    let norm = loads.norm();
    Plan { links, routes, loads, norm }
}

/// Gives direct circuits to the pairs that suffer most, at most `batch` of them, each server in
/// one swap only, and to no `futile` pair; says which pairs. None if no pair suffers more than the
/// swap would cost others.
fn swap(
    plan: &Plan,
    pairs: &[(u32, u32)],
    bytes: &[f64],
    batch: usize,
    futile: &FxHashSet<(u32, u32)>,
) -> (Links, Vec<(u32, u32)>) {
    let mut links = plan.links.clone();
    let mut taken = FxHashSet::default();
    let mut swapped = Vec::new();
    for (pain, a, b) in suffering(plan, pairs, bytes) {
        if swapped.len() == batch {
            break;
        }
        if taken.contains(&a) || taken.contains(&b) || futile.contains(&(a, b)) {
            continue;
        }
        let (Some(far_a), Some(far_b)) =
            (rarest(plan, &links, a, b, &taken), rarest(plan, &links, b, a, &taken))
        else {
            continue;
        };
        let cost = |far: Option<(u32, f64)>| far.map_or(0.0, |(_, load)| load * load);
        if pain * OTHERS <= cost(far_a) + cost(far_b) {
            continue;
        }
        for (server, far) in [(a, far_a), (b, far_b)] {
            if let Some((far, _)) = far {
                links.remove(server, far);
                taken.insert(far);
            }
        }
        links.add(a, b);
        if let (Some((x, _)), Some((y, _))) = (far_a, far_b)
            && x != y
        {
            links.add(x, y);
        }
        taken.extend([a, b]);
        swapped.push((a, b));
    }
    matching::join_leftovers(&mut links);
    (links, swapped)
}

/// Undirected pairs by what a circuit more would save them: their bytes times the loads of the
/// circuits that they would no longer cross; most first.
fn suffering(plan: &Plan, pairs: &[(u32, u32)], bytes: &[f64]) -> Vec<(f64, u32, u32)> {
    let mut found = Vec::new();
    let mut all = plan.routes.iter().peekable();
    for (&(from, to), &size) in pairs.iter().zip(bytes) {
        let (mut loads, mut count) = (0.0, 0.0);
        while let Some(route) =
            all.next_if(|route| route[0] == from && route[route.len() - 1] == to)
        {
            let hops = route.windows(2);
            loads += hops.map(|hop| plan.loads.directed(hop[0], hop[1])).sum::<f64>();
            // One circuit alongside c others takes over 1 / (c + 1) of what they carry.
            if route.len() == 2 {
                loads /= f64::from(plan.loads.count(from, to) + 1);
            }
            count += 1.0;
        }
        found.push((size * loads / count, from.min(to), from.max(to)));
    }
    found.sort_unstable_by(|x, y| y.0.total_cmp(&x.0).then((x.1, x.2).cmp(&(y.1, y.2))));
    let mut seen = FxHashSet::default();
    found.retain(|&(pain, a, b)| pain > 0.0 && seen.insert((a, b)));
    found
}

/// What a server gives up for a circuit to `peer`: nothing (`Some(None)`) if it has a free port,
/// else the far end of its least loaded circuit; `None` if it can give up none.
#[allow(clippy::option_option, reason = "nothing to give up is not the same as nothing needed")]
fn rarest(
    plan: &Plan,
    links: &Links,
    server: u32,
    peer: u32,
    taken: &FxHashSet<u32>,
) -> Option<Option<(u32, f64)>> {
    if links.free(server) > 0 {
        return Some(None);
    }
    plan.loads
        .neighbors
        .of(server)
        .iter()
        .filter(|far| **far != peer && !taken.contains(far))
        .map(|&far| (far, plan.loads.of(server, far)))
        .min_by(|x, y| x.1.total_cmp(&y.1).then(x.0.cmp(&y.0)))
        .map(Some)
}
