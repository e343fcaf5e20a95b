//! What is refused, and how it is said.

use super::{US, compute, one_ring, receive, refuse, ring, send, wait};
use crate::testing::{all_to_all, direct, empty_graph, packet, task, with_blocks};
use lightloom_model::{
    AllToAll, Category, Circuit, Cycle, Direct, Eps, Network, Rate, RingKind, Route, TaskKind,
};

#[test]
fn a_send_needs_its_receive() {
    let mut graph = empty_graph(2, 1, 1);
    graph.programs[0].tasks = vec![send(1, 9, 1)];
    let text = "no receive matches tag 9 from stage 0 to stage 1";
    assert_eq!(refuse(&graph, &packet(2)), text);
    graph.programs[0].tasks = vec![receive(1, 9)];
    assert_eq!(refuse(&graph, &packet(2)), "no send matches tag 9 from stage 1 to stage 0");
    graph.programs[0].tasks = vec![send(1, 9, 1), send(1, 9, 1)];
    assert_eq!(refuse(&graph, &packet(2)), "stages 0 to 1 use tag 9 twice");
}

#[test]
fn a_cycle_of_receives_is_a_deadlock() {
    let mut graph = empty_graph(2, 1, 1);
    graph.programs[0].tasks = vec![compute(US), receive(1, 0), send(1, 1, 1)];
    graph.programs[1].tasks = vec![receive(0, 1), send(0, 0, 1)];
    assert_eq!(
        refuse(&graph, &packet(2)),
        "deadlock at 0 s: worker 0 (stage 0, replica 0, member 0) waits at task 1, the receive of \
         tag 0 from stage 1; 2 of 2 workers are stuck"
    );
}

#[test]
fn rings_are_waited_for_once() {
    let mut graph = empty_graph(1, 2, 1);
    graph.scopes = vec![one_ring(2)];
    graph.programs[0].tasks = vec![ring(RingKind::AllReduce, 4, 1, 0)];
    assert_eq!(refuse(&graph, &packet(2)), "stage 0: nobody waits for ring handle 4");
    graph.programs[0].tasks = vec![wait(4)];
    assert_eq!(
        refuse(&graph, &packet(2)),
        "stage 0: task 0 waits for ring handle 4: expected one wait after the ring"
    );
    graph.scopes[0].offsets = vec![0, 1];
    graph.scopes[0].workers = vec![0];
    graph.programs[0].tasks = vec![ring(RingKind::AllReduce, 4, 1, 0), wait(4)];
    assert_eq!(
        refuse(&graph, &packet(2)),
        "stage 0: worker 1 starts a ring over scope dp, which lacks it"
    );
}

#[test]
fn workers_must_fit_their_servers() {
    let mut graph = empty_graph(1, 2, 1);
    graph.layout.worker_server = vec![0, 0];
    assert_eq!(refuse(&graph, &packet(2)), "server 0 has 8 GPUs, its workers need 16");
    graph.layout.worker_server = vec![0, 5];
    assert_eq!(
        refuse(&graph, &packet(2)),
        "worker 1 sits on server 5, but the network has 2 servers"
    );
    let mut pair = empty_graph(1, 1, 2);
    pair.layout.gpus_per_worker = 4;
    pair.layout.worker_server = vec![0, 0];
    assert_eq!(
        refuse(&pair, &packet(2)),
        "EP group 0 has two members on server 0: expected one worker"
    );
}

#[test]
fn communication_has_a_purpose() {
    let mut graph = empty_graph(1, 1, 1);
    graph.programs[0].tasks = vec![task(TaskKind::Local { bytes_per_gpu: 1 }, Category::Optimizer)];
    assert_eq!(
        refuse(&graph, &packet(1)),
        "stage 0: a communication task is charged to optimizer: expected tp, ep, pp, dp or cp"
    );
}

#[test]
fn a_pair_without_a_route_is_named() {
    let network = Direct {
        link_rate: Rate(1),
        circuits: vec![Circuit { a: 0, b: 1, count: 1 }],
        routes: vec![Route { servers: vec![0, 1] }],
        ..Direct::default()
    };
    let mut graph = with_blocks(empty_graph(1, 1, 2), &[&[0, 1, 1, 0]]);
    graph.programs[0].tasks = vec![all_to_all(0, true)];
    assert_eq!(
        refuse(&graph, &direct(2, network.clone())),
        "no route from server 1 to server 0, which an all-to-all needs: add it to the fabric's \
         routes"
    );
    let cycles = vec![Cycle { servers: vec![1, 0], count: 1 }];
    let one_way = Direct { cycles, ..network.clone() };
    let text = "cycle [1, 0] has no route from server 1 to server 0";
    assert_eq!(refuse(&graph, &direct(2, one_way)), text);
    let broken = Direct { routes: vec![Route { servers: vec![0, 2] }], ..network };
    assert_eq!(refuse(&graph, &direct(3, broken)), "route [0, 2] crosses a missing circuit");
}

#[test]
fn nics_must_be_divisible_among_ranks() {
    let mut graph = with_blocks(empty_graph(1, 1, 2), &[&[0, 1, 1, 0]]);
    graph.programs[0].tasks = vec![all_to_all(0, true)];
    graph.blocks.ranks_per_member = 2;
    let network = packet(2);
    assert_eq!(
        refuse(&graph, &network),
        "2 EP ranks per worker: a flat or rail all-to-all needs blocks.rank_tokens"
    );
    graph.blocks.rank_tokens = vec![0; 16];
    let eps = Eps { nics: 3, ..network.eps.clone().unwrap() };
    let network = Network { eps: Some(eps), all_to_all: AllToAll::Rail, ..network };
    assert_eq!(
        refuse(&graph, &network),
        "3 NICs cannot be dealt out evenly to 2 EP ranks of a server: use the hierarchical \
         all-to-all"
    );
}

#[test]
fn a_stopped_run_says_where() {
    let mut graph = empty_graph(2, 1, 1);
    for tag in 0..60_000 {
        graph.programs[0].tasks.push(send(1, tag, 1000));
        graph.programs[0].tasks.push(compute(US));
        graph.programs[1].tasks.push(receive(0, tag));
    }
    let mut stop = |_: lightloom_model::Time, _: u64| std::ops::ControlFlow::Break(());
    let options = crate::Options::default();
    let stopped = crate::execute(&graph, &packet(2), &options, &mut stop).unwrap_err();
    assert!(stopped.to_string().starts_with("interrupted at 0.02"), "{stopped}");
    let total = crate::total_tasks(&graph);
    assert_eq!(total, 180_000);
}

#[test]
fn absurd_numbers_are_refused() {
    let mut graph = empty_graph(2, 1, 1);
    graph.programs[0].tasks = vec![send(1, 0, u64::MAX)];
    graph.programs[1].tasks = vec![receive(0, 0)];
    let text = "the step moves over 4611686018427387904 bytes between workers: check sizes";
    assert_eq!(refuse(&graph, &packet(2)), text);
    graph.programs[0].tasks = vec![send(1, 0, 1_000_000_000_000)];
    let slow = Eps { nic_rate: Rate(1), ..packet(2).eps.unwrap() };
    let text = "the step takes over 53 days of simulated time: check rates, sizes and durations";
    assert_eq!(refuse(&graph, &Network { eps: Some(slow), ..packet(2) }), text);
    graph.programs[0].tasks = vec![compute(u64::MAX), compute(u64::MAX), send(1, 0, 1)];
    assert_eq!(refuse(&graph, &packet(2)), text);
    graph.programs[0].tasks = vec![compute(u64::MAX), compute(7)];
    graph.programs[1].tasks = vec![];
    assert_eq!(refuse(&graph, &packet(2)), text);
    let mut all = with_blocks(empty_graph(1, 1, 2), &[&[0, 1, 1, 0]]);
    all.programs[0].tasks = vec![all_to_all(0, true)];
    if let TaskKind::AllToAll { bytes_per_token, .. } = &mut all.programs[0].tasks[0].kind {
        *bytes_per_token = 1 << 40;
    }
    assert_eq!(
        refuse(&all, &packet(2)),
        "stage 0: task 0: 1099511627776 bytes per token, at most 1073741824"
    );
}

#[test]
fn routes_are_simple_paths() {
    let network = Direct {
        link_rate: Rate(1),
        circuits: vec![Circuit { a: 0, b: 1, count: 1 }],
        routes: vec![Route { servers: vec![0, 1, 0] }],
        ..Direct::default()
    };
    let text = "route [0, 1, 0] visits a server twice";
    assert_eq!(refuse(&empty_graph(1, 1, 2), &direct(2, network)), text);
}

#[test]
fn regions_must_suit_the_allocators() {
    let mut network = crate::testing::mixnet(2);
    network.ocs.as_mut().unwrap().degree = 70_000;
    let text = "70000 ports at one server, at most 65535";
    assert_eq!(refuse(&empty_graph(1, 1, 2), &network), text);
}
