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
use super::suitors::Suitors;
use super::whole;

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

/// The rule that takes least time.
pub(super) const WHOLE: Rule = RULES[2];

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
    if rule == WHOLE {
        return (!budget.is_spent()).then(|| whole::decompose(demand, limit));
    }
    slots_seen(demand, rule, limit, budget, |_, _| ())
}

/// The same for a rule that finds one slot after another; `see` is called with the slots so far and
/// what is left.
fn slots_seen(
    demand: &Demand,
    rule: Rule,
    limit: u64,
    budget: &Budget,
    mut see: impl FnMut(&Slots, &[u64]),
) -> Option<Slots> {
    let mut work = Work::new(demand);
    let mut slots = Slots::default();
    let mut assignment = rule.assigned.then(|| Assignment::new(demand.rows.max(demand.columns)));
    while work.pairs_left > 0 {
        if budget.is_spent() {
            return None;
        }
        work.set_urgencies(rule.urgent);
        let assigned = assignment.as_mut().map(|assignment| work.assign(assignment));
        // Next to weights of 2^53 those of a few bytes are lost to rounding, and nothing is joined.
        let matching = assigned
            .filter(|matching| matching.iter().any(|&column| column >= 0))
            .unwrap_or_else(|| work.suitors.matching());
        let hold = if rule.urgent.is_some() {
            work.best_hold(&matching, limit)
        } else {
            let longest = work.pairs(&matching).map(|(_, _, bytes)| bytes).max();
            longest.expect("a pair is joined").min(limit)
        };
        work.serve(&matching, hold);
        slots.push(&matching, hold);
        see(&slots, &work.left);
    }
    Some(slots)
}

/// The slots of the first rule as they are, which take a fraction of the time; see [`slots_seen`].
pub(super) fn greedy(
    demand: &Demand,
    budget: &Budget,
    see: impl FnMut(&Slots, &[u64]),
) -> Option<Slots> {
    slots_seen(demand, RULES[0], u64::MAX, budget, see)
}

struct Work<'a> {
    demand: &'a Demand<'a>,
    left: Vec<u64>,
    pairs_left: usize,
    /// The same as weights, with the urgency of each line, in bytes.
    suitors: Suitors,
    row_load: Vec<u64>,
    column_load: Vec<u64>,
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
        Self {
            demand,
            left: demand.bytes.to_vec(),
            pairs_left: demand.bytes.iter().filter(|&&bytes| bytes > 0).count(),
            suitors: Suitors::new(demand.rows, demand.columns, demand.bytes),
            row_load,
            column_load,
        }
    }

    fn largest_load(&self) -> u64 {
        self.row_load.iter().chain(&self.column_load).copied().max().unwrap_or(0)
    }

    /// Sets how urgent lines are.
    fn set_urgencies(&mut self, urgent: Option<f64>) {
        let Some(share) = urgent else { return };
        // The line with the largest load is worth the largest pair, a line that is not urgent
        // nothing.
        let largest = self.largest_load() as f64;
        let scale = f64::from(self.suitors.largest()) / (1.0 - share);
        let urgency = |load: u64| (scale * (load as f64 / largest - share).max(0.0)) as f32;
        for (extra, &load) in self.suitors.row_extra.iter_mut().zip(&self.row_load) {
            *extra = urgency(load);
        }
        for (extra, &load) in self.suitors.column_extra.iter_mut().zip(&self.column_load) {
            *extra = urgency(load);
        }
    }

    fn assign(&self, assignment: &mut Assignment) -> Vec<i32> {
        let (rows, columns) = (self.demand.rows, self.demand.columns);
        let lines = rows.max(columns);
        for row in 0..rows {
            let extra = f64::from(self.suitors.row_extra[row]);
            let left = &self.left[row * columns..(row + 1) * columns];
            let weights = &mut assignment.weights[row * lines..row * lines + columns];
            for ((weight, &left), &other) in
                weights.iter_mut().zip(left).zip(&self.suitors.column_extra)
            {
                *weight = if left > 0 { left as f64 + extra + f64::from(other) } else { 0.0 };
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

    /// The hold that wastes least, the longest of equals.
    fn best_hold(&self, matching: &[i32], limit: u64) -> u64 {
        let delay = self.demand.delay;
        // Bytes and load of each pair, largest first: the last ones are those that a hold finishes.
        let mut pairs: Vec<(u64, u64)> = Vec::with_capacity(matching.len());
        let mut idle_columns = vec![true; self.demand.columns];
        for (row, column, bytes) in self.pairs(matching) {
            pairs.push((bytes, self.row_load[row].max(self.column_load[column])));
            idle_columns[column] = false;
        }
        pairs.sort_unstable_by(|x, y| y.cmp(x));
        let rows = matching.iter().zip(&self.row_load).filter(|line| *line.0 < 0);
        let columns = idle_columns.iter().zip(&self.column_load).filter(|line| *line.0);
        let idle = rows.map(|line| *line.1).chain(columns.map(|line| *line.1)).max().unwrap_or(0);
        let largest = self.largest_load();
        let mut finished = vec![0; pairs.len() + 1];
        for (place, &(bytes, load)) in pairs.iter().enumerate().rev() {
            finished[place] = finished[place + 1].max(load - bytes - delay);
        }
        let waste = |hold: u64, after: u64| {
            let time = (hold + delay) as f64;
            (time - (largest - after) as f64) / time
        };
        let (mut best, mut smallest) = (0, f64::INFINITY);
        let (mut place, mut unfinished) = (0, 0_u64);
        while place < pairs.len() {
            let hold = pairs[place].0.min(limit);
            while place < pairs.len() && pairs[place].0 > hold {
                unfinished = unfinished.max(pairs[place].1);
                place += 1;
            }
            let after = finished[place].max(unfinished.saturating_sub(hold)).max(idle);
            if waste(hold, after) < smallest {
                (best, smallest) = (hold, waste(hold, after));
            }
            while place < pairs.len() && pairs[place].0 == hold {
                unfinished = unfinished.max(pairs[place].1);
                place += 1;
            }
        }
        best
    }

    fn serve(&mut self, matching: &[i32], hold: u64) {
        let (columns, delay) = (self.demand.columns, self.demand.delay);
        for (row, &column) in matching.iter().enumerate().filter(|entry| *entry.1 >= 0) {
            let cell = &mut self.left[row * columns + column as usize];
            let served = if *cell <= hold { *cell + delay } else { hold };
            *cell -= hold.min(*cell);
            self.pairs_left -= usize::from(*cell == 0);
            self.suitors.set(row * columns + column as usize, *cell);
            self.row_load[row] -= served;
            self.column_load[column as usize] -= served;
        }
    }
}
