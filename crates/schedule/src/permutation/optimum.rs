//! The shortest all-stop schedule of a few lines, by branch and bound.
//!
//! The slots of a schedule may be in any order. In one order each slot ends when some pair has
//! finished, unless the holds follow from each other in a circle; so every maximal matching is held
//! for what each of its pairs has left. What cannot be shorter than the best schedule by the lower
//! bound of what is left is not pursued, nor what was left earlier in the schedule already. The
//! search ends after a number of evaluations: exponential in the worst case, but most demand of up
//! to five lines takes few.

use std::collections::HashMap;

use super::budget::Budget;
use super::demand::Demand;
use super::slots::Slots;

/// Matchings and holds whose bound is computed.
const EVALUATIONS: u32 = 1_000_000;

/// A shorter schedule than one of that length, if it is found.
pub(super) fn shorter_than(demand: &Demand, length: u64, budget: &Budget) -> Option<Slots> {
    let mut search = Search {
        demand: *demand,
        length,
        best: None,
        current: Slots::default(),
        earliest: HashMap::new(),
        evaluations: EVALUATIONS,
    };
    search.extend(demand.bytes, 0, budget);
    search.best
}

struct Search<'a> {
    demand: Demand<'a>,
    /// Length of the best schedule.
    length: u64,
    best: Option<Slots>,
    /// The slots so far.
    current: Slots,
    /// When what is left was left first.
    earliest: HashMap<Vec<u64>, u64>,
    evaluations: u32,
}

/// A slot that may come next.
struct Child {
    /// No schedule that continues with it ends before.
    bound: u64,
    hold: u64,
    matching: Vec<i32>,
    left: Vec<u64>,
}

impl Search<'_> {
    fn extend(&mut self, left: &[u64], now: u64, budget: &Budget) {
        if left.iter().all(|&bytes| bytes == 0) {
            if now < self.length {
                self.length = now;
                self.best = Some(self.current.clone());
            }
            return;
        }
        match self.earliest.get(left) {
            Some(&before) if before <= now => return,
            _ => self.earliest.insert(left.to_vec(), now),
        };
        if budget.is_spent() {
            self.evaluations = 0;
            return;
        }
        let mut matchings = Vec::new();
        self.match_from(0, left, &mut vec![-1; self.demand.rows], &mut matchings);
        let mut children = Vec::new();
        for matching in matchings {
            self.hold(&matching, left, now, &mut children);
        }
        children.sort_by_key(|child: &Child| (child.bound, std::cmp::Reverse(child.hold)));
        for child in children {
            if child.bound >= self.length || self.evaluations == 0 {
                return;
            }
            self.current.push(&child.matching, child.hold);
            self.extend(&child.left, now + child.hold + self.demand.delay, budget);
            self.current.holds.pop();
            self.current.matchings.truncate(self.current.len() * self.demand.rows);
        }
    }

    /// Every maximal matching that is this one for the rows before `row`.
    fn match_from(
        &self,
        row: usize,
        left: &[u64],
        matching: &mut Vec<i32>,
        found: &mut Vec<Vec<i32>>,
    ) {
        let columns = self.demand.columns;
        let wants = |row: usize, column: usize| left[row * columns + column] > 0;
        if row == self.demand.rows {
            let free = |column: usize| !matching.contains(&(column as i32));
            let open = |row: usize| (0..columns).any(|column| wants(row, column) && free(column));
            if !(0..row).any(|row| matching[row] < 0 && open(row)) {
                found.push(matching.clone());
            }
            return;
        }
        for column in 0..columns {
            if wants(row, column) && !matching[..row].contains(&(column as i32)) {
                matching[row] = column as i32;
                self.match_from(row + 1, left, matching, found);
            }
        }
        matching[row] = -1;
        self.match_from(row + 1, left, matching, found);
    }

    /// Adds the slots of a matching that may lead to a shorter schedule.
    fn hold(&mut self, matching: &[i32], left: &[u64], now: u64, children: &mut Vec<Child>) {
        let cells: Vec<usize> = (0..matching.len())
            .filter(|&row| matching[row] >= 0)
            .map(|row| row * self.demand.columns + matching[row] as usize)
            .collect();
        let mut holds: Vec<u64> = cells.iter().map(|&cell| left[cell]).collect();
        holds.sort_unstable();
        holds.dedup();
        for hold in holds {
            if self.evaluations == 0 {
                return;
            }
            self.evaluations -= 1;
            let mut after = left.to_vec();
            for &cell in &cells {
                after[cell] -= hold.min(after[cell]);
            }
            let part = Demand { bytes: &after, ..self.demand };
            let end = now + hold + self.demand.delay;
            if end + part.simple_bound() >= self.length {
                continue;
            }
            let bound = end + part.lower_bound();
            if bound < self.length {
                children.push(Child { bound, hold, matching: matching.to_vec(), left: after });
            }
        }
    }
}
