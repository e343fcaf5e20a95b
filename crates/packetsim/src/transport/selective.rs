//! Selective repeat: NICs that place data where it belongs in whatever order it arrives, and send
//! again what is missing alone (UEC, 1.0; direct data placement of iWARP, RFC 5041).
//!
//! The receiver acknowledges every packet by its own number. Where packets of a flow keep their
//! order, one that arrives behind a gap shows that those in the gap are lost, and the receiver
//! reports each at once. Where they overtake each other nothing shows that but time: a packet that
//! is not acknowledged for a timeout is sent again.
//! What the transport wrote into [`Packet::value`] comes back with the acknowledgement.

use super::interface::prefetch_end;
use super::ledger::Ledger;
use super::table::PerFlow;
use crate::flow::PacketFlowId;
use crate::network::core::Core;
use crate::packet::{Control, Packet, PacketId, PacketKind, TRANSPORT_A};
use crate::topology::NicId;
use lightloom_model::Duration;

/// In acknowledgements: the receiver has all packets.
const COMPLETE: u8 = TRANSPORT_A;

/// The sending end of a flow.
#[derive(Debug, Clone, Copy, Default)]
struct Sender {
    /// Packets that are acknowledged.
    arrived: u32,
    /// Packets that are neither acknowledged nor known to be lost.
    in_flight: u32,
    has_timer: bool,
    /// Whether the first time to look for overdue packets was found to be late enough.
    is_timed: bool,
}

/// What all flows have sent and received.
#[derive(Debug, Clone)]
pub(super) struct SelectiveRepeat {
    ledger: Ledger,
    senders: PerFlow<Sender>,
    /// One behind the last packet that has arrived, where packets keep their order.
    ends: PerFlow<u32>,
    is_ordered: bool,
    /// `None` where nothing is lost.
    timeout: Option<Duration>,
}

impl SelectiveRepeat {
    /// In a network that keeps packets in order or does not, and with a timeout where it loses any.
    pub(super) fn new(is_ordered: bool, timeout: Option<Duration>) -> Self {
        Self {
            ledger: Ledger::default(),
            senders: PerFlow::default(),
            ends: PerFlow::default(),
            is_ordered,
            timeout,
        }
    }

    pub(super) fn expect(&mut self, core: &Core, flow: PacketFlowId) {
        self.ledger.open(flow, core.flow(flow).packets);
        self.ends.make_room(flow, 0);
    }

    pub(super) fn start(&mut self, core: &Core, flow: PacketFlowId) {
        self.expect(core, flow);
        self.senders.make_room(flow, Sender::default());
    }

    #[inline]
    pub(super) fn prefetch(&self, packet: &Packet) {
        self.ledger.prefetch(packet.flow);
        prefetch_end(packet, &self.senders, &self.ends);
    }

    #[inline]
    pub(super) fn has_more(&self, flow: PacketFlowId) -> bool {
        self.ledger.unsent(flow) > 0 || self.ledger.lost(flow) > 0
    }

    #[inline]
    pub(super) fn span(&self, flow: PacketFlowId) -> (u32, u32) {
        let sender = &self.senders[flow];
        (sender.arrived, sender.arrived + sender.in_flight)
    }

    /// The next packet of a flow; `None` if all that it was to send again have arrived meanwhile.
    #[inline]
    pub(super) fn send(&mut self, core: &mut Core, flow: PacketFlowId) -> Option<PacketId> {
        let sending = self.ledger.next(flow)?;
        self.ledger.send(flow, sending);
        let sender = &mut self.senders[flow];
        sender.in_flight += 1;
        if let Some(timeout) = self.timeout
            && !std::mem::replace(&mut sender.has_timer, true)
        {
            core.set_timer(flow, core.now() + timeout);
        }
        Some(core.new_data(flow, sending.sequence, 0))
    }

    /// Processes a packet that arrived at `nic`; returns whether something is to be sent again.
    #[inline]
    pub(super) fn receive(&mut self, core: &mut Core, nic: NicId, packet: Packet) -> bool {
        let (flow, sequence) = (packet.flow, packet.sequence);
        match packet.kind {
            PacketKind::Data => self.data(core, nic, packet),
            PacketKind::Ack if packet.flags & COMPLETE != 0 => {
                let sender = &mut self.senders[flow];
                *sender = Sender { arrived: core.flow(flow).packets, in_flight: 0, ..*sender };
                self.ledger.close(flow);
                core.complete(flow);
            }
            PacketKind::Ack => {
                let was_in_flight = u32::from(self.ledger.acknowledge_one(flow, sequence));
                let sender = &mut self.senders[flow];
                sender.in_flight -= was_in_flight;
                sender.arrived += was_in_flight;
            }
            PacketKind::Nack => {
                let is_new = self.ledger.lose(flow, sequence);
                self.senders[flow].in_flight -= u32::from(is_new);
                return is_new;
            }
            _ => {}
        }
        false
    }

    /// A flow's timer expires; returns whether something is to be sent again.
    pub(super) fn timer(&mut self, core: &mut Core, flow: PacketFlowId) -> bool {
        let timeout = self.timeout.expect("timers are set where packets are lost");
        let sender = &mut self.senders[flow];
        sender.has_timer = false;
        if core.flow(flow).is_done() {
            return false;
        }
        // Over a long link an acknowledgement may take longer than NICs wait by default.
        let span = timeout.max(Duration(2 * core.round_trip(flow).0));
        let expired = if sender.is_timed { self.ledger.expire(flow) } else { 0 };
        let sender = &mut self.senders[flow];
        sender.is_timed = true;
        sender.in_flight -= expired;
        sender.has_timer = true;
        core.set_timer(flow, core.now() + span);
        expired > 0
    }

    #[inline]
    fn data(&mut self, core: &mut Core, nic: NicId, packet: Packet) {
        let (flow, sequence, value) = (packet.flow, packet.sequence, packet.value);
        if self.ledger.receive(flow, sequence) {
            core.receive(flow);
        }
        let end = &mut self.ends[flow];
        if self.is_ordered && sequence >= *end {
            for missing in *end..sequence {
                let nack = Control::new(PacketKind::Nack, flow);
                core.send_control(nic, Control { sequence: missing, ..nack });
            }
            *end = sequence + 1;
        }
        let is_complete = self.ledger.expected(flow) == core.flow(flow).packets;
        let flags = if is_complete { COMPLETE } else { 0 };
        let ack = Control { sequence, value, flags, ..Control::new(PacketKind::Ack, flow) };
        core.send_control(nic, ack);
    }
}
