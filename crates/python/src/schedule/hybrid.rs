//! Schedules of circuits and packets: `lightloom.schedule.hybrid`.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use lightloom_model::Rate;
use lightloom_schedule::hybrid::{
    HybridBudget, HybridDemand, HybridMethod, HybridRelay, HybridSchedule, PortRates, check_hybrid,
    relay_hybrid, schedule_hybrid_within,
};
use lightloom_schedule::permutation::Slots;
use numpy::ndarray::Array2;
use numpy::{IntoPyArray, PyArray2};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde::Deserialize;

use crate::arrays::{Column, Given, Matrix, refuse};
use crate::choices::parse;
use crate::records::{Record, values};

/// Adds the functions to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(schedule_hybrid_plan, module)?)?;
    module.add_function(wrap_pyfunction!(schedule_hybrid_bound, module)?)?;
    module.add_function(wrap_pyfunction!(schedule_check_hybrid, module)?)
}

/// What a port sends over circuits and as packets, and the delay of a circuit.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HybridPorts {
    pub(super) delay_bytes: u64,
    circuit_bps: u64,
    eps_bps: u64,
}

impl HybridPorts {
    pub(super) fn rates(&self) -> PortRates {
        PortRates { circuit: Rate(self.circuit_bps), eps: Rate(self.eps_bps) }
    }

    fn demand<'a>(&self, given: &'a Matrix<u64>) -> PyResult<HybridDemand<'a>> {
        let (rows, columns) = (given.rows, given.columns);
        HybridDemand::new(rows, columns, &given.values, self.delay_bytes, self.rates())
            .map_err(refuse)
    }
}

/// Looks at the clock, and now and then for a signal.
pub(super) struct Patience {
    until: Option<Instant>,
    looked: Cell<Instant>,
    pub(super) error: RefCell<Option<PyErr>>,
}

impl Patience {
    const LOOK: Duration = Duration::from_millis(20);

    pub(super) fn new(start: Instant, limit_s: Option<f64>) -> Self {
        let limit = limit_s.map(|seconds| Duration::try_from_secs_f64(seconds.max(0.0)));
        let until = limit.and_then(Result::ok).and_then(|limit| start.checked_add(limit));
        Self { until, looked: Cell::new(start), error: RefCell::new(None) }
    }

    pub(super) fn is_over(&self) -> bool {
        let now = Instant::now();
        if now.duration_since(self.looked.get()) > Self::LOOK {
            self.looked.set(now);
            if let Err(error) = Python::attach(check_signals) {
                self.error.replace(Some(error));
            }
        }
        self.error.borrow().is_some() || self.until.is_some_and(|until| now >= until)
    }
}

fn check_signals(py: Python<'_>) -> PyResult<()> {
    py.check_signals()
}

/// `lightloom.schedule.HybridSchedule` but what it was made for: matchings (slots, rows), and rows
/// of (source, relay, destination, first slot, second slot, bytes).
#[pyfunction]
fn schedule_hybrid_plan<'py>(
    py: Python<'py>,
    demand: Matrix<u64>,
    ports: Record<HybridPorts>,
    method: &str,
    time_limit_s: Option<f64>,
    relay: bool,
) -> PyResult<Bound<'py, PyDict>> {
    let start = Instant::now();
    let method: HybridMethod = parse(method)?;
    let ported = ports.0.demand(&demand)?;
    let (schedule, error) = py.detach(|| {
        let patience = Patience::new(start, time_limit_s);
        let is_over = || patience.is_over();
        let usual = HybridBudget::unless(&is_over);
        let longer = time_limit_s.map_or(usual, |_| HybridBudget::until(&is_over));
        let schedule = if relay {
            // Relaying starts from what is found in any case, so that more time is never worse.
            let plain = schedule_hybrid_within(&ported, method, &usual);
            relay_hybrid(&ported, plain, &longer)
        } else {
            Ok(schedule_hybrid_within(&ported, method, &longer))
        };
        (schedule, patience.error.into_inner())
    });
    if let Some(error) = error {
        return Err(error);
    }
    let schedule = schedule.map_err(refuse)?;
    let (rows, columns) = (demand.rows, demand.columns);
    let memory = schedule.relay_memory(rows);
    let HybridSchedule { slots, eps, relays, length, lower_bound, .. } = schedule;
    let shape = (slots.holds.len(), rows);
    let matchings = Array2::from_shape_vec(shape, slots.matchings).expect("a cell per row");
    let eps = Array2::from_shape_vec((rows, columns), eps).expect("an entry per pair");
    Ok(values!(py;
        permutations: matchings.into_pyarray(py),
        holds_bytes: slots.holds.into_pyarray(py),
        eps_bytes: eps.into_pyarray(py),
        relays: relays.map(|relays| relay_rows(py, &relays)),
        relay_memory_bytes: memory.into_pyarray(py),
        length_bytes: length,
        lower_bound_bytes: lower_bound,
        time_spent_s: start.elapsed().as_secs_f64(),
    ))
}

fn relay_rows<'py>(py: Python<'py>, relays: &[HybridRelay]) -> Bound<'py, PyArray2<u64>> {
    let row = |one: &HybridRelay| {
        let HybridRelay { source, relay, destination, first, second, bytes } = *one;
        let [source, relay, destination] = [source, relay, destination].map(u64::from);
        [source, relay, destination, u64::from(first), u64::from(second), bytes]
    };
    let cells = relays.iter().flat_map(row).collect();
    let rows = Array2::from_shape_vec((relays.len(), 6), cells).expect("six cells each");
    rows.into_pyarray(py)
}

fn parse_relays(relays: &Matrix<u64>) -> PyResult<Vec<HybridRelay>> {
    relays.expect_columns("relays", 6)?;
    let number = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
    let relay = |cells: &[u64]| HybridRelay {
        source: number(cells[0]),
        relay: number(cells[1]),
        destination: number(cells[2]),
        first: number(cells[3]),
        second: number(cells[4]),
        bytes: cells[5],
    };
    Ok(relays.iter_rows().map(relay).collect())
}

/// Bytes that no schedule can beat.
#[pyfunction]
fn schedule_hybrid_bound(
    demand: Matrix<u64>,
    ports: Record<HybridPorts>,
    relay: bool,
) -> PyResult<u64> {
    let ported = ports.0.demand(&demand)?;
    Ok(if relay { ported.relayed_lower_bound() } else { ported.lower_bound() })
}

/// `lightloom.schedule.hybrid.HybridSchedule`.
#[derive(FromPyObject)]
struct HybridClaim {
    permutations: Matrix<i32>,
    holds_bytes: Column<u64>,
    eps_bytes: Matrix<u64>,
    relays: Option<Matrix<u64>>,
    length_bytes: u64,
    lower_bound_bytes: u64,
    delay_bytes: u64,
    circuit_bps: u64,
    eps_bps: u64,
}

#[pyfunction]
fn schedule_check_hybrid(
    py: Python<'_>,
    demand: Matrix<u64>,
    schedule: Given<HybridClaim>,
) -> PyResult<()> {
    let Given(claim) = schedule;
    let HybridClaim { delay_bytes, circuit_bps, eps_bps, .. } = claim;
    let ported = HybridPorts { delay_bytes, circuit_bps, eps_bps }.demand(&demand)?;
    claim.permutations.expect_columns("permutations", demand.rows)?;
    claim.eps_bytes.expect_columns("eps_bytes", demand.columns)?;
    let schedule = HybridSchedule {
        method: HybridMethod::Balanced,
        slots: Slots { matchings: claim.permutations.values, holds: claim.holds_bytes.0 },
        eps: claim.eps_bytes.values,
        relays: claim.relays.as_ref().map(parse_relays).transpose()?,
        length: claim.length_bytes,
        lower_bound: claim.lower_bound_bytes,
    };
    py.detach(|| check_hybrid(&ported, &schedule)).map_err(refuse)
}
