//! The fair level of one link: the rate at which its unconstrained flows fill it.

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
    if let &[cap] = caps {
        // The same, as most links of circuits have one flow; a cap that equals the capacity
        // counts as below a guess that is above both.
        let is_below = cap < capacity || cap <= capacity && guess.is_finite() && guess > cap;
        let (level, load) = if is_below { (f64::INFINITY, cap) } else { (capacity, capacity) };
        return Fair { level, load };
    }
    fair_level_of_many(capacity, caps, guess)
}

/// The same, whatever the number of flows.
fn fair_level_of_many(capacity: f64, caps: &[f64], guess: f64) -> Fair {
    let not_below = |level: f64| caps.iter().filter(|&&cap| cap >= level).count();
    fill(capacity, caps.len() as f64, guess, |level| divide(caps, level), not_below)
}

/// The same where flow `i` stands for `counts[i]` equal ones, of the cap `caps[i]` each.
pub(crate) fn fair_level_of_equal(capacity: f64, caps: &[f64], counts: &[u32], guess: f64) -> Fair {
    let all: u64 = counts.iter().map(|&count| u64::from(count)).sum();
    let divided = |level: f64| {
        let (mut frozen, mut free) = (0.0, 0);
        for (&cap, &count) in caps.iter().zip(counts) {
            let is_below = cap < level;
            frozen += if is_below { cap * f64::from(count) } else { 0.0 };
            free += if is_below { 0 } else { count as usize };
        }
        (frozen, free)
    };
    let not_below = |level: f64| {
        let above = caps.iter().zip(counts).filter(|(cap, _)| **cap >= level);
        above.map(|(_, &count)| count as usize).sum()
    };
    fill(capacity, all as f64, guess, divided, not_below)
}

/// The level at which so many flows fill a capacity. `divide` returns the sum of the caps below a
/// level and the number of the others, `not_below` the latter alone.
#[inline]
fn fill(
    capacity: f64,
    flows: f64,
    guess: f64,
    divide: impl Fn(f64) -> (f64, usize),
    not_below: impl Fn(f64) -> usize,
) -> Fair {
    // No cap can push the root below the equal share.
    let floor = capacity / flows;
    let mut level = if guess.is_finite() { guess } else { floor };
    let mut from_below = false;
    loop {
        let (frozen, free) = divide(level);
        if free == 0 {
            if frozen <= capacity || from_below {
                return Fair { level: f64::INFINITY, load: frozen };
            }
            level = floor;
        } else {
            let next = (capacity - frozen) / free as f64;
            // The sets of flows at two levels are nested, so equal if as large.
            if not_below(next) == free {
                return Fair { level: next, load: capacity };
            }
            if from_below && next <= level {
                return Fair { level, load: capacity };
            }
            level = next.max(floor);
        }
        from_below = true;
    }
}

/// Sum of the caps below `level` and number of the others.
fn divide(caps: &[f64], level: f64) -> (f64, usize) {
    // Four sums, so that additions need not wait for one another.
    let mut sums = [0.0; 4];
    let mut chunks = caps.chunks_exact(4);
    for chunk in &mut chunks {
        for (sum, &cap) in sums.iter_mut().zip(chunk) {
            *sum += if cap < level { cap } else { 0.0 };
        }
    }
    for (sum, &cap) in sums.iter_mut().zip(chunks.remainder()) {
        *sum += if cap < level { cap } else { 0.0 };
    }
    let free = caps.iter().filter(|&&cap| cap >= level).count();
    ((sums[0] + sums[1]) + (sums[2] + sums[3]), free)
}

/// Part of a capacity that headroom leaves free, far above what additions can lose.
const RESERVE: f64 = 1.0 / (1u64 << 30) as f64;

/// Headroom of a link with this capacity and sum of rates.
pub(crate) fn headroom(capacity: f64, load: f64) -> f64 {
    capacity * (1.0 - RESERVE) - load
}

/// Levels so close may yet change their order without anyone taking note: far above what
/// tolerances and rounding errors add up to.
pub(crate) const NEARLY: f64 = 1e-9;

/// `f64::min` without its care for NaN, hence one instruction.
#[inline]
pub(crate) fn smaller(a: f64, b: f64) -> f64 {
    if a < b { a } else { b }
}

#[cfg(test)]
// The numbers are chosen so that results are exact.
#[allow(clippy::float_cmp)]
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

    proptest! {
        /// One flow alone has its level without a search.
        #[test]
        fn a_flow_alone_has_the_level_that_is_found_by_search(
            cap in prop_oneof![(0_u32..9).prop_map(f64::from), Just(INF)],
            capacity in 0_u32..9,
            guess in prop_oneof![(1_u32..9).prop_map(f64::from), Just(INF)],
        ) {
            let capacity = f64::from(capacity);
            let expected = fair_level_of_many(capacity, &[cap], guess);
            prop_assert_eq!(fair_level(capacity, &[cap], guess), expected);
        }

        /// Equal flows as one are as each by itself.
        #[test]
        fn equal_flows_have_the_level_that_they_have_apart(
            flows in prop::collection::vec((0_u32..40, 1_u32..9), 0..12),
            capacity in 1_u32..100, guess in 1_u32..50,
        ) {
            let apart: Vec<f64> = flows.iter()
                .flat_map(|&(cap, count)| vec![f64::from(cap) / 4.0; count as usize])
                .collect();
            let (caps, counts): (Vec<f64>, Vec<u32>) =
                flows.iter().map(|&(cap, count)| (f64::from(cap) / 4.0, count)).unzip();
            let (capacity, guess) = (f64::from(capacity), f64::from(guess));
            let together = fair_level_of_equal(capacity, &caps, &counts, guess);
            let expected = fair_level(capacity, &apart, guess);
            prop_assert_eq!(together.level.is_finite(), expected.level.is_finite());
            let difference = (together.load - expected.load).abs();
            prop_assert!(difference <= 1e-12 * capacity);
            if expected.level.is_finite() {
                let difference = (together.level - expected.level).abs();
                prop_assert!(difference <= 1e-12 * expected.level);
            }
        }
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
