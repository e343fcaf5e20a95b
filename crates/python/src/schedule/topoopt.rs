//! The topology of a job: `lightloom.schedule.topoopt`.

use lightloom_model::Invalid;
use lightloom_schedule::topoopt::{RingGroup, Strides, TopoRequest, topology};
use numpy::ndarray::Array2;
use numpy::{IntoPyArray, PyArray1, PyArray2};
use pyo3::prelude::*;

use crate::arrays::{Column, Given, refuse};
use crate::choices::Named;

/// Adds the functions to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<JobTopology>()?;
    module.add_function(wrap_pyfunction!(schedule_topoopt, module)?)
}

/// `lightloom.schedule.topoopt.Ring`.
#[derive(FromPyObject)]
struct Ring {
    members: Vec<u32>,
    edge_bytes: u64,
    phase: u32,
}

/// Circuits (a, b, count), cycles (group, stride), their edges without a circuit (cycle, from, to),
/// the servers of each route, and the bytes of the busiest circuit of each phase.
#[pyclass(frozen, get_all, module = "lightloom._core")]
struct JobTopology {
    circuits: Py<PyArray2<u32>>,
    cycles: Py<PyArray2<u32>>,
    routed_edges: Py<PyArray2<u32>>,
    route_offsets: Py<PyArray1<u32>>,
    route_servers: Py<PyArray1<u32>>,
    busiest_bytes: Py<PyArray1<f64>>,
}

/// The rings of a job, and all other traffic as sources, destinations, bytes and phases.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "Python calls it by keywords")]
fn schedule_topoopt(
    py: Python<'_>,
    servers: u32,
    degree: u32,
    max_routes: u32,
    rings: Vec<Given<Ring>>,
    strides: Named<Strides>,
    demand: (Column<u32>, Column<u32>, Column<u64>),
    phases: Column<u32>,
) -> PyResult<JobTopology> {
    let (Column(sources), Column(destinations), Column(sizes)) = demand;
    if sources.len() != destinations.len() || sources.len() != sizes.len() {
        let text = "sources, destinations and size_bytes differ in length";
        return Err(refuse(Invalid::new(text)));
    }
    let ring = |Given(ring): Given<Ring>| RingGroup {
        members: ring.members,
        edge_bytes: ring.edge_bytes,
        phase: ring.phase,
    };
    let rings: Vec<RingGroup> = rings.into_iter().map(ring).collect();
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
    let found = py.detach(|| topology(&request)).map_err(refuse)?;
    let circuits: Vec<u32> = found.circuits.iter().flat_map(|c| [c.a, c.b, c.count]).collect();
    let cycles: Vec<u32> = found.cycles.iter().flat_map(|c| [c.group, c.stride]).collect();
    let routed: Vec<u32> =
        found.routed_edges.iter().flat_map(|r| [r.cycle, r.edge.0, r.edge.1]).collect();
    let table = |cells: Vec<u32>, columns: usize| {
        let rows = (cells.len() / columns, columns);
        Array2::from_shape_vec(rows, cells).expect("whole rows").into_pyarray(py).unbind()
    };
    Ok(JobTopology {
        circuits: table(circuits, 3),
        cycles: table(cycles, 2),
        routed_edges: table(routed, 3),
        route_offsets: found.routes.offsets.into_pyarray(py).unbind(),
        route_servers: found.routes.servers.into_pyarray(py).unbind(),
        busiest_bytes: found.busiest.into_pyarray(py).unbind(),
    })
}
