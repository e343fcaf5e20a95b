//! Predictors without a fit: uniform, the previous layer, the last step.
//!
//! The first two are the baselines of MixNet's Figure 19 ("randomly assigned" and unmodified).
//! Expert indices of two layers have nothing to do with each other, so that the previous layer is
//! hardly better than chance unless a model was built otherwise. No table of that paper has the
//! last step of the same layer, which is far better.

use crate::history::LoadHistory;
use crate::predictor::LoadPredictor;
use crate::shares::equal_shares;
use lightloom_model::Invalid;

/// A predictor that needs nothing but the history.
macro_rules! baseline {
    (
        $(#[$attribute:meta])*
        $name:ident, |$history:ident, $step:ident, $layer:ident| $guess:expr
    ) => {
        $(#[$attribute])*
        #[derive(Debug)]
        pub struct $name {
            history: LoadHistory,
        }

        impl $name {
            /// A predictor for so many experts.
            ///
            /// # Errors
            /// If there cannot be so many experts.
            pub fn new(experts: usize) -> Result<Self, Invalid> {
                Ok(Self { history: LoadHistory::new(experts)? })
            }
        }

        impl LoadPredictor for $name {
            fn observe(&mut self, step: u64, layer: u32, loads: &[f64]) -> Result<(), Invalid> {
                self.history.add(step, layer, loads).map(drop)
            }

            fn predict(&mut self, $step: u64, $layer: u32) -> Result<Vec<f64>, Invalid> {
                let $history = &self.history;
                $history.check_open($step, $layer)?;
                Ok($guess)
            }
        }
    };
}

baseline! {
    /// Predicts equal loads, whatever was observed.
    Uniform, |history, step, layer| equal_shares(history.experts())
}

baseline! {
    /// Predicts the loads of the layer before at the same step; uniform where there is none.
    PreviousLayer, |history, step, layer| history
        .before(step, layer)
        .map_or_else(|| equal_shares(history.experts()), <[f64]>::to_vec)
}

baseline! {
    /// Predicts the latest loads of the layer; the previous layer's, or uniform, at first.
    LastStep, |history, step, layer| history.fall_back(step, layer)
}
