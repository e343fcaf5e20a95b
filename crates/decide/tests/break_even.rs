//! Hold or switch: closed forms at the boundary, and no plan is shorter than the one found.

#[path = "../../schedule/tests/all/common/cases.rs"]
mod common;

use common::{Case, Random, case};
use lightloom_decide::{
    Upcoming, Verdict, break_even, cannot_pay, demands_to_request, plan_time, switch_time,
};
use lightloom_model::{Allocator, Duration, SwitchTiming};
use lightloom_schedule::allocate;
use proptest::prelude::*;

const US: u64 = 1_000_000;

fn timing(fixed: u64, per_pair: u64, keep_unchanged: bool) -> SwitchTiming {
    let (fixed, per_pair) = (Duration(fixed), Duration(per_pair));
    SwitchTiming { fixed, per_pair, keep_unchanged, ..SwitchTiming::default() }
}

/// Four servers of two ports; pairs that send so many bytes in both directions.
fn pairs(pairs: &[(usize, usize)], bytes: u64) -> Vec<u64> {
    let mut demand = vec![0; 16];
    for &(a, b) in pairs {
        (demand[a * 4 + b], demand[b * 4 + a]) = (bytes, bytes);
    }
    demand
}

/// A ring through the four servers.
const RING: [u16; 16] = [0, 1, 0, 1, 1, 0, 1, 0, 0, 1, 0, 1, 1, 0, 1, 0];
/// Two circuits between 0 and 1, and between 2 and 3.
const COUPLES: [u16; 16] = [0, 2, 0, 0, 2, 0, 0, 0, 0, 0, 0, 2, 0, 0, 2, 0];

/// Without an EPS and with 50 MB per pair: 1 ms over one circuit, 500 us over two.
fn compared(hidden: &[u64], timing: SwitchTiming) -> Verdict {
    let case = Case { eps: 0, ..Case::new(4, pairs(&[(0, 1), (2, 3)], 50_000_000), 2) };
    let upcoming: Vec<Upcoming> = hidden
        .iter()
        .map(|&hidden| Upcoming::known(case.demand.clone(), Duration(hidden)))
        .collect();
    break_even(&case.request(), &RING, &upcoming, &[COUPLES.to_vec()], &timing)
}

#[test]
fn a_switch_pays_if_it_saves_more_than_it_exposes() {
    // It saves 500 us and changes two pairs.
    for (delay, pays) in [(499, true), (500, false), (501, false)] {
        let found = compared(&[0], timing(delay * US, 0, true));
        assert_eq!(found.pays(), pays, "{delay} us");
        assert!((found.hold - 1e-3).abs() < 1e-15 && (found.switch - 5e-4).abs() < 1e-15);
        assert!((found.exposed - delay as f64 * 1e-6).abs() < 1e-15);
        assert_eq!(found.plan, [pays.then_some(0)]);
    }
    assert!(compared(&[1_501 * US], timing(2_000 * US, 0, true)).pays());
    assert!(!compared(&[1_500 * US], timing(2_000 * US, 0, true)).pays());
}

#[test]
fn what_is_hidden_costs_nothing() {
    let found = compared(&[30_000 * US], timing(25_000 * US, 0, true));
    assert!(found.pays() && found.exposed.to_bits() == 0);
}

#[test]
fn the_delay_grows_with_the_pairs_that_change() {
    assert!(compared(&[0], timing(0, 249 * US, true)).pays());
    assert!(!compared(&[0], timing(0, 250 * US, true)).pays());
    // Four circuits are there, so if none can be spared four are switched.
    assert!(compared(&[0], timing(0, 124 * US, false)).pays());
    assert!(!compared(&[0], timing(0, 125 * US, false)).pays());
    assert_eq!(switch_time(&timing(1, 1, false), &RING, &RING), Duration::ZERO);
}

#[test]
fn a_longer_horizon_pays_for_a_longer_delay() {
    let delay = timing(1_400 * US, 0, true);
    assert!(!compared(&[0, 0], delay).pays());
    assert!(compared(&[0, 0, 0], delay).pays());
}

#[test]
fn a_switch_waits_for_a_place_to_hide() {
    let found = compared(&[0, 1_400 * US], timing(1_400 * US, 0, true));
    assert_eq!((found.pays(), found.plan.as_slice()), (false, [None, Some(0)].as_slice()));
    assert!((found.hold - 1.5e-3).abs() < 1e-15 && (found.switch - 1e-3).abs() < 1e-15);
}

#[test]
fn equal_proposals_and_nothing_upcoming_mean_hold() {
    let case = Case::new(4, vec![0; 16], 2);
    let delay = timing(0, 0, true);
    let empty = break_even(&case.request(), &RING, &[], &[COUPLES.to_vec()], &delay);
    assert!(!empty.pays() && empty.plan.is_empty() && empty.time().to_bits() == 0);
    let upcoming = [Upcoming::known(vec![5; 16], Duration::ZERO)];
    let same = break_even(&case.request(), &RING, &upcoming, &[RING.to_vec()], &delay);
    assert_eq!((same.pays(), same.best, same.switch), (false, None, f64::INFINITY));
    assert!(cannot_pay(&case.request(), &RING, &[], &delay));
}

#[test]
fn a_way_beats_no_way() {
    let case = Case { eps: 0, ..Case::new(4, pairs(&[(0, 2)], 1), 2) };
    let upcoming = [Upcoming::known(case.demand.clone(), Duration::ZERO)];
    let found =
        break_even(&case.request(), &COUPLES, &upcoming, &[RING.to_vec()], &timing(9, 0, true));
    assert!(found.hold.is_infinite() && !found.pays(), "neither joins 0 and 2");
    let cross = pairs(&[(0, 2)], 2).iter().map(|&count| count as u16).collect();
    let found = break_even(&case.request(), &COUPLES, &upcoming, &[cross], &timing(9, 0, true));
    assert!(found.pays() && found.time() < 1.0);
    assert!(!cannot_pay(&case.request(), &COUPLES, &upcoming, &timing(9, 0, true)));
}

#[test]
fn transposes_are_requested_once_and_the_sum_last() {
    let (one, other) = (vec![0, 1, 2, 0], vec![0, 2, 1, 0]);
    assert_eq!(demands_to_request(&[&one, &other]), [one.as_slice()]);
    let third = vec![0, 7, 7, 0];
    let requested = demands_to_request(&[&one, &other, &third]);
    assert_eq!(requested, [one.as_slice(), third.as_slice(), &[0, 10, 10, 0]]);
    let huge = vec![0, u64::MAX, 0, 0];
    assert_eq!(*demands_to_request(&[&one, &huge])[2], [0, u64::MAX, 2, 0]);
    assert!(demands_to_request(&[]).is_empty());
}

/// Everything that a decision starts from.
#[derive(Debug, Clone)]
struct Problem {
    case: Case,
    held: Vec<u16>,
    upcoming: Vec<Upcoming>,
    proposals: Vec<Vec<u16>>,
    timing: SwitchTiming,
}

impl Problem {
    fn verdict(&self) -> Verdict {
        let request = self.case.request();
        break_even(&request, &self.held, &self.upcoming, &self.proposals, &self.timing)
    }

    fn time(&self, plan: &[Option<usize>]) -> f64 {
        let request = self.case.request();
        plan_time(&request, &self.held, &self.upcoming, &self.proposals, plan, &self.timing)
    }
}

fn problem(limit: usize) -> impl Strategy<Value = Problem> {
    let times = prop::collection::vec(0..3_000 * US, 1..5);
    (case(limit), times, 0..2_000 * US, 0..100 * US, any::<bool>(), any::<u64>()).prop_map(
        |(case, times, fixed, per_pair, keep, seed)| {
            let n = case.servers;
            let mut random = Random(seed | 1);
            let mut upcoming: Vec<Upcoming> = Vec::new();
            for (index, &hidden) in times.iter().enumerate() {
                let drawn = Case::random(n, 1, true, &mut random).demand;
                let transposed = |last: &Upcoming| {
                    (0..n * n).map(|cell| last.demand[cell % n * n + cell / n]).collect()
                };
                let demand = match upcoming.last() {
                    Some(last) if index % 2 == 1 => transposed(last),
                    _ => drawn,
                };
                upcoming.push(Upcoming::known(demand, Duration(hidden)));
            }
            let requested: Vec<&[u64]> =
                upcoming.iter().map(|next| next.demand.as_slice()).collect();
            let request = case.request();
            let propose = |demand: &[u64]| {
                allocate(Allocator::Best, &request.with_demand(demand).unwrap()).circuits
            };
            let proposals =
                demands_to_request(&requested).iter().map(|demand| propose(demand)).collect();
            let held = allocate(Allocator::Static, &request).circuits;
            Problem { held, upcoming, proposals, timing: timing(fixed, per_pair, keep), case }
        },
    )
}

fn close(one: f64, other: f64) -> bool {
    one.to_bits() == other.to_bits() || (one - other).abs() <= 1e-9 * one.abs()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn no_plan_is_shorter(problem in problem(5)) {
        let found = problem.verdict();
        prop_assert!(close(found.time(), problem.time(&found.plan)), "{found:?}");
        let states = problem.proposals.len() + 1;
        let count = states.pow(problem.upcoming.len() as u32);
        for number in 0..count {
            let mut rest = number;
            let plan: Vec<Option<usize>> = (0..problem.upcoming.len())
                .map(|_| {
                    let state = rest % states;
                    rest /= states;
                    state.checked_sub(1)
                })
                .collect();
            let time = problem.time(&plan);
            prop_assert!(found.time() <= time || close(found.time(), time), "{plan:?}");
        }
    }

    #[test]
    fn never_worse_than_holding_or_always(problem in problem(6)) {
        let found = problem.verdict();
        let hold = problem.time(&vec![None; problem.upcoming.len()]);
        prop_assert!(found.time() <= hold || close(found.time(), hold));
        prop_assert!(found.time() <= found.hold);
        prop_assert_eq!(found.pays(), found.plan[0].is_some());
    }

    #[test]
    fn what_cannot_pay_does_not(problem in problem(6)) {
        let request = problem.case.request();
        if cannot_pay(&request, &problem.held, &problem.upcoming, &problem.timing) {
            let found = problem.verdict();
            // Sums in another order may differ in the last bit.
            prop_assert!(!found.pays() || close(found.hold, found.time()));
        }
    }

    #[test]
    fn hiding_more_never_costs(problem in problem(5), more in 0..1_000 * US) {
        let before = problem.verdict().time();
        let mut easier = problem.clone();
        for next in &mut easier.upcoming {
            next.hidden += Duration(more);
        }
        let after = easier.verdict().time();
        prop_assert!(after <= before || close(after, before));
    }

    #[test]
    fn relabelled_servers_decide_alike(problem in problem(5), seed in any::<u64>()) {
        let n = problem.case.servers;
        let (case, order) = common::permuted(&problem.case, seed);
        let mut other = problem.clone();
        other.case = case;
        for a in 0..n {
            for b in 0..n {
                let (cell, there) = (a * n + b, order[a] * n + order[b]);
                other.held[there] = problem.held[cell];
                for (next, old) in other.upcoming.iter_mut().zip(&problem.upcoming) {
                    next.demand[there] = old.demand[cell];
                }
                for (next, old) in other.proposals.iter_mut().zip(&problem.proposals) {
                    next[there] = old[cell];
                }
            }
        }
        let (one, two) = (problem.verdict(), other.verdict());
        prop_assert!(close(one.hold, two.hold) && close(one.time(), two.time()));
    }
}
