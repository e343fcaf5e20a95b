//! Circuits of a region: `lightloom.schedule.circuits`.

use lightloom_model::{Allocator, Invalid, Rate};
use lightloom_schedule::{
    Allocation, EpsRates, MAX_NUMA_NODES, NicCircuit, NicEnd, Request, allocate_within,
    map_working_nics,
};
use numpy::ndarray::Array2;
use numpy::{IntoPyArray, PyArray2};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arrays::{Column, Cube, Given, Matrix, Rates, refuse};
use crate::choices::parse;
use crate::records::values;

/// Adds the functions to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(schedule_allocate, module)?)?;
    module.add_function(wrap_pyfunction!(schedule_allocate_each, module)?)?;
    module.add_function(wrap_pyfunction!(schedule_route, module)?)?;
    module.add_function(wrap_pyfunction!(schedule_makespan, module)?)?;
    module.add_function(wrap_pyfunction!(schedule_port_bound, module)?)?;
    module.add_function(wrap_pyfunction!(schedule_line_bound, module)?)?;
    module.add_function(wrap_pyfunction!(schedule_changed_pairs, module)?)?;
    module.add_function(wrap_pyfunction!(schedule_map_nics, module)?)?;
    Ok(())
}

/// `lightloom.schedule.core_requests.CircuitRequest`.
#[derive(FromPyObject)]
pub(super) struct CircuitRequest {
    pub(super) demand: Matrix<u64>,
    ports: Column<u32>,
    allowed: Option<Matrix<bool>>,
    previous: Option<Matrix<u16>>,
    circuit_bps: u64,
    eps_bps: Rates,
    split: bool,
}

impl CircuitRequest {
    /// The request for the crate, once it is known to be consistent.
    pub(super) fn checked(&self) -> PyResult<Request<'_>> {
        let servers = self.ports.0.len();
        self.demand.expect_square("demand", servers)?;
        if let Some(allowed) = &self.allowed {
            allowed.expect_square("allowed", servers)?;
        }
        if let Some(previous) = &self.previous {
            previous.expect_square("previous", servers)?;
        }
        let (demand, ports, eps_bps) = (&self.demand.values, &self.ports.0, &self.eps_bps.0);
        let (rate, eps_rates) = (Rate(self.circuit_bps), EpsRates::Each(eps_bps));
        let allowed = self.allowed.as_ref().map(|allowed| allowed.values.as_slice());
        let previous = self.previous.as_ref().map(|previous| previous.values.as_slice());
        Request::new(demand, ports, rate, eps_rates, self.split)
            .and_then(|request| request.with_allowed(allowed)?.with_previous(previous))
            .map_err(refuse)
    }
}

/// What is computed of a request while the interpreter lock is released.
struct Found {
    allocation: Allocation,
    port_bound_s: f64,
    line_bound_s: f64,
}

impl Found {
    fn new(request: &Request<'_>, allocation: Allocation) -> Self {
        Self {
            allocation,
            port_bound_s: lightloom_schedule::port_bound(request),
            line_bound_s: lightloom_schedule::line_bound(request),
        }
    }

    /// `lightloom.schedule.Allocation`.
    fn into_python(self, py: Python<'_>, servers: usize) -> PyResult<Bound<'_, PyDict>> {
        Ok(values!(py;
            circuits: square(servers, self.allocation.circuits).into_pyarray(py),
            eps_bytes: square(servers, self.allocation.eps_bytes).into_pyarray(py),
            makespan_s: self.allocation.makespan,
            port_bound_s: self.port_bound_s,
            chosen: self.allocation.chosen.name(),
            bound_s: self.line_bound_s,
        ))
    }
}

pub(super) fn square<T>(servers: usize, values: Vec<T>) -> Array2<T> {
    Array2::from_shape_vec((servers, servers), values).expect("n x n values")
}

#[pyfunction]
fn schedule_allocate<'py>(
    py: Python<'py>,
    method: &str,
    request: Given<CircuitRequest>,
    tolerance: f64,
) -> PyResult<Bound<'py, PyDict>> {
    let allocator = parse::<Allocator>(method)?;
    let request = request.0.checked()?;
    if !(tolerance >= 0.0 && tolerance.is_finite()) {
        let text = format!("tolerance: expected a number from 0, got {tolerance}");
        return Err(refuse(Invalid(text)));
    }
    let allocated =
        py.detach(|| Found::new(&request, allocate_within(allocator, &request, tolerance)));
    allocated.into_python(py, request.servers())
}

/// The circuits of each demand of a stack, for one region.
#[pyfunction]
fn schedule_allocate_each<'py>(
    py: Python<'py>,
    method: &str,
    request: Given<CircuitRequest>,
    demands: Cube<u64>,
) -> PyResult<Vec<Bound<'py, PyDict>>> {
    let allocator = parse::<Allocator>(method)?;
    let request = request.0.checked()?;
    let servers = request.servers();
    if demands.shape[1..] != [servers, servers] {
        let [_, rows, columns] = demands.shape;
        return Err(refuse(Invalid(format!(
            "demands: expected {servers} x {servers} values each, got {rows} x {columns}"
        ))));
    }
    let cells = servers * servers;
    let allocated: Vec<Found> = py
        .detach(|| {
            let matrix = |index: usize| &demands.values[index * cells..(index + 1) * cells];
            (0..demands.shape[0])
                .map(|index| {
                    let request = request.with_demand(matrix(index))?;
                    Ok(Found::new(&request, lightloom_schedule::allocate(allocator, &request)))
                })
                .collect::<Result<_, _>>()
        })
        .map_err(refuse)?;
    allocated.into_iter().map(|one| one.into_python(py, servers)).collect()
}

/// Circuits that fit a request.
pub(super) fn fitting<'a>(request: &Request<'_>, circuits: &'a Matrix<u16>) -> PyResult<&'a [u16]> {
    circuits.expect_square("circuits", request.servers())?;
    request.admits(&circuits.values).map_err(refuse)?;
    Ok(&circuits.values)
}

#[pyfunction]
fn schedule_route(
    py: Python<'_>,
    request: Given<CircuitRequest>,
    circuits: Matrix<u16>,
) -> PyResult<Bound<'_, PyDict>> {
    let request = request.0.checked()?;
    let circuits = fitting(&request, &circuits)?;
    let routed = py.detach(|| Found::new(&request, lightloom_schedule::route(&request, circuits)));
    routed.into_python(py, request.servers())
}

/// Seconds until the last byte over given circuits.
#[pyfunction]
fn schedule_makespan(
    py: Python<'_>,
    request: Given<CircuitRequest>,
    circuits: Matrix<u16>,
) -> PyResult<f64> {
    let request = request.0.checked()?;
    let circuits = fitting(&request, &circuits)?;
    Ok(py.detach(|| lightloom_schedule::route(&request, circuits).makespan))
}

#[pyfunction]
fn schedule_port_bound(py: Python<'_>, request: Given<CircuitRequest>) -> PyResult<f64> {
    let request = request.0.checked()?;
    Ok(py.detach(|| lightloom_schedule::port_bound(&request)))
}

#[pyfunction]
fn schedule_line_bound(py: Python<'_>, request: Given<CircuitRequest>) -> PyResult<f64> {
    let request = request.0.checked()?;
    Ok(py.detach(|| lightloom_schedule::line_bound(&request)))
}

#[pyfunction]
fn schedule_changed_pairs(
    py: Python<'_>,
    previous: Matrix<u16>,
    following: Matrix<u16>,
) -> PyResult<u32> {
    previous.expect_square("previous", previous.rows)?;
    following.expect_square("following", previous.rows)?;
    Ok(py.detach(|| lightloom_schedule::changed_pairs(&previous.values, &following.values)))
}

/// Each row of the result is (server, NIC, server, NIC).
#[pyfunction]
fn schedule_map_nics(
    py: Python<'_>,
    circuits: Matrix<u16>,
    ports: Column<u32>,
    working: Matrix<bool>,
    numa_nodes: u32,
    previous: Matrix<u32>,
) -> PyResult<Bound<'_, PyArray2<u32>>> {
    let Column(ports) = ports;
    let widest = ports.iter().copied().max().unwrap_or(0) as usize;
    if working.rows != ports.len() || working.columns != widest {
        let Matrix { rows, columns, .. } = working;
        let servers = ports.len();
        return Err(refuse(Invalid(format!(
            "working: expected {servers} rows of {widest} NICs, got {rows} x {columns}"
        ))));
    }
    circuits.expect_square("circuits", ports.len())?;
    previous.expect_columns("previous", 4)?;
    if !(1..=MAX_NUMA_NODES).contains(&numa_nodes) {
        let text = format!("numa_nodes: expected 1 to {MAX_NUMA_NODES}, got {numa_nodes}");
        return Err(refuse(Invalid(text)));
    }
    let there: Vec<u32> = (0..)
        .zip(&ports)
        .map(|(server, &ports)| {
            let row = &working.values[server * widest..][..ports as usize];
            row.iter().map(|&works| u32::from(works)).sum()
        })
        .collect();
    let idle = vec![0; circuits.values.len()];
    Request::new(&idle, &there, Rate(1), EpsRates::Equal(Rate(0)), true)
        .and_then(|request| request.admits(&circuits.values))
        .map_err(refuse)?;
    let previous: Vec<NicCircuit> = previous.iter_rows().map(nic_circuit).collect();
    let mapped = py.detach(|| {
        let (circuits, working) = (&circuits.values, &working.values);
        map_working_nics(circuits, &ports, working, numa_nodes, &previous)
    });
    Ok(nic_rows(py, &mapped))
}

pub(super) fn nic_circuit(row: &[u32]) -> NicCircuit {
    NicCircuit {
        a: NicEnd { server: row[0], nic: row[1] },
        b: NicEnd { server: row[2], nic: row[3] },
    }
}

pub(super) fn nic_rows<'py>(py: Python<'py>, mapped: &[NicCircuit]) -> Bound<'py, PyArray2<u32>> {
    let cells = mapped.iter().flat_map(|c| [c.a.server, c.a.nic, c.b.server, c.b.nic]).collect();
    let rows = Array2::from_shape_vec((mapped.len(), 4), cells).expect("four cells per circuit");
    rows.into_pyarray(py)
}
