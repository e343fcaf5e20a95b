//! Swaps circuits until no swap makes the predicted time shorter.
//!
//! Starting points see demand only, not what multi-hop routes do to the circuits that they cross:
//! a light pair without a circuit may crowd onto the one that joins two parts of the graph. TopoOpt
//! finds such cases by alternating between topology and routes. Here pairs get a direct circuit
//! for one of each of their servers, whose far ends are joined in turn: first many pairs at a time,
//! as long as loads become more even, then one at a time, where a worse topology is accepted, too,
//! as long as it is not much worse, ever less (threshold accepting, Dueck and Scheuer 1990).

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::SplitMix64;
use rustc_hash::FxHashSet;

use super::links::Links;
use super::matching;
use super::predict::Plan;
use super::start::Start;
use super::traffic::Traffic;

/// Evaluations of topologies with many swaps, times servers: each routes all pairs anew.
const MANY: usize = 60_000;

/// Minimum and maximum number of these.
const MANY_ROUNDS: (usize, usize) = (24, 200);

/// Evaluations of single swaps, times the third power of servers; and their minimum and maximum.
const SINGLE: usize = 32_000_000;
const SINGLE_ROUNDS: (usize, usize) = (60, 24_000);

/// How much more than its own bytes a new circuit may take off crowded ones, as others reroute
/// over it. Larger values try more swaps that fail.
const OTHERS: f64 = 4.0;

/// Minimum relative progress that counts.
const PROGRESS: f64 = 1e-9;

/// By how much a topology may be worse than the one before it in the first swap.
const THRESHOLD: f64 = 0.5;

/// Swaps that such a threshold needs; with fewer it is lower in proportion.
const PATIENCE: f64 = 2_000.0;

/// The best topology that swaps lead to with so many routes per pair, and its start.
///
/// Half of all single swaps begin where many swaps at a time lead from each start, the others at
/// the best of what these found, or at several of them where there is time for that.
pub(super) fn best(starts: &[Start], max_routes: u32) -> (usize, Plan) {
    let servers = starts[0].links.servers();
    let rounds = (SINGLE / servers.pow(3)).clamp(SINGLE_ROUNDS.0, SINGLE_ROUNDS.1);
    let each = Effort { rounds: rounds / 2 / starts.len(), seed: 0 };
    let search = |start: &Start| {
        let plan = Plan::of(start.links.clone(), &start.traffic, max_routes);
        let many = swap_many(plan.clone(), &start.traffic, max_routes);
        let plan = cheapest([plan, many].into_iter(), |plan| plan.cost);
        swap_one(plan, &start.traffic, max_routes, &each)
    };
    let mut plans: Vec<(usize, Plan)> = Vec::with_capacity(starts.len());
    for (index, start) in starts.iter().enumerate() {
        // A search of the same leads to the same.
        let before = starts[..index].iter().position(|other| other.is_same(start));
        let plan = before.map_or_else(|| search(start), |other| plans[other].1.clone());
        plans.push((index, plan));
    }
    let (first, _) = cheapest(plans.iter().enumerate(), |(_, (_, plan))| plan.cost);
    // The earlier start comes first of equals, there and in this stable sort.
    plans[..=first].rotate_right(1);
    plans[1..].sort_by(|(_, one), (_, other)| one.cost.total_cmp(&other.cost));
    let restarts = (rounds / 2 / PATIENCE as usize).clamp(1, plans.len());
    let again = plans.into_iter().take(restarts).zip(1..).map(|((which, plan), seed)| {
        let rest = Effort { rounds: rounds / 2 / restarts, seed };
        (which, swap_one(plan, &starts[which].traffic, max_routes, &rest))
    });
    cheapest(again, |(_, plan)| plan.cost)
}

/// The first of those that cost least, but for rounding errors.
pub(super) fn cheapest<T>(all: impl Iterator<Item = T>, cost: impl Fn(&T) -> f64) -> T {
    let better = |best: T, next: T| {
        if cost(&next) < cost(&best) * (1.0 - PROGRESS) { next } else { best }
    };
    all.reduce(better).expect("at least one")
}

fn swap_many(mut plan: Plan, traffic: &Traffic, max_routes: u32) -> Plan {
    let servers = plan.links.servers();
    let mut batch = servers.div_ceil(8);
    let mut futile = FxHashSet::default();
    for _ in 0..(MANY / servers).clamp(MANY_ROUNDS.0, MANY_ROUNDS.1) {
        let (next, pairs) = swap(&plan, traffic, batch, &futile);
        if pairs.is_empty() {
            break;
        }
        match evaluate(next, traffic, max_routes) {
            Some(next) if next.unevenness < plan.unevenness * (1.0 - PROGRESS) => plan = next,
            _ if pairs.len() > 1 => batch = pairs.len().div_ceil(4),
            _ => futile.extend(pairs),
        }
    }
    plan
}

/// None if servers that talk are cut off.
fn evaluate(links: Links, traffic: &Traffic, max_routes: u32) -> Option<Plan> {
    let connected = links.all_connected(&traffic.pairs);
    connected.then(|| Plan::of(links, traffic, max_routes))
}

/// What bytes cost: how busy circuits are next to the busiest one of the phase.
struct Prices {
    /// For each phase and bundle, in each direction.
    of: Vec<f64>,
    bundles: usize,
}

impl Prices {
    fn new(plan: &Plan) -> Self {
        let loads = &plan.loads;
        let bundles = loads.counts.len();
        let price = |(index, &bytes): (usize, &f64)| {
            let count = f64::from(loads.counts[index % bundles]);
            let largest = plan.busiest[index / bundles];
            if largest > 0.0 { (bytes / count / largest).powi(3) / count } else { 0.0 }
        };
        Self { of: loads.bytes.iter().enumerate().map(price).collect(), bundles }
    }

    /// What the bytes over one circuit between two neighbors cost, in the dearer direction.
    fn of_circuit(&self, plan: &Plan, a: u32, b: u32) -> f64 {
        let loads = &plan.loads;
        let price = |from, to| {
            let bundle = loads.neighbors.index(from, to);
            let all = (bundle..self.of.len()).step_by(self.bundles);
            all.map(|index| loads.bytes[index] * self.of[index]).sum::<f64>()
        };
        price(a, b).max(price(b, a))
    }
}

/// Gives direct circuits to the pairs that suffer most, at most `batch` of them, each server in
/// one swap only, and to no `futile` pair; says which pairs. None if no pair suffers more than
/// the swap would cost others.
fn swap(
    plan: &Plan,
    traffic: &Traffic,
    batch: usize,
    futile: &FxHashSet<(u32, u32)>,
) -> (Links, Vec<(u32, u32)>) {
    let prices = Prices::new(plan);
    let mut links = plan.links.clone();
    let mut used = FxHashSet::default();
    let mut pairs = Vec::new();
    for (pain, a, b) in suffering(plan, traffic, &prices) {
        if pairs.len() == batch {
            break;
        }
        if used.contains(&a) || used.contains(&b) || futile.contains(&(a, b)) {
            continue;
        }
        let port_of = |server: u32, peer: u32| {
            let far = given_up(plan, &links, server, peer).filter(|far| !used.contains(far));
            far.map(|far| (prices.of_circuit(plan, server, far), far))
                .min_by(|x, y| x.0.total_cmp(&y.0).then(x.1.cmp(&y.1)))
        };
        let ports = [port_of(a, b), port_of(b, a)];
        let ends = [(a, ports[0]), (b, ports[1])]
            .map(|(server, far)| End { server, far: far.map(|far| far.1) });
        let cost: f64 = ports.iter().flatten().map(|far| far.0).sum();
        if !ends.iter().all(|end| end.has_port(&links)) || pain * OTHERS <= cost {
            continue;
        }
        join(&mut links, ends);
        used.extend([a, b]);
        used.extend(ends.iter().filter_map(|end| end.far));
        pairs.push((a, b));
    }
    matching::join_leftovers(&mut links);
    (links, pairs)
}

/// Far ends of the circuits that a server may give up for one to `peer`: none if it has a free
/// port.
fn given_up<'a>(
    plan: &'a Plan,
    links: &Links,
    server: u32,
    peer: u32,
) -> impl Iterator<Item = u32> + 'a {
    let has_room = links.free(server) > 0;
    let neighbors = plan.loads.neighbors.of(server).iter().copied();
    neighbors.filter(move |&far| !has_room && far != peer)
}

/// A server that gets a circuit, and the far end of the one that it gives up for it.
#[derive(Clone, Copy)]
struct End {
    server: u32,
    far: Option<u32>,
}

impl End {
    /// Whether there is a port for the new circuit.
    fn has_port(self, links: &Links) -> bool {
        self.far.is_some() || links.free(self.server) > 0
    }
}

/// Joins two servers, and the far ends of the circuits that they give up for it.
fn join(links: &mut Links, ends: [End; 2]) {
    for End { server, far } in ends {
        if let Some(far) = far {
            links.remove(server, far);
        }
    }
    links.add(ends[0].server, ends[1].server);
    if let [Some(x), Some(y)] = ends.map(|end| end.far)
        && x != y
    {
        links.add(x, y);
    }
}

/// Undirected pairs by what a circuit more would save them: their bytes times the prices of the
/// circuits that they would no longer cross; most first.
fn suffering(plan: &Plan, traffic: &Traffic, prices: &Prices) -> Vec<(f64, u32, u32)> {
    let mut pain = vec![0.0; traffic.pairs.len()];
    for (send, routes) in plan.shares() {
        for (hops, share) in routes {
            let price: f64 =
                hops.iter().map(|hop| prices.of[send.phase * prices.bundles + hop]).sum();
            // One circuit alongside c others takes over 1 / (c + 1) of what they carry.
            let kept = if hops.len() == 1 { plan.loads.counts[hops[0]] } else { 0 };
            pain[send.pair] += share * price / f64::from(kept + 1);
        }
    }
    let mut pairs: Vec<(f64, u32, u32)> = traffic
        .pairs
        .iter()
        .zip(pain)
        .filter(|(_, pain)| *pain > 0.0)
        .map(|(&(from, to), pain)| (pain, from.min(to), from.max(to)))
        .collect();
    pairs.sort_unstable_by(|x, y| y.0.total_cmp(&x.0).then((x.1, x.2).cmp(&(y.1, y.2))));
    let mut seen = FxHashSet::default();
    pairs.retain(|&(_, a, b)| seen.insert((a, b)));
    pairs
}

/// How long single swaps are tried, and which.
pub(super) struct Effort {
    pub rounds: usize,
    pub seed: u64,
}

pub(super) fn swap_one(start: Plan, traffic: &Traffic, max_routes: u32, effort: &Effort) -> Plan {
    let rounds = effort.rounds;
    let threshold = THRESHOLD * (rounds as f64 / PATIENCE).min(1.0);
    let mut random = SplitMix64::seed_from_u64(effort.seed);
    let mut best = start.clone();
    let mut plan = start;
    let mut wanted = suffering(&plan, traffic, &Prices::new(&plan));
    for round in 0..rounds {
        let left = (rounds - round) as f64 / rounds as f64;
        let Some(links) = propose(&plan, &wanted, &mut random) else { continue };
        let Some(next) = evaluate(links, traffic, max_routes) else { continue };
        if next.cost > plan.cost * (1.0 + threshold * left * left) {
            continue;
        }
        plan = next;
        wanted = suffering(&plan, traffic, &Prices::new(&plan));
        if plan.cost < best.cost * (1.0 - PROGRESS) {
            best = plan.clone();
        }
    }
    best
}

/// A circuit for a pair, of those that suffer the sooner the more they do or any other, for any
/// others of its servers.
fn propose(plan: &Plan, wanted: &[(f64, u32, u32)], random: &mut SplitMix64) -> Option<Links> {
    let servers = plan.links.servers();
    let (a, b) = if below(random, 2) == 0 && !wanted.is_empty() {
        let first = below(random, wanted.len()) + 1;
        let (_, a, b) = wanted[below(random, first)];
        if below(random, 2) == 0 { (a, b) } else { (b, a) }
    } else {
        (below(random, servers) as u32, below(random, servers) as u32)
    };
    let mut links = plan.links.clone();
    let mut far = |server: u32, peer: u32| {
        let all: Vec<u32> = given_up(plan, &links, server, peer).collect();
        (!all.is_empty()).then(|| all[below(random, all.len())])
    };
    let ends = [End { server: a, far: far(a, b) }, End { server: b, far: far(b, a) }];
    if a == b || !ends.iter().all(|end| end.has_port(&links)) {
        return None;
    }
    join(&mut links, ends);
    matching::join_leftovers(&mut links);
    Some(links)
}

/// A number below a limit.
fn below(random: &mut SplitMix64, limit: usize) -> usize {
    ((u128::from(random.next_u64()) * limit as u128) >> 64) as usize
}
