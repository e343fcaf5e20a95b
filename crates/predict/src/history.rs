//! What predictors remember: the latest loads of each layer, with their steps.

use crate::shares::{check_experts, equal_shares, shares_of};
use lightloom_model::Invalid;
use std::collections::{BTreeMap, VecDeque};

/// Steps by which a layer may lead the next one, as micro-batches in a pipeline do.
pub const LEAD: usize = 64;

/// More layers than any model has.
const MAX_LAYER: u32 = 65_536;

/// More steps than any training has.
const MAX_STEP: u64 = 1 << 48;

/// Loads of the latest [`LEAD`] steps of a layer, oldest first.
type Steps = VecDeque<(u64, Vec<f64>)>;

/// Loads of the latest steps of each layer.
#[derive(Debug)]
pub(crate) struct LoadHistory {
    experts: usize,
    layers: BTreeMap<u32, Steps>,
}

impl LoadHistory {
    /// An empty history for so many experts.
    pub(crate) fn new(experts: usize) -> Result<Self, Invalid> {
        Ok(Self { experts: check_experts(experts)?, layers: BTreeMap::new() })
    }

    /// Number of experts.
    pub(crate) fn experts(&self) -> usize {
        self.experts
    }

    /// Keeps loads and returns them as shares.
    pub(crate) fn add(&mut self, step: u64, layer: u32, loads: &[f64]) -> Result<&[f64], Invalid> {
        self.check_open(step, layer)?;
        let shares = shares_of(loads, self.experts)?;
        let kept = self.layers.entry(layer).or_default();
        if kept.len() == LEAD {
            kept.pop_front();
        }
        kept.push_back((step, shares));
        Ok(&kept[kept.len() - 1].1)
    }

    /// Refuses a step of a layer that does not come after all observed ones.
    pub(crate) fn check_open(&self, step: u64, layer: u32) -> Result<(), Invalid> {
        if step > MAX_STEP || layer > MAX_LAYER {
            return Err(Invalid(format!(
                "step {step} of layer {layer}: expected at most {MAX_STEP} and {MAX_LAYER}"
            )));
        }
        match self.layers.get(&layer).and_then(VecDeque::back) {
            Some(&(last, _)) if step <= last => Err(Invalid(format!(
                "layer {layer} was observed at step {last}; expected a later step, got {step}"
            ))),
            _ => Ok(()),
        }
    }

    /// Loads of the layer before, at the same step, if known.
    pub(crate) fn before(&self, step: u64, layer: u32) -> Option<&[f64]> {
        let kept = self.layers.get(&layer.checked_sub(1)?)?;
        find_step(kept, step)
    }

    /// Best guess without a fit: the layer's last loads, the previous layer's, or uniform.
    pub(crate) fn fall_back(&self, step: u64, layer: u32) -> Vec<f64> {
        let last = self.layers.get(&layer).and_then(VecDeque::back);
        let last = last.map(|(_, loads)| loads.as_slice());
        let guess = last.or_else(|| self.before(step, layer));
        guess.map_or_else(|| equal_shares(self.experts), <[f64]>::to_vec)
    }
}

/// The loads of a step among those that are kept.
pub(crate) fn find_step(kept: &Steps, step: u64) -> Option<&[f64]> {
    let entry = kept.iter().rev().find(|(kept_step, _)| *kept_step == step);
    entry.map(|(_, loads)| loads.as_slice())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_of_a_layer_come_in_order() {
        let mut history = LoadHistory::new(2).unwrap();
        history.add(3, 1, &[1.0, 3.0]).unwrap();
        for step in [3, 2] {
            let Invalid(text) = history.add(step, 1, &[1.0, 1.0]).unwrap_err();
            let start = "layer 1 was observed at step 3; expected a later step, got";
            assert_eq!(text, format!("{start} {step}"));
        }
        assert!(history.check_open(4, 1).is_ok() && history.check_open(0, 0).is_ok());
        assert!(history.check_open(MAX_STEP + 1, 0).is_err());
        assert!(history.check_open(0, MAX_LAYER + 1).is_err());
    }

    #[test]
    fn a_layer_may_lead_the_next_one_by_so_many_steps() {
        let mut history = LoadHistory::new(1).unwrap();
        for step in 0..=LEAD as u64 {
            history.add(step, 0, &[1.0]).unwrap();
        }
        assert_eq!(history.before(0, 1), None);
        assert_eq!(history.before(1, 1), Some([1.0].as_slice()));
        assert_eq!(history.before(1, 0), None);
    }

    #[test]
    fn the_best_guess_is_the_last_step_then_the_layer_before_then_uniform() {
        let mut history = LoadHistory::new(2).unwrap();
        assert_eq!(history.fall_back(0, 1), [0.5, 0.5]);
        history.add(0, 0, &[1.0, 0.0]).unwrap();
        assert_eq!(history.fall_back(0, 1), [1.0, 0.0]);
        history.add(0, 1, &[0.0, 1.0]).unwrap();
        assert_eq!(history.fall_back(1, 1), [0.0, 1.0]);
    }
}
