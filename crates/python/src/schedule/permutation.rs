//! Schedules of permutations: `lightloom.schedule.permutations`.

use std::time::{Duration, Instant};

use lightloom_model::Invalid;
use lightloom_schedule::permutation::{
    Budget, Demand, MAX_LINES, MAX_SWITCHES, Matchings, Method, PairTransfer, Schedule, Slots,
    SwitchSchedule, check, check_over, decompose, decompose_from, decompose_over,
};
use numpy::ndarray::Array2;
use numpy::{IntoPyArray, PyArray1, PyArray2};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arrays::{Column, Given, Matrix, refuse};
use crate::choices::parse;
use crate::records::values;

/// Adds the functions to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(schedule_decompose, module)?)?;
    module.add_function(wrap_pyfunction!(schedule_decomposition_bound, module)?)?;
    module.add_function(wrap_pyfunction!(schedule_check_decomposition, module)?)?;
    module.add_function(wrap_pyfunction!(schedule_transfer_slots, module)?)?;
    Ok(())
}

/// Matchings (slots, rows) that are held one after another, and the bytes of each slot.
type SlotArrays<'py> = (Bound<'py, PyArray2<i32>>, Bound<'py, PyArray1<u64>>);

fn slot_arrays(py: Python<'_>, rows: usize, slots: Slots) -> SlotArrays<'_> {
    let shape = (slots.holds.len(), rows);
    let matchings = Array2::from_shape_vec(shape, slots.matchings).expect("a cell per row");
    (matchings.into_pyarray(py), slots.holds.into_pyarray(py))
}

fn transfer_rows<'py>(py: Python<'py>, transfers: &[PairTransfer]) -> Bound<'py, PyArray2<u64>> {
    let cell = |t: &PairTransfer| [u64::from(t.row), u64::from(t.column), t.start, t.bytes];
    let cells = transfers.iter().flat_map(cell).collect();
    let rows = Array2::from_shape_vec((transfers.len(), 4), cells).expect("four cells each");
    rows.into_pyarray(py)
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

/// What is found, and the switch of each slot.
struct Found {
    plan: Matchings,
    switch_of_slot: Option<Vec<i32>>,
    length: u64,
    lower_bound: u64,
    method: Method,
    new_slots: Option<usize>,
}

impl Found {
    fn on_one(schedule: Schedule) -> Self {
        let Schedule { method, plan, length, lower_bound, new_slots } = schedule;
        Self { plan, switch_of_slot: None, length, lower_bound, method, new_slots }
    }

    fn on_several(schedule: SwitchSchedule) -> Self {
        let SwitchSchedule { method, switches, length, lower_bound } = schedule;
        let mut all = Slots::default();
        let mut switch_of_slot = Vec::new();
        for (switch, slots) in (0..).zip(switches) {
            switch_of_slot.extend(std::iter::repeat_n(switch, slots.len()));
            all.matchings.extend(slots.matchings);
            all.holds.extend(slots.holds);
        }
        let switch_of_slot = Some(switch_of_slot);
        let plan = Matchings::Slots(all);
        Self { plan, switch_of_slot, length, lower_bound, method, new_slots: None }
    }
}

/// `lightloom.schedule.PermutationSchedule` but its rate: slots, or rows of (row, column, start,
/// bytes); slots have a switch each, one switch after another, where there are several.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "Python hands them over one by one")]
fn schedule_decompose<'py>(
    py: Python<'py>,
    demand: Matrix<u64>,
    delay_bytes: u64,
    partial: bool,
    method: &str,
    time_limit_s: Option<f64>,
    switches: usize,
    previous: Option<(Matrix<i32>, Column<u64>, usize)>,
) -> PyResult<Bound<'py, PyDict>> {
    let start = Instant::now();
    let method: Method = parse(method)?;
    let limit = time_limit_s.map(|seconds| Duration::try_from_secs_f64(seconds.max(0.0)));
    let until = limit.and_then(Result::ok).and_then(|limit| start.checked_add(limit));
    let Matrix { rows, columns, values } = demand;
    let demand = Demand::new(rows, columns, &values, delay_bytes, partial).map_err(refuse)?;
    demand.check_size(method).map_err(refuse)?;
    let previous = previous.map(|(matchings, Column(holds), new_slots)| {
        matchings.expect_columns("previous", rows)?;
        Ok::<_, PyErr>((Slots { matchings: matchings.values, holds }, new_slots))
    });
    let previous = previous.transpose()?;
    let schedule = py.detach(|| match (switches, &previous) {
        (1, None) => Ok(Found::on_one(decompose(&demand, method, until))),
        (1, Some((slots, new_slots))) => {
            let budget = Budget::until(until);
            decompose_from(&demand, slots, *new_slots, method, &budget).map(Found::on_one)
        }
        (_, None) => decompose_over(&demand, switches, method, until).map(Found::on_several),
        (_, Some(_)) => Err(Invalid::new("previous: expected one switch")),
    });
    let Found { plan, switch_of_slot, length, lower_bound, method, new_slots } =
        schedule.map_err(refuse)?;
    let (slots, transfers) = match plan {
        Matchings::Slots(slots) => (Some(slot_arrays(py, rows, slots)), None),
        Matchings::Transfers(transfers) => (None, Some(transfer_rows(py, &transfers))),
    };
    Ok(values!(py;
        shape: (rows, columns),
        delay_bytes: delay_bytes,
        partial: partial,
        switches: switches,
        slots: slots,
        switch_of_slot: switch_of_slot.map(|of| of.into_pyarray(py)),
        transfers: transfers,
        length_bytes: length,
        lower_bound_bytes: lower_bound,
        chosen: method.name(),
        new_slots: new_slots,
        time_spent_s: start.elapsed().as_secs_f64(),
    ))
}

/// Bytes that no schedule over so many switches can beat.
#[pyfunction]
fn schedule_decomposition_bound(
    py: Python<'_>,
    demand: Matrix<u64>,
    delay_bytes: u64,
    partial: bool,
    switches: usize,
) -> PyResult<u64> {
    let Matrix { rows, columns, values } = demand;
    let demand = Demand::new(rows, columns, &values, delay_bytes, partial).map_err(refuse)?;
    if !(1..=MAX_SWITCHES).contains(&switches) || (partial && switches > 1) {
        let text = format!("switches: expected 1 to {MAX_SWITCHES}, one if partial: {switches}");
        return Err(refuse(Invalid(text)));
    }
    Ok(py.detach(|| match switches {
        1 => demand.lower_bound(),
        _ => demand.lower_bound_over(switches),
    }))
}

/// What the ports do between any two events of a schedule of transfers.
#[pyfunction]
fn schedule_transfer_slots(
    py: Python<'_>,
    rows: usize,
    delay_bytes: u64,
    transfers: Matrix<u64>,
) -> PyResult<SlotArrays<'_>> {
    let transfers = parse_transfers(&transfers)?;
    if rows > MAX_LINES || transfers.iter().any(|transfer| transfer.row as usize >= rows) {
        let text = format!("transfers: expected at most {MAX_LINES} rows, each below {rows}");
        return Err(refuse(Invalid(text)));
    }
    let slots = py.detach(|| Slots::of_transfers(rows, &transfers, delay_bytes));
    Ok(slot_arrays(py, rows, slots))
}

/// `lightloom.schedule.permutations.PermutationSchedule`.
#[derive(FromPyObject)]
struct ScheduleClaim {
    slots: Option<(Matrix<i32>, Column<u64>)>,
    switches: usize,
    switch_of_slot: Option<Column<i32>>,
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
    let ScheduleClaim { length_bytes: length, lower_bound_bytes: lower_bound, .. } = claim;
    let method = Method::Auto;
    let plan = match (claim.slots, &claim.transfers, claim.switch_of_slot) {
        (Some((matchings, Column(holds))), None, of_slot) => {
            matchings.expect_columns("slots", rows)?;
            let slots = Slots { matchings: matchings.values, holds };
            if let Some(Column(of_slot)) = of_slot {
                let switches = on_switches(&slots, rows, &of_slot, claim.switches)?;
                let schedule = SwitchSchedule { method, switches, length, lower_bound };
                return py.detach(|| check_over(&demand, &schedule)).map_err(refuse);
            }
            Matchings::Slots(slots)
        }
        (None, Some(transfers), None) => Matchings::Transfers(parse_transfers(transfers)?),
        _ => return Err(refuse(Invalid::new("a schedule has either slots or transfers"))),
    };
    let schedule = Schedule { method, plan, length, lower_bound, new_slots: None };
    py.detach(|| check(&demand, &schedule)).map_err(refuse)
}

/// The slots of each switch, in their order.
fn on_switches(
    slots: &Slots,
    rows: usize,
    of_slot: &[i32],
    switches: usize,
) -> PyResult<Vec<Slots>> {
    if of_slot.len() != slots.len() || slots.matchings.len() != rows * slots.len() {
        let text = format!("{} switches for {} slots", of_slot.len(), slots.len());
        return Err(refuse(Invalid(text)));
    }
    if switches > MAX_SWITCHES {
        let text = format!("{switches} switches: expected at most {MAX_SWITCHES}");
        return Err(refuse(Invalid(text)));
    }
    let mut result = vec![Slots::default(); switches];
    for (slot, &switch) in of_slot.iter().enumerate() {
        let of_switch = usize::try_from(switch).ok().and_then(|switch| result.get_mut(switch));
        let Some(of_switch) = of_switch else {
            let text = format!("slot {slot}: no switch {switch} of {switches}");
            return Err(refuse(Invalid(text)));
        };
        of_switch.matchings.extend_from_slice(&slots.matchings[slot * rows..(slot + 1) * rows]);
        of_switch.holds.push(slots.holds[slot]);
    }
    Ok(result)
}
