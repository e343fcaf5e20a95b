//! DCTCP (Alizadeh et al., SIGCOMM 2010; RFC 8257) over TCP `NewReno` (RFC 5681, 6298, 6582).
//!
//! The receiver acknowledges every packet and echoes its mark. Once per window of data the sender
//! updates its estimate `alpha` of the share of marked packets, and if any was marked, shrinks the
//! window by half that share. Three duplicate acknowledgements repeat the first missing packet and
//! halve the window; a timeout starts again from one packet.
//!
//! Assumes a connection that exists already, packets counted rather than bytes, and
//! acknowledgements that are small. Leaves out selective and delayed acknowledgements, pacing, and
//! the shrinking of idle windows. By default connections start as those of kernels do, and flows of
//! a NIC take turns by packet, as the queues of kernels and NICs have it.
//! [`DctcpParameters::FFSIM`] is the simulator of TopoOpt and MixNet, but for two of its
//! peculiarities: there, acknowledgements take no time, and `alpha` shrinks the window even when
//! nothing was marked.

use super::fit::window;
use super::interface::{Next, Parameters, Transport, prefetch_end};
use super::round_robin::RoundRobin;
use super::table::{PerFlow, PerNic};
use super::tcp::{Arrived, MAX_DOUBLINGS, NEVER, REPEAT, Receiver, Sender, TIMER, nanoseconds};
use crate::config::{Config, Ecn, Marking};
use crate::error::PacketError;
use crate::flow::PacketFlowId;
use crate::network::core::Core;
use crate::packet::{Control, ECHO, MARKED, Packet, PacketKind};
use crate::topology::NicId;
use lightloom_model::{Duration, Rate, Time};
use serde::{Deserialize, Serialize};

/// Packets of the window of kernels at the start (RFC 6928).
pub(super) const WINDOW: u32 = 10;

/// Parameters.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DctcpParameters {
    /// Window at the start, in packets; `None`: what fills a round trip, and `WINDOW` at least.
    pub initial_window: Option<u32>,
    /// Window up to which it doubles per round trip at the start, in packets.
    pub initial_threshold: u32,
    /// Weight of the last window of data in `alpha`: g.
    pub gain: f32,
    /// `alpha` at the start; RFC 8257 recommends 1.
    pub initial_alpha: f32,
    /// Minimum time until a retransmission.
    #[serde(rename = "min_timeout_ps")]
    pub min_timeout: Duration,
    /// Timeouts are at multiples of this: kernels check timers periodically.
    #[serde(rename = "timer_tick_ps")]
    pub timer_tick: Duration,
    /// Whether a NIC sends all that a flow's window allows before it turns to the next flow, as
    /// hosts with one queue do; else flows take turns by packet.
    pub bursts: bool,
}

impl Default for DctcpParameters {
    /// As in kernels: ten packets at the start and `alpha` of 1 (RFC 8257).
    fn default() -> Self {
        Self { initial_window: Some(WINDOW), initial_alpha: 1.0, bursts: false, ..Self::FFSIM }
    }
}

impl DctcpParameters {
    /// ffsim-opera, the simulator of TopoOpt and MixNet.
    pub const FFSIM: Self = Self {
        initial_window: Some(100),
        initial_threshold: 10_000,
        gain: 1.0 / 16.0,
        initial_alpha: 0.0,
        min_timeout: Duration(10_000_000_000),
        timer_tick: Duration(1_000_000_000),
        bursts: true,
    };
}

impl Parameters for DctcpParameters {
    type Transport = Dctcp;

    /// ffsim-opera, the simulator of TopoOpt and MixNet: full packets of 8,936 B, marks from the
    /// 51st on when a packet departs, acknowledgements that take no room. The published runs of
    /// MixNet give it queues of 10,000 packets (`-q 10000`) with the one being sent, which ours do
    /// not hold.
    fn profile(_rate: Rate) -> (Config, Self) {
        let marks = Ecn {
            marking: Marking::Departure,
            min_bytes: 50 * 8936,
            max_bytes: 50 * 8936,
            probability: 1.0,
        };
        let network = Config {
            mtu: 8936,
            header: 0,
            control_bytes: 1,
            control_priority: true,
            queue_bytes: 9_999 * 8936,
            ecn: Some(marks),
            ..Config::ENDLESS
        };
        (network, Self::default())
    }

    fn validate(&self) -> Result<(), PacketError> {
        let wrong = |text: String| Err(PacketError::invalid(text));
        let initial = self.initial_window.unwrap_or(WINDOW);
        if initial == 0 || self.initial_threshold == 0 {
            return wrong(format!(
                "DCTCP starts with a window of {} packets and a threshold of {}; expected at least \
                 1 each",
                initial, self.initial_threshold
            ));
        }
        let is_share = |value: f32| (0.0..=1.0).contains(&value);
        if self.gain == 0.0 || !is_share(self.gain) || !is_share(self.initial_alpha) {
            return wrong(format!(
                "DCTCP gain {}, alpha {}; expected 0 < gain <= 1 and 0 <= alpha <= 1",
                self.gain, self.initial_alpha
            ));
        }
        if self.min_timeout.0 == 0 || self.timer_tick.0 == 0 {
            return wrong("DCTCP timeout and timer tick; expected both above 0".into());
        }
        Ok(())
    }

    fn fit(&mut self, _factor: f64) {
        self.initial_window = None;
    }

    fn given_window(&self) -> Option<f64> {
        self.initial_window.map(f64::from)
    }

    fn longest_timeout(&self) -> Duration {
        Duration(self.min_timeout.0.saturating_mul(1 << MAX_DOUBLINGS))
    }

    fn transport(self, core: &Core) -> Dctcp {
        Dctcp::new(core, self)
    }
}

/// The sending end of a flow at its start, with its window in packets.
fn new_sender(parameters: &DctcpParameters, window: u32) -> Sender {
    let sender = Sender::new(window, parameters.initial_threshold);
    Sender { alpha: parameters.initial_alpha, ..sender }
}

impl Sender {
    /// RFC 8257, 3.3, at each acknowledgement up to `sequence`.
    fn observe(&mut self, sequence: u32, marked: bool, gain: f32) {
        self.round_acks += 1;
        if marked {
            self.round_marks += 1;
            self.threshold = self.threshold.min(self.window as f32);
        }
        if sequence <= self.round_end {
            return;
        }
        let share = self.round_marks as f32 / self.round_acks as f32;
        self.alpha += gain * (share - self.alpha);
        if self.round_marks > 0 && !self.is_recovering {
            self.window = (self.window * (1.0 - f64::from(self.alpha) / 2.0)).max(1.0);
            self.threshold = self.window as f32;
        }
        self.begin_round();
    }
}

/// State of the flows.
#[derive(Debug, Clone)]
pub struct Dctcp {
    parameters: DctcpParameters,
    active: RoundRobin,
    /// Per NIC how many packets the flow whose turn it is may still send before the next.
    left: PerNic<u32>,
    senders: PerFlow<Sender>,
    receivers: PerFlow<Receiver>,
    arrived: PerFlow<Arrived>,
}

impl Dctcp {
    /// For the NICs of a network.
    pub fn new(core: &Core, parameters: DctcpParameters) -> Self {
        Self {
            parameters,
            active: RoundRobin::new(core),
            left: PerNic::new(core.nic_count(), |_| 0),
            senders: PerFlow::default(),
            receivers: PerFlow::default(),
            arrived: PerFlow::default(),
        }
    }

    /// The estimated share of marked packets of a flow.
    pub fn alpha(&self, flow: PacketFlowId) -> f32 {
        self.senders[flow].alpha
    }

    /// The window of a flow, in packets.
    pub fn window(&self, flow: PacketFlowId) -> f64 {
        self.senders[flow].window
    }

    fn start_deadline(&mut self, core: &mut Core, flow: PacketFlowId, now: Time) {
        self.senders[flow].start_deadline(now, self.parameters.min_timeout);
        self.watch(core, flow);
    }

    /// Makes sure that a timer is pending, before the deadline or any that may replace it.
    fn watch(&mut self, core: &mut Core, flow: PacketFlowId) {
        let sender = &mut self.senders[flow];
        if sender.flags & TIMER == 0 {
            sender.flags |= TIMER;
            let time = sender.deadline.min(core.now() + self.parameters.min_timeout);
            let tick = self.parameters.timer_tick.0;
            core.set_timer(flow, Time(time.0.next_multiple_of(tick)));
        }
    }

    /// The flow of a NIC whose turn it is; those that finished meanwhile leave.
    fn turn(&mut self, nic: NicId) -> Option<PacketFlowId> {
        loop {
            let flow = self.active.first(nic)?;
            if self.senders[flow].may_send() {
                return Some(flow);
            }
            self.active.remove_first(nic);
            self.left[nic] = 0;
        }
    }

    fn data(&mut self, core: &mut Core, nic: NicId, packet: Packet) {
        let flow = packet.flow;
        let receiver = &mut self.receivers[flow];
        if receiver.accept(&mut self.arrived[flow], packet.sequence) {
            core.receive(flow);
        }
        let flags = if packet.flags & MARKED == 0 { 0 } else { ECHO };
        let (sequence, value) = (receiver.expected, packet.value);
        let ack = Control { sequence, value, flags, ..Control::new(PacketKind::Ack, flow) };
        core.send_control(nic, ack);
    }

    fn acknowledgement(&mut self, core: &mut Core, nic: NicId, packet: Packet) {
        let flow = packet.flow;
        let packets = core.flow(flow).packets;
        let sender = &mut self.senders[flow];
        if packet.sequence < sender.first || sender.first == packets {
            return;
        }
        let is_new = packet.sequence > sender.first;
        sender.observe(packet.sequence, packet.flags & ECHO != 0, self.parameters.gain);
        sender.measure(nanoseconds(core.now()).wrapping_sub(packet.value));
        if is_new {
            if sender.advance(packet.sequence) {
                sender.grow(sender.window);
            }
            if packet.sequence == packets {
                sender.deadline = NEVER;
                sender.flags &= !REPEAT;
                return core.complete(flow);
            }
            sender.hand_over(packets);
            if sender.unsent == sender.first {
                sender.deadline = NEVER;
            } else {
                self.start_deadline(core, flow, core.now());
            }
        } else {
            sender.repeat();
            sender.hand_over(packets);
        }
        if self.senders[flow].may_send() {
            self.active.add(nic, flow, core.priority(flow));
        }
    }
}

impl Transport for Dctcp {
    fn start(&mut self, core: &mut Core, flow: PacketFlowId) {
        self.expect(core, flow);
        let window = self.parameters.initial_window.unwrap_or_else(|| window(core, flow, WINDOW));
        self.senders.make_room(flow, new_sender(&self.parameters, WINDOW));
        self.senders[flow] = new_sender(&self.parameters, window);
        self.senders[flow].hand_over(core.flow(flow).packets);
        self.active.add(core.endpoints(flow).source(), flow, core.priority(flow));
    }

    fn expect(&mut self, _core: &mut Core, flow: PacketFlowId) {
        self.receivers.make_room(flow, Receiver::default());
        self.arrived.make_room(flow, Arrived::default());
    }

    fn next(&mut self, core: &mut Core, nic: NicId, at: Time) -> Next {
        self.active.heed_pauses(core, nic);
        let Some(flow) = self.turn(nic) else { return Next::Nothing };
        let sender = &mut self.senders[flow];
        let left = &mut self.left[nic];
        if *left == 0 {
            *left = if self.parameters.bursts { sender.unsent_count() } else { 1 };
        }
        *left -= 1;
        let sequence = sender.send();
        let is_unwatched = sender.deadline == NEVER;
        if !sender.may_send() {
            *left = 0;
            self.active.remove_first(nic);
        } else if *left == 0 {
            self.active.rotate(nic);
        }
        if is_unwatched {
            self.start_deadline(core, flow, at);
        }
        let id = core.new_data(flow, sequence, 0);
        core.packet_mut(id).value = nanoseconds(at);
        Next::Packet(id)
    }

    #[inline]
    fn prefetch_flow(&self, packet: &Packet) {
        prefetch_end(packet, &self.senders, &self.receivers);
    }

    fn receive(&mut self, core: &mut Core, nic: NicId, packet: Packet) {
        match packet.kind {
            PacketKind::Data => self.data(core, nic, packet),
            PacketKind::Ack => self.acknowledgement(core, nic, packet),
            _ => {}
        }
    }

    fn timer(&mut self, core: &mut Core, flow: PacketFlowId) {
        let sender = &mut self.senders[flow];
        sender.flags &= !TIMER;
        if sender.deadline == NEVER {
            return;
        }
        let (now, minimum) = (core.now(), self.parameters.min_timeout);
        if now < sender.deadline || sender.is_early(core.round_trip(flow), minimum, now) {
            return self.watch(core, flow);
        }
        self.senders[flow].time_out();
        self.start_deadline(core, flow, core.now());
        self.active.add(core.endpoints(flow).source(), flow, core.priority(flow));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKETS: u32 = 1 << 20;

    fn sender(window: u32, threshold: u32) -> Sender {
        let parameters = DctcpParameters {
            initial_window: Some(window),
            initial_threshold: threshold,
            ..DctcpParameters::FFSIM
        };
        let mut sender = new_sender(&parameters, window);
        sender.hand_over(PACKETS);
        sender
    }

    /// The next so many packets are acknowledged one by one.
    fn acknowledge(sender: &mut Sender, packets: u32, marked: bool) {
        for _ in 0..packets {
            let number = sender.first + 1;
            sender.observe(number, marked, 1.0 / 16.0);
            if sender.advance(number) {
                sender.grow(sender.window);
            }
            sender.hand_over(PACKETS);
        }
    }

    /// RFC 8257: until something is known, a mark halves the window, as a loss does.
    #[test]
    fn the_first_mark_halves_the_window() {
        let mut sender = new_sender(&DctcpParameters::default(), WINDOW);
        sender.hand_over(PACKETS);
        acknowledge(&mut sender, 9, false);
        assert!((sender.window - 19.0).abs() < 1e-9, "{}", sender.window);
        acknowledge(&mut sender, 12, true);
        assert!((9.0..13.0).contains(&sender.window), "{}", sender.window);
    }

    /// After n windows of data with a mark each, alpha is 1 - (1 - g)^n, and each has shrunk the
    /// window by half of what it then was.
    #[test]
    fn alpha_follows_its_recurrence() {
        let mut sender = sender(1000, 1000);
        let mut expected = 0.0;
        for round in 1..40 {
            let before = sender.alpha;
            while sender.alpha.to_bits() == before.to_bits() {
                let window = sender.window;
                acknowledge(&mut sender, 1, true);
                expected = window * (1.0 - f64::from(sender.alpha) / 2.0);
            }
            assert!((sender.alpha - (1.0 - 0.9375_f32.powi(round))).abs() < 1e-5);
            assert!(
                (sender.window - expected.max(1.0)).abs() < 1.0,
                "{} {expected}",
                sender.window
            );
            assert!(sender.window <= f64::from(sender.threshold) + 1.0, "no slow start");
        }
        // Windows without marks shrink alpha, and leave the window alone.
        let (alpha, window) = (sender.alpha, sender.window);
        acknowledge(&mut sender, 200, false);
        assert!(sender.alpha < alpha / 2.0 && sender.window >= window);
    }
}
