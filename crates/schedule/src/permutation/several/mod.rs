//! Schedules over several switches: every line has a port at each of them.
//!
//! A pair may be joined on several switches at once. Each switch is a crossbar of its own: while it
//! changes, the others go on. The length is that of the switch that ends last, so it is never less
//! than the bytes of a line, divided by the switches, and a delay.

mod bound;
mod check;
mod equal;
mod pack;
mod search;

pub use check::check_over;

use std::time::Instant;

use lightloom_model::Invalid;

use super::budget::Budget;
use super::decompose::decompose;
use super::demand::Demand;
use super::methods::plan_by;
use super::schedule::{Method, Schedule};
use super::slots::{Matchings, Slots};

/// Switches that a schedule may have.
pub const MAX_SWITCHES: usize = 1_024;

/// Matchings over time on several switches, with the certificate of their length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwitchSchedule {
    /// The method whose matchings these are, never `Auto`.
    pub method: Method,
    /// The slots of each switch, one after another.
    ///
    /// A pair that is joined in several slots sends in those of the first switch first.
    pub switches: Vec<Slots>,
    /// Bytes that a port could send until the last switch has finished.
    pub length: u64,
    /// Bytes that no schedule can beat.
    pub lower_bound: u64,
}

/// Schedules a demand over several switches.
///
/// The slots that a method makes for one crossbar are placed on the switches, longest first, and
/// divided where that balances them; `Auto` also searches, see the module.
///
/// # Errors
/// If there is no switch or there are too many, reconfiguration is partial, or the method makes too
/// many slots of the demand (see [`Demand::check_size`]).
pub fn decompose_over(
    demand: &Demand,
    switches: usize,
    method: Method,
    until: Option<Instant>,
) -> Result<SwitchSchedule, Invalid> {
    if !(1..=MAX_SWITCHES).contains(&switches) {
        return Err(Invalid(format!("{switches} switches: expected 1 to {MAX_SWITCHES}")));
    }
    if demand.partial {
        return Err(Invalid::new("partial reconfiguration is for one switch"));
    }
    demand.check_size(method)?;
    if switches == 1 {
        return Ok(SwitchSchedule::of_one(decompose(demand, method, until)));
    }
    let lower_bound = demand.lower_bound_over(switches);
    if method == Method::Auto {
        return Ok(search::shortest(demand, switches, lower_bound, &Budget::until(until)));
    }
    let Matchings::Slots(slots) = plan_by(demand, method) else {
        unreachable!("without partial reconfiguration there are slots")
    };
    let switches = pack::pack(demand, &slots, switches);
    Ok(SwitchSchedule::of(method, switches, demand, lower_bound))
}

impl SwitchSchedule {
    fn of(method: Method, switches: Vec<Slots>, demand: &Demand, lower_bound: u64) -> Self {
        let length = pack::length(&switches, demand.delay);
        debug_assert!(length >= lower_bound, "{length} is below the bound {lower_bound}");
        Self { method, switches, length, lower_bound }
    }

    fn of_one(schedule: Schedule) -> Self {
        let Schedule { method, plan, length, lower_bound } = schedule;
        let Matchings::Slots(slots) = plan else {
            unreachable!("without partial reconfiguration there are slots")
        };
        Self { method, switches: vec![slots], length, lower_bound }
    }
}
