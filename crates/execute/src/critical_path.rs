//! The critical path, carried forward instead of walked back.
//!
//! Every worker carries how its current time splits into categories *along the chain of causes
//! that led to it*. Whoever releases a waiting worker hands its own split over, and the waiting
//! worker drops its own: exactly what walking back through the releasing worker would find, with
//! nothing stored per task. The parts of a split always sum to the time it explains.

use lightloom_model::{Category, Duration};

/// Number of categories.
pub const CATEGORIES: usize = Category::ALL.len();

/// A point in time as the sum of what led to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CriticalPath(pub [u64; CATEGORIES]);

impl CriticalPath {
    /// Extends the path by a span of this category.
    pub fn charge(&mut self, category: Category, span: Duration) {
        let part = &mut self.0[category as usize];
        *part = part.saturating_add(span.0);
    }

    /// This path, extended.
    #[must_use]
    pub fn extended(mut self, category: Category, span: Duration) -> Self {
        self.charge(category, span);
        self
    }

    /// The time that the path explains, in picoseconds.
    pub fn total(&self) -> u64 {
        self.0.iter().fold(0, |sum, part| sum.saturating_add(*part))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_sum_to_the_time() {
        let path = CriticalPath::default()
            .extended(Category::Expert, Duration(5))
            .extended(Category::Ep, Duration(7))
            .extended(Category::Expert, Duration(1));
        assert_eq!(path.0[Category::Expert as usize], 6);
        assert_eq!(path.total(), 13);
    }
}
