//! Moments of lines, compared as floats.
//!
//! Whole numbers from 2^52 to 2^62 are ordered as the floats are that have the same bits, and a
//! processor finds the smaller ones of two pairs of floats at once, which few can do with whole
//! numbers. (Below 2^52 the floats are subnormal, and may be slow.)
//!
//! The earliest of every eight lines is remembered, and found anew when it is asked for after one
//! of them has changed: of many lines few change from slot to slot.

use super::bitset::Bits;

/// The first moment.
pub(super) const START: u64 = 1 << 52;
/// The bits of infinity.
pub(super) const NEVER: u64 = 0x7FF << 52;

/// Moments that are looked at together.
const GROUP: usize = 8;

/// A moment for each of up to `64 W` lines, W a power of two.
pub(super) struct Moments<const W: usize> {
    of_lines: [[f64; 64]; W],
    /// The earliest of each group when they were last looked at.
    earliest: [[f64; 8]; W],
    /// Groups that have changed since then; not kept up where all are as soon looked at.
    stale: [[u8; 8]; W],
    /// Groups that have lines.
    groups: usize,
}

impl<const W: usize> Moments<W> {
    /// Whether only groups that have changed are looked at.
    const BY_CHANGE: bool = W > 1;

    pub(super) fn never(lines: usize) -> Self {
        Self {
            of_lines: [[f64::INFINITY; 64]; W],
            earliest: [[f64::INFINITY; 8]; W],
            stale: [[1; 8]; W],
            groups: lines.div_ceil(GROUP),
        }
    }

    #[inline]
    pub(super) fn of(&self, line: usize) -> u64 {
        self.of_lines.as_flattened()[line % (64 * W)].to_bits()
    }

    #[inline]
    pub(super) fn set(&mut self, line: usize, moment: u64) {
        self.of_lines.as_flattened_mut()[line % (64 * W)] = f64::from_bits(moment);
        if Self::BY_CHANGE {
            self.stale.as_flattened_mut()[line / GROUP % (8 * W)] = 1;
        }
    }

    /// Finds the earliest of each group.
    #[inline]
    pub(super) fn look(&mut self) {
        let groups = self.of_lines.as_flattened().as_chunks().0;
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

    /// The earliest of all, when they were last looked at.
    #[inline]
    pub(super) fn earliest(&self) -> u64 {
        let words = &self.earliest[..self.groups.div_ceil(8).min(W)];
        let earliest = |earliest, word| smaller(earliest_two(word), earliest);
        let [even, odd] = words.iter().fold([f64::INFINITY; 2], earliest);
        even.min(odd).to_bits()
    }

    /// The lines whose moment is not after another, if nothing has changed since the last look.
    #[inline]
    pub(super) fn until(&self, moment: u64) -> Bits<W> {
        let groups = self.of_lines.as_flattened().as_chunks().0;
        let mut lines = Bits::EMPTY;
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

#[inline]
fn earliest_of(group: &[f64; GROUP]) -> f64 {
    let [even, odd] = earliest_two(group);
    if even < odd { even } else { odd }
}

/// Bits of the places whose moment is not after another.
#[inline]
fn until(group: &[f64; GROUP], moment: u64) -> u64 {
    // Moments are below 2^63: the sign of a difference of whole numbers is a comparison.
    let sign = |own: &f64| own.to_bits().wrapping_sub(moment + 1) >> 63;
    group.iter().rev().fold(0, |bits, own| bits << 1 | sign(own))
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
