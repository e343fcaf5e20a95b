//! The traffic of training steps, for benchmarks: groups of servers that repeat an all-to-all of
//! skewed sizes, alone, behind shared ToR uplinks, or overlapped by long ring collectives.

use lightloom_flowsim::{FlowNetwork, LinkId, Statistics};
use lightloom_model::{Bytes, Rate, Time};

const NIC_RATE: u64 = 400_000_000_000;
/// Mean bytes from one server to another in one all-to-all.
const MEAN_BYTES: f64 = 32e6;

/// A named traffic pattern.
#[derive(Debug, Clone, Copy)]
pub struct Workload {
    /// Its letter and what it is.
    pub name: &'static str,
    /// Groups of servers, each with its own all-to-all.
    pub groups: usize,
    /// Servers in each group.
    pub servers: usize,
    /// Servers under one ToR, whose uplink is oversubscribed 3:1; 0 for none.
    pub servers_per_tor: usize,
    /// Whether server i of every group sends to server i of the next group all the time.
    pub rings: bool,
    /// Standard deviation of the logarithm of what a server receives.
    pub skew: f64,
    /// Whether the network knows of the groups beforehand.
    pub is_expected: bool,
}

const ALONE: Workload = Workload {
    name: "a: 16 groups of 8",
    groups: 16,
    servers: 8,
    servers_per_tor: 0,
    rings: false,
    skew: 0.77,
    is_expected: false,
};

/// As the rails of a training step whose gate is nearly even.
const EVEN: Workload =
    Workload { name: "f: 256 groups of 8, even", groups: 256, skew: 0.1, ..ALONE };

/// What is measured.
pub const WORKLOADS: [Workload; 8] = [
    ALONE,
    Workload { name: "b: 16 groups of 8, ToRs", servers_per_tor: 4, ..ALONE },
    Workload { name: "c: 1024 groups of 4, rings", groups: 1024, servers: 4, rings: true, ..ALONE },
    Workload { name: "d: 1 group of 64", groups: 1, servers: 64, ..ALONE },
    Workload {
        name: "e: c behind ToRs",
        groups: 1024,
        servers: 4,
        servers_per_tor: 16,
        rings: true,
        ..ALONE
    },
    EVEN,
    Workload { name: "g: f in grids", is_expected: true, ..EVEN },
    Workload { name: "h: a in grids", is_expected: true, ..ALONE },
];

/// What came of a run.
#[derive(Debug, Clone, Copy)]
pub struct Outcome {
    /// Flows finished.
    pub flows: u64,
    /// Instants at which any did.
    pub events: u64,
    /// The last of them.
    pub end: Time,
    /// The network's own count of its work.
    pub statistics: Statistics,
}

/// Numbers in (0, 1) by a linear congruential generator (Knuth's MMIX constants).
struct Stream(u64);

impl Stream {
    fn next(&mut self) -> f64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    /// Lognormal with this sigma and mean 1, its normal by the sum of 12 uniforms.
    fn lognormal(&mut self, sigma: f64) -> f64 {
        let normal: f64 = (0..12).map(|_| self.next()).sum::<f64>() - 6.0;
        (sigma * normal - sigma * sigma / 2.0).exp()
    }
}

struct Fabric {
    up: Vec<LinkId>,
    down: Vec<LinkId>,
    tor_up: Vec<LinkId>,
    tor_down: Vec<LinkId>,
    servers_per_tor: usize,
}

impl Fabric {
    fn new(workload: &Workload, network: &mut FlowNetwork) -> Self {
        let servers = workload.groups * workload.servers;
        let mut links = |count: usize, rate: u64| -> Vec<LinkId> {
            (0..count).map(|_| network.add_link(Rate(rate))).collect()
        };
        let tors = servers.checked_div(workload.servers_per_tor).unwrap_or(0);
        let uplink = NIC_RATE * workload.servers_per_tor as u64 / 3;
        Self {
            up: links(servers, NIC_RATE),
            down: links(servers, NIC_RATE),
            tor_up: links(tors, uplink),
            tor_down: links(tors, uplink),
            servers_per_tor: workload.servers_per_tor,
        }
    }

    fn start(
        &self,
        network: &mut FlowNetwork,
        now: Time,
        bytes: u64,
        ends: (usize, usize),
        token: u64,
    ) {
        let (source, target) = ends;
        if self.servers_per_tor == 0 {
            network.start(now, Bytes(bytes), &[self.up[source], self.down[target]], token);
            return;
        }
        let (from, to) = (source % self.tor_up.len(), target % self.tor_up.len());
        let path = [self.up[source], self.tor_up[from], self.tor_down[to], self.down[target]];
        network.start(now, Bytes(bytes), &path, token);
    }
}

/// Runs until `rounds` all-to-alls per group are done.
pub fn run(workload: &Workload, rounds: u64) -> Outcome {
    let mut network = FlowNetwork::new();
    let fabric = Fabric::new(workload, &mut network);
    let (groups, servers) = (workload.groups, workload.servers);
    if workload.is_expected {
        for (first, last) in fabric.up.chunks(servers).zip(fabric.down.chunks(servers)) {
            network.expect(first, last);
        }
    }
    let mut stream = Stream(42);
    let mut left = vec![0u32; groups];
    let mut round = vec![0u64; groups];
    let mut open = groups;
    let ring_token = groups as u64;
    let ring_bytes = (MEAN_BYTES * servers as f64 * 8.0) as u64;
    let ring = |network: &mut FlowNetwork, now, flow: u64| {
        let next = (flow as usize + servers) % (groups * servers);
        fabric.start(network, now, ring_bytes, (flow as usize, next), ring_token + flow);
    };
    let mut all_to_all = |network: &mut FlowNetwork, now, group: usize| {
        // A rank-one matrix with small deviations, as measured of gates.
        let heat: Vec<f64> = (0..servers).map(|_| stream.lognormal(workload.skew)).collect();
        for source in 0..servers {
            for target in (0..servers).filter(|&target| target != source) {
                let bytes = MEAN_BYTES * heat[target] * stream.lognormal(0.1);
                let ends = (group * servers + source, group * servers + target);
                fabric.start(network, now, bytes as u64 + 1, ends, group as u64);
            }
        }
        (servers * (servers - 1)) as u32
    };
    for (group, left) in left.iter_mut().enumerate() {
        *left = all_to_all(&mut network, Time::ZERO, group);
    }
    if workload.rings {
        for flow in 0..(groups * servers) as u64 {
            ring(&mut network, Time::ZERO, flow);
        }
    }
    let mut done = Vec::new();
    let mut outcome =
        Outcome { flows: 0, events: 0, end: Time::ZERO, statistics: Statistics::default() };
    while open > 0 {
        let now = network.next_completion().expect("flows are left");
        network.advance(now, &mut done);
        outcome.flows += done.len() as u64;
        outcome.events += 1;
        outcome.end = now;
        for token in done.drain(..) {
            if token >= ring_token {
                ring(&mut network, now, token - ring_token);
                continue;
            }
            let group = token as usize;
            left[group] -= 1;
            if left[group] == 0 {
                round[group] += 1;
                if round[group] < rounds {
                    left[group] = all_to_all(&mut network, now, group);
                } else {
                    open -= 1;
                }
            }
        }
    }
    outcome.statistics = network.statistics();
    outcome
}
