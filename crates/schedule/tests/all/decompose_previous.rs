//! Schedules that keep the matchings of an earlier one.

use crate::common::regimes;
use crate::common::simplex::{Program, Row};
use lightloom_schedule::permutation::{
    Budget, Demand, Matchings, Method, Schedule, Slots, check, decompose, decompose_from,
    decompose_within,
};
use proptest::prelude::*;

fn demand(lines: usize, bytes: &[u64], delay: u64) -> Demand<'_> {
    Demand::new(lines, lines, bytes, delay, false).expect("valid")
}

fn keep(demand: &Demand, previous: &Slots) -> Schedule {
    keep_with(demand, previous, 0)
}

fn keep_with(demand: &Demand, previous: &Slots, new_slots: usize) -> Schedule {
    let unlimited = Budget::unlimited();
    let kept = decompose_from(demand, previous, new_slots, Method::Previous, &unlimited);
    let kept = kept.expect("matchings of its lines");
    check(demand, &kept).unwrap();
    assert_eq!(kept.method, Method::Previous);
    kept
}

fn slots(schedule: &Schedule) -> &Slots {
    let Matchings::Slots(slots) = &schedule.plan else { panic!("slots") };
    slots
}

/// Matchings of random pairs: some lines idle, some slots alike, with any holds.
fn any_slots(lines: usize, limit: usize) -> impl Strategy<Value = Slots> {
    let slot = (Just((0..).take(lines).collect::<Vec<i32>>()).prop_shuffle(), any::<u32>());
    prop::collection::vec((slot, 0..2_000_000_u64), 0..=limit).prop_map(move |drawn| {
        let mut slots = Slots::default();
        for ((matching, idle), hold) in drawn {
            let joined = |(row, column): (usize, i32)| {
                if (idle >> row).trailing_zeros() >= 2 { -1 } else { column }
            };
            slots.matchings.extend(matching.into_iter().enumerate().map(joined));
            slots.holds.push(hold);
        }
        slots
    })
}

fn any_bytes(lines: usize) -> impl Strategy<Value = Vec<u64>> {
    let size = prop_oneof![2 => Just(0), 2 => 1..5_u64, 4 => 0..1_000_000_u64];
    prop::collection::vec(size, lines * lines)
}

fn any_delay() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), 1..4_u64, Just(50_000), Just(1_u64 << 40)]
}

#[derive(Debug)]
struct Case {
    lines: usize,
    bytes: Vec<u64>,
    previous: Slots,
    delay: u64,
}

fn case(limit: usize) -> impl Strategy<Value = Case> {
    (1..=limit)
        .prop_flat_map(|n| (Just(n), any_bytes(n), any_slots(n, 2 * n), any_delay()))
        .prop_map(|(lines, bytes, previous, delay)| Case { lines, bytes, previous, delay })
}

/// A slot's circuits of pairs that want something.
fn wanted(matching: &[i32], bytes: &[u64]) -> Vec<i32> {
    let wants = |row: usize, column: i32| bytes[row * matching.len() + column as usize] > 0;
    let joined = matching.iter().enumerate();
    joined.map(|(row, &to)| if to >= 0 && wants(row, to) { to } else { -1 }).collect()
}

/// Whether a slot moves no circuit of an earlier one: what is new joins ports that were idle.
fn keeps(before: &[i32], now: &[i32]) -> bool {
    now.iter()
        .zip(before)
        .all(|(&now, &old)| now == -1 || now == old || (old == -1 && !before.contains(&now)))
}

/// Whether a matching joins the row of a cell to its column.
fn joins(matching: &[i32], cell: usize, lines: usize) -> bool {
    usize::try_from(matching[cell / lines]) == Ok(cell % lines)
}

/// The smallest sum of holds with which slots serve a demand, from the dual program.
fn smallest_sum(bytes: &[u64], slots: &Slots, lines: usize) -> f64 {
    let of_slot = |slot: usize, cell: usize| joins(&slots.matchings[slot * lines..], cell, lines);
    let row = |slot| Row {
        coefficients: (0..bytes.len())
            .map(|cell| f64::from(u8::from(of_slot(slot, cell))))
            .collect(),
        bound: 1.0,
    };
    let objective = bytes.iter().map(|&bytes| bytes as f64).collect();
    Program { objective, rows: (0..slots.len()).map(row).collect() }.maximize().unwrap().value
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Slots stay in their order, each with its circuits or some of them. Only pairs that no slot
    /// can take are put into new ones, no more than the busiest line of such pairs needs.
    #[test]
    fn any_matchings_are_kept(case in case(7)) {
        let Case { lines, bytes, previous, delay } = &case;
        let demand = demand(*lines, bytes, *delay);
        let kept = keep(&demand, previous);
        let new = kept.new_slots.expect("kept");
        let found: Vec<&[i32]> = slots(&kept).matchings.chunks_exact(*lines).collect();
        let mut before = previous.matchings.chunks_exact(*lines).map(|old| wanted(old, bytes));
        let ours = found.iter().take_while(|now| before.any(|old| keeps(&old, now))).count();
        prop_assert!(found.len() - ours <= new, "{} of {} slots", found.len() - ours, new);
        let mut uncovered = vec![0; 2 * lines];
        for cell in (0..bytes.len()).filter(|&cell| bytes[cell] > 0) {
            let (row, column) = (cell / lines, cell % lines);
            let joined = |old: &[i32]| joins(old, cell, *lines);
            if !previous.matchings.chunks_exact(*lines).any(joined) {
                uncovered[row] += 1;
                uncovered[lines + column] += 1;
            }
        }
        prop_assert!(new <= uncovered.iter().copied().max().unwrap_or(0));
        prop_assert_eq!(kept, keep(&demand, previous), "the same twice");
    }

    /// With the same demand it is no longer; with more of each pair, longer by the most of any.
    #[test]
    fn it_is_no_longer_than_the_earlier_schedule_scaled(
        case in case(7),
        which in 0..7_usize,
        more in prop::collection::vec(0..50_u64, 49),
    ) {
        let Case { lines, bytes, delay, .. } = &case;
        let before = demand(*lines, bytes, *delay);
        let method = Method::single().nth(which).unwrap();
        let earlier = decompose(&before, method, None);
        prop_assert!(keep(&before, slots(&earlier)).length <= earlier.length);
        let drifted: Vec<u64> =
            bytes.iter().zip(&more).map(|(bytes, more)| bytes * (100 + more) / 100).collect();
        let kept = keep(&demand(*lines, &drifted, *delay), slots(&earlier));
        prop_assert_eq!(kept.new_slots, Some(0));
        let largest = more[..bytes.len()].iter().max().unwrap();
        let scaled = |&hold: &u64| (hold * (100 + largest)).div_ceil(100) + delay;
        prop_assert!(kept.length <= slots(&earlier).holds.iter().map(scaled).sum());
    }

    /// Where slots cost nothing, holds are the optimum of the linear program but for rounding; less
    /// only where idle ports help.
    #[test]
    fn holds_are_as_short_as_the_matchings_allow(case in case(6)) {
        let Case { lines, bytes, previous, .. } = &case;
        let mut bytes = bytes.clone();
        for (cell, bytes) in bytes.iter_mut().enumerate() {
            let joined = |old: &[i32]| joins(old, cell, *lines);
            if !previous.matchings.chunks_exact(*lines).any(joined) {
                *bytes = 0;
            }
        }
        let kept = keep(&demand(*lines, &bytes, 0), previous);
        let smallest = smallest_sum(&bytes, previous, *lines);
        let rounding = 1e-6 * smallest + 2.0 * previous.len() as f64;
        prop_assert!(kept.length as f64 <= smallest + rounding, "{} of {smallest}", kept.length);
        let full = previous.matchings.iter().all(|&column| column >= 0);
        let wanted = bytes.iter().all(|&bytes| bytes > 0);
        prop_assert!(!full || !wanted || kept.length as f64 >= smallest - rounding);
    }

    /// More slots are never worse; no more are new than were allowed, and pairs without any need.
    #[test]
    fn more_new_slots_are_never_longer(case in case(6)) {
        let Case { lines, bytes, previous, delay } = &case;
        let demand = demand(*lines, bytes, *delay);
        let without = keep(&demand, previous);
        let mut before = without.length;
        for allowed in 1..4 {
            let kept = keep_with(&demand, previous, allowed);
            prop_assert!(kept.length <= before, "{allowed}: {} of {before}", kept.length);
            let found: Vec<&[i32]> = slots(&kept).matchings.chunks_exact(*lines).collect();
            let mut earlier = previous.matchings.chunks_exact(*lines).map(|old| wanted(old, bytes));
            let ours = found.iter().take_while(|now| earlier.any(|old| keeps(&old, now))).count();
            prop_assert!(found.len() - ours <= kept.new_slots.unwrap());
            before = kept.length;
        }
    }

    /// `auto` is never longer than what it keeps, nor than without it for the same steps.
    #[test]
    fn auto_is_never_longer_with_an_earlier_schedule(case in case(6), steps in 0..400_u64) {
        let Case { lines, bytes, previous, delay } = &case;
        let demand = demand(*lines, bytes, *delay);
        let kept = keep(&demand, previous);
        for budget in [Budget::of_steps(steps), Budget::unlimited()] {
            let without = decompose_within(&demand, Method::Auto, &budget.clone());
            let with = decompose_from(&demand, previous, 0, Method::Auto, &budget).unwrap();
            check(&demand, &with).unwrap();
            prop_assert!(with.length <= without.length.min(kept.length));
            if kept.length == with.length && kept.length < without.length {
                prop_assert_eq!(with, kept.clone(), "no new matchings for nothing");
            }
        }
    }
}

/// Each pair larger or smaller by up to a part of it.
fn drifted(bytes: &[u64], part: f64, random: &mut regimes::Random) -> Vec<u64> {
    let factor = |random: &mut regimes::Random| 1.0 + part * (2.0 * random.uniform() - 1.0);
    bytes.iter().map(|&bytes| (bytes as f64 * factor(random)) as u64).collect()
}

/// What it is for: at 5 % drift a schedule of the same matchings is nearly as short as one anew.
#[test]
fn little_drift_needs_no_new_matchings() {
    let mut random = regimes::Random(11);
    for delay in [40_000, 4_000_000, 40_000_000] {
        let mut ratios = Vec::new();
        for (kind, lines) in regimes::KINDS.into_iter().flat_map(|kind| [(kind, 12), (kind, 24)]) {
            let bytes = regimes::demand(kind, lines, &mut random);
            let earlier = decompose(&demand(lines, &bytes, delay), Method::Auto, None);
            let now = drifted(&bytes, 0.05, &mut random);
            let now = demand(lines, &now, delay);
            let kept = keep(&now, slots(&earlier));
            assert_eq!(kept.new_slots, Some(0));
            ratios.push(kept.length as f64 / decompose(&now, Method::Auto, None).length as f64);
        }
        let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
        assert!(mean <= 1.012, "{delay}: {mean}");
        assert!(ratios.iter().all(|&ratio| ratio <= 1.035), "{delay}: {ratios:?}");
    }
}

/// Where slots are cheap, four more close nearly all of the gap: which of them is new is priced.
#[test]
fn few_new_slots_are_nearly_as_short_as_all() {
    let mut random = regimes::Random(12);
    for (kind, lines) in regimes::KINDS.into_iter().flat_map(|kind| [(kind, 8), (kind, 16)]) {
        let bytes = regimes::demand(kind, lines, &mut random);
        let earlier = decompose(&demand(lines, &bytes, 40_000), Method::Auto, None);
        let now = drifted(&bytes, 0.05, &mut random);
        let now = demand(lines, &now, 40_000);
        let kept = keep_with(&now, slots(&earlier), 4);
        assert!(kept.new_slots <= Some(4));
        let anew = decompose(&now, Method::Auto, None).length;
        assert!(kept.length as f64 <= 1.015 * anew as f64, "{kind} {lines}: {}", kept.length);
    }
}

/// Three shifts with one long pair each: a slot of the three long ones saves 18 of 30 bytes, its
/// delay apart.
#[test]
fn a_new_slot_takes_what_each_slot_waits_for() {
    let shifts = Slots { matchings: vec![0, 1, 2, 1, 2, 0, 2, 0, 1], holds: vec![10; 3] };
    let bytes = [10, 1, 1, 1, 1, 10, 1, 10, 1];
    let found = |delay, new_slots| {
        let kept = keep_with(&demand(3, &bytes, delay), &shifts, new_slots);
        (kept.length, kept.new_slots)
    };
    assert_eq!(found(1, 0), (30 + 3, Some(0)));
    assert_eq!(found(1, 1), (12 + 4, Some(1)));
    assert_eq!(found(1, 3), (12 + 4, Some(1)));
    assert_eq!(found(19, 1), (30 + 3 * 19, Some(0)));
}

/// Three slots for what two do: the third costs a delay, the two others 4 bytes more.
#[test]
fn a_slot_that_is_not_worth_its_delay_is_left_out() {
    let previous = Slots { matchings: vec![0, 1, 1, 0, 0, 1], holds: vec![10, 10, 4] };
    let found = |delay| {
        let kept = keep(&demand(2, &[14, 10, 10, 14], delay), &previous);
        (kept.length - slots(&kept).len() as u64 * delay, slots(&kept).len())
    };
    assert_eq!(found(5), (24, 2));
    // Pairs of 14 and 8 bytes in one slot, and 6 more of one of them in another of its own.
    let previous = Slots { matchings: vec![0, 1, 0, -1], holds: vec![8, 6] };
    let found = keep(&demand(2, &[14, 0, 0, 8], 5), &previous);
    assert_eq!((found.length, slots(&found).len()), (14 + 5, 1));
}

/// A pair that is new goes where both ports are idle, or else to a slot of its own.
#[test]
fn new_pairs_take_idle_ports_first() {
    let previous = Slots { matchings: vec![0, -1, 1, 0], holds: vec![9, 9] };
    let kept = keep(&demand(2, &[9, 9, 9, 7], 3), &previous);
    assert_eq!((kept.length, kept.new_slots), (18 + 2 * 3, Some(0)));
    assert_eq!(slots(&kept).matchings, [0, 1, 1, 0]);
    let previous = Slots { matchings: vec![1, 0], holds: vec![9] };
    let kept = keep(&demand(2, &[4, 9, 9, 7], 3), &previous);
    assert_eq!((kept.length, kept.new_slots), (9 + 7 + 2 * 3, Some(1)));
    assert_eq!(slots(&kept).matchings, [1, 0, 0, 1]);
    let nothing = keep(&demand(2, &[4, 9, 9, 7], 3), &Slots::default());
    assert_eq!((nothing.length, nothing.new_slots), (9 + 7 + 2 * 3, Some(2)));
}

#[test]
fn thousands_of_slots_and_the_most_bytes_there_can_be_are_kept() {
    let lines = 48;
    let bytes: Vec<u64> = (0..lines * lines).map(|cell| (cell as u64 * 7_919) % 1_000).collect();
    let before = demand(lines, &bytes, 0);
    let earlier = decompose(&before, Method::OpenShop, None);
    assert!(slots(&earlier).len() > 2_048);
    assert!(keep(&before, slots(&earlier)).length <= earlier.length);
    let huge = vec![1 << 53; lines * lines];
    let kept = keep(&demand(lines, &huge, 1), slots(&earlier));
    assert!(kept.length >= lines as u64 * ((1 << 53) + 1));
}

#[test]
fn what_is_no_schedule_of_the_same_lines_is_refused() {
    let bytes = [1, 2, 3, 4];
    let refused = |matchings: &[i32], holds: &[u64], method, partial| {
        let demand = Demand::new(2, 2, &bytes, 0, partial).expect("valid");
        let previous = Slots { matchings: matchings.to_vec(), holds: holds.to_vec() };
        let found = decompose_from(&demand, &previous, 0, method, &Budget::unlimited());
        found.unwrap_err().to_string()
    };
    let kept = Method::Previous;
    assert_eq!(refused(&[0, 1, 0], &[5], kept, false), "previous: 3 cells for 1 slots of 2 rows");
    assert_eq!(refused(&[0, 2], &[5], Method::Auto, false), "previous: slot 0: no column 2 of 2");
    assert_eq!(refused(&[0, -2], &[5], kept, false), "previous: slot 0: no column -2 of 2");
    assert_eq!(refused(&[0, 1, 1, 1], &[5, 5], kept, false), "previous: slot 1: column 1 twice");
    let text = "previous: expected the method previous or auto, got bvn";
    assert_eq!(refused(&[0, 1], &[5], Method::Bvn, false), text);
    let text = "previous: expected all-stop reconfiguration, got partial";
    assert_eq!(refused(&[0, 1], &[5], kept, true), text);
}
