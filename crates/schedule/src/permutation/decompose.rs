//! From a demand and a method to a schedule.

use std::time::Instant;

use super::auto;
use super::budget::Budget;
use super::demand::Demand;
use super::methods::plan_by;
use super::schedule::{Method, Schedule};

/// Schedules a demand.
///
/// `until` bounds the time that `Auto` takes, softly: a method that has begun is finished, and
/// there is always a schedule. Apart from that the same demand yields the same schedule.
pub fn decompose(demand: &Demand, method: Method, until: Option<Instant>) -> Schedule {
    decompose_within(demand, method, &Budget::until(until))
}

/// Schedules a demand; a budget bounds what `Auto` does, and more of it is never worse.
pub fn decompose_within(demand: &Demand, method: Method, budget: &Budget) -> Schedule {
    match method {
        Method::Auto => auto::decompose(demand, budget),
        one => Schedule::of(one, plan_by(demand, one), demand, demand.lower_bound()),
    }
}
