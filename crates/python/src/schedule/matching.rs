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
use crate::arrays::{Column, Given, Matrix, refuse};

const _: () = assert!(NONE.cast_signed() == -1);

/// Adds the functions to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<BipartiteMatching>()?;
    module.add_class::<GraphMatching>()?;
    module.add_function(wrap_pyfunction!(schedule_assign, module)?)?;
    module.add_function(wrap_pyfunction!(schedule_check_assignment, module)?)?;
    module.add_function(wrap_pyfunction!(schedule_match_general, module)?)?;
    module.add_function(wrap_pyfunction!(schedule_check_general, module)?)
}

/// Column of each row, and the proof that no matching is heavier.
#[pyclass(frozen, get_all, module = "lightloom._core")]
struct BipartiteMatching {
    column_of: Py<PyArray1<i32>>,
    weight: i128,
    row_duals: Py<PyArray1<i64>>,
    column_duals: Py<PyArray1<i64>>,
}

#[pyfunction]
fn schedule_assign(py: Python<'_>, weights: Matrix<i64>) -> PyResult<BipartiteMatching> {
    let Matrix { rows, columns, values } = weights;
    let found = py.detach(|| assign(rows, columns, &values)).map_err(refuse)?;
    Ok(BipartiteMatching {
        column_of: signed(py, found.column_of),
        weight: found.weight,
        row_duals: found.row_duals.into_pyarray(py).unbind(),
        column_duals: found.column_duals.into_pyarray(py).unbind(),
    })
}

/// `lightloom.schedule.core_requests.AssignmentClaim`.
#[derive(FromPyObject)]
struct AssignmentClaim {
    column_of: Column<i32>,
    weight: i128,
    row_duals: Column<i64>,
    column_duals: Column<i64>,
}

#[pyfunction]
fn schedule_check_assignment(
    py: Python<'_>,
    weights: Matrix<i64>,
    claim: Given<AssignmentClaim>,
) -> PyResult<()> {
    let Matrix { rows, columns, values } = weights;
    let Given(claim) = claim;
    let found = Assignment {
        column_of: unsigned(&claim.column_of),
        weight: claim.weight,
        row_duals: claim.row_duals.0,
        column_duals: claim.column_duals.0,
    };
    py.detach(|| check_assignment(rows, columns, &values, &found)).map_err(refuse)
}

/// Partner of each vertex, and the proof that no matching is heavier: doubled duals, and members
/// and dual of each blossom.
#[pyclass(frozen, get_all, module = "lightloom._core")]
struct GraphMatching {
    mate: Py<PyArray1<i32>>,
    weight: i128,
    doubled_duals: Py<PyArray1<i64>>,
    blossoms: Vec<(Vec<u32>, i64)>,
}

#[pyfunction]
fn schedule_match_general(py: Python<'_>, weights: Matrix<i64>) -> PyResult<GraphMatching> {
    weights.expect_square("weights", weights.rows)?;
    let found = py.detach(|| match_general(weights.rows, &weights.values)).map_err(refuse)?;
    Ok(GraphMatching {
        mate: signed(py, found.mate),
        weight: found.weight,
        doubled_duals: found.doubled_duals.into_pyarray(py).unbind(),
        blossoms: found.blossoms.into_iter().map(|odd| (odd.members, odd.dual)).collect(),
    })
}

/// `lightloom.schedule.core_requests.MatchingClaim`.
#[derive(FromPyObject)]
struct MatchingClaim {
    mate: Column<i32>,
    weight: i128,
    doubled_duals: Column<i64>,
    blossoms: Vec<(Vec<u32>, i64)>,
}

#[pyfunction]
fn schedule_check_general(
    py: Python<'_>,
    weights: Matrix<i64>,
    claim: Given<MatchingClaim>,
) -> PyResult<()> {
    weights.expect_square("weights", weights.rows)?;
    let Given(claim) = claim;
    let blossom = |(members, dual)| Blossom { members, dual };
    let found = GeneralMatching {
        mate: unsigned(&claim.mate),
        weight: claim.weight,
        doubled_duals: claim.doubled_duals.0,
        blossoms: claim.blossoms.into_iter().map(blossom).collect(),
    };
    py.detach(|| check_general(weights.rows, &weights.values, &found)).map_err(refuse)
}
