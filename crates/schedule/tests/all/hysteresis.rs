//! Allocation that leaves circuits alone: how fast it stays, and how little it changes.

use crate::common::cases::{Case, Random, case};
use lightloom_model::Allocator;
use lightloom_schedule::{allocate, allocate_within, changed_pairs, line_bound, route};
use proptest::prelude::*;

const METHODS: [Allocator; 3] = [Allocator::Greedy, Allocator::Parametric, Allocator::Best];

/// Every entry up to `share` larger or smaller.
fn drifted(case: &Case, share: f64, random: &mut Random) -> Case {
    let mut next = case.clone();
    for bytes in &mut next.demand {
        *bytes = (*bytes as f64 * (1.0 + share * (2.0 * random.uniform() - 1.0))) as u64;
    }
    next
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn nothing_is_slower_than_the_tolerance(
        case in case(7), seed in 1..u64::MAX, tolerance in 0.0..0.3_f64,
    ) {
        let held = allocate(Allocator::Greedy, &case.request()).circuits;
        let next = drifted(&case, 0.5, &mut Random(seed));
        for allocator in METHODS {
            let request = next.request().with_previous(Some(&held)).unwrap();
            let found = allocate_within(allocator, &request, tolerance);
            let anew = allocate(allocator, &request);
            prop_assert!(request.admits(&found.circuits).is_ok());
            let limit = anew.makespan.max(line_bound(&request)) * (1.0 + tolerance);
            prop_assert!(found.makespan <= limit * (1.0 + 1e-9) || found == anew);
            prop_assert_eq!(&found.eps_bytes, &route(&request, &found.circuits).eps_bytes);
            let stay = route(&request, &held).makespan;
            if tolerance > 0.0 && stay <= line_bound(&request) * (1.0 + tolerance) {
                prop_assert_eq!(changed_pairs(&held, &found.circuits), 0, "{}", allocator);
            }
        }
    }
}

#[test]
fn a_small_drift_changes_nothing_within_the_tolerance() {
    let mut random = Random(4);
    let (mut strict, mut tolerant) = (0, 0);
    for _ in 0..30 {
        let mut case = Case::random(8, 6, true, &mut random);
        let mut held = allocate(Allocator::Best, &case.request()).circuits;
        for _ in 0..4 {
            case = drifted(&case, 0.02, &mut random);
            let request = case.request().with_previous(Some(&held)).unwrap();
            let anew = allocate(Allocator::Best, &request).circuits;
            let near = allocate_within(Allocator::Best, &request, 0.05).circuits;
            strict += changed_pairs(&held, &anew);
            tolerant += changed_pairs(&held, &near);
            held = near;
        }
    }
    assert!(tolerant * 5 < strict, "{tolerant} changes with tolerance, {strict} without");
}

#[test]
fn without_previous_circuits_or_tolerance_it_is_plain_allocation() {
    let case = Case::random(6, 3, true, &mut Random(9));
    let plain = allocate(Allocator::Best, &case.request());
    assert_eq!(allocate_within(Allocator::Best, &case.request(), 0.1), plain);
    let held = allocate(Allocator::Static, &case.request()).circuits;
    let request = case.request().with_previous(Some(&held)).unwrap();
    let sticky = allocate(Allocator::Best, &request);
    assert_eq!(allocate_within(Allocator::Best, &request, 0.0), sticky);
}

/// Ports that are gone take their circuits with them; the others stay.
#[test]
fn circuits_without_ports_are_given_up() {
    let mut case = Case::new(4, vec![1_000_000; 16], 3);
    let held = allocate(Allocator::Static, &case.request()).circuits;
    case.ports[0] = 1;
    let request = case.request().with_previous(Some(&held)).unwrap();
    let found = allocate_within(Allocator::Best, &request, 10.0);
    assert!(request.admits(&found.circuits).is_ok());
    assert_eq!(changed_pairs(&held, &found.circuits), 2);
}
