//! The run: one loop over events and completions of flows, in the order of time.
//!
//! At one instant, flows finish first, then events happen by priority and sequence, then workers
//! that these released go on; a worker plays its program until it must wait for something later.

mod exchange;
mod horizon;
mod message;
mod policy;
mod ring;
mod worker;

use crate::check::{Index, check, implied_bytes};
use crate::circuits::Circuits;
use crate::circuits::custom::Plugins;
use crate::circuits::record::Decisions;
use crate::critical_path::CriticalPath;
use crate::error::{ExecuteError, invalid};
use crate::fabric::{Fabric, Way};
use crate::ledger::Ledger;
use crate::ledger::Purpose;
use crate::lower::Planner;
use crate::medium::Medium;
use crate::model::Model;
use crate::outcome::{Options, Outcome};
use crate::packets::{PacketNetwork, Place};
use crate::phases::PhaseBook;
use crate::seats::Seats;
use crate::slab::Slab;
use crate::timeline::{Snapshot, Timeline};
use exchange::{Exchange, Group};
use lightloom_kernel::{EventQueue, Interrupted, Observer, RunHash};
use lightloom_model::{AllToAll, Category, Duration, Network, TaskGraph, Time, WorkerId};
use message::Message;
use ring::Ring;
use rustc_hash::FxHashMap;
use worker::{Waiting, Worker};

/// No step may take longer: 53 days, a quarter of what 64 bits hold.
const LONGEST: Time = Time(1 << 62);

/// Events between two looks at the observer.
const CHECK_EVERY: u64 = 50_000;

/// What happens at a time known beforehand.
#[derive(Debug, Clone, Copy)]
pub enum Event {
    /// A worker reaches a task that others may notice.
    Resume(WorkerId),
    /// A member of an all-to-all has gathered: its flows start.
    Dispatch { exchange: u32, member: u32 },
    /// The local half of a ring collective is done: its flows start.
    RingFlows(u32),
    /// New circuits of a region are up.
    CircuitsUp(u32),
}

/// Circuits come up before anything that waits for them.
const FIRST: u8 = 0;
const NORMAL: u8 = 1;

/// Kinds of trace records.
mod trace {
    pub const TASK: u32 = 0;
    pub const EXCHANGE: u32 = 1;
    pub const MESSAGE: u32 = 2;
    pub const RING: u32 = 3;
    pub const CIRCUITS: u32 = 4;
    pub const WORKER: u32 = 5;
}

/// Who gets to know that a flow has finished, packed into the flow's token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// An all-to-all, and the number of the transfer in its plan.
    Exchange(u32, u32),
    /// A pipeline send.
    Message(u32),
    /// A ring collective.
    Ring(u32),
}

impl Owner {
    fn token(self) -> u64 {
        let pack = |kind: u64, id: u32, part: u32| {
            assert!(id < 1 << 30, "2^30 collectives at once");
            kind << 62 | u64::from(id) << 32 | u64::from(part)
        };
        match self {
            Self::Exchange(id, transfer) => pack(0, id, transfer),
            Self::Message(id) => pack(1, id, 0),
            Self::Ring(id) => pack(2, id, 0),
        }
    }

    fn of(token: u64) -> Self {
        let id = (token >> 32) as u32 & ((1 << 30) - 1);
        match token >> 62 {
            0 => Self::Exchange(id, token as u32),
            1 => Self::Message(id),
            _ => Self::Ring(id),
        }
    }
}

/// Everything that changes during a run.
#[derive(Debug)]
pub struct Engine<'a> {
    graph: &'a TaskGraph,
    index: Index,
    seats: Seats,
    fabric: Fabric,
    circuits: Option<Circuits<'a>>,
    /// What is known of packets, where flows stand for them.
    phases: Option<&'a mut PhaseBook>,
    planner: Planner,
    queue: EventQueue<Event>,
    now: Time,
    pub(crate) workers: Vec<Worker>,
    /// Workers that may go on.
    released: Vec<WorkerId>,
    groups: Vec<Group>,
    exchanges: Slab<Exchange>,
    messages: Slab<Message>,
    message_of: FxHashMap<(WorkerId, u32, u32), u32>,
    rings: Slab<Ring>,
    ring_of: FxHashMap<(u32, u32, u32), u32>,
    ledger: Ledger,
    pub(crate) timeline: Timeline,
    snapshots: Vec<Snapshot>,
    straggler_wait: u128,
    exposed: u128,
    trace: RunHash,
    events: u64,
}

impl<'a> Engine<'a> {
    /// Checks the input and sets everything up.
    pub(crate) fn new(
        graph: &'a TaskGraph,
        network: &'a Network,
        options: &Options,
        model: Model<'a>,
    ) -> Result<Self, ExecuteError> {
        let index = check(graph, network)?;
        let seats = Seats::new(graph, network)?;
        let medium = match &model {
            Model::Packets(packets) => {
                let eps = network.eps.as_ref();
                let places: Vec<_> =
                    (0..network.servers).map(|server| Place::of(server, eps)).collect();
                Medium::packets(PacketNetwork::new(network, &places, packets)?)
            }
            Model::Flows | Model::Phases(_) => Medium::flows(),
        };
        let mut fabric = Fabric::new(network, &seats, medium)?;
        let by_rank = network.all_to_all != AllToAll::Hierarchical;
        let implied = implied_bytes(graph, &seats, &fabric, by_rank)?;
        let mut circuits = Circuits::new(graph, network, options, &mut fabric.medium)?;
        fabric.medium.seal()?;
        let mut workers = vec![Worker::default(); graph.layout.workers()];
        for &worker in &options.timeline_workers {
            let Some(entry) = workers.get_mut(worker as usize) else {
                let count = graph.layout.workers();
                return Err(invalid(format!(
                    "a timeline is asked for worker {worker}, there are {count}"
                )));
            };
            entry.recorded = true;
            if let Some(circuits) = &mut circuits {
                circuits.record(graph.layout.group_of(worker));
            }
        }
        let nics = network.eps.as_ref().map_or(1, |eps| eps.nics);
        let groups = graph.layout.workers() / graph.layout.members as usize;
        Ok(Self {
            graph,
            index,
            seats,
            fabric,
            circuits,
            phases: match model {
                Model::Phases(book) => Some(book),
                Model::Flows | Model::Packets(_) => None,
            },
            planner: Planner::new(network.all_to_all, nics),
            queue: EventQueue::new(),
            now: Time::ZERO,
            workers,
            released: Vec::new(),
            groups: vec![Group::default(); groups],
            exchanges: Slab::default(),
            messages: Slab::default(),
            message_of: FxHashMap::default(),
            rings: Slab::default(),
            ring_of: FxHashMap::default(),
            ledger: Ledger { implied, ..Ledger::default() },
            timeline: Timeline::default(),
            snapshots: Vec::new(),
            straggler_wait: 0,
            exposed: 0,
            trace: RunHash::new(),
            events: 0,
        })
    }

    /// Uses what a user supplies instead of the built-in allocators and predictor.
    pub(crate) fn plug_in(&mut self, plugins: Plugins<'a>) {
        if let Some(circuits) = &mut self.circuits {
            circuits.custom.plugins = plugins;
        }
    }

    /// Plays the step.
    pub(crate) fn run(mut self, observer: &mut dyn Observer) -> Result<Outcome, ExecuteError> {
        for group in 0..self.groups.len() as u32 {
            self.decide_next(group, CriticalPath::default());
        }
        for worker in 0..self.workers.len() as u32 {
            self.released.push(worker);
        }
        self.go_on()?;
        let mut done = Vec::new();
        let mut next_check = CHECK_EVERY;
        let mut tasks = 0;
        loop {
            let event = self.queue.peek().map(|(time, _)| time);
            let mut watch = |now: Time, _: u64| observer.progress(now, tasks);
            match (self.fabric.medium.run_until(event, &mut done, &mut watch)?, event) {
                (Some(end), _) => {
                    self.now = end;
                    for token in done.drain(..) {
                        self.events += 1;
                        self.flow_done(Owner::of(token));
                    }
                    self.go_on()?;
                }
                (None, Some(event)) => self.happen(event)?,
                (None, None) => break,
            }
            if self.now > LONGEST {
                return Err(too_long());
            }
            self.check_plugins()?;
            if self.events >= next_check {
                next_check = self.events + CHECK_EVERY;
                tasks = self.tasks_done();
                if observer.progress(self.now, tasks).is_break() {
                    let stopped = Interrupted { now: self.now, done: tasks };
                    return Err(ExecuteError::Interrupted(stopped));
                }
            }
        }
        self.finish()
    }

    /// Ends the run if a custom allocator or predictor has failed.
    fn check_plugins(&mut self) -> Result<(), ExecuteError> {
        let failure = self.circuits.as_mut().and_then(|circuits| circuits.custom.failure.take());
        failure.map_or(Ok(()), Err)
    }

    /// Handles all events of an instant.
    fn happen(&mut self, time: Time) -> Result<(), ExecuteError> {
        self.now = time;
        while let Some(event) = self.queue.pop_until(time) {
            self.events += 1;
            match event.payload {
                Event::Resume(worker) => self.released.push(worker),
                Event::Dispatch { exchange, member } => self.dispatch(exchange, member),
                Event::RingFlows(ring) => self.start_ring_flows(ring),
                Event::CircuitsUp(region) => {
                    let circuits = self.circuits.as_mut().expect("only circuits come up");
                    circuits.finish(region, time, &mut self.fabric.medium);
                    self.trace.record(time, trace::CIRCUITS, &[u64::from(region)]);
                    self.decide_pending(region);
                }
            }
            self.go_on()?;
        }
        Ok(())
    }

    /// Lets released workers play on, in the order in which they were released.
    fn go_on(&mut self) -> Result<(), ExecuteError> {
        let mut index = 0;
        while index < self.released.len() {
            self.play(self.released[index])?;
            index += 1;
        }
        self.released.clear();
        Ok(())
    }

    /// How much longer transfers of packets that begin together take than as fluids; 1 unless it
    /// is known or asked for.
    fn stretch(&mut self, purpose: Purpose, transfers: &[(Way, u64, Duration)]) -> f64 {
        let Some(book) = &mut self.phases else { return 1.0 };
        let fabric = &self.fabric;
        let links =
            transfers.iter().map(|(way, bytes, latency)| (fabric.links(way), *bytes, *latency));
        book.stretch(purpose, &fabric.medium, links)
    }

    fn flow_done(&mut self, owner: Owner) {
        match owner {
            Owner::Exchange(exchange, transfer) => self.transfer_done(exchange, transfer),
            Owner::Message(message) => self.message_piece_done(message),
            Owner::Ring(ring) => self.ring_piece_done(ring),
        }
    }

    fn tasks_done(&self) -> u64 {
        self.workers.iter().map(|worker| u64::from(worker.next)).sum()
    }

    /// Checks that everything is done and adds it up.
    fn finish(mut self) -> Result<Outcome, ExecuteError> {
        self.check_plugins()?;
        self.check_all_done()?;
        self.ledger.check()?;
        let end = self.workers.iter().map(|worker| worker.at).max().unwrap_or(Time::ZERO);
        if end > LONGEST {
            return Err(too_long());
        }
        let last = self.workers.iter().find(|worker| worker.at == end);
        let critical_path = last.map(|worker| worker.path).unwrap_or_default();
        assert_eq!(critical_path.total(), end.0, "the critical path explains the step time");
        let stages = self.graph.programs.len();
        let per_stage = self.workers.len() / stages;
        let mut spent = vec![CriticalPath::default(); stages];
        for (id, worker) in self.workers.iter().enumerate() {
            let mut own = worker.spent;
            own.charge(Category::Bubble, end.since(worker.at));
            assert_eq!(own.total(), end.0, "worker {id}: every moment is spent on something");
            for (sum, part) in spent[id / per_stage].0.iter_mut().zip(own.0) {
                *sum += part;
            }
            self.trace.record(worker.at, trace::WORKER, &[id as u64, u64::from(worker.next)]);
        }
        let mut links = self.fabric.link_use(end);
        let mut circuit_statistics = crate::outcome::CircuitStatistics::default();
        let mut circuit_timeline = crate::timeline::CircuitTimeline::default();
        let mut decisions = Decisions::default();
        if let Some(mut circuits) = self.circuits.take() {
            links.push(circuits.end(end, &self.fabric.medium));
            links.extend(circuits.relay_use(end, &self.fabric.medium));
            circuit_statistics = circuits.statistics;
            let members = u128::from(self.graph.layout.members);
            circuit_statistics.exposed.0 = (self.exposed / members) as u64;
            circuit_timeline = std::mem::take(&mut circuits.timeline);
            decisions = circuits.take_records();
        }
        Ok(Outcome {
            step: end.since(Time::ZERO),
            trace_hash: self.trace.digest(),
            events: self.events,
            flows: self.fabric.started,
            tasks: self.tasks_done(),
            spent,
            workers_per_stage: per_stage as u32,
            critical_path,
            straggler_wait: self.straggler_wait,
            ledger: self.ledger,
            circuits: circuit_statistics,
            links,
            timeline: self.timeline,
            circuit_timeline,
            snapshots: self.snapshots,
            decisions,
            packet_hops: self.fabric.medium.packet_hops(),
            flow_statistics: self.fabric.medium.flow_statistics(),
        })
    }

    fn check_all_done(&self) -> Result<(), ExecuteError> {
        let stuck = |worker: &&Worker| worker.waiting != Waiting::Done;
        let Some(first) = self.workers.iter().find(stuck) else {
            let left = self.messages.in_use() + self.rings.in_use() + self.exchanges.in_use();
            assert_eq!(left, 0, "collectives are left over although all workers are done");
            return Ok(());
        };
        if self.fabric.medium.is_busy() {
            // Flows that would end beyond the largest time never do.
            return Err(too_long());
        }
        let count = self.workers.iter().filter(stuck).count();
        let id = self.workers.iter().position(|worker| std::ptr::eq(worker, first)).unwrap_or(0);
        let layout = &self.graph.layout;
        let stage = layout.stage_of(id as u32);
        let place = id as u32 % (layout.replicas * layout.members);
        Err(ExecuteError::Deadlock(format!(
            "deadlock at {} s: worker {id} (stage {stage}, replica {}, member {}) waits at task \
             {}, {}; {count} of {} workers are stuck",
            self.now.as_seconds(),
            place / layout.members,
            place % layout.members,
            first.next,
            first.waiting.describe(),
            self.workers.len(),
        )))
    }
}

fn too_long() -> ExecuteError {
    invalid("the step takes over 53 days of simulated time: check rates, sizes and durations")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_name_their_owner() {
        for owner in [
            Owner::Exchange(7, u32::MAX),
            Owner::Exchange((1 << 30) - 1, 0),
            Owner::Message(9),
            Owner::Ring(11),
        ] {
            assert_eq!(Owner::of(owner.token()), owner);
        }
    }
}
