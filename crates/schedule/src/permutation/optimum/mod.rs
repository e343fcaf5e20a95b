//! The shortest all-stop schedule of a few lines, with a proof: branch and bound (Land and Doig
//! 1960) over which slots serve each pair.
//!
//! For each number of slots that might pay, the pairs get their sets of slots one by one; `node`
//! has the rows that this asks of the holds, and `holds` the least holds under rows, all in whole
//! numbers. A set of slots stays a choice of a pair only as long as the holds with it do not reach
//! the best schedule; which pair is decided next depends on how few choices it has, weighted by
//! what they add to the holds, its bytes and the slack of its lines. When all is decided the least
//! holds are a schedule, or a hold that is no whole number is divided into the cases above and
//! below it.
//!
//! The problem is NP-hard (Gopal and Wong 1985), even to approximate within 7/6 (Crescenzi, Deng
//! and Papadimitriou 2001), and the search exponential in the worst case: it ends after a number of
//! evaluations, and says what no schedule can beat by what it has left open. Five lines have never
//! taken half of them.

mod holds;
mod node;

use super::budget::Budget;
use super::demand::Demand;
use super::slots::Slots;
use holds::{Added, Holds, MAX_SLOTS, Row, members};
use node::{Choice, MAX_LINES, Node, Open};

/// Choices whose holds are found, and decisions, up to so many rows and columns together: up to two
/// seconds for five lines, which have not needed half of them, and 0.7 and 0.3 for more.
const EVALUATIONS: [(usize, u32); 3] = [(10, 1_000_000), (12, 400_000), (MAX_LINES, 50_000)];

/// Rows that are added for one bound.
const MAX_ADDED: usize = 60;

/// Halvings of the weight of a choice, at most, by what it adds to the holds.
const HALVINGS: i64 = 6;

/// Pairs that are looked at after the one that is the best to decide so far.
const LOOK: usize = 8;

/// Rows beyond which nothing is decided any more: holds would be divided again and again.
const MAX_ROWS: usize = 512;

/// The part of the holds that is added to bytes and slack, lest small ones decide alone.
const SOFTLY: f64 = 0.05;

/// What a search has found.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// A schedule that is shorter than what there was, the shortest if the bound says so.
    pub slots: Option<Slots>,
    /// Bytes that no schedule can beat: the shortest length, if the search came to its end.
    pub lower_bound: u64,
}

/// Looks for a schedule that is shorter than `length`, in all-stop slots with delays.
///
/// The search may take `times` as many evaluations as `auto` does. Larger demand than [`MAX_LINES`]
/// rows and columns, or 2^44 bytes in a line, is not searched.
pub(super) fn search(demand: &Demand, length: u64, times: u32, budget: &Budget) -> Found {
    let (longest, lines) = (demand.longest_line(), demand.rows + demand.columns);
    let evaluations = EVALUATIONS.iter().find(|one| lines <= one.0);
    let Some(&(_, evaluations)) = evaluations.filter(|_| longest <= holds::MAX_BYTES) else {
        return Found::default();
    };
    debug_assert!(demand.delay > 0 && !demand.partial, "other demand has an optimum that is known");
    let mut search = Search {
        demand,
        budget,
        sums: line_sums(demand),
        slots: 0,
        limit: 0,
        found: Found { slots: None, lower_bound: length },
        evaluations: times * evaluations,
        rows: Vec::new(),
    };
    let mut shortest = length;
    for slots in demand.busiest_line().. {
        let delays = slots as u64 * demand.delay;
        if longest + delays >= shortest {
            break;
        }
        if slots > MAX_SLOTS {
            search.leave_open(longest, delays);
            break;
        }
        search.with_slots(slots, longest, shortest - 1 - delays);
        if let Some(slots) = &search.found.slots {
            shortest = slots.length(demand.delay);
        }
    }
    search.found.lower_bound = search.found.lower_bound.min(shortest);
    search.found
}

/// Bytes of each row and column.
fn line_sums(demand: &Demand) -> [i64; MAX_LINES] {
    let mut sums = [0; MAX_LINES];
    for (bytes, cell) in demand.largest_pairs() {
        let cell = cell as usize;
        for line in [cell / demand.columns, demand.rows + cell % demand.columns] {
            sums[line] += i64::try_from(bytes).expect("at most 2^44");
        }
    }
    sums
}

struct Search<'a> {
    demand: &'a Demand<'a>,
    budget: &'a Budget,
    sums: [i64; MAX_LINES],
    /// Slots of the schedules that are looked for, and what their holds are at most together.
    slots: usize,
    limit: i64,
    found: Found,
    evaluations: u32,
    /// Kept for its memory.
    rows: Vec<Row>,
}

impl Search<'_> {
    fn with_slots(&mut self, slots: usize, longest: u64, limit: u64) {
        let largest = self.demand.bytes.iter().copied().max().unwrap_or(0);
        // No slot need be held for longer than a pair.
        let limit = limit.min(slots as u64 * largest);
        let whole = |bytes| i64::try_from(bytes).expect("at most 2^48");
        (self.slots, self.limit) = (slots, whole(limit));
        self.decide(Node::new(self.demand, slots, whole(longest)), whole(longest));
    }

    /// Notes that some schedules are not looked at, all of them this long at least.
    fn leave_open(&mut self, holds: u64, delays: u64) {
        self.found.lower_bound = self.found.lower_bound.min(holds + delays);
    }

    /// Finds all shorter schedules in which this is decided; their holds are at least `bound`.
    fn decide(&mut self, mut node: Node, bound: i64) {
        if bound > self.limit {
            return;
        }
        let (before, mut rows) = (bound, Vec::new());
        let leave_open = |search: &mut Self, bound: i64| {
            let bound = before.max(bound) as u64;
            search.leave_open(bound, search.slots as u64 * search.demand.delay);
        };
        if self.evaluations == 0 || node.rows.len() > MAX_ROWS || self.budget.is_spent() {
            return leave_open(self, 0);
        }
        self.evaluations -= 1;
        if node.rows_of_lines(&mut rows).is_none() {
            return;
        }
        let mut holds = node.holds.clone();
        let Some(all_met) = self.fit(&mut holds, &[&node.rows, &rows]) else { return };
        node.holds = holds;
        if !node.open.is_empty() {
            self.branch(node, &rows);
        } else if all_met {
            self.complete(&node);
        } else {
            leave_open(self, node.holds.sum());
        }
    }

    /// Raises holds until they meet rows, the first of these first; nothing if they are then as
    /// long as the best schedule's, else whether they meet all.
    fn fit(&self, holds: &mut Holds, rows: &[&[Row]]) -> Option<bool> {
        let mut left = MAX_ADDED;
        loop {
            if holds.exceed(self.limit) {
                return None;
            }
            let worst = rows.iter().find_map(|rows| {
                let missing = rows.iter().map(|row| (holds.missing(row), row));
                missing.filter(|it| it.0 > 0).max_by_key(|it| it.0).map(|it| it.1)
            });
            let Some(row) = worst else { return Some(true) };
            if left == 0 {
                return Some(false);
            }
            left -= 1;
            match holds.add(row) {
                Added::Met => (),
                Added::Never => return None,
                Added::LeftOut => return Some(false),
            }
        }
    }

    /// What the holds are at least if an open pair has these slots, or nothing if that is no less
    /// than those of the best schedule.
    fn evaluate(&mut self, node: &Node, rows: &[Row], pair: usize, slots: u16) -> Option<i64> {
        self.evaluations = self.evaluations.saturating_sub(1);
        let mut added = std::mem::take(&mut self.rows);
        added.clear();
        let mut bound = None;
        if node.rows_with(pair, slots, &mut added).is_some() {
            let mut holds = Holds::clone(&node.holds);
            if self.fit(&mut holds, &[&added, &node.rows, rows]).is_some() {
                bound = Some(holds.sum());
            }
        }
        self.rows = added;
        bound
    }

    /// Decides the pair that promises the fewest cases.
    fn branch(&mut self, mut node: Node, rows: &[Row]) {
        let (bound, limit) = (node.holds.sum(), self.limit);
        let Node { open, holds, .. } = &mut node;
        for pair in open {
            let bytes = pair.bytes;
            let remains = |choice: &mut Choice| {
                choice.bound = choice.bound.max(bound);
                choice.bound <= limit && !holds.exclude(&Row::at_least(choice.slots, bytes), limit)
            };
            if !pair.retain(remains) {
                return;
            }
        }
        let Some(pair) = self.next_pair(&mut node, rows, bound) else { return };
        let mut choices = std::mem::take(&mut node.open[pair].choices);
        choices.sort_by_key(|choice| (choice.bound, choice.slots));
        for choice in choices {
            if let Some(next) = node.with(pair, choice.slots) {
                self.decide(next, choice.bound);
            }
        }
    }

    /// The pair to be decided next, or nothing if some pair has no choice.
    fn next_pair(&mut self, node: &mut Node, rows: &[Row], bound: i64) -> Option<usize> {
        let costs = node.open.iter().map(|pair| self.cost(pair, bound));
        let mut order: Vec<(f64, usize)> = costs.zip(0..).collect();
        order.sort_by(|one, other| one.0.total_cmp(&other.0));
        let mut best = (f64::INFINITY, 0);
        let mut since = 0;
        for (_, pair) in order {
            if best.0 <= 0.0 || since == LOOK || self.evaluations == 0 || self.budget.is_late() {
                break;
            }
            let mut open = node.open[pair].clone();
            let remains = |choice: &mut Choice| {
                let found = self.evaluate(node, rows, pair, choice.slots);
                choice.bound = choice.bound.max(found.unwrap_or(0));
                found.is_some()
            };
            if !open.retain(remains) {
                return None;
            }
            let cost = self.cost(&open, bound);
            node.open[pair] = open;
            since += 1;
            if cost < best.0 {
                (best, since) = ((cost, pair), 0);
            }
        }
        Some(best.1)
    }

    /// How many cases a pair makes, less one, by what they add to holds of at least `bound`; more
    /// if it is small or its lines have slack. Zero if there is one case.
    fn cost(&self, pair: &Open, bound: i64) -> f64 {
        let room = self.limit - bound + 1;
        let halvings = |choice: &Choice| HALVINGS * (choice.bound - bound) / room;
        let weight = |choice: &Choice| (1_i64 << (HALVINGS - halvings(choice))) as f64;
        let cases: f64 = pair.choices.iter().map(weight).sum();
        let longest = self.sums[pair.lines[0]].max(self.sums[pair.lines[1]]);
        let (limit, slack) = (self.limit as f64, (self.limit - longest) as f64);
        let others = if pair.choices.len() == 1 { 0.0 } else { cases - f64::from(1 << HALVINGS) };
        others.max(0.0) * (slack / limit + SOFTLY) / (pair.bytes as f64 / limit + SOFTLY)
    }

    /// Notes the schedule that is decided, or divides a hold that is no whole number.
    fn complete(&mut self, node: &Node) {
        let holds = match node.holds.whole() {
            Ok(holds) => holds,
            Err((slot, bytes)) => {
                for row in [Row::at_least(1 << slot, bytes + 1), Row::at_most(1 << slot, bytes)] {
                    let mut next = node.clone();
                    next.rows.push(row);
                    self.decide(next, node.holds.sum());
                }
                return;
            }
        };
        let rows = self.demand.rows;
        let mut matchings = vec![-1; rows * self.slots];
        for &([row, column], slots) in &node.decided {
            for slot in members(slots) {
                matchings[slot * rows + row] = (column - rows) as i32;
            }
        }
        self.limit = node.holds.sum() - 1;
        let holds = holds.into_iter().map(|hold| hold as u64).collect();
        self.found.slots = Some(Slots { matchings, holds });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However early the search ends: what it says no schedule can beat is no longer than the
    /// optimum, which is 312 (see `tests/all/permutation_optimum.rs`).
    #[test]
    fn what_is_left_open_counts() {
        let bytes = [7, 0, 0, 1, 0, 9, 0, 1, 0, 0, 8, 1, 0, 0, 0, 0];
        let demand = Demand::new(4, 4, &bytes, 100, false).unwrap();
        for steps in 0..200 {
            let searched = search(&demand, 400, 1, &Budget::of_steps(steps));
            let length = searched.slots.map_or(400, |slots| slots.length(100));
            assert!(searched.lower_bound <= 312 && length >= 312, "{steps} steps");
        }
        let optimum = search(&demand, 400, 1, &Budget::unlimited());
        assert_eq!((optimum.lower_bound, optimum.slots.unwrap().length(100)), (312, 312));
        let optimum = search(&demand, 312, 1, &Budget::unlimited());
        assert_eq!((optimum.lower_bound, optimum.slots), (312, None));
    }
}
