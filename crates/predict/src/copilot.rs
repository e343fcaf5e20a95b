//! Copilot: the predictor of MixNet's appendix B.1.
//!
//! For each layer, P (experts x experts, entries in [0, 1], columns summing to one) minimizes
//!
//! ```text
//! sum over the window of w_i |Y_i - P X_i|^2                                  (equation 1)
//! ```
//!
//! where `X_i` and `Y_i` are the loads of the previous layer and of the layer itself at a step; the
//! prediction is P x. What the paper leaves open: the weights (here they fall by a fixed factor per
//! step, see `window`), how often P is fitted (here before every prediction, from the last P), and
//! the first steps (here as the last step did).
//!
//! The paper solves it by sequential least squares programming, which takes the cube of experts^2
//! variables per iteration. It is a convex problem over a product of simplices, and is solved here
//! by accelerated projected gradient (Beck and Teboulle, "A fast iterative shrinkage-thresholding
//! algorithm", 2009) with restarts (O'Donoghue and Candes, 2015): to its minimum, or for a given
//! number of iterations.

use crate::algebra::{add_rows, dot};
use crate::history::LoadHistory;
use crate::predictor::{LoadPredictor, MAX_WINDOW};
use crate::shares::{check_count, equal_shares};
use crate::simplex::project_simplex;
use crate::window::LoadWindow;
use lightloom_model::Invalid;
use std::collections::BTreeMap;

/// How far a fit goes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Effort {
    /// What errors call the predictor.
    name: &'static str,
    /// Maximum number of iterations.
    iterations: usize,
    /// The fit ends when no entry of P moves by more.
    tolerance: f64,
    /// Maximum number of experts: the time of an iteration grows with their square or cube.
    max_experts: usize,
}

impl Effort {
    /// To the minimum, as exactly as sums of doubles tell.
    pub const MINIMUM: Self =
        Self { name: "copilot", iterations: 20_000, tolerance: 1e-9, max_experts: 32 };

    /// Near the minimum in a bounded time.
    pub const QUICK: Self =
        Self { name: "copilot-gradient", iterations: 300, tolerance: 1e-5, max_experts: 512 };
}

/// Predicts P times the loads of the previous layer, P fitted over a window.
///
/// The first layer, which has no previous one, and a layer with a single step or none predict the
/// layer's last loads; the previous layer's, or uniform, at the very first.
#[derive(Debug)]
pub struct Copilot {
    history: LoadHistory,
    effort: Effort,
    window: usize,
    layers: BTreeMap<u32, Fit>,
}

impl Copilot {
    /// A predictor for so many experts, which fits so many steps.
    ///
    /// # Errors
    /// If there cannot be so many experts, or such a window.
    pub fn new(experts: usize, window: usize, effort: Effort) -> Result<Self, Invalid> {
        let history = LoadHistory::new(experts)?;
        let Effort { name, max_experts, .. } = effort;
        if experts > max_experts {
            return Err(Invalid(format!(
                "{name} takes at most {max_experts} experts, got {experts}: it fits experts^2 \
                 numbers; use ridge"
            )));
        }
        let window = check_count("window", window, 2, MAX_WINDOW)?;
        Ok(Self { history, effort, window, layers: BTreeMap::new() })
    }
}

impl LoadPredictor for Copilot {
    fn observe(&mut self, step: u64, layer: u32, loads: &[f64]) -> Result<(), Invalid> {
        let shares = self.history.add(step, layer, loads)?.to_vec();
        let Some(before) = self.history.before(step, layer) else { return Ok(()) };
        let experts = shares.len();
        let fit = self.layers.entry(layer).or_insert_with(|| Fit::new(self.window, experts));
        fit.window.add(before, &shares);
        fit.is_stale = true;
        Ok(())
    }

    fn predict(&mut self, step: u64, layer: u32) -> Result<Vec<f64>, Invalid> {
        self.history.check_open(step, layer)?;
        let fit = self.layers.get_mut(&layer).filter(|fit| fit.window.count() >= 2);
        let (Some(before), Some(fit)) = (self.history.before(step, layer), fit) else {
            return Ok(self.history.fall_back(step, layer));
        };
        let mut predicted = vec![0.0; before.len()];
        let columns = fit.columns(self.effort);
        add_rows(&mut predicted, before, |column| row_of(columns, column, before.len()));
        Ok(predicted)
    }
}

/// The pairs of a layer, and P as it was fitted last.
#[derive(Debug)]
struct Fit {
    window: LoadWindow,
    /// P, column after column.
    columns: Vec<f64>,
    /// Whether pairs came after P was fitted.
    is_stale: bool,
}

impl Fit {
    fn new(window: usize, experts: usize) -> Self {
        let columns = equal_shares(experts).repeat(experts);
        Self { window: LoadWindow::new(window, experts), columns, is_stale: true }
    }

    /// P, fitted to all pairs so far.
    fn columns(&mut self, effort: Effort) -> &[f64] {
        if self.is_stale {
            self.columns = minimize(&Problem::new(&self.window), self.columns.clone(), effort);
            self.is_stale = false;
        }
        &self.columns
    }
}

/// A row of a matrix.
fn row_of(matrix: &[f64], row: usize, size: usize) -> &[f64] {
    &matrix[row * size..(row + 1) * size]
}

/// Equation 1 of a window.
struct Problem<'a> {
    window: &'a LoadWindow,
    weights: Vec<f64>,
    form: Form,
}

/// How half the gradient, (P A - B) with `A = sum w_i X_i X_i'` and `B = sum w_i Y_i X_i'`, is
/// computed: the one that takes fewer operations.
enum Form {
    /// From A and the transpose of B.
    Moments { square: Vec<f64>, cross: Vec<f64> },
    /// As `sum w_i (P X_i - Y_i) X_i'`, from each pair.
    Pairs,
}

impl<'a> Problem<'a> {
    fn new(window: &'a LoadWindow) -> Self {
        let (weights, count, experts) = (window.weights(), window.count(), window.experts());
        if experts > 2 * count {
            return Self { window, weights, form: Form::Pairs };
        }
        let moment = |rows: &dyn Fn(usize) -> &'a [f64]| {
            let mut transition = vec![0.0; experts * experts];
            for (expert, total) in transition.chunks_exact_mut(experts).enumerate() {
                let weighted = |row: usize| weights[row] * window.input(row)[expert];
                let factors: Vec<f64> = (0..count).map(weighted).collect();
                add_rows(total, &factors, rows);
            }
            transition
        };
        let square = moment(&|row| window.input(row));
        let cross = moment(&|row| window.target(row));
        Self { window, weights, form: Form::Moments { square, cross } }
    }

    /// A step that never overshoots: one over the trace of A, which bounds its largest eigenvalue,
    /// and nearly is it, since loads point the same way.
    fn pace(&self) -> f64 {
        let trace: f64 = (self.weights.iter().enumerate())
            .map(|(row, weight)| weight * dot(self.window.input(row), self.window.input(row)))
            .sum();
        1.0 / trace
    }

    /// Half the gradient at P, column after column.
    fn slope(&self, columns: &[f64], slope: &mut [f64]) {
        let (experts, count) = (self.window.experts(), self.window.count());
        let wrong = match &self.form {
            Form::Moments { square, cross } => {
                for (expert, total) in slope.chunks_exact_mut(experts).enumerate() {
                    let negative = row_of(cross, expert, experts).iter().map(|value| -value);
                    total.iter_mut().zip(negative).for_each(|(sum, value)| *sum = value);
                    let factors = row_of(square, expert, experts);
                    add_rows(total, factors, |column| row_of(columns, column, experts));
                }
                return;
            }
            Form::Pairs => self.residuals(columns),
        };
        slope.fill(0.0);
        for (expert, total) in slope.chunks_exact_mut(experts).enumerate() {
            let weighted = |row: usize| self.weights[row] * self.window.input(row)[expert];
            let factors: Vec<f64> = (0..count).map(weighted).collect();
            add_rows(total, &factors, |row| row_of(&wrong, row, experts));
        }
    }

    /// `P X_i - Y_i` of each pair.
    fn residuals(&self, columns: &[f64]) -> Vec<f64> {
        let (experts, count) = (self.window.experts(), self.window.count());
        let mut wrong = Vec::with_capacity(count * experts);
        for row in 0..count {
            wrong.extend(self.window.target(row).iter().map(|value| -value));
            let total = &mut wrong[row * experts..];
            add_rows(total, self.window.input(row), |column| row_of(columns, column, experts));
        }
        wrong
    }
}

/// Minimizes equation 1 from P with columns in the simplex.
fn minimize(problem: &Problem<'_>, start: Vec<f64>, effort: Effort) -> Vec<f64> {
    let experts = problem.window.experts();
    let pace = problem.pace();
    let (mut slope, mut following, mut kept) = (start.clone(), start.clone(), Vec::new());
    let (mut current, mut extrapolated, mut momentum) = (start.clone(), start, 1.0_f64);
    for _ in 0..effort.iterations {
        problem.slope(&extrapolated, &mut slope);
        for (place, entry) in following.iter_mut().enumerate() {
            *entry = extrapolated[place] - pace * slope[place];
        }
        for column in following.chunks_exact_mut(experts) {
            project_simplex(column, &mut kept);
        }
        let (mut overshoot, mut largest) = (0.0, 0.0_f64);
        for (place, entry) in following.iter().enumerate() {
            let moved = entry - current[place];
            overshoot += (extrapolated[place] - entry) * moved;
            largest = largest.max(moved.abs());
        }
        if overshoot > 0.0 {
            momentum = 1.0;
        }
        let next_momentum = f64::midpoint(1.0, (1.0 + 4.0 * momentum * momentum).sqrt());
        let factor = (momentum - 1.0) / next_momentum;
        for (place, entry) in following.iter().enumerate() {
            extrapolated[place] = entry + factor * (entry - current[place]);
        }
        std::mem::swap(&mut current, &mut following);
        momentum = next_momentum;
        if largest <= effort.tolerance {
            break;
        }
    }
    current
}

#[cfg(test)]
mod tests;
