//! Collectives inside servers.

use super::{US, carried, play, refuse, spent};
use crate::testing::{TP, WORK, empty_graph, inside, packet};
use lightloom_model::{Amount, Duration, TableId, Task, TaskGraph, TaskKind, WorkerTable};

/// Bytes that a GPU sends into the NVSwitch in a microsecond.
const PER_US: u64 = 450_000;

/// A collective inside workers whose sizes are entry `entry` of two tables.
fn by_worker(entry: u32) -> Task {
    let of = |table: u32| Amount::Entry { table: TableId(table), entry };
    inside(of(0), Some(of(1)))
}

/// Four workers, two sizes each; each worker is two ranks of
/// four GPUs, of which the other received nothing.
fn gathers(busiest: [u64; 8]) -> TaskGraph {
    let mut graph = empty_graph(1, 2, 2);
    let table =
        |name: &str, values: Vec<u64>| WorkerTable { name: name.into(), entries: 2, values };
    graph.tables = vec![
        table("busiest", busiest.to_vec()),
        table("total", busiest.map(|bytes| 4 * bytes).to_vec()),
    ];
    graph.roles[0].tasks = vec![by_worker(0), by_worker(1)];
    graph
}

#[test]
fn a_local_collective_takes_latency_and_bytes_over_rate() {
    let mut graph = empty_graph(1, 1, 1);
    let local = |bytes| inside(Amount::Fixed(bytes), None);
    graph.roles[0].tasks = vec![local(3 * PER_US), local(0)];
    let outcome = play(&graph, &packet(1));
    assert_eq!(outcome.step.0, 5 * US);
    assert_eq!(carried(&outcome, "tp"), [8 * 3 * PER_US, 0, 0, 0, 0]);
}

#[test]
fn the_start_up_of_a_gather_grows_with_its_group() {
    let mut network = packet(1);
    network.nvswitch.gather.peer = Duration(3 * US);
    for peers in [0, 1, 7] {
        let mut graph = empty_graph(1, 1, 1);
        let mut one = inside(Amount::Fixed(3 * PER_US), None);
        let TaskKind::Collective(collective) = &mut one.kind else { unreachable!("inside") };
        collective.inside.peers = peers;
        graph.roles[0].tasks = vec![one];
        assert_eq!(play(&graph, &network).step.0, (2 + 3 * u64::from(peers) + 3) * US);
    }
}

#[test]
fn a_collective_inside_workers_takes_as_long_as_its_busiest_gpu() {
    // Worker by worker.
    let graph = gathers([1, 3, 2, 4, 5, 7, 6, 0].map(|us| us * PER_US));
    let outcome = play(&graph, &packet(4));
    // Worker 2: 5 and 7 us of bytes, twice 2 us of start-up; worker 3 has nothing in block 1.
    assert_eq!(outcome.step.0, (2 + 5 + 2 + 7) * US);
    let own = [2 + 1 + 2 + 3, 2 + 2 + 2 + 4, 2 + 5 + 2 + 7, 2 + 6];
    assert_eq!(spent(&outcome, 0, TP), own.iter().sum::<u64>() * US);
    assert_eq!(outcome.critical_path[TP.index()], outcome.step.0);
    assert_eq!(carried(&outcome, "tp"), [4 * 28 * PER_US, 0, 0, 0, 0]);
}

#[test]
fn equal_sizes_take_as_long_as_a_local_collective() {
    let graph = gathers([PER_US + 17; 8]);
    let mut plain = graph.clone();
    plain.roles[0].tasks = vec![inside(Amount::Fixed(PER_US + 17), None); 2];
    let (own, local) = (play(&graph, &packet(4)), play(&plain, &packet(4)));
    assert_eq!(own.step, local.step);
    assert_eq!(own.roles, local.roles);
}

#[test]
fn sizes_must_be_there_and_charged_to_communication() {
    let mut graph = gathers([1; 8]);
    graph.roles[0].tasks[1].category = WORK;
    assert_eq!(
        refuse(&graph, &packet(4)),
        "role 'stage 0', task 1 (all-reduce): charged to 'work', which is not communication: \
         expected a category of tp, ep, pp, dp"
    );
    graph.tables[1].values.pop();
    let text = "table 'total': values has 7 entries, expected 8";
    assert_eq!(refuse(&graph, &packet(4)), text);
}
