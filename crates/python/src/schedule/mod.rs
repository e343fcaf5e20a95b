//! The functions of `lightloom.schedule`, one file per family of schedulers.

mod allocation;
mod chunks;
mod coloring;
pub(crate) mod decider;
mod hybrid;
mod indices;
mod matching;
mod permutation;
mod planes;
mod relay;
mod steps;
mod systems;
mod topoopt;

use pyo3::prelude::*;

/// Adds the functions to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    allocation::register(module)?;
    chunks::register(module)?;
    coloring::register(module)?;
    decider::register(module)?;
    hybrid::register(module)?;
    matching::register(module)?;
    permutation::register(module)?;
    planes::register(module)?;
    relay::register(module)?;
    steps::register(module)?;
    systems::register(module)?;
    topoopt::register(module)
}
