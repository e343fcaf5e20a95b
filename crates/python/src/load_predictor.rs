//! The built-in predictors of expert loads, for `lightloom.demand.predictors`.

use crate::arrays::{Column, refuse};
use lightloom_predict::{LoadPredictor, PredictorChoice};
use numpy::{IntoPyArray, PyArray1};
use pyo3::prelude::*;

/// Adds the class to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<BuiltInPredictor>()
}

/// One predictor by its name; see `lightloom.demand.predictors.DemandPredictor`.
#[pyclass(name = "LoadPredictor", module = "lightloom._core")]
struct BuiltInPredictor {
    predictor: Box<dyn LoadPredictor>,
}

#[pymethods]
impl BuiltInPredictor {
    #[new]
    fn new(name: &str, experts: usize, window: usize) -> PyResult<Self> {
        let choice = PredictorChoice { name: crate::choices::parse(name)?, window };
        Ok(Self { predictor: choice.build(experts).map_err(refuse)? })
    }

    fn observe(
        &mut self,
        py: Python<'_>,
        step: u64,
        layer: u32,
        loads: Column<f64>,
    ) -> PyResult<()> {
        let predictor = &mut self.predictor;
        py.detach(|| predictor.observe(step, layer, &loads.0)).map_err(refuse)
    }

    fn predict<'py>(
        &mut self,
        py: Python<'py>,
        step: u64,
        layer: u32,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let predictor = &mut self.predictor;
        let shares = py.detach(|| predictor.predict(step, layer)).map_err(refuse)?;
        Ok(shares.into_pyarray(py))
    }
}
