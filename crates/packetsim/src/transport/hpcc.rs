//! HPCC: Li et al., "HPCC: High Precision Congestion Control", SIGCOMM 2019, algorithm 1.
//!
//! Every switch writes into a data packet how long the queue of its link is and how much it has
//! sent ([`crate::Stamp`]); the acknowledgement takes that back. From two of them the sender knows
//! how much of each link's rate is used and how much waits, and sets its window so that the busiest
//! link is used by `utilization` of its rate: by a factor, from a reference window that it renews
//! once per round trip, and for `stages` round trips additively while the link is used less. It
//! paces a window over a base round trip.
//!
//! Assumes one base round trip for all flows, as the paper does: unless given, the longest of an
//! idle network over all flows. Packets that are lost, which pauses prevent, are sent again by
//! go-back-N. Leaves out telemetry in only some packets (`HPCC-PINT`) and slowing on pauses.

use super::dcqcn;
use super::interface::Parameters;
use super::line_rate::TIMEOUT;
use super::recovery::Recovery;
use super::windowed::{Acknowledgement, Loss, WindowRule, Windowed};
use crate::config::Config;
use crate::error::PacketError;
use crate::flow::PacketFlowId;
use crate::network::core::Core;
use crate::network::telemetry::Stamp;
use lightloom_model::{Duration, Rate, by_name};
use serde::{Deserialize, Serialize};

/// Picoseconds in a second.
const SECOND: f64 = 1e12;

/// Parameters.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HpccParameters {
    /// Target utilization of the busiest link: eta.
    pub utilization: f64,
    /// Round trips of additive increase before the window is set by a factor: maxStage.
    pub stages: u32,
    /// Additive increase of a window per acknowledgement of a round trip, in bytes: `W_AI`.
    pub additive_bytes: u64,
    /// The round trip of an idle network: T; `None`: the longest one over all flows.
    #[serde(rename = "base_rtt_ps")]
    pub base_rtt: Option<Duration>,
    /// Time without acknowledgements after which a flow goes back, where packets are lost.
    #[serde(rename = "timeout_ps")]
    pub timeout: Duration,
    /// What NICs do about packets that are missing.
    #[serde(with = "by_name")]
    pub recovery: Recovery,
}

impl HpccParameters {
    /// The parameters of the paper, whose increase is 80 B for NICs of 100 Gb/s.
    pub fn of_rate(rate: Rate) -> Self {
        Self {
            utilization: 0.95,
            stages: 5,
            additive_bytes: (rate.0 / 1_250_000_000).max(1),
            base_rtt: None,
            timeout: TIMEOUT,
            recovery: Recovery::Auto,
        }
    }
}

impl Parameters for HpccParameters {
    type Transport = Hpcc;

    const TELEMETRY: bool = true;

    /// As for DCQCN, with the telemetry of up to five switches (2 B, and 8 B each) in headers
    /// instead of marks.
    fn profile(rate: Rate) -> (Config, Self) {
        let network = dcqcn::network(rate);
        let network = Config { header: network.header + 2 + 5 * 8, ecn: None, ..network };
        (network, Self::of_rate(rate))
    }

    fn validate(&self) -> Result<(), PacketError> {
        let wrong = |text: String| Err(PacketError::invalid(text));
        if !(self.utilization > 0.0 && self.utilization <= 1.0) {
            return wrong(format!(
                "HPCC utilization {}; expected above 0 and at most 1",
                self.utilization
            ));
        }
        if self.base_rtt == Some(Duration(0)) || self.timeout.0 == 0 {
            return wrong("HPCC base round trip and timeout; expected both above 0".into());
        }
        Ok(())
    }

    fn reference_rate() -> Option<Rate> {
        None
    }

    fn recovery(&self) -> Option<Recovery> {
        Some(self.recovery)
    }

    fn longest_timeout(&self) -> Duration {
        self.timeout
    }

    fn transport(self, core: &Core) -> Hpcc {
        Hpcc::new(core, self)
    }
}

/// The sending end of a flow.
#[derive(Debug, Clone)]
pub(crate) struct Sender {
    /// Rate of the NIC, in bytes per second.
    line: f64,
    /// W, and the reference window, in bytes.
    window: f64,
    reference: f64,
    /// Bytes in flight over those that the busiest link takes in a round trip: U.
    utilization: f64,
    /// Round trips of additive increase in a row.
    stage: u32,
    /// Next packet to send when the reference window was renewed.
    renewed_at: u32,
    /// The last stamp of each link that its packets took.
    stamps: Vec<Stamp>,
    /// Base round trip, in ps.
    base: f64,
}

/// The rule of windows.
#[derive(Debug, Clone)]
pub(crate) struct Rule {
    parameters: HpccParameters,
    /// The longest round trip of a flow of the run, in ps.
    longest: u64,
}

impl Sender {
    /// The window that fills the line for a round trip.
    fn full_window(&self) -> f64 {
        self.line * self.base / SECOND
    }

    /// `MeasureInflight`.
    fn measure(&mut self, stamps: &[Stamp]) {
        let (mut highest, mut span) = (-1.0, self.base);
        for now in stamps {
            let Some(before) = self.stamps.iter_mut().find(|it| it.link == now.link) else {
                self.stamps.push(*now);
                continue;
            };
            if now.time <= before.time {
                // Of a packet that was sent again, or that another has overtaken.
                continue;
            }
            let time = now.time.since(before.time).0 as f64;
            let rate = now.rate.0 as f64 / 8.0 / SECOND;
            let sent = (now.sent_bytes - before.sent_bytes) as f64 / time;
            let queued = f64::from(now.queued_bytes.min(before.queued_bytes));
            let used = queued / (rate * self.base) + sent / rate;
            if used > highest {
                (highest, span) = (used, time);
            }
            *before = *now;
        }
        if highest >= 0.0 {
            let weight = span.min(self.base) / self.base;
            self.utilization += weight * (highest - self.utilization);
        }
    }

    /// `ComputeWind`.
    fn compute(&mut self, parameters: &HpccParameters, renews: bool) {
        let additive = parameters.additive_bytes as f64;
        let excess = self.utilization / parameters.utilization;
        let scales = excess >= 1.0 || self.stage >= parameters.stages;
        let base = if scales { self.reference / excess } else { self.reference };
        // A NIC cannot send more than its line, whatever a path had room for.
        self.window = (base + additive).min(self.full_window());
        if renews {
            self.stage = if scales { 0 } else { self.stage + 1 };
            self.reference = self.window;
        }
    }
}

impl Rule {
    /// The base round trip of a flow that starts.
    fn base(&mut self, core: &Core, flow: PacketFlowId) -> Duration {
        if let Some(base) = self.parameters.base_rtt {
            return base;
        }
        if self.longest == 0 {
            self.longest = core.longest_round_trip().0.max(1);
        }
        // Of flows that were added meanwhile.
        self.longest = self.longest.max(core.round_trip(flow).0);
        Duration(self.longest)
    }
}

impl WindowRule for Rule {
    type State = Sender;

    fn begin(&mut self, core: &Core, flow: PacketFlowId) -> Sender {
        let line = core.nic_rate(core.endpoints(flow).source()).0 as f64 / 8.0;
        let base = self.base(core, flow).0 as f64;
        let mut sender = Sender {
            line,
            window: 0.0,
            reference: 0.0,
            utilization: 1.0,
            stage: 0,
            renewed_at: 0,
            stamps: Vec::new(),
            base,
        };
        sender.window = sender.full_window();
        sender.reference = sender.window;
        sender
    }

    fn acknowledge(&self, core: &Core, sender: &mut Sender, ack: Acknowledgement) {
        let is_first = sender.stamps.is_empty();
        sender.measure(core.stamps());
        if is_first {
            // One stamp shows no rate.
            sender.renewed_at = ack.next;
            return;
        }
        let renews = ack.first > sender.renewed_at;
        sender.compute(&self.parameters, renews);
        if renews {
            sender.renewed_at = ack.next;
        }
    }

    /// Packets behind the gap are no longer in flight; the stamps of the next one say the rest.
    fn lose(&self, _core: &Core, sender: &mut Sender, _loss: Loss) {
        sender.renewed_at = 0;
    }

    fn window_bytes(&self, _core: &Core, sender: &Sender) -> f64 {
        sender.window
    }

    fn gap(&self, sender: &Sender, bytes: u32) -> Duration {
        // Rounded down, so that a flow at full rate leaves no gap.
        Duration((f64::from(bytes) * sender.base / sender.window) as u64)
    }
}

/// State of the flows.
pub(crate) type Hpcc = Windowed<Rule>;

impl Hpcc {
    /// For the NICs of a network.
    ///
    /// # Panics
    /// If switches write nothing into packets.
    pub(crate) fn new(core: &Core, parameters: HpccParameters) -> Self {
        assert!(core.config().telemetry, "HPCC needs switches that write telemetry (INT)");
        let rule = Rule { parameters, longest: 0 };
        Self::with_rule(core, rule, parameters.recovery, parameters.timeout)
    }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "the expected values are of the same arithmetic")]
mod tests {
    use super::*;
    use lightloom_model::Time;

    const US: u64 = 1_000_000;
    /// 100 Gb/s.
    const LINE: f64 = 12.5e9;

    fn parameters() -> HpccParameters {
        HpccParameters::of_rate(Rate(100_000_000_000))
    }

    /// A base round trip of 10 us: 125,000 B fill it.
    fn sender() -> Sender {
        let mut sender = Sender {
            line: LINE,
            window: 0.0,
            reference: 0.0,
            utilization: 1.0,
            stage: 0,
            renewed_at: 0,
            stamps: Vec::new(),
            base: 10.0 * US as f64,
        };
        sender.window = sender.full_window();
        sender.reference = sender.window;
        sender
    }

    fn stamp(link: u32, us: u64, sent_bytes: u64, queued_bytes: u32) -> Stamp {
        let rate = Rate(100_000_000_000);
        Stamp { link, time: Time(us * US), sent_bytes, rate, queued_bytes }
    }

    #[test]
    fn the_busiest_link_counts_with_the_shorter_of_its_queues() {
        let mut sender = sender();
        sender.measure(&[stamp(0, 0, 0, 0), stamp(1, 1, 0, 50_000)]);
        // In 5 us, of 62,500 B: a half, and a quarter and 25,000 B of 125,000 B that wait.
        sender.measure(&[stamp(0, 5, 31_250, 0), stamp(1, 6, 15_625, 25_000)]);
        // Half a round trip: half the weight of what was known, 1.
        assert!((sender.utilization - f64::midpoint(1.0, 0.5)).abs() < 1e-12);
        // A whole round trip and more: all of the weight.
        sender.measure(&[stamp(0, 25, 156_250, 0), stamp(1, 26, 15_625, 0)]);
        assert!((sender.utilization - 0.5).abs() < 1e-12, "{}", sender.utilization);
    }

    #[test]
    fn another_path_has_other_links_to_compare_with() {
        let mut sender = sender();
        sender.measure(&[stamp(0, 0, 0, 0)]);
        sender.measure(&[stamp(1, 20, 250_000, 0), stamp(2, 21, 0, 0)]);
        assert_eq!(sender.utilization, 1.0, "nothing to compare with");
        sender.measure(&[stamp(1, 40, 250_000, 0), stamp(2, 41, 0, 0)]);
        assert_eq!(sender.utilization, 0.0, "two idle links");
        sender.measure(&[stamp(2, 39, 0, 90_000)]);
        assert_eq!(sender.utilization, 0.0, "a packet that was overtaken says nothing new");
        sender.measure(&[stamp(0, 60, 750_000, 0)]);
        assert_eq!(sender.utilization, 1.0, "the first path again, since it was last seen");
    }

    #[test]
    fn five_round_trips_of_additive_increase_then_a_factor() {
        let (parameters, mut sender) = (parameters(), sender());
        sender.reference = 10_000.0;
        sender.utilization = 0.475;
        for trip in 1..=5 {
            sender.compute(&parameters, false);
            assert_eq!(sender.window, 10_000.0 + 80.0 * f64::from(trip));
            sender.compute(&parameters, true);
            assert_eq!(sender.stage, trip);
        }
        // Half of the target is used: twice the window.
        sender.compute(&parameters, true);
        assert_eq!((sender.window, sender.stage), (2.0 * 10_400.0 + 80.0, 0));
        // Twice the target: half of the window, of that of the last round trip and not again.
        sender.utilization = 1.9;
        for _ in 0..3 {
            sender.compute(&parameters, false);
            assert_eq!(sender.window, 20_880.0 / 2.0 + 80.0);
        }
    }

    #[test]
    fn a_window_never_exceeds_what_the_line_carries_in_a_round_trip() {
        let (parameters, mut sender) = (parameters(), sender());
        sender.utilization = 0.01;
        sender.compute(&parameters, true);
        assert_eq!(sender.window, 125_000.0);
    }

    #[test]
    fn wrong_parameters_are_refused() {
        let text = |parameters: HpccParameters| parameters.validate().unwrap_err().to_string();
        let high = HpccParameters { utilization: 1.5, ..parameters() };
        assert_eq!(text(high), "HPCC utilization 1.5; expected above 0 and at most 1");
        let none = HpccParameters { base_rtt: Some(Duration(0)), ..parameters() };
        assert_eq!(text(none), "HPCC base round trip and timeout; expected both above 0");
    }
}
