//! EQDS: Olteanu et al., "An edge-queued datagram service for all datacenter traffic", NSDI 2022,
//! in the form of the simulator that its authors made public.
//!
//! A sender starts at line rate with speculative credit for one window; from the first answer on it
//! sends on credit alone. Each packet says up to where the sender wants credit (its *pull target*);
//! the receiving NIC grants credit by *pulls*, one per packet time: first to flows whose payloads
//! were cut off by switches, then to flows whose target is not reached, then, to keep links busy,
//! up to a window more than was asked for. Acknowledgements are cumulative and selective, for every
//! fourth packet and where the sender asks for one; cut packets are answered at once, and their
//! path is skipped once. Packets are sprayed over all paths; control packets take one.
//!
//! Credit is counted in units of 512 B. A pull grants the payload of a packet, while a packet uses
//! up its header, too, so flows run at 98.5 % of a link of packets of 4,160 B.
//!
//! A sender that hears nothing asks for credit by a request, which the receiver answers by what it
//! has received and granted; that makes up for lost control packets.

use super::ledger::{Ledger, Sending};
use super::spray::{Spray, Walk};
use super::{ActiveFlows, Next, Transport, prefetch_end};
use crate::core::Core;
use crate::error::PacketError;
use crate::packet::{Kind, Packet, TRANSPORT_A};
use lightloom_model::{Bytes, Duration};

/// In data: an acknowledgement is wanted.
const ASK: u8 = TRANSPORT_A;

/// Bytes of credit that a unit of pull targets stands for.
const UNIT: u32 = 512;

/// Bytes after which the receiver acknowledges unasked.
const ACKNOWLEDGE_EVERY: u32 = 16_384;

/// Bytes that Ethernet adds to a packet: gap, preamble, header, check sum.
const FRAMING: u32 = 38;

/// Parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EqdsParameters {
    /// Packets' worth of speculative credit, and of credit wanted at a time; at most 16,384.
    pub window: u32,
    /// Time between pulls of a NIC, in percent of that of a full packet with Ethernet framing.
    pub pull_percent: u32,
    /// Time after which an unanswered packet is sent again; in silence up to 64 times as
    /// long.
    pub timeout: Duration,
}

/// How many times as long a silent network makes timeouts.
const MOST_PATIENCE: u64 = 64;

impl Default for EqdsParameters {
    /// As in the public simulator of the authors (csg-htsim) at 100 Gb/s: the timeout is that of
    /// six full queues and 150 us.
    fn default() -> Self {
        Self { window: 50, pull_percent: 99, timeout: Duration(220_000_000) }
    }
}

impl EqdsParameters {
    /// Checks that there are a window, pulls and a timeout.
    ///
    /// # Errors
    /// Says what was expected.
    pub fn validate(&self) -> Result<(), PacketError> {
        let fits = (1..=1 << 14).contains(&self.window) && (1..=1000).contains(&self.pull_percent);
        if !fits || self.timeout.0 == 0 {
            return Err(PacketError::invalid(format!(
                "EQDS with a window of {} packets, {} % of a packet time between pulls and a \
                 timeout of {} us; expected 1 to 16,384 packets, 1 to 1,000 % and more than 0 us",
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

/// The pulls of a NIC.
#[derive(Debug, Clone, Copy)]
struct Pacer {
    /// Time between two, in ps.
    interval: u64,
    /// When the next may be sent.
    free_at: u64,
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
    /// Present time between looks at what is overdue, in ps.
    patience: u64,
    walk: Walk,
    /// Whether nothing was heard of the receiver yet.
    is_speculating: bool,
    /// Whether it was heard of since the last look.
    is_heard: bool,
}

/// The receiving end of a flow.
#[derive(Debug, Clone, Copy, Default)]
struct Receiver {
    /// Highest target seen, in units.
    target: u32,
    /// Credit ever granted, in units.
    granted: u32,
    /// Credit to be granted for retransmissions, in units.
    again: u32,
    /// Bytes received since the last acknowledgement.
    unanswered: u32,
    /// Whether an acknowledgement was asked for that has to be repeated once no packet is missing.
    is_asked: bool,
}

/// State of the flows and NICs.
#[derive(Debug, Clone)]
pub struct Eqds {
    parameters: EqdsParameters,
    /// Window in bytes.
    window: u32,
    /// Units that a pull grants.
    grant: u32,
    ledger: Ledger,
    spray: Spray,
    senders: Vec<Sender>,
    receivers: Vec<Receiver>,
    /// Bits of the paths of each flow that are to be skipped once.
    skipped: Vec<u64>,
    pacers: Vec<Pacer>,
    /// Flows that want to send, by sending NIC.
    sending: ActiveFlows,
    /// By receiving NIC: flows that have to send again, that want credit, that have enough.
    again: ActiveFlows,
    wanting: ActiveFlows,
    content: ActiveFlows,
}

impl Eqds {
    /// For the NICs of a network.
    ///
    /// # Errors
    /// If the parameters make no sense.
    pub fn new(core: &Core, parameters: EqdsParameters) -> Result<Self, PacketError> {
        parameters.validate()?;
        let nics = core.nic_count();
        let config = core.config();
        let framed = u64::from(config.packet_bytes() + FRAMING);
        let pacer = |nic| {
            let hundredfold = core.nic_rate(nic).transmission(Bytes(framed * 100)).0;
            let interval = u128::from(hundredfold) * u128::from(parameters.pull_percent) / 10_000;
            Pacer { interval: u64::try_from(interval).unwrap_or(u64::MAX).max(1), free_at: 0 }
        };
        Ok(Self {
            parameters,
            window: parameters.window * config.packet_bytes(),
            grant: config.mtu.div_ceil(UNIT),
            ledger: Ledger::default(),
            spray: Spray::new(config),
            senders: Vec::new(),
            receivers: Vec::new(),
            skipped: Vec::new(),
            pacers: (0..nics as u32).map(pacer).collect(),
            sending: ActiveFlows::new(nics),
            again: ActiveFlows::new(nics),
            wanting: ActiveFlows::new(nics),
            content: ActiveFlows::new(nics),
        })
    }

    /// A flow has its turn at the NIC: its packet, if it has the credit for one.
    #[inline]
    fn take_turn(&mut self, core: &mut Core, flow: u32) -> Option<u32> {
        let sending = self.ledger.next(flow)?;
        let sender = &mut self.senders[flow as usize];
        let size = core.packet_size(flow, sending.number).cast_signed();
        if sender.credit > 0 {
            sender.credit -= size;
        } else if sender.credit + sender.speculative > 0 {
            // Spent while there is no answer; afterwards it lapses, so that the target moves on.
            sender.speculative -= size;
            if !sender.is_speculating {
                return None;
            }
        } else {
            return None;
        }
        self.ledger.send(flow, sending);
        Some(self.make(core, flow, sending))
    }

    #[inline]
    fn make(&mut self, core: &mut Core, flow: u32, sending: Sending) -> u32 {
        let backlog = self.backlog(core, flow);
        let sender = &mut self.senders[flow as usize];
        if sending.is_new {
            let missing = backlog.cast_signed() - sender.credit - sender.speculative;
            let units = -((-missing).div_euclid(UNIT.cast_signed()));
            // At least one, so that a flow shorter than the window is not forgotten.
            sender.target = sender.pulled.saturating_add_signed(units).max(1);
        }
        let is_asking = !sending.is_new || backlog == 0 || sender.credit < 0;
        let target = sender.target;
        let path = self.next_path(flow);
        let id = core.new_data(flow, sending.number, path);
        let packet = core.packet_mut(id);
        packet.value = target;
        packet.flags = if is_asking { ASK } else { 0 };
        id
    }

    /// What is left to be sent for the first time, in bytes, at most a window.
    #[inline]
    fn backlog(&self, core: &Core, flow: u32) -> u32 {
        match self.ledger.unsent(flow) {
            0 => 0,
            unsent if unsent > self.parameters.window => self.window,
            unsent => {
                let last = core.packet_size(flow, core.flow(flow).packets - 1);
                ((unsent - 1) * core.config().packet_bytes() + last).min(self.window)
            }
        }
    }

    /// The next path that is not to be skipped.
    #[inline]
    fn next_path(&mut self, flow: u32) -> u16 {
        let start = flow as usize * self.spray.paths().div_ceil(64);
        loop {
            let path = self.spray.step(&mut self.senders[flow as usize].walk);
            let word = &mut self.skipped[start + usize::from(path / 64)];
            let bit = 1 << (path % 64);
            if *word & bit == 0 {
                return path;
            }
            *word &= !bit;
        }
    }

    /// The sender was answered: it no longer speculates, and sends if it may.
    #[inline]
    fn hear(&mut self, core: &Core, flow: u32) {
        let sender = &mut self.senders[flow as usize];
        sender.is_speculating = false;
        sender.is_heard = true;
        self.try_to_send(core, flow);
    }

    #[inline]
    fn try_to_send(&mut self, core: &Core, flow: u32) {
        let sender = &self.senders[flow as usize];
        let has_credit = sender.credit + sender.speculative > 0;
        if has_credit && (self.ledger.unsent(flow) > 0 || self.ledger.lost(flow) > 0) {
            self.sending.add(core.ends(flow)[0], flow);
        }
    }

    /// The receiver gets a packet.
    fn accept(&mut self, core: &mut Core, nic: u32, packet: &Packet) {
        let (flow, number) = (packet.flow, packet.number);
        self.aim(core, nic, flow, packet.value);
        let receiver = &mut self.receivers[flow as usize];
        receiver.unanswered += u32::from(packet.size);
        let mut answers = receiver.unanswered > ACKNOWLEDGE_EVERY;
        if self.ledger.receive(flow, number) {
            core.received(flow);
            let state = core.flow(flow);
            answers |= state.received == 1 || packet.flags & ASK != 0;
            receiver.is_asked |= packet.flags & ASK != 0;
            if receiver.is_asked && self.ledger.expected(flow) == state.received {
                receiver.is_asked = false;
                answers = true;
            }
        } else {
            answers = true;
        }
        if answers {
            receiver.unanswered = 0;
            self.acknowledge(core, nic, (flow, number));
        }
    }

    fn acknowledge(&self, core: &mut Core, nic: u32, (flow, number): (u32, u32)) {
        let expected = self.ledger.expected(flow);
        let selection = self.ledger.selection(flow, number);
        core.send_control(nic, Kind::Ack, flow, (expected, selection), (0, 0));
    }

    /// The receiver gets a packet without its payload.
    fn reject(&mut self, core: &mut Core, nic: u32, packet: &Packet) {
        let (flow, number) = (packet.flow, packet.number);
        if self.ledger.has(flow, number) {
            return self.acknowledge(core, nic, (flow, number));
        }
        self.aim(core, nic, flow, packet.value);
        let path = u32::from(packet.path);
        core.send_control(nic, Kind::Nack, flow, (number, path), (0, 0));
        let units = core.config().packet_bytes().div_ceil(UNIT);
        self.receivers[flow as usize].again += units;
        self.again.add(nic, flow);
        core.wake(nic, self.pacers[nic as usize].free_at);
    }

    /// The receiver learns what the sender wants.
    #[inline]
    fn aim(&mut self, core: &mut Core, nic: u32, flow: u32, target: u32) {
        let receiver = &mut self.receivers[flow as usize];
        if target > receiver.target {
            receiver.target = target;
            if receiver.again == 0 {
                self.wanting.add(nic, flow);
                core.wake(nic, self.pacers[nic as usize].free_at);
            }
        }
    }

    /// The sender heard nothing for long and says how many packets it has to send again, and its
    /// target.
    fn answer_request(&mut self, core: &mut Core, nic: u32, packet: &Packet) {
        let flow = packet.flow;
        self.aim(core, nic, flow, packet.value);
        let units = core.config().packet_bytes().div_ceil(UNIT);
        let receiver = &mut self.receivers[flow as usize];
        receiver.again = receiver.again.max(packet.number.saturating_mul(units));
        if receiver.again > 0 {
            self.again.add(nic, flow);
            core.wake(nic, self.pacers[nic as usize].free_at);
        }
        let granted = receiver.granted;
        let expected = self.ledger.expected(flow);
        core.send_control(nic, Kind::Ack, flow, (expected, 0), (0, 0));
        core.send_control(nic, Kind::Pull, flow, (0, granted), (0, 0));
    }
}

impl Transport for Eqds {
    fn start(&mut self, core: &mut Core, flow: u32) {
        self.ledger.open(flow, core.flow(flow).packets);
        let needed = self.senders.len().max(flow as usize + 1);
        self.senders.resize(needed, Sender::default());
        self.receivers.resize(needed, Receiver::default());
        self.skipped.resize(needed * self.spray.paths().div_ceil(64), 0);
        let [source, _] = core.ends(flow);
        let patience = self.parameters.timeout.0;
        self.senders[flow as usize] = Sender {
            speculative: self.window.cast_signed(),
            patience,
            walk: self.spray.begin(),
            is_speculating: true,
            ..Sender::default()
        };
        self.sending.add(source, flow);
        core.set_timer(flow, core.now().saturating_add(patience), 0);
    }

    fn next(&mut self, core: &mut Core, nic: u32, _at: u64) -> Next {
        while let Some(flow) = self.sending.remove_first(nic) {
            if let Some(id) = self.take_turn(core, flow) {
                self.try_to_send(core, flow);
                return Next::Packet(id);
            }
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
            Kind::Data => self.accept(core, nic, &packet),
            Kind::Header => self.reject(core, nic, &packet),
            Kind::Request => self.answer_request(core, nic, &packet),
            Kind::Ack => {
                self.ledger.acknowledge(flow, number, packet.value);
                if number == core.flow(flow).packets {
                    core.finish(flow);
                } else {
                    self.hear(core, flow);
                }
            }
            Kind::Nack => {
                self.ledger.lose(flow, number);
                let words = self.spray.paths().div_ceil(64);
                let path = packet.value as usize;
                self.skipped[flow as usize * words + path / 64] |= 1 << (path % 64);
                self.hear(core, flow);
            }
            Kind::Pull => {
                let sender = &mut self.senders[flow as usize];
                if packet.value > sender.pulled {
                    let credit = (packet.value - sender.pulled).saturating_mul(UNIT);
                    let credit = sender.credit.saturating_add_unsigned(credit);
                    sender.credit = credit.min(self.window.cast_signed());
                    sender.pulled = packet.value;
                }
                self.hear(core, flow);
            }
            Kind::Cnp => {}
        }
    }

    /// Time for a pull.
    fn wake(&mut self, core: &mut Core, nic: u32) {
        let flow = if let Some(flow) = self.again.remove_first(nic) {
            let receiver = &mut self.receivers[flow as usize];
            receiver.granted += self.grant;
            receiver.again = receiver.again.saturating_sub(self.grant);
            if receiver.again > 0 {
                self.again.add(nic, flow);
            } else if receiver.target > receiver.granted {
                self.wanting.add(nic, flow);
            }
            flow
        } else if let Some(flow) = self.wanting.remove_first(nic) {
            let receiver = &mut self.receivers[flow as usize];
            receiver.granted += self.grant;
            if receiver.target > receiver.granted {
                self.wanting.add(nic, flow);
            } else {
                self.content.add(nic, flow);
            }
            flow
        } else if let Some(flow) = self.content.remove_first(nic) {
            let receiver = &mut self.receivers[flow as usize];
            receiver.granted += self.grant;
            let surplus = receiver.granted.checked_sub(receiver.target);
            if surplus.is_some_and(|units| units < self.window / UNIT) {
                self.content.add(nic, flow);
            }
            flow
        } else {
            return;
        };
        let granted = self.receivers[flow as usize].granted;
        core.send_control(nic, Kind::Pull, flow, (0, granted), (0, 0));
        let pacer = &mut self.pacers[nic as usize];
        pacer.free_at = core.now().saturating_add(pacer.interval);
        core.wake(nic, pacer.free_at);
    }

    /// Time to look for what is overdue.
    fn timer(&mut self, core: &mut Core, flow: u32, tag: u32) {
        if core.flow(flow).done_at != u64::MAX {
            return;
        }
        let expired = self.ledger.expire(flow);
        let sender = &mut self.senders[flow as usize];
        if expired == 0 && !sender.is_heard {
            let longest = self.parameters.longest_timeout().0;
            sender.patience = sender.patience.saturating_mul(2).min(longest);
        }
        core.set_timer(flow, core.now().saturating_add(sender.patience), tag);
        let is_silent = !std::mem::replace(&mut sender.is_heard, false);
        sender.is_speculating = false;
        if is_silent || expired > 0 && sender.credit <= 0 {
            let [source, _] = core.ends(flow);
            let (lost, target) = (self.ledger.lost(flow), sender.target);
            core.send_control(source, Kind::Request, flow, (lost, target), (0, 0));
        }
        self.try_to_send(core, flow);
    }
}
