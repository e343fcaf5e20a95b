//! Indices that may be none: -1 in Python.

use numpy::{IntoPyArray, PyArray1};
use pyo3::prelude::*;

/// Indices, or -1 for none, from Python: the bits of -1 are those of `NONE` in the crate.
pub(super) fn unsigned(values: &[i32]) -> Vec<u32> {
    values.iter().map(|value| value.cast_unsigned()).collect()
}

/// Indices, or -1 for none, to Python.
pub(super) fn signed(py: Python<'_>, values: Vec<u32>) -> Py<PyArray1<i32>> {
    values.into_iter().map(u32::cast_signed).collect::<Vec<i32>>().into_pyarray(py).unbind()
}
