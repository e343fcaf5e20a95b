//! Results of a run.

use crate::counters::{Counters, LinkCounters};
use crate::events::PacketEvent;
use crate::flow::PacketFlowId;
use crate::programs::ProgramReport;
use crate::topology::PacketLinkId;
use lightloom_kernel::RunHash;
use lightloom_model::{Bytes, Duration, Time};

/// A flow that has finished.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FlowOutcome {
    /// Its index in the list of flows.
    pub flow: PacketFlowId,
    /// When it started.
    pub start: Time,
    /// When the receiver had everything.
    pub received_at: Time,
    /// When the sender knew that.
    pub done_at: Time,
    /// From its start until the receiver had everything, over the time that this would have taken
    /// on an idle network ([`crate::Core::ideal_time`]).
    pub slowdown: f64,
}

/// One link over the whole run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkReport {
    /// Bytes that it sent.
    pub sent: Bytes,
    /// Maximum of the data in its queue.
    pub peak_queue: Bytes,
    /// Counters of its events.
    pub counters: LinkCounters,
}

/// One layer of links in one period.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LayerSample {
    /// Begin of the period.
    pub begin: Time,
    /// Its end, at which queues are sampled.
    pub end: Time,
    /// Index into [`Samples::layers`].
    pub layer: u8,
    /// Bytes that came out of the links of the layer, in total.
    pub carried: Bytes,
    /// That, over what their rates allow.
    pub mean_utilization: f64,
    /// The same of the busiest link.
    pub max_utilization: f64,
    /// That link.
    pub busiest: PacketLinkId,
    /// Mean over the links of the bytes in their queues.
    pub mean_queue_bytes: f64,
    /// The longest queue.
    pub max_queue: Bytes,
    /// The link of that queue.
    pub longest: PacketLinkId,
}

/// Queues and utilization over time.
///
/// When there are too many periods, neighbors are merged and later ones last twice as long: carried
/// bytes add up, means are means over the time, and maxima, with their links, are the maxima of
/// those that were merged.
#[derive(Debug, Clone, PartialEq)]
pub struct Samples {
    /// Names of the layers.
    pub layers: Vec<String>,
    /// Length of all periods but the last.
    pub period: Duration,
    /// One per period and layer, in this order.
    pub rows: Vec<LayerSample>,
}

/// A link or a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Carrier {
    /// A link.
    Link(PacketLinkId),
    /// A flow.
    Flow(PacketFlowId),
}

/// A link or flow in one period in which something moved or waited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeriesRow {
    /// Number of the period, from 0 on.
    pub period: u32,
    /// What it is about.
    pub of: Carrier,
    /// Bytes that came out of the link; payload that the receiver of the flow got.
    pub bytes: Bytes,
    /// Maximum of the data that waited for the link; 0 for flows.
    pub peak_queue: Bytes,
}

/// Series over time of every link and flow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Series {
    /// Length of all periods but the last, which ends with the run.
    pub period: Duration,
    /// In the order of periods; links before flows, each by number.
    pub rows: Vec<SeriesRow>,
}

/// A run that ended, or reached the time at which it should stop.
#[derive(Debug, Clone)]
pub struct Report {
    /// Simulated time at the end.
    pub end: Time,
    /// All links.
    pub links: Vec<LinkReport>,
    /// Sums over all links.
    pub totals: LinkCounters,
    /// Packet-hops and events.
    pub counters: Counters,
    /// Maximum number of packets in the network at one time; of two threads, of each half apart.
    pub peak_packets: u64,
    /// Why one thread ran it though two were requested.
    pub undivided: Option<&'static str>,
    /// What makes the network slower or better than any that is built, a sentence each.
    pub remarks: Vec<String>,
    /// Flows that had not finished by the end.
    pub unfinished: Vec<PacketFlowId>,
    /// Payload of each of these that its receiver has.
    pub unfinished_received: Vec<Bytes>,
    /// Hash of all completions and the final counters: same input, same hash.
    pub hash: RunHash,
    /// When operations began and ended; empty without programs.
    pub programs: ProgramReport,
    /// Queues and utilization over time, if requested.
    pub samples: Option<Samples>,
    /// Every link and flow over time, if requested.
    pub series: Option<Series>,
    /// The first packet events in order of time; empty unless requested.
    pub events: Vec<PacketEvent>,
}
