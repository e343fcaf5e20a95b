//! The best holds of given matchings: a linear program, solved by cuts.
//!
//! With K slots of holds h, the length is T = K delay + sum h, and what circuits leave of a line
//! must fit into what packets carry: sum over its pairs of max(0, demand - holds of the pair) <=
//! share T. That is convex, and equal to a cut per set U of pairs of a line:
//!
//! ```text
//! sum_k h_k (share + [slot k serves a pair of U]) >= demand(U) - share K delay
//! ```
//!
//! The dual packs: maximize the cuts' right sides times y, none of which is negative, where the
//! column of each slot is at most 1. Nothing packed is feasible, the holds are the prices of the
//! rows, and the cut that enters is the one that the present holds violate most: that of the line
//! with most bytes too many, U its pairs with bytes left. Floating point; whoever uses the holds
//! measures the length exactly.

use super::budget::HybridBudget;
use super::demand::HybridDemand;
use crate::permutation::Slots;

/// Violations below this share of the longest line are none.
const TOLERANCE: f64 = 1e-9;

/// Holds of each slot, and what the pairs are worth.
pub(super) struct BestHolds {
    /// In bytes, zero where a slot is not needed.
    pub holds: Vec<f64>,
    /// How much the length falls per byte of a pair that a further slot would serve.
    pub values: Vec<f64>,
}

/// A cut: a line and its pairs with bytes left.
#[derive(Clone)]
struct Cut {
    side: f64,
    cells: Vec<u32>,
}

/// Solves the linear program and says in how many steps; after `pivots` it returns what it has.
/// Nothing if the budget is spent before.
pub(super) fn best_holds(
    demand: &HybridDemand,
    slots: &Slots,
    pivots: usize,
    budget: &HybridBudget,
) -> Option<(BestHolds, usize)> {
    let longest = demand.line_sums(demand.bytes).into_iter().max().unwrap_or(0).max(1) as f64;
    let mut program = Program::new(demand, slots, longest);
    let mut steps = 0;
    while steps < pivots && program.step() {
        if budget.is_spent() {
            return None;
        }
        steps += 1;
    }
    Some((program.result(), steps))
}

struct Program<'a> {
    demand: &'a HybridDemand<'a>,
    /// Cells of each slot.
    pairs: Vec<Vec<u32>>,
    scale: f64,
    delays: f64,
    /// Inverse of the basis, a row per slot, and the basic values.
    inverse: Vec<Vec<f64>>,
    values: Vec<f64>,
    /// What is basic in each row: a cut, or slack.
    basis: Vec<Option<Cut>>,
    prices: Vec<f64>,
}

impl<'a> Program<'a> {
    fn new(demand: &'a HybridDemand, slots: &Slots, scale: f64) -> Self {
        let count = slots.holds.len();
        let cells = |matching: &[i32]| {
            let pairs = matching.iter().enumerate().filter(|pair| *pair.1 >= 0);
            pairs.map(|(row, &column)| (row * demand.columns) as u32 + column as u32).collect()
        };
        let unit = |row: usize| (0..count).map(|k| f64::from(u8::from(k == row))).collect();
        Self {
            demand,
            pairs: slots.matchings.chunks_exact(demand.rows.max(1)).map(cells).collect(),
            scale,
            delays: count as f64 * demand.delay as f64 / scale,
            inverse: (0..count).map(unit).collect(),
            values: vec![1.0; count],
            basis: vec![None; count],
            prices: vec![0.0; count],
        }
    }

    /// One pivot; false if the holds are optimal.
    fn step(&mut self) -> bool {
        let (column, cut) = match self.negative() {
            // A hold below nothing: its slack enters.
            Some(slot) => (self.inverse.iter().map(|line| line[slot]).collect::<Vec<f64>>(), None),
            None => match self.violated() {
                Some(cut) => (self.transform(&cut), Some(cut)),
                None => return false,
            },
        };
        let mut leaving: Option<(f64, usize)> = None;
        for (row, &rate) in column.iter().enumerate().filter(|entry| *entry.1 > 1e-9) {
            let ratio = self.values[row] / rate;
            let larger = |other: usize| rate > column[other];
            let better = leaving.is_none_or(|(known, other)| {
                ratio < known - 1e-12 || (ratio < known + 1e-12 && larger(other))
            });
            if better {
                leaving = Some((ratio, row));
            }
        }
        let Some((_, row)) = leaving else { return false };
        self.pivot(row, &column, cut);
        true
    }

    fn negative(&self) -> Option<usize> {
        let below = self.prices.iter().enumerate().filter(|entry| *entry.1 < -TOLERANCE);
        below.min_by(|x, y| x.1.total_cmp(y.1)).map(|entry| entry.0)
    }

    /// The cut of the line with most bytes too many, if there are any.
    fn violated(&self) -> Option<Cut> {
        let demand = self.demand;
        let mut left: Vec<f64> = demand.bytes.iter().map(|&b| b as f64 / self.scale).collect();
        for (pairs, hold) in self.pairs.iter().zip(&self.prices) {
            for &cell in pairs {
                left[cell as usize] -= hold;
            }
        }
        let mut sums = vec![0.0; demand.lines()];
        for (cell, &bytes) in left.iter().enumerate().filter(|pair| *pair.1 > 0.0) {
            for line in demand.lines_of(cell) {
                sums[line] += bytes;
            }
        }
        let longer = |x: &(usize, &f64), y: &(usize, &f64)| x.1.total_cmp(y.1);
        let (line, &sum) = sums.iter().enumerate().max_by(longer)?;
        let time = self.delays + self.prices.iter().sum::<f64>();
        if sum <= demand.share() * time + TOLERANCE {
            return None;
        }
        let on_line = |cell: &usize| demand.lines_of(*cell).contains(&line);
        let open = (0..left.len()).filter(|&cell| left[cell] > 0.0).filter(on_line);
        let cells: Vec<u32> = open.map(|cell| cell as u32).collect();
        let bytes = cells.iter().map(|&cell| demand.bytes[cell as usize] as f64 / self.scale);
        Some(Cut { side: bytes.sum::<f64>() - demand.share() * self.delays, cells })
    }

    /// A cut's column in terms of the basis.
    fn transform(&self, cut: &Cut) -> Vec<f64> {
        let mut member = vec![false; self.demand.bytes.len()];
        for &cell in &cut.cells {
            member[cell as usize] = true;
        }
        let serves = |pairs: &Vec<u32>| pairs.iter().any(|&cell| member[cell as usize]);
        let share = self.demand.share();
        let entry = |pairs| share + f64::from(u8::from(serves(pairs)));
        let column: Vec<f64> = self.pairs.iter().map(entry).collect();
        let product = |line: &Vec<f64>| line.iter().zip(&column).map(|(x, y)| x * y).sum();
        self.inverse.iter().map(product).collect()
    }

    fn pivot(&mut self, row: usize, column: &[f64], cut: Option<Cut>) {
        let pivot = column[row];
        self.values[row] /= pivot;
        let value = self.values[row];
        let mut line = std::mem::take(&mut self.inverse[row]);
        for entry in &mut line {
            *entry /= pivot;
        }
        for (other, &rate) in column.iter().enumerate() {
            if other != row && rate != 0.0 {
                self.values[other] = (self.values[other] - rate * value).max(0.0);
                for (entry, own) in self.inverse[other].iter_mut().zip(&line) {
                    *entry -= rate * own;
                }
            }
        }
        self.inverse[row] = line;
        self.basis[row] = cut;
        self.prices.fill(0.0);
        for (line, cut) in self.inverse.iter().zip(&self.basis) {
            if let Some(cut) = cut {
                for (price, entry) in self.prices.iter_mut().zip(line) {
                    *price += cut.side * entry;
                }
            }
        }
    }

    fn result(&self) -> BestHolds {
        let holds = self.prices.iter().map(|price| price.max(0.0) * self.scale).collect();
        let mut values = vec![0.0; self.demand.bytes.len()];
        for (cut, value) in self.basis.iter().zip(&self.values) {
            for &cell in cut.iter().flat_map(|cut| &cut.cells) {
                values[cell as usize] += value;
            }
        }
        BestHolds { holds, values }
    }
}

/// The slots with these holds in whole bytes; those that are not held are left out.
pub(super) fn with_holds(demand: &HybridDemand, slots: &Slots, holds: &[f64]) -> Slots {
    let mut rounded = Slots::default();
    for (matching, hold) in slots.matchings.chunks_exact(demand.rows.max(1)).zip(holds) {
        // Not for rounding alone.
        if *hold > 1e-6 {
            rounded.matchings.extend_from_slice(matching);
            rounded.holds.push((hold - 1e-6).ceil() as u64);
        }
    }
    rounded
}
