//! The fair level of one link: the rate at which its unconstrained flows fill it.

use crate::store::least;

/// What [`fair_level`] finds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Fair {
    /// The level; infinite if the link is not full.
    pub level: f64,
    /// Sum of the rates.
    pub load: f64,
}

/// The level `x` with `sum(min(x, cap)) = capacity`, or infinity if the caps sum to less (if they
/// sum to just that, either).
///
/// `caps` are what each flow could get on the rest of its path; `guess` is any positive number,
/// the previous level at best. Newton's method on a concave, piecewise linear function: wherever
/// it starts, the first step leads below the root and the others rise to it. A step that passes
/// no cap has found it, so that one pass usually does.
pub(crate) fn fair_level(capacity: f64, caps: &[f64], guess: f64) -> Fair {
    // No cap can push the root below the equal share.
    let floor = capacity / caps.len() as f64;
    let mut level = if guess.is_finite() { guess } else { floor };
    let mut below = false;
    loop {
        let step = Step::at(level, caps);
        if step.free == 0 {
            if step.frozen <= capacity || below {
                return Fair { level: f64::INFINITY, load: step.frozen };
            }
            level = floor;
            below = true;
            continue;
        }
        let next = (capacity - step.frozen) / f64::from(step.free);
        if step.highest_frozen < next && next <= step.lowest_free {
            return Fair { level: next, load: capacity };
        }
        if below && next <= level {
            return Fair { level, load: capacity };
        }
        level = next.max(floor);
        below = true;
    }
}

/// The flows divided by a level.
struct Step {
    /// Sum and greatest of the caps below it.
    frozen: f64,
    highest_frozen: f64,
    /// Number and least of the others.
    free: u32,
    lowest_free: f64,
}

impl Step {
    fn at(level: f64, caps: &[f64]) -> Self {
        let mut step =
            Self { frozen: 0.0, highest_frozen: -1.0, free: 0, lowest_free: f64::INFINITY };
        for &cap in caps {
            // Selects, no branches.
            let is_free = cap >= level;
            let (low, high) = if is_free { (0.0, cap) } else { (cap, f64::INFINITY) };
            step.frozen += low;
            step.highest_frozen = -least(-step.highest_frozen, if is_free { 1.0 } else { -cap });
            step.free += u32::from(is_free);
            step.lowest_free = least(step.lowest_free, high);
        }
        step
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const INF: f64 = f64::INFINITY;

    fn level(capacity: f64, caps: &[f64], guess: f64) -> f64 {
        fair_level(capacity, caps, guess).level
    }

    #[test]
    fn unconstrained_flows_share_equally() {
        assert_eq!(level(12.0, &[INF; 3], INF), 4.0);
        assert_eq!(level(12.0, &[INF; 3], 100.0), 4.0);
        assert_eq!(level(12.0, &[INF; 3], 0.1), 4.0);
    }

    #[test]
    fn what_constrained_flows_leave_goes_to_the_others() {
        assert_eq!(level(12.0, &[1.0, INF, INF], INF), 5.5);
        assert_eq!(level(12.0, &[1.0, 5.0, INF], INF), 6.0);
        assert_eq!(level(12.0, &[0.0, 0.0, INF], 3.0), 12.0);
    }

    #[test]
    fn a_link_that_is_not_full_has_no_level() {
        assert_eq!(fair_level(12.0, &[1.0, 5.0], 3.0), Fair { level: INF, load: 6.0 });
        assert_eq!(fair_level(12.0, &[5.0, 6.0], 6.5), Fair { level: INF, load: 11.0 });
        assert_eq!(fair_level(12.0, &[], INF), Fair { level: INF, load: 0.0 });
    }

    #[test]
    fn a_dark_link_gives_nothing() {
        assert_eq!(level(0.0, &[INF, 3.0], INF), 0.0);
        assert_eq!(level(0.0, &[INF, 3.0], 2.0), 0.0);
        assert_eq!(level(0.0, &[0.0, 3.0], 2.0), 0.0);
    }

    proptest! {
        #[test]
        fn the_level_fills_the_link_whatever_the_guess(
            capacity in 0.1f64..100.0,
            caps in prop::collection::vec(prop_oneof![4 => 0.0f64..20.0, 1 => Just(INF)], 1..40),
            guess in prop_oneof![0.001f64..200.0, Just(INF)],
        ) {
            let Fair { level, load } = fair_level(capacity, &caps, guess);
            let used: f64 = caps.iter().map(|&cap| cap.min(level)).sum();
            prop_assert!((used - load).abs() < 1e-12 * capacity, "{} of {}", used, capacity);
            if level.is_finite() {
                prop_assert!(caps.iter().any(|&cap| cap >= level));
                prop_assert_eq!(load, capacity);
            } else {
                prop_assert!(used <= capacity);
            }
        }
    }
}
