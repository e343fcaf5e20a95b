//! Small graphs and networks for the tests of this crate.

use lightloom_model::{
    AllToAll, Allocator, Category, Direct, Duration, Eps, Failures, FirstAllToAll, Layout, Network,
    NvSwitch, Ocs, Policy, Rate, Reconfigure, RelayChunk, StageProgram, SwitchTiming, Task,
    TaskGraph, TaskKind, TokenBlocks,
};

/// One gigabit per second.
pub const GBPS: u64 = 1_000_000_000;

/// A graph whose stages do nothing, one server of 8 GPUs per worker.
pub fn empty_graph(stages: u32, replicas: u32, members: u32) -> TaskGraph {
    let layout = Layout { stages, replicas, members, gpus_per_worker: 8, worker_server: vec![] };
    let workers = layout.workers() as u32;
    TaskGraph {
        layout: Layout { worker_server: (0..workers).collect(), ..layout },
        programs: vec![StageProgram::default(); stages as usize],
        scopes: vec![],
        blocks: TokenBlocks::default(),
    }
}

/// Adds token blocks: each is one matrix that all groups share.
pub fn with_blocks(mut graph: TaskGraph, matrices: &[&[u32]]) -> TaskGraph {
    let groups = (graph.layout.stages * graph.layout.replicas) as usize;
    let members = graph.layout.members as usize;
    let cells = groups * matrices.len();
    graph.blocks = TokenBlocks {
        blocks: matrices.len() as u32,
        tokens: (0..groups).flat_map(|_| matrices.concat()).collect(),
        expert_forward: vec![Duration::ZERO; cells * members],
        expert_backward: vec![Duration::ZERO; cells * members],
        ..TokenBlocks::default()
    };
    graph
}

/// A task without layer and micro-batch.
pub fn task(kind: TaskKind, category: Category) -> Task {
    Task { kind, category, layer: u16::MAX, micro_batch: u16::MAX }
}

/// Compute for so many picoseconds.
pub fn compute(duration: u64) -> Task {
    task(TaskKind::Compute { duration: Duration(duration) }, Category::Attention)
}

/// An all-to-all of one byte per token copy.
pub fn all_to_all(block: u32, first: bool) -> Task {
    let kind = TaskKind::AllToAll {
        block,
        transposed: false,
        first,
        pass: lightloom_model::Pass::Forward,
        bytes_per_token: 1,
    };
    task(kind, Category::Ep)
}

/// A packet fabric of 8 NICs of 400 Gb/s per server, all under one ToR.
pub fn eps(servers: u32) -> Eps {
    Eps {
        nics: 8,
        nic_rate: Rate(400 * GBPS),
        link_delay: Duration(1_000_000),
        servers_per_tor: servers,
        servers_per_pod: servers,
        tor_uplink: None,
        rail: false,
    }
}

/// Six circuits per server, all servers in one region, 25 ms to switch.
pub fn ocs(servers: usize) -> Ocs {
    Ocs {
        degree: 6,
        nic_rate: Rate(400 * GBPS),
        circuit_delay: Duration(1_000_000),
        region_of_server: vec![0; servers],
        planes: None,
        relay_chunk: RelayChunk::default(),
        policy: Policy {
            allocator: Allocator::Best,
            when: Reconfigure::Always,
            first: FirstAllToAll::Reuse,
            split: true,
            relaying: false,
        },
        timing: SwitchTiming { fixed: Duration(25_000_000_000), ..SwitchTiming::default() },
        failures: Failures::default(),
    }
}

/// As [`ocs`], with another policy.
pub fn ocs_when(servers: usize, when: Reconfigure) -> Ocs {
    let base = ocs(servers);
    Ocs { policy: Policy { when, ..base.policy }, ..base }
}

/// As these circuits, over which servers relay in such chunks, if any.
pub fn with_relays(ocs: Ocs, chunk: Option<RelayChunk>) -> Ocs {
    let policy = Policy { relaying: chunk.is_some(), ..ocs.policy };
    Ocs { policy, relay_chunk: chunk.unwrap_or_default(), ..ocs }
}

/// As this network, whose first all-to-alls do something else.
pub fn with_first(network: Network, first: FirstAllToAll) -> Network {
    let ocs = network.ocs.map(|ocs| Ocs { policy: Policy { first, ..ocs.policy }, ..ocs });
    Network { ocs, ..network }
}

/// A network of this packet fabric alone.
pub fn packet(servers: u32) -> Network {
    Network {
        servers,
        gpus_per_server: 8,
        nvswitch: NvSwitch { gpu_rate: Rate(3600 * GBPS), latency: Duration(2_000_000) },
        eps: Some(eps(servers)),
        ocs: None,
        direct: None,
        all_to_all: AllToAll::Flat,
    }
}

/// MixNet: two NICs on the packet fabric, six on circuits.
pub fn mixnet(servers: u32) -> Network {
    Network {
        eps: Some(Eps { nics: 2, ..eps(servers) }),
        ocs: Some(ocs(servers as usize)),
        all_to_all: AllToAll::Hierarchical,
        ..packet(servers)
    }
}

/// Fixed circuits.
pub fn direct(servers: u32, direct: Direct) -> Network {
    Network {
        eps: None,
        direct: Some(direct),
        all_to_all: AllToAll::Hierarchical,
        ..packet(servers)
    }
}
