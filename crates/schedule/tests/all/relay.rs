//! Two-hop relaying against closed forms, its own bound and checker, and adversarial demand.

use crate::common::regimes;
use lightloom_model::{Allocator, Duration, Invalid, Rate};
use lightloom_schedule::relay::{
    DualPrices, Origin, PathKind, PathShare, RelayCost, RelayPath, RelayRequest, RelayVerdict,
    Relayed, RelayedAllocation, Via, allocate_relayed, dual_bound, relay, relay_as, verify,
};
use lightloom_schedule::{EpsRates, Request, allocate};
use proptest::prelude::*;

const BITS: u64 = 400_000_000_000;
const BYTES_PER_S: f64 = 50e9;
const ROUNDING: f64 = 1e-9;

#[derive(Debug, Clone)]
struct Case {
    n: usize,
    demand: Vec<u64>,
    circuits: Vec<u16>,
    eps: u64,
    cost: RelayCost,
}

impl Case {
    fn new(n: usize, joined: &[(usize, usize, u16)], eps_circuits: u64) -> Self {
        let mut circuits = vec![0; n * n];
        for &(a, b, count) in joined {
            circuits[a * n + b] = count;
            circuits[b * n + a] = count;
        }
        let cost = RelayCost::default();
        Self { n, demand: vec![0; n * n], circuits, eps: eps_circuits * BITS, cost }
    }

    fn ring(n: usize, eps_circuits: u64) -> Self {
        let joined: Vec<_> = (0..n).map(|a| (a, (a + 1) % n, 1)).collect();
        Self::new(n, &joined, eps_circuits)
    }

    fn with(mut self, from: usize, to: usize, bytes: u64) -> Self {
        self.demand[from * self.n + to] = bytes;
        self
    }

    fn request(&self) -> RelayRequest<'_> {
        self.checked().unwrap()
    }

    fn checked(&self) -> Result<RelayRequest<'_>, Invalid> {
        let (rate, eps_rates) = (Rate(BITS), EpsRates::Equal(Rate(self.eps)));
        RelayRequest::new(&self.demand, &self.circuits, rate, eps_rates, self.cost)
    }

    fn relay(&self) -> Relayed {
        relay(&self.request())
    }
}

/// Bytes over one circuit, within what the descent promises to reach.
fn assert_circuits(found: &Relayed, bytes: f64) {
    let seconds = bytes / BYTES_PER_S;
    let ratio = found.makespan / seconds;
    assert!((1.0 - ROUNDING..1.02).contains(&ratio), "{ratio} of {seconds} s: {found:?}");
    assert!(found.lower_bound <= seconds * (1.0 + ROUNDING), "{found:?}");
}

#[test]
fn a_triangle_uses_its_third_server() {
    let case = Case::new(3, &[(0, 1, 1), (1, 2, 1), (0, 2, 1)], 0).with(0, 1, 80_000_000);
    let found = case.relay();
    assert_eq!(found.verdict, RelayVerdict::Pays);
    assert_circuits(&found, 40e6);
    assert!((found.one_hop * BYTES_PER_S - 80e6).abs() < 1.0);
    assert!((39_000_000..41_000_000).contains(&found.relayed_bytes()));
}

/// From 0 to 2 on a ring of 7: over 1, over 6 and the EPS, over the EPS and 3, and the EPS alone.
#[test]
fn one_hot_pair_on_a_ring_uses_all_ports_of_both_ends() {
    let found = Case::ring(7, 2).with(0, 2, 400_000_000).relay();
    assert_circuits(&found, 100e6);
    assert!((found.one_hop * BYTES_PER_S - 200e6).abs() < 1.0);
    let kinds: Vec<PathKind> = found.paths.iter().map(|path| path.kind).collect();
    for kind in
        [PathKind::Eps, PathKind::CircuitCircuit, PathKind::CircuitEps, PathKind::EpsCircuit]
    {
        assert!(kinds.contains(&kind), "{kinds:?}");
    }
}

#[test]
fn a_star_reaches_its_leaves_over_its_centre_alone() {
    let case = Case::new(4, &[(0, 1, 1), (0, 2, 1), (0, 3, 1)], 0).with(1, 2, 7_000).with(3, 2, 1);
    let found = case.relay();
    assert!(found.one_hop.is_infinite());
    assert!((found.makespan * BYTES_PER_S - 7_001.0).abs() < 1e-6);
    assert!(found.paths.iter().all(|path| path.relay == Some(0)));
}

#[test]
fn what_has_no_way_never_ends() {
    let found = Case::new(4, &[(0, 1, 1)], 0).with(0, 1, 5).with(2, 3, 5).relay();
    assert!(found.makespan.is_infinite() && found.lower_bound.is_infinite());
    assert_eq!(found.verdict, RelayVerdict::NoFaster);
}

#[test]
fn nothing_to_send_takes_no_time() {
    for n in [0, 1, 5] {
        let found = Case::ring(n.max(2), 2).relay();
        assert_eq!((found.paths.len(), found.makespan, found.lower_bound), (0, 0.0, 0.0), "{n}");
    }
    let none = Case { n: 0, demand: vec![], circuits: vec![], ..Case::ring(2, 1) };
    assert!(none.relay().paths.is_empty());
}

#[test]
fn a_latency_above_the_gain_means_one_hop() {
    let mut case = Case::ring(7, 2).with(0, 2, 400_000);
    let gain = 100e3 / BYTES_PER_S;
    case.cost.relay_delay = Duration((gain * 0.9e12) as u64);
    let found = case.relay();
    assert_eq!(found.verdict, RelayVerdict::Pays);
    assert!(found.makespan + found.latency < found.one_hop);
    case.cost.relay_delay = Duration((gain * 1.1e12) as u64);
    let found = case.relay();
    assert_eq!(found.verdict, RelayVerdict::LatencyExceedsGain);
    assert_eq!((found.relayed_bytes(), found.latency), (0, 0.0));
    assert!(found.with_relays > found.one_hop);
    assert!((found.makespan - found.one_hop).abs() < ROUNDING);
}

#[test]
fn the_latency_is_that_of_one_chunk_on_the_wire_and_across_the_switch() {
    let cost = RelayCost {
        staging_rate: Some(Rate(8_000_000_000)),
        chunk_bytes: 1_000_000,
        relay_delay: Duration(5_000_000),
        memory_limit: None,
    };
    assert!((cost.latency(Rate(BITS)) - (20e-6 + 1e-3 + 5e-6)).abs() < 1e-12);
}

#[test]
fn slow_staging_limits_what_is_relayed() {
    let mut case = Case::new(3, &[(0, 1, 1), (1, 2, 1), (0, 2, 1)], 0).with(0, 1, 80_000_000);
    case.cost.staging_rate = Some(Rate(BITS / 4));
    // one circuit and a quarter of one
    assert_circuits(&case.relay(), 64e6);
}

#[test]
fn relays_hold_no_more_than_their_memory() {
    let mut case = Case::new(3, &[(0, 1, 1), (1, 2, 1), (0, 2, 1)], 0).with(0, 1, 80_000_000);
    case.cost.memory_limit = Some(10_000_000);
    let found = case.relay();
    assert!(found.relayed_bytes() <= 10_000_000);
    assert!(found.makespan * BYTES_PER_S < 71.5e6, "{}", found.makespan * BYTES_PER_S);
    case.cost.memory_limit = Some(0);
    assert_eq!(case.relay().relayed_bytes(), 0);
}

/// Whatever the regime, the bound holds and the gap is small; the linear program is compared
/// with in Python.
#[test]
fn every_regime_comes_close_to_its_bound() {
    let mut random = regimes::Random(11);
    let (rate, eps_rates) = (Rate(BITS), EpsRates::Equal(Rate(2 * BITS)));
    for (n, limit) in [(8, 1.1), (16, 1.15), (32, 1.25)] {
        let ports = vec![6; n];
        for kind in regimes::KINDS {
            let demand = regimes::demand(kind, n, &mut random);
            let request = Request::new(&demand, &ports, rate, eps_rates, true).unwrap();
            for allocator in [Allocator::Static, Allocator::Best] {
                let circuits = allocate(allocator, &request).circuits;
                let case = Case {
                    n,
                    demand: demand.clone(),
                    circuits,
                    eps: 2 * BITS,
                    cost: RelayCost::default(),
                };
                let found = case.relay();
                let gap = found.makespan / found.lower_bound;
                assert!(gap >= 1.0 - ROUNDING && gap < limit, "{n} {kind} {allocator:?}: {gap}");
                assert_eq!(found, case.relay());
            }
        }
    }
}

fn case(limit: usize) -> impl Strategy<Value = Case> {
    let bytes = prop_oneof![
        2 => Just(0_u64),
        4 => 0..100_000_000_u64,
        1 => 0..1_000_u64,
        1 => 0..(1_u64 << 53),
        1 => Just(1_000_000_u64),
    ];
    (2..=limit)
        .prop_flat_map(move |n| {
            (
                prop::collection::vec(bytes.clone(), n * n),
                prop::collection::vec(
                    prop_oneof![2 => Just(0_u16), 2 => Just(1), 1 => 2..5_u16],
                    n * n,
                ),
                prop_oneof![Just(0_u64), Just(BITS / 3), Just(2 * BITS)],
                prop::option::of(Just(Rate(BITS / 2))),
                prop::option::of(0..50_000_000_u64),
                Just(n),
            )
        })
        .prop_map(|(demand, mut circuits, eps, staging_rate, memory_limit, n)| {
            for a in 0..n {
                circuits[a * n + a] = 0;
                for b in 0..a {
                    circuits[a * n + b] = circuits[b * n + a];
                }
            }
            let cost = RelayCost { staging_rate, memory_limit, ..RelayCost::default() };
            Case { n, demand, circuits, eps, cost }
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn bytes_are_conserved_and_the_makespan_is_that_of_the_loads(case in case(7)) {
        let found = case.relay();
        let loads = verify(&case.request(), &found.paths).unwrap();
        prop_assert_eq!(loads.makespan.to_bits(), found.makespan.to_bits());
        let staged: u64 = loads.staging.iter().sum();
        prop_assert_eq!(staged, found.relayed_bytes());
    }

    #[test]
    fn relaying_is_never_slower_than_one_hop_nor_faster_than_the_bound(case in case(7)) {
        let found = case.relay();
        prop_assert!(found.makespan <= found.one_hop);
        prop_assert!(found.makespan >= found.lower_bound * (1.0 - ROUNDING));
        if found.verdict != RelayVerdict::Pays {
            prop_assert_eq!(found.relayed_bytes(), 0);
        }
    }

    #[test]
    fn any_prices_prove_a_bound(case in case(6), seed in any::<u64>()) {
        let mut random = regimes::Random(seed | 1);
        let mut draw = |count: usize| -> Vec<f64> {
            (0..count).map(|_| (random.uniform() * 2.0 - 1.0).max(0.0)).collect()
        };
        let n = case.n;
        let prices =
            DualPrices::new(&draw(n * n), [&draw(n), &draw(n), &draw(n)]).unwrap();
        let bound = dual_bound(&case.request(), &prices);
        prop_assert!(case.relay().makespan >= bound * (1.0 - ROUNDING));
    }

    #[test]
    fn names_of_servers_hardly_matter(case in case(6), shift in 1..6_usize) {
        let n = case.n;
        let mut other = case.clone();
        for a in 0..n {
            for b in 0..n {
                let cell = (a + shift) % n * n + (b + shift) % n;
                other.demand[cell] = case.demand[a * n + b];
                other.circuits[cell] = case.circuits[a * n + b];
            }
        }
        let (one, two) = (case.relay().makespan, other.relay().makespan);
        prop_assert!(one.max(two) <= 1.25 * one.min(two) + f64::MIN_POSITIVE, "{} {}", one, two);
    }
}

#[test]
fn a_division_from_elsewhere_is_made_whole_and_judged() {
    let case = Case::new(3, &[(0, 1, 1), (1, 2, 1), (0, 2, 1)], 0).with(0, 1, 101);
    let part = |kind, relay, bytes| PathShare { from: 0, to: 1, via: Via { kind, relay }, bytes };
    let parts = [part(PathKind::Circuit, 0, 50.5), part(PathKind::CircuitCircuit, 2, 50.5)];
    let found = relay_as(&case.request(), &parts, 1e-9).unwrap();
    assert_eq!(found.paths.iter().map(|path| path.bytes).sum::<u64>(), 101);
    assert_eq!(found.verdict, RelayVerdict::Pays);
    let wrong = [part(PathKind::CircuitCircuit, 1, 101.0)];
    let text = relay_as(&case.request(), &wrong, 0.0).unwrap_err().to_string();
    assert_eq!(text, "a path from 0 to 1 has a wrong relay: Some(1)");
}

#[test]
fn the_checker_names_what_is_wrong() {
    let case = Case::ring(5, 1).with(0, 2, 10);
    let path = RelayPath { source: 0, destination: 2, kind: PathKind::Eps, relay: None, bytes: 10 };
    assert!(verify(&case.request(), &[path]).is_ok());
    let wrong = [
        (RelayPath { bytes: 9, ..path }, "paths from 0 to 2 carry 9 of 10 bytes"),
        (RelayPath { bytes: 11, ..path }, "paths from 0 to 2 carry too much"),
        (RelayPath { destination: 7, ..path }, "no path leads from 0 to 7"),
        (
            RelayPath { kind: PathKind::Circuit, ..path },
            "a path from 0 to 2 takes a circuit that is not there",
        ),
        (RelayPath { relay: Some(1), ..path }, "a path from 0 to 2 has a wrong relay: Some(1)"),
        (
            RelayPath { kind: PathKind::CircuitCircuit, relay: Some(4), ..path },
            "a path from 0 to 2 takes a circuit that is not there",
        ),
    ];
    for (path, text) in wrong {
        assert_eq!(verify(&case.request(), &[path]).unwrap_err().to_string(), text);
    }
    let mut tight = case.clone();
    tight.cost.memory_limit = Some(9);
    let relayed = RelayPath { kind: PathKind::CircuitCircuit, relay: Some(1), ..path };
    let text = verify(&tight.request(), &[relayed]).unwrap_err().to_string();
    assert_eq!(text, "server 1 relays 10 bytes, at most 9");
}

#[test]
fn inconsistent_requests_are_named() {
    let case = Case::ring(3, 1);
    let (demand, circuits) = (&case.demand, &case.circuits);
    let made = |demand, circuits, rate| {
        let eps_rates = EpsRates::Equal(Rate(case.eps));
        RelayRequest::new(demand, circuits, Rate(rate), eps_rates, case.cost)
    };
    let wrong = [
        (made(&[0; 8], circuits, 1), "demand has 8 entries, expected 4"),
        (made(demand, &[0; 4], 1), "circuits has 4 entries, expected 9"),
        (
            made(demand, &[0, 1, 0, 0, 0, 0, 0, 0, 0], 1),
            "circuits are duplex: expected a symmetric matrix",
        ),
        (made(demand, &[1, 0, 0, 0, 0, 0, 0, 0, 0], 1), "server 0 has circuits to itself"),
        (made(demand, circuits, 0), "circuit_rate must be above 0 b/s"),
        (
            made(&[u64::MAX; 9], circuits, 1),
            "166020696663385964535 bytes of demand, at most 9223372036854775808",
        ),
    ];
    for (refused, text) in wrong {
        assert_eq!(refused.unwrap_err().to_string(), text);
    }
}

fn judged(case: &Case, ports: &[u32], previous: Option<&[u16]>) -> RelayedAllocation {
    let request =
        Request::new(&case.demand, ports, Rate(BITS), EpsRates::Equal(Rate(case.eps)), true)
            .and_then(|request| request.with_previous(previous))
            .unwrap();
    allocate_relayed(&request, case.cost, 20).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn circuits_for_relaying_fit_the_ports_and_beat_what_is_there(case in case(6)) {
        let n = case.n;
        let ports: Vec<u32> = (0..n)
            .map(|a| case.circuits[a * n..(a + 1) * n].iter().map(|&count| u32::from(count)).sum())
            .collect();
        let found = judged(&case, &ports, Some(&case.circuits));
        for (a, &there) in ports.iter().enumerate() {
            let used: u32 = (0..n).map(|b| u32::from(found.circuits[a * n + b])).sum();
            prop_assert!(used <= there, "{} of {} ports at {}", used, there, a);
            prop_assert!((0..n).all(|b| found.circuits[a * n + b] == found.circuits[b * n + a]));
        }
        let other = Case { circuits: found.circuits.clone(), ..case.clone() };
        prop_assert_eq!(&other.relay(), &found.routing);
        let held = case.relay();
        prop_assert!(
            found.routing.makespan <= held.makespan * 1.002 + f64::MIN_POSITIVE,
            "{} against {}", found.routing.makespan, held.makespan
        );
    }
}

#[test]
fn the_search_is_limited_and_finds_what_the_candidates_miss() {
    let n = 16;
    let mut searched = 0;
    for seed in 1..=6 {
        let demand = regimes::demand("pair", n, &mut regimes::Random(seed));
        let case = Case { demand, ..Case::new(n, &[], 2) };
        let found = judged(&case, &vec![6; n], None);
        searched += usize::from(found.origin == Origin::Search);
        assert!(found.evaluations <= 24);
        assert_eq!(found, judged(&case, &vec![6; n], None));
    }
    assert!(searched >= 2, "{searched} of 6");
}

/// Hot columns: any circuits do once servers relay.
#[test]
fn hot_columns_need_no_search() {
    let mut random = regimes::Random(7);
    for n in [16, 24, 32] {
        let demand = regimes::demand("mixtral", n, &mut random);
        let case = Case { demand, ..Case::new(n, &[], 2) };
        let found = judged(&case, &vec![6; n], None);
        let lines =
            (0..n).map(|b| (0..n).filter(|&a| a != b).map(|a| case.demand[a * n + b]).sum::<u64>());
        let bound = lines.max().unwrap() as f64 / 8.0 / BYTES_PER_S;
        assert!(found.routing.makespan <= 1.02 * bound, "{n}: {}", found.routing.makespan / bound);
    }
}
