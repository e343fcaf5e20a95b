//! Chunks of a demand, and the ports that serve them.

use lightloom_model::Invalid;

use super::super::demand::{HybridDemand, MAX_HYBRID_LINES, PortRates};

/// Latest release or deadline: a double holds such numbers exactly.
const MAX_TIME: u64 = 1 << 53;
/// Chunks of a demand.
const MAX_CHUNKS: usize = 1 << 20;

/// Bytes of a pair that compute produces and needs as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunk {
    /// Source.
    pub row: u32,
    /// Destination.
    pub column: u32,
    /// How many.
    pub bytes: u64,
    /// When compute has produced them, in bytes of a circuit.
    pub release: u64,
    /// When compute needs them.
    pub deadline: Option<u64>,
}

/// Chunks for a crossbar with or without a packet switch.
#[derive(Debug, Clone, Copy)]
pub struct ChunkDemand<'a> {
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) chunks: &'a [Chunk],
    pub(super) delay: u64,
    pub(super) rates: PortRates,
}

impl<'a> ChunkDemand<'a> {
    /// Chunks between `rows` sources and `columns` destinations; an EPS of no rate is none.
    ///
    /// # Errors
    /// If a chunk is of no such pair, or sizes, times or rates do not fit.
    pub fn new(
        rows: usize,
        columns: usize,
        chunks: &'a [Chunk],
        delay: u64,
        rates: PortRates,
    ) -> Result<Self, Invalid> {
        if rows > MAX_HYBRID_LINES || columns > MAX_HYBRID_LINES {
            let text = format!("chunks of {rows} x {columns}: at most {MAX_HYBRID_LINES} lines");
            return Err(Invalid(text));
        }
        let slots = (chunks.len() + rows * columns + rows + columns) as u64;
        if slots.checked_mul(delay).is_none_or(|all| all > 1 << 61) {
            let text = format!("delay of {delay} bytes: too long for {} chunks", chunks.len());
            return Err(Invalid(text));
        }
        if chunks.len() > MAX_CHUNKS {
            return Err(Invalid(format!("{} chunks: at most {MAX_CHUNKS}", chunks.len())));
        }
        for (index, chunk) in chunks.iter().enumerate() {
            let (row, column) = (chunk.row as usize, chunk.column as usize);
            if row >= rows || column >= columns {
                let text = format!("chunk {index}: no pair {row}, {column} in {rows} x {columns}");
                return Err(Invalid(text));
            }
            if chunk.release.max(chunk.deadline.unwrap_or(0)) > MAX_TIME {
                return Err(Invalid(format!("chunk {index}: a time of more than 2^53 bytes")));
            }
        }
        let demand = Self { rows, columns, chunks, delay, rates };
        demand.part(&demand.bytes_where(|_| true))?;
        Ok(demand)
    }

    /// Bytes of each pair, of chunks such as these.
    pub(super) fn bytes_where(&self, of: impl Fn(&Chunk) -> bool) -> Vec<u64> {
        let mut bytes = vec![0_u64; self.rows * self.columns];
        for chunk in self.chunks.iter().filter(|chunk| of(chunk)) {
            let cell = &mut bytes[self.cell(chunk)];
            *cell = cell.saturating_add(chunk.bytes);
        }
        bytes
    }

    /// A demand of its own for bytes of each pair.
    pub(super) fn part<'b>(&self, bytes: &'b [u64]) -> Result<HybridDemand<'b>, Invalid> {
        HybridDemand::with_or_without_eps(self.rows, self.columns, bytes, self.delay, self.rates)
    }

    pub(super) fn cell(&self, chunk: &Chunk) -> usize {
        chunk.row as usize * self.columns + chunk.column as usize
    }

    /// When each chunk is released.
    pub(super) fn releases(&self) -> Vec<u64> {
        self.chunks.iter().map(|chunk| chunk.release).collect()
    }

    /// Whether lateness counts.
    pub(super) fn has_deadlines(&self) -> bool {
        self.chunks.iter().any(|chunk| chunk.bytes > 0 && chunk.deadline.is_some())
    }

    /// Deadline of each chunk: the last one where it has none, nothing if there are no deadlines.
    pub(super) fn dues(&self) -> Vec<u64> {
        let last = self.chunks.iter().filter_map(|chunk| chunk.deadline).max().unwrap_or(0);
        let due = |chunk: &Chunk| chunk.deadline.unwrap_or(last);
        self.chunks.iter().map(due).collect()
    }
}
