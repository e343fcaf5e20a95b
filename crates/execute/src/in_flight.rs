//! How many bytes were on their way, over time.

use lightloom_model::{PurposeId, Time};

/// Intervals of a record at most.
const MAX_INTERVALS: usize = 2048;
/// Length of the first intervals, in picoseconds.
const FIRST_INTERVAL: u64 = 1_000_000;

/// Bytes that were sent and not yet received, by purpose: means over intervals of equal length.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InFlight {
    /// Length of an interval, in picoseconds; the last one ends with the step.
    pub interval: u64,
    /// Mean bytes by purpose and interval.
    pub mean: Vec<Vec<u64>>,
}

/// Integrates bytes over time. Where the time runs out of intervals, they become twice as long, so
/// that a record stays small however long the step is.
#[derive(Debug)]
pub(crate) struct InFlightRecord {
    interval: u64,
    purposes: Vec<Integral>,
}

/// The bytes of one purpose.
#[derive(Debug, Clone, Default)]
struct Integral {
    bytes: u64,
    since: u64,
    /// Bytes times picoseconds, by interval.
    areas: Vec<u128>,
}

impl InFlightRecord {
    pub(crate) fn new(purposes: usize) -> Self {
        Self { interval: FIRST_INTERVAL, purposes: vec![Integral::default(); purposes] }
    }

    /// Notes bytes that begin their way.
    pub(crate) fn add(&mut self, now: Time, purpose: PurposeId, bytes: u64) {
        let purpose = self.advance(now, purpose.index());
        purpose.bytes = purpose.bytes.saturating_add(bytes);
    }

    /// Notes bytes that have arrived.
    pub(crate) fn remove(&mut self, now: Time, purpose: PurposeId, bytes: u64) {
        let purpose = self.advance(now, purpose.index());
        purpose.bytes = purpose.bytes.saturating_sub(bytes);
    }

    fn advance(&mut self, now: Time, purpose: usize) -> &mut Integral {
        while now.0 / self.interval >= MAX_INTERVALS as u64 {
            self.interval *= 2;
            for purpose in &mut self.purposes {
                purpose.areas = purpose.areas.chunks(2).map(|pair| pair.iter().sum()).collect();
            }
        }
        let purpose = &mut self.purposes[purpose];
        purpose.advance(now.0, self.interval);
        purpose
    }

    /// The record at the end of the step.
    pub(crate) fn finish(mut self, end: Time) -> InFlight {
        for purpose in 0..self.purposes.len() {
            self.advance(end, purpose);
        }
        let interval = self.interval;
        let intervals = end.0.div_ceil(interval) as usize;
        let mean = |purpose: Integral| {
            let area = |number: usize| purpose.areas.get(number).copied().unwrap_or(0);
            (0..intervals)
                .map(|number| {
                    let length = (end.0 - number as u64 * interval).min(interval);
                    (area(number) / u128::from(length)) as u64
                })
                .collect()
        };
        InFlight { interval, mean: self.purposes.into_iter().map(mean).collect() }
    }
}

impl Integral {
    fn advance(&mut self, now: u64, interval: u64) {
        while self.bytes > 0 && self.since < now {
            let number = (self.since / interval) as usize;
            // The last interval that there is may end beyond the largest time.
            let end = now.min((number as u64 + 1).saturating_mul(interval));
            if self.areas.len() <= number {
                self.areas.resize(number + 1, 0);
            }
            let area = u128::from(self.bytes) * u128::from(end - self.since);
            self.areas[number] = self.areas[number].saturating_add(area);
            self.since = end;
        }
        self.since = self.since.max(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const EP: PurposeId = PurposeId(1);

    #[test]
    fn means_by_hand() {
        let mut record = InFlightRecord::new(2);
        record.add(Time(500_000), EP, 8);
        record.add(Time(1_000_000), EP, 2);
        record.remove(Time(2_500_000), EP, 8);
        let load = record.finish(Time(3_000_000));
        assert_eq!(load.interval, 1_000_000);
        assert_eq!(load.mean, [vec![0, 0, 0], vec![4, 10, 6]]);
    }

    #[test]
    fn the_last_interval_ends_with_the_step() {
        let mut record = InFlightRecord::new(2);
        record.add(Time(1_000_000), EP, 6);
        record.remove(Time(1_100_000), EP, 6);
        assert_eq!(record.finish(Time(1_200_000)).mean[1], [0, 3]);
    }

    #[test]
    fn the_largest_time_has_an_interval() {
        let mut record = InFlightRecord::new(2);
        record.add(Time(0), EP, 3);
        record.remove(Time(u64::MAX), EP, 3);
        let load = record.finish(Time(u64::MAX));
        assert!(load.mean[1].len() <= MAX_INTERVALS);
        assert!(load.mean[1].iter().all(|&mean| mean == 3));
    }

    proptest! {
        /// Bytes times time is what each transfer adds, however often intervals were doubled.
        #[test]
        fn nothing_is_lost(
            transfers in
                prop::collection::vec((0..1_u64 << 40, 1..1_u64 << 38, 1..1_000_u64), 1..40),
        ) {
            let mut changes = Vec::new();
            let mut expected = 0;
            for (start, length, bytes) in transfers {
                changes.push((start, true, bytes));
                changes.push((start + length, false, bytes));
                expected += u128::from(length) * u128::from(bytes);
            }
            changes.sort_unstable();
            let end = changes.last().map_or(0, |last| last.0);
            let mut record = InFlightRecord::new(2);
            for (now, begins, bytes) in changes {
                let note = if begins { InFlightRecord::add } else { InFlightRecord::remove };
                note(&mut record, Time(now), EP, bytes);
            }
            let areas: u128 = record.purposes[1].areas.iter().sum();
            prop_assert_eq!(areas, expected);
            let load = record.finish(Time(end));
            prop_assert!(load.mean[1].len() <= MAX_INTERVALS);
            prop_assert_eq!(load.mean[1].len() as u64, end.div_ceil(load.interval));
        }
    }
}
