//! A schedule of chunks, and the methods that make it.

use lightloom_model::choices;

use super::demand::ChunkDemand;
use super::plan::Played;
use super::transfer::ChunkTransfer;
use crate::permutation::Slots;

choices! {
    /// How slots follow the release of chunks.
    pub enum ChunkMethod: "chunk method" {
        Pipelined = "pipelined": "Slots for the chunks that are there and those to come",
        InOrder = "in-order": "A schedule per release time, each after the one before",
        Together = "together": "One schedule once all chunks are released",
    }
}

/// Matchings over time, and what is sent when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChunkSchedule {
    /// Whose it is.
    pub method: ChunkMethod,
    /// The matchings.
    pub slots: Slots,
    /// When each slot's circuits begin to send; the crossbar turns in the delay before.
    pub starts: Vec<u64>,
    /// Everything that is sent, circuits first.
    pub transfers: Vec<ChunkTransfer>,
    /// When the last byte of each chunk is sent; its release if it has none.
    pub ends: Vec<u64>,
    /// When the last byte of all is sent.
    pub length: u64,
    /// The largest time from a deadline to the chunk's end, if there are deadlines.
    pub lateness: Option<i64>,
    /// What no schedule can beat.
    pub lower_bound: u64,
    /// The same for lateness.
    pub lateness_bound: Option<i64>,
}

impl ChunkSchedule {
    pub(super) fn of(demand: &ChunkDemand, method: ChunkMethod, played: Played) -> Self {
        let Played { slots, starts, transfers, ends, length, lateness } = played;
        let (lower_bound, lateness_bound) = (demand.lower_bound(), demand.lateness_bound());
        Self {
            method,
            slots,
            starts,
            transfers,
            ends,
            length,
            lateness,
            lower_bound,
            lateness_bound,
        }
    }

    /// Length over lower bound.
    pub fn over_bound(&self) -> f64 {
        if self.lower_bound == 0 { 1.0 } else { self.length as f64 / self.lower_bound as f64 }
    }
}
