//! Builds `lightloom._core`: conversions and calls only, one file per room of the Python package.

#![warn(unreachable_pub)]
#![allow(clippy::needless_pass_by_value, reason = "PyO3 hands arguments over by value")]

use pyo3::prelude::*;

mod allocator;
mod arrays;
mod choices;
mod demand;
mod errors;
mod execute;
mod graph;
mod load_predictor;
mod network;
mod outcome;
mod packets;
mod phases;
mod predictor;
mod record_fields;
mod records;
mod schedule;
mod watcher;

/// The compiled core of Lightloom.
#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    choices::register(module)?;
    demand::register(module)?;
    execute::register(module)?;
    load_predictor::register(module)?;
    packets::register(module)?;
    record_fields::register(module)?;
    schedule::register(module)?;
    // Kept by PyO3 as names are added; `_core.pyi` is the list of them.
    module.delattr("__all__")
}
