//! Ridge: what the previous layer says about how a layer will differ from its mean.
//!
//! Each layer has a mean that follows its loads (EWMA). The *surprise* of a step is how far its
//! loads are from the mean before it. Layers of one step see the same tokens, so that the surprise
//! of the previous layer, which is known, says something of this one's. The relation is fitted over
//! a window by kernel ridge regression (`kernel_fit`): MixNet's equation 1 around the mean. Sums to
//! one follow from those of the data; negatives are cut off.
//!
//! How much to trust the fit differs between models and over training: candidates with several
//! strengths, and means of several rates alone, all predict, and what is used is their mean with
//! weights that fall exponentially with their past error (L1, older errors forgotten; Littlestone
//! and Warmuth, "The weighted majority algorithm", 1994). Each is judged on steps that it had not
//! seen. On generated loads the mean beats the single best candidate, even one chosen in
//! hindsight.
//!
//! It leaves out where the surprises come from: only the layer before is looked at.

use crate::algebra::{add_rows, distance};
use crate::ewma::follow;
use crate::history::{LEAD, LoadHistory, find_step};
use crate::kernel_fit::fit;
use crate::predictor::{LoadPredictor, MAX_WINDOW};
use crate::shares::{check_count, project};
use crate::window::LoadWindow;
use lightloom_model::Invalid;
use std::collections::{BTreeMap, VecDeque};

/// Strengths of the ridge, relative to the mean eigenvalue.
const STRENGTHS: [f64; 3] = [0.03, 0.3, 3.0];

/// Rates of means: slow, that of the surprises, fast, and the last step itself.
const RATES: [f64; 4] = [0.1, 0.25, 0.5, 1.0];

/// The rate of the mean that surprises are from.
const BASE: usize = 1;

/// Number of candidates: means first, then fits.
const CANDIDATES: usize = RATES.len() + STRENGTHS.len();

/// What an error of a candidate counts one step later.
const FORGET: f64 = 0.97;

/// How fast weight falls with error: a candidate 5 % worse than the best has 1/e of its weight.
const SHARPNESS: f64 = 20.0;

/// Pairs from which on a fit is tried.
const MIN_PAIRS: usize = 4;

/// Errors below are rounding.
const NO_ERROR: f64 = 1e-12;

/// Kernel ridge regression on surprises, weighted against means by one-step-behind validation.
///
/// The first layer, which has no previous one, and the first steps use means alone; the very first
/// step the previous layer's loads, or uniform.
#[derive(Debug)]
pub struct Ridge {
    history: LoadHistory,
    window: usize,
    layers: BTreeMap<u32, LayerState>,
}

impl Ridge {
    /// A predictor for so many experts, which fits so many steps.
    ///
    /// # Errors
    /// If there cannot be so many experts, or such a window.
    pub fn new(experts: usize, window: usize) -> Result<Self, Invalid> {
        let history = LoadHistory::new(experts)?;
        let window = check_count("window", window, 2, MAX_WINDOW)?;
        Ok(Self { history, window, layers: BTreeMap::new() })
    }

    /// Surprise of the layer before at a step, if known.
    fn surprise_before(&self, step: u64, layer: u32) -> Option<Vec<f64>> {
        let state = self.layers.get(&layer.checked_sub(1)?)?;
        find_step(&state.surprises, step).map(<[f64]>::to_vec)
    }
}

impl LoadPredictor for Ridge {
    fn observe(&mut self, step: u64, layer: u32, loads: &[f64]) -> Result<(), Invalid> {
        let shares = self.history.add(step, layer, loads)?.to_vec();
        let before = self.surprise_before(step, layer);
        let Some(state) = self.layers.get_mut(&layer) else {
            self.layers.insert(layer, LayerState::first(step, shares));
            return Ok(());
        };
        state.prepare(step, before.as_deref());
        state.judge(&shares);
        let mean = &state.means[BASE];
        let surprise: Vec<f64> = shares.iter().zip(mean).map(|(one, mean)| one - mean).collect();
        if let Some(before) = before {
            let experts = shares.len();
            let window = state.window.get_or_insert_with(|| LoadWindow::new(self.window, experts));
            window.add(&before, &surprise);
        }
        state.follow(step, &shares, surprise);
        Ok(())
    }

    fn predict(&mut self, step: u64, layer: u32) -> Result<Vec<f64>, Invalid> {
        self.history.check_open(step, layer)?;
        let before = self.surprise_before(step, layer);
        let Some(state) = self.layers.get_mut(&layer) else {
            return Ok(self.history.fall_back(step, layer));
        };
        state.prepare(step, before.as_deref());
        let mut mixed = vec![0.0; self.history.experts()];
        add_rows(&mut mixed, &state.weights(), |candidate| &state.candidates[candidate]);
        Ok(mixed)
    }
}

/// What is known of one layer.
#[derive(Debug)]
struct LayerState {
    /// One per rate.
    means: Vec<Vec<f64>>,
    /// Steps observed.
    count: u64,
    /// One per candidate.
    errors: [f64; CANDIDATES],
    window: Option<LoadWindow>,
    /// Surprises of the latest steps, oldest first.
    surprises: VecDeque<(u64, Vec<f64>)>,
    /// The prediction of each candidate for `ready`.
    candidates: Vec<Vec<f64>>,
    /// Step that the candidates are for, and whether the layer before was known.
    ready: Option<(u64, bool)>,
}

impl LayerState {
    /// After the first step, whose loads surprise no one.
    fn first(step: u64, shares: Vec<f64>) -> Self {
        Self {
            count: 1,
            errors: [0.0; CANDIDATES],
            window: None,
            surprises: VecDeque::from([(step, vec![0.0; shares.len()])]),
            means: vec![shares; RATES.len()],
            candidates: Vec::new(),
            ready: None,
        }
    }

    /// Makes the candidates for a step.
    fn prepare(&mut self, step: u64, before: Option<&[f64]>) {
        let request = (step, before.is_some());
        if self.ready == Some(request) {
            return;
        }
        let window = self.window.as_ref().filter(|window| window.count() >= MIN_PAIRS);
        let mean = &self.means[BASE];
        let fits = match (window, before) {
            (Some(window), Some(before)) => {
                let mut fits = fit(window, before, &STRENGTHS);
                for (entry, mean) in fits.iter_mut().flat_map(|fit| fit.iter_mut().zip(mean)) {
                    *entry += mean;
                }
                fits
            }
            _ => vec![mean.clone(); STRENGTHS.len()],
        };
        self.candidates.clone_from(&self.means);
        self.candidates.extend(fits);
        self.candidates.iter_mut().for_each(|candidate| project(candidate));
        self.ready = Some(request);
    }

    /// Weights of the candidates by their errors; equal before there are any.
    fn weights(&self) -> [f64; CANDIDATES] {
        let minimum = self.errors.iter().copied().fold(f64::INFINITY, f64::min);
        let scale = SHARPNESS / minimum.max(NO_ERROR);
        let weights = self.errors.map(|error| (-scale * (error - minimum)).exp());
        let total: f64 = weights.iter().sum();
        weights.map(|weight| weight / total)
    }

    /// Charges each candidate its error.
    fn judge(&mut self, shares: &[f64]) {
        for (error, candidate) in self.errors.iter_mut().zip(&self.candidates) {
            *error = *error * FORGET + distance(candidate, shares);
        }
    }

    /// Moves the means towards what was observed.
    fn follow(&mut self, step: u64, shares: &[f64], surprise: Vec<f64>) {
        self.count += 1;
        for (mean, rate) in self.means.iter_mut().zip(RATES) {
            follow(mean, shares, rate.max(1.0 / self.count as f64));
        }
        if self.surprises.len() == LEAD {
            self.surprises.pop_front();
        }
        self.surprises.push_back((step, surprise));
        self.ready = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(errors: [f64; CANDIDATES]) -> LayerState {
        LayerState { errors, ..LayerState::first(0, vec![0.5, 0.5]) }
    }

    #[test]
    fn a_candidate_five_percent_worse_has_an_eth_of_the_weight() {
        let weights = state([2.0, 2.1, 4.0, 4.0, 4.0, 4.0, 2.0]).weights();
        assert!((weights.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        assert!((weights[1] / weights[0] - (-1.0_f64).exp()).abs() < 1e-12);
        assert!((weights[6] - weights[0]).abs() < 1e-15);
        assert!(weights[2] / weights[0] < 1e-8);
        assert!(
            state([0.0; CANDIDATES]).weights().iter().all(|one| (one * 7.0 - 1.0).abs() < 1e-12)
        );
    }

    #[test]
    fn errors_are_distances_and_older_ones_count_less() {
        let mut layer = state([1.0; CANDIDATES]);
        layer.candidates = vec![vec![0.75, 0.25]; CANDIDATES];
        layer.judge(&[0.5, 0.5]);
        assert!(layer.errors.iter().all(|error| (error - 0.97 - 0.5).abs() < 1e-12));
    }

    /// Two layers whose loads swing together, with shares of nothing now and then.
    fn swing(step: u64) -> [[f64; 3]; 2] {
        let high = f64::from((step * 7 % 11) as u32) / 11.0;
        [[high, 1.0 - high, 0.0], [1.0 - high, 0.0, high]]
    }

    fn after(steps: u64) -> Ridge {
        let mut predictor = Ridge::new(3, 16).unwrap();
        for step in 0..steps {
            for (layer, loads) in swing(step).iter().enumerate() {
                predictor.observe(step, layer as u32, loads).unwrap();
            }
        }
        predictor
    }

    #[test]
    fn a_layer_that_follows_another_is_predicted_from_it() {
        let mut predictor = after(60);
        for step in 60..80 {
            let [first, second] = swing(step);
            predictor.observe(step, 0, &first).unwrap();
            let predicted = predictor.predict(step, 1).unwrap();
            assert!(predicted.iter().all(|&share| share >= 0.0));
            assert!((predicted.iter().sum::<f64>() - 1.0).abs() < 1e-12);
            // a mean of a layer that swings by a half is off by that
            assert!(distance(&predicted, &second) < 0.1, "{predicted:?} {second:?}");
            predictor.observe(step, 1, &second).unwrap();
        }
    }

    #[test]
    fn what_is_observed_after_a_prediction_changes_the_next_one() {
        let (mut early, mut late) = (after(20), after(20));
        early.predict(30, 0).unwrap();
        for predictor in [&mut early, &mut late] {
            predictor.observe(25, 0, &[0.0, 0.0, 1.0]).unwrap();
        }
        assert_eq!(early.predict(30, 0), late.predict(30, 0));
    }
}
