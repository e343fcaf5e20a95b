//! The function of `lightloom.simulate`.

#![allow(clippy::needless_pass_by_value, reason = "PyO3 hands arguments over by value")]

use crate::allocator::{Caller, ProposalRequest};
use crate::graph::GraphColumns;
use crate::outcome::StepOutcome;
use crate::phases::{PacketModel, PhaseBook, ReadModel};
use crate::predictor::PredictorFunction;
use lightloom_decide::{CircuitAllocator, DemandPredictor};
use lightloom_execute::{ExecuteError, Model, Options, Plugins, execute_as, total_tasks};
use lightloom_kernel::Observer;
use lightloom_model::{
    Choice, Circuit, Cycle, Direct, Duration, Eps, Failures, Network, NvSwitch, Ocs, Policy, Rate,
    RelayChunk, Route, SwitchTiming, Time, WorkerId,
};
use numpy::{Element, PyReadonlyArray1};
use pyo3::create_exception;
use pyo3::exceptions::{PyAssertionError, PyKeyboardInterrupt, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::ops::ControlFlow;

create_exception!(_core, NetworkInvalid, PyValueError, "The network cannot carry the task graph.");

/// Adds the function to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("NetworkInvalid", module.py().get_type::<NetworkInvalid>())?;
    module.add_class::<PhaseBook>()?;
    module.add_class::<ProposalRequest>()?;
    module.add_class::<StepOutcome>()?;
    module.add_function(wrap_pyfunction!(execute, module)?)?;
    Ok(())
}

/// Plays a step; see `lightloom.simulate` for the keys of the dictionaries. As fluid flows, unless
/// there is another model.
#[pyfunction]
#[pyo3(signature = (graph, network, options, progress, allocator, model))]
fn execute<'py>(
    py: Python<'py>,
    graph: GraphColumns,
    network: &Bound<'py, PyDict>,
    options: &Bound<'py, PyDict>,
    progress: Option<Py<PyAny>>,
    allocator: Option<Py<PyAny>>,
    model: Option<PacketModel<'_>>,
) -> PyResult<StepOutcome> {
    let graph = graph.into_graph()?;
    let network = read_network(network)?;
    let model = model.map(|model| model.of(&network)).transpose()?;
    let predictor: Option<Py<PyAny>> = value(options, "predictor")?;
    let mut estimator = predictor.map(PredictorFunction::new);
    let options = Options {
        timeline_workers: (value::<Vec<u32>>(options, "timeline_workers")?.into_iter())
            .map(WorkerId)
            .collect(),
        share_equal_work: value(options, "share_equal_work")?,
        record_decisions: value(options, "record_decisions")?,
    };
    let mut watcher = Watcher { progress, total: total_tasks(&graph).max(1), error: None };
    let mut caller = allocator.map(|function| Caller { function, error: None });
    let result = py.detach(|| {
        let mut book = model.as_ref().and_then(ReadModel::book);
        let model = match (&model, &mut book) {
            (_, Some(book)) => Model::Phases(book),
            (Some(model), None) => Model::Packets(model.options()),
            (None, None) => Model::Flows,
        };
        let allocator = caller.as_mut().map(|caller| caller as &mut dyn CircuitAllocator);
        let predictor = estimator.as_mut().map(|one| one as &mut dyn DemandPredictor);
        let plugins = Plugins { allocator, predictor };
        execute_as(model, &graph, &network, &options, &mut watcher, plugins)
    });
    let raised = caller.and_then(|caller| caller.error);
    let raised = raised.or_else(|| estimator.and_then(|estimator| estimator.error));
    if let Some(error) = raised.or(watcher.error) {
        return Err(error);
    }
    StepOutcome::new(py, options.record_decisions, result.map_err(refuse)?)
}

pub(crate) fn refuse(error: ExecuteError) -> PyErr {
    let text = error.to_string();
    match error {
        ExecuteError::Invalid(_) | ExecuteError::Deadlock(_) => PyValueError::new_err(text),
        ExecuteError::Network(_) => NetworkInvalid::new_err(text),
        ExecuteError::NotConserved(_) => PyAssertionError::new_err(text),
        ExecuteError::Interrupted(_) => PyKeyboardInterrupt::new_err(text),
    }
}

/// Tells a Python function how far the run is, and stops it on a signal or at its wish.
pub(crate) struct Watcher {
    pub(crate) progress: Option<Py<PyAny>>,
    /// What the count goes up to.
    pub(crate) total: u64,
    /// What the function raised.
    pub(crate) error: Option<PyErr>,
}

impl Observer for Watcher {
    fn progress(&mut self, _now: Time, done: u64) -> ControlFlow<()> {
        let fraction = done as f64 / self.total as f64;
        let asked = Python::attach(|py| {
            py.check_signals()?;
            let Some(progress) = &self.progress else { return Ok(true) };
            let answer = progress.call1(py, (fraction,))?;
            Ok(answer.is_none(py) || answer.is_truthy(py)?)
        });
        match asked {
            Ok(true) => ControlFlow::Continue(()),
            Ok(false) => ControlFlow::Break(()),
            Err(error) => {
                self.error = Some(error);
                ControlFlow::Break(())
            }
        }
    }
}

pub(crate) fn item<'py>(dictionary: &Bound<'py, PyDict>, key: &str) -> PyResult<Bound<'py, PyAny>> {
    dictionary
        .get_item(key)?
        .ok_or_else(|| PyValueError::new_err(format!("the core was not given '{key}'")))
}

pub(crate) fn value<'py, T>(dictionary: &Bound<'py, PyDict>, key: &str) -> PyResult<T>
where
    T: for<'a> FromPyObject<'a, 'py, Error: Into<PyErr>>,
{
    item(dictionary, key)?.extract::<T>().map_err(|error| {
        let error: PyErr = error.into();
        PyValueError::new_err(format!("'{key}' as given to the core: {error}"))
    })
}

fn part<'py>(dictionary: &Bound<'py, PyDict>, key: &str) -> PyResult<Bound<'py, PyDict>> {
    Ok(item(dictionary, key)?.cast_into::<PyDict>()?)
}

pub(crate) fn column<T: Element + Copy>(
    dictionary: &Bound<'_, PyDict>,
    key: &str,
) -> PyResult<Vec<T>> {
    let array: PyReadonlyArray1<'_, T> = item(dictionary, key)?
        .extract()
        .map_err(|_| PyValueError::new_err(format!("'{key}' as given to the core: wrong type")))?;
    Ok(array.as_array().iter().copied().collect())
}

pub(crate) fn read_network(network: &Bound<'_, PyDict>) -> PyResult<Network> {
    let nvswitch = part(network, "nvswitch")?;
    let optional = |key: &str| -> PyResult<Option<Bound<'_, PyDict>>> {
        let entry = item(network, key)?;
        if entry.is_none() { Ok(None) } else { Ok(Some(entry.cast_into::<PyDict>()?)) }
    };
    Ok(Network {
        servers: value(network, "servers")?,
        gpus_per_server: value(network, "gpus_per_server")?,
        nvswitch: NvSwitch {
            gpu_rate: Rate(value(&nvswitch, "gpu_rate_bps")?),
            latency: Duration(value(&nvswitch, "latency_ps")?),
        },
        eps: optional("eps")?.as_ref().map(read_eps).transpose()?,
        ocs: optional("ocs")?.as_ref().map(read_ocs).transpose()?,
        direct: optional("direct")?.as_ref().map(read_direct).transpose()?,
        all_to_all: word(network)?,
    })
}

fn read_eps(eps: &Bound<'_, PyDict>) -> PyResult<Eps> {
    Ok(Eps {
        nics: value(eps, "nics")?,
        nic_rate: Rate(value(eps, "nic_rate_bps")?),
        link_delay: Duration(value(eps, "link_delay_ps")?),
        servers_per_tor: value(eps, "servers_per_tor")?,
        servers_per_pod: value(eps, "servers_per_pod")?,
        tor_uplink: value::<Option<u64>>(eps, "tor_uplink_bps")?.map(Rate),
        rail: value(eps, "rail")?,
    })
}

fn read_ocs(ocs: &Bound<'_, PyDict>) -> PyResult<Ocs> {
    let duration = |key: &str| value(ocs, key).map(Duration);
    let relaying: Option<(u64, u64)> = value(ocs, "relaying")?;
    let chunk = relaying.unwrap_or_default();
    Ok(Ocs {
        degree: value(ocs, "degree")?,
        nic_rate: Rate(value(ocs, "nic_rate_bps")?),
        circuit_delay: duration("circuit_delay_ps")?,
        region_of_server: column(ocs, "region_of_server")?,
        planes: value::<Option<String>>(ocs, "planes")?.map(|_| word(ocs)).transpose()?,
        relay_chunk: RelayChunk { bytes: chunk.0, latency: Duration(chunk.1) },
        policy: Policy {
            allocator: word(ocs)?,
            when: word(ocs)?,
            first: word(ocs)?,
            split: value(ocs, "split")?,
            relaying: relaying.is_some(),
        },
        timing: SwitchTiming {
            fixed: duration("fixed_ps")?,
            per_pair: duration("per_pair_ps")?,
            control: duration("control_ps")?,
            link_up: duration("link_up_ps")?,
            keep_unchanged: value(ocs, "keep_unchanged")?,
        },
        failures: read_failures(&item(ocs, "failures")?)?,
    })
}

fn read_failures(failures: &Bound<'_, PyAny>) -> PyResult<Failures> {
    if failures.is_none() {
        return Ok(Failures::default());
    }
    let failures = failures.cast::<PyDict>()?;
    Ok(Failures {
        nics: value(failures, "nics")?,
        eps_nics: value(failures, "eps_nics")?,
        servers: value(failures, "servers")?,
        planes: value(failures, "planes")?,
    })
}

fn read_direct(direct: &Bound<'_, PyDict>) -> PyResult<Direct> {
    let circuits: Vec<u32> = column(direct, "circuits")?;
    let routes = server_lists(direct, "route")?;
    let counts: Vec<u32> = column(direct, "cycle_counts")?;
    let cycles = server_lists(direct, "cycle")?;
    if counts.len() != cycles.len() {
        return Err(NetworkInvalid::new_err("cycle_counts needs one entry per cycle"));
    }
    Ok(Direct {
        link_rate: Rate(value(direct, "link_rate_bps")?),
        link_delay: Duration(value(direct, "link_delay_ps")?),
        relay_delay: Duration(value(direct, "relay_delay_ps")?),
        circuits: circuits
            .chunks_exact(3)
            .map(|row| Circuit { a: row[0], b: row[1], count: row[2] })
            .collect(),
        routes: routes.into_iter().map(|servers| Route { servers }).collect(),
        cycles: cycles
            .into_iter()
            .zip(counts)
            .map(|(servers, count)| Cycle { servers, count })
            .collect(),
    })
}

/// Lists of servers as one column and where each begins.
fn server_lists(direct: &Bound<'_, PyDict>, name: &str) -> PyResult<Vec<Vec<u32>>> {
    let offsets: Vec<u32> = column(direct, &format!("{name}_offsets"))?;
    let servers: Vec<u32> = column(direct, &format!("{name}_servers"))?;
    let exceed = || NetworkInvalid::new_err(format!("{name}_offsets exceed {name}_servers"));
    offsets
        .windows(2)
        .map(|ends| servers.get(ends[0] as usize..ends[1] as usize))
        .map(|servers| servers.map(<[u32]>::to_vec).ok_or_else(exceed))
        .collect()
}

/// The choice that a dictionary holds under the key of its set.
fn word<T: Choice>(dictionary: &Bound<'_, PyDict>) -> PyResult<T> {
    let given: String = value(dictionary, T::KEY)?;
    T::parse(&given).map_err(|error| NetworkInvalid::new_err(error.to_string()))
}
