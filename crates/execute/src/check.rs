//! What must hold before a step can be played.

use crate::error::{ExecuteError, invalid, network as unfit};
use crate::index::Index;
use crate::network::Network;
use lightloom_model::{
    AllToAll, Collective, CollectiveKind, FamilyId, GroupFamily, Handle, Invalid, Payload, Peer,
    Role, RoleId, Tag, Task, TaskGraph, TaskIndex, TaskKind, WorkerId,
};
use rustc_hash::{FxHashMap, FxHashSet};

/// Maximum bytes per count of a demand block: times 32 bits of counts they fit 64 bits.
const MAX_UNIT_BYTES: u64 = 1 << 30;

/// Checks a graph against a network and builds the index.
///
/// # Errors
/// Names the first thing that does not fit.
pub(crate) fn check(graph: &TaskGraph, network: &Network) -> Result<Index, ExecuteError> {
    graph.validate()?;
    network.validate().map_err(ExecuteError::Network)?;
    check_modes(graph, network)?;
    let mut index = Index::new(graph);
    for (number, role) in graph.roles.iter().enumerate() {
        check_tasks(graph, &index, role)?;
        let awaited = find_handles(role)?;
        index.roles[number].awaited = awaited;
    }
    check_messages(graph, &index)?;
    for (number, family) in graph.families.iter().enumerate() {
        check_family(graph, &index, FamilyId(number as u32), family)?;
    }
    Ok(index)
}

fn check_modes(graph: &TaskGraph, network: &Network) -> Result<(), ExecuteError> {
    if graph.gpus_per_worker == 0 {
        return Err(invalid("gpus_per_worker = 0: expected at least 1"));
    }
    let apart = network.parts.iter().all(|part| part.tells_nics_apart());
    if !apart && network.all_to_all != AllToAll::Hierarchical {
        return Err(unfit("circuits join servers, not ranks: use the hierarchical all-to-all"));
    }
    let by_rank = network.all_to_all != AllToAll::Hierarchical;
    for demand in &graph.demands {
        let ranks = demand.ranks_per_member;
        if by_rank && ranks > 1 && demand.rank_counts.is_empty() {
            return Err(invalid(format!(
                "demand '{}': {ranks} ranks per worker: a flat or rail all-to-all needs \
                 rank_counts",
                demand.name
            )));
        }
    }
    Ok(())
}

/// An error of a task, with its role, position and kind.
fn of_task(role: &Role, position: usize, error: &str) -> ExecuteError {
    let kind = role.tasks[position].kind.name();
    invalid(format!("role '{}', task {position} ({kind}): {error}", role.name))
}

fn check_tasks(graph: &TaskGraph, index: &Index, role: &Role) -> Result<(), ExecuteError> {
    for (position, task) in role.tasks.iter().enumerate() {
        if let TaskKind::Collective(_) | TaskKind::Send { .. } = task.kind
            && index.purpose_of[task.category.index()].is_none()
        {
            let name = &graph.categories[task.category.index()].name;
            let purposes = index.purposes.join(", ");
            let text = format!(
                "charged to '{name}', which is not communication: expected a category of {purposes}"
            );
            return Err(of_task(role, position, &text));
        }
        let Some(collective) = task.collective() else { continue };
        if let Payload::Block { unit_bytes, .. } = collective.payload
            && unit_bytes > MAX_UNIT_BYTES
        {
            let text = format!("{unit_bytes} bytes per count, at most {MAX_UNIT_BYTES}");
            return Err(of_task(role, position, &text));
        }
        let Some(family) = collective.family else { continue };
        let outside = |&&worker: &&WorkerId| index.membership(family, worker).is_none();
        if let Some(worker) = role.workers.iter().find(outside) {
            let name = &graph.families[family.index()].name;
            let text = format!("worker {worker} is in no group of family '{name}'");
            return Err(of_task(role, position, &text));
        }
        let Payload::Block { demand, .. } = collective.payload else { continue };
        let table = &graph.demands[demand.index()];
        let described = table.first_group..table.first_group + table.groups;
        let group = |worker: &WorkerId| index.membership(family, *worker).map(|here| here.group.0);
        if let Some(group) =
            (role.workers.iter().filter_map(group)).find(|g| !described.contains(g))
        {
            let text = format!("demand '{}' does not describe group {group}", table.name);
            return Err(of_task(role, position, &text));
        }
    }
    Ok(())
}

/// The task that each wait is for: every handle is named once and waited for once, later.
fn find_handles(role: &Role) -> Result<Vec<TaskIndex>, ExecuteError> {
    let mut awaited = vec![TaskIndex(u32::MAX); role.tasks.len()];
    let mut open: FxHashMap<Handle, usize> = FxHashMap::default();
    let mut used: FxHashSet<Handle> = FxHashSet::default();
    for (position, task) in role.tasks.iter().enumerate() {
        if let Some(handle) = task.handle {
            if !used.insert(handle) {
                return Err(of_task(role, position, &format!("handle {handle} is used twice")));
            }
            open.insert(handle, position);
        }
        if let TaskKind::Wait { handle, .. } = task.kind {
            let Some(task) = open.remove(&handle) else {
                let is_used = used.contains(&handle);
                let what =
                    if is_used { "is waited for twice" } else { "belongs to no earlier task" };
                return Err(of_task(role, position, &format!("handle {handle} {what}")));
            };
            awaited[position] = TaskIndex(task as u32);
        }
    }
    match open.into_iter().map(|(handle, position)| (position, handle)).min() {
        Some((position, handle)) => {
            Err(of_task(role, position, &format!("nobody waits for handle {handle}")))
        }
        None => Ok(awaited),
    }
}

/// A message as both ends know it: sender, receiver, tag.
type MessageKey<T> = (T, T, Tag);

/// Every send has one receive and the other way round. Between roles, one check stands for all
/// workers; as soon as a peer is named by its place in a group, every worker is looked at.
fn check_messages(graph: &TaskGraph, index: &Index) -> Result<(), ExecuteError> {
    let by_role = (tasks(graph).filter_map(|(_, task)| peer_of(task)))
        .all(|peer| matches!(peer, Peer::Role(_)));
    if by_role {
        let other = |_: RoleId, role: RoleId, peer: Peer| match peer {
            Peer::Role(other) => Ok((role, other)),
            Peer::Member { .. } => unreachable!("all peers are roles"),
        };
        let all = (0..graph.roles.len() as u32).map(|role| (RoleId(role), RoleId(role)));
        return match_messages(graph, all, other, |role| {
            format!("role '{}'", graph.roles[role.index()].name)
        });
    }
    let other = |role: RoleId, worker: WorkerId, peer: Peer| {
        let other_end = index.peer(graph, worker, peer).filter(|&other| other != worker);
        let name = &graph.roles[role.index()].name;
        other_end.map(|other| (worker, other)).ok_or_else(|| {
            let place = match peer {
                Peer::Role(role) => format!("its place of role {role}"),
                Peer::Member { family, place } => {
                    let family = &graph.families[family.index()].name;
                    format!("place {place} of its group in family '{family}'")
                }
            };
            invalid(format!("role '{name}': worker {worker} has no other worker at {place}"))
        })
    };
    let workers = (0..graph.workers() as u32).map(WorkerId);
    let all = workers.map(|worker| (index.role_of[worker.index()], worker));
    match_messages(graph, all, other, |worker| format!("worker {worker}"))
}

/// Matches the messages of all programs, each played by those who are given with its role.
fn match_messages<T: Copy + Eq + std::hash::Hash>(
    graph: &TaskGraph,
    players: impl Iterator<Item = (RoleId, T)>,
    ends: impl Fn(RoleId, T, Peer) -> Result<(T, T), ExecuteError>,
    describe: impl Fn(T) -> String,
) -> Result<(), ExecuteError> {
    let mut sends: FxHashSet<MessageKey<T>> = FxHashSet::default();
    let mut receives: FxHashSet<MessageKey<T>> = FxHashSet::default();
    let mut order: Vec<(MessageKey<T>, bool)> = Vec::new();
    for (role, player) in players {
        for task in &graph.roles[role.index()].tasks {
            let (key, is_send) = match task.kind {
                TaskKind::Send { peer, tag, .. } => {
                    let (here, there) = ends(role, player, peer)?;
                    ((here, there, tag), true)
                }
                TaskKind::Receive { peer, tag } => {
                    let (here, there) = ends(role, player, peer)?;
                    ((there, here, tag), false)
                }
                _ => continue,
            };
            let set = if is_send { &mut sends } else { &mut receives };
            if !set.insert(key) {
                let (from, to) = (describe(key.0), describe(key.1));
                return Err(invalid(format!("{from} to {to}: tag {} is used twice", key.2)));
            }
            order.push((key, is_send));
        }
    }
    for (key, is_send) in order {
        let (there, missing) = if is_send { (&receives, "receive") } else { (&sends, "send") };
        if !there.contains(&key) {
            let (from, to) = (describe(key.0), describe(key.1));
            return Err(invalid(format!("no {missing} matches tag {} from {from} to {to}", key.2)));
        }
    }
    Ok(())
}

fn peer_of(task: &Task) -> Option<Peer> {
    match task.kind {
        TaskKind::Send { peer, .. } | TaskKind::Receive { peer, .. } => Some(peer),
        _ => None,
    }
}

/// Roles and tasks, in order.
fn tasks(graph: &TaskGraph) -> impl Iterator<Item = (&Role, &Task)> {
    graph.roles.iter().flat_map(|role| role.tasks.iter().map(move |task| (role, task)))
}

/// Members of a group issue the same collectives, and those of all-to-alls sit on different
/// servers.
fn check_family(
    graph: &TaskGraph,
    index: &Index,
    id: FamilyId,
    family: &GroupFamily,
) -> Result<(), ExecuteError> {
    let mut equal: FxHashSet<(RoleId, RoleId)> = FxHashSet::default();
    for (group, members) in family.iter() {
        let Some(&first) = members.first() else { continue };
        let leader = index.role_of[first.index()];
        for &member in members {
            let role = index.role_of[member.index()];
            if role != leader && equal.insert((leader, role)) {
                check_equal(graph, id, leader, role).map_err(|Invalid(text)| {
                    invalid(format!("group {group} of family '{}': {text}", family.name))
                })?;
            }
        }
    }
    let is_all_to_all = |collective: &&Collective| {
        collective.family == Some(id) && collective.kind == CollectiveKind::AllToAll
    };
    if tasks(graph).filter_map(|(_, task)| task.collective()).any(|one| is_all_to_all(&one)) {
        check_servers(graph, family)?;
    }
    Ok(())
}

fn check_servers(graph: &TaskGraph, family: &GroupFamily) -> Result<(), ExecuteError> {
    let mut seen: FxHashMap<u32, u32> = FxHashMap::default();
    for (group, members) in family.iter() {
        if members.len() > usize::from(u16::MAX) {
            let (name, count) = (&family.name, members.len());
            return Err(invalid(format!("group {group} of family '{name}': {count} members")));
        }
        for worker in members {
            let server = graph.worker_server[worker.index()];
            if seen.insert(server, group.0) == Some(group.0) {
                return Err(invalid(format!(
                    "group {group} of family '{}' has two members on server {server}: an \
                     all-to-all expects one worker per server",
                    family.name
                )));
            }
        }
    }
    Ok(())
}

/// Two roles that meet in a group issue equal collectives over its family, in one order.
fn check_equal(
    graph: &TaskGraph,
    family: FamilyId,
    one: RoleId,
    other: RoleId,
) -> Result<(), Invalid> {
    let issued = |role: RoleId| {
        let tasks = graph.roles[role.index()].tasks.iter().enumerate();
        tasks.filter_map(move |(position, task)| {
            let collective = task.collective().filter(|one| one.family == Some(family))?;
            // Whether a member waits at once, and on which stream, is its own affair.
            let shared = Collective { asynchronous: false, ..*collective };
            Some((position, (shared, task.category, task.priority)))
        })
    };
    let (mut first, mut second) = (issued(one), issued(other));
    let names = [one, other].map(|role| &graph.roles[role.index()].name);
    for number in 0_u32.. {
        match (first.next(), second.next()) {
            (None, None) => return Ok(()),
            (Some((_, a)), Some((_, b))) if a == b => {}
            (a, b) => {
                let describe = |position: Option<usize>| {
                    position.map_or_else(|| "no task".into(), |position| format!("task {position}"))
                };
                return Err(Invalid(format!(
                    "roles '{}' and '{}' disagree on collective {number}: {} of one and {} of the \
                     other",
                    names[0],
                    names[1],
                    describe(a.map(|(position, _)| position)),
                    describe(b.map(|(position, _)| position))
                )));
            }
        }
    }
    Ok(())
}
