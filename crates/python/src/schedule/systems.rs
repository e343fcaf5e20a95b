//! `RotorNet`, Helios and X-NEST+: `lightloom.schedule.{rotornet, helios, xnest_plus}`.
//!
//! -1 in the arrays is `NONE` in the crate: the two have the same bits.

#![allow(clippy::needless_pass_by_value, reason = "PyO3 hands arguments over by value")]

use lightloom_model::Invalid;
use lightloom_schedule::epochs::{EpochRun, Epochs};
use lightloom_schedule::helios::{helios, helios_matchings};
use lightloom_schedule::rotornet::{Move, Rotor, RotorSchedule, check, rotate};
use lightloom_schedule::xnest_plus::{Reading, sub_matrices, xnest_plan, xnest_plus};
use numpy::ndarray::{Array2, Array3, ArrayView1};
use numpy::{IntoPyArray, PyArray1, PyArray2, PyArray3, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::prelude::*;

use super::refuse;

/// Adds the functions to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(schedule_rotornet, module)?)?;
    module.add_function(wrap_pyfunction!(schedule_check_rotornet, module)?)?;
    module.add_function(wrap_pyfunction!(schedule_helios, module)?)?;
    module.add_function(wrap_pyfunction!(schedule_helios_matchings, module)?)?;
    module.add_function(wrap_pyfunction!(schedule_xnest_plus, module)?)?;
    module.add_function(wrap_pyfunction!(schedule_xnest_plan, module)?)?;
    module.add_function(wrap_pyfunction!(schedule_sub_matrices, module)?)
}

/// Nodes and demand, row by row.
fn own(demand: &PyReadonlyArray2<'_, u64>) -> PyResult<(usize, Vec<u64>)> {
    let (rows, columns) = demand.as_array().dim();
    if rows != columns {
        return Err(refuse(Invalid(format!("a matrix of {rows} x {columns} is not square"))));
    }
    Ok((rows, demand.as_array().iter().copied().collect()))
}

/// Switches, slot, delay, held, relay.
type PyRotor = (usize, Option<u64>, u64, bool, bool);

fn rotor_of(nodes: usize, (switches, slot, delay, held, relay): PyRotor) -> Rotor {
    Rotor { nodes, switches, slot, delay, held, relay }
}

/// Turns, holds; moves; length and largest line.
type PyRotorSchedule<'py> =
    ((Bound<'py, PyArray1<u64>>, Bound<'py, PyArray1<u64>>), Bound<'py, PyArray2<u64>>, (u64, u64));

#[pyfunction]
fn schedule_rotornet<'py>(
    py: Python<'py>,
    demand: PyReadonlyArray2<'py, u64>,
    options: PyRotor,
) -> PyResult<PyRotorSchedule<'py>> {
    let (nodes, demand) = own(&demand)?;
    let found = py.detach(|| rotate(&demand, &rotor_of(nodes, options))).map_err(refuse)?;
    let cell = |m: &Move| {
        [m.slot, m.from, m.to, m.source, m.destination].map(u64::from).into_iter().chain([m.bytes])
    };
    let cells = found.moves.iter().flat_map(cell).collect();
    let moves = Array2::from_shape_vec((found.moves.len(), 6), cells).expect("six cells each");
    Ok((
        (found.turns.into_pyarray(py), found.holds.into_pyarray(py)),
        moves.into_pyarray(py),
        (found.length, found.largest_line),
    ))
}

/// `claims` are the length and the largest line.
#[pyfunction]
fn schedule_check_rotornet(
    py: Python<'_>,
    demand: PyReadonlyArray2<'_, u64>,
    options: PyRotor,
    slots: (PyReadonlyArray1<'_, u64>, PyReadonlyArray1<'_, u64>),
    moves: PyReadonlyArray2<'_, u64>,
    claims: (u64, u64),
) -> PyResult<()> {
    let (nodes, demand) = own(&demand)?;
    let moves = moves.as_array();
    if moves.ncols() != 6 {
        return Err(refuse(Invalid::new("moves: expected rows of 6 values")));
    }
    let number = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
    let take = |cells: ArrayView1<'_, u64>| Move {
        slot: number(cells[0]),
        from: number(cells[1]),
        to: number(cells[2]),
        source: number(cells[3]),
        destination: number(cells[4]),
        bytes: cells[5],
    };
    let found = RotorSchedule {
        turns: slots.0.as_array().to_vec(),
        holds: slots.1.as_array().to_vec(),
        moves: moves.rows().into_iter().map(take).collect(),
        length: claims.0,
        largest_line: claims.1,
    };
    py.detach(|| check(&demand, &rotor_of(nodes, options), &found)).map_err(refuse)
}

/// Matchings (epochs, switches, nodes), how often a switch turned, length, largest line.
type PyEpochs<'py> = (Bound<'py, PyArray3<i32>>, u64, u64, u64);

/// Switches, epoch, delay.
type PySizes = (usize, u64, u64);

fn sizes_of(nodes: usize, (switches, epoch, delay): PySizes) -> Epochs {
    Epochs { nodes, switches, epoch, delay }
}

fn give_epochs<'py>(py: Python<'py>, sizes: &Epochs, run: EpochRun) -> PyEpochs<'py> {
    let shape = (run.matchings.len(), sizes.switches, sizes.nodes);
    let cells = run.matchings.iter().flatten().flatten().map(|peer| peer.cast_signed()).collect();
    let matchings = Array3::from_shape_vec(shape, cells).expect("a peer per node");
    (matchings.into_pyarray(py), run.turned, run.length, run.largest_line)
}

fn give_matchings(
    py: Python<'_>,
    nodes: usize,
    matchings: Vec<Vec<u32>>,
) -> Bound<'_, PyArray2<i32>> {
    let shape = (matchings.len(), nodes);
    let cells = matchings.into_iter().flatten().map(u32::cast_signed).collect();
    Array2::from_shape_vec(shape, cells).expect("a peer per node").into_pyarray(py)
}

#[pyfunction]
fn schedule_helios<'py>(
    py: Python<'py>,
    demand: PyReadonlyArray2<'py, u64>,
    sizes: PySizes,
) -> PyResult<PyEpochs<'py>> {
    let (nodes, demand) = own(&demand)?;
    let sizes = sizes_of(nodes, sizes);
    let run = py.detach(|| helios(&demand, &sizes)).map_err(refuse)?;
    Ok(give_epochs(py, &sizes, run))
}

#[pyfunction]
fn schedule_helios_matchings<'py>(
    py: Python<'py>,
    demand: PyReadonlyArray2<'py, u64>,
    switches: usize,
    room: u64,
) -> PyResult<Bound<'py, PyArray2<i32>>> {
    let (nodes, demand) = own(&demand)?;
    let found = py.detach(|| helios_matchings(&demand, nodes, switches, room)).map_err(refuse)?;
    Ok(give_matchings(py, nodes, found))
}

fn reading_of(diagonals: bool) -> Reading {
    if diagonals { Reading::Diagonals } else { Reading::Pairings }
}

#[pyfunction]
fn schedule_xnest_plus<'py>(
    py: Python<'py>,
    demand: PyReadonlyArray2<'py, u64>,
    sizes: PySizes,
    diagonals: bool,
) -> PyResult<PyEpochs<'py>> {
    let (nodes, demand) = own(&demand)?;
    let sizes = sizes_of(nodes, sizes);
    let run = py.detach(|| xnest_plus(&demand, &sizes, reading_of(diagonals))).map_err(refuse)?;
    Ok(give_epochs(py, &sizes, run))
}

/// Weights and counts of sub-matrices, (sub-matrix, configuration) of switches, the two phases.
type PyPlan = (Vec<u64>, Vec<u32>, Vec<(u32, u32)>, (Vec<u32>, Vec<u32>));

#[pyfunction]
fn schedule_xnest_plan(
    py: Python<'_>,
    demand: PyReadonlyArray2<'_, u64>,
    switches: usize,
    diagonals: bool,
    previous: Option<Vec<(u32, u32)>>,
) -> PyResult<PyPlan> {
    let (nodes, demand) = own(&demand)?;
    let reading = reading_of(diagonals);
    let plan = py
        .detach(|| xnest_plan(&demand, nodes, reading, switches, previous.as_deref()))
        .map_err(refuse)?;
    let [first, second] = plan.phases;
    Ok((plan.weights, plan.counts, plan.settings, (first, second)))
}

#[pyfunction]
fn schedule_sub_matrices(
    py: Python<'_>,
    nodes: usize,
    diagonals: bool,
) -> Vec<Bound<'_, PyArray2<i32>>> {
    let matrices = py.detach(|| sub_matrices(nodes, reading_of(diagonals)));
    matrices.into_iter().map(|matrix| give_matchings(py, nodes, matrix)).collect()
}
