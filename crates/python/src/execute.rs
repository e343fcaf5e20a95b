//! The function of `lightloom.simulate`.

use crate::allocator::{Caller, ProposalRequest};
use crate::errors::{NetworkInvalid, refuse};
use crate::graph::GraphColumns;
use crate::network::PyNetwork;
use crate::outcome::step_outcome;
use crate::phases::{PacketModel, PhaseBook, ReadModel};
use crate::predictor::{PredictionRequest, RunPredictor, SeenDemand};
use crate::watcher::Watcher;
use lightloom_decide::CircuitAllocator;
use lightloom_execute::{Options, Plugins, TransferModel, execute_as, total_tasks};
use lightloom_model::WorkerId;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Adds the function to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("NetworkInvalid", module.py().get_type::<NetworkInvalid>())?;
    module.add_class::<PhaseBook>()?;
    module.add_class::<PredictionRequest>()?;
    module.add_class::<ProposalRequest>()?;
    module.add_class::<SeenDemand>()?;
    module.add_function(wrap_pyfunction!(execute, module)?)?;
    Ok(())
}

/// Plays a step; see `lightloom.simulate`. As fluid flows, unless there is another model; the last
/// three are functions, or the name of a built-in predictor.
#[pyfunction]
#[pyo3(signature = (
    graph, network, model, *, timeline_workers, share_equal_work, record_decisions,
    record_packets, progress, allocator, predictor
))]
#[allow(clippy::too_many_arguments, reason = "Python calls it by keywords")]
fn execute<'py>(
    py: Python<'py>,
    graph: GraphColumns,
    network: PyNetwork,
    model: Option<PacketModel<'py>>,
    timeline_workers: Vec<u32>,
    share_equal_work: bool,
    record_decisions: bool,
    record_packets: bool,
    progress: Option<Py<PyAny>>,
    allocator: Option<Py<PyAny>>,
    mut predictor: Option<RunPredictor>,
) -> PyResult<Bound<'py, PyDict>> {
    let graph = graph.into_graph()?;
    let PyNetwork(network) = network;
    let model = model.map(|model| model.of(&network)).transpose()?;
    let timeline_workers = timeline_workers.into_iter().map(WorkerId).collect();
    let options = Options { timeline_workers, share_equal_work, record_decisions, record_packets };
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
    step_outcome(py, options.record_decisions, result.map_err(refuse)?)
}
