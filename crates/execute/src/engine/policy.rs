//! When circuits are decided: MixNet section 5.1 and appendix B.2.
//!
//! Decisions are taken as soon as the all-to-all before is over, so that switching hides behind the
//! compute in between:
//!
//! - `never`: no decision; the circuits of the start;
//! - `always`: the allocator's circuits for each all-to-all whose demand is known;
//! - `per-layer`: one decision for all known all-to-alls of a layer and pass, for their sum;
//! - `break-even`: other circuits only where they pay over what is upcoming;
//! - `oracle`: the same, had all upcoming demand been known.
//!
//! The demand of the first all-to-all of a forward pass is not known (but to the oracle): it keeps
//! what is held (`reuse`), or is decided when its last member arrives and waits for the switch
//! (`block`), or it is decided beforehand on predicted demand (`predict`).
//!
//! Groups that share servers share circuits, which are switched only while no group uses them: a
//! decision is put off until then, for the demand of all groups that wait for one, and given up
//! when a member of the all-to-all arrives before.

use super::exchange::Exchange;
use super::{Engine, Event, FIRST};
use crate::critical_path::CriticalPath;
use crate::timeline::Snapshot;
use lightloom_decide::Decision;
use lightloom_model::{FirstAllToAll, Reconfigure, Task, TaskKind, Time};

/// When the members of an all-to-all may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Gate {
    /// Not known until the previous all-to-all is over.
    #[default]
    Undecided,
    /// A decision waits until nobody uses the circuits.
    Pending,
    /// To be decided when all members have arrived.
    AllArrived,
    /// From `ready` on.
    Open {
        /// When the decision was taken.
        from: Time,
        /// When the circuits are up.
        ready: Time,
        /// What led to the decision.
        path: CriticalPath,
    },
}

impl Gate {
    /// Open from the start.
    const FREE: Self =
        Self::Open { from: Time::ZERO, ready: Time::ZERO, path: CriticalPath([0; 13]) };
}

/// Whether the demand of an all-to-all is known only when it is reached.
pub(super) fn is_first(task: &Task) -> bool {
    matches!(task.kind, TaskKind::AllToAll { first: true, .. })
}

impl Engine<'_> {
    /// The gate of an all-to-all that its first member reaches now.
    pub(super) fn gate_for(&mut self, group: u32, task: &Task) -> Gate {
        let Some(circuits) = &self.circuits else { return Gate::FREE };
        let region = circuits.of_group(group).expect("the group crosses servers");
        // Another group of these servers may be switching.
        let present = Gate::Open {
            from: self.now,
            ready: circuits.region(region).ready.max(self.now),
            path: CriticalPath::default(),
        };
        let policy = circuits.ocs.policy.when;
        if policy == Reconfigure::Never {
            return present;
        }
        if policy != Reconfigure::Oracle && is_first(task) {
            match circuits.ocs.policy.first {
                FirstAllToAll::Reuse => return present,
                FirstAllToAll::Block => return Gate::AllArrived,
                FirstAllToAll::Predict if !self.foreseen(group, task) => return present,
                FirstAllToAll::Predict => {}
            }
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

    /// When circuits follow the demand.
    pub(super) fn policy(&self) -> Reconfigure {
        self.circuits.as_ref().map_or(Reconfigure::Never, |circuits| circuits.ocs.policy.when)
    }

    /// The next all-to-all of a group after the last that is over.
    fn next_exchange(&self, group: u32) -> Option<(u32, Task)> {
        let over = self.groups[group as usize].over as usize;
        let position = *self.all_positions(group).get(over)?;
        Some((position, self.program(group)[position as usize]))
    }

    /// Decides for the next all-to-all of a group, if its demand is known.
    pub(super) fn decide_next(&mut self, group: u32, path: CriticalPath) {
        let Some(circuits) = &mut self.circuits else { return };
        let Some(region) = circuits.of_group(group) else { return };
        let policy = circuits.ocs.policy.when;
        if policy == Reconfigure::Never {
            return;
        }
        let busy = circuits.region(region).active > 0 || circuits.region(region).ready > self.now;
        let Some((position, task)) = self.next_exchange(group) else { return };
        if !self.foreseen(group, &task) {
            return;
        }
        let reached = self.reached(group, position);
        let gate = if !busy {
            self.decide_with_pending(region, group, path)
        } else if reached.is_some() {
            self.keep_present(region, path)
        } else {
            let circuits = self.circuits.as_mut().expect("checked above");
            circuits.region_mut(region).pending.push(group);
            Gate::Pending
        };
        self.set_gate(group, reached, gate);
    }

    /// Decides for the groups that have waited, if nobody uses their circuits any more.
    pub(super) fn decide_pending(&mut self, region: u32) {
        let circuits = self.circuits.as_mut().expect("only circuits are decided");
        let state = circuits.region_mut(region);
        if state.active == 0
            && state.ready <= self.now
            && let Some(group) = state.pending.pop()
        {
            let gate = self.decide_with_pending(region, group, CriticalPath::default());
            self.groups[group as usize].gate = Some(gate);
        }
    }

    /// Decides for a first all-to-all whose last member has arrived.
    pub(super) fn decide_blocked(&mut self, number: u32) {
        let exchange = &self.exchanges[number];
        let group = exchange.group;
        let path = exchange.members[exchange.latest as usize].path;
        let circuits = self.circuits.as_ref().expect("only circuits block");
        let region = circuits.of_group(group).expect("the group crosses servers");
        let state = circuits.region(region);
        let gate = if state.active > 0 || state.ready > self.now {
            self.keep_present(region, path)
        } else {
            self.decide_with_pending(region, group, path)
        };
        self.set_gate(group, Some(number), gate);
    }

    /// Decides for a group, and for those that have waited until nobody used their circuits.
    fn decide_with_pending(&mut self, region: u32, group: u32, path: CriticalPath) -> Gate {
        let circuits = self.circuits.as_mut().expect("only circuits are decided");
        let mut groups = std::mem::take(&mut circuits.region_mut(region).pending);
        groups.push(group);
        let gate = self.decide(region, &groups, path);
        for other in groups.into_iter().filter(|&other| other != group) {
            self.groups[other as usize].gate = Some(gate);
        }
        gate
    }

    /// No decision: the circuits of other groups are in use.
    fn keep_present(&mut self, region: u32, path: CriticalPath) -> Gate {
        let circuits = self.circuits.as_mut().expect("only circuits are kept");
        circuits.statistics.skipped += 1;
        let ready = circuits.region(region).ready.max(self.now);
        Gate::Open { from: self.now, ready, path }
    }

    /// Decides for what is upcoming for these groups and begins to switch.
    fn decide(&mut self, region: u32, groups: &[u32], path: CriticalPath) -> Gate {
        if self.policy() == Reconfigure::PerLayer && !self.new_layer(groups) {
            return Gate::Open { from: self.now, ready: self.now, path };
        }
        let upcoming = self.upcoming(region, groups);
        let circuits = self.circuits.as_mut().expect("only circuits are decided");
        let (ready, decision) =
            circuits.decide(region, &upcoming, self.now, &mut self.fabric.medium);
        for _ in groups {
            circuits.count_delay(ready.since(self.now));
        }
        if decision.pairs > 0 {
            self.queue.push(ready, FIRST, Event::CircuitsUp(region));
        }
        self.take_snapshot(region, groups[0], ready, decision);
        Gate::Open { from: self.now, ready, path }
    }

    /// Whether any of these groups has not had its decision for the upcoming layer and pass; notes
    /// that all have it now.
    fn new_layer(&mut self, groups: &[u32]) -> bool {
        let mut any = false;
        for &group in groups {
            let first = Some(self.first_of_layer(group));
            let decided = &mut self.groups[group as usize].decided;
            any |= *decided != first;
            *decided = first;
        }
        any
    }

    fn take_snapshot(&mut self, region: u32, group: u32, ready: Time, decision: Decision) {
        let (_, task) = self.next_exchange(group).expect("a decision is for an all-to-all");
        let circuits = self.circuits.as_ref().expect("only circuits are recorded");
        if !circuits.region(region).recorded {
            return;
        }
        self.snapshots.push(Snapshot {
            time: self.now,
            ready,
            group,
            layer: task.layer,
            micro_batch: task.micro_batch,
            servers: circuits.region(region).servers.clone(),
            demand: decision.demand,
            circuits: decision.held.circuits,
            makespan: decision.makespan,
            chosen: decision.held.chosen,
        });
    }

    /// Opens an all-to-all, or notes the gate for when somebody reaches it.
    fn set_gate(&mut self, group: u32, reached: Option<u32>, gate: Gate) {
        let Some(number) = reached else {
            self.groups[group as usize].gate = Some(gate);
            return;
        };
        self.exchanges[number].gate = gate;
        let here = |exchange: &Exchange| -> Vec<u32> {
            let members = exchange.members.iter().enumerate();
            members.filter(|(_, m)| m.arrived.is_some()).map(|(place, _)| place as u32).collect()
        };
        for place in here(&self.exchanges[number]) {
            self.begin(number, place);
        }
    }

    /// The all-to-all at a position of a group's program, if somebody has reached it.
    fn reached(&self, group: u32, position: u32) -> Option<u32> {
        let active = &self.groups[group as usize].active;
        active.iter().copied().find(|&number| self.exchanges[number].position == position)
    }
}
