//! Programs: operations that wait for others, such as the steps of a collective.
//!
//! An operation computes for a time, or sends a flow, once everything that it waits for is there:
//! that others have begun, that their receivers have everything, or that they have ended.

use crate::error::PacketError;
use crate::flow::{FlowProgress, PacketFlowId};
use crate::network::core::Core;
use lightloom_model::{Duration, Time};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// No operation.
const NONE: u32 = u32::MAX;

/// The longest computation: times of a run are below 2^62 ps.
const LONGEST: Duration = Duration(1 << 60);

/// After the end of every run.
const LATE: Time = Time(1 << 63);

/// What an operation does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// It takes time, and on a unit of a host only after what that has begun or has to do already.
    Compute {
        /// For how long.
        span: Duration,
        /// What does one operation at a time; no two hosts have units of one index.
        unit: Option<u32>,
    },
    /// It sends a flow, which starts then and not at the time that it states.
    Send(PacketFlowId),
}

/// The part of an operation that others wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Milestone {
    /// It has begun.
    Begun,
    /// The receiver has everything; a computation has ended.
    Received,
    /// The sender knows that; a computation has ended.
    Ended,
}

impl Milestone {
    /// All, in the order in which they come.
    pub const ALL: [Self; 3] = [Self::Begun, Self::Received, Self::Ended];
}

/// What an operation waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wait {
    /// Index of the other operation.
    pub operation: u32,
    /// How far that has to be.
    pub milestone: Milestone,
}

/// Operations by index, and what each waits for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Programs {
    actions: Vec<Action>,
    /// Per operation the end of its waits.
    ends: Vec<usize>,
    waits: Vec<Wait>,
}

impl Programs {
    /// Adds an operation, which may wait for some that are added later; returns its index.
    pub fn add(&mut self, action: Action, waits: &[Wait]) -> u32 {
        self.waits.extend_from_slice(waits);
        self.ends.push(self.waits.len());
        self.actions.push(action);
        self.actions.len() as u32 - 1
    }

    /// Number of operations.
    pub fn len(&self) -> usize {
        self.actions.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.actions.is_empty()
    }

    fn waits(&self, operation: usize) -> &[Wait] {
        let start = if operation == 0 { 0 } else { self.ends[operation - 1] };
        &self.waits[start..self.ends[operation]]
    }

    /// The operation that sends each of so many flows, [`NONE`] where there is none.
    fn senders(&self, flows: usize) -> Result<Vec<u32>, PacketError> {
        let mut senders = vec![NONE; flows];
        for (operation, action) in self.actions.iter().enumerate() {
            let Action::Send(flow) = action else { continue };
            let Some(sender) = senders.get_mut(flow.index()) else {
                return Err(PacketError::invalid(format!(
                    "operation {operation} sends flow {}; there are {flows} flows, from 0 on",
                    flow.0
                )));
            };
            if *sender != NONE {
                return Err(PacketError::invalid(format!(
                    "operations {sender} and {operation} both send flow {}; expected one of them",
                    flow.0
                )));
            }
            *sender = operation as u32;
        }
        Ok(senders)
    }

    /// Checks everything but flows.
    fn validate(&self) -> Result<(), PacketError> {
        let count = self.len();
        if count >= NONE as usize {
            return Err(PacketError::invalid(format!("{count} operations are too many")));
        }
        for (operation, action) in self.actions.iter().enumerate() {
            if let Action::Compute { span, unit } = *action
                && (span > LONGEST || unit.is_some_and(|unit| unit as usize >= count))
            {
                let unit = unit.map_or(String::new(), |unit| format!(" on unit {unit}"));
                return Err(PacketError::invalid(format!(
                    "operation {operation} computes for {} ps{unit}; expected at most 2^60 ps and \
                     fewer units than operations",
                    span.0
                )));
            }
            let wrong = |wait: &&Wait| wait.operation as usize >= count;
            if let Some(wait) = self.waits(operation).iter().find(wrong) {
                return Err(PacketError::invalid(format!(
                    "operation {operation} waits for operation {}; there are {count}, from 0 on",
                    wait.operation
                )));
            }
        }
        Ok(())
    }
}

/// When operations began and ended; [`FlowProgress::NEVER`] where they did not.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProgramReport {
    /// Begin of each operation.
    pub begins: Vec<Time>,
    /// Its end: of a flow, when its sender knew that everything had arrived.
    pub ends: Vec<Time>,
    /// The critical path: each operation began when the one before it let it.
    pub critical: Vec<u32>,
    /// When everything had been received and computed, as far as it was.
    pub makespan: Time,
}

/// Which operations wait for a milestone of another: lists by three times its index and that.
#[derive(Debug, Clone)]
struct Dependents {
    starts: Vec<usize>,
    operations: Vec<u32>,
}

impl Dependents {
    fn new(programs: &Programs) -> Self {
        let place = |wait: &Wait| 3 * wait.operation as usize + wait.milestone as usize;
        let mut starts = vec![0; 3 * programs.len() + 1];
        for wait in &programs.waits {
            starts[place(wait) + 1] += 1;
        }
        for index in 1..starts.len() {
            starts[index] += starts[index - 1];
        }
        let mut next = starts.clone();
        let mut operations = vec![NONE; programs.waits.len()];
        for operation in 0..programs.len() {
            for wait in programs.waits(operation) {
                let at = &mut next[place(wait)];
                operations[*at] = operation as u32;
                *at += 1;
            }
        }
        Self { starts, operations }
    }

    fn of(&self, operation: u32, milestone: Milestone) -> std::ops::Range<usize> {
        let place = 3 * operation as usize + milestone as usize;
        self.starts[place]..self.starts[place + 1]
    }
}

/// What a unit has to do.
#[derive(Debug, Clone, Copy)]
struct Unit {
    free_at: Time,
    /// The operation that it does last.
    last: u32,
}

/// Programs while they run.
#[derive(Debug, Clone)]
pub(crate) struct Execution {
    actions: Vec<Action>,
    dependents: Dependents,
    /// Per operation, how much of what it waits for is not there yet.
    missing: Vec<u32>,
    /// Per operation the one that let it begin.
    causes: Vec<u32>,
    begins: Vec<Time>,
    ends: Vec<Time>,
    /// Per flow the operation that sends it.
    senders: Vec<u32>,
    units: Vec<Unit>,
    /// Computations that begin or end later.
    due: BinaryHeap<Reverse<(Time, u32, Milestone)>>,
    /// Operations that wait for nothing any more.
    ready: VecDeque<u32>,
    /// Flows to be started.
    starting: Vec<PacketFlowId>,
    /// Number of operations that have not ended.
    left: usize,
    last_start: Time,
}

impl Execution {
    /// Programs that are about to begin.
    ///
    /// # Errors
    /// If they name what is not there, or operations wait for one another.
    pub(crate) fn new(programs: &Programs, flows: usize) -> Result<Self, PacketError> {
        programs.validate()?;
        let count = programs.len();
        let missing: Vec<u32> =
            (0..count).map(|operation| programs.waits(operation).len() as u32).collect();
        let dependents = Dependents::new(programs);
        check_order(&dependents, missing.clone())?;
        let unit_of = |action: &Action| match *action {
            Action::Compute { unit, .. } => unit.map_or(0, |unit| unit as usize + 1),
            Action::Send(_) => 0,
        };
        let units = programs.actions.iter().map(unit_of).max().unwrap_or(0);
        let is_free = |operation: &u32| missing[*operation as usize] == 0;
        Ok(Self {
            actions: programs.actions.clone(),
            dependents,
            causes: vec![NONE; count],
            begins: vec![FlowProgress::NEVER; count],
            ends: vec![FlowProgress::NEVER; count],
            senders: programs.senders(flows)?,
            units: vec![Unit { free_at: Time::ZERO, last: NONE }; units],
            due: BinaryHeap::new(),
            ready: (0..count as u32).filter(is_free).collect(),
            missing,
            starting: Vec::new(),
            left: count,
            last_start: Time::ZERO,
        })
    }

    /// Whether an operation sends a flow.
    pub(crate) fn sends(&self, flow: PacketFlowId) -> bool {
        self.senders[flow.index()] != NONE
    }

    /// Whether all operations have ended.
    pub(crate) fn is_done(&self) -> bool {
        self.left == 0
    }

    /// When a computation begins or ends next.
    pub(crate) fn next_due(&self) -> Option<Time> {
        self.due.peek().map(|&Reverse((time, ..))| time)
    }

    /// When the last flow was started until now.
    pub(crate) fn last_start(&self) -> Time {
        self.last_start
    }

    /// A flow has finished: for the first time when its receiver has everything, then when its
    /// sender knows that. Returns whether it was the second time.
    pub(crate) fn finish(&mut self, flow: PacketFlowId, core: &Core, is_second: bool) -> bool {
        let operation = self.senders[flow.index()];
        if operation != NONE {
            if is_second {
                self.end(operation, core.flow(flow).done_at);
            } else {
                self.reach(operation, Milestone::Received);
            }
        }
        is_second
    }

    /// Does what is due now; returns the flows that start.
    pub(crate) fn proceed(&mut self, now: Time) -> Vec<PacketFlowId> {
        loop {
            while let Some(operation) = self.ready.pop_front() {
                self.begin(operation, now);
            }
            let Some(&Reverse((time, operation, milestone))) = self.due.peek() else { break };
            if time > now {
                break;
            }
            self.due.pop();
            if milestone == Milestone::Begun {
                self.compute(operation, now);
            } else {
                self.reach(operation, Milestone::Received);
                self.end(operation, now);
            }
        }
        if !self.starting.is_empty() {
            self.last_start = now;
        }
        std::mem::take(&mut self.starting)
    }

    /// An operation may begin; a computation waits for its unit.
    fn begin(&mut self, operation: u32, now: Time) {
        match self.actions[operation as usize] {
            Action::Send(flow) => {
                self.begins[operation as usize] = now;
                self.starting.push(flow);
                self.reach(operation, Milestone::Begun);
            }
            Action::Compute { span, unit: Some(unit) } => {
                let unit = &mut self.units[unit as usize];
                let begin = unit.free_at.max(now);
                if begin > now {
                    self.causes[operation as usize] = unit.last;
                }
                let free_at = Time(begin.0 + span.0).min(LATE);
                *unit = Unit { free_at, last: operation };
                self.due.push(Reverse((begin, operation, Milestone::Begun)));
            }
            Action::Compute { .. } => self.compute(operation, now),
        }
    }

    /// A computation begins.
    fn compute(&mut self, operation: u32, now: Time) {
        let Action::Compute { span, .. } = self.actions[operation as usize] else { return };
        self.begins[operation as usize] = now;
        self.due.push(Reverse((now + span, operation, Milestone::Ended)));
        self.reach(operation, Milestone::Begun);
    }

    fn end(&mut self, operation: u32, now: Time) {
        self.ends[operation as usize] = now;
        self.left -= 1;
        self.reach(operation, Milestone::Ended);
    }

    /// Those that wait for this of an operation wait no longer.
    fn reach(&mut self, operation: u32, milestone: Milestone) {
        for index in self.dependents.of(operation, milestone) {
            let dependent = self.dependents.operations[index] as usize;
            self.missing[dependent] -= 1;
            if self.missing[dependent] == 0 {
                self.causes[dependent] = operation;
                self.ready.push_back(dependent as u32);
            }
        }
    }

    /// What came of it.
    pub(crate) fn report(self, core: &Core) -> ProgramReport {
        let finish = |operation: &u32| match self.actions[*operation as usize] {
            Action::Send(flow) => core.flow(flow).received_at,
            Action::Compute { .. } => self.ends[*operation as usize],
        };
        let has_finished = |operation: &u32| finish(operation) != FlowProgress::NEVER;
        let finished = (0..self.actions.len() as u32).filter(has_finished);
        let mut critical: Vec<u32> =
            finished.max_by_key(|one| (finish(one), Reverse(*one))).into_iter().collect();
        while let Some(&first) = critical.last()
            && self.causes[first as usize] != NONE
        {
            critical.push(self.causes[first as usize]);
        }
        let makespan = critical.first().map(finish).unwrap_or_default();
        critical.reverse();
        ProgramReport { begins: self.begins, ends: self.ends, critical, makespan }
    }
}

/// Refuses operations that wait for one another.
fn check_order(dependents: &Dependents, mut missing: Vec<u32>) -> Result<(), PacketError> {
    let mut free: Vec<u32> =
        (0..missing.len() as u32).filter(|&one| missing[one as usize] == 0).collect();
    let mut ordered = 0;
    while let Some(operation) = free.pop() {
        ordered += 1;
        let (first, last) = (Milestone::ALL[0], Milestone::ALL[2]);
        let all = dependents.of(operation, first).start..dependents.of(operation, last).end;
        for &dependent in &dependents.operations[all] {
            missing[dependent as usize] -= 1;
            if missing[dependent as usize] == 0 {
                free.push(dependent);
            }
        }
    }
    if ordered == missing.len() {
        return Ok(());
    }
    let first = missing.iter().position(|&left| left > 0).unwrap_or_default();
    Err(PacketError::invalid(format!(
        "{} operations wait for one another, or for those that do, operation {first} among them; \
         expected an order in which they can begin",
        missing.len() - ordered
    )))
}
