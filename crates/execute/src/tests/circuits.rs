//! Regional circuits: what is hidden and what is exposed.

use super::{NIC, US, carried, compute, pairs, play, spent};
use crate::network::Network;
use crate::parts::{Eps, Ocs};
use crate::testing::{
    EP, RECONFIGURATION, WORK, all_to_all, empty_graph, eps, mixnet, ocs, ocs_when, packet, task,
    with_blocks, with_first,
};
use crate::{Options, execute};
use lightloom_decide::Reconfigure;
use lightloom_kernel::Silent;
use lightloom_model::{
    AllToAll, Amount, Duration, FirstAllToAll, SwitchTiming, TableId, TaskGraph, TaskKind,
    WorkerId, WorkerTable,
};
use std::sync::Arc;

const MS: u64 = 1000 * US;

/// Four servers; 0 and 1, 2 and 3 send much to each other in block 0; 0 and 2, 1 and 3 in block 1.
fn graph(between: u64) -> TaskGraph {
    let [first, second] =
        [[(0, 1), (2, 3)], [(0, 2), (1, 3)]].map(|ends| pairs(4, &ends, 60_000_000));
    let mut graph = with_blocks(empty_graph(1, 1, 4), &[&first, &second]);
    graph.roles[0].tasks = vec![all_to_all(0, true), compute(between), all_to_all(1, false)];
    graph
}

fn with(policy: Ocs) -> Network {
    mixnet(4).with(policy)
}

#[test]
fn enough_compute_hides_the_switching() {
    let outcome = play(&graph(40 * MS), &mixnet(4));
    assert_eq!(spent(&outcome, 0, RECONFIGURATION), 0);
    assert_eq!(outcome.critical_path[RECONFIGURATION.index()], 0);
    assert_eq!(outcome.circuits.reconfigurations, 1);
    assert_eq!(outcome.circuits.hidden().0, 25 * MS);
}

#[test]
fn too_little_compute_exposes_the_rest() {
    let hidden = play(&graph(40 * MS), &mixnet(4));
    let outcome = play(&graph(10 * MS), &mixnet(4));
    assert_eq!(outcome.circuits.delay.0, 25 * MS);
    assert!(outcome.circuits.exposed.0 > 14 * MS && outcome.circuits.exposed.0 < 16 * MS);
    let exposed = outcome.critical_path[RECONFIGURATION.index()];
    // The step is longer by what is exposed than if all had been hidden.
    assert_eq!(outcome.step.0 - (hidden.step.0 - 30 * MS), exposed);
    assert_eq!(outcome.step.0, outcome.critical_path.iter().sum::<u64>());
}

/// A switch takes as long for `n` pairs, of so much each, as one of `n` times that does whatever it
/// changes.
#[test]
fn each_pair_that_changes_takes_its_time() {
    let switching = |timing| play(&graph(10 * MS), &with(Ocs { timing, ..ocs(4) }));
    let by_pairs =
        switching(SwitchTiming { per_pair: Duration(5 * MS), ..SwitchTiming::default() });
    let pairs = by_pairs.circuits.pairs_changed;
    assert!(pairs > 2, "{pairs}");
    assert_eq!(by_pairs.circuits.delay.0, pairs * 5 * MS);
    let whole = Duration(pairs * 5 * MS);
    let at_once = switching(SwitchTiming { fixed: whole, ..SwitchTiming::default() });
    assert_eq!(by_pairs.circuits, at_once.circuits);
    assert_eq!(by_pairs.step, at_once.step);
    assert!(spent(&by_pairs, 0, RECONFIGURATION) > 0);
}

#[test]
fn the_first_one_may_block() {
    let network = with_first(with(ocs(4)), FirstAllToAll::Block);
    let reuse = play(&graph(40 * MS), &mixnet(4));
    let block = play(&graph(40 * MS), &network);
    assert_eq!(block.circuits.reconfigurations, 2);
    assert_eq!(spent(&block, 0, RECONFIGURATION), 4 * 25 * MS);
    // The circuits chosen for of the first all-to-all are faster, but not by 25 ms.
    assert!(block.step.0 > reuse.step.0 + 20 * MS && block.step.0 < reuse.step.0 + 25 * MS);
}

#[test]
fn never_means_the_circuits_of_the_start() {
    let policy = ocs_when(4, Reconfigure::Never);
    let outcome = play(&graph(40 * MS), &with(policy));
    assert_eq!(outcome.circuits.reconfigurations, 0);
    // The circulant joins 0 and 1 by two or three circuits; all six serve them when chosen for
    // them.
    assert!(outcome.step > play(&graph(40 * MS), &mixnet(4)).step);
}

#[test]
fn an_all_to_all_over_circuits_has_a_closed_form() {
    // All of the six circuits join the two servers: 2 + 6 NICs at both ends, split evenly.
    let mut graph = with_blocks(empty_graph(1, 1, 2), &[&[0, 8_000_000, 0, 0]]);
    graph.roles[0].tasks = vec![all_to_all(0, true)];
    let network = mixnet(2).with(ocs(2));
    let outcome = play(&graph, &network);
    // Each delegate carries 1 MB. Six circuit delegates hold 6/8 of their part already, two on the
    // packet fabric 2/8, so these take in most: 750 kB.
    let hop = 2 * US + (750_000_u64 * 1000).div_ceil(450);
    assert_eq!(outcome.step.0, hop + 1_000_000 * NIC + 2 * US + hop);
    assert_eq!(carried(&outcome, "ep")[1..3], [2_000_000, 6_000_000]);
    // 6 MB one way, of what six circuits of 50 GB/s each way carry in the step.
    let circuits = outcome.links.iter().find(|link| link.name == "circuit").unwrap();
    let busy = 6e6 / (6.0 * 50e9 * outcome.step.as_seconds());
    assert!((circuits.max - busy).abs() < 1e-9, "{} instead of {busy}", circuits.max);
    assert!((circuits.mean - busy / 2.0).abs() < 1e-9, "{}", circuits.mean);
    assert_eq!((circuits.links, circuits.carried_bytes), (2, 6_000_000));
}

#[test]
fn servers_of_other_regions_use_the_packet_fabric() {
    let mut graph = with_blocks(empty_graph(1, 1, 2), &[&[0, 8_000_000, 0, 0]]);
    graph.roles[0].tasks = vec![all_to_all(0, true)];
    let apart = Ocs { region_of_server: vec![0, 1], ..ocs(2) };
    let outcome = play(&graph, &mixnet(2).with(apart));
    assert_eq!(carried(&outcome, "ep")[1..3], [8_000_000, 0]);
    let packets = Network { parts: vec![Arc::new(Eps { nics: 2, ..eps(2) })], ..mixnet(2) };
    assert_eq!(outcome.step, play(&graph, &packets).step);
}

#[test]
fn groups_that_share_servers_share_the_circuits() {
    let mut graph = with_blocks(empty_graph(1, 2, 4), &[&[0; 16], &[0; 16]]);
    graph.gpus_per_worker = 4;
    graph.worker_server = vec![0, 1, 2, 3, 0, 1, 2, 3];
    let cells = graph.demands[0].counts.len();
    for cell in 0..cells {
        graph.demands[0].counts[cell] = (cell as u32 % 7) * 1_000_000 * u32::from(cell % 5 != 0);
    }
    let tasks = vec![all_to_all(0, true), compute(40 * MS), all_to_all(1, false)];
    graph.roles[0].tasks = tasks;
    let outcome = play(&graph, &mixnet(4));
    // One decision for both, as the first group to be done waits for the other.
    assert_eq!(outcome.circuits.decisions + outcome.circuits.skipped, 1);
    assert_eq!(outcome.circuits.delay.0, 2 * 25 * MS);
}

#[test]
fn sharing_equal_work_changes_nothing() {
    let mut graph = graph(40 * MS);
    let tasks = graph.roles[0].tasks.clone();
    for _ in 0..3 {
        graph.roles[0].tasks.extend(tasks.iter().copied());
    }
    let run = |share_equal_work| {
        let options = Options { share_equal_work, ..Options::default() };
        execute(&graph, &mixnet(4), &options, &mut Silent).unwrap()
    };
    let (with, mut without) = (run(true), run(false));
    assert!(with.circuits.shared > 0 && without.circuits.shared == 0);
    without.circuits.shared = with.circuits.shared;
    assert_eq!(with, without);
}

#[test]
fn circuits_are_up_but_for_the_switching() {
    let options = Options {
        timeline_workers: vec![WorkerId(0)],
        share_equal_work: true,
        ..Options::default()
    };
    let outcome = execute(&graph(40 * MS), &mixnet(4), &options, &mut Silent).unwrap();
    let lines = &outcome.circuit_timeline;
    let snapshot = &outcome.snapshots[0];
    assert_eq!(snapshot.ready.since(snapshot.time).0, 25 * MS);
    assert_eq!((snapshot.demand[2], snapshot.circuits[2]), (60_000_000, 6));
    let from_zero = |index: &usize| (lines.a[*index], lines.b[*index]) == (0, 2);
    let spans: Vec<usize> = (0..lines.a.len()).filter(from_zero).collect();
    assert_eq!(spans.len(), 2);
    assert_eq!(lines.down[spans[0]], snapshot.time.0);
    assert_eq!(lines.up[spans[1]], snapshot.ready.0);
    assert_eq!(lines.down[spans[1]], outcome.step.0);
    assert_eq!(lines.count[spans[1]], 6);
    // At no time are there more circuits than ports.
    for server in 0..4 {
        let mut changes: Vec<(u64, i32)> = Vec::new();
        for index in 0..lines.a.len() {
            if lines.a[index] == server || lines.b[index] == server {
                changes.push((lines.up[index], i32::from(lines.count[index])));
                changes.push((lines.down[index], -i32::from(lines.count[index])));
            }
        }
        changes.sort_unstable();
        let mut circuits = 0;
        for (_, change) in changes {
            circuits += change;
            assert!((0..=6).contains(&circuits), "server {server}");
        }
    }
}

#[test]
fn circuits_need_the_hierarchical_all_to_all() {
    let network = Network { all_to_all: AllToAll::Flat, ..mixnet(4) };
    assert_eq!(
        super::refuse(&graph(0), &network),
        "circuits join servers, not ranks: use the hierarchical all-to-all"
    );
    assert!(play(&graph(0), &packet(4)).circuits.decisions == 0);
}

#[test]
fn waiting_for_members_is_no_waiting_for_circuits() {
    // One member is 30 ms late; all block until it is there, and for 25 ms of switching then.
    let mut graph = graph(40 * MS);
    let values = vec![0, 0, 30 * MS, 0];
    graph.tables = vec![WorkerTable { name: "times".into(), entries: 1, values }];
    let duration = Amount::Entry { table: TableId(0), entry: 0 };
    graph.roles[0].tasks = vec![task(TaskKind::Compute { duration }, WORK), all_to_all(0, true)];
    let outcome = play(&graph, &with_first(with(ocs(4)), FirstAllToAll::Block));
    assert_eq!(spent(&outcome, 0, RECONFIGURATION), 4 * 25 * MS);
    assert_eq!(outcome.circuits.exposed.0, 25 * MS);
    // Three of them wait for the late one; their own transfers are the rest.
    let rest = outcome.step.0 - 55 * MS;
    assert_eq!(spent(&outcome, 0, EP), 3 * 30 * MS + 4 * rest);
    assert_eq!(outcome.critical_path[WORK.index()], 30 * MS);
    assert_eq!(outcome.critical_path[RECONFIGURATION.index()], 25 * MS);
    assert_eq!(outcome.critical_path[EP.index()], rest);
}
