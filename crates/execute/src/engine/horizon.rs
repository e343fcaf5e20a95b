//! What lies ahead of a group when circuits are decided: demand, and time to hide a switch behind.
//!
//! The next all-to-alls of a group are those of its program, in order. Their demand is known up to
//! the next first one of a forward pass, whose gate has not been evaluated; the oracle knows that,
//! too. How long until an all-to-all is reached is estimated from the task graph: for each member
//! the compute, expert and local tasks that it still has before it, and of the members the last,
//! as the all-to-all cannot be over before that one has sent. Waits for other stages and for rings
//! count nothing, so that the estimate is too small rather than too large.

use super::Engine;
use super::policy::is_first;
use super::worker::Waiting;
use lightloom_model::{Duration, Reconfigure, Task, TaskKind, Time, WorkerId};
use lightloom_schedule::Ahead;

/// Most all-to-alls that break-even looks ahead: a backward pass through four layers.
const KNOWN_AHEAD: usize = 8;

/// Most that the oracle does.
const ORACLE_AHEAD: usize = 16;

impl Engine<'_> {
    /// What a decision for these groups, which share a domain, has to look at; at least one.
    ///
    /// Demand is added up over groups, all-to-all by all-to-all, as far as all of them look ahead.
    pub(super) fn ahead(&self, domain: u32, groups: &[u32]) -> Vec<Ahead> {
        let circuits = self.circuits.as_ref().expect("only circuits are decided");
        let size = circuits.domain(domain).size();
        let mut found: Vec<Ahead> = Vec::new();
        let mut demand = Vec::new();
        for (place, &group) in groups.iter().enumerate() {
            let positions = self.positions_ahead(group);
            if place > 0 {
                found.truncate(positions.len());
            }
            for (index, &position) in positions.iter().enumerate() {
                let from = index.checked_sub(1).map(|before| positions[before]);
                let hidden = self.until(group, from, position);
                if place == 0 {
                    found.push(Ahead { demand: vec![0; size * size], hidden });
                }
                let Some(next) = found.get_mut(index) else { break };
                next.hidden = next.hidden.min(hidden);
                let task = self.program(group)[position as usize];
                let which = self.which(group * self.graph.layout.members, &task);
                which.demand(&self.graph.blocks, &mut demand);
                circuits.fold(group, &demand, &mut next.demand);
            }
        }
        found
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
        let known = |&&position: &&u32| !is_first(&program[position as usize]);
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
