//! Scenarios: a network, flows, and what to observe.

use crate::config::Config;
use crate::events::EventLogging;
use crate::failure::Failure;
use crate::flow::FlowSpec;
use crate::programs::Programs;
use crate::sampling::Sampling;
use crate::series::SeriesSampling;
use crate::topology::{PacketLinkId, Topology};
use crate::transport::TransportKind;
use lightloom_model::Time;

/// A circuit that goes dark or comes up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CircuitSwitching {
    /// When; flows that start at that time find it changed.
    pub time: Time,
    /// One direction of the circuit; packets on it still arrive, its queue waits.
    pub link: PacketLinkId,
    /// Whether it goes dark.
    pub dark: bool,
}

/// The complete input of a run.
#[derive(Debug, Clone)]
pub struct PacketScenario {
    /// Hosts, switches, links.
    pub topology: Topology,
    /// Packets, queues, paths.
    pub config: Config,
    /// What is sent when.
    pub transport: TransportKind,
    /// Flows.
    pub flows: Vec<FlowSpec>,
    /// What decides when flows start, for those that do not start at a time.
    pub programs: Programs,
    /// Whether the paths of a flow are drawn by the NICs at its ends, not by its number.
    pub hashes_ends: bool,
    /// Changes of circuits.
    pub circuits: Vec<CircuitSwitching>,
    /// Failures of links.
    pub failures: Vec<Failure>,
    /// Whether to sample queues and links over time.
    pub sampling: Option<Sampling>,
    /// Whether to keep series over time of every link and flow.
    pub series: Option<SeriesSampling>,
    /// Whether to record packet events.
    pub event_logging: Option<EventLogging>,
    /// Whether to use two threads, where possible: same results, but for [`Report::peak_packets`].
    ///
    /// [`Report::peak_packets`]: crate::Report::peak_packets
    pub in_halves: bool,
    /// When to stop, though flows may be unfinished.
    pub until: Time,
}
