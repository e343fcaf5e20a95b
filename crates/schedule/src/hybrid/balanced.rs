//! Ours: slots for what packets cannot carry by a target length, then the best holds.
//!
//! For a target length the packets' room per line is known, and with it what each line needs of the
//! circuits: bytes beyond that room, and a delay for each pair that is left when its smallest pairs
//! fill it ([`super::load`]). Each slot is a greedy matching by bytes in which pairs on lines close
//! to the largest such load come first, and pairs that packets carry on both ends last; it is held
//! for the time after which the largest load has fallen most for the time that it takes. That ends
//! when packets can carry the rest. The target is sought by bisection between the lower bound and
//! the best length so far; what is found is refined ([`mod@super::refine`]).

use super::budget::HybridBudget;
use super::demand::HybridDemand;
use super::load::{Need, need, needs};
use super::refine::refine;
use super::schedule::length_of;
use super::{eclipse, solstice};
use crate::permutation::Slots;

/// Target lengths that are tried.
const TARGETS: usize = 6;

/// Share of the largest load above which a line is urgent, in the order in which they are tried.
const URGENT: [f64; 2] = [0.9, 0.6];

/// Lines up to which schedules of the other methods are refined too.
const SMALL: usize = 32;

/// The best slots that the budget allows; packets alone if it allows none.
pub(super) fn slots(demand: &HybridDemand, budget: &HybridBudget) -> Slots {
    let mut options = vec![Slots::default()];
    for urgent in URGENT {
        options.push(by_targets(demand, urgent, budget));
    }
    if demand.rows.max(demand.columns) <= SMALL {
        options.extend(eclipse::slots(demand, budget));
    }
    options.extend(solstice::slots(demand, budget));
    options.sort_by_key(|slots| length_of(demand, slots));
    refine(demand, options, budget)
}

/// The shortest schedule over a few target lengths.
fn by_targets(demand: &HybridDemand, urgent: f64, budget: &HybridBudget) -> Slots {
    let mut low = demand.lower_bound();
    let mut best = Slots::default();
    let mut shortest = length_of(demand, &best);
    for _ in 0..TARGETS {
        if low >= shortest {
            break;
        }
        let target = low + (shortest - low) / 2;
        let Some(slots) = for_target(demand, target, urgent, budget) else { break };
        let length = length_of(demand, &slots);
        if length > target {
            low = target + 1;
        }
        if length < shortest {
            (shortest, best) = (length, slots);
        }
    }
    best
}

/// Slots after which packets can carry the rest by the target, or by their end if that is later;
/// nothing if the budget is spent before.
fn for_target(
    demand: &HybridDemand,
    target: u64,
    urgent: f64,
    budget: &HybridBudget,
) -> Option<Slots> {
    let mut work = Work::new(demand, demand.eps_bytes(target));
    let mut slots = Slots::default();
    while work.needs.iter().any(|need| need.bytes > 0) {
        if budget.is_spent() {
            return None;
        }
        let matching = work.matching(urgent);
        let hold = work.hold(&matching);
        work.serve(&matching, hold);
        slots.matchings.extend(matching);
        slots.holds.push(hold);
        work.widen(slots.length(demand.delay));
    }
    Some(slots)
}

struct Work<'a> {
    demand: &'a HybridDemand<'a>,
    left: Vec<u64>,
    /// What packets carry of a line.
    room: u64,
    needs: Vec<Need>,
    keys: Vec<(f64, usize)>,
}

impl<'a> Work<'a> {
    fn new(demand: &'a HybridDemand<'a>, room: u64) -> Self {
        let left = demand.bytes.to_vec();
        let needs = needs(demand, &left, room);
        Self { demand, left, room, needs, keys: Vec::new() }
    }

    fn largest_load(&self) -> u64 {
        self.needs.iter().map(|need| need.load(self.demand.delay)).max().unwrap_or(0)
    }

    /// A greedy matching, the most urgent and the largest pairs first.
    fn matching(&mut self, urgent: f64) -> Vec<i32> {
        let (demand, largest) = (self.demand, self.largest_load() as f64);
        let longest = self.left.iter().copied().max().unwrap_or(0) as f64;
        let urgency = |need: &Need| {
            let share = need.load(demand.delay) as f64 / largest;
            longest * (share - urgent).max(0.0) / (1.0 - urgent)
        };
        let urgencies: Vec<f64> = self.needs.iter().map(urgency).collect();
        self.keys.clear();
        for (cell, &bytes) in self.left.iter().enumerate().filter(|pair| *pair.1 > 0) {
            let wanted = demand.lines_of(cell).into_iter().filter(|&l| bytes > self.needs[l].small);
            let (mut key, mut ends) = (0.0, 0);
            for line in wanted {
                key += urgencies[line];
                ends += 1;
            }
            // What packets carry anyway fills ports that would idle.
            let value = if ends > 0 { bytes as f64 } else { bytes as f64 * 1e-18 };
            self.keys.push((key + value, cell));
        }
        self.keys.sort_unstable_by(|x, y| y.0.total_cmp(&x.0).then(x.1.cmp(&y.1)));
        let mut matching = vec![-1; demand.rows];
        let mut used = vec![false; demand.columns];
        for &(_, cell) in &self.keys {
            let (row, column) = (cell / demand.columns, cell % demand.columns);
            if matching[row] < 0 && !used[column] {
                matching[row] = column as i32;
                used[column] = true;
            }
        }
        matching
    }

    /// The hold that wastes the smallest share of its time and its delay.
    fn hold(&self, matching: &[i32]) -> u64 {
        let (demand, delay) = (self.demand, self.demand.delay);
        let mut idle = vec![true; demand.lines()];
        let mut pairs = Vec::with_capacity(2 * demand.rows);
        let mut holds = Vec::with_capacity(3 * demand.rows);
        for (row, &column) in matching.iter().enumerate().filter(|pair| *pair.1 >= 0) {
            let cell = row * demand.columns + column as usize;
            let bytes = self.left[cell];
            for line in demand.lines_of(cell) {
                idle[line] = false;
                let need = self.needs[line];
                if need.bytes > 0 {
                    pairs.push((need, bytes));
                    holds.extend([bytes, need.bytes.min(bytes)]);
                }
            }
        }
        holds.sort_unstable();
        holds.dedup();
        let load = |line: usize| self.needs[line].load(delay);
        let waiting = (0..idle.len()).filter(|&line| idle[line]).map(load).max().unwrap_or(0);
        let largest = self.largest_load();
        let waste = |hold: u64| {
            let after = pairs.iter().map(|&(need, bytes)| {
                let sent = bytes.min(hold);
                let done = u64::from(bytes > need.small && bytes <= hold);
                let left = need.bytes.saturating_sub(sent);
                if left == 0 { 0 } else { left + (need.pairs - done) * delay }
            });
            let after = after.max().unwrap_or(0).max(waiting);
            let time = (hold + delay) as f64;
            (time - (largest - after.min(largest)) as f64) / time
        };
        let wastes = holds.into_iter().map(|hold| (waste(hold), hold));
        let best = wastes.min_by(|x, y| x.0.total_cmp(&y.0).then(y.1.cmp(&x.1)));
        best.expect("a line in need is joined").1
    }

    fn serve(&mut self, matching: &[i32], hold: u64) {
        let demand = self.demand;
        for (row, &column) in matching.iter().enumerate().filter(|pair| *pair.1 >= 0) {
            let cell = row * demand.columns + column as usize;
            self.left[cell] = self.left[cell].saturating_sub(hold);
            for line in demand.lines_of(cell) {
                self.needs[line] = need(demand, &self.left, self.room, line);
            }
        }
    }

    /// Packets carry on while circuits are later than the target.
    fn widen(&mut self, time: u64) {
        let room = self.demand.eps_bytes(time);
        if room > self.room {
            self.room = room;
            self.needs = needs(self.demand, &self.left, room);
        }
    }
}
