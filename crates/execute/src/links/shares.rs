//! Bytes divided into whole shares that add up.

/// Splits bytes in proportion to weights, whose sum is above 0 and below 2^64; rounded so that all
/// add up.
pub fn weighted_shares(
    bytes: u64,
    weights: impl Iterator<Item = u64> + Clone,
) -> impl Iterator<Item = u64> {
    let total: u128 = weights.clone().map(u128::from).sum();
    let (mut before, mut assigned) = (0_u128, 0_u64);
    weights.map(move |weight| {
        before += u128::from(weight);
        // at most `bytes`; below 2^128 as weights and bytes are below 2^64
        let product = u128::from(bytes) * before;
        let until = match (u64::try_from(product), u64::try_from(total)) {
            // by far the faster division
            (Ok(product), Ok(total)) => product / total,
            _ => (product / total) as u64,
        };
        let share = until - assigned;
        assigned = until;
        share
    })
}

/// Splits bytes into equal shares, the remainder spread over the first ones.
pub fn equal_shares(bytes: u64, count: usize) -> impl Iterator<Item = u64> {
    let count = count as u64;
    (0..count).map(move |index| bytes / count + u64::from(index < bytes % count))
}

#[cfg(test)]
mod tests {
    use super::{equal_shares, weighted_shares};

    #[test]
    fn no_byte_is_lost_in_shares() {
        for bytes in [0, 1, 7, 1_000_003, u64::MAX] {
            for weights in [&[1][..], &[1, 1, 1], &[3, 1], &[0, 5, 2], &[u64::MAX - 1, 1]] {
                let shares: Vec<u64> = weighted_shares(bytes, weights.iter().copied()).collect();
                assert_eq!(shares.iter().map(|&x| u128::from(x)).sum::<u128>(), u128::from(bytes));
                let total: u128 = weights.iter().map(|&weight| u128::from(weight)).sum();
                for (&share, &weight) in shares.iter().zip(weights) {
                    let exact = u128::from(bytes) * u128::from(weight) / total;
                    assert!(u128::from(share).abs_diff(exact) <= 1, "{bytes} {weights:?}");
                }
            }
            assert_eq!(equal_shares(bytes, 3).sum::<u64>(), bytes);
        }
    }
}
