//! A whole run in one call: a network and flows in, a report out.

use crate::config::Config;
use crate::error::PacketError;
use crate::flow::FlowSpec;
use crate::profile::TransportKind;
use crate::report::{FlowOutcome, Report};
use crate::run::Run;
use crate::topology::{LinkId, Topology};
use lightloom_kernel::Observer;
use lightloom_model::{Duration, Time};

/// A circuit that goes dark or comes up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CircuitChange {
    /// When; flows that start at that time find it done.
    pub time: Time,
    /// One direction of the circuit; what is on it still arrives, its queue waits.
    pub link: LinkId,
    /// Whether it goes dark.
    pub dark: bool,
}

/// Looks at queues and links in regular periods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sampling {
    /// Length of a period, to begin with.
    pub every: Duration,
    /// Most periods to keep; beyond, neighbours are merged and the period doubles.
    pub most: usize,
}

/// Records what happens to packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tracing {
    /// Only so many events, the first.
    pub first: usize,
    /// Only this flow.
    pub flow: Option<u32>,
}

/// Everything that a run depends on.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// Hosts, switches, links.
    pub topology: Topology,
    /// Packets, queues, paths.
    pub config: Config,
    /// Who may send what when.
    pub transport: TransportKind,
    /// Flows.
    pub flows: Vec<FlowSpec>,
    /// Changes of circuits.
    pub circuits: Vec<CircuitChange>,
    /// Whether to look at queues and links over time.
    pub sampling: Option<Sampling>,
    /// Whether to record what happens to packets.
    pub tracing: Option<Tracing>,
    /// When to stop, though flows may be unfinished.
    pub until: Time,
}

/// Runs a scenario; `finished` gets the flows that finish at one time, as soon as they do.
///
/// # Errors
/// If the scenario makes no sense, if flows are stuck for ever, or if the observer asks to stop:
/// `finished` then has had all flows that had finished.
pub fn simulate(
    scenario: &Scenario,
    observer: &mut dyn Observer,
    finished: &mut dyn FnMut(&[FlowOutcome]),
) -> Result<Report, PacketError> {
    Run::new(scenario)?.play(observer, finished)
}
