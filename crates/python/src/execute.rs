//! The function of `lightloom.simulate`.

use crate::allocator::{Caller, ProposalRequest};
use crate::arrays::Given;
use crate::errors::{NetworkInvalid, refuse};
use crate::graph::GraphColumns;
use crate::network::PyNetwork;
use crate::outcome::{self, StepOutcome};
use crate::phases::{PacketModel, PhaseBook, PurposePhases, ReadModel};
use crate::predictor::{PredictionRequest, RunPredictor, SeenDemand};
use crate::watcher::Watcher;
use lightloom_decide::CircuitAllocator;
use lightloom_execute::{Options, Plugins, TransferModel, execute_as, total_tasks};
use lightloom_model::WorkerId;
use pyo3::prelude::*;

/// Adds the function to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("NetworkInvalid", module.py().get_type::<NetworkInvalid>())?;
    module.add_class::<PhaseBook>()?;
    module.add_class::<PredictionRequest>()?;
    module.add_class::<ProposalRequest>()?;
    module.add_class::<PurposePhases>()?;
    module.add_class::<SeenDemand>()?;
    outcome::register(module)?;
    module.add_function(wrap_pyfunction!(execute, module)?)?;
    Ok(())
}

/// `lightloom.simulate.requests.StepOptions`.
#[derive(FromPyObject)]
struct StepOptions {
    timeline_workers: Vec<u32>,
    share_equal_work: bool,
    record_decisions: bool,
}

/// `lightloom.simulate.requests.StepCallbacks`: functions, where there are any; a predictor may be
/// the name of a built-in one.
#[derive(FromPyObject)]
struct StepCallbacks {
    progress: Option<Py<PyAny>>,
    allocator: Option<Py<PyAny>>,
    predictor: Option<RunPredictor>,
}

impl From<StepOptions> for Options {
    fn from(options: StepOptions) -> Self {
        Self {
            timeline_workers: options.timeline_workers.into_iter().map(WorkerId).collect(),
            share_equal_work: options.share_equal_work,
            record_decisions: options.record_decisions,
        }
    }
}

/// Plays a step; see `lightloom.simulate`. As fluid flows, unless there is another model.
#[pyfunction]
#[pyo3(signature = (graph, network, options, callbacks, model))]
fn execute(
    py: Python<'_>,
    graph: GraphColumns,
    network: PyNetwork,
    options: Given<StepOptions>,
    callbacks: Given<StepCallbacks>,
    model: Option<PacketModel<'_>>,
) -> PyResult<StepOutcome> {
    let graph = graph.into_graph()?;
    let PyNetwork(network) = network;
    let model = model.map(|model| model.of(&network)).transpose()?;
    let Given(StepCallbacks { progress, allocator, mut predictor }) = callbacks;
    let options = Options::from(options.0);
    let mut watcher = Watcher::new(progress, total_tasks(&graph));
    let mut caller = allocator.map(|function| Caller { function, error: None });
    let result = py.detach(|| {
        let mut book = model.as_ref().and_then(ReadModel::book);
        let model = match (&model, &mut book) {
            (_, Some(book)) => TransferModel::Phases(book),
            (Some(model), None) => TransferModel::Packets(model.options()),
            (None, None) => TransferModel::Flows,
        };
        let allocator = caller.as_mut().map(|caller| caller as &mut dyn CircuitAllocator);
        let estimator = predictor.as_mut().map(RunPredictor::predictor);
        let plugins = Plugins { allocator, predictor: estimator };
        execute_as(model, &graph, &network, &options, &mut watcher, plugins)
    });
    let raised = caller.and_then(|caller| caller.error);
    let raised = raised.or_else(|| predictor.and_then(RunPredictor::error));
    if let Some(error) = raised.or(watcher.error) {
        return Err(error);
    }
    StepOutcome::new(py, options.record_decisions, result.map_err(refuse)?)
}
