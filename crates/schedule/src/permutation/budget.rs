//! How long a search may go on: until a moment, or for so many steps.

use std::cell::Cell;
use std::time::Instant;

/// What bounds a search, softly: a step that has begun is finished.
///
/// Steps are what a search does between two looks at the clock, so that a number of them bounds the
/// same search as a moment does, but repeatably.
#[derive(Debug, Clone, Default)]
pub struct Budget {
    until: Option<Instant>,
    steps: Option<Cell<u64>>,
}

impl Budget {
    /// No bound.
    pub fn unlimited() -> Self {
        Self::default()
    }

    /// Until a moment, if any.
    pub fn until(until: Option<Instant>) -> Self {
        Self { until, steps: None }
    }

    /// For so many steps.
    pub fn of_steps(steps: u64) -> Self {
        Self { until: None, steps: Some(Cell::new(steps)) }
    }

    /// Whether there is a bound at all.
    pub(super) fn is_limited(&self) -> bool {
        self.until.is_some() || self.steps.is_some()
    }

    /// Steps that it still has, none if they are not what bounds it.
    #[cfg(test)]
    pub(super) fn steps_left(&self) -> u64 {
        self.steps.as_ref().map_or(0, Cell::get)
    }

    /// Whether the moment has come; takes no step.
    pub(super) fn is_late(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() >= until)
    }

    /// Whether it is used up; takes a step if not.
    pub(super) fn is_spent(&self) -> bool {
        if let Some(steps) = &self.steps {
            let left = steps.get();
            steps.set(left.saturating_sub(1));
            return left == 0;
        }
        self.is_late()
    }
}
