//! Parameters of DCQCN.

use super::Dcqcn;
use crate::config::{Config, Ecn, Marking, Pfc};
use crate::error::PacketError;
use crate::network::core::Core;
use crate::transport::Parameters;
use crate::transport::line_rate::TIMEOUT;
use lightloom_model::{Duration, Rate};
use serde::{Deserialize, Serialize};

/// Shortest time between increases: NICs count in microseconds.
const MIN_INTERVAL: Duration = Duration(100_000);

/// Parameters of the NICs; their rates scale with the link, see [`Self::of_rate`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DcqcnParameters {
    /// The receiver sends at most one notification per flow and such an interval; 0: one for each
    /// marked packet (paper: 50 us, `min_time_between_cnps` of NICs).
    #[serde(rename = "cnp_interval_ps")]
    pub cnp_interval: Duration,
    /// The sender cuts a rate at most once per interval (NICs: `rate_reduce_monitor_period`).
    #[serde(rename = "cut_interval_ps")]
    pub cut_interval: Duration,
    /// Interval of `alpha` (paper: 55 us, NICs: `dce_tcp_rtt`).
    #[serde(rename = "alpha_interval_ps")]
    pub alpha_interval: Duration,
    /// Weight of one interval in `alpha`: g (NICs: `dce_tcp_g`).
    pub gain: f64,
    /// Time between increases (paper: 55 us, NICs: `rpg_time_reset`).
    #[serde(rename = "increase_interval_ps")]
    pub increase_interval: Duration,
    /// Bytes between increases (paper: 10 MB, NICs: `rpg_byte_reset`); `u64::MAX`: time alone.
    pub increase_bytes: u64,
    /// Increases of fast recovery: F (paper: 5, NICs: `rpg_threshold`).
    pub recovery_stages: u32,
    /// `R_AI` (paper: 40 Mb/s at 40 Gb/s, NICs: `rpg_ai_rate`).
    #[serde(rename = "additive_bps")]
    pub additive: Rate,
    /// `R_HAI` (NICs: `rpg_hai_rate`).
    #[serde(rename = "hyper_bps")]
    pub hyper: Rate,
    /// Minimum rate of a flow (NICs: `rpg_min_rate`).
    #[serde(rename = "minimum_bps")]
    pub minimum: Rate,
    /// Whether each cut makes the current rate the target, as in the paper, or only those after an
    /// increase (NICs: `clamp_tgt_rate`).
    pub clamp_target: bool,
    /// Time without acknowledgements after which a flow goes back, where packets are lost.
    #[serde(rename = "timeout_ps")]
    pub timeout: Duration,
}

pub(super) const MICROSECOND: u64 = 1_000_000;

impl DcqcnParameters {
    /// Those of the ns-3 model of HPCC for NICs of a rate: its `dcqcn`, that is, the defaults of
    /// NICs with 5 and 50 Mb/s for each 25 Gb/s.
    pub fn of_rate(rate: Rate) -> Self {
        Self {
            cnp_interval: Duration(0),
            cut_interval: Duration(4 * MICROSECOND),
            alpha_interval: Duration(MICROSECOND),
            gain: 1.0 / 256.0,
            increase_interval: Duration(300 * MICROSECOND),
            increase_bytes: u64::MAX,
            recovery_stages: 1,
            additive: Rate((rate.0 / 5_000).max(1)),
            hyper: Rate((rate.0 / 500).max(1)),
            minimum: Rate((rate.0 / 100).clamp(1, 1_000_000_000)),
            clamp_target: false,
            timeout: TIMEOUT,
        }
    }
}

impl Parameters for DcqcnParameters {
    type Transport = Dcqcn;

    fn profile(rate: Rate) -> (Config, Self) {
        (network(rate), Self::of_rate(rate))
    }

    fn validate(&self) -> Result<(), PacketError> {
        let wrong = |text: String| Err(PacketError::invalid(text));
        if !(self.gain > 0.0 && self.gain < 1.0) {
            return wrong(format!("DCQCN gain {}; expected 0 < gain < 1", self.gain));
        }
        let spans = [
            ("alpha interval", self.alpha_interval.0),
            ("increase interval", self.increase_interval.0),
            ("increase bytes", self.increase_bytes),
            ("additive increase", self.additive.0),
            ("hyper increase", self.hyper.0),
            ("minimum rate", self.minimum.0),
            ("timeout", self.timeout.0),
        ];
        if let Some((name, _)) = spans.iter().find(|(_, value)| *value == 0) {
            return wrong(format!("DCQCN {name} 0; expected more than 0"));
        }
        // Each interval that has passed is calculated, however long nothing was sent.
        if self.increase_interval < MIN_INTERVAL {
            return wrong(format!(
                "DCQCN increase interval {} ps; expected {} ps at least",
                self.increase_interval.0, MIN_INTERVAL.0
            ));
        }
        Ok(())
    }

    fn longest_timeout(&self) -> Duration {
        self.timeout
    }

    fn transport(self, core: &Core) -> Result<Dcqcn, PacketError> {
        Dcqcn::new(core, self)
    }
}

/// The ns-3 model of HPCC (Li et al., SIGCOMM 2019). For each 25 Gb/s, marks from 100 kB on with a
/// probability that rises to 0.2 at 400 kB, on departure. Its buffer of 8 MB for each 25 Gb/s
/// pauses an input that holds an eighth of what is free: here, of the whole buffer.
/// Acknowledgements have priority.
pub(in crate::transport) fn network(rate: Rate) -> Config {
    let bytes = |per_25_gbps: u64| {
        let bytes = u128::from(rate.0) * u128::from(per_25_gbps) / 25_000_000_000;
        u32::try_from(bytes).unwrap_or(u32::MAX).max(1)
    };
    Config {
        full_tail: false,
        control_priority: true,
        ecn: Some(Ecn {
            marking: Marking::Departure,
            min_bytes: bytes(100_000),
            max_bytes: bytes(400_000),
            probability: 0.2,
        }),
        pfc: Some(Pfc {
            pause_bytes: bytes(1_000_000),
            resume_bytes: bytes(1_000_000).saturating_sub(3 * 1024).max(1),
        }),
        ..Config::ENDLESS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_parameters_are_refused() {
        let rate = Rate(800_000_000_000);
        let base = DcqcnParameters::of_rate(rate);
        base.validate().unwrap();
        let text = |parameters: DcqcnParameters| parameters.validate().unwrap_err().to_string();
        assert_eq!(
            text(DcqcnParameters { gain: 1.0, ..base }),
            "DCQCN gain 1; expected 0 < gain < 1"
        );
        assert_eq!(
            text(DcqcnParameters { minimum: Rate(0), ..base }),
            "DCQCN minimum rate 0; expected more than 0"
        );
        assert_eq!(
            text(DcqcnParameters { increase_interval: Duration(99_999), ..base }),
            "DCQCN increase interval 99999 ps; expected 100000 ps at least"
        );
    }
}
