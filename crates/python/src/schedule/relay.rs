//! Two-hop relaying: `lightloom.schedule.relaying`.

#![allow(clippy::needless_pass_by_value, reason = "PyO3 hands arguments over by value")]

use lightloom_model::{Duration, Invalid, Rate};
use lightloom_schedule::EpsRates;
use lightloom_schedule::relay::{
    Loads, Origin, PathKind, PathShare, Prices, RelayCost, RelayPath, RelayRequest, Relayed, Via,
    allocate_relayed, dual_bound, relay, relay_as, verify,
};
use numpy::ndarray::{Array2, ArrayView1};
use numpy::{IntoPyArray, PyArray1, PyArray2, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::prelude::*;

use super::refuse;

/// Adds the functions to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(schedule_relay, module)?)?;
    module.add_function(wrap_pyfunction!(schedule_relay_as, module)?)?;
    module.add_function(wrap_pyfunction!(schedule_allocate_relayed, module)?)?;
    module.add_function(wrap_pyfunction!(schedule_relay_loads, module)?)?;
    module.add_function(wrap_pyfunction!(schedule_relay_bound, module)?)?;
    Ok(())
}

/// Staging bits per second, chunk bytes, picoseconds per chunk, bytes of memory.
type PyCost = (Option<u64>, u64, u64, Option<u64>);

/// Demand, circuits, (circuit, EPS) bits per second, cost.
type PyRequest<'py> = (PyReadonlyArray2<'py, u64>, PyReadonlyArray2<'py, u16>, (u64, u64), PyCost);

/// A request that owns its arrays, so that the interpreter lock can be released.
struct Owned {
    servers: usize,
    demand: Vec<u64>,
    circuits: Vec<u16>,
    rates_bps: (u64, u64),
    cost: PyCost,
}

fn read_cost((staging, chunk_bytes, chunk_latency, memory_limit): PyCost) -> RelayCost {
    RelayCost {
        staging_rate: staging.map(Rate),
        chunk_bytes,
        chunk_latency: Duration(chunk_latency),
        memory_limit,
    }
}

impl Owned {
    fn request(&self) -> RelayRequest<'_> {
        RelayRequest {
            servers: self.servers,
            demand: &self.demand,
            circuits: &self.circuits,
            circuit_rate: Rate(self.rates_bps.0),
            eps_rates: EpsRates::Equal(Rate(self.rates_bps.1)),
            cost: read_cost(self.cost),
        }
    }
}

fn own(request: &PyRequest) -> PyResult<Owned> {
    let (demand, circuits, rates_bps, cost) = request;
    let owned = Owned {
        servers: demand.as_array().nrows(),
        demand: demand.as_array().iter().copied().collect(),
        circuits: circuits.as_array().iter().copied().collect(),
        rates_bps: *rates_bps,
        cost: *cost,
    };
    owned.request().validate().map_err(refuse)?;
    Ok(owned)
}

/// Rows of (source, relay or -1, destination, kind), their bytes, (makespan, latency, one hop, with
/// relays, lower bound) in seconds, the verdict.
type PyRelayed<'py> =
    (Bound<'py, PyArray2<i32>>, Bound<'py, PyArray1<u64>>, (f64, f64, f64, f64, f64), &'static str);

fn give(py: Python<'_>, found: Relayed) -> PyRelayed<'_> {
    let cells = found.paths.iter().flat_map(|path| {
        let relay = path.relay.map_or(-1, u32::cast_signed);
        [path.source.cast_signed(), relay, path.destination.cast_signed(), path.kind as i32]
    });
    let rows = Array2::from_shape_vec((found.paths.len(), 4), cells.collect());
    let bytes: Vec<u64> = found.paths.iter().map(|path| path.bytes).collect();
    (
        rows.expect("four cells per path").into_pyarray(py),
        bytes.into_pyarray(py),
        (found.makespan, found.latency, found.one_hop, found.with_relays, found.lower_bound),
        found.verdict.name(),
    )
}

#[pyfunction]
fn schedule_relay<'py>(py: Python<'py>, request: PyRequest<'py>) -> PyResult<PyRelayed<'py>> {
    let owned = own(&request)?;
    let found = py.detach(|| relay(&owned.request()));
    Ok(give(py, found))
}

/// A row of (source, relay or -1, destination, kind): source, destination, kind, relay.
fn read_way(row: ArrayView1<i32>) -> PyResult<(u32, u32, PathKind, Option<u32>)> {
    let kind = usize::try_from(row[3]).ok().and_then(|kind| PathKind::ALL.get(kind));
    let kind =
        kind.ok_or_else(|| refuse(Invalid(format!("no kind of path is number {}", row[3]))))?;
    Ok((row[0] as u32, row[2] as u32, *kind, u32::try_from(row[1]).ok()))
}

/// Fractions that were found elsewhere to whole bytes.
#[pyfunction]
fn schedule_relay_as<'py>(
    py: Python<'py>,
    request: PyRequest<'py>,
    paths: PyReadonlyArray2<'py, i32>,
    bytes: PyReadonlyArray1<'py, f64>,
    lower_bound: f64,
) -> PyResult<PyRelayed<'py>> {
    let owned = own(&request)?;
    let mut parts = Vec::new();
    for (row, &bytes) in paths.as_array().rows().into_iter().zip(bytes.as_array()) {
        let (from, to, kind, relay) = read_way(row)?;
        let via = Via { kind, relay: relay.unwrap_or(0) };
        parts.push(PathShare { from, to, via, bytes });
    }
    let found = py.detach(|| relay_as(&owned.request(), &parts, lower_bound)).map_err(refuse)?;
    Ok(give(py, found))
}

/// Bytes over circuits, into the EPS, out of the EPS, and staged; makespan in seconds.
type PyLoads<'py> = (
    Bound<'py, PyArray2<u64>>,
    Bound<'py, PyArray1<u64>>,
    Bound<'py, PyArray1<u64>>,
    Bound<'py, PyArray1<u64>>,
    f64,
);

#[pyfunction]
fn schedule_relay_loads<'py>(
    py: Python<'py>,
    request: PyRequest<'py>,
    paths: PyReadonlyArray2<'py, i32>,
    bytes: PyReadonlyArray1<'py, u64>,
) -> PyResult<PyLoads<'py>> {
    let owned = own(&request)?;
    let mut list = Vec::new();
    for (row, &bytes) in paths.as_array().rows().into_iter().zip(bytes.as_array()) {
        let (source, destination, kind, relay) = read_way(row)?;
        list.push(RelayPath { source, destination, kind, relay, bytes });
    }
    let loads = py.detach(|| verify(&owned.request(), &list)).map_err(refuse)?;
    let Loads { arcs, eps_out, eps_in, staging, makespan } = loads;
    let arcs = Array2::from_shape_vec((owned.servers, owned.servers), arcs).expect("n x n loads");
    Ok((
        arcs.into_pyarray(py),
        eps_out.into_pyarray(py),
        eps_in.into_pyarray(py),
        staging.into_pyarray(py),
        makespan,
    ))
}

/// Prices of arcs, and rows of (EPS out, EPS in, staging).
#[pyfunction]
fn schedule_relay_bound<'py>(
    py: Python<'py>,
    request: PyRequest<'py>,
    arcs: PyReadonlyArray2<'py, f64>,
    servers: PyReadonlyArray2<'py, f64>,
) -> PyResult<f64> {
    let owned = own(&request)?;
    let n = owned.servers;
    let row = |index: usize| servers.as_array().row(index).to_vec();
    if arcs.as_array().dim() != (n, n) || servers.as_array().dim() != (3, n) {
        return Err(refuse(Invalid(format!("prices do not fit {n} servers"))));
    }
    let prices = Prices {
        arcs: arcs.as_array().iter().copied().collect(),
        eps_out: row(0),
        eps_in: row(1),
        staging: row(2),
    };
    if !prices.are_valid() {
        return Err(refuse(Invalid::new("prices: expected finite numbers from 0 on")));
    }
    Ok(py.detach(|| dual_bound(&owned.request(), &prices)))
}

/// Circuits for a demand that may be relayed, the routing over them, whose they are, and how many
/// routings were looked at.
#[pyfunction]
fn schedule_allocate_relayed<'py>(
    py: Python<'py>,
    request: super::allocation::PyRequest<'py>,
    cost: PyCost,
    evaluations: u32,
) -> PyResult<(Bound<'py, PyArray2<u16>>, PyRelayed<'py>, &'static str, u32)> {
    let owned = super::allocation::own(&request)?;
    let cost = read_cost(cost);
    let found = py.detach(|| allocate_relayed(&owned.request(), cost, evaluations));
    let origin = match found.origin {
        Origin::Held => "held",
        Origin::Allocator(allocator) => allocator.name(),
        Origin::Expander => "expander",
        Origin::Search => "search",
    };
    let n = owned.request().servers;
    let circuits = Array2::from_shape_vec((n, n), found.circuits).expect("n x n circuits");
    Ok((circuits.into_pyarray(py), give(py, found.routing), origin, found.evaluations))
}
