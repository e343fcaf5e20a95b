//! The reaction point: the rate of one flow.

use super::parameters::DcqcnParameters;
use lightloom_model::{Duration, Time};

const NEVER: Time = Time(u64::MAX);

/// The reaction point of a flow: its rates, in bits per second.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reaction {
    pub(super) current: f64,
    target: f64,
    alpha: f64,
    /// When the running interval of `alpha` began; `NEVER` before the first notification.
    alpha_from: Time,
    /// When the rate was last cut.
    cut_at: Time,
    /// When time next increases it; `NEVER` at full rate.
    increase_at: Time,
    bytes_left: u64,
    /// Increases since the last cut.
    time_stage: u32,
    byte_stage: u32,
    /// Whether a notification came in the running interval of `alpha`.
    is_notified: bool,
    /// Whether a notification waits for the end of the interval between cuts.
    is_cut_due: bool,
}

impl Reaction {
    pub(super) fn new(line: f64) -> Self {
        Self {
            current: line,
            target: line,
            alpha: 1.0,
            alpha_from: NEVER,
            cut_at: Time::ZERO,
            increase_at: NEVER,
            bytes_left: u64::MAX,
            time_stage: 0,
            byte_stage: 0,
            is_notified: false,
            is_cut_due: false,
        }
    }

    /// Updates the rate.
    #[inline]
    pub(super) fn renew(&mut self, parameters: &DcqcnParameters, line: f64, now: Time) {
        if self.increase_at > now && !self.is_cut_due {
            return;
        }
        loop {
            let cut_due = self.cut_at + parameters.cut_interval;
            if self.is_cut_due && cut_due <= self.increase_at.min(now) {
                self.cut(parameters, cut_due);
            } else if self.increase_at <= now {
                self.increase_at += parameters.increase_interval;
                self.increase(parameters, line);
                self.time_stage += 1;
            } else {
                return;
            }
        }
    }

    /// A notification arrives.
    pub(super) fn notify(&mut self, parameters: &DcqcnParameters, line: f64, now: Time) {
        self.renew(parameters, line, now);
        if self.alpha_from == NEVER {
            self.alpha_from = now;
            return self.cut(parameters, now);
        }
        self.renew_alpha(parameters, now);
        self.is_notified = true;
        if now >= self.cut_at + parameters.cut_interval {
            self.cut(parameters, now);
        } else {
            self.is_cut_due = true;
        }
    }

    /// Ends the intervals of `alpha` up to now.
    fn renew_alpha(&mut self, parameters: &DcqcnParameters, now: Time) {
        let kept = 1.0 - parameters.gain;
        let intervals = now.since(self.alpha_from).0 / parameters.alpha_interval.0;
        if intervals == 0 {
            return;
        }
        self.alpha *= power(kept, intervals);
        if self.is_notified {
            self.alpha += parameters.gain * power(kept, intervals - 1);
        }
        self.is_notified = false;
        self.alpha_from += Duration(intervals * parameters.alpha_interval.0);
    }

    fn cut(&mut self, parameters: &DcqcnParameters, now: Time) {
        self.renew_alpha(parameters, now);
        if parameters.clamp_target || self.time_stage + self.byte_stage > 0 {
            self.target = self.current;
        }
        let minimum = parameters.minimum.0 as f64;
        self.current = (self.current * (1.0 - self.alpha / 2.0)).max(minimum);
        self.target = self.target.max(self.current);
        self.cut_at = now;
        self.is_cut_due = false;
        self.increase_at = now + parameters.increase_interval;
        self.bytes_left = parameters.increase_bytes;
        self.time_stage = 0;
        self.byte_stage = 0;
    }

    /// Counts bytes that were sent.
    #[inline]
    pub(super) fn count(&mut self, parameters: &DcqcnParameters, line: f64, bytes: u64) {
        if parameters.increase_bytes == u64::MAX || self.increase_at == NEVER {
            return;
        }
        if self.bytes_left > bytes {
            self.bytes_left -= bytes;
            return;
        }
        self.bytes_left = parameters.increase_bytes;
        self.increase(parameters, line);
        self.byte_stage += 1;
    }

    /// One increase, of the kind that the stages so far require.
    fn increase(&mut self, parameters: &DcqcnParameters, line: f64) {
        let later = self.time_stage.max(self.byte_stage);
        let earlier = if parameters.increase_bytes == u64::MAX {
            self.time_stage
        } else {
            self.time_stage.min(self.byte_stage)
        };
        if earlier > parameters.recovery_stages {
            self.target += parameters.hyper.0 as f64;
        } else if later >= parameters.recovery_stages {
            self.target += parameters.additive.0 as f64;
        }
        self.target = self.target.min(line);
        self.current = f64::midpoint(self.current, self.target);
        if line - self.current < 1.0 {
            // Nothing is left to gain until the next cut, which begins the stages anew.
            self.current = line;
            self.increase_at = NEVER;
        }
    }
}

/// `base` to a whole power, the same on all machines.
fn power(mut base: f64, mut exponent: u64) -> f64 {
    let mut product = 1.0;
    while exponent > 0 {
        if exponent & 1 == 1 {
            product *= base;
        }
        base *= base;
        exponent >>= 1;
    }
    product
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "halves and sums of whole numbers are exact")]
mod tests {
    use super::*;
    use crate::transport::dcqcn::parameters::MICROSECOND;
    use crate::transport::line_rate::TIMEOUT;
    use crate::transport::recovery::Recovery;
    use lightloom_model::Rate;

    const LINE: f64 = 100e9;
    const US: u64 = MICROSECOND;

    /// The parameters of the paper, at 40 Gb/s, but for `alpha`, which stays 1.
    fn published() -> DcqcnParameters {
        DcqcnParameters {
            cnp_interval: Duration(50 * US),
            cut_interval: Duration(0),
            alpha_interval: Duration(1 << 60),
            gain: 1.0 / 256.0,
            increase_interval: Duration(55 * US),
            increase_bytes: 10_000_000,
            recovery_stages: 5,
            additive: Rate(5_000_000_000),
            hyper: Rate(10_000_000_000),
            minimum: Rate(1_000_000_000),
            clamp_target: true,
            timeout: TIMEOUT,
            recovery: Recovery::Auto,
        }
    }

    /// Rates in Gb/s after so many increases by time.
    fn rises(reaction: &mut Reaction, parameters: &DcqcnParameters, count: usize) -> Vec<f64> {
        let rise = |_| {
            let time = reaction.increase_at;
            reaction.renew(parameters, LINE, Time(time.0 - 1));
            let before = reaction.current;
            reaction.renew(parameters, LINE, time);
            assert!(reaction.current > before, "not before its time");
            reaction.current / 1e9
        };
        (0..count).map(rise).collect()
    }

    #[test]
    fn the_first_notification_halves_the_rate() {
        let mut reaction = Reaction::new(LINE);
        reaction.notify(&published(), LINE, Time(7 * US));
        assert_eq!((reaction.current, reaction.target, reaction.alpha), (50e9, LINE, 1.0));
        assert_eq!(reaction.increase_at, Time(62 * US));
    }

    #[test]
    fn alpha_decays_and_recovers_by_its_formula() {
        let parameters = DcqcnParameters { alpha_interval: Duration(US), ..published() };
        let g = parameters.gain;
        let mut reaction = Reaction::new(LINE);
        reaction.notify(&parameters, LINE, Time(0));
        // 100 intervals and a half without notifications
        reaction.notify(&parameters, LINE, Time(100 * US + US / 2));
        let alpha = (1.0 - g).powi(100);
        assert!((reaction.alpha - alpha).abs() < 1e-12);
        // increased once in between
        let before = f64::midpoint(50e9, LINE);
        assert!((reaction.current - before * (1.0 - alpha / 2.0)).abs() < 1.0);
        assert_eq!(reaction.target, before);
        // the interval with the notification, then two without
        reaction.renew_alpha(&parameters, Time(103 * US));
        let alpha = ((1.0 - g) * alpha + g) * (1.0 - g) * (1.0 - g);
        assert!((reaction.alpha - alpha).abs() < 1e-12);
        // notified in each interval, it tends to 1
        for interval in 0..5000 {
            reaction.notify(&parameters, LINE, Time((103 + interval) * US));
        }
        assert!(reaction.alpha > 1.0 - 1e-6 && reaction.alpha <= 1.0);
        assert_eq!(reaction.current, 1e9, "never below the minimum");
    }

    #[test]
    fn recovery_goes_through_its_stages() {
        // by time alone: five halvings of the distance, one additive step, then hyper steps
        let parameters = DcqcnParameters { increase_bytes: u64::MAX, ..published() };
        let mut reaction = Reaction::new(LINE);
        reaction.notify(&parameters, LINE, Time(0));
        assert_eq!(rises(&mut reaction, &parameters, 1), [75.0]);
        reaction.notify(&parameters, LINE, Time(60 * US));
        assert_eq!((reaction.current, reaction.target), (37.5e9, 75e9));
        let fast = [56.25, 65.625, 70.3125, 72.65625, 73.828_125];
        assert_eq!(rises(&mut reaction, &parameters, 5), fast);
        let [additive, hyper, top] = rises(&mut reaction, &parameters, 3)[..] else { panic!() };
        assert_eq!([additive, hyper], [76.914_062_5, f64::midpoint(76.914_062_5, 90.0)]);
        assert_eq!((top, reaction.target), (f64::midpoint(hyper, 100.0), LINE));
        reaction.renew(&parameters, LINE, Time(10_000 * US));
        assert_eq!((reaction.current, reaction.increase_at), (LINE, NEVER));
    }

    #[test]
    fn hyper_increase_needs_both_counters() {
        let parameters = DcqcnParameters { recovery_stages: 1, ..published() };
        let mut reaction = Reaction::new(LINE);
        for time in [0, 50, 100] {
            reaction.notify(&parameters, LINE, Time(time * US));
        }
        assert_eq!((reaction.current, reaction.target), (12.5e9, 25e9));
        // bytes: fast recovery once, then additive as long as no time has passed
        for (sent, target) in [(0, 25e9), (1, 25e9), (1, 30e9), (1, 35e9)] {
            reaction.count(&parameters, LINE, sent * 9_999_999);
            reaction.count(&parameters, LINE, u64::from(sent > 0));
            assert_eq!(reaction.target, target);
        }
        // time: twice additive (stages 0 and 1), then hyper
        for (turn, target) in [(1, 40e9), (2, 45e9), (3, 55e9)] {
            reaction.renew(&parameters, LINE, Time((100 + 55 * turn) * US));
            assert_eq!(reaction.target, target);
        }
    }

    #[test]
    fn cuts_keep_their_distance_and_the_target() {
        let parameters =
            DcqcnParameters { cut_interval: Duration(4 * US), clamp_target: false, ..published() };
        let mut reaction = Reaction::new(LINE);
        for time in [10, 11, 12, 13] {
            reaction.notify(&parameters, LINE, Time(time * US));
        }
        assert_eq!(reaction.current, 50e9);
        reaction.renew(&parameters, LINE, Time(14 * US - 1));
        assert_eq!(reaction.current, 50e9);
        reaction.renew(&parameters, LINE, Time(14 * US));
        assert_eq!((reaction.current, reaction.target), (25e9, LINE));
        reaction.renew(&parameters, LINE, Time(50 * US));
        assert_eq!(reaction.current, 25e9, "one cut for all of an interval");
    }
}
