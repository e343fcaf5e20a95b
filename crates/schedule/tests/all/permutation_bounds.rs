//! Lower bounds against their definitions, and what no change of names, units or empty lines
//! alters.

use crate::common::crossbar::{Crossbar, crossbar};
use lightloom_schedule::permutation::Method;
use proptest::prelude::*;

/// The bound on K slots as the definition reads: the r-th longest hold is no less than the
/// (r + K - degree)-th largest pair of any line.
fn bound_of_slots(lines: &[Vec<u64>], slots: usize, delay: u64) -> u64 {
    let longest = lines.iter().map(|line| line.iter().sum()).max().unwrap_or(0);
    let hold = |rank: usize| {
        let pair = |line: &Vec<u64>| line.get(rank + slots - line.len()).copied().unwrap_or(0);
        lines.iter().map(pair).max().unwrap_or(0)
    };
    slots as u64 * delay + longest.max((0..slots).map(hold).sum())
}

/// Pairs of each line, largest first.
fn sorted_lines(case: &Crossbar) -> Vec<Vec<u64>> {
    let mut lines: Vec<Vec<u64>> = case
        .lines()
        .into_iter()
        .map(|line| {
            line.into_iter().map(|cell| case.bytes[cell]).filter(|&bytes| bytes > 0).collect()
        })
        .collect();
    for line in &mut lines {
        line.sort_unstable_by(|x, y| y.cmp(x));
    }
    lines
}

/// The same demand among more lines that have nothing to send.
fn with_idle_lines(case: &Crossbar, more: usize) -> Crossbar {
    let columns = case.columns + more;
    let mut bytes = vec![0; (case.rows + more) * columns];
    for (cell, &own) in case.bytes.iter().enumerate() {
        bytes[cell / case.columns * columns + cell % case.columns] = own;
    }
    Crossbar { rows: case.rows + more, columns, bytes, delay: case.delay }
}

/// The same demand twice, side by side: other lines, at the same time.
fn twice(case: &Crossbar) -> Crossbar {
    let mut both = with_idle_lines(case, 0);
    let (rows, columns) = (case.rows, case.columns);
    both.rows = 2 * rows;
    both.columns = 2 * columns;
    let cell = |cell: usize| {
        let (row, column) = (cell / (2 * columns), cell % (2 * columns));
        let same = (row < rows) == (column < columns);
        if same { case.bytes[row % rows * columns + column % columns] } else { 0 }
    };
    both.bytes = (0..4 * rows * columns).map(cell).collect();
    both
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn the_bound_is_the_least_over_the_number_of_slots(case in crossbar(6, 90)) {
        let lines = sorted_lines(&case);
        let busiest = lines.iter().map(Vec::len).max().unwrap_or(0);
        let pairs = case.bytes.iter().filter(|&&bytes| bytes > 0).count();
        let of = |slots| bound_of_slots(&lines, slots, case.delay);
        let smallest = (busiest..=busiest + pairs).map(of).min();
        prop_assert_eq!(Some(case.demand(false).lower_bound()), smallest);
        let partial = case.loads(&case.bytes, case.delay).into_iter().max();
        prop_assert_eq!(Some(case.demand(true).lower_bound()), partial);
    }

    /// Who receives takes the place of who sends; bytes and delays are counted in other units;
    /// other lines are idle, or do the same.
    #[test]
    fn bounds_know_no_direction_no_unit_and_no_neighbors(
        case in crossbar(5, 90),
        factor in 1..9_u64,
    ) {
        for partial in [false, true] {
            let bound = case.demand(partial).lower_bound();
            let of = |other: &Crossbar| other.demand(partial).lower_bound();
            prop_assert_eq!(of(&case.transposed()), bound);
            prop_assert_eq!(of(&case.times(factor)), factor * bound);
            prop_assert_eq!(of(&with_idle_lines(&case, factor as usize)), bound);
            prop_assert_eq!(of(&twice(&case)), bound);
        }
    }

    #[test]
    fn more_bytes_and_longer_delays_lower_no_bound(
        case in crossbar(5, 30),
        place in any::<prop::sample::Index>(),
        more in 1..40_u64,
    ) {
        let mut fuller = case.clone();
        fuller.bytes[place.index(case.bytes.len())] += more;
        let later = Crossbar { delay: case.delay + more, ..case.clone() };
        for partial in [false, true] {
            let bound = case.demand(partial).lower_bound();
            prop_assert!(fuller.demand(partial).lower_bound() >= bound);
            prop_assert!(later.demand(partial).lower_bound() >= bound);
        }
        for switches in 1..5 {
            let bound = case.demand(false).lower_bound_over(switches);
            prop_assert!(fuller.demand(false).lower_bound_over(switches) >= bound);
            prop_assert!(later.demand(false).lower_bound_over(switches) >= bound);
            prop_assert!(case.demand(false).lower_bound_over(switches + 1) <= bound);
        }
    }

    /// Whatever the method looks at, it is not who has nothing to send.
    #[test]
    fn idle_lines_change_no_length(case in crossbar(6, 60), more in 1..4_usize) {
        let wider = with_idle_lines(&case, more);
        for method in [Method::Greedy, Method::Bvn, Method::Threshold, Method::OpenShop] {
            let (one, other) = (case.run(method), wider.run(method));
            prop_assert_eq!(one.length, other.length, "{:?}", method);
            prop_assert_eq!(one.plan.configurations(), other.plan.configurations());
        }
    }

    /// Two lines: a pair can only be served together with the one that shares no line with it.
    #[test]
    fn two_lines_take_the_larger_of_either_diagonal(
        bytes in prop::collection::vec(prop_oneof![Just(0), 1..9_u64, 0..1_u64 << 53], 4),
        delay in prop_oneof![Just(0), 1..20_u64, 0..1_u64 << 40],
    ) {
        let diagonals = [bytes[0].max(bytes[3]), bytes[1].max(bytes[2])];
        let slots = diagonals.iter().filter(|&&hold| hold > 0).count() as u64;
        let optimum = diagonals.iter().sum::<u64>() + slots * delay;
        let case = Crossbar::square(&bytes, delay);
        for method in [Method::RoundRobin, Method::Auto] {
            prop_assert_eq!(case.run(method).length, optimum, "{:?}", method);
        }
        for method in Method::single() {
            prop_assert!(case.run(method).length >= optimum, "{:?}", method);
        }
    }
}
