//! Parameters of NSCC.

use super::Nscc;
use crate::config::{Config, Ecn, Marking, PathChoice};
use crate::error::PacketError;
use crate::network::core::Core;
use crate::transport::Parameters;
use crate::transport::overdue::longest_timeout;
use crate::transport::spray::trimming;
use lightloom_model::{Duration, Rate};
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

impl Parameters for NsccParameters {
    type Transport = Nscc;

    fn profile(rate: Rate) -> (Config, Self) {
        (network(rate), Self::default())
    }

    fn validate(&self) -> Result<(), PacketError> {
        let zero = Some(Duration::ZERO);
        if self.base_rtt == zero || self.target_delay == zero || self.timeout.0 == 0 {
            return Err(PacketError::invalid(
                "NSCC base round trip, target delay and timeout; expected all above 0",
            ));
        }
        Ok(())
    }

    fn longest_timeout(&self) -> Duration {
        longest_timeout(self.timeout)
    }

    fn transport(self, core: &Core) -> Result<Nscc, PacketError> {
        Nscc::new(core, self)
    }
}

/// As [`trimming`], with what `htsim_uec` sets for a three-tier tree of links of 1 us: queues of
/// what such a round trip takes, marks from a fifth of that on, more and more up to four fifths.
/// Of 64 paths.
pub(in crate::transport) fn network(rate: Rate) -> Config {
    let network = trimming(false);
    let packet = network.packet_bytes();
    let sent = u128::from(rate.0) * 12 / 8_000_000;
    let bytes = sent + u128::from(6 * (packet + network.control_bytes));
    // below 4 GB
    let packets = bytes.div_ceil(u128::from(packet)).clamp(2, 60_000) as u32;
    let whole = |fifths: u32| (packets * fifths).div_ceil(5) * packet;
    let queue = whole(5);
    Config {
        queue_bytes: queue - packet,
        control_queue_bytes: 2 * queue,
        ecn: Some(Ecn {
            marking: Marking::Departure,
            min_bytes: whole(1),
            max_bytes: whole(4),
            probability: 1.0,
        }),
        paths: PathChoice::Spray(64),
        ..network
    }
}
