//! What rings do inside workers: those of different communicators share a GPU's NVSwitch port.
//!
//! Parts under way at once progress at equal rates: n of them at 1/n each. Collectives that hold
//! their stream, and all-to-alls, have the port to themselves and are not seen here.

use super::context::Context;
use super::owner::Event;
use lightloom_model::{Duration, Time, WorkerId};

/// The part of a ring inside one worker.
#[derive(Debug)]
struct Part {
    ring: u32,
    /// Time that it still takes alone.
    left: Duration,
}

/// The port of each GPU of a worker, which act alike.
#[derive(Debug, Default)]
struct Port {
    parts: Vec<Part>,
    /// When `left` was right.
    since: Time,
    /// Events of earlier generations are out of date.
    generation: u32,
}

impl Port {
    /// Brings what is left up to date.
    fn settle(&mut self, now: Time) {
        let each = now.since(self.since).0 / self.parts.len().max(1) as u64;
        for part in &mut self.parts {
            part.left = Duration(part.left.0.saturating_sub(each));
        }
        self.since = now;
    }

    /// When the first part will be done, unless another one starts.
    fn next(&self) -> Option<Time> {
        let shortest = self.parts.iter().map(|part| part.left.0).min()?;
        Some(self.since + Duration(shortest.saturating_mul(self.parts.len() as u64)))
    }
}

/// The ports of all workers.
#[derive(Debug, Default)]
pub(super) struct NvSwitches {
    ports: Vec<Port>,
}

impl NvSwitches {
    /// Starts the part of a ring that takes `work` alone.
    pub(super) fn start(
        &mut self,
        context: &mut Context<'_>,
        worker: WorkerId,
        ring: u32,
        work: Duration,
    ) {
        if self.ports.len() <= worker.index() {
            self.ports.resize_with(context.graph.workers(), Port::default);
        }
        let port = &mut self.ports[worker.index()];
        port.settle(context.now);
        port.parts.push(Part { ring, left: work });
        Self::plan(port, context, worker);
    }

    /// Rings whose parts in a worker are done now, in the order in which they started.
    pub(super) fn done(
        &mut self,
        context: &mut Context<'_>,
        worker: WorkerId,
        generation: u32,
    ) -> Vec<u32> {
        let port = &mut self.ports[worker.index()];
        if port.generation != generation {
            return Vec::new();
        }
        port.settle(context.now);
        let is_done = |part: &Part| part.left == Duration::ZERO;
        let done = port.parts.iter().filter(|part| is_done(part)).map(|part| part.ring).collect();
        port.parts.retain(|part| !is_done(part));
        Self::plan(port, context, worker);
        done
    }

    fn plan(port: &mut Port, context: &mut Context<'_>, worker: WorkerId) {
        port.generation = port.generation.wrapping_add(1);
        if let Some(time) = port.next() {
            context.schedule(time, Event::InsideDone { worker, generation: port.generation });
        }
    }
}
