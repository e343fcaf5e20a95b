use super::*;
use proptest::prelude::*;

/// Equation 1 by its definition.
fn objective(window: &LoadWindow, columns: &[f64]) -> f64 {
    let experts = window.experts();
    let square = |row: usize| -> f64 {
        let input = window.input(row);
        let error = |output: usize| {
            let predicted: f64 =
                (0..experts).map(|expert| columns[expert * experts + output] * input[expert]).sum();
            predicted - window.target(row)[output]
        };
        (0..experts).map(|output| error(output).powi(2)).sum()
    };
    window.weights().iter().enumerate().map(|(row, weight)| weight * square(row)).sum()
}

fn uniform(experts: usize) -> Vec<f64> {
    equal_shares(experts).repeat(experts)
}

fn shares(values: &[f64]) -> Vec<f64> {
    let total: f64 = values.iter().sum();
    values.iter().map(|value| value / total).collect()
}

/// Pairs of positive loads.
fn window_of(pairs: &[Vec<f64>], experts: usize) -> LoadWindow {
    let mut window = LoadWindow::new(pairs.len(), experts);
    for pair in pairs {
        window.add(&shares(&pair[..experts]), &shares(&pair[experts..2 * experts]));
    }
    window
}

fn pairs() -> impl Strategy<Value = (usize, Vec<Vec<f64>>)> {
    let pair = || prop::collection::vec(0.01..1.0_f64, 16);
    (1_usize..9, prop::collection::vec(pair(), 1..12))
}

proptest! {
    #[test]
    fn the_slope_is_the_derivative_of_the_objective((experts, pairs) in pairs()) {
        let window = window_of(&pairs, experts);
        let problem = Problem::new(&window);
        let other = Problem { window: &window, weights: window.weights(), form: Form::Pairs };
        let at = uniform(experts);
        let (mut slope, mut by_pairs) = (at.clone(), at.clone());
        problem.slope(&at, &mut slope);
        other.slope(&at, &mut by_pairs);
        for place in 0..at.len() {
            prop_assert!((slope[place] - by_pairs[place]).abs() < 1e-12);
            let moved = |by: f64| {
                let mut point = at.clone();
                point[place] += by;
                objective(&window, &point)
            };
            // a quadratic form: the central difference is exact up to rounding
            let difference = (moved(1e-3) - moved(-1e-3)) / 2e-3;
            prop_assert!((2.0 * slope[place] - difference).abs() < 1e-9);
        }
    }

    #[test]
    fn columns_are_shares_and_no_feasible_direction_leads_down((experts, pairs) in pairs()) {
        let window = window_of(&pairs, experts);
        let problem = Problem::new(&window);
        let solution = minimize(&problem, uniform(experts), Effort::MINIMUM);
        let mut slope = solution.clone();
        problem.slope(&solution, &mut slope);
        for (column, slopes) in solution.chunks(experts).zip(slope.chunks(experts)) {
            prop_assert!(column.iter().all(|&entry| entry >= 0.0));
            prop_assert!((column.iter().sum::<f64>() - 1.0).abs() < 1e-9);
            // a linear function has its minimum over the simplex at a vertex
            let minimum = slopes.iter().copied().fold(f64::INFINITY, f64::min);
            prop_assert!(dot(column, slopes) - minimum < 1e-5);
        }
        let quick = minimize(&problem, uniform(experts), Effort::QUICK);
        let start = objective(&window, &uniform(experts));
        let minimum = objective(&window, &solution);
        prop_assert!(objective(&window, &quick) - minimum <= 0.05 * (start - minimum) + 1e-12);
    }
}

#[test]
fn one_pair_is_fitted_by_one_step() {
    // A is x x': its trace is its eigenvalue, and the step from P leads to P x = y at once
    let window = window_of(&[vec![0.5, 0.3, 0.2, 0.4, 0.32, 0.28]], 3);
    let one = Effort { iterations: 1, ..Effort::QUICK };
    let found = minimize(&Problem::new(&window), uniform(3), one);
    assert!(found.iter().all(|&entry| entry > 0.0), "nothing was cut off");
    assert!(objective(&window, &found) < 1e-30);
}

#[test]
fn a_renaming_of_experts_is_recovered() {
    let renamed = [2, 0, 3, 1];
    let loads = |step: usize| shares(&[0, 1, 2, 3].map(|one| ((step * 7 + one * 5) % 11) as f64));
    let mut predictor = Copilot::new(4, 24, Effort::MINIMUM).unwrap();
    for step in 0..24 {
        let before = loads(step);
        let after: Vec<f64> = renamed.iter().map(|&from| before[from]).collect();
        predictor.observe(step as u64, 0, &before).unwrap();
        predictor.observe(step as u64, 1, &after).unwrap();
    }
    let columns = predictor.layers.get_mut(&1).unwrap().columns(Effort::MINIMUM).to_vec();
    for (output, &from) in renamed.iter().enumerate() {
        assert!((columns[from * 4 + output] - 1.0).abs() < 1e-4);
    }
    // and a prediction is P times what the layer before did
    predictor.observe(24, 0, &[0.7, 0.1, 0.2, 0.0]).unwrap();
    let predicted = predictor.predict(24, 1).unwrap();
    for (found, expected) in predicted.iter().zip([0.2, 0.7, 0.0, 0.1]) {
        assert!((found - expected).abs() < 1e-4);
    }
}

#[test]
fn a_fit_follows_the_pairs_that_come_in() {
    let (left, right) = ([1.0, 0.0], [0.0, 1.0]);
    let mut predictor = Copilot::new(2, 4, Effort::QUICK).unwrap();
    let mut step = 0;
    for swaps in [true, false, true] {
        for _ in 0..4 {
            let (before, other) = if step % 2 == 0 { (left, right) } else { (right, left) };
            predictor.observe(step, 0, &before).unwrap();
            predictor.observe(step, 1, if swaps { &other } else { &before }).unwrap();
            step += 1;
        }
        // whatever was predicted before, the window holds pairs of one kind again
        predictor.observe(step, 0, &left).unwrap();
        let predicted = predictor.predict(step, 1).unwrap();
        assert!(predicted[usize::from(swaps)] > 0.99, "step {step}: {predicted:?}");
        predictor.observe(step, 1, if swaps { &right } else { &left }).unwrap();
        step += 1;
    }
}

#[test]
fn too_many_experts_and_odd_windows_are_refused() {
    let text = |experts, window, effort| Copilot::new(experts, window, effort).unwrap_err().0;
    assert_eq!(
        text(33, 32, Effort::MINIMUM),
        "copilot takes at most 32 experts, got 33: it fits experts^2 numbers; use ridge"
    );
    let wide = text(513, 32, Effort::QUICK);
    assert!(wide.starts_with("copilot-gradient takes at most 512 experts, got 513"), "{wide}");
    for window in [1, 1025] {
        let expected = format!("window: expected a whole number from 2 to 1024, got {window}");
        assert_eq!(text(4, window, Effort::QUICK), expected);
    }
}

#[test]
fn two_pairs_are_enough_for_a_fit() {
    let mut predictor = Copilot::new(2, 8, Effort::QUICK).unwrap();
    let (left, right) = ([1.0, 0.0], [0.0, 1.0]);
    for (step, (before, after)) in [(left, right), (right, left)].into_iter().enumerate() {
        predictor.observe(step as u64, 0, &before).unwrap();
        predictor.observe(step as u64, 1, &after).unwrap();
    }
    // P swaps; the last step would say the left one, and so does the first layer
    predictor.observe(2, 0, &left).unwrap();
    assert!(predictor.predict(2, 1).unwrap()[1] > 0.99);
    assert!((predictor.predict(3, 0).unwrap()[0] - 1.0).abs() < 1e-12);
}
