//! How long a time slot of circuits is, and how many of them bytes need (Chronos, section 6).
//!
//! A slot is long enough for its payload, the largest one-way latency and the guard time in which
//! crossbars turn: `T >= b/c + t_max + t_x`. Slots are of one length for the whole fabric, and
//! bytes that do not fill their last slot waste its rest; or, as a bound, each is as long as what
//! it carries takes. Where NICs send early by their distance (*aligned*), slots need not wait for
//! the latency of the one before, unless they pass on what it brought.

use lightloom_model::{Bytes, Duration, Invalid, Rate, Time};
use serde::Deserialize;

/// Maximum length of a slot.
const LONGEST: Duration = Duration(3_600_000_000_000_000);

/// Steps of a ring that are left: slots, if these are of one length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Steps {
    /// How many.
    pub left: u64,
    /// How long the first of them sends.
    first: Duration,
    /// How long each of the others does.
    each: Duration,
}

/// What a slot waits for, and how long it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
pub struct TurnTiming {
    /// Largest one-way latency between two NICs.
    #[serde(rename = "latency_ps")]
    pub latency: Duration,
    /// Time in which crossbars turn and nothing can be sent.
    #[serde(rename = "guard_ps")]
    pub guard: Duration,
    /// Length of every slot; nothing for slots as long as what they carry takes.
    #[serde(rename = "slot_ps")]
    pub length: Option<Duration>,
    /// Whether NICs send early by their latency, so that it is lost once and not in every slot.
    #[serde(rename = "aligned")]
    pub is_aligned: bool,
    /// Whether a matching that is held for several slots turns no crossbar between them.
    #[serde(rename = "held")]
    pub is_held: bool,
}

impl TurnTiming {
    /// Checks that slots of a length carry something.
    ///
    /// # Errors
    /// If they are over before data can arrive, or are asked to be held.
    pub fn validate(&self) -> Result<(), Invalid> {
        let Some(length) = self.length else { return Ok(()) };
        if length > LONGEST {
            return Err(Invalid(format!(
                "crossbar: slots of {} ps: expected {} ps at most, an hour",
                length.0, LONGEST.0
            )));
        }
        let overhead = self.overhead() + if self.is_aligned { self.latency } else { Duration(0) };
        if length <= overhead {
            return Err(Invalid(format!(
                "crossbar: slots of {} ps are over before data arrives: expected more than the {} \
                 ps of latency and guard time",
                length.0, overhead.0
            )));
        }
        if self.is_held {
            return Err(Invalid::new(
                "crossbar: slots of a fixed length include their guard time: leave out held \
                 matchings or the length",
            ));
        }
        Ok(())
    }

    /// What every slot of independent bytes takes in addition to its payload.
    pub fn overhead(&self) -> Duration {
        if self.is_aligned { self.guard } else { self.guard + self.latency }
    }

    /// When a slot that bytes want from `ready` on begins.
    pub fn begin(&self, ready: Time) -> Time {
        match self.length {
            Some(Duration(length)) => Time(ready.0.div_ceil(length).saturating_mul(length)),
            None => ready,
        }
    }

    /// So many steps of a ring, in each of which members pass on what they were sent before.
    pub fn steps(&self, count: u64, chunk: u64, rate: Rate) -> Steps {
        let sending = rate.transmission(Bytes(chunk));
        let Some(length) = self.length else {
            return Steps { left: count, first: sending, each: sending };
        };
        let (window, needed) = if self.is_aligned {
            (length - self.guard, sending + self.latency)
        } else {
            (length - self.overhead(), sending)
        };
        let slots = needed.0.div_ceil(window.0).max(1);
        Steps { left: count.saturating_mul(slots), first: window, each: window }
    }

    /// How long steps take, one after another.
    pub fn duration(&self, steps: &Steps) -> Duration {
        let Some(rest) = steps.left.checked_sub(1) else { return Duration::ZERO };
        let [first, each] = self.lengths(steps);
        first + Duration(each.0.saturating_mul(rest))
    }

    /// How long the first step and each that follows it take.
    fn lengths(&self, steps: &Steps) -> [Duration; 2] {
        if let Some(length) = self.length {
            return [length; 2];
        }
        let first = self.guard + steps.first + self.latency;
        [first, self.guard_between() + steps.each + self.latency]
    }

    /// The time in which crossbars turn before each step but the first of a turn.
    fn guard_between(&self) -> Duration {
        if self.is_held { Duration::ZERO } else { self.guard }
    }

    /// When steps that have to yield so long after their begin are over, and what is left of them.
    pub fn yielded(&self, steps: &Steps, after: Duration) -> (Duration, Steps) {
        let [first, each] = self.lengths(steps);
        if let Some(length) = self.length {
            let done = after.0.div_ceil(length.0).min(steps.left);
            let left = Steps { left: steps.left - done, ..*steps };
            return (Duration(done * length.0), left);
        }
        let mut now = *steps;
        let (mut begin, mut dark) = (Duration::ZERO, self.guard);
        if after >= first {
            let more = (after - first).0 / each.0.max(1);
            let done = (1 + more).min(steps.left);
            now = Steps { left: steps.left - done, first: steps.each, each: steps.each };
            (begin, dark) = (first + Duration(each.0 * (done - 1)), self.guard_between());
        }
        let sent = (after - begin).0.saturating_sub(dark.0);
        if now.left == 0 || sent == 0 {
            return (after.min(self.duration(steps)), now);
        }
        if sent >= now.first.0 {
            let end = begin + dark + now.first + self.latency;
            return (end, Steps { left: now.left - 1, first: now.each, each: now.each });
        }
        (after + self.latency, Steps { first: now.first - Duration(sent), ..now })
    }

    /// How long a matching lasts over which each pair sends up to `hold` bytes, and when `bytes` of
    /// them have arrived, both from its begin.
    pub fn matching(&self, hold: u64, bytes: u64, rate: Rate) -> (Duration, Duration) {
        let [whole, sending] = [hold, bytes].map(|size| rate.transmission(Bytes(size)));
        let Some(length) = self.length else {
            let arrival = self.guard + sending + self.latency;
            return (whole + self.overhead(), arrival);
        };
        let window = length - self.overhead();
        let slots = |sending: Duration| sending.0.div_ceil(window.0).max(1);
        let full = slots(sending) - 1;
        let rest = sending - Duration(full * window.0);
        let before = Duration(full.saturating_mul(length.0));
        let arrival = before + self.guard + rest + self.latency;
        (Duration(slots(whole).saturating_mul(length.0)), arrival)
    }

    /// How long matchings last over which each pair sends up to so many bytes.
    pub fn matchings(&self, holds: &[u64], rate: Rate) -> Duration {
        let lengths = holds.iter().map(|&hold| self.matching(hold, hold, rate).0);
        lengths.fold(Duration::ZERO, |all, length| all + length)
    }
}

/// The bytes that a port could send in a time.
pub(super) fn bytes_in(span: Duration, rate: Rate) -> u64 {
    let bits = u128::from(span.0) * u128::from(rate.0);
    u64::try_from(bits / (8 * u128::from(lightloom_model::units::PS_PER_S))).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const US: u64 = 1_000_000;
    /// 20 ps for a byte.
    const RATE: Rate = Rate(400_000_000_000);

    fn timing(length: Option<u64>) -> TurnTiming {
        TurnTiming {
            latency: Duration(2 * US),
            guard: Duration(US),
            length: length.map(Duration),
            ..TurnTiming::default()
        }
    }

    fn steps(timing: TurnTiming, count: u64, chunk: u64) -> Duration {
        timing.duration(&timing.steps(count, chunk, RATE))
    }

    #[test]
    fn a_slot_is_payload_latency_and_guard() {
        // 1 MB is 20 us.
        assert_eq!(steps(timing(None), 1, 1_000_000), Duration(23 * US));
        assert_eq!(timing(None).matching(1_000_000, 500_000, RATE).0, Duration(23 * US));
        assert_eq!(timing(None).matching(1_000_000, 500_000, RATE).1, Duration(13 * US));
        assert_eq!(bytes_in(timing(None).overhead(), RATE), 150_000);
    }

    #[test]
    fn slots_of_an_hour_are_long_enough() {
        let hour = 3_600 * 1_000_000 * US;
        timing(Some(hour)).validate().unwrap();
        assert_eq!(
            timing(Some(hour + 1)).validate().unwrap_err().0,
            "crossbar: slots of 3600000000000001 ps: expected 3600000000000000 ps at most, an hour"
        );
    }

    #[test]
    fn bytes_take_whole_slots() {
        // Slots of 13 us carry 10 us: 500 kB.
        let slots = timing(Some(13 * US));
        assert_eq!(steps(slots, 1, 500_000), Duration(13 * US));
        assert_eq!(steps(slots, 1, 500_001), Duration(26 * US));
        assert_eq!(steps(slots, 1, 0), Duration(13 * US));
        assert_eq!(steps(slots, 3, 500_001), Duration(78 * US));
        // 600 kB of 1 MB: the last 2 us of them in the second slot.
        let (whole, arrival) = slots.matching(1_000_000, 600_000, RATE);
        assert_eq!((whole, arrival), (Duration(26 * US), Duration((13 + 1 + 2 + 2) * US)));
        assert_eq!(slots.begin(Time(13 * US)), Time(13 * US));
        assert_eq!(slots.begin(Time(13 * US + 1)), Time(26 * US));
    }

    #[test]
    fn aligned_slots_lose_the_latency_only_where_they_wait_for_it() {
        let aligned = TurnTiming { is_aligned: true, ..timing(None) };
        assert_eq!(aligned.overhead(), Duration(US));
        assert_eq!(steps(aligned, 1, 1_000_000), Duration(23 * US));
        assert_eq!(aligned.matching(1_000_000, 1_000_000, RATE).0, Duration(21 * US));
        assert_eq!(aligned.matching(1_000_000, 1_000_000, RATE).1, Duration(23 * US));
        let slots = TurnTiming { length: Some(Duration(11 * US)), ..aligned };
        // 10 us for payload, of which a step of a ring needs 2 us for the latency.
        assert_eq!(steps(slots, 1, 400_000), Duration(11 * US));
        assert_eq!(steps(slots, 1, 400_001), Duration(22 * US));
        assert_eq!(slots.matching(500_000, 500_000, RATE).0, Duration(11 * US));
    }

    #[test]
    fn held_matchings_turn_once() {
        let held = TurnTiming { is_held: true, ..timing(None) };
        assert_eq!(steps(held, 5, 1_000_000), Duration((5 * 22 + 1) * US));
        assert_eq!(steps(held, 1, 1_000_000), Duration(23 * US));
    }

    #[test]
    fn a_ring_that_yields_goes_on_with_what_it_has_not_sent() {
        // Three steps of 1 us of guard time, 20 us and 2 us.
        let timing = timing(None);
        let all = timing.steps(3, 1_000_000, RATE);
        let after = |us: u64| {
            let (end, rest) = timing.yielded(&all, Duration(us * US));
            (end.0 / US, rest.left, rest.first.0 / US)
        };
        // While crossbars turn, at once; then when what it sent has arrived.
        assert_eq!([after(0), after(1)], [(0, 3, 20), (1, 3, 20)]);
        assert_eq!([after(2), after(20)], [(4, 3, 19), (22, 3, 1)]);
        assert_eq!([after(21), after(22), after(23)], [(23, 2, 20); 3]);
        assert_eq!([after(24), after(30)], [(24, 2, 20), (32, 2, 14)]);
        assert_eq!([after(68), after(69)], [(69, 0, 20); 2]);
        let held = TurnTiming { is_held: true, ..timing };
        let (end, rest) = held.yielded(&all, Duration(24 * US));
        assert_eq!((end, rest.left, rest.first), (Duration(26 * US), 2, Duration(19 * US)));
    }

    #[test]
    fn slots_of_one_length_are_not_cut() {
        let slots = timing(Some(13 * US));
        let all = slots.steps(3, 500_001, RATE);
        let after = |us: u64| {
            let (end, rest) = slots.yielded(&all, Duration(us * US));
            (end.0 / US, rest.left)
        };
        assert_eq!([after(0), after(1), after(13), after(14)], [(0, 6), (13, 5), (13, 5), (26, 4)]);
        assert_eq!([after(77), after(78)], [(78, 0); 2]);
    }

    proptest! {
        /// Stopped once, steps take a guard time and a latency more at most, and yield within a
        /// latency, or the end of the slot.
        #[test]
        fn stopping_costs_a_guard_time_and_a_latency(
            count in 1_u64..6,
            chunk in 1_u64..3_000_000,
            share in 0.0..1.0,
            length in prop::option::of(4 * US..100 * US),
            is_held in any::<bool>(),
        ) {
            let timing = TurnTiming { is_held: is_held && length.is_none(), ..timing(length) };
            let all = timing.steps(count, chunk, RATE);
            let alone = timing.duration(&all);
            let after = Duration((alone.0 as f64 * share) as u64);
            let (end, rest) = timing.yielded(&all, after);
            let slack = timing.length.unwrap_or(timing.latency);
            prop_assert!(after <= end && end <= alone.min(after + slack));
            let both = end + timing.duration(&rest);
            prop_assert!(alone <= both && both <= alone + timing.guard + timing.latency);
            prop_assert!(rest.left > 0 || end == alone);
        }
    }

    #[test]
    fn slots_that_carry_nothing_are_refused() {
        let text = |timing: TurnTiming| timing.validate().map_err(|error| error.0);
        assert_eq!(text(timing(None)), Ok(()));
        assert_eq!(text(timing(Some(3 * US + 1))), Ok(()));
        assert!(text(timing(Some(3 * US))).unwrap_err().contains("more than the 3000000 ps"));
        let aligned = TurnTiming { is_aligned: true, ..timing(Some(3 * US)) };
        assert!(text(aligned).is_err());
        let held = TurnTiming { is_held: true, ..timing(Some(9 * US)) };
        assert!(text(held).unwrap_err().contains("leave out held"));
    }
}
