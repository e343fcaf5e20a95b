//! All-to-alls of EP groups: MixNet section 5.3, member by member.
//!
//! A member begins when it arrives (and its circuits are up): it gathers onto its delegates, then
//! its flows start, whoever else has arrived. It is done when every sender has been heard of, its
//! last byte has arrived and been scattered, and its local part is done:
//!
//! ```text
//! start   = max(arrival, circuits up)
//! sent    = start + gather
//! inbound = max over senders (flow end + path latency; for no bytes, the sender's `sent`)
//! done    = max(sent + local, max(inbound, start) + scatter)
//! ```
//!
//! Gather, local and scatter each take the NVSwitch latency plus the bytes of the busiest GPU over
//! its rate, or nothing for no bytes. Sends need not end for a member to go on.

use super::policy::Gate;
use super::worker::{Step, Waiting};
use super::{Engine, Event, NORMAL, Owner, trace};
use crate::critical_path::CriticalPath;
use crate::fabric::Way;
use crate::ledger::Purpose;
use crate::lower::{self, Which};
use lightloom_model::{
    Carrier, Category, CollectivePlan, Duration, Task, TaskKind, Time, WorkerId,
};

/// A member of an all-to-all.
#[derive(Debug, Clone, Default)]
pub struct Member {
    /// When it reached the task, if it has.
    pub arrived: Option<Time>,
    /// When it could begin, if it has.
    start: Option<Time>,
    /// What led to `arrived`, then to `start`.
    pub path: CriticalPath,
    /// The part of the wait for `start` that is due to circuits.
    switching: Duration,
    /// Senders not yet heard of.
    senders_left: u32,
    /// Transfers announced and not yet arrived.
    inbound_left: u32,
    /// Last arrival so far, and its sender.
    inbound: Time,
    inbound_from: u32,
    done: bool,
}

/// An all-to-all that is going on.
#[derive(Debug, Clone, Default)]
pub struct Exchange {
    /// EP group.
    pub group: u32,
    /// Position in the program.
    pub position: u32,
    pub task: Option<Task>,
    pub members: Vec<Member>,
    /// When it may begin.
    pub gate: Gate,
    /// Members that have arrived.
    pub arrived: u32,
    /// The member that arrived last.
    pub latest: u32,
    planned: bool,
    plan: CollectivePlan,
    /// How much longer its transfers take than as fluids.
    stretch: f64,
    /// Members whose flows have started.
    dispatched: u32,
    /// Flows on their way.
    flows: u32,
    /// Whether all flows are over.
    over: bool,
    finished: u32,
    /// Sum of the members' arrival times, for the wait for stragglers.
    arrivals: u128,
}

/// What is known of an EP group.
#[derive(Debug, Clone, Default)]
pub struct Group {
    /// All-to-alls that some member has reached: at most two.
    pub active: Vec<u32>,
    /// Number of all-to-alls that are over.
    pub over: u32,
    /// What was decided for the next one before anybody reached it.
    pub gate: Option<Gate>,
    /// Per layer: the first of the all-to-alls that the last decision was for.
    pub decided: Option<u32>,
}

impl Engine<'_> {
    /// A worker reaches an all-to-all.
    pub(super) fn arrive(&mut self, id: WorkerId, task: &Task) -> Step {
        let members = self.graph.layout.members;
        if members == 1 {
            self.exchange_alone(id, task);
            return Step::Next;
        }
        let group = id / members;
        let number = self.exchange(group, self.workers[id as usize].next, task);
        let exchange = &mut self.exchanges[number];
        let member = &mut exchange.members[(id % members) as usize];
        member.arrived = Some(self.now);
        member.path = self.workers[id as usize].path;
        exchange.arrived += 1;
        exchange.latest = id % members;
        exchange.arrivals += u128::from(self.now.0);
        self.workers[id as usize].waiting = Waiting::Exchange;
        if exchange.gate == Gate::AllArrived && exchange.arrived == members {
            self.decide_blocked(number);
        } else if matches!(exchange.gate, Gate::Open { .. }) {
            self.begin(number, id % members);
        }
        Step::Wait
    }

    /// An all-to-all within one worker: only the local part.
    fn exchange_alone(&mut self, id: WorkerId, task: &Task) {
        let which = self.which(id, task);
        let mut demand = Vec::new();
        which.demand(&self.graph.blocks, &mut demand);
        let purpose = Purpose::of(task.category).expect("checked");
        self.ledger.inside(purpose, demand[0]);
        let duration = self.fabric.local_time(demand[0].div_ceil(u64::from(self.seats.gpus)));
        self.work(id, task, duration);
    }

    /// The all-to-all at this position of a group's program; set up if nobody was there before.
    fn exchange(&mut self, group: u32, position: u32, task: &Task) -> u32 {
        let known = self.groups[group as usize].active.iter().copied();
        for number in known {
            if self.exchanges[number].position == position {
                return number;
            }
        }
        let number = self.exchanges.take();
        let members = self.graph.layout.members;
        let gate = self.gate_for(group, task);
        let exchange = &mut self.exchanges[number];
        let mut plan = std::mem::take(&mut exchange.plan);
        plan.reset(members as usize);
        let mut list = std::mem::take(&mut exchange.members);
        list.clear();
        list.resize(members as usize, Member { senders_left: members - 1, ..Member::default() });
        *exchange = Exchange {
            group,
            position,
            task: Some(*task),
            members: list,
            gate,
            plan,
            ..Exchange::default()
        };
        self.groups[group as usize].active.push(number);
        number
    }

    /// A member that has arrived begins, now or when its circuits are up.
    pub(super) fn begin(&mut self, number: u32, place: u32) {
        self.plan(number);
        let exchange = &mut self.exchanges[number];
        let Gate::Open { from, ready, path } = exchange.gate else {
            unreachable!("only open exchanges begin")
        };
        let member = &mut exchange.members[place as usize];
        let arrived = member.arrived.expect("it has arrived");
        let start = arrived.max(ready);
        if from > arrived {
            // What was waited for is what led to the decision.
            member.path = path;
        }
        member.switching = start.since(arrived.max(from));
        member.path.charge(Category::Reconfiguration, member.switching);
        member.start = Some(start);
        let wait = member.switching;
        let gather = self.fabric.local_time(exchange.plan.gather[place as usize]);
        self.exposed += u128::from(wait.0);
        if start + gather > self.now {
            let event = Event::Dispatch { exchange: number, member: place };
            self.queue.push(start + gather, NORMAL, event);
        } else {
            self.dispatch(number, place);
        }
    }

    /// Sizes all steps, once per all-to-all, and takes the circuits into use.
    fn plan(&mut self, number: u32) {
        if self.exchanges[number].planned {
            return;
        }
        let (group, task) = {
            let exchange = &mut self.exchanges[number];
            exchange.planned = true;
            (exchange.group, exchange.task.expect("set up"))
        };
        let which = self.which(group * self.graph.layout.members, &task);
        let mut demand = Vec::new();
        which.demand(&self.graph.blocks, &mut demand);
        let (mut routed, mut ways) = (None, None);
        if let Some(circuits) = &mut self.circuits {
            let domain = circuits.of_group(group).expect("the group crosses servers");
            circuits.enter(domain);
            ways = circuits.relay(group, &demand);
            if ways.is_none() {
                routed = Some(circuits.route(group, &demand));
            }
        }
        let question = lower::Exchange {
            which,
            demand: &demand,
            circuits: routed.as_ref().map(|(eps, counts)| (eps.as_slice(), counts.as_slice())),
            ways: ways.as_deref(),
        };
        let plan = &mut self.exchanges[number].plan;
        self.planner.plan(&question, &self.graph.blocks, &self.seats, &self.fabric, plan);
        let purpose = Purpose::of(task.category).expect("checked");
        self.ledger.inside(purpose, plan.nvswitch_bytes);
        self.exchanges[number].stretch = self.stretch_of(number, purpose);
    }

    /// How much longer the transfers of an all-to-all take than as fluids, all begun together.
    fn stretch_of(&mut self, number: u32, purpose: Purpose) -> f64 {
        if self.phases.is_none() {
            return 1.0;
        }
        let exchange = &self.exchanges[number];
        let first_worker = exchange.group * self.graph.layout.members;
        let transfers = exchange.plan.transfers.iter().map(|transfer| {
            let ends = (first_worker + transfer.from, first_worker + transfer.to);
            let latency = self.fabric.propagation(self.servers(ends), transfer.carrier);
            (self.way(exchange.group, ends, transfer.carrier), transfer.bytes, latency)
        });
        let transfers: Vec<_> = transfers.collect();
        self.stretch(purpose, &transfers)
    }

    /// The way of a transfer of a group's all-to-all.
    fn way(&self, group: u32, ends: (WorkerId, WorkerId), carrier: Carrier) -> Way {
        let circuits = || self.circuits.as_ref().expect("circuits carry what takes them");
        match carrier {
            Carrier::Circuit => {
                let link = circuits().link(group, ends.0, ends.1);
                Way::Circuits(link.expect("bytes take circuits that may be"))
            }
            Carrier::Relay { .. } => {
                let eps = self.fabric.eps.as_ref().expect("an OCS has an EPS beside it");
                Way::Relayed(circuits().relay_links(group, ends, carrier, eps))
            }
            _ => self.fabric.way(self.servers(ends), carrier),
        }
    }

    /// The flows of a member start.
    pub(super) fn dispatch(&mut self, number: u32, place: u32) {
        let first_worker = self.exchanges[number].group * self.graph.layout.members;
        let purpose = self.purpose(number);
        for index in self.exchanges[number].plan.sent_by(place) {
            let transfer = self.exchanges[number].plan.transfers[index];
            let ends = (first_worker + place, first_worker + transfer.to);
            let (carrier, bytes) = (transfer.carrier, transfer.bytes);
            self.ledger.send(purpose, carrier, bytes);
            self.ledger.relay(purpose, bytes * self.fabric.relays(carrier));
            let token = Owner::Exchange(number, index as u32).token();
            let way = self.way(self.exchanges[number].group, ends, carrier);
            let exchange = &mut self.exchanges[number];
            self.fabric.start(self.now, bytes, exchange.stretch, &way, token);
            exchange.flows += 1;
            exchange.members[transfer.to as usize].inbound_left += 1;
        }
        let now = self.now;
        self.exchanges[number].dispatched += 1;
        for other in (0..self.graph.layout.members).filter(|&other| other != place) {
            let exchange = &mut self.exchanges[number];
            exchange.members[other as usize].senders_left -= 1;
            exchange.hear(other, place, now);
            self.settle(number, other);
        }
        self.settle(number, place);
        self.close(number, place);
    }

    /// A flow of an all-to-all has finished.
    pub(super) fn transfer_done(&mut self, number: u32, index: u32) {
        let exchange = &mut self.exchanges[number];
        let transfer = exchange.plan.transfers[index as usize];
        exchange.flows -= 1;
        exchange.members[transfer.to as usize].inbound_left -= 1;
        let first_worker = exchange.group * self.graph.layout.members;
        let servers = self.servers((first_worker + transfer.from, first_worker + transfer.to));
        let arrival = self.now + self.fabric.latency(servers, transfer.carrier);
        self.exchanges[number].hear(transfer.to, transfer.from, arrival);
        let purpose = self.purpose(number);
        self.ledger.receive(purpose, transfer.bytes);
        self.settle(number, transfer.to);
        self.close(number, transfer.from);
    }

    /// Releases a member if nothing is missing any more.
    fn settle(&mut self, number: u32, place: u32) {
        let exchange = &mut self.exchanges[number];
        let member = &exchange.members[place as usize];
        let Some(start) = member.start else { return };
        if member.done || member.senders_left > 0 || member.inbound_left > 0 {
            return;
        }
        let time = |bytes: &[u64]| self.fabric.local_time(bytes[place as usize]);
        let plan = &exchange.plan;
        let local = start + time(&plan.gather) + time(&plan.local);
        let scattered = member.inbound.max(start) + time(&plan.scatter);
        let done = local.max(scattered);
        let sender = &exchange.members[member.inbound_from as usize];
        let by_sender = scattered == done && member.inbound > start;
        let (origin, since) =
            if by_sender { (sender, sender.start) } else { (member, Some(start)) };
        let since = since.expect("a sender has begun");
        let task = exchange.task.expect("set up");
        let path = origin.path.extended(task.category, done.since(since));
        let (arrived, switching) = (member.arrived.expect("begun"), member.switching);
        let id = exchange.group * self.graph.layout.members + place;
        exchange.members[place as usize].done = true;
        exchange.finished += 1;
        let dark = Time(start.0 - switching.0);
        self.spend(id, &task, task.category, (arrived, dark));
        self.spend(id, &task, Category::Reconfiguration, (dark, start));
        self.spend(id, &task, task.category, (start, done));
        self.release(id, done, path);
    }

    /// Ends an all-to-all if its flows are over, the last of `sender`, and forgets it once all
    /// members are released.
    fn close(&mut self, number: u32, sender: u32) {
        let members = self.graph.layout.members;
        let exchange = &mut self.exchanges[number];
        if !exchange.over && exchange.dispatched == members && exchange.flows == 0 {
            exchange.over = true;
            let group = exchange.group;
            let (latest, task) = (exchange.latest, exchange.task.expect("set up"));
            let last = exchange.members[latest as usize].arrived.expect("all have arrived");
            self.straggler_wait += u128::from(last.0) * u128::from(members) - exchange.arrivals;
            let path = self.path_now(number, sender);
            self.trace.record(
                self.now,
                trace::EXCHANGE,
                &[u64::from(group), u64::from(task.layer), u64::from(task.micro_batch)],
            );
            self.groups[group as usize].over += 1;
            if let Some(circuits) = &mut self.circuits {
                let domain = circuits.of_group(group).expect("the group crosses servers");
                circuits.leave(domain);
                self.decide_next(group, path);
                self.decide_pending(domain);
            }
        }
        let exchange = &self.exchanges[number];
        if exchange.over && exchange.finished == members {
            let active = &mut self.groups[exchange.group as usize].active;
            active.retain(|&other| other != number);
            self.exchanges.free(number);
        }
    }

    /// What led to the end of an all-to-all's flows, now, the last of `sender`.
    fn path_now(&self, number: u32, sender: u32) -> CriticalPath {
        let exchange = &self.exchanges[number];
        let sender = &exchange.members[sender as usize];
        let start = sender.start.expect("all have begun");
        let category = exchange.task.expect("set up").category;
        sender.path.extended(category, self.now.since(start))
    }

    /// The all-to-all of a task of a worker's group.
    pub(super) fn which(&self, worker: WorkerId, task: &Task) -> Which {
        let TaskKind::AllToAll { block, transposed, bytes_per_token, .. } = task.kind else {
            unreachable!("only all-to-alls are exchanges")
        };
        let members = self.graph.layout.members;
        let group = worker / members;
        let first_worker = group * members;
        Which { group, first_worker, members, block, transposed, bytes_per_token }
    }

    fn servers(&self, (from, to): (WorkerId, WorkerId)) -> (u32, u32) {
        (self.seats.server[from as usize], self.seats.server[to as usize])
    }

    fn purpose(&self, number: u32) -> Purpose {
        let task = self.exchanges[number].task.expect("set up");
        Purpose::of(task.category).expect("checked")
    }
}

impl Exchange {
    /// Something from a sender arrives at a member.
    fn hear(&mut self, to: u32, from: u32, arrival: Time) {
        let member = &mut self.members[to as usize];
        if arrival > member.inbound {
            member.inbound = arrival;
            member.inbound_from = from;
        }
    }
}
