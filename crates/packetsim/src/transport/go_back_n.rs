//! Go-back-N, as reliable connections over RoCE recover (InfiniBand specification, 9.7).
//!
//! The receiver accepts packets in order only and acknowledges each, cumulatively; it drops packets
//! behind a gap and sends one negative acknowledgement, for the first missing one, per gap. The
//! sender then continues from there, as it does when nothing has been acknowledged for a timeout.
//! What the transport wrote into [`Packet::value`] comes back with the acknowledgement.
//! Where nothing is ever lost (PFC, endless queues) or out of order no timer is set.

use super::interface::prefetch_end;
use super::table::PerFlow;
use crate::flow::PacketFlowId;
use crate::network::core::Core;
use crate::packet::{Control, Packet, PacketId, PacketKind};
use crate::topology::NicId;
use lightloom_model::{Duration, Time};

/// The sending end of a flow.
#[derive(Debug, Clone, Copy, Default)]
struct Sender {
    /// First packet that is not acknowledged.
    first: u32,
    /// Next packet to send.
    next: u32,
    /// Packets of the flow.
    packets: u32,
    /// When an acknowledgement was last new, or the packet `first` was sent.
    progress: Time,
    has_timer: bool,
}

/// The receiving end of a flow.
#[derive(Debug, Clone, Copy, Default)]
struct Receiver {
    expected: u32,
    /// Whether it has reported that packet missing.
    has_reported: bool,
}

/// What all flows have sent and received.
#[derive(Debug, Clone)]
pub(super) struct GoBackN {
    senders: PerFlow<Sender>,
    receivers: PerFlow<Receiver>,
    /// `None` where nothing is lost.
    timeout: Option<Duration>,
}

impl GoBackN {
    /// With a timeout where packets are lost or overtake each other.
    pub(super) fn new(timeout: Option<Duration>) -> Self {
        Self { senders: PerFlow::default(), receivers: PerFlow::default(), timeout }
    }

    pub(super) fn expect(&mut self, _core: &Core, flow: PacketFlowId) {
        self.receivers.make_room(flow, Receiver::default());
    }

    pub(super) fn start(&mut self, core: &Core, flow: PacketFlowId) {
        self.expect(core, flow);
        self.senders.make_room(flow, Sender::default());
        self.senders[flow].packets = core.flow(flow).packets;
    }

    #[inline]
    pub(super) fn prefetch(&self, packet: &Packet) {
        prefetch_end(packet, &self.senders, &self.receivers);
    }

    #[inline]
    pub(super) fn has_more(&self, flow: PacketFlowId) -> bool {
        let sender = &self.senders[flow];
        sender.next < sender.packets
    }

    /// The first packet that is not acknowledged, and the next one to send.
    #[inline]
    pub(super) fn span(&self, flow: PacketFlowId) -> (u32, u32) {
        let sender = &self.senders[flow];
        (sender.first, sender.next)
    }

    #[inline]
    pub(super) fn send(&mut self, core: &mut Core, flow: PacketFlowId) -> Option<PacketId> {
        let sender = &mut self.senders[flow];
        if sender.next == sender.packets {
            return None;
        }
        let sequence = sender.next;
        sender.next += 1;
        if let Some(timeout) = self.timeout {
            if sequence == sender.first {
                sender.progress = core.now();
            }
            if !std::mem::replace(&mut sender.has_timer, true) {
                core.set_timer(flow, core.now() + timeout);
            }
        }
        Some(core.new_data(flow, sequence, 0))
    }

    /// Processes a packet that arrived at `nic`; returns whether its flow has to go back.
    #[inline]
    pub(super) fn receive(&mut self, core: &mut Core, nic: NicId, packet: Packet) -> bool {
        match packet.kind {
            PacketKind::Data => {
                self.data(core, nic, packet);
                false
            }
            PacketKind::Ack => {
                self.advance(core, packet);
                false
            }
            PacketKind::Nack => {
                self.advance(core, packet);
                let sender = &mut self.senders[packet.flow];
                let is_new = packet.sequence == sender.first && sender.next > sender.first;
                if is_new {
                    sender.next = sender.first;
                }
                is_new
            }
            _ => false,
        }
    }

    /// A flow's timer expires; returns whether it has to go back.
    pub(super) fn timer(&mut self, core: &mut Core, flow: PacketFlowId) -> bool {
        let timeout = self.timeout.expect("timers are set where packets are lost");
        let sender = &mut self.senders[flow];
        sender.has_timer = false;
        if sender.next == sender.first {
            return false;
        }
        let mut deadline = sender.progress + timeout;
        if core.now() >= deadline {
            // Over a long link an acknowledgement may take longer than NICs wait by default.
            deadline = sender.progress + timeout.max(Duration(2 * core.round_trip(flow).0));
        }
        if core.now() < deadline {
            sender.has_timer = true;
            core.set_timer(flow, deadline);
            return false;
        }
        sender.next = sender.first;
        true
    }

    #[inline]
    fn data(&mut self, core: &mut Core, nic: NicId, packet: Packet) {
        let receiver = &mut self.receivers[packet.flow];
        let mut kind = PacketKind::Ack;
        if packet.sequence == receiver.expected {
            receiver.expected += 1;
            receiver.has_reported = false;
            core.receive(packet.flow);
        } else if packet.sequence > receiver.expected {
            if std::mem::replace(&mut receiver.has_reported, true) {
                return;
            }
            kind = PacketKind::Nack;
        }
        let (sequence, value) = (receiver.expected, packet.value);
        core.send_control(nic, Control { sequence, value, ..Control::new(kind, packet.flow) });
    }

    #[inline]
    fn advance(&mut self, core: &mut Core, packet: Packet) {
        let sender = &mut self.senders[packet.flow];
        if packet.sequence <= sender.first {
            return;
        }
        sender.first = packet.sequence;
        sender.next = sender.next.max(packet.sequence);
        sender.progress = core.now();
        if packet.sequence == sender.packets {
            core.complete(packet.flow);
        }
    }
}
