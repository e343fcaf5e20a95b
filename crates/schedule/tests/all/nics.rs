//! NIC mapping: each NIC once, pairs as requested, nodes shared out, circuits that stay, stay.

use std::collections::BTreeSet;

use crate::common::cases::{Case, case};
use lightloom_model::Allocator;
use lightloom_schedule::{NicCircuit, Request, allocate, map_nics};
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
        let solve = |demand: &[u64]| {
            let request = Request { servers: n, demand, ports, allowed: None, ..case.request() };
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
