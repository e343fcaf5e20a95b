//! The shortest holds of given matchings: a linear program.
//!
//! Minimize the sum of the holds h >= 0 where the slots of every pair are held for its bytes:
//! sum over its slots of `h_k` >= d. Pairs with one slot are lower bounds of that slot's hold, and
//! only what holds of pairs with several slots lack beyond these bounds is left: x >= 0 with sum
//! over its slots of `x_k` >= r. Its dual packs the pairs, with a row per slot, so that the simplex
//! method begins with nothing packed; the x are the prices of the rows, and the pair that is packed
//! next is the one whose slots these prices hold too short by most. Rows are a little more than 1,
//! each by another part, so that no step is in vain (Charnes, 1952). Floating point: whoever uses
//! the holds makes them whole.

use super::super::budget::Budget;
use super::super::demand::Demand;
use super::cover::Cover;

/// Slots of which some pair has several, up to which the program is solved: its basis takes the
/// square of that.
pub(super) const MAX_PROGRAM: usize = 2_048;

/// Bytes too few, as a part of the largest pair, that are none.
const TOLERANCE: f64 = 1e-9;

/// What is worth less is left to rounding.
const NO_WORTH: f64 = 1e-4;

/// Holds, and what is worth being served by further slots.
pub(super) struct Solution {
    /// In bytes, a slot each.
    pub holds: Vec<f64>,
    /// Cells, and by how much the sum of holds falls per byte that they want less.
    pub worth: Vec<(usize, f64)>,
}

/// The best holds, or good ones if there is no time for them; nothing if there are too many slots.
pub(super) fn solve(demand: &Demand, cover: &Cover, budget: &Budget) -> Option<Solution> {
    let mut slots_of = vec![(0_u32, 0_u32); demand.bytes.len()];
    for slot in 0..cover.len() {
        for cell in cover.pairs(slot) {
            slots_of[cell].0 += 1;
            slots_of[cell].1 = slot as u32;
        }
    }
    let scale = demand.bytes.iter().copied().max().unwrap_or(0).max(1) as f64;
    // Bounds of single slots, and whose they are.
    let mut bounds = vec![(0.0_f64, usize::MAX); cover.len()];
    for (cell, &(_, slot)) in slots_of.iter().enumerate().filter(|pair| pair.1.0 == 1) {
        let bytes = demand.bytes[cell] as f64 / scale;
        let bound = &mut bounds[slot as usize];
        if bytes > bound.0 {
            *bound = (bytes, cell);
        }
    }
    let mut program = Program::new(demand, cover, &slots_of, &bounds, scale);
    if program.lines > MAX_PROGRAM {
        return None;
    }
    let pivots = 50 * program.lines + 50;
    for _ in 0..pivots {
        if budget.is_late() || !program.step() {
            break;
        }
    }
    Some(program.solution(&bounds, scale))
}

/// A pair with several slots.
struct Pair {
    cell: usize,
    /// What it lacks, in the largest pair.
    lacks: f64,
    /// Its slots, as lines of the program.
    slots: std::ops::Range<usize>,
}

struct Program {
    /// Slots of pairs that lack something, which are the lines.
    lines: usize,
    slots: Vec<usize>,
    pairs: Vec<Pair>,
    members: Vec<u32>,
    /// Inverse of the basis, line after line, and the basic values.
    inverse: Vec<f64>,
    values: Vec<f64>,
    /// The pair that is basic in each line, or its slack.
    basis: Vec<Option<usize>>,
    prices: Vec<f64>,
    column: Vec<f64>,
}

impl Program {
    fn new(
        demand: &Demand,
        cover: &Cover,
        slots_of: &[(u32, u32)],
        bounds: &[(f64, usize)],
        scale: f64,
    ) -> Self {
        let mut lacks: Vec<f64> = demand.bytes.iter().map(|&bytes| bytes as f64 / scale).collect();
        for (slot, bound) in bounds.iter().enumerate().filter(|bound| bound.1.0 > 0.0) {
            cover.pairs(slot).for_each(|cell| lacks[cell] -= bound.0);
        }
        let open = |cell: usize| slots_of[cell].0 > 1 && lacks[cell] > TOLERANCE;
        let mut place = vec![usize::MAX; lacks.len()];
        let mut pairs = Vec::new();
        let mut end = 0;
        for cell in (0..lacks.len()).filter(|&cell| open(cell)) {
            place[cell] = pairs.len();
            pairs.push(Pair { cell, lacks: lacks[cell], slots: end..end });
            end += slots_of[cell].0 as usize;
        }
        let mut members = vec![0; end];
        let mut slots = Vec::new();
        for slot in 0..cover.len() {
            let before = slots.len() as u32;
            let mut used = false;
            for cell in cover.pairs(slot).filter(|&cell| place[cell] != usize::MAX) {
                let pair = &mut pairs[place[cell]];
                members[pair.slots.end] = before;
                pair.slots.end += 1;
                used = true;
            }
            if used {
                slots.push(slot);
            }
        }
        let lines = slots.len();
        let small = lines <= MAX_PROGRAM;
        let mut inverse = vec![0.0; if small { lines * lines } else { 0 }];
        inverse.iter_mut().step_by(lines + 1).for_each(|entry| *entry = 1.0);
        // Parts of the golden ratio are never equal.
        let part = |line: usize| (line as f64 * 0.618_033_988_749_895).fract();
        Self {
            lines,
            slots,
            pairs,
            members,
            inverse,
            values: (0..lines).map(|line| 1.0 + 1e-6 * part(line + 1)).collect(),
            basis: vec![None; lines],
            prices: vec![0.0; lines],
            column: vec![0.0; lines],
        }
    }

    /// One pivot; false if the holds are optimal.
    fn step(&mut self) -> bool {
        let Some((entering, reduced)) = self.entering() else { return false };
        let members = match &entering {
            Entering::Slack(line) => std::slice::from_ref(line),
            Entering::Pair(pair) => &self.members[self.pairs[*pair].slots.clone()],
        };
        for (entry, line) in self.column.iter_mut().zip(self.inverse.chunks_exact(self.lines)) {
            *entry = members.iter().map(|&member| line[member as usize]).sum();
        }
        let rates = self.column.iter().zip(&self.values).enumerate();
        let rates = rates.filter(|(_, (rate, _))| **rate > 1e-9);
        let ratios = rates.map(|(row, (rate, value))| (value / rate, row));
        let Some((ratio, row)) = ratios.min_by(|x, y| x.0.total_cmp(&y.0)) else { return false };
        self.pivot(row, ratio, reduced);
        self.basis[row] = match entering {
            Entering::Slack(_) => None,
            Entering::Pair(pair) => Some(pair),
        };
        true
    }

    /// What enters, and what a unit of it is worth: a price below 0, or the pair that lacks most.
    fn entering(&self) -> Option<(Entering, f64)> {
        let (mut worth, mut entering) = (TOLERANCE, None);
        for (line, &price) in (0..).zip(&self.prices) {
            if -price > worth {
                (worth, entering) = (-price, Some(Entering::Slack(line)));
            }
        }
        for (index, pair) in self.pairs.iter().enumerate() {
            let members = &self.members[pair.slots.clone()];
            let price: f64 = members.iter().map(|&member| self.prices[member as usize]).sum();
            if pair.lacks - price > worth {
                (worth, entering) = (pair.lacks - price, Some(Entering::Pair(index)));
            }
        }
        entering.map(|entering| (entering, worth))
    }

    fn pivot(&mut self, row: usize, ratio: f64, reduced: f64) {
        let lines = self.lines;
        let pivot = self.column[row];
        let (before, rest) = self.inverse.split_at_mut(row * lines);
        let (pivot_line, after) = rest.split_at_mut(lines);
        for entry in pivot_line.iter_mut() {
            *entry /= pivot;
        }
        for (price, entry) in self.prices.iter_mut().zip(pivot_line.iter()) {
            *price += reduced * entry;
        }
        let others = before.chunks_exact_mut(lines).chain(after.chunks_exact_mut(lines));
        let rates = self.column[..row].iter().chain(&self.column[row + 1..]);
        for (line, &rate) in others.zip(rates).filter(|pair| *pair.1 != 0.0) {
            for (entry, pivot_line) in line.iter_mut().zip(pivot_line.iter()) {
                *entry -= rate * pivot_line;
            }
        }
        for (value, rate) in self.values.iter_mut().zip(&self.column) {
            *value = (*value - rate * ratio).max(0.0);
        }
        self.values[row] = ratio;
    }

    fn solution(&self, bounds: &[(f64, usize)], scale: f64) -> Solution {
        let mut holds: Vec<f64> = bounds.iter().map(|bound| bound.0 * scale).collect();
        for (&slot, price) in self.slots.iter().zip(&self.prices) {
            holds[slot] += price.max(0.0) * scale;
        }
        // What the pairs of a slot leave of its row is what the pair of its bound is worth.
        let mut left = vec![1.0; holds.len()];
        let mut worth = Vec::new();
        for (basic, &value) in self.basis.iter().zip(&self.values) {
            if let Some(pair) = basic {
                let Pair { cell, slots, .. } = &self.pairs[*pair];
                worth.push((*cell, value));
                for &line in &self.members[slots.clone()] {
                    left[self.slots[line as usize]] -= value;
                }
            }
        }
        let served = bounds.iter().zip(left).filter(|(bound, _)| bound.0 > 0.0);
        worth.extend(served.map(|(bound, left)| (bound.1, left)));
        worth.retain(|pair| pair.1 > NO_WORTH);
        Solution { holds, worth }
    }
}

enum Entering {
    /// The slack of a line.
    Slack(u32),
    Pair(usize),
}
