//! What selected workers and circuits did when, as columns.

use crate::engine::Engine;
use lightloom_model::{Allocator, Category, Task, Time, WorkerId};

/// Spans of selected workers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Timeline {
    /// Worker.
    pub worker: Vec<u32>,
    /// 0: what the worker does or waits for; 1: collectives and sends that run beside it.
    pub stream: Vec<u8>,
    /// Start, in picoseconds.
    pub start: Vec<u64>,
    /// End, in picoseconds.
    pub end: Vec<u64>,
    /// Number of the category.
    pub category: Vec<u8>,
    /// Layer of the model, `u16::MAX` where none.
    pub layer: Vec<u16>,
    /// Micro-batch, `u16::MAX` where none.
    pub micro_batch: Vec<u16>,
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
    /// EP group whose all-to-all it is for (the first of them, where several share servers).
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

impl Timeline {
    fn push(&mut self, worker: WorkerId, stream: u8, what: &Task, category: Category, span: Span) {
        self.worker.push(worker);
        self.stream.push(stream);
        self.start.push(span.0.0);
        self.end.push(span.1.0);
        self.category.push(category as u8);
        self.layer.push(what.layer);
        self.micro_batch.push(what.micro_batch);
    }
}

/// From when to when.
pub type Span = (Time, Time);

impl Engine<'_> {
    /// Charges a span of a worker's time to a category.
    pub(crate) fn spend(&mut self, id: WorkerId, task: &Task, category: Category, span: Span) {
        if span.1 <= span.0 {
            return;
        }
        let worker = &mut self.workers[id as usize];
        worker.spent.charge(category, span.1.since(span.0));
        if worker.recorded {
            self.timeline.push(id, 0, task, category, span);
        }
    }

    /// Records something that runs beside a worker's program.
    pub(crate) fn record_beside(&mut self, id: WorkerId, task: &Task, span: Span) {
        if self.workers[id as usize].recorded && span.1 > span.0 {
            self.timeline.push(id, 1, task, task.category, span);
        }
    }
}
