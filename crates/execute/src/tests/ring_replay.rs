//! Random steps of ring collectives against an independent replay: floating-point numbers, whole
//! scans, nothing of the engine, its queues or its flow network.
//!
//! All workers run one program. They compute, each for another time, and take part in rings over
//! two families: one group of all of them, and groups of a few neighbors. Rings of a group take
//! turns, those of both families share the NICs and what is inside a worker.

use super::{US, fair_rates, play, wait};
use crate::network::Network;
use crate::testing::{DP, WORK, empty_graph, family, packet, task};
use crate::{ring_edge_bytes, ring_steps};
use lightloom_model::{
    Amount, Collective, CollectiveKind, Duration, FamilyId, Handle, Inside, Payload, TableId, Task,
    TaskGraph, TaskKind, WorkerTable,
};
use proptest::prelude::*;
use std::collections::VecDeque;

/// Picoseconds of a byte over the NICs of a server, and over the NVSwitch port of a GPU.
const NICS: f64 = 2.5;
const PORT: f64 = 1000.0 / 450.0;
const LATENCY: f64 = 2.0 * US as f64;
/// Of a hop between GPUs of a worker.
const HOP: f64 = 3.0 * US as f64;

#[derive(Debug, Clone)]
enum Step {
    /// Each worker computes for so many picoseconds.
    Compute(Vec<u64>),
    Ring(RingStep),
}

#[derive(Debug, Clone, Copy)]
struct RingStep {
    family: usize,
    kind: CollectiveKind,
    bytes: u64,
    /// Bytes of each GPU inside its worker.
    inside: u64,
    /// Other GPUs of each worker that it passes.
    peers: u32,
    /// Whether it runs until the end of the program at most, or holds its stream.
    in_background: bool,
}

#[derive(Debug, Clone)]
struct World {
    workers: usize,
    /// Members of a group of the second family; the last one may be smaller.
    neighbors: usize,
    steps: Vec<Step>,
}

impl World {
    fn groups(&self, family: usize) -> Vec<Vec<usize>> {
        let all: Vec<usize> = (0..self.workers).collect();
        let size = [self.workers, self.neighbors][family];
        all.chunks(size).map(<[usize]>::to_vec).collect()
    }

    fn graph(&self) -> TaskGraph {
        let mut graph = empty_graph(1, self.workers as u32, 1);
        for (index, name) in ["all", "neighbors"].into_iter().enumerate() {
            let sizes: Vec<u32> =
                self.groups(index).iter().map(|group| group.len() as u32).collect();
            graph.families.push(family(name, &sizes));
        }
        let mut times: Vec<&Vec<u64>> = Vec::new();
        let mut handles = Vec::new();
        for (place, step) in (0..).zip(&self.steps) {
            let next = match step {
                Step::Compute(own) => {
                    times.push(own);
                    let entry = times.len() as u32 - 1;
                    let duration = Amount::Entry { table: TableId(0), entry };
                    task(TaskKind::Compute { duration }, WORK)
                }
                Step::Ring(ring) => {
                    let task = ring.task();
                    let handle = ring.in_background.then_some(Handle(place));
                    handles.extend(handle);
                    Task { handle, ..task }
                }
            };
            graph.roles[0].tasks.push(next);
        }
        graph.roles[0].tasks.extend(handles.into_iter().map(|handle| wait(handle.0)));
        if !times.is_empty() {
            let of = |worker: usize| times.iter().map(move |own| own[worker]);
            let values = (0..self.workers).flat_map(of).collect();
            let entries = times.len() as u32;
            graph.tables = vec![WorkerTable { name: "times".into(), entries, values }];
        }
        graph
    }
}

impl RingStep {
    fn task(self) -> Task {
        let collective = Collective {
            kind: self.kind,
            family: Some(FamilyId(1 + self.family as u32)),
            payload: Payload::Bytes(self.bytes),
            inside: Inside { per_gpu: Amount::Fixed(self.inside), total: None, peers: self.peers },
            asynchronous: self.in_background,
        };
        task(TaskKind::Collective(collective), DP)
    }

    /// Time of the bytes inside a worker, without any other ring.
    fn inside_time(self) -> f64 {
        (self.inside as f64 * PORT).ceil()
    }

    /// Time before them.
    fn begin_time(self) -> f64 {
        if self.inside == 0 { 0.0 } else { LATENCY + f64::from(self.peers) * HOP }
    }

    /// Bytes over each edge of a ring of so many workers; two may send each other their sums.
    fn edge(self, workers: usize) -> f64 {
        if self.is_of_a_pair(workers) { self.bytes as f64 } else { self.ring_edge(workers) }
    }

    fn ring_edge(self, workers: usize) -> f64 {
        ring_edge_bytes(self.kind, self.bytes, workers * (1 + self.peers as usize)) as f64
    }

    /// Whether two workers end sooner along a tree that sends each sum once, if they are alone.
    fn is_of_a_pair(self, workers: usize) -> bool {
        if workers != 2 || self.kind != CollectiveKind::AllReduce || self.peers == 0 {
            return false;
        }
        let step = if self.bytes > 0 { LATENCY } else { 0.0 };
        let hops = f64::from(self.peers) * HOP;
        let bytes = |edge: f64| (edge * NICS).max(self.inside_time());
        let tree = |bytes: f64| 2.0 * step + hops + bytes * (1.0 / 0.92);
        let around = bytes(self.ring_edge(2));
        tree(bytes(self.bytes as f64)) < (around + 2.0 * (step + hops)).min(tree(around))
    }

    /// What follows the bytes, which took so long: a ring, or a tree that ends sooner.
    fn start_up(self, workers: usize, bytes_take: f64) -> f64 {
        if workers == 1 {
            return 0.0;
        }
        let (steps, hops) = (ring_steps(self.kind, workers) as f64, f64::from(self.peers) * HOP);
        // Nothing is sent where there are no bytes.
        let step = if self.bytes > 0 { LATENCY } else { 0.0 };
        let ring = steps * (step + hops);
        if self.kind != CollectiveKind::AllReduce || self.peers == 0 {
            return self.begin_time() + ring;
        }
        let depth = f64::from(workers.ilog2());
        let tree = 2.0 * depth * step + hops + bytes_take * (1.0 / 0.92 - 1.0);
        self.begin_time() + if self.is_of_a_pair(workers) { tree } else { ring.min(tree) }
    }
}

/// What a ring does now.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Stage {
    Joining(usize),
    Queued,
    /// Its bytes since then, inside workers and between them.
    Bytes(f64),
    /// Until its start-up is over.
    StartUp(f64),
    Done(f64),
}

#[derive(Debug, Clone)]
struct Ring {
    step: RingStep,
    members: Vec<usize>,
    stage: Stage,
    /// What is left: on the edge that leaves each member, then inside each.
    left: Vec<f64>,
}

struct Replay<'a> {
    world: &'a World,
    now: f64,
    /// By step and group.
    rings: Vec<Vec<Ring>>,
    /// Rings that are complete, by family and group, in the order of their turns.
    turns: Vec<Vec<VecDeque<usize>>>,
    next: Vec<usize>,
    ready: Vec<f64>,
}

impl<'a> Replay<'a> {
    fn new(world: &'a World) -> Self {
        let rings_of = |step: &Step| match step {
            Step::Compute(_) => Vec::new(),
            Step::Ring(step) => {
                let ring = |members: Vec<usize>| Ring {
                    step: *step,
                    left: Vec::new(),
                    members,
                    stage: Stage::Joining(0),
                };
                world.groups(step.family).into_iter().map(ring).collect()
            }
        };
        Self {
            world,
            now: 0.0,
            rings: world.steps.iter().map(rings_of).collect(),
            turns: [0, 1].map(|family| vec![VecDeque::new(); world.groups(family).len()]).to_vec(),
            next: vec![0; world.workers],
            ready: vec![0.0; world.workers],
        }
    }

    fn group_of(&self, step: usize, worker: usize) -> usize {
        let holds = |ring: &Ring| ring.members.contains(&worker);
        self.rings[step].iter().position(holds).expect("everybody is in a group")
    }

    /// Has a worker continue as far as it can now; true if it did anything.
    fn play(&mut self, worker: usize) -> bool {
        let step = self.next[worker];
        if self.ready[worker] > self.now || step > self.world.steps.len() {
            return false;
        }
        match self.world.steps.get(step) {
            Some(Step::Compute(times)) => self.ready[worker] = self.now + times[worker] as f64,
            Some(Step::Ring(ring)) => {
                let group = self.group_of(step, worker);
                self.join(step, group);
                if !ring.in_background {
                    self.ready[worker] = f64::INFINITY;
                }
            }
            None => {}
        }
        self.next[worker] += 1;
        true
    }

    fn join(&mut self, step: usize, group: usize) {
        let ring = &mut self.rings[step][group];
        let Stage::Joining(joined) = ring.stage else { panic!("joined twice") };
        ring.stage = Stage::Joining(joined + 1);
        if joined + 1 == ring.members.len() {
            ring.stage = Stage::Queued;
            let turns = &mut self.turns[ring.step.family][group];
            turns.push_back(step);
            if turns.len() == 1 {
                self.begin(step, group);
            }
        }
    }

    fn begin(&mut self, step: usize, group: usize) {
        let ring = &mut self.rings[step][group];
        let count = ring.members.len();
        let (edge, begin) =
            if count == 1 { (0.0, ring.step.begin_time()) } else { (ring.step.edge(count), 0.0) };
        ring.left = vec![edge; count];
        ring.left.resize(2 * count, ring.step.inside_time() + begin);
        ring.stage = Stage::Bytes(self.now);
    }

    /// Moves rings on to their next stages, as far as nothing is left of the present ones.
    fn settle_rings(&mut self) -> bool {
        let mut any = false;
        for step in 0..self.rings.len() {
            for group in 0..self.rings[step].len() {
                let now = self.now;
                let ring = &mut self.rings[step][group];
                let count = ring.members.len();
                let is_over = ring.left.iter().all(|left| *left < 1e-3);
                match ring.stage {
                    Stage::Bytes(began) if is_over => {
                        ring.stage = Stage::StartUp(now + ring.step.start_up(count, now - began));
                    }
                    Stage::StartUp(end) if end <= now => self.finish(step, group),
                    _ => continue,
                }
                any = true;
            }
        }
        any
    }

    fn finish(&mut self, step: usize, group: usize) {
        let ring = &mut self.rings[step][group];
        ring.stage = Stage::Done(self.now);
        if !ring.step.in_background {
            for &member in &ring.members {
                self.ready[member] = self.now;
            }
        }
        let turns = &mut self.turns[ring.step.family][group];
        assert_eq!(turns.pop_front(), Some(step));
        if let Some(&next) = turns.front() {
            self.begin(next, group);
        }
    }

    /// What drains now, in units of `left` per picosecond: ring, member, and how fast.
    fn drains(&self) -> Vec<((usize, usize, usize), f64)> {
        let mut parts = Vec::new();
        let mut edges = Vec::new();
        for (step, rings) in self.rings.iter().enumerate() {
            for (group, ring) in rings.iter().enumerate() {
                if !matches!(ring.stage, Stage::Bytes(_)) {
                    continue;
                }
                let count = ring.members.len();
                for place in (0..2 * count).filter(|&place| ring.left[place] >= 1e-3) {
                    let (key, from) = ((step, group, place), ring.members[place % count]);
                    if place < count {
                        let to = ring.members[(place + 1) % count];
                        edges.push((key, vec![from, self.world.workers + to]));
                    } else {
                        parts.push((key, from));
                    }
                }
            }
        }
        let inside = |worker: usize| parts.iter().filter(|(_, other)| *other == worker).count();
        let shares = parts.iter().map(|&(key, worker)| (key, 1.0 / inside(worker) as f64));
        let paths: Vec<&[usize]> = edges.iter().map(|(_, path)| path.as_slice()).collect();
        let rates = fair_rates(&vec![1.0 / NICS; 2 * self.world.workers], &paths);
        shares.chain(edges.iter().zip(rates).map(|((key, _), rate)| (*key, rate))).collect()
    }

    /// When the last worker has had all of its rings.
    fn run(mut self) -> f64 {
        loop {
            let mut any = self.settle_rings();
            for worker in 0..self.world.workers {
                any |= self.play(worker);
            }
            if any {
                continue;
            }
            let drains = self.drains();
            let left =
                |(step, group, place): (usize, usize, usize)| self.rings[step][group].left[place];
            let ends = drains.iter().map(|&(key, rate)| self.now + left(key) / rate);
            let start_ups = self.rings.iter().flatten().filter_map(|ring| match ring.stage {
                Stage::StartUp(end) => Some(end),
                _ => None,
            });
            let later = self.ready.iter().copied().filter(|&time| time > self.now);
            let next = ends.chain(start_ups).chain(later).fold(f64::INFINITY, f64::min);
            if next.is_infinite() {
                break;
            }
            for ((step, group, place), rate) in drains {
                self.rings[step][group].left[place] -= rate * (next - self.now);
            }
            self.now = next;
        }
        let done = self.rings.iter().flatten().map(|ring| match ring.stage {
            Stage::Done(end) => end,
            other => panic!("a ring is left: {other:?}"),
        });
        done.chain(self.ready.iter().copied()).fold(0.0, f64::max)
    }
}

fn worlds() -> impl Strategy<Value = World> {
    (2_usize..7).prop_flat_map(|workers| {
        let kinds =
            [CollectiveKind::AllReduce, CollectiveKind::ReduceScatter, CollectiveKind::AllGather];
        let size = prop_oneof![1 => Just(0_u64), 4 => 1_u64..20_000_000];
        let inside = prop_oneof![1 => Just(0_u64), 2 => 1_u64..3_000_000];
        let kind = prop::sample::select(kinds.to_vec());
        let ring = (0..2_usize, kind, size, inside, 0..8_u32, any::<bool>());
        let ring = ring.prop_map(|(family, kind, bytes, inside, peers, in_background)| {
            Step::Ring(RingStep { family, kind, bytes, inside, peers, in_background })
        });
        let compute = prop::collection::vec(0..60 * US, workers).prop_map(Step::Compute);
        let steps = prop::collection::vec(prop_oneof![1 => compute, 2 => ring], 1..9);
        (1..=workers, steps).prop_map(move |(neighbors, steps)| World { workers, neighbors, steps })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn steps_of_rings_take_as_long_as_their_replay(world in worlds()) {
        let mut network: Network = packet(world.workers as u32);
        network.nvswitch.gather.peer = Duration(HOP as u64);
        let outcome = play(&world.graph(), &network);
        let expected = Replay::new(&world).run();
        let found = outcome.step.0 as f64;
        // Each end of a flow or part is rounded up to a picosecond.
        let allowed = 1e-6 * expected + 200.0;
        prop_assert!((found - expected).abs() <= allowed, "{} instead of {}", found, expected);
        let computed: u64 = world
            .steps
            .iter()
            .filter_map(|step| if let Step::Compute(times) = step { Some(times) } else { None })
            .flatten()
            .sum();
        prop_assert_eq!(outcome.roles[0].spent[WORK.index()], computed);
    }
}
