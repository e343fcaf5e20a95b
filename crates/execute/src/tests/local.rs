//! Collectives inside servers.

use super::{US, play, refuse, spent};
use crate::testing::{empty_graph, packet, task, with_blocks};
use lightloom_model::{Category, TaskGraph, TaskKind};

/// Bytes that a GPU sends into the NVSwitch in a microsecond.
const PER_US: u64 = 450_000;

fn expert_tp(block: u32) -> lightloom_model::Task {
    task(TaskKind::ExpertTp { block }, Category::Tp)
}

/// Two groups of two members, two blocks, all alike but for `busiest`; each worker is two ranks of
/// four GPUs, of which the other received nothing.
fn gathers(busiest: [u64; 8]) -> TaskGraph {
    let mut graph = with_blocks(empty_graph(1, 2, 2), &[&[0; 4], &[0; 4]]);
    graph.blocks.expert_tp_per_gpu = busiest.to_vec();
    graph.blocks.expert_tp_total = busiest.map(|bytes| 4 * bytes).to_vec();
    graph.programs[0].tasks = vec![expert_tp(0), expert_tp(1)];
    graph
}

#[test]
fn a_local_collective_takes_latency_and_bytes_over_rate() {
    let mut graph = empty_graph(1, 1, 1);
    let local = |bytes| task(TaskKind::Local { bytes_per_gpu: bytes }, Category::Tp);
    graph.programs[0].tasks = vec![local(3 * PER_US), local(0)];
    let outcome = play(&graph, &packet(1));
    assert_eq!(outcome.step.0, 5 * US);
    assert_eq!(outcome.ledger.bytes[0], [8 * 3 * PER_US, 0, 0, 0, 0]);
}

#[test]
fn an_expert_tp_collective_takes_as_long_as_its_busiest_gpu() {
    // Group by group, block by block, member by member.
    let graph = gathers([1, 2, 3, 4, 5, 6, 7, 0].map(|us| us * PER_US));
    let outcome = play(&graph, &packet(4));
    // Worker 2: 5 and 7 us of bytes, twice 2 us of start-up; worker 3 has nothing in block 1.
    assert_eq!(outcome.step.0, (2 + 5 + 2 + 7) * US);
    let own = [2 + 1 + 2 + 3, 2 + 2 + 2 + 4, 2 + 5 + 2 + 7, 2 + 6];
    assert_eq!(spent(&outcome, 0, Category::Tp), own.iter().sum::<u64>() * US);
    assert_eq!(outcome.critical_path.0[Category::Tp as usize], outcome.step.0);
    assert_eq!(outcome.ledger.bytes[0], [4 * 28 * PER_US, 0, 0, 0, 0]);
}

#[test]
fn equal_sizes_take_as_long_as_a_local_collective() {
    let graph = gathers([PER_US + 17; 8]);
    let mut plain = graph.clone();
    plain.programs[0].tasks =
        vec![task(TaskKind::Local { bytes_per_gpu: PER_US + 17 }, Category::Tp); 2];
    let (own, local) = (play(&graph, &packet(4)), play(&plain, &packet(4)));
    assert_eq!(own.step, local.step);
    assert_eq!(own.spent, local.spent);
}

#[test]
fn sizes_must_be_there_and_charged_to_communication() {
    let mut graph = gathers([1; 8]);
    graph.programs[0].tasks[1].category = Category::Expert;
    assert_eq!(
        refuse(&graph, &packet(4)),
        "stage 0: a communication task is charged to expert: expected tp, ep, pp, dp or cp"
    );
    graph.blocks.expert_tp_total.pop();
    assert_eq!(refuse(&graph, &packet(4)), "blocks.expert_tp_total has 7 entries, expected 8");
}
