//! Where the time of workers goes: sums by category, and spans of those that are recorded.

use super::streams::Stream;
use crate::timeline::Timeline;
use lightloom_model::{CategoryId, Task, Time, WorkerId};

/// From when to when.
pub(crate) type Span = (Time, Time);

/// Time by worker and category.
#[derive(Debug)]
pub(crate) struct Accounts {
    categories: usize,
    /// Picoseconds on main streams, `[worker][category]`.
    spent: Vec<u64>,
    /// Picoseconds of these in which members were late at random, by category.
    late: Vec<u128>,
    recorded: Vec<bool>,
    /// Stream of what runs alongside the others, in timelines.
    alongside: u8,
    /// Spans of recorded workers.
    pub timeline: Timeline,
}

impl Accounts {
    /// Empty accounts.
    pub(super) fn new(workers: usize, categories: usize, streams: usize) -> Self {
        Self {
            categories,
            spent: vec![0; workers * categories],
            late: vec![0; categories],
            recorded: vec![false; workers],
            alongside: streams as u8,
            timeline: Timeline::default(),
        }
    }

    /// Records the spans of a worker; false if there is no such worker.
    pub(super) fn record(&mut self, worker: WorkerId) -> bool {
        let entry = self.recorded.get_mut(worker.index());
        entry.map(|recorded| *recorded = true).is_some()
    }

    /// Charges a span of a worker's stream to a category. Sums are those of the main stream, which
    /// does one thing at a time. Until `together`, the worker waited for others who take part.
    pub(super) fn spend(
        &mut self,
        stream: &Stream,
        task: &Task,
        category: CategoryId,
        span: Span,
        together: Time,
    ) {
        let worker = stream.worker;
        if span.1 <= span.0 {
            return;
        }
        if stream.number == 0 {
            let cell = worker.index() * self.categories + category.index();
            self.spent[cell] = self.spent[cell].saturating_add(span.1.since(span.0).0);
        }
        if self.recorded[worker.index()] {
            self.push(worker, stream.number, task, category, span, together);
        }
    }

    /// Notes what of a span that was charged to a category was spent on members that are late.
    pub(super) fn note_late(
        &mut self,
        stream: &Stream,
        category: CategoryId,
        span: Span,
        late: Span,
    ) {
        let both = (span.0.max(late.0), span.1.min(late.1));
        if stream.number == 0 && both.0 < both.1 {
            self.late[category.index()] += u128::from(both.1.since(both.0).0);
        }
    }

    /// Picoseconds of all workers by category in which members were late at random.
    pub(super) fn late(&self) -> &[u128] {
        &self.late
    }

    /// Records something that runs alongside a worker's streams.
    pub(super) fn record_alongside(
        &mut self,
        worker: WorkerId,
        task: &Task,
        span: Span,
        together: Time,
    ) {
        if self.recorded[worker.index()] && span.1 > span.0 {
            self.push(worker, self.alongside, task, task.category, span, together);
        }
    }

    /// Picoseconds by category of a worker's main stream.
    pub(super) fn of(&self, worker: WorkerId) -> &[u64] {
        &self.spent[worker.index() * self.categories..][..self.categories]
    }

    fn push(
        &mut self,
        worker: WorkerId,
        stream: u8,
        task: &Task,
        category: CategoryId,
        span: Span,
        together: Time,
    ) {
        let timeline = &mut self.timeline;
        timeline.worker.push(worker.0);
        timeline.stream.push(stream);
        timeline.start.push(span.0.0);
        timeline.end.push(span.1.0);
        timeline.category.push(category.0);
        let waited = together.since(span.0).0.min(span.1.since(span.0).0);
        timeline.waited.push(waited);
        timeline.layer.push(task.layer);
        timeline.micro_batch.push(task.micro_batch);
    }
}
