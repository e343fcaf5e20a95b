//! NDP: Handley et al., "Re-architecting datacenter networks and stacks for low latency and high
//! performance", SIGCOMM 2017.
//!
//! A sender sends a full window at line rate at once. Switches trim packets that do not fit
//! ([`crate::Overflow::Trim`]) and send headers and control packets first. The receiver
//! acknowledges every packet at once, sends a negative acknowledgement for every header, and
//! requests one more packet each time: by a *pull*, of which its NIC sends one per packet time,
//! round robin among flows. So after the first window, receivers decide who sends. Packets are
//! sprayed over all paths.
//!
//! Where no header is lost, timeouts are not needed. Here half of the overdue packets are sent
//! again after a timeout, the rest once they are pulled: the window that the network cannot hold
//! halves.

use super::fit::window;
use super::interface::{Next, Parameters, Transport, prefetch_end};
use super::ledger::Ledger;
use super::overdue::{Checks, longest_timeout};
use super::round_robin::RoundRobin;
use super::spray::{Spray, Walk, trimming};
use super::table::{PerFlow, PerNic};
use crate::config::Config;
use crate::error::PacketError;
use crate::flow::PacketFlowId;
use crate::network::core::Core;
use crate::packet::{Control, Packet, PacketKind, TRANSPORT_A};
use crate::topology::NicId;
use lightloom_model::{Bytes, Duration, Rate, Time};
use serde::{Deserialize, Serialize};

/// In an acknowledgement: everything has arrived.
const COMPLETE: u8 = TRANSPORT_A;

/// Packets that the reference sends before the first pull.
const WINDOW: u32 = 50;

/// Parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NdpParameters {
    /// Packets that a flow sends before the first pull; `None`: what fills a round trip, and
    /// `WINDOW` at least.
    pub window: Option<u32>,
    /// Rate of the pulls of a NIC, in percent of what its link carries; below 100 leaves room for
    /// retransmissions.
    pub pull_percent: u32,
    /// Time after which an unacknowledged packet is sent again, if that is at least twice the round
    /// trip of an idle network; up to 64 times as long while nothing is heard from the receiver.
    #[serde(rename = "timeout_ps")]
    pub timeout: Duration,
}

impl Default for NdpParameters {
    /// As in the public simulator of the authors (csg-htsim), and a timeout of six full queues at
    /// 100 Gb/s and 150 us.
    fn default() -> Self {
        Self { window: Some(WINDOW), pull_percent: 99, timeout: Duration(220_000_000) }
    }
}

impl Parameters for NdpParameters {
    type Transport = Ndp;

    fn profile(_rate: Rate) -> (Config, Self) {
        (trimming(true), Self::default())
    }

    fn validate(&self) -> Result<(), PacketError> {
        let window = self.window.unwrap_or(WINDOW);
        if window == 0 || !(1..=100).contains(&self.pull_percent) || self.timeout.0 == 0 {
            return Err(PacketError::invalid(format!(
                "NDP with a window of {} packets, pulls at {} % of the rate and a timeout of {} \
                 us; expected a window and timeout above 0 and 1 to 100 %",
                window,
                self.pull_percent,
                1e6 * self.timeout.as_seconds()
            )));
        }
        Ok(())
    }

    fn longest_timeout(&self) -> Duration {
        longest_timeout(self.timeout)
    }

    fn fit(&mut self, _factor: f64) {
        self.window = None;
    }

    fn given_window(&self) -> Option<f64> {
        self.window.map(f64::from)
    }

    fn transport(self, core: &Core) -> Ndp {
        Ndp::new(core, self)
    }
}

/// The sending end of a flow.
#[derive(Debug, Clone, Copy, Default)]
struct Sender {
    /// Packets that it may send now.
    permits: u32,
    /// Pulls that are turned into permits.
    pulled: u32,
    /// Current time between two checks for overdue packets.
    timeout: Duration,
    checks: Checks,
    walk: Walk,
}

/// The receiving end of a flow.
#[derive(Debug, Clone, Copy, Default)]
struct Receiver {
    /// Pulls due so far.
    pulls: u32,
    /// Pulls that wait for their turn.
    waiting: u32,
    walk: Walk,
}

/// The pulls of a NIC.
#[derive(Debug, Clone, Copy)]
struct Pacer {
    interval: Duration,
    /// When the next pull may be sent.
    free_at: Time,
    /// Pulls that wait, of all flows.
    waiting: u32,
}

/// State of the flows and NICs.
#[derive(Debug, Clone)]
pub struct Ndp {
    parameters: NdpParameters,
    ledger: Ledger,
    spray: Spray,
    senders: PerFlow<Sender>,
    receivers: PerFlow<Receiver>,
    pacers: PerNic<Pacer>,
    /// Flows that have permits and something to send, by sending NIC.
    sending: RoundRobin,
    /// Flows with pulls that wait, by receiving NIC.
    pulling: RoundRobin,
}

impl Ndp {
    /// For the NICs of a network.
    pub fn new(core: &Core, parameters: NdpParameters) -> Self {
        let nics = core.nic_count();
        let pacer = |nic| {
            let full = Bytes(u64::from(core.config().packet_bytes()));
            let span = core.nic_rate(nic).transmission(full).0;
            let interval = span.saturating_mul(100) / u64::from(parameters.pull_percent);
            Pacer { interval: Duration(interval), free_at: Time::ZERO, waiting: 0 }
        };
        Self {
            parameters,
            ledger: Ledger::default(),
            spray: Spray::new(core.config()),
            senders: PerFlow::default(),
            receivers: PerFlow::default(),
            pacers: PerNic::new(nics, pacer),
            sending: RoundRobin::new(core),
            pulling: RoundRobin::new(core),
        }
    }

    /// The receiver acknowledges a packet or header by a control packet of this kind, and requests
    /// one more.
    fn acknowledge(&mut self, core: &mut Core, nic: NicId, kind: PacketKind, packet: &Packet) {
        let (flow, sequence) = (packet.flow, packet.sequence);
        let receiver = &mut self.receivers[flow];
        let pacer = &mut self.pacers[nic];
        receiver.pulls += 1;
        let path = self.spray.step(&mut receiver.walk);
        let is_complete = self.ledger.expected(flow) == core.flow(flow).packets;
        let flags = if is_complete { COMPLETE } else { 0 };
        let mut value = 0;
        if pacer.waiting == 0 && core.now() >= pacer.free_at {
            // The acknowledgement itself pulls.
            value = receiver.pulls;
            pacer.free_at = core.now() + pacer.interval;
        } else {
            pacer.waiting += 1;
            receiver.waiting += 1;
            self.pulling.add(nic, flow, core.priority(flow));
            core.wake(nic, pacer.free_at);
        }
        core.send_control(nic, Control { kind, flow, sequence, value, path, flags });
        if is_complete {
            // Nothing is left to be pulled.
            self.pacers[nic].waiting -= self.receivers[flow].waiting;
            self.receivers[flow].waiting = 0;
        }
    }

    /// The sender learns how many pulls were sent; 0 for none.
    fn pull(&mut self, core: &Core, flow: PacketFlowId, pulls: u32) {
        let sender = &mut self.senders[flow];
        sender.checks.hear();
        if pulls > sender.pulled {
            sender.permits += pulls - sender.pulled;
            sender.pulled = pulls;
        }
        self.try_to_send(core, flow);
    }

    #[inline]
    fn try_to_send(&mut self, core: &Core, flow: PacketFlowId) {
        if self.senders[flow].permits > 0
            && (self.ledger.lost(flow) > 0 || self.ledger.unsent(flow) > 0)
        {
            self.sending.add(core.endpoints(flow).source(), flow, core.priority(flow));
        }
    }
}

impl Transport for Ndp {
    fn start(&mut self, core: &mut Core, flow: PacketFlowId) {
        let packets = core.flow(flow).packets;
        self.expect(core, flow);
        self.senders.make_room(flow, Sender::default());
        let timeout = self.parameters.timeout;
        let window = self.parameters.window.unwrap_or_else(|| window(core, flow, WINDOW));
        self.senders[flow] = Sender {
            permits: window.min(packets),
            timeout,
            walk: self.spray.begin(flow, true),
            ..Sender::default()
        };
        self.sending.add(core.endpoints(flow).source(), flow, core.priority(flow));
        core.set_timer(flow, core.now() + timeout);
    }

    fn expect(&mut self, core: &mut Core, flow: PacketFlowId) {
        self.ledger.open(flow, core.flow(flow).packets);
        self.receivers.make_room(flow, Receiver::default());
        self.receivers[flow].walk = self.spray.begin(flow, false);
    }

    fn next(&mut self, core: &mut Core, nic: NicId, _at: Time) -> Next {
        self.sending.heed_pauses(core, nic);
        while let Some(flow) = self.sending.first(nic) {
            let Some(sending) = self.ledger.next(flow) else {
                self.sending.remove_first(nic);
                continue;
            };
            self.ledger.send(flow, sending);
            let sender = &mut self.senders[flow];
            sender.permits -= 1;
            if sender.permits == 0 {
                self.sending.remove_first(nic);
            } else {
                self.sending.rotate(nic);
            }
            let path = self.spray.step(&mut sender.walk);
            return Next::Packet(core.new_data(flow, sending.sequence, path));
        }
        Next::Nothing
    }

    #[inline]
    fn prefetch_flow(&self, packet: &Packet) {
        self.ledger.prefetch(packet.flow);
        prefetch_end(packet, &self.senders, &self.receivers);
    }

    #[inline]
    fn prefetch_packet(&self, packet: &Packet) {
        self.ledger.prefetch_packet(packet.flow, packet.sequence);
    }

    fn receive(&mut self, core: &mut Core, nic: NicId, packet: Packet) {
        let (flow, sequence) = (packet.flow, packet.sequence);
        match packet.kind {
            PacketKind::Data => {
                if self.ledger.receive(flow, sequence) {
                    core.receive(flow);
                }
                self.acknowledge(core, nic, PacketKind::Ack, &packet);
            }
            PacketKind::Header => {
                let has = self.ledger.has(flow, sequence);
                let kind = if has { PacketKind::Ack } else { PacketKind::Nack };
                self.acknowledge(core, nic, kind, &packet);
            }
            PacketKind::Ack => {
                self.ledger.acknowledge_one(flow, sequence);
                if packet.flags & COMPLETE != 0 {
                    self.ledger.close(flow);
                    core.complete(flow);
                } else {
                    self.pull(core, flow, packet.value);
                }
            }
            PacketKind::Nack => {
                self.ledger.lose(flow, sequence);
                self.pull(core, flow, packet.value);
            }
            PacketKind::Pull => self.pull(core, flow, packet.value),
            _ => {}
        }
    }

    /// Time for a pull.
    fn wake(&mut self, core: &mut Core, nic: NicId) {
        let pacer = &mut self.pacers[nic];
        while let Some(flow) = self.pulling.first(nic) {
            let receiver = &mut self.receivers[flow];
            if receiver.waiting == 0 {
                self.pulling.remove_first(nic);
                continue;
            }
            receiver.waiting -= 1;
            pacer.waiting -= 1;
            let value = receiver.pulls - receiver.waiting;
            if receiver.waiting == 0 {
                self.pulling.remove_first(nic);
            } else {
                self.pulling.rotate(nic);
            }
            let path = self.spray.step(&mut receiver.walk);
            let pull = Control { value, path, ..Control::new(PacketKind::Pull, flow) };
            core.send_control(nic, pull);
            pacer.free_at = core.now() + pacer.interval;
            if pacer.waiting > 0 {
                core.wake(nic, pacer.free_at);
            }
            return;
        }
    }

    /// Time to check for overdue packets.
    fn timer(&mut self, core: &mut Core, flow: PacketFlowId) {
        if core.flow(flow).is_done() {
            return;
        }
        let sender = &mut self.senders[flow];
        if sender.checks.is_early(core, flow, &mut sender.timeout) {
            return;
        }
        let expired = self.ledger.expire(flow);
        let longest = self.parameters.longest_timeout();
        let is_silent = sender.checks.renew(core, flow, expired, &mut sender.timeout, longest);
        // If nothing expired, its pulls were lost, or it has to wait for long.
        sender.permits += if expired > 0 { expired.div_ceil(2) } else { u32::from(is_silent) };
        self.try_to_send(core, flow);
    }
}
