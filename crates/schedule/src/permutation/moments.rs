//! Moments of lines, compared as floats.
//!
//! Whole numbers from 2^52 to 2^62 are ordered as the floats are that have the same bits, and a
//! processor finds the smaller ones of two pairs of floats at once, which few can do with whole
//! numbers. (Below 2^52 the floats are subnormal, and may be slow.)

use super::bitset::Bits;

/// The first moment.
pub(super) const START: u64 = 1 << 52;
/// The bits of infinity.
pub(super) const NEVER: u64 = 0x7FF << 52;

/// Moments that are looked at together.
const GROUP: usize = 8;

/// A moment for each of up to `64 W` lines, W a power of two.
pub(super) struct Moments<const W: usize> {
    moments: Box<[[f64; 64]; W]>,
    /// Groups that have lines.
    groups: usize,
}

impl<const W: usize> Moments<W> {
    pub(super) fn never(lines: usize) -> Self {
        Self { moments: Box::new([[f64::INFINITY; 64]; W]), groups: lines.div_ceil(GROUP) }
    }

    #[inline]
    pub(super) fn of(&self, line: usize) -> u64 {
        self.moments[line / 64 % W][line % 64].to_bits()
    }

    #[inline]
    pub(super) fn set(&mut self, line: usize, moment: u64) {
        self.moments[line / 64 % W][line % 64] = f64::from_bits(moment);
    }

    #[inline]
    fn groups(&self) -> &[[f64; GROUP]] {
        &self.moments.as_flattened().as_chunks().0[..self.groups]
    }

    pub(super) fn earliest(&self) -> u64 {
        let earliest = |earliest, group| smaller(earliest_two(group), earliest);
        let [even, odd] = self.groups().iter().fold([f64::INFINITY; 2], earliest);
        even.min(odd).to_bits()
    }

    /// The lines whose moment is not after another.
    #[inline]
    pub(super) fn until(&self, moment: u64) -> Bits<W> {
        let moment = f64::from_bits(moment);
        let mut lines = Bits::EMPTY;
        for (index, group) in self.groups().iter().enumerate() {
            let [even, odd] = earliest_two(group);
            if even <= moment || odd <= moment {
                for (place, own) in group.iter().enumerate() {
                    lines.insert_if(GROUP * index + place, *own <= moment);
                }
            }
        }
        lines
    }
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
