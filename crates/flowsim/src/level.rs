//! The fair level of one link: the rate at which its unconstrained flows fill it.

/// The level `x` with `sum(min(x, cap)) = capacity`, or infinity if the caps sum to less (if they
/// sum to just that, either).
///
/// `caps` are what each flow could get on the rest of its path; `guess` is any positive number,
/// the previous level at best. Newton's method on a concave, piecewise linear function: wherever
/// it starts, the first step leads below the root and the others rise to it, so that one or two
/// passes do.
pub(crate) fn fair_level(capacity: f64, caps: &[f64], guess: f64) -> f64 {
    // No cap can push the root below the equal share.
    let floor = capacity / caps.len() as f64;
    let mut level = guess;
    if level.is_finite() {
        let next = step(capacity, caps, level).unwrap_or(floor);
        if next == level {
            return level;
        }
        level = next.max(floor);
    } else {
        level = floor;
    }
    loop {
        let Some(next) = step(capacity, caps, level) else { return f64::INFINITY };
        if next <= level {
            return level;
        }
        level = next;
    }
}

/// Where the tangent at `level` reaches the capacity; `None` if all caps are below the level.
fn step(capacity: f64, caps: &[f64], level: f64) -> Option<f64> {
    let mut frozen = 0.0;
    let mut free = 0u32;
    for &cap in caps {
        // A select, no branch.
        let below = cap < level;
        frozen += if below { cap } else { 0.0 };
        free += u32::from(!below);
    }
    (free > 0).then(|| (capacity - frozen) / f64::from(free))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const INF: f64 = f64::INFINITY;

    #[test]
    fn unconstrained_flows_share_equally() {
        assert_eq!(fair_level(12.0, &[INF; 3], INF), 4.0);
        assert_eq!(fair_level(12.0, &[INF; 3], 100.0), 4.0);
        assert_eq!(fair_level(12.0, &[INF; 3], 0.1), 4.0);
    }

    #[test]
    fn what_constrained_flows_leave_goes_to_the_others() {
        assert_eq!(fair_level(12.0, &[1.0, INF, INF], INF), 5.5);
        assert_eq!(fair_level(12.0, &[1.0, 5.0, INF], INF), 6.0);
        assert_eq!(fair_level(12.0, &[0.0, 0.0, INF], 3.0), 12.0);
    }

    #[test]
    fn a_link_that_is_not_full_has_no_level() {
        assert_eq!(fair_level(12.0, &[1.0, 5.0], 3.0), INF);
        assert_eq!(fair_level(12.0, &[5.0, 6.0], 6.5), INF);
        assert_eq!(fair_level(12.0, &[], INF), INF);
    }

    #[test]
    fn a_dark_link_gives_nothing() {
        assert_eq!(fair_level(0.0, &[INF, 3.0], INF), 0.0);
        assert_eq!(fair_level(0.0, &[INF, 3.0], 2.0), 0.0);
    }

    proptest! {
        #[test]
        fn the_level_fills_the_link_whatever_the_guess(
            capacity in 0.1f64..100.0,
            caps in prop::collection::vec(prop_oneof![4 => 0.0f64..20.0, 1 => Just(INF)], 1..40),
            guess in prop_oneof![0.001f64..200.0, Just(INF)],
        ) {
            let level = fair_level(capacity, &caps, guess);
            let used: f64 = caps.iter().map(|&cap| cap.min(level)).sum();
            if level.is_finite() {
                prop_assert!((used - capacity).abs() < 1e-12 * capacity, "{} of {}", used, capacity);
                prop_assert!(caps.iter().any(|&cap| cap >= level));
            } else {
                prop_assert!(used <= capacity);
            }
        }
    }
}
