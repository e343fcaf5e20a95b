//! Demand among the nodes of one switch, as the schedulers of whole systems take it.

use lightloom_model::Invalid;

use crate::permutation::MAX_SWITCHES;

/// Maximum number of bytes of a pair: sums over a line, and over all pairs, stay far within 64
/// bits.
pub(crate) const MAX_BYTES: u64 = 1 << 53;

/// Maximum number of nodes.
const MAX_NODES: usize = 1 << 10;

/// Refuses more switches than any planner takes: each has a matching of its own.
pub(crate) fn check_switches(switches: usize) -> Result<(), Invalid> {
    if switches <= MAX_SWITCHES {
        return Ok(());
    }
    Err(Invalid(format!("{switches} switches: expected at most {MAX_SWITCHES}")))
}

/// What bounds the time to serve a demand.
pub(crate) struct Lines {
    /// The most bytes that a node sends or receives.
    pub largest: u64,
    /// The most bytes of one pair.
    pub largest_entry: u64,
}

/// Checks that a demand is `nodes` x `nodes`; the diagonal is ignored.
pub(crate) fn check_square(demand: &[u64], nodes: usize) -> Result<Lines, Invalid> {
    if nodes > MAX_NODES {
        return Err(Invalid(format!("{nodes} nodes: at most {MAX_NODES}")));
    }
    if demand.len() != nodes * nodes {
        return Err(Invalid(format!("{} entries for {nodes} nodes", demand.len())));
    }
    let mut lines = vec![[0_u64; 2]; nodes];
    let mut largest_entry = 0;
    for (cell, &bytes) in demand.iter().enumerate() {
        let (row, column) = (cell / nodes, cell % nodes);
        if bytes > MAX_BYTES {
            return Err(Invalid(format!("{bytes} bytes at ({row}, {column}) are beyond 2^53")));
        }
        if row != column {
            lines[row][0] += bytes;
            lines[column][1] += bytes;
            largest_entry = largest_entry.max(bytes);
        }
    }
    let largest = lines.iter().flatten().max().copied().unwrap_or(0);
    Ok(Lines { largest, largest_entry })
}

/// A time in bytes, if it fits.
pub(crate) fn length_of(parts: impl Iterator<Item = u128>) -> Result<u64, Invalid> {
    let length: u128 = parts.sum();
    u64::try_from(length).map_err(|_| Invalid(format!("a length of {length} bytes is beyond 2^64")))
}
