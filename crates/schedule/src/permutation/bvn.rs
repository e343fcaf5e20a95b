//! Birkhoff-von Neumann decomposition: the holds add up to the longest line, exactly.
//!
//! Each slot is a matching that joins at least the critical lines (see [`super::exact`]) and lasts
//! until a line runs out of slack. From slot to slot the matching is kept; only the lines are
//! joined anew that ran out of demand or of slack, by alternating paths over rows of bits
//! (incremental repair). Each slot but the last uses up a pair or the slack of a line, so there
//! are at most as many slots as pairs and lines. Beginning with the matching of an earlier demand
//! does not pay: finding the first one takes 4 % of the instructions at 16 lines and 2 % at 64.

use super::bitset::with_lines;
use super::budget::Budget;
use super::demand::Demand;
use super::exact::State;
use super::slots::Slots;

/// Slots from one look at the clock to the next: they take less time than steps of other searches.
const LOOK: usize = 16;

/// Slots for which there is room at first, at most.
const MAX_EXPECTED: usize = 1_024;

pub(super) fn decompose(demand: &Demand) -> Slots {
    within(demand, u64::MAX, &Budget::unlimited()).expect("there is no limit")
}

/// The slots, or nothing if there are more than `limit` of them or time is up.
pub(super) fn within(demand: &Demand, limit: u64, budget: &Budget) -> Option<Slots> {
    with_lines!(demand.rows.max(demand.columns), run(demand, limit, budget))
}

fn run<const L: usize, const W: usize>(
    demand: &Demand,
    limit: u64,
    budget: &Budget,
) -> Option<Slots> {
    // As many as there often are up to 64 lines; the last slot is written with all L rows.
    let expected = (demand.rows * (4 + demand.rows / 6)).min(MAX_EXPECTED);
    let mut slots = Slots::with_capacity(expected, demand.rows, L);
    let (mut state, end) = State::<L, W>::new(demand);
    let mut next = state.earliest_due();
    while next < end {
        let look = slots.len().is_multiple_of(LOOK);
        if slots.len() as u64 == limit || look && budget.is_spent() {
            return None;
        }
        // Joined lines are due when they finish or later, so that these are free then.
        let due = state.due_by(next);
        state.advance(next);
        state.refill::<true>();
        assert!(state.join_urgent(&due), "critical lines can always be joined (Hall)");
        next = state.earliest_due();
        let hold = next - state.now;
        slots.push_first(state.matching(), demand.rows, hold);
    }
    Some(slots)
}
