//! The decider: `lightloom.schedule.decider`.

use super::allocation::{nic_circuit, nic_rows, square};
use crate::allocator::Caller;
use crate::arrays::{Matrix, refuse};
use crate::choices::parse;
use crate::records::{Record, values};
use lightloom_decide::{Decider, Decision, Held, Policy, Region, Requested, SizedRegion, Upcoming};
use lightloom_model::{Allocator, Duration, Invalid, SwitchTiming};
use lightloom_schedule::NicCircuit;
use lightloom_schedule::relay::RelayPath;
use numpy::ndarray::Array2;
use numpy::{IntoPyArray, PyArray1, PyArray2};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::borrow::Cow;
use std::sync::{Arc, Mutex, TryLockError};

/// Adds the classes to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(schedule_working_region, module)?)?;
    module.add_class::<PyHeld>()?;
    module.add_class::<PyUpcoming>()?;
    module.add_class::<PyDecision>()?;
    module.add_class::<PyDecider>()
}

/// A region of so many servers, as `lightloom.schedule.core_requests.CircuitRequest` has it: the
/// ports and rates that are left by what has failed.
#[pyfunction]
fn schedule_working_region(
    py: Python<'_>,
    servers: usize,
    region: Record<Region>,
) -> PyResult<Bound<'_, PyDict>> {
    let sized = SizedRegion::new(servers, region.0).map_err(refuse)?;
    let eps_bps: Vec<u64> = sized.working_eps_rates().iter().map(|rate| rate.0).collect();
    let allowed = sized.allowed().map(|pairs| square(servers, pairs.to_vec()).into_pyarray(py));
    Ok(values!(py;
        ports: sized.working_ports().into_pyarray(py),
        allowed: allowed,
        circuit_bps: sized.record().circuit_rate.rate().0,
        eps_bps: eps_bps.into_pyarray(py),
        split: sized.record().split,
    ))
}

/// The circuits that a region has.
#[pyclass(name = "Held", module = "lightloom._core", frozen, eq, from_py_object)]
#[derive(Clone, PartialEq)]
pub struct PyHeld(pub Arc<Held>);

#[pymethods]
impl PyHeld {
    /// Parallel circuits of each pair, `(n, n)`.
    #[getter]
    fn circuits<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray2<u16>> {
        let circuits = self.0.circuits.clone();
        square(circuits.len().isqrt(), circuits).into_pyarray(py)
    }

    /// Server, NIC, server, NIC of each circuit, `(circuits, 4)`, sorted.
    #[getter]
    fn nics<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray2<u32>> {
        nic_rows(py, &self.0.nics)
    }

    /// The allocator whose circuits these are.
    #[getter]
    fn chosen(&self) -> &'static str {
        self.0.chosen.name()
    }

    /// The same as text, which `from_json` reads.
    fn to_json(&self) -> String {
        json(&*self.0)
    }

    /// The circuits that a text of `to_json` states.
    #[staticmethod]
    fn from_json(text: &str) -> PyResult<Self> {
        let held = serde_json::from_str(text).map_err(|error| refuse(Invalid(error.to_string())));
        let held: Held = held?;
        let (cells, servers) = (held.circuits.len(), held.circuits.len().isqrt());
        if servers * servers != cells {
            return Err(refuse(Invalid(format!("circuits: expected n x n, got {cells}"))));
        }
        Ok(Self(Arc::new(held)))
    }

    fn __repr__(&self) -> String {
        let servers = self.0.circuits.len().isqrt();
        format!("Held({} circuits among {servers} servers)", self.0.nics.len())
    }
}

fn json<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_string(value).expect("plain values without maps")
}

/// An all-to-all whose demand is known or predicted.
#[pyclass(name = "Upcoming", module = "lightloom._core", frozen, eq)]
#[derive(PartialEq)]
pub struct PyUpcoming(pub Upcoming);

#[pymethods]
impl PyUpcoming {
    /// One of known demand, `(n, n)`; or of predicted demand, by which circuits are judged, and
    /// others that they are requested for, if any.
    #[new]
    #[pyo3(signature = (demand, hidden_ps, *, predicted = false, requested = None))]
    fn new(
        demand: Matrix<u64>,
        hidden_ps: u64,
        predicted: bool,
        requested: Option<Matrix<u64>>,
    ) -> PyResult<Self> {
        let requested = match (predicted, requested) {
            (false, None) => Requested::Demand,
            (true, None) => Requested::Nothing,
            (true, Some(other)) if (other.rows, other.columns) == (demand.rows, demand.columns) => {
                Requested::Other(other.values)
            }
            _ => return Err(refuse(Invalid::new("requested demand is for predicted demand"))),
        };
        let Matrix { rows, columns, values: demand } = demand;
        if rows != columns {
            return Err(refuse(Invalid(format!("demand: expected n x n, got {rows} x {columns}"))));
        }
        let hidden = Duration(hidden_ps);
        Ok(Self(Upcoming { demand, requested, hidden }))
    }

    /// Bytes from source to destination, `(n, n)`, by which circuits are judged.
    #[getter]
    fn demand<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray2<u64>> {
        let demand = self.0.demand.clone();
        square(demand.len().isqrt(), demand).into_pyarray(py)
    }

    /// Whether the demand is predicted, so that circuits are requested for other demand.
    #[getter]
    fn predicted(&self) -> bool {
        self.0.requested != Requested::Demand
    }

    /// Bytes that circuits are requested for, `(n, n)`, if any.
    #[getter]
    fn requested<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyArray2<u64>>> {
        let requested = self.0.request()?.to_vec();
        Some(square(requested.len().isqrt(), requested).into_pyarray(py))
    }

    /// Picoseconds from the end of the all-to-all before it, or from now, until it is reached.
    #[getter]
    fn hidden_ps(&self) -> u64 {
        self.0.hidden.0
    }

    fn to_json(&self) -> String {
        json(&self.0)
    }
}

/// The circuits of a region from now on.
#[pyclass(name = "Decision", module = "lightloom._core", frozen, eq)]
#[derive(PartialEq)]
pub struct PyDecision(pub Decision);

#[pymethods]
impl PyDecision {
    /// The circuits and their NICs.
    #[getter]
    fn held(&self) -> PyHeld {
        PyHeld(Arc::new(self.0.held.clone()))
    }

    /// Parallel circuits of each pair, `(n, n)`.
    #[getter]
    fn circuits<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray2<u16>> {
        let circuits = self.0.held.circuits.clone();
        square(circuits.len().isqrt(), circuits).into_pyarray(py)
    }

    /// Server, NIC, server, NIC of each circuit, `(circuits, 4)`, sorted.
    #[getter]
    fn nics<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray2<u32>> {
        nic_rows(py, &self.0.held.nics)
    }

    /// The allocator whose circuits these are.
    #[getter]
    fn chosen(&self) -> &'static str {
        self.0.held.chosen.name()
    }

    /// New circuits, as `nics`.
    #[getter]
    fn create<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray2<u32>> {
        nic_rows(py, &self.0.change.create)
    }

    /// Circuits that are torn down, as `nics`.
    #[getter]
    fn delete<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray2<u32>> {
        nic_rows(py, &self.0.change.delete)
    }

    /// Circuits that stay on their NICs, as `nics`.
    #[getter]
    fn keep<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray2<u32>> {
        nic_rows(py, &self.0.change.keep)
    }

    /// Circuits that other NICs of the same servers take over: from where and to where, `(k, 8)`.
    #[getter]
    fn moved<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray2<u32>> {
        let ends = |c: &NicCircuit| [c.a.server, c.a.nic, c.b.server, c.b.nic];
        let moved = &self.0.change.moved;
        let cells = moved.iter().flat_map(|(from, to)| [ends(from), ends(to)].concat()).collect();
        Array2::from_shape_vec((moved.len(), 8), cells).expect("eight cells each").into_pyarray(py)
    }

    /// Circuits whose NICs have failed, as `nics`.
    #[getter]
    fn lost<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray2<u32>> {
        nic_rows(py, &self.0.change.lost)
    }

    /// Port pairs that the switch touches.
    #[getter]
    fn pairs(&self) -> u32 {
        self.0.pairs
    }

    /// Whether any circuit changes.
    #[getter]
    fn reconfigure(&self) -> bool {
        self.0.pairs > 0
    }

    /// Seconds from the decision until all circuits are up.
    #[getter]
    fn ready_after_s(&self) -> f64 {
        self.0.ready_after.as_seconds()
    }

    /// What kind of reason it has.
    #[getter]
    fn reason(&self) -> &'static str {
        self.0.why.name()
    }

    /// Seconds of the upcoming all-to-alls with the circuits held, if they were compared.
    #[getter]
    fn hold_s(&self) -> Option<f64> {
        self.0.why.compared().hold
    }

    /// The same after the best switch, without what it exposes.
    #[getter]
    fn switch_s(&self) -> Option<f64> {
        self.0.why.compared().switch
    }

    /// Seconds of the best switch that nothing hides.
    #[getter]
    fn exposed_s(&self) -> Option<f64> {
        self.0.why.compared().exposed
    }

    /// Pairs that the best switch changes, or would change.
    #[getter]
    fn compared_pairs(&self) -> Option<u32> {
        self.0.why.compared().pairs
    }

    /// The demand that was decided for, `(n, n)`.
    #[getter]
    fn demand<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray2<u64>> {
        let demand = self.0.demand.clone();
        square(demand.len().isqrt(), demand).into_pyarray(py)
    }

    /// Seconds of that demand over these circuits, at line rate.
    #[getter]
    fn makespan_s(&self) -> f64 {
        self.0.makespan
    }

    /// Seconds of that demand that no circuits can beat.
    #[getter]
    fn bound_s(&self) -> f64 {
        self.0.bound
    }

    /// Seconds that the upcoming all-to-alls would take longer with the circuits held before.
    #[getter]
    fn saved_s(&self) -> f64 {
        self.0.saved
    }

    /// Everything as text.
    fn to_json(&self) -> String {
        json(&self.0)
    }

    fn __str__(&self) -> String {
        self.0.why.to_string()
    }

    fn __repr__(&self) -> String {
        format!("Decision({} pairs change: {})", self.0.pairs, self.0.why)
    }
}

/// Rows of paths, and the bytes of each.
type CarriedPaths<'py> = (Bound<'py, PyArray2<i32>>, Bound<'py, PyArray1<u64>>);

/// See `lightloom.schedule.Decider`.
#[pyclass(name = "Decider", module = "lightloom._core", frozen)]
pub struct PyDecider {
    decider: Mutex<Decider>,
    servers: usize,
    allocator: Option<Py<PyAny>>,
}

#[pymethods]
impl PyDecider {
    #[new]
    fn new(
        servers: usize,
        region: Record<Region>,
        policy: Record<Policy>,
        timing: Record<SwitchTiming>,
        allocator: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let region = SizedRegion::new(servers, region.0).map_err(refuse)?;
        let decider = Mutex::new(Decider::new(region, policy.0, timing.0));
        Ok(Self { decider, servers, allocator })
    }

    /// Demand-oblivious circuits to start with.
    fn start(&self, py: Python<'_>) -> PyResult<PyHeld> {
        py.detach(|| self.with(|decider| Ok(PyHeld(Arc::new(decider.start())))))
    }

    /// Given circuits, flat, on NICs that suit them.
    fn hold(&self, py: Python<'_>, circuits: Matrix<u16>) -> PyResult<PyHeld> {
        py.detach(|| self.with(|decider| Ok(PyHeld(Arc::new(decider.hold(circuits.values)?)))))
    }

    /// Given circuits on given NICs, rows of (server, NIC, server, NIC).
    fn hold_on(&self, py: Python<'_>, nics: Matrix<u32>, chosen: &str) -> PyResult<PyHeld> {
        nics.expect_columns("nics", 4)?;
        let mut nics: Vec<NicCircuit> = nics.iter_rows().map(nic_circuit).collect();
        let (chosen, servers) = (parse::<Allocator>(chosen)?, self.servers);
        py.detach(|| {
            nics.sort_unstable();
            let mut circuits = vec![0_u16; servers * servers];
            for circuit in &nics {
                let (a, b) = (circuit.a.server as usize, circuit.b.server as usize);
                if a < servers && b < servers {
                    circuits[a * servers + b] += 1;
                    circuits[b * servers + a] += 1;
                }
            }
            let held = Held { circuits, nics, chosen };
            self.with(|decider| {
                decider.check(&held)?;
                Ok(PyHeld(Arc::new(held)))
            })
        })
    }

    /// Decides for upcoming all-to-alls; among these circuits alone, `(k, n, n)`, if given.
    fn decide(
        &self,
        py: Python<'_>,
        held: &PyHeld,
        upcoming: Vec<Py<PyUpcoming>>,
        proposals: Option<Vec<Matrix<u16>>>,
    ) -> PyResult<PyDecision> {
        // Nobody changes an upcoming all-to-all: one alone, as is usual, need not be copied.
        let upcoming: Cow<[Upcoming]> = match upcoming.as_slice() {
            [next] => Cow::Borrowed(std::slice::from_ref(&next.get().0)),
            several => several.iter().map(|next| next.get().0.clone()).collect(),
        };
        let cells = self.servers * self.servers;
        if held.0.circuits.len() != cells || upcoming.iter().any(|next| next.demand.len() != cells)
        {
            let n = self.servers;
            return Err(refuse(Invalid(format!("demand and circuits must be {n} x {n}"))));
        }
        let given: Option<Vec<Vec<u16>>> =
            proposals.map(|given| given.into_iter().map(|circuits| circuits.values).collect());
        let function = self.allocator.as_ref().map(|function| function.clone_ref(py));
        let mut caller = function.map(|function| Caller { function, error: None });
        let found = py.detach(|| {
            self.with(|decider| {
                decider.check(&held.0)?;
                decider.check_relayed(&upcoming)?;
                match (&given, &mut caller) {
                    (Some(given), _) => decider.decide_among(&held.0, &upcoming, given),
                    (None, Some(caller)) => decider.decide_by(&held.0, &upcoming, caller),
                    (None, None) => Ok(decider.decide(&held.0, &upcoming)),
                }
            })
        });
        match caller.and_then(|caller| caller.error) {
            Some(error) => Err(error),
            None => found.map(PyDecision),
        }
    }

    /// The paths of a demand over the circuits held: rows of (source, relay or -1, destination,
    /// kind), and the bytes of each.
    fn carry<'py>(
        &self,
        py: Python<'py>,
        held: &PyHeld,
        demand: Matrix<u64>,
    ) -> PyResult<CarriedPaths<'py>> {
        demand.expect_square("demand", self.servers)?;
        let upcoming = [Upcoming::known(demand.values, Duration::ZERO)];
        let paths = py.detach(|| {
            self.with(|decider| {
                decider.check(&held.0)?;
                decider.check_relayed(&upcoming)?;
                Ok(decider.carry(&held.0, &upcoming[0].demand))
            })
        })?;
        let row = |path: &RelayPath| {
            let relay = path.relay.map_or(-1, u32::cast_signed);
            [path.source.cast_signed(), relay, path.destination.cast_signed(), path.kind as i32]
        };
        let cells: Vec<i32> = paths.iter().flat_map(row).collect();
        let rows = Array2::from_shape_vec((paths.len(), 4), cells).expect("four to a row");
        let bytes: Vec<u64> = paths.iter().map(|path| path.bytes).collect();
        Ok((rows.into_pyarray(py), bytes.into_pyarray(py)))
    }
}

impl PyDecider {
    /// Without the interpreter lock; a decider that is deciding is not waited for, as its allocator
    /// might be the caller.
    fn with<T>(&self, act: impl FnOnce(&mut Decider) -> Result<T, Invalid>) -> PyResult<T> {
        let mut decider = match self.decider.try_lock() {
            Ok(decider) => decider,
            // What panicked left at most a cache half filled.
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                return Err(refuse(Invalid::new("this decider is busy: use one per thread")));
            }
        };
        act(&mut decider).map_err(refuse)
    }
}
