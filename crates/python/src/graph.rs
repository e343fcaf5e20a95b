//! Task graphs from Python: the classes of `lightloom.workload.task_graph`, attribute by attribute.

use lightloom_model::{
    Amount, Category, CategoryId, CategoryUse, Collective, CollectiveKind, DemandId, DemandTable,
    FamilyId, GroupFamily, Handle, Inside, Payload, Peer, Priority, Role, RoleId, StreamIndex,
    TableId, Tag, Task, TaskGraph, TaskKind, WorkerId, WorkerTable,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::arrays::Flat;

/// `TaskGraph`.
#[derive(FromPyObject)]
pub(crate) struct GraphColumns {
    gpus_per_worker: u32,
    worker_server: Flat<u32>,
    categories: Vec<CategoryColumns>,
    roles: Vec<RoleColumns>,
    families: Vec<FamilyColumns>,
    regional_family: Option<u32>,
    demands: Vec<DemandColumns>,
    tables: Vec<TableColumns>,
}

/// `Category`.
#[derive(FromPyObject)]
struct CategoryColumns {
    name: String,
    used_for: String,
    purpose: Option<String>,
}

/// `Role`.
#[derive(FromPyObject)]
struct RoleColumns {
    name: String,
    workers: Flat<u32>,
    program: ProgramColumns,
}

/// `GroupFamily`.
#[derive(FromPyObject)]
struct FamilyColumns {
    name: String,
    offsets: Flat<u32>,
    workers: Flat<u32>,
    absent: u32,
}

/// `DemandTable`.
#[derive(FromPyObject)]
struct DemandColumns {
    name: String,
    family: u32,
    first_group: u32,
    groups: u32,
    blocks: u32,
    counts: Flat<u32>,
    ranks_per_member: u32,
    rank_counts: Option<Flat<u32>>,
    deduplicated: bool,
}

/// `WorkerTable`.
#[derive(FromPyObject)]
struct TableColumns {
    name: String,
    entries: u32,
    values: Flat<u64>,
}

/// `Program`.
#[derive(FromPyObject)]
struct ProgramColumns {
    kind: Flat<u8>,
    collective: Flat<u8>,
    category: Flat<u8>,
    stream: Flat<u8>,
    priority: Flat<u8>,
    flags: Flat<u8>,
    layer: Flat<u16>,
    micro_batch: Flat<u16>,
    family: Flat<u32>,
    peer: Flat<u32>,
    tag: Flat<u32>,
    handle: Flat<u32>,
    size: Flat<u64>,
    inside: Flat<u64>,
    peers: Flat<u32>,
    demand: Flat<u32>,
    table: Flat<u32>,
    total: Flat<u32>,
    entry: Flat<u32>,
}

const TRANSPOSED: u8 = 1;
const FIRST: u8 = 2;
const ASYNCHRONOUS: u8 = 4;

/// No family, table, demand table or handle.
const NO_INDEX: u32 = u32::MAX;

impl GraphColumns {
    /// The task graph; its indices are checked when it is played.
    pub(crate) fn into_graph(self) -> PyResult<TaskGraph> {
        let roles = self.roles.into_iter().map(RoleColumns::into_role);
        let categories = self.categories.into_iter().map(CategoryColumns::into_category);
        Ok(TaskGraph {
            gpus_per_worker: self.gpus_per_worker,
            worker_server: self.worker_server.0,
            categories: categories.collect::<PyResult<_>>()?,
            roles: roles.collect::<PyResult<_>>()?,
            families: (self.families.into_iter())
                .map(|family| GroupFamily {
                    name: family.name,
                    offsets: family.offsets.0,
                    workers: workers(family.workers),
                    absent: family.absent,
                })
                .collect(),
            regional_family: self.regional_family.map(FamilyId),
            demands: (self.demands.into_iter())
                .map(|demand| DemandTable {
                    name: demand.name,
                    family: FamilyId(demand.family),
                    first_group: demand.first_group,
                    groups: demand.groups,
                    blocks: demand.blocks,
                    counts: demand.counts.0,
                    ranks_per_member: demand.ranks_per_member,
                    rank_counts: demand.rank_counts.map_or_else(Vec::new, |counts| counts.0),
                    deduplicated: demand.deduplicated,
                })
                .collect(),
            tables: (self.tables.into_iter())
                .map(|table| WorkerTable {
                    name: table.name,
                    entries: table.entries,
                    values: table.values.0,
                })
                .collect(),
        })
    }
}

fn workers(column: Flat<u32>) -> Vec<WorkerId> {
    column.0.into_iter().map(WorkerId).collect()
}

impl CategoryColumns {
    fn into_category(self) -> PyResult<Category> {
        let Self { name, used_for, purpose } = self;
        let used_for = match (used_for.as_str(), purpose) {
            ("compute", None) => CategoryUse::Compute,
            ("reconfiguration", None) => CategoryUse::Reconfiguration,
            ("idle", None) => CategoryUse::Idle,
            ("communication", Some(purpose)) => CategoryUse::Communication(purpose),
            (used_for, purpose) => {
                let purpose = purpose.map_or_else(|| "none".into(), |name| format!("'{name}'"));
                return Err(PyValueError::new_err(format!(
                    "category '{}': used_for = '{}' with purpose {}: expected compute, \
                     reconfiguration or idle with none, or communication with one",
                    name.escape_debug(),
                    used_for.escape_debug(),
                    purpose.escape_debug()
                )));
            }
        };
        Ok(Category { name, used_for })
    }
}

impl RoleColumns {
    fn into_role(self) -> PyResult<Role> {
        let Self { name, workers: list, program } = self;
        let wrong = |error: &str| PyValueError::new_err(format!("role '{name}'{error}"));
        let count = program.kind.0.len();
        if let Some((column, length)) = program.lengths().find(|(_, length)| *length != count) {
            let text = format!(": column {column} has {length} entries, kind has {count}");
            return Err(wrong(&text));
        }
        let task =
            |row| program.task(row).map_err(|error| wrong(&format!(", task {row}: {error}")));
        let tasks = (0..count).map(task).collect::<PyResult<_>>()?;
        Ok(Role { name, workers: workers(list), tasks })
    }
}

impl ProgramColumns {
    fn lengths(&self) -> impl Iterator<Item = (&'static str, usize)> {
        [
            ("collective", self.collective.0.len()),
            ("category", self.category.0.len()),
            ("stream", self.stream.0.len()),
            ("priority", self.priority.0.len()),
            ("flags", self.flags.0.len()),
            ("layer", self.layer.0.len()),
            ("micro_batch", self.micro_batch.0.len()),
            ("family", self.family.0.len()),
            ("peer", self.peer.0.len()),
            ("tag", self.tag.0.len()),
            ("handle", self.handle.0.len()),
            ("size", self.size.0.len()),
            ("inside", self.inside.0.len()),
            ("peers", self.peers.0.len()),
            ("demand", self.demand.0.len()),
            ("table", self.table.0.len()),
            ("total", self.total.0.len()),
            ("entry", self.entry.0.len()),
        ]
        .into_iter()
    }

    fn task(&self, row: usize) -> Result<Task, String> {
        let handle = self.handle.0[row];
        let kind = match self.kind.0[row] {
            0 => TaskKind::Compute { duration: self.amount(row, self.size.0[row]) },
            1 => TaskKind::Collective(self.collective(row)?),
            2 => TaskKind::Send {
                peer: self.peer(row),
                tag: Tag(self.tag.0[row]),
                bytes: self.amount(row, self.size.0[row]),
            },
            3 => TaskKind::Receive { peer: self.peer(row), tag: Tag(self.tag.0[row]) },
            4 => TaskKind::Wait {
                handle: Handle(handle),
                slowed_ppm: u32::try_from(self.size.0[row]).unwrap_or(u32::MAX),
            },
            other => return Err(format!("kind {other}: expected 0 to 4")),
        };
        let is_named = handle != NO_INDEX && !matches!(kind, TaskKind::Wait { .. });
        Ok(Task {
            kind,
            category: CategoryId(self.category.0[row]),
            stream: StreamIndex(self.stream.0[row]),
            priority: Priority(self.priority.0[row]),
            handle: is_named.then_some(Handle(handle)),
            layer: self.layer.0[row],
            micro_batch: self.micro_batch.0[row],
        })
    }

    fn collective(&self, row: usize) -> Result<Collective, String> {
        let number = self.collective.0[row];
        let kind = *CollectiveKind::ALL.get(usize::from(number)).ok_or_else(|| {
            format!("collective {number}: expected 0 to {}", CollectiveKind::ALL.len() - 1)
        })?;
        let has = |flag: u8| self.flags.0[row] & flag != 0;
        let size = self.size.0[row];
        let (family, demand, entry) = (self.family.0[row], self.demand.0[row], self.entry.0[row]);
        let payload = if demand == NO_INDEX {
            Payload::Bytes(size)
        } else {
            Payload::Block {
                demand: DemandId(demand),
                block: entry,
                transposed: has(TRANSPOSED),
                first: has(FIRST),
                unit_bytes: size,
            }
        };
        let total = self.total.0[row];
        let total = (total != NO_INDEX).then_some(Amount::Entry { table: TableId(total), entry });
        Ok(Collective {
            kind,
            family: (family != NO_INDEX).then_some(FamilyId(family)),
            payload,
            inside: Inside {
                per_gpu: self.amount(row, self.inside.0[row]),
                total,
                peers: self.peers.0[row],
            },
            asynchronous: has(ASYNCHRONOUS),
        })
    }

    fn amount(&self, row: usize, fixed: u64) -> Amount {
        match self.table.0[row] {
            NO_INDEX => Amount::Fixed(fixed),
            table => Amount::Entry { table: TableId(table), entry: self.entry.0[row] },
        }
    }

    fn peer(&self, row: usize) -> Peer {
        let (family, peer) = (self.family.0[row], self.peer.0[row]);
        match family {
            NO_INDEX => Peer::Role(RoleId(peer)),
            family => Peer::Member { family: FamilyId(family), place: peer },
        }
    }
}
