//! What lies ahead of a group when circuits are decided: demand, and time to hide a switch behind.
//!
//! The next all-to-alls of a group are those of its program, in order. Their demand is known up to
//! the next first one of a forward pass, whose gate has not been evaluated; the oracle knows that,
//! too, and `predict` takes it, and what follows from it, to be that of the same layer's last one,
//! in the micro-batch before.
//!
//! How long until an all-to-all is reached is estimated from the task graph: for each member the
//! compute, expert and local tasks that it still has before it, and of the members the last, as the
//! all-to-all cannot be over before that one has sent. Waits for other stages and for rings count
//! nothing, so that the estimate is too small rather than too large.

use super::Engine;
use super::policy::is_first;
use super::worker::Waiting;
use crate::circuits::{Circuits, Outlook};
use lightloom_model::{Duration, FirstAllToAll, Reconfigure, Task, TaskKind, Time, WorkerId};
use lightloom_schedule::Ahead;

/// Most all-to-alls that break-even looks ahead: a backward pass through four layers.
const KNOWN_AHEAD: usize = 8;

/// Most that the oracle does.
const ORACLE_AHEAD: usize = 16;

/// Where the demand of an all-to-all is taken from.
#[derive(Debug, Clone, Copy)]
struct Source {
    /// To judge circuits: itself, or the same layer's last one.
    judged: Task,
    /// To find circuits: itself, or the same layer's last but one. A prediction is not judged by
    /// what it was made from, or chance would look like a gain.
    asked: Option<Task>,
}

impl Engine<'_> {
    /// What a decision for these groups, which share a domain, has to look at.
    ///
    /// Demand is added up over groups, all-to-all by all-to-all, as far as all of them look ahead.
    pub(super) fn outlook(&self, domain: u32, groups: &[u32]) -> Outlook {
        let circuits = self.circuits.as_ref().expect("only circuits are decided");
        let size = circuits.domain(domain).size();
        let mut found = Outlook { ahead: Vec::new(), asked: Vec::new() };
        for (place, &group) in groups.iter().enumerate() {
            let positions = self.positions_ahead(group);
            if place > 0 {
                found.ahead.truncate(positions.len());
                found.asked.truncate(positions.len());
            }
            let sources = self.sources(group, positions);
            for (index, (&position, source)) in positions.iter().zip(sources).enumerate() {
                let from = index.checked_sub(1).map(|before| positions[before]);
                let hidden = self.until(group, from, position);
                if place == 0 {
                    found.ahead.push(Ahead { demand: vec![0; size * size], hidden });
                    found.asked.push(Some(vec![0; size * size]));
                }
                let Some(next) = found.ahead.get_mut(index) else { break };
                next.hidden = next.hidden.min(hidden);
                self.add_demand(group, &source.judged, &mut next.demand);
                match (source.asked, &mut found.asked[index]) {
                    (Some(task), Some(total)) => self.add_demand(group, &task, total),
                    (_, asked) => *asked = None,
                }
            }
        }
        found
    }

    fn add_demand(&self, group: u32, task: &Task, total: &mut [u64]) {
        let mut demand = Vec::new();
        let which = self.which(group * self.graph.layout.members, task);
        which.demand(&self.graph.blocks, &mut demand);
        self.circuits.as_ref().expect("only circuits are decided").fold(group, &demand, total);
    }

    /// Where the demand of each of these all-to-alls of a group is taken from.
    fn sources(&self, group: u32, positions: &[u32]) -> Vec<Source> {
        let program = self.program(group);
        let mut unknown: Vec<(u32, [Option<u32>; 2])> = Vec::new();
        let source = |&position: &u32| {
            let task = program[position as usize];
            if is_first(&task) && self.predicts() {
                unknown.push((block_of(&task), self.last_seen(group, &task)));
            }
            let known = Source { judged: task, asked: Some(task) };
            let seen = unknown.iter().rev().find(|(block, _)| *block == block_of(&task));
            seen.map_or(known, |(_, [last, before])| Source {
                judged: last.map_or(task, |block| with_block(task, block)),
                asked: before.map(|block| with_block(task, block)),
            })
        };
        positions.iter().map(source).collect()
    }

    /// Whether first all-to-alls are decided on what was seen before.
    fn predicts(&self) -> bool {
        let predict = |c: &Circuits<'_>| c.ocs.first == FirstAllToAll::Predict;
        self.policy() != Reconfigure::Oracle && self.circuits.as_ref().is_some_and(predict)
    }

    /// Whether something is known of an all-to-all before it is reached: its demand, or what the
    /// same layer's last one was.
    pub(super) fn foreseen(&self, group: u32, task: &Task) -> bool {
        let seen = || self.predicts() && self.last_seen(group, task)[0].is_some();
        !is_first(task) || self.policy() == Reconfigure::Oracle || seen()
    }

    /// The blocks of the last two first all-to-alls of the same layer that are over.
    fn last_seen(&self, group: u32, task: &Task) -> [Option<u32>; 2] {
        let program = self.program(group);
        let over = &self.all_positions(group)[..self.groups[group as usize].over as usize];
        let mut seen = (over.iter().rev().map(|&position| &program[position as usize]))
            .filter(|other| is_first(other) && other.layer == task.layer)
            .map(block_of);
        [seen.next(), seen.next()]
    }

    /// The tasks of a group's stage.
    pub(super) fn program(&self, group: u32) -> &[Task] {
        &self.graph.programs[(group / self.graph.layout.replicas) as usize].tasks
    }

    /// The positions of all all-to-alls of a group.
    pub(super) fn all_positions(&self, group: u32) -> &[u32] {
        &self.index.exchanges[(group / self.graph.layout.replicas) as usize]
    }

    /// The positions of the next all-to-alls that a decision looks at; at least one.
    fn positions_ahead(&self, group: u32) -> &[u32] {
        let all = self.all_positions(group);
        let over = self.groups[group as usize].over as usize;
        let program = self.program(group);
        let next = &all[over..];
        let most = match self.policy() {
            Reconfigure::Never | Reconfigure::Always => 1,
            Reconfigure::PerLayer => {
                let first = self.first_of_layer(group);
                let same = |&&position: &&u32| self.same_layer(group, first, position);
                return &next[..next.iter().take_while(same).count()];
            }
            Reconfigure::BreakEven => KNOWN_AHEAD,
            Reconfigure::Oracle => return &next[..next.len().min(ORACLE_AHEAD)],
        };
        let known = |&&position: &&u32| self.foreseen(group, &program[position as usize]);
        let count = 1 + next.iter().skip(1).take_while(known).count();
        &next[..count.min(most)]
    }

    /// Where the run of all-to-alls of one layer and micro-batch began that the next one is of.
    ///
    /// It begins anew with each first all-to-all of a forward pass.
    pub(super) fn first_of_layer(&self, group: u32) -> u32 {
        let all = self.all_positions(group);
        let mut start = self.groups[group as usize].over as usize;
        while start > 0 && self.same_layer(group, all[start - 1], all[start]) {
            start -= 1;
        }
        all[start]
    }

    /// Whether an all-to-all belongs to the run that another, before it or the same, is of.
    fn same_layer(&self, group: u32, first: u32, position: u32) -> bool {
        let program = self.program(group);
        let (one, other) = (program[first as usize], program[position as usize]);
        let same = one.layer == other.layer && one.micro_batch == other.micro_batch;
        first == position || (same && !is_first(&other))
    }

    /// From an all-to-all, or from now, until the last member reaches another.
    fn until(&self, group: u32, from: Option<u32>, position: u32) -> Duration {
        let members = self.graph.layout.members;
        let workers = group * members..(group + 1) * members;
        let time = |id: WorkerId| match from {
            Some(from) => self.work_ahead(id, from + 1, position),
            None => self.until_reached(id, position),
        };
        workers.map(time).max().unwrap_or(Duration::ZERO)
    }

    /// From now until a worker reaches a task, as far as its own tasks tell.
    fn until_reached(&self, id: WorkerId, position: u32) -> Duration {
        let worker = &self.workers[id as usize];
        if worker.next >= position {
            return worker.at.since(self.now);
        }
        let (at, next) = match worker.waiting {
            Waiting::No => (worker.at.max(self.now), worker.next),
            _ => (self.now, worker.next + 1),
        };
        (at + self.work_ahead(id, next, position)).since(self.now)
    }

    /// How long a worker's own tasks from one place to another take, without any waiting.
    fn work_ahead(&self, id: WorkerId, from: u32, to: u32) -> Duration {
        let tasks = &self.program(self.graph.layout.group_of(id))[from as usize..to as usize];
        let mut total = Time::ZERO;
        for task in tasks {
            total += match task.kind {
                TaskKind::Compute { duration } => duration,
                TaskKind::Expert { block, pass } => self.expert_time(id, block, pass),
                TaskKind::Local { bytes_per_gpu } => self.fabric.local_time(bytes_per_gpu),
                TaskKind::ExpertTp { block } => {
                    let busiest = self.graph.blocks.expert_tp_per_gpu[self.place(id, block)];
                    self.fabric.local_time(busiest)
                }
                _ => Duration::ZERO,
            };
        }
        total.since(Time::ZERO)
    }
}

fn block_of(task: &Task) -> u32 {
    match task.kind {
        TaskKind::AllToAll { block, .. } => block,
        _ => unreachable!("only all-to-alls have demand"),
    }
}

fn with_block(mut task: Task, other: u32) -> Task {
    if let TaskKind::AllToAll { block, .. } = &mut task.kind {
        *block = other;
    }
    task
}
