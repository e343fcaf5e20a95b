//! The shortest schedule of all methods, cheapest method first.
//!
//! It stops as soon as a schedule meets the lower bound or the time is up.

use std::time::Instant;

use super::{Demand, Method, Schedule, decompose as decompose_by};

pub fn decompose(demand: &Demand, until: Option<Instant>) -> Schedule {
    let mut best: Option<Schedule> = None;
    for method in Method::SINGLE {
        if let Some(found) = &best
            && (found.length == found.lower_bound || until.is_some_and(|t| Instant::now() >= t))
        {
            break;
        }
        let found = decompose_by(demand, method, until);
        if best.as_ref().is_none_or(|best| found.length < best.length) {
            best = Some(found);
        }
    }
    best.expect("there are methods")
}
