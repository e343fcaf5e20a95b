//! Plays the task graph of a training step over a network.
//!
//! Workers play their programs; collectives become flows over the links of the network
//! ([`lower`], `fabric`); regional circuits follow the demand as
//! `lightloom-decide` says ([`circuits`]); the outcome says how long the step took and why.
//!
//! Assumes one compute stream per worker that collectives do not slow down, and NICs, switches and
//! circuits that share max-min fairly. Leaves out packets and queues, stragglers other than those
//! of the routing, and contention on NVSwitch, but for relays.

mod check;
pub mod circuits;
mod critical_path;
mod engine;
mod error;
mod fabric;
mod ledger;
pub mod lower;
mod medium;
mod model;
mod outcome;
mod packets;
mod phases;
mod seats;
mod slab;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod timeline;

pub use check::{ring_edge_bytes, ring_steps};
pub use circuits::custom::Plugins;
pub use circuits::record::{DecisionRecord, Decisions};
pub use critical_path::{CATEGORIES, CriticalPath};
pub use error::ExecuteError;
pub use ledger::{CARRIER_NAMES, Ledger, Purpose};
pub use model::Model;
pub use outcome::{CircuitStatistics, LinkUse, Options, Outcome};
pub use packets::PacketOptions;
pub use phases::{PhaseBook, PhaseCount};
pub use timeline::{CircuitTimeline, Snapshot, Timeline};

use lightloom_kernel::Observer;
use lightloom_model::{Network, TaskGraph};

/// Plays one step with fluid flows; see [`execute_as`].
///
/// # Errors
/// As [`execute_as`].
pub fn execute(
    graph: &TaskGraph,
    network: &Network,
    options: &Options,
    observer: &mut dyn Observer,
) -> Result<Outcome, ExecuteError> {
    execute_as(Model::Flows, graph, network, options, observer, Plugins::default())
}

/// Plays one step.
///
/// The observer is told every 50,000 events how many tasks (over all workers) are done. Plug-ins,
/// if there are any, propose circuits and predict demand.
///
/// # Errors
/// If the input is invalid, workers wait for each other for ever, bytes are not conserved, or the
/// observer asks to stop; also if a plug-in refuses, or its circuits cannot be.
pub fn execute_as<'a>(
    model: Model<'a>,
    graph: &'a TaskGraph,
    network: &'a Network,
    options: &Options,
    observer: &mut dyn Observer,
    plugins: Plugins<'a>,
) -> Result<Outcome, ExecuteError> {
    let mut engine = engine::Engine::new(graph, network, options, model)?;
    engine.plug_in(plugins);
    engine.run(observer)
}

/// Tasks of a step over all workers: what the observer's count goes up to.
pub fn total_tasks(graph: &TaskGraph) -> u64 {
    let per_stage = u64::from(graph.layout.replicas) * u64::from(graph.layout.members);
    graph.programs.iter().map(|program| program.tasks.len() as u64 * per_stage).sum()
}
