//! The critical path, carried forward instead of walked back.
//!
//! Every stream carries how its current time splits into categories *along the chain of causes
//! that led to it*. Whoever releases a waiting stream hands its own split over, and the waiting
//! stream drops its own: exactly what walking back through the releasing stream would find, with
//! nothing stored per task. The parts of a split always sum to the time it explains.
//!
//! Paths that begin as recorded ones also remember their spans in order, which share what they
//! have in common.

use crate::recording::Moment;
use crate::timeline::CriticalSpans;
use lightloom_model::{CategoryId, Duration};
use std::rc::Rc;

/// Categories for which there is room from the start.
const USUAL: usize = 16;

/// A point in time as the sum of what led to it.
///
/// Handing a path over shares it; who extends a shared path gets a copy.
#[derive(Debug, Clone, Default)]
pub(crate) struct CriticalPath {
    parts: Option<Rc<[u64]>>,
    /// The last span, if spans are recorded.
    last: Option<Rc<Link>>,
    /// The operation that led here, and the time since: what a recording knows.
    pub(crate) moment: Moment,
}

/// A span of a recorded path, and the one before it.
#[derive(Debug)]
struct Link {
    category: CategoryId,
    span: Duration,
    before: Option<Rc<Link>>,
}

impl Drop for Link {
    /// One by one: a path may have more spans than the stack has room for.
    fn drop(&mut self) {
        let mut before = self.before.take();
        while let Some(mut link) = before.and_then(Rc::into_inner) {
            before = link.before.take();
        }
    }
}

impl CriticalPath {
    /// A path at the start of a step, whose spans are recorded.
    pub(crate) fn recorded() -> Self {
        let first = Link { category: CategoryId(0), span: Duration::ZERO, before: None };
        Self { last: Some(Rc::new(first)), ..Self::default() }
    }

    /// The spans that led here, in order; none if they were not recorded.
    pub(crate) fn spans(&self) -> CriticalSpans {
        let mut links = Vec::new();
        let mut next = self.last.as_ref();
        while let Some(link) = next {
            links.push((link.category.0, link.span.0));
            next = link.before.as_ref();
        }
        let mut spans = CriticalSpans::default();
        let mut end = 0_u64;
        for (category, span) in links.into_iter().rev().filter(|&(_, span)| span > 0) {
            end = end.saturating_add(span);
            if spans.category.last() == Some(&category) {
                spans.end.pop();
                spans.category.pop();
            }
            spans.category.push(category);
            spans.end.push(end);
        }
        spans
    }

    /// Extends the path by a span of this category.
    pub(crate) fn charge(&mut self, category: CategoryId, span: Duration) {
        if span == Duration::ZERO {
            return;
        }
        self.moment = self.moment.after(span);
        if let Some(before) = self.last.take() {
            self.last = Some(Rc::new(Link { category, span, before: Some(before) }));
        }
        let index = category.index();
        if let Some(parts) = self.parts.as_mut()
            && index < parts.len()
        {
            let part = &mut Rc::make_mut(parts)[index];
            *part = part.saturating_add(span.0);
            return;
        }
        let mut parts = vec![0; USUAL.max(index + 1)];
        parts[..self.parts().len()].copy_from_slice(self.parts());
        parts[index] = span.0;
        self.parts = Some(parts.into());
    }

    /// This path, extended.
    #[must_use]
    pub(crate) fn extended(&self, category: CategoryId, span: Duration) -> Self {
        let mut path = self.clone();
        path.charge(category, span);
        path
    }

    /// Picoseconds by category; those beyond the end are 0.
    pub(crate) fn parts(&self) -> &[u64] {
        self.parts.as_deref().unwrap_or_default()
    }

    /// Picoseconds of each of this many categories.
    pub(crate) fn by_category(&self, categories: usize) -> Vec<u64> {
        let mut parts = self.parts().to_vec();
        parts.resize(categories, 0);
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_parts_sum_to_the_time() {
        let path = CriticalPath::default()
            .extended(CategoryId(2), Duration(5))
            .extended(CategoryId(7), Duration(7))
            .extended(CategoryId(2), Duration(1));
        assert_eq!(path.by_category(8), [0, 0, 6, 0, 0, 0, 0, 7]);
    }

    #[test]
    fn a_path_that_was_handed_over_stays() {
        let mut path = CriticalPath::default().extended(CategoryId(1), Duration(5));
        let handed = path.clone();
        path.charge(CategoryId(1), Duration(3));
        path.charge(CategoryId(200), Duration(2));
        assert_eq!(handed.by_category(3), [0, 5, 0]);
        assert_eq!(path.by_category(201)[1], 8);
        assert_eq!(path.by_category(201)[200], 2);
    }

    #[test]
    fn no_time_leaves_no_trace() {
        let mut path = CriticalPath::default();
        path.charge(CategoryId(9), Duration::ZERO);
        assert!(path.parts().is_empty());
        assert_eq!(path.by_category(2), [0, 0]);
    }

    proptest! {
        /// Paths that are extended, handed over and dropped in any order hold what a list of spans
        /// per stream holds.
        #[test]
        fn paths_sum_up_what_was_charged(
            steps in prop::collection::vec((0_usize..4, 0_usize..4, 0_u8..40, 0_u64..9), 0..60),
        ) {
            let mut paths = vec![CriticalPath::default(); 4];
            let mut lists: Vec<Vec<(u8, u64)>> = vec![Vec::new(); 4];
            for (from, to, category, span) in steps {
                paths[to] = paths[from].extended(CategoryId(category), Duration(span));
                lists[to] = lists[from].clone();
                lists[to].push((category, span));
            }
            for (path, list) in paths.iter().zip(&lists) {
                let parts = path.by_category(40);
                for (category, &part) in (0..).zip(&parts) {
                    let charged = list.iter().filter(|(other, _)| *other == category);
                    prop_assert_eq!(part, charged.map(|(_, span)| span).sum::<u64>());
                }
            }
        }
    }

    #[test]
    fn more_than_64_bits_stay_at_the_maximum() {
        let path = CriticalPath::default().extended(CategoryId(3), Duration(u64::MAX));
        assert_eq!(path.extended(CategoryId(3), Duration(9)).by_category(4)[3], u64::MAX);
    }
}
