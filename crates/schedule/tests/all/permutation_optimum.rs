//! The shortest schedules of a few lines: what is said to be proved is so.

use crate::common::crossbar::Crossbar;
use crate::common::matchings::optimum;
use crate::common::regimes;
use std::collections::HashMap;

use lightloom_schedule::permutation::{
    Budget, Demand, Matchings, Method, Schedule, check, decompose, decompose_from, decompose_within,
};
use proptest::prelude::*;

fn is_proved(found: &Schedule) -> bool {
    found.length == found.lower_bound
}

/// Slots at random, and the demand that they serve, some of it less than they could.
fn known_slots(lines: usize) -> impl Strategy<Value = (Vec<u64>, u64, u64)> {
    let slot = (Just((0..lines).collect::<Vec<_>>()).prop_shuffle(), 1..1_000_u64);
    let slots = prop::collection::vec(slot, 1..lines + 4);
    let less = prop::collection::vec(0..1_200_u64, lines * lines);
    (slots, less, 1..400_u64).prop_map(move |(slots, less, delay)| {
        let mut bytes = vec![0; lines * lines];
        let mut length = 0;
        for (order, hold) in &slots {
            length += hold + delay;
            order.iter().enumerate().for_each(|(row, column)| bytes[row * lines + column] += hold);
        }
        // Two thirds of the pairs have all bytes that the slots could send.
        let less = less.into_iter().map(|less| less.saturating_sub(800));
        let bytes =
            bytes.into_iter().zip(less).map(|(all, less): (u64, u64)| all.saturating_sub(less));
        (bytes.collect(), delay, length)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Three lines with up to 5 bytes for each pair, against all matchings and holds.
    #[test]
    fn what_is_proved_of_three_lines_is_the_optimum(
        bytes in prop::collection::vec(0..6_u64, 9), delay in 1..6_u64,
    ) {
        let case = Crossbar::square(&bytes, delay);
        let found = case.run(Method::Auto);
        let best = optimum(&bytes, 3, delay, &mut HashMap::new());
        prop_assert_eq!((found.length, found.lower_bound), (best, best));
        prop_assert!(check(&case.demand(false), &found).is_ok());
    }

    /// Four and five lines, whose schedules are known but need not be the shortest.
    #[test]
    fn no_bound_is_above_a_schedule_that_is_known(
        (bytes, delay, length) in prop_oneof![known_slots(4), known_slots(5)],
    ) {
        let case = Crossbar::square(&bytes, delay);
        let found = case.run(Method::Auto);
        prop_assert!(found.lower_bound <= length, "{} above {length}", found.lower_bound);
        prop_assert!(is_proved(&found), "{} to {}", found.lower_bound, found.length);
        prop_assert!(check(&case.demand(false), &found).is_ok());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Six to eight lines, in as many evaluations as a budget allows.
    #[test]
    fn no_bound_of_a_search_that_is_cut_is_above_a_schedule_that_is_known(
        (bytes, delay, length) in prop_oneof![known_slots(6), known_slots(7), known_slots(8)],
        steps in 0..400_u64,
    ) {
        let case = Crossbar::square(&bytes, delay);
        let demand = case.demand(false);
        let found = decompose_within(&demand, Method::Auto, &Budget::of_steps(steps));
        prop_assert!(found.lower_bound <= length, "{} above {length}", found.lower_bound);
        prop_assert!(check(&demand, &found).is_ok());
    }

    /// A row of one pair each, and the same with a line that nobody wants.
    #[test]
    fn lines_without_demand_change_nothing(
        bytes in prop::collection::vec(0..50_u64, 12), delay in 1..30_u64,
    ) {
        let narrow = Crossbar { rows: 3, columns: 4, bytes: bytes.clone(), delay };
        let mut wider = bytes;
        wider.extend([0; 4]);
        let wider = Crossbar::square(&wider, delay);
        let (narrow, wider) = (narrow.run(Method::Auto), wider.run(Method::Auto));
        prop_assert!(is_proved(&narrow) && is_proved(&wider));
        prop_assert_eq!(narrow.length, wider.length);
    }
}

/// Every kind of demand of five lines, with delays from a ten-thousandth of the longest line on.
#[test]
fn five_lines_are_always_proved() {
    let mut random = regimes::Random(0x2545_F491_4F6C_DD1D);
    for kind in ["mixtral", "pair", "sparse", "uniform"] {
        for part in [10_000, 300, 100, 30, 10, 3, 1] {
            let bytes = regimes::demand(kind, 5, &mut random);
            let longest = Crossbar::square(&bytes, 1).longest_line();
            let case = Crossbar::square(&bytes, longest / part);
            let found = case.run(Method::Auto);
            let (bound, length) = (found.lower_bound, found.length);
            assert_eq!(bound, length, "{kind}, 1/{part}");
            assert!(bound >= case.demand(false).lower_bound());
            check(&case.demand(false), &found).unwrap();
        }
    }
}

/// Three slots, as the last column has three peers, and each of the first three pairs in two of
/// them: the holds 3, 4 and 5 follow from each other in a circle, and none ends with a pair. With
/// 7, 9 and 7 bytes they would be 2.5, 4.5 and 4.5.
#[test]
fn holds_may_follow_from_each_other_in_a_circle() {
    for last in [8, 7] {
        let bytes = [7, 0, 0, 1, 0, 9, 0, 1, 0, 0, last, 1, 0, 0, 0, 0];
        let case = Crossbar::square(&bytes, 100);
        let found = case.run(Method::Auto);
        assert_eq!((found.length, found.lower_bound), (312, 312));
        assert_eq!(optimum(&bytes, 4, 100, &mut HashMap::new()), 312);
        check(&case.demand(false), &found).unwrap();
    }
}

/// A bound above that of the formula is proved anew.
#[test]
fn a_bound_that_is_not_one_is_refused() {
    let bytes = [7, 0, 0, 1, 0, 9, 0, 1, 0, 0, 8, 1, 0, 0, 0, 0];
    let case = Crossbar::square(&bytes, 100);
    let demand = case.demand(false);
    let found = case.run(Method::Auto);
    assert_eq!((found.length, found.lower_bound), (312, 312));
    assert!(demand.lower_bound() < 312);
    check(&demand, &found).unwrap();
    let longer = case.run(Method::RoundRobin);
    assert!(longer.length > 313);
    let said = |lower_bound: u64, of: &Schedule| {
        check(&demand, &Schedule { lower_bound, ..of.clone() }).map_err(|error| error.to_string())
    };
    assert_eq!(said(312, &longer), Ok(()));
    let shorter = "schedule: it says bound 313, but there is a schedule of 312";
    assert_eq!(said(313, &longer), Err(shorter.into()));
    let above = "schedule: it says bound 313 of 312, which is not one";
    assert_eq!(said(313, &found), Err(above.into()));
    let formula = demand.lower_bound();
    let low = format!("schedule: it says bound {}, but {formula} of 312 holds", formula - 1);
    assert_eq!(said(formula - 1, &found), Err(low));
}

/// More lines than are searched: nothing above the formula is believed.
#[test]
fn a_bound_of_many_lines_is_that_of_a_formula() {
    let bytes: Vec<u64> = (0..144).map(|cell| cell * cell % 97).collect();
    let case = Crossbar::square(&bytes, 40);
    let demand = case.demand(false);
    let found = case.run(Method::Auto);
    assert_eq!(found.lower_bound, demand.lower_bound());
    assert!(found.length > found.lower_bound);
    let lower_bound = found.lower_bound + 1;
    let error = check(&demand, &Schedule { lower_bound, ..found }).unwrap_err().to_string();
    assert_eq!(error, format!("schedule: it says bound {lower_bound}, but only 0 is proved"));
}

/// Too many bytes for the search, and so long delays that only the number of slots matters.
#[test]
fn the_largest_demand_is_refused_or_proved() {
    let cells = [9, 1, 4, 2, 8, 3, 5, 5, 7];
    let large: Vec<u64> = cells.iter().map(|cell| cell << 48).collect();
    let demand = Demand::new(3, 3, &large, 1 << 40, false).unwrap();
    let found = decompose(&demand, Method::Auto, None);
    assert_eq!(found.lower_bound, demand.lower_bound());
    check(&demand, &found).unwrap();
    let small: Vec<u64> = cells.iter().map(|cell| (cell << 39) - cell).collect();
    for delay in [1, 1 << 40, 1 << 56] {
        let demand = Demand::new(3, 3, &small, delay, false).unwrap();
        let found = decompose(&demand, Method::Auto, None);
        assert!(is_proved(&found), "delay {delay}");
        check(&demand, &found).unwrap();
    }
}

/// An earlier schedule takes nothing from what is proved.
#[test]
fn a_proof_stays_with_what_is_kept() {
    let mut random = regimes::Random(11);
    for _ in 0..4 {
        let bytes = regimes::demand("pair", 5, &mut random);
        let case = Crossbar::square(&bytes, Crossbar::square(&bytes, 1).longest_line() / 100);
        let found = case.run(Method::Auto);
        assert!(is_proved(&found));
        let Matchings::Slots(slots) = &found.plan else { panic!("slots") };
        let demand = case.demand(false);
        let budget = Budget::unlimited();
        let kept = decompose_from(&demand, slots, 0, Method::Auto, &budget).unwrap();
        assert_eq!((kept.length, kept.lower_bound), (found.length, found.lower_bound));
    }
}
