//! Circuits for a demand that may be relayed.
//!
//! With relays a pair needs no circuit of its own: what counts is that hot servers keep all their
//! ports busy and that relays lie between. So circuits that ignore the demand are often as good as
//! any, and every candidate is judged by the routing that it admits: the circuits that are there,
//! the allocators' of one hop, circulants whose strides grow geometrically (few hops between any
//! two servers), and then swaps of the ends of two circuits, one at the busiest circuit or
//! server, as long as they help.

use super::request::{RelayRequest, Relayed};
use super::solve::relay;
use super::verify::verify;
use crate::allocation::{Request, allocate, port_bound};
use lightloom_model::{Allocator, Invalid, RelayCost};

/// Whose circuits a result has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// Those that were there.
    Held,
    /// The allocator's for one hop.
    Allocator(Allocator),
    /// A circulant of geometric strides.
    Expander,
    /// Swaps from one of these.
    Search,
}

/// Circuits, and the routing over them.
#[derive(Debug, Clone, PartialEq)]
pub struct RelayedAllocation {
    /// Parallel circuits of each pair, n x n, symmetric.
    pub circuits: Vec<u16>,
    /// The routing.
    pub routing: Relayed,
    /// Where the circuits come from.
    pub origin: Origin,
    /// Routings that were looked at.
    pub evaluations: u32,
}

impl RelayedAllocation {
    fn time(&self) -> f64 {
        self.routing.makespan + self.routing.latency
    }
}

/// The search ends when the time is at most this times the port bound.
const CLOSE: f64 = 1.01;

/// A candidate is taken if it needs at most this part of the time: circuits that are there, and
/// those that ignore the demand, come first.
const BETTER: f64 = 0.999;

/// Finds circuits that serve a demand fast when servers may relay.
///
/// The result is at least as fast as every candidate but for rounding (`BETTER`); `evaluations`
/// limits the number of routings that are looked at beyond those of the candidates.
///
/// # Errors
/// As [`RelayRequest::new`].
pub fn allocate_relayed(
    request: &Request,
    cost: RelayCost,
    evaluations: u32,
) -> Result<RelayedAllocation, Invalid> {
    let Request { demand, circuit_rate, eps_rates, .. } = *request;
    let no_circuits = vec![0; demand.len()];
    let dark = RelayRequest::new(demand, &no_circuits, circuit_rate, eps_rates, cost)?;
    let aim = CLOSE * port_bound(request);
    let mut best: Option<RelayedAllocation> = None;
    let mut looked: u32 = 0;
    for (origin, circuits) in candidates(request) {
        let judged = judge(&dark, circuits, origin);
        looked += 1;
        if best.as_ref().is_none_or(|best| judged.time() < BETTER * best.time()) {
            best = Some(judged);
        }
        if best.as_ref().is_some_and(|best| best.time() <= aim) {
            break;
        }
    }
    let mut best = best.expect("there is always a candidate");
    let limit = looked.saturating_add(evaluations);
    // Each round tries swaps at what is busiest now; the first one that helps is taken.
    let mut improved = true;
    while improved && best.time() > aim {
        improved = false;
        for circuits in swaps(request, &dark, &best) {
            if looked >= limit {
                break;
            }
            looked += 1;
            let judged = judge(&dark, circuits, Origin::Search);
            if judged.time() < best.time() {
                best = judged;
                improved = true;
                break;
            }
        }
    }
    best.evaluations = looked;
    Ok(best)
}

fn judge(dark: &RelayRequest, circuits: Vec<u16>, origin: Origin) -> RelayedAllocation {
    let routing = relay(&RelayRequest { circuits: &circuits, ..*dark });
    RelayedAllocation { circuits, routing, origin, evaluations: 0 }
}

/// Candidates, made one by one: most demands need only the first.
fn candidates<'a>(request: &'a Request) -> impl Iterator<Item = (Origin, Vec<u16>)> + 'a {
    let start = request.previous.map(|circuits| (Origin::Held, fitting(request, circuits)));
    let one_hop = |allocator| {
        let allocated = allocate(allocator, &Request { split: true, ..*request });
        (Origin::Allocator(allocator), allocated.circuits)
    };
    start
        .into_iter()
        .chain(std::iter::once(Allocator::Static).map(one_hop))
        .chain(std::iter::once_with(|| (Origin::Expander, expander(request))))
        .chain([Allocator::Best, Allocator::Reference].into_iter().map(one_hop))
}

/// Circuits as far as ports and allowed pairs admit them.
fn fitting(request: &Request, circuits: &[u16]) -> Vec<u16> {
    let mut taken = Taken::new(request);
    for a in 0..request.servers {
        for b in a + 1..request.servers {
            for _ in 0..circuits[a * request.servers + b] {
                taken.join(a, b);
            }
        }
    }
    taken.count
}

/// A circulant of strides 1, r, r^2, ..., where r is the root of n that uses all ports; what ports
/// are left go to the nearest servers, one circuit each, as often as there are any.
pub fn expander(request: &Request) -> Vec<u16> {
    let n = request.servers;
    let mut taken = Taken::new(request);
    let degree = request.ports.iter().copied().max().unwrap_or(0) as usize;
    let strides = (degree / 2).min(n / 2);
    let mut last = 0;
    for place in 0..strides {
        let ideal = (n as f64 / 2.0).powf(place as f64 / strides.max(2) as f64).round() as usize;
        last = ideal.max(last + 1).min(n / 2);
        for a in 0..n {
            taken.join(a, (a + last) % n);
        }
    }
    let mut joined = true;
    while joined {
        joined = false;
        let open: Vec<usize> = (0..n).filter(|&server| taken.free[server] > 0).collect();
        for stride in 1..=n / 2 {
            for &a in &open {
                joined |= taken.join(a, (a + stride) % n);
            }
        }
    }
    taken.count
}

/// Circuits with the ends of two of them swapped: of one at the busiest circuit or server, and
/// of any other.
fn swaps(request: &Request, dark: &RelayRequest, best: &RelayedAllocation) -> Vec<Vec<u16>> {
    let n = request.servers;
    let relayed = RelayRequest { circuits: &best.circuits, ..*dark };
    let loads = verify(&relayed, &best.routing.paths).expect("a routing of our own is sound");
    let mut pairs: Vec<(f64, usize, usize)> = Vec::new();
    for a in 0..n {
        for b in a + 1..n {
            let count = f64::from(best.circuits[a * n + b]);
            if count > 0.0 {
                let bytes = loads.arcs[a * n + b].max(loads.arcs[b * n + a]);
                pairs.push((bytes as f64 / count, a, b));
            }
        }
    }
    pairs.sort_by(|x, y| y.0.total_cmp(&x.0).then((x.1, x.2).cmp(&(y.1, y.2))));
    // The busiest circuits want company; the idlest ones can be spared.
    let mut candidates = Vec::new();
    for (rank, &(_, a, b)) in pairs.iter().enumerate() {
        for &(_, c, d) in pairs[rank + 1..].iter().rev().take(SPARED) {
            for (c, d) in [(c, d), (d, c)] {
                let distinct = a != c && a != d && b != c && b != d;
                if distinct && allowed(request, a, c) && allowed(request, b, d) {
                    candidates.push(swap_ends(&best.circuits, n, [a, b], [c, d]));
                }
            }
        }
        if candidates.len() >= MAX_SWAPS {
            break;
        }
    }
    candidates
}

/// The circuits with one of a - b and one of c - d replaced by a - c and b - d.
fn swap_ends(circuits: &[u16], n: usize, [a, b]: [usize; 2], [c, d]: [usize; 2]) -> Vec<u16> {
    let mut circuits = circuits.to_vec();
    for (x, y) in [(a, b), (c, d)] {
        circuits[x * n + y] -= 1;
        circuits[y * n + x] -= 1;
    }
    for (x, y) in [(a, c), (b, d)] {
        circuits[x * n + y] += 1;
        circuits[y * n + x] += 1;
    }
    circuits
}

/// Idle circuits that each busy one is paired with.
const SPARED: usize = 4;

/// Swaps that are prepared at a time.
const MAX_SWAPS: usize = 256;

fn allowed(request: &Request, a: usize, b: usize) -> bool {
    a != b && request.allowed.is_none_or(|allowed| allowed[a * request.servers + b])
}

/// Circuits under construction.
struct Taken<'a> {
    request: &'a Request<'a>,
    count: Vec<u16>,
    free: Vec<u32>,
}

impl<'a> Taken<'a> {
    fn new(request: &'a Request<'a>) -> Self {
        let n = request.servers;
        Self { request, count: vec![0; n * n], free: request.ports.to_vec() }
    }

    /// Adds a circuit if both ends have a free port; whether they have.
    fn join(&mut self, a: usize, b: usize) -> bool {
        let has_room = allowed(self.request, a, b) && self.free[a] > 0 && self.free[b] > 0;
        if has_room {
            let n = self.request.servers;
            self.free[a] -= 1;
            self.free[b] -= 1;
            self.count[a * n + b] += 1;
            self.count[b * n + a] += 1;
        }
        has_room
    }
}
