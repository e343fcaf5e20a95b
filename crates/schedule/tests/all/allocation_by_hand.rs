//! Circuits of regions that are small enough to work out by hand.

use crate::common::cases::{BITS, Case, Random, joined_pairs, matrix};
use lightloom_model::{Allocator, Rate};
use lightloom_schedule::{EpsRates, allocate, changed_pairs, line_bound, port_bound, route};

#[test]
fn algorithm_1_adds_up_what_a_pair_sends_both_ways() {
    // Server 0 has one port: 60 + 60 bytes with server 1 come before 100 + 0 with server 2.
    let case = Case::new(3, matrix(3, &[(0, 1, 60), (1, 0, 60), (0, 2, 100)]), 1);
    for allocator in [Allocator::Paper, Allocator::Reference] {
        let found = allocate(allocator, &case.request());
        assert_eq!(found.circuits, joined_pairs(3, &[(0, 1)]), "{allocator}");
    }
}

#[test]
fn new_circuits_are_moved_back_to_where_old_ones_were() {
    // Only 0 - 1 is heavy and needs a circuit; any pairing of the other four is as fast, so the
    // circuit that is there may stay.
    let n = 6;
    let mut demand = vec![10_000; n * n];
    demand[1] = 100_000_000;
    // Slightly larger, so that these come first where nothing else decides.
    (demand[2 * n + 3], demand[4 * n + 5]) = (10_100, 10_100);
    let mut case = Case::new(n, demand, 1);
    (case.split, case.eps) = (false, BITS / 10);
    let held = joined_pairs(n, &[(2, 4)]);
    for allocator in [Allocator::Greedy, Allocator::Parametric, Allocator::Best] {
        let request = case.request().with_previous(Some(&held)).unwrap();
        let found = allocate(allocator, &request);
        assert_eq!(found.circuits[1], 1, "{allocator}");
        assert_eq!(found.circuits[2 * n + 4], 1, "{allocator} {:?}", found.circuits);
        let fresh = allocate(allocator, &case.request());
        assert!(found.makespan <= fresh.makespan * (1.0 + 1e-12), "{allocator}");
        assert!(
            changed_pairs(&held, &found.circuits) <= changed_pairs(&held, &fresh.circuits),
            "{allocator}"
        );
    }
}

#[test]
fn twice_the_bytes_take_twice_as_long_and_twice_the_rate_half_as_long() {
    let mut random = Random(7);
    for servers in [4, 7] {
        for &allocator in Allocator::ALL {
            let case = Case::random(servers, 2, true, &mut random);
            let once = allocate(allocator, &case.request());
            let mut doubled = case.clone();
            doubled.demand.iter_mut().for_each(|bytes| *bytes *= 2);
            let twice = allocate(allocator, &doubled.request());
            assert_eq!(twice.circuits, once.circuits, "{allocator}");
            assert!((twice.makespan / once.makespan - 2.0).abs() < 1e-6, "{allocator}");
            let mut faster = case.clone();
            faster.eps *= 2;
            let rate = Rate(2 * BITS);
            let fast =
                allocate(allocator, &faster.request_at(rate, EpsRates::Equal(Rate(faster.eps))));
            assert_eq!(fast.circuits, once.circuits, "{allocator}");
            assert!((once.makespan / fast.makespan - 2.0).abs() < 1e-6, "{allocator}");
        }
    }
}

#[test]
fn the_parametric_search_ends_close_to_the_best() {
    let mut random = Random(11);
    let (mut total, mut count) = (0.0, 0.0);
    for split in [true, false] {
        for _ in 0..60 {
            let case = Case::random(8, 3, split, &mut random);
            let of = |allocator| allocate(allocator, &case.request()).makespan;
            let ratio = of(Allocator::Parametric) / of(Allocator::Best);
            assert!(ratio >= 1.0 - 1e-9, "best is slower: {ratio}");
            total += ratio;
            count += 1.0;
        }
    }
    assert!(total / count < 1.005, "parametric is {} of best", total / count);
}

/// Server 0 sends 80 MB and server 1 receives 60 MB; either way round the busier line decides.
#[test]
fn the_port_bound_is_that_of_the_busier_direction() {
    let demand = matrix(3, &[(0, 1, 40_000_000), (0, 2, 40_000_000), (2, 1, 20_000_000)]);
    let case = Case::new(3, demand, 2);
    // Two circuits and two EPS NICs at the same rate.
    let expected = 80e6 * 8.0 / (4.0 * BITS as f64);
    let bound = port_bound(&case.request());
    assert!((bound / expected - 1.0).abs() < 1e-12, "{bound}");
    let transposed = (0..9).map(|cell| case.demand[cell % 3 * 3 + cell / 3]).collect();
    let other = port_bound(&Case::new(3, transposed, 2).request());
    assert_eq!(bound.to_bits(), other.to_bits());
}

/// One port, two EPS NICs, 30 MB to each of four peers: one circuit carries 30 MB at most, and the
/// other 90 MB take the EPS 45 MB per NIC. The port bound would spread 120 MB over three.
#[test]
fn the_line_bound_knows_that_a_port_serves_one_peer() {
    let cells: Vec<(usize, usize, u64)> = (1..5).map(|to| (0, to, 30_000_000)).collect();
    let mut case = Case::new(5, matrix(5, &cells), 1);
    case.eps = 2 * BITS;
    let seconds = |bytes: f64| bytes * 8.0 / BITS as f64;
    assert!((port_bound(&case.request()) / seconds(40e6) - 1.0).abs() < 1e-12);
    assert!((line_bound(&case.request()) / seconds(45e6) - 1.0).abs() < 1e-12);
}

/// In a region of more than 16 servers a line's pairs without circuits matter by their sum: 1,000
/// bytes at one bit per second take 8,000 seconds, alongside 2^62 on 60,000 circuits.
#[test]
fn no_byte_is_lost_in_large_regions() {
    let n = 20;
    let mut case = Case::new(n, matrix(n, &[(0, 1, 1 << 62), (0, 2, 1_000)]), 60_000);
    (case.eps, case.split) = (1, false);
    let many: Vec<u16> = joined_pairs(n, &[(0, 1)]).iter().map(|count| 60_000 * count).collect();
    for on_circuits in [1 << 62, 1 << 54, 1 << 40] {
        case.demand[1] = on_circuits;
        let time = route(&case.request(), &many).makespan;
        assert!((time / 8_000.0 - 1.0).abs() < 1e-12, "{on_circuits} bytes: {time} s");
    }
}

/// 2^60 + 127 bytes are 2^60 to floating point: the rest goes over the circuit, too, if either end
/// has no EPS.
#[test]
fn what_rounding_leaves_goes_over_no_missing_eps() {
    let size = (1 << 60) + 127;
    let case = Case::new(2, vec![0, size, size, 0], 1);
    let circuit = joined_pairs(2, &[(0, 1)]);
    for rates in [[Rate(BITS), Rate(0)], [Rate(0), Rate(BITS)], [Rate(0); 2]] {
        let request = case.request_at(Rate(BITS), EpsRates::Each(&rates));
        assert_eq!(route(&request, &circuit).eps_bytes, [0; 4], "{rates:?}");
    }
}

/// The same demand in a region with idle servers takes the same time: 16 are summed pair by pair,
/// 17 by what has circuits.
#[test]
fn idle_servers_change_no_time() {
    let mut random = Random(5);
    for split in [true, false] {
        let case = Case::random(12, 3, split, &mut random);
        let found = allocate(Allocator::Greedy, &case.request());
        let n = 30;
        let wide = |from: usize| from / 12 * n + from % 12;
        let (mut demand, mut circuits) = (vec![0; n * n], vec![0; n * n]);
        for cell in 0..144 {
            demand[wide(cell)] = case.demand[cell];
            circuits[wide(cell)] = found.circuits[cell];
        }
        let large = Case { split, ..Case::new(n, demand, 3) };
        let time = route(&large.request(), &circuits).makespan;
        assert!((time / found.makespan - 1.0).abs() < 1e-12, "split {split}");
    }
}

/// Pairs in equal need that hold circuits now come first: only 0 - 2 is there, and 1 - 3
/// is what it leaves room for.
#[test]
fn ties_go_to_the_circuits_that_are_there() {
    let demand = (0..16).map(|cell| if cell % 5 == 0 { 0 } else { 1_000_000 }).collect();
    let case = Case::new(4, demand, 1);
    let previous = joined_pairs(4, &[(0, 2)]);
    let request = case.request().with_previous(Some(&previous)).unwrap();
    for allocator in [Allocator::Greedy, Allocator::Reference, Allocator::Best] {
        let found = allocate(allocator, &request);
        assert_eq!(found.circuits, joined_pairs(4, &[(0, 2), (1, 3)]), "{allocator}");
    }
}

/// Equal demand leaves no port dark, and is served as fast as by a circulant.
#[test]
fn equal_demand_takes_every_port_as_a_circulant_would() {
    for n in [4, 5, 6, 7, 8, 9, 12, 16, 33, 64] {
        let demand = (0..n * n).map(|cell| u64::from(cell / n != cell % n) * 1_000_000).collect();
        let mut case = Case::new(n, demand, 1);
        for ports in 1..n.min(9) as u32 {
            case.ports = vec![ports; n];
            let (greedy, circulant) = (
                allocate(Allocator::Greedy, &case.request()),
                allocate(Allocator::Static, &case.request()),
            );
            let made: u32 = greedy.circuits.iter().map(|&count| u32::from(count)).sum();
            assert_eq!(made, n as u32 * ports / 2 * 2, "{n} servers, {ports} ports");
            let limit = circulant.makespan * (1.0 + 1e-12);
            assert!(greedy.makespan <= limit, "{n} servers, {ports} ports");
        }
    }
}

/// Equal pairs of server 2, which has one port left: two steps back to server 0, or the opposite
/// server 5. The opposite one comes first with an odd number of ports, and last with an even one.
#[test]
fn an_odd_port_is_for_the_opposite_server() {
    let cells = [(2, 3, 9_000), (0, 2, 1_000), (2, 5, 1_000)];
    let even = Case::new(6, matrix(6, &cells), 2);
    let found = allocate(Allocator::Greedy, &even.request()).circuits;
    assert_eq!(found, joined_pairs(6, &[(2, 3), (0, 2)]));
    let odd = Case::new(6, matrix(6, &[&cells[..], &[(1, 2, 9_000)]].concat()), 3);
    let found = allocate(Allocator::Greedy, &odd.request()).circuits;
    assert_eq!(found, joined_pairs(6, &[(2, 3), (1, 2), (2, 5)]));
}
