//! The kernel of every simulation: order of events, run hash, progress and interruption.
//!
//! Time itself is `model::Time`. Nothing here knows what an event means, and nothing reads a wall
//! clock or iterates over a hash map, so that a run is a pure function of its input.

#![warn(unreachable_pub)]

mod agenda;
mod indexed_queue;
mod observer;
mod queue;
mod run_hash;

pub use agenda::{Agenda, Due, PREVIEW, SourceEvent};
pub use indexed_queue::IndexedQueue;
pub use observer::{Interrupted, Observer, Silent};
pub use queue::{Event, EventQueue};
pub use run_hash::RunHash;
