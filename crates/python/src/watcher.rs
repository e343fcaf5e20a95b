//! The progress of a run for a Python function.

use lightloom_kernel::Observer;
use lightloom_model::Time;
use pyo3::prelude::*;
use std::ops::ControlFlow;

/// Tells a Python function how far the run is, and stops it on a signal or at its wish.
pub(crate) struct Watcher {
    progress: Option<Py<PyAny>>,
    /// What the count goes up to.
    total: u64,
    /// What the function raised.
    pub(crate) error: Option<PyErr>,
}

impl Watcher {
    /// For a count up to this.
    pub(crate) fn new(progress: Option<Py<PyAny>>, total: u64) -> Self {
        Self { progress, total: total.max(1), error: None }
    }
}

impl Observer for Watcher {
    fn progress(&mut self, _now: Time, done: u64) -> ControlFlow<()> {
        let fraction = done as f64 / self.total as f64;
        let outcome = Python::attach(|py| {
            py.check_signals()?;
            let Some(progress) = &self.progress else { return Ok(true) };
            let returned = progress.call1(py, (fraction,))?;
            Ok(returned.is_none(py) || returned.is_truthy(py)?)
        });
        match outcome {
            Ok(true) => ControlFlow::Continue(()),
            Ok(false) => ControlFlow::Break(()),
            Err(error) => {
                self.error = Some(error);
                ControlFlow::Break(())
            }
        }
    }
}
