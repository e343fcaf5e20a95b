//! The demand that is scheduled, in whole bytes.

use lightloom_model::Invalid;

use super::schedule::Method;

/// Rows and columns that a demand may have.
pub const MAX_LINES: usize = 1_024;
/// Bytes that a pair may want: the whole numbers that a double holds exactly.
pub const MAX_BYTES: u64 = 1 << 53;

/// Cells of matchings that a method with a slot per pair may make: 512 MiB.
const MAX_CELLS: usize = 1 << 27;

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

    /// Checks that the slots of a method fit into memory.
    ///
    /// `OpenShop` and `Maximal` make about a slot per pair where all ports stop, each with a cell
    /// per row; these may have 2^27 cells, as 512 lines do that all want each other.
    ///
    /// # Errors
    /// If there may be more.
    pub fn check_size(&self, method: Method) -> Result<(), Invalid> {
        let by_pair = method == Method::Maximal || method == Method::OpenShop && !self.partial;
        let slots = self.bytes.iter().filter(|&&bytes| bytes > 0).count();
        if by_pair && slots * self.rows > MAX_CELLS {
            return Err(Invalid(format!(
                "{}: about {slots} slots, one per pair, of {} rows do not fit into memory; \
                 expected at most {MAX_CELLS} cells",
                method.name(),
                self.rows
            )));
        }
        Ok(())
    }

    pub(super) fn row(&self, row: usize) -> &'a [u64] {
        &self.bytes[row * self.columns..(row + 1) * self.columns]
    }
}
