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

use std::time::Instant;

use super::assignment::Assignment;
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
    let follow = |rule| by_rule(demand, rule, None).expect("there is no limit");
    let length = |slots: &Slots| slots.length(demand.delay);
    let [first, second] = [RULES[0], RULES[1]].map(follow);
    if length(&second) < length(&first) { second } else { first }
}

/// The improved slots of one rule, or nothing if they were not found in time.
pub(super) fn by_rule(demand: &Demand, rule: Rule, until: Option<Instant>) -> Option<Slots> {
    Some(improve(demand, &slots_by(demand, rule, u64::MAX, until)?, until))
}

/// The slots of one rule, none held longer than `limit`, or nothing if time is up.
pub(super) fn slots_by(
    demand: &Demand,
    rule: Rule,
    limit: u64,
    until: Option<Instant>,
) -> Option<Slots> {
    let mut work = Work::new(demand);
    let mut slots = Slots::default();
    let mut assignment = rule.assigned.then(|| Assignment::new(demand.rows.max(demand.columns)));
    while let Some(longest) = work.left.iter().copied().max().filter(|&longest| longest > 0) {
        if until.is_some_and(|until| Instant::now() >= until) {
            return None;
        }
        work.set_weights(longest, rule.urgent);
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

struct Work<'a> {
    demand: &'a Demand<'a>,
    left: Vec<u64>,
    row_load: Vec<u64>,
    column_load: Vec<u64>,
    /// What the matching is chosen by: bytes and urgency of each pair that has bytes left.
    weights: Vec<(f64, u32)>,
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
        Self { demand, left: demand.bytes.to_vec(), row_load, column_load, weights: Vec::new() }
    }

    fn largest_load(&self) -> u64 {
        self.row_load.iter().chain(&self.column_load).copied().max().unwrap_or(0)
    }

    /// Sets the weight of each pair, the longest of which has `longest` bytes, by its cell.
    fn set_weights(&mut self, longest: u64, urgent: Option<f64>) {
        let largest = self.largest_load() as f64;
        // The line with the largest load is worth the largest pair, a line that is not urgent
        // nothing.
        let urgency = |&load: &u64| {
            urgent.map_or(0.0, |share| {
                longest as f64 * (load as f64 / largest - share).max(0.0) / (1.0 - share)
            })
        };
        let rows: Vec<f64> = self.row_load.iter().map(urgency).collect();
        let columns: Vec<f64> = self.column_load.iter().map(urgency).collect();
        self.weights.clear();
        for (row, cells) in self.left.chunks_exact(columns.len()).enumerate() {
            for (column, &bytes) in cells.iter().enumerate().filter(|entry| *entry.1 > 0) {
                let cell = (row * columns.len() + column) as u32;
                self.weights.push((bytes as f64 + rows[row] + columns[column], cell));
            }
        }
    }

    fn greedy(&mut self) -> Vec<i32> {
        self.weights.sort_unstable_by(|x, y| y.0.total_cmp(&x.0).then(x.1.cmp(&y.1)));
        let mut matching = vec![-1; self.demand.rows];
        let mut taken = vec![false; self.demand.columns];
        for &(_, cell) in &self.weights {
            let cell = cell as usize;
            let (row, column) = (cell / self.demand.columns, cell % self.demand.columns);
            if matching[row] < 0 && !taken[column] {
                matching[row] = column as i32;
                taken[column] = true;
            }
        }
        matching
    }

    fn assign(&self, assignment: &mut Assignment) -> Vec<i32> {
        let (rows, columns) = (self.demand.rows, self.demand.columns);
        let lines = rows.max(columns);
        assignment.weights.fill(0.0);
        for &(weight, cell) in &self.weights {
            let cell = cell as usize;
            assignment.weights[cell / columns * lines + cell % columns] = weight;
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
            self.row_load[row] -= served;
            self.column_load[column as usize] -= served;
        }
    }
}
