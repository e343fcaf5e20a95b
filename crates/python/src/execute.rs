//! The function of `lightloom.simulate`.

#![allow(clippy::needless_pass_by_value, reason = "PyO3 hands arguments over by value")]

use crate::allocator::{Caller, ProposalRequest};
use crate::graph::GraphColumns;
use crate::network::PyNetwork;
use crate::outcome::StepOutcome;
use crate::phases::{PacketModel, PhaseBook, ReadModel};
use crate::predictor::PredictorFunction;
use lightloom_decide::{CircuitAllocator, DemandPredictor};
use lightloom_execute::{ExecuteError, Model, Options, Plugins, execute_as, total_tasks};
use lightloom_kernel::Observer;
use lightloom_model::{Time, WorkerId};
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
    network: PyNetwork,
    options: &Bound<'py, PyDict>,
    progress: Option<Py<PyAny>>,
    allocator: Option<Py<PyAny>>,
    model: Option<PacketModel<'_>>,
) -> PyResult<StepOutcome> {
    let graph = graph.into_graph()?;
    let PyNetwork(network) = network;
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
        let outcome = Python::attach(|py| {
            py.check_signals()?;
            let Some(progress) = &self.progress else { return Ok(true) };
            let returned = progress.call1(py, (fraction,))?;
            Ok(returned.is_none(py) || returned.is_truthy(py)?)
        });
        match outcome {
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
