//! Loads as shares: not negative, summing to one.

use crate::predictor::MAX_EXPERTS;
use lightloom_model::Invalid;

/// Loads scaled to sum to one.
///
/// # Errors
/// If they are not so many finite non-negative numbers with a positive sum.
pub(crate) fn shares_of(loads: &[f64], experts: usize) -> Result<Vec<f64>, Invalid> {
    if loads.len() != experts {
        let text = format!("loads: expected {experts} numbers, got {}", loads.len());
        return Err(Invalid(text));
    }
    let largest = loads.iter().copied().fold(0.0, f64::max);
    let usable = loads.iter().all(|&load| load >= 0.0 && load.is_finite());
    if !usable || largest <= 0.0 {
        let text = "loads: expected finite numbers of at least 0, not all of them 0";
        return Err(Invalid(text.into()));
    }
    // divided by the largest first, so that the sum is finite
    let mut shares: Vec<f64> = loads.iter().map(|load| load / largest).collect();
    let total: f64 = shares.iter().sum();
    for share in &mut shares {
        *share /= total;
    }
    Ok(shares)
}

/// Cuts negative entries off and scales the rest to sum to one; uniform if nothing is positive.
pub(crate) fn project(loads: &mut [f64]) {
    for load in &mut *loads {
        *load = load.max(0.0);
    }
    let total: f64 = loads.iter().sum();
    if total > 0.0 {
        for load in loads {
            *load /= total;
        }
    } else {
        loads.fill(1.0 / loads.len() as f64);
    }
}

/// Equal shares.
pub(crate) fn equal_shares(experts: usize) -> Vec<f64> {
    vec![1.0 / experts as f64; experts]
}

/// Refuses a count outside its limits.
pub(crate) fn check_count(
    name: &str,
    value: usize,
    minimum: usize,
    maximum: usize,
) -> Result<usize, Invalid> {
    if (minimum..=maximum).contains(&value) {
        return Ok(value);
    }
    Err(Invalid(format!(
        "{name}: expected a whole number from {minimum} to {maximum}, got {value}"
    )))
}

/// Refuses a number of experts that cannot be.
pub(crate) fn check_experts(experts: usize) -> Result<usize, Invalid> {
    check_count("experts", experts, 1, MAX_EXPERTS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_keep_proportions_at_any_scale() {
        assert_eq!(shares_of(&[1.0, 3.0], 2).unwrap(), [0.25, 0.75]);
        assert_eq!(shares_of(&[8e307, 4e307, 4e307], 3).unwrap(), [0.5, 0.25, 0.25]);
        assert_eq!(shares_of(&[0.0, 5e-324], 2).unwrap(), [0.0, 1.0]);
    }

    #[test]
    fn loads_that_are_none_are_refused() {
        for loads in [[0.0, 0.0], [1.0, -1.0], [f64::NAN, 1.0], [1.0, f64::INFINITY]] {
            let Invalid(text) = shares_of(&loads, 2).unwrap_err();
            assert_eq!(text, "loads: expected finite numbers of at least 0, not all of them 0");
        }
        let Invalid(text) = shares_of(&[1.0], 2).unwrap_err();
        assert_eq!(text, "loads: expected 2 numbers, got 1");
    }

    #[test]
    fn projection_cuts_and_scales() {
        let projected = |mut loads: Vec<f64>| {
            project(&mut loads);
            loads
        };
        assert_eq!(projected(vec![-1.0, 1.0, 3.0]), [0.0, 0.25, 0.75]);
        assert_eq!(projected(vec![-1.0, -2.0]), [0.5, 0.5]);
    }
}
