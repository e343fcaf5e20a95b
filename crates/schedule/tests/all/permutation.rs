//! Schedules of permutations: properties on any demand, closed forms, and the true optimum of
//! tiny demand.

use crate::common::matchings::optimum;
use crate::common::regimes;
use std::collections::{HashMap, HashSet};
use std::time::Instant;

use lightloom_schedule::permutation::{
    Budget, Demand, Matchings, Method, Schedule, check, decompose, decompose_within,
};
use proptest::prelude::*;

#[derive(Debug, Clone)]
struct Case {
    rows: usize,
    columns: usize,
    bytes: Vec<u64>,
    delay: u64,
}

impl Case {
    fn demand(&self, partial: bool) -> Demand<'_> {
        Demand::new(self.rows, self.columns, &self.bytes, self.delay, partial).expect("valid")
    }

    fn run(&self, method: Method) -> Schedule {
        decompose(&self.demand(false), method, None)
    }

    fn longest(&self) -> u64 {
        let row = |row: usize| (0..self.columns).map(|c| self.bytes[row * self.columns + c]).sum();
        let column = |c: usize| (0..self.rows).map(|row| self.bytes[row * self.columns + c]).sum();
        let lines = (0..self.rows).map(row).chain((0..self.columns).map(column));
        lines.max().unwrap_or(0)
    }

    fn pairs(&self) -> usize {
        self.bytes.iter().filter(|&&bytes| bytes > 0).count()
    }

    fn square(bytes: &[u64], delay: u64) -> Self {
        let lines = bytes.len().isqrt();
        Self { rows: lines, columns: lines, bytes: bytes.to_vec(), delay }
    }

    /// Rows and columns in another order.
    fn relabelled(&self, seed: u64) -> Self {
        let order = |count: usize, odd: u64| {
            let mut order: Vec<usize> = (0..count).collect();
            order.sort_by_key(|&i| (i as u64 + 1).wrapping_mul(seed | 1).wrapping_mul(odd) >> 7);
            order
        };
        let rows = order(self.rows, 0x9E37_79B9_7F4A_7C15);
        let columns = order(self.columns, 0xD1B5_4A32_D192_ED03);
        let cell = |row: &usize| {
            let row = row * self.columns;
            columns.iter().map(move |column| self.bytes[row + column]).collect::<Vec<u64>>()
        };
        Self { bytes: rows.iter().flat_map(cell).collect(), ..self.clone() }
    }
}

/// Nothing, few bytes (hence ties), many, and the most there can be.
fn size() -> impl Strategy<Value = u64> {
    prop_oneof![3 => Just(0), 3 => 1..5_u64, 4 => 0..100_000_000_u64, 1 => Just(1_u64 << 53)]
}

fn case(limit: usize) -> impl Strategy<Value = Case> {
    (0..=limit, 0..=limit)
        .prop_flat_map(|(rows, columns)| {
            let delay = prop_oneof![Just(0), 1..4_u64, Just(1_000_000), Just(1_u64 << 45)];
            (Just(rows), Just(columns), prop::collection::vec(size(), rows * columns), delay)
        })
        .prop_map(|(rows, columns, bytes, delay)| Case { rows, columns, bytes, delay })
}

/// The slow but obvious way: bytes left after all slots, and whether each is a matching.
fn play(case: &Case, schedule: &Schedule) -> Vec<u64> {
    let Matchings::Slots(slots) = &schedule.plan else { panic!("slots") };
    let mut left = case.bytes.clone();
    for (slot, hold) in slots.holds.iter().enumerate() {
        let joined = &slots.matchings[slot * case.rows..(slot + 1) * case.rows];
        for (row, &column) in joined.iter().enumerate().filter(|pair| *pair.1 >= 0) {
            assert!(!joined[..row].contains(&column), "column {column} twice in slot {slot}");
            let cell = row * case.columns + column as usize;
            left[cell] -= left[cell].min(*hold);
        }
    }
    left
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn every_method_serves_all(case in case(7), partial in any::<bool>()) {
        let demand = case.demand(partial);
        let auto = decompose(&demand, Method::Auto, None);
        check(&demand, &auto).unwrap();
        for method in Method::single() {
            let found = decompose(&demand, method, None);
            prop_assert_eq!(found.method, method);
            let checked = check(&demand, &found);
            prop_assert!(checked.is_ok(), "{:?}: {:?}", method, checked);
            prop_assert!(auto.length <= found.length, "{:?} is shorter", method);
            prop_assert!(partial || play(&case, &found).iter().all(|&bytes| bytes == 0));
        }
    }

    /// Next to 2^53 bytes a few are lost in the rounding of weights and prices.
    #[test]
    fn every_method_serves_a_byte_beside_the_most_there_can_be(
        (rows, columns) in (1..9_usize, 1..9_usize),
        pattern in prop::collection::vec(0..4_usize, 64),
        delay in prop::sample::select(vec![0, 1, 1_000_000, 1 << 40]),
    ) {
        let sizes = [0, 1, 2, 1 << 53];
        let bytes = pattern[..rows * columns].iter().map(|&which| sizes[which]).collect();
        let case = Case { rows, columns, bytes, delay };
        for method in Method::ALL.iter().copied() {
            check(&case.demand(false), &case.run(method)).unwrap();
        }
    }

    #[test]
    fn exact_methods_hold_for_the_longest_line(case in case(9)) {
        for method in [Method::Bvn, Method::Threshold] {
            let Matchings::Slots(slots) = case.run(method).plan else { panic!("slots") };
            prop_assert_eq!(slots.holds.iter().sum::<u64>(), case.longest());
            let limit = case.pairs() + case.rows + case.columns;
            prop_assert!(slots.len() <= limit, "{} slots, {} pairs", slots.len(), case.pairs());
        }
    }

    #[test]
    fn guarantees_hold(case in case(9)) {
        let free = Case { delay: 0, ..case.clone() };
        prop_assert!(free.run(Method::Maximal).length <= 2 * case.longest());
        let shifts = case.run(Method::RoundRobin).plan.configurations();
        prop_assert!(shifts <= case.rows.max(case.columns));
        let partial = decompose(&case.demand(true), Method::OpenShop, None);
        prop_assert!(partial.length <= 2 * partial.lower_bound);
        prop_assert_eq!(partial.plan.configurations(), case.pairs());
    }

    /// What does not depend on labels: bounds, exact lengths, and hence `auto` without delay.
    #[test]
    fn relabelling_keeps_lengths(case in case(8), seed in any::<u64>()) {
        let other = case.relabelled(seed);
        for partial in [false, true] {
            let (one, two) = (case.demand(partial), other.demand(partial));
            prop_assert_eq!(one.lower_bound(), two.lower_bound());
        }
        let holds = |case: &Case, method| match case.run(method).plan {
            Matchings::Slots(slots) => slots.holds.iter().sum::<u64>(),
            Matchings::Transfers(_) => 0,
        };
        for method in [Method::Bvn, Method::Threshold] {
            prop_assert_eq!(holds(&case, method), holds(&other, method));
        }
        let length = |case: &Case| Case { delay: 0, ..case.clone() }.run(Method::Auto).length;
        prop_assert_eq!(length(&case), length(&other));
    }

    /// The longest lines choose first among pairs, so that labels decide nothing unless rows or
    /// columns are as long as each other.
    #[test]
    fn exact_slots_keep_with_labels_of_lines_that_differ(
        bytes in prop::collection::vec(0..1_000_000_u64, 64),
        seed in any::<u64>(),
    ) {
        let case = Case::square(&bytes, 0);
        let rows: HashSet<u64> = bytes.chunks_exact(8).map(|row| row.iter().sum()).collect();
        let column = |c: usize| bytes.iter().skip(c).step_by(8).sum();
        let columns: HashSet<u64> = (0..8).map(column).collect();
        prop_assume!(rows.len() == 8 && columns.len() == 8);
        for method in [Method::Bvn, Method::Threshold] {
            let holds = |case: &Case| match case.run(method).plan {
                Matchings::Slots(slots) => slots.holds,
                Matchings::Transfers(_) => Vec::new(),
            };
            prop_assert_eq!(holds(&case), holds(&case.relabelled(seed)));
        }
    }

    /// Bytes and delay in a unit eight times smaller: the same matchings.
    #[test]
    fn scaling_keeps_matchings(case in case(6), partial in any::<bool>()) {
        prop_assume!(case.bytes.iter().all(|&bytes| bytes < 1 << 50));
        let bytes = case.bytes.iter().map(|&bytes| 8 * bytes).collect();
        let other = Case { bytes, delay: 8 * case.delay, ..case.clone() };
        for method in Method::ALL.iter().copied() {
            let one = decompose(&case.demand(partial), method, None);
            let two = decompose(&other.demand(partial), method, None);
            prop_assert_eq!(8 * one.length, two.length, "{:?}", method);
            prop_assert_eq!(one.plan.configurations(), two.plan.configurations());
        }
    }

    /// Holds of an exact schedule cannot be cut, and no slot of it can be left out.
    #[test]
    fn check_refuses_what_is_too_short(case in case(6), place in any::<prop::sample::Index>()) {
        let demand = case.demand(false);
        let found = case.run(Method::Bvn);
        let Matchings::Slots(slots) = &found.plan else { panic!("slots") };
        prop_assume!(!slots.is_empty());
        let slot = place.index(slots.len());
        let mut cut = slots.clone();
        cut.holds[slot] -= 1;
        let length = found.length - 1;
        let cut = Schedule { plan: Matchings::Slots(cut), length, ..found.clone() };
        prop_assert!(check(&demand, &cut).is_err());
        let mut fewer = slots.clone();
        let length = found.length - fewer.holds.remove(slot) - case.delay;
        fewer.matchings.drain(slot * case.rows..(slot + 1) * case.rows);
        let fewer = Schedule { plan: Matchings::Slots(fewer), length, ..found.clone() };
        prop_assert!(check(&demand, &fewer).is_err());
    }

    #[test]
    fn check_refuses_transfers_that_meet(case in case(5), place in any::<prop::sample::Index>()) {
        let demand = case.demand(true);
        let found = decompose(&demand, Method::OpenShop, None);
        let Matchings::Transfers(transfers) = &found.plan else { panic!("transfers") };
        let late: Vec<usize> =
            (0..transfers.len()).filter(|&index| transfers[index].start > 0).collect();
        prop_assume!(!late.is_empty());
        let mut early = transfers.clone();
        // Every transfer that waits, waits for one of its lines.
        early[late[place.index(late.len())]].start -= 1;
        let length = Matchings::Transfers(early.clone()).length(case.delay);
        let early = Schedule { plan: Matchings::Transfers(early), length, ..found.clone() };
        let error = check(&demand, &early).unwrap_err().to_string();
        prop_assert!(error.contains("two circuits") || error.contains("bound"), "{}", error);
    }
}

/// So few bytes that the states that can be reached are few: 4^9, and 3^8 for four or five lines.
fn tiny() -> impl Strategy<Value = Case> {
    let three = (prop::collection::vec(0..4_u64, 9), 0..5_u64);
    let pair = (0..16_usize, 1..3_u64);
    let four = (prop::collection::vec(pair, 0..9), 0..4_u64).prop_map(|(pairs, delay)| {
        let mut bytes = [0; 16];
        for (cell, size) in pairs {
            bytes[cell] = size;
        }
        Case::square(&bytes, delay)
    });
    let pair = (0..25_usize, 1..3_u64);
    let five = (prop::collection::vec(pair, 0..9), 0..4_u64).prop_map(|(pairs, delay)| {
        let mut bytes = [0; 25];
        for (cell, size) in pairs {
            bytes[cell] = size;
        }
        Case::square(&bytes, delay)
    });
    prop_oneof![three.prop_map(|(bytes, delay)| Case::square(&bytes, delay)), four, five]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn auto_is_the_optimum_of_a_few_lines(case in tiny()) {
        let best = optimum(&case.bytes, case.rows, case.delay, &mut HashMap::new());
        let found = case.run(Method::Auto);
        prop_assert!(found.lower_bound <= best, "bound {} of {}", found.lower_bound, best);
        prop_assert_eq!(found.length, best);
    }
}

/// Once 15: all rules and swaps lead elsewhere.
#[test]
fn auto_finds_three_slots_by_branch_and_bound() {
    let case = Case::square(&[3, 3, 1, 0, 1, 1, 1, 3, 1], 2);
    assert_eq!(case.run(Method::Auto).length, 13);
}

/// Long pairs, where not every number of bytes can be tried: what is known to be optimal, because
/// the demand was made of slots that waste nothing on the longest line.
#[test]
fn auto_finds_the_slots_that_a_demand_was_made_of() {
    let mut random = regimes::Random(9);
    for _ in 0..20 {
        let (lines, slots) = (5, 3);
        let mut bytes = vec![0_u64; lines * lines];
        let mut sum = 0;
        for _ in 0..slots {
            let hold = 1 + (1e6 * random.uniform()) as u64;
            sum += hold;
            for (row, column) in random.shuffled(lines as u32).into_iter().enumerate() {
                bytes[row * lines + column as usize] += hold;
            }
        }
        let case = Case::square(&bytes, 400_000);
        assert!(case.run(Method::Auto).length <= sum + slots * case.delay);
    }
}

/// A budget of steps bounds the same search as time does: more of it is never worse, and little of
/// it suffices for a schedule that is no longer than that of greedy matchings.
#[test]
fn more_budget_is_never_worse() {
    for (lines, delay) in [(6, 900_000), (12, 200_000), (20, 2_000_000), (20, 0)] {
        let mut random = regimes::Random(0x9E37_79B9_7F4A_7C15);
        let bytes = regimes::demand("pair", lines, &mut random);
        let case = Case::square(&bytes, delay);
        let demand = case.demand(false);
        let mut before = u64::MAX;
        for steps in (0..40).chain((40..2_000).step_by(151)).chain([10_000, 100_000]) {
            let found = decompose_within(&demand, Method::Auto, &Budget::of_steps(steps));
            check(&demand, &found).unwrap();
            assert!(found.length <= before, "{lines} lines, {steps} steps");
            before = found.length;
        }
        assert!(case.run(Method::Critical).length >= before);
    }
}

/// What is asked for first: at once better than shifts on skewed pairs, and close to the method
/// that takes several times as long.
#[test]
fn greedy_matchings_are_close_to_the_critical_line_method() {
    let mut random = regimes::Random(5);
    for kind in ["pair", "sparse", "uniform"] {
        for lines in [8, 16, 32] {
            let bytes = regimes::demand(kind, lines, &mut random);
            for delay in [4_000, 400_000, 4_000_000] {
                let case = Case::square(&bytes, delay);
                let [greedy, critical] = [Method::Greedy, Method::Critical].map(|m| case.run(m));
                let over = greedy.length as f64 / greedy.lower_bound as f64;
                assert!(over <= 1.2, "{kind} {lines} {delay}: {over}");
                assert!(greedy.length as f64 <= 1.1 * critical.length as f64, "{kind} {lines}");
            }
        }
    }
}

/// Without delay many schedules are optimal; the one with the fewest slots is kept.
#[test]
fn auto_takes_few_slots_where_none_is_shorter() {
    let mut random = regimes::Random(3);
    for lines in [6, 16, 32, 64] {
        let bytes = regimes::demand("uniform", lines, &mut random);
        let case = Case::square(&bytes, 0);
        let [auto, bvn, threshold] = [Method::Auto, Method::Bvn, Method::Threshold]
            .map(|method| (case.run(method).length, case.run(method).plan.configurations()));
        assert_eq!(auto.0, case.longest());
        assert!(auto.1 <= bvn.1.min(threshold.1), "{} of {} and {}", auto.1, bvn.1, threshold.1);
    }
    // Two slots of 3 bytes that are one: no hold is longer when they are merged.
    let case = Case::square(&[5, 0, 2, 0, 7, 0, 2, 0, 5], 0);
    assert_eq!(
        (case.run(Method::Auto).length, case.run(Method::Auto).plan.configurations()),
        (7, 2)
    );
}

/// A slot for each of a million pairs would take 4.3 GB.
#[test]
fn methods_with_a_slot_per_pair_refuse_what_memory_does_not_hold() {
    let bytes = vec![1; 1_024 * 1_024];
    for partial in [false, true] {
        let demand = Demand::new(1_024, 1_024, &bytes, 1, partial).unwrap();
        let text = demand.check_size(Method::Maximal).unwrap_err().to_string();
        assert!(text.starts_with("maximal: about 1048576 slots, one per pair, of 1024"), "{text}");
        assert_eq!(demand.check_size(Method::OpenShop).is_ok(), partial);
        for method in [Method::RoundRobin, Method::Bvn, Method::Critical, Method::Auto] {
            demand.check_size(method).unwrap();
        }
    }
    // As many cells as there may be, and one row more.
    let bytes = vec![1; 512 * 513];
    let fits = |rows| Demand::new(rows, 512, &bytes[..rows * 512], 1, false).unwrap();
    fits(512).check_size(Method::OpenShop).unwrap();
    fits(513).check_size(Method::OpenShop).unwrap_err();
}

/// The fewest slots are best, and no other method finds them.
#[test]
fn auto_finds_two_slots() {
    let case = Case::square(&[1, 1, 0, 0, 0, 2, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0], 3);
    assert_eq!(case.run(Method::Auto).length, 10);
    for method in Method::single() {
        assert!(case.run(method).length > 10, "{method:?}");
    }
}

#[test]
fn permutation_matrix_takes_one_slot() {
    let bytes = [0, 7, 0, 0, 0, 7, 7, 0, 0];
    for method in Method::ALL.iter().copied() {
        let found = Case::square(&bytes, 100).run(method);
        let Matchings::Slots(slots) = &found.plan else { panic!("slots") };
        assert_eq!((&slots.matchings[..], &slots.holds[..]), (&[1, 2, 0][..], &[7][..]));
        assert_eq!((found.length, found.lower_bound), (107, 107), "{method:?}");
    }
}

#[test]
fn equal_demand_takes_a_latin_square() {
    for lines in [2, 5, 16] {
        let case = Case::square(&vec![9; lines * lines], 3);
        let found = case.run(Method::Auto);
        assert_eq!(found.length, lines as u64 * 12);
        assert_eq!(found.length, found.lower_bound);
    }
}

#[test]
fn near_ties_stay_exact() {
    let bytes: Vec<u64> = (0..64).map(|cell| (1 << 40) + cell % 3).collect();
    let case = Case::square(&bytes, 0);
    assert_eq!(case.run(Method::Auto).length, case.longest());
    check(&case.demand(false), &case.run(Method::Critical)).unwrap();
}

#[test]
fn one_huge_pair_hides_all_others() {
    let mut bytes = vec![1; 36];
    bytes[8] = 1 << 53;
    let found = Case::square(&bytes, 0).run(Method::Auto);
    assert_eq!(found.length, (1 << 53) + 5);
}

#[test]
fn the_most_bytes_there_can_be() {
    let bytes = vec![1 << 53; 256 * 256];
    let demand = Demand::new(256, 256, &bytes, 0, false).unwrap();
    for method in [Method::Bvn, Method::RoundRobin, Method::OpenShop, Method::Auto] {
        let found = decompose(&demand, method, None);
        check(&demand, &found).unwrap();
        assert_eq!(found.length, 1 << 61, "{method:?}");
    }
}

#[test]
fn one_row_or_column_serves_one_pair_after_another() {
    for (rows, columns) in [(1, 5), (5, 1)] {
        let case = Case { rows, columns, bytes: vec![3, 0, 1, 4, 9], delay: 10 };
        for method in [Method::Bvn, Method::RoundRobin, Method::Critical, Method::Auto] {
            assert_eq!(case.run(method).length, 17 + 4 * 10, "{method:?}");
        }
    }
}

#[test]
fn pairs_of_different_size_raise_the_bound() {
    // Two slots: the large pairs meet neither each other nor fit one slot with the small ones.
    let case = Case::square(&[9, 1, 1, 1], 100);
    let found = case.run(Method::Auto);
    assert_eq!(found.length, 9 + 1 + 200);
    // One line is 10 long, and each line has one large and one small pair at most.
    assert_eq!(found.lower_bound, 210);
    // A third slot would cost more than the 8 bytes that it could save here.
    let case = Case::square(&[9, 1, 0, 0, 9, 9, 9, 0, 9], 1_000);
    let best = optimum(&case.bytes, 3, 1_000, &mut HashMap::new());
    assert_eq!(case.run(Method::Auto).length, best);
}

#[test]
fn a_time_limit_that_is_over_still_gives_an_answer() {
    let bytes: Vec<u64> = (0..400).map(|cell| cell * cell % 977).collect();
    for partial in [false, true] {
        let demand = Demand::new(20, 20, &bytes, 5_000, partial).unwrap();
        let found = decompose(&demand, Method::Auto, Some(Instant::now()));
        check(&demand, &found).unwrap();
        let cheapest = if partial { Method::OpenShop } else { Method::RoundRobin };
        assert_eq!(found, decompose(&demand, cheapest, None));
    }
}

#[test]
fn more_time_is_never_worse() {
    let bytes: Vec<u64> = (0..400).map(|cell| cell * cell % 977).collect();
    let demand = Demand::new(20, 20, &bytes, 100, false).unwrap();
    let without = decompose(&demand, Method::Auto, None);
    let until = Instant::now() + std::time::Duration::from_millis(200);
    let longer = decompose(&demand, Method::Auto, Some(until));
    check(&demand, &longer).unwrap();
    assert!(longer.length as f64 <= 1.2 * without.length as f64);
}

#[test]
fn every_number_of_words_of_bits() {
    for lines in [63, 64, 65, 128, 129, 257, 513] {
        // Three pairs per line, so that all sizes are quick.
        let mut bytes = vec![0; lines * lines];
        for line in 0..lines {
            for (step, size) in [(1, 50), (lines / 2, 700), (lines - 1, 90)] {
                bytes[line * lines + (line * 7 + step) % lines] += size + line as u64;
            }
        }
        for (method, delay) in [Method::Bvn, Method::Threshold, Method::Maximal, Method::OpenShop]
            .into_iter()
            .flat_map(|method| [(method, 0), (method, 40)])
        {
            let demand = Demand::new(lines, lines, &bytes, delay, delay > 0).unwrap();
            check(&demand, &decompose(&demand, method, None)).unwrap();
        }
    }
}

#[test]
fn wrong_demand_is_refused() {
    let text = |rows, columns, bytes: &[u64], delay| {
        Demand::new(rows, columns, bytes, delay, false).unwrap_err().to_string()
    };
    assert_eq!(text(2, 2, &[1, 2, 3], 0), "3 values are not 2 x 2");
    let limit = (1 << 53) + 1;
    assert!(text(1, 2, &[0, limit], 0).contains("demand[0, 1] is 9007199254740993"));
    assert!(text(1_025, 0, &[], 0).contains("expected at most 1024 lines"));
    assert!(text(1, 300, &vec![1 << 53; 300], 0).contains("too much for 1 x 300"));
    assert!(text(1, 1, &[1], 1 << 62).contains("too long for 1 x 1"));
}

#[test]
fn names_lead_back_to_methods() {
    for method in Method::ALL.iter().copied() {
        assert_eq!(method.name().parse(), Ok(method));
    }
    assert!("birkhoff".parse::<Method>().is_err());
}

/// Two rows of two pairs each, 6 + 6 and 10 + 2 bytes, no column shared. In two slots the larger
/// pairs are served together, and the smaller ones: 10 + 6. In three, either row is whole at 12.
#[test]
fn the_bound_counts_what_pairs_of_a_slot_wait_for() {
    let bytes = [6, 6, 0, 0, 0, 0, 10, 2];
    let of = |delay| {
        let case = Case { rows: 2, columns: 4, bytes: bytes.to_vec(), delay };
        let found = case.run(Method::Auto);
        (found.lower_bound, found.length)
    };
    assert_eq!(of(100), (200 + 16, 200 + 16));
    assert_eq!(of(1).0, 3 + 12);
    assert_eq!(of(0), (12, 12));
}
