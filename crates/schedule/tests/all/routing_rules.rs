//! Routing and bounds against bisection and against every division of ports; rules of scale.

use crate::common::cases::{BITS, Case, Random, brute_force, case, permuted};
use lightloom_model::{Allocator, Rate};
use lightloom_schedule::{EpsRates, allocate, line_bound, makespans, port_bound, route};
use proptest::prelude::*;

/// Sums in different orders differ by rounding.
const ROUNDING: f64 = 1e-9;

const BYTES_PER_SECOND: f64 = BITS as f64 / 8.0;

/// Random circuits, whatever the ports and the allowed pairs.
fn any_circuits(n: usize, random: &mut Random) -> Vec<u16> {
    let mut counts = vec![0; n * n];
    for a in 0..n {
        for b in 0..a {
            let count = (random.uniform() * 3.5 - 1.0).max(0.0) as u16;
            (counts[a * n + b], counts[b * n + a]) = (count, count);
        }
    }
    counts
}

/// Bytes per pair of one line: those that a server sends, or those that it receives.
fn line(case: &Case, server: usize, sends: bool) -> Vec<f64> {
    let n = case.servers;
    let cell = |peer: usize| if sends { server * n + peer } else { peer * n + server };
    (0..n).map(|peer| if peer == server { 0.0 } else { case.demand[cell(peer)] as f64 }).collect()
}

/// Seconds that a line needs, by bisection on whether what circuits cannot carry fits the EPS.
fn bisected(bytes: &[f64], counts: &[u16], eps: f64) -> f64 {
    let fits = |time: f64| {
        let spill = |(&size, &count): (&f64, &u16)| {
            (size - f64::from(count) * BYTES_PER_SECOND * time).max(0.0)
        };
        bytes.iter().zip(counts).map(spill).sum::<f64>() <= eps * time
    };
    if fits(0.0) {
        return 0.0;
    }
    let (mut low, mut high) = (0.0, 1e9);
    if !fits(high) {
        return f64::INFINITY;
    }
    for _ in 0..150 {
        let middle = f64::midpoint(low, high);
        if fits(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    high
}

/// Seconds that a line needs if each pair uses circuits only, or the EPS only.
fn whole(bytes: &[f64], counts: &[u16], eps: f64) -> f64 {
    let (mut slowest, mut rest) = (0.0_f64, 0.0);
    for (&size, &count) in bytes.iter().zip(counts) {
        if count > 0 {
            slowest = slowest.max(size / (f64::from(count) * BYTES_PER_SECOND));
        } else {
            rest += size;
        }
    }
    if rest > 0.0 { slowest.max(rest / eps) } else { slowest }
}

fn replayed(case: &Case, counts: &[u16], rates: &[Rate]) -> f64 {
    let n = case.servers;
    let lines = (0..n).flat_map(|server| [(server, true), (server, false)]);
    lines.fold(0.0, |slowest: f64, (server, sends)| {
        let bytes = line(case, server, sends);
        let row = &counts[server * n..(server + 1) * n];
        let eps = rates[server].0 as f64 / 8.0;
        slowest.max(if case.split { bisected(&bytes, row, eps) } else { whole(&bytes, row, eps) })
    })
}

fn near(one: f64, other: f64) -> bool {
    let is_close = (one - other).abs() <= ROUNDING * one.abs();
    one.to_bits() == other.to_bits() || one.is_finite() && is_close
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// Below and above the number of servers from which only joined pairs are looked at.
    #[test]
    fn routing_takes_as_long_as_its_slowest_line(case in case(22), seed in 1..u64::MAX) {
        let mut random = Random(seed);
        let counts = any_circuits(case.servers, &mut random);
        let rates: Vec<Rate> = (0..case.servers)
            .map(|_| Rate((case.eps as f64 * (0.5 + random.uniform())) as u64))
            .collect();
        let request = case.request_at(Rate(BITS), EpsRates::Each(&rates));
        let found = route(&request, &counts).makespan;
        let wanted = replayed(&case, &counts, &rates);
        prop_assert!(near(found, wanted), "{found} s against {wanted} s");
    }

    /// A server that lost its packet NICs takes longer, or forever; it never helps another.
    #[test]
    fn slower_servers_never_help(case in case(8), seed in 1..u64::MAX) {
        let counts = any_circuits(case.servers, &mut Random(seed));
        let mut rates = vec![Rate(case.eps); case.servers];
        let mut before = route(&case.request(), &counts).makespan;
        for server in 0..case.servers {
            rates[server] = Rate(case.eps / 2);
            let request = case.request_at(Rate(BITS), EpsRates::Each(&rates));
            let after = route(&request, &counts).makespan;
            prop_assert!(after >= before * (1.0 - ROUNDING), "server {}", server);
            before = after;
        }
    }

    #[test]
    fn makespans_are_those_of_routing_each(case in case(20), seed in 1..u64::MAX) {
        let mut random = Random(seed);
        let sets: Vec<Vec<u16>> = (0..4).map(|_| any_circuits(case.servers, &mut random)).collect();
        let views: Vec<&[u16]> = sets.iter().map(Vec::as_slice).collect();
        let request = case.request();
        let found = makespans(&request, &views);
        prop_assert_eq!(found.len(), sets.len());
        for (time, set) in found.iter().zip(&sets) {
            prop_assert_eq!(time.to_bits(), route(&request, set).makespan.to_bits());
        }
    }

    /// One more circuit for a pair with circuits never hurts; with split, nor does the first one.
    #[test]
    fn one_more_circuit_never_hurts(case in case(7), seed in 1..u64::MAX) {
        let n = case.servers;
        let counts = any_circuits(n, &mut Random(seed));
        let before = route(&case.request(), &counts).makespan;
        for (a, b) in (0..n).flat_map(|a| (0..a).map(move |b| (a, b))) {
            if counts[a * n + b] > 0 || case.split {
                let mut more = counts.clone();
                more[a * n + b] += 1;
                more[b * n + a] += 1;
                let after = route(&case.request(), &more).makespan;
                prop_assert!(after <= before * (1.0 + ROUNDING), "{} to {}", a, b);
            }
        }
    }

    /// Bytes over the EPS are never more than there are, and whole pairs are on one side only.
    #[test]
    fn pairs_send_no_more_than_they_have(case in case(9), seed in 1..u64::MAX) {
        let n = case.servers;
        let counts = any_circuits(n, &mut Random(seed));
        let found = route(&case.request(), &counts);
        prop_assert_eq!(&found.circuits, &counts);
        for cell in (0..n * n).filter(|cell| cell / n != cell % n) {
            let (eps, all) = (found.eps_bytes[cell], case.demand[cell]);
            prop_assert!(eps <= all);
            if counts[cell] == 0 {
                prop_assert_eq!(eps, all, "bytes over circuits that are not there");
            } else if !case.split || case.eps == 0 {
                prop_assert_eq!(eps, 0);
            }
        }
    }

    #[test]
    fn times_scale_with_bytes_and_against_rates(case in case(8), factor in 2..6_u64) {
        let mut larger = case.clone();
        larger.demand.iter_mut().for_each(|bytes| *bytes *= factor);
        let request = case.request();
        let faster = case.request_at(Rate(BITS * factor), EpsRates::Equal(Rate(case.eps * factor)));
        for bound in [port_bound, line_bound] {
            let time = bound(&request);
            prop_assert!(near(bound(&larger.request()), time * factor as f64));
            prop_assert!(near(bound(&faster), time / factor as f64));
        }
        let counts = allocate(Allocator::Greedy, &request).circuits;
        let time = route(&request, &counts).makespan;
        prop_assert!(near(route(&larger.request(), &counts).makespan, time * factor as f64));
        prop_assert!(near(route(&faster, &counts).makespan, time / factor as f64));
    }

    #[test]
    fn bounds_do_not_depend_on_names_or_directions(case in case(9), seed in any::<u64>()) {
        let (renamed, _) = permuted(&case, seed);
        let mut reversed = case.clone();
        let n = case.servers;
        for cell in 0..n * n {
            reversed.demand[cell % n * n + cell / n] = case.demand[cell];
        }
        for bound in [port_bound, line_bound] {
            let time = bound(&case.request());
            prop_assert!(near(bound(&renamed.request()), time));
            prop_assert!(near(bound(&reversed.request()), time));
        }
    }

    #[test]
    fn more_ports_or_rate_never_raise_a_bound(case in case(8)) {
        let ports: Vec<u32> = case.ports.iter().map(|ports| ports + 1).collect();
        let request = case.request();
        let wider = Case { ports, ..case.clone() };
        let with_rate = case.request_at(Rate(BITS), EpsRates::Equal(Rate(case.eps + BITS)));
        for bound in [port_bound, line_bound] {
            let limit = bound(&request) * (1.0 + ROUNDING);
            prop_assert!(bound(&wider.request()) <= limit);
            prop_assert!(bound(&with_rate) <= limit);
        }
    }
}

/// The fastest time of one line over every division of its ports among its peers.
fn best_division(bytes: &[f64], ports: u32, eps: f64) -> f64 {
    fn divide(bytes: &[f64], peer: usize, left: u32, counts: &mut Vec<u16>, eps: f64) -> f64 {
        if peer == bytes.len() {
            return bisected(bytes, counts, eps);
        }
        let mut best = f64::INFINITY;
        for count in 0..=left {
            counts.push(count as u16);
            best = best.min(divide(bytes, peer + 1, left - count, counts, eps));
            counts.pop();
        }
        best
    }
    divide(bytes, 0, ports, &mut Vec::new(), eps)
}

/// The line bound is the slowest line, each with the ports divided as suits it best.
#[test]
fn the_line_bound_is_that_of_the_best_division_of_ports() {
    let mut random = Random(17);
    for draw in 0..60 {
        let mut case = Case::random(4, 0, true, &mut random);
        // Without an EPS a peer without a port takes forever: most cases have enough ports.
        let spare = if draw % 4 == 0 { 0 } else { 3 };
        case.ports = (0..4).map(|_| spare + (random.uniform() * 3.0) as u32).collect();
        case.eps = [0, BITS / 3, 2 * BITS][draw % 3];
        if draw % 2 == 0 {
            case.demand.iter_mut().step_by(3).for_each(|bytes| *bytes = 0);
        }
        let lines = (0..4).flat_map(|server| [(server, true), (server, false)]);
        let wanted = lines.fold(0.0, |slowest: f64, (server, sends)| {
            let bytes = line(&case, server, sends);
            slowest.max(best_division(&bytes, case.ports[server], case.eps as f64 / 8.0))
        });
        let found = line_bound(&case.request());
        assert!(near(found, wanted), "draw {draw}: {found} s against {wanted} s");
    }
}

/// Every multigraph of four servers is no faster than the line bound, that than the port bound.
#[test]
fn no_multigraph_beats_a_bound() {
    let mut random = Random(23);
    for draw in 0..120 {
        let mut case = Case::random(3 + draw % 2, 1 + (draw % 3) as u32, draw % 4 < 2, &mut random);
        case.eps = [BITS / 3, 2 * BITS][draw % 2];
        let best = brute_force(&case) * (1.0 + ROUNDING);
        let (by_line, by_port) = (line_bound(&case.request()), port_bound(&case.request()));
        assert!(by_line <= best, "draw {draw}: {by_line} s above {best} s");
        assert!(by_port <= by_line * (1.0 + ROUNDING), "draw {draw}");
    }
}

/// Without split, small regions are solved exactly: relabelled servers, other ports, other
/// directions and failed pairs give what brute force gives.
#[test]
fn small_regions_without_split_are_solved_exactly() {
    let mut random = Random(29);
    for draw in 0..80 {
        let mut case = Case::random(4, 0, false, &mut random);
        case.ports = (0..4).map(|_| (random.uniform() * 3.0) as u32).collect();
        case.eps = [BITS / 3, 2 * BITS][draw % 2];
        let failed = (random.uniform() * 4.0) as usize;
        let other = (failed + 1 + (random.uniform() * 3.0) as usize) % 4;
        if failed != other {
            (case.allowed[failed * 4 + other], case.allowed[other * 4 + failed]) = (false, false);
        }
        let exact = brute_force(&case);
        let (renamed, _) = permuted(&case, draw as u64 + 5);
        for case in [&case, &renamed] {
            for allocator in [Allocator::Parametric, Allocator::Best] {
                let found = allocate(allocator, &case.request()).makespan;
                assert!((found / exact - 1.0).abs() < 1e-8, "draw {draw}: {found} s, {exact} s");
            }
        }
    }
}
