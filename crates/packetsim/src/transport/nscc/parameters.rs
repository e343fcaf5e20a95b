//! Parameters of NSCC.

use crate::error::PacketError;
use crate::transport::overdue::longest_timeout;
use lightloom_model::Duration;

/// Parameters; the others follow from the rate of NICs and the round trip.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NsccParameters {
    /// The longest round trip of an idle network; `None`: that over all flows.
    pub base_rtt: Option<Duration>,
    /// Delay by queues that is aimed at; `None`: three quarters of the round trip.
    pub target_delay: Option<Duration>,
    /// Time after which an unacknowledged packet is sent again, if that is at least twice the round
    /// trip of an idle network; up to 64 times as long while nothing is heard from the receiver.
    pub timeout: Duration,
}

impl Default for NsccParameters {
    /// The timeout is that of six queues of a round trip, at any rate.
    fn default() -> Self {
        Self { base_rtt: None, target_delay: None, timeout: Duration(100_000_000) }
    }
}

impl NsccParameters {
    /// Checks that no time is 0.
    ///
    /// # Errors
    /// Says what was expected.
    pub fn validate(&self) -> Result<(), PacketError> {
        let zero = Some(Duration::ZERO);
        if self.base_rtt == zero || self.target_delay == zero || self.timeout.0 == 0 {
            return Err(PacketError::invalid(
                "NSCC base round trip, target delay and timeout; expected all above 0",
            ));
        }
        Ok(())
    }

    /// The maximum time for which a sender is silent while it waits.
    pub(crate) fn longest_timeout(&self) -> Duration {
        longest_timeout(self.timeout)
    }
}
