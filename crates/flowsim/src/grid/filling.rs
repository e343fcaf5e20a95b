//! Rates of the flows of a grid by progressive filling, in numbers of fixed size.
//!
//! All rates grow together until a line is full, whose flows then stop; and so on with the rest.
//! With at most eight rows and columns, which flows still grow is a bit each in one number.

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
    /// What is left by the number of flows, with the line in the last bits: bits of positive floats
    /// are ordered as they are.
    shares: [u64; 2 * SIDE],
}

impl Filling {
    const NONE: u64 = u64::MAX;
    /// One over a number of flows.
    const PART: [f64; SIDE + 1] =
        [0.0, 1.0, 1.0 / 2.0, 1.0 / 3.0, 0.25, 1.0 / 5.0, 1.0 / 6.0, 1.0 / 7.0, 0.125];

    /// Takes these lines and cells with flows, but not those whose rates are below a bound.
    pub(crate) fn new(
        capacity: &[Lanes; 2],
        taken: Cells,
        rate: &[Lanes; SIDE],
        kept_below: f64,
    ) -> Self {
        let mut left = [0.0; 2 * SIDE];
        left[..SIDE].copy_from_slice(&capacity[0]);
        left[SIDE..].copy_from_slice(&capacity[1]);
        let mut by_row = taken;
        if kept_below > 0.0 {
            let mut columns = [0.0; SIDE];
            for (row, rates) in rate.iter().enumerate() {
                let mut kept = 0_u64;
                let mut sum = 0.0;
                for lane in 0..SIDE {
                    let is_kept = rates[lane] < kept_below;
                    let rate = if is_kept { rates[lane] } else { 0.0 };
                    kept |= u64::from(is_kept) << lane;
                    columns[lane] += rate;
                    sum += rate;
                }
                left[row] -= sum;
                by_row &= !(kept << (SIDE * row));
            }
            for (left, column) in left[SIDE..].iter_mut().zip(columns) {
                *left -= column;
            }
        }
        let by_column = transposed(by_row);
        let mut filling = Self {
            left,
            growing: [0; 2 * SIDE],
            by_row,
            by_column,
            shares: [Self::NONE; 2 * SIDE],
        };
        filling.growing[..SIDE].copy_from_slice(&ones_of_bytes(by_row));
        filling.growing[SIDE..].copy_from_slice(&ones_of_bytes(by_column));
        for line in 0..2 * SIDE {
            filling.share(line);
        }
        filling
    }

    #[inline]
    fn share(&mut self, line: usize) {
        let growing = self.growing[line];
        let share = self.left[line] * Self::PART[usize::from(growing)];
        // Rounding errors can leave less than nothing.
        let share = if share > 0.0 { share } else { 0.0 };
        let key = share.to_bits() & !0xf | line as u64;
        self.shares[line] = if growing == 0 { Self::NONE } else { key };
    }

    /// The next line to be full, and the rate of its cells that grow; `None` if none are left.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<(usize, f64)> {
        // Four minima, so that comparisons need not wait for one another.
        let mut lowest = [Self::NONE; 4];
        for shares in self.shares.chunks_exact(4) {
            for (lowest, &share) in lowest.iter_mut().zip(shares) {
                *lowest = share.min(*lowest);
            }
        }
        let lowest = lowest[0].min(lowest[1]).min(lowest[2].min(lowest[3]));
        if lowest == Self::NONE {
            return None;
        }
        let line = (lowest & 0xf) as usize;
        let level = self.left[line] / f64::from(self.growing[line]);
        self.shares[line] = Self::NONE;
        Some((line, if level > 0.0 { level } else { 0.0 }))
    }

    /// Cells of a line that grow, as bits of the lines across; none do afterwards.
    #[inline]
    pub(crate) fn stop(&mut self, line: usize) -> u8 {
        let shift = SIDE * (line % SIDE);
        let cells = if line < SIDE { &mut self.by_row } else { &mut self.by_column };
        let bits = (*cells >> shift) as u8;
        *cells &= !(0xff << shift);
        bits
    }

    /// A line has a cell less that grows, which is at this rate now.
    #[inline]
    pub(crate) fn take(&mut self, line: usize, across: usize, rate: f64) {
        let cells = if line < SIDE { &mut self.by_row } else { &mut self.by_column };
        *cells &= !(1 << (SIDE * (line % SIDE) + across));
        self.left[line] -= rate;
        self.growing[line] -= 1;
        self.share(line);
    }
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
