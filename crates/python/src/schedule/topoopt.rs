//! The topology of a job: `lightloom.schedule.topoopt`.

#![allow(clippy::needless_pass_by_value, reason = "PyO3 hands arguments over by value")]

use lightloom_schedule::topoopt::{RingGroup, Strides, TopoRequest, topology};
use numpy::ndarray::Array2;
use numpy::{IntoPyArray, PyArray1, PyArray2, PyReadonlyArray1};
use pyo3::prelude::*;

use super::refuse;

/// Adds the functions to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(schedule_topoopt, module)?)
}

/// Circuits (a, b, count), cycles (group, stride), route offsets, route servers.
type PyTopology<'py> = (
    Bound<'py, PyArray2<u32>>,
    Bound<'py, PyArray2<u32>>,
    Bound<'py, PyArray1<u32>>,
    Bound<'py, PyArray1<u32>>,
);

#[pyfunction]
fn schedule_topoopt<'py>(
    py: Python<'py>,
    size: (u32, u32, u32),
    rings: Vec<(Vec<u32>, u64)>,
    geometric: bool,
    sources: PyReadonlyArray1<'py, u32>,
    destinations: PyReadonlyArray1<'py, u32>,
    bytes: PyReadonlyArray1<'py, u64>,
) -> PyResult<PyTopology<'py>> {
    let (servers, degree, max_routes) = size;
    let rings: Vec<RingGroup> =
        rings.into_iter().map(|(members, edge_bytes)| RingGroup { members, edge_bytes }).collect();
    let pairs = sources.as_array().to_vec().into_iter().zip(destinations.as_array().to_vec());
    let demand: Vec<(u32, u32, u64)> =
        pairs.zip(bytes.as_array().iter()).map(|((from, to), &size)| (from, to, size)).collect();
    let strides = if geometric { Strides::Geometric } else { Strides::One };
    let (rings, demand) = (&rings, &demand);
    let request = TopoRequest { servers, degree, rings, strides, demand, max_routes };
    let found = py.detach(|| topology(&request)).map_err(refuse)?;
    let circuits: Vec<u32> = found.circuits.iter().flat_map(|c| [c.a, c.b, c.count]).collect();
    let cycles: Vec<u32> = found.cycles.iter().flat_map(|c| [c.group, c.stride]).collect();
    let table = |cells: Vec<u32>, columns: usize| {
        Array2::from_shape_vec((cells.len() / columns, columns), cells).expect("whole rows")
    };
    Ok((
        table(circuits, 3).into_pyarray(py),
        table(cycles, 2).into_pyarray(py),
        found.routes.offsets.into_pyarray(py),
        found.routes.servers.into_pyarray(py),
    ))
}
