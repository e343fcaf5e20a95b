//! Schedules of permutations alongside a packet switch: what goes over circuits, what over packets.
//!
//! As in [`crate::permutation`], a crossbar joins every row to at most one column at a time, and
//! time is counted in the bytes that a circuit carries meanwhile. In addition every port has a link
//! of a given rate into a packet switch (EPS), which carries bytes from the first moment on, also
//! while the crossbar changes. The length is the time of whichever ends last: all holds with a
//! delay before each, or the busiest EPS port. The EPS is fluid and nonblocking: a pair sends its
//! share at a constant rate until the end, so only the sums per port matter.
//!
//! - [`solstice`](HybridMethod::Solstice) and [`eclipse`](HybridMethod::Eclipse) as their papers
//!   define them;
//! - [`balanced`](HybridMethod::Balanced): ours, see `balanced.rs` and `refine.rs`;
//! - a lower bound ([`HybridDemand::lower_bound`]) and an independent checker ([`check_hybrid`]).
//!
//! Leaves out relaying, release times, and the queues of the packet switch.

#![allow(clippy::cast_possible_wrap, reason = "a line is below 1,024")]

mod balanced;
mod bound;
mod check;
mod demand;
mod eclipse;
mod holds;
mod load;
mod refine;
mod schedule;
mod solstice;

pub use check::check_hybrid;
pub use demand::{HybridDemand, MAX_HYBRID_LINES, PortRates};
pub use schedule::{HybridMethod, HybridSchedule};

/// Schedules a demand over circuits and packets.
///
/// The same demand yields the same schedule. With n lines and k slots, `solstice` takes
/// O(k n^2) where matchings change little, `eclipse` O(k n^3 log n), `balanced` O(k n^2 log n) for
/// each of a few target lengths and then O(k n^2) for every pivot of its linear programs.
pub fn schedule_hybrid(demand: &HybridDemand, method: HybridMethod) -> HybridSchedule {
    let slots = match method {
        HybridMethod::Solstice => solstice::slots(demand),
        HybridMethod::Eclipse => eclipse::slots(demand),
        HybridMethod::Balanced => balanced::slots(demand),
    };
    HybridSchedule::of(method, slots, demand)
}
