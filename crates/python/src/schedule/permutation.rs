//! Schedules of permutations: `lightloom.schedule.permutations`.

#![allow(clippy::needless_pass_by_value, reason = "PyO3 hands arguments over by value")]

use std::time::{Duration, Instant};

use lightloom_model::Invalid;
use lightloom_schedule::permutation::{
    Demand, Method, Plan, Schedule, Slots, Transfer, check, decompose,
};
use numpy::ndarray::Array2;
use numpy::{IntoPyArray, PyArray1, PyArray2, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::prelude::*;

use super::refuse;
use crate::choices::parse;

/// Adds the functions to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(schedule_decompose, module)?)?;
    module.add_function(wrap_pyfunction!(schedule_decompose_check, module)?)?;
    module.add_function(wrap_pyfunction!(schedule_transfer_slots, module)?)?;
    Ok(())
}

/// Matchings (slots, rows) and holds.
type PySlots<'py> = (Bound<'py, PyArray2<i32>>, Bound<'py, PyArray1<u64>>);
/// Each row is (row, column, start, bytes).
type PyTransfers<'py> = Bound<'py, PyArray2<u64>>;
/// Slots or transfers; length and lower bound in bytes; the method; seconds.
type PySchedule<'py> =
    (Option<PySlots<'py>>, Option<PyTransfers<'py>>, (u64, u64), &'static str, f64);

fn give_slots(py: Python<'_>, rows: usize, slots: Slots) -> PySlots<'_> {
    let shape = (slots.holds.len(), rows);
    let matchings = Array2::from_shape_vec(shape, slots.matchings).expect("a cell per row");
    (matchings.into_pyarray(py), slots.holds.into_pyarray(py))
}

fn give_transfers<'py>(py: Python<'py>, transfers: &[Transfer]) -> PyTransfers<'py> {
    let cell = |t: &Transfer| [u64::from(t.row), u64::from(t.column), t.start, t.bytes];
    let cells = transfers.iter().flat_map(cell).collect();
    Array2::from_shape_vec((transfers.len(), 4), cells).expect("four cells each").into_pyarray(py)
}

fn take_transfers(transfers: &PyReadonlyArray2<'_, u64>) -> PyResult<Vec<Transfer>> {
    let transfers = transfers.as_array();
    if transfers.ncols() != 4 {
        return Err(refuse(Invalid::new("transfers: expected rows of 4 values")));
    }
    let line = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
    let take = |cells: numpy::ndarray::ArrayView1<'_, u64>| Transfer {
        row: line(cells[0]),
        column: line(cells[1]),
        start: cells[2],
        bytes: cells[3],
    };
    Ok(transfers.rows().into_iter().map(take).collect())
}

/// `options` are the delay in bytes and whether reconfiguration is partial.
#[pyfunction]
fn schedule_decompose<'py>(
    py: Python<'py>,
    demand: PyReadonlyArray2<'py, u64>,
    options: (u64, bool),
    method: &str,
    time_limit_s: Option<f64>,
) -> PyResult<PySchedule<'py>> {
    let start = Instant::now();
    let method: Method = parse(method)?;
    let limit = time_limit_s.map(|seconds| Duration::try_from_secs_f64(seconds.max(0.0)));
    let until = limit.and_then(Result::ok).and_then(|limit| start.checked_add(limit));
    // A copy, because others may write to the array while the lock is released.
    let (rows, columns) = demand.as_array().dim();
    let bytes = demand.as_array().iter().copied().collect::<Vec<u64>>();
    let demand = Demand::new(rows, columns, &bytes, options.0, options.1).map_err(refuse)?;
    let Schedule { method, plan, length, lower_bound } =
        py.detach(|| decompose(&demand, method, until));
    let (slots, transfers) = match plan {
        Plan::Slots(slots) => (Some(give_slots(py, rows, slots)), None),
        Plan::Transfers(transfers) => (None, Some(give_transfers(py, &transfers))),
    };
    let spent = start.elapsed().as_secs_f64();
    Ok((slots, transfers, (length, lower_bound), method.name(), spent))
}

/// What the ports do between any two events of a schedule of transfers.
#[pyfunction]
fn schedule_transfer_slots<'py>(
    py: Python<'py>,
    rows: usize,
    delay: u64,
    transfers: PyReadonlyArray2<'py, u64>,
) -> PyResult<PySlots<'py>> {
    let transfers = take_transfers(&transfers)?;
    if transfers.iter().any(|transfer| transfer.row as usize >= rows) {
        return Err(refuse(Invalid(format!("transfers: a row is not below {rows}"))));
    }
    let slots = py.detach(|| Slots::of_transfers(rows, &transfers, delay));
    Ok(give_slots(py, rows, slots))
}

/// `claims` are the length and the lower bound.
#[pyfunction]
fn schedule_decompose_check(
    py: Python<'_>,
    demand: PyReadonlyArray2<'_, u64>,
    options: (u64, bool),
    slots: Option<(PyReadonlyArray2<'_, i32>, PyReadonlyArray1<'_, u64>)>,
    transfers: Option<PyReadonlyArray2<'_, u64>>,
    claims: (u64, u64),
) -> PyResult<()> {
    let (rows, columns) = demand.as_array().dim();
    let bytes = demand.as_array().iter().copied().collect::<Vec<u64>>();
    let demand = Demand::new(rows, columns, &bytes, options.0, options.1).map_err(refuse)?;
    let plan = match (slots, transfers) {
        (Some((matchings, holds)), None) => Plan::Slots(Slots {
            matchings: matchings.as_array().iter().copied().collect(),
            holds: holds.as_array().to_vec(),
        }),
        (None, Some(transfers)) => Plan::Transfers(take_transfers(&transfers)?),
        _ => return Err(refuse(Invalid::new("a schedule has either slots or transfers"))),
    };
    let (length, lower_bound) = claims;
    let schedule = Schedule { method: Method::Auto, plan, length, lower_bound };
    py.detach(|| check(&demand, &schedule)).map_err(refuse)
}
