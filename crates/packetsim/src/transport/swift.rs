//! Swift: Kumar et al., "Swift: Delay is Simple and Effective for Congestion Control in the
//! Datacenter", SIGCOMM 2020.
//!
//! The sender measures the round trip of each packet. Below a target it adds to its window, `ai`
//! packets per round trip; above it, once per round trip, it takes away the share `beta` of what
//! exceeds the target, at most `max_decrease`. The target grows with the links of the path, and
//! with the inverse root of the window (flow scaling), so that many flows, whose windows are small,
//! may have a longer queue, and a larger window is cut sooner, which makes shares equal. A window
//! below one packet paces: one packet per round trip and window.
//!
//! Assumes hosts that answer at once, so that all delay is that of the fabric: the window of the
//! receiving host is never the smaller one. What is lost is sent again by go-back-N, not
//! selectively. Leaves out sharing of a path's window among flows.

use super::fit::window;
use super::interface::Parameters;
use super::recovery::Recovery;
use super::windowed::{Acknowledgement, Loss, WindowRule, Windowed};
use crate::config::Config;
use crate::error::PacketError;
use crate::flow::PacketFlowId;
use crate::network::core::Core;
use lightloom_model::{Duration, Rate, Time, by_name};
use serde::{Deserialize, Serialize};

/// Timeouts in a row after which the window is the smallest (`RETX_RESET_THRESHOLD`).
const RESET_AFTER: u32 = 5;

/// What each link adds to the target in the reference.
const PER_LINK: Duration = Duration(3_053_435);

/// Packets of the window of the reference at the start.
const WINDOW: u32 = 15;

/// Parameters.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SwiftParameters {
    /// Window at the start, in packets; `None`: what fills a round trip, and `WINDOW` at least.
    pub initial_window: Option<f64>,
    /// Minimum and maximum of the window, in packets.
    pub min_window: f64,
    /// See `min_window`.
    pub max_window: f64,
    /// Packets by which a window grows in a round trip: ai.
    pub additive: f64,
    /// Share of what exceeds the target that is taken away: beta.
    pub decrease: f64,
    /// Maximum share of a window that is taken away at once: max mdf.
    pub max_decrease: f64,
    /// Target of a path without links and a large window.
    #[serde(rename = "base_target_ps")]
    pub base_target: Duration,
    /// What each link from sender to receiver adds to it; `None`: `PER_LINK`, and all of them the
    /// round trip of an idle network at least, else a flow alone would shrink its window.
    #[serde(rename = "per_link_ps")]
    pub per_link: Option<Duration>,
    /// What flow scaling adds at most, to windows of `scaling_min` packets or fewer: fs range.
    #[serde(rename = "scaling_ps")]
    pub scaling: Duration,
    /// See `scaling`.
    pub scaling_min: f64,
    /// Window from which on flow scaling adds nothing, in packets.
    pub scaling_max: f64,
    /// Time without acknowledgements after which a flow goes back.
    #[serde(rename = "timeout_ps")]
    pub timeout: Duration,
    /// What NICs do about packets that are missing.
    #[serde(with = "by_name")]
    pub recovery: Recovery,
}

const MICROSECOND: u64 = 1_000_000;

impl Default for SwiftParameters {
    /// As in csg-htsim, for what the paper leaves open.
    fn default() -> Self {
        Self {
            initial_window: Some(f64::from(WINDOW)),
            min_window: 0.001,
            max_window: 1000.0,
            additive: 1.0,
            decrease: 0.8,
            max_decrease: 0.5,
            base_target: Duration(20 * MICROSECOND),
            per_link: Some(PER_LINK),
            scaling: Duration(100 * MICROSECOND),
            scaling_min: 0.1,
            scaling_max: 100.0,
            timeout: Duration(10_000 * MICROSECOND),
            recovery: Recovery::Auto,
        }
    }
}

impl SwiftParameters {
    /// What a path adds to the target, with so many links and a round trip when it is idle.
    fn path_target(&self, links: u32, round_trip: Duration) -> Duration {
        let sum = |per_link: Duration| Duration(u64::from(links) * per_link.0);
        self.per_link.map_or_else(|| sum(PER_LINK).max(round_trip), sum)
    }

    /// The target delay of a path, by what that adds, and a window, in ps.
    fn target(&self, path: Duration, window: f64) -> f64 {
        let [low, high] = [self.scaling_min, self.scaling_max].map(|it| 1.0 / it.sqrt());
        let share = (1.0 / window.sqrt() - high) / (low - high);
        let fixed = self.base_target.0 + path.0;
        fixed as f64 + self.scaling.0 as f64 * share.clamp(0.0, 1.0)
    }
}

impl Parameters for SwiftParameters {
    type Transport = Swift;

    /// Queues of 1,000 packets, which Swift does not fill. Acknowledgements wait among data, as in
    /// csg-htsim: Swift measures both ways.
    fn profile(_rate: Rate) -> (Config, Self) {
        let queue_bytes = 1_000 * Config::ENDLESS.packet_bytes();
        (Config { queue_bytes, ..Config::ENDLESS }, Self::default())
    }

    fn validate(&self) -> Result<(), PacketError> {
        let wrong = |text: String| Err(PacketError::invalid(text));
        let is_share = |value: f64| value > 0.0 && value < 1.0;
        if !is_share(self.decrease) || !is_share(self.max_decrease) || self.additive <= 0.0 {
            return wrong(format!(
                "Swift increase {}, decrease {} and maximum decrease {}; expected an increase \
                 above 0 and decreases between 0 and 1",
                self.additive, self.decrease, self.max_decrease
            ));
        }
        let initial = self.initial_window.unwrap_or(self.max_window);
        let is_ordered = |low: f64, high: f64| low > 0.0 && low < high && high.is_finite();
        if !is_ordered(self.min_window, self.max_window)
            || !(self.min_window..=self.max_window).contains(&initial)
        {
            return wrong(format!(
                "Swift windows of {} to {} packets, {} at the start; expected 0 < minimum <= start \
                 <= maximum, and minimum < maximum",
                self.min_window, self.max_window, initial
            ));
        }
        if !is_ordered(self.scaling_min, self.scaling_max) {
            return wrong(format!(
                "Swift flow scaling from {} to {} packets; expected 0 < minimum < maximum",
                self.scaling_min, self.scaling_max
            ));
        }
        if self.base_target.0 == 0 || self.timeout.0 == 0 {
            return wrong("Swift target delay and timeout; expected both above 0".into());
        }
        Ok(())
    }

    /// All in packets grows, so that flows share a faster link as they share that of the reference.
    fn fit(&mut self, factor: f64) {
        (self.initial_window, self.per_link) = (None, None);
        let sizes = [
            &mut self.max_window,
            &mut self.additive,
            &mut self.scaling_min,
            &mut self.scaling_max,
        ];
        for packets in sizes {
            *packets *= factor;
        }
    }

    fn given_window(&self) -> Option<f64> {
        self.initial_window
    }

    fn recovery(&self) -> Option<Recovery> {
        Some(self.recovery)
    }

    fn longest_timeout(&self) -> Duration {
        self.timeout
    }

    fn transport(self, core: &Core) -> Swift {
        Swift::new(core, self)
    }
}

/// The sending end of a flow.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sender {
    /// In packets.
    window: f64,
    /// When it was last reduced.
    decreased_at: Option<Time>,
    /// Last round trip.
    round_trip: Duration,
    /// What its path adds to the target.
    path: Duration,
    /// Timeouts in a row.
    timeouts: u32,
}

impl Sender {
    /// Whether it may shrink: once per round trip.
    fn may_decrease(&self, now: Time) -> bool {
        self.decreased_at.is_none_or(|time| time + self.round_trip <= now)
    }

    /// Multiplies the window.
    fn scale(&mut self, parameters: &SwiftParameters, factor: f64, now: Time) {
        self.window = (self.window * factor).max(parameters.min_window);
        self.decreased_at = Some(now);
    }

    fn acknowledge(&mut self, parameters: &SwiftParameters, ack: Acknowledgement, now: Time) {
        self.timeouts = 0;
        self.round_trip = ack.round_trip;
        let delay = ack.round_trip.0 as f64;
        let target = parameters.target(self.path, self.window);
        if delay < target {
            let added = parameters.additive * f64::from(ack.newly) / self.window.max(1.0);
            self.window = (self.window + added).min(parameters.max_window);
        } else if self.may_decrease(now) {
            let factor = 1.0 - parameters.decrease * (delay - target) / delay;
            self.scale(parameters, factor.max(1.0 - parameters.max_decrease), now);
        }
    }

    fn lose(&mut self, parameters: &SwiftParameters, loss: Loss, now: Time) {
        if loss == Loss::Timeout {
            self.timeouts += 1;
            if self.timeouts >= RESET_AFTER {
                return self.scale(parameters, 0.0, now);
            }
        }
        if self.may_decrease(now) {
            self.scale(parameters, 1.0 - parameters.max_decrease, now);
        }
    }
}

/// The rule of windows.
#[derive(Debug, Clone)]
pub(crate) struct Rule(SwiftParameters);

impl WindowRule for Rule {
    type State = Sender;

    fn begin(&mut self, core: &Core, flow: PacketFlowId) -> Sender {
        let round_trip = core.round_trip(flow);
        let filling = || f64::from(window(core, flow, WINDOW)).min(self.0.max_window);
        Sender {
            window: self.0.initial_window.unwrap_or_else(filling),
            decreased_at: None,
            round_trip,
            path: self.0.path_target(core.link_count(flow), round_trip),
            timeouts: 0,
        }
    }

    fn acknowledge(&self, core: &Core, sender: &mut Sender, ack: Acknowledgement) {
        sender.acknowledge(&self.0, ack, core.now());
    }

    fn lose(&self, core: &Core, sender: &mut Sender, loss: Loss) {
        sender.lose(&self.0, loss, core.now());
    }

    fn window_bytes(&self, core: &Core, sender: &Sender) -> f64 {
        sender.window * f64::from(core.config().packet_bytes())
    }

    fn gap(&self, sender: &Sender, _bytes: u32) -> Duration {
        if sender.window >= 1.0 {
            return Duration::ZERO;
        }
        Duration((sender.round_trip.0 as f64 / sender.window) as u64)
    }
}

/// State of the flows.
pub(crate) type Swift = Windowed<Rule>;

impl Swift {
    /// For the NICs of a network.
    pub(crate) fn new(core: &Core, parameters: SwiftParameters) -> Self {
        Self::with_rule(core, Rule(parameters), parameters.recovery, parameters.timeout)
    }

    /// The window of a flow that has started, in packets.
    #[cfg(test)]
    pub(crate) fn window(&self, flow: PacketFlowId) -> f64 {
        self.state(flow).map_or(0.0, |sender| sender.window)
    }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "the expected values are of the same arithmetic")]
mod tests {
    use super::*;

    const US: u64 = MICROSECOND;

    fn sender(window: f64) -> Sender {
        let round_trip = Duration(10 * US);
        Sender { window, decreased_at: None, round_trip, path: Duration(20 * US), timeouts: 0 }
    }

    fn ack(newly: u32, us: u64) -> Acknowledgement {
        Acknowledgement { newly, first: 0, next: 0, round_trip: Duration(us * US) }
    }

    /// Without flow scaling: 20 us and what the path adds.
    fn plain() -> SwiftParameters {
        SwiftParameters { scaling: Duration(0), ..SwiftParameters::default() }
    }

    /// alpha / sqrt(w) + beta, with alpha = range / (1 / sqrt(low) - 1 / sqrt(high)) and
    /// beta = -alpha / sqrt(high), between 0 and the range.
    #[test]
    fn targets_follow_links_and_the_root_of_the_window() {
        let parameters = SwiftParameters::default();
        let alpha = 100.0 / (1.0 / 0.1_f64.sqrt() - 1.0 / 100.0_f64.sqrt());
        let beta = -alpha / 100.0_f64.sqrt();
        for (window, scaling) in [
            (0.01, 100.0),
            (0.1, 100.0),
            (1.0, alpha + beta),
            (25.0, alpha / 5.0 + beta),
            (100.0, 0.0),
            (500.0, 0.0),
        ] {
            let path = parameters.path_target(6, Duration(50 * US));
            let target_us = parameters.target(path, window) / US as f64;
            let expected = 20.0 + 6.0 * 3.053_435 + scaling;
            assert!(
                (target_us - expected).abs() < 1e-6,
                "{window}: {target_us}, expected {expected}"
            );
        }
    }

    #[test]
    fn an_idle_path_is_below_the_target_that_it_is_given() {
        let fitted = SwiftParameters { per_link: None, ..SwiftParameters::default() };
        assert_eq!(fitted.path_target(6, Duration(10 * US)), Duration(6 * PER_LINK.0));
        assert_eq!(fitted.path_target(6, Duration(90 * US)), Duration(90 * US));
    }

    #[test]
    fn below_the_target_a_window_grows_by_one_packet_per_round_trip() {
        let mut sender = sender(50.0);
        for _ in 0..50 {
            sender.acknowledge(&plain(), ack(1, 39), Time(0));
        }
        assert!((sender.window - 51.0).abs() < 0.02, "{}", sender.window);
        sender.window = 0.25;
        sender.acknowledge(&plain(), ack(1, 39), Time(0));
        assert_eq!(sender.window, 1.25, "a whole packet, if there is less than one");
        sender.window = 999.9999;
        sender.acknowledge(&plain(), ack(2_000, 39), Time(0));
        assert_eq!(sender.window, 1000.0);
    }

    #[test]
    fn above_the_target_it_shrinks_by_the_excess_once_per_round_trip() {
        let (parameters, mut sender) = (plain(), sender(100.0));
        // 50 us for a target of 40: 0.8 of a fifth.
        sender.acknowledge(&parameters, ack(1, 50), Time(100 * US));
        assert!((sender.window - 84.0).abs() < 1e-9);
        sender.acknowledge(&parameters, ack(1, 50), Time(150 * US - 1));
        assert!((sender.window - 84.0).abs() < 1e-9, "not within a round trip");
        sender.acknowledge(&parameters, ack(1, 4000), Time(4150 * US));
        assert!((sender.window - 42.0).abs() < 1e-9, "at most by half");
    }

    #[test]
    fn losses_halve_and_the_fifth_timeout_in_a_row_resets() {
        let (parameters, mut sender) = (plain(), sender(64.0));
        sender.lose(&parameters, Loss::Reported, Time(0));
        sender.lose(&parameters, Loss::Reported, Time(1));
        assert_eq!(sender.window, 32.0);
        for turn in 1..5 {
            sender.lose(&parameters, Loss::Timeout, Time(turn * 1_000 * US));
        }
        assert_eq!(sender.window, 2.0);
        sender.lose(&parameters, Loss::Timeout, Time(5_000 * US));
        assert_eq!((sender.window, sender.timeouts), (0.001, 5));
        sender.acknowledge(&parameters, ack(1, 10), Time(6_000 * US));
        assert_eq!(sender.timeouts, 0);
    }

    #[test]
    fn wrong_parameters_are_refused() {
        let text = |parameters: SwiftParameters| parameters.validate().unwrap_err().to_string();
        let base = SwiftParameters::default();
        assert_eq!(base.validate(), Ok(()));
        let high = SwiftParameters { max_decrease: 1.0, ..base };
        assert_eq!(
            text(high),
            "Swift increase 1, decrease 0.8 and maximum decrease 1; expected an increase above 0 \
             and decreases between 0 and 1"
        );
        let wide = SwiftParameters { initial_window: Some(2000.0), ..base };
        assert!(
            text(wide).starts_with("Swift windows of 0.001 to 1000 packets, 2000 at the start")
        );
        let scaling = SwiftParameters { scaling_min: 200.0, ..base };
        assert!(text(scaling).contains("flow scaling from 200 to 100 packets"));
        let none = SwiftParameters { timeout: Duration(0), ..base };
        assert_eq!(text(none), "Swift target delay and timeout; expected both above 0");
    }
}
