//! Steps of controllers: `lightloom.schedule.steps`.
//!
//! -1 in the arrays is `NONE` in the crate: the two have the same bits.

use lightloom_model::Invalid;
use lightloom_schedule::epochs::Epochs;
use lightloom_schedule::rotornet::{Move, Rotor};
use lightloom_schedule::steps::{
    DemandEstimate, Estimator, RotorQueues, SwitchStep, Turning, helios_step, rotor_slot,
    serve_over_time, xnest_step,
};
use lightloom_schedule::xnest_plus::Reading;
use numpy::IntoPyArray;
use numpy::ndarray::Array2;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::arrays::{Matrix, refuse};
use crate::choices::{Named, parse};
use crate::records::{Record, values};

/// Adds the functions to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(schedule_helios_step, module)?)?;
    module.add_function(wrap_pyfunction!(schedule_xnest_step, module)?)?;
    module.add_function(wrap_pyfunction!(schedule_rotor_slot, module)?)?;
    module.add_function(wrap_pyfunction!(schedule_over_time, module)?)
}

/// `lightloom.schedule.HeliosStep`: matchings (switches, nodes), and which switches turn.
fn held_matchings(py: Python<'_>, nodes: usize, step: SwitchStep) -> PyResult<Bound<'_, PyDict>> {
    let shape = (step.matchings.len(), nodes);
    let cells = step.matchings.into_iter().flatten().map(u32::cast_signed).collect();
    let matchings = Array2::from_shape_vec(shape, cells).expect("a peer per node");
    Ok(values!(py;
        matchings: matchings.into_pyarray(py),
        turned: PyTuple::new(py, step.turned)?,
    ))
}

#[pyfunction]
fn schedule_helios_step(
    py: Python<'_>,
    estimate: Matrix<u64>,
    held: Option<Matrix<i32>>,
    options: Record<Epochs>,
    hysteresis: Option<u32>,
) -> PyResult<Bound<'_, PyDict>> {
    estimate.expect_square("estimate", estimate.rows)?;
    let nodes = estimate.rows;
    let sizes = Epochs { nodes, ..options.0 };
    let held: Vec<Vec<u32>> = held.map_or_else(Vec::new, |held| {
        held.iter_rows().map(|row| row.iter().map(|peer| peer.cast_unsigned()).collect()).collect()
    });
    let step = py.detach(|| helios_step(&estimate.values, &held, &sizes, hysteresis));
    held_matchings(py, nodes, step.map_err(refuse)?)
}

/// `lightloom.schedule.XnestStep`.
#[pyfunction]
fn schedule_xnest_step<'py>(
    py: Python<'py>,
    measured: Matrix<u64>,
    held: Vec<(u32, u32)>,
    options: Record<Epochs>,
    reading: &str,
    turning: &str,
    hysteresis: Option<u32>,
) -> PyResult<Bound<'py, PyDict>> {
    measured.expect_square("measured", measured.rows)?;
    let nodes = measured.rows;
    let sizes = Epochs { nodes, ..options.0 };
    let (reading, turning) = (parse::<Reading>(reading)?, parse::<Turning>(turning)?);
    let step = py
        .detach(|| xnest_step(&measured.values, &held, &sizes, reading, turning, hysteresis))
        .map_err(refuse)?;
    let answer = held_matchings(py, nodes, step.switches)?;
    answer.set_item("settings", PyTuple::new(py, step.settings)?)?;
    answer.set_item("next_turning", step.next.name())?;
    Ok(answer)
}

/// `lightloom.schedule.RotorSlot`: rows of (the two ends of the circuit, source, destination,
/// bytes), and what waits afterwards: (n, n) of the nodes' own, rows of (node, source, destination,
/// bytes) that are relayed.
#[pyfunction]
fn schedule_rotor_slot(
    py: Python<'_>,
    own: Matrix<u64>,
    relayed: Matrix<u64>,
    options: Record<Rotor>,
    turn: u64,
) -> PyResult<Bound<'_, PyDict>> {
    own.expect_square("queues", own.rows)?;
    relayed.expect_columns("relayed", 4)?;
    let nodes = own.rows;
    let rotor = Rotor { nodes, ..options.0 };
    let mut queues = RotorQueues::new(&own.values, nodes).map_err(refuse)?;
    let index = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
    for row in relayed.iter_rows() {
        queues.hold(index(row[0]), index(row[1]), index(row[2]), row[3]).map_err(refuse)?;
    }
    let room = rotor.slot.ok_or_else(|| refuse(Invalid::new("a slot needs its length")))?;
    let moved = py.detach(|| rotor_slot(&mut queues, &rotor, room, turn)).map_err(refuse)?;
    let rows = |width: usize, cells: Vec<u64>| {
        let shape = (cells.len() / width, width);
        Array2::from_shape_vec(shape, cells).expect("whole rows").into_pyarray(py)
    };
    let cell = |m: &Move| {
        [m.from, m.to, m.source, m.destination].map(u64::from).into_iter().chain([m.bytes])
    };
    let moves = rows(5, moved.moves.iter().flat_map(cell).collect());
    let mut waiting = Vec::new();
    for (cell, queue) in queues.relayed.iter().enumerate() {
        for &(source, bytes) in queue {
            waiting.extend([
                (cell / nodes) as u64,
                u64::from(source),
                (cell % nodes) as u64,
                bytes,
            ]);
        }
    }
    let queued = Array2::from_shape_vec((nodes, nodes), queues.own).expect("an entry per pair");
    Ok(values!(py;
        hold_bytes: moved.hold,
        moves: moves,
        queues: queued.into_pyarray(py),
        relayed: rows(4, waiting),
    ))
}

/// `lightloom.schedule.OverTime`.
#[pyfunction]
fn schedule_over_time<'py>(
    py: Python<'py>,
    arrivals: Vec<Matrix<u64>>,
    options: Record<Epochs>,
    system: &str,
    estimator: Named<Estimator>,
    weight: u32,
    hysteresis: Option<u32>,
) -> PyResult<Bound<'py, PyDict>> {
    let nodes = arrivals.first().map_or(0, |first| first.rows);
    for period in &arrivals {
        period.expect_square("arrivals", nodes)?;
    }
    let sizes = Epochs { nodes, ..options.0 };
    let estimate = DemandEstimate::new(estimator.0, weight).map_err(refuse)?;
    let mut turning = Turning::First;
    let mut settings = Vec::new();
    let periods: Vec<&[u64]> = arrivals.iter().map(|period| period.values.as_slice()).collect();
    let served = py.detach(|| {
        serve_over_time(&periods, &sizes, estimate, |expected, held| {
            if system == "helios" {
                return helios_step(expected, held, &sizes, hysteresis);
            }
            let step =
                xnest_step(expected, &settings, &sizes, Reading::Pairings, turning, hysteresis)?;
            (settings, turning) = (step.settings, step.next);
            Ok(step.switches)
        })
    });
    let served = served.map_err(refuse)?;
    Ok(values!(py;
        backlog_bytes: served.backlog.into_pyarray(py),
        carried_bytes: served.carried.into_pyarray(py),
        turned: served.turned,
    ))
}
