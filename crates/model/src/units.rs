//! Units: picoseconds, bytes and bits per second, each its own type.
//!
//! Time is whole picoseconds in 64 bits (213 days). A transmission time is computed once per
//! transfer in 128 bits and rounded up, never as "picoseconds per byte", which at 3.2 Tb/s would
//! be 2.5 and hence 20 % wrong when rounded.

use crate::invalid::Invalid;
use serde::{Deserialize, Serialize};
use std::ops::{Add, AddAssign, Sub};

/// Picoseconds in one second.
pub const PS_PER_S: u64 = 1_000_000_000_000;

/// A point in simulated time, in picoseconds since the start of the run.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct Time(pub u64);

/// A span of simulated time, in picoseconds.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct Duration(pub u64);

/// An amount of data, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Bytes(pub u64);

/// A data rate, in bits per second per direction.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct Rate(pub u64);

impl Time {
    /// The start of the run.
    pub const ZERO: Self = Self(0);

    /// The span from `earlier` to `self`; zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration(self.0.saturating_sub(earlier.0))
    }

    /// This time in seconds, for output.
    pub fn as_seconds(self) -> f64 {
        self.0 as f64 / PS_PER_S as f64
    }
}

impl Duration {
    /// No time at all.
    pub const ZERO: Self = Self(0);

    /// This span in seconds, for output.
    pub fn as_seconds(self) -> f64 {
        self.0 as f64 / PS_PER_S as f64
    }
}

impl Rate {
    /// The time to send `size` at this rate, rounded up to a picosecond.
    ///
    /// A result beyond 64 bits (213 days) becomes the largest one.
    ///
    /// # Panics
    /// If the rate is zero.
    pub fn transmission(self, size: Bytes) -> Duration {
        assert!(self.0 > 0, "nothing can be sent at rate zero");
        let bit_picoseconds = u128::from(size.0) * 8 * u128::from(PS_PER_S);
        let picoseconds = bit_picoseconds.div_ceil(u128::from(self.0));
        Duration(u64::try_from(picoseconds).unwrap_or(u64::MAX))
    }
}

/// The rate of a circuit, which is above zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CircuitRate(Rate);

impl CircuitRate {
    /// The rate of a circuit.
    ///
    /// # Errors
    /// If it is zero.
    pub fn new(rate: Rate) -> Result<Self, Invalid> {
        if rate.0 == 0 {
            return Err(Invalid::new("circuit_rate must be above 0 b/s"));
        }
        Ok(Self(rate))
    }

    /// The same as any rate.
    pub fn rate(self) -> Rate {
        self.0
    }
}

// Sums of times stop at the end of what 64 bits can hold, so that absurd input ends as "too long"
// and not as a wrong time.

impl Add<Duration> for Time {
    type Output = Self;

    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

impl AddAssign<Duration> for Time {
    fn add_assign(&mut self, span: Duration) {
        *self = *self + span;
    }
}

impl Add for Duration {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Duration {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Duration {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }
}

impl Add for Bytes {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl AddAssign for Bytes {
    fn add_assign(&mut self, other: Self) {
        self.0 += other.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn transmission_is_exact_and_rounds_up() {
        assert_eq!(Rate(8_000_000_000_000).transmission(Bytes(7)), Duration(7));
        // 3.2 Tb/s is 2.5 ps per byte.
        assert_eq!(Rate(3_200_000_000_000).transmission(Bytes(2)), Duration(5));
        assert_eq!(Rate(3_200_000_000_000).transmission(Bytes(1)), Duration(3));
        assert_eq!(Rate(400_000_000_000).transmission(Bytes(50_000_000_000)), Duration(PS_PER_S));
        assert_eq!(Rate(1).transmission(Bytes(0)), Duration::ZERO);
    }

    #[test]
    fn sums_stop_at_the_largest_time() {
        assert_eq!(Time(u64::MAX - 1) + Duration(5), Time(u64::MAX));
        assert_eq!(Duration(u64::MAX) + Duration(1), Duration(u64::MAX));
        assert_eq!(Rate(1).transmission(Bytes(u64::MAX)), Duration(u64::MAX));
    }

    #[test]
    fn since_never_goes_below_zero() {
        assert_eq!(Time(5).since(Time(9)), Duration::ZERO);
        assert_eq!(Time(9).since(Time(5)), Duration(4));
    }

    proptest! {
        /// The last bit leaves in the picosecond that is named, and not one earlier.
        #[test]
        fn as_many_bits_fit_as_are_sent(rate in 1_u64.., size in 0_u64..1 << 40) {
            let time = Rate(rate).transmission(Bytes(size)).0;
            let sent = |time: u64| u128::from(rate) * u128::from(time);
            let needed = u128::from(size) * 8 * u128::from(PS_PER_S);
            prop_assert!(time == u64::MAX || sent(time) >= needed);
            prop_assert!(time == 0 || sent(time - 1) < needed);
        }

        /// Parts that are sent one after the other are rounded one by one: never less than the
        /// whole, and by less than a picosecond each.
        #[test]
        fn parts_take_as_long_as_the_whole(
            rate in 1_000_u64..1 << 45,
            parts in prop::collection::vec(0_u64..1 << 20, 1..9),
        ) {
            let time = |size| Rate(rate).transmission(Bytes(size)).0;
            let (whole, count) = (time(parts.iter().sum()), parts.len() as u64);
            let sum = parts.iter().map(|&part| time(part)).sum::<u64>();
            prop_assert!((whole..whole + count).contains(&sum), "{sum} of {whole}");
        }

        /// Twice the rate is twice as fast, less what is rounded; more bytes never take less.
        #[test]
        fn faster_is_never_later(
            rate in 1_u64..1 << 62,
            size in 0_u64..1 << 30,
            more in 0_u64..99,
        ) {
            let time = |rate, size| Rate(rate).transmission(Bytes(size));
            let (once, twice) = (time(rate, size), time(2 * rate, size));
            prop_assert!(once.0 == u64::MAX || twice.0 == once.0.div_ceil(2));
            prop_assert!(time(rate, size + more) >= once);
            prop_assert!(time(rate + more, size) <= once);
        }

        /// What is added to a time is what has passed since.
        #[test]
        fn a_span_is_what_has_passed(start in 0..u64::MAX / 2, span in 0..u64::MAX / 2) {
            let (begin, span) = (Time(start), Duration(span));
            let mut end = begin;
            end += span;
            prop_assert_eq!((end, end.since(begin)), (begin + span, span));
            prop_assert_eq!((span + Duration(start)) - Duration(start), span);
        }
    }

    #[test]
    #[should_panic(expected = "rate zero")]
    fn nothing_is_sent_at_rate_zero() {
        let _ = Rate(0).transmission(Bytes(1));
    }

    #[test]
    fn seconds_are_a_million_million_picoseconds() {
        assert_eq!(Time(PS_PER_S / 4).as_seconds().to_bits(), 0.25_f64.to_bits());
        assert_eq!(Duration(3 * PS_PER_S).as_seconds().to_bits(), 3_f64.to_bits());
        let mut bytes = Bytes(3);
        bytes += Bytes(4);
        assert_eq!(bytes + Bytes(1), Bytes(8));
    }
}
