//! The functions of `lightloom.schedule`, one file per family of schedulers.

mod allocation;
mod coloring;
mod matching;
mod permutation;
mod reconfigure;
mod relay;
mod systems;
mod topoopt;

use lightloom_model::Invalid;
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Adds the functions to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    allocation::register(module)?;
    coloring::register(module)?;
    matching::register(module)?;
    permutation::register(module)?;
    reconfigure::register(module)?;
    relay::register(module)?;
    systems::register(module)?;
    topoopt::register(module)
}

fn refuse(Invalid(text): Invalid) -> PyErr {
    PyValueError::new_err(text)
}

/// Numbers, or -1 for none, from Python: the bits of -1 are those of `NONE` in the crate.
fn unsigned(values: &PyReadonlyArray1<'_, i32>) -> Vec<u32> {
    values.as_array().iter().map(|value| value.cast_unsigned()).collect()
}

/// Numbers, or -1 for none, to Python.
fn signed(py: Python<'_>, values: Vec<u32>) -> Bound<'_, PyArray1<i32>> {
    values.into_iter().map(u32::cast_signed).collect::<Vec<i32>>().into_pyarray(py)
}
