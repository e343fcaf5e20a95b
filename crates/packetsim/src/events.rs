//! Packet events: what a run can record of single packets.

use crate::flow::PacketFlowId;
use crate::packet::PacketKind;
use crate::topology::PacketLinkId;
use lightloom_model::Time;

/// Which packet events are recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventLogging {
    /// Maximum number of events; the first ones are kept.
    pub max_events: usize,
    /// Only those of this flow.
    pub flow: Option<PacketFlowId>,
}

/// The type of a packet event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventKind {
    /// A link began to send the packet.
    Sent,
    /// Its last bit came over a link, to a node that forwards it.
    Arrived,
    /// Its last bit came over a link, to the host that it is for.
    Delivered,
    /// It was dropped at the full queue of a link.
    Dropped,
    /// It was trimmed at the full queue of a link, on arrival or as the last packet there.
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
    pub event: EventKind,
    /// Where.
    pub link: PacketLinkId,
    /// Flow of the packet.
    pub flow: PacketFlowId,
    /// Sequence number of data in its flow; of other packets, defined by the transport.
    pub sequence: u32,
    /// Type of the packet.
    pub packet_kind: PacketKind,
}
