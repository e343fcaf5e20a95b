//! The task graph of one training step, as compact programs.
//!
//! A *worker* is a set of GPUs of one server that move together. All workers of a *role* run the
//! same *program*: tasks in the order in which the framework issues them. Each task takes its turn
//! on one *stream* of the worker; streams run side by side. Workers meet in collectives, over the
//! group that each of them has in a *family* of groups, and in messages. What differs between the
//! workers of a role is data: their groups, and rows of tables. So the edges of the graph are
//! implied, and a step of 32,768 GPUs is a few thousand tasks and some columns.

mod ids;
mod task;
mod validate;

pub use ids::{
    CategoryId, DemandId, FamilyId, GroupId, Handle, Priority, PurposeId, RoleId, ServerId,
    StreamIndex, TableId, Tag, TaskIndex, WorkerId,
};
pub use task::{Amount, Collective, CollectiveKind, Inside, Payload, Peer, Task, TaskKind};

/// What time of a category is spent on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum CategoryUse {
    /// Computation.
    Compute,
    /// Communication of this purpose (`tp`, `ep` or any other name): results count its bytes by it.
    Communication(String),
    /// Waiting for circuits to be switched.
    Reconfiguration,
    /// Waiting for somebody else, and for the end of the step.
    Idle,
}

/// Where time is charged.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Category {
    /// Name in results.
    pub name: String,
    /// What its time is spent on.
    pub used_for: CategoryUse,
}

/// Workers that run one program.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Role {
    /// Name in messages and results.
    pub name: String,
    /// Its workers; a worker has one role.
    pub workers: Vec<WorkerId>,
    /// The program, in issue order.
    pub tasks: Vec<Task>,
}

/// Disjoint groups of workers: a worker is in at most one of them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GroupFamily {
    /// Name in messages, such as `ep` or `dp-dense`.
    pub name: String,
    /// Group `g` is `workers[offsets[g]..offsets[g + 1]]`, in its order.
    pub offsets: Vec<u32>,
    /// Workers, group by group.
    pub workers: Vec<WorkerId>,
    /// How many more members a ring has for each of them: alike, and on servers of their own, so
    /// that nobody needs to play them.
    pub absent: u32,
}

impl GroupFamily {
    /// Number of groups.
    pub fn groups(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    /// The members of a group.
    #[inline]
    pub fn members(&self, group: GroupId) -> &[WorkerId] {
        let (start, end) = (self.offsets[group.index()], self.offsets[group.index() + 1]);
        &self.workers[start as usize..end as usize]
    }

    /// All groups, in order.
    pub fn iter(&self) -> impl Iterator<Item = (GroupId, &[WorkerId])> {
        (0..self.groups() as u32).map(|group| (GroupId(group), self.members(GroupId(group))))
    }
}

/// What the members of each group of a family send each other, block by block.
///
/// Arrays are row-major; groups with fewer blocks leave the rest zero.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DemandTable {
    /// Name in messages.
    pub name: String,
    /// Whose groups; those that are described here have one size.
    pub family: FamilyId,
    /// The first of the family's groups that is described here.
    pub first_group: u32,
    /// How many are, from there on.
    pub groups: u32,
    /// Blocks per group.
    pub blocks: u32,
    /// Counts from member to member, `[group][block][members][members]`: token copies, for MoE. The
    /// diagonal counts what goes to *other* GPUs of the member; what stays on a GPU is not counted.
    pub counts: Vec<u32>,
    /// Ranks per member for the finer matrix below; 0 where it is absent.
    pub ranks_per_member: u32,
    /// Optional counts from rank to rank, `[group][block][ranks][ranks]`, for fabrics that move
    /// data NIC by NIC. Empty where one member is one rank.
    pub rank_counts: Vec<u32>,
    /// Whether counts between members are of tokens, each sent once to a member and copied on
    /// arrival; those between ranks are then of tokens, too, once to each rank.
    pub deduplicated: bool,
}

impl DemandTable {
    /// Where a block of a group is among all, in blocks.
    #[inline]
    pub fn cell(&self, group: GroupId, block: u32) -> usize {
        (group.0 - self.first_group) as usize * self.blocks as usize + block as usize
    }
}

/// Numbers that differ between workers: durations in picoseconds, or bytes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WorkerTable {
    /// Name in messages.
    pub name: String,
    /// Entries per worker.
    pub entries: u32,
    /// `[worker][entry]`.
    pub values: Vec<u64>,
}

/// Everything that one step does.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TaskGraph {
    /// GPUs of each worker.
    pub gpus_per_worker: u32,
    /// Server of each worker.
    pub worker_server: Vec<u32>,
    /// Where time is charged.
    pub categories: Vec<Category>,
    /// Who does what.
    pub roles: Vec<Role>,
    /// Groups for collectives and messages.
    pub families: Vec<GroupFamily>,
    /// The family whose groups circuits follow, that of the experts; `None` without all-to-alls.
    pub regional_family: Option<FamilyId>,
    /// Demand of all-to-alls.
    pub demands: Vec<DemandTable>,
    /// Numbers that differ between workers.
    pub tables: Vec<WorkerTable>,
}

impl TaskGraph {
    /// Number of workers.
    pub fn workers(&self) -> usize {
        self.worker_server.len()
    }

    /// Streams per worker: as many as the role with most has.
    pub fn streams(&self) -> usize {
        let tasks = self.roles.iter().flat_map(|role| &role.tasks);
        tasks.map(|task| task.stream.index() + 1).max().unwrap_or(1)
    }

    /// The value of an amount for a worker.
    #[inline]
    pub fn amount(&self, amount: Amount, worker: WorkerId) -> u64 {
        match amount {
            Amount::Fixed(value) => value,
            Amount::Entry { table, entry } => {
                let table = &self.tables[table.index()];
                table.values[worker.index() * table.entries as usize + entry as usize]
            }
        }
    }

    /// Names of the purposes, in the order of the categories that first have them.
    pub fn purposes(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for category in &self.categories {
            if let CategoryUse::Communication(purpose) = &category.used_for
                && !names.contains(purpose)
            {
                names.push(purpose.clone());
            }
        }
        names
    }

    /// The purpose of each category; `None` where it is not communication.
    pub fn purpose_of_category(&self) -> Vec<Option<PurposeId>> {
        let names = self.purposes();
        let purpose = |category: &Category| match &category.used_for {
            CategoryUse::Communication(purpose) => {
                let position = names.iter().position(|name| name == purpose)?;
                Some(PurposeId(position as u8))
            }
            _ => None,
        };
        self.categories.iter().map(purpose).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn category(name: &str, used_for: CategoryUse) -> Category {
        Category { name: name.into(), used_for }
    }

    fn moving(name: &str, purpose: &str) -> Category {
        category(name, CategoryUse::Communication(purpose.into()))
    }

    fn collective(kind: CollectiveKind, family: Option<u32>) -> Task {
        let collective = Collective {
            kind,
            family: family.map(FamilyId),
            payload: Payload::Bytes(0),
            inside: Inside::NONE,
            asynchronous: false,
        };
        Task::new(TaskKind::Collective(collective), CategoryId(0))
    }

    fn with_programs(programs: Vec<Vec<Task>>) -> TaskGraph {
        let role = |tasks| Role { tasks, ..Role::default() };
        TaskGraph { roles: programs.into_iter().map(role).collect(), ..TaskGraph::default() }
    }

    #[test]
    fn groups_are_what_lies_between_offsets() {
        let workers: Vec<WorkerId> = [4, 2, 0, 1, 3].map(WorkerId).to_vec();
        let family =
            GroupFamily { name: "ep".into(), offsets: vec![0, 2, 2, 5], workers, absent: 0 };
        let groups: Vec<Vec<u32>> =
            family.iter().map(|(_, members)| members.iter().map(|one| one.0).collect()).collect();
        assert_eq!(groups, [vec![4, 2], vec![], vec![0, 1, 3]]);
        assert_eq!(family.groups(), 3);
        assert_eq!(family.members(GroupId(2)), [0, 1, 3].map(WorkerId));
        // One that was never filled has no groups, as has one of an offset alone.
        assert_eq!(GroupFamily::default().iter().count(), 0);
        assert_eq!(GroupFamily { offsets: vec![0], ..GroupFamily::default() }.groups(), 0);
    }

    #[test]
    fn an_amount_is_fixed_or_looked_up_by_worker() {
        let table = |values: Vec<u64>, entries| WorkerTable { name: "t".into(), entries, values };
        let graph = TaskGraph {
            tables: vec![table(vec![9; 3], 1), table(vec![0, 1, 10, 11, 20, 21], 2)],
            ..TaskGraph::default()
        };
        for worker in 0..3 {
            for entry in 0..2 {
                let amount = Amount::Entry { table: TableId(1), entry };
                let expected = u64::from(10 * worker + entry);
                assert_eq!(graph.amount(amount, WorkerId(worker)), expected);
            }
            assert_eq!(graph.amount(Amount::Fixed(7), WorkerId(worker)), 7);
            assert_eq!(graph.amount(Amount::ZERO, WorkerId(worker)), 0);
        }
    }

    #[test]
    fn categories_of_one_purpose_are_counted_together() {
        let categories = vec![
            category("work", CategoryUse::Compute),
            moving("dispatch", "ep"),
            moving("gradients", "dp"),
            moving("combine", "ep"),
            category("bubble", CategoryUse::Idle),
        ];
        let graph = TaskGraph { categories, ..TaskGraph::default() };
        assert_eq!(graph.purposes(), ["ep", "dp"]);
        let expected = [None, Some(0), Some(1), Some(0), None].map(|one| one.map(PurposeId));
        assert_eq!(graph.purpose_of_category(), expected);
    }

    #[test]
    fn there_are_as_many_streams_as_some_role_has() {
        let on = |stream| Task {
            stream: StreamIndex(stream),
            ..collective(CollectiveKind::Broadcast, None)
        };
        assert_eq!(with_programs(vec![]).streams(), 1);
        assert_eq!(with_programs(vec![vec![], vec![on(0)]]).streams(), 1);
        assert_eq!(with_programs(vec![vec![on(4), on(1)], vec![on(2)]]).streams(), 5);
    }

    #[test]
    fn tasks_are_named_after_what_they_do() {
        let names: Vec<&str> =
            CollectiveKind::ALL.iter().map(|&kind| collective(kind, None).kind.name()).collect();
        let expected = ["all-to-all", "all-reduce", "reduce-scatter", "all-gather", "broadcast"];
        assert_eq!(names, expected);
        let wait = Task::new(TaskKind::Wait { handle: Handle(1), slowed_ppm: 0 }, CategoryId(2));
        assert_eq!((wait.kind.name(), wait.collective()), ("wait", None));
        assert_eq!((wait.layer, wait.micro_batch, wait.handle), (u16::MAX, u16::MAX, None));
    }
}
