//! A window of the latest pairs (loads of one layer, loads of the next), oldest overwritten.

use crate::algebra::dot;

/// Weight of a pair over that of the next newer one; the paper says "weighted" and no more.
const DECAY: f64 = 0.95;

/// Inputs and targets of the last steps, with the inputs' Gram matrix. Rows are in no order of age.
#[derive(Debug)]
pub(crate) struct LoadWindow {
    size: usize,
    experts: usize,
    /// Rows in use.
    count: usize,
    /// `count` rows, one after another.
    inputs: Vec<f64>,
    /// `count` rows of targets, likewise.
    targets: Vec<f64>,
    /// Dot products of inputs, `size x size`.
    gram: Vec<f64>,
    /// Row that is overwritten next.
    next: usize,
}

impl LoadWindow {
    /// An empty window of so many pairs.
    pub(crate) fn new(size: usize, experts: usize) -> Self {
        let gram = vec![0.0; size * size];
        Self { size, experts, count: 0, inputs: Vec::new(), targets: Vec::new(), gram, next: 0 }
    }

    /// Number of experts.
    pub(crate) fn experts(&self) -> usize {
        self.experts
    }

    /// Rows in use.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// A row of inputs.
    pub(crate) fn input(&self, row: usize) -> &[f64] {
        &self.inputs[row * self.experts..(row + 1) * self.experts]
    }

    /// A row of targets.
    pub(crate) fn target(&self, row: usize) -> &[f64] {
        &self.targets[row * self.experts..(row + 1) * self.experts]
    }

    /// The dot products of an input with the inputs in use.
    pub(crate) fn gram(&self, row: usize) -> &[f64] {
        &self.gram[row * self.size..row * self.size + self.count()]
    }

    /// Puts a pair in the place of the oldest.
    pub(crate) fn add(&mut self, input: &[f64], target: &[f64]) {
        let (size, place) = (self.size, self.next);
        if self.count() < size {
            self.inputs.extend_from_slice(input);
            self.targets.extend_from_slice(target);
            self.count += 1;
        } else {
            let row = place * self.experts..(place + 1) * self.experts;
            self.inputs[row.clone()].copy_from_slice(input);
            self.targets[row].copy_from_slice(target);
        }
        for other in 0..self.count() {
            let product = dot(self.input(other), input);
            self.gram[place * size + other] = product;
            self.gram[other * size + place] = product;
        }
        self.next = (place + 1) % size;
    }

    /// Weights of the rows in use, summing to one, falling with age.
    pub(crate) fn weights(&self) -> Vec<f64> {
        let age = |row: usize| (self.next + self.size - 1 - row) % self.size;
        let mut weights: Vec<f64> =
            (0..self.count()).map(|row| DECAY.powf(age(row) as f64)).collect();
        let total: f64 = weights.iter().sum();
        for weight in &mut weights {
            *weight /= total;
        }
        weights
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_keeps_the_latest_pairs_with_falling_weights() {
        for steps in [1_usize, 3, 5, 6, 12] {
            let mut window = LoadWindow::new(5, 2);
            for step in 0..steps {
                window.add(&[step as f64, 1.0], &[2.0 * step as f64, 3.0]);
            }
            let count = steps.min(5);
            assert_eq!(window.count(), count);
            let weights = window.weights();
            let mut rows: Vec<usize> = (0..count).collect();
            rows.sort_by(|&one, &other| weights[other].total_cmp(&weights[one]));
            for (age, &row) in rows.iter().enumerate() {
                let step = (steps - 1 - age) as f64;
                assert_eq!(window.input(row), [step, 1.0]);
                assert_eq!(window.target(row), [2.0 * step, 3.0]);
                let newest = weights[rows[0]];
                assert!((weights[row] - newest * 0.95_f64.powf(age as f64)).abs() < 1e-15);
                for other in 0..count {
                    let product = dot(window.input(row), window.input(other));
                    assert!((window.gram(row)[other] - product).abs() < 1e-12);
                }
            }
            assert!((weights.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        }
    }
}
