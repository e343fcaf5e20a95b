//! How close the searches come to optima that are known, in regions too large to try everything.

use crate::common::cases::{BITS, Builder, Case, Random, brute_force};
use crate::common::regimes;
use lightloom_model::Allocator;
use lightloom_schedule::{allocate, line_bound, port_bound};

/// Bytes that a circuit carries in a millisecond.
const CARRY: f64 = BITS as f64 / 8.0 * 1e-3;

/// Circuits on nearly all ports, up to `bundle` at once.
fn random_bundles(n: usize, ports: u32, bundle: f64, random: &mut Random) -> Vec<u16> {
    let case = Case::new(n, vec![0; n * n], ports);
    let mut builder = Builder::new(&case);
    for _ in 0..20 * n * ports as usize {
        let [a, b] = [0, 1].map(|_| (random.uniform() * n as f64) as usize);
        let count = 1 + (random.uniform() * bundle) as u32;
        for _ in 0..count {
            if a != b && builder.has_room((a, b)) {
                builder.add((a, b));
            }
        }
    }
    builder.count
}

/// Demand that some circuits serve in a millisecond: they are nearly full in the larger direction,
/// and packets fill the EPS of most servers (as fast as two circuits).
fn planted(n: usize, ports: u32, bundle: f64, split: bool, random: &mut Random) -> Case {
    let circuits = random_bundles(n, ports, bundle, random);
    let joined = |cell: usize| circuits[cell] > 0;
    let mut packets: Vec<f64> = (0..n * n)
        .map(|cell| {
            let is_out = cell / n == cell % n || joined(cell) && !split;
            if is_out { 0.0 } else { random.uniform().powi(2) }
        })
        .collect();
    // Rows and columns in turn are made to add up to what the EPS takes; none is above at the end.
    for round in 0..20 {
        let line = |cell: usize| if round % 2 == 0 { cell / n } else { cell % n };
        let mut sums = vec![0.0; n];
        packets.iter().enumerate().for_each(|(cell, bytes)| sums[line(cell)] += bytes);
        let largest = if round < 18 { 0.0 } else { 2.0 * CARRY };
        let scale = |sum: f64| 2.0 * CARRY / f64::max(sum, largest);
        packets.iter_mut().enumerate().for_each(|(cell, bytes)| *bytes *= scale(sums[line(cell)]));
    }
    let demand = (0..n * n)
        .map(|cell| {
            let (count, first) = (f64::from(circuits[cell]), cell / n < cell % n);
            let share = if first { 0.97 + 0.03 * random.uniform() } else { random.uniform() };
            let full = if split && joined(cell) && packets[cell] > 0.0 { 1.0 } else { share };
            (count * CARRY * full + packets[cell]).floor() as u64
        })
        .collect();
    Case { split, ..Case::new(n, demand, ports) }
}

/// Mean of the makespan, in planted milliseconds.
fn mean_ratio(n: usize, ports: u32, bundle: f64, split: bool, allocator: Allocator) -> f64 {
    let draws = 8;
    let mut random = Random(n as u64 * 31 + u64::from(ports));
    let ratios = (0..draws).map(|_| {
        let case = planted(n, ports, bundle, split, &mut random);
        allocate(allocator, &case.request()).makespan / 1e-3
    });
    ratios.sum::<f64>() / f64::from(draws)
}

#[test]
fn planted_circuits_are_found() {
    for split in [false, true] {
        for (n, ports) in [(12, 3), (20, 2), (24, 4)] {
            for allocator in [Allocator::Parametric, Allocator::Best] {
                let mean = mean_ratio(n, ports, 1.0, split, allocator);
                assert!(mean < 1.0005, "{n} servers, {ports} ports, split {split}: {mean:.5}");
            }
        }
    }
}

/// Means of the makespans of the parametric search and of `best`, in line bounds.
fn mean_over_bound(cases: &[Case]) -> [f64; 2] {
    [Allocator::Parametric, Allocator::Best].map(|allocator| {
        let ratio = |case: &Case| {
            let request = case.request();
            let found = allocate(allocator, &request);
            request.admits(&found.circuits).expect("circuits within the ports");
            found.makespan / line_bound(&request)
        };
        cases.iter().map(ratio).sum::<f64>() / cases.len() as f64
    })
}

fn assert_within(found: [f64; 2], limits: [f64; 2]) {
    println!("parametric and best: {found:.5?} line bounds");
    assert!(found[0] < limits[0] && found[1] < limits[1], "{found:.5?}, at most {limits:?}");
}

/// 1.1496 and 1.1481; more if servers at the far ends of circuits given up were not joined.
#[test]
fn skewed_demand_ends_close_to_the_bound() {
    let mut random = Random(61);
    let mut cases = Vec::new();
    for (n, ports, draws) in [(10, 6, 20), (16, 8, 16), (20, 6, 20)] {
        cases.extend((0..draws).map(|_| Case::random(n, ports, true, &mut random)));
    }
    assert_within(mean_over_bound(&cases), [1.151, 1.1495]);
}

/// Sixteen servers without split, where branching is cut off and the search goes on: 1.3765. If
/// what was cut off counted as proved, 1.3787.
#[test]
fn a_search_that_was_cut_off_goes_on() {
    let mut random = Random(61);
    let cases: Vec<Case> = (0..12).map(|_| Case::random(16, 8, false, &mut random)).collect();
    assert_within(mean_over_bound(&cases), [1.378, 1.378]);
}

/// Demand that fills every circuit of a planted set and every EPS NIC: the optimum is the port
/// bound. From none of the starts does a single move lead there; the search goes on where no move
/// helps. Without that it ends 30 and 60 % later.
#[test]
fn patience_reaches_the_bound_where_no_move_helps() {
    #[rustfmt::skip]
    let six = [
        0, 200, 0, 40, 0, 160,
        200, 0, 0, 100, 100, 0,
        0, 0, 0, 160, 200, 40,
        60, 100, 140, 0, 100, 0,
        0, 100, 200, 100, 0, 0,
        140, 0, 60, 0, 0, 0,
    ];
    #[rustfmt::skip]
    let seven = [
        0, 100, 100, 0, 0, 100, 0,
        0, 0, 0, 100, 40, 60, 100,
        100, 0, 0, 100, 0, 100, 0,
        0, 100, 100, 0, 0, 0, 100,
        0, 0, 0, 0, 0, 40, 60,
        160, 0, 100, 0, 0, 0, 40,
        40, 100, 0, 100, 60, 0, 0,
    ];
    for (servers, ports, demand) in [(6, 3, &six[..]), (7, 2, &seven[..])] {
        let mut case =
            Case::new(servers, demand.iter().map(|bytes| bytes * 1_000_000).collect(), ports);
        case.eps = BITS;
        let (request, found) = (case.request(), allocate(Allocator::Best, &case.request()));
        let bound = port_bound(&request);
        assert!(found.makespan <= bound * (1.0 + 1e-9), "{servers}: {} {bound}", found.makespan);
    }
}

/// Too many servers to branch on, and more ports than peers: whole bundles are packed. Without
/// them 1.373 and 1.361 instead of 1.329 and 1.323.
#[test]
fn bundles_of_large_regions_end_close_to_the_bound() {
    let mut cases = Vec::new();
    for kind in ["pair", "sparse", "uniform"] {
        for ports in [6, 24, 36] {
            let mut random = regimes::Random(61);
            let demand = (0..4).map(|_| regimes::demand(kind, 18, &mut random));
            let case =
                |demand| Case { split: false, eps: 4 * BITS, ..Case::new(18, demand, ports) };
            cases.extend(demand.map(case));
        }
    }
    assert_within(mean_over_bound(&cases), [1.334, 1.328]);
}

/// Few ports, where moves must give up circuits at both ends: the mean gap to brute force.
#[test]
fn the_mean_gap_is_small_where_ports_are_scarce() {
    for (split, n, ports, limits) in [
        (false, 5, 2, [1e-8, 1e-8]),
        (false, 5, 1, [1e-8, 1e-8]),
        (false, 6, 1, [1e-8, 1e-8]),
        (true, 5, 1, [0.0035, 0.0005]),
        (true, 6, 1, [0.0035, 0.002]),
    ] {
        let mut random = Random(17);
        let mut gaps = [0.0; 2];
        for _ in 0..100 {
            let case = Case { eps: BITS, ..Case::random(n, ports, split, &mut random) };
            let exact = brute_force(&case);
            for (gap, allocator) in gaps.iter_mut().zip([Allocator::Parametric, Allocator::Best]) {
                *gap += (allocate(allocator, &case.request()).makespan / exact - 1.0) / 100.0;
            }
        }
        let text = format!("{n} servers, {ports} ports, split {split}: {gaps:.5?}");
        println!("{text}");
        assert!(gaps[0] < limits[0] && gaps[1] < limits[1], "{text}");
    }
}
