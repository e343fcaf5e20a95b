//! The demand that is scheduled, in whole bytes.

use lightloom_model::Invalid;

/// Rows and columns that a demand may have.
pub const MAX_LINES: usize = 1_024;
/// Bytes that a pair may want: the whole numbers that a double holds exactly.
pub const MAX_BYTES: u64 = 1 << 53;

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
}
