//! The window of a flow, by delay and marks.

use super::parameters::NsccParameters;
use lightloom_model::{Duration, Time};

/// Largest share of a window that remains after a decrease by delay.
const MAX_DECREASE: f64 = 0.5;
/// Weight of one acknowledgement in the average delay.
const DELAY_GAIN: f64 = 0.0125;
/// Share of the excess over the target that a decrease takes away: gamma.
const DECREASE: f64 = 0.8;
/// Packets after which increases are applied.
const ADJUST_AFTER: f64 = 8.0;
/// Delay below which a window may grow fast.
const NO_DELAY: Duration = Duration(1_000_000);
/// Quick adaptation replaces a window only if less than 2^-3 of the largest one arrived.
const ADAPT_SHARE: f64 = 0.125;

/// What is the same for all flows of a network, in bytes and ps.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scale {
    /// Payload and size of a full packet.
    payload: f64,
    pub(super) packet: f64,
    /// Bytes per ps of a NIC at full rate.
    line: f64,
    /// The longest round trip of an idle network.
    round_trip: f64,
    /// Delay by queues that is aimed at.
    target: f64,
    /// Its bytes in flight over those of 12 us at 100 Gb/s: `scaling_factor_a`.
    size: f64,
}

impl Scale {
    pub(super) fn new(
        parameters: &NsccParameters,
        payload: u32,
        packet: u32,
        line: f64,
        longest: Duration,
    ) -> Self {
        let round_trip = parameters.base_rtt.unwrap_or(longest).0.max(1) as f64;
        let target = parameters.target_delay.map_or(0.75 * round_trip, |it| it.0 as f64);
        let (payload, packet) = (f64::from(payload), f64::from(packet));
        Self { payload, packet, line, round_trip, target, size: line * round_trip / 150_000.0 }
    }

    /// alpha, in bytes per ps below the target. Both scaling factors of the target cancel.
    fn proportional(&self) -> f64 {
        4.0 * self.payload * self.size / 12e6
    }
}

/// What an acknowledgement tells.
#[derive(Debug, Clone, Copy)]
pub(super) struct Acknowledgement {
    /// Bytes that it acknowledges for the first time.
    pub(super) newly: f64,
    /// Bytes in flight without them.
    pub(super) in_flight: f64,
    /// Since the packet was sent.
    pub(super) round_trip: Duration,
    /// Whether the packet was marked.
    pub(super) is_marked: bool,
}

/// The window of a flow.
#[derive(Debug, Clone, Copy)]
pub(super) struct Window {
    /// In bytes.
    pub(super) bytes: f64,
    /// The shortest round trip seen, in ps.
    base: f64,
    /// Average delay by queues.
    average: f64,
    /// Increases that are to be applied, in square bytes.
    increase: f64,
    /// Bytes that arrived since they were applied.
    arrived: f64,
    adjusted_at: Time,
    decreased_at: Time,
    /// Bytes without delay in a row; whether the window grows fast.
    undelayed: f64,
    grows_fast: bool,
    /// Bytes that arrived since quick adaptation last looked, and when it looks again.
    achieved: f64,
    adapt_at: Option<Time>,
    /// Whether a packet was trimmed since it adapted.
    is_trimmed: bool,
    /// Bytes that were in flight when it adapted, and those that have come back.
    ignore: f64,
    ignored: f64,
}

impl Window {
    /// One and a half times what a round trip takes.
    pub(super) fn new(scale: &Scale) -> Self {
        let mut window = Self {
            bytes: 0.0,
            base: scale.round_trip,
            average: 0.0,
            increase: 0.0,
            arrived: 0.0,
            adjusted_at: Time::ZERO,
            decreased_at: Time::ZERO,
            undelayed: 0.0,
            grows_fast: false,
            achieved: 0.0,
            adapt_at: None,
            is_trimmed: false,
            ignore: 0.0,
            ignored: 0.0,
        };
        window.bytes = window.largest(scale);
        window
    }

    fn largest(&self, scale: &Scale) -> f64 {
        (1.5 * scale.line * self.base).max(scale.packet)
    }

    fn bound(&mut self, scale: &Scale) {
        self.bytes = self.bytes.min(self.largest(scale)).max(scale.packet);
    }

    /// A packet was acknowledged.
    pub(super) fn acknowledge(&mut self, scale: &Scale, ack: Acknowledgement, now: Time) {
        let Acknowledgement { newly, in_flight, round_trip, is_marked } = ack;
        self.achieved += newly;
        self.arrived += newly;
        self.ignored += newly;
        self.base = self.base.min(round_trip.0 as f64).max(1.0);
        let delay = round_trip.0 as f64 - self.base;
        // Delay without a mark is old news.
        let sample = if !is_marked && delay > scale.target { 0.25 * self.base } else { delay };
        self.average += DELAY_GAIN * (sample - self.average);
        if self.adapts(scale, in_flight, is_marked, delay > 4.0 * scale.target, now) {
            return;
        }
        match (is_marked, delay < scale.target) {
            (false, false) => self.increase += 5.0 * scale.payload * scale.size * newly,
            (false, true) => self.grow(scale, newly, delay),
            (true, false) => self.shrink(scale, now),
            (true, true) => {}
        }
        self.bound(scale);
        let is_due = now.since(self.adjusted_at).0 as f64 >= scale.round_trip;
        if self.arrived > ADJUST_AFTER * scale.packet || is_due {
            self.bytes += self.increase / self.bytes;
            if is_due {
                self.bytes += 0.15 * scale.payload * scale.size;
                self.adjusted_at = now;
            }
            (self.increase, self.arrived) = (0.0, 0.0);
        }
        self.bound(scale);
    }

    /// A packet lost its payload, or was overdue.
    pub(super) fn lose(&mut self, scale: &Scale, in_flight: f64, now: Time) {
        self.ignored += scale.packet;
        self.average += DELAY_GAIN * (scale.round_trip - self.average);
        self.is_trimmed = true;
        if !self.adapts(scale, in_flight, true, true, now) {
            self.bytes -= scale.packet;
            self.bound(scale);
        }
    }

    /// Quick adaptation: if hardly anything arrives, the window becomes what did. What was in
    /// flight then says nothing new.
    fn adapts(
        &mut self,
        scale: &Scale,
        in_flight: f64,
        is_marked: bool,
        is_late: bool,
        now: Time,
    ) -> bool {
        let mut adapts = self.ignored < self.ignore && is_marked;
        if !adapts && self.adapt_at.is_none_or(|time| now > time) {
            let is_bad = self.is_trimmed || is_late;
            if self.adapt_at.is_some()
                && is_bad
                && self.achieved < ADAPT_SHARE * self.largest(scale)
            {
                self.bytes = self.achieved.max(scale.packet);
                (self.ignore, self.ignored) = (in_flight, 0.0);
                self.is_trimmed = false;
                adapts = true;
            }
            self.achieved = 0.0;
            self.adapt_at = Some(now + Duration((self.base + scale.target) as u64));
        }
        if adapts {
            (self.increase, self.arrived) = (0.0, 0.0);
        }
        adapts
    }

    /// Below the target, without a mark: in proportion to what is missing to the target, or fast
    /// after a window without any delay.
    fn grow(&mut self, scale: &Scale, newly: f64, delay: f64) {
        if delay < NO_DELAY.0 as f64 {
            self.undelayed += newly;
            self.grows_fast |= self.undelayed > self.bytes;
        } else {
            self.undelayed = 0.0;
            self.grows_fast = false;
        }
        if self.grows_fast {
            self.bytes += 0.25 * scale.size * newly;
        } else {
            self.increase += scale.proportional() * newly * (scale.target - delay);
        }
    }

    /// Above the target and marked: once per round trip by the share of the average delay that
    /// exceeds the target.
    fn shrink(&mut self, scale: &Scale, now: Time) {
        (self.undelayed, self.grows_fast) = (0.0, false);
        let excess = self.average - scale.target;
        if excess > 0.0 && now.since(self.decreased_at).0 as f64 > self.base {
            self.bytes *= (1.0 - DECREASE * excess / self.average).max(MAX_DECREASE);
            self.decreased_at = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: u64 = 1_000_000;

    /// 100 Gb/s and 12 us: all scaling factors are 1, packets of 4,000 + 64 B, a target of 9 us.
    fn scale() -> Scale {
        Scale::new(&NsccParameters::default(), 4_000, 4_064, 0.0125, Duration(12 * US))
    }

    fn acknowledge(window: &mut Window, us: u64, is_marked: bool, now: u64) {
        let (in_flight, round_trip) = (window.bytes, Duration(us * US));
        let ack = Acknowledgement { newly: 4_064.0, in_flight, round_trip, is_marked };
        window.acknowledge(&scale(), ack, Time(now * US));
    }

    #[test]
    fn a_window_begins_at_one_and_a_half_round_trips() {
        let (scale, window) = (scale(), Window::new(&scale()));
        assert!((scale.size - 1.0).abs() < 1e-12 && (scale.target - 9e6).abs() < 1e-3);
        assert!((window.bytes - 225_000.0).abs() < 1e-6);
    }

    #[test]
    fn delay_without_a_mark_increases_by_a_constant() {
        let mut window = Window::new(&scale());
        window.bytes = 50_000.0;
        (window.adjusted_at, window.adapt_at) = (Time(100 * US), Some(Time(1_000 * US)));
        for _ in 0..9 {
            acknowledge(&mut window, 25, false, 101);
        }
        // 5 packets for each window of bytes that arrive, applied after more than 8 packets.
        let expected = 50_000.0 + 5.0 * 4_000.0 * 9.0 * 4_064.0 / 50_000.0;
        assert!((window.bytes - expected).abs() < 1e-6, "{}", window.bytes);
    }

    #[test]
    fn below_the_target_the_increase_is_in_proportion() {
        let mut window = Window::new(&scale());
        window.bytes = 50_000.0;
        (window.adjusted_at, window.adapt_at) = (Time(100 * US), Some(Time(1_000 * US)));
        for _ in 0..9 {
            acknowledge(&mut window, 15, false, 101);
        }
        // 3 us of delay: 6 us below the target of 9, over 12 us, 4 packets a window.
        let expected = 50_000.0 + 4.0 * 4_000.0 * (6.0 / 12.0) * 9.0 * 4_064.0 / 50_000.0;
        assert!((window.bytes - expected).abs() < 1e-6, "{}", window.bytes);
    }

    #[test]
    fn a_window_without_any_delay_grows_by_a_quarter_of_what_arrives() {
        let mut window = Window::new(&scale());
        window.bytes = 40_640.0;
        (window.adjusted_at, window.adapt_at) = (Time(100 * US), Some(Time(1_000 * US)));
        window.undelayed = 40_640.0;
        acknowledge(&mut window, 12, false, 101);
        assert!((window.bytes - 40_640.0 - 1_016.0).abs() < 1e-6, "{}", window.bytes);
    }

    #[test]
    fn marks_shrink_once_per_round_trip_by_the_excess_of_the_average() {
        let mut window = Window::new(&scale());
        (window.adjusted_at, window.adapt_at) = (Time(110 * US), Some(Time(1_000 * US)));
        window.average = 18e6;
        acknowledge(&mut window, 30, true, 101);
        // The average stays 18 us: half exceeds the target.
        assert!((window.bytes - 225_000.0 * 0.6).abs() < 1e-6, "{}", window.bytes);
        acknowledge(&mut window, 30, true, 110);
        assert!((window.bytes - 225_000.0 * 0.6).abs() < 1e-6, "not twice in a round trip");
        window.average = 1e9;
        acknowledge(&mut window, 1_000, true, 114);
        assert!((window.bytes - 225_000.0 * 0.3).abs() < 1e-6, "at most by half");
        window.average = 0.0;
        acknowledge(&mut window, 30, true, 200);
        assert!(window.bytes > 225_000.0 * 0.3, "a low average does not shrink");
    }

    #[test]
    fn what_arrives_becomes_the_window_if_it_is_hardly_anything() {
        let (scale, mut window) = (scale(), Window::new(&scale()));
        window.lose(&scale, 225_000.0, Time(0));
        assert!((window.bytes - 225_000.0 + 4_064.0).abs() < 1e-6, "a packet less");
        // The first look is only the begin.
        acknowledge(&mut window, 12, false, 5);
        acknowledge(&mut window, 12, false, 6);
        window.lose(&scale, 200_000.0, Time(22 * US));
        assert!((window.bytes - 8_128.0).abs() < 1e-6, "{}", window.bytes);
        // What was in flight is ignored, until as much has come back.
        for turn in 0..49 {
            window.lose(&scale, 200_000.0 - 4_064.0 * f64::from(turn), Time(23 * US));
            assert!((window.bytes - 8_128.0).abs() < 1e-6, "{turn}: {}", window.bytes);
        }
        window.lose(&scale, 0.0, Time(23 * US));
        assert!((window.bytes - 4_064.0).abs() < 1e-6, "{}", window.bytes);
    }
}
