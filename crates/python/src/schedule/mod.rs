//! The functions of `lightloom.schedule`, one file per family of schedulers.

mod allocation;
mod permutation;
mod topoopt;

use lightloom_model::Invalid;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Adds the functions to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    allocation::register(module)?;
    permutation::register(module)?;
    topoopt::register(module)
}

fn refuse(Invalid(text): Invalid) -> PyErr {
    PyValueError::new_err(text)
}
