//! Plays the task graph of a training step over a network.
//!
//! Workers play their programs, stream by stream; collectives become flows over the links of the
//! network (`collective`, `lower`, [`network`], [`parts`]); regional circuits follow the demand
//! as `lightloom-decide` says (`circuits`); the outcome says how long the step took and why.
//!
//! Assumes streams of a worker that do not slow each other down, and NICs, switches and
//! circuits that share max-min fairly. Leaves out packets and queues, stragglers other than those
//! of the routing, and contention on NVSwitch, but for relays.

#![warn(unreachable_pub)]

mod check;
mod circuits;
mod collective;
mod critical_path;
mod demand;
mod engine;
mod error;
mod fabric;
mod implied;
mod in_flight;
mod index;
mod ledger;
mod links;
mod lower;
mod model;
pub mod network;
mod ocs;
mod options;
mod outcome;
mod packets;
pub mod parts;
mod phases;
mod recording;
mod slab;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod timeline;
mod turns;
mod ways;

pub use circuits::{CircuitStatistics, DecisionRecord, Decisions, Plugins};
pub use collective::{ring_edge_bytes, ring_steps};
pub use error::ExecuteError;
pub use in_flight::InFlight;
pub use ledger::{Ledger, PurposeBytes};
pub use links::LinkUse;
pub use model::TransferModel;
pub use network::Network;
pub use options::Options;
pub use outcome::{Outcome, RoleTimes};
pub use packets::{Extent, PacketTransport, PlaneFailure, Repeats};
pub use phases::{PhaseBook, PhaseChoice, PhaseCount};
pub use recording::{Moment, Operation, Recording, SentFlow, SentPackets};
pub use timeline::{CircuitTimeline, CriticalSpans, Snapshot, Timeline};
pub use turns::{CircuitTurn, TurnStatistics};

use lightloom_kernel::Observer;
use lightloom_model::TaskGraph;

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
    execute_as(TransferModel::Flows, graph, network, options, observer, Plugins::default())
}

/// Plays one step.
///
/// The observer is told every 50,000 events how many tasks (over all workers) are done. Plug-ins,
/// if there are any, propose circuits and predict demand.
///
/// # Errors
/// If the input is invalid, workers wait for each other for ever, bytes are not conserved, or the
/// observer asks to stop; also if a plug-in refuses, or its circuits cannot be.
pub fn execute_as(
    model: TransferModel<'_>,
    graph: &TaskGraph,
    network: &Network,
    options: &Options,
    observer: &mut dyn Observer,
    mut plugins: Plugins<'_>,
) -> Result<Outcome, ExecuteError> {
    let index = check::check(graph, network)?;
    let mut engine = engine::Engine::new(graph, &index, network, options, model)?;
    engine.plug_in(plugins.reborrow());
    engine.run(observer)
}

/// Tasks of a step over all workers: what the observer's count goes up to.
pub fn total_tasks(graph: &TaskGraph) -> u64 {
    graph.roles.iter().map(|role| role.tasks.len() as u64 * role.workers.len() as u64).sum()
}
