//! Allocators against brute force and against what must hold for any demand.

use crate::common::cases::{
    BITS, Case, Random, brute_force, case, circuits_of, distinct_case, permuted,
};
use lightloom_model::{Allocator, Rate};
use lightloom_schedule::{
    EpsRates, Request, allocate, changed_pairs, line_bound, port_bound, route,
};
use proptest::prelude::*;

const ALL: [Allocator; 6] = [
    Allocator::Paper,
    Allocator::Reference,
    Allocator::Static,
    Allocator::Greedy,
    Allocator::Parametric,
    Allocator::Best,
];

/// Those that keep what is there unless they find something faster.
const STICKY: [Allocator; 3] = [Allocator::Greedy, Allocator::Parametric, Allocator::Best];

/// Sums in different orders differ by rounding.
const ROUNDING: f64 = 1e-9;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn circuits_are_symmetric_allowed_and_within_the_ports(case in case(9)) {
        for allocator in ALL {
            let circuits = allocate(allocator, &case.request()).circuits;
            let n = case.servers;
            for a in 0..n {
                let row = &circuits[a * n..(a + 1) * n];
                let used: u32 = row.iter().map(|&count| u32::from(count)).sum();
                prop_assert!(used <= case.ports[a], "{allocator:?} server {a}");
                prop_assert_eq!(row[a], 0);
                for b in 0..n {
                    prop_assert_eq!(row[b], circuits[b * n + a]);
                    prop_assert!(row[b] == 0 || case.allowed[a * n + b], "{allocator:?}");
                }
            }
        }
    }

    #[test]
    fn every_line_ends_by_the_makespan_and_one_needs_all_of_it(case in case(8)) {
        for allocator in ALL {
            let found = allocate(allocator, &case.request());
            let slowest = case.slowest_line(&found.circuits, &found.eps_bytes);
            if found.makespan.is_finite() {
                // Bytes are whole: each pair may be off by one.
                let byte = 8.0 * case.servers as f64 / case.slowest_rate();
                let slack = byte + found.makespan * ROUNDING;
                prop_assert!((slowest - found.makespan).abs() <= slack,
                    "{allocator:?}: {slowest} s against {} s", found.makespan);
            }
        }
    }

    #[test]
    fn best_is_never_slower_than_any_other_and_nothing_beats_the_bound(case in case(8)) {
        let request = case.request();
        let best = allocate(Allocator::Best, &request).makespan;
        prop_assert!(best >= port_bound(&request) * (1.0 - ROUNDING));
        for allocator in ALL {
            let other = allocate(allocator, &request).makespan;
            prop_assert!(best <= other * (1.0 + ROUNDING), "{allocator:?}: {best} > {other}");
        }
    }

    #[test]
    fn splitting_never_hurts_the_same_circuits(case in case(8)) {
        for allocator in ALL {
            let whole = allocate(allocator, &case.divided(false).request());
            let split = route(&case.divided(true).request(), &whole.circuits);
            prop_assert!(split.makespan <= whole.makespan * (1.0 + ROUNDING));
        }
    }

    #[test]
    fn what_was_there_is_kept_if_nothing_is_faster(case in case(7)) {
        let request = case.request();
        for (first, then) in STICKY.into_iter().flat_map(|x| ALL.map(|y| (y, x))) {
            let before = allocate(first, &request).circuits;
            let again = allocate(then, &request.with_previous(Some(&before)).unwrap());
            let time = route(&request, &before).makespan;
            prop_assert!(again.makespan <= time, "{then:?} after {first:?}");
            if again.makespan >= time {
                prop_assert_eq!(changed_pairs(&before, &again.circuits), 0);
            }
        }
    }

    #[test]
    fn more_ports_never_hurt_best_when_it_knows_the_circuits_with_fewer(case in case(7)) {
        let request = case.request();
        let fewer = allocate(Allocator::Best, &request);
        let ports: Vec<u32> = case.ports.iter().map(|ports| ports + 1).collect();
        let wider = Case { ports, ..case.clone() };
        let more = wider.request().with_previous(Some(&fewer.circuits)).unwrap();
        let more = allocate(Allocator::Best, &more).makespan;
        prop_assert!(more <= fewer.makespan);
    }

    #[test]
    fn names_of_servers_do_not_matter(case in distinct_case(7), seed in any::<u64>()) {
        let (renamed, order) = permuted(&case, seed);
        for allocator in [Allocator::Paper, Allocator::Reference] {
            let one = allocate(allocator, &case.request());
            let other = allocate(allocator, &renamed.request());
            let (time, other_time) = (one.makespan, other.makespan);
            let equal = time.to_bits() == other_time.to_bits()
                || (time - other_time).abs() <= time * ROUNDING;
            prop_assert!(equal, "{allocator:?}: {time} and {other_time}");
            let n = case.servers;
            for a in 0..n {
                for b in 0..n {
                    let moved = other.circuits[order[a] * n + order[b]];
                    prop_assert_eq!(one.circuits[a * n + b], moved, "{:?}", allocator);
                }
            }
        }
    }

    #[test]
    fn static_circuits_ignore_the_demand(case in case(9)) {
        let request = case.request();
        let other: Vec<u64> = case.demand.iter().map(|bytes| bytes / 3 + 7).collect();
        let one = allocate(Allocator::Static, &request).circuits;
        let two = allocate(Allocator::Static, &request.with_demand(&other).unwrap()).circuits;
        prop_assert_eq!(one, two);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn best_is_the_optimum_of_small_regions(case in case(4)) {
        let case = Case { ports: case.ports.iter().map(|ports| ports % 4).collect(), ..case };
        let exact = brute_force(&case);
        let best = allocate(Allocator::Best, &case.request()).makespan;
        prop_assert_eq!(best.is_finite(), exact.is_finite());
        if exact.is_finite() {
            prop_assert!(best >= exact * (1.0 - ROUNDING), "{best} beats the optimum {exact}");
            prop_assert!(best <= exact * (1.0 + 2e-9) + f64::MIN_POSITIVE, "{best}, not {exact}");
        }
    }
}

/// Without split small regions are solved exactly; with split the gap is small on average.
#[test]
fn the_mean_gap_to_brute_force_is_small() {
    for (allocator, limit) in [(Allocator::Parametric, 1.03), (Allocator::Best, 1.0 + 1e-9)] {
        for split in [true, false] {
            let mut random = Random(7);
            let (mut sum, mut worst, mut exact_hits) = (0.0, 1.0_f64, 0);
            let draws = 300;
            for _ in 0..draws {
                let case = Case::random(4, 3, split, &mut random);
                let gap = allocate(allocator, &case.request()).makespan / brute_force(&case);
                sum += gap;
                worst = worst.max(gap);
                exact_hits += u32::from(gap < 1.0 + 1e-8);
            }
            let mean = sum / f64::from(draws);
            let text = format!("{allocator:?} split {split}: mean {mean:.4}, worst {worst:.3}, ");
            println!("{text}exact {exact_hits}/{draws}");
            assert!(mean < limit, "{text}");
            if !split {
                assert_eq!(exact_hits, draws, "{text}");
            }
        }
    }
}

/// Five servers of two ports, where starts decide: a coarser bisection leaves the parametric search
/// 0.7 % behind the optimum on average; `best` tries all.
#[test]
fn fine_steps_pay_and_trying_all_is_exact() {
    let mut random = Random(7);
    let (mut parametric, mut best) = (0.0, 0.0);
    for _ in 0..300 {
        let case = Case::random(5, 2, true, &mut random);
        let exact = brute_force(&case);
        let gap = |allocator| allocate(allocator, &case.request()).makespan / exact - 1.0;
        parametric += gap(Allocator::Parametric) / 300.0;
        best += gap(Allocator::Best) / 300.0;
    }
    assert!(parametric < 0.003, "parametric: {parametric:.5}");
    assert!(best < 1e-9, "best: {best:.5}");
}

/// Demand on which `best` needs each of its starts: of the parametric search alone, or without one
/// of the readings of Algorithm 1, some of it is served faster by that reading.
#[test]
fn best_starts_from_every_other_allocator() {
    for (servers, ports, draws) in [(3, 20, 1_000), (4, 12, 500), (8, 1, 200), (20, 2, 200)] {
        let mut random = Random(11);
        for draw in 0..draws {
            let case = Case::random(servers, ports, true, &mut random);
            let best = allocate(Allocator::Best, &case.request()).makespan;
            for allocator in ALL {
                let other = allocate(allocator, &case.request()).makespan;
                assert!(
                    best <= other * (1.0 + ROUNDING),
                    "{servers} servers, {ports} ports, draw {draw}: {allocator:?} is faster"
                );
            }
        }
    }
}

#[test]
fn no_demand_takes_no_time() {
    let case = Case::new(5, vec![0; 25], 3);
    for allocator in ALL {
        let found = allocate(allocator, &case.request());
        assert!(found.makespan.abs() < f64::MIN_POSITIVE, "{allocator:?}");
        assert_eq!(found.eps_bytes, vec![0; 25]);
    }
    assert_eq!(circuits_of(&allocate(Allocator::Paper, &case.request())), 0);
}

#[test]
fn the_diagonal_is_ignored() {
    let mut demand = vec![0; 9];
    demand[4] = 1 << 40;
    let found = allocate(Allocator::Best, &Case::new(3, demand, 2).request());
    assert!(found.makespan.abs() < f64::MIN_POSITIVE);
    assert_eq!(found.eps_bytes[4], 0);
}

#[test]
fn regions_of_none_and_one_have_nothing_to_do() {
    for n in [0, 1] {
        let case = Case::new(n, vec![9; n * n], 6);
        for allocator in ALL {
            let found = allocate(allocator, &case.request());
            assert_eq!(circuits_of(&found), 0);
            assert!(found.makespan.abs() < f64::MIN_POSITIVE);
        }
    }
}

/// Two servers, 6 circuits and 2 EPS NICs: all 8 rates add up when splitting.
#[test]
fn two_servers_use_every_port() {
    let case = Case::new(2, vec![0, 8_000_000, 4_000_000, 0], 6);
    let second_per_byte = 8.0 / BITS as f64;
    for allocator in ALL {
        let split = allocate(allocator, &case.divided(true).request());
        assert_eq!(circuits_of(&split), 6, "{allocator:?}");
        let seconds = 8e6 / 8.0 * second_per_byte;
        assert!((split.makespan / seconds - 1.0).abs() < 1e-12, "{allocator:?}");
        assert_eq!(split.eps_bytes, [0, 2_000_000, 0, 0]);
        let whole = allocate(allocator, &case.divided(false).request());
        assert_eq!(whole.eps_bytes, [0; 4]);
    }
}

#[test]
fn one_pair_among_many_gets_every_port_of_its_servers() {
    let mut demand = vec![0; 36];
    demand[6 + 4] = 70_000_000;
    let case = Case::new(6, demand, 5);
    for allocator in [Allocator::Paper, Allocator::Reference, Allocator::Best] {
        let found = allocate(allocator, &case.request());
        assert_eq!(found.circuits[6 + 4], 5, "{allocator:?}");
        let expected = 70e6 * 8.0 / (7.0 * BITS as f64);
        assert!((found.makespan / expected - 1.0).abs() < 1e-12);
    }
}

#[test]
fn sizes_beyond_exact_floating_point_lose_no_byte() {
    let huge = (1_u64 << 53) + 1;
    let case = Case::new(3, vec![0, huge, u64::MAX, huge, 0, 3, 1, u64::MAX, 0], 2);
    for allocator in ALL {
        let found = allocate(allocator, &case.request());
        assert!(found.makespan.is_finite());
        for (eps, size) in found.eps_bytes.iter().zip(&case.demand) {
            assert!(eps <= size);
        }
    }
}

#[test]
fn without_an_eps_pairs_without_circuits_never_end() {
    let mut case = Case::new(4, vec![5; 16], 1);
    case.eps = 0;
    assert!(allocate(Allocator::Best, &case.request()).makespan.is_infinite());
    case.ports = vec![3; 4];
    assert!(allocate(Allocator::Best, &case.request()).makespan.is_finite());
}

/// By the port bound the heavier pair would like both circuits; then the other one has no way.
#[test]
fn without_an_eps_the_line_bound_is_still_a_bound() {
    let mut case = Case::new(3, vec![0, 50_000, 10_000, 0, 0, 0, 0, 0, 0], 2);
    case.eps = 0;
    let bound = line_bound(&case.request());
    assert!((bound - 1e-6).abs() < 1e-15, "{bound}");
    assert!((allocate(Allocator::Best, &case.request()).makespan - bound).abs() < 1e-15);
}

#[test]
fn a_disallowed_pair_goes_over_the_eps() {
    let mut case = Case::new(2, vec![0, 1000, 1000, 0], 4);
    case.allowed = vec![false; 4];
    for allocator in ALL {
        let found = allocate(allocator, &case.request());
        assert_eq!(circuits_of(&found), 0, "{allocator:?}");
        assert_eq!(found.eps_bytes, [0, 1000, 1000, 0]);
    }
}

/// Odd sizes and degrees: the circulant leaves at most one port of one server dark.
#[test]
fn static_circuits_use_all_ports_but_one_of_an_odd_sum() {
    for n in 2..14_usize {
        for ports in 0..20 {
            let case = Case::new(n, vec![0; n * n], ports);
            let found = allocate(Allocator::Static, &case.request());
            let all = n as u32 * ports;
            assert_eq!(circuits_of(&found), all / 2, "{n} servers, {ports} ports");
            let pairs = (0..n).flat_map(|a| (a + 1..n).map(move |b| (a, b)));
            let counts: Vec<u16> = pairs.map(|(a, b)| found.circuits[a * n + b]).collect();
            let spread = counts.iter().max().unwrap() - counts.iter().min().unwrap();
            assert!(spread <= 1, "{n} servers, {ports} ports: {counts:?}");
        }
    }
}

#[test]
fn algorithm_1_as_printed_breaks_at_the_first_taken_port() {
    // Server 0 has one port; its second heaviest pair is the second heaviest of all.
    let demand = vec![0, 50, 40, 0, 0, 0, 0, 0, 0, 0, 0, 30, 0, 0, 0, 0];
    let mut case = Case::new(4, demand, 2);
    case.ports = vec![1, 2, 2, 2];
    let paper = allocate(Allocator::Paper, &case.request());
    assert_eq!((paper.circuits[1], circuits_of(&paper)), (1, 1));
    // Skipping goes on to 2 - 3 and, as the reference does, to second circuits.
    let reference = allocate(Allocator::Reference, &case.request());
    assert_eq!((reference.circuits[1], reference.circuits[2 * 4 + 3]), (1, 2));
}

#[test]
fn the_reference_gives_first_circuits_before_second_ones() {
    // D(0,1) is 90 times D(2,3); only beyond 100 times does it get its second circuit first.
    let matrix = |heavy: u64| {
        let mut demand = vec![0; 9];
        demand[1] = heavy;
        demand[2] = 100;
        demand
    };
    let counts = |heavy| {
        let case = Case::new(3, matrix(heavy), 2);
        let found = allocate(Allocator::Reference, &case.request());
        (found.circuits[1], found.circuits[2])
    };
    assert_eq!(counts(9_000), (1, 1));
    assert_eq!(counts(11_000), (2, 0));
}

#[test]
fn changes_are_counted_per_port_pair() {
    let before = [0, 2, 0, 2, 0, 1, 0, 1, 0];
    let after = [0, 1, 2, 1, 0, 0, 2, 0, 0];
    assert_eq!(changed_pairs(&before, &before), 0);
    // Two circuits are made on the ports of two that are torn down.
    assert_eq!(changed_pairs(&before, &after), 2);
    assert_eq!(changed_pairs(&[0; 9], &after), 3);
    assert_eq!(changed_pairs(&after, &[0; 9]), 3);
}

#[test]
fn among_equally_fast_answers_the_closest_is_taken() {
    // Any perfect matching of two circuits each is equally good for uniform demand of 4.
    let mut previous = vec![0; 16];
    for (a, b) in [(0, 1), (1, 2), (2, 3), (3, 0)] {
        previous[a * 4 + b] = 1;
        previous[b * 4 + a] = 1;
    }
    let case = Case::new(4, vec![1_000_000; 16], 2);
    let request = case.request().with_previous(Some(&previous)).unwrap();
    assert_eq!(allocate(Allocator::Best, &request).circuits, previous);
}

#[test]
fn the_answer_is_the_same_every_time() {
    let mut random = Random(3);
    for split in [true, false] {
        let case = Case::random(12, 5, split, &mut random);
        let first = allocate(Allocator::Best, &case.request());
        assert_eq!(first, allocate(Allocator::Best, &case.request()));
    }
}

#[test]
fn inconsistent_requests_are_named() {
    let case = Case::new(2, vec![0; 4], 1);
    let request = case.request();
    let made =
        |ports, rate, eps_rates| Request::new(&case.demand, ports, Rate(rate), eps_rates, true);
    let (many, equal) = (vec![1; 4097], EpsRates::Equal(Rate(1)));
    let wrong = [
        (request.with_demand(&[0; 3]), "demand has 3 entries, expected 4"),
        (made(&[1], 1, equal), "demand has 4 entries, expected 1"),
        (made(&[1, 70_000], 1, equal), "70000 ports at one server, at most 65535"),
        (made(&[1, 1], 1, EpsRates::Each(&[Rate(1)])), "eps_rates has 1 entries, expected 2"),
        (made(&[1, 1], 0, equal), "circuit_rate must be above 0 b/s"),
        (made(&many, 1, equal), "4097 servers in one region, at most 4096"),
        (request.with_allowed(Some(&[true])), "allowed has 1 entries, expected 4"),
        (request.with_previous(Some(&[0; 9])), "previous has 9 entries, expected 4"),
    ];
    for (refused, text) in wrong {
        assert_eq!(refused.unwrap_err().to_string(), text);
    }
}

#[test]
fn as_many_ports_as_counts_can_hold_are_admitted() {
    let case = Case::new(2, vec![0; 4], 65_535);
    assert!(case.request().admits(&[0, 65_535, 65_535, 0]).is_ok());
}

/// Server 2 may not be joined to 0, and has two ports as all have.
#[test]
fn circuits_that_are_not_admitted_are_named() {
    let mut case = Case::new(3, vec![0; 9], 2);
    (case.allowed[2], case.allowed[6]) = (false, false);
    let check =
        |circuits: &[u16]| case.request().admits(circuits).map_err(|error| error.to_string());
    for admitted in [[0; 9], [0, 1, 0, 1, 0, 1, 0, 1, 0], [0, 2, 0, 2, 0, 0, 0, 0, 0]] {
        assert_eq!(check(&admitted), Ok(()));
    }
    let refused = |circuits: &[u16]| check(circuits).unwrap_err();
    assert_eq!(refused(&[0; 4]), "circuits have 4 entries, expected 3 x 3");
    let symmetric = "expected a symmetric matrix";
    let text = format!("1 circuits from 0 to 1 but 0 back: {symmetric}");
    assert_eq!(refused(&[0, 1, 0, 0, 0, 0, 0, 0, 0]), text);
    let text = format!("0 circuits from 0 to 1 but 1 back: {symmetric}");
    assert_eq!(refused(&[0, 0, 0, 1, 0, 0, 0, 0, 0]), text);
    let text = "servers 0 and 2 may not have circuits";
    assert_eq!(refused(&[0, 0, 1, 0, 0, 0, 1, 0, 0]), text);
    assert_eq!(refused(&[1, 0, 0, 0, 0, 0, 0, 0, 0]), "servers 0 and 0 may not have circuits");
    let text = "server 1 has 2 ports but 3 circuits";
    assert_eq!(refused(&[0, 2, 0, 2, 0, 1, 0, 1, 0]), text);
}
