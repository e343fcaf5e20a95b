//! What a user supplies instead of the built-in allocators and predictor, and why a run must end.

use crate::error::{ExecuteError, invalid};
use lightloom_decide::{CircuitAllocator, DemandPredictor, LastSeen};
use lightloom_model::Invalid;
use std::fmt;

/// What a user supplies instead of the built-in parts.
#[derive(Default)]
pub struct Plugins<'a> {
    /// Proposes circuits instead of the policy's allocator.
    pub allocator: Option<&'a mut dyn CircuitAllocator>,
    /// Estimates demand that is not known yet, instead of [`LastSeen`].
    pub predictor: Option<&'a mut dyn DemandPredictor>,
}

impl Plugins<'_> {
    /// The same plug-ins, for a shorter time.
    pub(crate) fn reborrow(&mut self) -> Plugins<'_> {
        Plugins {
            allocator: self.allocator.as_mut().map(|one| &mut **one as &mut dyn CircuitAllocator),
            predictor: self.predictor.as_mut().map(|one| &mut **one as &mut dyn DemandPredictor),
        }
    }
}

impl fmt::Debug for Plugins<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Plugins")
            .field("allocator", &self.allocator.is_some())
            .field("predictor", &self.predictor.is_some())
            .finish()
    }
}

/// The plug-ins of a run, and what went wrong with them.
#[derive(Debug, Default)]
pub(crate) struct Custom<'a> {
    /// The plug-ins.
    pub plugins: Plugins<'a>,
    /// Why the run must end.
    pub failure: Option<ExecuteError>,
}

impl Custom<'_> {
    /// Who estimates demand that is not known yet.
    pub(crate) fn predictor(&self) -> &dyn DemandPredictor {
        self.plugins.predictor.as_deref().unwrap_or(&LastSeen)
    }

    /// Ends the run; the first reason is the one that is told.
    pub(crate) fn fail(&mut self, Invalid(text): Invalid) {
        self.failure.get_or_insert_with(|| invalid(text));
    }
}
