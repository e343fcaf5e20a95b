//! Lower bounds on the length and on the lateness of chunks.
//!
//! Chunks that are released at r or later must be sent from r on, over slots of which the first may
//! have turned before: [`HybridDemand::lower_bound_after`]. Among them, the ones with a deadline of
//! at most d are late by at least r + that bound - d. The largest over all r and d is the bound;
//! of many distinct times some are left out, which is as true.

use super::super::demand::HybridDemand;
use super::demand::{Chunk, ChunkDemand};

/// Distinct times that are looked at.
const TIMES: usize = 16;

impl ChunkDemand<'_> {
    /// Bytes of a circuit before which no schedule ends.
    pub fn lower_bound(&self) -> u64 {
        let all = self.thresholds(|chunk| Some(chunk.release));
        all.iter().map(|&from| self.end_of(from, u64::MAX)).max().unwrap_or(0)
    }

    /// Lateness that no schedule can beat, if there are deadlines.
    pub fn lateness_bound(&self) -> Option<i64> {
        let releases = self.thresholds(|chunk| Some(chunk.release));
        let late = |due: u64| {
            let ends = releases.iter().map(move |&from| self.end_of(from, due));
            ends.max().unwrap_or(0).cast_signed() - due.cast_signed()
        };
        self.thresholds(|chunk| chunk.deadline).into_iter().map(late).max()
    }

    /// Earliest end of the chunks released from then on that are due by then.
    fn end_of(&self, from: u64, due: u64) -> u64 {
        let is_due = |chunk: &Chunk| due == u64::MAX || chunk.deadline.is_some_and(|d| d <= due);
        let bytes = self.bytes_where(|chunk| chunk.release >= from && is_due(chunk));
        if bytes.iter().all(|&bytes| bytes == 0) {
            return 0;
        }
        let part: HybridDemand = self.part(&bytes).expect("a part of what fits");
        from.saturating_add(part.lower_bound_after(from))
    }

    /// Some distinct times of chunks with bytes, the first and the last ones among them.
    pub(super) fn thresholds(&self, time: impl Fn(&Chunk) -> Option<u64>) -> Vec<u64> {
        let some = self.chunks.iter().filter(|chunk| chunk.bytes > 0);
        let mut times: Vec<u64> = some.filter_map(time).collect();
        times.sort_unstable();
        times.dedup();
        if times.len() <= TIMES {
            return times;
        }
        (0..TIMES).map(|index| times[index * (times.len() - 1) / (TIMES - 1)]).collect()
    }
}
