//! Circuits on several switches per region: `lightloom.schedule.planes`.

#![allow(clippy::needless_pass_by_value, reason = "PyO3 hands arguments over by value")]

use super::allocation::{nic_circuit, nic_rows};
use crate::arrays::{Matrix, refuse};
use lightloom_model::{Fibers, Invalid};
use lightloom_schedule::{NicCircuit, Planes, assign_partial, assign_planes, check_planes};
use numpy::PyArray2;
use pyo3::prelude::*;

/// Maximum number of planes, as of a region.
const MAX_PLANES: usize = 4096;

/// Maximum number of circuits: each is an edge of the search.
const MAX_CIRCUITS: u64 = 1 << 20;

/// Adds the functions to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PlaneAssignment>()?;
    module.add_function(wrap_pyfunction!(schedule_assign_planes, module)?)?;
    module.add_function(wrap_pyfunction!(schedule_assign_to_planes, module)?)?;
    module.add_function(wrap_pyfunction!(schedule_check_planes, module)?)
}

/// Refuses circuits that are not n x n and symmetric, and working NICs that are not n x planes.
fn check(circuits: &Matrix<u16>, working: &Matrix<bool>) -> PyResult<()> {
    let n = circuits.rows;
    circuits.expect_square("circuits", n)?;
    if working.rows != n || working.columns > MAX_PLANES {
        let Matrix { rows, columns, .. } = working;
        return Err(refuse(Invalid(format!(
            "working: expected {n} rows of at most {MAX_PLANES} planes, got {rows} x {columns}"
        ))));
    }
    let count = |a: usize, b: usize| circuits.values[a * n + b];
    for a in 0..n {
        if let Some(b) =
            (0..=a).find(|&b| count(a, b) != count(b, a) || (a == b && count(a, a) > 0))
        {
            return Err(refuse(Invalid(format!(
                "circuits: expected as many from {b} to {a} as back, and none from a server to \
                 itself"
            ))));
        }
    }
    let all = circuits.values.iter().map(|&count| u64::from(count)).sum::<u64>() / 2;
    if all > MAX_CIRCUITS {
        return Err(refuse(Invalid(format!("{all} circuits: expected at most {MAX_CIRCUITS}"))));
    }
    Ok(())
}

fn fibers(duplex: bool) -> Fibers {
    if duplex { Fibers::Duplex } else { Fibers::Crossed }
}

/// The NICs of circuits, rows of (server, NIC, server, NIC); if there are none, why.
#[pyclass(frozen, get_all, module = "lightloom._core")]
struct PlaneAssignment {
    nics: Option<Py<PyArray2<u32>>>,
    reason: Option<String>,
    /// Pairs whose circuits found no NICs.
    left: Vec<(u32, u32)>,
}

#[pyfunction]
fn schedule_assign_planes(
    py: Python<'_>,
    circuits: Matrix<u16>,
    working: Matrix<bool>,
    duplex: bool,
    effort: u32,
) -> PyResult<PlaneAssignment> {
    check(&circuits, &working)?;
    let found =
        py.detach(|| assign_planes(&circuits.values, &working.values, fibers(duplex), effort));
    let rows = |mapped: &[NicCircuit]| Some(nic_rows(py, mapped).unbind());
    Ok(match found {
        Planes::Assigned(mapped) => {
            PlaneAssignment { nics: rows(&mapped), reason: None, left: vec![] }
        }
        Planes::Infeasible(reason) => {
            PlaneAssignment { nics: None, reason: Some(reason), left: vec![] }
        }
        Planes::NotFound(mapped, left) => {
            PlaneAssignment { nics: rows(&mapped), reason: None, left }
        }
    })
}

#[pyfunction]
fn schedule_assign_to_planes(
    py: Python<'_>,
    circuits: Matrix<u16>,
    working: Matrix<bool>,
    duplex: bool,
    effort: u32,
) -> PyResult<Bound<'_, PyArray2<u32>>> {
    check(&circuits, &working)?;
    let mapped =
        py.detach(|| assign_partial(&circuits.values, &working.values, fibers(duplex), effort));
    Ok(nic_rows(py, &mapped))
}

#[pyfunction]
fn schedule_check_planes(
    py: Python<'_>,
    circuits: Matrix<u16>,
    working: Matrix<bool>,
    duplex: bool,
    assigned: Matrix<u32>,
) -> PyResult<()> {
    check(&circuits, &working)?;
    assigned.expect_columns("assigned", 4)?;
    let assigned: Vec<NicCircuit> = assigned.iter_rows().map(nic_circuit).collect();
    py.detach(|| check_planes(&circuits.values, &working.values, fibers(duplex), &assigned))
        .map_err(refuse)
}
