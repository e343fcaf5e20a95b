//! What each method promises of every one of its slots, checked against the bytes that it found.

use crate::common::crossbar::{Crossbar, Played, crossbar};
use lightloom_schedule::permutation::{Matchings, Method, PairTransfer, decompose};
use proptest::prelude::*;

/// Share of the largest load above which greedy matchings take a line to be urgent.
const URGENT: f64 = 0.95;

/// What `greedy` ranks pairs by: their bytes, and as much as the longest pair has for either line
/// that has the largest load.
fn ranks(case: &Crossbar, left: &[u64]) -> Vec<f64> {
    let loads = case.loads(left, case.delay);
    let largest = loads.iter().copied().max().unwrap_or(0) as f64;
    let longest = left.iter().copied().max().unwrap_or(0) as f64;
    let urgency =
        |line: usize| longest * (loads[line] as f64 / largest - URGENT).max(0.0) / (1.0 - URGENT);
    let rank = |cell: usize| {
        let (row, column) = (cell / case.columns, case.rows + cell % case.columns);
        left[cell] as f64 + urgency(row) + urgency(column)
    };
    (0..left.len()).map(rank).collect()
}

/// The share of its time that a slot wastes on the line with the largest load.
fn waste(case: &Crossbar, slot: &Played, hold: u64) -> f64 {
    let largest = |left: &[u64]| case.loads(left, case.delay).into_iter().max().unwrap_or(0) as f64;
    let time = (hold + case.delay) as f64;
    let after = case.after(&slot.before, &slot.pairs, hold);
    (time - (largest(&slot.before) - largest(&after))) / time
}

/// Pairs of a slot that share a line with this one, or are it.
fn blocked_by(slot: &Played, pair: (usize, usize)) -> Vec<(usize, usize)> {
    let meets = |other: &&(usize, usize)| other.0 == pair.0 || other.1 == pair.1;
    slot.pairs.iter().filter(meets).copied().collect()
}

fn with_bytes(case: &Crossbar, left: &[u64]) -> Vec<(usize, usize)> {
    let cells = (0..left.len()).filter(|&cell| left[cell] > 0);
    cells.map(|cell| (cell / case.columns, cell % case.columns)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// A greedy matching is one in which every pair is joined, or meets one that ranks no lower.
    #[test]
    fn greedy_joins_the_longest_pairs_of_the_lines_with_most_to_do(case in crossbar(6, 60)) {
        for slot in case.play(&case.slots(Method::Greedy)) {
            let rank = ranks(&case, &slot.before);
            let of = |pair| rank[case.cell(pair)];
            for pair in with_bytes(&case, &slot.before) {
                let blocked = blocked_by(&slot, pair);
                let enough = blocked.iter().any(|&other| of(other) >= of(pair) - 1e-6);
                prop_assert!(enough, "{pair:?} waits for {blocked:?}");
            }
        }
    }

    /// A slot of greedy matchings lasts the time after which a pair has finished that
    /// wastes least of it, its delay included; the longest of equals.
    #[test]
    fn greedy_holds_as_long_as_it_pays_for_the_largest_load(case in crossbar(6, 60)) {
        for slot in case.play(&case.slots(Method::Greedy)) {
            let own = waste(&case, &slot, slot.hold);
            let holds = slot.pairs.iter().map(|&pair| slot.before[case.cell(pair)]);
            prop_assert!(holds.clone().any(|hold| hold == slot.hold), "no pair has finished");
            for hold in holds {
                let other = waste(&case, &slot, hold);
                prop_assert!(own <= other + 1e-9, "{} wastes more than {hold}", slot.hold);
                prop_assert!(hold <= slot.hold || own < other - 1e-12, "{hold} is as good");
            }
        }
    }

    /// Shift after shift: the pairs whose column is so many places further, for as long as the
    /// longest of them takes.
    #[test]
    fn round_robin_takes_every_shift_that_has_bytes(case in crossbar(7, 9)) {
        let around = case.rows.max(case.columns);
        let shift = |pair: &(usize, usize)| (around + pair.1 - pair.0) % around;
        let mut played = case.play(&case.slots(Method::RoundRobin)).into_iter();
        for step in 0..around {
            let mut pairs = with_bytes(&case, &case.bytes);
            pairs.retain(|pair| shift(pair) == step);
            let longest = pairs.iter().map(|&pair| case.bytes[case.cell(pair)]).max();
            let Some(longest) = longest else { continue };
            let slot = played.next().expect("a slot for the shift");
            prop_assert_eq!((slot.pairs, slot.hold), (pairs, longest));
        }
        prop_assert!(played.next().is_none(), "a slot without a shift");
    }

    /// Every pair that is left meets one that is joined, and the shortest of these ends the slot.
    #[test]
    fn maximal_matchings_last_until_their_first_pair_has_finished(case in crossbar(7, 9)) {
        for (step, slot) in case.play(&case.slots(Method::Maximal)).iter().enumerate() {
            for pair in with_bytes(&case, &slot.before) {
                prop_assert!(!blocked_by(slot, pair).is_empty(), "{pair:?} could be joined");
            }
            let shortest = slot.pairs.iter().map(|&pair| slot.before[case.cell(pair)]).min();
            prop_assert_eq!(Some(slot.hold), shortest);
            // Each begins one diagonal further, which nobody can block.
            let around = case.rows.max(case.columns);
            let shift = |pair: &(usize, usize)| (around + pair.1 - pair.0) % around;
            let first = |pair: &&(usize, usize)| shift(pair) == step % around;
            for pair in with_bytes(&case, &slot.before).iter().filter(first) {
                prop_assert!(slot.pairs.contains(pair), "{pair:?} is on the first diagonal");
            }
        }
    }

    /// An exact method wastes nothing: each slot shortens the longest line by all of its hold.
    #[test]
    fn exact_slots_shorten_the_longest_line_all_the_time(case in crossbar(7, 9)) {
        for method in [Method::Bvn, Method::Threshold] {
            for slot in case.play(&case.slots(method)) {
                let longest = |left: &[u64]| case.loads(left, 0).into_iter().max().unwrap_or(0);
                prop_assert_eq!(longest(&slot.before) - longest(&slot.after), slot.hold);
            }
        }
    }

    /// Until a pair of a critical line has finished, or a line has become critical.
    #[test]
    fn bvn_holds_until_a_line_runs_out_of_slack(case in crossbar(7, 9)) {
        for slot in case.play(&case.slots(Method::Bvn)) {
            let loads = case.loads(&slot.before, 0);
            let longest = loads.iter().copied().max().unwrap_or(0);
            let mut due: Vec<u64> = loads.iter().map(|load| longest - load).collect();
            for &(row, column) in &slot.pairs {
                let bytes = slot.before[case.cell((row, column))];
                due[row] += bytes;
                due[case.rows + column] += bytes;
            }
            prop_assert_eq!(due.into_iter().min(), Some(slot.hold));
        }
    }

    /// List scheduling: a pair waits only while one of its lines is busy.
    #[test]
    fn no_pair_of_the_open_shop_waits_for_idle_lines(case in crossbar(6, 20)) {
        let transfers = open_shop(&case);
        for one in &transfers {
            let others = transfers.iter().filter(|other| {
                (other.row == one.row) != (other.column == one.column) && other.start < one.start
            });
            let mut busy: Vec<(u64, u64)> =
                others.map(|other| (other.start, other.end(case.delay))).collect();
            busy.sort_unstable();
            let mut until = 0;
            for (start, end) in busy {
                prop_assert!(start <= until, "{one:?} could begin at {until}");
                until = until.max(end);
            }
            prop_assert!(until >= one.start, "{one:?} could begin at {until}");
        }
    }

    /// A line that has just become free takes, of the idle lines that it wants, one that has most
    /// to do.
    #[test]
    fn a_line_of_the_open_shop_chooses_the_longest_that_is_idle(case in crossbar(9, 90)) {
        let mut waiting = case.bytes.clone();
        let mut ends = vec![0; case.rows + case.columns];
        for one in open_shop(&case) {
            let (row, column) = (one.row as usize, one.column as usize);
            let lines = [row, case.rows + column];
            let loads = case.loads(&waiting, case.delay);
            let longest = |side: usize| {
                let wanted = with_bytes(&case, &waiting).into_iter();
                let open = wanted.map(|(r, c)| [r, case.rows + c]);
                let own = open.filter(|other| other[side] == lines[side]);
                own.map(|other| other[1 - side]).filter(|&line| ends[line] <= one.start)
                    .map(|line| loads[line]).max()
            };
            let chose = |side: usize| {
                ends[lines[side]] == one.start && longest(side) == Some(loads[lines[1 - side]])
            };
            prop_assert!(chose(0) || chose(1), "{one:?}");
            prop_assert_eq!(one.bytes, waiting[case.cell((row, column))]);
            waiting[case.cell((row, column))] = 0;
            for line in lines {
                ends[line] = one.end(case.delay);
            }
        }
        prop_assert!(waiting.iter().all(|&bytes| bytes == 0));
    }
}

fn open_shop(case: &Crossbar) -> Vec<PairTransfer> {
    let found = decompose(&case.demand(true), Method::OpenShop, None);
    let Matchings::Transfers(transfers) = found.plan else { panic!("ports stop one by one") };
    transfers
}
