//! Groups that share servers, hence circuits: nobody switches what others use or wait for.

use super::{US, compute, pairs, play};
use crate::network::Network;
use crate::parts::Ocs;
use crate::testing::{all_to_all, empty_graph, mixnet, ocs_when, with_blocks, with_first};
use crate::{Options, Outcome, execute};
use lightloom_decide::Reconfigure;
use lightloom_kernel::Silent;
use lightloom_model::{Duration, FirstAllToAll, SwitchTiming, TaskGraph, WorkerId};
use proptest::prelude::*;

const MS: u64 = 1000 * US;

/// Two groups on the same four servers, each with a program of its own: compute, an all-to-all
/// and so on. Block 0 and block 1 have other pairs that send much.
fn graph(programs: [&[u64]; 2]) -> TaskGraph {
    let blocks = [[(0, 1), (2, 3)], [(0, 2), (1, 3)]].map(|ends| pairs(4, &ends, 60_000_000));
    let mut graph = with_blocks(empty_graph(2, 1, 4), &[&blocks[0], &blocks[1]]);
    graph.gpus_per_worker = 4;
    graph.worker_server = vec![0, 1, 2, 3, 0, 1, 2, 3];
    for (role, spans) in programs.into_iter().enumerate() {
        let task = |(index, &span): (usize, &u64)| {
            [compute(span), all_to_all((index + role) as u32 % 2, index % 2 == 0)]
        };
        graph.roles[role].tasks = spans.iter().enumerate().flat_map(task).collect();
    }
    graph
}

fn network(when: Reconfigure, first: FirstAllToAll, delay: u64) -> Network {
    let timing = SwitchTiming { fixed: Duration(delay), ..SwitchTiming::default() };
    with_first(mixnet(4).with(Ocs { timing, ..ocs_when(4, when) }), first)
}

fn recorded(graph: &TaskGraph, network: &Network) -> Outcome {
    let timeline_workers = vec![WorkerId(0), WorkerId(4)];
    let options = Options { timeline_workers, ..Options::default() };
    execute(graph, network, &options, &mut Silent).expect("a valid graph")
}

#[test]
fn a_group_that_blocks_while_others_switch_waits_for_these_circuits() {
    // The first group blocks and switches from 0 to 25 ms; the second one arrives after 10 ms.
    let graph = graph([&[0], &[10 * MS]]);
    let outcome = play(&graph, &network(Reconfigure::Always, FirstAllToAll::Block, 25 * MS));
    assert_eq!((outcome.circuits.decisions, outcome.circuits.skipped), (1, 1));
    // The members of the first group wait for 25 ms, those of the second one for 15 ms.
    assert_eq!(outcome.circuits.exposed.0, (25 + 15) * MS);
    assert!(outcome.step.0 > 25 * MS && outcome.step.0 < 30 * MS);
}

#[test]
fn a_group_that_blocks_while_others_send_keeps_their_circuits() {
    // 60 MB over 8 NICs take the first group 150 us; the second one arrives meanwhile.
    let graph = graph([&[0], &[100 * US]]);
    let outcome = play(&graph, &network(Reconfigure::Always, FirstAllToAll::Block, 0));
    assert_eq!((outcome.circuits.decisions, outcome.circuits.skipped), (1, 1));
    assert_eq!(outcome.circuits.exposed.0, 0);
}

#[test]
fn the_oracle_decides_for_all_groups_before_the_first_one_only_once_at_a_time() {
    let graph = graph([&[40 * MS], &[80 * MS]]);
    let outcome = recorded(&graph, &network(Reconfigure::Oracle, FirstAllToAll::Reuse, 25 * MS));
    let spans: Vec<(u64, u64)> =
        outcome.snapshots.iter().map(|one| (one.time.0, one.ready.0)).collect();
    // The second group's circuits are decided when the first one's are up.
    assert_eq!(spans, [(0, 25 * MS), (25 * MS, 50 * MS)]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Whatever the policy: between a decision that changes circuits and the time at which these
    /// are up, nobody decides on them again.
    #[test]
    fn circuits_that_are_still_switching_are_not_switched(
        programs in prop::array::uniform2(prop::collection::vec(
            prop_oneof![Just(0), Just(300 * US), Just(2 * MS), Just(10 * MS)], 1..6)),
        when in prop::sample::select(Reconfigure::ALL),
        first in prop::sample::select(FirstAllToAll::ALL),
        delay in prop_oneof![Just(0), Just(400 * US), Just(5 * MS)],
    ) {
        let graph = graph([&programs[0], &programs[1]]);
        let outcome = recorded(&graph, &network(when, first, delay));
        let mut free = 0;
        for decision in &outcome.snapshots {
            prop_assert!(decision.time.0 >= free, "{decision:?} before {free}");
            free = decision.ready.0;
        }
        let decided = outcome.snapshots.len() as u64;
        prop_assert_eq!(outcome.circuits.decisions, decided);
    }
}
