//! The result of a step for `lightloom.simulate`: the fields of its classes, but what is a mean
//! over workers, whose parts are whole picoseconds here.

use crate::records::{to_values, values};
use crate::schedule::decider::{PyDecision, PyHeld, PyUpcoming};
use lightloom_execute::{
    CircuitStatistics, CircuitTimeline, CriticalSpans, Decisions, InFlight, LinkUse, Moment,
    Operation, Outcome, Recording, SentFlow, SentPackets, Snapshot, Timeline,
};
use lightloom_model::{Duration, Time};
use lightloom_packetsim::{NicId, NodeId};
use numpy::ndarray::Array2;
use numpy::{IntoPyArray, PyArray1};
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyDict, PyTuple};
use pythonize::pythonize;
use std::sync::Arc;

/// Values by name.
type Values<'py> = PyResult<Bound<'py, PyDict>>;

/// What a step took, moved and decided; every decision only if they were `recorded`.
pub(crate) fn step_outcome(py: Python<'_>, recorded: bool, outcome: Outcome) -> Values<'_> {
    let names = PyTuple::new(py, &outcome.categories)?;
    let path = outcome.critical_path.iter().map(|&span| Duration(span).as_seconds());
    let roles = outcome.roles.into_iter().map(|role| (role.name, role.workers, role.spent));
    let links: Vec<_> =
        outcome.links.into_iter().map(|class| link_use(py, class)).collect::<PyResult<_>>()?;
    let snapshots: Vec<_> =
        outcome.snapshots.into_iter().map(|one| snapshot(py, one)).collect::<PyResult<_>>()?;
    let purposes = PyDict::new(py);
    let mut purpose_names = Vec::new();
    for row in outcome.ledger.purposes {
        let carried = outcome.ledger.columns.iter().zip(row.carried).into_py_dict(py)?;
        purposes.set_item(&row.name, carried)?;
        purpose_names.push(row.name);
    }
    let work = outcome.flow_statistics;
    let decisions = recorded.then(|| decision_log(py, outcome.decisions)).transpose()?;
    Ok(values!(py;
        step_time_s: outcome.step.as_seconds(),
        critical_path_s: outcome.categories.iter().zip(path).into_py_dict(py)?,
        roles: roles.collect::<Vec<_>>(),
        straggler_wait_ps: outcome.straggler_wait,
        late_ps: outcome.late,
        purpose_bytes: purposes,
        circuits: circuit_use(py, &outcome.circuits)?,
        links: links,
        run_hash: format!("{:032x}", outcome.run_hash),
        events: outcome.events,
        flows: outcome.flows,
        tasks: outcome.tasks,
        packet_hops: outcome.packet_hops,
        simulated_packet_hops: outcome.simulated_hops,
        flow_work: values!(py;
            recomputations: work.recomputations,
            links_touched: work.links_touched,
            flows_touched: work.flows_touched,
        ),
        timeline: timeline(py, outcome.timeline, &names)?,
        circuit_timeline: circuit_timeline(py, outcome.circuit_timeline)?,
        snapshots: snapshots,
        decisions: decisions,
        critical_spans: critical_spans(py, outcome.critical_spans, &names)?,
        in_flight: in_flight(py, purpose_names, outcome.in_flight)?,
        recording: outcome.recording.map(|it| recording(py, *it)).transpose()?,
    ))
}

/// Picoseconds as seconds.
fn seconds(py: Python<'_>, times: Vec<u64>) -> Bound<'_, PyArray1<f64>> {
    times.into_iter().map(|time| Time(time).as_seconds()).collect::<Vec<f64>>().into_pyarray(py)
}

/// `CircuitUse`.
fn circuit_use<'py>(py: Python<'py>, circuits: &CircuitStatistics) -> Values<'py> {
    Ok(values!(py;
        decisions: circuits.decisions,
        reconfigurations: circuits.reconfigurations,
        skipped: circuits.skipped,
        pairs_changed: circuits.pairs_changed,
        delay_s: circuits.delay.as_seconds(),
        exposed_s: circuits.exposed.as_seconds(),
        saved_s: circuits.saved_s,
        makespan_s: circuits.makespan_s,
        bound_s: circuits.bound_s,
        relayed: circuits.relayed,
        one_hop: circuits.one_hop,
        allocations: circuits.allocations,
        shared: circuits.shared,
    ))
}

/// `LinkUse`.
fn link_use(py: Python<'_>, class: LinkUse) -> Values<'_> {
    let LinkUse { name, links, carried_bytes, mean, max } = class;
    Ok(values!(py; name: name, links: links, carried_bytes: carried_bytes, mean: mean, max: max))
}

/// `Timeline`.
fn timeline<'py>(
    py: Python<'py>,
    timeline: Timeline,
    categories: &Bound<'py, PyTuple>,
) -> Values<'py> {
    Ok(values!(py;
        worker: timeline.worker.into_pyarray(py),
        stream: timeline.stream.into_pyarray(py),
        start_s: seconds(py, timeline.start),
        end_s: seconds(py, timeline.end),
        waited_s: seconds(py, timeline.waited),
        category: timeline.category.into_pyarray(py),
        layer: timeline.layer.into_pyarray(py),
        micro_batch: timeline.micro_batch.into_pyarray(py),
        categories: categories,
    ))
}

/// `CriticalSpans`, if there are any.
fn critical_spans<'py>(
    py: Python<'py>,
    spans: CriticalSpans,
    categories: &Bound<'py, PyTuple>,
) -> PyResult<Option<Bound<'py, PyDict>>> {
    if spans.end.is_empty() {
        return Ok(None);
    }
    Ok(Some(values!(py;
        category: spans.category.into_pyarray(py),
        end_s: seconds(py, spans.end),
        categories: categories,
    )))
}

/// `BytesInFlight`, if they were recorded.
fn in_flight(
    py: Python<'_>,
    purposes: Vec<String>,
    in_flight: InFlight,
) -> PyResult<Option<Bound<'_, PyDict>>> {
    if in_flight.mean.is_empty() {
        return Ok(None);
    }
    let means = in_flight.mean.into_iter().map(|bytes| bytes.into_pyarray(py));
    Ok(Some(values!(py;
        interval_s: Duration(in_flight.interval).as_seconds(),
        mean_bytes: purposes.into_iter().zip(means).into_py_dict(py)?,
    )))
}

/// `CircuitTimeline`.
fn circuit_timeline(py: Python<'_>, timeline: CircuitTimeline) -> Values<'_> {
    Ok(values!(py;
        server_a: timeline.a.into_pyarray(py),
        server_b: timeline.b.into_pyarray(py),
        count: timeline.count.into_pyarray(py),
        up_s: seconds(py, timeline.up),
        down_s: seconds(py, timeline.down),
    ))
}

/// `Snapshot`.
fn snapshot(py: Python<'_>, snapshot: Snapshot) -> Values<'_> {
    let shape = (snapshot.servers.len(), snapshot.servers.len());
    let demand = Array2::from_shape_vec(shape, snapshot.demand).expect("n x n bytes");
    let circuits = Array2::from_shape_vec(shape, snapshot.circuits).expect("n x n circuits");
    Ok(values!(py;
        time_s: snapshot.time.as_seconds(),
        ready_s: snapshot.ready.as_seconds(),
        group: snapshot.group,
        layer: snapshot.layer,
        micro_batch: snapshot.micro_batch,
        servers: snapshot.servers.into_pyarray(py),
        demand: demand.into_pyarray(py),
        circuits: circuits.into_pyarray(py),
        makespan_s: snapshot.makespan,
        chosen: snapshot.chosen.name(),
    ))
}

/// What `RecordedStep` is made of; times are whole picoseconds. Operation `i` waits for
/// `waits[wait_starts[i]..wait_starts[i + 1]]`, each for as long again as `later_ps` says; the last
/// one is the end of the step.
fn recording(py: Python<'_>, recording: Recording) -> Values<'_> {
    let Recording { mut operations, end, packets, unexplained } = recording;
    operations.push(Operation::Join(vec![end]));
    let (mut starts, mut waits, mut later, mut transfer) = (vec![0_u64], vec![], vec![], vec![]);
    let mut transfers = 0_u32;
    for operation in operations {
        let is_transfer = matches!(operation, Operation::Transfer(_));
        let moments = match operation {
            Operation::Join(moments) => moments,
            Operation::Transfer(begin) => vec![begin],
        };
        for Moment { operation, later: span } in moments {
            waits.push(operation);
            later.push(span.0);
        }
        starts.push(waits.len() as u64);
        transfer.push(if is_transfer { i64::from(transfers) } else { -1 });
        transfers += u32::from(is_transfer);
    }
    Ok(values!(py;
        transfer: transfer.into_pyarray(py),
        wait_starts: starts.into_pyarray(py),
        waits: waits.into_pyarray(py),
        later_ps: later.into_pyarray(py),
        unexplained: unexplained,
        packets: sent_packets(py, packets)?,
    ))
}

/// The flows of a recording, by NIC, and the network.
fn sent_packets(py: Python<'_>, packets: SentPackets) -> Values<'_> {
    let SentPackets { topology, config, transport, extent, flows } = packets;
    let nics = (0..topology.nic_count() as u32).map(NicId);
    let links = topology.links().iter().step_by(2);
    let ends = links.map(|link| (link.from.0, link.to.0, link.rate.0, link.delay.0));
    let is_host: Vec<bool> =
        (0..topology.node_count() as u32).map(|node| topology.is_host(NodeId(node))).collect();
    let mut columns = (vec![], vec![], vec![], vec![], vec![], vec![], vec![]);
    for SentFlow { transfer, spec, arrived } in &flows {
        columns.0.push(*transfer);
        columns.1.push(spec.source.0);
        columns.2.push(spec.destination.0);
        columns.3.push(spec.size.0);
        columns.4.push(spec.start.0);
        columns.5.push(arrived.0);
        columns.6.push(spec.priority);
    }
    let routed = flows.iter().filter(|flow| flow.spec.route.is_some()).count();
    Ok(values!(py;
        config: pythonize(py, &config)?,
        transport: pythonize(py, &transport)?,
        fitted_delay_ps: extent.delay.0,
        is_host: is_host,
        links: ends.collect::<Vec<_>>(),
        nic_host: nics.map(|nic| topology.host_of(nic).0).collect::<Vec<_>>(),
        sprays: !topology.spraying_nics().is_empty(),
        routed: routed,
        transfer: columns.0.into_pyarray(py),
        source_nic: columns.1.into_pyarray(py),
        destination_nic: columns.2.into_pyarray(py),
        size_bytes: columns.3.into_pyarray(py),
        start_ps: columns.4.into_pyarray(py),
        arrived_ps: columns.5.into_pyarray(py),
        priority: columns.6.into_pyarray(py),
    ))
}

/// A `DecisionRecord` for each decision, and the regions that they are for.
fn decision_log(py: Python<'_>, decisions: Decisions) -> Values<'_> {
    let records = decisions.records.into_iter().map(|record| {
        let upcoming = record.upcoming.into_iter().map(PyUpcoming).collect::<Vec<_>>();
        Ok(values!(py;
            time_s: record.time.as_seconds(),
            region: record.region,
            held: PyHeld(Arc::new(record.held)),
            upcoming: PyTuple::new(py, upcoming)?,
            decision: PyDecision(record.decision),
        ))
    });
    let regions = decisions.regions.iter().map(|region| to_values(py, region));
    Ok(values!(py;
        policy: to_values(py, &decisions.policy)?,
        regions: regions.collect::<PyResult<Vec<_>>>()?,
        records: records.collect::<PyResult<Vec<_>>>()?,
    ))
}
