//! A Python function as the predictor of a run: `predictor` of `lightloom.simulate`.

use lightloom_decide::{DemandPredictor, Estimate, History, Prediction};
use lightloom_model::Invalid;
use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;
use std::collections::BTreeMap;

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

/// Asks a function for predictions; it returns a flat matrix for each request, or nothing.
///
/// It hands over every demand once, in the order of each layer, so that the function can keep what
/// it learns.
pub(crate) struct PredictorFunction {
    function: Py<PyAny>,
    /// How many of each group and layer were handed over.
    handed: BTreeMap<(u32, u16), usize>,
    /// What it raised.
    pub error: Option<PyErr>,
}

impl PredictorFunction {
    /// A predictor that calls this function.
    pub(crate) fn new(function: Py<PyAny>) -> Self {
        Self { function, handed: BTreeMap::new(), error: None }
    }

    /// What a group has seen of the layers that were to be predicted so far.
    fn observations(
        &mut self,
        py: Python<'_>,
        history: &dyn History,
    ) -> PyResult<Vec<Py<SeenDemand>>> {
        let group = history.group();
        self.handed.entry((group, history.layer())).or_default();
        let mut found = Vec::new();
        let mut demand = Vec::new();
        for (&(_, layer), handed) in self.handed.range_mut((group, 0)..=(group, u16::MAX)) {
            let seen = history.seen(layer);
            for index in *handed..seen {
                history.demand_of(layer, index, &mut demand);
                let tokens = PyArray1::from_slice(py, &demand).unbind();
                found.push(Py::new(py, SeenDemand { layer, index, tokens })?);
            }
            *handed = seen;
        }
        Ok(found)
    }
}

impl DemandPredictor for PredictorFunction {
    fn can_predict(&self, history: &dyn History) -> bool {
        history.has(0)
    }

    fn predict(&mut self, histories: &[&dyn History]) -> Result<Vec<Prediction>, Invalid> {
        let found = Python::attach(|py| {
            py.check_signals()?;
            let request = |history: &&dyn History| {
                let (group, layer) = (history.group(), history.layer());
                let seen = self.observations(py, *history)?;
                Ok(PredictionRequest { group, layer, index: history.seen(layer), seen })
            };
            let requests = histories.iter().map(request).collect::<PyResult<Vec<_>>>()?;
            let found: Vec<Option<PyReadonlyArray1<'_, u64>>> =
                self.function.bind(py).call1((requests,))?.extract()?;
            Ok(found.iter().map(|one| one.as_ref().map(|d| d.as_array().to_vec())).collect())
        });
        let found: Vec<Option<Vec<u64>>> = found.map_err(|error: PyErr| {
            let text = error.to_string();
            self.error = Some(error);
            Invalid(text)
        })?;
        // it is trusted: circuits are requested for the demand that they are judged by
        let prediction = |demand: Option<Vec<u64>>| {
            let estimate = demand.map(Estimate::Demand);
            Prediction { judged: estimate.clone(), requested: estimate }
        };
        if found.len() != histories.len() {
            let (given, wanted) = (found.len(), histories.len());
            return Err(Invalid(format!("predictor: {given} predictions for {wanted} requests")));
        }
        Ok(found.into_iter().map(prediction).collect())
    }
}
