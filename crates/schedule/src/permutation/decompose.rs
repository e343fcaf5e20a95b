//! From a demand and a method to a schedule.

use std::time::Instant;

use lightloom_model::Invalid;

use super::auto;
use super::budget::Budget;
use super::bvn;
use super::demand::Demand;
use super::methods::plan_by;
use super::previous::{check_previous, keep};
use super::schedule::{Method, Schedule};
use super::slots::{Matchings, Slots};
use super::threshold;

/// Schedules a demand.
///
/// `until` bounds the time that `Auto` takes, softly: a step that has begun is finished, and there
/// is always a schedule. Apart from that the same demand yields the same schedule.
pub fn decompose(demand: &Demand, method: Method, until: Option<Instant>) -> Schedule {
    decompose_within(demand, method, &Budget::until(until))
}

/// Schedules a demand; a budget bounds what `Auto` does, and more of it is never worse.
pub fn decompose_within(demand: &Demand, method: Method, budget: &Budget) -> Schedule {
    match method {
        Method::Auto => auto::decompose(demand, None, budget),
        one => Schedule::of(one, plan_by(demand, one), demand, demand.lower_bound()),
    }
}

/// The matchings of a method, if they are shorter than so many bytes.
///
/// Gives up as soon as they cannot be, where that is seen early.
pub fn decompose_below(demand: &Demand, method: Method, below: u64) -> Option<Matchings> {
    let bound = if demand.partial { demand.lower_bound() } else { demand.simple_bound() };
    if bound >= below {
        return None;
    }
    // Exact methods take the longest line, and a delay for each slot.
    let limit = (below - 1 - demand.longest_line()).checked_div(demand.delay).unwrap_or(u64::MAX);
    let plan = match method {
        Method::Bvn => Matchings::Slots(bvn::within(demand, limit, &Budget::unlimited())?),
        Method::Threshold => Matchings::Slots(threshold::within(demand, limit)?),
        other => decompose_within(demand, other, &Budget::unlimited()).plan,
    };
    (plan.length(demand.delay) < below).then_some(plan)
}

/// Schedules a demand, given the slots of an earlier schedule.
///
/// `Previous` keeps their matchings, and adds up to `new_slots` where that makes it shorter. `Auto`
/// does so if nothing is shorter, and also looks for better ones from there, so that it is never
/// longer than without them for the same steps.
///
/// # Errors
/// If the slots are no matchings of the lines of the demand, another method is asked for, or
/// reconfiguration is partial.
pub fn decompose_from(
    demand: &Demand,
    previous: &Slots,
    new_slots: usize,
    method: Method,
    budget: &Budget,
) -> Result<Schedule, Invalid> {
    if !method.takes_previous() {
        let text = format!("previous: expected the method previous or auto, got {}", method.name());
        return Err(Invalid(text));
    }
    if demand.partial {
        return Err(Invalid::new("previous: expected all-stop reconfiguration, got partial"));
    }
    check_previous(demand, previous)?;
    let kept = keep(demand, previous, new_slots, budget);
    Ok(if method == Method::Auto { auto::decompose(demand, Some(kept), budget) } else { kept })
}
