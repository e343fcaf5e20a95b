//! When circuits are decided in a run: as soon as the all-to-all before is over, for what
//! [`When`](lightloom_decide::When) says, or when the last member arrives.
//!
//! Groups that share servers share circuits, which are switched only while no group uses them: a
//! decision is put off until then, for the demand of all groups that wait for one, and given up
//! when a member of the all-to-all arrives before.

use super::all_to_all::{AllToAlls, Over};
use super::context::{Context, Step};
use super::gate::{Gate, GroupState, Opening};
use super::horizon::{Horizon, is_first};
use super::owner::{Event, FIRST};
use super::streams::StreamId;
use crate::circuits::{CircuitStatistics, Circuits, Decisions};
use crate::critical_path::CriticalPath;
use crate::index::{GroupKey, Turn};
use crate::links::LinkUse;
use crate::network::NetworkPart;
use crate::timeline::Snapshot;
use lightloom_decide::{Arrival, Decision, PredictedDemand};
use lightloom_model::{FamilyId, GroupId, Task, Time, WorkerId};

/// The circuits, and when the all-to-alls that use them may begin.
#[derive(Debug)]
pub(super) struct Gating<'a> {
    /// The circuits, if the network has some.
    pub circuits: Option<Circuits<'a>>,
    /// Decisions for recorded groups.
    pub snapshots: Vec<Snapshot>,
    /// The family whose groups circuits follow.
    family: Option<FamilyId>,
    groups: Vec<GroupState>,
}

impl<'a> Gating<'a> {
    /// At the start of a run.
    pub(super) fn new(context: &Context<'a>, circuits: Option<Circuits<'a>>) -> Self {
        let family = context.index.regional;
        let groups = family.map_or(0, |family| context.graph.families[family.index()].groups());
        let groups = vec![GroupState::default(); groups];
        Self { circuits, snapshots: Vec::new(), family, groups }
    }

    /// Records the circuits and decisions of a worker's group.
    pub(super) fn record(&mut self, context: &Context<'a>, worker: WorkerId) {
        if let (Some(circuits), Some(family)) = (&mut self.circuits, self.family)
            && let Some(here) = context.index.membership(family, worker)
        {
            circuits.record(here.group.0);
        }
    }

    /// Decides for the first all-to-all of every group.
    pub(super) fn begin(&mut self, context: &mut Context<'a>, all_to_alls: &mut AllToAlls<'a>) {
        for group in 0..self.groups.len() as u32 {
            self.decide_next(context, all_to_alls, group, CriticalPath::default());
        }
    }

    /// A stream reaches an all-to-all.
    pub(super) fn arrive(
        &mut self,
        context: &mut Context<'a>,
        all_to_alls: &mut AllToAlls<'a>,
        id: StreamId,
        Turn { position, task }: Turn<'a>,
    ) -> Step {
        let collective = task.collective().expect("an all-to-all is a collective");
        let family = collective.family.expect("an all-to-all is over a family");
        let (worker, role) = (context.streams[id].worker, context.streams[id].role);
        let here = context.index.membership(family, worker).expect("checked");
        let group = GroupKey { family, group: here.group };
        let sequence = context.index.roles[role.index()].sequence[position.index()];
        let number = all_to_alls.reached(group, sequence).unwrap_or_else(|| {
            let gate = self.gate_for(context, group, task);
            all_to_alls.set_up(context.graph, group, sequence, task, gate)
        });
        let is_last = all_to_alls.arrive(context, number, here.place, id);
        // A blocking one is released when its part is done, which may be now.
        let step = if collective.asynchronous { Step::Next } else { context.wait(id) };
        match all_to_alls.get(number).gate {
            Gate::AllArrived if is_last => self.decide_blocked(context, all_to_alls, number),
            Gate::Open(_) => self.begin_member(context, all_to_alls, number, here.place),
            _ => {}
        }
        step
    }

    fn begin_member(
        &mut self,
        context: &mut Context<'a>,
        all_to_alls: &mut AllToAlls<'a>,
        number: u32,
        place: u32,
    ) {
        let circuits = if Some(all_to_alls.get(number).group.family) == self.family {
            self.circuits.as_mut()
        } else {
            None
        };
        all_to_alls.begin(context, circuits, number, place);
        self.process_over(context, all_to_alls);
    }

    /// Decides what comes after the all-to-alls that are over.
    pub(super) fn process_over(
        &mut self,
        context: &mut Context<'a>,
        all_to_alls: &mut AllToAlls<'a>,
    ) {
        while let Some(Over { group: key, sequence, path }) = all_to_alls.over.pop() {
            let GroupKey { family, group } = key;
            if Some(family) != self.family {
                continue;
            }
            let Some(circuits) = &mut self.circuits else { continue };
            let region = circuits.of_group(group.0).expect("the group crosses servers");
            circuits.leave(region);
            let role = context.index.role_of_group(context.graph, family, group);
            let role = &context.index.roles[role.index()];
            let number = (role.all_to_alls)
                .partition_point(|position| role.sequence[position.index()] < sequence);
            self.groups[group.index()].finish(number as u32);
            self.decide_next(context, all_to_alls, group.0, path);
            self.decide_pending(context, region);
        }
    }

    /// New circuits of a region are up.
    pub(super) fn circuits_up(&mut self, context: &mut Context<'a>, region: u32) {
        let circuits = self.circuits.as_mut().expect("only circuits come up");
        circuits.finish(region, context.now, &mut context.fabric.links);
        context.hash.record(context.now, super::context::record::CIRCUITS, &[u64::from(region)]);
        self.decide_pending(context, region);
    }

    fn horizon<'b>(&'b self, context: &'b Context<'a>) -> Horizon<'b, 'a> {
        Horizon {
            context,
            circuits: self.circuits.as_ref().expect("only circuits are decided"),
            family: self.family.expect("only groups with all-to-alls are decided for"),
            groups: &self.groups,
        }
    }

    /// The gate of an all-to-all that its first member reaches now.
    fn gate_for(
        &mut self,
        context: &Context<'a>,
        GroupKey { family, group }: GroupKey,
        task: &Task,
    ) -> Gate {
        let Some(circuits) = &self.circuits else { return Gate::free() };
        if Some(family) != self.family {
            return Gate::free();
        }
        let group = group.0;
        let region = circuits.of_group(group).expect("the group crosses servers");
        // Another group of these servers may be switching.
        let present = Gate::Open(Opening {
            from: context.now,
            ready: circuits.region(region).ready.max(context.now),
            path: CriticalPath::default(),
        });
        let horizon = self.horizon(context);
        match horizon.when().arrival(is_first(task), || horizon.is_foreseen(group, task)) {
            Arrival::Begins => return present,
            Arrival::Waits => return Gate::AllArrived,
            Arrival::Decided => {}
        }
        let circuits = self.circuits.as_mut().expect("as above");
        match self.groups[group as usize].gate.take() {
            Some(Gate::Pending) => {
                circuits.statistics.skipped += 1;
                circuits.region_mut(region).pending.retain(|&other| other != group);
                present
            }
            Some(gate) => gate,
            None => Gate::Undecided,
        }
    }

    /// Decides for the next all-to-all of a group, if its demand is known.
    fn decide_next(
        &mut self,
        context: &mut Context<'a>,
        all_to_alls: &mut AllToAlls<'a>,
        group: u32,
        path: CriticalPath,
    ) {
        let Some(circuits) = &self.circuits else { return };
        let Some(region) = circuits.of_group(group) else { return };
        let state = circuits.region(region);
        let busy = state.active > 0 || state.ready > context.now;
        let horizon = self.horizon(context);
        let Some(number) = horizon.next(group) else { return };
        if !horizon.is_foreseen(group, horizon.task(group, number)) {
            return;
        }
        let reached = self.reached(context, all_to_alls, group, number);
        if reached.is_some_and(|found| all_to_alls.get(found).gate.is_open()) {
            // reached when it was not foreseen yet: it has begun with what is held
            return;
        }
        let gate = if !busy {
            self.decide_with_pending(context, region, group, path)
        } else if reached.is_some() {
            self.keep_present(context, region, path)
        } else {
            let circuits = self.circuits.as_mut().expect("checked above");
            circuits.region_mut(region).pending.push(group);
            Gate::Pending
        };
        self.set_gate(context, all_to_alls, group, reached, gate);
    }

    /// Decides for the groups that have waited, if nobody uses their circuits any more.
    fn decide_pending(&mut self, context: &mut Context<'a>, region: u32) {
        let circuits = self.circuits.as_mut().expect("only circuits are decided");
        let state = circuits.region_mut(region);
        if state.active == 0
            && state.ready <= context.now
            && let Some(group) = state.pending.pop()
        {
            let gate = self.decide_with_pending(context, region, group, CriticalPath::default());
            self.groups[group as usize].gate = Some(gate);
        }
    }

    /// Decides for a first all-to-all whose last member has arrived.
    fn decide_blocked(
        &mut self,
        context: &mut Context<'a>,
        all_to_alls: &mut AllToAlls<'a>,
        number: u32,
    ) {
        let entry = all_to_alls.get(number);
        let group = entry.group.group.0;
        let path = entry.members[entry.latest as usize].path.clone();
        let circuits = self.circuits.as_ref().expect("only circuits block");
        let region = circuits.of_group(group).expect("the group crosses servers");
        let state = circuits.region(region);
        let gate = if state.active > 0 || state.ready > context.now {
            self.keep_present(context, region, path)
        } else {
            self.decide_with_pending(context, region, group, path)
        };
        self.set_gate(context, all_to_alls, group, Some(number), gate);
    }

    /// Decides for a group, and for those that have waited until nobody used their circuits.
    fn decide_with_pending(
        &mut self,
        context: &mut Context<'a>,
        region: u32,
        group: u32,
        path: CriticalPath,
    ) -> Gate {
        let circuits = self.circuits.as_mut().expect("only circuits are decided");
        let mut groups = std::mem::take(&mut circuits.region_mut(region).pending);
        groups.push(group);
        let gate = self.decide(context, region, &groups, path);
        for other in groups.into_iter().filter(|&other| other != group) {
            self.groups[other as usize].gate = Some(gate.clone());
        }
        gate
    }

    /// No decision: the circuits of other groups are in use.
    fn keep_present(&mut self, context: &Context<'a>, region: u32, path: CriticalPath) -> Gate {
        let circuits = self.circuits.as_mut().expect("only circuits are kept");
        circuits.statistics.skipped += 1;
        let ready = circuits.region(region).ready.max(context.now);
        Gate::Open(Opening { from: context.now, ready, path })
    }

    /// Decides for what is ahead of these groups and begins to switch.
    fn decide(
        &mut self,
        context: &mut Context<'a>,
        region: u32,
        groups: &[u32],
        path: CriticalPath,
    ) -> Gate {
        let now = context.now;
        if !self.is_due(context, groups) {
            return Gate::Open(Opening { from: now, ready: now, path });
        }
        let predictions = self.predictions(context, groups);
        let upcoming = self.horizon(context).upcoming(region, groups, predictions);
        let circuits = self.circuits.as_mut().expect("only circuits are decided");
        let (ready, decision) = circuits.decide(region, &upcoming, now, &mut context.fabric.links);
        for _ in groups {
            circuits.count_delay(ready.since(now));
        }
        if decision.pairs > 0 {
            context.queue.push(ready, FIRST, Event::CircuitsUp(region));
        }
        self.take_snapshot(context, region, groups[0], ready, decision);
        Gate::Open(Opening { from: now, ready, path })
    }

    /// Predictions for the upcoming all-to-alls of these groups whose demand is not known.
    fn predictions(&mut self, context: &Context<'a>, groups: &[u32]) -> Vec<PredictedDemand> {
        let unknown = self.horizon(context).unknown(groups);
        if unknown.is_empty() {
            return Vec::new();
        }
        let circuits = self.circuits.as_mut().expect("only circuits are decided");
        let mut custom = circuits.custom.plugins.predictor.take();
        let predicted = self.horizon(context).predict(&unknown, custom.as_deref_mut());
        let circuits = self.circuits.as_mut().expect("only circuits are decided");
        circuits.custom.plugins.predictor = custom;
        predicted.unwrap_or_else(|error| {
            circuits.custom.fail(error);
            vec![PredictedDemand::default(); unknown.len()]
        })
    }

    /// Whether a decision is due for any of these groups; notes that all have it now.
    fn is_due(&mut self, context: &Context<'a>, groups: &[u32]) -> bool {
        let mut any = false;
        for &group in groups {
            let mut decided = self.groups[group as usize].decided;
            any |= self.horizon(context).is_due(group, &mut decided);
            self.groups[group as usize].decided = decided;
        }
        any
    }

    fn take_snapshot(
        &mut self,
        context: &Context<'a>,
        region: u32,
        group: u32,
        ready: Time,
        decision: Decision,
    ) {
        let horizon = self.horizon(context);
        let number = horizon.next(group).expect("a decision is for an all-to-all");
        let task = horizon.task(group, number);
        let region = horizon.circuits.region(region);
        if !region.recorded {
            return;
        }
        let servers = region.servers.clone();
        self.snapshots.push(Snapshot {
            time: context.now,
            ready,
            group,
            layer: task.layer,
            micro_batch: task.micro_batch,
            servers,
            demand: decision.demand,
            circuits: decision.held.circuits,
            makespan: decision.makespan,
            chosen: decision.held.chosen,
        });
    }

    /// Opens an all-to-all, or notes the gate for when somebody reaches it.
    fn set_gate(
        &mut self,
        context: &mut Context<'a>,
        all_to_alls: &mut AllToAlls<'a>,
        group: u32,
        reached: Option<u32>,
        gate: Gate,
    ) {
        let Some(number) = reached else {
            self.groups[group as usize].gate = Some(gate);
            return;
        };
        all_to_alls.set_gate(number, gate);
        for place in all_to_alls.present(number) {
            self.begin_member(context, all_to_alls, number, place);
        }
    }

    /// An all-to-all of a group, if somebody has reached it.
    fn reached(
        &self,
        context: &Context<'a>,
        all_to_alls: &AllToAlls<'a>,
        group: u32,
        number: u32,
    ) -> Option<u32> {
        let family = self.family?;
        let role = context.index.role_of_group(context.graph, family, GroupId(group));
        let role = &context.index.roles[role.index()];
        let sequence = role.sequence[role.all_to_alls[number as usize].index()];
        all_to_alls.reached(GroupKey { family, group: GroupId(group) }, sequence)
    }

    /// Accounts of the circuits at the end of the step.
    pub(super) fn end(&mut self, context: &Context<'a>, end: Time) -> CircuitAccounts {
        let Some(mut circuits) = self.circuits.take() else { return CircuitAccounts::default() };
        CircuitAccounts {
            links: circuits.link_use(end, &context.fabric.links),
            statistics: circuits.statistics,
            timeline: std::mem::take(&mut circuits.timeline),
            decisions: circuits.take_records(),
        }
    }

    /// Members of the groups that use circuits.
    pub(super) fn members(&self, context: &Context<'a>) -> usize {
        let family = self.family.map(|family| &context.graph.families[family.index()]);
        family.and_then(|family| family.iter().next()).map_or(1, |(_, members)| members.len())
    }
}

/// What the circuits did.
#[derive(Debug, Default)]
pub(super) struct CircuitAccounts {
    pub links: Vec<LinkUse>,
    pub statistics: CircuitStatistics,
    pub timeline: crate::timeline::CircuitTimeline,
    pub decisions: Decisions,
}
