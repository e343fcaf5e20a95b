//! Parameters of DCQCN.

use crate::transport::line_rate::TIMEOUT;
use crate::transport::recovery::Recovery;
use lightloom_model::{Duration, Rate, by_name};
use serde::{Deserialize, Serialize};

/// Shortest time between increases: NICs count in microseconds.
pub(super) const MIN_INTERVAL: Duration = Duration(100_000);

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
    /// What NICs do about packets that are missing.
    #[serde(with = "by_name")]
    pub recovery: Recovery,
}

pub(super) const MICROSECOND: u64 = 1_000_000;

impl DcqcnParameters {
    /// The parameters of the ns-3 model of HPCC for NICs of a rate: its `dcqcn`, the defaults of
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
            recovery: Recovery::Auto,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::interface::Parameters;

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
