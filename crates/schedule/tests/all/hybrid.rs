//! Schedules of circuits and packets: bounds, replay, and brute force at small sizes.

use crate::common::regimes::{self, Random};
use lightloom_model::Rate;
use lightloom_schedule::hybrid::{
    HybridDemand, HybridMethod, HybridSchedule, MAX_HYBRID_LINES, PortRates, check_hybrid,
    schedule_hybrid,
};
use lightloom_schedule::permutation::{self, Method, Slots};
use proptest::prelude::*;

fn rates(circuit: u64, eps: u64) -> PortRates {
    PortRates { circuit: Rate(circuit), eps: Rate(eps) }
}

/// A square demand with an EPS of a tenth of the circuits' rate.
fn tenth(bytes: &[u64], delay: u64) -> HybridDemand<'_> {
    let n = bytes.len().isqrt();
    HybridDemand::new(n, n, bytes, delay, rates(10, 1)).unwrap()
}

fn checked(demand: &HybridDemand, method: HybridMethod) -> HybridSchedule {
    let found = schedule_hybrid(demand, method);
    check_hybrid(demand, &found).unwrap_or_else(|error| panic!("{method:?}: {error}"));
    assert_eq!(found.method, method);
    found
}

fn balanced(demand: &HybridDemand) -> HybridSchedule {
    checked(demand, HybridMethod::Balanced)
}

/// A demand of three lines, and all matchings of them.
struct Small {
    bytes: Vec<u64>,
    delay: u64,
    share: f64,
    all: Vec<Vec<usize>>,
}

/// The same length as the library says, computed in another way: the first time at which neither
/// circuits are held nor any port of the EPS is behind.
fn length(case: &Small, slots: &[(Vec<usize>, u64)]) -> f64 {
    let (bytes, n, delay) = (&case.bytes, 3, case.delay);
    let mut left: Vec<f64> = bytes.iter().map(|&b| b as f64).collect();
    let mut time = 0.0;
    for (to, hold) in slots {
        time += (hold + delay) as f64;
        for (row, &column) in to.iter().enumerate() {
            left[row * n + column] = (left[row * n + column] - *hold as f64).max(0.0);
        }
    }
    for line in 0..n {
        let row: f64 = left[line * n..][..n].iter().sum();
        let column: f64 = left.iter().skip(line).step_by(n).sum();
        time = time.max(row.max(column) / case.share);
    }
    time
}

fn permutations(n: usize) -> Vec<Vec<usize>> {
    if n == 0 {
        return vec![vec![]];
    }
    let mut all = Vec::new();
    for rest in permutations(n - 1) {
        for place in 0..n {
            let mut one = rest.clone();
            one.insert(place, n - 1);
            all.push(one);
        }
    }
    all
}

/// Shortens `best` to the shortest schedule that adds up to `more` slots of further matchings.
fn brute_force(case: &Small, slots: &mut Vec<(Vec<usize>, u64)>, more: usize, best: &mut f64) {
    *best = best.min(length(case, slots));
    if more == 0 {
        return;
    }
    let first = slots.last().and_then(|last| case.all.iter().position(|one| *one == last.0));
    for to in &case.all[first.map_or(0, |index| index + 1)..] {
        for hold in 1..=case.bytes.iter().copied().max().unwrap_or(0) {
            slots.push((to.clone(), hold));
            brute_force(case, slots, more - 1, best);
            slots.pop();
        }
    }
}

#[test]
fn every_hold_of_every_matching_of_three_lines_is_hardly_shorter() {
    let mut random = Random(77);
    let (mut sum, mut cases) = (0.0, 0.0);
    for draw in 0..40 {
        let bytes: Vec<u64> = (0..9).map(|_| (random.uniform().powi(2) * 9.0) as u64).collect();
        let delay = draw % 4;
        let (circuit, eps) = [(4, 1), (2, 1), (10, 1)][draw as usize % 3];
        let demand = HybridDemand::new(3, 3, &bytes, delay, rates(circuit, eps)).unwrap();
        let found = balanced(&demand);
        let share = eps as f64 / circuit as f64;
        let case = Small { bytes: bytes.clone(), delay, share, all: permutations(3) };
        let mut best = f64::INFINITY;
        brute_force(&case, &mut Vec::new(), 3, &mut best);
        // the bound is whole bytes, rounded up
        assert!((found.lower_bound as f64) < best + 1.0, "{bytes:?}: {best}");
        // brute force tries three slots at most, which more slots may beat
        if best > 0.0 {
            sum += found.length as f64 / best.ceil();
            cases += 1.0;
        }
    }
    let mean = sum / cases;
    assert!(mean < 1.03, "{mean}");
}

/// Two lines: the length in closed form. Row 0 has 100 bytes for one column, EPS at a tenth.
#[test]
fn one_pair_is_divided_so_that_both_switches_end_together() {
    let bytes = [0, 1_100, 0, 0];
    let found = balanced(&tenth(&bytes, 0));
    assert_eq!((found.length, found.lower_bound, found.over_bound()), (1_000, 1_000, 1.0));
    assert_eq!((found.slots.holds.as_slice(), found.eps[1]), (&[1_000][..], 100));
    // T = delay + hold, and 1,100 - hold = T / 10
    let late = balanced(&tenth(&bytes, 110));
    assert_eq!((late.length, late.slots.holds.as_slice(), late.eps[1]), (1_100, &[990][..], 110));
}

#[test]
fn what_packets_carry_within_the_delay_gets_no_slot() {
    for method in [HybridMethod::Balanced, HybridMethod::Eclipse] {
        let found = checked(&tenth(&[0, 100, 0, 0], 1_000), method);
        assert_eq!((found.slots.len(), found.length, found.eps[1]), (0, 1_000, 100), "{method:?}");
    }
    // Solstice, as printed, knows of no time but that of its slots.
    let printed = checked(&tenth(&[0, 100, 0, 0], 1_000), HybridMethod::Solstice);
    assert_eq!((printed.slots.len(), printed.length), (1, 1_100));
}

/// A heavy shift and 1 byte for everyone else: without EPS 7 slots, with it one.
#[test]
fn small_pairs_never_pay_a_slot() {
    let n = 8;
    let cell = |cell: usize| match (cell % n + n - cell / n) % n {
        0 => 0,
        1 => 10_000,
        _ => 10,
    };
    let bytes: Vec<u64> = (0..n * n).map(cell).collect();
    let found = balanced(&tenth(&bytes, 200));
    assert_eq!(found.slots.len(), 1);
    let without = permutation::Demand::new(n, n, &bytes, 200, false).unwrap();
    let without = permutation::decompose(&without, Method::Auto, None);
    assert!(found.length < without.length, "{} {}", found.length, without.length);
}

#[test]
fn nothing_to_send_takes_no_time() {
    for bytes in [&[][..], &[0; 9]] {
        for &method in HybridMethod::ALL {
            let found = checked(&tenth(bytes, 5), method);
            assert_eq!((found.length, found.lower_bound, found.over_bound()), (0, 0, 1.0));
        }
    }
}

#[test]
fn an_eps_as_fast_as_everything_leaves_nothing_for_circuits() {
    let bytes = [3, 5, 7, 2, 4, 6, 1, 9, 8];
    let demand = HybridDemand::new(3, 3, &bytes, 1, rates(1, 50)).unwrap();
    let found = balanced(&demand);
    assert_eq!((found.slots.len(), found.length), (0, 1));
    assert_eq!(found.eps, bytes);
}

#[test]
fn what_does_not_fit_is_refused() {
    let text = |bytes: &[u64], rows, columns, rates| {
        HybridDemand::new(rows, columns, bytes, 0, rates).unwrap_err().0
    };
    let many = MAX_HYBRID_LINES + 1;
    assert_eq!(text(&[], many, 0, rates(1, 1)), "demand of 257 x 0: at most 256 lines");
    assert_eq!(text(&[1; 3], 2, 2, rates(1, 1)), "3 values are not 2 x 2");
    let apart = "circuits of 4 b/s and an EPS of 0 b/s: not comparable";
    assert_eq!(text(&[1; 4], 2, 2, rates(4, 0)), apart);
    assert!(text(&[1; 4], 2, 2, rates(0, 4)).ends_with("not comparable"));
    assert!(text(&[1; 4], 2, 2, rates(1, 1 << 40)).ends_with("not comparable"));
}

/// One true schedule, and every way to claim something wrong about it.
#[test]
fn wrong_schedules_are_seen() {
    let bytes = [0, 80, 6, 6, 0, 80, 80, 6, 0];
    let demand = tenth(&bytes, 2);
    let right = balanced(&demand);
    let refused = |change: &dyn Fn(&mut HybridSchedule)| {
        let mut wrong = right.clone();
        change(&mut wrong);
        check_hybrid(&demand, &wrong).unwrap_err().0
    };
    assert_eq!(refused(&|s| s.length -= 1), "hybrid schedule: circuits take 80 of 79");
    assert_eq!(
        refused(&|s| s.slots.holds[0] -= 1),
        "hybrid schedule: circuits from 0 to 1 carry 77 of 78 bytes"
    );
    assert_eq!(refused(&|s| s.slots.holds[0] = 0), "hybrid schedule: slot 0 is held for nothing");
    assert_eq!(
        refused(&|s| s.eps[1] += 1),
        "hybrid schedule: port 0 (rows first) sends 9 of 8 as packets"
    );
    assert_eq!(refused(&|s| s.eps[0] = 1), "hybrid schedule: 1 of 0 bytes from 0 to 0 as packets");
    assert_eq!(
        refused(&|s| s.slots.matchings[0] = 9),
        "hybrid schedule: slot 0, row 0: no column 9"
    );
    assert_eq!(
        refused(&|s| s.slots.matchings[0] = -2),
        "hybrid schedule: slot 0, row 0: no column -2"
    );
    assert_eq!(refused(&|s| s.slots.matchings[0] = 2), "hybrid schedule: slot 0: column 2 twice");
    assert_eq!(
        refused(&|s| s.slots.matchings[1] = -1),
        "hybrid schedule: circuits from 1 to 2 carry 0 of 78 bytes"
    );
    assert!(refused(&|s| s.eps.clear()).ends_with("0 EPS entries for 9 pairs"));
    assert!(refused(&|s| s.slots.matchings.push(0)).ends_with("4 cells for 1 slots of 3 rows"));
    assert!(refused(&|s| s.lower_bound += 1).contains("it says bound"));
}

/// The bound against a schedule that meets it: every line has K equal pairs and a small one.
#[test]
fn the_bound_counts_slots_and_what_they_leave() {
    // K = 1: (86 + 2) / 1.1 = 80, and 6 bytes as packets take 60
    assert_eq!(tenth(&[0, 80, 6, 6, 0, 80, 80, 6, 0], 2).lower_bound(), 80);
    // K = 2 as 40 bytes as packets take 400
    assert_eq!(tenth(&[0, 80, 40, 40, 0, 80, 80, 40, 0], 2).lower_bound(), 113);
    // packets alone: 2 bytes in 20
    assert_eq!(tenth(&[0, 2, 0, 0], 50).lower_bound(), 20);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn schedules_can_be_replayed_and_no_slot_is_idle(
        seed in 1..u64::MAX,
        rows in 1..9_usize,
        columns in 1..9_usize,
        delay in 0..60_000_u64,
        eps in 1..12_u64,
        power in 0..9,
    ) {
        let mut random = Random(seed);
        let bytes: Vec<u64> = (0..rows * columns)
            .map(|_| (1e6 * random.uniform().powi(power)) as u64)
            .collect();
        let demand = HybridDemand::new(rows, columns, &bytes, delay, rates(12, eps)).unwrap();
        let lengths = HybridMethod::ALL.iter().map(|&method| checked(&demand, method).length);
        let lengths: Vec<u64> = lengths.collect();
        let found = balanced(&demand);
        prop_assert!(lengths[0] <= lengths[1].min(lengths[2]), "{lengths:?}");
        let mut left = bytes.clone();
        for slot in 0..found.slots.len() {
            // Without the slot packets would be later, whatever the other slots leave.
            let mut fewer = found.slots.clone();
            fewer.holds.remove(slot);
            fewer.matchings.drain(slot * rows..(slot + 1) * rows);
            let later = replayed(&bytes, [rows, columns], &fewer, delay, [12, eps]);
            prop_assert!(later >= found.length, "slot {slot} serves nobody");
            for row in 0..rows {
                let to = found.slots.matchings[slot * rows + row];
                if to >= 0 {
                    let cell = &mut left[row * columns + to as usize];
                    prop_assert!(*cell > 0, "a circuit for nothing");
                    *cell = cell.saturating_sub(found.slots.holds[slot]);
                }
            }
        }
        prop_assert_eq!(left, found.eps);
    }
}

/// Length of any slots, from scratch.
fn replayed(
    bytes: &[u64],
    [rows, columns]: [usize; 2],
    slots: &Slots,
    delay: u64,
    [circuit, eps]: [u64; 2],
) -> u64 {
    let mut left = bytes.to_vec();
    for (slot, &hold) in slots.holds.iter().enumerate() {
        for row in 0..rows {
            let to = slots.matchings[slot * rows + row];
            if to >= 0 {
                let cell = &mut left[row * columns + to as usize];
                *cell = cell.saturating_sub(hold);
            }
        }
    }
    let row = |row: usize| left[row * columns..][..columns].iter().sum::<u64>();
    let column = |column: usize| left.iter().skip(column).step_by(columns).sum::<u64>();
    let busiest = (0..rows).map(row).chain((0..columns).map(column)).max().unwrap_or(0);
    let circuits = slots.holds.iter().map(|hold| hold + delay).sum::<u64>();
    circuits.max((busiest * circuit).div_ceil(eps))
}

/// The table of `benches/RESULTS.md` in small: means and the worst case over the bound.
#[test]
fn balanced_is_ahead_of_solstice_and_eclipse_in_every_regime() {
    for kind in regimes::KINDS {
        let mut over = [const { Vec::new() }; 3];
        for seed in 1..3 {
            let bytes = regimes::demand(kind, 12, &mut Random(seed * 7_919));
            for (delay, eps) in [(400_000, 10), (4_000_000, 50), (40_000_000, 25)] {
                let demand = HybridDemand::new(12, 12, &bytes, delay, rates(100, eps)).unwrap();
                for (index, &method) in HybridMethod::ALL.iter().enumerate() {
                    over[index].push(checked(&demand, method).over_bound());
                }
            }
        }
        let mean = over.each_ref().map(|all| all.iter().sum::<f64>() / all.len() as f64);
        let worst = over.each_ref().map(|all| all.iter().copied().fold(0.0, f64::max));
        assert!(mean[0] < 1.03 && worst[0] < 1.10, "{kind}: {mean:?} {worst:?}");
        assert!(mean[0] < mean[1] && mean[0] < mean[2], "{kind}: {mean:?}");
        assert!(worst[0] < worst[1] && worst[0] < worst[2], "{kind}: {worst:?}");
    }
}
