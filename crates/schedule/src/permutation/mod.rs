//! Schedules of permutations: demand to matchings that are held one after another.
//!
//! A crossbar joins every row (source) to at most one column (destination) at a time. The demand
//! is whole bytes per pair, and the *delay* is the bytes that a port could have sent while the
//! crossbar changes, so that every quantity is exact.
//!
//! - All-stop: nothing is sent while the crossbar changes. A schedule is a list of slots, each a
//!   matching and a hold; its length is the sum of holds plus one delay per slot, the first
//!   included.
//! - Partial reconfiguration: a new circuit costs its own two ports the delay and disturbs no
//!   other. A schedule is a list of transfers with start times.
//!
//! A pair that is joined sends the smaller of what is left and the hold; nothing is stuffed. Line
//! rates are equal, and propagation, relaying and copies inside a server are left out.

#![allow(clippy::cast_possible_wrap, reason = "a line is below 1,024")]

mod assignment;
mod auto;
mod bitset;
mod bound;
mod budget;
mod bvn;
mod check;
mod critical;
mod demand;
mod exact;
mod fewest;
mod improve;
mod maximal;
mod methods;
mod open_shop;
mod optimum;
mod rebuild;
mod round_robin;
mod schedule;
mod several;
mod slots;
mod threshold;

pub use budget::Budget;
pub use check::check;
pub use demand::{Demand, MAX_BYTES, MAX_LINES};
pub use schedule::{Method, Schedule};
pub use several::{MAX_SWITCHES, SwitchSchedule, check_over, decompose_over};
pub use slots::{Matchings, PairTransfer, Slots};

use std::time::Instant;

use methods::plan_by;

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
