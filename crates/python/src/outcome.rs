//! The result of a step for `lightloom.simulate`.
//!
//! Tables cross as classes whose attributes are the fields of the structs here: `_core.pyi` has
//! them, and the Python classes have the same in seconds where the core has picoseconds.

use crate::schedule::decider::{PyDecision, PyHeld, PyRegion, PyUpcoming};
use crate::written::to_values;
use lightloom_execute::{
    CircuitStatistics, CircuitTimeline, DecisionRecord, Decisions, LinkUse, Outcome, Snapshot,
    Timeline,
};
use numpy::{IntoPyArray, PyArray1};
use pyo3::prelude::*;
use std::sync::Arc;

/// Adds the classes to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<StepOutcome>()?;
    module.add_class::<RoleRow>()?;
    module.add_class::<PurposeRow>()?;
    module.add_class::<CircuitCounters>()?;
    module.add_class::<LinkRow>()?;
    module.add_class::<FlowWork>()?;
    module.add_class::<TimelineColumns>()?;
    module.add_class::<CircuitSpanColumns>()?;
    module.add_class::<SnapshotRow>()?;
    module.add_class::<RecordedDecision>()?;
    module.add_class::<RecordedDecisions>()
}

/// What a step took, moved and decided.
#[pyclass(frozen, get_all, module = "lightloom._core")]
pub(crate) struct StepOutcome {
    categories: Vec<String>,
    step_ps: u64,
    critical_path_ps: Vec<u64>,
    roles: Vec<Py<RoleRow>>,
    straggler_wait_ps: u128,
    carriers: Vec<&'static str>,
    purposes: Vec<Py<PurposeRow>>,
    circuits: Py<CircuitCounters>,
    links: Vec<Py<LinkRow>>,
    run_hash: String,
    events: u64,
    flows: u64,
    tasks: u64,
    packet_hops: u64,
    flow_work: Py<FlowWork>,
    timeline: Py<TimelineColumns>,
    /// Category and end of each span of the critical path.
    critical_category: Py<PyArray1<u8>>,
    critical_end_ps: Py<PyArray1<u64>>,
    in_flight_interval_ps: u64,
    /// By purpose.
    in_flight_bytes: Vec<Py<PyArray1<u64>>>,
    circuit_timeline: Py<CircuitSpanColumns>,
    snapshots: Vec<Py<SnapshotRow>>,
    decisions: Option<Py<RecordedDecisions>>,
}

impl StepOutcome {
    /// With every decision, if they were `recorded`.
    pub(crate) fn new(py: Python<'_>, recorded: bool, outcome: Outcome) -> PyResult<Self> {
        let decisions = outcome.decisions;
        let decisions = recorded.then(|| Py::new(py, RecordedDecisions::new(py, decisions)?));
        let purposes =
            outcome.ledger.purposes.into_iter().map(|row| {
                Py::new(py, PurposeRow { purpose: row.name, carried_bytes: row.carried })
            });
        let roles = outcome.roles.into_iter().map(|role| {
            let (name, workers, spent_ps) = (role.name, role.workers, role.spent);
            Py::new(py, RoleRow { name, workers, spent_ps })
        });
        let links = outcome.links.into_iter().map(|class| Py::new(py, LinkRow::new(class)));
        let snapshot = |snapshot| Py::new(py, SnapshotRow::new(py, snapshot));
        let snapshots = outcome.snapshots.into_iter().map(snapshot);
        let work = FlowWork {
            recomputations: outcome.flow_statistics.recomputations,
            links_touched: outcome.flow_statistics.links_touched,
            flows_touched: outcome.flow_statistics.flows_touched,
        };
        let in_flight = outcome.in_flight.mean.into_iter();
        let in_flight = in_flight.map(|bytes| bytes.into_pyarray(py).unbind());
        Ok(Self {
            categories: outcome.categories,
            step_ps: outcome.step.0,
            critical_path_ps: outcome.critical_path,
            roles: roles.collect::<PyResult<_>>()?,
            straggler_wait_ps: outcome.straggler_wait,
            carriers: outcome.ledger.columns.clone(),
            purposes: purposes.collect::<PyResult<_>>()?,
            circuits: Py::new(py, CircuitCounters::new(&outcome.circuits))?,
            links: links.collect::<PyResult<_>>()?,
            run_hash: format!("{:032x}", outcome.run_hash),
            events: outcome.events,
            flows: outcome.flows,
            tasks: outcome.tasks,
            packet_hops: outcome.packet_hops,
            flow_work: Py::new(py, work)?,
            timeline: Py::new(py, TimelineColumns::new(py, outcome.timeline))?,
            critical_category: outcome.critical_spans.category.into_pyarray(py).unbind(),
            critical_end_ps: outcome.critical_spans.end.into_pyarray(py).unbind(),
            in_flight_interval_ps: outcome.in_flight.interval,
            in_flight_bytes: in_flight.collect(),
            circuit_timeline: Py::new(py, CircuitSpanColumns::new(py, outcome.circuit_timeline))?,
            snapshots: snapshots.collect::<PyResult<_>>()?,
            decisions: decisions.transpose()?,
        })
    }
}

/// Every decision of a run, and the regions that they are for.
#[pyclass(frozen, get_all, module = "lightloom._core")]
pub(crate) struct RecordedDecisions {
    regions: Vec<Py<PyRegion>>,
    /// By name, as users write it.
    policy: Py<PyAny>,
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
            policy: to_values(py, &decisions.policy)?.unbind(),
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

/// What the workers of a role did.
#[pyclass(frozen, get_all, module = "lightloom._core")]
pub(crate) struct RoleRow {
    name: String,
    workers: u32,
    /// Picoseconds per category, over all workers.
    spent_ps: Vec<u64>,
}

/// What was moved for a purpose.
#[pyclass(frozen, get_all, module = "lightloom._core")]
pub(crate) struct PurposeRow {
    purpose: String,
    /// Per carrier.
    carried_bytes: Vec<u64>,
}

/// `lightloom.simulate.CircuitUse`.
#[pyclass(frozen, get_all, module = "lightloom._core")]
pub(crate) struct CircuitCounters {
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
#[pyclass(frozen, get_all, module = "lightloom._core")]
pub(crate) struct LinkRow {
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
#[pyclass(frozen, get_all, module = "lightloom._core")]
pub(crate) struct FlowWork {
    recomputations: u64,
    links_touched: u64,
    flows_touched: u64,
}

/// `lightloom.simulate.Timeline`.
#[pyclass(frozen, get_all, module = "lightloom._core")]
pub(crate) struct TimelineColumns {
    worker: Py<PyArray1<u32>>,
    stream: Py<PyArray1<u8>>,
    start_ps: Py<PyArray1<u64>>,
    end_ps: Py<PyArray1<u64>>,
    waited_ps: Py<PyArray1<u64>>,
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
            waited_ps: timeline.waited.into_pyarray(py).unbind(),
            category: timeline.category.into_pyarray(py).unbind(),
            layer: timeline.layer.into_pyarray(py).unbind(),
            micro_batch: timeline.micro_batch.into_pyarray(py).unbind(),
        }
    }
}

/// `lightloom.simulate.CircuitTimeline`.
#[pyclass(frozen, get_all, module = "lightloom._core")]
pub(crate) struct CircuitSpanColumns {
    server_a: Py<PyArray1<u32>>,
    server_b: Py<PyArray1<u32>>,
    count: Py<PyArray1<u16>>,
    up_ps: Py<PyArray1<u64>>,
    down_ps: Py<PyArray1<u64>>,
}

impl CircuitSpanColumns {
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
#[pyclass(frozen, get_all, module = "lightloom._core")]
pub(crate) struct SnapshotRow {
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
