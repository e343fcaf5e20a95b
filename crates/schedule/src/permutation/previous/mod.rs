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

mod added;
mod cover;
mod holds;
mod program;

use lightloom_model::Invalid;

use super::budget::Budget;
use super::demand::Demand;
use super::improve::served;
use super::schedule::{Method, Schedule};
use super::slots::{Matchings, Slots};
use added::best_matching;
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
    let mut used = vec![usize::MAX; columns];
    for (slot, matching) in previous.matchings.chunks_exact(rows.max(1)).enumerate() {
        for &column in matching.iter().filter(|&&column| column != -1) {
            match usize::try_from(column).ok().and_then(|column| used.get_mut(column)) {
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

/// Keeps the matchings of a checked schedule. So many slots may be added where that makes it
/// shorter; those for pairs without any do not count.
pub(super) fn keep(
    demand: &Demand,
    previous: &Slots,
    new_slots: usize,
    budget: &Budget,
) -> Schedule {
    let mut cover = Cover::new(demand, previous);
    let mut longer = longer_by_a_factor(demand, &cover);
    cover.serve_all(demand);
    longer.resize(cover.len(), 0);
    fit(demand, &cover, &mut longer);
    let mut best = Plan::new(demand, cover, longer);
    best.refit(demand, budget);
    for _ in 0..new_slots {
        let Some(matching) = best_matching(demand, &best.worth) else { break };
        let mut more = best.clone();
        more.cover.add(&matching);
        more.holds.push(0);
        more.refit(demand, budget);
        if more.length >= best.length {
            break;
        }
        best = more;
    }
    let new_slots = best.new_slots();
    let plan = Matchings::Slots(best.slots(demand));
    let schedule = Schedule::of(Method::Previous, plan, demand, demand.lower_bound());
    Schedule { new_slots: Some(new_slots), ..schedule }
}

/// Linear programs; before each but the first, idle ports are joined.
const ROUNDS: usize = 4;

/// Slots and how long they are held.
#[derive(Clone)]
struct Plan {
    cover: Cover,
    /// Bytes; nothing where a slot is left out.
    holds: Vec<u64>,
    length: u64,
    /// What is worth being served by further slots.
    worth: Vec<(usize, f64)>,
}

impl Plan {
    fn new(demand: &Demand, cover: Cover, mut holds: Vec<u64>) -> Self {
        drop_slots(demand, &cover, &mut holds);
        let length = length(demand, &holds);
        Self { cover, holds, length, worth: Vec::new() }
    }

    fn is_optimal(&self, demand: &Demand) -> bool {
        self.length <= demand.simple_bound()
    }

    /// Finds shorter holds, and joins idle ports where that helps.
    fn refit(&mut self, demand: &Demand, budget: &Budget) {
        for round in 0..ROUNDS {
            if self.is_optimal(demand) || budget.is_late() {
                break;
            }
            let Some(solution) = solve(demand, &self.cover, budget) else { break };
            let mut holds = whole(demand, &self.cover, &solution.holds);
            drop_slots(demand, &self.cover, &mut holds);
            let length = length(demand, &holds);
            if length < self.length {
                (self.holds, self.length) = (holds, length);
            }
            self.worth = solution.worth;
            if round + 1 < ROUNDS && !self.cover.join_idle(demand, &self.worth) {
                break;
            }
        }
    }

    fn new_slots(&self) -> usize {
        (0..self.holds.len())
            .filter(|&slot| self.holds[slot] > 0 && !self.cover.is_kept(slot))
            .count()
    }

    /// The slots that are held.
    fn slots(&self, demand: &Demand) -> Slots {
        let mut slots = Slots::default();
        for (slot, &hold) in self.holds.iter().enumerate().filter(|pair| *pair.1 > 0) {
            slots.push(self.cover.matching(slot), hold);
        }
        served(demand, &slots)
    }
}

fn length(demand: &Demand, holds: &[u64]) -> u64 {
    holds.iter().filter(|&&hold| hold > 0).map(|hold| hold + demand.delay).sum()
}
