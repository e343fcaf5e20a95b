//! Ring collectives: n fluid flows and the latencies of their steps, not 2 n (n-1) flows.
//!
//! When the last member has joined: half of the local stage, then one flow per ring edge, then the
//! start-up latency, then the other half. The local stage of L bytes per GPU takes NVSwitch latency
//! plus L / GPU rate. Each edge carries 2 (n-1)/n of the buffer (all-reduce; half of that
//! otherwise), divided among the ways of the ring: one on a packet fabric; both directions, and all
//! cycles of the topology, on fixed circuits (see `fabric::rings`). In each of the 2 (n-1) (or n-1)
//! steps a chunk crosses one edge, so over all steps the chain of chunks goes around the ring and
//! the start-up latency is steps times the mean latency of the edges, of the slowest way.

use super::{Engine, Event, NORMAL, Owner, trace};
use crate::check::{ring_edge_bytes, ring_steps};
use crate::critical_path::CriticalPath;
use crate::engine::worker::{Step, Waiting};
use crate::error::{ExecuteError, invalid};
use crate::fabric::Way;
use crate::fabric::rings::RingWay;
use crate::ledger::Purpose;
use lightloom_model::{Carrier, Duration, RingKind, Task, TaskKind, Time, WorkerId};

/// A ring collective that some members have joined.
#[derive(Debug, Clone, Default)]
pub struct Ring {
    /// Scope, ring in the scope, handle.
    key: (u32, u32, u32),
    task: Option<Task>,
    joined: u32,
    /// When the last member joined, and what led to that.
    begun: Time,
    path: CriticalPath,
    pieces_left: u32,
    /// Whether workers of one server are neighbours in it.
    has_local_edges: bool,
    /// End of the edges inside servers.
    local_edges: Time,
    startup: Duration,
    second_half: Duration,
    done: Option<Time>,
    waiting: Vec<(WorkerId, Task)>,
    taken: u32,
}

impl Ring {
    fn shape(&self) -> (RingKind, u64, u64) {
        match self.task.expect("somebody joined").kind {
            TaskKind::Ring { kind, bytes, local_bytes_per_gpu, .. } => {
                (kind, bytes, local_bytes_per_gpu)
            }
            _ => unreachable!("rings are joined by ring tasks"),
        }
    }

    fn purpose(&self) -> Purpose {
        Purpose::of(self.task.expect("somebody joined").category).expect("checked")
    }
}

impl Engine<'_> {
    /// A worker joins a ring collective.
    pub(super) fn join_ring(&mut self, id: WorkerId, task: &Task) -> Result<(), ExecuteError> {
        let TaskKind::Ring { scope, handle, .. } = task.kind else { unreachable!() };
        let key = (scope, self.index.ring_of_worker[scope as usize][id as usize], handle);
        let number = self.ring(key);
        let members = self.ring_members(key).len() as u32;
        let ring = &mut self.rings[number];
        if let Some(first) = ring.task
            && (first.kind != task.kind || first.category != task.category)
        {
            let name = &self.graph.scopes[scope as usize].name;
            return Err(invalid(format!(
                "members of ring handle {handle} in scope {name} disagree: {:?} and {:?}",
                first.kind, task.kind
            )));
        }
        ring.task = Some(*task);
        ring.joined += 1;
        if ring.joined == members {
            ring.begun = self.now;
            ring.path = self.workers[id as usize].path;
            self.begin_ring(number, members);
        }
        Ok(())
    }

    fn begin_ring(&mut self, number: u32, members: u32) {
        let (_, _, local) = self.rings[number].shape();
        let purpose = self.rings[number].purpose();
        let gpus = u64::from(self.seats.gpus) * u64::from(members);
        self.ledger.inside(purpose, local.saturating_mul(gpus));
        let whole = self.fabric.local_time(local);
        if members == 1 {
            self.ring_done(number, self.now + whole);
            return;
        }
        let first = Duration(whole.0 / 2);
        self.rings[number].second_half = whole - first;
        if first == Duration::ZERO {
            self.start_ring_flows(number);
        } else {
            self.queue.push(self.now + first, NORMAL, Event::RingFlows(number));
        }
    }

    /// Starts the flows of all edges.
    pub(super) fn start_ring_flows(&mut self, number: u32) {
        let graph = self.graph;
        let members = ring_members(graph, self.rings[number].key);
        let (kind, buffer, _) = self.rings[number].shape();
        let bytes = ring_edge_bytes(kind, buffer, members.len());
        let mut longest = 0;
        let mut edges = Vec::new();
        for way in self.fabric.ring_ways(&self.seats, members, bytes) {
            let mut latencies = 0;
            for (place, &from) in way.order.iter().enumerate() {
                let to = way.order[(place + 1) % way.order.len()];
                let latency = self.take_edge(number, &way, (from, to), &mut edges);
                latencies = u64::saturating_add(latencies, latency.0);
            }
            if way.bytes > 0 {
                longest = longest.max(latencies);
            }
        }
        let purpose = self.rings[number].purpose();
        // Of each step the latency counts, of which one is on the way of the flows.
        let mean = Duration(longest / members.len() as u64);
        let phase: Vec<_> = edges.iter().map(|(way, bytes)| (way.clone(), *bytes, mean)).collect();
        let stretch = self.stretch(purpose, &phase);
        for (way, bytes) in &edges {
            self.fabric.start(self.now, *bytes, stretch, way, Owner::Ring(number).token());
        }
        self.rings[number].pieces_left = edges.len() as u32;
        // All ways together send an edge's bytes from a worker to its neighbours on its server.
        let own = self.fabric.local_time(bytes.div_ceil(u64::from(self.seats.gpus)));
        let local = if self.rings[number].has_local_edges { own } else { Duration::ZERO };
        let on_the_way = u64::from(self.fabric.medium.ends_on_arrival());
        let steps = ring_steps(kind, members.len()) - on_the_way;
        let startup = u128::from(longest) * u128::from(steps) / members.len() as u128;
        let ring = &mut self.rings[number];
        ring.startup = Duration(u64::try_from(startup).unwrap_or(u64::MAX));
        ring.local_edges = self.now + local;
        if ring.pieces_left == 0 {
            self.ring_edges_done(number);
        }
    }

    /// Books what one way of a ring sends over one edge, adds its transfers to `edges` and returns
    /// its latency.
    fn take_edge(
        &mut self,
        number: u32,
        way: &RingWay,
        ends: (WorkerId, WorkerId),
        edges: &mut Vec<(Way, u64)>,
    ) -> Duration {
        let purpose = self.rings[number].purpose();
        let servers = (self.seats.server[ends.0 as usize], self.seats.server[ends.1 as usize]);
        let mut longest = Duration::ZERO;
        for piece in self.fabric.ring_pieces(&self.seats, ends, way) {
            self.ledger.send(purpose, piece.carrier, piece.bytes);
            self.ledger.relay(purpose, piece.bytes * self.fabric.relays(piece.carrier));
            if piece.carrier == Carrier::Local {
                self.rings[number].has_local_edges = true;
                continue;
            }
            longest = longest.max(self.fabric.propagation(servers, piece.carrier));
            if piece.bytes > 0 {
                edges.push((self.fabric.way(servers, piece.carrier), piece.bytes));
            }
        }
        longest
    }

    /// A flow of a ring has finished.
    pub(super) fn ring_piece_done(&mut self, number: u32) {
        self.rings[number].pieces_left -= 1;
        if self.rings[number].pieces_left == 0 {
            self.ring_edges_done(number);
        }
    }

    fn ring_edges_done(&mut self, number: u32) {
        let ring = &self.rings[number];
        let members = self.ring_members(ring.key).len();
        let (kind, buffer, _) = ring.shape();
        let bytes = ring_edge_bytes(kind, buffer, members) * members as u64;
        self.ledger.receive(ring.purpose(), bytes);
        let ring = &self.rings[number];
        let edges = self.now.max(ring.local_edges);
        self.ring_done(number, edges + ring.startup + ring.second_half);
    }

    fn ring_done(&mut self, number: u32, done: Time) {
        let ring = &mut self.rings[number];
        ring.done = Some(done);
        let key = ring.key;
        let waiting = std::mem::take(&mut ring.waiting);
        let ids = [u64::from(key.0), u64::from(key.1), u64::from(key.2)];
        self.trace.record(done, trace::RING, &ids);
        for (worker, task) in waiting {
            let path = self.take_ring(worker, &task, number);
            let at = self.workers[worker as usize].at;
            self.release(worker, at, path);
        }
    }

    /// Waits for a ring collective, unless it is done.
    pub(super) fn wait(&mut self, id: WorkerId, task: &Task, handle: u32) -> Step {
        let stage = self.graph.layout.stage_of(id) as usize;
        let scope = self.index.scope_of_handle[stage][&handle];
        let ring = self.index.ring_of_worker[scope as usize][id as usize];
        let number = self.ring((scope, ring, handle));
        if self.rings[number].done.is_none() {
            self.rings[number].waiting.push((id, *task));
            self.workers[id as usize].waiting = Waiting::Ring(handle);
            return Step::Wait;
        }
        self.workers[id as usize].path = self.take_ring(id, task, number);
        Step::Next
    }

    /// Moves a worker's clock to the end of a ring, if that is later; returns what led there.
    fn take_ring(&mut self, id: WorkerId, task: &Task, number: u32) -> CriticalPath {
        let ring = &mut self.rings[number];
        ring.taken += 1;
        let (begun, done) = (ring.begun, ring.done.expect("done"));
        let own_task = ring.task.expect("somebody joined");
        let led_here = ring.path;
        let (key, taken) = (ring.key, ring.taken as usize);
        if taken == self.ring_members(key).len() {
            self.ring_of.remove(&key);
            self.rings[number] = Ring::default();
            self.rings.free(number);
        }
        self.record_beside(id, &own_task, (begun, done));
        let at = self.workers[id as usize].at;
        if done <= at {
            return self.workers[id as usize].path;
        }
        self.spend(id, task, own_task.category, (at, done));
        self.workers[id as usize].at = done;
        led_here.extended(own_task.category, done.since(begun))
    }

    fn ring(&mut self, key: (u32, u32, u32)) -> u32 {
        let rings = &mut self.rings;
        *self.ring_of.entry(key).or_insert_with(|| {
            let number = rings.take();
            rings[number].key = key;
            number
        })
    }

    fn ring_members(&self, key: (u32, u32, u32)) -> &[WorkerId] {
        ring_members(self.graph, key)
    }
}

fn ring_members(graph: &lightloom_model::TaskGraph, key: (u32, u32, u32)) -> &[WorkerId] {
    let scope = &graph.scopes[key.0 as usize];
    let range = scope.offsets[key.1 as usize]..scope.offsets[key.1 as usize + 1];
    &scope.workers[range.start as usize..range.end as usize]
}
