//! Steps of Mixtral-like jobs, built without Python: programs in 1F1B order, skewed routing.

use lightloom_decide::Reconfigure;
use lightloom_execute::Network;
use lightloom_execute::parts::{Direct, Eps, Ocs, Route};
use lightloom_model::{
    AllToAll, Allocator, Amount, Category, CategoryId, CategoryUse, Circuit, Collective,
    CollectiveKind, DemandId, DemandTable, Duration, Failures, FamilyId, FirstAllToAll,
    GroupFamily, Handle, Inside, NvSwitch, Payload, Peer, Rate, Role, RoleId, StartUp,
    SwitchTiming, TableId, Tag, Task, TaskGraph, TaskKind, WorkerId, WorkerTable,
};
use std::collections::BTreeSet;
use std::sync::Arc;

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

const COMPUTE: CategoryId = CategoryId(0);
const TP: CategoryId = CategoryId(1);
const EP: CategoryId = CategoryId(2);
const PP: CategoryId = CategoryId(3);
const DP: CategoryId = CategoryId(4);

/// Families: dense gradients, expert gradients, experts.
const EXPERTS: FamilyId = FamilyId(2);

/// Tables of expert times.
const FORWARD: TableId = TableId(0);
const BACKWARD: TableId = TableId(1);

fn categories() -> Vec<Category> {
    let category = |name: &str, used_for| Category { name: name.into(), used_for };
    let moving = |name: &str| category(name, CategoryUse::Communication(name.into()));
    let mut all = vec![category("compute", CategoryUse::Compute)];
    all.extend(["tp", "ep", "pp", "dp"].map(moving));
    all.push(category("reconfiguration", CategoryUse::Reconfiguration));
    all.push(category("bubble", CategoryUse::Idle));
    all
}

fn task(kind: TaskKind, category: CategoryId, layer: u32, batch: u32) -> Task {
    Task { layer: layer as u16, micro_batch: batch as u16, ..Task::new(kind, category) }
}

/// Adds a group to a family.
fn add_group(family: &mut GroupFamily, workers: impl Iterator<Item = u32>) {
    family.workers.extend(workers.map(WorkerId));
    family.offsets.push(family.workers.len() as u32);
}

/// The graph of one step.
pub fn graph(job: &Job) -> TaskGraph {
    let per_stage = job.replicas * job.members;
    let family =
        |name: &str| GroupFamily { name: name.into(), offsets: vec![0], ..GroupFamily::default() };
    // Experts: the same member of every group. Dense: all workers of a stage.
    let (mut dense, mut expert, mut group) =
        (family("dp-dense"), family("dp-expert"), family("ep"));
    for stage in 0..job.stages {
        for member in 0..job.members {
            let ring = (0..job.replicas).map(|r| stage * per_stage + r * job.members + member);
            add_group(&mut expert, ring);
        }
        add_group(&mut dense, stage * per_stage..(stage + 1) * per_stage);
        for replica in stage * job.replicas..(stage + 1) * job.replicas {
            add_group(&mut group, replica * job.members..(replica + 1) * job.members);
        }
    }
    let role = |stage: u32| Role {
        name: format!("stage {stage}"),
        workers: (stage * per_stage..(stage + 1) * per_stage).map(WorkerId).collect(),
        tasks: program(job, stage),
    };
    let (demand, tables) = demand(job);
    TaskGraph {
        gpus_per_worker: 8,
        worker_server: (0..job.servers()).collect(),
        categories: categories(),
        roles: (0..job.stages).map(role).collect(),
        families: vec![dense, expert, group],
        regional_family: Some(EXPERTS),
        demands: vec![demand],
        tables,
    }
}

/// Hot columns that all sources share, and 10 % of noise: the regime of the public Mixtral matrix.
fn demand(job: &Job) -> (DemandTable, Vec<WorkerTable>) {
    let groups = (job.stages * job.replicas) as usize;
    let count = (job.layers_per_stage * job.micro_batches) as usize;
    let members = job.members as usize;
    let mut numbers = Numbers(7);
    let mut counts = Vec::with_capacity(groups * count * members * members);
    let mut received_by = vec![0_u64; groups * members * count];
    for cell in 0..groups * count {
        let (group, block) = (cell / count, cell % count);
        let popularity: Vec<f64> = (0..members).map(|_| (1.5 * numbers.share()).exp()).collect();
        let total: f64 = popularity.iter().sum();
        for source in 0..members {
            for target in 0..members {
                let noise = 0.9 + 0.2 * numbers.share();
                let copies = f64::from(job.copies) * popularity[target] / total * noise;
                received_by[(group * members + target) * count + block] += copies as u64;
                let copies = if source == target { copies * 7.0 / 8.0 } else { copies };
                counts.push(copies as u32);
            }
        }
    }
    let table = |name: &str, divisor: u64| WorkerTable {
        name: name.into(),
        entries: count as u32,
        values: received_by.iter().map(|&copies| copies * US / divisor).collect(),
    };
    let tables = vec![table("expert_forward", 20), table("expert_backward", 10)];
    let name = "tokens".into();
    let blocks = count as u32;
    let groups = groups as u32;
    (
        DemandTable { name, family: EXPERTS, groups, blocks, counts, ..DemandTable::default() },
        tables,
    )
}

fn program(job: &Job, stage: u32) -> Vec<Task> {
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
        tasks.push(task(TaskKind::Wait { handle: Handle(handle), slowed_ppm: 0 }, DP, 0, 0));
    }
    tasks.push(compute(2000 * US, 0, 0));
    tasks
}

fn compute(duration: u64, layer: u32, batch: u32) -> Task {
    task(TaskKind::Compute { duration: Amount::Fixed(duration) }, COMPUTE, layer, batch)
}

fn experts(job: &Job, table: TableId, layer: u32, batch: u32) -> Task {
    let entry = layer * job.micro_batches + batch;
    let duration = Amount::Entry { table, entry };
    task(TaskKind::Compute { duration }, COMPUTE, layer, batch)
}

fn inside(per_gpu: u64, layer: u32, batch: u32) -> Task {
    let collective = Collective {
        kind: CollectiveKind::AllReduce,
        family: None,
        payload: Payload::Bytes(0),
        inside: Inside { per_gpu: Amount::Fixed(per_gpu), total: None, peers: 0 },
        asynchronous: false,
    };
    task(TaskKind::Collective(collective), TP, layer, batch)
}

fn all_to_all(job: &Job, layer: u32, batch: u32, (transposed, first): (bool, bool)) -> Task {
    let collective = Collective {
        kind: CollectiveKind::AllToAll,
        family: Some(EXPERTS),
        payload: Payload::Block {
            demand: DemandId(0),
            block: layer * job.micro_batches + batch,
            transposed,
            first,
            unit_bytes: job.hidden * 2,
        },
        inside: Inside::NONE,
        asynchronous: false,
    };
    task(TaskKind::Collective(collective), EP, layer, batch)
}

fn send(job: &Job, to: u32, tag: u32, batch: u32) -> Task {
    let bytes = Amount::Fixed(activation(job));
    task(TaskKind::Send { peer: Peer::Role(RoleId(to)), tag: Tag(tag), bytes }, PP, 0, batch)
}

fn receive(from: u32, tag: u32, batch: u32) -> Task {
    task(TaskKind::Receive { peer: Peer::Role(RoleId(from)), tag: Tag(tag) }, PP, 0, batch)
}

/// Bytes of the hidden states of a micro-batch.
fn activation(job: &Job) -> u64 {
    u64::from(job.copies) / 2 * job.hidden * 2
}

fn forward(job: &Job, stage: u32, batch: u32, tasks: &mut Vec<Task>) {
    let local = activation(job) / 8;
    if stage > 0 {
        tasks.push(receive(stage - 1, 2 * batch, batch));
    }
    for layer in 0..job.layers_per_stage {
        tasks.push(inside(local, layer, batch));
        tasks.push(compute(3000 * US, layer, batch));
        tasks.push(inside(local, layer, batch));
        tasks.push(compute(200 * US, layer, batch));
        tasks.push(all_to_all(job, layer, batch, (false, true)));
        tasks.push(experts(job, FORWARD, layer, batch));
        tasks.push(all_to_all(job, layer, batch, (true, false)));
    }
    if stage + 1 < job.stages {
        tasks.push(send(job, stage + 1, 2 * batch, batch));
    }
}

fn backward(job: &Job, stage: u32, batch: u32, tasks: &mut Vec<Task>) {
    let local = activation(job) / 8;
    if stage + 1 < job.stages {
        tasks.push(receive(stage + 1, 2 * batch + 1, batch));
    }
    for layer in (0..job.layers_per_stage).rev() {
        tasks.push(all_to_all(job, layer, batch, (false, false)));
        tasks.push(experts(job, BACKWARD, layer, batch));
        tasks.push(all_to_all(job, layer, batch, (true, false)));
        tasks.push(inside(local, layer, batch));
        tasks.push(compute(6000 * US, layer, batch));
        tasks.push(inside(local, layer, batch));
        if batch + 1 == job.micro_batches {
            tasks.extend((0..2).map(|family| all_reduce(family, layer, batch)));
        }
    }
    if stage > 0 {
        tasks.push(send(job, stage - 1, 2 * batch + 1, batch));
    }
}

/// The gradients of a layer, dense or of its experts.
fn all_reduce(family: u32, layer: u32, batch: u32) -> Task {
    let collective = Collective {
        kind: CollectiveKind::AllReduce,
        family: Some(FamilyId(family)),
        payload: Payload::Bytes(100_000_000 * (1 + 4 * u64::from(family))),
        inside: Inside { per_gpu: Amount::Fixed(50_000_000), total: None, peers: 0 },
        asynchronous: true,
    };
    let handle = Some(Handle(2 * layer + family));
    Task { handle, ..task(TaskKind::Collective(collective), DP, layer, batch) }
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
        tor_uplink_reached: None,
        rails: 1,
        planes: 1,
        sprayed_planes: 1,
        failed: BTreeSet::new(),
        replaced: BTreeSet::new(),
    }
}

fn packet(job: &Job, eps: Eps) -> Network {
    Network {
        servers: job.servers(),
        gpus_per_server: 8,
        nvswitch: NvSwitch::uniform(Rate(3600 * GBPS), Duration(10 * US)),
        start_up: StartUp::default(),
        parts: vec![Arc::new(eps)],
        all_to_all: AllToAll::Flat,
        delegates: true,
        regroup_above: u32::MAX,
    }
}

/// Networks by name: fat-tree, oversub, mixnet, topoopt.
pub fn network(job: &Job, name: &str) -> Option<Network> {
    let base = packet(job, eps(8, None));
    match name {
        "fat-tree" => Some(base),
        "oversub" => Some(packet(job, eps(8, Some(3)))),
        "mixnet" => {
            let base = Network { all_to_all: AllToAll::Hierarchical, ..base };
            Some(base.with(eps(2, None)).with(ocs(job)))
        }
        "topoopt" => Some(Network {
            parts: vec![Arc::new(direct(job))],
            all_to_all: AllToAll::Hierarchical,
            ..base
        }),
        _ => None,
    }
}

fn ocs(job: &Job) -> Ocs {
    Ocs {
        ports: 6,
        nic_rate: Rate(400 * GBPS),
        circuit_delay: Duration(US),
        region_of_server: (0..job.servers()).map(|server| server / job.members).collect(),
        planes: None,
        allocator: Allocator::Best,
        when: Reconfigure::Always,
        first: FirstAllToAll::Reuse,
        split: true,
        relaying: None,
        timing: SwitchTiming { fixed: Duration(25_000 * US), ..SwitchTiming::default() },
        failures: Failures::default(),
    }
}

/// A ring over all servers (4 links each way of every neighbor) and a circulant in each EP group;
/// pairs without a direct link take the ring of their group or of the job.
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
        nic_rate: Rate(400 * GBPS),
        link_delay: Duration(US),
        relay_delay: Duration(3 * US),
        circuits,
        routes,
        cycles: Vec::new(),
    }
}
