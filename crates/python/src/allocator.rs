//! A Python function as the allocator of a run: `allocator` of `lightloom.simulate`.

use lightloom_decide::CircuitAllocator;
use lightloom_model::Invalid;
use lightloom_schedule::Request;
use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;

/// Demand, ports, allowed pairs, circuits that are there, (circuit, EPS) bits per second, split;
/// matrices are flat.
type PyAllocationRequest<'py> = (
    Bound<'py, PyArray1<u64>>,
    Bound<'py, PyArray1<u32>>,
    Option<Bound<'py, PyArray1<bool>>>,
    Option<Bound<'py, PyArray1<u16>>>,
    (u64, Vec<u64>),
    bool,
);

/// Calls a function with a list of requests; it returns as many flat matrices of circuits.
pub struct Caller {
    /// The function.
    pub function: Py<PyAny>,
    /// What it raised.
    pub error: Option<PyErr>,
}

impl CircuitAllocator for Caller {
    fn allocate(&mut self, requests: &[Request]) -> Result<Vec<Vec<u16>>, Invalid> {
        let called = Python::attach(|py| {
            py.check_signals()?;
            let given: Vec<PyAllocationRequest<'_>> =
                requests.iter().map(|request| convert(py, request)).collect();
            let proposals: Vec<PyReadonlyArray1<'_, u16>> =
                self.function.bind(py).call1((given,))?.extract()?;
            Ok(proposals.iter().map(|circuits| circuits.as_array().to_vec()).collect())
        });
        called.map_err(|error: PyErr| {
            let text = error.to_string();
            self.error = Some(error);
            Invalid(text)
        })
    }
}

fn convert<'py>(py: Python<'py>, request: &Request) -> PyAllocationRequest<'py> {
    let eps = (0..request.servers).map(|server| request.eps_rates.of(server).0).collect();
    (
        PyArray1::from_slice(py, request.demand),
        PyArray1::from_slice(py, request.ports),
        request.allowed.map(|allowed| PyArray1::from_slice(py, allowed)),
        request.previous.map(|previous| PyArray1::from_slice(py, previous)),
        (request.circuit_rate.0, eps),
        request.split,
    )
}
