//! What is upcoming for a group when circuits are decided: demand, and time to hide a switch
//! behind.
//!
//! The upcoming all-to-alls of a group are those of its program, in order. Their demand is known up
//! to the next first one of a forward pass, whose gate has not been evaluated; the oracle knows
//! that, too, and `predict` leaves it, and what follows from it, to a predictor.
//!
//! How long until an all-to-all is reached is estimated from the task graph: for each member the
//! compute, expert and local tasks that it still has before it, and of the members the last, as the
//! all-to-all cannot be over before that one has sent. Waits for other stages and for rings count
//! nothing, so that the estimate is too small rather than too large.

use super::Engine;
use super::policy::is_first;
use super::worker::Waiting;
use crate::circuits::Circuits;
use lightloom_decide::{
    DemandPredictor, Estimate, History, LastSeen, Prediction, Requested, Upcoming,
};
use lightloom_model::{
    Duration, FirstAllToAll, Invalid, Reconfigure, Task, TaskKind, Time, WorkerId,
};

/// Most upcoming all-to-alls that break-even looks at: a backward pass through four layers.
const MAX_UPCOMING: usize = 8;

/// Most that the oracle does.
const MAX_UPCOMING_ORACLE: usize = 16;

/// Where the demand of an all-to-all is taken from.
#[derive(Debug)]
enum Source {
    /// It is known.
    Known(Task),
    /// A prediction: to judge circuits by, and to request circuits for.
    Predicted(Basis, Option<Basis>),
}

/// Where a predicted demand is taken from.
#[derive(Debug)]
enum Basis {
    /// That of a task.
    Task(Task),
    /// Token copies, members x members, sent as those of a task are.
    Tokens(Task, Vec<u64>),
}

/// The first all-to-alls of one layer by one group that are over.
struct SeenFirsts<'e, 'a> {
    engine: &'e Engine<'a>,
    group: u32,
    layer: u16,
}

impl SeenFirsts<'_, '_> {
    /// The block of the one seen so many before the latest.
    fn block(&self, back: usize) -> Option<u32> {
        let program = self.engine.program(self.group);
        let over = self.engine.groups[self.group as usize].over as usize;
        let over = &self.engine.all_positions(self.group)[..over];
        (over.iter().rev().map(|&position| &program[position as usize]))
            .filter(|other| is_first(other) && other.layer == self.layer)
            .map(block_of)
            .nth(back)
    }
}

impl History for SeenFirsts<'_, '_> {
    fn group(&self) -> u32 {
        self.group
    }

    fn layer(&self) -> u16 {
        self.layer
    }

    fn has(&self, back: usize) -> bool {
        self.block(back).is_some()
    }

    fn demand(&self, back: usize, demand: &mut Vec<u64>) {
        let block = self.block(back).expect("as many were seen");
        let (blocks, members) = (&self.engine.graph.blocks, self.engine.graph.layout.members);
        let size = (members * members) as usize;
        let begin = (self.group * blocks.blocks + block) as usize * size;
        demand.clear();
        demand.extend(blocks.tokens[begin..][..size].iter().map(|&tokens| u64::from(tokens)));
    }
}

impl<'a> Engine<'a> {
    /// What a decision for these groups, which share a region, starts from.
    ///
    /// Demand is added up over groups, all-to-all by all-to-all, as far as all of them look ahead.
    pub(super) fn upcoming(&mut self, region: u32, groups: &[u32]) -> Vec<Upcoming> {
        let circuits = self.circuits.as_ref().expect("only circuits are decided");
        let size = circuits.region(region).size();
        let mut predictions = self.predictions(groups).into_iter();
        let mut found: Vec<Upcoming> = Vec::new();
        for (place, &group) in groups.iter().enumerate() {
            let positions = self.positions_ahead(group);
            if place > 0 {
                found.truncate(positions.len());
            }
            let sources = self.sources(group, positions, &mut predictions);
            for (index, (&position, source)) in positions.iter().zip(sources).enumerate() {
                let from = index.checked_sub(1).map(|before| positions[before]);
                let hidden = self.until(group, from, position);
                if place == 0 {
                    found.push(Upcoming::known(vec![0; size * size], hidden));
                }
                let Some(next) = found.get_mut(index) else { break };
                next.hidden = next.hidden.min(hidden);
                self.add_source(group, &source, next);
            }
        }
        found
    }

    /// Adds a group's demand to an upcoming all-to-all.
    fn add_source(&self, group: u32, source: &Source, next: &mut Upcoming) {
        match source {
            Source::Known(task) => {
                self.add_demand(group, task, &mut next.demand);
                if let Requested::Other(total) = &mut next.requested {
                    self.add_demand(group, task, total);
                }
            }
            Source::Predicted(judged, requested) => {
                match requested {
                    None => next.requested = Requested::Nothing,
                    Some(basis) => {
                        if next.requested == Requested::Demand {
                            next.requested = Requested::Other(next.demand.clone());
                        }
                        if let Requested::Other(total) = &mut next.requested {
                            self.add_basis(group, basis, total);
                        }
                    }
                }
                self.add_basis(group, judged, &mut next.demand);
            }
        }
    }

    fn add_demand(&self, group: u32, task: &Task, total: &mut [u64]) {
        let mut demand = Vec::new();
        let which = self.which(group * self.graph.layout.members, task);
        which.demand(&self.graph.blocks, &mut demand);
        self.circuits.as_ref().expect("only circuits are decided").fold(group, &demand, total);
    }

    fn add_basis(&self, group: u32, basis: &Basis, total: &mut [u64]) {
        match basis {
            Basis::Task(task) => self.add_demand(group, task, total),
            Basis::Tokens(task, tokens) => {
                let which = self.which(group * self.graph.layout.members, task);
                let circuits = self.circuits.as_ref().expect("only circuits are decided");
                circuits.fold(group, &which.of_tokens(tokens), total);
            }
        }
    }

    /// Where the demand of each of these all-to-alls of a group is taken from. What follows a
    /// predicted one with the same block follows from its prediction.
    fn sources(
        &self,
        group: u32,
        positions: &[u32],
        predictions: &mut impl Iterator<Item = Prediction>,
    ) -> Vec<Source> {
        let program = self.program(group);
        let mut unknown: Vec<(u32, Prediction)> = Vec::new();
        let source = |&position: &u32| {
            let task = program[position as usize];
            if is_first(&task) && self.predicts() {
                let prediction = predictions.next().expect("one prediction per unknown demand");
                unknown.push((block_of(&task), prediction));
            }
            let seen = unknown.iter().rev().find(|(block, _)| *block == block_of(&task));
            let Some((_, Prediction { judged, requested })) = seen else {
                return Source::Known(task);
            };
            let basis = |estimate: &Estimate| self.basis(group, task, estimate);
            let judged = judged.as_ref().map_or(Basis::Task(task), basis);
            Source::Predicted(judged, requested.as_ref().map(basis))
        };
        positions.iter().map(source).collect()
    }

    fn basis(&self, group: u32, task: Task, estimate: &Estimate) -> Basis {
        match estimate {
            Estimate::Demand(tokens) => Basis::Tokens(task, tokens.clone()),
            Estimate::Seen(back) => {
                let block = self.seen_firsts(group, task.layer).block(*back);
                Basis::Task(with_block(task, block.expect("predicted from what was seen")))
            }
        }
    }

    /// Predictions for all upcoming all-to-alls of these groups whose demand is not known, in
    /// order.
    fn predictions(&mut self, groups: &[u32]) -> Vec<Prediction> {
        if !self.predicts() {
            return Vec::new();
        }
        let mut unknown: Vec<(u32, u16)> = Vec::new();
        for &group in groups {
            let program = self.program(group);
            let tasks = self.positions_ahead(group).iter().map(|&at| &program[at as usize]);
            unknown.extend(tasks.filter(|task| is_first(task)).map(|task| (group, task.layer)));
        }
        if unknown.is_empty() {
            return Vec::new();
        }
        let circuits = self.circuits.as_mut().expect("only circuits are decided");
        let mut custom = circuits.custom.plugins.predictor.take();
        let seen: Vec<SeenFirsts<'_, '_>> =
            unknown.iter().map(|&(group, layer)| self.seen_firsts(group, layer)).collect();
        let histories: Vec<&dyn History> = seen.iter().map(|one| one as &dyn History).collect();
        let found = match &mut custom {
            Some(predictor) => predictor.predict(&histories),
            None => LastSeen.predict(&histories),
        };
        let members = self.graph.layout.members as usize;
        let found = found.and_then(|found| check_predictions(found, &histories, members));
        let circuits = self.circuits.as_mut().expect("only circuits are decided");
        circuits.custom.plugins.predictor = custom;
        found.unwrap_or_else(|error| {
            circuits.custom.fail(error);
            vec![Prediction::default(); unknown.len()]
        })
    }

    fn seen_firsts(&self, group: u32, layer: u16) -> SeenFirsts<'_, 'a> {
        SeenFirsts { engine: self, group, layer }
    }

    /// Whether first all-to-alls are decided on what was seen before.
    fn predicts(&self) -> bool {
        let predict = |c: &Circuits<'_>| c.ocs.policy.first == FirstAllToAll::Predict;
        self.policy() != Reconfigure::Oracle && self.circuits.as_ref().is_some_and(predict)
    }

    /// Whether something is known of an all-to-all before it is reached: its demand, or enough for
    /// a prediction.
    pub(super) fn foreseen(&self, group: u32, task: &Task) -> bool {
        let predictable = || {
            let custom = self.circuits.as_ref().map(|circuits| circuits.custom.predictor());
            custom.is_some_and(|one| one.can_predict(&self.seen_firsts(group, task.layer)))
        };
        let known = !is_first(task) || self.policy() == Reconfigure::Oracle;
        known || (self.predicts() && predictable())
    }

    /// The tasks of a group's stage.
    pub(super) fn program(&self, group: u32) -> &[Task] {
        &self.graph.programs[(group / self.graph.layout.replicas) as usize].tasks
    }

    /// The positions of all all-to-alls of a group.
    pub(super) fn all_positions(&self, group: u32) -> &[u32] {
        &self.index.exchanges[(group / self.graph.layout.replicas) as usize]
    }

    /// The positions of the upcoming all-to-alls that a decision starts from; at least one.
    fn positions_ahead(&self, group: u32) -> &[u32] {
        let all = self.all_positions(group);
        let over = self.groups[group as usize].over as usize;
        let program = self.program(group);
        let next = &all[over..];
        let limit = match self.policy() {
            Reconfigure::Never | Reconfigure::Always => 1,
            Reconfigure::PerLayer => {
                let first = self.first_of_layer(group);
                let same = |&&position: &&u32| self.same_layer(group, first, position);
                return &next[..next.iter().take_while(same).count()];
            }
            Reconfigure::BreakEven => MAX_UPCOMING,
            Reconfigure::Oracle => return &next[..next.len().min(MAX_UPCOMING_ORACLE)],
        };
        let known = |&&position: &&u32| self.foreseen(group, &program[position as usize]);
        let count = 1 + next.iter().skip(1).take_while(known).count();
        &next[..count.min(limit)]
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

/// Refuses predictions that cannot be used.
fn check_predictions(
    found: Vec<Prediction>,
    histories: &[&dyn History],
    members: usize,
) -> Result<Vec<Prediction>, Invalid> {
    if found.len() != histories.len() {
        let (given, wanted) = (found.len(), histories.len());
        return Err(Invalid(format!("predictor: {given} predictions for {wanted} histories")));
    }
    for (prediction, history) in found.iter().zip(histories) {
        for estimate in [&prediction.judged, &prediction.requested].into_iter().flatten() {
            let wrong = match estimate {
                Estimate::Seen(back) if !history.has(*back) => format!("{back} before the latest"),
                Estimate::Demand(tokens) if tokens.len() != members * members => {
                    format!("{} entries for {members} members", tokens.len())
                }
                _ => continue,
            };
            let (group, layer) = (history.group(), history.layer());
            return Err(Invalid(format!(
                "predictor: layer {layer} of group {group} cannot be predicted by {wrong}"
            )));
        }
    }
    Ok(found)
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
