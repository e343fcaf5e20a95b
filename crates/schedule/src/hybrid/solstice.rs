//! Solstice (Liu et al., `CoNEXT` 2015), as printed: stuff, slice, leave the rest to packets.
//!
//! `QuickStuff` raises entries, those with bytes first, until all lines are equally long. Each slot
//! is a perfect matching of entries no smaller than a threshold (`BigSlice`), held for its smallest
//! entry; the threshold is a power of two that is halved when there is none. It ends as soon as no
//! line has more left than the packet switch carries in the time that the slots take.

use super::budget::HybridBudget;
use super::demand::HybridDemand;
use crate::permutation::Slots;

const NOBODY: usize = usize::MAX;

/// The slots, or nothing if the budget is spent before.
pub(super) fn slots(demand: &HybridDemand, budget: &HybridBudget) -> Option<Slots> {
    let lines = demand.rows.max(demand.columns);
    let mut stuffed = quick_stuff(demand, lines);
    let mut left = demand.bytes.to_vec();
    let mut slots = Slots::default();
    let largest = stuffed.iter().copied().max().unwrap_or(0);
    let mut threshold = (largest / 2 + 1).next_power_of_two();
    let mut slicer = Slicer::new(lines);
    let mut time = 0;
    while demand.line_sums(&left).into_iter().any(|sum| sum > demand.eps_bytes(time)) {
        if budget.is_spent() {
            return None;
        }
        let Some(columns) = slicer.slice(&stuffed, threshold) else {
            assert!(threshold > 1, "equal lines have a perfect matching (Birkhoff)");
            threshold /= 2;
            continue;
        };
        let cell = |(row, &column): (usize, &usize)| row * lines + column;
        let cells: Vec<usize> = columns.iter().enumerate().map(cell).collect();
        let hold = cells.iter().map(|&cell| stuffed[cell]).min().expect("there are lines");
        for cell in cells {
            stuffed[cell] -= hold;
        }
        let mut matching = vec![-1; demand.rows];
        for (row, to) in matching.iter_mut().enumerate() {
            if columns[row] < demand.columns {
                let cell = &mut left[row * demand.columns + columns[row]];
                *to = if *cell > 0 { columns[row] as i32 } else { -1 };
                *cell = cell.saturating_sub(hold);
            }
        }
        time += hold + demand.delay;
        slots.matchings.extend(matching);
        slots.holds.push(hold);
    }
    Some(slots)
}

/// A square matrix, no entry of which is smaller, whose lines are all as long as the longest.
fn quick_stuff(demand: &HybridDemand, lines: usize) -> Vec<u64> {
    let mut stuffed = vec![0; lines * lines];
    let (mut rows, mut columns) = (vec![0_u64; lines], vec![0_u64; lines]);
    for (cell, &bytes) in demand.bytes.iter().enumerate() {
        let (row, column) = (cell / demand.columns, cell % demand.columns);
        stuffed[row * lines + column] = bytes;
        rows[row] += bytes;
        columns[column] += bytes;
    }
    let longest = rows.iter().chain(&columns).copied().max().unwrap_or(0);
    for with_bytes in [true, false] {
        for (cell, entry) in stuffed.iter_mut().enumerate() {
            if (*entry > 0) == with_bytes {
                let (row, column) = (cell / lines, cell % lines);
                let more = longest - rows[row].max(columns[column]);
                *entry += more;
                rows[row] += more;
                columns[column] += more;
            }
        }
    }
    stuffed
}

/// Perfect matchings above a threshold, each started from the one before.
struct Slicer {
    column_of: Vec<usize>,
    row_of: Vec<usize>,
    seen: Vec<bool>,
}

impl Slicer {
    fn new(lines: usize) -> Self {
        Self {
            column_of: vec![NOBODY; lines],
            row_of: vec![NOBODY; lines],
            seen: vec![false; lines],
        }
    }

    /// Column of each row, if all rows can be joined by entries of at least `threshold`.
    fn slice(&mut self, stuffed: &[u64], threshold: u64) -> Option<Vec<usize>> {
        let lines = self.column_of.len();
        for row in 0..lines {
            let column = self.column_of[row];
            if column != NOBODY && stuffed[row * lines + column] < threshold {
                self.column_of[row] = NOBODY;
                self.row_of[column] = NOBODY;
            }
        }
        for row in 0..lines {
            if self.column_of[row] == NOBODY {
                self.seen.fill(false);
                if !self.augment(stuffed, threshold, row) {
                    return None;
                }
            }
        }
        Some(self.column_of.clone())
    }

    fn augment(&mut self, stuffed: &[u64], threshold: u64, row: usize) -> bool {
        let lines = self.column_of.len();
        for column in 0..lines {
            if self.seen[column] || stuffed[row * lines + column] < threshold {
                continue;
            }
            self.seen[column] = true;
            let other = self.row_of[column];
            if other == NOBODY || self.augment(stuffed, threshold, other) {
                self.row_of[column] = row;
                self.column_of[row] = column;
                return true;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::super::demand::PortRates;
    use super::*;
    use lightloom_model::Rate;

    const RATES: PortRates = PortRates { circuit: Rate(10), eps: Rate(1) };

    #[test]
    fn stuffing_makes_all_lines_as_long_as_the_longest_and_shortens_no_entry() {
        let bytes = [0, 9, 0, 2, 0, 3, 0, 0, 0, 1, 0, 0];
        let demand = HybridDemand::new(3, 4, &bytes, 1, RATES).unwrap();
        let stuffed = quick_stuff(&demand, 4);
        for line in 0..4 {
            assert_eq!(stuffed[line * 4..][..4].iter().sum::<u64>(), 13);
            assert_eq!(stuffed.iter().skip(line).step_by(4).sum::<u64>(), 13);
        }
        assert!(bytes.iter().zip(&stuffed).all(|(given, more)| more >= given));
        // entries with bytes are raised first: (0, 3) by what row 0 lacks
        assert_eq!(stuffed[3], 4);
    }

    #[test]
    fn a_slice_is_perfect_and_above_the_threshold_or_there_is_none() {
        let mut slicer = Slicer::new(2);
        assert_eq!(slicer.slice(&[4, 1, 1, 4], 4), Some(vec![0, 1]));
        assert_eq!(slicer.slice(&[1, 4, 4, 1], 4), Some(vec![1, 0]));
        assert_eq!(slicer.slice(&[4, 4, 1, 1], 2), None);
        assert_eq!(slicer.slice(&[4, 4, 1, 1], 1).map(|columns| columns.len()), Some(2));
    }

    /// One heavy shift of 8 bytes and a light one of 1: the EPS carries the light one.
    #[test]
    fn slots_end_when_packets_can_carry_the_rest() {
        let bytes = [0, 80, 8, 8, 0, 80, 80, 8, 0];
        let demand = HybridDemand::new(3, 3, &bytes, 2, RATES).unwrap();
        let sliced = slots(&demand, &HybridBudget::USUAL).expect("no limit");
        assert_eq!(
            (sliced.matchings.as_slice(), sliced.holds.as_slice()),
            (&[1, 2, 0][..], &[80][..])
        );
    }
}
