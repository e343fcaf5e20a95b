//! The ends of tasks, and the streams that wait for them.

use super::accounts::Span;
use super::context::{Context, Step};
use super::streams::StreamId;
use crate::critical_path::CriticalPath;
use crate::index::Turn;
use lightloom_model::{Duration, Task, TaskIndex, TaskKind, Time, WorkerId};
use rustc_hash::FxHashMap;

/// The end of a task.
#[derive(Debug, Clone)]
pub(crate) struct End {
    /// When it began.
    pub began: Time,
    /// When the last of those who take part had begun.
    pub together: Time,
    /// When it was, or will be, done.
    pub done: Time,
    /// From when to when it waited for members that are late at random.
    pub late: Span,
    /// What led to `done`.
    pub path: CriticalPath,
}

/// Moves a stream's clock to the end of a task, if that is later. The span is charged to the
/// category of the task that ended.
///
/// Where that task took a share of the worker's speed, what the stream has computed meanwhile is
/// done later by this share of the task's duration. (It computed at full speed so far: exact if it
/// began with the task, and then did nothing but compute.)
pub(super) fn take(context: &mut Context<'_>, id: StreamId, tasks: Tasks<'_>, end: &End) {
    let worker = context.streams[id].worker;
    if tasks.is_alongside {
        let span = (end.began, end.done);
        context.accounts.record_alongside(worker, tasks.ended, span, end.together);
    }
    let at = context.streams[id].at;
    let lost = lost(tasks.waits, end);
    let own = context.streams[id].path.moment.after(lost);
    let moment = context.join([own, end.path.moment]);
    if end.done > at + lost {
        let span = (at, end.done);
        context.spend_together(id, tasks.waits, tasks.ended.category, span, end.together);
        context.note_late(id, tasks.ended.category, span, end.late);
        let stream = &mut context.streams[id];
        stream.at = end.done;
        stream.path = end.path.clone();
    } else if lost > Duration::ZERO {
        context.spend(id, tasks.waits, tasks.ended.category, (at, at + lost));
        let stream = &mut context.streams[id];
        stream.at = at + lost;
        stream.path.charge(tasks.ended.category, lost);
    }
    context.streams[id].path.moment = moment;
}

/// What computation lost while a task took a share of the worker's speed.
fn lost(waits: &Task, end: &End) -> Duration {
    let TaskKind::Wait { slowed_ppm, .. } = waits.kind else { return Duration::ZERO };
    if slowed_ppm == 0 {
        return Duration::ZERO;
    }
    let whole = u128::from(end.done.since(end.began).0);
    Duration((whole * u128::from(slowed_ppm) / 1_000_000) as u64)
}

/// As [`take`], for a stream that has waited: it resumes.
pub(super) fn release(context: &mut Context<'_>, id: StreamId, tasks: Tasks<'_>, end: &End) {
    take(context, id, tasks, end);
    let stream = &mut context.streams[id];
    let (at, path) = (stream.at, std::mem::take(&mut stream.path));
    context.release(id, at, path);
}

/// A task that waits, and the one that it waits for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tasks<'a> {
    pub waits: &'a Task,
    pub ended: &'a Task,
    /// Whether what ended ran alongside the streams of its worker.
    pub is_alongside: bool,
}

/// The end of a worker's own task, or who waits for it.
#[derive(Debug)]
enum Slot<'a> {
    Ended(End),
    Awaited(StreamId, &'a Task),
}

/// Ends of tasks that a worker does alone and another of its streams waits for.
#[derive(Debug, Default)]
pub(super) struct Completions<'a> {
    slots: FxHashMap<(WorkerId, TaskIndex), Slot<'a>>,
}

impl<'a> Completions<'a> {
    /// A stream has done a task with a handle.
    pub(super) fn complete(
        &mut self,
        context: &mut Context<'a>,
        id: StreamId,
        ended: Turn<'a>,
        end: End,
    ) {
        let key = (context.streams[id].worker, ended.position);
        let task = ended.task;
        let is_alongside = task.collective().is_some_and(|collective| collective.asynchronous);
        match self.slots.remove(&key) {
            Some(Slot::Awaited(waiter, waits)) => {
                let tasks = Tasks { waits, ended: task, is_alongside };
                release(context, waiter, tasks, &end);
            }
            _ => {
                self.slots.insert(key, Slot::Ended(end));
            }
        }
    }

    /// Waits for a task of the same worker, unless it is done.
    pub(super) fn wait(
        &mut self,
        context: &mut Context<'a>,
        id: StreamId,
        waits: &'a Task,
        ended: Turn<'a>,
    ) -> Step {
        let key = (context.streams[id].worker, ended.position);
        let Some(Slot::Ended(end)) = self.slots.remove(&key) else {
            self.slots.insert(key, Slot::Awaited(id, waits));
            return context.wait(id);
        };
        let collective = ended.task.collective();
        let is_alongside = collective.is_some_and(|collective| collective.asynchronous);
        take(context, id, Tasks { waits, ended: ended.task, is_alongside }, &end);
        Step::Next
    }

    /// Ends that nobody has taken, and waits that nothing has ended.
    pub(super) fn in_use(&self) -> usize {
        self.slots.len()
    }
}
