//! Two-hop relaying: `lightloom.schedule.relaying`.

use lightloom_model::{Choice, Invalid, Rate};
use lightloom_schedule::EpsRates;
use lightloom_schedule::relay::{
    DualPrices, Loads, Origin, PathKind, PathShare, RelayCost, RelayPath, RelayRequest,
    RelayVerdict, Relayed, Via, allocate_relayed, dual_bound, relay, relay_as, verify,
};
use numpy::{IntoPyArray, PyArray1};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::allocation::{CircuitRequest, square};
use crate::arrays::{Column, Given, Matrix, refuse};
use crate::records::{Record, values};

/// Adds the functions to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(schedule_relay, module)?)?;
    module.add_function(wrap_pyfunction!(schedule_relay_as, module)?)?;
    module.add_function(wrap_pyfunction!(schedule_allocate_relayed, module)?)?;
    module.add_function(wrap_pyfunction!(schedule_relay_loads, module)?)?;
    module.add_function(wrap_pyfunction!(schedule_relay_bound, module)?)?;
    Ok(())
}

/// `lightloom.schedule.core_requests.RoutingRequest`.
#[derive(FromPyObject)]
struct RoutingRequest {
    demand: Matrix<u64>,
    circuits: Matrix<u16>,
    circuit_bps: u64,
    eps_bps: u64,
    charges: Record<RelayCost>,
}

impl RoutingRequest {
    /// The request for the crate, once it is known to be consistent.
    fn checked(&self) -> PyResult<RelayRequest<'_>> {
        self.demand.expect_square("demand", self.demand.rows)?;
        self.circuits.expect_square("circuits", self.demand.rows)?;
        let [rate, eps_rate] = [self.circuit_bps, self.eps_bps].map(Rate);
        let (demand, circuits) = (&self.demand.values, &self.circuits.values);
        RelayRequest::new(demand, circuits, rate, EpsRates::Equal(eps_rate), self.charges.0)
            .map_err(refuse)
    }
}

/// `lightloom.schedule.Relayed`: paths, relay -1 for none, with what they load.
fn relayed<'py>(
    py: Python<'py>,
    request: &RelayRequest<'_>,
    found: Relayed,
) -> PyResult<Bound<'py, PyDict>> {
    let paths = &found.paths;
    let index = |of: fn(&RelayPath) -> i32| -> Bound<'py, PyArray1<i32>> {
        paths.iter().map(of).collect::<Vec<i32>>().into_pyarray(py)
    };
    let bytes: Vec<u64> = paths.iter().map(|path| path.bytes).collect();
    Ok(values!(py;
        source: index(|path| path.source.cast_signed()),
        relay: index(|path| path.relay.map_or(-1, u32::cast_signed)),
        destination: index(|path| path.destination.cast_signed()),
        kind: index(|path| path.kind as i32),
        size_bytes: bytes.into_pyarray(py),
        makespan_s: found.makespan,
        latency_s: found.latency,
        one_hop_s: found.one_hop,
        with_relays_s: found.with_relays,
        lower_bound_s: found.lower_bound,
        pays: found.verdict == RelayVerdict::Pays,
        reason: found.verdict.description(),
        loads: loads(py, request, paths)?,
    ))
}

/// `lightloom.schedule.RelayLoads`: bytes over circuits, into the EPS, out of the EPS, and staged.
fn loads<'py>(
    py: Python<'py>,
    request: &RelayRequest<'_>,
    paths: &[RelayPath],
) -> PyResult<Bound<'py, PyDict>> {
    let Loads { arcs, eps_out, eps_in, staging, makespan } =
        py.detach(|| verify(request, paths)).map_err(refuse)?;
    Ok(values!(py;
        circuit_bytes: square(request.servers(), arcs).into_pyarray(py),
        eps_out_bytes: eps_out.into_pyarray(py),
        eps_in_bytes: eps_in.into_pyarray(py),
        staging_bytes: staging.into_pyarray(py),
        makespan_s: makespan,
    ))
}

#[pyfunction]
fn schedule_relay(py: Python<'_>, request: Given<RoutingRequest>) -> PyResult<Bound<'_, PyDict>> {
    let request = request.0.checked()?;
    let outcome = py.detach(|| relay(&request));
    relayed(py, &request, outcome)
}

/// The path of a row of (source, relay or -1, destination, kind) and what it carries.
struct PathRow<T> {
    source: u32,
    relay: Option<u32>,
    destination: u32,
    kind: PathKind,
    bytes: T,
}

fn path_rows<T: Copy>(paths: &Matrix<i32>, sizes: &Column<T>) -> PyResult<Vec<PathRow<T>>> {
    paths.expect_columns("paths", 4)?;
    let Column(sizes) = sizes;
    if sizes.len() != paths.rows {
        let text = format!("{} paths and {} sizes: expected as many", paths.rows, sizes.len());
        return Err(refuse(Invalid(text)));
    }
    let path = |(row, &bytes): (&[i32], &T)| {
        let kind = usize::try_from(row[3]).ok().and_then(|kind| PathKind::ALL.get(kind));
        let kind = *kind.ok_or_else(|| {
            let last = PathKind::ALL.len() - 1;
            refuse(Invalid(format!("{} {}: expected 0 to {last}", PathKind::KEY, row[3])))
        })?;
        let relay = u32::try_from(row[1]).ok();
        if relay.is_some() != kind.is_relayed() {
            let text = format!("a path of kind {kind} with relay {}", row[1]);
            return Err(refuse(Invalid(text)));
        }
        let [source, destination] = [row[0], row[2]].map(i32::cast_unsigned);
        Ok(PathRow { source, relay, destination, kind, bytes })
    };
    paths.iter_rows().zip(sizes).map(path).collect()
}

/// Fractions that were found elsewhere to whole bytes.
#[pyfunction]
fn schedule_relay_as(
    py: Python<'_>,
    request: Given<RoutingRequest>,
    paths: Matrix<i32>,
    size_bytes: Column<f64>,
    lower_bound_s: f64,
) -> PyResult<Bound<'_, PyDict>> {
    let request = request.0.checked()?;
    let share = |row: PathRow<f64>| PathShare {
        from: row.source,
        to: row.destination,
        via: Via { kind: row.kind, relay: row.relay.unwrap_or(0) },
        bytes: row.bytes,
    };
    let rows = path_rows(&paths, &size_bytes)?;
    let servers = request.servers() as u32;
    for PathRow { source, relay, destination, .. } in &rows {
        if let Some(server) =
            [*source, relay.unwrap_or(0), *destination].iter().find(|&&one| one >= servers)
        {
            let text = format!("a path over server {server}: expected 0 to below {servers}");
            return Err(refuse(Invalid(text)));
        }
    }
    let shares: Vec<PathShare> = rows.into_iter().map(share).collect();
    let outcome = py.detach(|| relay_as(&request, &shares, lower_bound_s)).map_err(refuse)?;
    relayed(py, &request, outcome)
}

#[pyfunction]
fn schedule_relay_loads(
    py: Python<'_>,
    request: Given<RoutingRequest>,
    paths: Matrix<i32>,
    size_bytes: Column<u64>,
) -> PyResult<Bound<'_, PyDict>> {
    let request = request.0.checked()?;
    let path = |row: PathRow<u64>| RelayPath {
        source: row.source,
        destination: row.destination,
        kind: row.kind,
        relay: row.relay,
        bytes: row.bytes,
    };
    let list: Vec<RelayPath> = path_rows(&paths, &size_bytes)?.into_iter().map(path).collect();
    loads(py, &request, &list)
}

/// Prices of arcs, and rows of (EPS out, EPS in, staging).
#[pyfunction]
fn schedule_relay_bound(
    py: Python<'_>,
    request: Given<RoutingRequest>,
    arcs: Matrix<f64>,
    servers: Matrix<f64>,
) -> PyResult<f64> {
    let request = request.0.checked()?;
    let n = request.servers();
    arcs.expect_square("arcs", n)?;
    if (servers.rows, servers.columns) != (3, n) {
        return Err(refuse(Invalid(format!("prices of servers: expected 3 x {n} values"))));
    }
    let row = |index: usize| &servers.values[index * n..(index + 1) * n];
    let prices = DualPrices::new(&arcs.values, [row(0), row(1), row(2)]).map_err(refuse)?;
    Ok(py.detach(|| dual_bound(&request, &prices)))
}

/// `lightloom.schedule.RelayedAllocation`.
#[pyfunction]
fn schedule_allocate_relayed(
    py: Python<'_>,
    request: Given<CircuitRequest>,
    charges: Record<RelayCost>,
    max_evaluations: u32,
) -> PyResult<Bound<'_, PyDict>> {
    let request = request.0.checked()?;
    let cost = charges.0;
    let (found, port_bound_s) = py.detach(|| {
        let bound = lightloom_schedule::port_bound(&request);
        (allocate_relayed(&request, cost, max_evaluations), bound)
    });
    let found = found.map_err(refuse)?;
    let origin = match found.origin {
        Origin::Held => "held",
        Origin::Allocator(allocator) => allocator.name(),
        Origin::Expander => "expander",
        Origin::Search => "search",
    };
    let (rate, eps_rates) = (request.circuit_rate(), request.eps_rates());
    let routing = RelayRequest::new(request.demand(), &found.circuits, rate, eps_rates, cost)
        .map_err(refuse)?;
    let routing = relayed(py, &routing, found.routing)?;
    Ok(values!(py;
        routing: routing,
        circuits: square(request.servers(), found.circuits).into_pyarray(py),
        origin: origin,
        evaluations: found.evaluations,
        port_bound_s: port_bound_s,
    ))
}
