//! Edge coloring and circuit fabrics: `lightloom.schedule.coloring`.
//!
//! -1 in the arrays is [`NONE`] in the crate: the two have the same bits.

use lightloom_model::Invalid;
use lightloom_schedule::coloring::{
    Bipartite, FabricRoute, FabricShape, NONE, Pods, check_coloring, check_route, color_edges,
    route_permutation,
};
use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde::Deserialize;

use super::indices::{signed, unsigned};
use crate::arrays::{Column, Flat, Given, Matrix, refuse};
use crate::records::{Record, values};

const _: () = assert!(NONE.cast_signed() == -1);

/// Adds the functions to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(schedule_color_edges, module)?)?;
    module.add_function(wrap_pyfunction!(schedule_check_coloring, module)?)?;
    module.add_function(wrap_pyfunction!(schedule_route_permutation, module)?)?;
    module.add_function(wrap_pyfunction!(schedule_check_route, module)?)
}

/// Most vertices of either side.
const MAX_VERTICES: usize = 1 << 26;

/// Numbers that vertices may have in any case, and for each edge: memory follows the larger side.
const VERTICES: [usize; 2] = [1 << 16, 64];

/// Edges, and how many vertices there are on the left and on the right.
type EdgesAndSizes = (Vec<(u32, u32)>, [u32; 2]);

fn graph_of(edges: &Matrix<u32>) -> PyResult<EdgesAndSizes> {
    edges.expect_columns("edges", 2)?;
    let pairs: Vec<(u32, u32)> = edges.iter_rows().map(|row| (row[0], row[1])).collect();
    let [always, per_edge] = VERTICES;
    let limit = MAX_VERTICES.min(always + per_edge * pairs.len());
    let mut sizes = [0; 2];
    for &(left, right) in &pairs {
        if left.max(right) as usize >= limit {
            let edges = pairs.len();
            let text = format!(
                "edge {left} - {right}: expected vertices below {limit}, as there are {edges} edges"
            );
            return Err(refuse(Invalid(text)));
        }
        sizes = [sizes[0].max(left + 1), sizes[1].max(right + 1)];
    }
    Ok((pairs, sizes))
}

/// Without `colors` as few as can be.
#[pyfunction]
fn schedule_color_edges(
    py: Python<'_>,
    edges: Matrix<u32>,
    colors: Option<u32>,
) -> PyResult<Py<PyArray1<i32>>> {
    let (edges, [left, right]) = graph_of(&edges)?;
    let coloring = py.detach(|| {
        let graph = Bipartite::new(left, right, &edges)?;
        color_edges(&graph, colors.unwrap_or_else(|| graph.max_degree()))
    });
    Ok(signed(py, coloring.map_err(refuse)?))
}

#[pyfunction]
fn schedule_check_coloring(
    py: Python<'_>,
    edges: Matrix<u32>,
    colors: u32,
    color_of_edge: Column<i32>,
) -> PyResult<()> {
    let ((edges, [left, right]), of_edge) = (graph_of(&edges)?, unsigned(&color_of_edge.0));
    py.detach(|| check_coloring(&Bipartite::new(left, right, &edges)?, colors, &of_edge))
        .map_err(refuse)
}

/// Hosts of a leaf, spines, and of three tiers leaves of a pod and cores of a plane.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ShapeValues {
    leaf: u32,
    spines: u32,
    pod: Option<u32>,
    cores: Option<u32>,
}

impl ShapeValues {
    fn shape(&self) -> FabricShape {
        let pods = self.pod.map(|leaves| Pods { leaves, cores: self.cores.unwrap_or(0) });
        FabricShape { leaf: self.leaf, spines: self.spines, pods }
    }
}

/// Spine and core of each host; what each input of a switch is joined to, switch after switch.
#[pyfunction]
fn schedule_route_permutation(
    py: Python<'_>,
    permutation: Column<i32>,
    shape: Record<ShapeValues>,
) -> PyResult<Bound<'_, PyDict>> {
    let (permutation, shape) = (unsigned(&permutation.0), shape.0.shape());
    let routed = py.detach(|| route_permutation(&permutation, &shape)).map_err(refuse)?;
    Ok(values!(py;
        spine: signed(py, routed.spine),
        core: signed(py, routed.core),
        leaf_switches: signed(py, routed.leaf_switches),
        spine_switches: signed(py, routed.spine_switches),
        core_switches: signed(py, routed.core_switches),
    ))
}

/// `lightloom.schedule.FabricRoute`, arrays of any shape.
#[derive(FromPyObject)]
struct RouteClaim {
    spine: Flat<i32>,
    core: Flat<i32>,
    leaf_switches: Flat<i32>,
    spine_switches: Flat<i32>,
    core_switches: Flat<i32>,
    shape: Record<ShapeValues>,
}

#[pyfunction]
fn schedule_check_route(
    py: Python<'_>,
    permutation: Column<i32>,
    route: Given<RouteClaim>,
) -> PyResult<()> {
    let (permutation, Given(claim)) = (unsigned(&permutation.0), route);
    let shape = claim.shape.0.shape();
    let route = FabricRoute {
        spine: unsigned(&claim.spine.0),
        core: unsigned(&claim.core.0),
        leaf_switches: unsigned(&claim.leaf_switches.0),
        spine_switches: unsigned(&claim.spine_switches.0),
        core_switches: unsigned(&claim.core_switches.0),
    };
    py.detach(|| check_route(&permutation, &shape, &route)).map_err(refuse)
}
