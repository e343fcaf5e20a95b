//! What slots and packets do with chunks: a plan is played from its first slot to the last byte.

use super::demand::ChunkDemand;
use super::packets::send_packets;
use super::transfer::ChunkTransfer;
use crate::permutation::Slots;

/// A matching, and how long it is held from when on.
#[derive(Debug, Clone)]
pub(super) struct PlannedSlot {
    pub matching: Vec<i32>,
    pub hold: u64,
    /// Its circuits send no earlier.
    pub not_before: u64,
}

/// Slots, and when each chunk may be sent: at its release or later.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub slots: Vec<PlannedSlot>,
    pub release: Vec<u64>,
}

/// Chunks of each pair in the order in which they are sent.
pub(super) struct Queues {
    pub cells: Vec<Vec<u32>>,
}

impl Queues {
    pub(super) fn new(demand: &ChunkDemand) -> Self {
        let mut cells = vec![Vec::new(); demand.rows * demand.columns];
        for (index, chunk) in demand.chunks.iter().enumerate().filter(|one| one.1.bytes > 0) {
            cells[demand.cell(chunk)].push(index as u32);
        }
        for cell in &mut cells {
            cell.sort_by_key(|&index: &u32| {
                let chunk = &demand.chunks[index as usize];
                (chunk.deadline.unwrap_or(u64::MAX), std::cmp::Reverse(chunk.release))
            });
        }
        Self { cells }
    }
}

/// Sends chunks of a pair over its circuit from `now` to `end`; a new chunk that comes first in the
/// order interrupts the others.
pub(super) fn serve(
    order: &[u32],
    left: &mut [u64],
    release: &[u64],
    [mut now, end]: [u64; 2],
    mut sent: impl FnMut(u32, u64, u64),
) {
    while now < end {
        let open = |&&chunk: &&u32| left[chunk as usize] > 0;
        let time = |chunk: &u32| release[*chunk as usize];
        let here = order.iter().position(|chunk| open(&chunk) && time(chunk) <= now);
        let before = &order[..here.unwrap_or(order.len())];
        let next = before.iter().filter(open).map(time).filter(|&time| time > now).min();
        let until = next.unwrap_or(end).min(end);
        let Some(here) = here else {
            if next.is_none() {
                return;
            }
            now = until;
            continue;
        };
        let chunk = order[here];
        let bytes = left[chunk as usize].min(until - now);
        left[chunk as usize] -= bytes;
        sent(chunk, now, bytes);
        now += bytes;
    }
}

/// What is to be small: lateness if there are deadlines, then the length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Aim {
    pub late: i64,
    pub length: u64,
}

/// A plan with all that is sent.
#[derive(Debug, Clone)]
pub(super) struct Played {
    pub slots: Slots,
    pub starts: Vec<u64>,
    pub transfers: Vec<ChunkTransfer>,
    pub ends: Vec<u64>,
    pub length: u64,
    pub lateness: Option<i64>,
}

impl Played {
    /// What is to be small; without an EPS the last byte may never be sent.
    pub(super) fn aim(&self) -> Aim {
        let late = if self.length == u64::MAX { i64::MAX } else { self.lateness.unwrap_or(0) };
        Aim { late, length: self.length }
    }
}

/// Circuits carry what they can, packets the rest; slots that carry nothing are left out, and holds
/// end with the last byte.
pub(super) fn play(demand: &ChunkDemand, queues: &Queues, plan: &Plan) -> Played {
    let mut left: Vec<u64> = demand.chunks.iter().map(|chunk| chunk.bytes).collect();
    let mut ends = plan.release.clone();
    let mut transfers: Vec<ChunkTransfer> = Vec::new();
    let (mut slots, mut starts, mut now) = (Slots::default(), Vec::new(), 0_u64);
    for planned in &plan.slots {
        let start = now.saturating_add(demand.delay).max(planned.not_before);
        let window = [start, start.saturating_add(planned.hold)];
        let (earlier, slot) = (transfers.len(), slots.len() as u32);
        let mut matching = vec![-1; demand.rows];
        for (row, &column) in planned.matching.iter().enumerate().filter(|pair| *pair.1 >= 0) {
            let order = &queues.cells[row * demand.columns + column as usize];
            serve(order, &mut left, &plan.release, window, |chunk, start, bytes| {
                let end = start + bytes;
                transfers.push(ChunkTransfer { chunk, slot: Some(slot), start, end, bytes });
                ends[chunk as usize] = ends[chunk as usize].max(end);
                matching[row] = column;
            });
        }
        let own = &transfers[earlier..];
        let Some(first) = own.iter().map(|one| one.start).min() else { continue };
        now = own.iter().map(|one| one.end).max().unwrap_or(first);
        slots.matchings.extend(matching);
        slots.holds.push(now - first);
        starts.push(first);
    }
    send_packets(demand, &plan.release, &mut left, &mut ends, &mut transfers);
    let sent = demand.chunks.iter().zip(&ends).filter(|one| one.0.bytes > 0);
    let length = sent.clone().map(|one| *one.1).max().unwrap_or(0);
    let end = |end: u64| i64::try_from(end).unwrap_or(i64::MAX);
    let late = |deadline: u64, &at: &u64| end(at) - deadline.cast_signed();
    let lateness = sent.filter_map(|(chunk, at)| Some(late(chunk.deadline?, at))).max();
    Played { slots, starts, transfers, ends, length, lateness }
}

/// Slots one after another from then on.
pub(super) fn planned(slots: &Slots, rows: usize, not_before: u64) -> Vec<PlannedSlot> {
    let matchings = slots.matchings.chunks_exact(rows.max(1));
    let planned = |(matching, &hold): (&[i32], &u64)| PlannedSlot {
        matching: matching.to_vec(),
        hold,
        not_before,
    };
    matchings.zip(&slots.holds).map(planned).collect()
}
