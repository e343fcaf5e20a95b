//! What the statistical tests share. Seeds are fixed, so that a test passes always or never.

use lightloom_demand::{Generator, Stream};

/// The generator of a test.
pub fn generator(number: u64) -> Generator {
    Stream { key: [2026, 11] }.at([number, 0, 0, 0])
}

/// Compares counts per bin with the expected ones: standard deviations of chi-square above its
/// mean. Bins that expect less than 20 are pooled.
pub fn chi_square_excess(observed: &[u64], expected: &[f64]) -> f64 {
    assert_eq!(observed.len(), expected.len());
    let (mut chi_square, mut bins) = (0.0, -1.0);
    let mut pooled = (0.0, 0.0);
    let mut take = |seen: f64, wanted: f64| {
        chi_square += (seen - wanted).powi(2) / wanted;
        bins += 1.0;
    };
    for (seen, wanted) in observed.iter().zip(expected) {
        if *wanted >= 20.0 {
            take(*seen as f64, *wanted);
        } else {
            pooled = (pooled.0 + *seen as f64, pooled.1 + wanted);
        }
    }
    if pooled.1 >= 1.0 {
        take(pooled.0, pooled.1);
    } else {
        assert!(pooled.0 < 12.0, "{} draws where {} are expected", pooled.0, pooled.1);
    }
    assert!(bins >= 1.0, "one bin tells nothing");
    (chi_square - bins) / (2.0 * bins).sqrt()
}

/// Compares numbers that should be uniform in `[0, 1)`, in 50 bins.
pub fn uniform_excess(numbers: impl Iterator<Item = f64>) -> f64 {
    let mut bins = [0; 50];
    for number in numbers {
        bins[((number * 50.0) as usize).min(49)] += 1;
    }
    let expected = [bins.iter().sum::<u64>() as f64 / 50.0; 50];
    chi_square_excess(&bins, &expected)
}
