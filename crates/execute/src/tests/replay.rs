//! Random small steps against an independent replay: floating-point numbers, whole scans, nothing
//! of the engine, its queues or its flow network.
//!
//! Two programs of a few workers each compute, move blocks over all-to-alls and send messages
//! from one program to the other, over a packet fabric whose links are the NICs of a server and,
//! where it is oversubscribed, the uplinks and downlinks of ToRs.

use super::{US, fair_rates, receive, send};
use crate::network::Network;
use crate::parts::Eps;
use crate::testing::{GBPS, WORK, all_to_all, empty_graph, eps, packet, task, with_blocks};
use crate::{Options, execute};
use lightloom_kernel::Silent;
use lightloom_model::{
    Amount, Duration, NvSwitch, Rate, StartUp, TableId, TaskGraph, TaskKind, WorkerTable,
};
use proptest::prelude::*;
use std::collections::{HashMap, VecDeque};

/// What the workers of a program do.
#[derive(Debug, Clone)]
enum Step {
    /// Each worker computes for so many picoseconds.
    Compute(Vec<u64>),
    /// An all-to-all of this block.
    AllToAll(usize),
    /// A message to, or from, the worker at the same place of the other program.
    Send {
        tag: usize,
        bytes: u64,
    },
    Receive {
        tag: usize,
    },
}

/// Two programs, the blocks of their all-to-alls, and what carries them.
#[derive(Debug, Clone)]
struct World {
    members: usize,
    programs: [Vec<Step>; 2],
    blocks: Vec<Vec<u32>>,
    network: Fabric,
}

/// The numbers of a packet fabric, in bytes per picosecond and picoseconds.
#[derive(Debug, Clone, Copy)]
struct Fabric {
    nic_gbps: u64,
    nics: u32,
    /// Servers under a ToR, and what its uplinks carry; no limit if there is none.
    servers_per_tor: usize,
    uplink_gbps: Option<u64>,
    local_latency: u64,
    message_start_up: u64,
    all_to_all_start_up: u64,
}

const LINK_DELAY: u64 = US;
const LOCAL_GBPS: u64 = 3600;
const GPUS: u64 = 8;

impl World {
    fn servers(&self) -> usize {
        2 * self.members
    }

    fn graph(&self) -> TaskGraph {
        let blocks: Vec<&[u32]> = self.blocks.iter().map(Vec::as_slice).collect();
        let mut graph = with_blocks(empty_graph(2, 1, self.members as u32), &blocks);
        let steps = self.programs.iter().flatten();
        let tables: Vec<&Vec<u64>> = steps
            .filter_map(|step| if let Step::Compute(times) = step { Some(times) } else { None })
            .collect();
        let mut used = 0;
        for (role, program) in self.programs.iter().enumerate() {
            let tasks = program.iter().map(|step| match step {
                Step::Compute(_) => {
                    used += 1;
                    let duration = Amount::Entry { table: TableId(0), entry: used - 1 };
                    task(TaskKind::Compute { duration }, WORK)
                }
                Step::AllToAll(block) => all_to_all(*block as u32, true),
                Step::Send { tag, bytes } => send(1 - role as u32, *tag as u32, *bytes),
                Step::Receive { tag } => receive(1 - role as u32, *tag as u32),
            });
            graph.roles[role].tasks = tasks.collect();
        }
        // A worker of one program has entries for those of the other one, which it does not use.
        let time = |worker: usize, times: &Vec<u64>| times[worker % self.members];
        let values = (0..self.servers())
            .flat_map(|worker| tables.iter().map(move |times| time(worker, times)))
            .collect();
        if !tables.is_empty() {
            let entries = tables.len() as u32;
            graph.tables = vec![WorkerTable { name: "times".into(), entries, values }];
        }
        graph
    }

    fn network(&self) -> Network {
        let servers = self.servers() as u32;
        let Fabric { nic_gbps, nics, servers_per_tor, uplink_gbps, .. } = self.network;
        let fabric = Eps {
            nics,
            nic_rate: Rate(nic_gbps * GBPS),
            link_delay: Duration(LINK_DELAY),
            servers_per_tor: servers_per_tor as u32,
            tor_uplink: uplink_gbps.map(|gbps| Rate(gbps * GBPS)),
            ..eps(servers)
        };
        let latency = Duration(self.network.local_latency);
        let base = Network {
            nvswitch: NvSwitch::uniform(Rate(LOCAL_GBPS * GBPS), latency),
            start_up: StartUp {
                message: Duration(self.network.message_start_up),
                all_to_all: Duration(self.network.all_to_all_start_up),
                ..StartUp::default()
            },
            ..packet(servers)
        };
        base.with(fabric)
    }
}

/// Bytes on their way.
struct Flow {
    left: f64,
    path: Vec<usize>,
    cargo: Cargo,
    latency: f64,
}

#[derive(Debug, Clone, Copy)]
enum Cargo {
    /// From one member to another, of an all-to-all of a program.
    Block { role: usize, step: usize, from: usize, to: usize },
    /// Of a message with this tag, to a member of a program.
    Message { role: usize, tag: usize, place: usize },
}

/// What a replay keeps of an all-to-all.
#[derive(Default, Clone)]
struct Gathering {
    arrived: Vec<Option<f64>>,
    /// When the last of what is known of each sender arrives at each member.
    heard: HashMap<(usize, usize), f64>,
    /// When it had left.
    left: HashMap<(usize, usize), f64>,
}

/// The replay: time is in picoseconds.
struct Replay<'a> {
    world: &'a World,
    now: f64,
    /// Per worker: its next step, and when it may take it; infinite while it waits.
    next: Vec<usize>,
    ready: Vec<f64>,
    flows: Vec<Flow>,
    /// Flows that begin later.
    later: Vec<(f64, Flow)>,
    /// Per worker: its messages that have not left, the first of them under way.
    lines: Vec<VecDeque<Flow>>,
    gatherings: HashMap<(usize, usize), Gathering>,
    arrivals: HashMap<(usize, usize, usize), f64>,
}

fn per_ps(gbps: u64) -> f64 {
    gbps as f64 / 8.0 / 1000.0
}

impl<'a> Replay<'a> {
    fn new(world: &'a World) -> Self {
        let workers = world.servers();
        Self {
            world,
            now: 0.0,
            next: vec![0; workers],
            ready: vec![0.0; workers],
            flows: Vec::new(),
            later: Vec::new(),
            lines: (0..workers).map(|_| VecDeque::new()).collect(),
            gatherings: HashMap::new(),
            arrivals: HashMap::new(),
        }
    }

    /// Capacities of all links: up and down of servers, then up and down of ToRs.
    fn capacities(&self) -> Vec<f64> {
        let fabric = self.world.network;
        let servers = self.world.servers();
        let tors = servers.div_ceil(fabric.servers_per_tor);
        let uplink = fabric.uplink_gbps.map_or(f64::INFINITY, per_ps);
        let mut capacities = vec![per_ps(fabric.nic_gbps * u64::from(fabric.nics)); 2 * servers];
        capacities.extend(std::iter::repeat_n(uplink, 2 * tors));
        capacities
    }

    fn path(&self, from: usize, to: usize) -> (Vec<usize>, f64) {
        let (servers, per_tor) = (self.world.servers(), self.world.network.servers_per_tor);
        let (tor, other) = (from / per_tor, to / per_tor);
        let tors = servers.div_ceil(per_tor);
        if tor == other {
            return (vec![from, servers + to], 2.0 * LINK_DELAY as f64);
        }
        let climbs = vec![from, 2 * servers + tor, 2 * servers + tors + other, servers + to];
        (climbs, 4.0 * LINK_DELAY as f64)
    }

    fn rates(&self) -> Vec<f64> {
        let paths: Vec<&[usize]> = self.flows.iter().map(|flow| flow.path.as_slice()).collect();
        fair_rates(&self.capacities(), &paths)
    }

    fn local_time(&self, bytes: u64) -> f64 {
        if bytes == 0 {
            return 0.0;
        }
        self.world.network.local_latency as f64 + bytes as f64 / per_ps(LOCAL_GBPS)
    }

    /// Lets a worker take its steps as far as it gets now.
    fn play(&mut self, worker: usize) {
        let (role, place) = (worker / self.world.members, worker % self.world.members);
        while self.ready[worker] <= self.now {
            let step = self.next[worker];
            let Some(task) = self.world.programs[role].get(step) else { return };
            match *task {
                Step::Compute(ref times) => self.ready[worker] = self.now + times[place] as f64,
                Step::AllToAll(block) => {
                    self.arrive(role, place, (step, block));
                    self.ready[worker] = f64::INFINITY;
                    return;
                }
                Step::Send { tag, bytes } => self.send(role, place, tag, bytes),
                Step::Receive { tag } => {
                    let arrival = self.arrivals.get(&(role, tag, place)).copied();
                    self.ready[worker] = self.now.max(arrival.unwrap_or(f64::INFINITY));
                    if arrival.is_none() {
                        return;
                    }
                }
            }
            self.next[worker] += 1;
        }
    }

    fn send(&mut self, role: usize, place: usize, tag: usize, bytes: u64) {
        let members = self.world.members;
        let (from, to) = (role * members + place, (1 - role) * members + place);
        let (path, latency) = self.path(from, to);
        let latency = latency + self.world.network.message_start_up as f64;
        let cargo = Cargo::Message { role: 1 - role, tag, place };
        self.lines[from].push_back(Flow { left: bytes as f64, path, cargo, latency });
        if self.lines[from].len() == 1 {
            self.begin_message(from);
        }
    }

    /// Begins the first message of a worker's line, after those that have nothing to send.
    fn begin_message(&mut self, from: usize) {
        while let Some(first) = self.lines[from].front() {
            let Flow { left, cargo, latency, ref path } = *first;
            if left > 0.0 {
                self.flows.push(Flow { left, path: path.clone(), cargo, latency });
                return;
            }
            self.lines[from].pop_front();
            self.message(cargo, self.now + latency);
        }
    }

    fn message(&mut self, cargo: Cargo, arrival: f64) {
        let Cargo::Message { role, tag, place } = cargo else { unreachable!() };
        self.arrivals.insert((role, tag, place), arrival);
        let worker = role * self.world.members + place;
        let step = self.world.programs[role].get(self.next[worker]);
        let waits = matches!(step, Some(Step::Receive { tag: wanted }) if *wanted == tag);
        if waits && self.ready[worker].is_infinite() {
            self.ready[worker] = arrival;
            self.next[worker] += 1;
        }
    }

    fn arrive(&mut self, role: usize, place: usize, (step, block): (usize, usize)) {
        let members = self.world.members;
        let gathering = self.gatherings.entry((role, step)).or_default();
        gathering.arrived.resize(members, None);
        gathering.arrived[place] = Some(self.now);
        let sent = self.now + self.world.network.all_to_all_start_up as f64;
        for to in (0..members).filter(|&to| to != place) {
            let bytes = self.world.blocks[block][place * members + to];
            if bytes == 0 {
                self.hear(role, step, (place, to), (sent, sent));
                continue;
            }
            let (path, latency) = self.path(role * members + place, role * members + to);
            let cargo = Cargo::Block { role, step, from: place, to };
            self.later.push((sent, Flow { left: f64::from(bytes), path, cargo, latency }));
        }
    }

    /// What a pair sends had left at the first of these times and arrives at the second.
    fn hear(
        &mut self,
        role: usize,
        step: usize,
        pair: (usize, usize),
        (left, arrival): (f64, f64),
    ) {
        let gathering = self.gatherings.get_mut(&(role, step)).expect("a sender has arrived");
        gathering.heard.insert(pair, arrival);
        gathering.left.insert(pair, left);
    }

    /// Members of all-to-alls for which everything has arrived, and of whom everything has left,
    /// continue.
    fn finish_members(&mut self) {
        let members = self.world.members;
        for worker in 0..self.world.servers() {
            let (role, place) = (worker / members, worker % members);
            let step = self.next[worker];
            let Some(Step::AllToAll(block)) = self.world.programs[role].get(step) else {
                continue;
            };
            let Some(gathering) = self.gatherings.get(&(role, step)) else { continue };
            let Some(arrived) = gathering.arrived[place] else { continue };
            let others = (0..members).filter(|&other| other != place);
            let ends = others.flat_map(|other| {
                [gathering.heard.get(&(other, place)), gathering.left.get(&(place, other))]
            });
            let Some(ends) = ends.map(Option::<&f64>::copied).collect::<Option<Vec<f64>>>() else {
                continue;
            };
            let own = u64::from(self.world.blocks[*block][place * members + place]);
            let sent = arrived + self.world.network.all_to_all_start_up as f64;
            let local = sent + self.local_time(own.div_ceil(GPUS));
            self.ready[worker] = ends.into_iter().fold(local, f64::max);
            self.next[worker] += 1;
        }
    }

    /// Everything that happens now, until nothing more does.
    fn settle(&mut self) {
        loop {
            let before = self.next.clone();
            (0..self.world.servers()).for_each(|worker| self.play(worker));
            let (begin, wait): (Vec<_>, Vec<_>) =
                self.later.drain(..).partition(|(time, _)| *time <= self.now);
            self.flows.extend(begin.into_iter().map(|(_, flow)| flow));
            self.later = wait;
            self.finish_members();
            if self.next == before {
                return;
            }
        }
    }

    /// When the last worker is done.
    fn run(mut self) -> f64 {
        loop {
            self.settle();
            let rates = self.rates();
            let ends = self.flows.iter().zip(&rates).map(|(flow, rate)| flow.left / rate);
            let end = self.now + ends.fold(f64::INFINITY, f64::min);
            let beyond = |time: &f64| *time > self.now && time.is_finite();
            let begins = self.later.iter().map(|(time, _)| *time);
            let next = self.ready.iter().copied().filter(beyond).chain(begins).chain([end]);
            let next = next.fold(f64::INFINITY, f64::min);
            if next.is_infinite() {
                return self.ready.iter().copied().fold(0.0, f64::max);
            }
            for (flow, rate) in self.flows.iter_mut().zip(&rates) {
                flow.left -= rate * (next - self.now);
            }
            self.now = next;
            let (done, left): (Vec<Flow>, Vec<Flow>) =
                self.flows.drain(..).partition(|flow| flow.left < 1e-6);
            self.flows = left;
            for flow in done {
                let arrival = self.now + flow.latency;
                match flow.cargo {
                    Cargo::Block { role, step, from, to } => {
                        self.hear(role, step, (from, to), (self.now, arrival));
                    }
                    Cargo::Message { role, place, .. } => {
                        self.message(flow.cargo, arrival);
                        let from = (1 - role) * self.world.members + place;
                        self.lines[from].pop_front();
                        self.begin_message(from);
                    }
                }
            }
        }
    }
}

fn worlds() -> impl Strategy<Value = World> {
    let fabric = (
        prop::sample::select(vec![100_u64, 400]),
        prop::sample::select(vec![1_u32, 8]),
        1_usize..5,
        prop::option::of(prop::sample::select(vec![200_u64, 1_600])),
        prop::sample::select(vec![0, 2 * US]),
        (prop::sample::select(vec![0, 5 * US]), prop::sample::select(vec![0, 7 * US])),
    );
    let kinds = prop::collection::vec((0_usize..4, 0_usize..2, 0_u64..4), 1..9);
    (2_usize..5, fabric, kinds, any::<u64>()).prop_map(|(members, fabric, kinds, seed)| {
        let (nic_gbps, nics, servers_per_tor, uplink_gbps, local_latency, (message, spread)) =
            fabric;
        let network = Fabric {
            nic_gbps,
            nics,
            servers_per_tor,
            uplink_gbps,
            local_latency,
            message_start_up: message,
            all_to_all_start_up: spread,
        };
        let mut draws = seed;
        let mut draw = move |limit: u64| {
            draws = draws.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
            (draws >> 33) % limit
        };
        let mut programs = [Vec::new(), Vec::new()];
        let mut blocks = Vec::new();
        for (tag, (kind, role, size)) in kinds.into_iter().enumerate() {
            match kind {
                0 => {
                    let times = (0..members).map(|_| draw(50) * US).collect();
                    programs[role].push(Step::Compute(times));
                }
                1 | 2 => {
                    let bytes = |draw: &mut dyn FnMut(u64) -> u64| (draw(4) * draw(900_000)) as u32;
                    let cells = members * members;
                    blocks.push((0..cells).map(|_| bytes(&mut draw)).collect());
                    programs[role].push(Step::AllToAll(blocks.len() - 1));
                }
                _ => {
                    programs[role].push(Step::Send { tag, bytes: size * 700_001 });
                    programs[1 - role].push(Step::Receive { tag });
                }
            }
        }
        if blocks.is_empty() {
            blocks.push(vec![0; members * members]);
        }
        World { members, programs, blocks, network }
    })
}

fn step_time(world: &World) -> u64 {
    let outcome = execute(&world.graph(), &world.network(), &Options::default(), &mut Silent);
    outcome.expect("a world that can be").step.0
}

#[test]
fn a_replay_by_hand() {
    // One member computes for 10 us, the other for 40 us; then 800 kB one way, over 8 NICs.
    let network = Fabric {
        nic_gbps: 400,
        nics: 8,
        servers_per_tor: 4,
        uplink_gbps: None,
        local_latency: 2 * US,
        message_start_up: 0,
        all_to_all_start_up: 0,
    };
    let programs = [vec![Step::Compute(vec![10 * US, 40 * US]), Step::AllToAll(0)], vec![]];
    let world = World { members: 2, programs, blocks: vec![vec![0, 0, 800_000, 0]], network };
    let expected = 40 * US + 2 * US + 2 * US;
    assert!((Replay::new(&world).run() - expected as f64).abs() < 1.0);
    assert_eq!(step_time(&world), expected);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn steps_take_as_long_as_in_the_replay(world in worlds()) {
        let (found, expected) = (step_time(&world) as f64, Replay::new(&world).run());
        // Every flow ends at a whole picosecond; the replay's do not.
        prop_assert!((found - expected).abs() < 1e-6 * expected + 100.0, "{found} {expected}");
    }
}
