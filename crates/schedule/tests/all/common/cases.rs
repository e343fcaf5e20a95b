//! Requests to test with, and the slow but obvious way to check results.

#![allow(dead_code, reason = "each test file uses a part")]

use lightloom_model::Rate;
use lightloom_schedule::{Allocation, EpsRates, Request, route};
use proptest::prelude::*;

/// Line rate of every NIC.
pub const BITS: u64 = 400_000_000_000;

#[derive(Debug, Clone)]
pub struct Case {
    pub servers: usize,
    pub demand: Vec<u64>,
    pub ports: Vec<u32>,
    pub allowed: Vec<bool>,
    pub eps: u64,
    pub split: bool,
}

impl Case {
    /// Equal ports, all pairs allowed, two EPS NICs, split.
    pub fn new(servers: usize, demand: Vec<u64>, ports: u32) -> Self {
        let allowed = vec![true; servers * servers];
        Self { servers, demand, ports: vec![ports; servers], allowed, eps: 2 * BITS, split: true }
    }

    /// Skewed random demand.
    pub fn random(servers: usize, ports: u32, split: bool, random: &mut Random) -> Self {
        let cell = |_| (1e8 * random.uniform().powi(4)) as u64;
        let demand = (0..servers * servers).map(cell).collect();
        Self { split, ..Self::new(servers, demand, ports) }
    }

    pub fn request(&self) -> Request<'_> {
        self.request_at(Rate(BITS), EpsRates::Equal(Rate(self.eps)))
    }

    /// The same with other rates of circuits and servers.
    pub fn request_at<'a>(&'a self, circuit_rate: Rate, eps_rates: EpsRates<'a>) -> Request<'a> {
        Request::new(&self.demand, &self.ports, circuit_rate, eps_rates, self.split)
            .and_then(|request| request.with_allowed(Some(&self.allowed)))
            .unwrap()
    }

    /// The same where a pair with circuits may use the EPS too, or may not.
    pub fn divided(&self, split: bool) -> Self {
        Self { split, ..self.clone() }
    }

    pub fn slowest_rate(&self) -> f64 {
        BITS.min(self.eps.max(1)) as f64
    }

    /// Seconds of the slowest circuit bundle or EPS line, from the bytes of a result.
    pub fn slowest_line(&self, circuits: &[u16], eps_bytes: &[u64]) -> f64 {
        let n = self.servers;
        let mut slowest = 0.0_f64;
        for a in 0..n {
            let (mut sent, mut received) = (0.0, 0.0);
            for b in (0..n).filter(|&b| b != a) {
                let (cell, back) = (a * n + b, b * n + a);
                sent += eps_bytes[cell] as f64;
                received += eps_bytes[back] as f64;
                let own = (self.demand[cell] - eps_bytes[cell]) as f64 * 8.0;
                if own > 0.0 {
                    slowest = slowest.max(own / (f64::from(circuits[cell]) * BITS as f64));
                }
            }
            let worst = sent.max(received) * 8.0;
            if worst > 0.0 {
                slowest = slowest.max(worst / self.eps as f64);
            }
        }
        slowest
    }
}

/// A matrix with these cells and zeros elsewhere.
pub fn matrix(n: usize, cells: &[(usize, usize, u64)]) -> Vec<u64> {
    let mut bytes = vec![0; n * n];
    for &(from, to, size) in cells {
        bytes[from * n + to] = size;
    }
    bytes
}

/// One circuit for each of these pairs; a pair may be named several times.
pub fn joined_pairs(n: usize, pairs: &[(usize, usize)]) -> Vec<u16> {
    let mut count = vec![0; n * n];
    for &(a, b) in pairs {
        count[a * n + b] += 1;
        count[b * n + a] += 1;
    }
    count
}

/// Number of circuits.
pub fn circuits_of(found: &Allocation) -> u32 {
    found.circuits.iter().map(|&count| u32::from(count)).sum::<u32>() / 2
}

/// Circuits under construction, as plain as can be.
pub struct Builder<'a> {
    case: &'a Case,
    pub count: Vec<u16>,
    free: Vec<u32>,
}

impl<'a> Builder<'a> {
    pub fn new(case: &'a Case) -> Self {
        let count = vec![0; case.servers * case.servers];
        Self { case, count, free: case.ports.clone() }
    }

    pub fn of(&self, (a, b): (usize, usize)) -> u16 {
        self.count[a * self.case.servers + b]
    }

    pub fn has_room(&self, (a, b): (usize, usize)) -> bool {
        self.free[a] > 0 && self.free[b] > 0
    }

    pub fn add(&mut self, (a, b): (usize, usize)) {
        for (server, peer) in [(a, b), (b, a)] {
            self.free[server] -= 1;
            self.count[server * self.case.servers + peer] += 1;
        }
    }

    pub fn directions(&self, (a, b): (usize, usize)) -> (f64, f64) {
        let bytes = |from: usize, to: usize| self.case.demand[from * self.case.servers + to] as f64;
        (bytes(a, b), bytes(b, a))
    }

    /// Pairs that may be joined and have demand and a port at both ends.
    pub fn pairs(&self) -> Vec<(usize, usize)> {
        let n = self.case.servers;
        let all = (0..n).flat_map(|a| (a + 1..n).map(move |b| (a, b)));
        all.filter(|&(a, b)| {
            let (forth, back) = self.directions((a, b));
            let ports = self.case.ports[a].min(self.case.ports[b]);
            self.case.allowed[a * n + b] && ports > 0 && forth + back > 0.0
        })
        .collect()
    }
}

/// Demand with zeros and sizes of very different magnitude.
fn bytes() -> impl Strategy<Value = u64> {
    prop_oneof![
        2 => Just(0_u64),
        4 => 0..100_000_000_u64,
        1 => 0..1_000_u64,
        1 => 0..(1_u64 << 45),
    ]
}

/// Any request for up to `limit` servers.
pub fn case(limit: usize) -> impl Strategy<Value = Case> {
    (1..=limit)
        .prop_flat_map(|n| {
            (
                prop::collection::vec(bytes(), n * n),
                prop::collection::vec(0..8_u32, n),
                prop::collection::vec(prop::bool::weighted(0.85), n * n),
                prop_oneof![Just(2 * BITS), Just(BITS / 3), Just(0)],
                any::<bool>(),
            )
        })
        .prop_map(|(demand, ports, mut allowed, eps, split)| {
            let n = ports.len();
            for a in 0..n {
                for b in 0..a {
                    allowed[a * n + b] = allowed[b * n + a];
                }
            }
            Case { servers: n, demand, ports, allowed, eps, split }
        })
}

/// Requests whose pairs all differ in TX + RX, so that no tie is broken by index. They differ by
/// factors that no division by circuits or by 100 per circuit turns into each other.
pub fn distinct_case(limit: usize) -> impl Strategy<Value = Case> {
    case(limit).prop_map(|mut case| {
        let n = case.servers;
        let mut prime = 1_000_003_u64;
        for a in 0..n {
            for b in a + 1..n {
                prime += 7_919;
                case.demand[a * n + b] = prime;
                case.demand[b * n + a] = case.demand[b * n + a] % 1_000 * 16_000_057;
            }
        }
        case
    })
}

/// Demand of a few sizes only, so that many pairs are in equal need.
pub fn tied(mut case: Case) -> Case {
    case.demand.iter_mut().for_each(|bytes| *bytes = *bytes % 3 * 6_000_000);
    case
}

/// Random circuits within ports and allowed pairs.
pub fn random_circuits(case: &Case, random: &mut Random) -> Vec<u16> {
    let mut builder = Builder::new(case);
    let n = case.servers;
    for _ in 0..4 * n {
        let [a, b] = [0, 1].map(|_| (random.uniform() * n as f64) as usize);
        if a != b && case.allowed[a * n + b] && builder.has_room((a, b)) {
            builder.add((a, b));
        }
    }
    builder.count
}

/// The same request with servers in another order; server i is `order[i]` there.
pub fn permuted(case: &Case, seed: u64) -> (Case, Vec<usize>) {
    let n = case.servers;
    let mut order: Vec<usize> = (0..n).collect();
    let mut random = Random(seed | 1);
    for i in (1..n).rev() {
        order.swap(i, (random.uniform() * (i + 1) as f64) as usize);
    }
    let mut other = case.clone();
    for a in 0..n {
        other.ports[order[a]] = case.ports[a];
        for b in 0..n {
            let to = order[a] * n + order[b];
            other.demand[to] = case.demand[a * n + b];
            other.allowed[to] = case.allowed[a * n + b];
        }
    }
    (other, order)
}

/// The least makespan over all circuits that the ports and allowed pairs admit.
pub fn brute_force(case: &Case) -> f64 {
    let mut best = f64::INFINITY;
    every_multigraph(case, |circuits| best = best.min(route(&case.request(), circuits).makespan));
    best
}

/// Shows all circuits that the ports and allowed pairs admit.
pub fn every_multigraph(case: &Case, mut show: impl FnMut(&[u16])) {
    let mut circuits = vec![0; case.servers * case.servers];
    extend_multigraph(case, (0, 1), &mut circuits, &mut case.ports.clone(), &mut show);
}

fn extend_multigraph(
    case: &Case,
    (a, b): (usize, usize),
    circuits: &mut Vec<u16>,
    free: &mut [u32],
    show: &mut impl FnMut(&[u16]),
) {
    let n = case.servers;
    if a + 1 >= n {
        show(circuits);
        return;
    }
    let next = if b + 1 < n { (a, b + 1) } else { (a + 1, a + 2) };
    let limit = if case.allowed[a * n + b] { free[a].min(free[b]) } else { 0 };
    for count in 0..=limit {
        (circuits[a * n + b], circuits[b * n + a]) = (count as u16, count as u16);
        free[a] -= count;
        free[b] -= count;
        extend_multigraph(case, next, circuits, free, show);
        free[a] += count;
        free[b] += count;
    }
    (circuits[a * n + b], circuits[b * n + a]) = (0, 0);
}

/// Marsaglia's xorshift; good enough for test data.
pub struct Random(pub u64);

impl Random {
    pub fn uniform(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }
}
