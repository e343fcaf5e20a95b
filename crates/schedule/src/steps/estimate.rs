//! What the next period will bring, from what was measured.

use lightloom_model::{Invalid, choices};

choices! {
    /// How measurements become an estimate.
    pub enum Estimator: "estimator" {
        Last = "last": "What was measured in the last period",
        Smoothed = "smoothed": "An exponentially weighted mean of all periods",
        Clairvoyant = "clairvoyant":
            "What the next period brings, which no controller knows: what knowing is worth",
    }
}

/// Weights are thousandths.
const WHOLE: u64 = 1_000;

/// An estimate that follows its measurements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DemandEstimate {
    estimator: Estimator,
    weight: u64,
    bytes: Vec<u64>,
}

impl DemandEstimate {
    /// An estimate of nothing. `weight` is that of the newest measurement in thousandths, which
    /// `Smoothed` reads.
    ///
    /// # Errors
    /// If the weight is not 1 to 1,000.
    pub fn new(estimator: Estimator, weight: u32) -> Result<Self, Invalid> {
        let weight = u64::from(weight);
        if !(1..=WHOLE).contains(&weight) {
            return Err(Invalid(format!(
                "a weight of {weight}: expected 1 to {WHOLE} thousandths"
            )));
        }
        Ok(Self { estimator, weight, bytes: Vec::new() })
    }

    /// Takes what a period brought, and what the next will bring; returns the estimate of the next.
    /// The first measurement counts whole. Only a clairvoyant estimate reads `next`.
    pub fn update(&mut self, measured: &[u64], next: &[u64]) -> &[u64] {
        match self.estimator {
            Estimator::Clairvoyant => self.bytes = next.to_vec(),
            Estimator::Smoothed if self.bytes.len() == measured.len() => {
                for (old, new) in self.bytes.iter_mut().zip(measured) {
                    *old = ((WHOLE - self.weight) * *old + self.weight * new) / WHOLE;
                }
            }
            Estimator::Last | Estimator::Smoothed => self.bytes = measured.to_vec(),
        }
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_follow_their_rule() {
        let estimate = |estimator, weight| DemandEstimate::new(estimator, weight).unwrap();
        let mut last = estimate(Estimator::Last, 250);
        assert_eq!(last.update(&[8, 0], &[5, 5]), [8, 0]);
        assert_eq!(last.update(&[0, 4], &[5, 5]), [0, 4]);
        let mut smoothed = estimate(Estimator::Smoothed, 250);
        assert_eq!(smoothed.update(&[8, 0], &[5, 5]), [8, 0]);
        assert_eq!(smoothed.update(&[0, 4], &[5, 5]), [6, 1]);
        assert_eq!(smoothed.update(&[6, 5], &[5, 5]), [6, 2]);
        let mut clairvoyant = estimate(Estimator::Clairvoyant, 250);
        assert_eq!(clairvoyant.update(&[8, 0], &[5, 6]), [5, 6]);
        assert_eq!(estimate(Estimator::Smoothed, 1_000).update(&[3], &[1]), [3]);
    }

    #[test]
    fn a_weight_is_a_share() {
        for weight in [0, 1_001] {
            let text = DemandEstimate::new(Estimator::Smoothed, weight).unwrap_err().0;
            assert_eq!(text, format!("a weight of {weight}: expected 1 to 1000 thousandths"));
        }
    }
}
