//! Regions whose servers relay, their paths from the definitions, and exact optima.

#![allow(dead_code, reason = "each user takes a part")]

use super::simplex::{Program, Row};
use lightloom_model::{Invalid, Rate};
use lightloom_schedule::EpsRates;
use lightloom_schedule::relay::{
    DualPrices, PathKind, PathShare, RelayCost, RelayPath, RelayRequest, Via,
};
use proptest::prelude::*;

/// Rate of one circuit.
pub const BITS: u64 = 400_000_000_000;
/// The same in bytes.
pub const BYTES_PER_S: f64 = 50e9;

pub const KINDS: [PathKind; 5] = [
    PathKind::Circuit,
    PathKind::Eps,
    PathKind::CircuitCircuit,
    PathKind::CircuitEps,
    PathKind::EpsCircuit,
];

#[derive(Debug, Clone)]
pub struct World {
    pub n: usize,
    pub demand: Vec<u64>,
    pub circuits: Vec<u16>,
    pub circuit_rate: Rate,
    pub eps: Vec<Rate>,
    pub cost: RelayCost,
}

/// The optimum of a world: seconds, the division that takes them, and prices that prove it.
#[derive(Debug)]
pub struct Exact {
    pub seconds: f64,
    pub parts: Vec<PathShare>,
    pub prices: DualPrices,
    /// The same, flat.
    pub price: Vec<f64>,
}

impl World {
    /// No demand and no circuits; the EPS of every server is as fast as so many circuits.
    pub fn new(n: usize, eps_circuits: f64) -> Self {
        Self {
            n,
            demand: vec![0; n * n],
            circuits: vec![0; n * n],
            circuit_rate: Rate(BITS),
            eps: vec![Rate((eps_circuits * BITS as f64) as u64); n],
            cost: RelayCost::default(),
        }
    }

    pub fn join(mut self, a: usize, b: usize, count: u16) -> Self {
        self.circuits[a * self.n + b] = count;
        self.circuits[b * self.n + a] = count;
        self
    }

    pub fn send(mut self, from: usize, to: usize, bytes: u64) -> Self {
        self.demand[from * self.n + to] = bytes;
        self
    }

    pub fn request(&self) -> RelayRequest<'_> {
        self.checked().unwrap()
    }

    pub fn checked(&self) -> Result<RelayRequest<'_>, Invalid> {
        let (rate, eps_rates) = (self.circuit_rate, EpsRates::Each(&self.eps));
        RelayRequest::new(&self.demand, &self.circuits, rate, eps_rates, self.cost)
    }

    pub fn joined(&self, a: usize, b: usize) -> bool {
        self.circuits[a * self.n + b] > 0
    }

    /// Ordered pairs with demand.
    pub fn pairs(&self) -> Vec<[usize; 2]> {
        let cells = 0..self.n * self.n;
        let pair = |cell: usize| [cell / self.n, cell % self.n];
        let wanted = |cell: &usize| self.demand[*cell] > 0 && cell / self.n != cell % self.n;
        cells.filter(wanted).map(pair).collect()
    }

    /// Every path that bytes of a pair could take.
    pub fn vias(&self, [from, to]: [usize; 2]) -> Vec<Via> {
        let mut vias = Vec::new();
        for kind in KINDS {
            let relays = if kind.is_relayed() { 0..self.n } else { 0..1 };
            for relay in relays.filter(|&k| !kind.is_relayed() || (k != from && k != to)) {
                let via = Via { kind, relay: relay as u32 };
                if self.crossed([from, to], via).iter().all(|&r| self.capacity(r) > 0.0) {
                    vias.push(via);
                }
            }
        }
        vias
    }

    /// What a path uses: arcs first, then EPS out, EPS in, and staging.
    pub fn crossed(&self, [from, to]: [usize; 2], via: Via) -> Vec<usize> {
        let (n, k) = (self.n, via.relay as usize);
        let eps = |a: usize, b: usize| [n * n + a, n * n + n + b];
        let staging = n * n + 2 * n + k;
        match via.kind {
            PathKind::Circuit => vec![from * n + to],
            PathKind::Eps => eps(from, to).to_vec(),
            PathKind::CircuitCircuit => vec![from * n + k, k * n + to, staging],
            PathKind::CircuitEps => [&eps(k, to)[..], &[from * n + k, staging]].concat(),
            PathKind::EpsCircuit => [&eps(from, k)[..], &[k * n + to, staging]].concat(),
        }
    }

    /// Bytes per second of what paths use.
    pub fn capacity(&self, resource: usize) -> f64 {
        let (n, arcs) = (self.n, self.n * self.n);
        let rate = match resource.checked_sub(arcs) {
            None => f64::from(self.circuits[resource]) * self.circuit_rate.0 as f64,
            Some(place) if place < 2 * n => self.eps[place % n].0 as f64,
            _ => self.cost.staging_rate.map_or(f64::INFINITY, |rate| rate.0 as f64),
        };
        rate / 8.0
    }

    pub fn resources(&self) -> usize {
        self.n * self.n + 3 * self.n
    }

    /// Bytes over everything that paths use.
    pub fn loads(&self, paths: &[RelayPath]) -> Vec<u64> {
        let mut loads = vec![0; self.resources()];
        for path in paths {
            let via = Via { kind: path.kind, relay: path.relay.unwrap_or(0) };
            for resource in self.crossed([path.source as usize, path.destination as usize], via) {
                loads[resource] += path.bytes;
            }
        }
        loads
    }

    /// Seconds until the last byte of these loads.
    pub fn seconds(&self, loads: &[u64]) -> f64 {
        let busy = loads.iter().enumerate().filter(|load| *load.1 > 0);
        busy.map(|(resource, &bytes)| bytes as f64 / self.capacity(resource)).fold(0.0, f64::max)
    }

    /// The best division among the paths that `allowed` admits, by linear programming: the largest
    /// multiple of the demand that one second can carry. Nothing if a pair has no path.
    pub fn exact(&self, allowed: impl Fn(Via) -> bool) -> Option<Exact> {
        let pairs = self.pairs();
        let unit = pairs.iter().map(|pair| self.bytes(*pair)).fold(0.0, f64::max);
        let mut columns = Vec::new();
        for (index, &pair) in pairs.iter().enumerate() {
            columns.extend(self.vias(pair).into_iter().filter(|&v| allowed(v)).map(|v| (index, v)));
        }
        let mut rows = Vec::new();
        for (index, &pair) in pairs.iter().enumerate() {
            let mut coefficients: Vec<f64> =
                columns.iter().map(|column| -f64::from(u8::from(column.0 == index))).collect();
            coefficients.push(self.bytes(pair) / unit);
            rows.push(Row { coefficients, bound: 0.0 });
        }
        let limited: Vec<usize> =
            (0..self.resources()).filter(|&resource| self.capacity(resource).is_finite()).collect();
        for &resource in &limited {
            let uses = |&(pair, via): &(usize, Via)| {
                f64::from(u8::from(self.crossed(pairs[pair], via).contains(&resource)))
            };
            let mut coefficients: Vec<f64> = columns.iter().map(uses).collect();
            coefficients.push(0.0);
            rows.push(Row { coefficients, bound: self.capacity(resource) / BYTES_PER_S });
        }
        let mut objective = vec![0.0; columns.len()];
        objective.push(1.0);
        let found = Program { objective, rows }.maximize().filter(|found| found.value > 0.0)?;
        let mut price = vec![0.0; self.resources()];
        for (&resource, &dual) in limited.iter().zip(&found.duals[pairs.len()..]) {
            price[resource] = dual;
        }
        let seconds = unit / found.value / BYTES_PER_S;
        let share = |(&(pair, via), &part): (&(usize, Via), &f64)| PathShare {
            from: pairs[pair][0] as u32,
            to: pairs[pair][1] as u32,
            via,
            bytes: part / found.value * unit,
        };
        let parts = columns.iter().zip(&found.solution).map(share).collect();
        Some(Exact { seconds, parts, prices: self.prices(&price), price })
    }

    pub fn prices(&self, price: &[f64]) -> DualPrices {
        let (arcs, rest) = price.split_at(self.n * self.n);
        let part = |place: usize| &rest[place * self.n..(place + 1) * self.n];
        DualPrices::new(arcs, [part(0), part(1), part(2)]).unwrap()
    }

    fn bytes(&self, [from, to]: [usize; 2]) -> f64 {
        self.demand[from * self.n + to] as f64
    }

    /// The same world with server i called `order[i]`.
    pub fn renamed(&self, order: &[usize]) -> Self {
        let mut other = self.clone();
        for a in 0..self.n {
            other.eps[order[a]] = self.eps[a];
            for b in 0..self.n {
                let cell = order[a] * self.n + order[b];
                other.demand[cell] = self.demand[a * self.n + b];
                other.circuits[cell] = self.circuits[a * self.n + b];
            }
        }
        other
    }

    /// What was sent is received.
    pub fn transposed(&self) -> Self {
        let n = self.n;
        let demand = (0..n * n).map(|cell| self.demand[cell % n * n + cell / n]).collect();
        Self { demand, ..self.clone() }
    }
}

/// Worlds of up to `limit` servers, whose transfers are none or at least a megabyte.
pub fn world(limit: usize) -> impl Strategy<Value = World> {
    let bytes = prop_oneof![2 => Just(0_u64), 3 => 1_000_000..200_000_000_u64];
    let count = prop_oneof![3 => Just(0_u16), 3 => Just(1), 1 => 2..4_u16];
    let eps =
        prop_oneof![1 => Just(0_u64), 2 => Just(BITS / 4), 3 => Just(BITS), 2 => Just(2 * BITS)];
    let staging = prop::option::of(prop_oneof![Just(Rate(BITS / 3)), Just(Rate(2 * BITS))]);
    (2..=limit)
        .prop_flat_map(move |n| {
            let demand = prop::collection::vec(bytes.clone(), n * n);
            let counts = prop::collection::vec(count.clone(), n * n);
            let eps = prop::collection::vec(eps.clone(), n);
            (Just(n), demand, counts, eps, staging.clone())
        })
        .prop_map(|(n, demand, counts, eps, staging_rate)| {
            let mut world = World { demand, ..World::new(n, 0.0) };
            for a in 0..n {
                for b in 0..a {
                    world = world.join(a, b, counts[a * n + b]);
                }
            }
            world.eps = eps.into_iter().map(Rate).collect();
            world.cost.staging_rate = staging_rate;
            world
        })
}
