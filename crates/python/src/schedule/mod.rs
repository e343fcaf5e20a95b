//! The functions of `lightloom.schedule`, one file per family of schedulers.

mod allocation;
mod coloring;
pub(crate) mod decider;
mod matching;
mod permutation;
mod relay;
mod systems;
mod topoopt;

use numpy::{IntoPyArray, PyArray1};
use pyo3::prelude::*;

use crate::arrays::Column;

/// Adds the functions to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    allocation::register(module)?;
    coloring::register(module)?;
    decider::register(module)?;
    matching::register(module)?;
    permutation::register(module)?;
    relay::register(module)?;
    systems::register(module)?;
    topoopt::register(module)
}

/// Indices, or -1 for none, from Python: the bits of -1 are those of `NONE` in the crate.
fn unsigned(Column(values): &Column<i32>) -> Vec<u32> {
    values.iter().map(|value| value.cast_unsigned()).collect()
}

/// Indices, or -1 for none, to Python.
fn signed(py: Python<'_>, values: Vec<u32>) -> Py<PyArray1<i32>> {
    values.into_iter().map(u32::cast_signed).collect::<Vec<i32>>().into_pyarray(py).unbind()
}
