//! Birkhoff-von Neumann by halving thresholds, after Solstice (Liu et al., `CoNEXT` 2015).
//!
//! As in [`super::bvn`] the holds add up to the longest line, exactly, and nothing is stuffed. Each
//! slot joins the lines that would run out of slack within a threshold, using only pairs that can
//! be held that long; the threshold is a power of two and is halved when there is no such
//! matching. Few, long slots come first.

use super::bitset::{Bits, Lines, with_lines};
use super::demand::Demand;
use super::exact::{ROWS, State};
use super::slots::Slots;

pub(super) fn decompose(demand: &Demand) -> Slots {
    within(demand, u64::MAX).expect("there is no limit")
}

/// The slots, or nothing if there are more than `limit` of them.
pub(super) fn within(demand: &Demand, limit: u64) -> Option<Slots> {
    with_lines!(demand.rows.max(demand.columns), run(demand, limit))
}

fn run<const L: usize, const W: usize>(demand: &Demand, limit: u64) -> Option<Slots> {
    let mut slots = Slots::default();
    let (mut state, end) = State::<L, W>::new(demand);
    let largest = demand.bytes.iter().copied().max().unwrap_or(0);
    state.within = (largest + 1).next_power_of_two() / 2;
    while state.now < end {
        if slots.len() as u64 == limit {
            return None;
        }
        state.part_all();
        state.allow_long();
        state.refill::<false>();
        state.earliest_due();
        let due = state.due_by(state.now + state.within - 1);
        if !state.join_urgent(&due) {
            assert!(state.within > 1, "critical lines can always be joined (Hall)");
            state.within /= 2;
            continue;
        }
        let next = state.earliest_due();
        slots.push_first(state.matching(), demand.rows, next - state.now);
        state.advance(next);
    }
    Some(slots)
}

impl<const L: usize, const W: usize> State<L, W> {
    fn part_all(&mut self) {
        for row in 0..self.sides[ROWS].count {
            if !self.sides[ROWS].free.contains(row) {
                self.part(row, self.sides[ROWS].partner[row].into());
            }
        }
    }

    /// Allows the pairs that, joined now, leave neither line without slack within the threshold.
    fn allow_long(&mut self) {
        let Self { sides: [rows, columns], now, within, .. } = self;
        rows.wanted = Lines::all(Bits::EMPTY);
        columns.wanted = Lines::all(Bits::EMPTY);
        for row in 0..rows.count {
            for column in 0..columns.count {
                let bytes = rows.left(row, column);
                let slack = rows.due.of(row).min(columns.due.of(column)) - *now;
                if bytes > 0 && bytes + slack >= *within {
                    rows.wanted[row].insert(column);
                    columns.wanted[column].insert(row);
                }
            }
        }
        self.sides.iter_mut().for_each(|side| side.fresh = side.free);
    }
}
