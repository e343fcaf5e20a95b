//! Slots on switches: where each is held, and which are divided between switches.
//!
//! A slot may be divided at the cost of one more delay. For a length that is aimed at, the longest
//! slot comes first, on the switch where it leaves least room; one that fits nowhere is divided,
//! beginning where most room is. The length is found by halving: as slots are divided only where
//! none fits whole, it is within s - 1 delays of (sum of holds and delays) / s.

use super::super::demand::Demand;
use super::super::improve::served;
use super::super::slots::Slots;

/// The length is found up to this part of it.
const PART: u64 = 4_096;

/// A slot, or a part of it, and what a port sends in it.
type Piece = (usize, u64);

/// The slots of one crossbar on several switches, each of which serves what is left by those
/// before it.
pub(super) fn pack(demand: &Demand, slots: &Slots, switches: usize) -> Vec<Slots> {
    let placed = place(&slots.holds, demand.delay, switches);
    let rows = demand.rows;
    let mut result = Vec::with_capacity(switches);
    for pieces in placed {
        let mut packed = Slots::default();
        for (slot, hold) in pieces {
            packed.push(&slots.matchings[slot * rows..(slot + 1) * rows], hold);
        }
        result.push(packed);
    }
    trim(demand, &result)
}

/// The same without pairs that have nothing left to send, switch after switch.
pub(super) fn trim(demand: &Demand, switches: &[Slots]) -> Vec<Slots> {
    let mut left = demand.bytes.to_vec();
    let mut result = Vec::with_capacity(switches.len());
    for slots in switches {
        let own = served(&Demand { bytes: &left, ..*demand }, slots);
        serve(&mut left, demand, &own, |_, _| ());
        result.push(own);
    }
    result
}

/// Takes what slots send out of what is left, and says how much of which cell.
pub(super) fn serve(
    left: &mut [u64],
    demand: &Demand,
    slots: &Slots,
    mut sent: impl FnMut(usize, u64),
) {
    for (matching, &hold) in slots.matchings.chunks_exact(demand.rows.max(1)).zip(&slots.holds) {
        for (row, &column) in matching.iter().enumerate().filter(|pair| *pair.1 >= 0) {
            let cell = row * demand.columns + column as usize;
            let bytes = hold.min(left[cell]);
            left[cell] -= bytes;
            sent(cell, bytes);
        }
    }
}

/// When the last switch has finished.
pub(super) fn length(switches: &[Slots], delay: u64) -> u64 {
    switches.iter().map(|slots| slots.length(delay)).max().unwrap_or(0)
}

fn place(holds: &[u64], delay: u64, switches: usize) -> Vec<Vec<Piece>> {
    let mut order: Vec<usize> = (0..holds.len()).collect();
    order.sort_by_key(|&slot| std::cmp::Reverse(holds[slot]));
    let mut best = longest_first(holds, &order, delay, switches);
    let total: u64 = holds.iter().map(|hold| hold + delay).sum();
    let longest = |placed: &[Vec<Piece>]| {
        let time = |pieces: &Vec<Piece>| pieces.iter().map(|piece| piece.1 + delay).sum::<u64>();
        placed.iter().map(time).max().unwrap_or(0)
    };
    let (mut low, mut high) = (total.div_ceil(switches as u64), longest(&best));
    // An equal share first: it is reached where delays are nothing, or slots fit by chance.
    let mut aim = low;
    while low < high {
        match within(holds, &order, delay, switches, aim) {
            Some(placed) => {
                high = longest(&placed);
                best = placed;
            }
            None => low = aim + 1,
        }
        if high - low.min(high) <= low / PART {
            break;
        }
        aim = u64::midpoint(low, high);
    }
    best
}

/// The longest slot first, on the switch that ends first.
fn longest_first(holds: &[u64], order: &[usize], delay: u64, switches: usize) -> Vec<Vec<Piece>> {
    let mut placed = vec![Vec::new(); switches];
    let mut ends = vec![0_u64; switches];
    for &slot in order {
        let first = (0..switches).min_by_key(|&switch| ends[switch]).expect("a switch");
        placed[first].push((slot, holds[slot]));
        ends[first] += holds[slot] + delay;
    }
    placed
}

/// Slots on switches that end in time, if that can be found.
fn within(
    holds: &[u64],
    order: &[usize],
    delay: u64,
    switches: usize,
    aim: u64,
) -> Option<Vec<Vec<Piece>>> {
    let mut placed = vec![Vec::new(); switches];
    let mut room = vec![aim; switches];
    for &slot in order {
        let mut hold = holds[slot];
        while hold > 0 {
            let fits = (0..switches).filter(|&switch| room[switch] >= hold + delay);
            let tightest = fits.min_by_key(|&switch| room[switch]);
            let switch = tightest.or_else(|| (0..switches).max_by_key(|&one| room[one]))?;
            let bytes = room[switch].checked_sub(delay).filter(|&bytes| bytes > 0)?.min(hold);
            placed[switch].push((slot, bytes));
            room[switch] -= bytes + delay;
            hold -= bytes;
        }
    }
    Some(placed)
}
