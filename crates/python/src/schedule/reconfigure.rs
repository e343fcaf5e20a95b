//! Whether to reconfigure: `lightloom.schedule.reconfigure`.

#![allow(clippy::needless_pass_by_value, reason = "PyO3 hands arguments over by value")]

use lightloom_decide::{Upcoming, Verdict, break_even, demands_to_request, switched_pairs};
use lightloom_model::{Allocator, Duration, Invalid, SwitchTiming};
use lightloom_schedule::{Request, allocate};
use numpy::ndarray::Array3;
use numpy::{IntoPyArray, PyArray2, PyArray3, PyReadonlyArray3};
use pyo3::prelude::*;

use super::allocation::{CircuitRequest, square};
use crate::arrays::{Given, refuse};
use crate::choices::parse;

/// Adds the function to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(schedule_break_even, module)?)?;
    Ok(())
}

/// Seconds held, switched and exposed; whether a switch pays; its circuits and pairs; the circuits
/// of each all-to-all of the plan.
type PyVerdict<'py> =
    ((f64, f64, f64), bool, (Bound<'py, PyArray2<u16>>, u32), Bound<'py, PyArray3<u16>>);

/// The previous circuits of the request are those held. `ahead` are the demands and how long each
/// is hidden behind (ps); `switching` is the fixed time and that per pair (ps), and whether
/// circuits that do not change stay up. Without a method only the given proposals are weighed.
#[pyfunction]
fn schedule_break_even<'py>(
    py: Python<'py>,
    method: Option<&str>,
    request: Given<CircuitRequest>,
    ahead: (PyReadonlyArray3<'py, u64>, Vec<u64>),
    proposals: PyReadonlyArray3<'py, u16>,
    switching: ((u64, u64), bool),
) -> PyResult<PyVerdict<'py>> {
    let allocator = method.map(parse::<Allocator>).transpose()?;
    let request = request.0.checked()?;
    let Some(held) = request.previous else {
        return Err(refuse(Invalid::new("held circuits are missing")));
    };
    let cells = request.servers * request.servers;
    let demands: Vec<u64> = ahead.0.as_array().iter().copied().collect();
    let given: Vec<u16> = proposals.as_array().iter().copied().collect();
    if demands.len() != ahead.1.len() * cells || !given.len().is_multiple_of(cells.max(1)) {
        return Err(refuse(Invalid::new("demands, hidden times or proposals differ in size")));
    }
    let ((fixed, per_pair), keep_unchanged) = switching;
    let (fixed, per_pair) = (Duration(fixed), Duration(per_pair));
    let switching = SwitchTiming { fixed, per_pair, keep_unchanged, ..SwitchTiming::default() };
    let ahead: Vec<Upcoming> = (demands.chunks_exact(cells.max(1)).zip(ahead.1))
        .map(|(demand, hidden)| Upcoming::known(demand.to_vec(), Duration(hidden)))
        .collect();
    let (verdict, sets) = py.detach(|| {
        let mut sets: Vec<Vec<u16>> = Vec::new();
        let asked: Vec<&[u64]> = ahead.iter().map(|next| next.demand.as_slice()).collect();
        for demand in allocator.iter().flat_map(|_| demands_to_request(&asked)) {
            let allocator = allocator.expect("asked only with one");
            sets.push(allocate(allocator, &Request { demand: &demand, ..request }).circuits);
        }
        sets.extend(given.chunks_exact(cells.max(1)).map(<[u16]>::to_vec));
        (break_even(&request, held, &ahead, &sets, &switching), sets)
    });
    Ok(give(py, request.servers, (&verdict, held, &sets), &switching))
}

fn give<'py>(
    py: Python<'py>,
    servers: usize,
    (verdict, held, sets): (&Verdict, &[u16], &[Vec<u16>]),
    switching: &SwitchTiming,
) -> PyVerdict<'py> {
    let circuits = |chosen: Option<usize>| chosen.map_or(held, |index| &sets[index]);
    let best = circuits(verdict.best).to_vec();
    let pairs = switched_pairs(switching, held, &best);
    let plan: Vec<u16> = verdict.plan.iter().flat_map(|&state| circuits(state)).copied().collect();
    let shape = (verdict.plan.len(), servers, servers);
    (
        (verdict.hold, verdict.switch, verdict.exposed),
        verdict.pays(),
        (square(servers, best).into_pyarray(py), pairs),
        Array3::from_shape_vec(shape, plan).expect("n x n circuits each").into_pyarray(py),
    )
}
