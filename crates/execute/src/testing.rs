//! Small graphs and networks for the tests of this crate.

use crate::network::{Network, PartConfig};
use crate::parts::{Direct, Eps, Ocs};
use lightloom_decide::Reconfigure;
use lightloom_model::{
    AllToAll, Allocator, Amount, Category, CategoryId, CategoryUse, Collective, CollectiveKind,
    DemandId, DemandTable, Duration, Failures, FamilyId, FirstAllToAll, GroupFamily, Inside,
    NvSwitch, Payload, Rate, Role, StartUp, SwitchTiming, Task, TaskGraph, TaskKind, WorkerId,
};
use std::collections::BTreeSet;
use std::sync::Arc;

/// One gigabit per second.
pub(crate) const GBPS: u64 = 1_000_000_000;

pub(crate) const WORK: CategoryId = CategoryId(0);
pub(crate) const TP: CategoryId = CategoryId(1);
pub(crate) const EP: CategoryId = CategoryId(2);
pub(crate) const PP: CategoryId = CategoryId(3);
pub(crate) const DP: CategoryId = CategoryId(4);
pub(crate) const RECONFIGURATION: CategoryId = CategoryId(5);
pub(crate) const IDLE: CategoryId = CategoryId(6);

/// The family over which [`with_blocks`] and [`all_to_all`] move data.
pub(crate) const EXPERTS: FamilyId = FamilyId(0);

/// `work`, one category for each of `tp`, `ep`, `pp` and `dp`, and those for waiting.
fn categories() -> Vec<Category> {
    let category = |name: &str, used_for| Category { name: name.into(), used_for };
    let moving = |name: &str| category(name, CategoryUse::Communication(name.into()));
    let mut all = vec![category("work", CategoryUse::Compute)];
    all.extend(["tp", "ep", "pp", "dp"].map(moving));
    all.push(category("reconfiguration", CategoryUse::Reconfiguration));
    all.push(category("bubble", CategoryUse::Idle));
    all
}

/// Groups of these sizes, of workers from 0 on.
pub(crate) fn family(name: &str, sizes: &[u32]) -> GroupFamily {
    let mut offsets = vec![0];
    for size in sizes {
        offsets.push(offsets[offsets.len() - 1] + size);
    }
    let workers = (0..offsets[offsets.len() - 1]).map(WorkerId).collect();
    GroupFamily { name: name.into(), offsets, workers, absent: 0 }
}

/// A graph whose stages do nothing, one server of 8 GPUs per worker.
///
/// A stage is a role of `replicas` groups of `members` workers each, which are the family
/// [`EXPERTS`].
pub(crate) fn empty_graph(stages: u32, replicas: u32, members: u32) -> TaskGraph {
    let per_stage = replicas * members;
    let role = |stage: u32| Role {
        name: format!("stage {stage}"),
        workers: (stage * per_stage..(stage + 1) * per_stage).map(WorkerId).collect(),
        tasks: vec![],
    };
    TaskGraph {
        gpus_per_worker: 8,
        worker_server: (0..stages * per_stage).collect(),
        categories: categories(),
        roles: (0..stages).map(role).collect(),
        families: vec![family("ep", &vec![members; (stages * replicas) as usize])],
        regional_family: Some(EXPERTS),
        ..TaskGraph::default()
    }
}

/// Adds blocks of demand: each is one matrix that all groups share.
pub(crate) fn with_blocks(mut graph: TaskGraph, matrices: &[&[u32]]) -> TaskGraph {
    let groups = graph.families[0].groups();
    graph.demands = vec![DemandTable {
        name: "tokens".into(),
        family: EXPERTS,
        groups: groups as u32,
        blocks: matrices.len() as u32,
        counts: (0..groups).flat_map(|_| matrices.concat()).collect(),
        ..DemandTable::default()
    }];
    graph
}

/// A task without layer and micro-batch.
pub(crate) fn task(kind: TaskKind, category: CategoryId) -> Task {
    Task::new(kind, category)
}

/// Compute for so many picoseconds.
pub(crate) fn compute(duration: u64) -> Task {
    task(TaskKind::Compute { duration: Amount::Fixed(duration) }, WORK)
}

/// An all-to-all of one byte per count.
pub(crate) fn all_to_all(block: u32, first: bool) -> Task {
    let payload =
        Payload::Block { demand: DemandId(0), block, transposed: false, first, unit_bytes: 1 };
    let collective = Collective {
        kind: CollectiveKind::AllToAll,
        family: Some(EXPERTS),
        payload,
        inside: Inside::NONE,
        asynchronous: false,
    };
    task(TaskKind::Collective(collective), EP)
}

/// A collective inside each worker.
pub(crate) fn inside(per_gpu: Amount, total: Option<Amount>) -> Task {
    let collective = Collective {
        kind: CollectiveKind::AllReduce,
        family: None,
        payload: Payload::Bytes(0),
        inside: Inside { per_gpu, total, peers: 0 },
        asynchronous: false,
    };
    task(TaskKind::Collective(collective), TP)
}

/// A packet fabric of 8 NICs of 400 Gb/s per server, all under one ToR.
pub(crate) fn eps(servers: u32) -> Eps {
    Eps {
        nics: 8,
        nic_rate: Rate(400 * GBPS),
        link_delay: Duration(1_000_000),
        servers_per_tor: servers,
        servers_per_pod: servers,
        tor_uplink: None,
        tor_uplink_reached: None,
        rails: 1,
        planes: 1,
        sprayed_planes: 1,
        failed: BTreeSet::new(),
        replaced: BTreeSet::new(),
    }
}

/// Six circuits per server, all servers in one region, 25 ms to switch.
pub(crate) fn ocs(servers: usize) -> Ocs {
    Ocs {
        ports: 6,
        nic_rate: Rate(400 * GBPS),
        circuit_delay: Duration(1_000_000),
        region_of_server: vec![0; servers],
        planes: None,
        allocator: Allocator::Best,
        when: Reconfigure::Always,
        first: FirstAllToAll::Reuse,
        split: true,
        relaying: None,
        timing: SwitchTiming { fixed: Duration(25_000_000_000), ..SwitchTiming::default() },
        failures: Failures::default(),
    }
}

/// As [`ocs`], with another policy.
pub(crate) fn ocs_when(servers: usize, when: Reconfigure) -> Ocs {
    Ocs { when, ..ocs(servers) }
}

/// As this network, whose first all-to-alls do something else.
pub(crate) fn with_first(network: Network, first: FirstAllToAll) -> Network {
    let ocs = decided(&network);
    network.with(Ocs { first, ..ocs })
}

/// A network of this packet fabric alone.
pub(crate) fn packet(servers: u32) -> Network {
    Network {
        servers,
        gpus_per_server: 8,
        nvswitch: NvSwitch::uniform(Rate(3600 * GBPS), Duration(2_000_000)),
        start_up: StartUp::default(),
        parts: vec![Arc::new(eps(servers))],
        all_to_all: AllToAll::Flat,
        delegates: true,
        regroup_above: u32::MAX,
    }
}

/// MixNet: two NICs on the packet fabric, six on circuits.
pub(crate) fn mixnet(servers: u32) -> Network {
    let network = Network { all_to_all: AllToAll::Hierarchical, ..packet(servers) };
    network.with(Eps { nics: 2, ..eps(servers) }).with(ocs(servers as usize))
}

/// The circuits of a network whose changes are decided.
pub(crate) fn decided(network: &Network) -> Ocs {
    network.decided_circuits().expect("a network with circuits").1.clone()
}

/// Fixed circuits.
pub(crate) fn direct(servers: u32, direct: Direct) -> Network {
    let parts: Vec<Arc<dyn PartConfig>> = vec![Arc::new(direct)];
    Network { parts, all_to_all: AllToAll::Hierarchical, ..packet(servers) }
}
