//! EQDS: Olteanu et al., "An edge-queued datagram service for all datacenter traffic", NSDI 2022,
//! in the form of the simulator that its authors made public.
//!
//! A sender starts at line rate with speculative credit for one window; from the first feedback on
//! it sends on credit alone. Each packet states up to where the sender wants credit (its *pull
//! target*); the receiving NIC grants credit by *pulls*, one per packet time: first to flows whose
//! packets were trimmed, then to flows whose target is not reached, then, to keep links busy, up to
//! a window more than was requested. Acknowledgements are cumulative and selective, for every
//! fourth packet and where the sender requests one; trimmed packets are reported at once, and their
//! path is skipped once. Packets are sprayed over all paths; control packets take one.
//!
//! Credit is counted in units of 512 B. A pull grants the payload of a packet, while a packet uses
//! up its header, too, so flows run at 98.5 % of a link of packets of 4,160 B.
//!
//! A sender that hears nothing sends a request for credit; the receiver responds with what it has
//! received and granted. That recovers lost control packets. A request states how many packets are
//! to be sent again; the simulator of the authors requests one, and flows of large incasts starve.

use super::fit::Windows;
use super::interface::{Next, Parameters, Transport, prefetch_end};
use super::ledger::{Ledger, Sending};
use super::overdue::{Checks, longest_timeout};
use super::round_robin::RoundRobin;
use super::spray::{Spray, Walk, trimming};
use super::table::{PerFlow, PerNic};
use crate::config::Config;
use crate::error::PacketError;
use crate::flow::PacketFlowId;
use crate::network::core::Core;
use crate::packet::{Control, Packet, PacketId, PacketKind, TRANSPORT_A};
use crate::topology::NicId;
use lightloom_model::{Bytes, Duration, Rate, Time};
use serde::{Deserialize, Serialize};

/// In data: an acknowledgement is requested.
const ACK_REQUESTED: u8 = TRANSPORT_A;

/// Bytes of credit that a unit of pull targets stands for.
const UNIT: u32 = 512;

/// Bytes after which the receiver acknowledges without request.
const ACKNOWLEDGE_EVERY: u32 = 16_384;

/// Bytes that Ethernet adds to a packet: gap, preamble, header, check sum.
const FRAMING: u32 = 38;

/// Packets of the window of the reference, and of the largest.
const WINDOW: u32 = 50;
const LARGEST: u32 = 1 << 14;

/// Parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EqdsParameters {
    /// Packets' worth of speculative credit, and of credit wanted at a time; `None`: what fills a
    /// round trip, and `WINDOW` at least. At most 16,384.
    pub window: Option<u32>,
    /// Time between pulls of a NIC, in percent of that of a full packet with Ethernet framing.
    pub pull_percent: u32,
    /// Time after which an unacknowledged packet is sent again, if that is at least twice the round
    /// trip of an idle network; up to 64 times as long while nothing is heard from the receiver.
    #[serde(rename = "timeout_ps")]
    pub timeout: Duration,
}

impl Default for EqdsParameters {
    /// As in the public simulator of the authors (csg-htsim) at 100 Gb/s: the timeout is that of
    /// six full queues and 150 us.
    fn default() -> Self {
        Self { window: Some(WINDOW), pull_percent: 99, timeout: Duration(220_000_000) }
    }
}

impl Parameters for EqdsParameters {
    type Transport = Eqds;

    fn profile(_rate: Rate) -> (Config, Self) {
        (trimming(false), Self::default())
    }

    fn validate(&self) -> Result<(), PacketError> {
        let window = self.window.unwrap_or(WINDOW);
        let fits = (1..=LARGEST).contains(&window) && (1..=1000).contains(&self.pull_percent);
        if !fits || self.timeout.0 == 0 {
            return Err(PacketError::invalid(format!(
                "EQDS with a window of {} packets, {} % of a packet time between pulls and a \
                 timeout of {} us; expected 1 to 16,384 packets, 1 to 1,000 % and more than 0 us",
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

    fn transport(self, core: &Core) -> Eqds {
        Eqds::new(core, self)
    }
}

/// The pulls of a NIC.
#[derive(Debug, Clone, Copy)]
struct Pacer {
    /// Time between two pulls.
    interval: Duration,
    /// When the next may be sent.
    free_at: Time,
}

/// The sending end of a flow.
#[derive(Debug, Clone, Copy, Default)]
struct Sender {
    /// Credit from pulls, in bytes; may be overdrawn by less than a packet.
    credit: i32,
    /// Credit to begin with, in bytes.
    speculative: i32,
    /// Credit ever granted, in units.
    pulled: u32,
    /// Credit ever wanted, in units.
    target: u32,
    /// Current time between two checks for overdue packets.
    timeout: Duration,
    checks: Checks,
    walk: Walk,
    /// Whether nothing has come from the receiver yet.
    is_speculating: bool,
}

/// The receiving end of a flow.
#[derive(Debug, Clone, Copy, Default)]
struct Receiver {
    /// Highest target seen, in units.
    target: u32,
    /// Credit ever granted, in units.
    granted: u32,
    /// Credit to be granted for retransmissions, in units.
    resend: u32,
    /// Bytes received since the last acknowledgement.
    unacknowledged: u32,
    /// Whether an acknowledgement was requested that is repeated once no packet is missing.
    is_ack_requested: bool,
}

/// State of the flows and NICs.
#[derive(Debug, Clone)]
pub struct Eqds {
    parameters: EqdsParameters,
    windows: Windows,
    /// Units that a pull grants.
    grant: u32,
    ledger: Ledger,
    spray: Spray,
    senders: PerFlow<Sender>,
    receivers: PerFlow<Receiver>,
    /// Bits of the paths of each flow that are to be skipped once.
    skipped: Vec<u64>,
    pacers: PerNic<Pacer>,
    /// Flows that want to send, by sending NIC.
    sending: RoundRobin,
    /// By receiving NIC: flows that have to resend, that want credit, that have enough.
    resending: RoundRobin,
    wanting: RoundRobin,
    satisfied: RoundRobin,
}

impl Eqds {
    /// For the NICs of a network.
    pub fn new(core: &Core, parameters: EqdsParameters) -> Self {
        let nics = core.nic_count();
        let config = core.config();
        let framed = u64::from(config.packet_bytes() + FRAMING);
        let pacer = |nic| {
            let hundredfold = core.nic_rate(nic).transmission(Bytes(framed * 100)).0;
            let interval = u128::from(hundredfold) * u128::from(parameters.pull_percent) / 10_000;
            let interval = u64::try_from(interval).unwrap_or(u64::MAX).max(1);
            Pacer { interval: Duration(interval), free_at: Time::ZERO }
        };
        Self {
            parameters,
            windows: Windows::new(core, parameters.window, [WINDOW, LARGEST]),
            grant: config.mtu.div_ceil(UNIT),
            ledger: Ledger::default(),
            spray: Spray::new(config),
            senders: PerFlow::default(),
            receivers: PerFlow::default(),
            skipped: Vec::new(),
            pacers: PerNic::new(nics, pacer),
            sending: RoundRobin::new(core),
            resending: RoundRobin::new(core),
            wanting: RoundRobin::new(core),
            satisfied: RoundRobin::new(core),
        }
    }

    /// A flow has its turn at the NIC: its packet, if it has the credit for one.
    #[inline]
    fn take_turn(&mut self, core: &mut Core, flow: PacketFlowId) -> Option<PacketId> {
        let sending = self.ledger.next(flow)?;
        let sender = &mut self.senders[flow];
        let size = core.packet_size(flow, sending.sequence).cast_signed();
        if sender.credit > 0 {
            sender.credit -= size;
        } else if sender.credit + sender.speculative > 0 {
            // Spent while there is no feedback; afterwards it lapses, so that the target advances.
            sender.speculative -= size;
            if !sender.is_speculating {
                return None;
            }
        } else {
            return None;
        }
        self.ledger.send(flow, sending);
        Some(self.make_packet(core, flow, sending))
    }

    #[inline]
    fn make_packet(&mut self, core: &mut Core, flow: PacketFlowId, sending: Sending) -> PacketId {
        let backlog = self.backlog(core, flow);
        let sender = &mut self.senders[flow];
        if sending.is_new {
            let missing = backlog.cast_signed() - sender.credit - sender.speculative;
            let units = -((-missing).div_euclid(UNIT.cast_signed()));
            // At least one, so that a flow shorter than the window is not forgotten.
            sender.target = sender.pulled.saturating_add_signed(units).max(1);
        }
        let requests_ack = !sending.is_new || backlog == 0 || sender.credit < 0;
        let target = sender.target;
        let path = self.next_path(flow);
        let id = core.new_data(flow, sending.sequence, path);
        let packet = core.packet_mut(id);
        packet.value = target;
        packet.flags |= if requests_ack { ACK_REQUESTED } else { 0 };
        id
    }

    /// The window of a flow, in packets.
    #[inline]
    fn window(&self, core: &Core, flow: PacketFlowId) -> u32 {
        self.windows.of(core.endpoints(flow).source())
    }

    /// What is left to be sent for the first time, in bytes, at most a window.
    #[inline]
    fn backlog(&self, core: &Core, flow: PacketFlowId) -> u32 {
        let (packet, window) = (core.config().packet_bytes(), self.window(core, flow));
        match self.ledger.unsent(flow) {
            0 => 0,
            unsent if unsent > window => window * packet,
            unsent => {
                let last = core.packet_size(flow, core.flow(flow).packets - 1);
                ((unsent - 1) * packet + last).min(window * packet)
            }
        }
    }

    /// The next path that is not to be skipped.
    #[inline]
    fn next_path(&mut self, flow: PacketFlowId) -> u16 {
        let start = flow.index() * self.spray.paths().div_ceil(64);
        loop {
            let path = self.spray.step(&mut self.senders[flow].walk);
            let word = &mut self.skipped[start + usize::from(path / 64)];
            let bit = 1 << (path % 64);
            if *word & bit == 0 {
                return path;
            }
            *word &= !bit;
        }
    }

    /// Feedback reached the sender: it no longer speculates, and sends if it may.
    #[inline]
    fn hear(&mut self, core: &Core, flow: PacketFlowId) {
        let sender = &mut self.senders[flow];
        sender.is_speculating = false;
        sender.checks.hear();
        self.try_to_send(core, flow);
    }

    #[inline]
    fn try_to_send(&mut self, core: &Core, flow: PacketFlowId) {
        let sender = &self.senders[flow];
        let has_credit = sender.credit + sender.speculative > 0;
        if has_credit && (self.ledger.unsent(flow) > 0 || self.ledger.lost(flow) > 0) {
            self.sending.add(core.endpoints(flow).source(), flow, core.priority(flow));
        }
    }

    /// The receiver gets a packet.
    fn accept(&mut self, core: &mut Core, nic: NicId, packet: &Packet) {
        let (flow, sequence) = (packet.flow, packet.sequence);
        self.aim(core, nic, flow, packet.value);
        let receiver = &mut self.receivers[flow];
        receiver.unacknowledged += u32::from(packet.size);
        let mut acknowledges = receiver.unacknowledged > ACKNOWLEDGE_EVERY;
        if self.ledger.receive(flow, sequence) {
            core.receive(flow);
            let state = core.flow(flow);
            let is_requested = packet.flags & ACK_REQUESTED != 0;
            acknowledges |= state.received == 1 || is_requested;
            receiver.is_ack_requested |= is_requested;
            if receiver.is_ack_requested && self.ledger.expected(flow) == state.received {
                receiver.is_ack_requested = false;
                acknowledges = true;
            }
        } else {
            acknowledges = true;
        }
        if acknowledges {
            receiver.unacknowledged = 0;
            self.acknowledge(core, nic, packet);
        }
    }

    /// Acknowledges a packet, all before the first missing one, and some others.
    fn acknowledge(&self, core: &mut Core, nic: NicId, packet: &Packet) {
        let flow = packet.flow;
        let sequence = self.ledger.expected(flow);
        let value = self.ledger.selection(flow, packet.sequence);
        let ack = Control { sequence, value, ..Control::new(PacketKind::Ack, flow) };
        core.send_control(nic, ack);
    }

    /// The receiver gets a packet without its payload.
    fn reject(&mut self, core: &mut Core, nic: NicId, packet: &Packet) {
        let (flow, sequence) = (packet.flow, packet.sequence);
        if self.ledger.has(flow, sequence) {
            return self.acknowledge(core, nic, packet);
        }
        self.aim(core, nic, flow, packet.value);
        let value = u32::from(packet.path);
        let nack = Control { sequence, value, ..Control::new(PacketKind::Nack, flow) };
        core.send_control(nic, nack);
        let units = core.config().packet_bytes().div_ceil(UNIT);
        self.receivers[flow].resend += units;
        self.resending.add(nic, flow, core.priority(flow));
        core.wake(nic, self.pacers[nic].free_at);
    }

    /// The receiver learns what the sender wants.
    #[inline]
    fn aim(&mut self, core: &mut Core, nic: NicId, flow: PacketFlowId, target: u32) {
        let receiver = &mut self.receivers[flow];
        if target > receiver.target {
            receiver.target = target;
            if receiver.resend == 0 {
                self.wanting.add(nic, flow, core.priority(flow));
                core.wake(nic, self.pacers[nic].free_at);
            }
        }
    }

    /// Flows that have everything take no turns from lower priorities. Flows of the highest that
    /// have enough come before those of lower ones that want credit: as senders do not use all of
    /// the credit to begin with, some of them need more than they said.
    fn leave_complete(&mut self, core: &Core, nic: NicId) {
        let waiting = self.resending.priority(nic).max(self.wanting.priority(nic));
        while waiting.is_some()
            && waiting < self.satisfied.priority(nic)
            && let Some(flow) = self.satisfied.first(nic)
            && core.flow(flow).received == core.flow(flow).packets
        {
            self.satisfied.remove_first(nic);
        }
    }

    /// The sender has heard nothing for long; its request states how many packets it has to send
    /// again, and its target.
    fn respond(&mut self, core: &mut Core, nic: NicId, packet: &Packet) {
        let flow = packet.flow;
        self.aim(core, nic, flow, packet.value);
        let units = core.config().packet_bytes().div_ceil(UNIT);
        let receiver = &mut self.receivers[flow];
        receiver.resend = receiver.resend.max(packet.sequence.saturating_mul(units));
        if receiver.resend > 0 {
            self.resending.add(nic, flow, core.priority(flow));
            core.wake(nic, self.pacers[nic].free_at);
        }
        let value = receiver.granted;
        let sequence = self.ledger.expected(flow);
        core.send_control(nic, Control { sequence, ..Control::new(PacketKind::Ack, flow) });
        core.send_control(nic, Control { value, ..Control::new(PacketKind::Pull, flow) });
    }
}

impl Transport for Eqds {
    fn start(&mut self, core: &mut Core, flow: PacketFlowId) {
        self.expect(core, flow);
        self.senders.make_room(flow, Sender::default());
        let words = (flow.index() + 1) * self.spray.paths().div_ceil(64);
        self.skipped.resize(self.skipped.len().max(words), 0);
        let timeout = self.parameters.timeout;
        let packet = core.config().packet_bytes();
        self.senders[flow] = Sender {
            speculative: (self.window(core, flow) * packet).cast_signed(),
            timeout,
            walk: self.spray.begin(flow, true),
            is_speculating: true,
            ..Sender::default()
        };
        self.sending.add(core.endpoints(flow).source(), flow, core.priority(flow));
        core.set_timer(flow, core.now() + timeout);
    }

    fn expect(&mut self, core: &mut Core, flow: PacketFlowId) {
        self.windows.heed(core);
        self.ledger.open(flow, core.flow(flow).packets);
        self.receivers.make_room(flow, Receiver::default());
    }

    fn next(&mut self, core: &mut Core, nic: NicId, _at: Time) -> Next {
        self.sending.heed_pauses(core, nic);
        while let Some(flow) = self.sending.remove_first(nic) {
            if let Some(id) = self.take_turn(core, flow) {
                self.try_to_send(core, flow);
                return Next::Packet(id);
            }
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
            PacketKind::Data => self.accept(core, nic, &packet),
            PacketKind::Header => self.reject(core, nic, &packet),
            PacketKind::Request => self.respond(core, nic, &packet),
            PacketKind::Ack => {
                self.ledger.acknowledge(flow, sequence, packet.value);
                if sequence == core.flow(flow).packets {
                    self.ledger.close(flow);
                    core.complete(flow);
                } else {
                    self.hear(core, flow);
                }
            }
            PacketKind::Nack => {
                self.ledger.lose(flow, sequence);
                let words = self.spray.paths().div_ceil(64);
                let path = packet.value as usize;
                self.skipped[flow.index() * words + path / 64] |= 1 << (path % 64);
                self.hear(core, flow);
            }
            PacketKind::Pull => {
                let window = self.window(core, flow) * core.config().packet_bytes();
                let sender = &mut self.senders[flow];
                if packet.value > sender.pulled {
                    let credit = (packet.value - sender.pulled).saturating_mul(UNIT);
                    let credit = sender.credit.saturating_add_unsigned(credit);
                    sender.credit = credit.min(window.cast_signed());
                    sender.pulled = packet.value;
                }
                self.hear(core, flow);
            }
            PacketKind::Cnp => {}
        }
    }

    /// Time for a pull.
    fn wake(&mut self, core: &mut Core, nic: NicId) {
        self.leave_complete(core, nic);
        let circles = [&self.resending, &self.wanting, &self.satisfied];
        let highest = circles.map(|circle| circle.priority(nic)).into_iter().max().flatten();
        let has_turn = |circle: &RoundRobin| circle.priority(nic) == highest;
        let [resending, wanting] = [has_turn(&self.resending), has_turn(&self.wanting)];
        let flow = if resending && let Some(flow) = self.resending.remove_first(nic) {
            let receiver = &mut self.receivers[flow];
            receiver.granted += self.grant;
            receiver.resend = receiver.resend.saturating_sub(self.grant);
            if receiver.resend > 0 {
                self.resending.add(nic, flow, core.priority(flow));
            } else if receiver.target > receiver.granted {
                self.wanting.add(nic, flow, core.priority(flow));
            }
            flow
        } else if wanting && let Some(flow) = self.wanting.remove_first(nic) {
            let receiver = &mut self.receivers[flow];
            receiver.granted += self.grant;
            if receiver.target > receiver.granted {
                self.wanting.add(nic, flow, core.priority(flow));
            } else {
                self.satisfied.add(nic, flow, core.priority(flow));
            }
            flow
        } else if let Some(flow) = self.satisfied.remove_first(nic) {
            let window = self.window(core, flow) * core.config().packet_bytes();
            let receiver = &mut self.receivers[flow];
            receiver.granted += self.grant;
            let surplus = receiver.granted.checked_sub(receiver.target);
            if surplus.is_some_and(|units| units < window / UNIT) {
                self.satisfied.add(nic, flow, core.priority(flow));
            }
            flow
        } else {
            return;
        };
        let value = self.receivers[flow].granted;
        core.send_control(nic, Control { value, ..Control::new(PacketKind::Pull, flow) });
        let pacer = &mut self.pacers[nic];
        pacer.free_at = core.now() + pacer.interval;
        core.wake(nic, pacer.free_at);
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
        sender.is_speculating = false;
        if is_silent || expired > 0 && sender.credit <= 0 {
            let (sequence, value) = (self.ledger.lost(flow), sender.target);
            let request = Control { sequence, value, ..Control::new(PacketKind::Request, flow) };
            core.send_control(core.endpoints(flow).source(), request);
        }
        self.try_to_send(core, flow);
    }
}
