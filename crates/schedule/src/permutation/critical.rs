//! Delay-aware greedy: each slot shortens the critical lines as much as its delay allows.
//!
//! The load of a line is what it has left to send plus a delay for each peer that it has left.
//! Each slot is a matching by bytes, where pairs on lines close to the largest load come first; it
//! is held for the time, among those after which a pair has finished, that wastes the smallest
//! share: hold plus delay, minus what the largest load falls by. A rule says how close is close,
//! whether the matching is greedy or the assignment of greatest weight, and whether each pair is
//! served whole (a Latin square: fewest slots, for long delays). The method takes the better of
//! a greedy and an assigned rule, each after swaps between slots (see [`super::improve`]).
//!
//! Greedy matchings break ties by row and column, so relabelling may change the length a little.

use super::assignment::Assignment;
use super::budget::Budget;
use super::demand::Demand;
use super::improve::improve;
use super::slots::Slots;

/// How a slot is chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Rule {
    /// The assignment of greatest weight instead of a greedy matching.
    pub assigned: bool,
    /// Share of the largest load above which a line is urgent; none if pairs are served whole.
    pub urgent: Option<f64>,
}

/// Rules that differ, the most useful first; the method uses the first two.
pub(super) const RULES: [Rule; 6] = [
    Rule { assigned: false, urgent: Some(0.95) },
    Rule { assigned: true, urgent: Some(0.9) },
    Rule { assigned: false, urgent: None },
    Rule { assigned: true, urgent: None },
    Rule { assigned: false, urgent: Some(0.8) },
    Rule { assigned: true, urgent: Some(0.8) },
];

pub(super) fn decompose(demand: &Demand) -> Slots {
    let follow = |rule| by_rule(demand, rule, &Budget::unlimited()).expect("there is no limit");
    let length = |slots: &Slots| slots.length(demand.delay);
    let [first, second] = [RULES[0], RULES[1]].map(follow);
    if length(&second) < length(&first) { second } else { first }
}

/// The improved slots of one rule, or nothing if they were not found in time.
pub(super) fn by_rule(demand: &Demand, rule: Rule, budget: &Budget) -> Option<Slots> {
    Some(improve(demand, &slots_by(demand, rule, u64::MAX, budget)?, budget))
}

/// The slots of one rule, none held longer than `limit`, or nothing if time is up.
pub(super) fn slots_by(demand: &Demand, rule: Rule, limit: u64, budget: &Budget) -> Option<Slots> {
    let mut work = Work::new(demand);
    let mut slots = Slots::default();
    let mut assignment = rule.assigned.then(|| Assignment::new(demand.rows.max(demand.columns)));
    while let Some(longest) = work.left.iter().copied().max().filter(|&longest| longest > 0) {
        if budget.is_spent() {
            return None;
        }
        work.set_urgencies(longest, rule.urgent);
        let assigned = assignment.as_mut().map(|assignment| work.assign(assignment));
        // Next to weights of 2^53 those of a few bytes are lost to rounding, and nothing is joined.
        let matching = assigned
            .filter(|matching| matching.iter().any(|&column| column >= 0))
            .unwrap_or_else(|| work.greedy());
        let hold = if rule.urgent.is_some() {
            work.best_hold(&matching, limit)
        } else {
            let longest = work.pairs(&matching).map(|(_, _, bytes)| bytes).max();
            longest.expect("a pair is joined").min(limit)
        };
        work.serve(&matching, hold);
        slots.push(&matching, hold);
    }
    Some(slots)
}

/// The slots of the first rule as they are, which take a fraction of the time.
pub(super) fn greedy(demand: &Demand, budget: &Budget) -> Option<Slots> {
    slots_by(demand, RULES[0], u64::MAX, budget)
}

/// A pair that has nothing left: it is never joined.
const NOTHING: f64 = f64::NEG_INFINITY;

struct Work<'a> {
    demand: &'a Demand<'a>,
    left: Vec<u64>,
    /// The same as weights, or [`NOTHING`].
    bytes: Vec<f64>,
    row_load: Vec<u64>,
    column_load: Vec<u64>,
    /// How urgent each line is, in bytes; columns that are taken are [`NOTHING`].
    row_urgency: Vec<f64>,
    column_urgency: Vec<f64>,
}

impl<'a> Work<'a> {
    fn new(demand: &'a Demand<'a>) -> Self {
        let (mut row_load, mut column_load) = (vec![0; demand.rows], vec![0; demand.columns]);
        for (row, load) in row_load.iter_mut().enumerate() {
            for (column, &bytes) in demand.row(row).iter().enumerate() {
                let time = if bytes > 0 { bytes + demand.delay } else { 0 };
                *load += time;
                column_load[column] += time;
            }
        }
        let weight = |&bytes: &u64| if bytes > 0 { bytes as f64 } else { NOTHING };
        Self {
            demand,
            left: demand.bytes.to_vec(),
            bytes: demand.bytes.iter().map(weight).collect(),
            row_load,
            column_load,
            row_urgency: Vec::new(),
            column_urgency: Vec::new(),
        }
    }

    fn largest_load(&self) -> u64 {
        self.row_load.iter().chain(&self.column_load).copied().max().unwrap_or(0)
    }

    /// Sets how urgent lines are, if the longest pair has `longest` bytes.
    fn set_urgencies(&mut self, longest: u64, urgent: Option<f64>) {
        let largest = self.largest_load() as f64;
        // The line with the largest load is worth the largest pair, a line that is not urgent
        // nothing.
        let urgency = |&load: &u64| {
            urgent.map_or(0.0, |share| {
                longest as f64 * (load as f64 / largest - share).max(0.0) / (1.0 - share)
            })
        };
        self.row_urgency.clear();
        self.row_urgency.extend(self.row_load.iter().map(urgency));
        self.column_urgency.clear();
        self.column_urgency.extend(self.column_load.iter().map(urgency));
    }

    /// The heaviest pair first, the lowest row and column of equals; takes the columns.
    ///
    /// Every row keeps its heaviest pair, which is looked for again only if another row took its
    /// column: about O(lines^2 log lines), without sorting the pairs.
    fn greedy(&mut self) -> Vec<i32> {
        let rows = self.demand.rows;
        let mut matching = vec![-1; rows];
        let mut best: Vec<(f64, usize)> = (0..rows).map(|row| self.heaviest(row)).collect();
        loop {
            let (mut row, mut weight) = (0, NOTHING);
            for (index, pair) in best.iter().enumerate() {
                if pair.0 > weight {
                    (row, weight) = (index, pair.0);
                }
            }
            if weight == NOTHING {
                return matching;
            }
            let column = best[row].1;
            if self.column_urgency[column] == NOTHING {
                best[row] = self.heaviest(row);
            } else {
                matching[row] = column as i32;
                self.column_urgency[column] = NOTHING;
                best[row].0 = NOTHING;
            }
        }
    }

    /// Weight and column of the heaviest pair of a row whose column is not taken.
    fn heaviest(&self, row: usize) -> (f64, usize) {
        let columns = self.demand.columns;
        let bytes = &self.bytes[row * columns..(row + 1) * columns];
        let (mut weight, mut at) = (NOTHING, 0);
        for (column, (bytes, urgency)) in bytes.iter().zip(&self.column_urgency).enumerate() {
            let own = bytes + self.row_urgency[row] + urgency;
            if own > weight {
                (weight, at) = (own, column);
            }
        }
        (weight, at)
    }

    fn assign(&self, assignment: &mut Assignment) -> Vec<i32> {
        let (rows, columns) = (self.demand.rows, self.demand.columns);
        let lines = rows.max(columns);
        for row in 0..rows {
            let bytes = &self.bytes[row * columns..(row + 1) * columns];
            let weights = &mut assignment.weights[row * lines..row * lines + columns];
            for ((weight, bytes), urgency) in
                weights.iter_mut().zip(bytes).zip(&self.column_urgency)
            {
                *weight = (bytes + self.row_urgency[row] + urgency).max(0.0);
            }
        }
        let assigned = assignment.solve();
        let wanted =
            |row: usize, column: usize| column < columns && self.left[row * columns + column] > 0;
        (0..rows)
            .map(|row| if wanted(row, assigned[row]) { assigned[row] as i32 } else { -1 })
            .collect()
    }

    /// Row, column and bytes left of each pair of a matching.
    fn pairs(&self, matching: &[i32]) -> impl Iterator<Item = (usize, usize, u64)> {
        let joined = matching.iter().enumerate().filter(|entry| *entry.1 >= 0);
        joined.map(|(row, &column)| {
            (row, column as usize, self.left[row * self.demand.columns + column as usize])
        })
    }

    fn best_hold(&self, matching: &[i32], limit: u64) -> u64 {
        let delay = self.demand.delay;
        let pairs: Vec<(usize, usize, u64)> = self.pairs(matching).collect();
        let mut idle_columns = vec![true; self.demand.columns];
        for &(_, column, _) in &pairs {
            idle_columns[column] = false;
        }
        let rows = matching.iter().zip(&self.row_load).filter(|line| *line.0 < 0);
        let columns = idle_columns.iter().zip(&self.column_load).filter(|line| *line.0);
        let idle = rows.map(|line| *line.1).chain(columns.map(|line| *line.1)).max().unwrap_or(0);
        let largest = self.largest_load();
        let mut holds: Vec<u64> = pairs.iter().map(|&(_, _, bytes)| bytes.min(limit)).collect();
        holds.sort_unstable();
        holds.dedup();
        let waste = |hold: u64| {
            let after = pairs.iter().map(|&(row, column, bytes)| {
                let served = if bytes <= hold { bytes + delay } else { hold };
                self.row_load[row].max(self.column_load[column]) - served
            });
            let after = after.max().unwrap_or(0).max(idle);
            let time = (hold + delay) as f64;
            (time - (largest - after) as f64) / time
        };
        let wastes = holds.iter().map(|&hold| (waste(hold), hold));
        // Among equals the longest.
        wastes.min_by(|x, y| x.0.total_cmp(&y.0).then(y.1.cmp(&x.1))).expect("a pair is joined").1
    }

    fn serve(&mut self, matching: &[i32], hold: u64) {
        let (columns, delay) = (self.demand.columns, self.demand.delay);
        for (row, &column) in matching.iter().enumerate().filter(|entry| *entry.1 >= 0) {
            let cell = &mut self.left[row * columns + column as usize];
            let served = if *cell <= hold { *cell + delay } else { hold };
            *cell -= hold.min(*cell);
            self.bytes[row * columns + column as usize] =
                if *cell > 0 { *cell as f64 } else { NOTHING };
            self.row_load[row] -= served;
            self.column_load[column as usize] -= served;
        }
    }
}
