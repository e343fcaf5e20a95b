//! Ring collectives.

use super::{NIC, US, compute, one_ring, play, ring, spent, wait};
use crate::testing::{empty_graph, packet};
use lightloom_model::{Category, RingKind, TaskGraph};

const SIZE: u64 = 8_000_000;

fn graph(members: u32, kind: RingKind, local: u64) -> TaskGraph {
    let mut graph = empty_graph(1, members, 1);
    graph.scopes = vec![one_ring(members)];
    graph.programs[0].tasks = vec![ring(kind, 5, SIZE, local), wait(5)];
    graph
}

#[test]
fn an_all_reduce_takes_twice_n_minus_one_over_n() {
    for members in [2, 4, 5, 8] {
        let outcome = play(&graph(members, RingKind::AllReduce, 0), &packet(members));
        let n = u64::from(members);
        let bytes = SIZE * 2 * (n - 1) / n;
        assert_eq!(outcome.step.0, bytes * NIC / 8 + 2 * (n - 1) * 2 * US, "{members} members");
        assert_eq!(outcome.ledger.bytes[3][1], bytes * n);
        assert_eq!(outcome.flows, n);
    }
}

#[test]
fn its_halves_take_half() {
    for kind in [RingKind::ReduceScatter, RingKind::AllGather] {
        let outcome = play(&graph(4, kind, 0), &packet(4));
        assert_eq!(outcome.step.0, SIZE * 3 / 4 * NIC / 8 + 3 * 2 * US);
    }
}

#[test]
fn a_ring_of_one_is_its_local_stage() {
    let outcome = play(&graph(1, RingKind::AllReduce, 900_000), &packet(1));
    // 2 us of latency, 900 kB at 450 GB/s.
    assert_eq!(outcome.step.0, 4 * US);
    assert_eq!(outcome.ledger.bytes[3], [8 * 900_000, 0, 0, 0, 0]);
    assert_eq!(outcome.flows, 0);
}

#[test]
fn the_local_stage_is_added() {
    let with = play(&graph(4, RingKind::AllReduce, 900_000), &packet(4));
    let without = play(&graph(4, RingKind::AllReduce, 0), &packet(4));
    assert_eq!(with.step.0, without.step.0 + 4 * US);
}

#[test]
fn members_on_one_server_need_no_network() {
    let mut graph = graph(2, RingKind::AllReduce, 0);
    graph.layout.gpus_per_worker = 4;
    graph.layout.worker_server = vec![0, 0];
    let outcome = play(&graph, &packet(1));
    // Each edge carries the whole buffer: 2 MB per GPU at 450 GB/s.
    assert_eq!(outcome.step.0, 2 * US + (SIZE / 4 * 1000_u64).div_ceil(450));
    assert_eq!(outcome.flows, 0);
}

#[test]
fn compute_hides_a_ring_until_its_wait() {
    let mut graph = graph(4, RingKind::AllReduce, 0);
    graph.programs[0].tasks.insert(1, compute(10 * US));
    let alone = play(&self::graph(4, RingKind::AllReduce, 0), &packet(4)).step.0;
    let outcome = play(&graph, &packet(4));
    assert_eq!(outcome.step.0, alone);
    assert_eq!(spent(&outcome, 0, Category::Dp), 4 * (alone - 10 * US));
    graph.programs[0].tasks[1] = compute(2 * alone);
    assert_eq!(play(&graph, &packet(4)).step.0, 2 * alone);
}

#[test]
fn two_rings_at_once_share_the_links() {
    let mut graph = graph(4, RingKind::AllReduce, 0);
    let alone = play(&graph, &packet(4)).step.0;
    graph.programs[0].tasks.insert(1, ring(RingKind::AllReduce, 6, SIZE, 0));
    graph.programs[0].tasks.push(wait(6));
    let transmission = alone - 12 * US;
    assert_eq!(play(&graph, &packet(4)).step.0, 2 * transmission + 12 * US);
}
