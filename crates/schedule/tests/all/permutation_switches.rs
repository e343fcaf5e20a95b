//! Several switches: what their number, equal holds, and slots that fit evenly promise.

use crate::common::crossbar::{Crossbar, crossbar};
use lightloom_schedule::permutation::{Method, SwitchSchedule, check_over, decompose_over};
use proptest::prelude::*;

fn over(case: &Crossbar, switches: usize, method: Method) -> SwitchSchedule {
    let found = decompose_over(&case.demand(false), switches, method, None).expect("valid");
    check_over(&case.demand(false), &found).expect("a schedule");
    found
}

/// The least hold with which so many slots serve every line, hold after hold.
fn smallest_hold(case: &Crossbar, slots: u64) -> Option<u64> {
    let largest = case.bytes.iter().copied().max().unwrap_or(0);
    let parts = |line: &Vec<usize>, hold: u64| -> u64 {
        line.iter().map(|&cell| case.bytes[cell].div_ceil(hold)).sum()
    };
    (1..=largest).find(|&hold| case.lines().iter().all(|line| parts(line, hold) <= slots))
}

/// Shifts 1 to `count` of so many lines, every pair of which has the same bytes.
fn shifts(lines: usize, count: usize, bytes: u64, delay: u64) -> Crossbar {
    let shift = |cell: usize| (lines + cell % lines - cell / lines) % lines;
    let cell = |cell: usize| if (1..=count).contains(&shift(cell)) { bytes } else { 0 };
    Crossbar { rows: lines, columns: lines, bytes: (0..lines * lines).map(cell).collect(), delay }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Pairs in parts of at most one hold, the parts colored (König): the same number of equal
    /// slots on every switch.
    #[test]
    fn auto_is_no_longer_than_equal_holds(case in crossbar(5, 60), switches in 2..5_usize) {
        let found = over(&case, switches, Method::Auto);
        for each in 1..5 {
            let Some(hold) = smallest_hold(&case, each * switches as u64) else { continue };
            let limit = each * (hold + case.delay);
            prop_assert!(found.length <= limit, "{} with {each} of {hold}", found.length);
        }
    }

    /// A second slot on a switch would end later than the longest pair: one each, equally long.
    #[test]
    fn long_delays_leave_the_least_equal_hold(
        bytes in prop::collection::vec(0..200_u64, 9),
        switches in 3..8_usize,
    ) {
        let case = Crossbar::square(&bytes, 200);
        let Some(hold) = smallest_hold(&case, switches as u64) else { return Ok(()) };
        prop_assert_eq!(over(&case, switches, Method::Auto).length, hold + case.delay);
    }

    /// Bounds are rounded up to whole bytes, so that another unit is nearly the same.
    #[test]
    fn bounds_over_switches_know_no_direction_and_no_unit(
        case in crossbar(5, 90),
        switches in 2..6_usize,
        factor in 1..9_u64,
    ) {
        let of = |case: &Crossbar| case.demand(false).lower_bound_over(switches);
        prop_assert_eq!(of(&case.transposed()), of(&case));
        let scaled = of(&case.times(factor));
        prop_assert!(scaled.div_ceil(factor) == of(&case), "{scaled} of {}", of(&case));
    }

    /// Another switch can stay dark.
    #[test]
    fn a_switch_for_every_pair_ends_with_the_largest(case in crossbar(4, 30)) {
        let pairs = case.bytes.iter().filter(|&&bytes| bytes > 0).count();
        let largest = case.bytes.iter().copied().max().unwrap_or(0);
        let length = over(&case, pairs.max(1), Method::Maximal).length;
        let limit = if largest > 0 { largest + case.delay } else { 0 };
        prop_assert!(length <= limit, "{length} of {limit}");
    }
}

/// As many slots on every switch, none divided.
#[test]
fn equal_slots_are_dealt_out_evenly() {
    for (count, switches) in [(4, 2), (6, 3), (6, 2), (5, 5)] {
        for delay in [1, 50, 5_000] {
            let case = shifts(8, count, 70, delay);
            for method in [Method::RoundRobin, Method::Critical, Method::Auto] {
                let found = over(&case, switches, method);
                let each = count / switches;
                assert_eq!(
                    found.length,
                    each as u64 * (70 + delay),
                    "{count} {switches} {method:?}"
                );
                assert_eq!(found.length, found.lower_bound);
                assert!(found.switches.iter().all(|slots| slots.len() == each));
            }
        }
    }
}

/// Two shifts over three switches: 2 x 90 bytes and three delays, 60 bytes and a delay each.
#[test]
fn a_slot_is_divided_where_that_saves_more_than_its_delay() {
    let lasts = |delay| over(&shifts(5, 2, 90, delay), 3, Method::Auto).length;
    // Each line has three slots of a hold, which have to serve two pairs of 90: 90 and 2 x 45.
    assert_eq!(lasts(200), 290);
    // Where delays are short, parts of 60 are joined anew: 30 more of either shift follow.
    assert!(lasts(1) < 70, "{}", lasts(1));
    assert!(lasts(1) >= 62);
}
