//! Minimum p-norm of the loads, pair by pair, for growing p.
//!
//! The makespan is that of the busiest resource, where u = bytes / capacity. It is approached
//! through the sum of `u^(p + 1)` over all resources, whose derivative gives every resource a price
//! per byte, `u^p / capacity`. A sweep visits every pair and moves bytes from its dearest way to
//! its cheapest one until both cost the same (by line search, so the sum falls), with prices that
//! are up to date at any time. Hence a few sweeps suffice where routing all pairs against the same
//! prices would need hundreds. The prices also prove a lower bound, see [`super::dual`], so the
//! descent knows when to stop.

use super::cheapest::Cheapest;
use super::dual;
use super::resources::{RegionResources, Uses, Via};
use super::round::PathShare;

/// Paths that one pair uses at a time. An optimal routing needs hardly more than one per pair on
/// average (pairs plus resources in all), so this is generous.
const SLOTS: usize = 8;

/// Stages: p = 2^squarings, and the part of all work to spend, in hundredths.
const STAGES: [(u32, usize); 3] = [(1, 27), (3, 27), (6, 46)];

/// Work in all, in visits of pairs that pay a price worth looking at: so many, and so many per
/// pair.
const VISITS: usize = 3000;
const VISITS_PER_PAIR: usize = 5;

/// Maximum number of sweeps of one stage.
const SWEEPS: u32 = 50;

/// From this stage on prices prove bounds that are worth their computation, every so many sweeps.
const PROVING: u32 = 4;
const PROOF_EVERY: u32 = 8;

/// A pair whose dearest way costs no more than this times its cheapest one is left alone.
const TOLERANCE: f64 = 1.2;

/// A pair that pays at most this part of the highest price is left alone.
const NEGLIGIBLE: f64 = 0.03;

/// Steps of a line search, which ends when both paths cost the same but for this part.
const NEWTON_STEPS: u32 = 3;
const EQUAL: f64 = 0.2;

/// The descent ends when the makespan is at most this times the lower bound.
const CLOSE: f64 = 1.005;

/// How the bytes of one pair are divided.
#[derive(Debug, Clone, Copy)]
struct Pair {
    from: u32,
    to: u32,
    vias: [Via; SLOTS],
    uses: [Uses; SLOTS],
    bytes: [f64; SLOTS],
    used: usize,
}

impl Pair {
    fn new(resources: &RegionResources, parts: &[PathShare]) -> Self {
        let mut pair = Self {
            from: parts[0].from,
            to: parts[0].to,
            vias: [Via::EPS; SLOTS],
            uses: [[resources.nothing(); 4]; SLOTS],
            bytes: [0.0; SLOTS],
            used: parts.len(),
        };
        for (slot, part) in parts.iter().enumerate() {
            pair.vias[slot] = part.via;
            pair.uses[slot] = part.uses(resources);
            pair.bytes[slot] = part.bytes;
        }
        pair
    }

    /// Forgets a way that carries nothing any more.
    fn drop(&mut self, slot: usize) {
        self.used -= 1;
        let last = self.used;
        (self.vias[slot], self.uses[slot], self.bytes[slot]) =
            (self.vias[last], self.uses[last], self.bytes[last]);
    }

    fn parts(&self) -> impl Iterator<Item = PathShare> + '_ {
        (0..self.used).map(|slot| PathShare {
            from: self.from,
            to: self.to,
            via: self.vias[slot],
            bytes: self.bytes[slot],
        })
    }
}

/// A routing under improvement.
pub(super) struct Descent<'a> {
    resources: &'a RegionResources<'a>,
    pairs: Vec<Pair>,
    /// Bytes over each resource.
    load: Vec<f64>,
    /// Price per byte of each resource.
    price: Vec<f64>,
    /// 1 / (capacity times makespan), so that loads times these are at most about 1.
    inverse: Vec<f64>,
    squarings: u32,
    cheapest: Cheapest,
    /// Pairs that pay no more per byte are left alone.
    negligible: f64,
    /// Resources whose prices follow their loads.
    priced: Vec<u32>,
    /// 1 / bytes that one server may relay.
    memory: f64,
    /// The largest bound that any prices have proved, in bytes over one circuit.
    pub bound: f64,
    /// Visits of this stage that found a price worth looking at.
    visits: usize,
}

impl<'a> Descent<'a> {
    /// Starts from a routing of at most [`SLOTS`] parts per pair.
    pub(super) fn new(resources: &'a RegionResources<'a>, parts: &[PathShare], bound: f64) -> Self {
        let chunks = parts.chunk_by(|one, next| (one.from, one.to) == (next.from, next.to));
        let mut pairs = Vec::with_capacity(parts.len());
        pairs.extend(chunks.map(|parts| Pair::new(resources, parts)));
        let mut load = vec![0.0; resources.inverse.len()];
        for part in parts {
            for resource in part.uses(resources) {
                load[resource as usize] += part.bytes;
            }
        }
        // what is not limited keeps these
        let absent = |&inverse: &f64| if inverse.is_finite() { 0.0 } else { inverse };
        let price: Vec<f64> = resources.inverse.iter().map(absent).collect();
        let inverse = vec![0.0; load.len()];
        let memory =
            resources.request.cost.memory_limit.map_or(0.0, |limit| 1.0 / limit.max(1) as f64);
        let mut priced = resources.limited.clone();
        if memory > 0.0 && resources.request.cost.staging_rate.is_none() {
            priced.extend((0..resources.n).map(|server| resources.staging(server)));
        }
        let cheapest = Cheapest::new(resources, &price);
        Self {
            resources,
            pairs,
            load,
            price,
            inverse,
            squarings: 0,
            cheapest,
            negligible: 0.0,
            priced,
            memory,
            bound,
            visits: 0,
        }
    }

    /// The routing reached.
    pub(super) fn parts(&self) -> Vec<PathShare> {
        self.pairs.iter().flat_map(Pair::parts).collect()
    }

    /// Time of the busiest resource, in bytes over one circuit.
    pub(super) fn makespan(&self) -> f64 {
        let limited = self.resources.limited.iter().map(|&resource| resource as usize);
        let time = |resource: usize| self.load[resource] * self.resources.inverse[resource];
        limited.map(time).fold(0.0, f64::max)
    }

    /// Runs all stages, or until the makespan is close to the bound.
    pub(super) fn run(&mut self) {
        let work = VISITS + VISITS_PER_PAIR * self.pairs.len();
        for (squarings, part) in STAGES {
            self.reprice(squarings);
            self.visits = 0;
            for sweep in 1..=SWEEPS {
                if self.is_close() {
                    return;
                }
                let moved = self.sweep();
                self.reprice(squarings);
                let done = !moved || self.visits >= work * part / 100;
                if squarings >= PROVING && (done || sweep % PROOF_EVERY == 0) {
                    self.bound = self.bound.max(self.proven());
                }
                if done {
                    break;
                }
            }
        }
    }

    /// The bound that the prices of now prove. Memory does not grow with time, so it has no part.
    fn proven(&self) -> f64 {
        if self.memory == 0.0 {
            return dual::bound(self.resources, &self.price);
        }
        let mut price = self.price.clone();
        for (resource, price) in price.iter_mut().enumerate() {
            if self.resources.inverse[resource] == 0.0 {
                *price = 0.0;
            }
        }
        dual::bound(self.resources, &price)
    }

    fn is_close(&self) -> bool {
        self.makespan() <= CLOSE * self.bound
    }

    fn reprice(&mut self, squarings: u32) {
        self.squarings = squarings;
        let makespan = self.makespan();
        let mut busiest = 0.0_f64;
        for place in 0..self.priced.len() {
            let resource = self.priced[place] as usize;
            self.inverse[resource] = self.resources.inverse[resource] / makespan;
            if self.resources.is_staging(resource) {
                // what fills the memory is as dear as what lasts as long as the makespan
                self.inverse[resource] = self.inverse[resource].max(self.memory);
            }
            let price = self.price_at(resource, self.load[resource]);
            self.price[resource] = price;
            busiest = busiest.max(price);
        }
        self.negligible = NEGLIGIBLE * busiest;
        self.cheapest.renew(self.resources, &self.price);
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

    /// Moves bytes of a pair from its dearest way to its cheapest one.
    fn visit(&mut self, index: usize) -> bool {
        let pair = &self.pairs[index];
        let (mut dearest, mut out) = (self.negligible, None);
        for slot in 0..pair.used {
            let cost = self.cost(&pair.uses[slot]);
            if cost > dearest {
                (dearest, out) = (cost, Some(slot));
            }
        }
        let Some(out) = out else { return false };
        self.visits += 1;
        let (from, to) = (pair.from as usize, pair.to as usize);
        let (price, via) = self.cheapest.find(self.resources, &self.price, (from, to));
        if dearest <= price * TOLERANCE {
            return false;
        }
        let (into, target) = self.slot_for(index, via);
        if into == out {
            return false;
        }
        let pair = &self.pairs[index];
        let (source, all) = (pair.uses[out], pair.bytes[out]);
        let shift = self.line_search(&source, &target, all);
        if shift <= 0.0 {
            return false;
        }
        self.add(&source, -shift);
        self.add(&target, shift);
        let pair = &mut self.pairs[index];
        if into == pair.used {
            (pair.vias[into], pair.uses[into], pair.bytes[into]) = (via, target, 0.0);
            pair.used += 1;
        }
        pair.bytes[into] += shift;
        pair.bytes[out] = all - shift;
        if shift >= all {
            pair.drop(out);
        }
        true
    }

    /// The slot of this way, or the next one for it; if there is none, that of the cheapest way in
    /// use. And what the way in that slot uses.
    fn slot_for(&self, index: usize, via: Via) -> (usize, Uses) {
        let pair = &self.pairs[index];
        let used = 0..pair.used;
        let same = used.clone().find(|&slot| pair.vias[slot] == via);
        if same.is_none() && pair.used < SLOTS {
            return (pair.used, self.resources.uses(pair.from as usize, pair.to as usize, via));
        }
        let cost = |slot: usize| self.cost(&pair.uses[slot]);
        let cheapest = || used.min_by(|&one, &other| cost(one).total_cmp(&cost(other)));
        let slot = same.or_else(cheapest).expect("every pair uses some way");
        (slot, pair.uses[slot])
    }

    fn cost(&self, uses: &Uses) -> f64 {
        uses.iter().map(|&resource| self.price[resource as usize]).sum()
    }

    fn add(&mut self, uses: &Uses, bytes: f64) {
        for &resource in uses {
            let resource = resource as usize;
            if self.inverse[resource] > 0.0 {
                self.load[resource] = (self.load[resource] + bytes).max(0.0);
                self.price[resource] = self.price_at(resource, self.load[resource]);
            }
        }
    }

    /// Bytes, at most all, to move from one way to another such that both cost the same.
    ///
    /// Newton's method on the difference of the two costs, which grows with what is moved, within
    /// the interval that is known to hold its root. It begins where the busiest resources of both
    /// would be equally busy, which is the root for p without end.
    fn line_search(&self, source: &Uses, target: &Uses, all: f64) -> f64 {
        let falling = self.limits(source, target);
        let rising = self.limits(target, source);
        let (mut low, mut high) = (0.0, all);
        let mut shift = balance(falling.each(), rising.each(), all);
        for _ in 0..NEWTON_STEPS {
            let (saved, saved_slope) = self.price_of(&falling, -shift);
            let (cost, slope) = self.price_of(&rising, shift);
            let difference = cost - saved;
            if difference > 0.0 {
                high = shift;
            } else if shift >= all {
                break;
            } else {
                low = shift;
            }
            if difference.abs() <= EQUAL * saved {
                break;
            }
            let next = shift - difference / (slope + saved_slope);
            let inside = next > low && (next < high || high >= all);
            shift = if inside { next.min(all) } else { f64::midpoint(low, high) };
        }
        shift
    }

    /// The resources of one way that limit it and that the other does not use.
    fn limits(&self, uses: &Uses, others: &Uses) -> Limits {
        let mut limits = Limits { limits: [Limit::default(); 4], count: 0 };
        for &resource in uses {
            let inverse = self.inverse[resource as usize];
            if inverse > 0.0 && !others.contains(&resource) {
                let busy = self.load[resource as usize] * inverse;
                limits.limits[limits.count] = Limit { busy, inverse };
                limits.count += 1;
            }
        }
        limits
    }

    /// Price of these resources after a change of their load, and how fast it grows.
    fn price_of(&self, limits: &Limits, change: f64) -> (f64, f64) {
        let (mut price, mut slope) = (0.0, 0.0);
        for limit in limits.each() {
            let busy = limit.busy + change * limit.inverse;
            if busy > 0.0 {
                let mut power = busy;
                for _ in 0..self.squarings {
                    power *= power;
                }
                let cost = power * limit.inverse;
                price += cost;
                slope += cost * limit.inverse / busy;
            }
        }
        (price, slope * f64::from(1_u32 << self.squarings))
    }
}

/// How busy a resource is, and how much busier a byte makes it.
#[derive(Debug, Clone, Copy, Default)]
struct Limit {
    busy: f64,
    inverse: f64,
}

struct Limits {
    limits: [Limit; 4],
    count: usize,
}

impl Limits {
    fn each(&self) -> &[Limit] {
        &self.limits[..self.count]
    }
}

/// Bytes, at most all, to move such that the busiest resource that becomes less busy is as busy as
/// the first one that becomes busier than it.
fn balance(falling: &[Limit], rising: &[Limit], all: f64) -> f64 {
    let mut busiest = Limit::default();
    for fall in falling {
        if fall.busy > busiest.busy {
            busiest = *fall;
        }
    }
    let mut smallest = all;
    for rise in rising {
        smallest = smallest.min((busiest.busy - rise.busy) / (busiest.inverse + rise.inverse));
    }
    smallest.max(0.0)
}
