//! Edge coloring and circuit fabrics: `lightloom.schedule.coloring`.
//!
//! -1 in the arrays is [`NONE`] in the crate: the two have the same bits.

#![allow(clippy::needless_pass_by_value, reason = "PyO3 hands arguments over by value")]

use lightloom_schedule::coloring::{
    Bipartite, FabricRoute, FabricShape, NONE, Pods, check_coloring, check_route, color_edges,
    route_permutation,
};
use numpy::{PyArray1, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::prelude::*;

use super::{refuse, signed, unsigned};

const _: () = assert!(NONE.cast_signed() == -1);

/// Adds the functions to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(schedule_color_edges, module)?)?;
    module.add_function(wrap_pyfunction!(schedule_check_coloring, module)?)?;
    module.add_function(wrap_pyfunction!(schedule_route_permutation, module)?)?;
    module.add_function(wrap_pyfunction!(schedule_check_route, module)?)
}

fn pairs(edges: &PyReadonlyArray2<'_, u32>) -> Vec<(u32, u32)> {
    edges.as_array().rows().into_iter().map(|row| (row[0], row[1])).collect()
}

/// `sizes` are the vertices on the left and on the right; without `colors` as few as can be.
#[pyfunction]
fn schedule_color_edges<'py>(
    py: Python<'py>,
    edges: PyReadonlyArray2<'py, u32>,
    sizes: (u32, u32),
    colors: Option<u32>,
) -> PyResult<Bound<'py, PyArray1<i32>>> {
    let edges = pairs(&edges);
    let found = py.detach(|| {
        let graph = Bipartite { left: sizes.0, right: sizes.1, edges: &edges };
        graph.validate()?;
        color_edges(&graph, colors.unwrap_or_else(|| graph.max_degree()))
    });
    Ok(signed(py, found.map_err(refuse)?))
}

#[pyfunction]
fn schedule_check_coloring(
    py: Python<'_>,
    edges: PyReadonlyArray2<'_, u32>,
    sizes: (u32, u32),
    colors: u32,
    of_edge: PyReadonlyArray1<'_, i32>,
) -> PyResult<()> {
    let (edges, of_edge) = (pairs(&edges), unsigned(&of_edge));
    let graph = Bipartite { left: sizes.0, right: sizes.1, edges: &edges };
    py.detach(|| check_coloring(&graph, colors, &of_edge)).map_err(refuse)
}

/// Hosts of a leaf, spines, and (leaves of a pod, cores of a plane).
type PyShape = (u32, u32, Option<(u32, u32)>);

fn shape_of((leaf, spines, pods): PyShape) -> FabricShape {
    FabricShape { leaf, spines, pods: pods.map(|(leaves, cores)| Pods { leaves, cores }) }
}

/// Spine and core of each host; settings of leaf, spine and core switches.
type PyRoute<Values> = (Values, Values, Values, Values, Values);

#[pyfunction]
fn schedule_route_permutation<'py>(
    py: Python<'py>,
    permutation: PyReadonlyArray1<'py, i32>,
    shape: PyShape,
) -> PyResult<PyRoute<Bound<'py, PyArray1<i32>>>> {
    let permutation = unsigned(&permutation);
    let found = py.detach(|| route_permutation(&permutation, &shape_of(shape))).map_err(refuse)?;
    Ok((
        signed(py, found.spine),
        signed(py, found.core),
        signed(py, found.leaf_switches),
        signed(py, found.spine_switches),
        signed(py, found.core_switches),
    ))
}

#[pyfunction]
fn schedule_check_route(
    py: Python<'_>,
    permutation: PyReadonlyArray1<'_, i32>,
    shape: PyShape,
    route: PyRoute<PyReadonlyArray1<'_, i32>>,
) -> PyResult<()> {
    let permutation = unsigned(&permutation);
    let route = FabricRoute {
        spine: unsigned(&route.0),
        core: unsigned(&route.1),
        leaf_switches: unsigned(&route.2),
        spine_switches: unsigned(&route.3),
        core_switches: unsigned(&route.4),
    };
    py.detach(|| check_route(&permutation, &shape_of(shape), &route)).map_err(refuse)
}
