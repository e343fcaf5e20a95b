//! One decision for all known all-to-alls of a layer and pass, for their sum.

use super::circuit_policy::{Ahead, CircuitPolicy};

pub(super) struct PerLayer;

impl CircuitPolicy for PerLayer {
    fn ahead(&self) -> Ahead {
        Ahead::Layer
    }
}
