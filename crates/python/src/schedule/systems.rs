//! `RotorNet`, Helios and X-NEST+: `lightloom.schedule.{rotornet, helios, xnest_plus}`.
//!
//! -1 in the arrays is `NONE` in the crate: the two have the same bits.

use lightloom_schedule::epochs::{EpochRun, Epochs};
use lightloom_schedule::helios::{helios, helios_matchings};
use lightloom_schedule::rotornet::{Cycling, Move, Rotor, RotorSchedule, check, rotate};
use lightloom_schedule::xnest_plus::{
    Reading, SwitchRule, XnestPlan, sub_matrices, xnest_plan, xnest_plus,
};
use numpy::ndarray::{Array2, Array3};
use numpy::{IntoPyArray, PyArray2};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::arrays::{Column, Given, Matrix, refuse};
use crate::choices::{Named, parse};
use crate::records::{Record, values};

/// Adds the functions to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(schedule_rotornet, module)?)?;
    module.add_function(wrap_pyfunction!(schedule_check_rotornet, module)?)?;
    module.add_function(wrap_pyfunction!(schedule_helios, module)?)?;
    module.add_function(wrap_pyfunction!(schedule_helios_matchings, module)?)?;
    module.add_function(wrap_pyfunction!(schedule_xnest_plus, module)?)?;
    module.add_function(wrap_pyfunction!(schedule_xnest_plan, module)?)?;
    module.add_function(wrap_pyfunction!(schedule_sub_matrices, module)?)
}

/// `lightloom.schedule.rotornet.RotorSchedule` but its options; moves are rows of (slot, the two
/// ends of the circuit, source, destination, bytes).
#[pyfunction]
fn schedule_rotornet(
    py: Python<'_>,
    demand: Matrix<u64>,
    options: Record<Rotor>,
) -> PyResult<Bound<'_, PyDict>> {
    demand.expect_square("demand", demand.rows)?;
    let rotor = Rotor { nodes: demand.rows, ..options.0 };
    let rotation = py.detach(|| rotate(&demand.values, &rotor)).map_err(refuse)?;
    let cell = |m: &Move| {
        [m.slot, m.from, m.to, m.source, m.destination].map(u64::from).into_iter().chain([m.bytes])
    };
    let cells = rotation.moves.iter().flat_map(cell).collect();
    let moves = Array2::from_shape_vec((rotation.moves.len(), 6), cells).expect("six cells each");
    Ok(values!(py;
        turns: rotation.turns.into_pyarray(py),
        holds_bytes: rotation.holds.into_pyarray(py),
        moves: moves.into_pyarray(py),
        length_bytes: rotation.length,
        largest_line_bytes: rotation.largest_line,
    ))
}

/// `lightloom.schedule.rotornet.RotorSchedule`.
#[derive(FromPyObject)]
struct RotorClaim {
    switches: usize,
    slot_bytes: Option<u64>,
    delay_bytes: u64,
    held: bool,
    relay: bool,
    cycling: Named<Cycling>,
    turns: Column<u64>,
    holds_bytes: Column<u64>,
    moves: Matrix<u64>,
    length_bytes: u64,
    largest_line_bytes: u64,
}

#[pyfunction]
fn schedule_check_rotornet(
    py: Python<'_>,
    demand: Matrix<u64>,
    schedule: Given<RotorClaim>,
) -> PyResult<()> {
    demand.expect_square("demand", demand.rows)?;
    let Given(claim) = schedule;
    claim.moves.expect_columns("moves", 6)?;
    let index = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
    let parse_move = |cells: &[u64]| Move {
        slot: index(cells[0]),
        from: index(cells[1]),
        to: index(cells[2]),
        source: index(cells[3]),
        destination: index(cells[4]),
        bytes: cells[5],
    };
    let schedule = RotorSchedule {
        moves: claim.moves.iter_rows().map(parse_move).collect(),
        turns: claim.turns.0,
        holds: claim.holds_bytes.0,
        length: claim.length_bytes,
        largest_line: claim.largest_line_bytes,
    };
    let rotor = Rotor {
        nodes: demand.rows,
        switches: claim.switches,
        slot: claim.slot_bytes,
        delay: claim.delay_bytes,
        held: claim.held,
        relay: claim.relay,
        cycling: claim.cycling.0,
    };
    py.detach(|| check(&demand.values, &rotor, &schedule)).map_err(refuse)
}

/// `lightloom.schedule.EpochRun` but the rate; matchings are (epochs, switches, nodes).
fn epoch_run<'py>(py: Python<'py>, sizes: &Epochs, run: EpochRun) -> PyResult<Bound<'py, PyDict>> {
    let shape = (run.matchings.len(), sizes.switches, sizes.nodes);
    let peers = run.matchings.iter().flatten().flatten();
    let cells = peers.map(|peer| peer.cast_signed()).collect();
    let matchings = Array3::from_shape_vec(shape, cells).expect("a peer per node");
    Ok(values!(py;
        matchings: matchings.into_pyarray(py),
        switches: sizes.switches,
        turned: run.turned,
        length_bytes: run.length,
        largest_line_bytes: run.largest_line,
    ))
}

fn matching_rows(py: Python<'_>, nodes: usize, matchings: Vec<Vec<u32>>) -> Py<PyArray2<i32>> {
    let shape = (matchings.len(), nodes);
    let cells = matchings.into_iter().flatten().map(u32::cast_signed).collect();
    let rows = Array2::from_shape_vec(shape, cells).expect("a peer per node");
    rows.into_pyarray(py).unbind()
}

#[pyfunction]
fn schedule_helios(
    py: Python<'_>,
    demand: Matrix<u64>,
    options: Record<Epochs>,
) -> PyResult<Bound<'_, PyDict>> {
    demand.expect_square("demand", demand.rows)?;
    let sizes = Epochs { nodes: demand.rows, ..options.0 };
    let run = py.detach(|| helios(&demand.values, &sizes)).map_err(refuse)?;
    epoch_run(py, &sizes, run)
}

/// The matchings of one epoch.
#[pyfunction]
fn schedule_helios_matchings(
    py: Python<'_>,
    demand: Matrix<u64>,
    options: Record<Epochs>,
) -> PyResult<Py<PyArray2<i32>>> {
    demand.expect_square("demand", demand.rows)?;
    let Epochs { switches, epoch, .. } = options.0;
    let run = py
        .detach(|| helios_matchings(&demand.values, demand.rows, switches, epoch))
        .map_err(refuse)?;
    Ok(matching_rows(py, demand.rows, run))
}

#[pyfunction]
fn schedule_xnest_plus<'py>(
    py: Python<'py>,
    demand: Matrix<u64>,
    options: Record<Epochs>,
    reading: &str,
) -> PyResult<Bound<'py, PyDict>> {
    demand.expect_square("demand", demand.rows)?;
    let sizes = Epochs { nodes: demand.rows, ..options.0 };
    let reading = parse::<Reading>(reading)?;
    let run = py.detach(|| xnest_plus(&demand.values, &sizes, reading)).map_err(refuse)?;
    epoch_run(py, &sizes, run)
}

/// `lightloom.schedule.XnestPlan`: weights and counts of sub-matrices, (sub-matrix, configuration)
/// of switches, which switches turn first and then, and what circuits carry.
#[pyfunction]
fn schedule_xnest_plan<'py>(
    py: Python<'py>,
    demand: Matrix<u64>,
    switches: usize,
    reading: &str,
    rule: &str,
    previous: Option<Vec<(u32, u32)>>,
) -> PyResult<Bound<'py, PyDict>> {
    demand.expect_square("demand", demand.rows)?;
    let (reading, rule) = (parse::<Reading>(reading)?, parse::<SwitchRule>(rule)?);
    let plan = py.detach(|| {
        xnest_plan(&demand.values, demand.rows, reading, rule, switches, previous.as_deref())
    });
    let XnestPlan { weights, counts, settings, phases, loads } = plan.map_err(refuse)?;
    let [first, second] = phases;
    Ok(values!(py;
        weights_bytes: PyTuple::new(py, weights)?,
        counts: PyTuple::new(py, counts)?,
        settings: PyTuple::new(py, settings)?,
        phases: (PyTuple::new(py, first)?, PyTuple::new(py, second)?),
        busiest_bytes: loads.busiest,
        crossed_bytes: loads.crossed,
        stranded_bytes: loads.stranded,
    ))
}

#[pyfunction]
fn schedule_sub_matrices(
    py: Python<'_>,
    nodes: usize,
    reading: &str,
) -> PyResult<Vec<Py<PyArray2<i32>>>> {
    let reading = parse::<Reading>(reading)?;
    check_nodes(nodes)?;
    let matrices = py.detach(|| sub_matrices(nodes, reading));
    Ok(matrices.into_iter().map(|matrix| matching_rows(py, nodes, matrix)).collect())
}

/// Refuses more nodes than a demand may have: the matrices of n nodes have n x n cells.
fn check_nodes(nodes: usize) -> PyResult<()> {
    const MAX_NODES: usize = 1024;
    if nodes <= MAX_NODES {
        return Ok(());
    }
    let text = format!("nodes: expected at most {MAX_NODES}, got {nodes}");
    Err(refuse(lightloom_model::Invalid(text)))
}
