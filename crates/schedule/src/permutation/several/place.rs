//! From a demand and a method to a schedule over several switches.

use std::time::Instant;

use lightloom_model::Invalid;

use super::super::budget::Budget;
use super::super::decompose::decompose;
use super::super::demand::Demand;
use super::super::methods::plan_by;
use super::super::schedule::Method;
use super::super::slots::Matchings;
use super::pack::pack;
use super::schedule::SwitchSchedule;
use super::search;

/// Switches that a schedule may have.
pub const MAX_SWITCHES: usize = 1_024;

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
    let switches = pack(demand, &slots, switches);
    Ok(SwitchSchedule::of(method, switches, demand, lower_bound))
}
