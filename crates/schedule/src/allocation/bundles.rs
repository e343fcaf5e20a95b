//! Circuits for pairs that must not split, by a given time: whole bundles or nothing.
//!
//! By time T a pair needs `ceil(D / (B T))` circuits, and fewer are of no use to it. So pairs
//! compete with what their bundle takes off lines that are over their EPS budget, per circuit.
//! Adding circuits one by one, as the local search does, cannot see a bundle's worth before the
//! last circuit.

use std::collections::BinaryHeap;

use super::problem::{Circuits, Problem};

/// Bundles by falling gain per circuit, as far as ports go.
///
/// Gains only fall as other bundles take lines back within their budgets, so a gain that was
/// worked out earlier is an upper bound: only the foremost pair need be looked at again.
pub fn bundles(problem: &Problem, time: f64) -> Circuits {
    let n = problem.n;
    let mut lines = Lines::new(problem, time);
    let carry = problem.circuit * time;
    let mut circuits = problem.no_circuits();
    let mut queue = BinaryHeap::new();
    for a in 0..n {
        for b in a + 1..n {
            let larger = problem.larger(a, b);
            let need = (larger / carry).ceil() as u32;
            let room = circuits.free[a].min(circuits.free[b]);
            if larger > 0.0 && need <= room && problem.may_join(a, b) {
                queue.push(Bundle { gain: lines.gain(problem, a, b, need), a, b, need });
            }
        }
    }
    while let Some(bundle) = queue.pop() {
        let Bundle { a, b, need, .. } = bundle;
        if circuits.is_full() || bundle.gain <= 0.0 {
            break;
        }
        if circuits.free[a].min(circuits.free[b]) < need {
            continue;
        }
        let gain = lines.gain(problem, a, b, need);
        if queue.peek().is_some_and(|next| next.gain > gain) {
            queue.push(Bundle { gain, ..bundle });
        } else if gain > 0.0 {
            (0..need).for_each(|_| circuits.add(a, b));
            lines.relieve(problem, a, b);
        }
    }
    circuits
}

/// Bytes of each line beyond its EPS budget; negative if there is room.
struct Lines {
    tx: Vec<f64>,
    rx: Vec<f64>,
}

impl Lines {
    fn new(problem: &Problem, time: f64) -> Self {
        let over = |cells: &[f64]| -> Vec<f64> {
            let rows = cells.chunks(problem.n).zip(&problem.eps);
            rows.map(|(row, eps)| row.iter().sum::<f64>() - eps * time).collect()
        };
        Self { tx: over(&problem.tx), rx: over(&problem.rx) }
    }

    /// Bytes over budget that the pair's bundle saves, per circuit.
    fn gain(&self, problem: &Problem, a: usize, b: usize, need: u32) -> f64 {
        let (out, back) = (problem.tx[a * problem.n + b], problem.rx[a * problem.n + b]);
        let saved = |bytes: f64, over: f64| bytes.min(over).max(0.0);
        let sum = saved(out, self.tx[a])
            + saved(out, self.rx[b])
            + saved(back, self.tx[b])
            + saved(back, self.rx[a]);
        sum / f64::from(need)
    }

    fn relieve(&mut self, problem: &Problem, a: usize, b: usize) {
        let (out, back) = (problem.tx[a * problem.n + b], problem.rx[a * problem.n + b]);
        self.tx[a] -= out;
        self.rx[b] -= out;
        self.tx[b] -= back;
        self.rx[a] -= back;
    }
}

/// Ordered by gain, then by lower indices.
struct Bundle {
    gain: f64,
    a: usize,
    b: usize,
    need: u32,
}

impl Ord for Bundle {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.gain.total_cmp(&other.gain).then_with(|| (other.a, other.b).cmp(&(self.a, self.b)))
    }
}

impl PartialOrd for Bundle {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Bundle {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Bundle {}
