//! Packet-level network: store-and-forward switches, queues in bytes, transports.
//!
//! Hosts and switches are joined by links with a rate and a delay ([`Topology`]); a packet waits in
//! the queue of a link, is sent, arrives as a whole, and goes on. Transmission times are exact to
//! the picosecond. Queues mark (ECN), drop, trim, or pause the sender (PFC), see [`Config`]; paths
//! are shortest ones chosen by hash per flow or per packet, or explicit. What is sent when is up to
//! the [`transport`].
//!
//! [`simulate`] plays a whole [`PacketScenario`]; [`Simulation`] is for those who add flows
//! during a run.
//!
//! Assumes switches that forward in no time and share their buffers without limit between ports,
//! and hosts that answer at once. Leaves out corruption, cut-through, and all but two priorities.

#![warn(unreachable_pub)]
#![allow(clippy::inline_always, reason = "what each hop calls from two places: 8 % of the time")]

pub mod config;
mod counters;
mod error;
mod events;
mod failure;
mod flow;
mod hash;
mod memory;
mod network;
mod packet;
mod planes;
pub mod presets;
mod programs;
mod remarks;
mod report;
mod run;
mod sampling;
mod scenario;
mod scenes;
mod series;
mod stall;
mod topology;
pub mod transport;

pub use config::{
    Balancing, Config, EarlyDrop, Ecn, Marking, Overflow, PathChoice, Pfc, SharedBuffer,
};
pub use counters::{Counters, LinkCounters};
pub use error::PacketError;
pub use events::{EventKind, EventLogging, PacketEvent};
pub use failure::Failure;
pub use flow::{Endpoints, FlowProgress, FlowSpec, PacketFlowId};
pub use network::any::{AnySimulation, RepeatableSimulation};
pub use network::core::Core;
pub use network::engine::Simulation;
pub use network::halves::Balance;
pub use network::telemetry::Stamp;
pub use packet::{
    Control, ECHO, HIGHEST_PRIORITY, MARKED, Packet, PacketId, PacketKind, TRANSPORT_A, TRANSPORT_B,
};
pub use planes::{PlaneChoice, PlaneTurns};
pub use programs::{Action, Milestone, ProgramReport, Programs, Wait};
pub use report::{
    Carrier, FlowOutcome, LayerSample, LinkReport, Report, Samples, Series, SeriesRow,
};
pub use run::{RunningScenario, simulate};
pub use sampling::Sampling;
pub use scenario::{CircuitSwitching, PacketScenario, TrafficClass};
pub use scenes::{SceneHops, Scenes};
pub use series::SeriesSampling;
pub use topology::{Cable, Dragonfly, LinkSpec, NicId, NodeId, PacketLinkId, Topology};
pub use transport::{Extent, Recovery, TransportKind, TransportName, fitted, profile};

#[cfg(test)]
mod tests;
