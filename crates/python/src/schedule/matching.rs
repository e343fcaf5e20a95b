//! Matchings of largest weight: `lightloom.schedule.matching`.
//!
//! -1 in the arrays is [`NONE`] in the crate: the two have the same bits.

#![allow(clippy::needless_pass_by_value, reason = "PyO3 hands arguments over by value")]

use lightloom_schedule::matching::{
    Assignment, Blossom, GeneralMatching, NONE, assign, check_assignment, check_general,
    match_general,
};
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::prelude::*;

use super::{refuse, signed, unsigned};

const _: () = assert!(NONE.cast_signed() == -1);

/// Adds the functions to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(schedule_assign, module)?)?;
    module.add_function(wrap_pyfunction!(schedule_check_assignment, module)?)?;
    module.add_function(wrap_pyfunction!(schedule_match_general, module)?)?;
    module.add_function(wrap_pyfunction!(schedule_check_general, module)?)
}

fn own(weights: &PyReadonlyArray2<'_, i64>) -> (usize, usize, Vec<i64>) {
    let (rows, columns) = weights.as_array().dim();
    (rows, columns, weights.as_array().iter().copied().collect())
}

/// Column of each row, weight, row duals, column duals.
type PyAssignment<'py> =
    (Bound<'py, PyArray1<i32>>, i128, Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<i64>>);

#[pyfunction]
fn schedule_assign<'py>(
    py: Python<'py>,
    weights: PyReadonlyArray2<'py, i64>,
) -> PyResult<PyAssignment<'py>> {
    let (rows, columns, weights) = own(&weights);
    let found = py.detach(|| assign(rows, columns, &weights)).map_err(refuse)?;
    let (row_duals, column_duals) = (found.row_duals, found.column_duals);
    Ok((
        signed(py, found.column_of),
        found.weight,
        row_duals.into_pyarray(py),
        column_duals.into_pyarray(py),
    ))
}

#[pyfunction]
fn schedule_check_assignment(
    py: Python<'_>,
    weights: PyReadonlyArray2<'_, i64>,
    column_of: PyReadonlyArray1<'_, i32>,
    weight: i128,
    duals: (PyReadonlyArray1<'_, i64>, PyReadonlyArray1<'_, i64>),
) -> PyResult<()> {
    let (rows, columns, weights) = own(&weights);
    let found = Assignment {
        column_of: unsigned(&column_of),
        weight,
        row_duals: duals.0.as_array().to_vec(),
        column_duals: duals.1.as_array().to_vec(),
    };
    py.detach(|| check_assignment(rows, columns, &weights, &found)).map_err(refuse)
}

/// Partner of each vertex, weight, doubled duals, (members, dual) of each blossom.
type PyMatching<'py> =
    (Bound<'py, PyArray1<i32>>, i128, Bound<'py, PyArray1<i64>>, Vec<(Vec<u32>, i64)>);

#[pyfunction]
fn schedule_match_general<'py>(
    py: Python<'py>,
    weights: PyReadonlyArray2<'py, i64>,
) -> PyResult<PyMatching<'py>> {
    let (vertices, _, weights) = own(&weights);
    let found = py.detach(|| match_general(vertices, &weights)).map_err(refuse)?;
    let blossoms = found.blossoms.into_iter().map(|odd| (odd.members, odd.dual)).collect();
    Ok((signed(py, found.mate), found.weight, found.doubled_duals.into_pyarray(py), blossoms))
}

#[pyfunction]
fn schedule_check_general(
    py: Python<'_>,
    weights: PyReadonlyArray2<'_, i64>,
    mate: PyReadonlyArray1<'_, i32>,
    weight: i128,
    duals: (PyReadonlyArray1<'_, i64>, Vec<(Vec<u32>, i64)>),
) -> PyResult<()> {
    let (vertices, _, weights) = own(&weights);
    let (doubled_duals, blossoms) = duals;
    let blossom = |(members, dual)| Blossom { members, dual };
    let found = GeneralMatching {
        mate: unsigned(&mate),
        weight,
        doubled_duals: doubled_duals.as_array().to_vec(),
        blossoms: blossoms.into_iter().map(blossom).collect(),
    };
    py.detach(|| check_general(vertices, &weights, &found)).map_err(refuse)
}
