//! Least p-norm of the loads, pair by pair, for growing p.
//!
//! The makespan is the largest load u_r = bytes_r / capacity_r. It is approached through
//! sum_r u_r^(p + 1), whose derivative gives every resource a price per byte, u_r^p / capacity_r. A
//! sweep visits every pair and moves bytes from its dearer ways to its cheapest one until both cost
//! the same (an exact line search, so the sum never grows), with prices that are up to date at any
//! time. Hence a few sweeps suffice where routing all pairs against the same prices would need
//! hundreds. The prices also prove a lower bound, see [`super::dual`], so the descent knows when to
//! stop.

use super::dual;
use super::round::Part;
use super::ways::{Hop, Uses, Ways, cheapest};

/// Ways that one pair uses at a time. An optimal routing needs hardly more than one per pair on
/// average (pairs plus resources in all), so this is generous.
const SLOTS: usize = 8;

/// A stage has p = 2^squarings and at most so many sweeps.
const STAGES: [(u32, u32); 5] = [(2, 2), (3, 2), (4, 4), (5, 6), (6, 8)];

/// A pair whose dearest way costs no more than this times its cheapest one is left alone.
const TOLERANCE: f64 = 1.02;

/// The descent ends when the makespan is at most this times the lower bound.
const CLOSE: f64 = 1.005;

/// How the bytes of one pair are divided.
#[derive(Debug, Clone, Copy)]
struct Pair {
    from: u32,
    to: u32,
    hops: [Hop; SLOTS],
    bytes: [f64; SLOTS],
    used: usize,
}

impl Pair {
    fn new(parts: &[Part]) -> Self {
        let mut pair = Self {
            from: parts[0].from,
            to: parts[0].to,
            hops: [Hop::EPS; SLOTS],
            bytes: [0.0; SLOTS],
            used: parts.len(),
        };
        for (slot, part) in parts.iter().enumerate() {
            pair.hops[slot] = part.hop;
            pair.bytes[slot] = part.bytes;
        }
        pair
    }

    fn shift(&mut self, out: usize, (into, hop): (usize, Hop), bytes: f64) {
        self.bytes[out] -= bytes;
        self.hops[into] = hop;
        self.bytes[into] += bytes;
        self.used = self.used.max(into + 1);
    }

    fn parts(&self) -> impl Iterator<Item = Part> + '_ {
        (0..self.used).map(|slot| Part {
            from: self.from,
            to: self.to,
            hop: self.hops[slot],
            bytes: self.bytes[slot],
        })
    }
}

/// A routing under improvement.
pub struct Descent<'a> {
    ways: &'a Ways<'a>,
    pairs: Vec<Pair>,
    /// Bytes over each resource.
    load: Vec<f64>,
    /// Price per byte of each resource.
    price: Vec<f64>,
    /// 1 / (capacity times makespan), so that loads times these are at most about 1.
    inverse: Vec<f64>,
    squarings: u32,
    /// 1 / bytes that one server may relay.
    memory: f64,
    /// The largest bound that any prices have proved, in bytes over one circuit.
    pub bound: f64,
    /// Sweeps done.
    pub sweeps: u32,
}

impl<'a> Descent<'a> {
    /// Starts from a routing of at most [`SLOTS`] parts per pair.
    pub fn new(ways: &'a Ways<'a>, parts: &[Part], bound: f64) -> Self {
        let chunks = parts.chunk_by(|one, next| (one.from, one.to) == (next.from, next.to));
        let pairs: Vec<Pair> = chunks.map(Pair::new).collect();
        let mut load = vec![0.0; ways.inverse.len()];
        for part in parts {
            for resource in ways.uses(part.from as usize, part.to as usize, part.hop) {
                load[resource as usize] += part.bytes;
            }
        }
        let (price, inverse) = (vec![0.0; load.len()], vec![0.0; load.len()]);
        let memory = ways.request.cost.memory_limit.map_or(0.0, |limit| 1.0 / limit.max(1) as f64);
        Self { ways, pairs, load, price, inverse, squarings: 0, memory, bound, sweeps: 0 }
    }

    /// The routing reached.
    pub fn parts(&self) -> Vec<Part> {
        self.pairs.iter().flat_map(Pair::parts).collect()
    }

    /// Time of the busiest resource, in bytes over one circuit.
    pub fn makespan(&self) -> f64 {
        let times = self.load.iter().zip(&self.ways.inverse);
        times.map(|(&load, &inverse)| if load > 0.0 { load * inverse } else { 0.0 }).fold(0.0, f64::max)
    }

    /// Runs all stages, or until the makespan is close to the bound.
    pub fn run(&mut self) {
        for (squarings, sweeps) in STAGES {
            self.reprice(squarings);
            for _ in 0..sweeps {
                if self.is_close() {
                    return;
                }
                let moved = self.sweep();
                self.sweeps += 1;
                self.reprice(squarings);
                if !moved {
                    break;
                }
            }
            self.bound = self.bound.max(dual::bound(self.ways, &self.price));
        }
    }

    fn is_close(&self) -> bool {
        self.makespan() <= CLOSE * self.bound
    }

    fn reprice(&mut self, squarings: u32) {
        self.squarings = squarings;
        let makespan = self.makespan();
        for resource in 0..self.load.len() {
            let inverse = self.ways.inverse[resource];
            self.inverse[resource] = inverse / makespan;
            if self.ways.is_staging(resource) {
                // what fills the memory is as dear as what lasts as long as the makespan
                self.inverse[resource] = self.inverse[resource].max(self.memory);
            }
            self.price[resource] =
                if inverse.is_finite() { self.price_at(resource, self.load[resource]) } else { inverse };
        }
    }

    fn price_at(&self, resource: usize, load: f64) -> f64 {
        let inverse = self.inverse[resource];
        let mut power = load * inverse;
        for _ in 0..self.squarings {
            power *= power;
        }
        power * inverse
    }

    fn sweep(&mut self) -> bool {
        let mut moved = false;
        for index in 0..self.pairs.len() {
            moved |= self.visit(index);
        }
        moved
    }

    /// Moves bytes of a pair to its cheapest way.
    fn visit(&mut self, index: usize) -> bool {
        let pair = self.pairs[index];
        let (from, to) = (pair.from as usize, pair.to as usize);
        let Some((_, hop)) = cheapest(self.ways, &self.price, from, to) else { return false };
        let into = self.slot_for(&pair, hop);
        let target = self.ways.uses(from, to, into.1);
        let mut moved = false;
        for other in 0..pair.used {
            let bytes = pair.bytes[other];
            if other == into.0 || bytes <= 0.0 {
                continue;
            }
            let source = self.ways.uses(from, to, pair.hops[other]);
            if self.cost(&source) <= self.cost(&target) * TOLERANCE {
                continue;
            }
            let shift = self.line_search(source, target, bytes);
            if shift > 0.0 {
                self.add(&source, -shift);
                self.add(&target, shift);
                self.pairs[index].shift(other, into, shift);
                moved = true;
            }
        }
        moved
    }

    /// The slot of this way, or an empty one for it; if there is none, the slot and way of the
    /// cheapest one in use.
    fn slot_for(&self, pair: &Pair, hop: Hop) -> (usize, Hop) {
        let used = 0..pair.used;
        let same = used.clone().find(|&slot| pair.hops[slot] == hop && pair.bytes[slot] > 0.0);
        let empty = || used.clone().find(|&slot| pair.bytes[slot] <= 0.0);
        let next = || (pair.used < SLOTS).then_some(pair.used);
        if let Some(slot) = same.or_else(empty).or_else(next) {
            return (slot, hop);
        }
        let cost = |slot: usize| {
            self.cost(&self.ways.uses(pair.from as usize, pair.to as usize, pair.hops[slot]))
        };
        let slot = used.min_by(|&one, &other| cost(one).total_cmp(&cost(other)));
        let slot = slot.expect("all slots are in use");
        (slot, pair.hops[slot])
    }

    fn cost(&self, uses: &Uses) -> f64 {
        uses.iter().map(|&resource| self.price[resource as usize]).sum()
    }

    fn add(&mut self, uses: &Uses, bytes: f64) {
        for &resource in uses {
            let resource = resource as usize;
            self.load[resource] = (self.load[resource] + bytes).max(0.0);
            self.price[resource] = self.price_at(resource, self.load[resource]);
        }
    }

    /// Bytes, at most all, to move from one way to another such that both cost the same.
    fn line_search(&self, mut source: Uses, mut target: Uses, all: f64) -> f64 {
        let nothing = self.ways.nothing();
        for resource in &mut source {
            if let Some(same) = target.iter_mut().find(|other| *other == resource) {
                (*resource, *same) = (nothing, nothing);
            }
        }
        let difference = |shift: f64| {
            let at = |resource: u32, shift: f64| {
                let resource = resource as usize;
                self.price_at(resource, self.load[resource] + shift)
            };
            let dear: f64 = source.iter().map(|&resource| at(resource, -shift)).sum();
            let cheap: f64 = target.iter().map(|&resource| at(resource, shift)).sum();
            cheap - dear
        };
        if difference(all) <= 0.0 {
            return all;
        }
        let (mut low, mut high) = (0.0, all);
        for _ in 0..6 {
            let middle = f64::midpoint(low, high);
            if difference(middle) > 0.0 {
                high = middle;
            } else {
                low = middle;
            }
        }
        low
    }
}
