//! What a run refuses, as Python's exceptions.

use lightloom_execute::ExecuteError;
use pyo3::create_exception;
use pyo3::exceptions::{PyAssertionError, PyKeyboardInterrupt, PyValueError};
use pyo3::prelude::*;

create_exception!(_core, NetworkInvalid, PyValueError, "The network cannot carry the task graph.");

/// An error of a run.
#[allow(clippy::needless_pass_by_value, reason = "for map_err")]
pub(crate) fn refuse(error: ExecuteError) -> PyErr {
    let text = error.to_string();
    match error {
        ExecuteError::Invalid(_) | ExecuteError::Deadlock(_) => PyValueError::new_err(text),
        ExecuteError::Network(_) => NetworkInvalid::new_err(text),
        ExecuteError::NotConserved(_) => PyAssertionError::new_err(text),
        ExecuteError::Interrupted(_) => PyKeyboardInterrupt::new_err(text),
    }
}
