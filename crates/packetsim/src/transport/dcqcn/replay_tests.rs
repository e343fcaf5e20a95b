//! The reaction point against a replay that looks at every microsecond.
//!
//! [`Reaction`] works out what has happened when it is asked, over any number of intervals at once;
//! the replay does one thing after the other, as the paper tells it.

use super::parameters::{DcqcnParameters, MICROSECOND as US};
use super::reaction::Reaction;
use crate::transport::line_rate::TIMEOUT;
use crate::transport::recovery::Recovery;
use lightloom_model::{Duration, Rate, Time};
use proptest::prelude::*;

const LINE: f64 = 100e9;

/// What happens in a microsecond.
#[derive(Debug, Clone, Copy)]
enum Step {
    Nothing,
    Notified,
    /// So many bytes are sent.
    Sent(u64),
}

/// A reaction point that counts microseconds.
struct Replay {
    parameters: DcqcnParameters,
    rate: f64,
    target: f64,
    alpha: f64,
    /// When the interval of alpha began, once there was a notification.
    alpha_from: Option<u64>,
    is_notified: bool,
    cut_at: u64,
    is_cut_due: bool,
    /// When time increases the rate next, below full rate.
    increase_at: Option<u64>,
    sent: u64,
    stages: [u32; 2],
}

impl Replay {
    fn new(parameters: DcqcnParameters) -> Self {
        Self {
            parameters,
            rate: LINE,
            target: LINE,
            alpha: 1.0,
            alpha_from: None,
            is_notified: false,
            cut_at: 0,
            is_cut_due: false,
            increase_at: None,
            sent: 0,
            stages: [0, 0],
        }
    }

    fn micros(duration: Duration) -> u64 {
        duration.0 / US
    }

    /// What time alone does at this microsecond.
    fn tick(&mut self, now: u64) {
        let interval = Self::micros(self.parameters.alpha_interval);
        if let Some(from) = self.alpha_from
            && now == from + interval
        {
            let gain = self.parameters.gain;
            self.alpha = (1.0 - gain) * self.alpha + if self.is_notified { gain } else { 0.0 };
            self.is_notified = false;
            self.alpha_from = Some(now);
        }
        if self.is_cut_due && now >= self.cut_at + Self::micros(self.parameters.cut_interval) {
            self.cut(now);
        } else if self.increase_at == Some(now) {
            self.increase_at = Some(now + Self::micros(self.parameters.increase_interval));
            self.increase();
            self.stages[0] += 1;
        }
    }

    fn notify(&mut self, now: u64) {
        if self.alpha_from.is_none() {
            self.alpha_from = Some(now);
            return self.cut(now);
        }
        self.is_notified = true;
        if now >= self.cut_at + Self::micros(self.parameters.cut_interval) {
            self.cut(now);
        } else {
            self.is_cut_due = true;
        }
    }

    fn cut(&mut self, now: u64) {
        if self.parameters.clamp_target || self.stages != [0, 0] {
            self.target = self.rate;
        }
        self.rate = (self.rate * (1.0 - self.alpha / 2.0)).max(self.parameters.minimum.0 as f64);
        self.target = self.target.max(self.rate);
        (self.cut_at, self.is_cut_due) = (now, false);
        self.increase_at = Some(now + Self::micros(self.parameters.increase_interval));
        (self.sent, self.stages) = (0, [0, 0]);
    }

    fn send(&mut self, bytes: u64) {
        if self.increase_at.is_none() || self.parameters.increase_bytes == u64::MAX {
            return;
        }
        self.sent += bytes;
        if self.sent >= self.parameters.increase_bytes {
            self.sent = 0;
            self.increase();
            self.stages[1] += 1;
        }
    }

    fn increase(&mut self) {
        let threshold = self.parameters.recovery_stages;
        let [by_time, by_bytes] = self.stages;
        let counts_bytes = self.parameters.increase_bytes != u64::MAX;
        let earlier = if counts_bytes { by_time.min(by_bytes) } else { by_time };
        if earlier > threshold {
            self.target += self.parameters.hyper.0 as f64;
        } else if by_time.max(by_bytes) >= threshold {
            self.target += self.parameters.additive.0 as f64;
        }
        self.target = self.target.min(LINE);
        self.rate = f64::midpoint(self.rate, self.target);
        if LINE - self.rate < 1.0 {
            (self.rate, self.increase_at) = (LINE, None);
        }
    }
}

fn parameters() -> impl Strategy<Value = DcqcnParameters> {
    let times = (0..30_u64, 1..40_u64, 1..60_u64);
    let stages = (1..6_u32, prop_oneof![Just(u64::MAX), 20_000..200_000_u64]);
    let rates = (1..5_000_000_000_u64, 1..9_000_000_000_u64, 1..20_000_000_000_u64);
    (times, stages, rates, 0.001..0.9_f64, any::<bool>()).prop_map(
        |((cut, alpha, increase), (recovery_stages, increase_bytes), rates, gain, clamp_target)| {
            DcqcnParameters {
                cnp_interval: Duration(0),
                cut_interval: Duration(cut * US),
                alpha_interval: Duration(alpha * US),
                gain,
                increase_interval: Duration(increase * US),
                increase_bytes,
                recovery_stages,
                additive: Rate(rates.0),
                hyper: Rate(rates.1),
                minimum: Rate(rates.2),
                clamp_target,
                timeout: TIMEOUT,
                recovery: Recovery::Auto,
            }
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        40 => Just(Step::Nothing),
        2 => Just(Step::Notified),
        6 => (1..20_000_u64).prop_map(Step::Sent),
    ]
}

proptest! {
    /// Whenever something happens, and a while after the last of it, both have the same rate.
    #[test]
    fn intervals_at_once_are_intervals_one_by_one(
        parameters in parameters(),
        steps in proptest::collection::vec(step(), 1..900),
    ) {
        let mut replay = Replay::new(parameters);
        let mut reaction = Reaction::new(LINE);
        for (now, step) in (1_u64..).zip(steps.into_iter().chain([Step::Sent(1)])) {
            replay.tick(now);
            let time = Time(now * US);
            match step {
                Step::Nothing => continue,
                Step::Notified => {
                    replay.notify(now);
                    reaction.notify(&parameters, LINE, time);
                }
                Step::Sent(bytes) => {
                    reaction.renew(&parameters, LINE, time);
                    reaction.count(&parameters, LINE, bytes);
                    replay.send(bytes);
                }
            }
            let error = (reaction.current / replay.rate - 1.0).abs();
            prop_assert!(error < 1e-7, "{} for {} at {now} us", reaction.current, replay.rate);
        }
    }
}
