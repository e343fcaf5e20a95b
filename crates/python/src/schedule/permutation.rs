//! Schedules of permutations: `lightloom.schedule.permutations`.

#![allow(clippy::needless_pass_by_value, reason = "PyO3 hands arguments over by value")]

use std::time::{Duration, Instant};

use lightloom_model::Invalid;
use lightloom_schedule::permutation::{
    Demand, MAX_LINES, Matchings, Method, PairTransfer, Schedule, Slots, check, decompose,
};
use numpy::ndarray::Array2;
use numpy::{IntoPyArray, PyArray1, PyArray2};
use pyo3::prelude::*;

use crate::arrays::{Column, Given, Matrix, refuse};
use crate::choices::parse;

/// Adds the functions to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PermutationPlan>()?;
    module.add_class::<PermutationSlots>()?;
    module.add_function(wrap_pyfunction!(schedule_decompose, module)?)?;
    module.add_function(wrap_pyfunction!(schedule_check_decomposition, module)?)?;
    module.add_function(wrap_pyfunction!(schedule_transfer_slots, module)?)?;
    Ok(())
}

/// Matchings (slots, rows) that are held one after another.
#[pyclass(frozen, get_all, module = "lightloom._core")]
struct PermutationSlots {
    matchings: Py<PyArray2<i32>>,
    hold_bytes: Py<PyArray1<u64>>,
}

impl PermutationSlots {
    fn new(py: Python<'_>, rows: usize, slots: Slots) -> Self {
        let shape = (slots.holds.len(), rows);
        let matchings = Array2::from_shape_vec(shape, slots.matchings).expect("a cell per row");
        Self {
            matchings: matchings.into_pyarray(py).unbind(),
            hold_bytes: slots.holds.into_pyarray(py).unbind(),
        }
    }
}

/// A schedule as slots or as rows of (row, column, start, bytes).
#[pyclass(frozen, get_all, module = "lightloom._core")]
struct PermutationPlan {
    slots: Option<Py<PermutationSlots>>,
    transfers: Option<Py<PyArray2<u64>>>,
    length_bytes: u64,
    lower_bound_bytes: u64,
    chosen: &'static str,
    time_spent_s: f64,
}

fn transfer_rows(py: Python<'_>, transfers: &[PairTransfer]) -> Py<PyArray2<u64>> {
    let cell = |t: &PairTransfer| [u64::from(t.row), u64::from(t.column), t.start, t.bytes];
    let cells = transfers.iter().flat_map(cell).collect();
    let rows = Array2::from_shape_vec((transfers.len(), 4), cells).expect("four cells each");
    rows.into_pyarray(py).unbind()
}

fn parse_transfers(transfers: &Matrix<u64>) -> PyResult<Vec<PairTransfer>> {
    transfers.expect_columns("transfers", 4)?;
    let line = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
    let transfer = |cells: &[u64]| PairTransfer {
        row: line(cells[0]),
        column: line(cells[1]),
        start: cells[2],
        bytes: cells[3],
    };
    Ok(transfers.iter_rows().map(transfer).collect())
}

#[pyfunction]
fn schedule_decompose(
    py: Python<'_>,
    demand: Matrix<u64>,
    delay_bytes: u64,
    partial: bool,
    method: &str,
    time_limit_s: Option<f64>,
) -> PyResult<PermutationPlan> {
    let start = Instant::now();
    let method: Method = parse(method)?;
    let limit = time_limit_s.map(|seconds| Duration::try_from_secs_f64(seconds.max(0.0)));
    let until = limit.and_then(Result::ok).and_then(|limit| start.checked_add(limit));
    let Matrix { rows, columns, values } = demand;
    let demand = Demand::new(rows, columns, &values, delay_bytes, partial).map_err(refuse)?;
    let Schedule { method, plan, length, lower_bound } =
        py.detach(|| decompose(&demand, method, until));
    let (slots, transfers) = match plan {
        Matchings::Slots(slots) => {
            (Some(Py::new(py, PermutationSlots::new(py, rows, slots))?), None)
        }
        Matchings::Transfers(transfers) => (None, Some(transfer_rows(py, &transfers))),
    };
    Ok(PermutationPlan {
        slots,
        transfers,
        length_bytes: length,
        lower_bound_bytes: lower_bound,
        chosen: method.name(),
        time_spent_s: start.elapsed().as_secs_f64(),
    })
}

/// What the ports do between any two events of a schedule of transfers.
#[pyfunction]
fn schedule_transfer_slots(
    py: Python<'_>,
    rows: usize,
    delay_bytes: u64,
    transfers: Matrix<u64>,
) -> PyResult<PermutationSlots> {
    let transfers = parse_transfers(&transfers)?;
    if rows > MAX_LINES || transfers.iter().any(|transfer| transfer.row as usize >= rows) {
        let text = format!("transfers: expected at most {MAX_LINES} rows, each below {rows}");
        return Err(refuse(Invalid(text)));
    }
    let slots = py.detach(|| Slots::of_transfers(rows, &transfers, delay_bytes));
    Ok(PermutationSlots::new(py, rows, slots))
}

/// `lightloom.schedule.permutations.PermutationSchedule`.
#[derive(FromPyObject)]
struct ScheduleClaim {
    slots: Option<(Matrix<i32>, Column<u64>)>,
    transfers: Option<Matrix<u64>>,
    delay_bytes: u64,
    partial: bool,
    length_bytes: u64,
    lower_bound_bytes: u64,
}

#[pyfunction]
fn schedule_check_decomposition(
    py: Python<'_>,
    demand: Matrix<u64>,
    schedule: Given<ScheduleClaim>,
) -> PyResult<()> {
    let Matrix { rows, columns, values } = demand;
    let Given(claim) = schedule;
    let demand =
        Demand::new(rows, columns, &values, claim.delay_bytes, claim.partial).map_err(refuse)?;
    let plan = match (claim.slots, &claim.transfers) {
        (Some((matchings, Column(holds))), None) => {
            matchings.expect_columns("slots", rows)?;
            Matchings::Slots(Slots { matchings: matchings.values, holds })
        }
        (None, Some(transfers)) => Matchings::Transfers(parse_transfers(transfers)?),
        _ => return Err(refuse(Invalid::new("a schedule has either slots or transfers"))),
    };
    let ScheduleClaim { length_bytes: length, lower_bound_bytes: lower_bound, .. } = claim;
    let schedule = Schedule { method: Method::Auto, plan, length, lower_bound };
    py.detach(|| check(&demand, &schedule)).map_err(refuse)
}
