//! Maximal matchings, after the wrapped wave-front arbiter that Chronos uses.
//!
//! Each slot joins pairs greedily along wrapped diagonals, beginning one diagonal further than the
//! slot before (Tamir and Chi 1993), and lasts until the first of them has finished. A maximal
//! matching serves a line of every pair that is left, so the length is less than twice the longest
//! line. Relabelling lines changes the diagonals and hence the length.

use super::bitset::{Bits, with_words};
use super::demand::Demand;
use super::slots::Slots;

pub(super) fn decompose(demand: &Demand) -> Slots {
    with_words!(demand.rows.max(demand.columns), run(demand))
}

fn run<const W: usize>(demand: &Demand) -> Slots {
    let (rows, columns) = (demand.rows, demand.columns);
    let around = rows.max(columns);
    let mut slots = Slots::default();
    let mut left = demand.bytes.to_vec();
    let mut wanted = vec![Bits::<W>::EMPTY; rows];
    for (cell, _) in left.iter().enumerate().filter(|entry| *entry.1 > 0) {
        wanted[cell / columns].insert(cell % columns);
    }
    let mut matching = vec![-1; rows];
    let mut first = 0;
    loop {
        let mut free_rows = Bits::<W>::below(rows);
        let mut free_columns = Bits::<W>::below(columns);
        let mut hold = u64::MAX;
        matching.fill(-1);
        for turn in 0..around {
            let shift = (first + turn) % around;
            for row in free_rows.iter() {
                let column = (row + shift) % around;
                let open = column < columns && free_columns.contains(column);
                if open && wanted[row].contains(column) {
                    matching[row] = column as i32;
                    free_rows.remove(row);
                    free_columns.remove(column);
                    hold = hold.min(left[row * columns + column]);
                }
            }
        }
        if hold == u64::MAX {
            return slots;
        }
        slots.push(&matching, hold);
        for (row, &column) in matching.iter().enumerate().filter(|entry| *entry.1 >= 0) {
            let cell = &mut left[row * columns + column as usize];
            *cell -= hold;
            if *cell == 0 {
                wanted[row].remove(column as usize);
            }
        }
        first = (first + 1) % around;
    }
}
