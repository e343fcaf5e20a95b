//! Chunks: demand that compute produces over time, and that compute needs by a time.
//!
//! A chunk is bytes of a pair, with the time at which compute has produced them (its *release*)
//! and perhaps the time at which compute needs them (its *deadline*). No byte is sent before the
//! release of its chunk. Without deadlines the schedule is to be short; with deadlines its
//! *lateness* is to be small, the largest time from the deadline of a chunk to its last byte, and
//! its length as a second aim. Circuits are those of [`super`], with or without an EPS, but begin
//! when that helps; time is counted in the bytes of a circuit, from the moment at which the
//! crossbar may turn.
//!
//! - [`ChunkMethod::Together`] and [`ChunkMethod::InOrder`] are what runtimes do today: wait for
//!   all chunks, or finish each before the next (as Lina, Li et al., USENIX ATC 2023);
//! - [`ChunkMethod::Pipelined`]: ours, see `build.rs` and `search.rs`;
//! - a lower bound (`bound.rs`): what is released late must fit into the time that remains, as in
//!   open shops with release and due times (Cho and Sahni, Operations Research 1981);
//! - a checker that replays all transfers ([`check_chunks`]).
//!
//! Chunks of a pair go in the order of their deadlines (Jackson 1955, Horn 1974), of equal ones the
//! newest first: what is left of older ones can go over packets from an earlier time on.
//!
//! Leaves out relaying, and several switches.

mod bound;
mod build;
mod check;
mod demand;
mod packets;
mod plan;
mod schedule;
mod search;
mod transfer;

pub use check::check_chunks;
pub use demand::{Chunk, ChunkDemand};
pub use schedule::{ChunkMethod, ChunkSchedule};
pub use transfer::ChunkTransfer;

use super::budget::HybridBudget;
use plan::{Plan, Queues, play};

/// Schedules chunks over circuits and packets.
///
/// The same demand yields the same schedule. `Pipelined` is never worse than the other two.
pub fn schedule_chunks(
    demand: &ChunkDemand,
    method: ChunkMethod,
    budget: &HybridBudget,
) -> ChunkSchedule {
    let queues = Queues::new(demand);
    let of = |plan: &Plan| play(demand, &queues, plan);
    let played = match method {
        ChunkMethod::Together => of(&search::together(demand, budget)),
        ChunkMethod::InOrder => of(&search::in_order(demand, &queues, budget)),
        ChunkMethod::Pipelined => search::pipelined(demand, &queues, budget),
    };
    ChunkSchedule::of(demand, method, played)
}
