//! Schedules of circuits and packets: `lightloom.schedule.hybrid`.

#![allow(clippy::needless_pass_by_value, reason = "PyO3 hands arguments over by value")]

use std::time::Instant;

use lightloom_model::Rate;
use lightloom_schedule::hybrid::{
    HybridDemand, HybridMethod, HybridSchedule, PortRates, check_hybrid, schedule_hybrid,
};
use lightloom_schedule::permutation::Slots;
use numpy::ndarray::Array2;
use numpy::{IntoPyArray, PyArray1, PyArray2};
use pyo3::prelude::*;

use crate::arrays::{Column, Given, Matrix, refuse};
use crate::choices::parse;

/// Adds the functions to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<HybridPlan>()?;
    module.add_function(wrap_pyfunction!(schedule_hybrid_plan, module)?)?;
    module.add_function(wrap_pyfunction!(schedule_hybrid_bound, module)?)?;
    module.add_function(wrap_pyfunction!(schedule_check_hybrid, module)?)
}

/// `lightloom.schedule.requests.HybridPorts`.
#[derive(FromPyObject)]
struct HybridPorts {
    delay_bytes: u64,
    circuit_bps: u64,
    eps_bps: u64,
}

impl HybridPorts {
    fn demand<'a>(&self, given: &'a Matrix<u64>) -> PyResult<HybridDemand<'a>> {
        let rates = PortRates { circuit: Rate(self.circuit_bps), eps: Rate(self.eps_bps) };
        let (rows, columns) = (given.rows, given.columns);
        HybridDemand::new(rows, columns, &given.values, self.delay_bytes, rates).map_err(refuse)
    }
}

/// Matchings (slots, rows), their holds, and the bytes of each pair as packets.
#[pyclass(frozen, get_all, module = "lightloom._core")]
struct HybridPlan {
    matchings: Py<PyArray2<i32>>,
    hold_bytes: Py<PyArray1<u64>>,
    eps_bytes: Py<PyArray2<u64>>,
    length_bytes: u64,
    lower_bound_bytes: u64,
    time_spent_s: f64,
}

#[pyfunction]
fn schedule_hybrid_plan(
    py: Python<'_>,
    demand: Matrix<u64>,
    ports: Given<HybridPorts>,
    method: &str,
) -> PyResult<HybridPlan> {
    let start = Instant::now();
    let method: HybridMethod = parse(method)?;
    let given = ports.0.demand(&demand)?;
    let HybridSchedule { slots, eps, length, lower_bound, .. } =
        py.detach(|| schedule_hybrid(&given, method));
    let (rows, columns) = (demand.rows, demand.columns);
    let shape = (slots.holds.len(), rows);
    let matchings = Array2::from_shape_vec(shape, slots.matchings).expect("a cell per row");
    let eps = Array2::from_shape_vec((rows, columns), eps).expect("an entry per pair");
    Ok(HybridPlan {
        matchings: matchings.into_pyarray(py).unbind(),
        hold_bytes: slots.holds.into_pyarray(py).unbind(),
        eps_bytes: eps.into_pyarray(py).unbind(),
        length_bytes: length,
        lower_bound_bytes: lower_bound,
        time_spent_s: start.elapsed().as_secs_f64(),
    })
}

/// Bytes that no schedule can beat.
#[pyfunction]
fn schedule_hybrid_bound(demand: Matrix<u64>, ports: Given<HybridPorts>) -> PyResult<u64> {
    Ok(ports.0.demand(&demand)?.lower_bound())
}

/// `lightloom.schedule.hybrid.HybridSchedule`.
#[derive(FromPyObject)]
struct HybridClaim {
    permutations: Matrix<i32>,
    holds_bytes: Column<u64>,
    eps_bytes: Matrix<u64>,
    length_bytes: u64,
    lower_bound_bytes: u64,
    delay_bytes: u64,
    circuit_bps: u64,
    eps_bps: u64,
}

#[pyfunction]
fn schedule_check_hybrid(
    py: Python<'_>,
    demand: Matrix<u64>,
    schedule: Given<HybridClaim>,
) -> PyResult<()> {
    let Given(claim) = schedule;
    let HybridClaim { delay_bytes, circuit_bps, eps_bps, .. } = claim;
    let given = HybridPorts { delay_bytes, circuit_bps, eps_bps }.demand(&demand)?;
    claim.permutations.expect_columns("permutations", demand.rows)?;
    claim.eps_bytes.expect_columns("eps_bytes", demand.columns)?;
    let found = HybridSchedule {
        method: HybridMethod::Balanced,
        slots: Slots { matchings: claim.permutations.values, holds: claim.holds_bytes.0 },
        eps: claim.eps_bytes.values,
        length: claim.length_bytes,
        lower_bound: claim.lower_bound_bytes,
    };
    py.detach(|| check_hybrid(&given, &found)).map_err(refuse)
}
