//! Pairs served whole, the largest first, each in the first slot where both its ports are free.
//!
//! The first slot is a greedy matching by bytes, the second one of what is left, and so on: what a
//! slot at a time would find, in one pass over the sorted pairs. Sorting takes longest, and the
//! slots of a line are bits, so that it is the fastest way to slots that take sizes into account.
//! There are fewer than twice as many slots as the busiest line has peers. Best with delays that
//! keep the slots few. The lower row and column of equal pairs come first, so that relabelling may
//! change the length a little.

use std::cmp::Reverse;

use super::demand::Demand;
use super::slots::Slots;

/// Slots that are held for at most `limit`: larger pairs are divided.
pub(super) fn decompose(demand: &Demand, limit: u64) -> Slots {
    let mut pieces = demand.largest_pairs();
    if pieces.first().is_some_and(|&(largest, _)| largest > limit) {
        pieces = pieces.iter().flat_map(|&pair| divided(pair, limit)).collect();
        pieces.sort_unstable_by_key(|&(bytes, cell)| (Reverse(bytes), cell));
    }
    of_pieces(demand, &pieces)
}

/// Pieces of a pair of at most `limit`, the smallest last.
fn divided((bytes, cell): (u64, u32), limit: u64) -> impl Iterator<Item = (u64, u32)> {
    (0..bytes.div_ceil(limit)).map(move |piece| ((bytes - piece * limit).min(limit), cell))
}

/// The slots of pairs, or of pieces of them, that are sorted: the largest first.
pub(super) fn of_pieces(demand: &Demand, pieces: &[(u64, u32)]) -> Slots {
    let (rows, columns) = (demand.rows, demand.columns);
    let place = |cell: u32| (cell as usize / columns, cell as usize % columns);
    let mut counts = (vec![0; rows], vec![0; columns]);
    for &(_, cell) in pieces {
        let (row, column) = place(cell);
        counts.0[row] += 1;
        counts.1[column] += 1;
    }
    let busiest = |counts: &[usize]| counts.iter().copied().max().unwrap_or(0);
    // A line waits for no more slots than the others of its piece.
    let words = (busiest(&counts.0) + busiest(&counts.1)).div_ceil(64);
    let mut slots = Slots::default();
    let (mut row_slots, mut column_slots) =
        (vec![0_u64; rows * words], vec![0_u64; columns * words]);
    for &(bytes, cell) in pieces {
        let (row, column) = place(cell);
        let words_of_row = &mut row_slots[row * words..(row + 1) * words];
        let others = &mut column_slots[column * words..(column + 1) * words];
        let taken = words_of_row.iter_mut().zip(others).enumerate();
        let free = |(_, (words_of_row, other)): &(usize, (&mut u64, &mut u64))| {
            **words_of_row | **other != u64::MAX
        };
        let (word, (words_of_row, other)) = { taken }.find(free).expect("there are slots enough");
        let bit = (*words_of_row | *other).trailing_ones() as usize;
        *words_of_row |= 1 << bit;
        *other |= 1 << bit;
        let slot = 64 * word + bit;
        if slot == slots.len() {
            slots.holds.push(bytes);
            slots.matchings.resize((slot + 1) * rows, -1);
        }
        slots.matchings[slot * rows + row] = column as i32;
    }
    slots
}
