//! The largest of the numbers at some places.
//!
//! One by one they take some seven instructions each. Where many of the places matter, all numbers
//! are compared, as floats: several at once, those that do not matter masked. Numbers are 0 or have
//! the bits of positive floats, see [`super::moments`].

use super::bitset::Bits;

/// Places up to which two numbers at a time are as fast as four, which takes a call.
const FEW: usize = 16;

/// The largest number at these places, or 0. `masks` says the same as places, but for numbers that
/// are 0: all bits at a place, or none. `free` is the number of places in `masks`.
#[inline]
pub(super) fn largest_masked<const L: usize, const W: usize>(
    numbers: &[u64; L],
    places: &Bits<W>,
    (masks, free): (&[u64; L], usize),
) -> u64 {
    if L <= 8 || L <= FEW && free > L / 2 {
        return largest_in_pairs(numbers, masks);
    }
    #[cfg(target_arch = "x86_64")]
    if L > FEW && free > L / 8 && has_avx() {
        // SAFETY: the processor has what it uses.
        #[allow(unsafe_code)]
        return unsafe { largest_in_fours(numbers, places, masks) };
    }
    largest_at(numbers, places)
}

/// The largest number at these places, or 0.
#[inline]
pub(super) fn largest_at<const L: usize, const W: usize>(
    numbers: &[u64; L],
    places: &Bits<W>,
) -> u64 {
    let mut largest = 0;
    for (word, &places) in places.words().iter().enumerate() {
        let mut places = places;
        while places != 0 {
            largest = numbers[(64 * word + places.trailing_zeros() as usize) % L].max(largest);
            places &= places - 1;
        }
    }
    largest
}

#[inline]
fn largest_in_pairs<const L: usize>(numbers: &[u64; L], masks: &[u64; L]) -> u64 {
    // Two pairs, each in a register.
    let mut largest = [0.0; 4];
    for (four, masks) in numbers.as_chunks::<4>().0.iter().zip(masks.as_chunks::<4>().0) {
        let four: [f64; 4] = std::array::from_fn(|i| f64::from_bits(four[i] & masks[i]));
        largest = std::array::from_fn(|i| larger(four[i], largest[i]));
    }
    let [a, b, c, d] = largest;
    larger(larger(a, c), larger(b, d)).to_bits()
}

/// Not `f64::max`, which has a rule for NaN.
#[inline]
fn larger(one: f64, other: f64) -> f64 {
    if one > other { one } else { other }
}

/// Whether the processor has what [`largest_in_fours`] uses.
#[cfg(target_arch = "x86_64")]
#[inline]
fn has_avx() -> bool {
    is_x86_feature_detected!("avx")
        && is_x86_feature_detected!("popcnt")
        && is_x86_feature_detected!("bmi1")
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx,popcnt,bmi1")]
fn largest_in_fours<const L: usize, const W: usize>(
    numbers: &[u64; L],
    places: &Bits<W>,
    masks: &[u64; L],
) -> u64 {
    use std::arch::x86_64::{
        _mm_cvtsd_f64, _mm_max_pd, _mm_unpackhi_pd, _mm256_and_pd, _mm256_castpd256_pd128,
        _mm256_extractf128_pd, _mm256_max_pd, _mm256_set_pd, _mm256_setzero_pd,
    };
    if places.count() <= L / 8 {
        return largest_at(numbers, places);
    }
    let four = |numbers: &[u64; 4]| {
        let [a, b, c, d] = numbers.map(f64::from_bits);
        _mm256_set_pd(d, c, b, a)
    };
    let mut largest = _mm256_setzero_pd();
    for (numbers, masks) in numbers.as_chunks::<4>().0.iter().zip(masks.as_chunks::<4>().0) {
        largest = _mm256_max_pd(_mm256_and_pd(four(numbers), four(masks)), largest);
    }
    let two = _mm_max_pd(_mm256_castpd256_pd128(largest), _mm256_extractf128_pd::<1>(largest));
    larger(_mm_cvtsd_f64(two), _mm_cvtsd_f64(_mm_unpackhi_pd(two, two))).to_bits()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::permutation::moments::{START, positive};

    /// With every number of places that matter, hence in every way in which they are compared.
    fn finds_the_largest<const L: usize, const W: usize>() {
        let mut state = 0x9E37_79B9_7F4A_7C15_u64;
        let mut random = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        for count in 0..=L {
            let numbers: [u64; L] = std::array::from_fn(|_| {
                let bytes = random() >> 3;
                if bytes.is_multiple_of(4) { 0 } else { START + bytes % (1 << 60) }
            });
            let mut order: Vec<usize> = (0..L).collect();
            order.sort_by_cached_key(|_| random());
            let (mut masks, mut free) = ([0; L], Bits::<W>::EMPTY);
            for &place in &order[..count] {
                masks[place] = u64::MAX;
                free.insert(place);
            }
            let places = positive(&numbers).and(&free);
            let expected = order[..count].iter().map(|&place| numbers[place]).max().unwrap_or(0);
            assert_eq!(largest_masked(&numbers, &places, (&masks, count)), expected);
            assert_eq!(largest_at(&numbers, &places), expected);
        }
    }

    #[test]
    fn largest_is_found_among_any_number_of_lines() {
        finds_the_largest::<8, 1>();
        finds_the_largest::<16, 1>();
        finds_the_largest::<32, 1>();
        finds_the_largest::<64, 1>();
        finds_the_largest::<128, 2>();
        finds_the_largest::<256, 4>();
    }
}
