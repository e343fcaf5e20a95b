//! Kernel ridge regression over a window of pairs.
//!
//! Centered, with weights w that fall with age, for a new input x:
//!
//! ```text
//! q + Y_c' W^(1/2) (K + r tr(K)/k I)^-1 W^(1/2) X_c (x - mean x)
//! K = W^(1/2) X_c X_c' W^(1/2)
//! ```
//!
//! X and Y are the inputs and targets, `(k, experts)`, q and mean x their weighted means. This is
//! ridge regression on a transition matrix without ever writing down its experts x experts entries:
//! one k x k system instead (Saunders, Gammerman and Vovk, ICML 1998).

use crate::algebra::{add_rows, dot, solve_positive};
use crate::window::LoadWindow;

/// Targets that a window suggests for a new input, by ridge regression of each strength; the mean
/// of the targets where all inputs were the same.
///
/// A strength is over the mean eigenvalue of K, and above 0.
pub(crate) fn fit(window: &LoadWindow, input: &[f64], strengths: &[f64]) -> Vec<Vec<f64>> {
    let (count, weights) = (window.count(), window.weights());
    let mut mean = vec![0.0; window.experts()];
    add_rows(&mut mean, &weights, |row| window.target(row));
    // centering in the kernel: <a - m, b - m> = <a, b> - <a, m> - <m, b> + <m, m>
    let with_mean: Vec<f64> = (0..count).map(|row| dot(window.gram(row), &weights)).collect();
    let square = dot(&weights, &with_mean);
    let new: Vec<f64> = (0..count).map(|row| dot(window.input(row), input)).collect();
    let new_with_mean = dot(&weights, &new);
    let roots: Vec<f64> = weights.iter().map(|weight| weight.sqrt()).collect();
    let mut kernel = vec![0.0; count * count];
    for (row, entries) in kernel.chunks_exact_mut(count).enumerate() {
        let shift = square - with_mean[row];
        let columns = window.gram(row).iter().zip(&with_mean).zip(&roots);
        for (entry, ((product, mean), root)) in entries.iter_mut().zip(columns) {
            *entry = (product - mean + shift) * roots[row] * root;
        }
    }
    let size = (0..count).map(|row| kernel[row * count + row]).sum::<f64>() / count as f64;
    let trace: f64 = (0..count).map(|row| window.gram(row)[row]).sum();
    let right: Vec<f64> = (0..count)
        .map(|row| roots[row] * (new[row] - with_mean[row] - new_with_mean + square))
        .collect();
    let solve = |&strength: &f64| {
        let mut system = kernel.clone();
        (0..count).for_each(|row| system[row * count + row] += strength * size);
        let mut factors = right.clone();
        // below rounding of the Gram matrix there is nothing to learn from
        if size <= 1e-14 * trace || !solve_positive(&mut system, &mut factors) {
            return mean.clone();
        }
        factors.iter_mut().zip(&roots).for_each(|(factor, root)| *factor *= root);
        let rest = 1.0 - factors.iter().sum::<f64>();
        let mut fitted: Vec<f64> = mean.iter().map(|value| rest * value).collect();
        add_rows(&mut fitted, &factors, |row| window.target(row));
        fitted
    };
    strengths.iter().map(solve).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const EXPERTS: usize = 3;

    fn filled(pairs: &[Vec<f64>]) -> LoadWindow {
        let mut window = LoadWindow::new(32, EXPERTS);
        for pair in pairs {
            window.add(&pair[..EXPERTS], &pair[EXPERTS..]);
        }
        window
    }

    /// The fit in its primal form: a transition matrix of experts x experts.
    fn primal(window: &LoadWindow, input: &[f64], strength: f64) -> Vec<f64> {
        let (weights, rows) = (window.weights(), window.count());
        let mean = |values: &dyn Fn(usize) -> f64| -> f64 {
            (0..rows).map(|row| weights[row] * values(row)).sum()
        };
        let inputs: [f64; EXPERTS] = std::array::from_fn(|one| mean(&|row| window.input(row)[one]));
        let targets: [f64; EXPERTS] =
            std::array::from_fn(|one| mean(&|row| window.target(row)[one]));
        let moment = |one: usize, other: &dyn Fn(usize) -> f64| {
            mean(&|row| (window.input(row)[one] - inputs[one]) * other(row))
        };
        let squares: Vec<f64> = (0..EXPERTS * EXPERTS)
            .map(|place| {
                let other = place % EXPERTS;
                moment(place / EXPERTS, &|row| window.input(row)[other] - inputs[other])
            })
            .collect();
        let trace: f64 = (0..EXPERTS).map(|one| squares[one * EXPERTS + one]).sum();
        let solve = |output: usize| {
            let mut system = squares.clone();
            let ridge = strength * trace / rows as f64;
            (0..EXPERTS).for_each(|one| system[one * EXPERTS + one] += ridge);
            let mut slopes: Vec<f64> = (0..EXPERTS)
                .map(|one| moment(one, &|row| window.target(row)[output] - targets[output]))
                .collect();
            assert!(solve_positive(&mut system, &mut slopes));
            let away: Vec<f64> = (0..EXPERTS).map(|one| input[one] - inputs[one]).collect();
            targets[output] + dot(&slopes, &away)
        };
        (0..EXPERTS).map(solve).collect()
    }

    proptest! {
        #[test]
        fn it_is_ridge_regression_in_its_primal_form(
            pairs in prop::collection::vec(prop::collection::vec(0.0..1.0_f64, 2 * EXPERTS), 2..20),
            input in prop::collection::vec(0.0..1.0_f64, EXPERTS),
        ) {
            let window = filled(&pairs);
            let strengths = [0.03, 1.0];
            for (strength, found) in strengths.iter().zip(fit(&window, &input, &strengths)) {
                for (one, other) in found.iter().zip(primal(&window, &input, *strength)) {
                    prop_assert!((one - other).abs() < 1e-7, "{one} {other}");
                }
            }
        }
    }

    #[test]
    fn inputs_that_never_changed_and_a_strong_ridge_give_the_mean() {
        let pairs: Vec<Vec<f64>> =
            (0..6).map(|step| vec![0.2, 0.3, 0.5, f64::from(step), 1.0, 0.0]).collect();
        let window = filled(&pairs);
        let weights = window.weights();
        let mean: f64 = (0..6).map(|row| weights[row] * window.target(row)[0]).sum();
        for found in fit(&window, &[0.7, 0.2, 0.1], &[0.03, 3.0]) {
            assert!((found[0] - mean).abs() < 1e-12);
            assert!((found[1] - 1.0).abs() < 1e-12);
        }
        let moving: Vec<Vec<f64>> = (0..6)
            .map(|step| vec![0.1 * f64::from(step), 0.3, 0.5, f64::from(step), 1.0, 0.0])
            .collect();
        let fitted = fit(&filled(&moving), &[0.9, 0.3, 0.5], &[1e12]);
        assert!((fitted[0][0] - mean).abs() < 1e-9);
    }
}
