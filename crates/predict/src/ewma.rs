//! EWMA: an exponentially weighted mean of the same layer's loads over the steps.
//!
//! The weight of a new step starts as that of a plain mean and falls to `rate`, so that the first
//! step does not count for more than the others.

use crate::history::LoadHistory;
use crate::predictor::LoadPredictor;
use lightloom_model::Invalid;
use std::collections::BTreeMap;

/// Weight of the newest step; of 0.1, 0.2 and 0.5 the best on calm generated loads.
pub(crate) const DEFAULT_RATE: f64 = 0.2;

/// Predicts the mean of the layer; the previous layer's loads, or uniform, at first.
#[derive(Debug)]
pub struct Ewma {
    history: LoadHistory,
    rate: f64,
    /// Per layer: steps observed, and their mean.
    levels: BTreeMap<u32, (u64, Vec<f64>)>,
}

impl Ewma {
    /// A predictor for so many experts; `rate` is the weight of the newest step.
    ///
    /// # Errors
    /// If there cannot be so many experts, or the rate is not above 0 and up to 1.
    pub fn new(experts: usize, rate: f64) -> Result<Self, Invalid> {
        if rate.is_nan() || rate <= 0.0 || rate > 1.0 {
            let text = format!("rate: expected a number above 0 and up to 1, got {rate}");
            return Err(Invalid(text));
        }
        Ok(Self { history: LoadHistory::new(experts)?, rate, levels: BTreeMap::new() })
    }
}

impl LoadPredictor for Ewma {
    fn observe(&mut self, step: u64, layer: u32, loads: &[f64]) -> Result<(), Invalid> {
        let shares = self.history.add(step, layer, loads)?;
        let (count, level) = self.levels.entry(layer).or_insert_with(|| (0, shares.to_vec()));
        *count += 1;
        follow(level, shares, self.rate.max(1.0 / *count as f64));
        Ok(())
    }

    fn predict(&mut self, step: u64, layer: u32) -> Result<Vec<f64>, Invalid> {
        self.history.check_open(step, layer)?;
        let level = self.levels.get(&layer).map(|(_, level)| level.clone());
        Ok(level.unwrap_or_else(|| self.history.fall_back(step, layer)))
    }
}

/// Moves a mean towards what was observed.
pub(crate) fn follow(level: &mut [f64], shares: &[f64], rate: f64) {
    for (mean, share) in level.iter_mut().zip(shares) {
        *mean += rate * (share - *mean);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEPS: [[f64; 2]; 3] = [[0.2, 0.8], [0.6, 0.4], [1.0, 0.0]];

    fn after(rate: f64, steps: usize) -> f64 {
        let mut ewma = Ewma::new(2, rate).unwrap();
        for (step, loads) in STEPS.iter().enumerate().take(steps) {
            ewma.observe(step as u64, 0, loads).unwrap();
        }
        ewma.predict(3, 0).unwrap()[0]
    }

    #[test]
    fn it_is_the_plain_mean_until_the_rate_takes_over() {
        assert!((after(0.4, 2) - 0.4).abs() < 1e-15);
        assert!((after(0.4, 3) - (0.6 * 0.4 + 0.4)).abs() < 1e-15);
        assert!((after(1.0, 2) - 0.6).abs() < 1e-15);
    }

    #[test]
    fn a_rate_outside_its_limits_is_refused() {
        for rate in [0.0, 1.5, -0.1, f64::NAN] {
            let Invalid(text) = Ewma::new(2, rate).unwrap_err();
            assert_eq!(text, format!("rate: expected a number above 0 and up to 1, got {rate}"));
        }
    }
}
