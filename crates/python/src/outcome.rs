//! The result of a step for `lightloom.simulate`.
//!
//! Tables cross as dictionaries whose keys are the fields of the structs here; the Python classes
//! of the same names have them as attributes, in seconds where the core has picoseconds.

use crate::schedule::decider::{PyDecision, PyHeld, PyRegion, PyUpcoming};
use lightloom_execute::{
    CircuitStatistics, CircuitTimeline, DecisionRecord, Decisions, LinkUse, Outcome, Snapshot,
    Timeline,
};
use numpy::{IntoPyArray, PyArray1};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use std::sync::Arc;

/// What a step took, moved and decided.
#[pyclass(frozen, get_all, module = "lightloom._core")]
pub(crate) struct StepOutcome {
    categories: Vec<String>,
    step_ps: u64,
    critical_path_ps: Vec<u64>,
    roles: Vec<(String, u32, Vec<u64>)>,
    straggler_wait_ps: u128,
    carriers: Vec<&'static str>,
    purpose_bytes: Vec<(String, Vec<u64>)>,
    circuits: Py<PyAny>,
    links: Py<PyAny>,
    run_hash: String,
    events: u64,
    flows: u64,
    tasks: u64,
    packet_hops: u64,
    flow_work: Py<PyAny>,
    timeline: Py<PyAny>,
    circuit_timeline: Py<PyAny>,
    snapshots: Py<PyAny>,
    decisions: Option<Py<RecordedDecisions>>,
}

impl StepOutcome {
    /// With every decision, if they were `recorded`.
    pub(crate) fn new(py: Python<'_>, recorded: bool, outcome: Outcome) -> PyResult<Self> {
        let decisions = outcome.decisions;
        let decisions = recorded.then(|| Py::new(py, RecordedDecisions::new(py, decisions)?));
        let purposes = outcome.ledger.purposes.into_iter();
        let roles = outcome.roles.into_iter().map(|role| (role.name, role.workers, role.spent));
        let links = outcome.links.into_iter().map(LinkRow::new).collect::<Vec<_>>();
        let snapshot = |snapshot| SnapshotRow::new(py, snapshot);
        let snapshots = outcome.snapshots.into_iter().map(snapshot).collect::<Vec<_>>();
        let work = FlowWork {
            recomputations: outcome.flow_statistics.recomputations,
            links_touched: outcome.flow_statistics.links_touched,
            flows_touched: outcome.flow_statistics.flows_touched,
        };
        Ok(Self {
            categories: outcome.categories,
            step_ps: outcome.step.0,
            critical_path_ps: outcome.critical_path,
            roles: roles.collect(),
            straggler_wait_ps: outcome.straggler_wait,
            carriers: outcome.ledger.columns.clone(),
            purpose_bytes: purposes.map(|row| (row.name, row.carried)).collect(),
            circuits: CircuitCounters::new(&outcome.circuits).into_py_any(py)?,
            links: links.into_py_any(py)?,
            run_hash: format!("{:032x}", outcome.run_hash),
            events: outcome.events,
            flows: outcome.flows,
            tasks: outcome.tasks,
            packet_hops: outcome.packet_hops,
            flow_work: work.into_py_any(py)?,
            timeline: TimelineColumns::new(py, outcome.timeline).into_py_any(py)?,
            circuit_timeline: CircuitColumns::new(py, outcome.circuit_timeline).into_py_any(py)?,
            snapshots: snapshots.into_py_any(py)?,
            decisions: decisions.transpose()?,
        })
    }
}

/// Every decision of a run, and the regions that they are for.
#[pyclass(frozen, get_all, module = "lightloom._core")]
pub(crate) struct RecordedDecisions {
    regions: Vec<Py<PyRegion>>,
    records: Vec<Py<RecordedDecision>>,
}

/// One decision, and what it started from.
#[pyclass(frozen, get_all, module = "lightloom._core")]
pub(crate) struct RecordedDecision {
    time_ps: u64,
    region: u32,
    held: Py<PyHeld>,
    upcoming: Vec<Py<PyUpcoming>>,
    decision: Py<PyDecision>,
}

impl RecordedDecisions {
    fn new(py: Python<'_>, decisions: Decisions) -> PyResult<Self> {
        let regions = decisions.regions.into_iter().map(|region| Py::new(py, PyRegion(region)));
        let record = |record| Py::new(py, RecordedDecision::new(py, record)?);
        let records = decisions.records.into_iter().map(record);
        Ok(Self {
            regions: regions.collect::<PyResult<_>>()?,
            records: records.collect::<PyResult<_>>()?,
        })
    }
}

impl RecordedDecision {
    fn new(py: Python<'_>, record: DecisionRecord) -> PyResult<Self> {
        let upcoming = record.upcoming.into_iter().map(|one| Py::new(py, PyUpcoming(one)));
        Ok(Self {
            time_ps: record.time.0,
            region: record.region,
            held: Py::new(py, PyHeld(Arc::new(record.held)))?,
            upcoming: upcoming.collect::<PyResult<_>>()?,
            decision: Py::new(py, PyDecision(record.decision))?,
        })
    }
}

/// `lightloom.simulate.CircuitUse`.
#[derive(IntoPyObject)]
struct CircuitCounters {
    decisions: u64,
    reconfigurations: u64,
    skipped: u64,
    pairs_changed: u64,
    delay_ps: u64,
    exposed_ps: u64,
    saved_s: f64,
    makespan_s: f64,
    bound_s: f64,
    relayed: u64,
    one_hop: u64,
    allocations: u64,
    shared: u64,
}

impl CircuitCounters {
    fn new(circuits: &CircuitStatistics) -> Self {
        Self {
            decisions: circuits.decisions,
            reconfigurations: circuits.reconfigurations,
            skipped: circuits.skipped,
            pairs_changed: circuits.pairs_changed,
            delay_ps: circuits.delay.0,
            exposed_ps: circuits.exposed.0,
            saved_s: circuits.saved_s,
            makespan_s: circuits.makespan_s,
            bound_s: circuits.bound_s,
            relayed: circuits.relayed,
            one_hop: circuits.one_hop,
            allocations: circuits.allocations,
            shared: circuits.shared,
        }
    }
}

/// `lightloom.simulate.LinkUse`.
#[derive(IntoPyObject)]
struct LinkRow {
    name: String,
    links: usize,
    carried_bytes: u64,
    mean: f64,
    max: f64,
}

impl LinkRow {
    fn new(class: LinkUse) -> Self {
        let LinkUse { name, links, carried_bytes, mean, max } = class;
        Self { name, links, carried_bytes, mean, max }
    }
}

/// What the flow simulation did.
#[derive(IntoPyObject)]
struct FlowWork {
    recomputations: u64,
    links_touched: u64,
    flows_touched: u64,
}

/// `lightloom.simulate.Timeline`.
#[derive(IntoPyObject)]
struct TimelineColumns {
    worker: Py<PyArray1<u32>>,
    stream: Py<PyArray1<u8>>,
    start_ps: Py<PyArray1<u64>>,
    end_ps: Py<PyArray1<u64>>,
    category: Py<PyArray1<u8>>,
    layer: Py<PyArray1<u16>>,
    micro_batch: Py<PyArray1<u16>>,
}

impl TimelineColumns {
    fn new(py: Python<'_>, timeline: Timeline) -> Self {
        Self {
            worker: timeline.worker.into_pyarray(py).unbind(),
            stream: timeline.stream.into_pyarray(py).unbind(),
            start_ps: timeline.start.into_pyarray(py).unbind(),
            end_ps: timeline.end.into_pyarray(py).unbind(),
            category: timeline.category.into_pyarray(py).unbind(),
            layer: timeline.layer.into_pyarray(py).unbind(),
            micro_batch: timeline.micro_batch.into_pyarray(py).unbind(),
        }
    }
}

/// `lightloom.simulate.CircuitTimeline`.
#[derive(IntoPyObject)]
struct CircuitColumns {
    server_a: Py<PyArray1<u32>>,
    server_b: Py<PyArray1<u32>>,
    count: Py<PyArray1<u16>>,
    up_ps: Py<PyArray1<u64>>,
    down_ps: Py<PyArray1<u64>>,
}

impl CircuitColumns {
    fn new(py: Python<'_>, timeline: CircuitTimeline) -> Self {
        Self {
            server_a: timeline.a.into_pyarray(py).unbind(),
            server_b: timeline.b.into_pyarray(py).unbind(),
            count: timeline.count.into_pyarray(py).unbind(),
            up_ps: timeline.up.into_pyarray(py).unbind(),
            down_ps: timeline.down.into_pyarray(py).unbind(),
        }
    }
}

/// `lightloom.simulate.Snapshot`; matrices are flat.
#[derive(IntoPyObject)]
struct SnapshotRow {
    time_ps: u64,
    ready_ps: u64,
    group: u32,
    layer: u16,
    micro_batch: u16,
    servers: Py<PyArray1<u32>>,
    demand: Py<PyArray1<u64>>,
    circuits: Py<PyArray1<u16>>,
    makespan_s: f64,
    chosen: &'static str,
}

impl SnapshotRow {
    fn new(py: Python<'_>, snapshot: Snapshot) -> Self {
        Self {
            time_ps: snapshot.time.0,
            ready_ps: snapshot.ready.0,
            group: snapshot.group,
            layer: snapshot.layer,
            micro_batch: snapshot.micro_batch,
            servers: snapshot.servers.into_pyarray(py).unbind(),
            demand: snapshot.demand.into_pyarray(py).unbind(),
            circuits: snapshot.circuits.into_pyarray(py).unbind(),
            makespan_s: snapshot.makespan,
            chosen: snapshot.chosen.name(),
        }
    }
}
