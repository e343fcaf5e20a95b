//! Sets of lines as machine words.

use std::ops::{Index, IndexMut};

/// A set of up to `64 W` lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bits<const W: usize>([u64; W]);

impl<const W: usize> Default for Bits<W> {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl<const W: usize> Bits<W> {
    pub(super) const EMPTY: Self = Self([0; W]);

    /// The lines below `count`.
    pub(super) fn below(count: usize) -> Self {
        Self(std::array::from_fn(|word| match count.saturating_sub(64 * word) {
            0 => 0,
            some if some >= 64 => u64::MAX,
            some => (1 << some) - 1,
        }))
    }

    #[inline]
    pub(super) fn insert(&mut self, line: usize) {
        self.0[line / 64 % W] |= 1 << (line % 64);
    }

    #[inline]
    pub(super) fn insert_if(&mut self, line: usize, wanted: bool) {
        self.0[line / 64 % W] |= u64::from(wanted) << (line % 64);
    }

    /// Inserts some of the lines from `64 word` on.
    #[inline]
    pub(super) fn insert_word(&mut self, word: usize, lines: u64) {
        self.0[word % W] |= lines;
    }

    #[inline]
    pub(super) fn remove(&mut self, line: usize) {
        self.0[line / 64 % W] &= !(1 << (line % 64));
    }

    #[inline]
    pub(super) fn contains(&self, line: usize) -> bool {
        self.0[line / 64 % W] >> (line % 64) & 1 == 1
    }

    #[inline]
    pub(super) fn and(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|word| self.0[word] & other.0[word]))
    }

    #[inline]
    pub(super) fn or(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|word| self.0[word] | other.0[word]))
    }

    /// Number of its lines.
    #[inline]
    pub(super) fn count(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Lines `64 word` to `64 word + 63`.
    #[inline]
    pub(super) fn word(&self, word: usize) -> u64 {
        self.0[word]
    }

    /// Sixty-four lines each, the lowest first.
    #[inline]
    pub(super) fn words(&self) -> &[u64; W] {
        &self.0
    }

    #[inline]
    pub(super) fn minus(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|word| self.0[word] & !other.0[word]))
    }

    /// The lowest line.
    #[inline]
    pub(super) fn first(&self) -> Option<usize> {
        let word = self.0.iter().position(|&word| word != 0)?;
        Some(64 * word + self.0[word].trailing_zeros() as usize)
    }

    /// Calls a function with each line, lowest first.
    #[inline]
    pub(super) fn each(&self, mut function: impl FnMut(usize)) {
        for (word, &bits) in self.0.iter().enumerate() {
            let mut left = bits;
            while left != 0 {
                function(64 * word + left.trailing_zeros() as usize);
                left &= left - 1;
            }
        }
    }

    /// Its lines, lowest first.
    #[inline]
    pub(super) fn iter(&self) -> impl Iterator<Item = usize> + use<W> {
        let words = self.0;
        (0..W).flat_map(move |word| {
            let mut left = words[word];
            std::iter::from_fn(move || {
                let line = 64 * word + left.trailing_zeros() as usize;
                (left != 0).then(|| {
                    left &= left - 1;
                    line
                })
            })
        })
    }
}

/// Something for each of up to `L` lines, L a power of two.
///
/// The size is fixed, and indices are taken modulo it, so that no access needs a check.
#[derive(Clone, Copy)]
pub(super) struct Lines<T, const L: usize>([T; L]);

impl<T: Copy, const L: usize> Lines<T, L> {
    #[inline]
    pub(super) fn all(value: T) -> Self {
        Self([value; L])
    }

    #[inline]
    pub(super) fn as_array(&self) -> &[T; L] {
        &self.0
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.0.iter_mut()
    }
}

impl<T, const L: usize> Index<usize> for Lines<T, L> {
    type Output = T;

    #[inline]
    fn index(&self, line: usize) -> &T {
        &self.0[line % L]
    }
}

impl<T, const L: usize> IndexMut<usize> for Lines<T, L> {
    #[inline]
    fn index_mut(&mut self, line: usize) -> &mut T {
        &mut self.0[line % L]
    }
}

/// Calls `$function::<W>($arguments)` with enough words for `$lines` lines.
macro_rules! with_words {
    ($lines:expr, $function:ident ( $($argument:expr),* )) => {
        match $lines {
            0..=64 => $function::<1>($($argument),*),
            65..=128 => $function::<2>($($argument),*),
            129..=256 => $function::<4>($($argument),*),
            257..=512 => $function::<8>($($argument),*),
            _ => $function::<16>($($argument),*),
        }
    };
}
pub(super) use with_words;

/// Calls `$function::<L, W>($arguments)`, where `$lines` lines are at most L, in W words.
macro_rules! with_lines {
    ($lines:expr, $function:ident ( $($argument:expr),* )) => {
        match $lines {
            0..=8 => $function::<8, 1>($($argument),*),
            9..=16 => $function::<16, 1>($($argument),*),
            17..=32 => $function::<32, 1>($($argument),*),
            33..=64 => $function::<64, 1>($($argument),*),
            65..=128 => $function::<128, 2>($($argument),*),
            129..=256 => $function::<256, 4>($($argument),*),
            257..=512 => $function::<512, 8>($($argument),*),
            _ => $function::<1024, 16>($($argument),*),
        }
    };
}
pub(super) use with_lines;
