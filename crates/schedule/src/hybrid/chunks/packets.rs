//! What packets carry when: everything that circuits leave.
//!
//! Time is divided at releases, and where all that is due first has been sent. In each period ports
//! are filled with what is due first, and of that first with pairs on ports that have the largest
//! part still before them. After the last release, what is due first takes as long as its busiest
//! port, which no order can beat.

use super::demand::ChunkDemand;
use super::transfer::ChunkTransfer;

/// Sends all that is left.
pub(super) fn send_packets(
    demand: &ChunkDemand,
    release: &[u64],
    left: &mut [u64],
    ends: &mut [u64],
    transfers: &mut Vec<ChunkTransfer>,
) {
    let mut open: Vec<u32> = (0..left.len() as u32).filter(|&c| left[c as usize] > 0).collect();
    let mut now = 0_u64;
    while !open.is_empty() {
        let times = open.iter().map(|&chunk| release[chunk as usize]);
        let next = times.clone().filter(|&time| time > now).min();
        let here = |chunk: u32| release[chunk as usize] <= now;
        let due = |chunk: u32| demand.chunks[chunk as usize].deadline.unwrap_or(u64::MAX);
        let Some(first) = open.iter().filter(|&&chunk| here(chunk)).map(|&chunk| due(chunk)).min()
        else {
            now = next.expect("what is not here is to come");
            continue;
        };
        let pressure = sums(demand, open.iter().map(|&chunk| (chunk, left[chunk as usize])));
        let of_first = open.iter().filter(|&&chunk| here(chunk) && due(chunk) == first);
        let busiest = sums(demand, of_first.map(|&chunk| (chunk, left[chunk as usize])));
        let whole = demand.rates.eps_time(busiest.into_iter().max().unwrap_or(0));
        let until = now.saturating_add(whole).min(next.unwrap_or(u64::MAX));
        let mut order: Vec<u32> = open.iter().copied().filter(|&chunk| here(chunk)).collect();
        order.sort_by_key(|&chunk| {
            let [row, column] = lines(demand, chunk);
            (due(chunk), std::cmp::Reverse(pressure[row].max(pressure[column])))
        });
        let mut room = vec![demand.rates.eps_bytes(until - now); demand.rows + demand.columns];
        for chunk in order {
            let [row, column] = lines(demand, chunk);
            let bytes = left[chunk as usize].min(room[row]).min(room[column]);
            if bytes > 0 {
                room[row] -= bytes;
                room[column] -= bytes;
                left[chunk as usize] -= bytes;
                ends[chunk as usize] = ends[chunk as usize].max(until);
                transfers.push(ChunkTransfer { chunk, slot: None, start: now, end: until, bytes });
            }
        }
        open.retain(|&chunk| left[chunk as usize] > 0);
        if until == u64::MAX {
            // Without an EPS nothing arrives.
            for &chunk in &open {
                ends[chunk as usize] = u64::MAX;
            }
            return;
        }
        now = until;
    }
}

fn lines(demand: &ChunkDemand, chunk: u32) -> [usize; 2] {
    let chunk = &demand.chunks[chunk as usize];
    [chunk.row as usize, demand.rows + chunk.column as usize]
}

fn sums(demand: &ChunkDemand, chunks: impl Iterator<Item = (u32, u64)>) -> Vec<u64> {
    let mut sums = vec![0; demand.rows + demand.columns];
    for (chunk, bytes) in chunks {
        for line in lines(demand, chunk) {
            sums[line] += bytes;
        }
    }
    sums
}
