//! Circuits on several switches per region: `lightloom.schedule.planes`.

use super::allocation::{CircuitRequest, fitting, nic_circuit, nic_rows, square};
use crate::arrays::{Column, Given, Matrix, refuse};
use crate::records::values;
use lightloom_model::{Fibers, Invalid};
use lightloom_schedule::{
    NicCircuit, NicEnd, PlaneMoves, PlaneNics, Planes, assign_planes, assign_planes_from,
    check_planes, plan_batches,
};
use numpy::{IntoPyArray, PyArray2};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::collections::BTreeSet;

/// Maximum number of planes, as of a region.
const MAX_PLANES: usize = 4096;

/// Maximum number of circuits: each is an edge of the search.
const MAX_CIRCUITS: u64 = 1 << 20;

/// Adds the functions to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(schedule_assign_planes, module)?)?;
    module.add_function(wrap_pyfunction!(schedule_build_on_planes, module)?)?;
    module.add_function(wrap_pyfunction!(schedule_check_planes, module)?)?;
    module.add_function(wrap_pyfunction!(schedule_plan_batches, module)?)
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

/// `lightloom.schedule.PlanePlan` but its planes: rows of (server, NIC, server, NIC), and how many
/// previous circuits that are wanted are on other NICs now, and whether fewer are impossible.
#[pyfunction]
fn schedule_assign_planes(
    py: Python<'_>,
    circuits: Matrix<u16>,
    working: Matrix<bool>,
    duplex: bool,
    effort: u32,
    previous: Option<Matrix<u32>>,
) -> PyResult<Bound<'_, PyDict>> {
    check(&circuits, &working)?;
    let previous = previous.map(|rows| circuits_on_nics(&rows, "previous")).transpose()?;
    let (circuits, working, fibers) = (&circuits.values, &working.values, fibers(duplex));
    let plan = py.detach(|| {
        if let Some(previous) = &previous {
            return assign_planes_from(circuits, working, fibers, previous, effort);
        }
        let planes = assign_planes(circuits, working, fibers, effort);
        PlaneMoves { planes, moves: 0, is_fewest: true }
    });
    let PlaneMoves { planes, moves, is_fewest } = plan;
    let (verdict, nics, reason) = match planes {
        Planes::Assigned(nics) => ("assigned", nics, String::new()),
        Planes::Infeasible(reason) => ("infeasible", vec![], reason),
        Planes::NotFound(_, left) => {
            let reason = format!("{} circuits left after {effort} steps", left.len());
            ("not found", vec![], reason)
        }
    };
    let is_assigned = verdict == "assigned";
    Ok(values!(py;
        verdict: verdict,
        nics: nic_rows(py, &nics),
        reason: reason,
        moves: if is_assigned { moves } else { 0 },
        is_fewest: !is_assigned || is_fewest,
    ))
}

fn circuits_on_nics(rows: &Matrix<u32>, name: &str) -> PyResult<Vec<NicCircuit>> {
    rows.expect_columns(name, 4)?;
    Ok(rows.iter_rows().map(nic_circuit).collect())
}

/// Rows of (server, NIC, server, NIC).
type NicRows<'py> = Bound<'py, PyArray2<u32>>;

/// Circuits to delete and create of each batch, and the pairs that go dark.
type Batches<'py> = (Vec<(NicRows<'py>, NicRows<'py>)>, Vec<(u32, u32)>);

#[pyfunction]
fn schedule_plan_batches(
    py: Python<'_>,
    before: Matrix<u32>,
    wanted: Matrix<u32>,
    has_eps: Column<bool>,
    max_pairs: usize,
) -> PyResult<Batches<'_>> {
    let before = circuits_on_nics(&before, "before")?;
    let wanted = circuits_on_nics(&wanted, "wanted")?;
    for (name, circuits) in [("before", &before), ("wanted", &wanted)] {
        let ends: BTreeSet<NicEnd> = circuits.iter().flat_map(|c| [c.a, c.b]).collect();
        if ends.len() < 2 * circuits.len() || circuits.iter().any(|c| c.a.server >= c.b.server) {
            return Err(refuse(Invalid(format!(
                "{name}: expected the lower server of each circuit first, and each NIC once"
            ))));
        }
    }
    if max_pairs < 2 {
        return Err(refuse(Invalid(format!("max_pairs: expected 2 or more, got {max_pairs}"))));
    }
    let plan = py.detach(|| plan_batches(&before, &wanted, &has_eps.0, max_pairs));
    let rows = |circuits: &[NicCircuit]| nic_rows(py, circuits);
    let batches = plan.batches.iter().map(|b| (rows(&b.delete), rows(&b.create))).collect();
    Ok((batches, plan.dark))
}

/// Circuits, `(n, n)`, and the NICs of each, `(circuits, 4)`.
type Built<'py> = (Bound<'py, PyArray2<u16>>, NicRows<'py>);

/// What planes can build of circuits.
#[pyfunction]
fn schedule_build_on_planes(
    py: Python<'_>,
    request: Given<CircuitRequest>,
    circuits: Matrix<u16>,
    working: Matrix<bool>,
    duplex: bool,
) -> PyResult<Built<'_>> {
    let request = request.0.checked()?;
    check(&circuits, &working)?;
    let wanted = fitting(&request, &circuits)?;
    let planes = PlaneNics { working: &working.values, fibers: fibers(duplex) };
    let (built, nics) = py.detach(|| planes.build(&request, wanted, &[]));
    Ok((square(request.servers(), built).into_pyarray(py), nic_rows(py, &nics)))
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
