//! What must hold before a step can be played, and how many bytes it implies.

use crate::error::{ExecuteError, invalid, network as unfit};
use crate::fabric::Fabric;
use crate::ledger::Purpose;
use crate::lower::Which;
use crate::seats::Seats;
use lightloom_model::{
    AllToAll, Invalid, Network, RingKind, Task, TaskGraph, TaskKind, TokenBlocks,
};
use rustc_hash::{FxHashMap, FxHashSet};

/// Most bytes between workers: sums of them fit 64 bits with room to spare.
const MOST_BYTES: u128 = 1 << 62;

/// Most bytes of a token copy: times 32 bits of copies they fit 64 bits.
const MOST_TOKEN_BYTES: u64 = 1 << 30;

/// What is looked up while programs are played.
#[derive(Debug)]
pub struct Index {
    /// Per stage: the positions of its all-to-alls.
    pub exchanges: Vec<Vec<u32>>,
    /// Per stage: the scope of each ring handle.
    pub scope_of_handle: Vec<FxHashMap<u32, u32>>,
    /// Per scope: the ring of each worker, `u32::MAX` where none.
    pub ring_of_worker: Vec<Vec<u32>>,
}

/// Bytes that cross each edge of a ring of n: 2 (n-1)/n of the buffer for an all-reduce, (n-1)/n
/// for its halves (Patarasuk and Yuan 2009), rounded up.
pub fn ring_edge_bytes(kind: RingKind, bytes: u64, members: usize) -> u64 {
    let steps = ring_steps(kind, members);
    let total = (u128::from(bytes) * u128::from(steps)).div_ceil(members as u128);
    u64::try_from(total).unwrap_or(u64::MAX)
}

/// Steps of a ring collective: each moves 1/n of the buffer over every edge.
pub fn ring_steps(kind: RingKind, members: usize) -> u64 {
    let once = members as u64 - 1;
    if kind == RingKind::AllReduce { 2 * once } else { once }
}

/// Checks a graph against a network and builds the index.
///
/// # Errors
/// Names the first thing that does not fit.
pub fn check(graph: &TaskGraph, network: &Network) -> Result<Index, ExecuteError> {
    graph.validate()?;
    network.validate().map_err(ExecuteError::Network)?;
    check_modes(graph, network)?;
    let mut ring_of_worker = Vec::new();
    for scope in &graph.scopes {
        let mut rings = vec![u32::MAX; graph.layout.workers()];
        for (ring, ends) in scope.offsets.windows(2).enumerate() {
            for &worker in &scope.workers[ends[0] as usize..ends[1] as usize] {
                rings[worker as usize] = ring as u32;
            }
        }
        ring_of_worker.push(rings);
    }
    check_messages(graph)?;
    check_groups(graph)?;
    let mut index = Index { exchanges: Vec::new(), scope_of_handle: Vec::new(), ring_of_worker };
    for stage in 0..graph.programs.len() {
        index_stage(graph, stage, &mut index)
            .map_err(|Invalid(text)| invalid(format!("stage {stage}: {text}")))?;
    }
    Ok(index)
}

fn check_modes(graph: &TaskGraph, network: &Network) -> Result<(), ExecuteError> {
    if graph.layout.members > u32::from(u16::MAX) {
        return Err(invalid(format!("{} members in an EP group", graph.layout.members)));
    }
    if graph.layout.members == 0 || graph.layout.replicas == 0 || graph.layout.gpus_per_worker == 0
    {
        return Err(invalid("a layout needs members, replicas and GPUs per worker above 0"));
    }
    if network.direct.is_some() && (network.eps.is_some() || network.ocs.is_some()) {
        return Err(unfit("a network has either direct circuits or an eps, not both"));
    }
    let fixed = network.ocs.is_some() || network.direct.is_some();
    if fixed && network.all_to_all != AllToAll::Hierarchical {
        return Err(unfit("circuits join servers, not ranks: use the hierarchical all-to-all"));
    }
    let ranks = graph.blocks.ranks_per_member;
    let by_rank = network.all_to_all != AllToAll::Hierarchical;
    if by_rank && ranks > 1 && graph.blocks.rank_tokens.is_empty() {
        return Err(invalid(format!(
            "{ranks} EP ranks per worker: a flat or rail all-to-all needs blocks.rank_tokens"
        )));
    }
    Ok(())
}

/// A worker is all of a server that serves an EP group, so no server holds two members of one.
fn check_groups(graph: &TaskGraph) -> Result<(), ExecuteError> {
    let members = graph.layout.members as usize;
    let mut seen: FxHashMap<u32, usize> = FxHashMap::default();
    for (group, servers) in graph.layout.worker_server.chunks_exact(members).enumerate() {
        for &server in servers {
            if seen.insert(server, group) == Some(group) {
                return Err(invalid(format!(
                    "EP group {group} has two members on server {server}: expected one worker"
                )));
            }
        }
    }
    Ok(())
}

/// Every send has one receive in the other stage's program and the other way round.
fn check_messages(graph: &TaskGraph) -> Result<(), ExecuteError> {
    let mut sends: FxHashSet<(u32, u32, u32)> = FxHashSet::default();
    let mut receives: FxHashSet<(u32, u32, u32)> = FxHashSet::default();
    for (stage, task) in tasks(graph) {
        let (set, key) = match task.kind {
            TaskKind::Send { peer_stage, tag, .. } => (&mut sends, (stage, peer_stage, tag)),
            TaskKind::Receive { peer_stage, tag } => (&mut receives, (peer_stage, stage, tag)),
            _ => continue,
        };
        if !set.insert(key) {
            let (from, to, tag) = key;
            return Err(invalid(format!("stages {from} to {to} use tag {tag} twice")));
        }
    }
    for (stage, task) in tasks(graph) {
        let (key, there, missing) = match task.kind {
            TaskKind::Send { peer_stage, tag, .. } => {
                ((stage, peer_stage, tag), &receives, "receive")
            }
            TaskKind::Receive { peer_stage, tag } => ((peer_stage, stage, tag), &sends, "send"),
            _ => continue,
        };
        if !there.contains(&key) {
            let (from, to, tag) = key;
            return Err(invalid(format!(
                "no {missing} matches tag {tag} from stage {from} to stage {to}"
            )));
        }
    }
    Ok(())
}

fn tasks(graph: &TaskGraph) -> impl Iterator<Item = (u32, &Task)> {
    graph
        .programs
        .iter()
        .enumerate()
        .flat_map(|(stage, program)| program.tasks.iter().map(move |task| (stage as u32, task)))
}

fn index_stage(graph: &TaskGraph, stage: usize, index: &mut Index) -> Result<(), Invalid> {
    let mut exchanges = Vec::new();
    let mut scopes: FxHashMap<u32, u32> = FxHashMap::default();
    let mut waited: FxHashSet<u32> = FxHashSet::default();
    let per_stage = graph.layout.workers() / graph.programs.len();
    for (position, task) in graph.programs[stage].tasks.iter().enumerate() {
        match task.kind {
            TaskKind::AllToAll { bytes_per_token, .. } => {
                Purpose::of(task.category)?;
                if bytes_per_token > MOST_TOKEN_BYTES {
                    return Err(Invalid(format!(
                        "task {position}: {bytes_per_token} bytes per token, at most \
                         {MOST_TOKEN_BYTES}"
                    )));
                }
                exchanges.push(position as u32);
            }
            TaskKind::Local { .. } | TaskKind::ExpertTp { .. } | TaskKind::Send { .. } => {
                Purpose::of(task.category)?;
            }
            TaskKind::Ring { scope, handle, .. } => {
                Purpose::of(task.category)?;
                if scopes.insert(handle, scope).is_some() {
                    return Err(Invalid(format!("ring handle {handle} is used twice")));
                }
                let rings = &index.ring_of_worker[scope as usize];
                let own = stage * per_stage..(stage + 1) * per_stage;
                if let Some(worker) = own.clone().find(|&worker| rings[worker] == u32::MAX) {
                    let name = &graph.scopes[scope as usize].name;
                    return Err(Invalid(format!(
                        "worker {worker} starts a ring over scope {name}, which lacks it"
                    )));
                }
            }
            TaskKind::Wait { handle } => {
                if !scopes.contains_key(&handle) || !waited.insert(handle) {
                    return Err(Invalid(format!(
                        "task {position} waits for ring handle {handle}: expected one wait after \
                         the ring"
                    )));
                }
            }
            TaskKind::Compute { .. } | TaskKind::Expert { .. } | TaskKind::Receive { .. } => {}
        }
    }
    let forgotten = graph.programs[stage].tasks.iter().find_map(|task| match task.kind {
        TaskKind::Ring { handle, .. } if !waited.contains(&handle) => Some(handle),
        _ => None,
    });
    if let Some(handle) = forgotten {
        return Err(Invalid(format!("nobody waits for ring handle {handle}")));
    }
    index.exchanges.push(exchanges);
    index.scope_of_handle.push(scopes);
    Ok(())
}

/// Bytes between workers that the graph implies, by purpose: found from the counts alone, so that
/// it checks what the run counts. Also checks that direct routes exist where they are needed.
///
/// # Errors
/// If two servers that communicate have no route.
pub fn implied_bytes(
    graph: &TaskGraph,
    seats: &Seats,
    fabric: &Fabric,
    by_rank: bool,
) -> Result<[u64; 5], ExecuteError> {
    let mut totals = [0_u128; 5];
    let layout = &graph.layout;
    let per_stage = u64::from(layout.replicas) * u64::from(layout.members);
    let mut peers: FxHashSet<(u32, u32)> = FxHashSet::default();
    for (stage, task) in tasks(graph) {
        let Ok(purpose) = Purpose::of(task.category) else { continue };
        let total = &mut totals[purpose as usize];
        match task.kind {
            TaskKind::Send { peer_stage, bytes, .. } => {
                *total += u128::from(bytes) * u128::from(per_stage);
                if peers.insert((stage, peer_stage)) {
                    for worker in 0..per_stage as u32 {
                        let ends = [stage, peer_stage].map(|at| at * per_stage as u32 + worker);
                        need_route(seats, fabric, (ends[0], ends[1]), "a pipeline send")?;
                    }
                }
            }
            TaskKind::AllToAll { block, bytes_per_token, .. } => {
                for replica in 0..layout.replicas {
                    let group = stage * layout.replicas + replica;
                    let cell = group as usize * graph.blocks.blocks as usize + block as usize;
                    let copies = remote_copies(&graph.blocks, cell, layout.members, by_rank);
                    *total += u128::from(copies) * u128::from(bytes_per_token);
                }
            }
            _ => {}
        }
    }
    add_rings(graph, seats, fabric, &mut totals)?;
    need_exchange_routes(graph, seats, fabric)?;
    if totals.iter().any(|&total| total > MOST_BYTES) {
        return Err(invalid(format!(
            "the step moves over {MOST_BYTES} bytes between workers: check sizes"
        )));
    }
    Ok(totals.map(|total| total as u64))
}

fn remote_copies(blocks: &TokenBlocks, cell: usize, members: u32, by_rank: bool) -> u64 {
    let ranks = if by_rank { blocks.ranks_per_member.max(1) as usize } else { 1 };
    let size = members as usize * ranks;
    let matrix = if ranks > 1 { &blocks.rank_tokens } else { &blocks.tokens };
    let matrix = &matrix[cell * size * size..(cell + 1) * size * size];
    let mut total = 0;
    for (row, counts) in matrix.chunks_exact(size.max(1)).enumerate() {
        let member = row / ranks;
        let own = &counts[member * ranks..(member + 1) * ranks];
        let all: u64 = counts.iter().map(|&count| u64::from(count)).sum();
        total += all - own.iter().map(|&count| u64::from(count)).sum::<u64>();
    }
    total
}

fn add_rings(
    graph: &TaskGraph,
    seats: &Seats,
    fabric: &Fabric,
    totals: &mut [u128; 5],
) -> Result<(), ExecuteError> {
    let per_stage = graph.layout.workers() / graph.programs.len();
    // A collective is joined by all of its ring; the first member, which may be of another stage,
    // stands for it.
    for (stage, task) in tasks(graph) {
        let TaskKind::Ring { kind, scope, bytes, .. } = task.kind else { continue };
        let Ok(purpose) = Purpose::of(task.category) else { continue };
        let scope = &graph.scopes[scope as usize];
        for ends in scope.offsets.windows(2) {
            let ring = &scope.workers[ends[0] as usize..ends[1] as usize];
            let first = ring.first().map(|&worker| worker as usize / per_stage);
            if first != Some(stage as usize) || ring.len() < 2 {
                continue;
            }
            let edge = ring_edge_bytes(kind, bytes, ring.len());
            totals[purpose as usize] += u128::from(edge) * ring.len() as u128;
            for (place, &worker) in ring.iter().enumerate() {
                let next = ring[(place + 1) % ring.len()];
                need_route(seats, fabric, (worker, next), "a ring")?;
                need_route(seats, fabric, (next, worker), "a ring, which goes both ways,")?;
            }
        }
    }
    Ok(())
}

fn need_exchange_routes(
    graph: &TaskGraph,
    seats: &Seats,
    fabric: &Fabric,
) -> Result<(), ExecuteError> {
    if fabric.direct.is_none() {
        return Ok(());
    }
    let members = graph.layout.members;
    let mut demand = Vec::new();
    for (stage, task) in tasks(graph) {
        let TaskKind::AllToAll { block, transposed, bytes_per_token, .. } = task.kind else {
            continue;
        };
        for replica in 0..graph.layout.replicas {
            let group = stage * graph.layout.replicas + replica;
            let first_worker = group * members;
            let which = Which { group, first_worker, members, block, transposed, bytes_per_token };
            which.demand(&graph.blocks, &mut demand);
            for (cell, &bytes) in demand.iter().enumerate() {
                let (from, to) = (cell as u32 / members, cell as u32 % members);
                if bytes > 0 && from != to {
                    let ends = (first_worker + from, first_worker + to);
                    need_route(seats, fabric, ends, "an all-to-all")?;
                }
            }
        }
    }
    Ok(())
}

fn need_route(
    seats: &Seats,
    fabric: &Fabric,
    (from, to): (u32, u32),
    what: &str,
) -> Result<(), ExecuteError> {
    let (source, target) = (seats.server[from as usize], seats.server[to as usize]);
    let Some(direct) = &fabric.direct else { return Ok(()) };
    if source != target && direct.routes(source, target).is_empty() {
        return Err(unfit(format!(
            "no route from server {source} to server {target}, which {what} needs: add it to the \
             fabric's routes"
        )));
    }
    Ok(())
}
