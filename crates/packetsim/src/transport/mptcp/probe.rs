//! Probes: when the end of what is in flight is lost, no duplicate acknowledgement tells.
//!
//! A sender that has heard nothing for longer than its round trip varies sends its first missing
//! packet again, in twice the time once more, and so on (RFC 9002, 6.2; RFC 8985, 7). The receiver
//! says whether the probe was new to it: only then was something lost.

use super::super::tcp::Sender;
use lightloom_model::{Duration, Time};

/// Doublings of the time between probes, at most.
const MAX_DOUBLINGS: u32 = 10;

/// When a subflow last sent or heard anything, and probes since it heard something.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Probe {
    touched: Time,
    sent: u32,
}

impl Probe {
    /// The subflow sends.
    pub(super) fn send(&mut self, now: Time) {
        self.touched = self.touched.max(now);
    }

    /// The subflow hears of its receiver.
    pub(super) fn hear(&mut self, now: Time) {
        *self = Self { touched: now, sent: 0 };
    }

    /// A probe is sent.
    pub(super) fn count(&mut self, now: Time) {
        *self = Self { touched: now, sent: (self.sent + 1).min(MAX_DOUBLINGS) };
    }

    /// When the next one is due, of a sender that has something in flight: three round trips of an
    /// idle network if it has measured none.
    pub(super) fn due(&self, sender: &Sender, idle: impl Fn() -> Duration) -> Option<Time> {
        if sender.unsent == sender.first {
            return None;
        }
        let [mean, deviation] = [sender.rtt, sender.rtt_deviation].map(|it| 1000 * u64::from(it));
        let span = if mean == 0 { 3 * idle().0 } else { (2 * mean).max(mean + 4 * deviation) };
        Some(self.touched + Duration(span << self.sent))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_follow_silence_at_doubling_times() {
        let mut sender = Sender::new(10, 10);
        let (mut probe, idle) = (Probe::default(), || Duration(14_000_000));
        assert_eq!(probe.due(&sender, idle), None, "nothing is in flight");
        sender.unsent = 3;
        probe.send(Time(5));
        assert_eq!(probe.due(&sender, idle), Some(Time(42_000_005)));
        sender.measure(20_000);
        // 20 us, and a deviation of 10 us.
        assert_eq!(probe.due(&sender, idle), Some(Time(60_000_005)));
        probe.count(Time(60_000_005));
        assert_eq!(probe.due(&sender, idle), Some(Time(180_000_005)));
        probe.hear(Time(70_000_000));
        assert_eq!(probe.due(&sender, idle), Some(Time(130_000_000)));
        for _ in 0..60 {
            sender.measure(20_000);
        }
        assert_eq!(probe.due(&sender, idle), Some(Time(110_000_000)), "two round trips at least");
    }
}
