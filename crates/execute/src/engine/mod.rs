//! The run: one loop over events and completions of flows, in the order of time.
//!
//! At one instant, flows finish first, then events are processed by priority and sequence, then
//! streams that these released resume; a stream plays its tasks until it must wait for something
//! later. Each part of a run owns its state and is given the [`Context`] that all of them share:
//!
//! - `streams`: how far each stream of each worker has come;
//! - `accounts`: where time went;
//! - `completion`: ends of tasks that other streams wait for;
//! - `message`, `rings` (with `nvswitch`), `all_to_all`: what is under way between workers;
//! - `policy` (with `gate` and `horizon`): circuits, and when all-to-alls may begin on them.

mod accounts;
mod all_to_all;
mod completion;
mod context;
mod gate;
mod horizon;
mod message;
mod nvswitch;
mod owner;
mod policy;
mod rings;
mod streams;

use crate::circuits::Circuits;
use crate::circuits::Plugins;
use crate::demand::{knows_ranks, member_demand, rank_demand};
use crate::error::{ExecuteError, invalid};
use crate::fabric::Fabric;
use crate::implied;
use crate::in_flight::InFlightRecord;
use crate::index::{Index, Turn};
use crate::ledger::Ledger;
use crate::links::Links;
use crate::lower::Lowerer;
use crate::model::TransferModel;
use crate::network::Network;
use crate::options::Options;
use crate::outcome::{Outcome, RoleTimes};
use crate::packets::Place;
use crate::recording::{Recording, Waits};
use accounts::Accounts;
use all_to_all::AllToAlls;
use completion::{Completions, End};
use context::{Context, Step, Stretching, record};
use lightloom_kernel::{EventQueue, Interrupted, Observer, RunHash};
use lightloom_model::{
    Collective, CollectiveKind, Duration, GroupId, Payload, Role, ServerId, Task, TaskGraph,
    TaskKind, Time, WorkerId,
};
use message::Messages;
use owner::{Event, Owner};
use policy::Gating;
use rings::Rings;
use std::collections::BTreeSet;
use streams::{Stream, StreamId, Streams, Waiting};

/// No step may take longer: 53 days, a quarter of what 64 bits hold.
const LONGEST: Time = Time(1 << 62);

/// Events between two looks at the observer.
const CHECK_EVERY: u64 = 50_000;

/// Everything that changes during a run.
#[derive(Debug)]
pub(crate) struct Engine<'a> {
    context: Context<'a>,
    completions: Completions<'a>,
    messages: Messages<'a>,
    rings: Rings<'a>,
    all_to_alls: AllToAlls<'a>,
    gating: Gating<'a>,
    events: u64,
}

impl<'a> Engine<'a> {
    /// Sets everything up for a graph that was checked.
    pub(crate) fn new(
        graph: &'a TaskGraph,
        index: &'a Index,
        network: &'a Network,
        options: &Options,
        model: TransferModel<'a>,
    ) -> Result<Self, ExecuteError> {
        let placement = network.place(graph)?;
        let links = links(graph, network, &model, options)?;
        let mut fabric = Fabric::new(network, &placement, links)?;
        let spread = network.all_to_all;
        let step = implied::Step { graph, index, placement: &placement, fabric: &fabric, spread };
        let implied = step.implied_bytes()?;
        let circuits = Circuits::new(graph, network, options, &mut fabric.links)?;
        fabric.links.seal()?;
        let parts = network.parts.iter().map(|part| part.name());
        let lowerer = Lowerer::new(network);
        let recorded = !options.timeline_workers.is_empty();
        let context = Context {
            graph,
            index,
            placement,
            fabric,
            now: Time::ZERO,
            streams: Streams::new(index, recorded),
            accounts: Accounts::new(graph.workers(), graph.categories.len(), index.streams),
            ledger: Ledger::new(&index.purposes, &implied, parts),
            in_flight: recorded.then(|| InFlightRecord::new(index.purposes.len())),
            hash: RunHash::new(),
            queue: EventQueue::new(),
            stretching: stretching(model, index, network)?,
            waits: options.record_packets.then(Waits::default),
        };
        let mut engine = Self {
            completions: Completions::default(),
            messages: Messages::default(),
            rings: Rings::default(),
            all_to_alls: AllToAlls::new(graph, lowerer),
            gating: Gating::new(&context, circuits),
            context,
            events: 0,
        };
        engine.record_workers(options)?;
        Ok(engine)
    }

    fn record_workers(&mut self, options: &Options) -> Result<(), ExecuteError> {
        for &worker in &options.timeline_workers {
            if !self.context.accounts.record(worker) {
                let count = self.context.graph.workers();
                return Err(invalid(format!(
                    "a timeline is wanted of worker {worker}, there are {count}"
                )));
            }
            self.gating.record(&self.context, worker);
        }
        Ok(())
    }

    /// Uses what a user supplies instead of the built-in allocators and predictor.
    pub(crate) fn plug_in(&mut self, plugins: Plugins<'a>) {
        if let Some(circuits) = &mut self.gating.circuits {
            circuits.custom.plugins = plugins;
        }
    }

    /// Plays the step.
    pub(crate) fn run(mut self, observer: &mut dyn Observer) -> Result<Outcome, ExecuteError> {
        self.gating.begin(&mut self.context, &mut self.all_to_alls);
        self.resume();
        let mut done = Vec::new();
        let mut next_check = CHECK_EVERY;
        let mut tasks = 0;
        loop {
            let event = self.context.queue.peek().map(|(time, _)| time);
            let mut watch = |now: Time, _: u64| observer.progress(now, tasks);
            match (self.context.fabric.run_until(event, &mut done, &mut watch)?, event) {
                // Events of the last instant that 64 bits hold would cause others of it for ever.
                (Some(time), _) | (None, Some(time)) if time > LONGEST => return Err(too_long()),
                (Some(end), _) => {
                    self.context.now = end;
                    for token in done.drain(..) {
                        self.events += 1;
                        self.flow_done(Owner::of(token));
                    }
                    self.resume();
                }
                (None, Some(event)) => self.process_events(event),
                (None, None) => break,
            }
            self.check_plugins()?;
            if self.events >= next_check {
                next_check = self.events + CHECK_EVERY;
                tasks = self.context.streams.tasks_done();
                let now = self.context.now;
                if observer.progress(now, tasks).is_break() {
                    return Err(ExecuteError::Interrupted(Interrupted { now, done: tasks }));
                }
            }
        }
        self.finish(observer)
    }

    /// Ends the run if a custom allocator or predictor has failed.
    fn check_plugins(&mut self) -> Result<(), ExecuteError> {
        let circuits = self.gating.circuits.as_mut();
        let failure = circuits.and_then(|circuits| circuits.custom.failure.take());
        failure.map_or(Ok(()), Err)
    }

    /// Processes all events of an instant.
    fn process_events(&mut self, time: Time) {
        self.context.now = time;
        while let Some(event) = self.context.queue.pop_until(time) {
            self.events += 1;
            let context = &mut self.context;
            match event.payload {
                Event::Resume(stream) => context.streams.released.push(stream),
                Event::Dispatch { all_to_all, place } => {
                    self.all_to_alls.dispatch(context, all_to_all, place);
                    self.gating.process_over(context, &mut self.all_to_alls);
                }
                Event::Ring(ring) => self.rings.proceed(context, ring),
                Event::InsideDone { worker, generation } => {
                    self.rings.inside_done(context, worker, generation);
                }
                Event::CircuitsUp(region) => self.gating.circuits_up(context, region),
            }
            self.resume();
        }
    }

    /// Has released streams resume, in the order in which they were released.
    fn resume(&mut self) {
        let mut index = 0;
        while index < self.context.streams.released.len() {
            self.play(self.context.streams.released[index]);
            index += 1;
        }
        self.context.streams.released.clear();
    }

    fn flow_done(&mut self, owner: Owner) {
        let context = &mut self.context;
        match owner {
            Owner::AllToAll(number, transfer) => {
                self.all_to_alls.transfer_done(context, number, transfer);
                self.gating.process_over(context, &mut self.all_to_alls);
            }
            Owner::Message(message) => {
                self.messages.piece_done(context, &mut self.completions, message);
            }
            Owner::Ring(ring) => self.rings.piece_done(context, ring),
        }
    }

    /// Plays the tasks of a stream as far as they go.
    ///
    /// Tasks that nobody else notices only move the stream's own clock; tasks that start something
    /// are played at their time, so that everybody sees them in order.
    fn play(&mut self, id: StreamId) {
        let index = self.context.index;
        let tasks = self.context.tasks(id);
        loop {
            let stream = &mut self.context.streams[id];
            let Some(position) = stream.turn(index) else {
                stream.waiting = Waiting::Done;
                return;
            };
            let task = &tasks[position.index()];
            let is_noticed = starts_something(task)
                || index.has_rendezvous && matches!(task.kind, TaskKind::Receive { .. });
            if stream.at > self.context.now && is_noticed {
                let at = stream.at;
                self.context.schedule(at, Event::Resume(id));
                return;
            }
            if self.play_task(id, Turn { position, task }) == Step::Wait {
                return;
            }
            self.context.streams[id].next += 1;
        }
    }

    fn play_task(&mut self, id: StreamId, turn: Turn<'a>) -> Step {
        let task = turn.task;
        let context = &mut self.context;
        match &task.kind {
            TaskKind::Compute { duration } => {
                let worker = context.streams[id].worker;
                let duration = Duration(context.graph.amount(*duration, worker));
                self.do_alone(id, turn, duration);
                Step::Next
            }
            TaskKind::Collective(collective) => match meeting(context, id, collective) {
                Meeting::Nobody => {
                    let duration = inside(context, id, task, collective);
                    self.do_alone(id, turn, duration);
                    Step::Next
                }
                Meeting::AllToAll => {
                    let all_to_alls = &mut self.all_to_alls;
                    self.gating.arrive(context, all_to_alls, id, turn)
                }
                Meeting::Ring => self.rings.join(context, id, turn),
            },
            TaskKind::Send { .. } => {
                self.messages.send(context, &mut self.completions, id, turn);
                Step::Next
            }
            TaskKind::Receive { .. } => {
                self.messages.receive(context, &mut self.completions, id, task)
            }
            TaskKind::Wait { .. } => self.wait(id, turn),
        }
    }

    /// Waits for the task of a handle.
    fn wait(&mut self, id: StreamId, Turn { position, task: waits }: Turn<'a>) -> Step {
        let context = &mut self.context;
        let role = context.streams[id].role;
        let awaited = context.index.roles[role.index()].awaited[position.index()];
        let ended = &context.tasks(id)[awaited.index()];
        let turn = Turn { position: awaited, task: ended };
        match ended.collective().map(|collective| meeting(context, id, collective)) {
            Some(Meeting::AllToAll) => self.all_to_alls.wait(context, id, waits, turn),
            Some(Meeting::Ring) => self.rings.wait(context, id, waits, turn),
            Some(Meeting::Nobody) | None => self.completions.wait(context, id, waits, turn),
        }
    }

    /// A stream does a task for which it needs nobody else.
    fn do_alone(&mut self, id: StreamId, turn: Turn<'a>, duration: Duration) {
        let (context, task) = (&mut self.context, turn.task);
        let began = context.streams[id].at;
        let is_alongside = task.collective().is_some_and(|collective| collective.asynchronous);
        if !is_alongside {
            context.work(id, task, duration);
        }
        if task.handle.is_some() {
            let mut path = context.streams[id].path.clone();
            if is_alongside {
                path.charge(task.category, duration);
            }
            let late = (began, began);
            let end = End { began, together: began, done: began + duration, late, path };
            self.completions.complete(context, id, turn, end);
        }
    }

    /// Checks that everything is done and adds it up.
    fn finish(mut self, observer: &mut dyn Observer) -> Result<Outcome, ExecuteError> {
        self.check_plugins()?;
        self.check_all_done()?;
        self.context.ledger.check()?;
        let streams = &self.context.streams;
        let end = streams.iter().map(|stream| stream.at).max().unwrap_or(Time::ZERO);
        if end > LONGEST {
            return Err(too_long());
        }
        let categories = self.context.graph.categories.len();
        let last = streams.iter().find(|stream| stream.at == end);
        let critical_spans = last.map(|stream| stream.path.spans()).unwrap_or_default();
        let critical_path = last.map(|stream| stream.path.by_category(categories));
        let critical_path = critical_path.unwrap_or_else(|| vec![0; categories]);
        let explained: u64 = critical_path.iter().sum();
        assert_eq!(explained, end.0, "the critical path explains the step time");
        let roles = self.role_times(end);
        let mut links = self.context.fabric.link_use(end);
        let members = self.gating.members(&self.context) as u128;
        let mut circuits = self.gating.end(&self.context, end);
        links.append(&mut circuits.links);
        circuits.statistics.exposed.0 = (self.all_to_alls.exposed / members) as u64;
        let mut context = self.context;
        let ends = context.streams.iter().map(|stream| stream.path.moment).collect();
        let sent = context.fabric.links.sent_packets();
        let waits = context.waits.take();
        let recording = waits.zip(sent).map(|(waits, sent)| Recording::new(waits, ends, sent));
        let (turns, circuit_turns) = context.fabric.links.end_turns();
        let hops = context.fabric.links.packet_hops(observer)?;
        Ok(Outcome {
            step: end.since(Time::ZERO),
            run_hash: context.hash.digest(),
            events: self.events,
            flows: context.fabric.started,
            tasks: context.streams.tasks_done(),
            categories: context.graph.categories.iter().map(|one| one.name.clone()).collect(),
            roles,
            critical_path,
            straggler_wait: self.all_to_alls.straggler_wait,
            late: context.accounts.late().to_vec(),
            ledger: context.ledger,
            in_flight: context.in_flight.map(|record| record.finish(end)).unwrap_or_default(),
            circuits: circuits.statistics,
            links,
            timeline: context.accounts.timeline,
            critical_spans,
            circuit_timeline: circuits.timeline,
            snapshots: self.gating.snapshots,
            decisions: circuits.decisions,
            turns,
            circuit_turns,
            packet_hops: hops.all,
            simulated_hops: hops.simulated,
            recording: recording.map(Box::new),
            flow_statistics: context.fabric.links.flow_statistics(),
        })
    }

    /// Adds up by role what the main streams of its workers did until the end of the step.
    fn role_times(&mut self, end: Time) -> Vec<RoleTimes> {
        let context = &mut self.context;
        let empty = |role: &Role| RoleTimes {
            name: role.name.clone(),
            workers: role.workers.len() as u32,
            spent: vec![0; context.graph.categories.len()],
        };
        let mut roles: Vec<RoleTimes> = context.graph.roles.iter().map(empty).collect();
        for (worker, streams) in context.streams.by_worker().enumerate() {
            let main = &streams[0];
            let own = context.accounts.of(main.worker);
            let rest = end.since(main.at).0;
            let total = own.iter().sum::<u64>() + rest;
            assert_eq!(total, end.0, "worker {worker}: every moment is spent on something");
            let sums = &mut roles[main.role.index()].spent;
            for (sum, part) in sums.iter_mut().zip(own) {
                *sum = sum.saturating_add(*part);
            }
            let idle = &mut sums[context.index.idle.index()];
            *idle = idle.saturating_add(rest);
            let done: u64 = streams.iter().map(|stream| u64::from(stream.next)).sum();
            let at = streams.iter().map(|stream| stream.at).max().expect("a main stream");
            context.hash.record(at, record::WORKER, &[worker as u64, done]);
        }
        roles
    }

    fn check_all_done(&self) -> Result<(), ExecuteError> {
        let streams = &self.context.streams;
        let is_stuck = |stream: &&Stream| stream.waiting != Waiting::Done;
        let Some(first) = streams.iter().find(is_stuck) else {
            let collectives = self.rings.in_use() + self.all_to_alls.in_use();
            let left = self.messages.in_use() + self.completions.in_use() + collectives;
            assert_eq!(left, 0, "something is left over although all workers are done");
            return Ok(());
        };
        if self.context.fabric.links.is_busy() {
            // Flows that would end beyond the largest time never do.
            return Err(too_long());
        }
        let (graph, index) = (self.context.graph, self.context.index);
        let role = &graph.roles[first.role.index()];
        let position = first.turn(index).expect("a stuck stream is at a task");
        let count = streams.by_worker().filter(|all| all.iter().any(|s| is_stuck(&s))).count();
        let stream = match index.streams {
            1 => String::new(),
            _ => format!(", stream {}", first.number),
        };
        Err(ExecuteError::Deadlock(format!(
            "deadlock at {} s: worker {} (role '{}'{stream}) waits at task {position}, {}; {count} \
             of {} workers are stuck",
            self.context.now.as_seconds(),
            first.worker,
            role.name,
            self.describe(first.worker, &role.tasks[position.index()]),
            graph.workers(),
        )))
    }

    /// What a task waits for.
    fn describe(&self, worker: WorkerId, task: &Task) -> String {
        let (graph, index) = (self.context.graph, self.context.index);
        match task.kind {
            TaskKind::Receive { peer, tag } => {
                let from = index.peer(graph, worker, peer).expect("checked");
                format!("the receive of tag {tag} from worker {from}")
            }
            TaskKind::Wait { handle, .. } => format!("the wait for handle {handle}"),
            TaskKind::Collective(Collective { kind, family: Some(family), .. }) => {
                let (kind, family) = (kind.name(), &graph.families[family.index()].name);
                format!("{kind} over family '{family}' that not all members reach")
            }
            _ => "ready to resume".into(),
        }
    }
}

/// Whom a collective joins.
enum Meeting {
    /// Only the GPUs of the worker.
    Nobody,
    /// The members of an all-to-all.
    AllToAll,
    /// The members of a ring.
    Ring,
}

fn meeting(context: &Context<'_>, id: StreamId, collective: &Collective) -> Meeting {
    let Some(family) = collective.family else { return Meeting::Nobody };
    if collective.kind != CollectiveKind::AllToAll {
        return Meeting::Ring;
    }
    let here = context.index.membership(family, context.streams[id].worker).expect("checked");
    match context.graph.families[family.index()].members(here.group).len() {
        1 => Meeting::Nobody,
        _ => Meeting::AllToAll,
    }
}

/// How long a collective among the GPUs of a worker takes; notes its bytes.
fn inside(context: &mut Context<'_>, id: StreamId, task: &Task, own: &Collective) -> Duration {
    let worker = context.streams[id].worker;
    let (bytes, duration) = match own.family {
        None => (context.inside_bytes(own.inside, worker), context.inside_time(own.inside, worker)),
        Some(family) => {
            let here = context.index.membership(family, worker).expect("checked");
            let mut demand = Vec::new();
            member_demand(context.graph, own.payload, here.group, 1, &mut demand);
            let busiest = busiest_gpu(context, own.payload, here.group, demand[0]);
            (demand[0], context.fabric.nvswitch().all_to_all.time(busiest, 0))
        }
    };
    context.ledger.inside(context.purpose(task), bytes);
    duration
}

/// Bytes in or out of a GPU of the busiest rank of a group on one worker, of so many in all; equal
/// parts where counts between ranks are not known.
fn busiest_gpu(context: &Context<'_>, payload: Payload, group: GroupId, bytes: u64) -> u64 {
    let (ranks, gpus) = (context.placement.ranks, context.placement.gpus);
    if ranks <= 1 || !knows_ranks(context.graph, payload) {
        return bytes.div_ceil(u64::from(gpus));
    }
    let mut demand = Vec::new();
    rank_demand(context.graph, payload, group, 1, ranks, &mut demand);
    let size = ranks as usize;
    let mut received = vec![0; size];
    let mut busiest = 0;
    for row in demand.chunks_exact(size) {
        busiest = busiest.max(row.iter().sum());
        for (sum, &bytes) in received.iter_mut().zip(row) {
            *sum += bytes;
        }
    }
    busiest = received.into_iter().fold(busiest, u64::max);
    (busiest * u64::from(ranks)).div_ceil(u64::from(gpus))
}

/// Whether others may notice that a task starts.
fn starts_something(task: &Task) -> bool {
    match &task.kind {
        TaskKind::Send { .. } => true,
        TaskKind::Collective(collective) => collective.family.is_some(),
        TaskKind::Compute { .. } | TaskKind::Receive { .. } | TaskKind::Wait { .. } => false,
    }
}

/// What is known of the packets of a model; nothing where there are no queues to know of.
fn stretching<'a>(
    model: TransferModel<'a>,
    index: &Index,
    network: &Network,
) -> Result<Option<Stretching<'a>>, ExecuteError> {
    let TransferModel::Phases(book) = model else { return Ok(None) };
    if network.turn_rules().is_some() {
        return Ok(None);
    }
    let purposes = book.enter_purposes(&index.purposes)?;
    Ok(Some(Stretching { book, purposes }))
}

/// The links of this model, without any yet. Circuits that take turns have no queues, so that
/// packets take the same time over them as fluids.
fn links(
    graph: &TaskGraph,
    network: &Network,
    model: &TransferModel<'_>,
    options: &Options,
) -> Result<Links, ExecuteError> {
    if let Some(rules) = network.turn_rules() {
        return Ok(Links::turns(rules.clone(), options.record_decisions));
    }
    let TransferModel::Packets(packets) = model else { return Ok(Links::flows()) };
    let tasks = graph.roles.iter().flat_map(|role| &role.tasks);
    let priorities: BTreeSet<u8> =
        tasks.filter(|it| starts_something(it)).map(|it| it.priority.0).collect();
    let priorities: Vec<u8> = priorities.into_iter().collect();
    let fabric = network.packet_fabric();
    let place = |server| fabric.map_or(Place::default(), |fabric| fabric.place(ServerId(server)));
    let places: Vec<Place> = (0..network.servers).map(place).collect();
    let mut links = network.packet_links(&places, packets, &priorities)?;
    if options.record_packets {
        links.record_packets();
    }
    Ok(links)
}

fn too_long() -> ExecuteError {
    invalid("the step takes over 53 days of simulated time: check rates, sizes and durations")
}
