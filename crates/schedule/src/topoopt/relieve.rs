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
        let mut own = Vec::new();
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

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "sums and halves of whole numbers are exact")]
mod tests {
    use super::*;

    fn links(servers: u32, degree: u32, circuits: &[(u32, u32)]) -> Links {
        let mut links = Links::new(servers, degree);
        for &(a, b) in circuits {
            links.add(a, b);
        }
        links
    }

    /// Servers from `first` on, each joined to the next and the last to the first.
    fn ring(first: u32, count: u32) -> Vec<(u32, u32)> {
        (0..count).map(|i| (first + i, first + (i + 1) % count)).collect()
    }

    fn plan(links: Links, demand: &[(u32, u32, f64)], max_routes: u32) -> Plan {
        let (pairs, bytes) = columns(demand);
        evaluate(links, &pairs, &bytes, max_routes)
    }

    fn columns(demand: &[(u32, u32, f64)]) -> (Vec<(u32, u32)>, Vec<f64>) {
        demand.iter().map(|&(from, to, bytes)| ((from, to), bytes)).unzip()
    }

    fn swapped(
        plan: &Plan,
        demand: &[(u32, u32, f64)],
        batch: usize,
        futile: &[(u32, u32)],
    ) -> Vec<(u32, u32)> {
        let (pairs, bytes) = columns(demand);
        swap(plan, &pairs, &bytes, batch, &futile.iter().copied().collect()).1
    }

    fn relieved(links: Links, demand: &[(u32, u32, f64)], max_routes: u32) -> Links {
        let (pairs, bytes) = columns(demand);
        relieve(links, &pairs, &bytes, max_routes).0
    }

    /// 8 bytes one way and 4 the other over two circuits: 4 and 2 on each of them.
    #[test]
    fn parallel_circuits_share_what_a_pair_sends() {
        let plan = plan(links(2, 2, &[(0, 1), (0, 1)]), &[(0, 1, 8.0), (1, 0, 4.0)], 1);
        let loads = &plan.loads;
        assert_eq!([loads.directed(0, 1), loads.directed(1, 0)], [4.0, 2.0]);
        assert_eq!([loads.of(0, 1), loads.of(1, 0)], [4.0, 4.0]);
        assert_eq!(plan.norm, 2.0 * 256.0 + 2.0 * 16.0);
    }

    /// Two ways round a square: half of the bytes each.
    #[test]
    fn paths_share_what_a_pair_sends() {
        let plan = plan(links(4, 2, &ring(0, 4)), &[(0, 2, 10.0)], 2);
        for (from, to) in [(0, 1), (1, 2), (0, 3), (3, 2)] {
            assert_eq!((plan.loads.directed(from, to), plan.loads.directed(to, from)), (5.0, 0.0));
        }
    }

    /// By two hops of 5 bytes each way round: 10 x 10; by one of 2 circuits with 30 bytes each,
    /// of which a third would take over 1 / 3: 60 x 30 / 3; the worse direction counts.
    #[test]
    fn pairs_suffer_for_the_loads_that_a_circuit_more_would_save_them() {
        let circuits = [&ring(0, 4)[..], &[(4, 5), (4, 5)]].concat();
        let demand = [(0, 1, 0.0), (0, 2, 10.0), (2, 0, 4.0), (4, 5, 60.0), (5, 4, 30.0)];
        let plan = plan(links(6, 2, &circuits), &demand, 2);
        let (pairs, bytes) = columns(&demand);
        assert_eq!(suffering(&plan, &pairs, &bytes), [(600.0, 4, 5), (100.0, 0, 2)]);
    }

    /// Circuits of 10, 30 (towards the server) and 20 bytes.
    #[test]
    fn a_server_gives_up_its_least_loaded_circuit() {
        let demand = [(0, 1, 10.0), (0, 3, 20.0), (2, 0, 30.0)];
        let circuits = [(0, 1), (0, 2), (0, 3)];
        let full = plan(links(5, 3, &circuits), &demand, 1);
        let given = |plan: &Plan, peer, taken: &[u32]| {
            rarest(plan, &plan.links, 0, peer, &taken.iter().copied().collect())
        };
        assert_eq!(given(&full, 4, &[]), Some(Some((1, 10.0))));
        assert_eq!(given(&full, 1, &[]), Some(Some((3, 20.0))), "not the one to its new peer");
        assert_eq!(given(&full, 4, &[1, 3]), Some(Some((2, 30.0))));
        assert_eq!(given(&full, 4, &[1, 2, 3]), None);
        let with_room = plan(links(5, 4, &circuits), &demand, 1);
        assert_eq!(given(&with_room, 4, &[]), Some(None));
    }

    /// Opposite servers of a ring of six: 3 x 100 bytes become 100 over one circuit, then 50 over
    /// each of two; the servers that lost their circuits to them have them with each other.
    #[test]
    fn a_pair_far_apart_gets_circuits_for_idle_ones() {
        let found = relieved(links(6, 2, &ring(0, 6)), &[(0, 3, 100.0)], 1);
        assert_eq!(found.count(0, 3), 2);
        assert_eq!(found.circuits().iter().map(|circuit| circuit.count).sum::<u32>(), 6);
    }

    /// Both ways round, 6 x 50^4 is less than the 100^4 of one circuit.
    #[test]
    fn circuits_stay_where_a_swap_would_concentrate_loads() {
        let before = links(6, 2, &ring(0, 6));
        let demand = [(0, 3, 100.0)];
        assert_eq!(swapped(&plan(before.clone(), &demand, 2), &demand, 1, &[]), [(0, 3)]);
        let circuits = before.circuits();
        assert_eq!(relieved(before, &demand, 2).circuits(), circuits);
    }

    #[test]
    fn a_server_is_in_one_swap_only() {
        let demand = [(0, 2, 90.0), (0, 3, 100.0)];
        let one = plan(links(7, 2, &ring(0, 7)), &demand, 1);
        assert_eq!(swapped(&one, &demand, 4, &[]), [(0, 3)]);
        let two = [ring(0, 6), ring(6, 6)].concat();
        let demand = [(0, 3, 100.0), (6, 9, 200.0)];
        let plan = plan(links(12, 2, &two), &demand, 1);
        assert_eq!(swapped(&plan, &demand, 2, &[]), [(6, 9), (0, 3)], "most suffering first");
        assert_eq!(swapped(&plan, &demand, 1, &[]), [(6, 9)]);
        assert_eq!(swapped(&plan, &demand, 2, &[(6, 9)]), [(0, 3)]);
    }

    /// Two circuits of 1,000 bytes for a pair of 1 that crosses 3 such: 4 x 3,003 against 2 x 10^6.
    #[test]
    fn light_pairs_take_no_busy_circuits() {
        let mut demand: Vec<(u32, u32, f64)> = ring(0, 6)
            .into_iter()
            .flat_map(|(a, b)| [(a, b, 1_000.0), (b, a, 1_000.0)])
            .chain([(0, 3, 1.0)])
            .collect();
        demand.sort_by_key(|entry| (entry.0, entry.1));
        let busy = plan(links(6, 2, &ring(0, 6)), &demand, 1);
        assert_eq!(swapped(&busy, &demand, 1, &[]), []);
    }

    /// A ring of seven, where circuits pay (3 x 100^4, 100^4, 2 x 50^4), and one of six, where the
    /// first costs more: both together fail, as does the second alone, which suffers more.
    #[test]
    fn swaps_that_fail_together_are_tried_one_by_one() {
        let before = links(13, 2, &[ring(0, 7), ring(7, 6)].concat());
        let demand = [(0, 3, 100.0), (7, 10, 200.0)];
        let first = plan(before.clone(), &demand, 2);
        assert_eq!(swapped(&first, &demand, 2, &[]), [(7, 10), (0, 3)]);
        let found = relieved(before, &demand, 2);
        assert_eq!((found.count(0, 3), found.count(7, 10)), (2, 0));
    }
}
