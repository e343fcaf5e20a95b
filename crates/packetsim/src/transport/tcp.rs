//! The ends of a connection of TCP `NewReno` (RFC 5681, 6298, 6582), for transports that differ in
//! how its window shrinks and grows.
//!
//! Everything is counted in packets. Assumes a connection that exists already; leaves out selective
//! and delayed acknowledgements, pacing, and the shrinking of idle windows.

use lightloom_model::{Duration, Time};
use std::collections::VecDeque;

/// No deadline.
pub(super) const NEVER: Time = Time(u64::MAX);
/// Timeouts double up to this often.
pub(super) const MAX_DOUBLINGS: u8 = 12;
/// Duplicate acknowledgements that mean a loss.
const DUPLICATES: u8 = 3;

/// The sending end of a flow. Everything is counted in packets; one cache line.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
pub(super) struct Sender {
    /// When the oldest packet in flight is considered lost.
    pub(super) deadline: Time,
    pub(super) window: f64,
    /// Below it the window grows by one packet per acknowledgement, above by one per window.
    pub(super) threshold: f32,
    /// First packet not acknowledged.
    pub(super) first: u32,
    /// Next packet that the window will let the NIC send.
    pub(super) next: u32,
    /// Next packet that the NIC will send.
    pub(super) unsent: u32,
    /// `next` when the last loss was found: no second loss is seen before it.
    pub(super) recover: u32,
    /// `next` when the window of data began that `alpha` looks at.
    pub(super) round_end: u32,
    /// Acknowledgements in it, and how many of them echoed a mark.
    pub(super) round_acks: u32,
    pub(super) round_marks: u32,
    /// Mean and deviation of round trips, in ns.
    pub(super) rtt: u32,
    pub(super) rtt_deviation: u32,
    pub(super) alpha: f32,
    pub(super) duplicates: u8,
    /// Doublings of the timeout.
    pub(super) doublings: u8,
    pub(super) is_recovering: bool,
    pub(super) flags: u8,
}

/// In `Sender::flags`: the first packet is to be sent again.
pub(super) const REPEAT: u8 = 1;
/// The flow has a timer pending.
pub(super) const TIMER: u8 = 2;
/// What is to be sent again is a probe.
pub(super) const PROBE: u8 = 4;

impl Sender {
    /// At the start, with the window in packets and the threshold up to which it doubles.
    pub(super) fn new(window: u32, threshold: u32) -> Self {
        Self {
            deadline: NEVER,
            window: f64::from(window),
            threshold: threshold as f32,
            first: 0,
            next: 0,
            unsent: 0,
            recover: 0,
            round_end: 0,
            round_acks: 0,
            round_marks: 0,
            rtt: 0,
            rtt_deviation: 0,
            alpha: 0.0,
            duplicates: 0,
            doublings: 0,
            is_recovering: false,
            flags: 0,
        }
    }

    pub(super) fn in_flight(&self) -> f64 {
        f64::from(self.next - self.first)
    }

    pub(super) fn may_send(&self) -> bool {
        self.flags & REPEAT != 0 || self.unsent < self.next
    }

    pub(super) fn unsent_count(&self) -> u32 {
        self.next - self.unsent + u32::from(self.flags & REPEAT)
    }

    /// The next packet to send: the one to repeat, or the first that waits for the NIC.
    pub(super) fn upcoming(&self) -> u32 {
        if self.flags & REPEAT != 0 { self.first } else { self.unsent }
    }

    /// [`Self::upcoming`] is sent.
    pub(super) fn send(&mut self) -> u32 {
        let sequence = self.upcoming();
        if self.flags & REPEAT != 0 {
            self.flags &= !REPEAT;
        } else {
            self.unsent += 1;
        }
        sequence
    }

    /// Starts anew to wait for an acknowledgement.
    pub(super) fn start_deadline(&mut self, now: Time, minimum: Duration) {
        let estimate = 1000 * (u64::from(self.rtt) + 4 * u64::from(self.rtt_deviation));
        self.deadline = now + Duration(estimate.max(minimum.0) << self.doublings);
    }

    /// Whether a deadline that has come is too early: a connection that exists has measured its
    /// round trip, while this one has not heard anything yet. The deadline is later then.
    #[cold]
    pub(super) fn is_early(&mut self, round_trip: Duration, minimum: Duration, now: Time) -> bool {
        let (trip, timeout) = (round_trip.0, minimum.0);
        if self.rtt != 0 || 3 * trip <= timeout {
            return false;
        }
        self.measure(nanoseconds(Time(trip)));
        self.deadline = Time(self.deadline.0 - timeout + 3 * trip);
        now < self.deadline
    }

    /// Hands to the NIC what the window has room for; it is not taken back if the window shrinks.
    pub(super) fn hand_over(&mut self, packets: u32) {
        let end = u64::from(self.first) + self.window as u64;
        self.next = self.next.max(end.min(u64::from(packets)) as u32);
    }

    /// Takes back what the NIC has not sent yet.
    pub(super) fn take_back(&mut self) {
        self.next = self.unsent;
    }

    /// The window, without what recovery adds to it for packets that have left the network.
    pub(super) fn own_window(&self) -> f64 {
        if self.is_recovering { f64::from(self.threshold) } else { self.window }
    }

    /// RFC 6298 with exact samples.
    pub(super) fn measure(&mut self, sample: u32) {
        if self.rtt == 0 {
            (self.rtt, self.rtt_deviation) = (sample, sample / 2);
        } else {
            let error = self.rtt.abs_diff(sample);
            self.rtt_deviation = self.rtt_deviation - self.rtt_deviation / 4 + error / 4;
            self.rtt = self.rtt - self.rtt / 8 + sample / 8;
        }
        self.doublings = 0;
    }

    /// Begins a window of data.
    pub(super) fn begin_round(&mut self) {
        self.round_end = self.next;
        (self.round_acks, self.round_marks) = (0, 0);
    }

    /// An acknowledgement of something new; returns whether the window may [`Self::grow`].
    pub(super) fn advance(&mut self, sequence: u32) -> bool {
        let newly = sequence - self.first;
        self.first = sequence;
        self.unsent = self.unsent.max(sequence);
        self.next = self.next.max(sequence);
        self.duplicates = 0;
        if !self.is_recovering {
            return true;
        }
        if sequence >= self.recover {
            self.is_recovering = false;
            self.window = f64::from(self.threshold).min(self.in_flight() + 1.0);
        } else {
            self.window = (self.window - f64::from(newly)).max(0.0) + 1.0;
            self.flags |= REPEAT;
        }
        false
    }

    /// Grows by a packet, or by one for so many acknowledgements if the window is past its
    /// threshold.
    pub(super) fn grow(&mut self, acknowledgements: f64) {
        let unused = (self.window - self.in_flight()).clamp(0.0, 1.0);
        let threshold = f64::from(self.threshold);
        if self.window < threshold {
            self.window = (self.window + unused).min(threshold);
        } else {
            self.window += unused / acknowledgements;
        }
    }

    /// An acknowledgement of nothing new.
    pub(super) fn repeat(&mut self) {
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

    /// A probe has shown that a packet was lost: the others missing follow, one per round trip.
    pub(super) fn recover(&mut self) {
        if self.is_recovering || self.unsent == self.first {
            return;
        }
        self.lose();
        self.window = f64::from(self.threshold);
        self.is_recovering = true;
        self.flags |= REPEAT;
    }

    /// A loss: halves the window, and begins a new window of data.
    pub(super) fn lose(&mut self) {
        self.threshold = (self.window as f32 / 2.0).max(2.0);
        self.recover = self.recover.max(self.next);
        self.begin_round();
    }

    /// Nothing was acknowledged in time: sending continues at the first missing packet.
    pub(super) fn time_out(&mut self) {
        if self.is_recovering {
            self.window = f64::from(self.threshold).min(self.in_flight() + 1.0);
        }
        self.lose();
        self.window = 1.0;
        self.unsent = self.first;
        self.next = self.first + 1;
        self.is_recovering = false;
        self.duplicates = 0;
        self.flags &= !(REPEAT | PROBE);
        self.doublings = (self.doublings + 1).min(MAX_DOUBLINGS);
    }
}

/// The receiving end: what is missing, up to the last packet that arrived.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Receiver {
    /// First packet missing.
    pub(super) expected: u32,
    /// One behind the last that arrived.
    end: u32,
}

/// Which packets have arrived from the first missing one on, one bit each; empty unless one is
/// missing before another.
#[derive(Debug, Clone, Default)]
pub(super) struct Arrived {
    /// The word of packet 0 would be so many before the first one kept.
    left_out: usize,
    words: VecDeque<u64>,
}

impl Receiver {
    /// Accepts a packet; returns whether it is new.
    #[inline]
    pub(super) fn accept(&mut self, arrived: &mut Arrived, sequence: u32) -> bool {
        if sequence == self.expected && self.expected == self.end {
            self.expected += 1;
            self.end += 1;
            return true;
        }
        sequence >= self.expected && self.insert(arrived, sequence)
    }

    /// Whether a packet has been accepted.
    pub(super) fn has(self, arrived: &Arrived, sequence: u32) -> bool {
        sequence < self.expected || sequence < self.end && arrived.has(sequence)
    }

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
pub(super) fn nanoseconds(time: Time) -> u32 {
    (time.0 / 1000) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKETS: u32 = 1 << 20;

    fn sender(window: u32, threshold: u32) -> Sender {
        let mut sender = Sender::new(window, threshold);
        sender.hand_over(PACKETS);
        sender
    }

    /// The next so many packets are acknowledged one by one.
    fn acknowledge(sender: &mut Sender, packets: u32) {
        for _ in 0..packets {
            if sender.advance(sender.first + 1) {
                sender.grow(sender.window);
            }
            sender.hand_over(PACKETS);
        }
    }

    #[test]
    fn a_sender_fits_a_cache_line() {
        assert_eq!(size_of::<Sender>(), 64);
    }

    #[test]
    fn the_window_doubles_up_to_the_threshold_then_grows_by_one() {
        let mut sender = sender(10, 35);
        acknowledge(&mut sender, 10);
        assert_eq!((sender.window, sender.next), (20.0, 30));
        acknowledge(&mut sender, 20);
        assert!((sender.window - 35.14).abs() < 0.02, "{}", sender.window);
        let before = sender.window;
        acknowledge(&mut sender, 35);
        assert!((sender.window - before - 1.0).abs() < 0.03, "{}", sender.window);
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
        acknowledge(&mut sender, 7);
        sender.time_out();
        assert_eq!((sender.unsent, sender.next, sender.window), (7, 8, 1.0));
        assert_eq!((sender.recover, sender.doublings), (107, 1));
        // What the receiver had is not sent again.
        assert!(sender.advance(100), "it is no recovery");
        sender.grow(1.0);
        sender.hand_over(PACKETS);
        assert_eq!((sender.unsent, sender.next, sender.window), (100, 102, 2.0));
        for _ in 0..5 {
            sender.repeat();
        }
        assert!(!sender.is_recovering, "no second loss is seen before the first is repaired");
    }

    /// What recovery adds for packets that have left is not the window's own.
    #[test]
    fn the_own_window_of_a_recovery_is_its_threshold() {
        let mut sender = sender(100, 100);
        sender.unsent = 100;
        assert!((sender.own_window() - 100.0).abs() < 1e-9);
        for _ in 0..9 {
            sender.repeat();
        }
        assert_eq!((sender.window, sender.own_window()), (59.0, 50.0));
    }

    #[test]
    fn what_the_nic_has_not_sent_is_taken_back() {
        let mut sender = sender(10, 10);
        assert_eq!((0..4).map(|_| sender.send()).collect::<Vec<_>>(), [0, 1, 2, 3]);
        sender.take_back();
        assert!(!sender.may_send());
        sender.hand_over(7);
        assert_eq!((sender.unsent_count(), sender.upcoming()), (3, 4));
    }

    #[test]
    fn packets_behind_a_gap_are_remembered() {
        let (mut receiver, mut arrived) = (Receiver::default(), Arrived::default());
        assert!(receiver.insert(&mut arrived, 70));
        assert!(receiver.insert(&mut arrived, 2) && !receiver.insert(&mut arrived, 2));
        assert_eq!((receiver.expected, receiver.end), (0, 71));
        let has = [1, 2, 3, 70, 71].map(|number| receiver.has(&arrived, number));
        assert_eq!(has, [false, true, false, true, false]);
        for number in (0..70).filter(|number| *number != 2) {
            assert!(receiver.insert(&mut arrived, number));
        }
        assert_eq!((receiver.expected, receiver.end), (71, 71));
        assert!(arrived.words.is_empty());
        assert!(receiver.has(&arrived, 70) && !receiver.has(&arrived, 71));
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
