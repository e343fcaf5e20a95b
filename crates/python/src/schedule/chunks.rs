//! Schedules of chunks with release times and deadlines: `lightloom.schedule.chunks`.

use std::time::Instant;

use lightloom_schedule::hybrid::{
    Chunk, ChunkDemand, ChunkMethod, ChunkSchedule, ChunkTransfer, HybridBudget, check_chunks,
    schedule_chunks,
};
use lightloom_schedule::permutation::Slots;
use numpy::ndarray::Array2;
use numpy::{IntoPyArray, PyArray2};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::hybrid::{HybridPorts, Patience};
use crate::arrays::{Column, Given, Matrix, refuse};
use crate::choices::parse;
use crate::records::{Record, values};

/// Adds the functions to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(schedule_chunk_plan, module)?)?;
    module.add_function(wrap_pyfunction!(schedule_chunk_bound, module)?)?;
    module.add_function(wrap_pyfunction!(schedule_check_chunks, module)?)
}

/// The chunks of rows of (row, column, bytes, release, deadline or the largest number).
fn parse_chunks(chunks: &Matrix<u64>) -> PyResult<Vec<Chunk>> {
    chunks.expect_columns("chunks", 5)?;
    let number = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
    let chunk = |cells: &[u64]| Chunk {
        row: number(cells[0]),
        column: number(cells[1]),
        bytes: cells[2],
        release: cells[3],
        deadline: (cells[4] < u64::MAX).then_some(cells[4]),
    };
    Ok(chunks.iter_rows().map(chunk).collect())
}

/// Rows and columns.
type Lines = (usize, usize);

fn demand_of<'a>(
    chunks: &'a [Chunk],
    (rows, columns): Lines,
    ports: &HybridPorts,
) -> PyResult<ChunkDemand<'a>> {
    ChunkDemand::new(rows, columns, chunks, ports.delay_bytes, ports.rates()).map_err(refuse)
}

/// `lightloom.schedule.ChunkSchedule` but what it was made for: matchings (slots, rows), rows of
/// (chunk, slot or -1, start, end, bytes), and when each chunk ends.
#[pyfunction]
fn schedule_chunk_plan<'py>(
    py: Python<'py>,
    chunks: Matrix<u64>,
    lines: Lines,
    ports: Record<HybridPorts>,
    method: &str,
    time_limit_s: Option<f64>,
) -> PyResult<Bound<'py, PyDict>> {
    let start = Instant::now();
    let method: ChunkMethod = parse(method)?;
    let chunks = parse_chunks(&chunks)?;
    let demand = demand_of(&chunks, lines, &ports.0)?;
    let (schedule, error) = py.detach(|| {
        let patience = Patience::new(start, time_limit_s);
        let is_over = || patience.is_over();
        let usual = HybridBudget::unless(&is_over);
        let budget = time_limit_s.map_or(usual, |_| HybridBudget::until(&is_over));
        (schedule_chunks(&demand, method, &budget), patience.error.into_inner())
    });
    if let Some(error) = error {
        return Err(error);
    }
    let shape = (schedule.slots.len(), lines.0);
    let matchings =
        Array2::from_shape_vec(shape, schedule.slots.matchings).expect("a cell per row");
    Ok(values!(py;
        permutations: matchings.into_pyarray(py),
        starts_bytes: schedule.starts.into_pyarray(py),
        holds_bytes: schedule.slots.holds.into_pyarray(py),
        transfers: transfer_rows(py, &schedule.transfers),
        ends_bytes: schedule.ends.into_pyarray(py),
        length_bytes: schedule.length,
        lower_bound_bytes: schedule.lower_bound,
        lateness_bytes: schedule.lateness,
        lateness_bound_bytes: schedule.lateness_bound,
        time_spent_s: start.elapsed().as_secs_f64(),
    ))
}

/// Bytes of a circuit before which no schedule ends, and the lateness that none can beat.
#[pyfunction]
fn schedule_chunk_bound(
    py: Python<'_>,
    chunks: Matrix<u64>,
    lines: Lines,
    ports: Record<HybridPorts>,
) -> PyResult<(u64, Option<i64>)> {
    let chunks = parse_chunks(&chunks)?;
    let demand = demand_of(&chunks, lines, &ports.0)?;
    Ok(py.detach(|| (demand.lower_bound(), demand.lateness_bound())))
}

fn transfer_rows<'py>(py: Python<'py>, transfers: &[ChunkTransfer]) -> Bound<'py, PyArray2<i64>> {
    let row = |one: &ChunkTransfer| {
        let [start, end, bytes] = [one.start, one.end, one.bytes].map(u64::cast_signed);
        [i64::from(one.chunk), one.slot.map_or(-1, i64::from), start, end, bytes]
    };
    let cells = transfers.iter().flat_map(row).collect();
    let rows = Array2::from_shape_vec((transfers.len(), 5), cells).expect("five cells each");
    rows.into_pyarray(py)
}

fn parse_transfers(transfers: &Matrix<i64>) -> PyResult<Vec<ChunkTransfer>> {
    transfers.expect_columns("transfers", 5)?;
    let number = |value: i64| u32::try_from(value).unwrap_or(u32::MAX);
    let size = |value: i64| u64::try_from(value).unwrap_or(0);
    let transfer = |cells: &[i64]| ChunkTransfer {
        chunk: number(cells[0]),
        slot: (cells[1] != -1).then(|| number(cells[1])),
        start: size(cells[2]),
        end: size(cells[3]),
        bytes: size(cells[4]),
    };
    Ok(transfers.iter_rows().map(transfer).collect())
}

/// `lightloom.schedule.chunks.ChunkSchedule`, with transfers and ends by the number of a chunk.
#[derive(FromPyObject)]
struct ChunkClaim {
    permutations: Matrix<i32>,
    starts_bytes: Column<u64>,
    holds_bytes: Column<u64>,
    transfers: Matrix<i64>,
    ends_bytes: Column<u64>,
    length_bytes: u64,
    lower_bound_bytes: u64,
    lateness_bytes: Option<i64>,
    lateness_bound_bytes: Option<i64>,
}

#[pyfunction]
fn schedule_check_chunks(
    py: Python<'_>,
    chunks: Matrix<u64>,
    lines: Lines,
    ports: Record<HybridPorts>,
    schedule: Given<ChunkClaim>,
) -> PyResult<()> {
    let Given(claim) = schedule;
    claim.permutations.expect_columns("permutations", lines.0)?;
    let schedule = ChunkSchedule {
        method: ChunkMethod::Pipelined,
        slots: Slots { matchings: claim.permutations.values, holds: claim.holds_bytes.0 },
        starts: claim.starts_bytes.0,
        transfers: parse_transfers(&claim.transfers)?,
        ends: claim.ends_bytes.0,
        length: claim.length_bytes,
        lateness: claim.lateness_bytes,
        lower_bound: claim.lower_bound_bytes,
        lateness_bound: claim.lateness_bound_bytes,
    };
    let chunks = parse_chunks(&chunks)?;
    let demand = demand_of(&chunks, lines, &ports.0)?;
    py.detach(|| check_chunks(&demand, &schedule)).map_err(refuse)
}
