//! Packets: 32 bytes each.

use crate::flow::PacketFlowId;
use lightloom_model::Time;

/// The slot of a packet that is somewhere in the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketId(pub(crate) u32);

/// The type of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum PacketKind {
    /// Payload, to the receiver.
    Data,
    /// The header of data whose payload was trimmed, to the receiver.
    Header,
    /// Control, from the sender to the receiver.
    Request,
    /// Acknowledgement, to the sender.
    Ack,
    /// A packet is missing, to the sender.
    Nack,
    /// Permission to send, to the sender.
    Pull,
    /// Congestion notification, to the sender.
    Cnp,
}

impl PacketKind {
    /// Whether it goes from sender to receiver.
    #[inline]
    pub fn is_forward(self) -> bool {
        self as u8 <= Self::Request as u8
    }
}

/// Packet flag: it met a queue beyond the marking threshold.
pub const MARKED: u8 = 1;
/// Packet flag: the acknowledged data was marked.
pub const ECHO: u8 = 2;
/// Packet flag for the transport's use.
pub const TRANSPORT_A: u8 = 4;
/// Packet flag for the transport's use.
pub const TRANSPORT_B: u8 = 8;

/// Packet flag for switches: it goes to another group of a dragonfly first.
pub(crate) const DETOUR: u8 = 16;

/// The highest priority.
pub const HIGHEST_PRIORITY: u8 = 7;

/// Packet flags from here on are its priority.
const PRIORITY_SHIFT: u32 = 5;

/// The flags of a packet of a priority.
#[inline]
pub(crate) fn priority_flags(priority: u8) -> u8 {
    priority << PRIORITY_SHIFT
}

/// One packet.
#[derive(Debug, Clone, Copy)]
#[repr(align(32))]
pub struct Packet {
    /// On a wire: when the packet behind it, if there is one, reaches the far end. Kept here, so
    /// that the arrival of a packet need not load the next one.
    pub(crate) next_arrival: Time,
    /// Its flow.
    pub flow: PacketFlowId,
    /// Data: its sequence number in the flow, in packets. Control: defined by the transport.
    pub sequence: u32,
    /// Defined by the transport.
    pub value: u32,
    /// The packet behind it, if it is not the last of its chain.
    pub(crate) next: PacketId,
    /// Bytes on the wire.
    pub size: u16,
    /// Index of its path among the flow's equal ones; on an explicit route, the number of links
    /// that it has crossed.
    pub path: u16,
    /// Index, among the links into a switch, of the one over which it came.
    pub(crate) ingress: u16,
    /// Its type.
    pub kind: PacketKind,
    /// [`MARKED`], [`ECHO`], ..., and the priority.
    pub flags: u8,
}

impl Packet {
    /// The priority of its flow: queues send higher ones first.
    #[inline]
    pub fn priority(&self) -> u8 {
        self.flags >> PRIORITY_SHIFT
    }
}

/// What a transport puts into a control packet. The network uses its kind, flow and path alone.
#[derive(Debug, Clone, Copy)]
pub struct Control {
    /// Its type, anything but data.
    pub kind: PacketKind,
    /// Its flow.
    pub flow: PacketFlowId,
    /// [`Packet::sequence`].
    pub sequence: u32,
    /// [`Packet::value`].
    pub value: u32,
    /// [`Packet::path`].
    pub path: u16,
    /// [`Packet::flags`].
    pub flags: u8,
}

impl Control {
    /// A control packet with all other fields 0.
    #[inline]
    pub fn new(kind: PacketKind, flow: PacketFlowId) -> Self {
        Self { kind, flow, sequence: 0, value: 0, path: 0, flags: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_has_32_bytes() {
        assert_eq!(size_of::<Packet>(), 32);
    }

    #[test]
    fn data_headers_and_requests_go_to_the_receiver_and_all_else_to_the_sender() {
        use PacketKind::{Ack, Cnp, Data, Header, Nack, Pull, Request};
        assert!([Data, Header, Request].into_iter().all(PacketKind::is_forward));
        assert!(![Ack, Nack, Pull, Cnp].into_iter().any(PacketKind::is_forward));
    }
}
