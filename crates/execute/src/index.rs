//! What is looked up while programs are played: places of workers, turns of streams, and which task
//! of one member meets which of another.

use lightloom_model::{
    CategoryId, CategoryUse, CollectiveKind, FamilyId, GroupId, Payload, Peer, PurposeId, RoleId,
    Task, TaskGraph, TaskIndex, TaskKind, WorkerId,
};

/// Where a worker is in a family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Membership {
    /// Its group.
    pub group: GroupId,
    /// Its place there.
    pub place: u32,
}

/// A group of a family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct GroupKey {
    /// The family.
    pub family: FamilyId,
    /// The group in it.
    pub group: GroupId,
}

/// A task and its position in the program.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Turn<'a> {
    /// The position.
    pub position: TaskIndex,
    /// The task.
    pub task: &'a Task,
}

/// In a column of [`Membership`]: the worker is in no group.
const OUTSIDE: Membership = Membership { group: GroupId(u32::MAX), place: 0 };

/// What is looked up of the program of a role.
#[derive(Debug, Default)]
pub(crate) struct RoleIndex {
    /// The tasks of each stream, in order.
    pub streams: Vec<Vec<TaskIndex>>,
    /// Per task: how many collectives over its family come before it.
    pub sequence: Vec<u32>,
    /// All-to-alls over the regional family, in order.
    pub all_to_alls: Vec<TaskIndex>,
    /// Layer and number among [`Self::all_to_alls`] of those that open a forward pass, sorted.
    first_all_to_alls: Vec<(u16, u32)>,
    /// Per task that waits for a handle: the task of that handle.
    pub awaited: Vec<TaskIndex>,
}

/// What is looked up while programs are played.
#[derive(Debug)]
pub(crate) struct Index {
    /// Role of each worker.
    pub role_of: Vec<RoleId>,
    /// Place of each worker in its role.
    pub place_in_role: Vec<u32>,
    /// By role.
    pub roles: Vec<RoleIndex>,
    /// Names of the purposes.
    pub purposes: Vec<String>,
    /// Purpose of each category, if it is communication.
    pub purpose_of: Vec<Option<PurposeId>>,
    /// The family whose groups circuits follow.
    pub regional: Option<FamilyId>,
    /// Streams per worker.
    pub streams: usize,
    /// Whether any message waits for its receiver.
    pub has_rendezvous: bool,
    /// Category of waiting for others.
    pub idle: CategoryId,
    /// Category of waiting for circuits.
    pub reconfiguration: CategoryId,
    /// Per family and worker.
    memberships: Vec<Vec<Membership>>,
}

impl Index {
    /// Indexes a graph whose columns were checked; handles are filled in by the check of them.
    pub(crate) fn new(graph: &TaskGraph) -> Self {
        let workers = graph.workers();
        let (mut role_of, mut place_in_role) = (vec![RoleId(0); workers], vec![0; workers]);
        for (number, role) in graph.roles.iter().enumerate() {
            for (place, worker) in role.workers.iter().enumerate() {
                role_of[worker.index()] = RoleId(number as u32);
                place_in_role[worker.index()] = place as u32;
            }
        }
        let memberships = graph.families.iter().map(|family| {
            let mut column = vec![OUTSIDE; workers];
            for (group, members) in family.iter() {
                for (place, worker) in members.iter().enumerate() {
                    column[worker.index()] = Membership { group, place: place as u32 };
                }
            }
            column
        });
        let regional = graph.regional_family;
        let streams = graph.streams();
        let category = |wanted: &CategoryUse| {
            let number = graph.categories.iter().position(|one| one.used_for == *wanted);
            CategoryId(number.expect("checked") as u8)
        };
        Self {
            role_of,
            place_in_role,
            roles: (graph.roles.iter())
                .map(|role| RoleIndex::new(&role.tasks, graph.families.len(), streams, regional))
                .collect(),
            purposes: graph.purposes(),
            purpose_of: graph.purpose_of_category(),
            regional,
            streams,
            has_rendezvous: (graph.roles.iter().flat_map(|role| &role.tasks))
                .any(|task| task.handle.is_some() && matches!(task.kind, TaskKind::Send { .. })),
            idle: category(&CategoryUse::Idle),
            reconfiguration: category(&CategoryUse::Reconfiguration),
            memberships: memberships.collect(),
        }
    }

    /// The group of a worker, if it has one.
    #[inline]
    pub(crate) fn membership(&self, family: FamilyId, worker: WorkerId) -> Option<Membership> {
        let membership = self.memberships[family.index()][worker.index()];
        (membership.group != OUTSIDE.group).then_some(membership)
    }

    /// The other end of a worker's messages, if there is one.
    pub(crate) fn peer(&self, graph: &TaskGraph, worker: WorkerId, peer: Peer) -> Option<WorkerId> {
        match peer {
            Peer::Role(role) => {
                let place = self.place_in_role[worker.index()];
                graph.roles[role.index()].workers.get(place as usize).copied()
            }
            Peer::Member { family, place } => {
                let group = self.membership(family, worker)?.group;
                graph.families[family.index()].members(group).get(place as usize).copied()
            }
        }
    }

    /// The purpose of a communication task.
    pub(crate) fn purpose(&self, task: &Task) -> PurposeId {
        self.purpose_of[task.category.index()].expect("communication has a purpose")
    }

    /// The role of a group's first member.
    pub(crate) fn role_of_group(
        &self,
        graph: &TaskGraph,
        family: FamilyId,
        group: GroupId,
    ) -> RoleId {
        self.role_of[graph.families[family.index()].members(group)[0].index()]
    }

    /// The tasks of a role's stream.
    pub(crate) fn stream(&self, role: RoleId, stream: usize) -> &[TaskIndex] {
        &self.roles[role.index()].streams[stream]
    }
}

impl RoleIndex {
    fn new(tasks: &[Task], families: usize, streams: usize, regional: Option<FamilyId>) -> Self {
        let mut index = Self {
            streams: vec![Vec::new(); streams],
            awaited: vec![TaskIndex(u32::MAX); tasks.len()],
            ..Self::default()
        };
        let mut counts = vec![0; families];
        for (position, task) in tasks.iter().enumerate() {
            let position = TaskIndex(position as u32);
            index.streams[task.stream.index()].push(position);
            let mut before = 0;
            if let TaskKind::Collective(collective) = &task.kind
                && let Some(family) = collective.family
            {
                before = counts[family.index()];
                counts[family.index()] += 1;
                if collective.kind == CollectiveKind::AllToAll && Some(family) == regional {
                    if let Payload::Block { first: true, .. } = collective.payload {
                        index.first_all_to_alls.push((task.layer, index.all_to_alls.len() as u32));
                    }
                    index.all_to_alls.push(position);
                }
            }
            index.sequence.push(before);
        }
        index.first_all_to_alls.sort_unstable();
        index
    }

    /// The first all-to-alls of a layer before another all-to-all: their layer and numbers.
    pub(crate) fn first_all_to_alls(&self, layer: u16, before: u32) -> &[(u16, u32)] {
        let position =
            |number| self.first_all_to_alls.partition_point(|one| *one < (layer, number));
        &self.first_all_to_alls[position(0)..position(before)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{EP, all_to_all, compute, empty_graph, inside, task, with_blocks};
    use lightloom_model::{Amount, Collective, GroupFamily, Inside, StreamIndex};

    /// An all-reduce over a family.
    fn ring(over: u32) -> Task {
        let collective = Collective {
            kind: CollectiveKind::AllReduce,
            family: Some(FamilyId(over)),
            payload: Payload::Bytes(8),
            inside: Inside::NONE,
            asynchronous: false,
        };
        task(TaskKind::Collective(collective), EP)
    }

    fn of_layer(layer: u16, first: bool) -> Task {
        Task { layer, ..all_to_all(0, first) }
    }

    /// Two roles of four workers; their all-to-alls are in pairs.
    fn graph(tasks: Vec<Task>) -> TaskGraph {
        let mut graph = with_blocks(empty_graph(2, 2, 2), &[&[0; 4]]);
        graph.families.push(GroupFamily {
            name: "odd".into(),
            offsets: vec![0, 3],
            workers: [5, 1, 3].map(WorkerId).to_vec(),
            absent: 0,
        });
        graph.roles[0].tasks = tasks;
        graph
    }

    #[test]
    fn every_member_of_a_group_knows_its_place() {
        let graph = graph(vec![all_to_all(0, true)]);
        let index = Index::new(&graph);
        for (number, family) in (0..).map(FamilyId).zip(&graph.families) {
            for worker in (0..8).map(WorkerId) {
                let membership = index.membership(number, worker);
                let expected = family.iter().find_map(|(group, members)| {
                    let place = members.iter().position(|&member| member == worker)? as u32;
                    Some(Membership { group, place })
                });
                assert_eq!(membership, expected, "worker {worker} in family {number}");
            }
        }
        assert_eq!(index.role_of_group(&graph, FamilyId(0), GroupId(2)), RoleId(1));
        assert_eq!(index.role_of_group(&graph, FamilyId(1), GroupId(0)), RoleId(1));
    }

    #[test]
    fn a_peer_is_a_counterpart_or_a_member_of_the_group() {
        let graph = graph(vec![]);
        let index = Index::new(&graph);
        let role = |worker, role| index.peer(&graph, WorkerId(worker), Peer::Role(RoleId(role)));
        for worker in 0..4 {
            assert_eq!(role(worker, 1), Some(WorkerId(worker + 4)));
            assert_eq!(role(worker + 4, 0), Some(WorkerId(worker)));
        }
        let member = |worker, place| {
            let peer = Peer::Member { family: FamilyId(1), place };
            index.peer(&graph, WorkerId(worker), peer)
        };
        assert_eq!([0, 1, 2].map(|place| member(3, place)), [5, 1, 3].map(|w| Some(WorkerId(w))));
        assert_eq!(member(3, 3), None);
        assert_eq!(member(0, 0), None);
    }

    #[test]
    fn collectives_are_counted_by_family() {
        let local = inside(Amount::Fixed(1), None);
        let tasks = vec![ring(1), ring(0), local, ring(1), all_to_all(0, false), ring(1), ring(0)];
        let index = Index::new(&graph(tasks));
        assert_eq!(index.roles[0].sequence, [0, 0, 0, 1, 1, 2, 2]);
        // Rings over the family of the all-to-alls are none of them.
        assert_eq!(index.roles[0].all_to_alls, [TaskIndex(4)]);
        assert!(index.roles[1].all_to_alls.is_empty());
    }

    #[test]
    fn streams_partition_a_program_in_its_order() {
        let on = |stream| Task { stream: StreamIndex(stream), ..compute(1) };
        let streams = [2, 0, 1, 2, 2, 0];
        let index = Index::new(&graph(streams.map(on).to_vec()));
        assert_eq!(index.streams, 3);
        for stream in 0..3 {
            let of = |(position, &other): (usize, &u8)| {
                (usize::from(other) == stream).then_some(TaskIndex(position as u32))
            };
            let expected: Vec<_> = streams.iter().enumerate().filter_map(of).collect();
            assert_eq!(index.stream(RoleId(0), stream), expected);
            assert!(index.stream(RoleId(1), stream).is_empty());
        }
    }

    #[test]
    fn first_all_to_alls_of_a_layer_are_those_before() {
        // As in a schedule whose micro-batches overlap: layers in any order.
        let program =
            [(4, true), (7, true), (4, false), (4, true), (0, true), (7, false), (4, true)];
        let tasks = program.map(|(layer, first)| of_layer(layer, first)).to_vec();
        let index = Index::new(&graph(tasks));
        for layer in 0..9 {
            for before in 0..=program.len() as u32 {
                let is_it = |&(number, (other, first)): &(u32, (u16, bool))| {
                    first && other == layer && number < before
                };
                let expected: Vec<(u16, u32)> = (0..)
                    .zip(program)
                    .filter(is_it)
                    .map(|(number, (layer, _))| (layer, number))
                    .collect();
                let first = index.roles[0].first_all_to_alls(layer, before);
                assert_eq!(first, expected, "layer {layer} before {before}");
            }
        }
    }
}
