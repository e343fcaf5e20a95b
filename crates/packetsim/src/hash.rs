//! The hash behind all pseudorandom choices.

/// A well-mixed 64-bit hash (the finalizer of splitmix64, Steele et al., OOPSLA 2014).
#[inline]
pub(crate) fn mix(word: u64) -> u64 {
    let mut x = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// The first outputs of splitmix64 with seed 0, as published with it.
    #[test]
    fn it_is_the_published_generator() {
        assert_eq!(mix(0), 0xe220_a839_7b1d_cdaf);
        assert_eq!(mix(0x9e37_79b9_7f4a_7c15), 0x6e78_9e6a_a1b9_65f4);
    }

    #[test]
    fn close_words_are_far_apart() {
        let hashes: BTreeSet<u64> = (0..100_000).map(mix).collect();
        assert_eq!(hashes.len(), 100_000);
        for bit in 0..64 {
            let changed = (mix(7) ^ mix(7 ^ 1 << bit)).count_ones();
            assert!((16..=48).contains(&changed), "bit {bit} changes {changed} of 64");
        }
    }
}
