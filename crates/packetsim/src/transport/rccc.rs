//! RCCC, the receiver credit-based congestion control of Ultra Ethernet (UET, specification 1.0,
//! 3.6.14), in the form of the simulator that the consortium made public (uet-htsim).
//!
//! A sender starts at line rate with credit for one window; from the first feedback on it sends on
//! credit alone. Each packet states up to where the sender wants credit (its *target*): what it has
//! to send for the first time or again, at most a window, less the credit that it has, divided
//! among the flows that wait at its NIC. The receiving NIC grants credit by *pulls*, of up to four
//! packets each and as fast as its link carries what they grant: in turns to flows whose target is
//! not reached, else, to keep links busy, up to a window more than was requested. A trimmed packet
//! is reported at once.
//!
//! A sender that hears nothing requests credit; the receiver responds with what it has granted.
//! Packets are sprayed over all paths, which are avoided where packets were trimmed.
//!
//! Assumes that every packet is acknowledged, and that a request states what is to be sent again,
//! where the reference repeats its last target. Leaves out the sender's own window (NSCC with
//! RCCC), and slower pulls where the fabric's core is the bottleneck.

use super::avoidance::{Avoidance, MARK_PENALTY, TRIM_PENALTY};
use super::interface::{Next, Parameters, Transport, prefetch_end};
use super::ledger::Ledger;
use super::nscc;
use super::overdue::{Checks, longest_timeout};
use super::round_robin::RoundRobin;
use super::spray::Walk;
use super::table::{PerFlow, PerNic};
use crate::config::Config;
use crate::error::PacketError;
use crate::flow::PacketFlowId;
use crate::network::core::Core;
use crate::packet::{Control, ECHO, MARKED, Packet, PacketId, PacketKind, TRANSPORT_A};
use crate::topology::NicId;
use lightloom_model::{Bytes, Duration, Rate, Time};
use serde::{Deserialize, Serialize};

/// In acknowledgements: the receiver has all packets.
const COMPLETE: u8 = TRANSPORT_A;

/// Bytes of credit that a unit of targets stands for; these count modulo 2^32.
const UNIT: u32 = 256;

/// Packets' worth of credit that a pull grants.
const PACKETS_PER_PULL: u32 = 4;

/// Units after which the next pull follows one that grants nothing.
const IDLE_UNITS: u32 = 4;

/// Parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RcccParameters {
    /// Packets' worth of credit to begin with, and of credit wanted at a time; `None`: one and a
    /// half times what the longest round trip of all flows holds.
    pub window: Option<u32>,
    /// Rate at which credit is granted, in percent of that of the receiver's link.
    pub pull_percent: u32,
    /// Time after which an unacknowledged packet is sent again, if that is at least twice the round
    /// trip of an idle network; up to 64 times as long while nothing is heard from the receiver.
    #[serde(rename = "timeout_ps")]
    pub timeout: Duration,
}

impl Default for RcccParameters {
    /// As in uet-htsim; the timeout is that of six queues of a round trip, at any rate.
    fn default() -> Self {
        Self { window: None, pull_percent: 99, timeout: Duration(100_000_000) }
    }
}

impl Parameters for RcccParameters {
    type Transport = Rccc;

    fn profile(rate: Rate) -> (Config, Self) {
        (nscc::network(rate), Self::default())
    }

    fn validate(&self) -> Result<(), PacketError> {
        let window = self.window.unwrap_or(1);
        let fits = (1..=1 << 14).contains(&window) && (1..=1000).contains(&self.pull_percent);
        if !fits || self.timeout.0 == 0 {
            return Err(PacketError::invalid(format!(
                "RCCC with a window of {window} packets, pulls at {} % and a timeout of {} us; \
                 expected 1 to 16,384 packets, 1 to 1,000 % and more than 0 us",
                self.pull_percent,
                1e6 * self.timeout.as_seconds()
            )));
        }
        Ok(())
    }

    fn longest_timeout(&self) -> Duration {
        longest_timeout(self.timeout)
    }

    fn reference_rate() -> Option<Rate> {
        None
    }

    fn fit(&mut self, _factor: f64) {
        self.window = None;
    }

    fn given_window(&self) -> Option<f64> {
        self.window.map(f64::from)
    }

    fn transport(self, core: &Core) -> Rccc {
        Rccc::new(core, self)
    }
}

/// The sending end of a flow.
#[derive(Debug, Clone, Copy, Default)]
struct Sender {
    /// In bytes; may be overdrawn by less than a packet.
    credit: i64,
    /// Credit ever granted, in units.
    pulled: u32,
    /// Current time between two checks for overdue packets.
    timeout: Duration,
    checks: Checks,
    walk: Walk,
    /// Whether nothing has come from the receiver yet.
    is_speculating: bool,
    /// Whether it is in the circle of its NIC.
    is_waiting: bool,
}

/// The receiving end of a flow, in units.
#[derive(Debug, Clone, Copy, Default)]
struct Receiver {
    /// Highest target seen.
    target: u32,
    /// Credit ever granted.
    granted: u32,
}

impl Receiver {
    /// How much is wanted; negative where more was granted.
    fn missing(self) -> i32 {
        self.target.wrapping_sub(self.granted).cast_signed()
    }
}

/// State of the flows and NICs.
#[derive(Debug, Clone)]
pub struct Rccc {
    parameters: RcccParameters,
    /// In bytes; of the flows that were there at the first start.
    window: Option<u32>,
    ledger: Ledger,
    paths: Avoidance,
    senders: PerFlow<Sender>,
    receivers: PerFlow<Receiver>,
    /// When a NIC may send the next pull.
    free_at: PerNic<Time>,
    /// Flows that want to send, by sending NIC, and how many these are.
    sending: RoundRobin,
    waiting: PerNic<u32>,
    /// By receiving NIC: flows that want credit, that have enough.
    wanting: RoundRobin,
    satisfied: RoundRobin,
}

impl Rccc {
    /// For the NICs of a network.
    pub fn new(core: &Core, parameters: RcccParameters) -> Self {
        let nics = core.nic_count();
        Self {
            parameters,
            window: None,
            ledger: Ledger::default(),
            paths: Avoidance::new(core.config()),
            senders: PerFlow::default(),
            receivers: PerFlow::default(),
            free_at: PerNic::new(nics, |_| Time::ZERO),
            sending: RoundRobin::new(core),
            waiting: PerNic::new(nics, |_| 0),
            wanting: RoundRobin::new(core),
            satisfied: RoundRobin::new(core),
        }
    }

    /// One and a half times what the longest round trip holds at the rate of the fastest NIC,
    /// unless it is given.
    fn find_window(&self, core: &Core) -> u32 {
        let packet = core.config().packet_bytes();
        if let Some(packets) = self.parameters.window {
            return packets * packet;
        }
        let rates = (0..core.nic_count() as u32).map(|nic| core.nic_rate(NicId(nic)).0);
        let rate = rates.max().unwrap_or_default();
        let bits = u128::from(rate) * u128::from(core.longest_round_trip().0);
        let bytes = bits * 3 / 2 / 8 / 1_000_000_000_000;
        u32::try_from(bytes).unwrap_or(u32::MAX).clamp(packet, packet << 14)
    }

    fn window(&self) -> u32 {
        self.window.unwrap_or_default()
    }

    /// A flow has its turn at the NIC: its packet, if it has the credit for one.
    fn take_turn(&mut self, core: &mut Core, nic: NicId, flow: PacketFlowId) -> Option<PacketId> {
        if self.senders[flow].credit <= 0 {
            return None;
        }
        let sending = self.ledger.next(flow)?;
        self.ledger.send(flow, sending);
        let sender = &mut self.senders[flow];
        sender.credit -= i64::from(core.packet_size(flow, sending.sequence));
        let path = self.paths.next(flow, &mut sender.walk);
        let target = self.target(core, nic, flow);
        let id = core.new_data(flow, sending.sequence, path);
        core.packet_mut(id).value = target;
        Some(id)
    }

    /// Up to where a sender wants credit.
    fn target(&self, core: &Core, nic: NicId, flow: PacketFlowId) -> u32 {
        let sender = &self.senders[flow];
        let packet = i64::from(core.config().packet_bytes());
        let unsent = i64::from(self.ledger.unsent(flow));
        let waiting = unsent + i64::from(self.ledger.lost(flow));
        // The last packet, which may be shorter, is sent for the first time after all others.
        let last = i64::from(core.packet_size(flow, core.flow(flow).packets - 1));
        let shorter = if unsent > 0 { packet - last } else { 0 };
        let left = waiting.saturating_mul(packet) - shorter;
        let mut wanted = left.min(i64::from(self.window())) - sender.credit;
        if sender.is_speculating && unsent > 0 {
            wanted = wanted.max(packet);
        }
        wanted /= i64::from(self.waiting[nic].max(1));
        let units = -(-wanted).div_euclid(i64::from(UNIT));
        sender.pulled.wrapping_add_signed(units as i32)
    }

    /// Feedback reached the sender: it no longer speculates.
    fn hear(&mut self, flow: PacketFlowId) {
        let sender = &mut self.senders[flow];
        sender.checks.hear();
        if std::mem::replace(&mut sender.is_speculating, false) {
            sender.credit = sender.credit.min(0);
        }
    }

    fn try_to_send(&mut self, core: &Core, flow: PacketFlowId) {
        let sender = &mut self.senders[flow];
        let has_more = self.ledger.unsent(flow) > 0 || self.ledger.lost(flow) > 0;
        if sender.credit > 0 && has_more && !sender.is_waiting {
            sender.is_waiting = true;
            let nic = core.endpoints(flow).source();
            self.waiting[nic] += 1;
            self.sending.add(nic, flow, core.priority(flow));
        }
    }

    /// The receiver gets a packet or its header.
    fn respond(&mut self, core: &mut Core, nic: NicId, packet: &Packet) {
        let (flow, sequence, path) = (packet.flow, packet.sequence, packet.path);
        let mut kind = PacketKind::Ack;
        self.aim(core, nic, packet);
        if packet.kind == PacketKind::Data {
            if self.ledger.receive(flow, sequence) {
                core.receive(flow);
            }
        } else if !self.ledger.has(flow, sequence) {
            kind = PacketKind::Nack;
            self.want(core, nic, flow);
        }
        let is_complete = self.ledger.expected(flow) == core.flow(flow).packets;
        let mark = if packet.flags & MARKED == 0 { 0 } else { ECHO };
        let flags = mark | if is_complete { COMPLETE } else { 0 };
        core.send_control(nic, Control { kind, flow, sequence, value: 0, path, flags });
    }

    /// The receiver learns what the sender wants.
    fn aim(&mut self, core: &mut Core, nic: NicId, packet: &Packet) {
        let receiver = &mut self.receivers[packet.flow];
        if packet.value.wrapping_sub(receiver.target).cast_signed() > 0 {
            receiver.target = packet.value;
            self.want(core, nic, packet.flow);
        }
    }

    /// A flow is pulled in its turn.
    fn want(&mut self, core: &mut Core, nic: NicId, flow: PacketFlowId) {
        self.wanting.add(nic, flow, core.priority(flow));
        core.wake(nic, self.free_at[nic]);
    }

    /// Units that the next pull of a NIC grants, and to which flow.
    fn grant(&mut self, core: &Core, nic: NicId) -> Option<(PacketFlowId, u32)> {
        let full = (PACKETS_PER_PULL * core.config().mtu).div_ceil(UNIT);
        if let Some(flow) = self.wanting.remove_first(nic) {
            let receiver = &mut self.receivers[flow];
            let units = receiver.missing().clamp(0, full.cast_signed()).cast_unsigned();
            receiver.granted = receiver.granted.wrapping_add(units);
            if receiver.missing() > 0 {
                self.wanting.add(nic, flow, core.priority(flow));
            } else {
                self.satisfied.add(nic, flow, core.priority(flow));
            }
            return Some((flow, units));
        }
        let flow = self.satisfied.remove_first(nic)?;
        let surplus = (self.window() / UNIT).cast_signed();
        let receiver = &mut self.receivers[flow];
        receiver.granted = receiver.granted.wrapping_add(full);
        let missing = receiver.missing();
        if missing <= 0 && -missing < surplus {
            self.satisfied.add(nic, flow, core.priority(flow));
        }
        Some((flow, full))
    }
}

impl Transport for Rccc {
    fn start(&mut self, core: &mut Core, flow: PacketFlowId) {
        self.expect(core, flow);
        self.senders.make_room(flow, Sender::default());
        let timeout = self.parameters.timeout;
        self.senders[flow] = Sender {
            credit: i64::from(self.window()),
            timeout,
            walk: self.paths.begin(flow),
            is_speculating: true,
            ..Sender::default()
        };
        self.try_to_send(core, flow);
        core.set_timer(flow, core.now() + timeout);
    }

    fn expect(&mut self, core: &mut Core, flow: PacketFlowId) {
        if self.window.is_none() {
            self.window = Some(self.find_window(core));
        }
        self.ledger.open(flow, core.flow(flow).packets);
        self.receivers.make_room(flow, Receiver::default());
    }

    fn next(&mut self, core: &mut Core, nic: NicId, _at: Time) -> Next {
        self.sending.heed_pauses(core, nic);
        while let Some(flow) = self.sending.remove_first(nic) {
            self.senders[flow].is_waiting = false;
            let id = self.take_turn(core, nic, flow);
            self.waiting[nic] -= 1;
            if let Some(id) = id {
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
            PacketKind::Data | PacketKind::Header => self.respond(core, nic, &packet),
            PacketKind::Request => {
                self.aim(core, nic, &packet);
                self.want(core, nic, flow);
            }
            PacketKind::Ack if packet.flags & COMPLETE != 0 => {
                self.ledger.close(flow);
                core.complete(flow);
            }
            PacketKind::Ack | PacketKind::Nack => {
                self.hear(flow);
                if packet.kind == PacketKind::Nack {
                    self.paths.avoid(flow, packet.path, TRIM_PENALTY);
                    self.ledger.lose(flow, sequence);
                } else {
                    if packet.flags & ECHO != 0 {
                        self.paths.avoid(flow, packet.path, MARK_PENALTY);
                    }
                    self.ledger.acknowledge_one(flow, sequence);
                }
                self.try_to_send(core, flow);
            }
            PacketKind::Pull => {
                self.hear(flow);
                let window = i64::from(self.window());
                let sender = &mut self.senders[flow];
                let units = packet.value.wrapping_sub(sender.pulled).cast_signed();
                if units > 0 {
                    let credit = sender.credit + i64::from(units) * i64::from(UNIT);
                    sender.credit = credit.min(window);
                    sender.pulled = packet.value;
                }
                self.try_to_send(core, flow);
            }
            PacketKind::Cnp => {}
        }
    }

    /// Time for a pull.
    fn wake(&mut self, core: &mut Core, nic: NicId) {
        let Some((flow, units)) = self.grant(core, nic) else { return };
        let value = self.receivers[flow].granted;
        core.send_control(nic, Control { value, ..Control::new(PacketKind::Pull, flow) });
        let bytes = u64::from(if units == 0 { IDLE_UNITS } else { units } * UNIT);
        let hundredfold = core.nic_rate(nic).transmission(Bytes(100 * bytes)).0;
        let span = Duration((hundredfold / u64::from(self.parameters.pull_percent)).max(1));
        self.free_at[nic] = core.now() + span;
        core.wake(nic, self.free_at[nic]);
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
        if expired > 0 && std::mem::replace(&mut sender.is_speculating, false) {
            sender.credit = sender.credit.min(0);
        }
        if is_silent || expired > 0 && self.senders[flow].credit <= 0 {
            let nic = core.endpoints(flow).source();
            let value = self.target(core, nic, flow);
            core.send_control(nic, Control { value, ..Control::new(PacketKind::Request, flow) });
        }
        self.try_to_send(core, flow);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presets::star;
    use crate::profile;
    use lightloom_model::Rate;

    /// Four packets a pull as long as so much is wanted, then the rest, and then a window more,
    /// which is three pulls here.
    #[test]
    fn a_pull_grants_what_is_wanted_and_a_window_more() {
        let rate = Rate(100_000_000_000);
        let topology = star(2, rate, Duration(1_000_000)).unwrap();
        let core = Core::with_flows(topology, profile("uet-rccc", rate).unwrap().0, &[]);
        let mut rccc = Rccc::new(&core, RcccParameters::default());
        let (nic, flow, full) = (NicId(1), PacketFlowId(0), 4 * 4096 / 256);
        rccc.window = Some(3 * full * 256);
        rccc.receivers.make_room(flow, Receiver::default());
        rccc.receivers[flow].target = full + 5;
        rccc.wanting.add(nic, flow, 0);
        let mut grants = Vec::new();
        while let Some((granted, units)) = rccc.grant(&core, nic) {
            assert_eq!(granted, flow);
            grants.push(units);
        }
        assert_eq!(grants, [full, 5, full, full, full]);
        assert_eq!(rccc.receivers[flow].missing(), -3 * full.cast_signed());
    }
}
