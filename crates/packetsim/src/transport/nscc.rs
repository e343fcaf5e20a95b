//! NSCC, the network signal-based congestion control of Ultra Ethernet (UET, specification 1.0,
//! 3.6.13), in the form of the simulator that the consortium made public (uet-htsim).
//!
//! A sender holds a window of bytes. Acknowledgements echo ECN marks and tell the delay that queues
//! add to the shortest round trip. Not marked and below a target delay the window grows in
//! proportion to what is missing, or fast without any delay; not marked and above it by a constant,
//! so that shares become equal; marked and above it, the window shrinks once per round trip by the
//! average excess; marked and below it, only the path is avoided. Each trimmed packet takes a
//! packet off the window, and when hardly anything arrives, what did becomes the window (quick
//! adaptation).
//!
//! Packets are sprayed over all paths, which are avoided where packets were marked or trimmed.
//!
//! Assumes one base round trip for all flows and acknowledges every packet, where the specification
//! allows one for several. Leaves out the receiver's credit
//! ([`super::rccc`] has that alone), loss inference without trimming other than timeouts, and
//! recycled paths (REPS).

mod parameters;
mod window;

pub use parameters::NsccParameters;

use super::avoidance::{Avoidance, MARK_PENALTY, TRIM_PENALTY};
use super::interface::{Next, Parameters, Transport};
use super::ledger::Ledger;
use super::overdue::{Checks, longest_timeout};
use super::round_robin::RoundRobin;
use super::spray::{Walk, trimming};
use super::table::PerFlow;
use crate::config::{Config, Ecn, Marking, PathChoice};
use crate::error::PacketError;
use crate::flow::PacketFlowId;
use crate::network::core::Core;
use crate::packet::{Control, ECHO, MARKED, Packet, PacketKind, TRANSPORT_A};
use crate::topology::NicId;
use lightloom_model::{Duration, Rate, Time};
use window::{Acknowledgement, Scale, Window};

/// In acknowledgements: the receiver has all packets.
const COMPLETE: u8 = TRANSPORT_A;
/// The sending end of a flow.
#[derive(Debug, Clone, Copy)]
struct Sender {
    window: Window,
    /// Packets that are neither acknowledged nor known to be lost.
    in_flight: u32,
    /// Current time between two checks for overdue packets.
    timeout: Duration,
    checks: Checks,
    walk: Walk,
}

impl Parameters for NsccParameters {
    type Transport = Nscc;

    fn profile(rate: Rate) -> (Config, Self) {
        (network(rate), Self::default())
    }

    fn validate(&self) -> Result<(), PacketError> {
        let zero = Some(Duration::ZERO);
        if self.base_rtt == zero || self.target_delay == zero || self.timeout.0 == 0 {
            return Err(PacketError::invalid(
                "NSCC base round trip, target delay and timeout; expected all above 0",
            ));
        }
        Ok(())
    }

    fn reference_rate() -> Option<Rate> {
        None
    }

    fn longest_timeout(&self) -> Duration {
        longest_timeout(self.timeout)
    }

    fn transport(self, core: &Core) -> Nscc {
        Nscc::new(core, self)
    }
}

/// As [`trimming`], with what `htsim_uec` sets for a three-tier tree of links of 1 us: queues of
/// what such a round trip takes, marks from a fifth of that on, more and more up to four fifths.
/// A network with 64 paths.
pub(super) fn network(rate: Rate) -> Config {
    let network = trimming(false);
    let packet = network.packet_bytes();
    let sent = u128::from(rate.0) * 12 / 8_000_000;
    let bytes = sent + u128::from(6 * (packet + network.control_bytes));
    // below 4 GB
    let packets = bytes.div_ceil(u128::from(packet)).clamp(2, 60_000) as u32;
    let whole = |fifths: u32| (packets * fifths).div_ceil(5) * packet;
    let queue = whole(5);
    Config {
        queue_bytes: queue - packet,
        control_queue_bytes: 2 * queue,
        ecn: Some(Ecn {
            marking: Marking::Departure,
            min_bytes: whole(1),
            max_bytes: whole(4),
            probability: 1.0,
        }),
        paths: PathChoice::Spray(64),
        ..network
    }
}

/// State of the flows.
#[derive(Debug, Clone)]
pub struct Nscc {
    parameters: NsccParameters,
    ledger: Ledger,
    paths: Avoidance,
    /// The longest round trip of the flows that were there at the first start.
    longest: Option<Duration>,
    senders: PerFlow<Option<Sender>>,
    sending: RoundRobin,
}

impl Nscc {
    /// For the NICs of a network.
    pub fn new(core: &Core, parameters: NsccParameters) -> Self {
        Self {
            parameters,
            ledger: Ledger::default(),
            paths: Avoidance::new(core.config()),
            longest: None,
            senders: PerFlow::default(),
            sending: RoundRobin::new(core),
        }
    }

    /// The window of a flow that has started, in bytes.
    pub fn window(&self, flow: PacketFlowId) -> f64 {
        let sender = self.senders.get(flow).and_then(Option::as_ref);
        sender.map_or(0.0, |sender| sender.window.bytes)
    }

    fn scale(&self, core: &Core, flow: PacketFlowId) -> Scale {
        let config = core.config();
        let line = core.nic_rate(core.endpoints(flow).source()).0 as f64 / 8e12;
        let longest = self.longest.unwrap_or_default();
        Scale::new(&self.parameters, config.mtu, config.packet_bytes(), line, longest)
    }

    fn may_send(&self, core: &Core, flow: PacketFlowId) -> bool {
        let Some(sender) = &self.senders[flow] else { return false };
        let bytes = f64::from(sender.in_flight + 1) * f64::from(core.config().packet_bytes());
        bytes <= sender.window.bytes && (self.ledger.lost(flow) > 0 || self.ledger.unsent(flow) > 0)
    }

    fn try_to_send(&mut self, core: &Core, flow: PacketFlowId) {
        if self.may_send(core, flow) {
            self.sending.add(core.endpoints(flow).source(), flow, core.priority(flow));
        }
    }

    /// The receiver gets a packet or its header.
    fn respond(&mut self, core: &mut Core, nic: NicId, packet: &Packet) {
        let (flow, sequence, path) = (packet.flow, packet.sequence, packet.path);
        let mut kind = PacketKind::Ack;
        if packet.kind == PacketKind::Data {
            if self.ledger.receive(flow, sequence) {
                core.receive(flow);
            }
        } else if !self.ledger.has(flow, sequence) {
            kind = PacketKind::Nack;
        }
        let is_complete = self.ledger.expected(flow) == core.flow(flow).packets;
        let mark = if packet.flags & MARKED == 0 { 0 } else { ECHO };
        let flags = mark | if is_complete { COMPLETE } else { 0 };
        let value = packet.value;
        core.send_control(nic, Control { kind, flow, sequence, value, path, flags });
    }

    /// The sender gets an acknowledgement.
    fn acknowledge(&mut self, core: &mut Core, packet: &Packet) {
        let flow = packet.flow;
        if packet.flags & COMPLETE != 0 {
            self.ledger.close(flow);
            return core.complete(flow);
        }
        let scale = self.scale(core, flow);
        let is_marked = packet.flags & ECHO != 0;
        if is_marked {
            self.paths.avoid(flow, packet.path, MARK_PENALTY);
        }
        let was_in_flight = self.ledger.acknowledge_one(flow, packet.sequence);
        let Some(sender) = &mut self.senders[flow] else { return };
        sender.checks.hear();
        sender.in_flight -= u32::from(was_in_flight);
        let newly = if was_in_flight { scale.packet } else { 0.0 };
        let in_flight = f64::from(sender.in_flight) * scale.packet;
        let span = nanoseconds(core.now()).wrapping_sub(packet.value);
        let round_trip = Duration(1000 * u64::from(span));
        let ack = Acknowledgement { newly, in_flight, round_trip, is_marked };
        sender.window.acknowledge(&scale, ack, core.now());
        self.try_to_send(core, flow);
    }

    /// The sender learns that a packet was trimmed.
    fn lose(&mut self, core: &Core, packet: &Packet) {
        let flow = packet.flow;
        self.paths.avoid(flow, packet.path, TRIM_PENALTY);
        let is_new = self.ledger.lose(flow, packet.sequence);
        let scale = self.scale(core, flow);
        if let Some(sender) = &mut self.senders[flow] {
            sender.checks.hear();
            if is_new {
                sender.in_flight -= 1;
                let in_flight = f64::from(sender.in_flight) * scale.packet;
                sender.window.lose(&scale, in_flight, core.now());
            }
        }
        self.try_to_send(core, flow);
    }
}

/// A time as a stamp of 32 bits, for differences of up to four seconds.
fn nanoseconds(time: Time) -> u32 {
    (time.0 / 1000) as u32
}

impl Transport for Nscc {
    fn start(&mut self, core: &mut Core, flow: PacketFlowId) {
        if self.longest.is_none() {
            self.longest = Some(core.longest_round_trip());
        }
        self.expect(core, flow);
        self.senders.make_room(flow, None);
        let timeout = self.parameters.timeout;
        self.senders[flow] = Some(Sender {
            window: Window::new(&self.scale(core, flow)),
            in_flight: 0,
            timeout,
            checks: Checks::default(),
            walk: self.paths.begin(flow),
        });
        self.try_to_send(core, flow);
        core.set_timer(flow, core.now() + timeout);
    }

    fn expect(&mut self, core: &mut Core, flow: PacketFlowId) {
        self.ledger.open(flow, core.flow(flow).packets);
    }

    fn next(&mut self, core: &mut Core, nic: NicId, at: Time) -> Next {
        self.sending.heed_pauses(core, nic);
        while let Some(flow) = self.sending.first(nic) {
            let sending = if self.may_send(core, flow) { self.ledger.next(flow) } else { None };
            let Some(sending) = sending else {
                self.sending.remove_first(nic);
                continue;
            };
            self.ledger.send(flow, sending);
            let Some(sender) = &mut self.senders[flow] else { continue };
            sender.in_flight += 1;
            let path = self.paths.next(flow, &mut sender.walk);
            self.sending.rotate(nic);
            let id = core.new_data(flow, sending.sequence, path);
            core.packet_mut(id).value = nanoseconds(at);
            return Next::Packet(id);
        }
        Next::Nothing
    }

    #[inline]
    fn prefetch_flow(&self, packet: &Packet) {
        self.ledger.prefetch(packet.flow);
        self.senders.prefetch(packet.flow);
    }

    #[inline]
    fn prefetch_packet(&self, packet: &Packet) {
        self.ledger.prefetch_packet(packet.flow, packet.sequence);
    }

    fn receive(&mut self, core: &mut Core, nic: NicId, packet: Packet) {
        match packet.kind {
            PacketKind::Data | PacketKind::Header => self.respond(core, nic, &packet),
            PacketKind::Ack => self.acknowledge(core, &packet),
            PacketKind::Nack => self.lose(core, &packet),
            _ => {}
        }
    }

    /// Time to check for overdue packets.
    fn timer(&mut self, core: &mut Core, flow: PacketFlowId) {
        if core.flow(flow).is_done() {
            return;
        }
        let scale = self.scale(core, flow);
        let longest = self.parameters.longest_timeout();
        let Some(sender) = &mut self.senders[flow] else { return };
        if sender.checks.is_early(core, flow, &mut sender.timeout) {
            return;
        }
        let expired = self.ledger.expire(flow);
        sender.checks.renew(core, flow, expired, &mut sender.timeout, longest);
        for _ in 0..expired {
            sender.in_flight -= 1;
            let in_flight = f64::from(sender.in_flight) * scale.packet;
            sender.window.lose(&scale, in_flight, core.now());
        }
        self.try_to_send(core, flow);
    }
}
