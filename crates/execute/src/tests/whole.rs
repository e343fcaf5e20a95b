//! Properties of whole steps.

use super::{US, compute, one_ring, play, receive, ring, send, wait};
use crate::network::Network;
use crate::parts::{Eps, Ocs};
use crate::testing::{EP, GBPS, all_to_all, empty_graph, eps, mixnet, ocs, packet, with_blocks};
use crate::{Options, execute};
use lightloom_kernel::Silent;
use lightloom_model::{CollectiveKind, Rate, TaskGraph, WorkerId};
use proptest::prelude::*;

/// Two stages, an EP group of four in each, random tokens.
fn step(tokens: &[u32], work: &[u64]) -> TaskGraph {
    let blocks: Vec<&[u32]> = tokens.chunks_exact(16).collect();
    let mut graph = with_blocks(empty_graph(2, 1, 4), &blocks);
    graph.families.push(one_ring(4));
    graph.families[1].offsets = vec![0, 4, 8];
    graph.families[1].workers = (0..8).map(WorkerId).collect();
    for stage in 0..2 {
        let tasks = &mut graph.roles[stage as usize].tasks;
        for (index, &duration) in work.iter().enumerate() {
            let block = index as u32 % blocks.len() as u32;
            if stage == 1 {
                tasks.push(receive(0, index as u32));
            }
            tasks.push(compute(duration));
            tasks.push(all_to_all(block, true));
            tasks.push(compute(duration / 2));
            tasks.push(all_to_all(block, false));
            if stage == 0 {
                tasks.push(send(1, index as u32, duration));
            }
        }
        tasks.push(ring(CollectiveKind::AllReduce, 0, 1_000_000, 1000));
        tasks.push(wait(0));
    }
    graph
}

/// A network of four servers with and without circuits, at this many times the rate.
fn networks(times: u64) -> [Network; 2] {
    let faster = |nics: u32| Eps { nics, nic_rate: Rate(times * 400 * GBPS), ..eps(4) };
    let circuits = Ocs { nic_rate: Rate(times * 400 * GBPS), ..ocs(4) };
    [packet(4).with(faster(8)), mixnet(4).with(faster(2)).with(circuits)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn ledgers_balance_and_repeat(
        tokens in prop::collection::vec(0_u32..3_000_000, 48),
        work in prop::collection::vec(0..200 * US, 1..5),
    ) {
        let graph = step(&tokens, &work);
        for network in [packet(8), mixnet(8)] {
            let outcome = play(&graph, &network);
            let again = play(&graph, &network);
            prop_assert_eq!(&outcome, &again);
            prop_assert_eq!(outcome.critical_path.iter().sum::<u64>(), outcome.step.0);
            for role in &outcome.roles {
                prop_assert_eq!(role.spent.iter().sum::<u64>(), outcome.step.0 * 4);
            }
            for purpose in &outcome.ledger.purposes {
                prop_assert_eq!(purpose.sent, purpose.implied);
                prop_assert_eq!(purpose.received, purpose.implied);
            }
            let timeline_workers = vec![WorkerId(0), WorkerId(5)];
            let options = Options { timeline_workers, ..Options::default() };
            let watched = execute(&graph, &network, &options, &mut Silent).unwrap();
            prop_assert_eq!(watched.run_hash, outcome.run_hash);
            // the spans of the critical path fill the step, and sum to it by category
            let path = &watched.critical_spans;
            prop_assert_eq!(path.end.last(), Some(&outcome.step.0));
            let mut parts = vec![0; outcome.categories.len()];
            let starts = std::iter::once(&0).chain(&path.end);
            for ((&category, &start), &end) in path.category.iter().zip(starts).zip(&path.end) {
                prop_assert!(start < end);
                parts[usize::from(category)] += end - start;
            }
            prop_assert_eq!(parts, watched.critical_path);
            // no more bytes are on their way than are sent in all
            for (purpose, mean) in watched.ledger.purposes.iter().zip(&watched.in_flight.mean) {
                prop_assert!(mean.iter().all(|&bytes| bytes <= purpose.sent));
                prop_assert!(purpose.sent == 0 || mean.iter().any(|&bytes| bytes > 0));
            }
            prop_assert!(outcome.critical_spans.end.is_empty());
            prop_assert!(outcome.in_flight.mean.is_empty());
            let own: u64 = (0..watched.timeline.worker.len())
                .filter(|&i| watched.timeline.worker[i] == 5 && watched.timeline.stream[i] == 0)
                .map(|i| watched.timeline.end[i] - watched.timeline.start[i])
                .sum();
            prop_assert!(own <= outcome.step.0);
        }
    }

    #[test]
    fn faster_nics_never_slow_one_all_to_all(
        tokens in prop::collection::vec(0_u32..3_000_000, 16),
    ) {
        let mut graph = with_blocks(empty_graph(1, 1, 4), &[&tokens]);
        graph.roles[0].tasks = vec![all_to_all(0, true)];
        for (slow, fast) in networks(1).iter().zip(&networks(2)) {
            prop_assert!(play(&graph, fast).step <= play(&graph, slow).step);
        }
    }
}

#[test]
fn different_inputs_hash_differently() {
    let tokens = vec![1000; 16];
    let one = play(&step(&tokens, &[US]), &packet(8));
    let other = play(&step(&tokens, &[US + 1]), &packet(8));
    assert_ne!(one.run_hash, other.run_hash);
}

#[test]
fn link_use_is_between_nothing_and_all() {
    let outcome = play(&step(&[500_000; 16], &[10 * US, 10 * US]), &mixnet(8));
    assert_eq!(outcome.links.len(), 3);
    for class in &outcome.links {
        assert!(
            class.mean > 0.0 && class.mean <= class.max * 1.000_001 && class.max <= 1.0,
            "{class:?}"
        );
    }
    assert!(outcome.roles[0].spent[EP.index()] > 0);
}
