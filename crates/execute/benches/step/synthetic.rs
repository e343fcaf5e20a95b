//! Steps of Mixtral-like jobs, built without Python: programs in 1F1B order, skewed routing.

use lightloom_model::{
    AllToAll, Allocator, Category, Circuit, Direct, Duration, Eps, Failures, FirstAllToAll, Layout,
    Network, NvSwitch, Ocs, Pass, Policy, Rate, Reconfigure, RelayChunk, RingKind, Route, Scope,
    StageProgram, SwitchTiming, Task, TaskGraph, TaskKind, TokenBlocks,
};

const GBPS: u64 = 1_000_000_000;
const US: u64 = 1_000_000;

/// Size of a job.
#[derive(Debug, Clone, Copy)]
pub struct Job {
    /// Pipeline stages.
    pub stages: u32,
    /// EP groups per stage.
    pub replicas: u32,
    /// Servers per EP group.
    pub members: u32,
    /// Micro-batches per step.
    pub micro_batches: u32,
    /// MoE layers per stage.
    pub layers_per_stage: u32,
    /// Token copies that each member sends per layer and micro-batch.
    pub copies: u32,
    /// Width of a token; two bytes each.
    pub hidden: u64,
}

impl Job {
    /// Servers, one per worker.
    pub fn servers(&self) -> u32 {
        self.stages * self.replicas * self.members
    }
}

/// A stream of numbers that is the same on every machine (splitmix64).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Between 0 and 1.
    fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

fn task(kind: TaskKind, category: Category, layer: u32, batch: u32) -> Task {
    Task { kind, category, layer: layer as u16, micro_batch: batch as u16 }
}

/// The graph of one step.
pub fn graph(job: &Job) -> TaskGraph {
    let layout = Layout {
        stages: job.stages,
        replicas: job.replicas,
        members: job.members,
        gpus_per_worker: 8,
        worker_server: (0..job.servers()).collect(),
    };
    let per_stage = job.replicas * job.members;
    // Experts: the same member of every group. Dense: all workers of a stage.
    let mut expert = Scope { name: "dp-expert".into(), offsets: vec![0], workers: vec![] };
    let mut dense = Scope { name: "dp-dense".into(), offsets: vec![0], workers: vec![] };
    for stage in 0..job.stages {
        for member in 0..job.members {
            let ring = (0..job.replicas).map(|r| stage * per_stage + r * job.members + member);
            expert.workers.extend(ring);
            expert.offsets.push(expert.workers.len() as u32);
        }
        dense.workers.extend(stage * per_stage..(stage + 1) * per_stage);
        dense.offsets.push(dense.workers.len() as u32);
    }
    let programs = (0..job.stages).map(|stage| program(job, stage)).collect();
    TaskGraph { layout, programs, scopes: vec![dense, expert], blocks: blocks(job) }
}

/// Hot columns that all sources share, and 10 % of noise: the regime of the public Mixtral matrix.
fn blocks(job: &Job) -> TokenBlocks {
    let groups = (job.stages * job.replicas) as usize;
    let count = (job.layers_per_stage * job.micro_batches) as usize;
    let members = job.members as usize;
    let mut numbers = Numbers(7);
    let mut tokens = Vec::with_capacity(groups * count * members * members);
    let mut expert_forward = Vec::with_capacity(groups * count * members);
    let mut expert_backward = Vec::with_capacity(groups * count * members);
    for _ in 0..groups * count {
        let popularity: Vec<f64> = (0..members).map(|_| (1.5 * numbers.share()).exp()).collect();
        let total: f64 = popularity.iter().sum();
        let mut received = vec![0_u64; members];
        for source in 0..members {
            for target in 0..members {
                let noise = 0.9 + 0.2 * numbers.share();
                let copies = f64::from(job.copies) * popularity[target] / total * noise;
                received[target] += copies as u64;
                let copies = if source == target { copies * 7.0 / 8.0 } else { copies };
                tokens.push(copies as u32);
            }
        }
        expert_forward.extend(received.iter().map(|&copies| Duration(copies * US / 20)));
        expert_backward.extend(received.iter().map(|&copies| Duration(copies * US / 10)));
    }
    let blocks = count as u32;
    TokenBlocks { blocks, tokens, expert_forward, expert_backward, ..TokenBlocks::default() }
}

fn program(job: &Job, stage: u32) -> StageProgram {
    let mut tasks = Vec::new();
    let warm_up = (job.stages - 1 - stage).min(job.micro_batches);
    for batch in 0..warm_up {
        forward(job, stage, batch, &mut tasks);
    }
    for batch in 0..job.micro_batches {
        if warm_up + batch < job.micro_batches {
            forward(job, stage, warm_up + batch, &mut tasks);
        }
        backward(job, stage, batch, &mut tasks);
    }
    for handle in 0..2 * job.layers_per_stage {
        tasks.push(task(TaskKind::Wait { handle }, Category::Dp, 0, 0));
    }
    let optimizer = TaskKind::Compute { duration: Duration(2000 * US) };
    tasks.push(task(optimizer, Category::Optimizer, 0, 0));
    StageProgram { tasks }
}

fn exchange(job: &Job, layer: u32, batch: u32, transposed: bool, pass: Pass) -> Task {
    let kind = TaskKind::AllToAll {
        block: layer * job.micro_batches + batch,
        transposed,
        first: !transposed && pass == Pass::Forward,
        pass,
        bytes_per_token: job.hidden * 2,
    };
    task(kind, Category::Ep, layer, batch)
}

fn forward(job: &Job, stage: u32, batch: u32, tasks: &mut Vec<Task>) {
    let activation = u64::from(job.copies) / 2 * job.hidden * 2;
    if stage > 0 {
        let kind = TaskKind::Receive { peer_stage: stage - 1, tag: 2 * batch };
        tasks.push(task(kind, Category::Pp, 0, batch));
    }
    for layer in 0..job.layers_per_stage {
        let local = TaskKind::Local { bytes_per_gpu: activation / 8 };
        let block = layer * job.micro_batches + batch;
        let compute = |duration| TaskKind::Compute { duration: Duration(duration) };
        tasks.push(task(local, Category::Tp, layer, batch));
        tasks.push(task(compute(3000 * US), Category::Attention, layer, batch));
        tasks.push(task(local, Category::Tp, layer, batch));
        tasks.push(task(compute(200 * US), Category::Gate, layer, batch));
        tasks.push(exchange(job, layer, batch, false, Pass::Forward));
        let experts = TaskKind::Expert { block, pass: Pass::Forward };
        tasks.push(task(experts, Category::Expert, layer, batch));
        tasks.push(exchange(job, layer, batch, true, Pass::Forward));
    }
    if stage + 1 < job.stages {
        let kind = TaskKind::Send { peer_stage: stage + 1, tag: 2 * batch, bytes: activation };
        tasks.push(task(kind, Category::Pp, 0, batch));
    }
}

fn backward(job: &Job, stage: u32, batch: u32, tasks: &mut Vec<Task>) {
    let activation = u64::from(job.copies) / 2 * job.hidden * 2;
    if stage + 1 < job.stages {
        let kind = TaskKind::Receive { peer_stage: stage + 1, tag: 2 * batch + 1 };
        tasks.push(task(kind, Category::Pp, 0, batch));
    }
    for layer in (0..job.layers_per_stage).rev() {
        let local = TaskKind::Local { bytes_per_gpu: activation / 8 };
        let block = layer * job.micro_batches + batch;
        tasks.push(exchange(job, layer, batch, false, Pass::Backward));
        let experts = TaskKind::Expert { block, pass: Pass::Backward };
        tasks.push(task(experts, Category::Expert, layer, batch));
        tasks.push(exchange(job, layer, batch, true, Pass::Backward));
        tasks.push(task(local, Category::Tp, layer, batch));
        let compute = TaskKind::Compute { duration: Duration(6000 * US) };
        tasks.push(task(compute, Category::Attention, layer, batch));
        tasks.push(task(local, Category::Tp, layer, batch));
        if batch + 1 == job.micro_batches {
            for scope in 0..2 {
                let kind = TaskKind::Ring {
                    kind: RingKind::AllReduce,
                    scope,
                    handle: 2 * layer + scope,
                    bytes: 100_000_000 * (1 + 4 * u64::from(scope)),
                    local_bytes_per_gpu: 50_000_000,
                };
                tasks.push(task(kind, Category::Dp, layer, batch));
            }
        }
    }
    if stage > 0 {
        let kind = TaskKind::Send { peer_stage: stage - 1, tag: 2 * batch + 1, bytes: activation };
        tasks.push(task(kind, Category::Pp, 0, batch));
    }
}

fn eps(nics: u32, oversubscription: Option<u64>) -> Eps {
    let servers_per_tor = 4;
    let below = u64::from(nics) * u64::from(servers_per_tor) * 400 * GBPS;
    Eps {
        nics,
        nic_rate: Rate(400 * GBPS),
        link_delay: Duration(US),
        servers_per_tor,
        servers_per_pod: 64,
        tor_uplink: oversubscription.map(|ratio| Rate(below / ratio)),
        rail: false,
    }
}

fn packet(job: &Job, eps: Eps) -> Network {
    Network {
        servers: job.servers(),
        gpus_per_server: 8,
        nvswitch: NvSwitch { gpu_rate: Rate(3600 * GBPS), latency: Duration(10 * US) },
        eps: Some(eps),
        ocs: None,
        direct: None,
        all_to_all: AllToAll::Flat,
    }
}

/// Networks by name: fat-tree, oversub, mixnet, topoopt.
pub fn network(job: &Job, name: &str) -> Option<Network> {
    let base = packet(job, eps(8, None));
    match name {
        "fat-tree" => Some(base),
        "oversub" => Some(packet(job, eps(8, Some(3)))),
        "mixnet" => Some(Network {
            eps: Some(eps(2, None)),
            ocs: Some(ocs(job)),
            all_to_all: AllToAll::Hierarchical,
            ..base
        }),
        "topoopt" => Some(Network {
            eps: None,
            direct: Some(direct(job)),
            all_to_all: AllToAll::Hierarchical,
            ..base
        }),
        _ => None,
    }
}

fn ocs(job: &Job) -> Ocs {
    Ocs {
        degree: 6,
        nic_rate: Rate(400 * GBPS),
        circuit_delay: Duration(US),
        region_of_server: (0..job.servers()).map(|server| server / job.members).collect(),
        planes: None,
        relay_chunk: RelayChunk::default(),
        policy: Policy {
            allocator: Allocator::Best,
            when: Reconfigure::Always,
            first: FirstAllToAll::Reuse,
            split: true,
            relaying: false,
        },
        timing: SwitchTiming { fixed: Duration(25_000 * US), ..SwitchTiming::default() },
        failures: Failures::default(),
    }
}

/// A ring over all servers (4 links each way of every neighbour) and a circulant in each EP group;
/// pairs without a link of their own take the ring of their group or of the job.
fn direct(job: &Job) -> Direct {
    let mut circuits = Vec::new();
    let mut routes = Vec::new();
    let servers = job.servers();
    let per_stage = job.replicas * job.members;
    let mut pair = |a: u32, b: u32, count: u32| {
        circuits.push(Circuit { a, b, count });
        routes.push(Route { servers: vec![a, b] });
        routes.push(Route { servers: vec![b, a] });
    };
    for server in 0..servers {
        let (stage, place) = (server / per_stage, server % per_stage);
        let group = server / job.members * job.members;
        for offset in 1..job.members {
            if server + offset < group + job.members {
                pair(server, server + offset, 1);
            }
        }
        let next = stage * per_stage + (place + 1) % per_stage;
        if next / job.members != server / job.members {
            pair(server, next, 1);
        }
        let replica = stage * per_stage + (place + job.members) % per_stage;
        if per_stage > job.members && (replica > server || per_stage > 2 * job.members) {
            pair(server, replica, 1);
        }
        if server + per_stage < servers {
            pair(server, server + per_stage, 1);
        }
    }
    Direct {
        link_rate: Rate(400 * GBPS),
        link_delay: Duration(US),
        relay_delay: Duration(3 * US),
        circuits,
        routes,
        cycles: Vec::new(),
    }
}
