//! All-to-alls: MixNet section 5.3, member by member.
//!
//! A member begins when it arrives (and its circuits are up): it gathers onto its delegates, then
//! its flows start, whoever else has arrived. It is done when its own last byte has left, every
//! sender has been heard of, its last byte has arrived and been scattered, and its local part is
//! done:
//!
//! ```text
//! start    = max(arrival, circuits up)
//! ready    = start + start-up + gather
//! outbound = max over its own flows (flow end; for no bytes, `ready`)
//! inbound  = max over senders (flow end + path latency; for no bytes, the sender's `ready`)
//! done     = max(ready + local, outbound, max(inbound, start) + scatter)
//! ```
//!
//! Gather, local and scatter each take the NVSwitch latency plus the bytes of the busiest GPU over
//! its rate, or nothing for no bytes. The start-up grows with the ranks that a rank sends to.

use super::accounts::Span;
use super::completion::{self, End, Tasks};
use super::context::{Context, Step, record};
use super::gate::{Gate, Opening};
use super::owner::{Event, Owner};
use super::streams::StreamId;
use crate::circuits::Circuits;
use crate::critical_path::CriticalPath;
use crate::demand::{copies, member_demand, rank_demand};
use crate::fabric::Fabric;
use crate::index::{GroupKey, Turn};
use crate::lower::Lowerer;
use crate::network::{AllToAllDemand, Lowering};
use crate::recording::Moment;
use crate::slab::Slab;
use crate::turns::Together;
use lightloom_model::{Collective, Duration, Payload, Task, TaskGraph, TaskIndex, Time, WorkerId};
use rustc_hash::FxHashMap;

/// A member of an all-to-all.
#[derive(Debug, Clone, Default)]
pub(super) struct Member<'a> {
    /// When it reached the task, if it has, and which of its streams.
    pub arrived: Option<(Time, StreamId)>,
    /// When it could begin, if it has.
    start: Option<Time>,
    /// What led to `arrived`, then to `start`.
    pub path: CriticalPath,
    /// The part of the wait for `start` that is due to circuits.
    switching: Duration,
    /// Senders not yet heard of.
    senders_left: u32,
    /// Its own transfers that have not left, once its flows have started.
    outbound_left: Option<u32>,
    /// When the last one left so far, or its flows started.
    outbound: Time,
    /// Transfers announced and not yet arrived.
    inbound_left: u32,
    /// Last arrival so far, and its sender.
    inbound: Time,
    inbound_from: u32,
    done: bool,
    /// Its end and who waits for that, if it has a handle.
    end: Option<End>,
    waiting: Option<(StreamId, &'a Task)>,
}

/// An all-to-all under way.
#[derive(Debug, Default)]
pub(super) struct AllToAll<'a> {
    /// Family and group.
    pub group: GroupKey,
    /// Collectives over the family before it.
    sequence: u32,
    pub task: Option<&'a Task>,
    pub members: Vec<Member<'a>>,
    /// When it may begin.
    pub gate: Gate,
    /// Members that have arrived.
    pub arrived: u32,
    /// The member that arrived last.
    pub latest: u32,
    lowered: bool,
    lowering: Lowering,
    /// How much longer its transfers take than as fluids.
    stretch: f64,
    /// From when to when its flows wait for members that are late at random.
    late: Span,
    /// Members whose flows have started.
    dispatched: u32,
    /// Members that could send, where all begin together.
    prepared: u32,
    /// Flows under way.
    flows: u32,
    /// Whether all flows are over.
    over: bool,
    finished: u32,
    /// Handles that nobody has waited for yet.
    handles: u32,
    /// Sum of the members' arrival times, for the wait for stragglers.
    arrivals: u128,
    /// Per transfer its end, as far as it has started, if that is recorded.
    ends: Vec<Moment>,
}

impl<'a> AllToAll<'a> {
    /// The task of all members.
    pub(super) fn task(&self) -> &'a Task {
        self.task.expect("set up")
    }

    fn collective(&self) -> &'a Collective {
        self.task().collective().expect("an all-to-all is a collective")
    }

    fn workers(&self, graph: &'a TaskGraph) -> &'a [WorkerId] {
        graph.families[self.group.family.index()].members(self.group.group)
    }

    /// From the start of a member to its first byte on the network: start-up and gather.
    fn until_sent(&self, fabric: &Fabric, place: u32) -> Duration {
        let Lowering { peers, is_mixed, gather, .. } = &self.lowering;
        let start_up = fabric.start_up().of_all_to_all(*peers, *is_mixed);
        start_up + fabric.nvswitch().all_to_all.time(gather[place as usize], 0)
    }

    /// When a member that has begun sends.
    fn sending(&self, fabric: &Fabric, place: u32) -> Moment {
        self.members[place as usize].path.moment.after(self.until_sent(fabric, place))
    }

    /// All that the end of a member's part waits for.
    fn waits_of(&self, fabric: &Fabric, place: u32) -> Vec<Moment> {
        let pace = fabric.nvswitch().all_to_all;
        let time = |bytes: &[u64]| pace.time(bytes[place as usize], 0);
        let scatter = time(&self.lowering.scatter);
        let own = self.sending(fabric, place);
        let begin = self.members[place as usize].path.moment;
        let mut waits = vec![own.after(time(&self.lowering.local)), begin.after(scatter)];
        let senders = (0..self.members.len() as u32).filter(|&other| other != place);
        waits.extend(senders.map(|other| self.sending(fabric, other).after(scatter)));
        for (transfer, &end) in self.lowering.transfers.iter().zip(&self.ends) {
            if transfer.from == place {
                waits.push(end);
            }
            if transfer.to == place {
                let latency = fabric.latency(self.lowering.path(transfer.path));
                waits.push(end.after(latency + scatter));
            }
        }
        waits
    }

    /// Something from a sender arrives at a member.
    fn hear(&mut self, to: u32, from: u32, arrival: Time) {
        let member = &mut self.members[to as usize];
        if arrival > member.inbound {
            member.inbound = arrival;
            member.inbound_from = from;
        }
    }

    /// A transfer of a member has left.
    fn leave(&mut self, from: u32, now: Time) {
        let member = &mut self.members[from as usize];
        let left = member.outbound_left.as_mut().expect("its flows have started");
        *left -= 1;
        member.outbound = now;
    }
}

/// An all-to-all whose flows are over.
#[derive(Debug)]
pub(super) struct Over {
    /// Family and group.
    pub group: GroupKey,
    /// Collectives over the family before it.
    pub sequence: u32,
    /// What led to its end.
    pub path: CriticalPath,
}

/// All all-to-alls under way.
#[derive(Debug)]
pub(super) struct AllToAlls<'a> {
    lowerer: Lowerer,
    entries: Slab<AllToAll<'a>>,
    /// Per family, the place of its first group in `active`.
    first_group: Vec<u32>,
    /// Per group, those that some member has reached.
    active: Vec<Vec<u32>>,
    /// Per group, whether its paths are expected.
    expected: Vec<bool>,
    /// Streams that wait for an all-to-all of their worker that nobody has reached.
    early: FxHashMap<(WorkerId, TaskIndex), (StreamId, &'a Task)>,
    /// Those that are over, for who decides what comes next.
    pub over: Vec<Over>,
    /// Time in which members waited for the last one, added up.
    pub straggler_wait: u128,
    /// Time in which members waited for circuits, added up.
    pub exposed: u128,
}

impl<'a> AllToAlls<'a> {
    /// None yet.
    pub(super) fn new(graph: &TaskGraph, lowerer: Lowerer) -> Self {
        let mut groups = 0;
        let mut first_group = Vec::with_capacity(graph.families.len());
        for family in &graph.families {
            first_group.push(groups);
            groups += family.groups() as u32;
        }
        Self {
            lowerer,
            entries: Slab::default(),
            first_group,
            active: vec![Vec::new(); groups as usize],
            expected: vec![false; groups as usize],
            early: FxHashMap::default(),
            over: Vec::new(),
            straggler_wait: 0,
            exposed: 0,
        }
    }

    /// One of them.
    pub(super) fn get(&self, number: u32) -> &AllToAll<'a> {
        &self.entries[number]
    }

    /// Opens one of them, or has it wait.
    pub(super) fn set_gate(&mut self, number: u32, gate: Gate) {
        self.entries[number].gate = gate;
    }

    /// All-to-alls in use.
    pub(super) fn in_use(&self) -> usize {
        self.entries.in_use()
    }

    /// The members of one that have arrived.
    pub(super) fn present(&self, number: u32) -> Vec<u32> {
        let members = self.entries[number].members.iter().enumerate();
        members.filter(|(_, m)| m.arrived.is_some()).map(|(place, _)| place as u32).collect()
    }

    fn active(&mut self, GroupKey { family, group }: GroupKey) -> &mut Vec<u32> {
        &mut self.active[self.first_group[family.index()] as usize + group.index()]
    }

    /// The all-to-all of a group with so many collectives before it, if somebody has reached it.
    pub(super) fn reached(
        &self,
        GroupKey { family, group }: GroupKey,
        sequence: u32,
    ) -> Option<u32> {
        let group = self.first_group[family.index()] as usize + group.index();
        let mut active = self.active[group].iter().copied();
        active.find(|&number| self.entries[number].sequence == sequence)
    }

    /// Sets up an all-to-all that nobody has reached before.
    pub(super) fn set_up(
        &mut self,
        graph: &TaskGraph,
        group: GroupKey,
        sequence: u32,
        task: &'a Task,
        gate: Gate,
    ) -> u32 {
        let members = graph.families[group.family.index()].members(group.group).len();
        let number = self.entries.take();
        let entry = &mut self.entries[number];
        let mut lowering = std::mem::take(&mut entry.lowering);
        lowering.reset(members);
        let mut list = std::mem::take(&mut entry.members);
        list.clear();
        let senders_left = members as u32 - 1;
        list.resize(members, Member { senders_left, ..Member::default() });
        *entry = AllToAll {
            group,
            sequence,
            task: Some(task),
            members: list,
            gate,
            lowering,
            ..AllToAll::default()
        };
        self.active(group).push(number);
        number
    }

    /// A member arrives; true if it was the last.
    pub(super) fn arrive(
        &mut self,
        context: &Context<'a>,
        number: u32,
        place: u32,
        id: StreamId,
    ) -> bool {
        let stream = &context.streams[id];
        let entry = &mut self.entries[number];
        let member = &mut entry.members[place as usize];
        member.arrived = Some((context.now, id));
        member.path = stream.path.clone();
        entry.arrived += 1;
        entry.latest = place;
        entry.arrivals += u128::from(context.now.0);
        if entry.task().handle.is_some() {
            entry.handles += 1;
            let position = stream.turn(context.index).expect("it is at the all-to-all");
            // who waits may have come before, when others had arrived or when nobody had
            if let Some(early) = self.early.remove(&(stream.worker, position)) {
                entry.members[place as usize].waiting = Some(early);
            }
        }
        entry.arrived as usize == entry.members.len()
    }

    /// A member that has arrived begins, now or when its circuits are up.
    pub(super) fn begin(
        &mut self,
        context: &mut Context<'a>,
        circuits: Option<&mut Circuits<'a>>,
        number: u32,
        place: u32,
    ) {
        self.lower(context, circuits, number);
        let entry = &mut self.entries[number];
        let Gate::Open(Opening { from, ready, path }) = &entry.gate else {
            unreachable!("only open all-to-alls begin")
        };
        let member = &mut entry.members[place as usize];
        let (arrived, _) = member.arrived.expect("it has arrived");
        let start = arrived.max(*ready);
        if *from > arrived {
            // What was waited for is what led to the decision.
            member.path = path.clone();
        }
        member.switching = start.since(arrived.max(*from));
        member.path.charge(context.index.reconfiguration, member.switching);
        member.start = Some(start);
        self.exposed += u128::from(member.switching.0);
        let sent = start + entry.until_sent(&context.fabric, place);
        if sent > context.now {
            let event = Event::Dispatch { all_to_all: number, place };
            context.schedule(sent, event);
        } else {
            self.dispatch(context, number, place);
        }
    }

    /// Sizes all steps, once per all-to-all, and takes the circuits into use.
    fn lower(
        &mut self,
        context: &mut Context<'a>,
        mut circuits: Option<&mut Circuits<'a>>,
        number: u32,
    ) {
        let entry = &mut self.entries[number];
        if std::mem::replace(&mut entry.lowered, true) {
            return;
        }
        let (group, task) = (entry.group.group, entry.task());
        let members = entry.workers(context.graph);
        let (mut demand, mut ranks) = (Vec::new(), Vec::new());
        let payload = payload(task);
        member_demand(context.graph, payload, group, members.len(), &mut demand);
        if self.lowerer.is_by_rank() && context.placement.ranks > 1 {
            let own = context.placement.ranks;
            rank_demand(context.graph, payload, group, members.len(), own, &mut ranks);
        }
        if let Some(circuits) = circuits.as_deref_mut() {
            let region = circuits.of_group(group.0).expect("the group crosses servers");
            circuits.enter(region);
        }
        let (rank_demand, placement) = (ranks.as_slice(), &context.placement);
        let copies = copies(context.graph, payload);
        let demand = demand.as_slice();
        let all_to_all = AllToAllDemand { group, members, demand, rank_demand, copies, placement };
        let lowering = &mut entry.lowering;
        self.lowerer.lower(&all_to_all, &mut context.fabric, circuits, lowering);
        let GroupKey { family, group } = entry.group;
        let place = self.first_group[family.index()] as usize + group.index();
        if !std::mem::replace(&mut self.expected[place], true) {
            let paths = lowering.transfers.iter().map(|transfer| lowering.links(transfer.path));
            context.fabric.links.expect(paths);
        }
        let purpose = context.purpose(task);
        context.ledger.inside(purpose, lowering.nvswitch_bytes);
        let transfers = lowering.transfers.iter().map(|transfer| {
            let latency = lowering.path(transfer.path).latency;
            (lowering.links(transfer.path), transfer.bytes, latency)
        });
        entry.stretch = context.stretch(purpose, transfers);
    }

    /// A member can send: its flows start, or those of all members when the last one can.
    pub(super) fn dispatch(&mut self, context: &mut Context<'a>, number: u32, place: u32) {
        if !context.fabric.links.begins_together() {
            return self.send(context, number, place);
        }
        let entry = &mut self.entries[number];
        entry.prepared += 1;
        let members = entry.members.len() as u32;
        if entry.prepared < members {
            return;
        }
        let (stretch, task) = (entry.stretch, entry.task());
        let flows = entry.lowering.transfers.iter().enumerate().map(|(index, transfer)| {
            let owner = Owner::AllToAll(number, index as u32);
            (entry.lowering.links(transfer.path), transfer.bytes, owner)
        });
        // Its combine, and both on the way back, are the dispatch's transposed or its repetition.
        let is_new = matches!(payload(task), Payload::Block { first: true, .. });
        let shape = Together::AnyOrder { is_new };
        entry.late = context.start_together(shape, stretch, task.priority, flows);
        for place in 0..members {
            self.send(context, number, place);
        }
    }

    /// A member sends what it has for others.
    fn send(&mut self, context: &mut Context<'a>, number: u32, place: u32) {
        let is_started = context.fabric.links.begins_together();
        let entry = &mut self.entries[number];
        let task = entry.task();
        let purpose = context.purpose(task);
        let own = entry.lowering.sent_by(place);
        let member = &mut entry.members[place as usize];
        member.outbound_left = Some(own.len() as u32);
        member.outbound = context.now;
        for index in own {
            let transfer = entry.lowering.transfers[index];
            context.send(purpose, entry.lowering.path(transfer.path), transfer.bytes);
            let links = entry.lowering.links(transfer.path);
            if !is_started {
                let owner = Owner::AllToAll(number, index as u32);
                context.start(links, transfer.bytes, entry.stretch, task.priority, owner);
            }
            if context.waits.is_some() {
                let begin = entry.sending(&context.fabric, place);
                entry.ends.resize(entry.lowering.transfers.len(), Moment::default());
                entry.ends[index] = context.note_transfer(begin);
            }
            entry.flows += 1;
            entry.members[transfer.to as usize].inbound_left += 1;
        }
        let members = self.entries[number].members.len() as u32;
        self.entries[number].dispatched += 1;
        for other in (0..members).filter(|&other| other != place) {
            let entry = &mut self.entries[number];
            entry.members[other as usize].senders_left -= 1;
            entry.hear(other, place, context.now);
            self.settle(context, number, other);
        }
        self.settle(context, number, place);
        self.close(context, number, place);
    }

    /// A flow of an all-to-all has finished.
    pub(super) fn transfer_done(&mut self, context: &mut Context<'a>, number: u32, index: u32) {
        let entry = &mut self.entries[number];
        let transfer = entry.lowering.transfers[index as usize];
        entry.flows -= 1;
        entry.members[transfer.to as usize].inbound_left -= 1;
        let latency = context.fabric.latency(entry.lowering.path(transfer.path));
        entry.hear(transfer.to, transfer.from, context.now + latency);
        entry.leave(transfer.from, context.now);
        context.receive(context.purpose(entry.task()), transfer.bytes);
        self.settle(context, number, transfer.to);
        self.settle(context, number, transfer.from);
        self.close(context, number, transfer.from);
    }

    /// Ends a member's part if nothing is missing any more.
    fn settle(&mut self, context: &mut Context<'a>, number: u32, place: u32) {
        let entry = &mut self.entries[number];
        let member = &entry.members[place as usize];
        let Some(start) = member.start else { return };
        let is_over = member.outbound_left == Some(0) && member.inbound_left == 0;
        if member.done || member.senders_left > 0 || !is_over {
            return;
        }
        let pace = context.fabric.nvswitch().all_to_all;
        let time = |bytes: &[u64]| pace.time(bytes[place as usize], 0);
        let lowering = &entry.lowering;
        let local = start + entry.until_sent(&context.fabric, place) + time(&lowering.local);
        let scattered = member.inbound.max(start) + time(&lowering.scatter);
        let done = local.max(scattered).max(member.outbound);
        let sender = &entry.members[member.inbound_from as usize];
        let by_sender = scattered == done && member.inbound > start;
        let (origin, since) =
            if by_sender { (sender, sender.start) } else { (member, Some(start)) };
        let since = since.expect("a sender has begun");
        let mut path = origin.path.extended(entry.task().category, done.since(since));
        if context.waits.is_some() {
            path.moment = context.join(entry.waits_of(&context.fabric, place));
        }
        let member = &mut entry.members[place as usize];
        member.done = true;
        entry.finished += 1;
        let (arrived, _) = member.arrived.expect("begun");
        let (together, _) = entry.members[entry.latest as usize].arrived.expect("all have begun");
        let (began, late) = (arrived, entry.late);
        self.member_done(context, number, place, End { began, together, done, late, path });
    }

    /// Releases who waits for a member's part.
    fn member_done(&mut self, context: &mut Context<'a>, number: u32, place: u32, end: End) {
        let entry = &mut self.entries[number];
        let (task, collective) = (entry.task(), entry.collective());
        let member = &mut entry.members[place as usize];
        let (arrived, id) = member.arrived.expect("begun");
        if task.handle.is_some() {
            match member.waiting.take() {
                Some((waiter, waits)) => {
                    entry.handles -= 1;
                    let is_alongside = collective.asynchronous;
                    let tasks = Tasks { waits, ended: task, is_alongside };
                    completion::release(context, waiter, tasks, &end);
                }
                None => member.end = Some(end.clone()),
            }
        }
        if !collective.asynchronous {
            let start = member.start.expect("begun");
            let dark = Time(start.0 - member.switching.0);
            let together = end.together;
            context.spend_together(id, task, task.category, (arrived, dark), together);
            context.spend(id, task, context.index.reconfiguration, (dark, start));
            context.spend_together(id, task, task.category, (start, end.done), together);
            context.note_late(id, task.category, (start, end.done), end.late);
            context.release(id, end.done, end.path);
        }
    }

    /// Waits for an all-to-all of the worker's own, unless its part is done.
    pub(super) fn wait(
        &mut self,
        context: &mut Context<'a>,
        id: StreamId,
        waits: &'a Task,
        Turn { position, task: ended }: Turn<'a>,
    ) -> Step {
        let stream = &context.streams[id];
        let collective = ended.collective().expect("checked");
        let family = collective.family.expect("checked");
        let here = context.index.membership(family, stream.worker).expect("checked");
        let sequence = context.index.roles[stream.role.index()].sequence[position.index()];
        let Some(number) = self.reached(GroupKey { family, group: here.group }, sequence) else {
            self.early.insert((stream.worker, position), (id, waits));
            return context.wait(id);
        };
        let entry = &mut self.entries[number];
        let member = &mut entry.members[here.place as usize];
        let Some(end) = member.end.take() else {
            member.waiting = Some((id, waits));
            return context.wait(id);
        };
        entry.handles -= 1;
        let is_alongside = collective.asynchronous;
        completion::take(context, id, Tasks { waits, ended, is_alongside }, &end);
        self.forget(number);
        Step::Next
    }

    /// Ends an all-to-all if its flows are over, the last of `sender`, and forgets it once all
    /// members are released.
    fn close(&mut self, context: &mut Context<'a>, number: u32, sender: u32) {
        let entry = &mut self.entries[number];
        let members = entry.members.len();
        if !entry.over && entry.dispatched as usize == members && entry.flows == 0 {
            entry.over = true;
            let task = entry.task();
            let (last, _) = entry.members[entry.latest as usize].arrived.expect("all have arrived");
            self.straggler_wait += u128::from(last.0) * members as u128 - entry.arrivals;
            let (group, sequence) = (entry.group, entry.sequence);
            let ids = [group.group.0.into(), u64::from(task.layer), u64::from(task.micro_batch)];
            context.hash.record(context.now, record::ALL_TO_ALL, &ids);
            let path = path_now(context, entry, sender);
            self.over.push(Over { group, sequence, path });
        }
        self.forget(number);
    }

    fn forget(&mut self, number: u32) {
        let entry = &self.entries[number];
        if entry.over && entry.finished as usize == entry.members.len() && entry.handles == 0 {
            let group = entry.group;
            self.active(group).retain(|&other| other != number);
            self.entries.free(number);
        }
    }
}

/// What led to the end of an all-to-all's flows, now, the last of `sender`.
fn path_now(context: &Context<'_>, entry: &AllToAll<'_>, sender: u32) -> CriticalPath {
    let sender = &entry.members[sender as usize];
    let start = sender.start.expect("all have begun");
    sender.path.extended(entry.task().category, context.now.since(start))
}

/// What an all-to-all moves.
pub(super) fn payload(task: &Task) -> Payload {
    task.collective().expect("an all-to-all is a collective").payload
}
