//! Ring collectives: n fluid flows and the latencies of their steps, not 2 n (n-1) flows.
//!
//! A group of a family is a communicator: its collectives run one after another, in the order in
//! which all members have reached them, as those of NCCL do. When its turn comes, the part inside
//! workers and one flow per edge begin; when the last of them has ended, the start-up latency is
//! left: a ring over all GPUs of several servers keeps NVSwitch and NICs busy at once. The part
//! inside of L bytes per GPU takes L / GPU rate, unless rings of other communicators are inside the
//! same worker ([`super::nvswitch`]); across workers, flows share links. What each edge carries,
//! and in how many steps, is the kind's ([`crate::collective`]), divided among the orders of the
//! ring: one on a packet fabric; both directions, and all cycles of the topology, on fixed circuits
//! (see `parts::cycles`). In each
//! step a chunk crosses one edge, so over all steps the chain of chunks goes around the ring and
//! the start-up latency is steps times the mean latency of the edges, and of the start-up of a
//! message over those between servers, of the slowest order, after each of which a chunk hops from
//! GPU to GPU inside the worker. Chunks that leave or arrive over NICs of other GPUs are copied as
//! those of messages are.
//!
//! An all-reduce over several GPUs of each worker is a tree where that ends sooner: twice the depth
//! of it in steps, at 0.92 of the ring's bandwidth (NCCL 2.30, `src/graph/tuning.cc`). Where
//! switches of servers add up, they may do so inside workers, and a tree joins those
//! ([`crate::ways`]).

use super::accounts::Span;
use super::completion::{self, End, Tasks};
use super::context::{Context, Step, record};
use super::nvswitch::NvSwitches;
use super::owner::{Event, Owner};
use super::streams::StreamId;
use crate::collective::Circulation;
use crate::critical_path::CriticalPath;
use crate::index::Turn;
use crate::network::{Division, Pair, PartId, RingOrder, Share};
use crate::recording::Moment;
use crate::slab::Slab;
use crate::turns::Together;
use crate::ways::{Group, Way, tree_excess, tree_steps};
use lightloom_model::{
    Collective, CollectiveKind, Duration, FamilyId, GroupId, Task, TaskIndex, TaskKind, Time,
    WorkerId,
};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// Which ring: the collectives over a family that come before it tell those of a group apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
struct RingKey {
    family: FamilyId,
    group: GroupId,
    sequence: u32,
}

/// How far a ring has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Stage {
    /// Not all members have joined it, or earlier rings of its communicator are not done.
    #[default]
    Pending,
    /// Flows over its edges and the parts inside workers.
    Bytes,
    /// What software and latencies take beyond that.
    StartUp,
}

/// A ring collective that some members have joined.
#[derive(Debug, Default)]
struct Ring<'a> {
    key: RingKey,
    task: Option<&'a Task>,
    joined: u32,
    /// When the last member joined, and what led to that.
    complete: Time,
    path: CriticalPath,
    /// When its turn came.
    began: Time,
    /// From when to when its edges wait for members that are late at random.
    late: Span,
    stage: Stage,
    /// Flows, or parts inside workers, that are not done.
    pieces_left: u32,
    /// Whether workers of one server are neighbors in it.
    has_local_edges: bool,
    /// How long copies to and from other GPUs take, of the busiest edge between servers.
    copies: Duration,
    /// End of the edges inside servers, and of copies.
    local_edges: Time,
    startup: Duration,
    /// What its begin waits for, then that, then what the end of its bytes waits for.
    waits: Vec<Moment>,
    begin: Moment,
    /// How bytes go.
    way: Way,
    /// The start-up of a tree, where it may end sooner.
    tree: Option<Duration>,
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

    /// Adds what the steps between members take, of which any number `take` so long.
    fn add_steps(&mut self, context: &Context<'a>, steps: u64, take: impl Fn(u64) -> Duration) {
        let collective = *self.collective();
        let peers = u64::from(collective.inside.peers);
        let hops = |count: u64| context.fabric.nvswitch().gather.hops(count);
        let inside = self.startup;
        let tree = || inside + take(tree_steps(steps / 2 + 1));
        match self.way {
            Way::Ring => {
                self.startup = inside + take(steps) + hops(steps.saturating_mul(peers));
                let is_reduced = collective.kind == CollectiveKind::AllReduce;
                if is_reduced && peers > 0 && context.fabric.joins_all() {
                    self.tree = Some(tree() + hops(peers));
                }
            }
            Way::Pair => self.startup = tree() + hops(peers),
            Way::Sums => self.startup = tree(),
        }
    }

    /// What is left after the bytes, which took so long around a ring.
    fn startup_after(&self, bytes: Duration) -> Duration {
        match (self.way, self.tree) {
            (Way::Ring, Some(tree)) => self.startup.min(tree + tree_excess(bytes)),
            (Way::Pair, _) => self.startup + tree_excess(bytes),
            _ => self.startup,
        }
    }
}

/// All ring collectives under way.
#[derive(Debug, Default)]
pub(super) struct Rings<'a> {
    entries: Slab<Ring<'a>>,
    known: FxHashMap<RingKey, u32>,
    /// Rings that all members have joined and that are not done, in the order of their turns.
    turns: FxHashMap<(FamilyId, GroupId), VecDeque<u32>>,
    nvswitches: NvSwitches,
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
        ring.waits.push(path.moment);
        ring.takers += u32::from(!collective.asynchronous) + u32::from(task.handle.is_some());
        let inside = context.inside_bytes(collective.inside, worker);
        context.ledger.inside(context.purpose(task), inside);
        if ring.joined == members {
            ring.complete = context.now;
            ring.path = path;
            let turns = self.turns.entry((ring.key.family, ring.key.group)).or_default();
            turns.push_back(number);
            if turns.len() == 1 {
                self.begin(context, number);
            }
        }
        if collective.asynchronous {
            return Step::Next;
        }
        self.take_or_wait(context, number, Waiter { stream: id, task, is_alongside: false })
    }

    /// Has a ring proceed whose turn, or whose end, was scheduled for now.
    pub(super) fn proceed(&mut self, context: &mut Context<'a>, number: u32) {
        match self.entries[number].stage {
            Stage::Pending => self.begin(context, number),
            Stage::StartUp => self.finish(context, number),
            Stage::Bytes => unreachable!("bytes end otherwise"),
        }
    }

    /// Starts the parts inside workers, and the flows between them.
    fn begin(&mut self, context: &mut Context<'a>, number: u32) {
        let ring = &mut self.entries[number];
        ring.began = context.now;
        ring.begin = context.join(std::mem::take(&mut ring.waits));
        ring.stage = Stage::Bytes;
        ring.local_edges = context.now;
        let members = members(context, ring.key);
        let collective = *ring.collective();
        let family = &context.graph.families[ring.key.family.index()];
        let (setting, group) = (context.setting(), ring.key.group);
        ring.way = setting.way(&collective, family, group);
        let of = Group::new(family, group);
        let inside = |&member| setting.inside(ring.way, &collective, of, member);
        let parts: Vec<_> = members.iter().map(inside).collect();
        let mut slowest = Duration::ZERO;
        for (&member, (whole, start_up)) in members.iter().zip(parts) {
            // Where nothing crosses, rings that share a worker share its start-ups, too.
            let part = if members.len() == 1 { whole } else { whole - start_up };
            slowest = slowest.max(whole - part);
            if part > Duration::ZERO {
                ring.pieces_left += 1;
                self.nvswitches.start(context, member, number, part);
            }
        }
        ring.startup = slowest;
        if members.len() > 1 {
            self.start_flows(context, number);
        }
        if self.entries[number].pieces_left == 0 {
            self.bytes_done(context, number);
        }
    }

    /// The part of a ring inside a worker may be done.
    pub(super) fn inside_done(
        &mut self,
        context: &mut Context<'a>,
        worker: WorkerId,
        generation: u32,
    ) {
        for number in self.nvswitches.done(context, worker, generation) {
            let ring = &mut self.entries[number];
            ring.waits.push(ring.begin.after(context.now.since(ring.began)));
            self.piece_done(context, number);
        }
    }

    /// Starts the flows of all edges.
    fn start_flows(&mut self, context: &mut Context<'a>, number: u32) {
        let ring = &mut self.entries[number];
        let members = members(context, ring.key);
        let circulation = circulation(context, ring);
        let is_closed = circulation.is_closed(members.len());
        let task = ring.task();
        let (mut longest, mut start_ups) = (0, 0);
        let mut edges = Division::default();
        let orders =
            context.fabric.ring_orders(&context.placement, members, circulation.edge_bytes);
        for mut order in orders {
            if !is_closed {
                let root = order.order.iter().position(|&place| place == 0);
                order.order.rotate_left(root.expect("every order has all members"));
            }
            let (mut latencies, mut of_software) = (0, 0);
            for place in 0..circulation.edges as usize {
                let next = order.order[(place + 1) % order.order.len()];
                let from = members[order.order[place] as usize];
                let ends = Pair::new(from, members[next as usize]);
                let (latency, start_up) = self.take_edge(context, number, &order, ends, &mut edges);
                latencies = u64::saturating_add(latencies, latency.0);
                of_software = u64::saturating_add(of_software, start_up.0);
            }
            if order.bytes > 0 {
                longest = longest.max(latencies);
                start_ups = start_ups.max(of_software);
            }
        }
        // Of each step the latency counts, of which one is on the path of the flows.
        let mean = Duration(longest / circulation.edges);
        let Division { paths, shares: edges } = edges;
        let transfers = edges.iter().map(|edge| (paths.links(edge.path), edge.bytes, mean));
        let stretch = context.stretch(context.purpose(task), transfers);
        let steps = circulation.steps_of_chunks(members.len());
        let is_background = self.entries[number].waiting.is_empty();
        let shape = Together::Steps { chunks: circulation.steps, steps, is_background };
        let flows =
            edges.iter().map(|edge| (paths.links(edge.path), edge.bytes, Owner::Ring(number)));
        let late = context.start_together(shape, stretch, task.priority, flows);
        let ring = &mut self.entries[number];
        ring.late = late;
        ring.pieces_left += edges.len() as u32;
        if context.waits.is_some() {
            ring.waits.extend(edges.iter().map(|_| context.note_transfer(ring.begin)));
        }
        // All orders together send an edge's bytes from a worker to its neighbors on its server.
        let gpus = u64::from(context.placement.gpus);
        let (own, peers) = (circulation.edge_bytes.div_ceil(gpus), members.len() as u32 - 1);
        let own = context.fabric.nvswitch().gather.time(own, peers);
        let local = if ring.has_local_edges { own } else { Duration::ZERO };
        ring.local_edges = context.now + local.max(ring.copies);
        // Packets bring the latency of the last step with them, but no software.
        let in_flight = u64::from(context.fabric.links.ends_on_arrival());
        let steps_take = |steps: u64| {
            let latencies = u128::from(longest) * u128::from(steps - in_flight);
            let both = latencies + u128::from(start_ups) * u128::from(steps);
            Duration(u64::try_from(both / u128::from(circulation.edges)).unwrap_or(u64::MAX))
        };
        ring.add_steps(context, circulation.steps, steps_take);
    }

    /// Notes what one order of a ring sends over one edge, adds its transfers to `edges` and
    /// returns its latency, and what software takes for a step over it.
    fn take_edge(
        &mut self,
        context: &mut Context<'a>,
        number: u32,
        order: &RingOrder,
        ends: Pair<WorkerId>,
        edges: &mut Division,
    ) -> (Duration, Duration) {
        let ring = &mut self.entries[number];
        let purpose = context.purpose(ring.task());
        let before = edges.shares.len();
        context.fabric.divide_edge(&context.placement, ends, order, edges);
        let Division { paths, shares } = edges;
        let (mut longest, mut start_up) = (Duration::ZERO, Duration::ZERO);
        for share in &shares[before..] {
            let path = paths.path(share.path);
            context.send(purpose, path, share.bytes);
            longest = longest.max(path.latency);
            let copies = context.fabric.copies(&context.placement, path, share.bytes);
            context.ledger.inside(purpose, copies.bytes);
            ring.copies = ring.copies.max(copies.time);
            start_up = start_up.max(context.fabric.message_start_up(path) + copies.latency);
            ring.has_local_edges |= path.part == PartId::INSIDE;
        }
        let is_sent = |share: &Share| share.bytes > 0 && !paths.links(share.path).is_empty();
        let sent: Vec<Share> = shares.drain(before..).filter(is_sent).collect();
        shares.extend(sent);
        (longest, start_up)
    }

    /// A flow of a ring, or its part inside a worker, has finished.
    pub(super) fn piece_done(&mut self, context: &mut Context<'a>, number: u32) {
        self.entries[number].pieces_left -= 1;
        if self.entries[number].pieces_left == 0 {
            self.bytes_done(context, number);
        }
    }

    fn bytes_done(&mut self, context: &mut Context<'a>, number: u32) {
        let ring = &mut self.entries[number];
        ring.stage = Stage::StartUp;
        if members(context, ring.key).len() > 1 {
            let circulation = circulation(context, ring);
            let bytes = circulation.edge_bytes * circulation.edges;
            context.receive(context.purpose(ring.task()), bytes);
        }
        let done = context.now.max(ring.local_edges);
        let startup = ring.startup_after(done.since(ring.began));
        let over = done + startup;
        ring.waits.push(ring.begin.after(ring.local_edges.since(ring.began)));
        ring.path.moment = context.join(std::mem::take(&mut ring.waits)).after(startup);
        if over > context.now {
            context.schedule(over, Event::Ring(number));
        } else {
            self.finish(context, number);
        }
    }

    /// Ends a ring now, and has the next one of its communicator begin.
    fn finish(&mut self, context: &mut Context<'a>, number: u32) {
        let ring = &mut self.entries[number];
        let (task, done) = (ring.task(), context.now);
        let moment = ring.path.moment;
        let mut path = ring.path.extended(task.category, done.since(ring.complete));
        path.moment = moment;
        let (began, together, late) = (ring.began, ring.complete, ring.late);
        ring.end = Some(End { began, together, done, late, path });
        let RingKey { family, group, sequence } = ring.key;
        let turns = self.turns.get_mut(&(family, group)).expect("its turn has come");
        let first = turns.pop_front();
        assert_eq!(first, Some(number), "collectives of a communicator end in order");
        let mut following = None;
        if let Some(&next) = turns.front() {
            // by an event: many may end at once
            context.schedule(done, Event::Ring(next));
            following = Some(next);
        } else {
            self.turns.remove(&(family, group));
        }
        let name = task.handle.map_or(sequence, |handle| handle.0);
        let ids = [u64::from(family.0), u64::from(group.0), u64::from(name)];
        let waiting = std::mem::take(&mut ring.waiting);
        context.hash.record(done, record::RING, &ids);
        if let Some(next) = following {
            self.entries[next].waits.push(moment);
        }
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

/// How a ring goes around its members, those that are absent included; what crosses the edges as
/// its way has it.
fn circulation(context: &Context<'_>, ring: &Ring<'_>) -> Circulation {
    let family = &context.graph.families[ring.key.family.index()];
    ring.way.circulation(ring.collective(), family, ring.key.group)
}

fn members<'a>(context: &Context<'a>, key: RingKey) -> &'a [WorkerId] {
    context.graph.families[key.family.index()].members(key.group)
}
