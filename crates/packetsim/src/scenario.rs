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
use serde::Deserialize;

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

/// Flows with a transport of their own.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrafficClass {
    /// Packets, queues and paths of its flows; what is about the whole network is that of
    /// [`PacketScenario::config`].
    pub config: Config,
    /// What is sent when.
    pub transport: TransportKind,
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
    /// Classes of flows beyond the first, which is that of `config` and `transport`. With several,
    /// the flows of each are of one priority.
    pub classes: Vec<TrafficClass>,
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

impl PacketScenario {
    /// All classes of flows, in the order of [`FlowSpec::class`].
    pub(crate) fn all_classes(&self) -> impl Iterator<Item = TrafficClass> + '_ {
        let first = TrafficClass { config: self.config, transport: self.transport };
        [first].into_iter().chain(self.classes.iter().copied())
    }
}
