//! What a packet simulation refuses, as Python's exceptions.

use lightloom_packetsim::PacketError;
use pyo3::create_exception;
use pyo3::exceptions::{PyKeyboardInterrupt, PyRuntimeError, PyValueError};
use pyo3::prelude::*;

create_exception!(_core, PacketsStuck, PyRuntimeError, "Flows that will never finish.");

/// An error of a simulation.
#[allow(clippy::needless_pass_by_value, reason = "for map_err")]
pub(super) fn refuse(error: PacketError) -> PyErr {
    let text = error.to_string();
    match error {
        PacketError::Invalid(_) => PyValueError::new_err(text),
        PacketError::Stuck(_) => PacketsStuck::new_err(text),
        PacketError::Interrupted(_) => PyKeyboardInterrupt::new_err(text),
    }
}
