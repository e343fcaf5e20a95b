//! Predicts the loads of experts: the built-in predictors of demand.
//!
//! Before the first all-to-all of a layer its loads are unknown, but those of the layers before it
//! in the same step, and of all layers in the steps before, are known. A [`LoadPredictor`] observes
//! the loads of each layer as they become known and predicts those of a layer that is still to
//! come. [`GroupPredictors`] keeps one for every group of a run and predicts demand with it, for
//! all groups of a decision at once.
//!
//! Loads are shares: not negative, summing to one. Layers are counted from 0 in the order in which
//! a step passes them. A *step* here is one forward pass: micro-batches of a training step continue
//! the count.
//!
//! It leaves out where tokens come from: a predictor sees what experts receive.

#![warn(unreachable_pub)]

mod algebra;
mod baselines;
mod choice;
mod copilot;
mod ewma;
mod groups;
mod history;
mod kernel_fit;
mod predictor;
mod ridge;
mod shares;
mod simplex;
mod window;

pub use baselines::{LastStep, PreviousLayer, Uniform};
pub use choice::{PredictorChoice, PredictorName};
pub use copilot::{Copilot, Effort};
pub use ewma::Ewma;
pub use groups::{GroupPredictors, Unseen};
pub use history::LEAD;
pub use predictor::{DEFAULT_WINDOW, LoadPredictor, MAX_EXPERTS, MAX_WINDOW};
pub use ridge::Ridge;
