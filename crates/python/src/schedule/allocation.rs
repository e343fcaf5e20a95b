//! Circuits of a region: `lightloom.schedule.circuits`.

#![allow(clippy::needless_pass_by_value, reason = "PyO3 hands arguments over by value")]

use lightloom_model::{Allocator, Fibers, Invalid, Rate};
use lightloom_schedule::{Allocation, EpsRates, NicCircuit, NicEnd, Planes, Request};
use numpy::ndarray::Array2;
use numpy::{IntoPyArray, PyArray2, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::prelude::*;

use super::refuse;
use crate::choices::parse;

/// Adds the functions to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(schedule_allocate, module)?)?;
    module.add_function(wrap_pyfunction!(schedule_route, module)?)?;
    module.add_function(wrap_pyfunction!(schedule_port_bound, module)?)?;
    module.add_function(wrap_pyfunction!(schedule_line_bound, module)?)?;
    module.add_function(wrap_pyfunction!(schedule_changed_pairs, module)?)?;
    module.add_function(wrap_pyfunction!(schedule_map_nics, module)?)?;
    module.add_function(wrap_pyfunction!(schedule_assign_planes, module)?)?;
    module.add_function(wrap_pyfunction!(schedule_assign_most, module)?)?;
    module.add_function(wrap_pyfunction!(schedule_check_planes, module)?)?;
    Ok(())
}

/// A request that owns its arrays, so that the interpreter lock can be released.
pub(super) struct Owned {
    pub(super) servers: usize,
    demand: Vec<u64>,
    ports: Vec<u32>,
    allowed: Option<Vec<bool>>,
    previous: Option<Vec<u16>>,
    circuit_rate: Rate,
    eps_rates: Vec<Rate>,
    split: bool,
}

impl Owned {
    pub(super) fn request(&self) -> Request<'_> {
        Request {
            servers: self.servers,
            demand: &self.demand,
            ports: &self.ports,
            allowed: self.allowed.as_deref(),
            circuit_rate: self.circuit_rate,
            eps_rates: EpsRates::Each(&self.eps_rates),
            split: self.split,
            previous: self.previous.as_deref(),
        }
    }
}

/// Demand, ports, allowed pairs, circuits that are there, bits per second of a circuit, and of each
/// server on the EPS, split.
pub(super) type PyRequest<'py> = (
    PyReadonlyArray2<'py, u64>,
    PyReadonlyArray1<'py, u32>,
    Option<PyReadonlyArray2<'py, bool>>,
    Option<PyReadonlyArray2<'py, u16>>,
    u64,
    PyReadonlyArray1<'py, u64>,
    bool,
);

pub(super) fn own(request: &PyRequest) -> PyResult<Owned> {
    let (demand, ports, allowed, previous, circuit_bps, eps_bps, split) = request;
    let owned = Owned {
        servers: ports.as_array().len(),
        demand: demand.as_array().iter().copied().collect(),
        ports: ports.as_array().to_vec(),
        allowed: allowed.as_ref().map(|array| array.as_array().iter().copied().collect()),
        previous: previous.as_ref().map(|array| array.as_array().iter().copied().collect()),
        circuit_rate: Rate(*circuit_bps),
        eps_rates: eps_bps.as_array().iter().copied().map(Rate).collect(),
        split: *split,
    };
    owned.request().validate().map_err(refuse)?;
    Ok(owned)
}

/// Circuits, EPS bytes, makespan in seconds, the allocator whose circuits these are.
type PyAllocation<'py> = (Bound<'py, PyArray2<u16>>, Bound<'py, PyArray2<u64>>, f64, &'static str);

fn give(py: Python<'_>, servers: usize, allocation: Allocation) -> PyAllocation<'_> {
    (
        square(servers, allocation.circuits).into_pyarray(py),
        square(servers, allocation.eps_bytes).into_pyarray(py),
        allocation.makespan,
        allocation.chosen.name(),
    )
}

pub(super) fn square<T>(servers: usize, values: Vec<T>) -> Array2<T> {
    Array2::from_shape_vec((servers, servers), values).expect("n x n values")
}

#[pyfunction]
fn schedule_allocate<'py>(
    py: Python<'py>,
    method: &str,
    request: PyRequest<'py>,
) -> PyResult<PyAllocation<'py>> {
    let allocator = parse::<Allocator>(method)?;
    let owned = own(&request)?;
    let allocation = py.detach(|| lightloom_schedule::allocate(allocator, &owned.request()));
    Ok(give(py, owned.servers, allocation))
}

#[pyfunction]
fn schedule_route<'py>(
    py: Python<'py>,
    request: PyRequest<'py>,
    circuits: PyReadonlyArray2<'py, u16>,
) -> PyResult<PyAllocation<'py>> {
    let owned = own(&request)?;
    let circuits: Vec<u16> = circuits.as_array().iter().copied().collect();
    if circuits.len() != owned.demand.len() {
        return Err(refuse(Invalid::new("circuits and demand differ in size")));
    }
    let allocation = py.detach(|| lightloom_schedule::route(&owned.request(), &circuits));
    Ok(give(py, owned.servers, allocation))
}

#[pyfunction]
fn schedule_port_bound(py: Python<'_>, request: PyRequest<'_>) -> PyResult<f64> {
    let owned = own(&request)?;
    Ok(py.detach(|| lightloom_schedule::port_bound(&owned.request())))
}

#[pyfunction]
fn schedule_line_bound(py: Python<'_>, request: PyRequest<'_>) -> PyResult<f64> {
    let owned = own(&request)?;
    Ok(py.detach(|| lightloom_schedule::line_bound(&owned.request())))
}

#[pyfunction]
fn schedule_changed_pairs(
    py: Python<'_>,
    previous: PyReadonlyArray2<'_, u16>,
    next: PyReadonlyArray2<'_, u16>,
) -> PyResult<u32> {
    let [previous, next] =
        [previous, next].map(|array| array.as_array().iter().copied().collect::<Vec<u16>>());
    if previous.len() != next.len() {
        return Err(refuse(Invalid::new("previous and next circuits differ in size")));
    }
    Ok(py.detach(|| lightloom_schedule::changed_pairs(&previous, &next)))
}

/// Each row of the result is (server, NIC, server, NIC).
#[pyfunction]
fn schedule_map_nics<'py>(
    py: Python<'py>,
    circuits: PyReadonlyArray2<'py, u16>,
    ports: PyReadonlyArray1<'py, u32>,
    numa_nodes: u32,
    previous: PyReadonlyArray2<'py, u32>,
) -> PyResult<Bound<'py, PyArray2<u32>>> {
    let circuits: Vec<u16> = circuits.as_array().iter().copied().collect();
    let ports = ports.as_array().to_vec();
    let previous = nic_circuits(&previous);
    let n = ports.len();
    for server in 0..n {
        let used: u32 = (0..n).map(|peer| u32::from(circuits[server * n + peer])).sum();
        if used > ports[server] {
            let has = ports[server];
            let text = format!("server {server} has {has} ports but {used} circuits");
            return Err(refuse(Invalid(text)));
        }
    }
    let mapped =
        py.detach(|| lightloom_schedule::map_nics(&circuits, &ports, numa_nodes, &previous));
    Ok(nic_rows(py, &mapped))
}

fn nic_circuits(rows: &PyReadonlyArray2<'_, u32>) -> Vec<NicCircuit> {
    let circuit = |row: numpy::ndarray::ArrayView1<'_, u32>| NicCircuit {
        a: NicEnd { server: row[0], nic: row[1] },
        b: NicEnd { server: row[2], nic: row[3] },
    };
    rows.as_array().rows().into_iter().map(circuit).collect()
}

fn nic_rows<'py>(py: Python<'py>, mapped: &[NicCircuit]) -> Bound<'py, PyArray2<u32>> {
    let cells = mapped.iter().flat_map(|c| [c.a.server, c.a.nic, c.b.server, c.b.nic]).collect();
    let rows = Array2::from_shape_vec((mapped.len(), 4), cells).expect("four cells per circuit");
    rows.into_pyarray(py)
}

fn fibers(duplex: bool) -> Fibers {
    if duplex { Fibers::Duplex } else { Fibers::Crossed }
}

/// Rows of (server, NIC, server, NIC), why there are none, and the pairs without NICs.
type PyPlanes<'py> = (Option<Bound<'py, PyArray2<u32>>>, Option<String>, Vec<(u32, u32)>);

#[pyfunction]
fn schedule_assign_planes<'py>(
    py: Python<'py>,
    circuits: PyReadonlyArray2<'py, u16>,
    working: PyReadonlyArray2<'py, bool>,
    duplex: bool,
    effort: u32,
) -> PyPlanes<'py> {
    let circuits: Vec<u16> = circuits.as_array().iter().copied().collect();
    let working: Vec<bool> = working.as_array().iter().copied().collect();
    let fibers = fibers(duplex);
    let found =
        py.detach(|| lightloom_schedule::assign_planes(&circuits, &working, fibers, effort));
    match found {
        Planes::Assigned(mapped) => (Some(nic_rows(py, &mapped)), None, vec![]),
        Planes::Infeasible(reason) => (None, Some(reason), vec![]),
        Planes::NotFound(mapped, left) => (Some(nic_rows(py, &mapped)), None, left),
    }
}

#[pyfunction]
fn schedule_assign_most<'py>(
    py: Python<'py>,
    circuits: PyReadonlyArray2<'py, u16>,
    working: PyReadonlyArray2<'py, bool>,
    duplex: bool,
    effort: u32,
) -> Bound<'py, PyArray2<u32>> {
    let circuits: Vec<u16> = circuits.as_array().iter().copied().collect();
    let working: Vec<bool> = working.as_array().iter().copied().collect();
    let fibers = fibers(duplex);
    let mapped = py.detach(|| lightloom_schedule::assign_most(&circuits, &working, fibers, effort));
    nic_rows(py, &mapped)
}

#[pyfunction]
fn schedule_check_planes(
    py: Python<'_>,
    circuits: PyReadonlyArray2<'_, u16>,
    working: PyReadonlyArray2<'_, bool>,
    duplex: bool,
    assigned: PyReadonlyArray2<'_, u32>,
) -> PyResult<()> {
    let circuits: Vec<u16> = circuits.as_array().iter().copied().collect();
    let working: Vec<bool> = working.as_array().iter().copied().collect();
    let assigned = nic_circuits(&assigned);
    py.detach(|| lightloom_schedule::check_planes(&circuits, &working, fibers(duplex), &assigned))
        .map_err(refuse)
}
