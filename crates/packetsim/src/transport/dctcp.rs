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

use super::round_robin::RoundRobin;
use super::table::{PerFlow, PerNic};
use super::{Next, Transport, prefetch_end};
use crate::error::PacketError;
use crate::flow::PacketFlowId;
use crate::network::core::Core;
use crate::packet::{Control, ECHO, MARKED, Packet, PacketKind};
use crate::topology::NicId;
use lightloom_model::{Duration, Time};
use std::collections::VecDeque;

/// No deadline.
const NEVER: Time = Time(u64::MAX);
/// Timeouts double up to this often.
const MAX_DOUBLINGS: u8 = 12;
/// Duplicate acknowledgements that mean a loss.
const DUPLICATES: u8 = 3;

/// Parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DctcpParameters {
    /// Window at the start, in packets.
    pub initial_window: u32,
    /// Window up to which it doubles per round trip at the start, in packets.
    pub initial_threshold: u32,
    /// Weight of the last window of data in `alpha`: g.
    pub gain: f32,
    /// `alpha` at the start; RFC 8257 recommends 1.
    pub initial_alpha: f32,
    /// Minimum time until a retransmission.
    pub min_timeout: Duration,
    /// Timeouts are at multiples of this: kernels check timers periodically.
    pub timer_tick: Duration,
    /// Whether a NIC sends all that a flow's window allows before it turns to the next flow, as
    /// hosts with one queue do; else flows take turns by packet.
    pub bursts: bool,
}

impl Default for DctcpParameters {
    /// As in kernels: ten packets at the start (RFC 6928) and `alpha` of 1 (RFC 8257).
    fn default() -> Self {
        Self { initial_window: 10, initial_alpha: 1.0, bursts: false, ..Self::FFSIM }
    }
}

impl DctcpParameters {
    /// ffsim-opera, the simulator of TopoOpt and MixNet.
    pub const FFSIM: Self = Self {
        initial_window: 100,
        initial_threshold: 10_000,
        gain: 1.0 / 16.0,
        initial_alpha: 0.0,
        min_timeout: Duration(10_000_000_000),
        timer_tick: Duration(1_000_000_000),
        bursts: true,
    };

    /// The longest time between two attempts, where round trips are short against it.
    pub fn longest_timeout(&self) -> Duration {
        Duration(self.min_timeout.0.saturating_mul(1 << MAX_DOUBLINGS))
    }

    /// Checks the values.
    ///
    /// # Errors
    /// Says which value is wrong and what was expected.
    pub fn validate(&self) -> Result<(), PacketError> {
        let wrong = |text: String| Err(PacketError::invalid(text));
        if self.initial_window == 0 || self.initial_threshold == 0 {
            return wrong(format!(
                "DCTCP starts with a window of {} packets and a threshold of {}; expected at least \
                 1 each",
                self.initial_window, self.initial_threshold
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
}

/// The sending end of a flow. Everything is counted in packets; one cache line.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct Sender {
    /// When the oldest packet in flight is considered lost.
    deadline: Time,
    window: f64,
    /// Below it the window grows by one packet per acknowledgement, above by one per window.
    threshold: f32,
    /// First packet not acknowledged.
    first: u32,
    /// Next packet that the window will let the NIC send.
    next: u32,
    /// Next packet that the NIC will send.
    unsent: u32,
    /// `next` when the last loss was found: no second loss is seen before it.
    recover: u32,
    /// `next` when the window of data began that `alpha` looks at.
    round_end: u32,
    /// Acknowledgements in it, and how many of them echoed a mark.
    round_acks: u32,
    round_marks: u32,
    /// Mean and deviation of round trips, in ns.
    rtt: u32,
    rtt_deviation: u32,
    alpha: f32,
    duplicates: u8,
    /// Doublings of the timeout.
    doublings: u8,
    is_recovering: bool,
    flags: u8,
}

/// In `Sender::flags`: the first packet is to be sent again.
const REPEAT: u8 = 1;
/// The flow has a timer pending.
const TIMER: u8 = 2;

impl Sender {
    fn new(parameters: &DctcpParameters) -> Self {
        Self {
            deadline: NEVER,
            window: f64::from(parameters.initial_window),
            threshold: parameters.initial_threshold as f32,
            first: 0,
            next: 0,
            unsent: 0,
            recover: 0,
            round_end: 0,
            round_acks: 0,
            round_marks: 0,
            rtt: 0,
            rtt_deviation: 0,
            alpha: parameters.initial_alpha,
            duplicates: 0,
            doublings: 0,
            is_recovering: false,
            flags: 0,
        }
    }

    fn in_flight(&self) -> f64 {
        f64::from(self.next - self.first)
    }

    fn may_send(&self) -> bool {
        self.flags & REPEAT != 0 || self.unsent < self.next
    }

    fn unsent_count(&self) -> u32 {
        self.next - self.unsent + u32::from(self.flags & REPEAT)
    }

    /// Hands to the NIC what the window has room for; it is not taken back if the window shrinks.
    fn hand_over(&mut self, packets: u32) {
        let end = u64::from(self.first) + self.window as u64;
        self.next = self.next.max(end.min(u64::from(packets)) as u32);
    }

    /// RFC 6298 with exact samples.
    fn measure(&mut self, sample: u32) {
        if self.rtt == 0 {
            (self.rtt, self.rtt_deviation) = (sample, sample / 2);
        } else {
            let error = self.rtt.abs_diff(sample);
            self.rtt_deviation = self.rtt_deviation - self.rtt_deviation / 4 + error / 4;
            self.rtt = self.rtt - self.rtt / 8 + sample / 8;
        }
        self.doublings = 0;
    }

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

    /// Begins a window of data.
    fn begin_round(&mut self) {
        self.round_end = self.next;
        (self.round_acks, self.round_marks) = (0, 0);
    }

    /// An acknowledgement of something new.
    fn advance(&mut self, sequence: u32) {
        let newly = sequence - self.first;
        self.first = sequence;
        self.unsent = self.unsent.max(sequence);
        self.next = self.next.max(sequence);
        self.duplicates = 0;
        if !self.is_recovering {
            let unused = (self.window - self.in_flight()).clamp(0.0, 1.0);
            let threshold = f64::from(self.threshold);
            if self.window < threshold {
                self.window = (self.window + unused).min(threshold);
            } else {
                self.window += unused / self.window;
            }
        } else if sequence >= self.recover {
            self.is_recovering = false;
            self.window = f64::from(self.threshold).min(self.in_flight() + 1.0);
        } else {
            self.window = (self.window - f64::from(newly)).max(0.0) + 1.0;
            self.flags |= REPEAT;
        }
    }

    /// An acknowledgement of nothing new.
    fn repeat(&mut self) {
        if self.is_recovering {
            self.window += 1.0;
            return;
        }
        self.duplicates = self.duplicates.saturating_add(1);
        if self.duplicates == DUPLICATES && self.first >= self.recover {
            self.lose();
            self.window = f64::from(self.threshold) + f64::from(DUPLICATES);
            self.is_recovering = true;
            self.flags |= REPEAT;
        }
    }

    /// A loss: halves the window, and begins a new window of data.
    fn lose(&mut self) {
        self.threshold = (self.window as f32 / 2.0).max(2.0);
        self.recover = self.recover.max(self.next);
        self.begin_round();
    }

    /// Nothing was acknowledged in time: sending continues at the first missing packet.
    fn time_out(&mut self) {
        if self.is_recovering {
            self.window = f64::from(self.threshold).min(self.in_flight() + 1.0);
        }
        self.lose();
        self.window = 1.0;
        self.unsent = self.first;
        self.next = self.first + 1;
        self.is_recovering = false;
        self.duplicates = 0;
        self.flags &= !REPEAT;
        self.doublings = (self.doublings + 1).min(MAX_DOUBLINGS);
    }
}

/// The receiving end: what is missing, up to the last packet that arrived.
#[derive(Debug, Clone, Copy, Default)]
struct Receiver {
    /// First packet missing.
    expected: u32,
    /// One behind the last that arrived.
    end: u32,
}

/// Which packets have arrived from the first missing one on, one bit each; empty unless one is
/// missing before another.
#[derive(Debug, Clone, Default)]
struct Arrived {
    /// The word of packet 0 would be so many before the first one kept.
    left_out: usize,
    words: VecDeque<u64>,
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
    ///
    /// # Errors
    /// If the parameters make no sense.
    pub fn new(core: &Core, parameters: DctcpParameters) -> Result<Self, PacketError> {
        parameters.validate()?;
        Ok(Self {
            parameters,
            active: RoundRobin::new(core.nic_count()),
            left: PerNic::new(core.nic_count(), |_| 0),
            senders: PerFlow::default(),
            receivers: PerFlow::default(),
            arrived: PerFlow::default(),
        })
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
        let sender = &mut self.senders[flow];
        let estimate = 1000 * (u64::from(sender.rtt) + 4 * u64::from(sender.rtt_deviation));
        let timeout = estimate.max(self.parameters.min_timeout.0) << sender.doublings;
        sender.deadline = now + Duration(timeout);
        self.watch(core, flow);
    }

    /// Whether a deadline that has come is too early: a connection that exists has measured its
    /// round trip, while this one has not heard anything yet. The deadline is later then.
    #[cold]
    fn is_early(&mut self, core: &Core, flow: PacketFlowId) -> bool {
        let sender = &mut self.senders[flow];
        let (trip, timeout) = (core.round_trip(flow).0, self.parameters.min_timeout.0);
        if sender.rtt != 0 || 3 * trip <= timeout {
            return false;
        }
        sender.measure(nanoseconds(Time(trip)));
        sender.deadline = Time(sender.deadline.0 - timeout + 3 * trip);
        core.now() < sender.deadline
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
        if packet.sequence == receiver.expected && receiver.expected == receiver.end {
            receiver.expected += 1;
            receiver.end += 1;
            core.receive(flow);
        } else if packet.sequence >= receiver.expected {
            let arrived = &mut self.arrived[flow];
            if receiver.insert(arrived, packet.sequence) {
                core.receive(flow);
            }
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
            sender.advance(packet.sequence);
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
            self.active.add(nic, flow);
        }
    }
}

impl Receiver {
    /// Accepts a packet behind a gap, or one that fills a gap; returns whether it is new.
    #[cold]
    fn insert(&mut self, arrived: &mut Arrived, sequence: u32) -> bool {
        arrived.forget_before(self.expected);
        if !arrived.insert(sequence) {
            return false;
        }
        self.end = self.end.max(sequence + 1);
        while self.expected < self.end && arrived.has(self.expected) {
            self.expected += 1;
        }
        if self.expected == self.end {
            *arrived = Arrived::default();
        }
        true
    }
}

impl Arrived {
    /// Drops words all of whose packets are before this one.
    fn forget_before(&mut self, sequence: u32) {
        let word = sequence as usize / 64;
        if self.words.is_empty() {
            self.left_out = word;
        }
        self.words.drain(..(word - self.left_out).min(self.words.len()));
        self.left_out = word;
    }

    /// Adds a packet that is not before those kept; returns whether it is new.
    fn insert(&mut self, sequence: u32) -> bool {
        let (word, bit) = (sequence as usize / 64 - self.left_out, 1_u64 << (sequence % 64));
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        let is_new = self.words[word] & bit == 0;
        self.words[word] |= bit;
        is_new
    }

    fn has(&self, sequence: u32) -> bool {
        let word = self.words.get(sequence as usize / 64 - self.left_out);
        word.is_some_and(|word| word & (1 << (sequence % 64)) != 0)
    }
}

/// A time as a stamp of 32 bits, for differences of up to four seconds.
fn nanoseconds(time: Time) -> u32 {
    (time.0 / 1000) as u32
}

impl Transport for Dctcp {
    fn start(&mut self, core: &mut Core, flow: PacketFlowId) {
        self.expect(core, flow);
        self.senders.make_room(flow, Sender::new(&self.parameters));
        self.senders[flow].hand_over(core.flow(flow).packets);
        self.active.add(core.endpoints(flow).source(), flow);
    }

    fn expect(&mut self, _core: &mut Core, flow: PacketFlowId) {
        self.receivers.make_room(flow, Receiver::default());
        self.arrived.make_room(flow, Arrived::default());
    }

    fn next(&mut self, core: &mut Core, nic: NicId, at: Time) -> Next {
        let Some(flow) = self.turn(nic) else { return Next::Nothing };
        let sender = &mut self.senders[flow];
        let left = &mut self.left[nic];
        if *left == 0 {
            *left = if self.parameters.bursts { sender.unsent_count() } else { 1 };
        }
        *left -= 1;
        let sequence = if sender.flags & REPEAT != 0 {
            sender.flags &= !REPEAT;
            sender.first
        } else {
            sender.unsent += 1;
            sender.unsent - 1
        };
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
        if core.now() < sender.deadline || self.is_early(core, flow) {
            return self.watch(core, flow);
        }
        self.senders[flow].time_out();
        self.start_deadline(core, flow, core.now());
        self.active.add(core.endpoints(flow).source(), flow);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKETS: u32 = 1 << 20;

    fn sender(window: u32, threshold: u32) -> Sender {
        let parameters = DctcpParameters {
            initial_window: window,
            initial_threshold: threshold,
            ..DctcpParameters::FFSIM
        };
        let mut sender = Sender::new(&parameters);
        sender.hand_over(PACKETS);
        sender
    }

    /// The next so many packets are acknowledged one by one.
    fn acknowledge(sender: &mut Sender, packets: u32, marked: bool) {
        for _ in 0..packets {
            let number = sender.first + 1;
            sender.observe(number, marked, 1.0 / 16.0);
            sender.advance(number);
            sender.hand_over(PACKETS);
        }
    }

    /// RFC 8257: until something is known, a mark halves the window, as a loss does.
    #[test]
    fn the_first_mark_halves_the_window() {
        let mut sender = Sender::new(&DctcpParameters::default());
        sender.hand_over(PACKETS);
        acknowledge(&mut sender, 9, false);
        assert!((sender.window - 19.0).abs() < 1e-9, "{}", sender.window);
        acknowledge(&mut sender, 12, true);
        assert!((9.0..13.0).contains(&sender.window), "{}", sender.window);
    }

    #[test]
    fn a_sender_fits_a_cache_line() {
        assert_eq!(size_of::<Sender>(), 64);
    }

    #[test]
    fn the_window_doubles_up_to_the_threshold_then_grows_by_one() {
        let mut sender = sender(10, 35);
        acknowledge(&mut sender, 10, false);
        assert_eq!((sender.window, sender.next), (20.0, 30));
        acknowledge(&mut sender, 20, false);
        assert!((sender.window - 35.14).abs() < 0.02, "{}", sender.window);
        let before = sender.window;
        acknowledge(&mut sender, 35, false);
        assert!((sender.window - before - 1.0).abs() < 0.03, "{}", sender.window);
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

    #[test]
    fn a_loss_halves_the_window_once() {
        let mut sender = sender(100, 100);
        sender.unsent = 100;
        for _ in 0..2 {
            sender.repeat();
        }
        assert!(!sender.is_recovering);
        sender.repeat();
        assert!(sender.is_recovering && sender.flags & REPEAT != 0);
        assert_eq!((sender.window, sender.recover), (53.0, 100));
        // Another hole within: repeated at once, not halved again.
        sender.flags &= !REPEAT;
        sender.advance(40);
        assert!(sender.is_recovering && sender.flags & REPEAT != 0);
        assert_eq!((sender.window, sender.threshold), (14.0, 50.0));
        sender.advance(100);
        assert!(!sender.is_recovering);
        assert!(sender.window.to_bits() == 1.0_f64.to_bits(), "nothing is in flight");
    }

    #[test]
    fn a_timeout_begins_again_at_the_first_packet_missing() {
        let mut sender = sender(100, 100);
        sender.unsent = 100;
        acknowledge(&mut sender, 7, false);
        sender.time_out();
        assert_eq!((sender.unsent, sender.next, sender.window), (7, 8, 1.0));
        assert_eq!((sender.recover, sender.doublings), (107, 1));
        // What the receiver had is not sent again.
        sender.advance(100);
        sender.hand_over(PACKETS);
        assert_eq!((sender.unsent, sender.next, sender.window), (100, 102, 2.0));
        for _ in 0..5 {
            sender.repeat();
        }
        assert!(!sender.is_recovering, "no second loss is seen before the first is repaired");
    }

    #[test]
    fn packets_behind_a_gap_are_remembered() {
        let (mut receiver, mut arrived) = (Receiver::default(), Arrived::default());
        assert!(receiver.insert(&mut arrived, 70));
        assert!(receiver.insert(&mut arrived, 2) && !receiver.insert(&mut arrived, 2));
        assert_eq!((receiver.expected, receiver.end), (0, 71));
        for number in (0..70).filter(|number| *number != 2) {
            assert!(receiver.insert(&mut arrived, number));
        }
        assert_eq!((receiver.expected, receiver.end), (71, 71));
        assert!(arrived.words.is_empty());
    }

    /// Every second packet arrives a thousand packets late: those thousand are remembered, and
    /// not all before.
    #[test]
    fn memory_of_a_receiver_follows_what_is_behind_a_gap() {
        let (mut receiver, mut arrived) = (Receiver::default(), Arrived::default());
        for number in (0..200_000).step_by(2) {
            assert!(receiver.insert(&mut arrived, number));
            if let Some(late) = (number + 1_u32).checked_sub(1_000) {
                assert!(receiver.insert(&mut arrived, late));
                assert_eq!(receiver.expected, late + 2);
            }
            assert!(arrived.words.len() <= 1_000 / 64 + 2, "{}", arrived.words.len());
        }
    }
}
