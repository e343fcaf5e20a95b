//! Schedules over several switches: every line has a port at each of them.
//!
//! A pair may be joined on several switches at once. Each switch is a crossbar of its own: while it
//! changes, the others go on. The length is that of the switch that ends last, so it is never less
//! than the bytes of a line, divided by the switches, and a delay.

mod bound;
mod check;
mod equal;
mod pack;
mod place;
mod schedule;
mod search;

pub use check::check_over;
pub use place::{MAX_SWITCHES, decompose_over};
pub use schedule::SwitchSchedule;
