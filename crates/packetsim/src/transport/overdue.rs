//! When a sender looks for overdue packets, where every flow has a timer for that.
//!
//! The first time may come before anything can have been acknowledged: a round trip is found only
//! then, as most flows end before. While the receiver is silent, the time between two checks
//! doubles.

use crate::flow::PacketFlowId;
use crate::network::core::Core;
use lightloom_model::Duration;

/// Maximum factor by which silence of the receiver lengthens timeouts.
const MAX_BACKOFF: u64 = 64;

/// The longest time between two checks, for a timeout to begin with.
pub(super) fn longest_timeout(timeout: Duration) -> Duration {
    Duration(timeout.0.saturating_mul(MAX_BACKOFF))
}

/// The checks of one flow. The time between two is the sender's: in here it would leave a gap.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Checks {
    /// Whether the time is known to be at least [`Core::round_trip`] twice.
    is_timed: bool,
    /// Whether anything came from the receiver since the last check.
    is_heard: bool,
}

impl Checks {
    /// Something came from the receiver.
    #[inline]
    pub(super) fn hear(&mut self) {
        self.is_heard = true;
    }

    /// Whether nothing can have been acknowledged yet; then the timer is set to when it can.
    pub(super) fn is_early(
        &mut self,
        core: &mut Core,
        flow: PacketFlowId,
        timeout: &mut Duration,
    ) -> bool {
        if std::mem::replace(&mut self.is_timed, true) {
            return false;
        }
        let shortest = Duration(2 * core.round_trip(flow).0);
        let is_early = *timeout < shortest;
        if is_early {
            core.set_timer(flow, core.now() + (shortest - *timeout));
            *timeout = shortest;
        }
        is_early
    }

    /// Sets the timer of the next check, later if nothing expired and the receiver was silent;
    /// whether it was.
    pub(super) fn renew(
        &mut self,
        core: &mut Core,
        flow: PacketFlowId,
        expired: u32,
        timeout: &mut Duration,
        longest: Duration,
    ) -> bool {
        let is_silent = !std::mem::replace(&mut self.is_heard, false);
        if expired == 0 && is_silent {
            *timeout = (*timeout + *timeout).min(longest.max(*timeout));
        }
        core.set_timer(flow, core.now() + *timeout);
        is_silent
    }
}
