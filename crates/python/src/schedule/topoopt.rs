//! The topology of a job: `lightloom.schedule.topoopt`.

use lightloom_model::Invalid;
use lightloom_schedule::topoopt::{RingGroup, Strides, TopoRequest, topology};
use numpy::IntoPyArray;
use numpy::ndarray::Array2;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arrays::{Column, refuse};
use crate::choices::Named;
use crate::records::{Record, values};

/// Adds the functions to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(schedule_topoopt, module)?)
}

/// `lightloom.schedule.TopoOptTopology`, of the rings of a job, and all other traffic as sources,
/// destinations, bytes and phases.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "Python calls it by keywords")]
fn schedule_topoopt(
    py: Python<'_>,
    servers: u32,
    degree: u32,
    max_routes: u32,
    rings: Vec<Record<RingGroup>>,
    strides: Named<Strides>,
    demand: (Column<u32>, Column<u32>, Column<u64>),
    phases: Column<u32>,
) -> PyResult<Bound<'_, PyDict>> {
    let (Column(sources), Column(destinations), Column(sizes)) = demand;
    if sources.len() != destinations.len() || sources.len() != sizes.len() {
        let text = "sources, destinations and size_bytes differ in length";
        return Err(refuse(Invalid::new(text)));
    }
    let rings: Vec<RingGroup> = rings.into_iter().map(|ring| ring.0).collect();
    let pairs = sources.into_iter().zip(destinations).zip(sizes);
    let demand: Vec<(u32, u32, u64)> = pairs.map(|((from, to), size)| (from, to, size)).collect();
    let request = TopoRequest {
        servers,
        degree,
        rings: &rings,
        strides: strides.0,
        demand: &demand,
        phases: &phases.0,
        max_routes,
    };
    let planned = py.detach(|| topology(&request)).map_err(refuse)?;
    let circuits: Vec<u32> = planned.circuits.iter().flat_map(|c| [c.a, c.b, c.count]).collect();
    let cycles: Vec<u32> = planned.cycles.iter().flat_map(|c| [c.group, c.stride]).collect();
    let routed: Vec<u32> =
        planned.routed_edges.iter().flat_map(|r| [r.cycle, r.edge.0, r.edge.1]).collect();
    let table = |cells: Vec<u32>, columns: usize| {
        let rows = (cells.len() / columns, columns);
        Array2::from_shape_vec(rows, cells).expect("whole rows").into_pyarray(py)
    };
    Ok(values!(py;
        circuits: table(circuits, 3),
        cycles: table(cycles, 2),
        routed_edges: table(routed, 3),
        route_offsets: planned.routes.offsets.into_pyarray(py),
        route_servers: planned.routes.servers.into_pyarray(py),
        busiest_bytes: planned.busiest.into_pyarray(py),
    ))
}
