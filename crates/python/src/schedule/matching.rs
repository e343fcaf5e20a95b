//! Matchings of maximum weight: `lightloom.schedule.matching`.
//!
//! -1 in the arrays is [`NONE`] in the crate: the two have the same bits.

use lightloom_schedule::matching::{
    Assignment, Blossom, GeneralMatching, NONE, assign, check_assignment, check_general,
    match_general,
};
use numpy::{IntoPyArray, PyArray1};
use pyo3::prelude::*;

use super::indices::{signed, unsigned};
use crate::arrays::{Column, Matrix, refuse};

const _: () = assert!(NONE.cast_signed() == -1);

/// Adds the functions to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(schedule_assign, module)?)?;
    module.add_function(wrap_pyfunction!(schedule_check_assignment, module)?)?;
    module.add_function(wrap_pyfunction!(schedule_match_general, module)?)?;
    module.add_function(wrap_pyfunction!(schedule_check_general, module)?)
}

/// Column of each row, weight, and duals of rows and columns, which prove that none is heavier.
type Assigned<'py> =
    (Py<PyArray1<i32>>, i128, Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<i64>>);

#[pyfunction]
fn schedule_assign(py: Python<'_>, weights: Matrix<i64>) -> PyResult<Assigned<'_>> {
    let Matrix { rows, columns, values } = weights;
    let matching = py.detach(|| assign(rows, columns, &values)).map_err(refuse)?;
    let duals = [matching.row_duals, matching.column_duals].map(|duals| duals.into_pyarray(py));
    let [rows, columns] = duals;
    Ok((signed(py, matching.column_of), matching.weight, rows, columns))
}

#[pyfunction]
fn schedule_check_assignment(
    py: Python<'_>,
    weights: Matrix<i64>,
    column_of: Column<i32>,
    weight: i128,
    row_duals: Column<i64>,
    column_duals: Column<i64>,
) -> PyResult<()> {
    let Matrix { rows, columns, values } = weights;
    let (column_of, row_duals, column_duals) =
        (unsigned(&column_of.0), row_duals.0, column_duals.0);
    let claim = Assignment { column_of, weight, row_duals, column_duals };
    py.detach(|| check_assignment(rows, columns, &values, &claim)).map_err(refuse)
}

/// Members and dual of an odd set.
type OddSet = (Vec<u32>, i64);

/// Partner of each vertex, weight, and doubled duals of vertices and odd sets, which prove that
/// none is heavier.
type Matched<'py> = (Py<PyArray1<i32>>, i128, Bound<'py, PyArray1<i64>>, Vec<OddSet>);

#[pyfunction]
fn schedule_match_general(py: Python<'_>, weights: Matrix<i64>) -> PyResult<Matched<'_>> {
    weights.expect_square("weights", weights.rows)?;
    let matching = py.detach(|| match_general(weights.rows, &weights.values)).map_err(refuse)?;
    let blossoms = matching.blossoms.into_iter().map(|odd| (odd.members, odd.dual)).collect();
    let duals = matching.doubled_duals.into_pyarray(py);
    Ok((signed(py, matching.mate), matching.weight, duals, blossoms))
}

#[pyfunction]
fn schedule_check_general(
    py: Python<'_>,
    weights: Matrix<i64>,
    mate: Column<i32>,
    weight: i128,
    doubled_duals: Column<i64>,
    blossoms: Vec<OddSet>,
) -> PyResult<()> {
    weights.expect_square("weights", weights.rows)?;
    let claim = GeneralMatching {
        mate: unsigned(&mate.0),
        weight,
        doubled_duals: doubled_duals.0,
        blossoms: blossoms.into_iter().map(|(members, dual)| Blossom { members, dual }).collect(),
    };
    py.detach(|| check_general(weights.rows, &weights.values, &claim)).map_err(refuse)
}
