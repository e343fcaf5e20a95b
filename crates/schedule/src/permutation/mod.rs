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
mod decompose;
mod demand;
mod exact;
mod fewest;
mod improve;
mod largest;
mod maximal;
mod methods;
mod moments;
mod open_shop;
mod optimum;
mod previous;
mod rebuild;
mod round_robin;
mod schedule;
mod several;
mod slots;
mod suitors;
mod threshold;
mod whole;

pub use budget::Budget;
pub use check::check;
pub use decompose::{decompose, decompose_below, decompose_from, decompose_within};
pub use demand::{Demand, MAX_BYTES, MAX_LINES};
pub use schedule::{Method, Schedule};
pub use several::{MAX_SWITCHES, SwitchSchedule, check_over, decompose_over};
pub use slots::{Matchings, PairTransfer, Slots};
