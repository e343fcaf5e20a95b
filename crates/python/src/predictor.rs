//! The predictor of a run, built in or a Python function: `predictor` of `lightloom.simulate`.

use lightloom_decide::{DemandPredictor, Estimate, History, PredictedDemand};
use lightloom_model::Invalid;
use lightloom_predict::{DEFAULT_WINDOW, GroupPredictors, PredictorChoice, Unseen};
use numpy::PyArray1;
use pyo3::Borrowed;
use pyo3::prelude::*;

use crate::arrays::Column;

/// The demand of a first all-to-all that is over; token copies, members x members, flat.
#[pyclass(frozen, get_all, module = "lightloom._core")]
pub(crate) struct SeenDemand {
    layer: u16,
    /// Its index in the order of the layer.
    index: usize,
    tokens: Py<PyArray1<u64>>,
}

/// What is to be predicted.
#[pyclass(frozen, get_all, module = "lightloom._core")]
pub(crate) struct PredictionRequest {
    group: u32,
    layer: u16,
    /// Its index in the order of the layer.
    index: usize,
    /// What the group has seen since the last call.
    seen: Vec<Py<SeenDemand>>,
}

/// Who predicts the demand of a run.
pub(crate) enum RunPredictor {
    /// The core itself, by a built-in predictor for every group.
    BuiltIn(GroupPredictors),
    /// A function, which calls a user's.
    Custom(PredictorFunction),
}

impl RunPredictor {
    /// What the run calls.
    pub(crate) fn predictor(&mut self) -> &mut dyn DemandPredictor {
        match self {
            Self::BuiltIn(predictors) => predictors,
            Self::Custom(function) => function,
        }
    }

    /// What a function raised.
    pub(crate) fn error(self) -> Option<PyErr> {
        match self {
            Self::BuiltIn(_) => None,
            Self::Custom(function) => function.error,
        }
    }
}

impl FromPyObject<'_, '_> for RunPredictor {
    type Error = PyErr;

    /// The name of a built-in predictor, or a function.
    fn extract(object: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        let Ok(name) = object.extract::<String>() else {
            return Ok(Self::Custom(PredictorFunction::new(object.to_owned().unbind())));
        };
        let choice =
            PredictorChoice { name: crate::choices::parse(&name)?, window: DEFAULT_WINDOW };
        Ok(Self::BuiltIn(GroupPredictors::new(choice)))
    }
}

/// Asks a function for predictions; it returns a flat matrix for each request, or nothing.
///
/// It hands over every demand once, in the order of each layer, so that the function can keep what
/// it learns.
pub(crate) struct PredictorFunction {
    function: Py<PyAny>,
    unseen: Unseen,
    /// What it raised.
    pub(crate) error: Option<PyErr>,
}

impl PredictorFunction {
    /// A predictor that calls this function.
    pub(crate) fn new(function: Py<PyAny>) -> Self {
        Self { function, unseen: Unseen::default(), error: None }
    }

    /// What a group has seen of the layers that were to be predicted so far.
    fn observations(
        &mut self,
        py: Python<'_>,
        history: &dyn History,
    ) -> PyResult<Vec<Py<SeenDemand>>> {
        let mut observations = Vec::new();
        self.unseen.hand_over(history, |layer, index, tokens| {
            let tokens = PyArray1::from_slice(py, tokens).unbind();
            observations.push(Py::new(py, SeenDemand { layer, index, tokens })?);
            PyResult::Ok(())
        })?;
        Ok(observations)
    }
}

impl DemandPredictor for PredictorFunction {
    fn can_predict(&self, history: &dyn History) -> bool {
        history.has(0)
    }

    fn predict(&mut self, histories: &[&dyn History]) -> Result<Vec<PredictedDemand>, Invalid> {
        let predicted = Python::attach(|py| {
            py.check_signals()?;
            let request = |history: &&dyn History| {
                let (group, layer) = (history.group(), history.layer());
                let seen = self.observations(py, *history)?;
                Ok(PredictionRequest { group, layer, index: history.seen(layer), seen })
            };
            let requests = histories.iter().map(request).collect::<PyResult<Vec<_>>>()?;
            let answers: Vec<Option<Column<u64>>> =
                self.function.bind(py).call1((requests,))?.extract()?;
            Ok(answers.into_iter().map(|answer| answer.map(|Column(demand)| demand)).collect())
        });
        let predicted: Vec<Option<Vec<u64>>> = predicted.map_err(|error: PyErr| {
            let text = error.to_string();
            self.error = Some(error);
            Invalid(text)
        })?;
        // it is trusted: circuits are requested for the demand that they are judged by
        let prediction = |demand: Option<Vec<u64>>| {
            let estimate = demand.map(Estimate::Demand);
            PredictedDemand { judged: estimate.clone(), requested: estimate }
        };
        if predicted.len() != histories.len() {
            let (given, wanted) = (predicted.len(), histories.len());
            return Err(Invalid(format!("predictor: {given} predictions for {wanted} requests")));
        }
        Ok(predicted.into_iter().map(prediction).collect())
    }
}
