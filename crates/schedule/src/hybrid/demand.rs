//! The demand, the delay, and what a port sends over circuits and packets.

use lightloom_model::{Invalid, Rate};

use crate::permutation::Demand;

/// Rows and columns that a hybrid schedule may have.
pub const MAX_HYBRID_LINES: usize = 256;

/// Fastest port, and how much faster one of the two switches may be: times stay within 64 bits.
const MAX_RATE: u64 = 1 << 60;
const MAX_RATIO: u64 = 1 << 16;

/// What a port sends in a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortRates {
    /// Over a circuit.
    pub circuit: Rate,
    /// Into the packet switch, and out of it.
    pub eps: Rate,
}

impl PortRates {
    /// Bytes that a port of the EPS carries in a time.
    pub(super) fn eps_bytes(&self, time: u64) -> u64 {
        clamp(u128::from(time) * u128::from(self.eps.0) / u128::from(self.circuit.0))
    }

    /// The shortest time in which a port of the EPS carries so many bytes; without an EPS, none.
    pub(super) fn eps_time(&self, bytes: u64) -> u64 {
        if self.eps.0 == 0 {
            return if bytes > 0 { u64::MAX } else { 0 };
        }
        clamp((u128::from(bytes) * u128::from(self.circuit.0)).div_ceil(u128::from(self.eps.0)))
    }
}

/// A demand for a crossbar with a packet switch.
#[derive(Debug, Clone, Copy)]
pub struct HybridDemand<'a> {
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) bytes: &'a [u64],
    pub(super) delay: u64,
    pub(super) rates: PortRates,
}

impl<'a> HybridDemand<'a> {
    /// Demand of `rows` sources and `columns` destinations, row after row; the diagonal counts.
    /// `delay` is in bytes of a circuit.
    ///
    /// # Errors
    /// If sizes do not fit, or a rate is nothing or far from the other.
    pub fn new(
        rows: usize,
        columns: usize,
        bytes: &'a [u64],
        delay: u64,
        rates: PortRates,
    ) -> Result<Self, Invalid> {
        if rows > MAX_HYBRID_LINES || columns > MAX_HYBRID_LINES {
            let text = format!("demand of {rows} x {columns}: at most {MAX_HYBRID_LINES} lines");
            return Err(Invalid(text));
        }
        Demand::new(rows, columns, bytes, delay, false)?;
        let (circuit, eps) = (rates.circuit.0, rates.eps.0);
        let fit = |one: u64, other: u64| one > 0 && one <= MAX_RATE && one / MAX_RATIO <= other;
        if !fit(circuit, eps) || !fit(eps, circuit) {
            let text = format!("circuits of {circuit} b/s and an EPS of {eps} b/s: not comparable");
            return Err(Invalid(text));
        }
        Ok(Self { rows, columns, bytes, delay, rates })
    }

    /// As [`Self::new`], also without an EPS, whose rate is then nothing.
    pub(super) fn with_or_without_eps(
        rows: usize,
        columns: usize,
        bytes: &'a [u64],
        delay: u64,
        rates: PortRates,
    ) -> Result<Self, Invalid> {
        if rates.eps.0 > 0 {
            return Self::new(rows, columns, bytes, delay, rates);
        }
        let any = PortRates { eps: rates.circuit, ..rates };
        Ok(Self { rates, ..Self::new(rows, columns, bytes, delay, any)? })
    }

    /// Bytes that a port of the EPS carries in a time.
    pub(super) fn eps_bytes(&self, time: u64) -> u64 {
        self.rates.eps_bytes(time)
    }

    /// The shortest time in which a port of the EPS carries so many bytes.
    pub(super) fn eps_time(&self, bytes: u64) -> u64 {
        self.rates.eps_time(bytes)
    }

    /// The shortest time in which a port carries so many bytes over a circuit and the EPS together.
    pub(super) fn joint_time(&self, bytes: u64) -> u64 {
        let (circuit, eps) = (u128::from(self.rates.circuit.0), u128::from(self.rates.eps.0));
        clamp((u128::from(bytes) * circuit).div_ceil(circuit + eps))
    }

    /// The shortest time in which a circuit of every row and twice the EPS carry so many bytes.
    pub(super) fn twice_time(&self, bytes: u128) -> u64 {
        let (circuit, eps) = (u128::from(self.rates.circuit.0), u128::from(self.rates.eps.0));
        clamp((bytes * circuit).div_ceil(self.rows.max(1) as u128 * (circuit + 2 * eps)))
    }

    /// Rate of the EPS over that of a circuit.
    pub(super) fn share(&self) -> f64 {
        self.rates.eps.0 as f64 / self.rates.circuit.0 as f64
    }

    /// Number of rows and columns.
    pub(super) fn lines(&self) -> usize {
        self.rows + self.columns
    }

    /// The two lines of a cell: its row, and its column after all rows.
    pub(super) fn lines_of(&self, cell: usize) -> [usize; 2] {
        [cell / self.columns, self.rows + cell % self.columns]
    }

    /// What each line, rows first, sends or receives of these bytes.
    pub(super) fn line_sums(&self, bytes: &[u64]) -> Vec<u64> {
        let mut sums = vec![0; self.lines()];
        for (cell, &bytes) in bytes.iter().enumerate() {
            for line in self.lines_of(cell) {
                sums[line] += bytes;
            }
        }
        sums
    }
}

fn clamp(value: u128) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}
