//! NDP: Handley et al., "Re-architecting datacenter networks and stacks for low latency and high
//! performance", SIGCOMM 2017.
//!
//! A sender sends a full window at line rate at once. Switches cut the payload off what does not
//! fit ([`crate::Overflow::Trim`]) and send headers and control packets first. The receiver answers
//! every packet at once (an acknowledgement) and every header (a negative one), and asks for one
//! more packet each time: by a *pull*, of which its NIC sends one per packet time, round robin
//! among flows. So after the first window, receivers decide who sends. Packets are sprayed over all
//! paths.
//!
//! Where no header is lost, timeouts are not needed. Here half of what a sender waits for in vain
//! is sent again after a timeout, the rest once that is pulled: the window that the network cannot
//! hold halves.

use super::ledger::Ledger;
use super::spray::{Spray, Walk};
use super::{ActiveFlows, Next, Transport, prefetch_end};
use crate::core::Core;
use crate::error::PacketError;
use crate::packet::{Kind, Packet, TRANSPORT_A};
use lightloom_model::{Bytes, Duration};

/// In an acknowledgement: everything has arrived.
const COMPLETE: u8 = TRANSPORT_A;

/// Parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NdpParameters {
    /// Packets that a flow sends before the first pull.
    pub window: u32,
    /// Rate of the pulls of a NIC, in percent of what its link carries; below 100 leaves room for
    /// retransmissions.
    pub pull_percent: u32,
    /// Time after which an unanswered packet is sent again; in silence up to 64 times as
    /// long.
    pub timeout: Duration,
}

/// How many times as long a silent network makes timeouts.
const MOST_PATIENCE: u64 = 64;

impl Default for NdpParameters {
    /// As in the public simulator of the authors (csg-htsim), and a timeout of six full queues at
    /// 100 Gb/s and 150 us.
    fn default() -> Self {
        Self { window: 50, pull_percent: 99, timeout: Duration(220_000_000) }
    }
}

impl NdpParameters {
    /// Checks that there are a window, pulls and a timeout.
    ///
    /// # Errors
    /// Says what was expected.
    pub fn validate(&self) -> Result<(), PacketError> {
        if self.window == 0 || !(1..=100).contains(&self.pull_percent) || self.timeout.0 == 0 {
            return Err(PacketError::invalid(format!(
                "NDP with a window of {} packets, pulls at {} % of the rate and a timeout of {} \
                 us; expected a window and timeout above 0 and 1 to 100 %",
                self.window,
                self.pull_percent,
                1e6 * self.timeout.as_seconds()
            )));
        }
        Ok(())
    }

    /// The longest time for which a sender is silent while it waits.
    pub(crate) fn longest_timeout(&self) -> Duration {
        Duration(self.timeout.0.saturating_mul(MOST_PATIENCE))
    }
}

/// The sending end of a flow.
#[derive(Debug, Clone, Copy, Default)]
struct Sender {
    /// Packets that it may send now.
    permits: u32,
    /// Pulls that are turned into permits.
    pulled: u32,
    /// Present time between looks at what is overdue, in ps.
    patience: u64,
    walk: Walk,
    /// Whether the receiver was heard of since the last look.
    is_heard: bool,
}

/// The receiving end of a flow.
#[derive(Debug, Clone, Copy, Default)]
struct Receiver {
    /// Pulls asked for.
    pulls: u32,
    /// Pulls that wait for their turn.
    waiting: u32,
    walk: Walk,
}

/// The pulls of a NIC.
#[derive(Debug, Clone, Copy)]
struct Pacer {
    interval: u64,
    /// When the next pull may be sent.
    free_at: u64,
    /// Pulls that wait, of all flows.
    waiting: u32,
}

/// State of the flows and NICs.
#[derive(Debug, Clone)]
pub struct Ndp {
    parameters: NdpParameters,
    ledger: Ledger,
    spray: Spray,
    senders: Vec<Sender>,
    receivers: Vec<Receiver>,
    pacers: Vec<Pacer>,
    /// Flows that have permits and something to send, by sending NIC.
    sending: ActiveFlows,
    /// Flows with pulls that wait, by receiving NIC.
    pulling: ActiveFlows,
}

impl Ndp {
    /// For the NICs of a network.
    ///
    /// # Errors
    /// If the parameters make no sense.
    pub fn new(core: &Core, parameters: NdpParameters) -> Result<Self, PacketError> {
        parameters.validate()?;
        let nics = core.nic_count();
        let pacer = |nic| {
            let full = Bytes(u64::from(core.config().packet_bytes()));
            let span = core.nic_rate(nic).transmission(full).0;
            let interval = span.saturating_mul(100) / u64::from(parameters.pull_percent);
            Pacer { interval, free_at: 0, waiting: 0 }
        };
        Ok(Self {
            parameters,
            ledger: Ledger::default(),
            spray: Spray::new(core.config()),
            senders: Vec::new(),
            receivers: Vec::new(),
            pacers: (0..nics as u32).map(pacer).collect(),
            sending: ActiveFlows::new(nics),
            pulling: ActiveFlows::new(nics),
        })
    }

    /// The receiver answers a packet or header, and asks for one more.
    fn answer(&mut self, core: &mut Core, nic: u32, kind: Kind, (flow, number): (u32, u32)) {
        let receiver = &mut self.receivers[flow as usize];
        let pacer = &mut self.pacers[nic as usize];
        receiver.pulls += 1;
        let path = self.spray.step(&mut receiver.walk);
        let is_complete = self.ledger.expected(flow) == core.flow(flow).packets;
        let flags = if is_complete { COMPLETE } else { 0 };
        let mut pulls = 0;
        if pacer.waiting == 0 && core.now() >= pacer.free_at {
            // The answer itself pulls.
            pulls = receiver.pulls;
            pacer.free_at = core.now() + pacer.interval;
        } else {
            pacer.waiting += 1;
            receiver.waiting += 1;
            self.pulling.add(nic, flow);
            core.wake(nic, pacer.free_at);
        }
        core.send_control(nic, kind, flow, (number, pulls), (path, flags));
        if is_complete {
            // Nothing is left to be pulled.
            self.pacers[nic as usize].waiting -= self.receivers[flow as usize].waiting;
            self.receivers[flow as usize].waiting = 0;
        }
    }

    /// The sender hears that pulls up to a number were sent; 0 for none.
    fn pull(&mut self, core: &Core, flow: u32, pulls: u32) {
        let sender = &mut self.senders[flow as usize];
        sender.is_heard = true;
        if pulls > sender.pulled {
            sender.permits += pulls - sender.pulled;
            sender.pulled = pulls;
        }
        if sender.permits > 0 && (self.ledger.lost(flow) > 0 || self.ledger.unsent(flow) > 0) {
            self.sending.add(core.ends(flow)[0], flow);
        }
    }
}

impl Transport for Ndp {
    fn start(&mut self, core: &mut Core, flow: u32) {
        let packets = core.flow(flow).packets;
        self.ledger.open(flow, packets);
        let needed = self.senders.len().max(flow as usize + 1);
        self.senders.resize(needed, Sender::default());
        self.receivers.resize(needed, Receiver::default());
        let [source, _] = core.ends(flow);
        let patience = self.parameters.timeout.0;
        self.senders[flow as usize] = Sender {
            permits: self.parameters.window.min(packets),
            patience,
            walk: self.spray.begin(),
            ..Sender::default()
        };
        self.receivers[flow as usize].walk = self.spray.begin();
        self.sending.add(source, flow);
        core.set_timer(flow, core.now().saturating_add(patience), 0);
    }

    fn next(&mut self, core: &mut Core, nic: u32, _at: u64) -> Next {
        while let Some(flow) = self.sending.first(nic) {
            let Some(sending) = self.ledger.next(flow) else {
                self.sending.remove_first(nic);
                continue;
            };
            self.ledger.send(flow, sending);
            let sender = &mut self.senders[flow as usize];
            sender.permits -= 1;
            if sender.permits == 0 {
                self.sending.remove_first(nic);
            } else {
                self.sending.rotate(nic);
            }
            let path = self.spray.step(&mut sender.walk);
            return Next::Packet(core.new_data(flow, sending.number, path));
        }
        Next::Nothing
    }

    #[inline]
    fn prefetch(&self, packet: &Packet) {
        self.ledger.prefetch(packet.flow);
        prefetch_end(packet, &self.senders, &self.receivers);
    }

    #[inline]
    fn prefetch_more(&self, packet: &Packet) {
        self.ledger.prefetch_packet(packet.flow, packet.number);
    }

    fn receive(&mut self, core: &mut Core, nic: u32, packet: Packet) {
        let (flow, number) = (packet.flow, packet.number);
        match packet.kind {
            Kind::Data => {
                if self.ledger.receive(flow, number) {
                    core.received(flow);
                }
                self.answer(core, nic, Kind::Ack, (flow, number));
            }
            Kind::Header => {
                let kind = if self.ledger.has(flow, number) { Kind::Ack } else { Kind::Nack };
                self.answer(core, nic, kind, (flow, number));
            }
            Kind::Ack => {
                self.ledger.acknowledge_one(flow, number);
                if packet.flags & COMPLETE != 0 {
                    core.finish(flow);
                } else {
                    self.pull(core, flow, packet.value);
                }
            }
            Kind::Nack => {
                self.ledger.lose(flow, number);
                self.pull(core, flow, packet.value);
            }
            Kind::Pull => self.pull(core, flow, packet.value),
            _ => {}
        }
    }

    /// Time for a pull.
    fn wake(&mut self, core: &mut Core, nic: u32) {
        let pacer = &mut self.pacers[nic as usize];
        while let Some(flow) = self.pulling.first(nic) {
            let receiver = &mut self.receivers[flow as usize];
            if receiver.waiting == 0 {
                self.pulling.remove_first(nic);
                continue;
            }
            receiver.waiting -= 1;
            pacer.waiting -= 1;
            let pulls = receiver.pulls - receiver.waiting;
            if receiver.waiting == 0 {
                self.pulling.remove_first(nic);
            } else {
                self.pulling.rotate(nic);
            }
            let path = self.spray.step(&mut receiver.walk);
            core.send_control(nic, Kind::Pull, flow, (0, pulls), (path, 0));
            pacer.free_at = core.now() + pacer.interval;
            if pacer.waiting > 0 {
                core.wake(nic, pacer.free_at);
            }
            return;
        }
    }

    /// Time to look for what is overdue.
    fn timer(&mut self, core: &mut Core, flow: u32, tag: u32) {
        if core.flow(flow).done_at != u64::MAX {
            return;
        }
        let expired = self.ledger.expire(flow);
        let sender = &mut self.senders[flow as usize];
        if expired > 0 {
            sender.permits += expired.div_ceil(2);
        } else if !sender.is_heard {
            // Its pulls were lost, or it has to wait for long: the next time for longer.
            sender.permits += 1;
            let longest = self.parameters.longest_timeout().0;
            sender.patience = sender.patience.saturating_mul(2).min(longest);
        }
        core.set_timer(flow, core.now().saturating_add(sender.patience), tag);
        self.pull(core, flow, 0);
        self.senders[flow as usize].is_heard = false;
    }
}
