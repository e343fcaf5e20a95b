//! As few slots as possible.
//!
//! Pairs of one line are in different slots, so that there are at least as many slots as the
//! busiest line has peers, and that many are enough (König, 1916): the pairs, colored. Each slot
//! is held to its largest demand. What is left to be decided, which pairs share a slot, is up to
//! swaps (`improve`). A start for delays that outweigh the bytes (as MIN of Towles and Dally,
//! "Guaranteed scheduling for switches with configuration overhead", 2003).

use super::demand::Demand;
use super::slots::Slots;
use crate::coloring::{Bipartite, color_edges};

pub(super) fn decompose(demand: &Demand) -> Slots {
    let (rows, columns) = (demand.rows, demand.columns);
    let wanted = demand.bytes.iter().enumerate().filter(|&(_, &bytes)| bytes > 0);
    let pairs: Vec<(u32, u32)> =
        wanted.map(|(cell, _)| ((cell / columns) as u32, (cell % columns) as u32)).collect();
    let graph = Bipartite { left: rows as u32, right: columns as u32, edges: &pairs };
    let count = graph.max_degree() as usize;
    let colors = color_edges(&graph, count as u32).expect("as many colors as edges at a vertex");
    let mut slots = Slots { matchings: vec![-1; count * rows], holds: vec![0; count] };
    for (&(row, column), color) in pairs.iter().zip(colors) {
        let (row, slot) = (row as usize, color as usize);
        slots.matchings[slot * rows + row] = column as i32;
        let bytes = demand.bytes[row * columns + column as usize];
        slots.holds[slot] = slots.holds[slot].max(bytes);
    }
    slots
}
