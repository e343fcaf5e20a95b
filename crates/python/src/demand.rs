//! The functions of `lightloom.demand`.

#![allow(clippy::needless_pass_by_value, reason = "PyO3 hands arguments over by value")]

use lightloom_demand::{Rows, Stream};
use lightloom_model::Invalid;
use numpy::{PyArray1, PyArray4, PyArrayMethods, PyReadonlyArray1, PyReadonlyArray3, ToPyArray};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Adds the functions to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(demand_draw, module)?)?;
    module.add_function(wrap_pyfunction!(demand_fold, module)?)?;
    Ok(())
}

fn refuse(Invalid(text): Invalid) -> PyErr {
    PyValueError::new_err(text)
}

/// What to draw, with its arrays owned, so that the interpreter lock can be released.
struct Owned {
    shape: (usize, usize, u32, u32),
    keys: [[u64; 2]; 2],
    index: (u64, u64),
    layers: Vec<u64>,
    micro_batches: usize,
    spans: Option<Vec<u64>>,
    alpha: Vec<f64>,
}

impl Owned {
    fn rows(&self) -> Rows<'_> {
        let (ranks, experts, copies, tokens) = self.shape;
        let [shares, routing] = self.keys.map(|key| Stream { key });
        let (group, step) = self.index;
        Rows {
            ranks,
            experts,
            micro_batches: self.micro_batches,
            copies,
            tokens,
            group,
            step,
            layers: &self.layers,
            spans: self.spans.as_deref(),
            alpha: &self.alpha,
            shares,
            routing,
        }
    }
}

/// (Ranks, experts, copies per rank, tokens per rank), keys of the shares and of the routing,
/// (group, step), (layers, micro-batches, spans of held shares), Dirichlet parameters.
type PyRows<'py> = (
    (usize, usize, u32, u32),
    [[u64; 2]; 2],
    (u64, u64),
    (PyReadonlyArray1<'py, u64>, usize, Option<PyReadonlyArray1<'py, u64>>),
    PyReadonlyArray3<'py, f64>,
);

fn own(rows: &PyRows) -> PyResult<Owned> {
    let (shape, keys, index, (layers, micro_batches, spans), alpha) = rows;
    let owned = Owned {
        shape: *shape,
        keys: *keys,
        index: *index,
        layers: layers.as_array().to_vec(),
        micro_batches: *micro_batches,
        spans: spans.as_ref().map(|spans| spans.as_array().to_vec()),
        alpha: alpha.as_array().iter().copied().collect(),
    };
    owned.rows().validate().map_err(refuse)?;
    Ok(owned)
}

/// Counts `(layers, micro_batches, ranks, experts)`.
#[pyfunction]
fn demand_draw<'py>(py: Python<'py>, rows: PyRows<'py>) -> PyResult<Bound<'py, PyArray4<i64>>> {
    let owned = own(&rows)?;
    let (ranks, experts, ..) = owned.shape;
    let size = [owned.layers.len(), owned.micro_batches, ranks, experts];
    let counts = PyArray4::zeros(py, size, false);
    let mut writable = counts.readwrite();
    let out = writable.as_slice_mut().expect("a new array is contiguous");
    py.detach(|| owned.rows().draw(out));
    drop(writable);
    Ok(counts)
}

/// Flat counts of `lightloom_demand::Folded`, and the copies that stayed on their rank.
type PyFolded<'py> =
    (Bound<'py, PyArray1<u32>>, Bound<'py, PyArray1<u32>>, Bound<'py, PyArray1<i64>>, u64);

#[pyfunction]
fn demand_fold<'py>(
    py: Python<'py>,
    rows: PyRows<'py>,
    members: usize,
    by_rank: bool,
) -> PyResult<PyFolded<'py>> {
    let owned = own(&rows)?;
    let folded = py.detach(|| owned.rows().fold(members, by_rank)).map_err(refuse)?;
    Ok((
        folded.tokens.to_pyarray(py),
        folded.rank_tokens.to_pyarray(py),
        folded.received.to_pyarray(py),
        folded.stayed,
    ))
}
