//! The cap of one copy per token and expert.

/// Moves copies from experts that got more than there are tokens to the others.
///
/// A token chooses an expert at most once, so that a source cannot send an expert more copies than
/// it has tokens. The excess spreads in proportion to what the others have. The sum of the counts
/// stays; it is at most `tokens` times their number.
pub fn cap(counts: &mut [u32], tokens: u32) {
    let mut left = 0_u64;
    for count in counts.iter_mut() {
        left += u64::from(count.saturating_sub(tokens));
        *count = tokens.min(*count);
    }
    while left > 0 {
        let weight = |count: u32| if count < tokens { u64::from(count) + 1 } else { 0 };
        let total: u64 = counts.iter().map(|count| weight(*count)).sum();
        assert!(total > 0, "more copies than the experts can take");
        let excess = left;
        for count in counts.iter_mut() {
            let share = u128::from(excess) * u128::from(weight(*count)) / u128::from(total);
            let part = (share as u64).min(u64::from(tokens - *count));
            *count += part as u32;
            left -= part;
        }
        if left == excess {
            one_each(counts, tokens, left as usize);
            return;
        }
    }
}

/// Gives `left` copies, fewer than there are experts, to the experts with most room.
fn one_each(counts: &mut [u32], tokens: u32, left: usize) {
    let mut order: Vec<usize> = (0..counts.len()).collect();
    order.sort_by_key(|place| counts[*place]);
    for place in &order[..left] {
        assert!(counts[*place] < tokens, "more copies than the experts can take");
        counts[*place] += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn capped(counts: &[u32], tokens: u32) -> Vec<u32> {
        let mut counts = counts.to_vec();
        cap(&mut counts, tokens);
        counts
    }

    #[test]
    fn excess_goes_where_there_is_room() {
        // a remainder smaller than the number of experts goes to the roomiest
        assert_eq!(capped(&[6, 3, 1, 0], 5), [5, 3, 1, 1]);
        assert_eq!(capped(&[2, 3, 2, 3], 5), [2, 3, 2, 3]);
        // in proportion to one more than they have, rounded down: 5, 2, 1, then 1, 0, 0, then one
        assert_eq!(capped(&[50, 3, 1, 0], 40), [40, 9, 3, 2]);
    }

    #[test]
    fn every_expert_may_be_full() {
        assert_eq!(capped(&[12, 0, 0], 4), [4, 4, 4]);
    }

    #[test]
    fn the_largest_numbers_fit() {
        let tokens = 1 << 30;
        assert_eq!(capped(&[i32::MAX as u32, 0], tokens), [tokens, tokens - 1]);
    }

    proptest! {
        #[test]
        fn sums_stay_and_none_is_above(
            counts in proptest::collection::vec(0..1000_u32, 1..9),
            slack in 0..300_u32,
        ) {
            let sum: u32 = counts.iter().sum();
            let tokens = sum.div_ceil(counts.len() as u32) + slack;
            let after = capped(&counts, tokens);
            prop_assert_eq!(after.iter().sum::<u32>(), sum);
            prop_assert!(after.iter().all(|count| *count <= tokens));
            if counts.iter().all(|count| *count <= tokens) {
                prop_assert_eq!(after, counts);
            } else {
                for (after, before) in after.iter().zip(&counts) {
                    prop_assert!(*after >= (*before).min(tokens));
                }
            }
        }
    }
}
