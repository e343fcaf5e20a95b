//! The functions of `lightloom.packets`.

mod errors;
mod network;
mod programs;

use crate::arrays::Given;
use crate::records::Record;
use errors::{PacketsStuck, refuse};
use lightloom_kernel::{Interrupted, Observer};
use lightloom_model::{Duration, Rate, Time};
use lightloom_packetsim::{
    Config, EventKind, EventLogging, FlowOutcome, PacketError, PacketEvent, PacketFlowId,
    PacketKind, PacketScenario, ProgramReport, Programs, Report, RunningScenario, Samples,
    Sampling, Topology, TransportKind, profile,
};
use network::{CircuitColumns, FailureColumns, FlowColumns, PacketTopologyRequest};
use numpy::{IntoPyArray, PyArray1};
use programs::OperationColumns;
use pythonize::pythonize;

use pyo3::prelude::*;
use std::cell::RefCell;
use std::ops::ControlFlow;
use std::time::{Duration as WallTime, Instant};

/// How often progress is reported, at most.
const REPORT_EVERY: WallTime = WallTime::from_millis(50);

/// Adds the functions to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("PacketsStuck", module.py().get_type::<PacketsStuck>())?;
    module.add_class::<PacketGraph>()?;
    module.add_class::<PacketReport>()?;
    module.add_class::<FinishedColumns>()?;
    module.add_class::<LinkUseColumns>()?;
    module.add_class::<SampleColumns>()?;
    module.add_class::<EventColumns>()?;
    module.add_class::<OperationTimeColumns>()?;
    module.add_function(wrap_pyfunction!(packet_profile, module)?)?;
    module.add_function(wrap_pyfunction!(packet_topology, module)?)?;
    module.add_function(wrap_pyfunction!(packet_simulate, module)?)?;
    Ok(())
}

/// The configuration of the network of a transport's reference, for links of a rate, and the
/// parameters of the transport with its name.
#[pyfunction]
fn packet_profile<'py>(
    py: Python<'py>,
    name: &str,
    rate_bps: u64,
) -> PyResult<[Bound<'py, PyAny>; 2]> {
    let (config, transport) = profile(name, Rate(rate_bps)).map_err(refuse)?;
    Ok([pythonize(py, &config)?, pythonize(py, &transport)?])
}

/// The names of the nodes of a network, hosts first, and the ends of its links.
#[pyclass(frozen, get_all, module = "lightloom._core")]
struct PacketGraph {
    names: Vec<String>,
    source: Py<PyArray1<u32>>,
    destination: Py<PyArray1<u32>>,
}

#[pyfunction]
fn packet_topology(py: Python<'_>, network: Given<PacketTopologyRequest>) -> PyResult<PacketGraph> {
    let topology = network.0.build()?;
    let links = topology.links();
    Ok(PacketGraph {
        names: network::names(&topology),
        source: column(py, links.iter().map(|link| link.from.0)),
        destination: column(py, links.iter().map(|link| link.to.0)),
    })
}

/// `lightloom.packets.core_columns.RunRequest`.
#[derive(FromPyObject)]
struct RunRequest {
    until_ps: Option<u64>,
    sample_every_ps: u64,
    max_samples: usize,
    max_events: usize,
    traced_flow: Option<u32>,
    in_halves: bool,
    failures: Option<FailureColumns>,
    operations: Option<OperationColumns>,
}

/// Simulates flows; see `lightloom.packets.simulate_flows`. `progress` is called first before the
/// first event.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "each is a record or columns of its own")]
fn packet_simulate(
    py: Python<'_>,
    network: Given<PacketTopologyRequest>,
    config: Record<Config>,
    transport: Record<TransportKind>,
    flows: Given<FlowColumns>,
    circuits: Option<Given<CircuitColumns>>,
    run: Given<RunRequest>,
    progress: Option<Py<PyAny>>,
) -> PyResult<PacketReport> {
    let (Given(network), Given(options)) = (network, run);
    let topology = network.build()?;
    let (period, max_periods) = (Duration(options.sample_every_ps), options.max_samples);
    let (max_events, flow) = (options.max_events, options.traced_flow.map(PacketFlowId));
    let scenario = PacketScenario {
        flows: flows.0.specs(&network, &topology, config.0.seed)?,
        programs: options.operations.map_or(Ok(Programs::default()), OperationColumns::programs)?,
        circuits: circuits.map_or(Ok(Vec::new()), |circuits| circuits.0.changes())?,
        failures: options.failures.map_or(Ok(Vec::new()), |failures| failures.failures())?,
        config: config.0,
        transport: transport.0,
        topology,
        sampling: (max_periods > 0).then_some(Sampling { period, max_periods }),
        event_logging: (max_events > 0).then_some(EventLogging { max_events, flow }),
        in_halves: options.in_halves,
        until: options.until_ps.map_or(Time(u64::MAX), Time),
    };
    let (result, error) = py.detach(|| simulate(&scenario, progress));
    if let Some(error) = error {
        return Err(error);
    }
    PacketReport::new(py, &scenario.topology, result.map_err(refuse)?)
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
            let finished = Py::new(py, FinishedColumns::new(py, &finished))?;
            let wish = progress.call1(py, (now.0, hops, self.expected, finished))?;
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
fn column<T: numpy::Element>(py: Python<'_>, values: impl Iterator<Item = T>) -> Py<PyArray1<T>> {
    values.collect::<Vec<T>>().into_pyarray(py).unbind()
}

/// Flows that have finished.
#[pyclass(frozen, get_all, module = "lightloom._core")]
struct FinishedColumns {
    flow: Py<PyArray1<u32>>,
    start_ps: Py<PyArray1<u64>>,
    received_ps: Py<PyArray1<u64>>,
    done_ps: Py<PyArray1<u64>>,
    slowdown: Py<PyArray1<f64>>,
}

impl FinishedColumns {
    fn new(py: Python<'_>, finished: &[FlowOutcome]) -> Self {
        Self {
            flow: column(py, finished.iter().map(|one| one.flow.0)),
            start_ps: column(py, finished.iter().map(|one| one.start.0)),
            received_ps: column(py, finished.iter().map(|one| one.received_at.0)),
            done_ps: column(py, finished.iter().map(|one| one.done_at.0)),
            slowdown: column(py, finished.iter().map(|one| one.slowdown)),
        }
    }
}

/// What a run did.
#[pyclass(frozen, get_all, module = "lightloom._core")]
struct PacketReport {
    end_ps: u64,
    data_hops: u64,
    control_hops: u64,
    events: u64,
    peak_packets: u64,
    undivided: Option<&'static str>,
    run_hash: String,
    nodes: Vec<String>,
    layers: Vec<String>,
    links: Py<LinkUseColumns>,
    samples: Option<Py<SampleColumns>>,
    trace: Py<EventColumns>,
    operations: Option<Py<OperationTimeColumns>>,
}

impl PacketReport {
    fn new(py: Python<'_>, topology: &Topology, report: Report) -> PyResult<Self> {
        let samples = report.samples.as_ref().map(|samples| SampleColumns::new(py, samples));
        Ok(Self {
            end_ps: report.end.0,
            data_hops: report.counters.data_hops,
            control_hops: report.counters.control_hops,
            events: report.counters.events,
            peak_packets: report.peak_packets,
            undivided: report.undivided,
            run_hash: format!("{:032x}", report.hash.digest()),
            nodes: network::names(topology),
            layers: topology.layers().to_vec(),
            links: Py::new(py, LinkUseColumns::new(py, topology, &report))?,
            samples: samples.map(|samples| Py::new(py, samples)).transpose()?,
            trace: Py::new(py, EventColumns::new(py, &report.events))?,
            operations: OperationTimeColumns::new(py, &report.programs)?,
        })
    }
}

/// What every link did.
#[pyclass(frozen, get_all, module = "lightloom._core")]
struct LinkUseColumns {
    layer: Py<PyArray1<u8>>,
    source: Py<PyArray1<u32>>,
    destination: Py<PyArray1<u32>>,
    rate_bps: Py<PyArray1<u64>>,
    sent_bytes: Py<PyArray1<u64>>,
    peak_queue_bytes: Py<PyArray1<u64>>,
    drops: Py<PyArray1<u64>>,
    control_drops: Py<PyArray1<u64>>,
    trims: Py<PyArray1<u64>>,
    marks: Py<PyArray1<u64>>,
    pauses: Py<PyArray1<u64>>,
    paused_ps: Py<PyArray1<u64>>,
}

impl LinkUseColumns {
    fn new(py: Python<'_>, topology: &Topology, report: &Report) -> Self {
        let (specs, links) = (topology.links(), &report.links);
        Self {
            layer: column(py, specs.iter().map(|link| link.layer)),
            source: column(py, specs.iter().map(|link| link.from.0)),
            destination: column(py, specs.iter().map(|link| link.to.0)),
            rate_bps: column(py, specs.iter().map(|link| link.rate.0)),
            sent_bytes: column(py, links.iter().map(|link| link.sent.0)),
            peak_queue_bytes: column(py, links.iter().map(|link| link.peak_queue.0)),
            drops: column(py, links.iter().map(|link| link.counters.drops)),
            control_drops: column(py, links.iter().map(|link| link.counters.control_drops)),
            trims: column(py, links.iter().map(|link| link.counters.trims)),
            marks: column(py, links.iter().map(|link| link.counters.marks)),
            pauses: column(py, links.iter().map(|link| link.counters.pauses)),
            paused_ps: column(py, links.iter().map(|link| link.counters.paused.0)),
        }
    }
}

/// Queues and utilization over time.
#[pyclass(frozen, get_all, module = "lightloom._core")]
struct SampleColumns {
    begin_ps: Py<PyArray1<u64>>,
    end_ps: Py<PyArray1<u64>>,
    layer: Py<PyArray1<u8>>,
    carried_bytes: Py<PyArray1<u64>>,
    mean_utilization: Py<PyArray1<f64>>,
    max_utilization: Py<PyArray1<f64>>,
    busiest: Py<PyArray1<u32>>,
    mean_queue_bytes: Py<PyArray1<f64>>,
    max_queue_bytes: Py<PyArray1<u64>>,
    longest: Py<PyArray1<u32>>,
}

impl SampleColumns {
    fn new(py: Python<'_>, samples: &Samples) -> Self {
        let rows = &samples.rows;
        Self {
            begin_ps: column(py, rows.iter().map(|row| row.begin.0)),
            end_ps: column(py, rows.iter().map(|row| row.end.0)),
            layer: column(py, rows.iter().map(|row| row.layer)),
            carried_bytes: column(py, rows.iter().map(|row| row.carried.0)),
            mean_utilization: column(py, rows.iter().map(|row| row.mean_utilization)),
            max_utilization: column(py, rows.iter().map(|row| row.max_utilization)),
            busiest: column(py, rows.iter().map(|row| row.busiest.0)),
            mean_queue_bytes: column(py, rows.iter().map(|row| row.mean_queue_bytes)),
            max_queue_bytes: column(py, rows.iter().map(|row| row.max_queue.0)),
            longest: column(py, rows.iter().map(|row| row.longest.0)),
        }
    }
}

/// Events of packets in order of time.
#[pyclass(frozen, get_all, module = "lightloom._core")]
struct EventColumns {
    time_ps: Py<PyArray1<u64>>,
    event: Vec<&'static str>,
    link: Py<PyArray1<u32>>,
    flow: Py<PyArray1<u32>>,
    number: Py<PyArray1<u32>>,
    kind: Vec<&'static str>,
}

impl EventColumns {
    fn new(py: Python<'_>, events: &[PacketEvent]) -> Self {
        Self {
            time_ps: column(py, events.iter().map(|event| event.time.0)),
            event: events.iter().map(|event| name_of(event.event)).collect(),
            link: column(py, events.iter().map(|event| event.link.0)),
            flow: column(py, events.iter().map(|event| event.flow.0)),
            number: column(py, events.iter().map(|event| event.sequence)),
            kind: events.iter().map(|event| kind_of(event.packet_kind)).collect(),
        }
    }
}

/// When the operations of programs began and ended, 2^64 - 1 where they did not.
#[pyclass(frozen, get_all, module = "lightloom._core")]
struct OperationTimeColumns {
    begin_ps: Py<PyArray1<u64>>,
    end_ps: Py<PyArray1<u64>>,
    critical: Py<PyArray1<u32>>,
    makespan_ps: u64,
}

impl OperationTimeColumns {
    /// `None` without programs.
    fn new(py: Python<'_>, report: &ProgramReport) -> PyResult<Option<Py<Self>>> {
        let columns = Self {
            begin_ps: column(py, report.begins.iter().map(|time| time.0)),
            end_ps: column(py, report.ends.iter().map(|time| time.0)),
            critical: column(py, report.critical.iter().copied()),
            makespan_ps: report.makespan.0,
        };
        (!report.begins.is_empty()).then(|| Py::new(py, columns)).transpose()
    }
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
