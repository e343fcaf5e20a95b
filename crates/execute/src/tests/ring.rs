//! Ring collectives.

use super::{NIC, RING, US, carried, compute, line, one_ring, play, ring, spent, wait};
use crate::Outcome;
use crate::network::Network;
use crate::parts::{Cycle, Direct, Route};
use crate::testing::{DP, GBPS, direct, empty_graph, packet};
use lightloom_model::{
    Amount, Bytes, Circuit, CollectiveKind, Duration, FamilyId, NvSwitch, Payload, Priority, Rate,
    StartUp, SwitchSums, TaskGraph, TaskKind,
};
use proptest::prelude::*;

const SIZE: u64 = 8_000_000;

fn graph(members: u32, kind: CollectiveKind, local: u64) -> TaskGraph {
    let mut graph = empty_graph(1, members, 1);
    graph.families.push(one_ring(members));
    graph.roles[0].tasks = vec![ring(kind, 5, SIZE, local), wait(5)];
    graph
}

#[test]
fn an_all_reduce_takes_twice_n_minus_one_over_n() {
    for members in [2, 4, 5, 8] {
        let outcome = play(&graph(members, CollectiveKind::AllReduce, 0), &packet(members));
        let n = u64::from(members);
        let bytes = SIZE * 2 * (n - 1) / n;
        assert_eq!(outcome.step.0, bytes * NIC / 8 + 2 * (n - 1) * 2 * US, "{members} members");
        assert_eq!(carried(&outcome, "dp")[1], bytes * n);
        assert_eq!(outcome.flows, n);
    }
}

#[test]
fn its_halves_take_half() {
    for kind in [CollectiveKind::ReduceScatter, CollectiveKind::AllGather] {
        let outcome = play(&graph(4, kind, 0), &packet(4));
        assert_eq!(outcome.step.0, SIZE * 3 / 4 * NIC / 8 + 3 * 2 * US);
    }
}

#[test]
fn every_step_of_a_ring_begins_with_software() {
    let start_up = StartUp { message: Duration(14 * US), ..StartUp::default() };
    for (kind, steps) in [(CollectiveKind::AllReduce, 6), (CollectiveKind::AllGather, 3)] {
        let graph = graph(4, kind, 0);
        let with = play(&graph, &Network { start_up, ..packet(4) });
        assert_eq!(with.step.0, play(&graph, &packet(4)).step.0 + steps * 14 * US);
    }
}

#[test]
fn a_ring_of_one_is_its_local_stage() {
    let outcome = play(&graph(1, CollectiveKind::AllReduce, 900_000), &packet(1));
    // 2 us of latency, 900 kB at 450 GB/s.
    assert_eq!(outcome.step.0, 4 * US);
    assert_eq!(carried(&outcome, "dp"), [8 * 900_000, 0, 0, 0, 0]);
    assert_eq!(outcome.flows, 0);
}

#[test]
fn the_part_inside_workers_and_the_edges_run_at_once() {
    let kind = CollectiveKind::AllReduce;
    let edges = SIZE * 2 * 3 / 4 * NIC / 8;
    for (local, inside) in [(900_000, 2 * US), (45_000_000, 100 * US)] {
        let step = play(&graph(4, kind, local), &packet(4)).step.0;
        // 2 us before the bytes inside, 12 us of steps.
        assert_eq!(step, edges.max(inside) + 2 * US + 12 * US);
    }
}

/// A ring over `gpus` of each of `members` workers, with what it moves inside.
fn ring_of_gpus(kind: CollectiveKind, members: u32, gpus: u32, buffer: u64) -> TaskGraph {
    let ranks = u64::from(members * gpus);
    let passes = if kind == CollectiveKind::AllReduce { 2 } else { 1 };
    let around = passes * buffer * (ranks - 1) / ranks;
    let mut graph = graph(members, kind, around * u64::from(gpus - 1) / u64::from(gpus));
    let TaskKind::Collective(collective) = &mut graph.roles[0].tasks[0].kind else {
        unreachable!("a ring")
    };
    collective.payload = Payload::Bytes(buffer);
    collective.inside.peers = gpus - 1;
    graph
}

/// A network whose hops between GPUs take 3 us, and steps between servers 14 us of software.
fn with_hops(servers: u32) -> Network {
    let mut network = packet(servers);
    network.nvswitch.gather.peer = Duration(3 * US);
    Network { start_up: StartUp { message: Duration(14 * US), ..StartUp::default() }, ..network }
}

#[test]
fn a_ring_of_all_gpus_takes_its_slower_level_and_its_hops() {
    let (members, gpus) = (4_u64, 8_u64);
    for (kind, passes) in [(CollectiveKind::AllGather, 1), (CollectiveKind::AllReduce, 2)] {
        // So little that a tree is no faster but for its hops, then so much that a ring is.
        let size = 3_200_000_000;
        let graph = ring_of_gpus(kind, 4, 8, size);
        let outcome = play(&graph, &with_hops(4));
        let edge = passes * size * 31 / 32;
        let inside = (edge * 7 / 8 * 1000).div_ceil(450);
        let hops = (gpus - 1) * 3 * US;
        let steps = passes * (members - 1) * (2 * US + 14 * US + hops);
        let begun = 2 * US + hops;
        assert_eq!(outcome.step.0, (edge * NIC / 8).max(inside) + begun + steps, "{kind:?}");
        assert_eq!(carried(&outcome, "dp")[1], members * edge);
    }
}

#[test]
fn an_all_reduce_of_little_over_many_servers_is_a_tree() {
    let hops = 7 * 3 * US;
    for (members, depth) in [(16, 4), (64, 6), (100, 6)] {
        let time =
            |kind| play(&ring_of_gpus(kind, members, 8, 1_000_000), &with_hops(members)).step.0;
        let ranks = u64::from(members) * 8;
        let edge = (2_000_000 * (ranks - 1)).div_ceil(ranks);
        let bytes = edge * NIC / 8;
        let steps = 2 * depth * (2 + 14) * US;
        let expected = bytes + bytes / 92 * 8 + 2 * US + hops + steps + hops;
        assert!(time(CollectiveKind::AllReduce).abs_diff(expected) < 100, "{members} servers");
        assert!(2 * time(CollectiveKind::AllGather) > 2 * expected, "no tree gathers");
    }
    // One GPU of each server, or circuits: a ring.
    let alone = play(&ring_of_gpus(CollectiveKind::AllReduce, 16, 1, 1_000_000), &with_hops(16));
    assert!(alone.step.0 >= 2 * 15 * 16 * US);
}

#[test]
fn two_servers_send_each_other_their_sums_once() {
    let size = 1_600_000_000;
    let outcome = play(&ring_of_gpus(CollectiveKind::AllReduce, 2, 8, size), &with_hops(2));
    // A ring would send 15 eighths of it.
    assert_eq!(carried(&outcome, "dp")[1], 2 * size);
    // Inside, each GPU moves seven eighths of what a ring does.
    let bytes = (size * NIC / 8).max(size * 2 * 15 / 16 * 7 / 8 * 1000 / 450);
    let expected = bytes + bytes / 92 * 8 + (2 + 7 * 3) * US + 2 * (2 + 14) * US + 7 * 3 * US;
    assert!(outcome.step.0.abs_diff(expected) < 100);
}

#[test]
fn switches_of_servers_add_up_and_a_tree_joins_them() {
    let rate = Rate(450 * GBPS * 8);
    for (servers, rounds) in [(2, 4), (4, 4), (16, 4)] {
        let mut network = with_hops(servers);
        let latency = Duration(25 * US);
        let sums = SwitchSums { gpu_rate: rate, latency, channels: 16, chunk_overhead: Bytes(0) };
        network.nvswitch.reduce = Some(sums);
        let size = 1_600_000_000_u64;
        let graph = ring_of_gpus(CollectiveKind::AllReduce, servers, 8, size);
        let outcome = play(&graph, &network);
        let ranks = u64::from(servers) * 8;
        let edge = if servers == 2 { size } else { (2 * size * (ranks - 1)).div_ceil(ranks) };
        assert_eq!(carried(&outcome, "dp")[1], u64::from(servers) * edge);
        // Chunks of 16 KiB, which cost nothing more here.
        let inside = (size + rounds * 8 * 16 * (16 << 10)) * 9 / 8 * 1000 / 450;
        let steps = 2 * u64::from(servers.ilog2()) * (2 + 14) * US;
        let expected = (edge * NIC / 8).max(inside) + 25 * US + steps;
        assert!(outcome.step.0.abs_diff(expected) < 10_000, "{servers} servers");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// More bytes never take less, by no more than they alone would, and no ring is faster than
    /// what it moves inside or between workers.
    #[test]
    fn rings_of_gpus_grow_with_their_bytes(
        kind in prop::sample::select(vec![CollectiveKind::AllReduce, CollectiveKind::AllGather]),
        members in 2_u32..40,
        gpus in 1_u32..9,
        size in 1_u64..2_000_000_000,
        more in 0_u64..1_000_000,
    ) {
        let network = with_hops(members);
        let time = |size| play(&ring_of_gpus(kind, members, gpus, size), &network).step.0;
        let (less, more_time) = (time(size), time(size + more));
        prop_assert!(less <= more_time + 100);
        let each = NIC as f64 / 8.0;
        let most = more as f64 * 2.0 * each.max(1.0 / 0.45) * 1.1 + 1000.0;
        prop_assert!((more_time as f64) < less as f64 + most);
        let passes = if kind == CollectiveKind::AllReduce { 2.0 } else { 1.0 };
        let ranks = f64::from(members * gpus);
        let edge = passes * size as f64 * (ranks - 1.0) / ranks;
        let inside = edge * f64::from(gpus - 1) / f64::from(gpus) / 0.45;
        // Two servers may send each other their sums once.
        let is_pair = kind == CollectiveKind::AllReduce && members == 2 && gpus > 1;
        let crossing = if is_pair { size as f64 } else { edge };
        prop_assert!(less as f64 + 1000.0 >= (crossing * each).max(inside));
    }
}

#[test]
fn members_on_one_server_need_no_network() {
    let mut graph = graph(2, CollectiveKind::AllReduce, 0);
    graph.gpus_per_worker = 4;
    graph.worker_server = vec![0, 0];
    let outcome = play(&graph, &packet(1));
    // Each edge carries the whole buffer: 2 MB per GPU at 450 GB/s.
    assert_eq!(outcome.step.0, 2 * US + (SIZE / 4 * 1000_u64).div_ceil(450));
    assert_eq!(outcome.flows, 0);
}

#[test]
fn compute_hides_a_ring_until_its_wait() {
    let mut graph = graph(4, CollectiveKind::AllReduce, 0);
    graph.roles[0].tasks.insert(1, compute(10 * US));
    let alone = play(&self::graph(4, CollectiveKind::AllReduce, 0), &packet(4)).step.0;
    let outcome = play(&graph, &packet(4));
    assert_eq!(outcome.step.0, alone);
    assert_eq!(spent(&outcome, 0, DP), 4 * (alone - 10 * US));
    graph.roles[0].tasks[1] = compute(2 * alone);
    assert_eq!(play(&graph, &packet(4)).step.0, 2 * alone);
}

/// Rings that begin at once, one over each of these families, in the background.
fn at_once(mut graph: TaskGraph, kind: CollectiveKind, local: u64, over: &[FamilyId]) -> TaskGraph {
    let on = |family: FamilyId, handle: u32| {
        let mut task = ring(kind, handle, SIZE, local);
        let TaskKind::Collective(collective) = &mut task.kind else { unreachable!("a ring") };
        collective.family = Some(family);
        task
    };
    let started = over.iter().zip(1..).map(|(&family, handle)| on(family, handle));
    let awaited = (1..).take(over.len()).map(wait);
    graph.roles[0].tasks = started.chain(awaited).collect();
    graph
}

#[test]
fn rings_of_one_group_run_one_after_another() {
    // As NCCL runs those of a communicator: latencies, software and parts inside add up, too.
    let start_up = StartUp { message: Duration(14 * US), ..StartUp::default() };
    for (members, local) in [(1, 900_000), (4, 0), (4, 900_000)] {
        for kind in [CollectiveKind::AllReduce, CollectiveKind::ReduceScatter] {
            let network = Network { start_up, ..packet(members) };
            let of = |count| at_once(graph(members, kind, 0), kind, local, &vec![RING; count]);
            let once = play(&of(1), &network);
            for count in [2, 5] {
                let outcome = play(&of(count), &network);
                assert_eq!(outcome.step.0, count as u64 * once.step.0, "{members} members");
                assert_eq!(outcome.critical_path[DP.index()], outcome.step.0);
                assert_eq!(carried(&outcome, "dp")[1], count as u64 * carried(&once, "dp")[1]);
            }
        }
    }
}

#[test]
fn rings_of_two_groups_share_links() {
    // A second family of the same members: another communicator over the same NICs.
    let kind = CollectiveKind::AllReduce;
    let mut graph = graph(4, kind, 0);
    graph.families.push(one_ring(4));
    let alone = play(&graph, &packet(4)).step.0;
    let latency = 12 * US;
    let outcome = play(&at_once(graph, kind, 0, &[RING, FamilyId(2)]), &packet(4));
    assert_eq!(outcome.step.0, 2 * (alone - latency) + latency);
}

#[test]
fn rings_of_two_groups_share_nvswitch() {
    // Three communicators of one worker: each has a third of its port, whatever the order.
    let kind = CollectiveKind::AllReduce;
    let mut graph = graph(1, kind, 0);
    graph.families.extend([one_ring(1), one_ring(1)]);
    let others = [RING, FamilyId(2), FamilyId(3)];
    let outcome = play(&at_once(graph, kind, 900_000, &others), &packet(1));
    assert_eq!(outcome.step.0, 3 * 4 * US);
}

#[test]
fn a_ring_shares_nvswitch_only_while_another_is_there() {
    // 8 us alone and 4 us alone: the shorter one ends after 8 us at half the rate, the longer one
    // has 4 us left.
    let kind = CollectiveKind::AllReduce;
    let mut graph = graph(1, kind, 0);
    graph.families.push(one_ring(1));
    let mut both = at_once(graph, kind, 900_000, &[RING, FamilyId(2)]);
    let TaskKind::Collective(longer) = &mut both.roles[0].tasks[0].kind else {
        unreachable!("a ring")
    };
    longer.inside.per_gpu = Amount::Fixed(2_700_000);
    assert_eq!(play(&both, &packet(1)).step.0, 12 * US);
    // The shorter one is awaited first; compute hides the rest of the longer one.
    both.roles[0].tasks.splice(2..2, [wait(2), compute(20 * US)]);
    both.roles[0].tasks.pop();
    assert_eq!(play(&both, &packet(1)).step.0, (8 + 20) * US);
}

#[test]
fn groups_that_share_nothing_run_at_once() {
    let kind = CollectiveKind::AllReduce;
    let mut graph = graph(8, kind, 900_000);
    let one = play(&graph, &packet(8)).step.0;
    graph.families[1].offsets = vec![0, 4, 8];
    let of_four = play(&self::graph(4, kind, 900_000), &packet(4)).step.0;
    assert_eq!(play(&graph, &packet(8)).step.0, of_four);
    assert!(of_four < one);
}

/// Cycles of these strides and circuits per hop over `n` servers, with a route for each hop.
fn cycles(n: u32, strides: &[(u32, u32)]) -> Direct {
    let mut found = Direct {
        nic_rate: Rate(400 * GBPS),
        link_delay: Duration(US),
        relay_delay: Duration(3 * US),
        ..Direct::default()
    };
    for &(stride, count) in strides {
        let servers: Vec<u32> = (0..n).map(|place| place * stride % n).collect();
        for at in 0..if n == 2 { 1 } else { n } {
            let (a, b) = (at, (at + stride) % n);
            found.circuits.push(Circuit { a, b, count });
            found.routes.extend([[a, b], [b, a]].map(|ends| Route { servers: ends.to_vec() }));
        }
        found.cycles.push(Cycle { servers, count });
    }
    found
}

fn over(n: u32, kind: CollectiveKind, network: Direct) -> Outcome {
    play(&graph(n, kind, 0), &direct(n, network))
}

/// Bytes over each edge, whatever the ways.
fn edge(n: u32) -> u64 {
    SIZE * 2 * (u64::from(n) - 1) / u64::from(n)
}

#[test]
fn fixed_circuits_carry_a_ring_both_ways() {
    // One circuit per hop: half of the bytes in each direction, with a cycle or without.
    let one = cycles(8, &[(1, 1)]);
    let startup = 14 * US;
    let outcome = over(8, CollectiveKind::AllReduce, one.clone());
    assert_eq!(outcome.step.0, edge(8) / 2 * NIC + startup);
    // At both ends of a circuit its one delegate copies seven eighths.
    assert_eq!(carried(&outcome, "dp"), [edge(8) * 14, 0, 0, edge(8) * 8, 0]);
    assert_eq!(outcome.flows, 16);
    let without = over(8, CollectiveKind::AllReduce, Direct { cycles: vec![], ..one });
    assert_eq!(without.step, outcome.step);
}

#[test]
fn cycles_divide_a_ring_among_them() {
    // n servers, two strides, both directions: a quarter of the bytes on each circuit and way.
    for (n, stride) in [(5, 2), (8, 3), (10, 3), (16, 5)] {
        for (kind, halves) in [
            (CollectiveKind::AllReduce, 2),
            (CollectiveKind::ReduceScatter, 1),
            (CollectiveKind::AllGather, 1),
        ] {
            let outcome = over(n, kind, cycles(n, &[(1, 1), (stride, 1)]));
            let size = edge(n) * halves / 2;
            let startup = halves * u64::from(n - 1) * US;
            assert_eq!(outcome.step.0, size.div_ceil(4) * NIC + startup, "{n} servers, {kind:?}");
            assert_eq!(carried(&outcome, "dp")[1..], [0, 0, size * u64::from(n), 0]);
            assert_eq!(outcome.flows, 4 * u64::from(n));
            assert_eq!(outcome.critical_path[DP.index()], outcome.step.0);
        }
    }
}

#[test]
fn a_cycle_of_more_circuits_gets_more() {
    // 3 + 1 circuits carry 4 times as much as one, both ways twice of that.
    let outcome = over(8, CollectiveKind::AllReduce, cycles(8, &[(1, 3), (3, 1)]));
    assert_eq!(outcome.step.0, edge(8) / 8 * NIC + 14 * US);
    // The narrowest hop of a cycle decides: more circuits between two of its servers do not help.
    let mut wider = cycles(8, &[(1, 3), (3, 1)]);
    wider.circuits.push(Circuit { a: 0, b: 3, count: 4 });
    assert_eq!(over(8, CollectiveKind::AllReduce, wider).step, outcome.step);
}

#[test]
fn cycles_of_the_same_circuits_share_them() {
    let mut network = cycles(8, &[(1, 3), (3, 1)]);
    let alone = over(8, CollectiveKind::AllReduce, network.clone());
    network.cycles[0].count = 1;
    network.cycles.push(Cycle { servers: (0..8).rev().collect(), count: 2 });
    let shared = over(8, CollectiveKind::AllReduce, network);
    // Rates of flows that share a link are rounded.
    assert!(shared.step.0.abs_diff(alone.step.0) <= 1);
    assert_eq!(carried(&shared, "dp")[1..], carried(&alone, "dp")[1..]);
}

#[test]
fn a_hop_whose_circuit_is_elsewhere_is_relayed() {
    let mut network = cycles(4, &[(1, 1)]);
    network.circuits.retain(|circuit| circuit.a != 3);
    network.routes.retain(|route| route.servers != [3, 0] && route.servers != [0, 3]);
    network.routes.push(Route { servers: vec![3, 2, 1, 0] });
    network.routes.push(Route { servers: vec![0, 1, 2, 3] });
    let outcome = over(4, CollectiveKind::AllReduce, network);
    // Both halves share each circuit and direction: one hop of its own, the relayed one of the
    // other. Latencies: three of 1 us and one of 3 hops and two relays.
    assert_eq!(outcome.step.0, edge(4) * NIC + 6 * (3 + 9) * US / 4);
    assert_eq!(carried(&outcome, "dp")[3..], [edge(4) * 4, edge(4) * 2]);
}

#[test]
fn two_servers_use_both_directions_of_one_ring() {
    let outcome = over(2, CollectiveKind::AllReduce, cycles(2, &[(1, 4)]));
    assert_eq!(outcome.step.0, edge(2) / 4 * NIC + 2 * US);
    assert_eq!(outcome.flows, 2);
}

#[test]
fn cycles_of_other_servers_do_not_serve() {
    let mut graph = graph(8, CollectiveKind::AllReduce, 0);
    graph.families[1].offsets = vec![0, 4, 8];
    let mut network = cycles(8, &[(1, 1), (3, 1)]);
    let ring = |from: u32| (from..from + 4).collect::<Vec<u32>>();
    for (a, b) in [(3, 0), (0, 3), (7, 4), (4, 7)] {
        if !network.routes.iter().any(|route| route.servers == [a, b]) {
            network.circuits.push(Circuit { a: a.min(b), b: a.max(b), count: 1 });
            network.routes.push(Route { servers: vec![a, b] });
        }
    }
    network.cycles.push(Cycle { servers: ring(0), count: 1 });
    // One of the two rings of four has a cycle, the other one the routes of its order: all the same
    // here.
    let outcome = play(&graph, &direct(8, network));
    assert_eq!(outcome.step.0, edge(4) / 2 * NIC + 6 * US);
    assert_eq!(outcome.flows, 16);
}

#[test]
fn workers_of_a_server_follow_each_other_in_a_cycle() {
    // Members alternate between the servers of a cycle of four: eight workers, two on each.
    let mut graph = graph(8, CollectiveKind::AllReduce, 0);
    graph.gpus_per_worker = 4;
    graph.worker_server = (0..8).map(|worker| worker % 4).collect();
    let outcome = play(&graph, &direct(4, cycles(4, &[(1, 1)])));
    let across = edge(8) / 2 * NIC;
    assert_eq!(outcome.step.0, across + 14 * 4 * US / 8);
    // Half of the edges are inside; the others begin and end on GPUs of either worker.
    assert_eq!(carried(&outcome, "dp"), [edge(8) * (4 + 8), 0, 0, edge(8) * 4, 0]);
}

#[test]
fn rings_of_higher_priority_go_first() {
    let kind = CollectiveKind::AllReduce;
    let mut graph = graph(4, kind, 0);
    graph.families.push(one_ring(4));
    let alone = play(&graph, &packet(4)).step.0 - 12 * US;
    let run = |priorities: [u8; 2]| {
        let mut both = at_once(graph.clone(), kind, 0, &[RING, FamilyId(2)]);
        for (task, priority) in both.roles[0].tasks.iter_mut().zip(priorities) {
            task.priority = Priority(priority);
        }
        // Work that only the first ring hides, so that its end shows.
        both.roles[0].tasks.splice(2..4, [wait(1), compute(100 * alone), wait(2)]);
        play(&both, &packet(4)).step.0 - 100 * alone - 12 * US
    };
    assert_eq!(run([0, 0]), 2 * alone);
    assert_eq!(run([3, 3]), 2 * alone);
    assert_eq!(run([1, 0]), alone);
    assert_eq!(run([0, 1]), 2 * alone);
}

#[test]
fn a_slow_nvswitch_delays_only_rings_that_have_edges_inside() {
    let slow = |servers: u32| Network {
        nvswitch: NvSwitch::uniform(Rate(8 * GBPS), Duration(2 * US)),
        ..packet(servers)
    };
    let mut graph = graph(4, CollectiveKind::AllReduce, 0);
    assert_eq!(play(&graph, &slow(4)).step, play(&graph, &packet(4)).step);
    // Two members on each server: an edge inside, 12 MB of 4 GPUs at 1 GB/s.
    graph.gpus_per_worker = 4;
    graph.worker_server = vec![0, 0, 1, 1];
    let inside = 2 * US + edge(4) / 4 * 1000;
    let latency = 6 * 2 * 2 * US / 4;
    assert_eq!(play(&graph, &slow(2)).step.0, inside + latency);
}

/// Two servers whose bytes take a relay of 5 us and circuits of 1 us.
#[test]
fn a_step_is_as_long_as_the_longest_of_its_paths() {
    for longer_first in [true, false] {
        let mut network = line();
        network.circuits.push(Circuit { a: 0, b: 2, count: 2 });
        let mut routes = vec![vec![0, 1, 2], vec![0, 2], vec![2, 1, 0], vec![2, 0]];
        if !longer_first {
            routes.reverse();
        }
        network.routes = routes.into_iter().map(|servers| Route { servers }).collect();
        let mut graph = graph(2, CollectiveKind::AllReduce, 0);
        graph.worker_server = vec![0, 2];
        let outcome = play(&graph, &direct(3, network));
        // All-reduce of two: the whole buffer in each direction, in two steps.
        assert_eq!(outcome.step.0, SIZE / 4 * NIC + 2 * 5 * US);
    }
}

#[test]
fn the_slowest_order_of_a_ring_sets_its_latency() {
    // Stride 1 over its circuits; a hop of stride 2 is relayed by the server between.
    let mut network = cycles(5, &[(1, 1), (2, 1)]);
    let is_relayed = |a: u32, b: u32| (a.min(b), a.max(b)) == (0, 2);
    network.circuits.retain(|circuit| !is_relayed(circuit.a, circuit.b));
    network.routes.retain(|route| !is_relayed(route.servers[0], route.servers[1]));
    network.routes.extend([vec![0, 1, 2], vec![2, 1, 0]].map(|servers| Route { servers }));
    let [with, without] = [3 * US, 0].map(|relay_delay| {
        let network = Direct { relay_delay: Duration(relay_delay), ..network.clone() };
        over(5, CollectiveKind::AllReduce, network).step.0
    });
    // Eight steps over five edges, of which one has the delay of a relay.
    assert_eq!(with - without, 8 * 3 * US / 5);
    // The relayed hop takes two circuits for what it carries: its cycle has half of the other's.
    let relayed = carried(&over(5, CollectiveKind::AllReduce, network), "dp")[4];
    assert!(relayed.abs_diff(edge(5) / 3) <= 2, "{relayed} of {}", edge(5));
}
