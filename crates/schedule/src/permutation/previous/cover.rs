//! Which slots serve which pair.

use super::super::demand::Demand;
use super::super::fewest;
use super::super::slots::Slots;

pub(super) const NOBODY: i32 = -1;

/// Slots of pairs that want something, and the pairs of slots.
#[derive(Clone)]
pub(super) struct Cover {
    /// Column that each row is joined to, or -1; slot after slot.
    pub matchings: Vec<i32>,
    /// The earlier holds; nothing of slots that are new.
    pub holds: Vec<u64>,
    /// Slots that the earlier schedule has; others come after them.
    kept: usize,
    rows: usize,
    columns: usize,
    /// Whether a column is joined; slot after slot.
    taken: Vec<bool>,
}

impl Cover {
    /// The circuits of a schedule between lines that want something of each other.
    pub(super) fn new(demand: &Demand, previous: &Slots) -> Self {
        let (rows, columns) = (demand.rows, demand.columns);
        let (matchings, holds, taken) = (Vec::new(), Vec::new(), Vec::new());
        let kept = previous.len();
        let mut cover = Self { matchings, holds, kept, rows, columns, taken };
        // No slot need last longer than its largest pair.
        let largest = demand.bytes.iter().copied().max().unwrap_or(0);
        let matchings = previous.matchings.chunks_exact(rows.max(1));
        for (matching, &hold) in matchings.zip(&previous.holds) {
            cover.push(hold.min(largest));
            let slot = cover.holds.len() - 1;
            for (row, &column) in matching.iter().enumerate().filter(|pair| *pair.1 >= 0) {
                if demand.bytes[row * columns + column as usize] > 0 {
                    cover.join(slot, row, column as usize);
                }
            }
        }
        cover
    }

    fn push(&mut self, hold: u64) {
        self.matchings.resize(self.matchings.len() + self.rows, NOBODY);
        self.taken.resize(self.taken.len() + self.columns, false);
        self.holds.push(hold);
    }

    fn join(&mut self, slot: usize, row: usize, column: usize) {
        self.matchings[slot * self.rows + row] = column as i32;
        self.taken[slot * self.columns + column] = true;
    }

    fn is_idle(&self, slot: usize, row: usize, column: usize) -> bool {
        self.matchings[slot * self.rows + row] == NOBODY
            && !self.taken[slot * self.columns + column]
    }

    pub(super) fn len(&self) -> usize {
        self.holds.len()
    }

    /// Cells of the pairs of a slot.
    pub(super) fn pairs(&self, slot: usize) -> impl Iterator<Item = usize> + '_ {
        let matching = &self.matchings[slot * self.rows..(slot + 1) * self.rows];
        let joined = matching.iter().enumerate().filter(|pair| *pair.1 >= 0);
        joined.map(|(row, &column)| row * self.columns + column as usize)
    }

    /// Whether the earlier schedule has a slot.
    pub(super) fn is_kept(&self, slot: usize) -> bool {
        slot < self.kept
    }

    /// Column that each row is joined to in a slot, or -1.
    pub(super) fn matching(&self, slot: usize) -> &[i32] {
        &self.matchings[slot * self.rows..(slot + 1) * self.rows]
    }

    /// Adds a slot after all others.
    pub(super) fn add(&mut self, matching: &[i32]) {
        self.push(0);
        for (row, &column) in matching.iter().enumerate().filter(|pair| *pair.1 >= 0) {
            self.join(self.len() - 1, row, column as usize);
        }
    }

    /// Gives every pair a slot.
    pub(super) fn serve_all(&mut self, demand: &Demand) {
        let mut left = demand.bytes.to_vec();
        for slot in 0..self.len() {
            self.pairs(slot).for_each(|cell| left[cell] = 0);
        }
        let mut cells: Vec<usize> = (0..left.len()).filter(|&cell| left[cell] > 0).collect();
        cells.sort_by_key(|&cell| std::cmp::Reverse(left[cell]));
        for cell in cells {
            let (row, column) = (cell / self.columns, cell % self.columns);
            let idle = (0..self.len()).filter(|&slot| self.is_idle(slot, row, column));
            // The shortest hold that is enough, or else the longest.
            let enough = |hold: u64| hold >= left[cell];
            let slot = idle.min_by_key(|&slot| {
                let hold = self.holds[slot];
                (!enough(hold), if enough(hold) { hold } else { u64::MAX - hold })
            });
            if let Some(slot) = slot {
                self.join(slot, row, column);
                left[cell] = 0;
            }
        }
        let added = fewest::decompose(&Demand { bytes: &left, ..*demand });
        self.matchings.extend_from_slice(&added.matchings);
        self.holds.resize(self.holds.len() + added.len(), 0);
        for matching in added.matchings.chunks_exact(self.rows.max(1)) {
            let from = self.taken.len();
            self.taken.resize(from + self.columns, false);
            for &column in matching.iter().filter(|&&column| column >= 0) {
                self.taken[from + column as usize] = true;
            }
        }
    }

    /// Joins idle ports for what is worth most; false if none can be.
    pub(super) fn join_idle(&mut self, demand: &Demand, worth: &[(usize, f64)]) -> bool {
        debug_assert_eq!(demand.rows, self.rows);
        let mut cells: Vec<(usize, f64)> = worth.to_vec();
        cells.sort_by(|x, y| y.1.total_cmp(&x.1).then(x.0.cmp(&y.0)));
        let mut joined = false;
        for slot in 0..self.len() {
            for &(cell, _) in &cells {
                let (row, column) = (cell / self.columns, cell % self.columns);
                if self.is_idle(slot, row, column) {
                    self.join(slot, row, column);
                    joined = true;
                }
            }
        }
        joined
    }

    /// Bytes that each pair could send with these holds.
    pub(super) fn served(&self, holds: &[u64]) -> Vec<u64> {
        let mut served = vec![0_u64; self.rows * self.columns];
        for (slot, &hold) in holds.iter().enumerate() {
            self.pairs(slot).for_each(|cell| served[cell] = served[cell].saturating_add(hold));
        }
        served
    }
}
