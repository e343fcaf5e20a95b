//! Packet-level network: store-and-forward switches, queues in bytes, transports.
//!
//! Hosts and switches are joined by links with a rate and a delay ([`Topology`]); a packet waits in
//! the queue of a link, is sent, arrives as a whole, and goes on. Transmission times are exact to
//! the picosecond. Queues mark (ECN), drop, trim, or pause the sender (PFC), see [`Config`]; paths
//! are shortest ones chosen by hash per flow or per packet, or explicit. What is sent when is up to
//! the [`transport`].
//!
//! [`simulate`] plays a whole [`Scenario`]; [`Simulation`] is for those who add flows while it
//! runs.
//!
//! Assumes switches that forward in no time and share their buffers without limit between ports,
//! and hosts that answer at once. Leaves out corruption, cut-through, and all but two priorities.

#![allow(clippy::inline_always, reason = "what each hop calls from two places: 8 % of the time")]

mod agenda;
pub mod config;
mod core;
mod engine;
mod error;
mod flow;
mod look;
mod memory;
mod network;
mod packet;
mod pfc;
pub mod presets;
mod profile;
mod report;
mod routing;
mod run;
mod sampling;
mod scenario;
mod stuck;
mod topology;
mod trace;
pub mod transport;

pub use config::{Config, Ecn, Marking, Overflow, Paths, Pfc};
pub use core::{Core, Counters, LinkCounters};
pub use engine::Simulation;
pub use error::PacketError;
pub use flow::{Flow, FlowId, FlowSpec};
pub use network::Network;
pub use packet::{ECHO, Kind, MARKED, Packet, TRANSPORT_A, TRANSPORT_B};
pub use profile::{TransportKind, TransportName, profile};
pub use report::{FlowOutcome, LinkReport, PacketEvent, Report, Sample, Samples, What};
pub use run::Run;
pub use scenario::{CircuitChange, Sampling, Scenario, Tracing, simulate};
pub use topology::{LinkId, LinkSpec, NicId, NodeId, Topology};

#[cfg(test)]
mod tests;
