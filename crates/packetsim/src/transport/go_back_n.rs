//! Go-back-N, as reliable connections over RoCE recover (InfiniBand specification, 9.7).
//!
//! The receiver takes packets in order only and acknowledges each, cumulatively; of packets behind
//! a gap it drops all and asks for the first missing one once, until that comes. The sender then
//! begins again from there, and does so, too, when nothing has been acknowledged for a timeout.
//! Where nothing is ever lost (PFC, endless queues) no timer is set.

use super::prefetch_end;
use crate::core::Core;
use crate::packet::{Kind, Packet};
use lightloom_model::Duration;

/// The sending end of a flow.
#[derive(Debug, Clone, Copy, Default)]
struct Sender {
    /// First packet that is not acknowledged.
    first: u32,
    /// Next packet to send.
    next: u32,
    /// Packets of the flow.
    packets: u32,
    /// When an acknowledgement last brought something new, or the packet `first` was sent.
    progress: u64,
    has_timer: bool,
}

/// The receiving end of a flow.
#[derive(Debug, Clone, Copy, Default)]
struct Receiver {
    expected: u32,
    /// Whether it has asked for that packet.
    has_asked: bool,
}

/// What all flows have sent and got.
#[derive(Debug, Clone)]
pub(super) struct GoBackN {
    senders: Vec<Sender>,
    receivers: Vec<Receiver>,
    /// In ps; `None` where nothing is lost.
    timeout: Option<u64>,
}

impl GoBackN {
    pub(super) fn new(core: &Core, timeout: Duration) -> Self {
        let config = core.config();
        let is_lossless = config.pfc.is_some() || config.queue_bytes == u32::MAX;
        Self {
            senders: Vec::new(),
            receivers: Vec::new(),
            timeout: (!is_lossless).then_some(timeout.0),
        }
    }

    pub(super) fn start(&mut self, core: &Core, flow: u32) {
        let needed = self.senders.len().max(flow as usize + 1);
        self.senders.resize(needed, Sender::default());
        self.receivers.resize(needed, Receiver::default());
        self.senders[flow as usize].packets = core.flow(flow).packets;
    }

    /// Asks for what will be looked at when a packet arrives.
    #[inline]
    pub(super) fn prefetch(&self, packet: &Packet) {
        prefetch_end(packet, &self.senders, &self.receivers);
    }

    /// Whether a flow has something to send.
    #[inline]
    pub(super) fn has_more(&self, flow: u32) -> bool {
        let sender = &self.senders[flow as usize];
        sender.next < sender.packets
    }

    /// The next packet of a flow that has more.
    #[inline]
    pub(super) fn send(&mut self, core: &mut Core, flow: u32) -> u32 {
        let sender = &mut self.senders[flow as usize];
        let number = sender.next;
        sender.next += 1;
        if let Some(timeout) = self.timeout {
            if number == sender.first {
                sender.progress = core.now();
            }
            if !std::mem::replace(&mut sender.has_timer, true) {
                core.set_timer(flow, core.now() + timeout, 0);
            }
        }
        core.new_data(flow, number, 0)
    }

    /// Sees to a packet that arrived at `nic`; returns whether its flow has to go back.
    #[inline]
    pub(super) fn receive(&mut self, core: &mut Core, nic: u32, packet: Packet) -> bool {
        match packet.kind {
            Kind::Data => {
                self.data(core, nic, packet);
                false
            }
            Kind::Ack => {
                self.advance(core, packet);
                false
            }
            Kind::Nack => {
                self.advance(core, packet);
                let sender = &mut self.senders[packet.flow as usize];
                let is_news = packet.number == sender.first && sender.next > sender.first;
                if is_news {
                    sender.next = sender.first;
                }
                is_news
            }
            _ => false,
        }
    }

    /// A flow's timer runs out; returns whether it has to go back.
    pub(super) fn timer(&mut self, core: &mut Core, flow: u32) -> bool {
        let timeout = self.timeout.expect("timers are set where packets are lost");
        let sender = &mut self.senders[flow as usize];
        sender.has_timer = false;
        if sender.next == sender.first {
            return false;
        }
        let deadline = sender.progress + timeout;
        if core.now() < deadline {
            sender.has_timer = true;
            core.set_timer(flow, deadline, 0);
            return false;
        }
        sender.next = sender.first;
        true
    }

    #[inline]
    fn data(&mut self, core: &mut Core, nic: u32, packet: Packet) {
        let receiver = &mut self.receivers[packet.flow as usize];
        let mut kind = Kind::Ack;
        if packet.number == receiver.expected {
            receiver.expected += 1;
            receiver.has_asked = false;
            core.received(packet.flow);
        } else if packet.number > receiver.expected {
            if std::mem::replace(&mut receiver.has_asked, true) {
                return;
            }
            kind = Kind::Nack;
        }
        core.send_control(nic, kind, packet.flow, (receiver.expected, 0), (0, 0));
    }

    #[inline]
    fn advance(&mut self, core: &mut Core, packet: Packet) {
        let sender = &mut self.senders[packet.flow as usize];
        if packet.number <= sender.first {
            return;
        }
        sender.first = packet.number;
        sender.next = sender.next.max(packet.number);
        sender.progress = core.now();
        if packet.number == sender.packets {
            core.finish(packet.flow);
        }
    }
}
