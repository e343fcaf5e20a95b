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
//! - relaying over two slots ([`relay_hybrid`]), where that makes any of them shorter;
//! - chunks with release times and deadlines ([`schedule_chunks`]), also without an EPS;
//! - a lower bound ([`HybridDemand::lower_bound`]) and an independent checker ([`check_hybrid`]).
//!
//! Leaves out the queues of the packet switch.

#![allow(clippy::cast_possible_wrap, reason = "a line is below 1,024")]

mod balanced;
mod bound;
mod budget;
mod check;
mod chunks;
mod demand;
mod eclipse;
mod holds;
mod load;
mod refine;
mod relay_program;
mod relays;
mod schedule;
mod solstice;

use lightloom_model::Invalid;

pub use budget::HybridBudget;
pub use check::check_hybrid;
pub use chunks::{
    Chunk, ChunkDemand, ChunkMethod, ChunkSchedule, ChunkTransfer, check_chunks, schedule_chunks,
};
pub use demand::{HybridDemand, MAX_HYBRID_LINES, PortRates};
pub use schedule::{HybridMethod, HybridRelay, HybridSchedule};

/// Schedules a demand over circuits and packets.
///
/// The same demand yields the same schedule. With n lines and k slots, `solstice` takes
/// O(k n^2) where matchings change little, `eclipse` O(k n^3 log n), `balanced` O(k n^2 log n) for
/// each of a few target lengths and then O(k n^2) for every pivot of its linear programs.
pub fn schedule_hybrid(demand: &HybridDemand, method: HybridMethod) -> HybridSchedule {
    schedule_hybrid_within(demand, method, &HybridBudget::USUAL)
}

/// As [`schedule_hybrid`] within a budget, which `balanced` heeds: it returns the best that it has,
/// packets alone at first, and more of the budget is never worse.
pub fn schedule_hybrid_within(
    demand: &HybridDemand,
    method: HybridMethod,
    budget: &HybridBudget,
) -> HybridSchedule {
    let printed = |slots: Option<_>| slots.expect("without a limit there is an end");
    let slots = match method {
        HybridMethod::Solstice => printed(solstice::slots(demand, &HybridBudget::USUAL)),
        HybridMethod::Eclipse => printed(eclipse::slots(demand, &HybridBudget::USUAL)),
        HybridMethod::Balanced => balanced::slots(demand, budget),
    };
    HybridSchedule::of(method, slots, demand)
}

/// Lets servers relay between the slots of a schedule of this demand where that makes it shorter.
///
/// Bytes go to a third server in one slot and on in a later one, so that fewer slots suffice. The
/// result is never longer; its lower bound is that of relaying. Bytes of relays are kept until they
/// leave ([`HybridSchedule::relay_memory`]).
///
/// # Errors
/// If rows and columns are not the same servers.
pub fn relay_hybrid(
    demand: &HybridDemand,
    schedule: HybridSchedule,
    budget: &HybridBudget,
) -> Result<HybridSchedule, Invalid> {
    if demand.rows != demand.columns {
        let text =
            format!("relaying expects a square demand, got {} x {}", demand.rows, demand.columns);
        return Err(Invalid(text));
    }
    Ok(relays::with_relays(demand, schedule, budget))
}
