//! The functions of `lightloom.demand`.

use crate::arrays::{Column, Cube, Given, Matrix, refuse};
use crate::records::{Record, values};
use lightloom_demand::{FittingRows, Gate, Rows, Stream, SummedRows};
use lightloom_model::Invalid;
use numpy::{IntoPyArray, PyArray2, PyArray3, PyArray4, PyArrayMethods};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Adds the functions to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(demand_draw, module)?)?;
    module.add_function(wrap_pyfunction!(demand_fold, module)?)?;
    module.add_function(wrap_pyfunction!(demand_sum, module)?)?;
    module.add_function(wrap_pyfunction!(demand_reach, module)?)?;
    Ok(())
}

/// What to draw: spans of steps in which shares are held, one per layer, and Dirichlet parameters,
/// (layers, micro-batches or 1, experts).
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct DrawRequest {
    ranks: usize,
    experts: usize,
    copies_per_rank: u32,
    tokens_per_rank: u32,
    shares_key: [u64; 2],
    routing_key: [u64; 2],
    group: u64,
    step: u64,
    layers: Column<u64>,
    micro_batches: usize,
    spans: Option<Column<u64>>,
    alpha: Cube<f64>,
}

impl DrawRequest {
    /// The rows for the crate, once they are known to be consistent.
    fn checked(&self) -> PyResult<FittingRows<'_>> {
        let layers = self.layers.0.len();
        let [given_layers, mixes, experts] = self.alpha.shape;
        let fits = mixes == 1 || mixes == self.micro_batches;
        if given_layers != layers || experts != self.experts || !fits {
            let text = format!(
                "alpha: expected {layers} x (1 or {}) x {} values, got {given_layers} x {mixes} x \
                 {experts}",
                self.micro_batches, self.experts
            );
            return Err(refuse(Invalid(text)));
        }
        let rows = Rows {
            ranks: self.ranks,
            experts: self.experts,
            micro_batches: self.micro_batches,
            copies: self.copies_per_rank,
            tokens: self.tokens_per_rank,
            group: self.group,
            step: self.step,
            layers: &self.layers.0,
            spans: self.spans.as_ref().map(|spans| spans.0.as_slice()),
            alpha: &self.alpha.values,
            shares: Stream { key: self.shares_key },
            routing: Stream { key: self.routing_key },
        };
        rows.fitting().map_err(refuse)
    }
}

/// Most counts in one answer: 32 GiB.
const MAX_COUNTS: usize = 1 << 32;

/// Refuses an answer that no memory holds.
fn check_size(sizes: &[usize]) -> PyResult<()> {
    let all = sizes.iter().try_fold(1_usize, |product, &size| product.checked_mul(size));
    if all.is_some_and(|all| all <= MAX_COUNTS) {
        return Ok(());
    }
    Err(refuse(Invalid(format!("{sizes:?} counts: expected at most {MAX_COUNTS} in all"))))
}

/// Counts `(layers, micro_batches, ranks, experts)`.
#[pyfunction]
fn demand_draw(py: Python<'_>, request: Given<DrawRequest>) -> PyResult<Bound<'_, PyArray4<i64>>> {
    let rows = request.0.checked()?;
    let size = [rows.layers.len(), rows.micro_batches, rows.ranks, rows.experts];
    check_size(&size)?;
    let counts = PyArray4::zeros(py, size, false);
    let mut writable = counts.readwrite();
    let out = writable.as_slice_mut().expect("a new array is contiguous");
    py.detach(|| rows.draw(out));
    drop(writable);
    Ok(counts)
}

/// `lightloom_demand::FoldedRows`, flat, and the copies that stayed on their rank.
#[pyfunction]
fn demand_fold(
    py: Python<'_>,
    request: Given<DrawRequest>,
    members: usize,
    by_rank: bool,
) -> PyResult<Bound<'_, PyDict>> {
    let rows = request.0.checked()?;
    let across = if by_rank { rows.ranks } else { members };
    check_size(&[rows.layers.len(), rows.micro_batches, across, across])?;
    check_size(&[rows.layers.len(), rows.micro_batches, rows.ranks])?;
    let folded = py.detach(|| rows.fold(members, by_rank)).map_err(refuse)?;
    Ok(values!(py;
        tokens: folded.tokens.into_pyarray(py),
        rank_tokens: folded.rank_tokens.into_pyarray(py),
        received: folded.received.into_pyarray(py),
        stayed: folded.stayed,
    ))
}

/// `lightloom.demand.folding.RankSums`: `(layers, micro_batches, ranks, ranks)` twice, and
/// `(layers, micro_batches, experts)`.
#[pyfunction]
fn demand_sum(py: Python<'_>, request: Given<DrawRequest>) -> PyResult<Bound<'_, PyDict>> {
    let rows = request.0.checked()?;
    let blocks = [rows.layers.len(), rows.micro_batches];
    let pairs = [blocks[0], blocks[1], rows.ranks, rows.ranks];
    check_size(&pairs)?;
    check_size(&[blocks[0], blocks[1], rows.experts])?;
    let [copies, largest] = [(), ()].map(|()| PyArray4::zeros(py, pairs, false));
    let by_expert = PyArray3::zeros(py, [blocks[0], blocks[1], rows.experts], false);
    {
        let [mut copies, mut largest] = [&copies, &largest].map(PyArrayMethods::readwrite);
        let mut by_expert = by_expert.readwrite();
        let contiguous = "a new array is contiguous";
        let mut sums = SummedRows {
            copies: copies.as_slice_mut().expect(contiguous),
            largest: largest.as_slice_mut().expect(contiguous),
            by_expert: by_expert.as_slice_mut().expect(contiguous),
        };
        py.detach(|| rows.sum_by_rank(&mut sums)).map_err(refuse)?;
    }
    Ok(values!(py; copies: copies, largest: largest, by_expert: by_expert))
}

/// How likely a token reaches each member, `(rows, members)`, given how likely it chooses each
/// expert, `(rows, experts)`.
#[pyfunction]
fn demand_reach(
    py: Python<'_>,
    gate: Record<Gate>,
    chances: Matrix<f64>,
) -> PyResult<Bound<'_, PyArray2<f64>>> {
    let Record(gate) = gate;
    chances.expect_columns("chances", gate.experts())?;
    let reached = py.detach(|| gate.reached(&chances.values));
    reached.into_pyarray(py).reshape([chances.rows, gate.members()])
}
