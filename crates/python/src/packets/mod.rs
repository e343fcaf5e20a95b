//! The functions of `lightloom.packets`.

#![allow(clippy::needless_pass_by_value, reason = "PyO3 and map_err hand over by value")]

mod network;
mod settings;

use crate::execute::value;
use lightloom_kernel::Observer;
use lightloom_model::{Duration, Rate, Time};
use lightloom_packetsim::{
    FlowOutcome, Kind, PacketError, PacketEvent, Report, Run, Samples, Sampling, Scenario,
    Topology, Tracing, What, profile,
};
use numpy::IntoPyArray;
use pyo3::create_exception;
use pyo3::exceptions::{PyKeyboardInterrupt, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::cell::RefCell;
use std::ops::ControlFlow;
use std::time::{Duration as WallTime, Instant};

create_exception!(_core, PacketsStuck, PyRuntimeError, "Flows that will never finish.");

/// How often a watcher is told, at most.
const TELL_EVERY: WallTime = WallTime::from_millis(50);

/// Adds the functions to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("PacketsStuck", module.py().get_type::<PacketsStuck>())?;
    module.add_function(wrap_pyfunction!(packet_profile, module)?)?;
    module.add_function(wrap_pyfunction!(packet_topology, module)?)?;
    module.add_function(wrap_pyfunction!(packet_simulate, module)?)?;
    Ok(())
}

/// The parameters of a transport and of the network of its reference, for links of a rate.
#[pyfunction]
fn packet_profile<'py>(py: Python<'py>, name: &str, rate_bps: u64) -> PyResult<Bound<'py, PyDict>> {
    settings::give(py, profile(name, Rate(rate_bps)).map_err(refuse)?)
}

/// The names of the nodes of a network, hosts first, and the ends of its links.
#[pyfunction]
fn packet_topology<'py>(
    py: Python<'py>,
    network: &Bound<'py, PyDict>,
) -> PyResult<Bound<'py, PyDict>> {
    let topology = network::read_topology(network)?;
    let given = PyDict::new(py);
    given.set_item("names", network::names(&topology))?;
    put(&given, "source", topology.links().iter().map(|link| link.from.0))?;
    put(&given, "destination", topology.links().iter().map(|link| link.to.0))?;
    Ok(given)
}

/// Simulates flows; see `lightloom.packets.simulate_flows`.
#[pyfunction]
fn packet_simulate<'py>(
    py: Python<'py>,
    network: &Bound<'py, PyDict>,
    tables: &Bound<'py, PyDict>,
    flows: &Bound<'py, PyDict>,
    options: &Bound<'py, PyDict>,
    told: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let transport: String = value(options, "transport")?;
    let reference = profile(&transport, Rate(value(network, "rate_bps")?)).map_err(refuse)?;
    let (mut config, transport) = settings::take(tables, reference)?;
    config.seed = value(options, "seed")?;
    let (every, most): (u64, usize) = value(options, "sampling")?;
    let (first, flow): (usize, Option<u32>) = value(options, "tracing")?;
    let topology = network::read_topology(network)?;
    let scenario = Scenario {
        config,
        transport,
        flows: network::read_flows(flows, network, &topology)?,
        circuits: network::read_circuits(network)?,
        topology,
        sampling: (most > 0).then_some(Sampling { every: Duration(every), most }),
        tracing: (first > 0).then_some(Tracing { first, flow }),
        until: value::<Option<u64>>(options, "until_ps")?.map_or(Time(u64::MAX), Time),
    };
    let (result, error) = py.detach(|| run(&scenario, told));
    if let Some(error) = error {
        return Err(error);
    }
    give(py, &scenario.topology, result.map_err(refuse)?)
}

fn refuse(error: PacketError) -> PyErr {
    let text = error.to_string();
    match error {
        PacketError::Invalid(_) => PyValueError::new_err(text),
        PacketError::Stuck(_) => PacketsStuck::new_err(text),
        PacketError::Interrupted(_) => PyKeyboardInterrupt::new_err(text),
    }
}

/// Simulates without the interpreter; says what a signal or the watcher raised as well.
fn run(
    scenario: &Scenario,
    told: Option<Py<PyAny>>,
) -> (Result<Report, PacketError>, Option<PyErr>) {
    let run = match Run::new(scenario) {
        Ok(run) => run,
        Err(error) => return (Err(error), None),
    };
    let finished = RefCell::new(Vec::new());
    let expected = run.expected_hops();
    let mut teller =
        Teller { told, expected, finished: &finished, last: Instant::now(), error: None };
    let result = run.play(&mut teller, &mut |outcomes| {
        finished.borrow_mut().extend_from_slice(outcomes);
    });
    if teller.error.is_none() {
        let end = result.as_ref().map_or(Time::ZERO, |report| report.end);
        let hops = result.as_ref().map_or(0, |report| report.counters.data_hops);
        teller.tell(end, hops);
    }
    (result, teller.error)
}

/// Hands finished flows to a Python function, tells it how far the run is, and stops the run on a
/// signal or at its wish.
struct Teller<'a> {
    told: Option<Py<PyAny>>,
    /// Links that packets of data will leave.
    expected: u64,
    finished: &'a RefCell<Vec<FlowOutcome>>,
    last: Instant,
    error: Option<PyErr>,
}

impl Teller<'_> {
    /// Whether to go on.
    fn tell(&mut self, now: Time, hops: u64) -> bool {
        self.last = Instant::now();
        let finished = std::mem::take(&mut *self.finished.borrow_mut());
        let asked = Python::attach(|py| {
            let Some(told) = &self.told else { return Ok(true) };
            let answer = told.call1(py, (now.0, hops, self.expected, columns(py, &finished)?))?;
            Ok(answer.is_none(py) || answer.is_truthy(py)?)
        });
        asked.unwrap_or_else(|error| {
            self.error = Some(error);
            false
        })
    }
}

impl Observer for Teller<'_> {
    fn progress(&mut self, now: Time, done: u64) -> ControlFlow<()> {
        if self.last.elapsed() < TELL_EVERY {
            return ControlFlow::Continue(());
        }
        // What has finished is handed over before a signal ends everything.
        let goes_on = self.tell(now, done);
        match Python::attach(check_signals) {
            Ok(()) if goes_on => ControlFlow::Continue(()),
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

fn columns<'py>(py: Python<'py>, finished: &[FlowOutcome]) -> PyResult<Bound<'py, PyDict>> {
    let given = PyDict::new(py);
    put(&given, "flow", finished.iter().map(|one| one.flow.0))?;
    put(&given, "received_ps", finished.iter().map(|one| one.received_at.0))?;
    put(&given, "done_ps", finished.iter().map(|one| one.done_at.0))?;
    put(&given, "slowdown", finished.iter().map(|one| one.slowdown))?;
    Ok(given)
}

/// Sets a key to an array.
fn put<T: numpy::Element>(
    table: &Bound<'_, PyDict>,
    key: &str,
    values: impl Iterator<Item = T>,
) -> PyResult<()> {
    table.set_item(key, values.collect::<Vec<T>>().into_pyarray(table.py()))
}

fn give<'py>(py: Python<'py>, topology: &Topology, report: Report) -> PyResult<Bound<'py, PyDict>> {
    let given = PyDict::new(py);
    given.set_item("end_ps", report.end.0)?;
    given.set_item("data_hops", report.counters.data_hops)?;
    given.set_item("control_hops", report.counters.control_hops)?;
    given.set_item("events", report.counters.events)?;
    given.set_item("peak_packets", report.peak_packets)?;
    given.set_item("trace_hash", format!("{:032x}", report.hash.digest()))?;
    given.set_item("nodes", network::names(topology))?;
    given.set_item("layers", topology.layers())?;
    given.set_item("links", give_links(py, topology, &report)?)?;
    given.set_item(
        "samples",
        report.samples.map(|samples| give_samples(py, &samples)).transpose()?,
    )?;
    given.set_item("trace", give_trace(py, &report.trace)?)?;
    Ok(given)
}

fn give_links<'py>(
    py: Python<'py>,
    topology: &Topology,
    report: &Report,
) -> PyResult<Bound<'py, PyDict>> {
    let given = PyDict::new(py);
    let (specs, links) = (topology.links(), &report.links);
    put(&given, "layer", specs.iter().map(|link| link.layer))?;
    put(&given, "source", specs.iter().map(|link| link.from.0))?;
    put(&given, "destination", specs.iter().map(|link| link.to.0))?;
    put(&given, "rate_bps", specs.iter().map(|link| link.rate.0))?;
    put(&given, "sent_bytes", links.iter().map(|link| link.sent.0))?;
    put(&given, "peak_queue_bytes", links.iter().map(|link| link.peak_queue.0))?;
    put(&given, "drops", links.iter().map(|link| link.counters.drops))?;
    put(&given, "control_drops", links.iter().map(|link| link.counters.control_drops))?;
    put(&given, "trims", links.iter().map(|link| link.counters.trims))?;
    put(&given, "marks", links.iter().map(|link| link.counters.marks))?;
    put(&given, "pauses", links.iter().map(|link| link.counters.pauses))?;
    put(&given, "paused_ps", links.iter().map(|link| link.counters.paused.0))?;
    Ok(given)
}

fn give_samples<'py>(py: Python<'py>, samples: &Samples) -> PyResult<Bound<'py, PyDict>> {
    let given = PyDict::new(py);
    let rows = &samples.rows;
    put(&given, "begin_ps", rows.iter().map(|row| row.begin.0))?;
    put(&given, "end_ps", rows.iter().map(|row| row.end.0))?;
    put(&given, "layer", rows.iter().map(|row| row.layer))?;
    put(&given, "carried_bytes", rows.iter().map(|row| row.carried.0))?;
    put(&given, "mean_utilisation", rows.iter().map(|row| row.mean_utilisation))?;
    put(&given, "max_utilisation", rows.iter().map(|row| row.max_utilisation))?;
    put(&given, "busiest", rows.iter().map(|row| row.busiest.0))?;
    put(&given, "mean_queue_bytes", rows.iter().map(|row| row.mean_queue_bytes))?;
    put(&given, "max_queue_bytes", rows.iter().map(|row| row.max_queue.0))?;
    put(&given, "longest", rows.iter().map(|row| row.longest.0))?;
    Ok(given)
}

fn give_trace<'py>(py: Python<'py>, trace: &[PacketEvent]) -> PyResult<Bound<'py, PyDict>> {
    let given = PyDict::new(py);
    put(&given, "time_ps", trace.iter().map(|event| event.time.0))?;
    given.set_item("event", trace.iter().map(|event| name_of(event.what)).collect::<Vec<_>>())?;
    put(&given, "link", trace.iter().map(|event| event.link.0))?;
    put(&given, "flow", trace.iter().map(|event| event.flow.0))?;
    put(&given, "number", trace.iter().map(|event| event.number))?;
    given.set_item("kind", trace.iter().map(|event| kind_of(event.kind)).collect::<Vec<_>>())?;
    Ok(given)
}

fn name_of(what: What) -> &'static str {
    match what {
        What::Sent => "sent",
        What::Arrived => "arrived",
        What::Delivered => "delivered",
        What::Dropped => "dropped",
        What::Trimmed => "trimmed",
        What::Marked => "marked",
    }
}

fn kind_of(kind: Kind) -> &'static str {
    match kind {
        Kind::Data => "data",
        Kind::Header => "header",
        Kind::Request => "request",
        Kind::Ack => "ack",
        Kind::Nack => "nack",
        Kind::Pull => "pull",
        Kind::Cnp => "cnp",
    }
}
