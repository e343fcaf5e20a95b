//! Better holds and better matchings for given slots.
//!
//! The holds are those of the linear program in [`super::holds`]; a slot that is not held saves its
//! delay. Its duals price the pairs: the matching of greatest value is the slot that would shorten
//! the schedule fastest. In turn one of the shortest slots is left out, such a slot is added, or it
//! replaces the shortest one, and the change is kept if the schedule is shorter, delays included.

use super::budget::HybridBudget;
use super::demand::HybridDemand;
use super::holds::{best_holds, with_holds};
use super::schedule::{length_of, without};
use crate::matching::{NONE, assign};
use crate::permutation::Slots;

/// Starts that are refined in any case, the shortest ones.
const STARTS: usize = 2;

/// Slots with few bytes that are tried to be left out.
const SHORTEST: usize = 3;

/// Numbers that the linear programs of a start may visit without a limit: some tenths of a second.
const WORK: usize = 200_000_000;

/// Values are fractions; weights are whole.
const SCALE: f64 = (1_u64 << 40) as f64;

/// The shortest slots that are found from these, the shortest of which come first.
///
/// With a limit the search goes on where it ends without one, so that more time is never worse.
pub(super) fn refine(demand: &HybridDemand, starts: Vec<Slots>, budget: &HybridBudget) -> Slots {
    let first = starts.first().cloned().unwrap_or_default();
    let length = length_of(demand, &first);
    let mut search = Search { demand, budget, length, shortest: first };
    let mut starts = starts.into_iter();
    let first = starts.by_ref().take(STARTS).map_while(|slots| search.begin(slots));
    let mut begun: Vec<Candidate> = first.collect();
    for start in &mut begun {
        search.advance(start, SHORTEST, WORK);
    }
    if budget.is_limited() {
        for start in &mut begun {
            search.advance(start, usize::MAX, usize::MAX);
        }
        for slots in starts {
            let Some(mut start) = search.begin(slots) else { break };
            search.advance(&mut start, usize::MAX, usize::MAX);
        }
    }
    without_idle(demand, search.shortest)
}

/// Slots with their best holds.
struct Candidate {
    slots: Slots,
    length: u64,
    /// What a byte of each pair over a further slot is worth.
    values: Vec<f64>,
    /// Numbers that were visited to find it.
    work: usize,
}

struct Search<'a> {
    demand: &'a HybridDemand<'a>,
    budget: &'a HybridBudget<'a>,
    /// The shortest schedule so far.
    length: u64,
    shortest: Slots,
}

impl Search<'_> {
    /// The best holds of slots; nothing if the budget is spent.
    fn begin(&mut self, slots: Slots) -> Option<Candidate> {
        if slots.holds.is_empty() {
            return Some(Candidate { slots, length: self.length, values: Vec::new(), work: 0 });
        }
        if self.budget.is_spent() {
            return None;
        }
        let before = length_of(self.demand, &slots);
        let mut work = 0;
        let mut refined = self.solve(&slots, &mut work)?;
        if refined.length > before {
            (refined.slots, refined.length) = (slots, before);
        }
        refined.work = work;
        self.offer(&refined);
        Some(refined)
    }

    /// Improves a start until nothing helps, or as much work as this is done.
    fn advance(&mut self, start: &mut Candidate, shortest: usize, work: usize) {
        while start.work < work && !start.slots.holds.is_empty() && !self.budget.is_spent() {
            let mut done = start.work;
            let next = self.with_fewer(start, shortest, &mut done);
            let next = next.or_else(|| self.with_another(start, &mut done));
            start.work = done;
            let Some(next) = next else { break };
            self.offer(&next);
            *start = Candidate { work: done, ..next };
        }
    }

    /// Keeps slots if they are shorter.
    fn offer(&mut self, found: &Candidate) {
        if found.length < self.length {
            (self.length, self.shortest) = (found.length, found.slots.clone());
        }
    }

    fn solve(&self, slots: &Slots, work: &mut usize) -> Option<Candidate> {
        let (demand, count) = (self.demand, slots.holds.len());
        let pivots = 6 * count + 4 * demand.lines();
        let (holds, steps) = best_holds(demand, slots, pivots, self.budget)?;
        *work += (steps + 1) * (demand.bytes.len() + count * count);
        let slots = with_holds(demand, slots, &holds.holds);
        let length = length_of(demand, &slots);
        Some(Candidate { slots, length, values: holds.values, work: 0 })
    }

    /// A shorter schedule without one of the shortest slots.
    fn with_fewer(&self, best: &Candidate, shortest: usize, work: &mut usize) -> Option<Candidate> {
        let mut order: Vec<usize> = (0..best.slots.holds.len()).collect();
        order.sort_by_key(|&slot| best.slots.holds[slot]);
        let fewer = order.into_iter().take(shortest);
        let mut found =
            fewer.map_while(|slot| self.solve(&without(self.demand.rows, &best.slots, slot), work));
        found.find(|found| found.length < best.length)
    }

    /// A shorter schedule with the slot that is worth most, in addition or for the shortest one.
    fn with_another(&self, best: &Candidate, work: &mut usize) -> Option<Candidate> {
        let matching = priciest(self.demand, &best.values)?;
        let shortest = (0..best.slots.holds.len()).min_by_key(|&slot| best.slots.holds[slot]);
        let fewer = shortest.map(|slot| without(self.demand.rows, &best.slots, slot));
        let bases = [Some(best.slots.clone()), fewer].into_iter().flatten();
        let mut candidates = bases.map_while(|mut slots| {
            slots.matchings.extend(&matching);
            slots.holds.push(1);
            self.solve(&slots, work)
        });
        candidates.find(|candidates| candidates.length < best.length)
    }
}

/// The matching whose pairs are worth most.
fn priciest(demand: &HybridDemand, values: &[f64]) -> Option<Vec<i32>> {
    let weights: Vec<i64> = values.iter().map(|value| (value * SCALE) as i64).collect();
    let matching = assign(demand.rows, demand.columns, &weights).ok()?;
    let column = |column| if column == NONE { -1 } else { column as i32 };
    (matching.weight > 0).then(|| matching.column_of.into_iter().map(column).collect())
}

/// Parts pairs that have nothing left when their slot comes.
fn without_idle(demand: &HybridDemand, mut slots: Slots) -> Slots {
    let mut left = demand.bytes.to_vec();
    for (matching, &hold) in slots.matchings.chunks_exact_mut(demand.rows.max(1)).zip(&slots.holds)
    {
        for (row, column) in matching.iter_mut().enumerate().filter(|pair| *pair.1 >= 0) {
            let cell = &mut left[row * demand.columns + *column as usize];
            if *cell == 0 {
                *column = -1;
            }
            *cell = cell.saturating_sub(hold);
        }
    }
    slots
}
