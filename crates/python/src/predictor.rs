//! A Python function as the predictor of a run: `predictor` of `lightloom.simulate`.

use lightloom_decide::{DemandPredictor, Estimate, History, Prediction};
use lightloom_model::Invalid;
use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;
use std::collections::BTreeMap;

/// Layer, index in its order, and token copies, members x members, flat.
type PyObservation<'py> = (u16, usize, Bound<'py, PyArray1<u64>>);

/// Group and layer to predict, its index in the order of the layer, and what was seen since the
/// last call.
type PyRequest<'py> = (u32, u16, usize, Vec<PyObservation<'py>>);

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
    fn observations<'py>(
        &mut self,
        py: Python<'py>,
        history: &dyn History,
    ) -> Vec<PyObservation<'py>> {
        let group = history.group();
        self.handed.entry((group, history.layer())).or_default();
        let mut found = Vec::new();
        let mut demand = Vec::new();
        for (&(_, layer), handed) in self.handed.range_mut((group, 0)..=(group, u16::MAX)) {
            let seen = history.seen(layer);
            for index in *handed..seen {
                history.demand_of(layer, index, &mut demand);
                found.push((layer, index, PyArray1::from_slice(py, &demand)));
            }
            *handed = seen;
        }
        found
    }
}

impl DemandPredictor for PredictorFunction {
    fn can_predict(&self, history: &dyn History) -> bool {
        history.has(0)
    }

    fn predict(&mut self, histories: &[&dyn History]) -> Result<Vec<Prediction>, Invalid> {
        let found = Python::attach(|py| {
            py.check_signals()?;
            let requests: Vec<PyRequest<'_>> = histories
                .iter()
                .map(|history| {
                    let (group, layer) = (history.group(), history.layer());
                    let observed = self.observations(py, *history);
                    (group, layer, history.seen(layer), observed)
                })
                .collect();
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
