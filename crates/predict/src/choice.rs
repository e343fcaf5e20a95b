//! The built-in predictors by name.

use crate::baselines::{LastStep, PreviousLayer, Uniform};
use crate::copilot::{Copilot, Effort};
use crate::ewma::{DEFAULT_RATE, Ewma};
use crate::predictor::LoadPredictor;
use crate::ridge::Ridge;
use lightloom_model::Invalid;

lightloom_model::choices! {
    /// The built-in predictors.
    pub enum PredictorName: "predictor" {
        Uniform = "uniform": "Equal loads, whatever was observed",
        PreviousLayer = "previous-layer": "The loads of the layer before, in the same step",
        LastStep = "last-step": "The latest loads of the layer",
        Ewma = "ewma": "Exponentially weighted mean of the layer's loads",
        Copilot = "copilot": "MixNet's transition matrix between layers, fitted to its minimum",
        CopilotGradient = "copilot-gradient": "The same matrix, fitted in 300 iterations at most",
        Ridge = "ridge": "Mean of the layer, corrected by the deviation of the one before",
    }
}

/// Which built-in predictor, and over how many steps it fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PredictorChoice {
    /// The predictor.
    pub name: PredictorName,
    /// Steps that `copilot`, `copilot-gradient` and `ridge` fit.
    pub window: usize,
}

impl PredictorChoice {
    /// A new predictor for so many experts.
    ///
    /// # Errors
    /// If it cannot be made for so many experts or such a window.
    pub fn build(self, experts: usize) -> Result<Box<dyn LoadPredictor>, Invalid> {
        let Self { name, window } = self;
        Ok(match name {
            PredictorName::Uniform => Box::new(Uniform::new(experts)?),
            PredictorName::PreviousLayer => Box::new(PreviousLayer::new(experts)?),
            PredictorName::LastStep => Box::new(LastStep::new(experts)?),
            PredictorName::Ewma => Box::new(Ewma::new(experts, DEFAULT_RATE)?),
            PredictorName::Copilot => Box::new(Copilot::new(experts, window, Effort::MINIMUM)?),
            PredictorName::CopilotGradient => {
                Box::new(Copilot::new(experts, window, Effort::QUICK)?)
            }
            PredictorName::Ridge => Box::new(Ridge::new(experts, window)?),
        })
    }
}
