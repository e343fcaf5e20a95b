//! What a decision starts from: which groups, how many upcoming all-to-alls, how much hidden time.

use super::{US, compute, pairs, receive, send};
use crate::network::Network;
use crate::parts::Ocs;
use crate::testing::{all_to_all, empty_graph, inside, mixnet, ocs_when, with_blocks, with_first};
use crate::{DecisionRecord, Options, Outcome, execute};
use lightloom_decide::Reconfigure;
use lightloom_kernel::Silent;
use lightloom_model::{Amount, Duration, FirstAllToAll, SwitchTiming, Task, TaskGraph, WorkerId};

const MS: u64 = 1000 * US;
const DELAY: u64 = 25 * MS;
const BYTES: u32 = 60_000_000;

/// Groups on the same four servers, each with its program, and three blocks.
fn graph<const N: usize>(programs: [Vec<Task>; N]) -> TaskGraph {
    let blocks =
        [[(0, 1), (2, 3)], [(0, 2), (1, 3)], [(0, 3), (1, 2)]].map(|ends| pairs(4, &ends, BYTES));
    let blocks: Vec<&[u32]> = blocks.iter().map(Vec::as_slice).collect();
    let mut graph = with_blocks(empty_graph(N as u32, 1, 4), &blocks);
    graph.gpus_per_worker = 8 / (N as u32).next_power_of_two();
    graph.worker_server = [0, 1, 2, 3].repeat(N);
    for (role, tasks) in graph.roles.iter_mut().zip(programs) {
        role.tasks = tasks;
    }
    graph
}

fn network(when: Reconfigure) -> Network {
    let timing = SwitchTiming { fixed: Duration(DELAY), ..SwitchTiming::default() };
    mixnet(4).with(Ocs { timing, ..ocs_when(4, when) })
}

fn run(graph: &TaskGraph, network: &Network) -> Outcome {
    let timeline_workers = vec![WorkerId(0)];
    let options = Options { timeline_workers, record_decisions: true, ..Options::default() };
    execute(graph, network, &options, &mut Silent).expect("a valid graph")
}

fn decisions(graph: &TaskGraph, when: Reconfigure) -> Vec<DecisionRecord> {
    run(graph, &network(when)).decisions.records
}

fn hidden(record: &DecisionRecord) -> Vec<u64> {
    record.upcoming.iter().map(|upcoming| upcoming.hidden.0).collect()
}

/// The sum of some blocks.
fn demand(blocks: &[usize]) -> Vec<u64> {
    let mut total = vec![0; 16];
    for &block in blocks {
        let ends = [[(0, 1), (2, 3)], [(0, 2), (1, 3)], [(0, 3), (1, 2)]][block];
        for (sum, bytes) in total.iter_mut().zip(pairs(4, &ends, BYTES)) {
            *sum += u64::from(bytes);
        }
    }
    total
}

#[test]
fn groups_that_wait_for_a_switch_are_decided_for_together() {
    // The first group switches until 25 ms; the others compute much longer.
    let first = vec![compute(40 * MS), all_to_all(0, false)];
    let second =
        vec![compute(100 * MS), all_to_all(1, false), compute(3 * MS), all_to_all(1, false)];
    let third = vec![compute(70 * MS), all_to_all(2, false)];
    for (second, third) in [(second.clone(), third.clone()), (third, second)] {
        let graph = graph([first.clone(), second, third]);
        let outcome = run(&graph, &network(Reconfigure::Oracle));
        let records = &outcome.decisions.records;
        assert_eq!((records[0].time.0, hidden(&records[0])), (0, vec![40 * MS]));
        assert_eq!(records[0].upcoming[0].demand, demand(&[0]));
        // As far as both look ahead: one all-to-all, which the earlier of them reaches at 70 ms.
        assert_eq!((records[1].time.0, hidden(&records[1])), (DELAY, vec![70 * MS - DELAY]));
        assert_eq!(records[1].upcoming[0].demand, demand(&[1, 2]));
        let snapshot = &outcome.snapshots[1];
        assert_eq!((snapshot.group, snapshot.time.0), (1, DELAY), "the first of both");
        // Once for the first group, and for each of the others that it serves.
        assert!(records[1].decision.pairs > 0 && outcome.circuits.delay.0 >= 3 * DELAY);
    }
}

#[test]
fn a_group_that_waits_is_decided_for_when_the_last_user_has_ended() {
    // The first group sends at 50 ms, the second one a little later; each alone would take 150 us.
    let first =
        vec![compute(50 * MS), all_to_all(0, false), compute(90 * MS), all_to_all(1, false)];
    let second = vec![compute(50 * MS + 100 * US), all_to_all(0, false)];
    let outcome = run(&graph([first, second]), &network(Reconfigure::Always));
    let last = outcome.decisions.records.last().expect("decisions");
    assert_eq!(last.upcoming[0].demand, demand(&[1]));
    // Not when the first group ends, as the second one is still sending.
    let compute_ends = 140 * MS;
    let until = last.upcoming[0].hidden.0 + last.time.0;
    assert!(until > compute_ends && until < compute_ends + 2 * MS, "{until}");
    assert!(last.time.0 > 50 * MS + 300 * US && last.time.0 < 52 * MS, "{}", last.time.0);
    assert!(outcome.circuits.reconfigurations > 0 && outcome.circuits.skipped == 0);
}

/// At one instant flows end first: circuits are free for whoever arrives then.
#[test]
fn who_arrives_as_the_last_user_ends_finds_circuits_decided() {
    let second = vec![compute(50 * MS + 100 * US), all_to_all(0, false)];
    let run_with = |between: u64| {
        let first =
            vec![compute(50 * MS), all_to_all(0, false), compute(between), all_to_all(1, false)];
        let timing = SwitchTiming::default();
        let network = mixnet(4).with(Ocs { timing, ..ocs_when(4, Reconfigure::Always) });
        run(&graph([first, second.clone()]), &network)
    };
    let slow = run_with(90 * MS);
    let decided = slow.decisions.records.last().expect("decisions").time.0;
    let own = (0..slow.timeline.end.len()).map(|row| slow.timeline.end[row]);
    let first_ends = own.filter(|&end| end < decided).max().expect("the first all-to-all");
    let [before, exactly] = [1, 0].map(|early| run_with(decided - first_ends - early).circuits);
    assert_eq!((before.skipped, exactly.skipped), (1, 0));
    assert_eq!(exactly.decisions, before.decisions + 1);
}

#[test]
fn hidden_time_is_what_a_stream_still_has_to_do() {
    // Compute, a message to the other group's workers, 4 us inside the server and compute again.
    let own = inside(Amount::Fixed(900_000), None);
    let first = vec![compute(DELAY + 60 * MS), all_to_all(0, false), receive(1, 0)];
    let second = vec![
        compute(DELAY + 40 * MS),
        send(0, 0, 1_000),
        compute(5 * MS),
        own,
        compute(2 * MS),
        all_to_all(1, false),
    ];
    let records = decisions(&graph([first, second]), Reconfigure::Oracle);
    assert_eq!(hidden(&records[0]), [DELAY + 60 * MS]);
    // At 25 ms the second group is in its first compute, which ends 40 ms later.
    assert_eq!(records[1].time.0, DELAY);
    assert_eq!(hidden(&records[1]), [(40 + 5 + 2) * MS + 4 * US]);
}

#[test]
fn between_upcoming_all_to_alls_only_what_lies_there_hides_a_switch() {
    let own = inside(Amount::Fixed(450_000), None);
    let tasks = vec![
        all_to_all(0, true),
        compute(7 * MS),
        all_to_all(1, false),
        compute(MS),
        own,
        all_to_all(2, false),
        all_to_all(1, false),
        compute(4 * MS),
        all_to_all(0, true),
    ];
    let [known, all] = [Reconfigure::BreakEven, Reconfigure::Oracle].map(|when| {
        let records = decisions(&graph([tasks.clone()]), when);
        // The oracle also decides before the very first one.
        let earlier = usize::from(when == Reconfigure::Oracle);
        (hidden(&records[earlier]), records[earlier].clone())
    });
    // Decided when the flows of the first one are over; its scatter is hidden, too.
    let (first, rest) = known.0.split_first().expect("an upcoming all-to-all");
    assert!((7 * MS..7 * MS + MS).contains(first), "{first}");
    assert_eq!(rest, [MS + 3 * US, 0], "up to the next first one");
    assert_eq!(all.0[1..], [MS + 3 * US, 0, 4 * MS]);
    let blocks: Vec<Vec<u64>> = all.1.upcoming.iter().map(|next| next.demand.clone()).collect();
    assert_eq!(blocks, [1, 2, 1, 0].map(|block| demand(&[block])));
}

#[test]
fn per_layer_decides_anew_for_each_pass_and_micro_batch() {
    let of = |layer, micro_batch, task| Task { layer, micro_batch, ..task };
    let count = |places: [(u16, u16, bool); 4]| {
        let tasks = places.iter().enumerate().flat_map(|(index, &(layer, micro_batch, first))| {
            let block = 1 + index as u32 / 2;
            [compute(30 * MS), of(layer, micro_batch, all_to_all(block, first))]
        });
        decisions(&graph([tasks.collect()]), Reconfigure::PerLayer).len()
    };
    // Each first one opens a pass, whose second one is known.
    assert_eq!(count([(0, 0, true), (0, 0, false), (0, 0, true), (0, 0, false)]), 2);
    // Backwards all are known: one decision per layer and micro-batch.
    assert_eq!(count([(0, 0, false); 4]), 1);
    assert_eq!(count([(0, 0, false), (0, 0, false), (0, 1, false), (0, 1, false)]), 2);
    assert_eq!(count([(1, 0, false), (1, 0, false), (0, 0, false), (0, 0, false)]), 2);
    assert_eq!(count([(3, 0, false), (2, 0, false), (1, 0, false), (0, 0, false)]), 4);
}

#[test]
fn the_latest_one_seen_is_what_is_predicted() {
    let of = |micro_batch: u16, first| Task {
        layer: 0,
        micro_batch,
        ..all_to_all(u32::from(micro_batch), first)
    };
    let tasks =
        (0..3).flat_map(|batch| [true, false].map(|first| [compute(30 * MS), of(batch, first)]));
    let graph = graph([tasks.flatten().collect()]);
    let network = with_first(network(Reconfigure::Always), FirstAllToAll::Predict);
    let records = run(&graph, &network).decisions.records;
    let decided_for: Vec<Vec<u64>> =
        records.iter().map(|record| record.upcoming[0].demand.clone()).collect();
    // The combine of each micro-batch is known; the dispatch of the next is as the last one was.
    assert_eq!(decided_for, [0, 0, 1, 1, 2].map(|block| demand(&[block])));
}

/// Two layers whose routing differs: what is predicted for one is what that one was.
#[test]
fn layers_are_predicted_by_their_own() {
    let of = |layer: u16, micro_batch: u16, first| Task {
        layer,
        micro_batch,
        ..all_to_all(u32::from(layer), first)
    };
    let places = [(0, 0), (1, 0), (0, 1), (1, 1)];
    let tasks = places.into_iter().flat_map(|(layer, batch)| {
        [true, false].into_iter().flat_map(move |first| [compute(30 * MS), of(layer, batch, first)])
    });
    let graph = graph([tasks.collect()]);
    let network = with_first(network(Reconfigure::Always), FirstAllToAll::Predict);
    let records = run(&graph, &network).decisions.records;
    let decided_for: Vec<Vec<u64>> =
        records.iter().map(|record| record.upcoming[0].demand.clone()).collect();
    // Combines of the first micro-batch, of which nothing was seen; then everything.
    assert_eq!(decided_for, [0, 1, 0, 0, 1, 1].map(|block| demand(&[block])));
}
