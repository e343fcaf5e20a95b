//! A Python function as the allocator of a run: `allocator` of `lightloom.simulate`.

use lightloom_decide::CircuitAllocator;
use lightloom_model::Invalid;
use lightloom_schedule::Request;
use numpy::ndarray::ArrayView2;
use numpy::{Element, PyArray1, PyArray2};
use pyo3::prelude::*;

use crate::arrays::Column;

/// What an allocator is to propose circuits for; see `lightloom.schedule.AllocationRequest`.
#[pyclass(frozen, get_all, module = "lightloom._core")]
pub(crate) struct ProposalRequest {
    demand: Py<PyArray2<u64>>,
    ports: Py<PyArray1<u32>>,
    allowed: Option<Py<PyArray2<bool>>>,
    previous: Option<Py<PyArray2<u16>>>,
    circuit_bps: u64,
    eps_bps: Vec<u64>,
    split: bool,
}

impl ProposalRequest {
    fn new(py: Python<'_>, request: &Request) -> Self {
        let n = request.servers();
        Self {
            demand: matrix(py, n, request.demand()),
            ports: PyArray1::from_slice(py, request.ports()).unbind(),
            allowed: request.allowed().map(|allowed| matrix(py, n, allowed)),
            previous: request.previous().map(|previous| matrix(py, n, previous)),
            circuit_bps: request.circuit_rate().0,
            eps_bps: (0..n).map(|server| request.eps_rates().of(server).0).collect(),
            split: request.split(),
        }
    }
}

fn matrix<T: Element + Clone>(py: Python<'_>, n: usize, values: &[T]) -> Py<PyArray2<T>> {
    let view = ArrayView2::from_shape((n, n), values).expect("a request is consistent");
    PyArray2::from_array(py, &view).unbind()
}

/// Calls a function with a list of requests; it returns as many flat matrices of circuits.
pub(crate) struct Caller {
    /// The function.
    pub(crate) function: Py<PyAny>,
    /// What it raised.
    pub(crate) error: Option<PyErr>,
}

impl CircuitAllocator for Caller {
    fn key(&self) -> Option<u64> {
        Some(self.function.as_ptr() as u64)
    }

    fn allocate(&mut self, requests: &[Request]) -> Result<Vec<Vec<u16>>, Invalid> {
        let proposed = Python::attach(|py| {
            py.check_signals()?;
            let asked: Vec<ProposalRequest> =
                requests.iter().map(|request| ProposalRequest::new(py, request)).collect();
            let proposals: Vec<Column<u16>> = self.function.bind(py).call1((asked,))?.extract()?;
            Ok(proposals.into_iter().map(|Column(circuits)| circuits).collect())
        });
        proposed.map_err(|error: PyErr| {
            let text = error.to_string();
            self.error = Some(error);
            Invalid(text)
        })
    }
}
