//! Ring collectives: n fluid flows and the latencies of their steps, not 2 n (n-1) flows.
//!
//! When the last member has joined: half of the part inside workers, then one flow per edge, then
//! the start-up latency, then the other half. The part inside of L bytes per GPU takes NVSwitch
//! latency plus L / GPU rate. What each edge carries, and in how many steps, is the kind's
//! ([`crate::collective`]), divided among the paths of the ring: one on a packet fabric; both
//! directions, and all cycles of the topology, on fixed circuits (see `fabric::rings`). In each
//! step a chunk crosses one edge, so over all steps the chain of chunks goes around the ring and
//! the start-up latency is steps times the mean latency of the edges, of the slowest path.

use super::completion::{self, End, Tasks};
use super::context::{Context, PhaseTransfer, Step, record};
use super::owner::{Event, Owner};
use super::streams::StreamId;
use crate::collective::Circulation;
use crate::critical_path::CriticalPath;
use crate::fabric::Way;
use crate::fabric::rings::RingWay;
use crate::index::Turn;
use crate::slab::Slab;
use lightloom_model::{
    Carrier, Collective, Duration, FamilyId, GroupId, Task, TaskIndex, TaskKind, Time, WorkerId,
};
use rustc_hash::FxHashMap;

/// Which ring: the collectives over a family that come before it tell those of a group apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
struct RingKey {
    family: FamilyId,
    group: GroupId,
    sequence: u32,
}

/// A ring collective that some members have joined.
#[derive(Debug, Default)]
struct Ring<'a> {
    key: RingKey,
    task: Option<&'a Task>,
    joined: u32,
    /// When the last member joined, and what led to that.
    begun: Time,
    path: CriticalPath,
    pieces_left: u32,
    /// Whether workers of one server are neighbors in it.
    has_local_edges: bool,
    /// End of the edges inside servers.
    local_edges: Time,
    startup: Duration,
    second_half: Duration,
    end: Option<End>,
    waiting: Vec<Waiter<'a>>,
    /// Streams that still have to take the end, as far as members have joined.
    takers: u32,
}

/// A stream that waits for a ring.
#[derive(Debug, Clone, Copy)]
struct Waiter<'a> {
    stream: StreamId,
    task: &'a Task,
    is_alongside: bool,
}

impl<'a> Ring<'a> {
    fn task(&self) -> &'a Task {
        self.task.expect("somebody joined")
    }

    fn collective(&self) -> &'a Collective {
        self.task().collective().expect("rings are joined by collectives")
    }
}

/// All ring collectives under way.
#[derive(Debug, Default)]
pub(super) struct Rings<'a> {
    entries: Slab<Ring<'a>>,
    known: FxHashMap<RingKey, u32>,
}

impl<'a> Rings<'a> {
    /// A stream joins a ring collective, and waits for it unless it is asynchronous.
    pub(super) fn join(
        &mut self,
        context: &mut Context<'a>,
        id: StreamId,
        Turn { position, task }: Turn<'a>,
    ) -> Step {
        let number = self.find(context, id, position, task);
        let stream = &context.streams[id];
        let (worker, path) = (stream.worker, stream.path.clone());
        let ring = &mut self.entries[number];
        ring.task = Some(task);
        let collective = ring.collective();
        let members = members(context, ring.key).len() as u32;
        ring.joined += 1;
        ring.takers += u32::from(!collective.asynchronous) + u32::from(task.handle.is_some());
        let inside = context.inside_bytes(collective.inside, worker);
        context.ledger.inside(context.purpose(task), inside);
        if ring.joined == members {
            ring.begun = context.now;
            ring.path = path;
            self.begin(context, number);
        }
        if collective.asynchronous {
            return Step::Next;
        }
        self.take_or_wait(context, number, Waiter { stream: id, task, is_alongside: false })
    }

    fn begin(&mut self, context: &mut Context<'a>, number: u32) {
        let ring = &mut self.entries[number];
        let members = members(context, ring.key);
        let inside = ring.collective().inside;
        let slowest = members.iter().map(|&member| context.inside_time(inside, member)).max();
        let whole = slowest.expect("a ring has members");
        if members.len() == 1 {
            self.finish(context, number, context.now + whole);
            return;
        }
        let first = Duration(whole.0 / 2);
        ring.second_half = whole - first;
        if first == Duration::ZERO {
            self.start_flows(context, number);
        } else {
            context.schedule(context.now + first, Event::RingFlows(number));
        }
    }

    /// Starts the flows of all edges.
    pub(super) fn start_flows(&mut self, context: &mut Context<'a>, number: u32) {
        let ring = &self.entries[number];
        let members = members(context, ring.key);
        let circulation = Circulation::new(ring.collective(), members.len());
        let is_closed = circulation.is_closed(members.len());
        let (task, root) = (ring.task(), members[0]);
        let mut longest = 0;
        let mut edges: Vec<(Way, u64)> = Vec::new();
        for mut way in context.fabric.ring_ways(&context.seats, members, circulation.edge_bytes) {
            if !is_closed {
                let first = way.order.iter().position(|&worker| worker == root);
                way.order.rotate_left(first.expect("every path has all members"));
            }
            let mut latencies = 0;
            for place in 0..circulation.edges as usize {
                let ends = (way.order[place], way.order[(place + 1) % way.order.len()]);
                let latency = self.take_edge(context, number, &way, ends, &mut edges);
                latencies = u64::saturating_add(latencies, latency.0);
            }
            if way.bytes > 0 {
                longest = longest.max(latencies);
            }
        }
        // Of each step the latency counts, of which one is on the path of the flows.
        let mean = Duration(longest / circulation.edges);
        let stretch = phase_stretch(context, task, &edges, mean);
        for (way, bytes) in &edges {
            context.start(way, *bytes, stretch, task.priority, Owner::Ring(number));
        }
        let ring = &mut self.entries[number];
        ring.pieces_left = edges.len() as u32;
        // All paths together send an edge's bytes from a worker to its neighbors on its server.
        let gpus = u64::from(context.seats.gpus);
        let own = context.fabric.local_time(circulation.edge_bytes.div_ceil(gpus));
        let local = if ring.has_local_edges { own } else { Duration::ZERO };
        let under_way = u64::from(context.fabric.medium.ends_on_arrival());
        let steps = u128::from(circulation.steps - under_way);
        let startup = u128::from(longest) * steps / u128::from(circulation.edges);
        ring.startup = Duration(u64::try_from(startup).unwrap_or(u64::MAX));
        ring.local_edges = context.now + local;
        if ring.pieces_left == 0 {
            self.edges_done(context, number);
        }
    }

    /// Notes what one path of a ring sends over one edge, adds its transfers to `edges` and returns
    /// its latency.
    fn take_edge(
        &mut self,
        context: &mut Context<'a>,
        number: u32,
        way: &RingWay,
        ends: (WorkerId, WorkerId),
        edges: &mut Vec<(Way, u64)>,
    ) -> Duration {
        let ring = &mut self.entries[number];
        let purpose = context.purpose(ring.task());
        let servers = context.servers(ends);
        let mut longest = Duration::ZERO;
        for piece in context.fabric.ring_pieces(&context.seats, ends, way) {
            context.note_sent(purpose, piece.carrier, piece.bytes);
            if piece.carrier == Carrier::Local {
                ring.has_local_edges = true;
                continue;
            }
            longest = longest.max(context.fabric.propagation(servers, piece.carrier));
            if piece.bytes > 0 {
                edges.push((context.fabric.way(servers, piece.carrier), piece.bytes));
            }
        }
        longest
    }

    /// A flow of a ring has finished.
    pub(super) fn piece_done(&mut self, context: &mut Context<'a>, number: u32) {
        self.entries[number].pieces_left -= 1;
        if self.entries[number].pieces_left == 0 {
            self.edges_done(context, number);
        }
    }

    fn edges_done(&mut self, context: &mut Context<'a>, number: u32) {
        let ring = &self.entries[number];
        let members = members(context, ring.key).len();
        let circulation = Circulation::new(ring.collective(), members);
        let bytes = circulation.edge_bytes * circulation.edges;
        context.ledger.receive(context.purpose(ring.task()), bytes);
        let edges = context.now.max(ring.local_edges);
        let done = edges + ring.startup + ring.second_half;
        self.finish(context, number, done);
    }

    fn finish(&mut self, context: &mut Context<'a>, number: u32, done: Time) {
        let ring = &mut self.entries[number];
        let task = ring.task();
        let path = ring.path.extended(task.category, done.since(ring.begun));
        ring.end = Some(End { began: ring.begun, done, path });
        let RingKey { family, group, sequence } = ring.key;
        let name = task.handle.map_or(sequence, |handle| handle.0);
        let ids = [u64::from(family.0), u64::from(group.0), u64::from(name)];
        let waiting = std::mem::take(&mut ring.waiting);
        context.hash.record(done, record::RING, &ids);
        for waiter in waiting {
            let end = self.entries[number].end.as_ref().expect("done");
            completion::release(context, waiter.stream, waiter.tasks(task), end);
            self.taken(context, number);
        }
    }

    /// Waits for a collective of the worker's own, unless it is done.
    pub(super) fn wait(
        &mut self,
        context: &mut Context<'a>,
        id: StreamId,
        waits: &'a Task,
        Turn { position, task: ended }: Turn<'a>,
    ) -> Step {
        let number = self.find(context, id, position, ended);
        let asynchronous = ended.collective().is_some_and(|collective| collective.asynchronous);
        let waiter = Waiter { stream: id, task: waits, is_alongside: asynchronous };
        self.take_or_wait(context, number, waiter)
    }

    fn take_or_wait(&mut self, context: &mut Context<'a>, number: u32, waiter: Waiter<'a>) -> Step {
        let ring = &mut self.entries[number];
        let Some(end) = &ring.end else {
            ring.waiting.push(waiter);
            return context.wait(waiter.stream);
        };
        completion::take(context, waiter.stream, waiter.tasks(ring.task()), end);
        self.taken(context, number);
        Step::Next
    }

    /// Forgets a ring once everybody has taken its end.
    fn taken(&mut self, context: &Context<'a>, number: u32) {
        let ring = &mut self.entries[number];
        ring.takers -= 1;
        if ring.takers == 0 && ring.joined as usize == members(context, ring.key).len() {
            self.known.remove(&ring.key);
            *ring = Ring::default();
            self.entries.free(number);
        }
    }

    /// Rings in use.
    pub(super) fn in_use(&self) -> usize {
        self.entries.in_use()
    }

    fn find(
        &mut self,
        context: &Context<'a>,
        id: StreamId,
        position: TaskIndex,
        task: &Task,
    ) -> u32 {
        let TaskKind::Collective(Collective { family: Some(family), .. }) = task.kind else {
            unreachable!("rings are over a family")
        };
        let stream = &context.streams[id];
        let group = context.index.membership(family, stream.worker).expect("checked").group;
        let sequence = context.index.roles[stream.role.index()].sequence[position.index()];
        let key = RingKey { family, group, sequence };
        let entries = &mut self.entries;
        *self.known.entry(key).or_insert_with(|| {
            let number = entries.take();
            entries[number].key = key;
            number
        })
    }
}

impl<'a> Waiter<'a> {
    fn tasks(&self, ended: &'a Task) -> Tasks<'a> {
        Tasks { waits: self.task, ended, is_alongside: self.is_alongside }
    }
}

fn members<'a>(context: &Context<'a>, key: RingKey) -> &'a [WorkerId] {
    context.graph.families[key.family.index()].members(key.group)
}

/// How much longer the edges of a ring take as packets than as fluids.
fn phase_stretch(
    context: &mut Context<'_>,
    task: &Task,
    edges: &[(Way, u64)],
    latency: Duration,
) -> f64 {
    if !context.stretches() {
        return 1.0;
    }
    let transfers =
        edges.iter().map(|(way, bytes)| PhaseTransfer { way: way.clone(), bytes: *bytes, latency });
    let transfers: Vec<PhaseTransfer> = transfers.collect();
    let purpose = context.purpose(task);
    context.stretch(purpose, &transfers)
}
