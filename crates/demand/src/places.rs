//! Finds where a number falls among running sums.

/// Sums that one comparison each decides on.
const BLOCK: usize = 8;

/// Blocks that are searched one by one; beyond, by halving.
const FEW_BLOCKS: usize = 48;

/// Running sums of weights, searched without branches in blocks.
#[derive(Debug, Default)]
pub struct Places {
    /// Running sums, filled up with infinity.
    blocks: Vec<[f64; BLOCK]>,
    /// The last sum of every block but the last.
    tops: Vec<f64>,
}

impl Places {
    /// Takes new weights of at least 0; returns their sum.
    pub fn set(&mut self, weights: impl ExactSizeIterator<Item = f64>) -> f64 {
        let size = weights.len().div_ceil(BLOCK);
        self.blocks.clear();
        self.blocks.resize(size, [f64::INFINITY; BLOCK]);
        let mut total = 0.0;
        for (sum, weight) in self.blocks.as_flattened_mut().iter_mut().zip(weights) {
            total += weight;
            *sum = total;
        }
        self.tops.clear();
        self.tops.extend(self.blocks[..size - 1].iter().map(|block| block[BLOCK - 1]));
        total
    }

    /// The first place whose running sum exceeds the number, or one beyond the last.
    #[inline]
    pub fn find(&self, number: f64) -> usize {
        let block = if self.tops.len() < FEW_BLOCKS {
            count(&self.tops, number)
        } else {
            self.tops.partition_point(|sum| *sum <= number)
        };
        block * BLOCK + count(&self.blocks[block], number)
    }

    /// The sum of all weights before a place.
    #[inline]
    pub fn before(&self, place: usize) -> f64 {
        if place == 0 { 0.0 } else { self.blocks.as_flattened()[place - 1] }
    }
}

/// How many sums do not exceed the number.
#[inline]
fn count(sums: &[f64], number: f64) -> usize {
    // 64-bit counters have the width of the sums, which lets the loop run in vector registers
    sums.iter().map(|sum| u64::from(*sum <= number)).sum::<u64>() as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn finds_what_a_plain_search_finds(
            weights in proptest::collection::vec(0..5_u32, 1..600),
            share in 0.0..1.0_f64,
        ) {
            let mut places = Places::default();
            let total = places.set(weights.iter().map(|weight| f64::from(*weight)));
            let number = (share * total).floor();
            let mut sum = 0.0;
            let mut plain = 0;
            while plain < weights.len() && sum + f64::from(weights[plain]) <= number {
                sum += f64::from(weights[plain]);
                plain += 1;
            }
            if total > 0.0 {
                prop_assert_eq!(places.find(number), plain);
                prop_assert!((places.before(plain) - sum).abs() < 0.5);
            } else {
                prop_assert!(places.find(number) >= weights.len());
            }
        }
    }
}
