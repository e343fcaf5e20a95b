//! What comes out of a run.

use crate::core::{Counters, LinkCounters};
use crate::flow::FlowId;
use crate::packet::Kind;
use crate::topology::LinkId;
use lightloom_kernel::TraceHash;
use lightloom_model::{Bytes, Duration, Time};

/// A flow that has finished.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FlowOutcome {
    /// Flow: its place in the list of flows.
    pub flow: FlowId,
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
    /// What it sent.
    pub sent: Bytes,
    /// Most data that ever waited in its queue.
    pub peak_queue: Bytes,
    /// How often what happened.
    pub counters: LinkCounters,
}

/// One layer of links in one period.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// Begin of the period.
    pub begin: Time,
    /// Its end, at which queues are looked at.
    pub end: Time,
    /// Place among [`Samples::layers`].
    pub layer: u8,
    /// What came out of the links of the layer, all together.
    pub carried: Bytes,
    /// That, over what their rates allow.
    pub mean_utilisation: f64,
    /// The same of the one link that had most to do.
    pub max_utilisation: f64,
    /// That link.
    pub busiest: LinkId,
    /// Mean over the links of what waits in their queues, in bytes.
    pub mean_queue_bytes: f64,
    /// The longest queue.
    pub max_queue: Bytes,
    /// The link that it is before.
    pub longest: LinkId,
}

/// Queues and utilisation over time.
///
/// When there are too many periods, neighbours are merged and later ones last twice as long: what
/// was carried adds up, means are means over the time, and the greatest values, with the links,
/// are the greatest of those that were merged.
#[derive(Debug, Clone, PartialEq)]
pub struct Samples {
    /// Names of the layers.
    pub layers: Vec<String>,
    /// Length of all periods but the last.
    pub period: Duration,
    /// One per period and layer, in this order.
    pub rows: Vec<Sample>,
}

/// What happened to a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    /// A link began to send it.
    Sent,
    /// The last bit of it came over a link, to a node that passes it on.
    Arrived,
    /// The last bit of it came over a link, to the host that it is for.
    Delivered,
    /// It found the queue of a link full and is lost.
    Dropped,
    /// It found the queue of a link full, or was the last there, and lost its payload.
    Trimmed,
    /// It was marked (ECN) at the queue of a link.
    Marked,
}

/// An event in the life of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketEvent {
    /// When.
    pub time: Time,
    /// What happened.
    pub what: What,
    /// Where.
    pub link: LinkId,
    /// Flow of the packet.
    pub flow: FlowId,
    /// Its number: of data, in the flow; of others, what the transport makes of it.
    pub number: u32,
    /// What it is.
    pub kind: Kind,
}

/// A run that came to its end, or to the time at which it should stop.
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
    /// Most packets that there were at one time.
    pub peak_packets: u64,
    /// Flows that had not finished by the end.
    pub unfinished: Vec<FlowId>,
    /// Of all completions and the final counters: same input, same hash.
    pub hash: TraceHash,
    /// Queues and utilisation, if asked for.
    pub samples: Option<Samples>,
    /// The first events in the lives of packets in order of time; empty unless asked for.
    pub trace: Vec<PacketEvent>,
}
