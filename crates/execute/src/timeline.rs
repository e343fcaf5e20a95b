//! What selected workers and circuits did when, as columns.

use lightloom_model::{Allocator, Time};

/// Spans of selected workers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Timeline {
    /// Worker.
    pub worker: Vec<u32>,
    /// Stream of the worker: what it does or waits for; one more than the last: collectives and
    /// sends that run alongside.
    pub stream: Vec<u8>,
    /// Start, in picoseconds.
    pub start: Vec<u64>,
    /// End, in picoseconds.
    pub end: Vec<u64>,
    /// The first part of it, in which the worker waited for others of the same collective.
    pub waited: Vec<u64>,
    /// Index of the category.
    pub category: Vec<u8>,
    /// Layer of the model, `u16::MAX` where none.
    pub layer: Vec<u16>,
    /// Micro-batch, `u16::MAX` where none.
    pub micro_batch: Vec<u16>,
}

/// What happened along the critical path, from the start of the step to its end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CriticalSpans {
    /// Index of the category.
    pub category: Vec<u8>,
    /// End, in picoseconds; a span begins where the one before it ends.
    pub end: Vec<u64>,
}

/// When circuits were up.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CircuitTimeline {
    /// One end (a server).
    pub a: Vec<u32>,
    /// The other end.
    pub b: Vec<u32>,
    /// Parallel circuits.
    pub count: Vec<u16>,
    /// Up from, in picoseconds.
    pub up: Vec<u64>,
    /// Up until, in picoseconds.
    pub down: Vec<u64>,
}

/// One decision of the circuit policy.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot {
    /// When switching began.
    pub time: Time,
    /// When the circuits were up.
    pub ready: Time,
    /// Group whose all-to-all it is for (the first of them, where several share servers).
    pub group: u32,
    /// Layer of that all-to-all.
    pub layer: u16,
    /// Micro-batch of that all-to-all.
    pub micro_batch: u16,
    /// Servers, n.
    pub servers: Vec<u32>,
    /// Bytes, n x n.
    pub demand: Vec<u64>,
    /// Circuits, n x n.
    pub circuits: Vec<u16>,
    /// Seconds for the demand at line rate.
    pub makespan: f64,
    /// Whose circuits these are.
    pub chosen: Allocator,
}
