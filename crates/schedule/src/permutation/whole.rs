//! Pairs served whole, the largest first, each in the first slot where both its ports are free.
//!
//! The first slot is a greedy matching by bytes, the second one of what is left, and so on: what a
//! slot at a time would find, in one pass over the sorted pairs. Sorting takes longest, and the
//! slots of a line are bits, so that it is the fastest way to slots that take sizes into account.
//! There are fewer than twice as many slots as the busiest line has peers. Best with delays that
//! keep the slots few. Of equal pairs the lower row and column come first, so that relabelling may
//! change the length a little.

use super::demand::Demand;
use super::slots::Slots;

/// Slots that are held for at most `limit`: larger pairs are divided.
pub(super) fn decompose(demand: &Demand, limit: u64) -> Slots {
    let (rows, columns) = (demand.rows, demand.columns);
    let mut pieces: Vec<(u64, usize)> = Vec::with_capacity(demand.bytes.len());
    for (cell, &bytes) in demand.bytes.iter().enumerate() {
        let mut left = bytes;
        while left > 0 {
            pieces.push((left.min(limit), cell));
            left -= left.min(limit);
        }
    }
    pieces.sort_unstable_by(|one, other| other.0.cmp(&one.0).then(one.1.cmp(&other.1)));
    let mut counts = (vec![0; rows], vec![0; columns]);
    for &(_, cell) in &pieces {
        counts.0[cell / columns] += 1;
        counts.1[cell % columns] += 1;
    }
    let busiest = |counts: &[usize]| counts.iter().copied().max().unwrap_or(0);
    // A line waits for no more slots than the others of its piece.
    let words = (busiest(&counts.0) + busiest(&counts.1)).div_ceil(64);
    let mut slots = Slots::default();
    let (mut row_slots, mut column_slots) =
        (vec![0_u64; rows * words], vec![0_u64; columns * words]);
    for &(bytes, cell) in &pieces {
        let (row, column) = (cell / columns, cell % columns);
        let own = &mut row_slots[row * words..(row + 1) * words];
        let others = &mut column_slots[column * words..(column + 1) * words];
        let taken = own.iter_mut().zip(others).enumerate();
        let free = |(_, (own, other)): &(usize, (&mut u64, &mut u64))| **own | **other != u64::MAX;
        let (word, (own, other)) = { taken }.find(free).expect("there are slots enough");
        let place = (*own | *other).trailing_ones() as usize;
        *own |= 1 << place;
        *other |= 1 << place;
        let slot = 64 * word + place;
        if slot == slots.len() {
            slots.holds.push(bytes);
            slots.matchings.resize((slot + 1) * rows, -1);
        }
        slots.matchings[slot * rows + row] = column as i32;
    }
    slots
}
