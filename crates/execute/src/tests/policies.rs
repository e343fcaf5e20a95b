//! When circuits are switched: each policy on small graphs.

use super::{US, compute, pairs, play};
use crate::network::Network;
use crate::parts::Ocs;
use crate::testing::{
    WORK, all_to_all, empty_graph, mixnet, ocs_when, task, with_blocks, with_first,
};
use crate::{Options, Outcome, Plugins, TransferModel, execute, execute_as};
use lightloom_decide::{CircuitAllocator, Reconfigure};
use lightloom_kernel::Silent;
use lightloom_model::{
    Amount, Duration, FirstAllToAll, Invalid, Payload, SwitchTiming, TableId, Task, TaskGraph,
    TaskKind, WorkerId, WorkerTable,
};
use lightloom_schedule::Request;

const MS: u64 = 1000 * US;

/// What two circuits for the demand save in one all-to-all of the graphs below: 60 MB go over 8
/// NICs of 400 Gb/s instead of 4.
const SAVED: u64 = 150 * US;

/// Two pairs that send much.
fn swap(ends: [(usize, usize); 2]) -> Vec<u32> {
    pairs(4, &ends, 60_000_000)
}

/// One group on four servers; each block has two pairs that send much.
fn graph(tasks: Vec<Task>) -> TaskGraph {
    let blocks = [swap([(0, 1), (2, 3)]), swap([(0, 2), (1, 3)]), swap([(0, 3), (1, 2)])];
    let blocks: Vec<&[u32]> = blocks.iter().map(Vec::as_slice).collect();
    let mut graph = with_blocks(empty_graph(1, 1, 4), &blocks);
    graph.roles[0].tasks = tasks;
    graph
}

fn network(when: Reconfigure, delay: u64) -> Network {
    let timing = SwitchTiming { fixed: Duration(delay), ..SwitchTiming::default() };
    mixnet(4).with(Ocs { timing, ..ocs_when(4, when) })
}

fn run(graph: &TaskGraph, policy: Reconfigure, delay: u64) -> Outcome {
    play(graph, &network(policy, delay))
}

fn layer_all_to_all(block: u32, transposed: bool, first: bool, layer: u16) -> Task {
    let mut task = Task { layer, micro_batch: 0, ..all_to_all(block, first) };
    if let TaskKind::Collective(collective) = &mut task.kind
        && let Payload::Block { transposed: flag, .. } = &mut collective.payload
    {
        *flag = transposed;
    }
    task
}

/// Forward through so many layers and back, the same time between all all-to-alls.
fn there_and_back(layers: u16, between: u64) -> TaskGraph {
    let mut tasks = Vec::new();
    let passes = (0..layers).map(|l| (l, true)).chain((0..layers).rev().map(|l| (l, false)));
    for (layer, first) in passes {
        for transposed in [false, true] {
            tasks.push(compute(between));
            tasks.push(layer_all_to_all(u32::from(layer), transposed, first && !transposed, layer));
        }
    }
    graph(tasks)
}

#[test]
fn break_even_switches_exactly_where_it_pays() {
    let graph = graph(vec![all_to_all(0, true), compute(10 * MS), all_to_all(1, false)]);
    let never = run(&graph, Reconfigure::Never, 0);
    // The scatter of the first all-to-all, with its latencies, hides a little more than compute.
    let hidden = 10 * MS + 40 * US;
    for (delay, switches) in
        [(9 * MS, 1), (hidden + SAVED - 60 * US, 1), (hidden + SAVED + 20 * US, 0), (25 * MS, 0)]
    {
        let always = run(&graph, Reconfigure::Always, delay);
        let found = run(&graph, Reconfigure::BreakEven, delay);
        assert_eq!(found.circuits.reconfigurations, switches, "delay {delay} ps");
        assert_eq!(found.step, always.step.min(never.step), "delay {delay} ps");
        assert_eq!((found.circuits.decisions, always.circuits.reconfigurations), (1, 1));
    }
}

#[test]
fn a_switch_is_hidden_until_the_last_member_arrives() {
    // Only one of four members computes between the two all-to-alls; the others wait for it.
    let mut graph = graph(vec![all_to_all(0, true), all_to_all(1, false)]);
    let values = vec![0, 0, 10 * MS, 0];
    graph.tables = vec![WorkerTable { name: "times".into(), entries: 1, values }];
    let duration = Amount::Entry { table: TableId(0), entry: 0 };
    graph.roles[0].tasks.insert(1, task(TaskKind::Compute { duration }, WORK));
    for (delay, switches) in [(9 * MS, 1), (11 * MS, 0)] {
        let outcome = run(&graph, Reconfigure::BreakEven, delay);
        assert_eq!(outcome.circuits.reconfigurations, switches, "delay {delay} ps");
    }
}

#[test]
fn a_policy_that_switches_nothing_takes_as_long_as_never() {
    for between in [0, 100 * US, 10 * MS] {
        let graph = there_and_back(3, between);
        let (never, even) =
            (run(&graph, Reconfigure::Never, 0), run(&graph, Reconfigure::BreakEven, 10_000 * MS));
        assert_eq!(even.circuits.reconfigurations, 0);
        assert_eq!((even.step, even.run_hash), (never.step, never.run_hash), "{between}");
    }
}

#[test]
fn the_seconds_saved_are_those_of_the_model() {
    let graph = graph(vec![all_to_all(0, true), compute(10 * MS), all_to_all(1, false)]);
    for policy in [Reconfigure::Always, Reconfigure::BreakEven, Reconfigure::PerLayer] {
        let saved = run(&graph, policy, 9 * MS).circuits.saved_s;
        assert!((saved - SAVED as f64 * 1e-12).abs() < 1e-12, "{policy:?}: {saved}");
    }
    assert!(run(&graph, Reconfigure::BreakEven, 25 * MS).circuits.saved_s.to_bits() == 0);
}

#[test]
fn a_known_backward_pass_pays_for_what_one_all_to_all_does_not() {
    // One switch of 11.2 ms, of which 1 ms is exposed, serves all eight that follow.
    let mut tasks = vec![all_to_all(0, true), compute(10_200 * US)];
    for _ in 0..8 {
        tasks.extend([all_to_all(1, false), compute(US)]);
    }
    let graph = graph(tasks);
    let one = run(&graph, Reconfigure::BreakEven, 11_200 * US);
    assert_eq!(one.circuits.reconfigurations, 1);
    let never = run(&graph, Reconfigure::Never, 0);
    let gained = never.step.0 - one.step.0;
    assert!(gained > 8 * SAVED - 1_100 * US && gained < 8 * SAVED, "{gained}");
}

#[test]
fn the_oracle_serves_first_all_to_alls_as_well() {
    let graph = there_and_back(3, 2 * MS);
    let delay = MS;
    let [never, always, even, oracle] =
        [Reconfigure::Never, Reconfigure::Always, Reconfigure::BreakEven, Reconfigure::Oracle]
            .map(|policy| run(&graph, policy, delay).step.0);
    // Everything hides: break-even is as fast as always. The first all-to-all has the circulant
    // under both; the other two of forward have circuits for the layer before, hence the EPS alone,
    // which takes four times as long as what the oracle has ready. What the EPS carries is copied
    // to and from two NICs of a server, too.
    assert_eq!(even, always);
    assert!(always < never && oracle < even);
    let missed = SAVED + 2 * 3 * SAVED;
    let copies = 2 * (2 * 37_500 + 12_500) * US / 1000;
    assert_eq!((even - oracle) / US, (missed + copies) / US);
}

#[test]
fn policies_are_ordered_where_nothing_else_happens() {
    for between in [0, 100 * US, MS, 10 * MS] {
        for delay in [0, 25 * US, 120 * US, 400 * US, MS, 25 * MS] {
            let graph = there_and_back(3, between);
            let step = |policy| run(&graph, policy, delay).step.0;
            let (never, always) = (step(Reconfigure::Never), step(Reconfigure::Always));
            let (even, oracle) = (step(Reconfigure::BreakEven), step(Reconfigure::Oracle));
            // The model is at line rate, the run has latencies and copies inside servers.
            let slack = 12 * 25 * US;
            assert!(even <= never.min(always) + slack, "{between} {delay}: {even} {never}");
            assert!(oracle <= even + slack, "{between} {delay}: {oracle} {even}");
        }
    }
}

#[test]
fn per_layer_decides_once_per_layer_and_pass() {
    // The second layer's backward pass follows its forward pass at once: one decision for both.
    let graph = there_and_back(2, 40 * MS);
    let outcome = run(&graph, Reconfigure::PerLayer, 25 * MS);
    assert_eq!(outcome.circuits.decisions, 3);
    assert_eq!(run(&graph, Reconfigure::Always, 25 * MS).circuits.decisions, 6);
    let blocking = network(Reconfigure::PerLayer, 25 * MS);
    let blocked = play(&graph, &with_first(blocking, FirstAllToAll::Block));
    assert_eq!(blocked.circuits.decisions, 3);
    // Decided at the gate, each forward pass has its circuits from the first all-to-all on.
    assert!(blocked.circuits.exposed.0 >= 2 * 25 * MS - MS);
}

#[test]
fn break_even_at_the_gate_hides_nothing() {
    let graph = graph(vec![compute(40 * MS), all_to_all(1, true)]);
    for (delay, switches) in [(SAVED - US, 1), (SAVED + US, 0)] {
        let network = network(Reconfigure::BreakEven, delay);
        let outcome = play(&graph, &with_first(network, FirstAllToAll::Block));
        assert_eq!(outcome.circuits.reconfigurations, switches);
        assert_eq!(outcome.circuits.exposed.0, switches * delay);
    }
}

#[test]
fn the_oracle_switches_before_the_very_first_one() {
    let graph = graph(vec![compute(40 * MS), all_to_all(1, true)]);
    let outcome = run(&graph, Reconfigure::Oracle, 25 * MS);
    assert_eq!((outcome.circuits.reconfigurations, outcome.circuits.exposed.0), (1, 0));
}

#[test]
fn equal_questions_may_be_shared_under_every_policy() {
    let graph = there_and_back(3, MS);
    for &policy in Reconfigure::ALL {
        let network = network(policy, 300 * US);
        let run = |share_equal_work| {
            let options = Options {
                share_equal_work,
                timeline_workers: vec![WorkerId(0)],
                ..Options::default()
            };
            execute(&graph, &network, &options, &mut Silent).unwrap()
        };
        let (with, mut without) = (run(true), run(false));
        without.circuits.shared = with.circuits.shared;
        assert_eq!(with, without, "{policy}");
        assert_eq!(with, run(true), "{policy}: the same twice");
    }
}

#[test]
fn groups_that_share_servers_weigh_their_demand_together() {
    let mut graph = with_blocks(empty_graph(1, 2, 4), &[&[0; 16], &[0; 16]]);
    graph.gpus_per_worker = 4;
    graph.worker_server = vec![0, 1, 2, 3, 0, 1, 2, 3];
    for (cell, tokens) in graph.demands[0].counts.iter_mut().enumerate() {
        *tokens = swap([(0, 2), (1, 3)])[cell % 16] / 2;
    }
    graph.roles[0].tasks = vec![all_to_all(0, true), compute(10 * MS), all_to_all(1, false)];
    for (delay, switches) in [(9 * MS, 1), (25 * MS, 0)] {
        let outcome = run(&graph, Reconfigure::BreakEven, delay);
        assert_eq!(outcome.circuits.reconfigurations, switches);
        assert_eq!(outcome.circuits.decisions + outcome.circuits.skipped, 1);
    }
}

/// Joins 0 and 2, 1 and 3 by so many circuits, whatever the request.
struct Stubborn(u16, Vec<usize>);

impl CircuitAllocator for Stubborn {
    fn key(&self) -> Option<u64> {
        Some(0)
    }

    fn allocate(&mut self, requests: &[Request]) -> Result<Vec<Vec<u16>>, Invalid> {
        if self.0 == 0 {
            return Err(Invalid::new("out of light"));
        }
        self.1.push(requests.len());
        let mut circuits = vec![0; 16];
        for (a, b) in [(0, 2), (2, 0), (1, 3), (3, 1)] {
            circuits[a * 4 + b] = self.0;
        }
        Ok(vec![circuits; requests.len()])
    }
}

#[test]
fn a_custom_allocator_proposes_and_is_checked() {
    let graph = graph(vec![all_to_all(0, true), compute(10 * MS), all_to_all(1, false)]);
    let network = network(Reconfigure::Always, MS);
    let run = |stubborn: &mut Stubborn| {
        let plugins = Plugins { allocator: Some(stubborn), ..Plugins::default() };
        execute_as(
            TransferModel::Flows,
            &graph,
            &network,
            &Options::default(),
            &mut Silent,
            plugins,
        )
        .map_err(|error| error.to_string())
    };
    let mut stubborn = Stubborn(6, vec![]);
    // Six are what the network's allocator finds, too.
    assert_eq!(run(&mut stubborn).unwrap().step, play(&graph, &network).step);
    assert_eq!(stubborn.1, [1]);
    let refused = run(&mut Stubborn(7, vec![])).unwrap_err();
    assert_eq!(refused, "allocator: server 0 has 6 ports but 7 circuits");
    assert_eq!(run(&mut Stubborn(0, vec![])).unwrap_err(), "allocator: out of light");
}

/// Micro-batches through one layer: dispatch and combine of the given blocks.
fn forward(blocks: &[u32], between: u64) -> TaskGraph {
    let mut tasks = Vec::new();
    for (micro_batch, &block) in blocks.iter().enumerate() {
        for transposed in [false, true] {
            let task = layer_all_to_all(block, transposed, !transposed, 0);
            tasks.extend([compute(between), Task { micro_batch: micro_batch as u16, ..task }]);
        }
    }
    graph(tasks)
}

fn predicting(policy: Reconfigure, delay: u64) -> Network {
    with_first(network(policy, delay), FirstAllToAll::Predict)
}

/// As [`graph`], each all-to-all of a block of its own, so that only what was seen tells of it.
fn own_blocks(kinds: &[usize], between: u64) -> TaskGraph {
    let known = [swap([(0, 1), (2, 3)]), swap([(0, 2), (1, 3)]), swap([(0, 3), (1, 2)])];
    let blocks: Vec<&[u32]> = kinds.iter().map(|&kind| known[kind].as_slice()).collect();
    let numbers: Vec<u32> = (0..kinds.len() as u32).collect();
    let tasks = forward(&numbers, between);
    let mut graph = with_blocks(empty_graph(1, 1, 4), &blocks);
    graph.roles = tasks.roles;
    graph
}

#[test]
fn demand_that_repeats_is_predicted() {
    let graph = own_blocks(&[1, 1, 1, 1], 10 * MS);
    // Once the first combine has its circuits, nothing need change: as good as the oracle but for
    // the very first all-to-all.
    let found = play(&graph, &predicting(Reconfigure::BreakEven, MS));
    let oracle = run(&graph, Reconfigure::Oracle, MS);
    assert_eq!(found.circuits.reconfigurations, 1);
    let missed = found.step.0 - oracle.step.0;
    assert!((SAVED..SAVED + 60 * US).contains(&missed), "{missed}");
}

#[test]
fn always_follows_a_prediction_and_break_even_doubts_it() {
    // Block 0, 1, 0, 1: the last micro-batch misleads, and the last but one contradicts it.
    let graph = own_blocks(&[0, 1, 0, 1, 0, 1], 10 * MS);
    let always = play(&graph, &predicting(Reconfigure::Always, MS));
    let even = play(&graph, &predicting(Reconfigure::BreakEven, MS));
    let reuse = run(&graph, Reconfigure::BreakEven, MS);
    // Decisions: all but the first all-to-all of the first micro-batch.
    assert_eq!(always.circuits.decisions, 11);
    assert_eq!(reuse.circuits.decisions, 6);
    assert!(even.step <= always.step);
    assert!(even.circuits.reconfigurations <= always.circuits.reconfigurations);
}

#[test]
fn per_layer_decides_once_for_both_predicted_all_to_alls() {
    let graph = own_blocks(&[1, 1, 1], 10 * MS);
    let found = play(&graph, &predicting(Reconfigure::PerLayer, MS));
    assert_eq!((found.circuits.decisions, found.circuits.reconfigurations), (3, 1));
}

/// Members that take no part in one are at the next before anything was seen: these begin with
/// what is held, once.
#[test]
fn first_all_to_alls_in_a_row_begin_once() {
    let matrices = [(0, 1), (0, 2), (1, 3), (2, 3)].map(|ends| pairs(4, &[ends], 60_000_000));
    let blocks: Vec<&[u32]> = matrices.iter().map(Vec::as_slice).collect();
    let mut graph = with_blocks(empty_graph(1, 1, 4), &blocks);
    let others = [Reconfigure::Always, Reconfigure::PerLayer, Reconfigure::BreakEven];
    for count in 1..=4 {
        graph.roles[0].tasks = (0..count).map(|block| all_to_all(block, true)).collect();
        let held = run(&graph, Reconfigure::Never, 0);
        let waits = play(&graph, &predicting(Reconfigure::Never, 0));
        assert!(waits.step >= held.step && waits.step.0 <= 2 * held.step.0, "{count} never");
        for policy in others {
            let found = play(&graph, &predicting(policy, MS));
            let switches = found.circuits.reconfigurations * MS;
            let limit = 2 * held.step.0 + switches;
            assert!((held.step.0 / 2..=limit).contains(&found.step.0), "{count} {policy:?}");
        }
    }
}
