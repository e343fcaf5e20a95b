//! NIC mapping: each NIC once, pairs as requested, nodes shared out, circuits that stay, stay.

use std::collections::BTreeSet;

use crate::common::cases::{BITS, Case, case, joined_pairs};
use lightloom_model::{Allocator, Rate};
use lightloom_schedule::{
    EpsRates, NicCircuit, NicEnd, Request, allocate, map_nics, map_working_nics,
};
use proptest::prelude::*;

fn node(nic: u32, ports: u32) -> u32 {
    nic * 2 / ports
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn every_circuit_gets_two_nics_of_its_own(case in case(9), nodes in 1..5_u32) {
        let circuits = allocate(Allocator::Best, &case.request()).circuits;
        let mapped = map_nics(&circuits, &case.ports, nodes, &[]);
        let mut counts = vec![0_u16; circuits.len()];
        let mut seen = BTreeSet::new();
        for circuit in &mapped {
            prop_assert!(circuit.a.server < circuit.b.server);
            for end in [circuit.a, circuit.b] {
                prop_assert!(end.nic < case.ports[end.server as usize]);
                prop_assert!(seen.insert(end), "{end:?} ends two circuits");
            }
            counts[circuit.a.server as usize * case.servers + circuit.b.server as usize] += 1;
            counts[circuit.b.server as usize * case.servers + circuit.a.server as usize] += 1;
        }
        prop_assert_eq!(counts, circuits);
    }

    #[test]
    fn circuits_that_stay_keep_their_nics(case in case(9), other in case(9)) {
        let n = case.servers.min(other.servers);
        let cut = |case: &Case| -> Vec<u64> {
            (0..n * n).map(|cell| case.demand[cell / n * case.servers + cell % n]).collect()
        };
        let ports = &case.ports[..n];
        let (first, second) = (cut(&case), cut(&other));
        let eps_rates = EpsRates::Equal(Rate(case.eps));
        let solve = |demand: &[u64]| {
            let request = Request::new(demand, ports, Rate(BITS), eps_rates, case.split).unwrap();
            allocate(Allocator::Best, &request).circuits
        };
        let before = map_nics(&solve(&first), ports, 2, &[]);
        let wanted = solve(&second);
        let after: BTreeSet<NicCircuit> =
            map_nics(&wanted, ports, 2, &before).into_iter().collect();
        let kept = before.iter().filter(|circuit| after.contains(circuit)).count();
        let common: u32 = (0..n * n)
            .filter(|cell| cell / n < cell % n)
            .map(|cell| {
                let old = before.iter().filter(|circuit| {
                    (circuit.a.server as usize, circuit.b.server as usize) == (cell / n, cell % n)
                });
                (old.count() as u32).min(u32::from(wanted[cell]))
            })
            .sum();
        prop_assert_eq!(kept, common as usize);
    }
}

/// Step 4 of Algorithm 1: two circuits of a pair end on two NUMA nodes at both servers.
#[test]
fn two_circuits_of_a_pair_end_on_both_nodes() {
    let demand = (0..16).map(|cell| 1_000_000 + cell * 1_000).collect();
    let case = Case::new(4, demand, 6);
    let circuits = allocate(Allocator::Static, &case.request()).circuits;
    assert!(circuits.iter().enumerate().all(|(cell, &c)| c == if cell % 5 == 0 { 0 } else { 2 }));
    let mut mapped = map_nics(&circuits, &case.ports, 2, &[]);
    mapped.sort_by_key(|circuit| (circuit.a.server, circuit.b.server));
    for pair in mapped.chunk_by(|x, y| (x.a.server, x.b.server) == (y.a.server, y.b.server)) {
        assert_eq!(pair.len(), 2);
        assert_ne!(node(pair[0].a.nic, 6), node(pair[1].a.nic, 6));
        assert_ne!(node(pair[0].b.nic, 6), node(pair[1].b.nic, 6));
    }
}

/// Three circuits each to two peers: both nodes get three of the six.
#[test]
fn odd_bundles_share_the_nodes_out() {
    let circuits = [0, 3, 3, 3, 0, 3, 3, 3, 0];
    let mapped = map_nics(&circuits, &[6; 3], 2, &[]);
    for server in 0..3 {
        let ends = mapped.iter().flat_map(|c| [(c.a, c.b.server), (c.b, c.a.server)]);
        let own: Vec<_> = ends.filter(|(end, _)| end.server == server).collect();
        for peer in (0..3).filter(|&peer| peer != server) {
            let to_peer = own.iter().filter(|(_, to)| *to == peer);
            let first = to_peer.filter(|(end, _)| node(end.nic, 6) == 0).count();
            assert!(first == 1 || first == 2, "server {server}, peer {peer}: {first} of 3");
        }
    }
}

#[test]
#[should_panic(expected = "more ports than there are")]
fn circuits_beyond_the_ports_are_a_bug_of_the_caller() {
    map_nics(&[0, 3, 3, 0], &[2, 3], 2, &[]);
}

/// Single circuits to four peers: two on each node, though every pair might take the first.
#[test]
fn circuits_of_different_pairs_share_the_nodes_out() {
    let mut circuits = [0_u16; 25];
    for peer in 1..5 {
        (circuits[peer], circuits[5 * peer]) = (1, 1);
    }
    let mapped = map_nics(&circuits, &[6; 5], 2, &[]);
    let nodes: Vec<u32> = mapped.iter().map(|circuit| node(circuit.a.nic, 6)).collect();
    assert_eq!(nodes.iter().sum::<u32>(), 2, "{nodes:?}");
}

fn joined(a: (u32, u32), b: (u32, u32)) -> NicCircuit {
    NicCircuit { a: NicEnd { server: a.0, nic: a.1 }, b: NicEnd { server: b.0, nic: b.1 } }
}

/// The first of two circuits that are said to be on one NIC stays, whichever end it is.
#[test]
fn no_nic_is_kept_for_two_circuits() {
    let wanted = joined_pairs(3, &[(0, 1), (0, 2), (1, 2)]);
    let map = |previous: &[NicCircuit]| map_nics(&wanted, &[2; 3], 1, previous);
    let at_the_higher_end = map(&[joined((0, 1), (2, 1)), joined((1, 1), (2, 1))]);
    let expected = [joined((0, 0), (1, 0)), joined((0, 1), (2, 1)), joined((1, 1), (2, 0))];
    assert_eq!(at_the_higher_end, expected);
    let at_the_lower_end = map(&[joined((0, 1), (1, 1)), joined((0, 1), (2, 1))]);
    let expected = [joined((0, 0), (2, 0)), joined((0, 1), (1, 1)), joined((1, 0), (2, 1))];
    assert_eq!(at_the_lower_end, expected);
}

/// What is there is ignored where it cannot be: ends the wrong way round, a server or a NIC that
/// does not exist, a pair that wants no circuit, one circuit more than wanted.
#[test]
fn circuits_that_cannot_stay_are_ignored() {
    let wanted = joined_pairs(3, &[(0, 1)]);
    let anew = map_nics(&wanted, &[3; 3], 1, &[]);
    assert_eq!(anew, [joined((0, 0), (1, 0))]);
    for previous in [
        joined((1, 1), (0, 1)),
        joined((1, 1), (1, 2)),
        joined((0, 1), (3, 1)),
        joined((0, 3), (1, 1)),
        joined((0, 1), (1, 3)),
        joined((0, 1), (2, 1)),
    ] {
        assert_eq!(map_nics(&wanted, &[3; 3], 1, &[previous]), anew, "{previous:?}");
    }
    let two = [joined((0, 2), (1, 1)), joined((0, 1), (1, 2))];
    assert_eq!(map_nics(&wanted, &[3; 3], 1, &two), two[..1]);
}

/// Node 1 (NICs 3 to 5) holds two circuits to server 2, node 0 one to server 1. The second one to
/// server 1 goes to node 1 nevertheless: its traffic must not meet that of the first.
#[test]
fn a_new_circuit_avoids_the_node_of_its_pair() {
    let wanted = joined_pairs(3, &[(0, 1), (0, 1), (0, 2), (0, 2)]);
    let held = [joined((0, 0), (1, 0)), joined((0, 3), (2, 0)), joined((0, 4), (2, 3))];
    let mapped = map_nics(&wanted, &[6; 3], 2, &held);
    assert_eq!(mapped, [held[0], held[1], held[2], joined((0, 5), (1, 3))]);
}

/// Two NICs on node 0, one on node 1: the pair of two circuits takes one of each, the single
/// circuit what is left, although it comes first by index.
#[test]
fn bundles_choose_before_single_circuits() {
    let wanted = joined_pairs(3, &[(0, 1), (0, 2), (0, 2)]);
    let mapped = map_nics(&wanted, &[3, 1, 2], 2, &[]);
    assert_eq!(mapped, [joined((0, 0), (2, 0)), joined((0, 1), (1, 0)), joined((0, 2), (2, 1))]);
}

/// The first of four NICs on two nodes is out of order: node 1 has more to spare.
#[test]
fn nics_that_failed_are_nothing_to_spare() {
    let working = [false, true, true, true, true, true, true, true];
    let mapped = map_working_nics(&joined_pairs(2, &[(0, 1)]), &[4, 4], &working, 2, &[]);
    assert_eq!(mapped, [joined((0, 2), (1, 0))]);
    // A failed NIC of node 1 leaves node 0 first.
    let working = [true, true, true, false, true, true, true, true];
    let mapped = map_working_nics(&joined_pairs(2, &[(0, 1)]), &[4, 4], &working, 2, &[]);
    assert_eq!(mapped, [joined((0, 0), (1, 0))]);
}
