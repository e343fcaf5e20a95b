//! Circuits for relaying: ports, allowed pairs, effort, and every set of circuits of tiny worlds.

use crate::common::cases::{BITS, Case, Random, distinct_case};
use lightloom_model::Rate;
use lightloom_schedule::allocation::{EpsRates, port_bound};
use lightloom_schedule::relay::{
    Origin, RelayCost, RelayRequest, RelayedAllocation, allocate_relayed, expander, relay,
};
use proptest::prelude::*;

const ROUNDING: f64 = 1e-9;

fn served(case: &Case, evaluations: u32) -> RelayedAllocation {
    allocate_relayed(&case.request(), RelayCost::default(), evaluations).unwrap()
}

fn time(found: &RelayedAllocation) -> f64 {
    found.routing.makespan + found.routing.latency
}

fn routed(case: &Case, circuits: &[u16], speedup: u64) -> f64 {
    let (rate, eps_rates) = (Rate(speedup * BITS), EpsRates::Equal(Rate(case.eps)));
    let cost = RelayCost::default();
    relay(&RelayRequest::new(&case.demand, circuits, rate, eps_rates, cost).unwrap()).makespan
}

/// The shortest time over all circuits that ports admit, pair by pair.
fn every_circuit(case: &Case, pair: usize, circuits: &mut Vec<u16>, free: &mut [u32]) -> f64 {
    let n = case.servers;
    let (a, b) = (pair / n, pair % n);
    if pair == n * n {
        return routed(case, circuits, 1);
    }
    if a >= b {
        return every_circuit(case, pair + 1, circuits, free);
    }
    let mut best = f64::INFINITY;
    let limit = if case.allowed[pair] { free[a].min(free[b]) } else { 0 };
    for count in 0..=limit {
        for cell in [a * n + b, b * n + a] {
            circuits[cell] = count as u16;
        }
        free[a] -= count;
        free[b] -= count;
        best = best.min(every_circuit(case, pair + 1, circuits, free));
        free[a] += count;
        free[b] += count;
    }
    for cell in [a * n + b, b * n + a] {
        circuits[cell] = 0;
    }
    best
}

fn assert_fits(case: &Case, circuits: &[u16]) {
    let n = case.servers;
    for a in 0..n {
        let used: u32 = (0..n).map(|b| u32::from(circuits[a * n + b])).sum();
        assert!(used <= case.ports[a], "server {a} uses {used} of {} ports", case.ports[a]);
        for b in 0..n {
            assert_eq!(circuits[a * n + b], circuits[b * n + a]);
            let may = a != b && case.allowed[a * n + b];
            assert!(may || circuits[a * n + b] == 0, "{a} and {b} may not be joined");
        }
    }
}

/// Hops between any two servers over circuits; `usize::MAX` if there is no path.
fn diameter(n: usize, circuits: &[u16]) -> usize {
    let mut longest = 0;
    for start in 0..n {
        let mut hops = vec![usize::MAX; n];
        hops[start] = 0;
        let mut open = std::collections::VecDeque::from([start]);
        while let Some(a) = open.pop_front() {
            for b in 0..n {
                if circuits[a * n + b] > 0 && hops[b] == usize::MAX {
                    hops[b] = hops[a] + 1;
                    open.push_back(b);
                }
            }
        }
        longest = longest.max(hops.into_iter().max().unwrap());
    }
    longest
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn tiny_worlds_come_close_to_the_best_of_all_circuits(
        n in 2..5_usize,
        ports in 1..3_u32,
        seed in 1..u64::MAX,
    ) {
        let case = Case::random(n, ports, true, &mut Random(seed));
        let mut circuits = vec![0; n * n];
        let best = every_circuit(&case, 0, &mut circuits, &mut case.ports.clone());
        let found = time(&served(&case, 40));
        prop_assert!(found >= best * (1.0 - 0.01), "{found} is below the best {best}");
        prop_assert!(found <= best * 1.15, "{} of the best", found / best);
        prop_assert!(best >= port_bound(&case.request()) * (1.0 - ROUNDING));
    }

    #[test]
    fn ports_and_allowed_pairs_are_kept(case in distinct_case(6)) {
        for evaluations in [0, 6] {
            let found = served(&case, evaluations);
            assert_fits(&case, &found.circuits);
            prop_assert_eq!(found.origin == Origin::Search && evaluations == 0, false);
            prop_assert_eq!(found.routing.makespan.to_bits(),
                routed(&case, &found.circuits, 1).to_bits());
        }
        let circuits = expander(&case.request());
        assert_fits(&case, &circuits);
        let n = case.servers;
        let used = |a: usize| circuits[a * n..][..n].iter().map(|&c| u32::from(c)).sum::<u32>();
        let has_port = |&a: &usize| used(a) < case.ports[a];
        let open: Vec<usize> = (0..n).filter(has_port).collect();
        for &a in &open {
            prop_assert!(open.iter().all(|&b| a == b || !case.allowed[a * n + b]));
        }
    }

    /// A search with more evaluations first does all that one with fewer does.
    #[test]
    fn more_effort_is_never_slower(seed in 1..u64::MAX, n in 4..9_usize) {
        let case = Case::random(n, 3, true, &mut Random(seed));
        let mut before: Option<RelayedAllocation> = None;
        for evaluations in [0, 1, 4, 12] {
            let found = served(&case, evaluations);
            if let Some(before) = &before {
                prop_assert!(time(&found) <= time(before));
                prop_assert!(found.evaluations >= before.evaluations);
            }
            // At most five candidates without held circuits.
            prop_assert!(found.evaluations <= 5 + evaluations);
            before = Some(found);
        }
    }

    /// Over the same circuits: a search may take another way where rounding breaks a tie.
    #[test]
    fn twice_the_bytes_over_twice_the_rate_take_the_same_time(
        seed in 1..u64::MAX,
        n in 2..7_usize,
    ) {
        let case = Case::random(n, 2, true, &mut Random(seed));
        let circuits = served(&case, 8).circuits;
        let demand: Vec<u64> = case.demand.iter().map(|bytes| 2 * bytes).collect();
        let one = routed(&case, &circuits, 1);
        let other = routed(&Case { demand, eps: 2 * case.eps, ..case }, &circuits, 2);
        prop_assert!((one - other).abs() <= 0.01 * one, "{one} s, {other} s");
    }

    /// Circuits that are there stay unless others are clearly faster.
    #[test]
    fn held_circuits_stay_where_nothing_is_clearly_faster(seed in 1..u64::MAX, n in 3..8_usize) {
        let case = Case::random(n, 3, true, &mut Random(seed));
        let first = served(&case, 10);
        let request = case.request().with_previous(Some(&first.circuits)).unwrap();
        let again = allocate_relayed(&request, RelayCost::default(), 0).unwrap();
        prop_assert!(time(&again) <= time(&first) * 1.001 + f64::MIN_POSITIVE);
        if again.origin == Origin::Held {
            prop_assert_eq!(again.circuits, first.circuits);
        } else {
            prop_assert!(time(&again) < time(&first));
        }
    }
}

#[test]
fn held_circuits_that_no_longer_fit_are_cut_to_the_ports() {
    let mut case = Case::new(3, vec![0; 9], 1);
    case.demand[1] = 80_000_000;
    // Two circuits of 0 - 1 and one of 1 - 2, of which the ports now admit the first one.
    let held = [0, 2, 0, 2, 0, 1, 0, 1, 0];
    let request = case.request().with_previous(Some(&held)).unwrap();
    let found = allocate_relayed(&request, RelayCost::default(), 0).unwrap();
    assert_fits(&case, &found.circuits);
    assert_eq!(found.circuits[1], 1);
}

/// Every server alike: the circuits of one are those of the next, turned by one place.
#[test]
fn the_expander_is_a_circulant_that_uses_all_ports() {
    for (n, ports) in [(8, 2), (9, 4), (16, 4), (27, 6), (32, 6)] {
        let case = Case::new(n, vec![0; n * n], ports);
        let circuits = expander(&case.request());
        assert_fits(&case, &circuits);
        for a in 0..n {
            let used: u32 = (0..n).map(|b| u32::from(circuits[a * n + b])).sum();
            assert_eq!(used, ports, "{n} servers");
            for b in 0..n {
                let turned = circuits[(a + 1) % n * n + (b + 1) % n];
                assert_eq!(circuits[a * n + b], turned, "{n} servers, {a} and {b}");
            }
        }
    }
}

/// More ports than peers: every port has a circuit.
#[test]
fn the_expander_joins_a_pair_as_often_as_it_has_ports() {
    let case = Case::new(2, vec![0; 4], 5);
    assert_eq!(expander(&case.request()), [0, 5, 5, 0]);
}

/// With strides that grow geometrically few hops lead anywhere; neighbors alone need n / 2 of them
/// divided by the widest stride.
#[test]
fn the_expander_has_few_hops() {
    for (n, ports, hops) in [(16, 4, 4), (32, 6, 4), (64, 6, 6), (64, 8, 5)] {
        let case = Case::new(n, vec![0; n * n], ports);
        let found = diameter(n, &expander(&case.request()));
        assert!(found <= hops, "{n} servers of {ports} ports: {found} hops");
        // Servers that ports + 1 do not reach at once need a second hop.
        assert!(found >= 2);
    }
}

#[test]
fn the_expander_joins_all_pairs_where_ports_suffice() {
    for n in [3, 5, 7] {
        let case = Case::new(n, vec![0; n * n], n as u32 - 1);
        assert_eq!(diameter(n, &expander(&case.request())), 1);
    }
}

/// No demand at all: the first candidate is as good as any.
#[test]
fn nothing_to_send_needs_one_look() {
    let found = served(&Case::new(6, vec![0; 36], 3), 50);
    assert_eq!((found.evaluations, time(&found)), (1, 0.0));
}

/// One transfer among many: all ports of both ends work, by circuits and relays alike.
#[test]
fn one_transfer_uses_all_ports_of_its_ends() {
    for ports in [1, 2, 4] {
        let mut case = Case::new(6, vec![0; 36], ports);
        case.demand[1] = 120_000_000;
        let bound = 120e6 * 8.0 / (f64::from(ports + 2) * BITS as f64);
        let found = served(&case, 20);
        assert!((port_bound(&case.request()) / bound - 1.0).abs() < ROUNDING);
        assert!(time(&found) <= 1.02 * bound, "{} of the bound", time(&found) / bound);
        assert!(time(&found) >= bound * (1.0 - ROUNDING));
    }
}
