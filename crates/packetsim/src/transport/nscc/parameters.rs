//! Parameters of NSCC.

use lightloom_model::Duration;
use serde::{Deserialize, Serialize};

/// Parameters; the others follow from the rate of NICs and the round trip.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NsccParameters {
    /// The longest round trip of an idle network; `None`: that over all flows.
    #[serde(rename = "base_rtt_ps")]
    pub base_rtt: Option<Duration>,
    /// Delay by queues that is aimed at; `None`: three quarters of the round trip.
    #[serde(rename = "target_delay_ps")]
    pub target_delay: Option<Duration>,
    /// Time after which an unacknowledged packet is sent again, if that is at least twice the round
    /// trip of an idle network; up to 64 times as long while nothing is heard from the receiver.
    #[serde(rename = "timeout_ps")]
    pub timeout: Duration,
}

impl Default for NsccParameters {
    /// The timeout is that of six queues of a round trip, at any rate.
    fn default() -> Self {
        Self { base_rtt: None, target_delay: None, timeout: Duration(100_000_000) }
    }
}
