//! What a predictor of loads is, and its limits.

use lightloom_model::Invalid;

/// Maximum number of experts: what a routing log can name.
pub const MAX_EXPERTS: usize = 65_535;

/// Maximum number of steps that a predictor fits: ridge solves a system of that size.
pub const MAX_WINDOW: usize = 1024;

/// Steps that predictors fit unless told otherwise.
pub const DEFAULT_WINDOW: usize = 32;

/// Predicts the loads of a layer from what was observed before.
pub trait LoadPredictor: Send + Sync {
    /// Takes the loads of a layer, of any scale.
    ///
    /// # Errors
    /// If they are not as many finite non-negative numbers as there are experts, with a positive
    /// sum, or the layer was observed at this or a later step.
    fn observe(&mut self, step: u64, layer: u32, loads: &[f64]) -> Result<(), Invalid>;

    /// Shares of a layer's experts at a step, before they are observed.
    ///
    /// # Errors
    /// If the layer was observed at this or a later step.
    fn predict(&mut self, step: u64, layer: u32) -> Result<Vec<f64>, Invalid>;
}
