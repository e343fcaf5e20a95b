//! A fingerprint of all events of a run: same inputs, same hash, on every machine.
//!
//! 128 bits in two lanes, each word folded by a 64 x 64 -> 128 bit multiplication. The constants
//! and the order of operations are part of the results and never change: a test pins them.
//! It detects accidents, not forgeries.

use lightloom_model::Time;

/// First words of the fractional parts of pi and e, made odd.
const LANE_A: u64 = 0x243f_6a88_85a3_08d3;
const LANE_B: u64 = 0xb7e1_5162_8aed_2a6b;

/// Digest of a stream of (time, kind, ids) records, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunHash {
    a: u64,
    b: u64,
    records: u64,
}

impl Default for RunHash {
    fn default() -> Self {
        Self::new()
    }
}

/// Both halves of the product, so that every input bit reaches every output bit within two folds.
fn fold(x: u64, y: u64) -> u64 {
    let product = u128::from(x) * u128::from(y);
    (product as u64) ^ ((product >> 64) as u64)
}

impl RunHash {
    /// The hash of nothing.
    pub fn new() -> Self {
        Self { a: LANE_B, b: LANE_A, records: 0 }
    }

    fn word(&mut self, word: u64) {
        // The rotations keep a lane that hit zero from staying there.
        self.a = fold(self.a ^ word, LANE_A).rotate_left(23).wrapping_add(LANE_B);
        self.b = fold(self.b.wrapping_add(word), LANE_B).rotate_left(41) ^ self.a;
    }

    /// Adds one record. `kind` names the kind of event, `ids` what it concerned.
    pub fn record(&mut self, time: Time, kind: u32, ids: &[u64]) {
        self.records += 1;
        self.word(time.0);
        // The number of ids is hashed too, so that records cannot run into one another.
        self.word(u64::from(kind) << 32 | ids.len() as u64);
        for &id in ids {
            self.word(id);
        }
    }

    /// Number of records so far.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// The digest of all records so far.
    pub fn digest(&self) -> u128 {
        let mut last = *self;
        last.word(self.records);
        last.word(!self.records);
        u128::from(last.a) << 64 | u128::from(last.b)
    }
}

impl std::fmt::Display for RunHash {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{:032x}", self.digest())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    fn of(records: &[(u64, u32, Vec<u64>)]) -> u128 {
        let mut hash = RunHash::new();
        for (time, kind, ids) in records {
            hash.record(Time(*time), *kind, ids);
        }
        hash.digest()
    }

    #[test]
    fn the_digest_is_pinned() {
        assert_eq!(RunHash::new().to_string(), "674e7f888eb8dbd91faa2c745d50a168");
        let mut hash = RunHash::new();
        hash.record(Time(20_000_000_000), 3, &[7, 8]);
        hash.record(Time(u64::MAX), 0, &[]);
        assert_eq!(hash.to_string(), "721866193cee18525f7ccf951f95bdde");
        assert_eq!(hash.records(), 2);
    }

    #[test]
    fn records_do_not_run_into_one_another() {
        assert_ne!(of(&[(1, 2, vec![3, 4])]), of(&[(1, 2, vec![3]), (4, 0, vec![])]));
        assert_ne!(of(&[(0, 0, vec![])]), of(&[]));
        assert_ne!(of(&[(0, 0, vec![0])]), of(&[(0, 0, vec![0, 0])]));
    }

    #[test]
    fn a_million_close_records_do_not_collide_in_either_half() {
        let mut high = HashSet::new();
        let mut low = HashSet::new();
        for time in 0..1000 {
            for id in 0..1000 {
                let digest = of(&[(time, 1, vec![id])]);
                high.insert((digest >> 64) as u64);
                low.insert(digest as u64);
            }
        }
        assert_eq!((high.len(), low.len()), (1_000_000, 1_000_000));
    }

    #[test]
    fn one_flipped_bit_changes_about_half_of_the_digest() {
        let base = of(&[(0, 0, vec![0])]);
        for bit in 0..64 {
            let changed = (of(&[(0, 0, vec![1 << bit])]) ^ base).count_ones();
            assert!((32..=96).contains(&changed), "bit {bit} changes {changed} of 128 bits");
        }
    }

    proptest! {
        #[test]
        fn order_matters(
            first in any::<(u64, u32, Vec<u64>)>(),
            second in any::<(u64, u32, Vec<u64>)>(),
        ) {
            prop_assume!(first != second);
            let forward = of(&[first.clone(), second.clone()]);
            prop_assert_ne!(forward, of(&[second.clone(), first.clone()]));
            prop_assert_eq!(forward, of(&[first, second]));
        }
    }
}
