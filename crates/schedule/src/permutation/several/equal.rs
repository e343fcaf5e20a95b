//! Slots of equal holds: every switch is set equally often, and held equally long.
//!
//! If every pair is divided into parts of at most h bytes, and no line has more than q s parts,
//! then q s slots of hold h suffice (König, 1916: the parts, colored), q on each of s switches. For
//! one slot per switch the least such h is the optimum; for few slots it is close to it, where
//! placing the slots of one crossbar must divide them. The least h is found by halving.

use super::super::demand::Demand;
use super::super::slots::Slots;
use crate::coloring::{Bipartite, color_edges};

/// Slots of the least equal hold if a line may be in no more than `count`, which is no less than
/// its peers. O(lines^2 log bytes + parts log count).
pub(super) fn equal_slots(demand: &Demand, count: usize) -> Option<Slots> {
    let (rows, columns) = (demand.rows, demand.columns);
    let hold = smallest_hold(demand, count)?;
    let mut pairs: Vec<(u32, u32)> = Vec::new();
    for (cell, &bytes) in demand.bytes.iter().enumerate() {
        let pair = ((cell / columns) as u32, (cell % columns) as u32);
        pairs.extend(std::iter::repeat_n(pair, bytes.div_ceil(hold) as usize));
    }
    let graph = Bipartite { left: rows as u32, right: columns as u32, edges: &pairs };
    let colors = color_edges(&graph, count as u32).expect("as many colors as parts of a line");
    let mut slots = Slots { matchings: vec![-1; count * rows], holds: vec![hold; count] };
    for (&(row, column), color) in pairs.iter().zip(colors) {
        slots.matchings[color as usize * rows + row as usize] = column as i32;
    }
    Some(slots)
}

/// The least hold with which no line needs more than `count` slots.
fn smallest_hold(demand: &Demand, count: usize) -> Option<u64> {
    let largest = demand.bytes.iter().copied().max().filter(|&bytes| bytes > 0)?;
    if !suffices(demand, count, largest) {
        return None;
    }
    let (mut low, mut high) = (1, largest);
    while low < high {
        let hold = u64::midpoint(low, high);
        if suffices(demand, count, hold) {
            high = hold;
        } else {
            low = hold + 1;
        }
    }
    Some(low)
}

fn suffices(demand: &Demand, count: usize, hold: u64) -> bool {
    let count = count as u64;
    let mut in_column = vec![0_u64; demand.columns];
    for row in demand.bytes.chunks_exact(demand.columns) {
        let mut in_row = 0;
        for (sum, &bytes) in in_column.iter_mut().zip(row) {
            let parts = bytes.div_ceil(hold);
            in_row += parts;
            *sum += parts;
        }
        if in_row > count {
            return false;
        }
    }
    in_column.into_iter().all(|parts| parts <= count)
}
