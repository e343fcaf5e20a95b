//! Schedules over several switches: properties on any demand, what the checker refuses, and the
//! true optimum of tiny demand.

use crate::common::matchings::every_matching;
use std::collections::HashSet;
use std::time::Instant;

use lightloom_schedule::permutation::{
    Demand, Method, SwitchSchedule, check, check_over, decompose, decompose_over,
};
use proptest::prelude::*;

#[derive(Debug, Clone)]
struct Case {
    rows: usize,
    columns: usize,
    bytes: Vec<u64>,
    delay: u64,
    switches: usize,
}

impl Case {
    fn demand(&self) -> Demand<'_> {
        Demand::new(self.rows, self.columns, &self.bytes, self.delay, false).expect("valid")
    }

    fn run(&self, method: Method) -> SwitchSchedule {
        decompose_over(&self.demand(), self.switches, method, None).expect("valid")
    }

    /// Sum and pairs of each line.
    fn lines(&self) -> Vec<(u64, u64)> {
        let row = |r: usize| (0..self.columns).map(move |c| r * self.columns + c);
        let column = |c: usize| (0..self.rows).map(move |r| r * self.columns + c);
        let of = |cells: Vec<usize>| {
            let bytes = cells.iter().map(|&cell| self.bytes[cell]);
            (bytes.clone().sum(), bytes.filter(|&bytes| bytes > 0).count() as u64)
        };
        let rows = (0..self.rows).map(|r| of(row(r).collect()));
        rows.chain((0..self.columns).map(|c| of(column(c).collect()))).collect()
    }
}

fn size() -> impl Strategy<Value = u64> {
    prop_oneof![3 => Just(0), 3 => 1..5_u64, 4 => 0..100_000_000_u64, 1 => Just(1_u64 << 53)]
}

fn case(limit: usize) -> impl Strategy<Value = Case> {
    (0..=limit, 0..=limit, 1..6_usize).prop_flat_map(|(rows, columns, switches)| {
        let delay = prop_oneof![Just(0), 1..4_u64, Just(1_000_000), Just(1_u64 << 45)];
        let bytes = prop::collection::vec(size(), rows * columns);
        (bytes, delay).prop_map(move |(bytes, delay)| Case {
            rows,
            columns,
            bytes,
            delay,
            switches,
        })
    })
}

/// The slow but obvious way: what each pair can send at most, and when the last switch ends.
fn play(case: &Case, found: &SwitchSchedule) -> (Vec<u64>, u64) {
    let mut carried = vec![0; case.bytes.len()];
    let mut end = 0;
    for slots in &found.switches {
        let mut now = 0;
        for (slot, &hold) in slots.holds.iter().enumerate() {
            now += case.delay + hold;
            let joined = &slots.matchings[slot * case.rows..(slot + 1) * case.rows];
            for (row, &column) in joined.iter().enumerate().filter(|pair| *pair.1 >= 0) {
                assert!(!joined[..row].contains(&column), "column {column} twice in slot {slot}");
                carried[row * case.columns + column as usize] += hold;
            }
        }
        end = end.max(now);
    }
    (carried, end)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn every_method_serves_all_over_every_number_of_switches(case in case(6)) {
        let demand = case.demand();
        for method in Method::ALL.iter().copied() {
            let found = case.run(method);
            let checked = check_over(&demand, &found);
            prop_assert!(checked.is_ok(), "{:?}: {:?}", method, checked);
            prop_assert_eq!(found.switches.len(), case.switches);
            let (carried, end) = play(&case, &found);
            prop_assert_eq!(end, found.length);
            prop_assert!(carried.iter().zip(&case.bytes).all(|(sent, wanted)| sent >= wanted));
        }
    }

    /// No schedule ends before a line has sent all over all its ports, with a delay per peer.
    #[test]
    fn the_bound_is_no_less_than_the_simple_one(case in case(6)) {
        let bound = case.demand().lower_bound_over(case.switches);
        let lines = case.lines();
        let longest = lines.iter().map(|line| line.0).max().unwrap_or(0);
        let degree = lines.iter().map(|line| line.1).max().unwrap_or(0);
        let switches = case.switches as u64;
        if longest > 0 {
            prop_assert!(bound >= longest.div_ceil(switches) + case.delay);
            prop_assert!(bound >= (longest + degree * case.delay).div_ceil(switches));
        } else {
            prop_assert_eq!(bound, 0);
        }
    }

    #[test]
    fn one_switch_is_one_crossbar(case in case(5)) {
        let case = Case { switches: 1, ..case };
        let demand = case.demand();
        prop_assert_eq!(demand.lower_bound_over(1), demand.lower_bound());
        for method in Method::ALL.iter().copied() {
            let (one, over) = (decompose(&demand, method, None), case.run(method));
            check(&demand, &one).unwrap();
            prop_assert_eq!((one.length, one.lower_bound), (over.length, over.lower_bound));
        }
    }

    /// Without delay slots are divided at will, so that all switches end together.
    #[test]
    fn without_delay_every_switch_carries_its_share(case in case(6)) {
        let case = Case { delay: 0, ..case };
        let longest = case.lines().iter().map(|line| line.0).max().unwrap_or(0);
        for method in [Method::Bvn, Method::Threshold, Method::Auto] {
            prop_assert_eq!(case.run(method).length, longest.div_ceil(case.switches as u64));
        }
    }

    /// Dividing costs at most a delay per switch but one, beyond an equal share of the work.
    #[test]
    fn placing_balances_the_switches(case in case(6), which in 0..7_usize) {
        let method = Method::single().nth(which).unwrap();
        let one = decompose(&case.demand(), method, None);
        let switches = case.switches as u64;
        let share = (one.length + (switches - 1) * case.delay).div_ceil(switches);
        let longest = one.length.div_ceil(switches);
        let found = case.run(method).length;
        // What is left of a hold may be less than a delay, and the length is found up to a part.
        let limit = share + longest.min(case.delay) + case.delay + share / 2_048 + 1;
        prop_assert!(found <= limit, "{} of {}", found, limit);
    }

    #[test]
    fn check_refuses_what_is_wrong(case in case(5), place in any::<prop::sample::Index>()) {
        let demand = case.demand();
        let found = case.run(Method::Critical);
        let used: Vec<usize> =
            (0..case.switches).filter(|&switch| !found.switches[switch].is_empty()).collect();
        prop_assume!(!used.is_empty());
        let switch = used[place.index(used.len())];
        let refused = |change: &dyn Fn(&mut SwitchSchedule)| {
            let mut other = found.clone();
            change(&mut other);
            check_over(&demand, &other).unwrap_err().to_string()
        };
        let text = refused(&|other| other.length += 1);
        prop_assert!(text.contains("it says length"), "{}", text);
        let text = refused(&|other| other.lower_bound -= 1);
        prop_assert!(text.contains("it says bound"), "{}", text);
        let text = refused(&|other| other.switches[switch].holds[0] = 0);
        prop_assert!(text.contains("held for nothing"), "{}", text);
        let text = refused(&|other| other.switches[switch].matchings[0] = 99);
        prop_assert!(text.contains("no column"), "{}", text);
        let text = refused(&|other| other.switches[switch].matchings[0] = -2);
        prop_assert!(text.contains("no column -2"), "{}", text);
        let text = refused(&|other| {
            other.switches[switch].matchings.pop();
        });
        prop_assert!(text.contains("cells for"), "{}", text);
        // Holds are no longer than needed, so that a byte less leaves a byte.
        let cut = refused(&|other| {
            for slots in &mut other.switches {
                slots.holds.iter_mut().for_each(|hold| *hold -= 1);
            }
        });
        prop_assert!(cut.contains("still has") || cut.contains("for nothing"), "{}", cut);
        let text = refused(&|other| {
            let again = other.switches[switch].clone();
            other.switches.push(again);
        });
        prop_assert!(text.contains("has nothing for column"), "{}", text);
    }
}

#[test]
fn check_refuses_two_rows_at_one_column() {
    let case = Case { rows: 2, columns: 2, bytes: vec![3, 0, 3, 0], delay: 1, switches: 2 };
    let mut found = case.run(Method::Auto);
    assert_eq!(found.length, 4);
    found.switches[0].matchings = vec![0, 0];
    let text = check_over(&case.demand(), &found).unwrap_err().to_string();
    assert!(text.contains("switch 0, slot 0: column 0 twice"), "{text}");
}

/// Whether what is left can be sent in time: on the current switch as long as there is room on it,
/// then on the others; every matching and every hold is tried.
struct Exhaustive {
    lines: usize,
    delay: u64,
    length: u64,
    failed: HashSet<(Vec<u64>, usize, u64)>,
}

impl Exhaustive {
    fn fits(&mut self, left: &[u64], switches: usize, room: u64) -> bool {
        if left.iter().all(|&bytes| bytes == 0) {
            return true;
        }
        let key = (left.to_vec(), switches, room);
        if switches == 0 || self.failed.contains(&key) {
            return false;
        }
        let rooms = room.saturating_sub(self.delay)
            + (switches as u64 - 1) * self.length.saturating_sub(self.delay);
        let row = |row: usize| left[row * self.lines..(row + 1) * self.lines].iter().sum::<u64>();
        let column = |c: usize| left.iter().skip(c).step_by(self.lines).sum::<u64>();
        if (0..self.lines).any(|line| row(line).max(column(line)) > rooms) {
            return false;
        }
        let mut matchings = Vec::new();
        every_matching(left, self.lines, &mut Vec::new(), &mut matchings);
        for matching in matchings {
            let longest = matching.iter().map(|&cell| left[cell]).max().unwrap_or(0);
            for hold in 1..=longest.min(room.saturating_sub(self.delay)) {
                let mut after = left.to_vec();
                for &cell in &matching {
                    after[cell] -= after[cell].min(hold);
                }
                if self.fits(&after, switches, room - hold - self.delay) {
                    return true;
                }
            }
        }
        if self.fits(left, switches - 1, self.length) {
            return true;
        }
        self.failed.insert(key);
        false
    }
}

/// Whether any schedule is no longer than that.
fn can_end_by(case: &Case, length: u64) -> bool {
    let (lines, delay) = (case.columns, case.delay);
    let mut search = Exhaustive { lines, delay, length, failed: HashSet::new() };
    search.fits(&case.bytes, case.switches, length)
}

fn tiny() -> impl Strategy<Value = Case> {
    (prop::collection::vec(0..4_u64, 9), 0..5_u64, 2..4_usize)
        .prop_map(|(bytes, delay, switches)| Case { rows: 3, columns: 3, bytes, delay, switches })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]

    #[test]
    fn auto_is_near_the_optimum_over_several_switches(case in tiny()) {
        let found = case.run(Method::Auto);
        let bound = found.lower_bound;
        prop_assert!(bound == 0 || !can_end_by(&case, bound - 1), "less than {}", bound);
        let best = (bound..=found.length).find(|&length| can_end_by(&case, length));
        let best = best.expect("a schedule as long as that was found");
        let ratio = found.length as f64 / best.max(1) as f64;
        prop_assert!(ratio <= 1.34, "{} of {}", found.length, best);
    }

    /// When a second slot on a switch costs more than it can save, equal holds are the optimum.
    #[test]
    fn long_delays_leave_one_slot_per_switch(bytes in prop::collection::vec(0..4_u64, 9)) {
        let case = Case { rows: 3, columns: 3, bytes, delay: 9, switches: 3 };
        let length = case.run(Method::Auto).length;
        prop_assert!(length == 0 || !can_end_by(&case, length - 1), "less than {}", length);
    }
}

/// Two switches: the pair of 8 is divided, or it would take 9 by itself.
#[test]
fn one_pair_is_sent_over_all_switches() {
    for switches in 1..5 {
        let case = Case { rows: 1, columns: 1, bytes: vec![12], delay: 1, switches };
        for method in Method::ALL.iter().copied() {
            assert_eq!(case.run(method).length, 12 / switches as u64 + 1, "{method:?}");
        }
    }
}

/// Some switch has two of the three slots: the bound counts them whole.
#[test]
fn the_bound_counts_the_switch_with_most_slots() {
    let case = Case { rows: 3, columns: 1, bytes: vec![9, 9, 9], delay: 90, switches: 2 };
    // Three slots divided evenly would end at (27 + 3 x 90) / 2, which is 149. But two of them are
    // on one switch and end at 198, so that a fourth one helps: 13 and 14 bytes, and two delays.
    assert_eq!(case.demand().lower_bound_over(2), 194);
    assert_eq!(case.run(Method::Auto).length, 194);
}

#[test]
fn what_cannot_be_scheduled_is_refused() {
    let bytes = [1, 2, 3, 4];
    let refused = |switches, partial| {
        let demand = Demand::new(2, 2, &bytes, 1, partial).unwrap();
        decompose_over(&demand, switches, Method::Auto, None).unwrap_err().to_string()
    };
    assert_eq!(refused(0, false), "0 switches: expected 1 to 1024");
    assert_eq!(refused(1_025, false), "1025 switches: expected 1 to 1024");
    assert_eq!(refused(2, true), "partial reconfiguration is for one switch");
}

#[test]
fn a_time_limit_that_is_over_still_gives_a_schedule() {
    let bytes: Vec<u64> = (0..400).map(|cell| cell * cell % 977).collect();
    let demand = Demand::new(20, 20, &bytes, 5_000, false).unwrap();
    let found = decompose_over(&demand, 3, Method::Auto, Some(Instant::now())).unwrap();
    check_over(&demand, &found).unwrap();
    assert_eq!(found.method, Method::RoundRobin);
}

/// Three slots per switch would leave a byte for each hold: as many slots as bytes.
#[test]
fn long_delays_do_not_make_slots_of_a_byte() {
    let delay = 1_u64 << 40;
    let case = Case { rows: 2, columns: 2, bytes: vec![delay; 4], delay, switches: 2 };
    let found = case.run(Method::Auto);
    check_over(&case.demand(), &found).unwrap();
    assert_eq!((found.length, found.lower_bound), (2 * delay, 2 * delay));
    let case = Case { rows: 1, columns: 1, bytes: vec![4 * (delay + 2)], delay, switches: 4 };
    assert!(case.run(Method::Auto).length <= 2 * delay + 2);
    let case = Case { rows: 1, columns: 2, bytes: vec![3 * delay + 3, 3], delay, switches: 3 };
    check_over(&case.demand(), &case.run(Method::Auto)).unwrap();
}
