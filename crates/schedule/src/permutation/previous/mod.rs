//! An earlier schedule's matchings, in their order, with holds for another demand.
//!
//! A switch that knows its matchings need not be told others: if demand drifts, only the holds
//! change. No circuit moves to other ports; a slot may be held for nothing, which saves its delay,
//! and ports that it leaves idle, or of pairs that want nothing any more, may be joined: first for
//! pairs that no slot serves, the largest first, then for what the holds are short of. Pairs that
//! still have no slot are put into new ones at the end, as few as their busiest line needs (see
//! [`super::fewest`]).
//!
//! The holds are the optimum of a linear program (see `program`), in whole bytes; slots that cost
//! more than longer holds elsewhere are left out. The earlier holds, all longer by one factor, are
//! the alternative, so that a schedule of the same demand never becomes longer; with thousands of
//! slots they are all there is.

mod cover;
mod holds;
mod program;

use lightloom_model::Invalid;

use super::budget::Budget;
use super::demand::Demand;
use super::improve::served;
use super::schedule::{Method, Schedule};
use super::slots::{Matchings, Slots};
use cover::Cover;
use holds::{drop_slots, fit, longer_by_a_factor, whole};
use program::solve;

/// Checks that a schedule is one of matchings between the lines of a demand.
pub(super) fn check_previous(demand: &Demand, previous: &Slots) -> Result<(), Invalid> {
    let Demand { rows, columns, .. } = *demand;
    let wrong = |text: String| Err(Invalid(format!("previous: {text}")));
    if previous.matchings.len() != rows * previous.len() {
        let cells = previous.matchings.len();
        return wrong(format!("{cells} cells for {} slots of {rows} rows", previous.len()));
    }
    let mut taken = vec![usize::MAX; columns];
    for (slot, matching) in previous.matchings.chunks_exact(rows.max(1)).enumerate() {
        for &column in matching.iter().filter(|&&column| column != -1) {
            match usize::try_from(column).ok().and_then(|column| taken.get_mut(column)) {
                None => return wrong(format!("slot {slot}: no column {column} of {columns}")),
                Some(last) if *last == slot => {
                    return wrong(format!("slot {slot}: column {column} twice"));
                }
                Some(last) => *last = slot,
            }
        }
    }
    Ok(())
}

/// Keeps the matchings of a checked schedule.
pub(super) fn keep(demand: &Demand, previous: &Slots, budget: &Budget) -> Schedule {
    let mut cover = Cover::new(demand, previous);
    let mut longer = longer_by_a_factor(demand, &cover);
    let new_slots = cover.serve_all(demand);
    longer.resize(cover.len(), 0);
    fit(demand, &cover, &mut longer);
    let mut best = finished(demand, &cover, longer);
    for round in 0..ROUNDS {
        if best.length(demand.delay) <= demand.simple_bound() || budget.is_late() {
            break;
        }
        let Some(solution) = solve(demand, &cover, budget) else { break };
        let holds = whole(demand, &cover, &solution.holds);
        let found = finished(demand, &cover, holds);
        if found.length(demand.delay) < best.length(demand.delay) {
            best = found;
        }
        if round + 1 < ROUNDS && !cover.join_idle(demand, &solution.worth) {
            break;
        }
    }
    let plan = Matchings::Slots(best);
    let schedule = Schedule::of(Method::Previous, plan, demand, demand.lower_bound());
    Schedule { new_slots: Some(new_slots), ..schedule }
}

/// Linear programs; before each but the first, idle ports are joined.
const ROUNDS: usize = 4;

/// The slots with these holds, but for those that are not worth their delay.
fn finished(demand: &Demand, cover: &Cover, mut holds: Vec<u64>) -> Slots {
    drop_slots(demand, cover, &mut holds);
    let mut slots = Slots::default();
    for (matching, hold) in cover.matchings.chunks_exact(demand.rows.max(1)).zip(holds) {
        if hold > 0 {
            slots.push(matching, hold);
        }
    }
    served(demand, &slots)
}
