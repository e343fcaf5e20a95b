//! Moments of lines, compared as floats.
//!
//! Whole numbers from 2^52 to 2^62 are ordered as the floats are that have the same bits, and a
//! processor finds the smaller ones of two pairs of floats at once, which few can do with whole
//! numbers. (Below 2^52 the floats are subnormal, and may be slow.)
//!
//! The earliest of every eight lines is remembered, and found anew when it is asked for after one
//! of them has changed: of many lines few change from slot to slot. Few lines are all looked at.

use super::bitset::Bits;

/// The first moment.
pub(super) const START: u64 = 1 << 52;
/// The bits of infinity.
pub(super) const NEVER: u64 = 0x7FF << 52;

/// Moments that are looked at together.
const GROUP: usize = 8;

/// A moment for each of up to `L` lines, a power of two from eight on, in W words.
pub(super) struct Moments<const L: usize, const W: usize> {
    of_lines: [f64; L],
    /// The earliest of each group when they were last looked at.
    earliest: [[f64; 8]; W],
    /// Groups that have changed since then; not kept up where all are as soon looked at.
    stale: [[u8; 8]; W],
    /// Groups that have lines.
    groups: usize,
}

impl<const L: usize, const W: usize> Moments<L, W> {
    /// Whether lines are so few that nothing is remembered.
    const FEW: bool = L <= 4 * GROUP;
    /// Whether only groups that have changed are looked at.
    const BY_CHANGE: bool = W > 1;

    pub(super) fn never(lines: usize) -> Self {
        Self {
            of_lines: [f64::INFINITY; L],
            earliest: [[f64::INFINITY; 8]; W],
            stale: [[1; 8]; W],
            groups: lines.div_ceil(GROUP),
        }
    }

    #[inline]
    pub(super) fn of(&self, line: usize) -> u64 {
        self.of_lines[line % L].to_bits()
    }

    #[inline]
    pub(super) fn set(&mut self, line: usize, moment: u64) {
        self.of_lines[line % L] = f64::from_bits(moment);
        if Self::BY_CHANGE {
            self.stale.as_flattened_mut()[line / GROUP % (8 * W)] = 1;
        }
    }

    /// Finds the earliest of each group.
    #[inline]
    pub(super) fn look(&mut self) {
        if Self::FEW {
            return;
        }
        let groups = self.of_lines.as_chunks().0;
        if !Self::BY_CHANGE {
            for (earliest, group) in self.earliest[0].iter_mut().zip(&groups[..self.groups]) {
                *earliest = earliest_of(group);
            }
            return;
        }
        for word in 0..self.groups.div_ceil(8).min(W) {
            let mut stale = u64::from_le_bytes(self.stale[word]);
            while stale != 0 {
                let group = stale.trailing_zeros() as usize / 8 % 8;
                self.earliest[word][group] = earliest_of(&groups[8 * word + group]);
                stale &= stale - 1;
            }
            self.stale[word] = [0; 8];
        }
    }

    /// The earliest of the even and of the odd ones, when they were last looked at.
    #[inline]
    pub(super) fn earliest(&self) -> [f64; 2] {
        let smallest = |earliest, group| smaller(earliest_two(group), earliest);
        if Self::FEW {
            return self.of_lines.as_chunks().0.iter().fold([f64::INFINITY; 2], smallest);
        }
        let words = &self.earliest[..self.groups.div_ceil(8).min(W)];
        words.iter().fold([f64::INFINITY; 2], smallest)
    }

    /// The lines whose moment is not after another, if nothing has changed since the last look.
    #[inline]
    pub(super) fn until(&self, moment: u64) -> Bits<W> {
        let moment = f64::from_bits(moment);
        let groups = self.of_lines.as_chunks().0;
        let mut lines = Bits::EMPTY;
        if Self::FEW {
            for (group, moments) in groups.iter().enumerate() {
                lines.insert_word(0, until(moments, moment) << (GROUP * group));
            }
            return lines;
        }
        for (word, earliest) in self.earliest[..self.groups.div_ceil(8).min(W)].iter().enumerate() {
            let mut hit = until(earliest, moment);
            let mut places = 0;
            while hit != 0 {
                let group = hit.trailing_zeros() as usize % 8;
                places |= until(&groups[8 * word + group], moment) << (GROUP * group);
                hit &= hit - 1;
            }
            lines.insert_word(word, places);
        }
        lines
    }
}

/// The earliest of two of [`Moments::earliest`].
#[inline]
pub(super) fn earlier(one: [f64; 2], other: [f64; 2]) -> u64 {
    minimum(smaller(one, other)).to_bits()
}

/// The lines whose number is not 0, if all others are the bits of floats above that.
#[inline]
pub(super) fn positive<const L: usize, const W: usize>(numbers: &[u64; L]) -> Bits<W> {
    let mut lines = Bits::EMPTY;
    for (group, numbers) in numbers.as_chunks::<GROUP>().0.iter().enumerate() {
        let places = !until(&numbers.map(f64::from_bits), 0.0) & 0xFF;
        lines.insert_word(group / 8, places << (GROUP * (group % 8)));
    }
    lines
}

#[inline]
fn earliest_of(group: &[f64; GROUP]) -> f64 {
    minimum(earliest_two(group))
}

#[inline]
fn minimum([even, odd]: [f64; 2]) -> f64 {
    if even < odd { even } else { odd }
}

/// Bits of the places whose moment is not after another.
#[cfg(target_arch = "x86_64")]
#[inline]
fn until(group: &[f64; GROUP], moment: f64) -> u64 {
    use std::arch::x86_64::{
        _mm_castpd_ps, _mm_cmple_pd, _mm_movemask_ps, _mm_set_pd, _mm_set1_pd, _mm_shuffle_ps,
    };

    #[inline]
    #[target_feature(enable = "sse2")]
    fn four(moments: [f64; 4], moment: f64) -> i32 {
        let [a, b, c, d] = moments;
        let moment = _mm_set1_pd(moment);
        let low = _mm_castpd_ps(_mm_cmple_pd(_mm_set_pd(b, a), moment));
        let high = _mm_castpd_ps(_mm_cmple_pd(_mm_set_pd(d, c), moment));
        // Half of each result, all ones or none, says as much as all of it.
        _mm_movemask_ps(_mm_shuffle_ps::<0b10_00_10_00>(low, high))
    }

    let [a, b, c, d, e, f, g, h] = *group;
    // SAFETY: SSE2 is part of every x86-64 processor.
    #[allow(unsafe_code)]
    let (low, high) = unsafe { (four([a, b, c, d], moment), four([e, f, g, h], moment)) };
    (low | high << 4) as u64
}

#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn until(group: &[f64; GROUP], moment: f64) -> u64 {
    group.iter().rev().fold(0, |bits, own| bits << 1 | u64::from(*own <= moment))
}

/// The earliest of the even and of the odd lines of a group.
#[inline]
fn earliest_two(group: &[f64; GROUP]) -> [f64; 2] {
    let [a, b, c, d, e, f, g, h] = *group;
    smaller(smaller([a, b], [c, d]), smaller([e, f], [g, h]))
}

#[inline]
fn smaller(one: [f64; 2], other: [f64; 2]) -> [f64; 2] {
    // Not `f64::min`, which has a rule for NaN.
    std::array::from_fn(|i| if one[i] < other[i] { one[i] } else { other[i] })
}
