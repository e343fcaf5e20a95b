//! What every part of a run shares: the step, the network, the clock, the streams and the accounts.

use super::accounts::{Accounts, Span};
use super::owner::{Event, NORMAL, Owner};
use super::streams::{StreamId, Streams, Waiting};
use crate::critical_path::CriticalPath;
use crate::fabric::Fabric;
use crate::in_flight::InFlightRecord;
use crate::index::Index;
use crate::ledger::Ledger;
use crate::network::{Flow, Path, Placement};
use crate::phases::PhaseBook;
use crate::recording::{Moment, Waits};
use crate::turns::Together;
use crate::ways::Setting;
use lightloom_flowsim::LinkId;
use lightloom_kernel::{EventQueue, RunHash};
use lightloom_model::{
    CategoryId, Collective, CollectiveKind, Duration, Inside, Priority, PurposeId, Task, TaskGraph,
    Time, WorkerId,
};

/// Kinds of records in the run hash.
pub(super) mod record {
    pub(crate) const TASK: u32 = 0;
    pub(crate) const ALL_TO_ALL: u32 = 1;
    pub(crate) const MESSAGE: u32 = 2;
    pub(crate) const RING: u32 = 3;
    pub(crate) const CIRCUITS: u32 = 4;
    pub(crate) const WORKER: u32 = 5;
}

/// Whether a stream can resume with its next task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// It can.
    Next,
    /// It waits and will be released.
    Wait,
}

/// Phases of packets, and the index there of each of the graph's purposes.
#[derive(Debug)]
pub(crate) struct Stretching<'a> {
    /// What is known of phases.
    pub book: &'a mut PhaseBook,
    /// By purpose of the graph.
    pub purposes: Vec<usize>,
}

/// What every part of a run shares.
#[derive(Debug)]
pub(crate) struct Context<'a> {
    /// The step.
    pub graph: &'a TaskGraph,
    /// What is looked up in it.
    pub index: &'a Index,
    /// Where workers are.
    pub placement: Placement,
    /// What carries bytes.
    pub fabric: Fabric,
    /// The time.
    pub now: Time,
    /// How far streams are.
    pub streams: Streams,
    /// Where time went.
    pub accounts: Accounts,
    /// Where bytes went.
    pub ledger: Ledger,
    /// What of them is on its way, if that is recorded.
    pub in_flight: Option<InFlightRecord>,
    /// Hash of everything that was recorded.
    pub hash: RunHash,
    /// What is to come.
    pub queue: EventQueue<Event>,
    /// What is known of packets, where flows stand for them.
    pub stretching: Option<Stretching<'a>>,
    /// What everything waited for, if that is recorded.
    pub waits: Option<Waits>,
}

impl<'a> Context<'a> {
    /// The purpose of a communication task.
    pub(super) fn purpose(&self, task: &Task) -> PurposeId {
        self.index.purpose(task)
    }

    /// The program of a stream.
    pub(super) fn tasks(&self, stream: StreamId) -> &'a [Task] {
        &self.graph.roles[self.streams[stream].role.index()].tasks
    }

    /// When all of these are over; nothing to go by where that is not recorded.
    pub(super) fn join(&mut self, moments: impl IntoIterator<Item = Moment>) -> Moment {
        match &mut self.waits {
            Some(waits) => waits.join(moments.into_iter().collect()),
            None => Moment::default(),
        }
    }

    /// Notes a transfer that begins at a moment; its end.
    pub(super) fn note_transfer(&mut self, begin: Moment) -> Moment {
        self.waits.as_mut().map_or(begin, |waits| waits.transfer(begin))
    }

    /// Notes bytes of a transfer that begins.
    pub(super) fn send(&mut self, purpose: PurposeId, path: &Path, bytes: u64) {
        self.ledger.send(purpose, path, bytes);
        if let Some(record) = &mut self.in_flight {
            record.add(self.now, purpose, bytes);
        }
    }

    /// Notes bytes that have arrived.
    pub(super) fn receive(&mut self, purpose: PurposeId, bytes: u64) {
        self.ledger.receive(purpose, bytes);
        if let Some(record) = &mut self.in_flight {
            record.remove(self.now, purpose, bytes);
        }
    }

    /// Has an event processed at a time.
    pub(super) fn schedule(&mut self, time: Time, event: Event) {
        self.queue.push(time, NORMAL, event);
    }

    /// Charges a span of a stream's time to a category.
    pub(super) fn spend(
        &mut self,
        stream: StreamId,
        task: &Task,
        category: CategoryId,
        span: Span,
    ) {
        self.spend_together(stream, task, category, span, span.0);
    }

    /// As `spend`, for a collective whose last member began at `together`.
    pub(super) fn spend_together(
        &mut self,
        stream: StreamId,
        task: &Task,
        category: CategoryId,
        span: Span,
        together: Time,
    ) {
        self.accounts.spend(&self.streams[stream], task, category, span, together);
    }

    /// Notes what of a span that was charged to a category was spent on late members.
    pub(super) fn note_late(
        &mut self,
        stream: StreamId,
        category: CategoryId,
        span: Span,
        late: Span,
    ) {
        self.accounts.note_late(&self.streams[stream], category, span, late);
    }

    /// Occupies a stream for a time.
    pub(super) fn work(&mut self, id: StreamId, task: &Task, duration: Duration) {
        let start = self.streams[id].at;
        self.spend(id, task, task.category, (start, start + duration));
        let stream = &mut self.streams[id];
        stream.at = start + duration;
        stream.path.charge(task.category, duration);
    }

    /// What decides about the ways of all-reduces.
    pub(super) fn setting(&self) -> Setting<'_> {
        Setting { graph: self.graph, placement: &self.placement, fabric: &self.fabric }
    }

    /// How long the part of a collective inside a worker takes; `is_whole`: nothing crosses.
    pub(super) fn inside_time(
        &self,
        collective: &Collective,
        is_whole: bool,
        worker: WorkerId,
    ) -> Duration {
        let inside = collective.inside;
        let bytes = self.graph.amount(inside.per_gpu, worker);
        let adds_up = is_whole && collective.kind == CollectiveKind::AllReduce;
        self.fabric.nvswitch().collective(bytes, inside.peers, adds_up)
    }

    /// Bytes that all GPUs of a worker move inside it.
    pub(super) fn inside_bytes(&self, inside: Inside, worker: WorkerId) -> u64 {
        if let Some(total) = inside.total {
            return self.graph.amount(total, worker);
        }
        let per_gpu = self.graph.amount(inside.per_gpu, worker);
        per_gpu.saturating_mul(u64::from(self.placement.gpus))
    }

    /// Has a stream wait for somebody else.
    pub(super) fn wait(&mut self, id: StreamId) -> Step {
        self.streams[id].waiting = Waiting::Task;
        Step::Wait
    }

    /// Releases a waiting stream: it resumes with the task after its present one at `at`.
    pub(super) fn release(&mut self, id: StreamId, at: Time, path: CriticalPath) {
        let index = self.index;
        let stream = &mut self.streams[id];
        let task = stream.turn(index).expect("a waiting stream is at a task");
        stream.waiting = Waiting::No;
        stream.at = at;
        stream.path = path;
        stream.next += 1;
        let ids = [u64::from(stream.worker.0), u64::from(task.0)];
        self.hash.record(at, record::TASK, &ids);
        self.streams.released.push(id);
    }

    /// Starts a flow over a path.
    pub(super) fn start(
        &mut self,
        path: &[LinkId],
        bytes: u64,
        stretch: f64,
        priority: Priority,
        owner: Owner,
    ) {
        let flow = Flow { bytes, stretch, priority: priority.0, token: owner.token() };
        self.fabric.start(self.now, flow, path);
    }

    /// Starts flows of one owner, or of the transfers of one, that begin together.
    pub(super) fn start_together<'b>(
        &mut self,
        shape: Together,
        stretch: f64,
        priority: Priority,
        transfers: impl Iterator<Item = (&'b [LinkId], u64, Owner)>,
    ) -> Span {
        let flows: Vec<(Flow, &[LinkId])> = transfers
            .map(|(path, bytes, owner)| {
                (Flow { bytes, stretch, priority: priority.0, token: owner.token() }, path)
            })
            .collect();
        let late = self.fabric.start_together(self.now, shape, &flows);
        (self.now, self.now + late)
    }

    /// How much longer transfers of packets that begin together, over these links, of these sizes
    /// and latencies, take than as fluids; 1 unless it is known or wanted.
    pub(super) fn stretch<'b>(
        &mut self,
        purpose: PurposeId,
        transfers: impl Iterator<Item = (&'b [LinkId], u64, Duration)>,
    ) -> f64 {
        let Some(Stretching { book, purposes }) = &mut self.stretching else { return 1.0 };
        book.stretch(purposes[purpose.index()], &self.fabric.links, transfers)
    }
}
