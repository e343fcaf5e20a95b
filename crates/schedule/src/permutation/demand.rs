//! The demand that is scheduled, in whole bytes.

use std::cmp::Reverse;

use lightloom_model::Invalid;

/// Rows and columns that a demand may have.
pub const MAX_LINES: usize = 1_024;
/// Bytes that a pair may want: the whole numbers that a double holds exactly.
pub const MAX_BYTES: u64 = 1 << 53;
/// Pairs that are sorted by comparison.
const FEW: usize = 1_024;
/// Bits by which more are sorted at a time.
const DIGIT: u32 = 11;

/// What to schedule.
#[derive(Debug, Clone, Copy)]
pub struct Demand<'a> {
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) bytes: &'a [u64],
    pub(super) delay: u64,
    pub(super) partial: bool,
}

impl<'a> Demand<'a> {
    /// Demand of `rows` sources and `columns` destinations, row after row.
    ///
    /// # Errors
    /// If sizes do not fit, or are so large that the length might not fit 64 bits.
    pub fn new(
        rows: usize,
        columns: usize,
        bytes: &'a [u64],
        delay: u64,
        partial: bool,
    ) -> Result<Self, Invalid> {
        if rows > MAX_LINES || columns > MAX_LINES {
            let text = format!("demand of {rows} x {columns}: expected at most {MAX_LINES} lines");
            return Err(Invalid(text));
        }
        if bytes.len() != rows * columns {
            let text = format!("{} values are not {rows} x {columns}", bytes.len());
            return Err(Invalid(text));
        }
        let largest = bytes.iter().copied().max().unwrap_or(0);
        if largest > MAX_BYTES {
            let cell = bytes.iter().position(|&one| one == largest).expect("it is there");
            let (row, column) = (cell / columns, cell % columns);
            let text = format!("demand[{row}, {column}] is {largest}: expected at most 2^53");
            return Err(Invalid(text));
        }
        if largest.saturating_mul(rows.max(columns) as u64) > 1 << 61 {
            let text = format!("demand of up to {largest} bytes: too much for {rows} x {columns}");
            return Err(Invalid(text));
        }
        let slots = (rows * columns + rows + columns) as u64;
        if slots.checked_mul(delay).is_none_or(|all| all > 1 << 62) {
            let text = format!("delay of {delay} bytes: too long for {rows} x {columns}");
            return Err(Invalid(text));
        }
        Ok(Self { rows, columns, bytes, delay, partial })
    }

    pub(super) fn row(&self, row: usize) -> &'a [u64] {
        &self.bytes[row * self.columns..(row + 1) * self.columns]
    }

    /// Bytes and cell, row after row, of all pairs that want any: the largest first, and of equal
    /// ones the first cell.
    pub(super) fn largest_pairs(&self) -> Vec<(u64, u32)> {
        let cells = self.bytes.iter().zip(0..);
        let mut pairs: Vec<(u64, u32)> =
            cells.filter(|pair| *pair.0 > 0).map(|(&bytes, cell)| (bytes, cell)).collect();
        largest_first(&mut pairs);
        pairs
    }
}

/// Sorts pairs, stably: many of them digit by digit, which takes a third of the instructions.
fn largest_first(pairs: &mut Vec<(u64, u32)>) {
    if pairs.len() < FEW {
        return pairs.sort_by_key(|&(bytes, _)| Reverse(bytes));
    }
    let largest = pairs.iter().map(|pair| pair.0).max().unwrap_or(0);
    let mut sorted = vec![(0, 0); pairs.len()];
    for shift in (0..u64::BITS - largest.leading_zeros()).step_by(DIGIT as usize) {
        // The largest digit first.
        let place = |bytes: u64| (!bytes >> shift) as usize % (1 << DIGIT);
        let mut starts = [0; 1 << DIGIT];
        for &(bytes, _) in pairs.iter() {
            starts[place(bytes)] += 1;
        }
        let mut start = 0;
        for own in &mut starts {
            start += std::mem::replace(own, start);
        }
        for &pair in pairs.iter() {
            let own = &mut starts[place(pair.0)];
            sorted[*own] = pair;
            *own += 1;
        }
        std::mem::swap(pairs, &mut sorted);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With the bits of the largest number of bytes, with equal ones, and with few.
    #[test]
    fn pairs_are_sorted_as_by_comparison() {
        for (lines, largest) in [(40, MAX_BYTES / 64), (64, 100), (50, 1), (3, 1 << 40), (0, 1)] {
            let cell = |cell: u64| cell.wrapping_mul(0x9E37_79B9_7F4A_7C15) % (largest + 1);
            let bytes: Vec<u64> = (0..lines * lines).map(cell).collect();
            let lines = lines as usize;
            let pairs = Demand::new(lines, lines, &bytes, 1, false).unwrap().largest_pairs();
            let mut expected: Vec<(Reverse<u64>, u32)> =
                bytes.iter().map(|&bytes| Reverse(bytes)).zip(0..).collect();
            expected.retain(|pair| pair.0.0 > 0);
            expected.sort_unstable();
            assert!(pairs.iter().map(|&(bytes, cell)| (Reverse(bytes), cell)).eq(expected));
        }
    }
}
