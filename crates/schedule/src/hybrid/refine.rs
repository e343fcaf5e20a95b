//! Better holds and better matchings for given slots.
//!
//! The holds are those of the linear program in [`super::holds`]; a slot that is not held saves its
//! delay. Its duals price the pairs: the matching of greatest value is the slot that would shorten
//! the schedule fastest. In turn one of the shortest slots is left out, such a slot is added, or it
//! replaces the shortest one, and the change is kept if the schedule is shorter, delays included.
//! In the end no slot serves so little that packets could carry it sooner.

use super::demand::HybridDemand;
use super::holds::{best_holds, with_holds};
use super::schedule::{left_after, length};
use crate::matching::{NONE, assign};
use crate::permutation::Slots;

/// Slots with few bytes that are tried to be left out.
const SHORTEST: usize = 3;

/// Numbers that all linear programs together may visit: some tenths of a second.
const WORK: usize = 200_000_000;

/// Values are fractions; weights are whole.
const SCALE: f64 = (1_u64 << 40) as f64;

pub(super) fn refine(demand: &HybridDemand, slots: Slots) -> Slots {
    if slots.holds.is_empty() {
        return slots;
    }
    let mut search = Search { demand, work: 0 };
    let given = length_of(demand, &slots);
    let mut best = search.solve(&slots);
    if best.length > given {
        (best.slots, best.length) = (slots, given);
    }
    while search.work < WORK {
        let found = search.with_fewer(&best).or_else(|| search.with_another(&best));
        let Some(found) = found else { break };
        best = found;
    }
    without_idle(demand, prune(demand, best.slots))
}

fn length_of(demand: &HybridDemand, slots: &Slots) -> u64 {
    length(demand, slots, &left_after(demand, slots))
}

/// Slots with their best holds.
struct Candidate {
    slots: Slots,
    length: u64,
    /// What a byte of each pair over a further slot is worth.
    values: Vec<f64>,
}

struct Search<'a> {
    demand: &'a HybridDemand<'a>,
    work: usize,
}

impl Search<'_> {
    fn solve(&mut self, slots: &Slots) -> Candidate {
        let (demand, count) = (self.demand, slots.holds.len());
        let pivots = 6 * count + 4 * demand.lines();
        let (found, steps) = best_holds(demand, slots, pivots);
        self.work += (steps + 1) * (demand.bytes.len() + count * count);
        let slots = with_holds(demand, slots, &found.holds);
        let length = length_of(demand, &slots);
        Candidate { slots, length, values: found.values }
    }

    /// A shorter schedule without one of the shortest slots.
    fn with_fewer(&mut self, best: &Candidate) -> Option<Candidate> {
        let mut order: Vec<usize> = (0..best.slots.holds.len()).collect();
        order.sort_by_key(|&slot| best.slots.holds[slot]);
        let fewer = order.into_iter().take(SHORTEST);
        let mut found = fewer.map(|slot| self.solve(&without(self.demand, &best.slots, slot)));
        found.find(|found| found.length < best.length)
    }

    /// A shorter schedule with the slot that is worth most, in addition or for the shortest one.
    fn with_another(&mut self, best: &Candidate) -> Option<Candidate> {
        let matching = priciest(self.demand, &best.values)?;
        let shortest = (0..best.slots.holds.len()).min_by_key(|&slot| best.slots.holds[slot]);
        let fewer = shortest.map(|slot| without(self.demand, &best.slots, slot));
        let bases = [Some(best.slots.clone()), fewer].into_iter().flatten();
        let mut found = bases.map(|mut slots| {
            slots.matchings.extend(&matching);
            slots.holds.push(1);
            self.solve(&slots)
        });
        found.find(|found| found.length < best.length)
    }
}

fn without(demand: &HybridDemand, slots: &Slots, slot: usize) -> Slots {
    let mut fewer = slots.clone();
    fewer.holds.remove(slot);
    fewer.matchings.drain(slot * demand.rows..(slot + 1) * demand.rows);
    fewer
}

/// The matching whose pairs are worth most.
fn priciest(demand: &HybridDemand, values: &[f64]) -> Option<Vec<i32>> {
    let weights: Vec<i64> = values.iter().map(|value| (value * SCALE) as i64).collect();
    let found = assign(demand.rows, demand.columns, &weights).ok()?;
    let column = |column| if column == NONE { -1 } else { column as i32 };
    (found.weight > 0).then(|| found.column_of.into_iter().map(column).collect())
}

/// Leaves slots out for as long as packets carry what they served sooner.
fn prune(demand: &HybridDemand, mut slots: Slots) -> Slots {
    let mut shortest = length_of(demand, &slots);
    loop {
        let fewer = (0..slots.holds.len()).map(|slot| without(demand, &slots, slot));
        let best = fewer.map(|slots| (length_of(demand, &slots), slots)).min_by_key(|one| one.0);
        match best {
            Some((length, fewer)) if length < shortest => (shortest, slots) = (length, fewer),
            _ => return slots,
        }
    }
}

/// Parts pairs that have nothing left when their slot comes.
fn without_idle(demand: &HybridDemand, mut slots: Slots) -> Slots {
    let mut left = demand.bytes.to_vec();
    for (matching, &hold) in slots.matchings.chunks_exact_mut(demand.rows).zip(&slots.holds) {
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
