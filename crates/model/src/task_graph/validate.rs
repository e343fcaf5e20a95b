//! Whether every index of a task graph is in range and every column has the stated size.

use super::{
    Amount, CategoryUse, Collective, CollectiveKind, DemandTable, GroupFamily, Inside, Payload,
    Peer, Task, TaskGraph, TaskKind, WorkerId,
};
use crate::invalid::Invalid;

/// Categories, tables and streams are few, or something is wrong.
const MAX_CATEGORIES: usize = 255;

impl TaskGraph {
    /// Checks that every index is in range and every array has the stated size.
    ///
    /// # Errors
    /// Names the first role, task and field that is wrong.
    pub fn validate(&self) -> Result<(), Invalid> {
        self.validate_categories()?;
        self.validate_roles()?;
        for family in &self.families {
            validate_family(family, self.workers())?;
        }
        if let Some(family) = self.regional_family {
            below("regional family", family.0, self.families.len())?;
        }
        for demand in &self.demands {
            self.validate_demand(demand)?;
        }
        for table in &self.tables {
            let expected = self.workers() * table.entries as usize;
            expect(&format!("table '{}': values", table.name), table.values.len(), expected)?;
        }
        for role in &self.roles {
            for (index, task) in role.tasks.iter().enumerate() {
                self.validate_task(role.workers.len(), task).map_err(|Invalid(error)| {
                    let kind = task.kind.name();
                    Invalid(format!("role '{}', task {index} ({kind}): {error}", role.name))
                })?;
            }
        }
        Ok(())
    }

    fn validate_categories(&self) -> Result<(), Invalid> {
        if self.categories.len() > MAX_CATEGORIES {
            let count = self.categories.len();
            return Err(Invalid(format!("{count} categories: expected at most {MAX_CATEGORIES}")));
        }
        for (number, category) in self.categories.iter().enumerate() {
            let name = &category.name;
            if self.categories[..number].iter().any(|other| other.name == *name) {
                return Err(Invalid(format!("category '{name}' is there twice")));
            }
        }
        for (used_for, what) in [
            (CategoryUse::Reconfiguration, "switching circuits"),
            (CategoryUse::Idle, "waiting for others"),
        ] {
            let count = self.categories.iter().filter(|one| one.used_for == used_for).count();
            if count != 1 {
                return Err(Invalid(format!(
                    "{count} categories for {what}: expected exactly one"
                )));
            }
        }
        Ok(())
    }

    fn validate_roles(&self) -> Result<(), Invalid> {
        if self.workers() == 0 {
            return Err(Invalid("no workers: expected at least one, with a role".into()));
        }
        let mut role_of: Vec<Option<&str>> = vec![None; self.workers()];
        for role in &self.roles {
            let name = role.name.as_str();
            if role.workers.is_empty() {
                return Err(Invalid(format!(
                    "role '{name}' has no workers: give it some, or leave it out"
                )));
            }
            for &worker in &role.workers {
                match role_of.get_mut(worker.index()) {
                    Some(free @ None) => *free = Some(name),
                    Some(Some(other)) => {
                        return Err(Invalid(format!(
                            "worker {worker} has role '{name}' and role '{other}': expected one"
                        )));
                    }
                    None => {
                        return Err(Invalid(format!("role '{name}': there is no worker {worker}")));
                    }
                }
            }
        }
        match role_of.iter().position(Option::is_none) {
            Some(worker) => Err(Invalid(format!("worker {worker} has no role"))),
            None => Ok(()),
        }
    }

    fn validate_demand(&self, demand: &DemandTable) -> Result<(), Invalid> {
        let name = &demand.name;
        let family = self.families.get(demand.family.index()).ok_or_else(|| {
            Invalid(format!("demand '{name}': there is no group family {}", demand.family))
        })?;
        let (first, groups) = (demand.first_group, demand.groups as usize);
        if first as usize + groups > family.groups() {
            return Err(Invalid(format!(
                "demand '{name}': {groups} groups from {first} on: family '{}' has {}",
                family.name,
                family.groups()
            )));
        }
        let mut described = family.iter().skip(first as usize).take(groups);
        let members = described.next().map_or(0, |(_, members)| members.len());
        if let Some((group, other)) = described.find(|(_, group)| group.len() != members) {
            return Err(Invalid(format!(
                "demand '{name}': group {group} of family '{}' has {} members, group {first} has \
                 {members}: expected groups of one size",
                family.name,
                other.len()
            )));
        }
        let cells = groups * demand.blocks as usize;
        let expected = cells * members * members;
        expect(&format!("demand '{name}': counts"), demand.counts.len(), expected)?;
        if !demand.rank_counts.is_empty() {
            let ranks = members * demand.ranks_per_member as usize;
            let expected = cells * ranks * ranks;
            expect(&format!("demand '{name}': rank_counts"), demand.rank_counts.len(), expected)?;
        }
        Ok(())
    }

    fn validate_task(&self, workers: usize, task: &Task) -> Result<(), Invalid> {
        below("category", u32::from(task.category.0), self.categories.len())?;
        match &task.kind {
            TaskKind::Compute { duration } => self.validate_amount("duration", *duration),
            TaskKind::Collective(collective) => self.validate_collective(task, collective),
            TaskKind::Send { peer, bytes, .. } => {
                self.validate_peer(workers, *peer)?;
                self.validate_amount("bytes", *bytes)
            }
            TaskKind::Receive { peer, .. } => self.validate_peer(workers, *peer),
            TaskKind::Wait { slowed_ppm, .. } if *slowed_ppm > 1_000_000 => {
                Err(Invalid(format!("slowed by {slowed_ppm} parts per million: expected 1000000")))
            }
            TaskKind::Wait { .. } => Ok(()),
        }?;
        let waits = matches!(task.kind, TaskKind::Receive { .. } | TaskKind::Wait { .. });
        if task.handle.is_some() && waits {
            return Err(Invalid("a task that waits for others has no handle".into()));
        }
        Ok(())
    }

    fn validate_collective(&self, task: &Task, collective: &Collective) -> Result<(), Invalid> {
        let Inside { per_gpu, total, peers: _ } = collective.inside;
        self.validate_amount("inside", per_gpu)?;
        self.validate_amount("inside total", total.unwrap_or(Amount::ZERO))?;
        if collective.asynchronous && task.handle.is_none() {
            return Err(Invalid("an asynchronous collective needs a handle to wait for".into()));
        }
        let Some(family) = collective.family else {
            if collective.payload == Payload::Bytes(0) && !collective.asynchronous {
                return Ok(());
            }
            return Err(Invalid(
                "a collective inside the worker moves no bytes between workers and is waited for \
                 at once"
                    .into(),
            ));
        };
        below("family", family.0, self.families.len())?;
        let is_all_to_all = collective.kind == CollectiveKind::AllToAll;
        if is_all_to_all && collective.inside != Inside::NONE {
            return Err(Invalid("the diagonal of its demand is what moves inside workers".into()));
        }
        let Payload::Block { demand, block, .. } = collective.payload else { return Ok(()) };
        below("demand", demand.0, self.demands.len())?;
        let table = &self.demands[demand.index()];
        below("block", block, table.blocks as usize)?;
        if table.family != family {
            return Err(Invalid(format!(
                "demand '{}' is of family '{}', not of family '{}'",
                table.name,
                self.families[table.family.index()].name,
                self.families[family.index()].name
            )));
        }
        if !is_all_to_all {
            return Err(Invalid("only an all-to-all moves a block of demand".into()));
        }
        Ok(())
    }

    fn validate_amount(&self, field: &str, amount: Amount) -> Result<(), Invalid> {
        let Amount::Entry { table, entry } = amount else { return Ok(()) };
        below(&format!("{field} table"), table.0, self.tables.len())?;
        below(&format!("{field} entry"), entry, self.tables[table.index()].entries as usize)
    }

    fn validate_peer(&self, workers: usize, peer: Peer) -> Result<(), Invalid> {
        match peer {
            Peer::Role(role) => {
                below("peer role", role.0, self.roles.len())?;
                let other = &self.roles[role.index()];
                if other.workers.len() == workers {
                    return Ok(());
                }
                Err(Invalid(format!(
                    "role '{}' has {} workers, this one {workers}: name the peer by its place in a \
                     group",
                    other.name,
                    other.workers.len()
                )))
            }
            Peer::Member { family, .. } => below("peer family", family.0, self.families.len()),
        }
    }
}

fn below(field: &str, value: u32, limit: usize) -> Result<(), Invalid> {
    if (value as usize) < limit {
        Ok(())
    } else {
        Err(Invalid(format!("{field} {value} is not below {limit}")))
    }
}

fn expect(name: &str, found: usize, expected: usize) -> Result<(), Invalid> {
    if found == expected {
        Ok(())
    } else {
        Err(Invalid(format!("{name} has {found} entries, expected {expected}")))
    }
}

fn validate_family(family: &GroupFamily, workers: usize) -> Result<(), Invalid> {
    let name = &family.name;
    let ordered = family.offsets.windows(2).all(|pair| pair[0] <= pair[1]);
    let starts = family.offsets.first() == Some(&0);
    let ends = family.offsets.last().map(|&end| end as usize) == Some(family.workers.len());
    if !(ordered && starts && ends) {
        return Err(Invalid(format!("family '{name}': offsets do not partition its workers")));
    }
    let mut seen = vec![false; workers];
    for &WorkerId(worker) in &family.workers {
        match seen.get_mut(worker as usize) {
            Some(flag) if !*flag => *flag = true,
            Some(_) => return Err(Invalid(format!("family '{name}': worker {worker} twice"))),
            None => return Err(Invalid(format!("family '{name}': no worker {worker}"))),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task_graph::{
        Category, CategoryId, DemandId, FamilyId, Handle, Role, RoleId, TableId, Tag, WorkerTable,
    };

    fn category(name: &str, used_for: CategoryUse) -> Category {
        Category { name: name.into(), used_for }
    }

    /// Two workers of one role, in one group, with one block of demand and one table.
    fn graph() -> TaskGraph {
        TaskGraph {
            gpus_per_worker: 8,
            worker_server: vec![0, 1],
            categories: vec![
                category("work", CategoryUse::Compute),
                category("dp", CategoryUse::Communication("dp".into())),
                category("reconfiguration", CategoryUse::Reconfiguration),
                category("bubble", CategoryUse::Idle),
            ],
            roles: vec![Role {
                name: "trainer".into(),
                workers: vec![WorkerId(0), WorkerId(1)],
                tasks: vec![],
            }],
            families: vec![GroupFamily {
                name: "dp".into(),
                offsets: vec![0, 2],
                workers: vec![WorkerId(0), WorkerId(1)],
                absent: 0,
            }],
            regional_family: None,
            demands: vec![DemandTable {
                name: "tokens".into(),
                groups: 1,
                blocks: 1,
                counts: vec![0; 4],
                ..DemandTable::default()
            }],
            tables: vec![WorkerTable { name: "times".into(), entries: 3, values: vec![0; 6] }],
        }
    }

    fn refusal(change: impl FnOnce(&mut TaskGraph)) -> String {
        let mut graph = graph();
        change(&mut graph);
        graph.validate().expect_err("invalid").to_string()
    }

    fn of(kind: TaskKind) -> String {
        refusal(|graph| graph.roles[0].tasks = vec![Task::new(kind, CategoryId(0))])
    }

    const GATHER: Collective = Collective {
        kind: CollectiveKind::AllGather,
        family: Some(FamilyId(0)),
        payload: Payload::Bytes(8),
        inside: Inside::NONE,
        asynchronous: false,
    };

    #[test]
    fn a_sound_graph_passes() {
        assert_eq!(graph().validate(), Ok(()));
    }

    #[test]
    fn columns_have_the_stated_sizes() {
        let counts = refusal(|graph| graph.demands[0].counts = vec![]);
        assert_eq!(counts, "demand 'tokens': counts has 0 entries, expected 4");
        let ranks = refusal(|graph| {
            graph.demands[0].ranks_per_member = 2;
            graph.demands[0].rank_counts = vec![0; 4];
        });
        assert_eq!(ranks, "demand 'tokens': rank_counts has 4 entries, expected 16");
        let table = refusal(|graph| graph.tables[0].values.truncate(5));
        assert_eq!(table, "table 'times': values has 5 entries, expected 6");
        let beyond = refusal(|graph| graph.demands[0].first_group = 1);
        assert_eq!(beyond, "demand 'tokens': 1 groups from 1 on: family 'dp' has 1");
        let groups = refusal(|graph| {
            graph.families[0].offsets = vec![0, 1, 2, 2];
            graph.demands[0].groups = 3;
        });
        assert_eq!(
            groups,
            "demand 'tokens': group 2 of family 'dp' has 0 members, group 0 has 1: expected groups \
             of one size"
        );
        let family = refusal(|graph| graph.demands[0].family = FamilyId(4));
        assert_eq!(family, "demand 'tokens': there is no group family 4");
        let regional = refusal(|graph| graph.regional_family = Some(FamilyId(1)));
        assert_eq!(regional, "regional family 1 is not below 1");
    }

    #[test]
    fn families_and_roles_partition_workers() {
        let twice = refusal(|graph| graph.families[0].workers[1] = WorkerId(0));
        assert_eq!(twice, "family 'dp': worker 0 twice");
        let none = refusal(|graph| graph.families[0].workers[1] = WorkerId(2));
        assert_eq!(none, "family 'dp': no worker 2");
        let offsets = refusal(|graph| graph.families[0].offsets = vec![0, 3]);
        assert_eq!(offsets, "family 'dp': offsets do not partition its workers");
        let idle = refusal(|graph| graph.roles[0].workers = vec![WorkerId(0)]);
        assert_eq!(idle, "worker 1 has no role");
        let both = refusal(|graph| graph.roles[0].workers[1] = WorkerId(0));
        assert_eq!(both, "worker 0 has role 'trainer' and role 'trainer': expected one");
        let unknown = refusal(|graph| graph.roles[0].workers[1] = WorkerId(7));
        assert_eq!(unknown, "role 'trainer': there is no worker 7");
        let empty = refusal(|graph| {
            let role = Role { name: "spare".into(), workers: vec![], tasks: vec![] };
            graph.roles.push(role);
        });
        assert_eq!(empty, "role 'spare' has no workers: give it some, or leave it out");
        let nobody = refusal(|graph| {
            graph.worker_server.clear();
            graph.roles.clear();
        });
        assert_eq!(nobody, "no workers: expected at least one, with a role");
    }

    #[test]
    fn categories_are_named_once_and_cover_waiting() {
        let twice = refusal(|graph| graph.categories[1].name = "work".into());
        assert_eq!(twice, "category 'work' is there twice");
        let missing = refusal(|graph| graph.categories[3].used_for = CategoryUse::Compute);
        assert_eq!(missing, "0 categories for waiting for others: expected exactly one");
        let switching =
            refusal(|graph| graph.categories[0].used_for = CategoryUse::Reconfiguration);
        assert_eq!(switching, "2 categories for switching circuits: expected exactly one");
    }

    #[test]
    fn an_index_out_of_range_names_its_task_and_field() {
        let block = Payload::Block {
            demand: DemandId(0),
            block: 5,
            transposed: false,
            first: true,
            unit_bytes: 1,
        };
        let all_to_all = Collective { kind: CollectiveKind::AllToAll, payload: block, ..GATHER };
        assert_eq!(
            of(TaskKind::Collective(all_to_all)),
            "role 'trainer', task 0 (all-to-all): block 5 is not below 1"
        );
        let entry = Amount::Entry { table: TableId(0), entry: 3 };
        assert_eq!(
            of(TaskKind::Compute { duration: entry }),
            "role 'trainer', task 0 (compute): duration entry 3 is not below 3"
        );
        let peer = Peer::Role(RoleId(1));
        assert_eq!(
            of(TaskKind::Receive { peer, tag: Tag(0) }),
            "role 'trainer', task 0 (receive): peer role 1 is not below 1"
        );
        let far = Collective { family: Some(FamilyId(9)), ..GATHER };
        assert_eq!(
            of(TaskKind::Collective(far)),
            "role 'trainer', task 0 (all-gather): family 9 is not below 1"
        );
        assert_eq!(
            of(TaskKind::Wait { handle: Handle(0), slowed_ppm: 1_000_001 }),
            "role 'trainer', task 0 (wait): slowed by 1000001 parts per million: expected 1000000"
        );
        let category = refusal(|graph| {
            let wait = TaskKind::Wait { handle: Handle(0), slowed_ppm: 0 };
            graph.roles[0].tasks = vec![Task::new(wait, CategoryId(4))];
        });
        assert_eq!(category, "role 'trainer', task 0 (wait): category 4 is not below 4");
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        let start = "role 'trainer', task 0 (all-gather): ";
        let lost = Collective { asynchronous: true, ..GATHER };
        assert_eq!(
            of(TaskKind::Collective(lost)),
            format!("{start}an asynchronous collective needs a handle to wait for")
        );
        let inside = Collective { family: None, ..GATHER };
        assert_eq!(
            of(TaskKind::Collective(inside)),
            format!(
                "{start}a collective inside the worker moves no bytes between workers and is \
                 waited for at once"
            )
        );
        let block = Payload::Block {
            demand: DemandId(0),
            block: 0,
            transposed: false,
            first: false,
            unit_bytes: 1,
        };
        assert_eq!(
            of(TaskKind::Collective(Collective { payload: block, ..GATHER })),
            format!("{start}only an all-to-all moves a block of demand")
        );
        let handled = refusal(|graph| {
            let receive = TaskKind::Receive { peer: Peer::Role(RoleId(0)), tag: Tag(1) };
            let task = Task { handle: Some(Handle(1)), ..Task::new(receive, CategoryId(0)) };
            graph.roles[0].tasks = vec![task];
        });
        assert_eq!(
            handled,
            "role 'trainer', task 0 (receive): a task that waits for others has no handle"
        );
    }

    #[test]
    fn roles_of_other_sizes_are_no_counterparts() {
        let text = refusal(|graph| {
            graph.roles[0].workers.pop();
            let workers = vec![WorkerId(1)];
            let server = Role { name: "server".into(), workers, tasks: vec![] };
            graph.roles.push(server);
            graph.worker_server.push(2);
            graph.roles[0].workers.push(WorkerId(2));
            let kind = TaskKind::Receive { peer: Peer::Role(RoleId(1)), tag: Tag(0) };
            graph.roles[0].tasks = vec![Task::new(kind, CategoryId(0))];
            graph.tables.clear();
        });
        assert_eq!(
            text,
            "role 'trainer', task 0 (receive): role 'server' has 1 workers, this one 2: name the \
             peer by its place in a group"
        );
    }

    /// The refusal of an all-to-all over family 0, alone or with a second family.
    fn of_all_to_all(change: impl FnOnce(&mut TaskGraph, &mut Collective)) -> String {
        refusal(|graph| {
            let payload = Payload::Block {
                demand: DemandId(0),
                block: 0,
                transposed: true,
                first: false,
                unit_bytes: 2,
            };
            let mut all_to_all = Collective { kind: CollectiveKind::AllToAll, payload, ..GATHER };
            change(graph, &mut all_to_all);
            let kind = TaskKind::Collective(all_to_all);
            graph.roles[0].tasks = vec![Task::new(kind, CategoryId(1))];
        })
    }

    #[test]
    fn an_all_to_all_is_of_its_own_family_and_has_no_part_inside() {
        let start = "role 'trainer', task 0 (all-to-all): ";
        let other = of_all_to_all(|graph, all_to_all| {
            let family = GroupFamily { name: "ep".into(), ..graph.families[0].clone() };
            graph.families.push(family);
            all_to_all.family = Some(FamilyId(1));
        });
        let text = "demand 'tokens' is of family 'dp', not of family 'ep'";
        assert_eq!(other, format!("{start}{text}"));
        let demand = of_all_to_all(|graph, _| graph.demands.clear());
        assert_eq!(demand, format!("{start}demand 0 is not below 0"));
        let inside = of_all_to_all(|_, all_to_all| {
            all_to_all.inside = Inside { per_gpu: Amount::Fixed(1), ..Inside::NONE };
        });
        let text = "the diagonal of its demand is what moves inside workers";
        assert_eq!(inside, format!("{start}{text}"));
    }

    #[test]
    fn every_amount_of_a_task_is_looked_up_in_a_table() {
        let far = Amount::Entry { table: TableId(1), entry: 0 };
        let inside = |inside| of(TaskKind::Collective(Collective { inside, ..GATHER }));
        let gather = "role 'trainer', task 0 (all-gather): ";
        assert_eq!(
            inside(Inside { per_gpu: far, ..Inside::NONE }),
            format!("{gather}inside table 1 is not below 1")
        );
        assert_eq!(
            inside(Inside { total: Some(far), ..Inside::NONE }),
            format!("{gather}inside total table 1 is not below 1")
        );
        let peer = Peer::Role(RoleId(0));
        assert_eq!(
            of(TaskKind::Send { peer, tag: Tag(0), bytes: far }),
            "role 'trainer', task 0 (send): bytes table 1 is not below 1"
        );
        let peer = Peer::Member { family: FamilyId(1), place: 0 };
        assert_eq!(
            of(TaskKind::Receive { peer, tag: Tag(0) }),
            "role 'trainer', task 0 (receive): peer family 1 is not below 1"
        );
    }

    #[test]
    fn a_graph_may_have_255_categories() {
        let with = |count: usize| {
            let mut graph = graph();
            let names = (0..count - graph.categories.len()).map(|index| format!("more {index}"));
            let more = names.map(|name| category(&name, CategoryUse::Compute));
            graph.categories.extend(more.collect::<Vec<_>>());
            graph.validate().map_err(|error| error.to_string())
        };
        assert_eq!(with(255), Ok(()));
        assert_eq!(with(256), Err("256 categories: expected at most 255".into()));
    }

    #[test]
    fn what_is_at_the_limit_passes() {
        let mut graph = graph();
        let entry = Amount::Entry { table: TableId(0), entry: 2 };
        let wait = TaskKind::Wait { handle: Handle(3), slowed_ppm: 1_000_000 };
        let compute = TaskKind::Compute { duration: entry };
        let handled = Task { handle: Some(Handle(3)), ..Task::new(compute, CategoryId(3)) };
        graph.roles[0].tasks = vec![handled, Task::new(wait, CategoryId(0))];
        graph.demands[0].ranks_per_member = 3;
        graph.demands[0].rank_counts = vec![0; 36];
        assert_eq!(graph.validate(), Ok(()));
    }

    #[test]
    fn a_refusal_names_the_first_task_that_is_wrong() {
        let text = refusal(|graph| {
            let compute = |category| {
                let kind = TaskKind::Compute { duration: Amount::ZERO };
                Task::new(kind, CategoryId(category))
            };
            graph.roles[0].tasks = vec![compute(3), compute(0), compute(9), compute(8)];
        });
        assert_eq!(text, "role 'trainer', task 2 (compute): category 9 is not below 4");
    }

    #[test]
    fn offsets_ascend_from_nothing_to_all_workers() {
        for offsets in [vec![], vec![1, 2], vec![0, 1], vec![0, 2, 1, 2]] {
            let text = refusal(|graph| graph.families[0].offsets = offsets);
            assert_eq!(text, "family 'dp': offsets do not partition its workers");
        }
    }
}
