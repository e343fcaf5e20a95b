//! Draws against the distributions that they are said to have.

mod common;

use common::{chi_square_excess, generator, uniform_excess};
use lightloom_demand::poisson::poisson;
use lightloom_demand::{Gammas, Scratch, multinomial};

/// Standard deviations of chi-square that no test may exceed.
const LIMIT: f64 = 4.0;

#[test]
fn poisson_counts_have_their_probabilities() {
    const DRAWS: u32 = 1_000_000;
    // 10 is where the method changes; there the discrete normal fits worst
    let means = [0.3, 4.0, 9.99, 10.0, 10.6, 11.2, 13.0, 20.5, 50.0, 128.7, 1000.3];
    for (number, mean) in means.into_iter().enumerate() {
        let mut rng = generator(number as u64);
        let mut observed = vec![0; 2000];
        for _ in 0..DRAWS {
            observed[poisson(mean, &mut rng) as usize] += 1;
        }
        let mut log_term = -mean;
        let mut expected = Vec::new();
        for count in 1..=2000 {
            expected.push(f64::from(DRAWS) * log_term.exp());
            log_term += (mean / f64::from(count)).ln();
        }
        let excess = chi_square_excess(&observed, &expected);
        assert!(excess < LIMIT, "mean {mean}: {excess:.1} sd");
    }
}

#[test]
fn large_poisson_counts_have_mean_variance_and_skew() {
    for (number, mean) in [1e5, 3e7, 1.9e9].into_iter().enumerate() {
        let mut rng = generator(100 + number as u64);
        let scores: Vec<f64> = (0..1_000_000)
            .map(|_| (f64::from(poisson(mean, &mut rng)) - mean) / mean.sqrt())
            .collect();
        let moment = |power| scores.iter().map(|z| z.powi(power)).sum::<f64>() / 1e6;
        // standard errors of a normal's moments are 0.001, 0.0014 and 0.0039
        assert!(moment(1).abs() < 0.004, "mean {mean}: {}", moment(1));
        assert!((moment(2) - 1.0).abs() < 0.006, "mean {mean}: {}", moment(2));
        assert!((moment(3) - 1.0 / mean.sqrt()).abs() < 0.016, "mean {mean}: {}", moment(3));
    }
}

#[test]
fn no_mean_no_count() {
    assert_eq!(poisson(0.0, &mut generator(0)), 0);
}

/// Rows of gamma variates.
fn gamma_rows(shapes: &[f64], rows: usize) -> Vec<Vec<f64>> {
    let gammas = Gammas::new(shapes);
    assert_eq!(gammas.len(), shapes.len());
    let mut rng = generator(200);
    let (mut normals, mut uniforms) = (vec![0.0; shapes.len()], vec![0.0; shapes.len()]);
    let mut values = vec![0.0; shapes.len()];
    (0..rows)
        .map(|_| {
            let total = gammas.draw(&mut values, &mut normals, &mut uniforms, &mut rng);
            assert!((total - values.iter().sum::<f64>()).abs() <= 1e-9 * total);
            values.clone()
        })
        .collect()
}

/// Distribution function of the gamma distribution of a whole shape.
fn erlang(shape: u32, value: f64) -> f64 {
    let mut term = (-value).exp();
    let mut above = 0.0;
    for i in 1..=shape {
        above += term;
        term *= value / f64::from(i);
    }
    1.0 - above
}

#[test]
fn gamma_variates_of_whole_shapes_have_their_distribution() {
    let shapes = [1, 2, 3, 7, 42, 300];
    let rows = gamma_rows(&shapes.map(f64::from), 300_000);
    for (place, shape) in shapes.into_iter().enumerate() {
        let excess = uniform_excess(rows.iter().map(|row| erlang(shape, row[place])));
        assert!(excess < LIMIT, "shape {shape}: {excess:.1} sd");
    }
}

#[test]
fn gamma_variates_of_shapes_below_one_add_up_to_an_exponential() {
    for shape in [0.05, 0.15, 0.5] {
        let rows = gamma_rows(&[shape, 1.0 - shape], 300_000);
        let sums = rows.iter().map(|row| erlang(1, row[0] + row[1]));
        assert!(uniform_excess(sums) < LIMIT, "shape {shape}");
        // the share is a beta variate: mean a, variance a (1 - a) / 2
        let shares: Vec<f64> = rows.iter().map(|row| row[0] / (row[0] + row[1])).collect();
        let mean = shares.iter().sum::<f64>() / 3e5;
        let square = shares.iter().map(|share| share * share).sum::<f64>() / 3e5;
        assert!((mean - shape).abs() < 0.003, "shape {shape}: {mean}");
        let variance = shape * (1.0 - shape) / 2.0;
        assert!((square - mean * mean - variance).abs() < 0.003, "shape {shape}");
    }
}

#[test]
fn shapes_of_one_are_exponential() {
    let rows = gamma_rows(&[1.0; 4], 100_000);
    assert!(uniform_excess(rows.iter().flatten().map(|value| erlang(1, *value))) < LIMIT);
}

#[test]
fn a_row_never_vanishes() {
    // 0.0001 underflows nearly always: U^10000
    for row in gamma_rows(&[0.0, 1e-5, 1e-4], 1000) {
        assert!(row[0].abs() < f64::MIN_POSITIVE);
        assert!(row.iter().sum::<f64>() > 0.0);
    }
}

/// Logarithms of the factorials up to a number.
fn log_factorials(last: u32) -> Vec<f64> {
    let mut sum = 0.0;
    (0..=last)
        .map(|number| {
            sum += f64::from(number.max(1)).ln();
            sum
        })
        .collect()
}

/// Binomial probabilities of 0 to `trials`, times a number of draws.
fn binomial(trials: u32, share: f64, draws: usize) -> Vec<f64> {
    let logs = log_factorials(trials);
    (0..=trials)
        .map(|k| {
            let orders = logs[trials as usize] - logs[k as usize] - logs[(trials - k) as usize];
            let one = f64::from(k) * share.ln() + f64::from(trials - k) * (1.0 - share).ln();
            draws as f64 * (orders + one).exp()
        })
        .collect()
}

/// Every expert, and the first experts together, must be binomial.
fn check_multinomial(copies: u32, weights: &[f64], draws: usize) {
    let experts = weights.len();
    let total: f64 = weights.iter().sum();
    let mut scratch = Scratch::new(experts);
    let mut rng = generator(300 + u64::from(copies));
    let mut counts = vec![0; experts];
    // up to eight experts, and sums of the first two and of the first half
    let watched = experts.min(8);
    let mut observed = vec![vec![0; copies as usize + 1]; watched + 2];
    for _ in 0..draws {
        multinomial(copies, weights, total, &mut counts, &mut scratch, &mut rng);
        assert_eq!(counts.iter().sum::<u32>(), copies);
        for (place, seen) in observed[..watched].iter_mut().enumerate() {
            seen[counts[place * experts / watched] as usize] += 1;
        }
        observed[watched][(counts[0] + counts[1]) as usize] += 1;
        observed[watched + 1][counts[..experts / 2].iter().sum::<u32>() as usize] += 1;
    }
    let mut shares: Vec<f64> =
        (0..watched).map(|place| weights[place * experts / watched] / total).collect();
    shares.push((weights[0] + weights[1]) / total);
    shares.push(weights[..experts / 2].iter().sum::<f64>() / total);
    for (place, (seen, share)) in observed.iter().zip(shares).enumerate() {
        let excess = chi_square_excess(seen, &binomial(copies, share, draws));
        assert!(excess < LIMIT, "{copies} copies, {experts} experts, {place}: {excess:.1} sd");
    }
}

#[test]
fn few_copies_are_multinomial() {
    check_multinomial(1, &[1.0, 2.0, 0.5], 100_000);
    check_multinomial(25, &[3.0, 1.0, 0.5], 300_000);
}

#[test]
fn repaired_counts_are_multinomial() {
    check_multinomial(100, &[3.0, 1.0, 0.05], 300_000);
    check_multinomial(800, &[0.2, 1.0, 5.0, 1.0, 0.01, 2.0, 2.0, 0.7], 300_000);
}

#[test]
fn absorbed_counts_are_multinomial() {
    check_multinomial(16_384, &[0.2, 1.0, 5.0, 1.0, 0.01, 2.0, 2.0, 0.7], 300_000);
    check_multinomial(9000, &[1.0, 1.0, 0.002], 300_000);
    check_multinomial(150, &[1.0, 0.1, 0.05], 300_000);
    check_multinomial(3000, &[1.0; 8], 300_000);
}

#[test]
fn many_experts_are_multinomial() {
    let weights: Vec<f64> = (0..256).map(|i| 0.01 + f64::from(i % 7) + f64::from(i % 3)).collect();
    check_multinomial(32_768, &weights, 30_000);
    let weights: Vec<f64> = (0..1000).map(|i| 0.5 + f64::from(i % 2)).collect();
    check_multinomial(4000, &weights, 20_000);
}

#[test]
fn experts_without_weight_get_nothing() {
    let mut scratch = Scratch::new(3);
    let mut counts = [0; 3];
    for copies in [5, 100, 50_000, i32::MAX as u32] {
        let mut rng = generator(400);
        multinomial(copies, &[0.0, 1.0, 0.0], 1.0, &mut counts, &mut scratch, &mut rng);
        assert_eq!(counts, [0, copies, 0]);
    }
}
