//! Rates of the flows of a grid by progressive filling, in numbers of fixed size.
//!
//! All rates grow together until a line is full, whose flows then stop; and so on with the rest.
//! With at most eight rows and columns, which flows still grow is a bit each in one number. Loops
//! over lanes do the same to each, without branches, so that processors do several at once.

use crate::level::smaller;

/// Rows, and columns, of a grid at most.
pub(crate) const SIDE: usize = 8;

/// A number for each line of one side.
pub(crate) type Lanes = [f64; SIDE];
/// A bit for each cell, row after row.
pub(crate) type Cells = u64;

/// Progressive filling of the rest of a grid: rows first, then columns.
pub(crate) struct Filling {
    /// What is left of each line, and for how many flows.
    left: [f64; 2 * SIDE],
    growing: [u8; 2 * SIDE],
    /// The cells of these, and the same column after column.
    pub by_row: Cells,
    by_column: Cells,
    /// What is left by the number of flows, with the line in the last bits.
    shares: [f64; 2 * SIDE],
}

impl Filling {
    const NONE: f64 = f64::INFINITY;
    /// One over a number of flows.
    const PART: [f64; SIDE + 1] =
        [0.0, 1.0, 1.0 / 2.0, 1.0 / 3.0, 0.25, 1.0 / 5.0, 1.0 / 6.0, 1.0 / 7.0, 0.125];

    /// Takes these lines and cells with flows, but not those whose rates are below a bound.
    #[inline]
    pub(crate) fn new(
        capacity: &[Lanes; 2],
        taken: Cells,
        rate: &[Lanes; SIDE],
        kept_below: f64,
    ) -> Self {
        let mut filling = Self {
            left: [0.0; 2 * SIDE],
            growing: [0; 2 * SIDE],
            by_row: taken,
            by_column: transposed(taken),
            shares: [Self::NONE; 2 * SIDE],
        };
        filling.left[..SIDE].copy_from_slice(&capacity[0]);
        filling.left[SIDE..].copy_from_slice(&capacity[1]);
        if kept_below > 0.0 {
            filling.keep(rate, kept_below);
        }
        filling.growing[..SIDE].copy_from_slice(&ones_of_bytes(filling.by_row));
        filling.growing[SIDE..].copy_from_slice(&ones_of_bytes(filling.by_column));
        for line in 0..2 * SIDE {
            filling.share(line);
        }
        filling
    }

    /// Leaves cells out whose rates are below a bound, and what they take of their lines.
    #[inline]
    fn keep(&mut self, rate: &[Lanes; SIDE], below: f64) {
        let mut columns = [0.0; SIDE];
        let mut kept = [0_u64; SIDE];
        for (row, rates) in rate.iter().enumerate() {
            if (self.by_row >> (SIDE * row)) as u8 == 0 {
                continue;
            }
            let mut sum = 0.0;
            for lane in 0..SIDE {
                let is_kept = rates[lane] < below;
                let rate = if is_kept { rates[lane] } else { 0.0 };
                kept[lane] |= if is_kept { 1 << row } else { 0 };
                columns[lane] += rate;
                sum += rate;
            }
            self.left[row] -= sum;
        }
        for (left, column) in self.left[SIDE..].iter_mut().zip(columns) {
            *left -= column;
        }
        self.by_column &= !u64::from_le_bytes(kept.map(|rows| rows as u8));
        self.by_row = transposed(self.by_column);
    }

    #[inline]
    fn share(&mut self, line: usize) {
        let growing = self.growing[line];
        let share = self.left[line] * Self::PART[usize::from(growing)];
        // Rounding errors can leave less than nothing.
        let share = if share > 0.0 { share } else { 0.0 };
        let key = f64::from_bits(share.to_bits() & !0xf | line as u64);
        self.shares[line] = if growing == 0 { Self::NONE } else { key };
    }

    /// The next line to be full, and the rate of its cells that grow; `None` if none are left.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<(usize, f64)> {
        // Four minima, so that comparisons need not wait for one another.
        let mut lowest = [Self::NONE; 4];
        for shares in self.shares.chunks_exact(4) {
            for (lowest, &share) in lowest.iter_mut().zip(shares) {
                *lowest = smaller(share, *lowest);
            }
        }
        let lowest = smaller(smaller(lowest[0], lowest[1]), smaller(lowest[2], lowest[3]));
        if lowest >= Self::NONE {
            return None;
        }
        let line = (lowest.to_bits() & 0xf) as usize;
        let level = self.left[line] / f64::from(self.growing[line]);
        self.shares[line] = Self::NONE;
        Some((line, if level > 0.0 { level } else { 0.0 }))
    }

    /// Cells of a row that grow, as bits of the columns; none do afterwards.
    #[inline]
    pub(crate) fn stop_row(&mut self, row: usize) -> u8 {
        stop(&mut self.by_row, row)
    }

    /// Cells of a column that grow, as bits of the rows; none do afterwards.
    #[inline]
    pub(crate) fn stop_column(&mut self, column: usize) -> u8 {
        stop(&mut self.by_column, column)
    }

    /// The row of a cell that no longer grows has a cell less that does, which is at this rate now.
    #[inline]
    pub(crate) fn take_from_row(&mut self, cell: Cell, rate: f64) {
        self.by_row &= !cell.bit();
        self.take(cell.row, rate);
    }

    /// The same of its column.
    #[inline]
    pub(crate) fn take_from_column(&mut self, cell: Cell, rate: f64) {
        self.by_column &= !(1 << (SIDE * cell.column + cell.row));
        self.take(SIDE + cell.column, rate);
    }

    #[inline]
    fn take(&mut self, line: usize, rate: f64) {
        self.left[line] -= rate;
        self.growing[line] -= 1;
        self.share(line);
    }
}

/// The cells of one of eight lines, which are none afterwards.
#[inline]
fn stop(cells: &mut Cells, line: usize) -> u8 {
    let shift = SIDE * line;
    let bits = (*cells >> shift) as u8;
    *cells &= !(0xff << shift);
    bits
}

/// Number of ones of each byte, the lowest first; all at once, as not every processor has an
/// instruction for it.
fn ones_of_bytes(cells: Cells) -> [u8; SIDE] {
    let pairs = cells - (cells >> 1 & 0x5555_5555_5555_5555);
    let fours = (pairs & 0x3333_3333_3333_3333) + (pairs >> 2 & 0x3333_3333_3333_3333);
    ((fours + (fours >> 4)) & 0x0f0f_0f0f_0f0f_0f0f).to_le_bytes()
}

/// The cells column after column (Warren, Hacker's Delight, section 7-3).
fn transposed(cells: Cells) -> Cells {
    let swap = |cells: u64, shift: u32, mask: u64| {
        let differing = (cells ^ (cells >> shift)) & mask;
        cells ^ differing ^ (differing << shift)
    };
    let cells = swap(cells, 7, 0x00aa_00aa_00aa_00aa);
    let cells = swap(cells, 14, 0x0000_cccc_0000_cccc);
    swap(cells, 28, 0x0000_0000_f0f0_f0f0)
}

/// A row and a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cell {
    pub row: usize,
    pub column: usize,
}

impl Cell {
    /// It alone among all cells.
    pub(crate) fn bit(self) -> Cells {
        1 << (SIDE * self.row + self.column)
    }
}

/// The places of the ones of a byte, the lowest first.
#[inline]
pub(crate) fn ones(mut bits: u8) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let first = (bits != 0).then(|| bits.trailing_zeros() as usize)?;
        bits &= bits - 1;
        Some(first)
    })
}

/// One cell after the other.
pub(crate) fn each(mut cells: Cells) -> impl Iterator<Item = Cell> {
    std::iter::from_fn(move || {
        let first = (cells != 0).then(|| cells.trailing_zeros() as usize)?;
        cells &= cells - 1;
        Some(Cell { row: first / SIDE, column: first % SIDE })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bits_of_cells(cells: u64) {
            let across = transposed(cells);
            for bit in 0..64 {
                let cell = Cell { row: bit / SIDE, column: bit % SIDE };
                let turned = Cell { row: cell.column, column: cell.row };
                prop_assert_eq!(cells & cell.bit() == 0, across & turned.bit() == 0);
            }
            let ones = cells.to_le_bytes().map(|byte| byte.count_ones() as u8);
            prop_assert_eq!(ones_of_bytes(cells), ones);
            prop_assert_eq!(each(cells).fold(0, |all, cell| all | cell.bit()), cells);
        }
    }
}
