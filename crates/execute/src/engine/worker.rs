//! One worker plays its stage's program in order.
//!
//! Tasks that nobody else notices only move the worker's own clock; tasks that start something
//! (send, ring, all-to-all) happen at their time, so that everybody sees them in order.

use super::{Engine, Event, NORMAL, trace};
use crate::critical_path::CriticalPath;
use crate::error::ExecuteError;
use crate::ledger::Purpose;
use lightloom_model::{Duration, Pass, Task, TaskKind, Time, WorkerId};

/// What a worker waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Waiting {
    /// Nothing: it will go on by itself.
    #[default]
    No,
    /// An all-to-all.
    Exchange,
    /// A message of this tag from a stage.
    Message {
        /// Sending stage.
        stage: u32,
        /// Tag.
        tag: u32,
    },
    /// A ring collective of this handle.
    Ring(u32),
    /// The program is at its end.
    Done,
}

impl Waiting {
    /// For the error text of a deadlock.
    pub fn describe(self) -> String {
        match self {
            Self::No | Self::Done => "ready to go on".into(),
            Self::Exchange => "an all-to-all that not all members reach".into(),
            Self::Message { stage, tag } => {
                format!("the receive of tag {tag} from stage {stage}")
            }
            Self::Ring(handle) => format!("the wait for ring handle {handle}"),
        }
    }
}

/// State of one worker.
#[derive(Debug, Clone, Default)]
pub struct Worker {
    /// Next task.
    pub next: u32,
    /// The worker's own clock.
    pub at: Time,
    /// What led to `at`.
    pub path: CriticalPath,
    /// Where its time went.
    pub spent: CriticalPath,
    /// What it waits for.
    pub waiting: Waiting,
    /// Whether its spans are recorded.
    pub recorded: bool,
}

/// Whether a worker can go on with its next task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// It can.
    Next,
    /// It waits and will be released.
    Wait,
}

impl Engine<'_> {
    /// Plays a worker's program as far as it goes.
    pub(super) fn play(&mut self, id: WorkerId) -> Result<(), ExecuteError> {
        let graph = self.graph;
        let stage = graph.layout.stage_of(id) as usize;
        let tasks = &graph.programs[stage].tasks;
        loop {
            let Some(task) = tasks.get(self.workers[id as usize].next as usize) else {
                self.workers[id as usize].waiting = Waiting::Done;
                return Ok(());
            };
            let later = self.workers[id as usize].at > self.now;
            let step = match task.kind {
                TaskKind::Compute { duration } => {
                    self.work(id, task, duration);
                    Step::Next
                }
                TaskKind::Expert { block, pass } => {
                    let duration = self.expert_time(id, block, pass);
                    self.work(id, task, duration);
                    Step::Next
                }
                TaskKind::Local { bytes_per_gpu } => {
                    let all = bytes_per_gpu.saturating_mul(u64::from(self.seats.gpus));
                    self.local(id, task, bytes_per_gpu, all);
                    Step::Next
                }
                TaskKind::ExpertTp { block } => {
                    let (place, blocks) = (self.place(id, block), &graph.blocks);
                    let busiest = blocks.expert_tp_per_gpu[place];
                    self.local(id, task, busiest, blocks.expert_tp_total[place]);
                    Step::Next
                }
                TaskKind::Receive { peer_stage, tag } => self.receive(id, task, peer_stage, tag),
                TaskKind::Wait { handle } => self.wait(id, task, handle),
                TaskKind::Send { .. } | TaskKind::Ring { .. } | TaskKind::AllToAll { .. }
                    if later =>
                {
                    self.queue.push(self.workers[id as usize].at, NORMAL, Event::Resume(id));
                    return Ok(());
                }
                TaskKind::Send { peer_stage, tag, bytes } => {
                    self.send(id, task, (peer_stage, tag), bytes);
                    Step::Next
                }
                TaskKind::Ring { .. } => {
                    self.join_ring(id, task)?;
                    Step::Next
                }
                TaskKind::AllToAll { .. } => self.arrive(id, task),
            };
            if step == Step::Wait {
                return Ok(());
            }
            self.workers[id as usize].next += 1;
        }
    }

    /// Releases a waiting worker: it goes on with the next task at `at`.
    pub(super) fn release(&mut self, id: WorkerId, at: Time, path: CriticalPath) {
        let worker = &mut self.workers[id as usize];
        worker.waiting = Waiting::No;
        worker.at = at;
        worker.path = path;
        self.trace.record(at, trace::TASK, &[u64::from(id), u64::from(worker.next)]);
        worker.next += 1;
        self.released.push(id);
    }

    /// Occupies a worker for a time.
    pub(super) fn work(&mut self, id: WorkerId, task: &Task, duration: Duration) {
        let start = self.workers[id as usize].at;
        self.spend(id, task, task.category, (start, start + duration));
        let worker = &mut self.workers[id as usize];
        worker.at = start + duration;
        worker.path.charge(task.category, duration);
    }

    /// Where a worker's value is in the tables by group, block and member.
    pub(super) fn place(&self, id: WorkerId, block: u32) -> usize {
        let layout = &self.graph.layout;
        let (group, member) = (layout.group_of(id), id % layout.members);
        let cell = group as usize * self.graph.blocks.blocks as usize + block as usize;
        cell * layout.members as usize + member as usize
    }

    pub(super) fn expert_time(&self, id: WorkerId, block: u32, pass: Pass) -> Duration {
        let blocks = &self.graph.blocks;
        let place = self.place(id, block);
        match pass {
            Pass::Forward => blocks.expert_forward[place],
            Pass::Backward => blocks.expert_backward[place],
        }
    }

    /// A collective in which the busiest GPU moves `bytes_per_gpu` and all of them `all`.
    fn local(&mut self, id: WorkerId, task: &Task, bytes_per_gpu: u64, all: u64) {
        let purpose = Purpose::of(task.category).expect("checked");
        self.ledger.inside(purpose, all);
        let duration = self.fabric.local_time(bytes_per_gpu);
        self.work(id, task, duration);
    }
}
