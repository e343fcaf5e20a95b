//! What is refused, and how it is said.

use super::{US, compute, one_ring, receive, refuse, ring, send, wait};
use crate::network::Network;
use crate::parts::{Cycle, Direct, Eps, Ocs, Route};
use crate::testing::{all_to_all, direct, empty_graph, eps, mixnet, ocs, packet, with_blocks};
use lightloom_kernel::Silent;
use lightloom_model::{AllToAll, Circuit, CollectiveKind, Payload, Rate, TaskKind, WorkerId};

#[test]
fn a_send_needs_its_receive() {
    let mut graph = empty_graph(2, 1, 1);
    graph.roles[0].tasks = vec![send(1, 9, 1)];
    let text = "no receive matches tag 9 from role 'stage 0' to role 'stage 1'";
    assert_eq!(refuse(&graph, &packet(2)), text);
    graph.roles[0].tasks = vec![receive(1, 9)];
    assert_eq!(
        refuse(&graph, &packet(2)),
        "no send matches tag 9 from role 'stage 1' to role 'stage 0'"
    );
    graph.roles[0].tasks = vec![send(1, 9, 1), send(1, 9, 1)];
    assert_eq!(refuse(&graph, &packet(2)), "role 'stage 0' to role 'stage 1': tag 9 is used twice");
}

#[test]
fn a_cycle_of_receives_is_a_deadlock() {
    let mut graph = empty_graph(2, 1, 1);
    graph.roles[0].tasks = vec![compute(US), receive(1, 0), send(1, 1, 1)];
    graph.roles[1].tasks = vec![receive(0, 1), send(0, 0, 1)];
    assert_eq!(
        refuse(&graph, &packet(2)),
        "deadlock at 0 s: worker 0 (role 'stage 0') waits at task 1, the receive of tag 0 \
         from worker 1; 2 of 2 workers are stuck"
    );
}

#[test]
fn rings_are_waited_for_once() {
    let mut graph = empty_graph(1, 2, 1);
    graph.families.push(one_ring(2));
    graph.roles[0].tasks = vec![ring(CollectiveKind::AllReduce, 4, 1, 0)];
    assert_eq!(
        refuse(&graph, &packet(2)),
        "role 'stage 0', task 0 (all-reduce): nobody waits for handle 4"
    );
    graph.roles[0].tasks = vec![wait(4)];
    assert_eq!(
        refuse(&graph, &packet(2)),
        "role 'stage 0', task 0 (wait): handle 4 belongs to no earlier task"
    );
    graph.families[1].offsets = vec![0, 1];
    graph.families[1].workers = vec![WorkerId(0)];
    graph.roles[0].tasks = vec![ring(CollectiveKind::AllReduce, 4, 1, 0), wait(4)];
    assert_eq!(
        refuse(&graph, &packet(2)),
        "role 'stage 0', task 0 (all-reduce): worker 1 is in no group of family 'dp'"
    );
}

#[test]
fn workers_must_fit_their_servers() {
    let mut graph = empty_graph(1, 2, 1);
    graph.worker_server = vec![0, 0];
    assert_eq!(refuse(&graph, &packet(2)), "server 0 has 8 GPUs, its workers need 16");
    graph.worker_server = vec![0, 5];
    assert_eq!(
        refuse(&graph, &packet(2)),
        "worker 1 is on server 5, but the network has 2 servers"
    );
    let mut pair = with_blocks(empty_graph(1, 1, 2), &[&[0; 4]]);
    pair.roles[0].tasks = vec![all_to_all(0, true)];
    pair.gpus_per_worker = 4;
    pair.worker_server = vec![0, 0];
    assert_eq!(
        refuse(&pair, &packet(2)),
        "group 0 of family 'ep' has two members on server 0: an all-to-all expects one worker per \
         server"
    );
}

#[test]
fn a_pair_without_a_route_is_named() {
    let network = Direct {
        nic_rate: Rate(1),
        circuits: vec![Circuit { a: 0, b: 1, count: 1 }],
        routes: vec![Route { servers: vec![0, 1] }],
        ..Direct::default()
    };
    let mut graph = with_blocks(empty_graph(1, 1, 2), &[&[0, 1, 1, 0]]);
    graph.roles[0].tasks = vec![all_to_all(0, true)];
    assert_eq!(
        refuse(&graph, &direct(2, network.clone())),
        "no route from server 1 to server 0, which an all-to-all needs: add it to the fabric's \
         routes"
    );
    let cycles = vec![Cycle { servers: vec![1, 0], count: 1 }];
    let one_direction = Direct { cycles, ..network.clone() };
    let text = "cycle [1, 0] has no route from server 1 to server 0";
    assert_eq!(refuse(&graph, &direct(2, one_direction)), text);
    let broken = Direct { routes: vec![Route { servers: vec![0, 2] }], ..network };
    assert_eq!(refuse(&graph, &direct(3, broken)), "route [0, 2] crosses a missing circuit");
}

#[test]
fn nics_must_be_divisible_among_ranks() {
    let mut graph = with_blocks(empty_graph(1, 1, 2), &[&[0, 1, 1, 0]]);
    graph.roles[0].tasks = vec![all_to_all(0, true)];
    graph.demands[0].ranks_per_member = 2;
    let network = packet(2);
    assert_eq!(
        refuse(&graph, &network),
        "demand 'tokens': 2 ranks per worker: a flat or rail all-to-all needs rank_counts"
    );
    graph.demands[0].rank_counts = vec![0; 16];
    let eps = Eps { nics: 3, ..eps(2) };
    let network = Network { all_to_all: AllToAll::Rail, ..network }.with(eps);
    assert_eq!(
        refuse(&graph, &network),
        "3 NICs cannot be divided evenly among 2 EP ranks of a server: use the hierarchical \
         all-to-all"
    );
}

#[test]
fn a_demand_is_of_the_groups_that_it_describes() {
    let mut graph = with_blocks(empty_graph(1, 2, 2), &[&[0, 1, 1, 0]]);
    graph.roles[0].tasks = vec![all_to_all(0, true)];
    graph.demands[0].groups = 1;
    graph.demands[0].counts.truncate(4);
    assert_eq!(
        refuse(&graph, &packet(4)),
        "role 'stage 0', task 0 (all-to-all): demand 'tokens' does not describe group 1"
    );
}

#[test]
fn a_stopped_run_says_where() {
    let mut graph = empty_graph(2, 1, 1);
    for tag in 0..60_000 {
        graph.roles[0].tasks.push(send(1, tag, 1000));
        graph.roles[0].tasks.push(compute(US));
        graph.roles[1].tasks.push(receive(0, tag));
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
    graph.roles[0].tasks = vec![send(1, 0, u64::MAX)];
    graph.roles[1].tasks = vec![receive(0, 0)];
    let text = "the step moves over 4611686018427387904 bytes between workers: check sizes";
    assert_eq!(refuse(&graph, &packet(2)), text);
    graph.roles[0].tasks = vec![send(1, 0, 1_000_000_000_000)];
    let slow = Eps { nic_rate: Rate(1), ..eps(2) };
    let text = "the step takes over 53 days of simulated time: check rates, sizes and durations";
    assert_eq!(refuse(&graph, &packet(2).with(slow)), text);
    graph.roles[0].tasks = vec![compute(u64::MAX), compute(u64::MAX), send(1, 0, 1)];
    assert_eq!(refuse(&graph, &packet(2)), text);
    graph.roles[0].tasks = vec![compute(u64::MAX), compute(7)];
    graph.roles[1].tasks = vec![];
    assert_eq!(refuse(&graph, &packet(2)), text);
    let mut all = with_blocks(empty_graph(1, 1, 2), &[&[0, 1, 1, 0]]);
    all.roles[0].tasks = vec![all_to_all(0, true)];
    if let TaskKind::Collective(collective) = &mut all.roles[0].tasks[0].kind
        && let Payload::Block { unit_bytes, .. } = &mut collective.payload
    {
        *unit_bytes = 1 << 40;
    }
    assert_eq!(
        refuse(&all, &packet(2)),
        "role 'stage 0', task 0 (all-to-all): 1099511627776 bytes per count, at most 1073741824"
    );
}

#[test]
fn routes_are_simple_paths() {
    let network = Direct {
        nic_rate: Rate(1),
        circuits: vec![Circuit { a: 0, b: 1, count: 1 }],
        routes: vec![Route { servers: vec![0, 1, 0] }],
        ..Direct::default()
    };
    let text = "route [0, 1, 0] visits a server twice";
    assert_eq!(refuse(&empty_graph(1, 1, 2), &direct(2, network)), text);
}

#[test]
fn networks_must_suit_searches_and_memory() {
    let mut graph = with_blocks(empty_graph(1, 1, 2), &[&[0; 4]]);
    graph.roles[0].tasks = vec![all_to_all(0, true)];
    let network = mixnet(2).with(Ocs { ports: 257, ..ocs(2) });
    assert_eq!(refuse(&graph, &network), "ocs.ports = 257: expected at most 256");
    let network = Network { servers: (1 << 20) + 1, ..packet(2) };
    assert_eq!(refuse(&graph, &network), "a network of 1048577 servers: expected at most 1048576");
}

#[test]
fn rings_need_routes_to_both_neighbors() {
    let circuits = [(0, 1), (1, 2), (2, 0)].map(|(a, b)| Circuit { a, b, count: 1 }).to_vec();
    let routes = |pairs: &[[u32; 2]]| -> Vec<Route> {
        pairs.iter().map(|pair| Route { servers: pair.to_vec() }).collect()
    };
    let mut graph = empty_graph(1, 3, 1);
    graph.families.push(one_ring(3));
    graph.roles[0].tasks = vec![ring(CollectiveKind::AllGather, 1, 9, 0), wait(1)];
    let refusal = |pairs: &[[u32; 2]]| {
        let nic_rate = Rate(1_000_000_000);
        let network = Direct {
            nic_rate,
            circuits: circuits.clone(),
            routes: routes(pairs),
            ..Direct::default()
        };
        crate::execute(&graph, &direct(3, network), &crate::Options::default(), &mut Silent)
            .map(|_| ())
            .map_err(|error| error.to_string())
    };
    let forward = [[0, 1], [1, 2], [2, 0]];
    let back = forward.map(|[from, to]| [to, from]);
    let text = "no route from server 1 to server 0, which a ring, which goes both ways, needs: add \
                it to the fabric's routes";
    assert_eq!(refusal(&forward), Err(text.into()));
    let text = "no route from server 0 to server 1, which a ring needs: add it to the fabric's \
                routes";
    assert_eq!(refusal(&back), Err(text.into()));
    assert_eq!(refusal(&[forward, back].concat()), Ok(()));
}
