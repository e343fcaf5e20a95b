//! The functions of `lightloom.packets`.

mod errors;
mod network;
mod programs;

use crate::arrays::Given;
use crate::records::{Record, values};
use errors::{PacketsStuck, refuse};
use lightloom_kernel::{Interrupted, Observer};
use lightloom_model::{Duration, Rate, Time};
use lightloom_packetsim::{
    Carrier, Config, EventKind, EventLogging, FlowOutcome, PacketError, PacketEvent, PacketFlowId,
    PacketKind, PacketScenario, ProgramReport, Programs, Report, RunningScenario, Samples,
    Sampling, Series, SeriesSampling, Topology, TrafficClass, fitted, profile,
};
use network::{CircuitRow, FailureRow, FlowColumns, NetworkValues, parse_circuits, parse_failures};
use numpy::{IntoPyArray, PyArray1};
use programs::OperationColumns;
use pythonize::pythonize;
use serde::Deserialize;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use std::cell::RefCell;
use std::ops::ControlFlow;
use std::time::{Duration as WallTime, Instant};

/// How often progress is reported, at most.
const REPORT_EVERY: WallTime = WallTime::from_millis(50);

/// Adds the functions to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("PacketsStuck", module.py().get_type::<PacketsStuck>())?;
    module.add_function(wrap_pyfunction!(packet_profile, module)?)?;
    module.add_function(wrap_pyfunction!(packet_topology, module)?)?;
    module.add_function(wrap_pyfunction!(packet_simulate, module)?)?;
    Ok(())
}

/// The configuration of the network of a transport's reference, for links of a rate, and the
/// parameters of the transport with its name; fitted to a network if there is one.
#[pyfunction]
fn packet_profile<'py>(
    py: Python<'py>,
    name: &str,
    rate_bps: u64,
    network: Option<Record<NetworkValues>>,
) -> PyResult<[Bound<'py, PyAny>; 2]> {
    let found = match network {
        Some(network) => fitted(name, network.0.extent()?),
        None => profile(name, Rate(rate_bps)),
    };
    let (config, transport) = found.map_err(refuse)?;
    Ok([pythonize(py, &config)?, pythonize(py, &transport)?])
}

/// The names of the nodes of a network, hosts first, and the ends of its links.
type Graph = (Vec<String>, Vec<(u32, u32)>);

#[pyfunction]
fn packet_topology(network: Record<NetworkValues>) -> PyResult<Graph> {
    let topology = network.0.build()?;
    let ends = topology.links().iter().map(|link| (link.from.0, link.to.0)).collect();
    Ok((network::names(&topology), ends))
}

/// How flows are simulated and what is recorded; 0 samples, rows of series or events are none.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RunValues {
    until_ps: Option<Time>,
    sample_every_ps: Duration,
    max_samples: usize,
    max_rows: usize,
    max_events: usize,
    traced_flow: Option<u32>,
    in_halves: bool,
    hashes_ends: bool,
    failures: Vec<FailureRow>,
    detection_ps: u64,
    circuits: Vec<CircuitRow>,
}

/// Simulates flows; see `lightloom.packets.simulate_flows`. `progress` is called first before the
/// first event.
#[pyfunction]
fn packet_simulate(
    py: Python<'_>,
    network: Record<NetworkValues>,
    classes: Record<Vec<TrafficClass>>,
    flows: Given<FlowColumns>,
    operations: Option<Given<OperationColumns>>,
    run: Record<RunValues>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'_, PyDict>> {
    let (Record(network), Record(run)) = (network, run);
    let topology = network.build()?;
    let (period, max_periods, max_rows) = (run.sample_every_ps, run.max_samples, run.max_rows);
    let (max_events, flow) = (run.max_events, run.traced_flow.map(PacketFlowId));
    let mut classes = classes.0;
    if classes.is_empty() {
        return Err(PyValueError::new_err("there is no class of traffic"));
    }
    let TrafficClass { config, transport } = classes.remove(0);
    let config = Config { highest_priority: flows.0.highest_priority(), ..config };
    let scenario = PacketScenario {
        flows: flows.0.specs(&network, &topology, config.seed)?,
        programs: operations.map_or(Ok(Programs::default()), |given| given.0.programs())?,
        circuits: parse_circuits(run.circuits),
        failures: parse_failures(run.failures, run.detection_ps)?,
        config,
        transport,
        classes,
        topology,
        sampling: (max_periods > 0).then_some(Sampling { period, max_periods }),
        series: (max_rows > 0).then_some(SeriesSampling { period, max_rows }),
        event_logging: (max_events > 0).then_some(EventLogging { max_events, flow }),
        in_halves: run.in_halves,
        hashes_ends: run.hashes_ends,
        until: run.until_ps.unwrap_or(Time(u64::MAX)),
    };
    let (result, error) = py.detach(|| simulate(&scenario, progress));
    if let Some(error) = error {
        return Err(error);
    }
    packet_run(py, &scenario.topology, &result.map_err(refuse)?)
}

/// Simulates without the interpreter; returns what a signal or the function raised as well.
fn simulate(
    scenario: &PacketScenario,
    progress: Option<Py<PyAny>>,
) -> (Result<Report, PacketError>, Option<PyErr>) {
    let run = match RunningScenario::new(scenario) {
        Ok(run) => run,
        Err(error) => return (Err(error), None),
    };
    let finished = RefCell::new(Vec::new());
    let expected = run.expected_hops();
    let mut reporter = ProgressReporter {
        progress,
        expected,
        finished: &finished,
        last: Instant::now(),
        error: None,
    };
    // Before the first event, so that who is told may say what the run will cost, or refuse it.
    if !reporter.report(Time::ZERO, 0) {
        let nothing = Interrupted { now: Time::ZERO, done: 0 };
        return (Err(nothing.into()), reporter.error);
    }
    let result = run.run(&mut reporter, &mut |outcomes| {
        finished.borrow_mut().extend_from_slice(outcomes);
    });
    if reporter.error.is_none() {
        let end = result.as_ref().map_or(Time::ZERO, |report| report.end);
        let hops = result.as_ref().map_or(0, |report| report.counters.data_hops);
        reporter.report(end, hops);
    }
    (result, reporter.error)
}

/// Hands finished flows and the progress of the run to a Python function, and stops the run on a
/// signal or at its wish.
struct ProgressReporter<'a> {
    progress: Option<Py<PyAny>>,
    /// Links that packets of data will leave.
    expected: u64,
    finished: &'a RefCell<Vec<FlowOutcome>>,
    last: Instant,
    error: Option<PyErr>,
}

impl ProgressReporter<'_> {
    /// Whether to continue.
    fn report(&mut self, now: Time, hops: u64) -> bool {
        self.last = Instant::now();
        let finished = std::mem::take(&mut *self.finished.borrow_mut());
        let outcome = Python::attach(|py| {
            let Some(progress) = &self.progress else { return Ok(true) };
            let finished = finished_flows(py, &finished)?;
            let wish = progress.call1(py, (now.as_seconds(), hops, self.expected, finished))?;
            Ok(wish.is_none(py) || wish.is_truthy(py)?)
        });
        outcome.unwrap_or_else(|error| {
            self.error = Some(error);
            false
        })
    }
}

impl Observer for ProgressReporter<'_> {
    fn progress(&mut self, now: Time, done: u64) -> ControlFlow<()> {
        if self.last.elapsed() < REPORT_EVERY {
            return ControlFlow::Continue(());
        }
        // What has finished is handed over before a signal ends everything.
        let continues = self.report(now, done);
        match Python::attach(check_signals) {
            Ok(()) if continues => ControlFlow::Continue(()),
            Ok(()) => ControlFlow::Break(()),
            Err(signal) => {
                self.error.get_or_insert(signal);
                ControlFlow::Break(())
            }
        }
    }
}

fn check_signals(py: Python<'_>) -> PyResult<()> {
    py.check_signals()
}

/// Values as an array.
fn column<T: numpy::Element>(
    py: Python<'_>,
    values: impl Iterator<Item = T>,
) -> Bound<'_, PyArray1<T>> {
    values.collect::<Vec<T>>().into_pyarray(py)
}

/// Spans of picoseconds as seconds.
fn seconds(py: Python<'_>, spans: impl Iterator<Item = u64>) -> Bound<'_, PyArray1<f64>> {
    column(py, spans.map(|span| Duration(span).as_seconds()))
}

/// `lightloom.packets.Finished`.
fn finished_flows<'py>(py: Python<'py>, flows: &[FlowOutcome]) -> PyResult<Bound<'py, PyDict>> {
    Ok(values!(py;
        flow: column(py, flows.iter().map(|flow| flow.flow.0)),
        fct_s: seconds(py, flows.iter().map(|flow| flow.done_at.0 - flow.start.0)),
        slowdown: column(py, flows.iter().map(|flow| flow.slowdown)),
        began_s: seconds(py, flows.iter().map(|flow| flow.start.0)),
    ))
}

/// `lightloom.packets.PacketRun` but what was asked for.
fn packet_run<'py>(
    py: Python<'py>,
    topology: &Topology,
    report: &Report,
) -> PyResult<Bound<'py, PyDict>> {
    let samples = report.samples.as_ref().map(|samples| queue_samples(py, samples));
    let series = report.series.as_ref().map(|series| columns_of_series(py, series, report.end));
    let received: Vec<u64> = report.unfinished_received.iter().map(|bytes| bytes.0).collect();
    let has_programs = !report.programs.begins.is_empty();
    let operations = has_programs.then(|| operation_times(py, &report.programs));
    Ok(values!(py;
        end_s: report.end.as_seconds(),
        data_hops: report.counters.data_hops,
        control_hops: report.counters.control_hops,
        events: report.counters.events,
        peak_packets: report.peak_packets,
        undivided: report.undivided,
        remarks: report.remarks.clone(),
        unfinished_received_bytes: received.into_pyarray(py),
        run_hash: format!("{:032x}", report.hash.digest()),
        nodes: PyTuple::new(py, network::names(topology))?,
        layers: PyTuple::new(py, topology.layers())?,
        links: link_counters(py, topology, report)?,
        samples: samples.transpose()?,
        series: series.transpose()?,
        trace: packet_trace(py, &report.events)?,
        operations: operations.transpose()?,
    ))
}

/// `lightloom.packets.LinkCounters`.
fn link_counters<'py>(
    py: Python<'py>,
    topology: &Topology,
    report: &Report,
) -> PyResult<Bound<'py, PyDict>> {
    let (specs, links) = (topology.links(), &report.links);
    Ok(values!(py;
        layer: column(py, specs.iter().map(|link| link.layer)),
        source: column(py, specs.iter().map(|link| link.from.0)),
        destination: column(py, specs.iter().map(|link| link.to.0)),
        rate_gbps: column(py, specs.iter().map(|link| link.rate.0 as f64 / 1e9)),
        sent_bytes: column(py, links.iter().map(|link| link.sent.0)),
        peak_queue_bytes: column(py, links.iter().map(|link| link.peak_queue.0)),
        drops: column(py, links.iter().map(|link| link.counters.drops)),
        control_drops: column(py, links.iter().map(|link| link.counters.control_drops)),
        trims: column(py, links.iter().map(|link| link.counters.trims)),
        marks: column(py, links.iter().map(|link| link.counters.marks)),
        pauses: column(py, links.iter().map(|link| link.counters.pauses)),
        paused_s: seconds(py, links.iter().map(|link| link.counters.paused.0)),
    ))
}

/// `lightloom.packets.QueueSamples`.
fn queue_samples<'py>(py: Python<'py>, samples: &Samples) -> PyResult<Bound<'py, PyDict>> {
    let rows = &samples.rows;
    Ok(values!(py;
        begin_s: seconds(py, rows.iter().map(|row| row.begin.0)),
        end_s: seconds(py, rows.iter().map(|row| row.end.0)),
        layer: column(py, rows.iter().map(|row| row.layer)),
        carried_bytes: column(py, rows.iter().map(|row| row.carried.0)),
        mean_utilization: column(py, rows.iter().map(|row| row.mean_utilization)),
        max_utilization: column(py, rows.iter().map(|row| row.max_utilization)),
        busiest: column(py, rows.iter().map(|row| row.busiest.0)),
        mean_queue_bytes: column(py, rows.iter().map(|row| row.mean_queue_bytes)),
        max_queue_bytes: column(py, rows.iter().map(|row| row.max_queue.0)),
        longest: column(py, rows.iter().map(|row| row.longest.0)),
    ))
}

/// `lightloom.packets.CarriedSeries`.
fn columns_of_series<'py>(
    py: Python<'py>,
    series: &Series,
    end: Time,
) -> PyResult<Bound<'py, PyDict>> {
    let rows = &series.rows;
    let begin = |period: u32| u64::from(period) * series.period.0;
    let parts = |row: Carrier| match row {
        Carrier::Link(link) => (false, link.0),
        Carrier::Flow(flow) => (true, flow.0),
    };
    Ok(values!(py;
        begin_s: seconds(py, rows.iter().map(|row| begin(row.period))),
        end_s: seconds(py, rows.iter().map(|row| begin(row.period + 1).min(end.0))),
        is_flow: column(py, rows.iter().map(|row| parts(row.of).0)),
        number: column(py, rows.iter().map(|row| parts(row.of).1)),
        carried_bytes: column(py, rows.iter().map(|row| row.bytes.0)),
        max_queue_bytes: column(py, rows.iter().map(|row| row.peak_queue.0)),
    ))
}

/// `lightloom.packets.PacketTrace`, in order of time.
fn packet_trace<'py>(py: Python<'py>, events: &[PacketEvent]) -> PyResult<Bound<'py, PyDict>> {
    let names = events.iter().map(|event| name_of(event.event));
    let kinds = events.iter().map(|event| kind_of(event.packet_kind));
    Ok(values!(py;
        time_s: seconds(py, events.iter().map(|event| event.time.0)),
        event: names.collect::<Vec<&str>>(),
        link: column(py, events.iter().map(|event| event.link.0)),
        flow: column(py, events.iter().map(|event| event.flow.0)),
        number: column(py, events.iter().map(|event| event.sequence)),
        kind: kinds.collect::<Vec<&str>>(),
    ))
}

/// `lightloom.packets.OperationTimes`: not a number for what never came.
fn operation_times<'py>(py: Python<'py>, report: &ProgramReport) -> PyResult<Bound<'py, PyDict>> {
    let second = |time: &Time| if time.0 == u64::MAX { f64::NAN } else { time.as_seconds() };
    Ok(values!(py;
        begin_s: column(py, report.begins.iter().map(second)),
        end_s: column(py, report.ends.iter().map(second)),
        critical: column(py, report.critical.iter().copied()),
        makespan_s: report.makespan.as_seconds(),
    ))
}

fn name_of(event: EventKind) -> &'static str {
    match event {
        EventKind::Sent => "sent",
        EventKind::Arrived => "arrived",
        EventKind::Delivered => "delivered",
        EventKind::Dropped => "dropped",
        EventKind::Trimmed => "trimmed",
        EventKind::Marked => "marked",
    }
}

fn kind_of(kind: PacketKind) -> &'static str {
    match kind {
        PacketKind::Data => "data",
        PacketKind::Header => "header",
        PacketKind::Request => "request",
        PacketKind::Ack => "ack",
        PacketKind::Nack => "nack",
        PacketKind::Pull => "pull",
        PacketKind::Cnp => "cnp",
    }
}
