//! What is upcoming for a group when circuits are decided: demand, and time to hide a switch
//! behind.
//!
//! The upcoming all-to-alls of a group are those of its program, in order. Their demand is known up
//! to the next first one of a forward pass, whose gate has not been evaluated; the oracle knows
//! that, too, and `predict` leaves it, and what follows from it, to a predictor.
//!
//! How long until an all-to-all is reached is estimated from the task graph: for each member the
//! compute and inside tasks that its stream still has before it, and of the members the last, as
//! the all-to-all cannot be over before that one has sent. Waits for other workers and for rings
//! count nothing, so that the estimate is too small rather than too large.

use super::all_to_all::payload;
use super::context::Context;
use super::gate::GroupState;
use super::streams::Waiting;
use crate::circuits::Circuits;
use crate::demand::{estimated_demand, member_demand};
use lightloom_decide::{
    DemandPredictor, Estimate, History, LastSeen, PredictedDemand, Program, Requested, Turn,
    Upcoming, When,
};
use lightloom_model::{
    Duration, FamilyId, GroupId, Invalid, Payload, Task, TaskIndex, TaskKind, Time, WorkerId,
};

/// Where the demand of an all-to-all is taken from.
#[derive(Debug)]
enum Source {
    /// It is known.
    Known(Payload),
    /// A prediction: to judge circuits by, and to request circuits for.
    Predicted(Basis, Option<Basis>),
}

/// Where a predicted demand is taken from.
#[derive(Debug)]
enum Basis {
    /// That of a block.
    Block(Payload),
    /// Counts, members x members, sent as those of a block are.
    Counts(Payload, Vec<u64>),
}

/// What is upcoming for the groups of one family. All-to-alls of a group are numbered in order.
#[derive(Clone, Copy)]
pub(super) struct Horizon<'b, 'a> {
    pub context: &'b Context<'a>,
    pub circuits: &'b Circuits<'a>,
    pub family: FamilyId,
    pub groups: &'b [GroupState],
}

/// Whether the demand of an all-to-all is known only when it is reached.
pub(super) fn is_first(task: &Task) -> bool {
    matches!(payload(task), Payload::Block { first: true, .. })
}

/// The first all-to-alls of one layer by one group that are over.
struct SeenFirsts<'b, 'a> {
    horizon: Horizon<'b, 'a>,
    group: u32,
    layer: u16,
}

impl SeenFirsts<'_, '_> {
    /// What the one seen so many before the latest moved.
    fn payload(&self, back: usize) -> Option<Payload> {
        let index = self.seen(self.layer).checked_sub(back + 1)?;
        Some(self.payload_of(self.layer, index))
    }

    /// What one of a layer moved, the first of which is 0.
    fn payload_of(&self, layer: u16, index: usize) -> Payload {
        payload(self.horizon.task(self.group, self.over(layer)[index].1))
    }

    /// Layer and number of those of a layer, the first first.
    fn over(&self, layer: u16) -> &[(u16, u32)] {
        let Horizon { context, groups, .. } = self.horizon;
        let worker = self.horizon.members(self.group)[0];
        let role = &context.index.roles[context.index.role_of[worker.index()].index()];
        role.first_all_to_alls(layer, groups[self.group as usize].over)
    }

    /// The token copies of one, members x members.
    fn tokens(&self, seen: Payload, demand: &mut Vec<u64>) {
        let Payload::Block { demand: table, block, .. } = seen else {
            unreachable!("first all-to-alls are of blocks")
        };
        let (graph, members) = (self.horizon.context.graph, self.horizon.members(self.group).len());
        let counts =
            Payload::Block { demand: table, block, transposed: false, first: true, unit_bytes: 1 };
        member_demand(graph, counts, GroupId(self.group), members, demand);
    }
}

impl History for SeenFirsts<'_, '_> {
    fn group(&self) -> u32 {
        self.group
    }

    fn layer(&self) -> u16 {
        self.layer
    }

    fn seen(&self, layer: u16) -> usize {
        self.over(layer).len()
    }

    fn demand_of(&self, layer: u16, index: usize, demand: &mut Vec<u64>) {
        self.tokens(self.payload_of(layer, index), demand);
    }
}

/// The all-to-alls of a group.
struct GroupProgram<'b, 'a> {
    horizon: Horizon<'b, 'a>,
    group: u32,
}

impl Program for GroupProgram<'_, '_> {
    fn count(&self) -> u32 {
        self.horizon.count(self.group)
    }

    fn turn(&self, number: u32) -> Turn {
        let task = self.horizon.task(self.group, number);
        Turn { layer: task.layer, micro_batch: task.micro_batch, is_first: is_first(task) }
    }

    fn is_foreseen(&self, number: u32) -> bool {
        self.horizon.is_foreseen(self.group, self.horizon.task(self.group, number))
    }
}

impl<'a> Horizon<'_, 'a> {
    /// What a decision for these groups, which share a region, starts from, given predictions for
    /// [`Self::unknown`].
    ///
    /// Demand is added up over groups, all-to-all by all-to-all, as far as all of them look ahead.
    pub(super) fn upcoming(
        &self,
        region: u32,
        groups: &[u32],
        predictions: Vec<PredictedDemand>,
    ) -> Vec<Upcoming> {
        let size = self.circuits.region(region).size();
        let mut predictions = predictions.into_iter();
        let mut upcoming: Vec<Upcoming> = Vec::new();
        for (place, &group) in groups.iter().enumerate() {
            let numbers = self.numbers(group);
            if place > 0 {
                upcoming.truncate(numbers.len());
            }
            let sources = self.sources(group, numbers.clone(), &mut predictions);
            for (index, (number, source)) in numbers.zip(sources).enumerate() {
                let from = (index > 0).then(|| number - 1);
                let hidden = self.until(group, from, number);
                if place == 0 {
                    upcoming.push(Upcoming::known(vec![0; size * size], hidden));
                }
                let Some(next) = upcoming.get_mut(index) else { break };
                next.hidden = next.hidden.min(hidden);
                self.add_source(group, &source, next);
            }
        }
        upcoming
    }

    /// Adds a group's demand to an upcoming all-to-all.
    fn add_source(&self, group: u32, source: &Source, next: &mut Upcoming) {
        match source {
            Source::Known(payload) => {
                self.add_demand(group, *payload, &mut next.demand);
                if let Requested::Other(total) = &mut next.requested {
                    self.add_demand(group, *payload, total);
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

    fn add_demand(&self, group: u32, payload: Payload, total: &mut [u64]) {
        let mut demand = Vec::new();
        let members = self.members(group).len();
        member_demand(self.context.graph, payload, GroupId(group), members, &mut demand);
        self.circuits.fold(group, &demand, total);
    }

    fn add_basis(&self, group: u32, basis: &Basis, total: &mut [u64]) {
        match basis {
            Basis::Block(payload) => self.add_demand(group, *payload, total),
            Basis::Counts(payload, counts) => {
                let members = self.members(group).len();
                self.circuits.fold(group, &estimated_demand(*payload, counts, members), total);
            }
        }
    }

    /// Where the demand of each of these all-to-alls of a group is taken from. What follows a
    /// predicted one with the same block follows from its prediction.
    fn sources(
        &self,
        group: u32,
        numbers: std::ops::Range<u32>,
        predictions: &mut impl Iterator<Item = PredictedDemand>,
    ) -> Vec<Source> {
        let mut unknown: Vec<(u32, PredictedDemand)> = Vec::new();
        let source = |number: u32| {
            let task = self.task(group, number);
            let payload = payload(task);
            let Payload::Block { block, .. } = payload else { return Source::Known(payload) };
            if is_first(task) && self.when().predicts() {
                let prediction = predictions.next().expect("one prediction per unknown demand");
                unknown.push((block, prediction));
            }
            let seen = unknown.iter().rev().find(|(other, _)| *other == block);
            let Some((_, PredictedDemand { judged, requested })) = seen else {
                return Source::Known(payload);
            };
            let basis = |estimate: &Estimate| self.basis(group, task, estimate);
            let judged = judged.as_ref().map_or(Basis::Block(payload), basis);
            Source::Predicted(judged, requested.as_ref().map(basis))
        };
        numbers.map(source).collect()
    }

    fn basis(&self, group: u32, task: &Task, estimate: &Estimate) -> Basis {
        let payload = payload(task);
        match estimate {
            Estimate::Demand(counts) => Basis::Counts(payload, counts.clone()),
            Estimate::Seen(back) => {
                let seen = self.seen_firsts(group, task.layer).payload(*back);
                Basis::Block(with_block_of(payload, seen.expect("predicted from what was seen")))
            }
        }
    }

    /// Group and layer of all upcoming all-to-alls of these groups whose demand is to be predicted,
    /// in order.
    pub(super) fn unknown(&self, groups: &[u32]) -> Vec<(u32, u16)> {
        if !self.when().predicts() {
            return Vec::new();
        }
        let mut unknown: Vec<(u32, u16)> = Vec::new();
        for &group in groups {
            let tasks = self.numbers(group).map(|number| self.task(group, number));
            unknown.extend(tasks.filter(|task| is_first(task)).map(|task| (group, task.layer)));
        }
        unknown
    }

    /// Predictions for these, by a user's predictor if there is one.
    ///
    /// # Errors
    /// If the predictor refuses, or its predictions cannot be used.
    pub(super) fn predict(
        &self,
        unknown: &[(u32, u16)],
        custom: Option<&mut (dyn DemandPredictor + 'a)>,
    ) -> Result<Vec<PredictedDemand>, Invalid> {
        let seen: Vec<SeenFirsts<'_, '_>> =
            unknown.iter().map(|&(group, layer)| self.seen_firsts(group, layer)).collect();
        let histories: Vec<&dyn History> = seen.iter().map(|one| one as &dyn History).collect();
        let predicted = match custom {
            Some(predictor) => predictor.predict(&histories),
            None => LastSeen.predict(&histories),
        }?;
        self.check_predictions(&predicted, &histories)?;
        Ok(predicted)
    }

    /// Refuses predictions that cannot be used.
    fn check_predictions(
        &self,
        found: &[PredictedDemand],
        histories: &[&dyn History],
    ) -> Result<(), Invalid> {
        if found.len() != histories.len() {
            let (given, wanted) = (found.len(), histories.len());
            return Err(Invalid(format!("predictor: {given} predictions for {wanted} histories")));
        }
        for (prediction, history) in found.iter().zip(histories) {
            let members = self.members(history.group()).len();
            for estimate in [&prediction.judged, &prediction.requested].into_iter().flatten() {
                let wrong = match estimate {
                    Estimate::Seen(back) if !history.has(*back) => {
                        format!("{back} before the latest")
                    }
                    Estimate::Demand(counts) if counts.len() != members * members => {
                        format!("{} entries for {members} members", counts.len())
                    }
                    _ => continue,
                };
                let (group, layer) = (history.group(), history.layer());
                return Err(Invalid(format!(
                    "predictor: layer {layer} of group {group} cannot be predicted by {wrong}"
                )));
            }
        }
        Ok(())
    }

    fn seen_firsts(&self, group: u32, layer: u16) -> SeenFirsts<'_, 'a> {
        SeenFirsts { horizon: *self, group, layer }
    }

    /// When circuits are decided.
    pub(super) fn when(&self) -> When {
        self.circuits.ocs.when()
    }

    /// Whether something is known of an all-to-all before it is reached: its demand, or enough for
    /// a prediction.
    pub(super) fn is_foreseen(&self, group: u32, task: &Task) -> bool {
        let seen = || self.seen_firsts(group, task.layer);
        !is_first(task) || self.when().is_foreseen(&seen(), self.circuits.custom.predictor())
    }

    fn members(&self, group: u32) -> &'a [WorkerId] {
        self.context.graph.families[self.family.index()].members(GroupId(group))
    }

    /// Where the all-to-alls of a worker's program are.
    fn positions(&self, worker: WorkerId) -> &'a [TaskIndex] {
        let index = self.context.index;
        &index.roles[index.role_of[worker.index()].index()].all_to_alls
    }

    /// All-to-alls of a group in a step.
    fn count(&self, group: u32) -> u32 {
        self.positions(self.members(group)[0]).len() as u32
    }

    /// An all-to-all of a group.
    pub(super) fn task(&self, group: u32, number: u32) -> &'a Task {
        let worker = self.members(group)[0];
        let (graph, role) = (self.context.graph, self.context.index.role_of[worker.index()]);
        &graph.roles[role.index()].tasks[self.positions(worker)[number as usize].index()]
    }

    /// The next all-to-all of a group after those that are over, if there is one.
    pub(super) fn next(&self, group: u32) -> Option<u32> {
        let over = self.groups[group as usize].over;
        (over < self.count(group)).then_some(over)
    }

    /// The upcoming all-to-alls of a group that a decision starts from; at least one.
    fn numbers(&self, group: u32) -> std::ops::Range<u32> {
        self.when().upcoming(&self.program(group), self.groups[group as usize].over)
    }

    /// Whether a decision is due for a group, given the all-to-all before which its last one was.
    pub(super) fn is_due(&self, group: u32, decided: &mut Option<u32>) -> bool {
        self.when().is_due(&self.program(group), self.groups[group as usize].over, decided)
    }

    fn program(&self, group: u32) -> GroupProgram<'_, 'a> {
        GroupProgram { horizon: *self, group }
    }

    /// From an all-to-all, or from now, until the last member reaches another.
    fn until(&self, group: u32, from: Option<u32>, number: u32) -> Duration {
        let time = |&worker: &WorkerId| self.until_reached(worker, from, number);
        self.members(group).iter().map(time).max().unwrap_or(Duration::ZERO)
    }

    /// The same for one member, as far as the tasks of its own stream tell.
    fn until_reached(&self, worker: WorkerId, from: Option<u32>, number: u32) -> Duration {
        let (graph, index) = (self.context.graph, self.context.index);
        let role = index.role_of[worker.index()];
        let tasks = &graph.roles[role.index()].tasks;
        let positions = self.positions(worker);
        let target = positions[number as usize];
        let lane = tasks[target.index()].stream;
        let turns = index.stream(role, lane.index());
        let turn = |position: TaskIndex| turns.partition_point(|&other| other < position);
        let work = |from: usize| self.work(worker, tasks, &turns[from..turn(target)]);
        if let Some(from) = from {
            return work(turn(TaskIndex(positions[from as usize].0 + 1)));
        }
        let now = self.context.now;
        let stream = &self.context.streams[self.context.streams.of(worker, lane.0)];
        if stream.next as usize >= turn(target) {
            return stream.at.since(now);
        }
        let (at, next) = match stream.waiting {
            Waiting::No => (stream.at.max(now), stream.next),
            Waiting::Task | Waiting::Done => (now, stream.next + 1),
        };
        (at + work(next as usize)).since(now)
    }

    /// How long a worker's own tasks at these places take, without any waiting.
    fn work(&self, worker: WorkerId, tasks: &[Task], turns: &[TaskIndex]) -> Duration {
        let mut total = Time::ZERO;
        for position in turns {
            total += match &tasks[position.index()].kind {
                TaskKind::Compute { duration } => {
                    Duration(self.context.graph.amount(*duration, worker))
                }
                TaskKind::Collective(collective) if collective.family.is_none() => {
                    self.context.inside_time(collective, true, worker)
                }
                _ => Duration::ZERO,
            };
        }
        total.since(Time::ZERO)
    }
}

/// An all-to-all's payload with the block of another.
fn with_block_of(mut payload: Payload, other: Payload) -> Payload {
    if let (Payload::Block { block, .. }, Payload::Block { block: seen, .. }) =
        (&mut payload, other)
    {
        *block = seen;
    }
    payload
}
