//! Programs other than a pipeline of MoE layers: streams, handles, groups and priorities.

use super::{NIC, RING, US, carried, compute, one_ring, play, receive, refuse, ring, send, wait};
use crate::Network;
use crate::parts::{Direct, Route};
use crate::testing::{
    DP, EP, EXPERTS, IDLE, PP, WORK, all_to_all, direct, empty_graph, family, mixnet, packet, task,
    with_blocks,
};
use crate::{Options, Outcome, execute};
use lightloom_kernel::Silent;
use lightloom_model::{
    Amount, Circuit, Collective, CollectiveKind, FamilyId, GroupFamily, Handle, Inside, Payload,
    Peer, Priority, Rate, Role, StreamIndex, TableId, Tag, Task, TaskGraph, TaskKind, Time,
    WorkerId, WorkerTable,
};

fn on(stream: u8, task: Task) -> Task {
    Task { stream: StreamIndex(stream), ..task }
}

fn named(handle: u32, task: Task) -> Task {
    Task { handle: Some(Handle(handle)), ..task }
}

fn collective(kind: CollectiveKind, family: FamilyId, bytes: u64) -> Task {
    let collective = Collective {
        kind,
        family: Some(family),
        payload: Payload::Bytes(bytes),
        inside: Inside::NONE,
        asynchronous: false,
    };
    task(TaskKind::Collective(collective), DP)
}

fn in_background(handle: u32, mut task: Task) -> Task {
    if let TaskKind::Collective(collective) = &mut task.kind {
        collective.asynchronous = true;
    }
    named(handle, task)
}

/// Workers of one role, all in one ring.
fn trainers(count: u32, tasks: Vec<Task>) -> TaskGraph {
    let mut graph = empty_graph(1, count, 1);
    graph.families.push(one_ring(count));
    graph.roles[0].tasks = tasks;
    graph
}

/// An all-gather or reduce-scatter over so many servers.
fn half_ring(bytes: u64, members: u64) -> u64 {
    bytes * (members - 1) / members * NIC / 8 + (members - 1) * 2 * US
}

fn recorded(graph: &TaskGraph, network: &Network) -> Outcome {
    let options = Options { timeline_workers: vec![WorkerId(0)], ..Options::default() };
    let outcome = execute(graph, network, &options, &mut Silent).expect("a valid graph");
    assert_eq!(by_category(&outcome), outcome.critical_path);
    outcome
}

/// Picoseconds of each category on the recorded critical path.
fn by_category(outcome: &Outcome) -> Vec<u64> {
    let mut found = vec![0; outcome.categories.len()];
    let spans = &outcome.critical_spans;
    let mut start = 0;
    for (&category, &end) in spans.category.iter().zip(&spans.end) {
        assert!(end > start, "spans follow each other");
        found[usize::from(category)] += end - start;
        start = end;
    }
    found
}

#[test]
fn gathers_on_their_own_stream_run_ahead_of_compute() {
    let (bytes, layers) = (8_000_000, 4);
    let once = half_ring(bytes, 4);
    for (work, expected) in [(2 * once, once + 4 * 2 * once), (once / 2, 4 * once + once / 2)] {
        let mut tasks = Vec::new();
        for layer in 0..layers {
            let gather = collective(CollectiveKind::AllGather, RING, bytes);
            tasks.push(on(1, named(layer, gather)));
            tasks.push(wait(layer));
            tasks.push(compute(work));
        }
        let outcome = recorded(&trainers(4, tasks), &packet(4));
        assert_eq!(outcome.step.0, expected);
        assert_eq!(outcome.critical_path.iter().sum::<u64>(), expected);
        assert_eq!(outcome.roles[0].spent.iter().sum::<u64>(), 4 * expected);
        assert_eq!(outcome.roles[0].spent[DP.index()], 4 * (expected - 4 * work));
        let on_first: Vec<&u8> = (outcome.timeline.stream.iter()).filter(|s| **s == 1).collect();
        assert_eq!(on_first.len(), 4, "one span per gather on stream 1");
        assert_eq!(outcome.tasks, 4 * 12);
    }
}

#[test]
fn a_stream_waits_for_compute_of_another() {
    let bytes = 8_000_000;
    let scatter = collective(CollectiveKind::ReduceScatter, RING, bytes);
    let tasks = vec![
        named(1, compute(50 * US)),
        on(1, wait(1)),
        on(1, named(2, scatter)),
        compute(10 * US),
        wait(2),
    ];
    let outcome = play(&trainers(4, tasks), &packet(4));
    let once = half_ring(bytes, 4);
    assert_eq!(outcome.step.0, 50 * US + once);
    assert_eq!(outcome.critical_path[WORK.index()], 50 * US);
    assert_eq!(outcome.critical_path[DP.index()], once);
}

#[test]
fn a_wait_that_comes_first_is_released_by_compute() {
    // Stream 0 reaches its wait long before stream 1 has done its work.
    let tasks = vec![on(1, compute(30 * US)), on(1, named(7, compute(5 * US))), wait(7)];
    let outcome = recorded(&trainers(1, tasks), &packet(1));
    assert_eq!(outcome.step.0, 35 * US);
    // The wait is charged to what it waits for; nothing runs alongside the two streams.
    assert_eq!(outcome.roles[0].spent[WORK.index()], 35 * US);
    assert!(!outcome.timeline.stream.contains(&2));
}

#[test]
fn the_end_of_the_step_is_that_of_the_last_stream() {
    let tasks = vec![compute(3 * US), on(1, compute(8 * US))];
    let outcome = play(&trainers(2, tasks), &packet(2));
    assert_eq!(outcome.step.0, 8 * US);
    assert_eq!(outcome.roles[0].spent[IDLE.index()], 2 * 5 * US);
}

#[test]
fn a_collective_that_blocks_is_a_ring_and_its_wait() {
    let bytes = 8_000_000;
    let blocking = vec![collective(CollectiveKind::AllReduce, RING, bytes), compute(US)];
    let awaited = vec![ring(CollectiveKind::AllReduce, 3, bytes, 0), wait(3), compute(US)];
    let run = |tasks| play(&trainers(4, tasks), &packet(4));
    let (one, other) = (run(blocking), run(awaited));
    assert_eq!(one.step, other.step);
    assert_eq!(one.roles, other.roles);
    assert_eq!(one.ledger, other.ledger);
}

#[test]
fn a_broadcast_is_a_chain_from_the_first_member() {
    let bytes = 8_000_000;
    let outcome =
        play(&trainers(4, vec![collective(CollectiveKind::Broadcast, RING, bytes)]), &packet(4));
    assert_eq!(outcome.step.0, bytes * NIC / 8 + 3 * 2 * US);
    assert_eq!(carried(&outcome, "dp")[1], 3 * bytes);
    assert_eq!(outcome.flows, 3);
}

/// Single circuits that join each server to the next.
fn in_a_circle(servers: u32) -> Network {
    let mut fixed = Direct {
        nic_rate: Rate(400_000_000_000),
        link_delay: lightloom_model::Duration(US),
        ..Direct::default()
    };
    for a in 0..servers {
        let b = (a + 1) % servers;
        fixed.circuits.push(Circuit { a: a.min(b), b: a.max(b), count: 1 });
        fixed.routes.extend([[a, b], [b, a]].map(|ends| Route { servers: ends.to_vec() }));
    }
    direct(servers, fixed)
}

#[test]
fn a_broadcast_over_fixed_circuits_goes_both_ways_from_its_root() {
    let servers = 4;
    let mut graph = trainers(servers, vec![collective(CollectiveKind::Broadcast, RING, 8_000_000)]);
    graph.families[1].workers = [1, 2, 3, 0].map(WorkerId).to_vec();
    let outcome = play(&graph, &in_a_circle(servers));
    // Half of the buffer in each direction, three hops each.
    assert_eq!(outcome.step.0, 4_000_000 * NIC + 3 * US);
    assert_eq!(carried(&outcome, "dp")[3], 3 * 8_000_000);
    assert_eq!(outcome.flows, 6);
}

/// Nobody sends to the root of a broadcast but who has something else for it.
#[test]
fn circuits_to_the_root_of_a_broadcast_are_free() {
    let mut graph = empty_graph(4, 1, 1);
    graph.families.push(one_ring(4));
    graph.families[1].workers = [1, 2, 3, 0].map(WorkerId).to_vec();
    for role in &mut graph.roles {
        role.tasks = vec![collective(CollectiveKind::Broadcast, RING, 8_000_000)];
    }
    for (tag, sender) in [(0, 0), (1, 2)] {
        graph.roles[sender as usize].tasks.push(on(1, send(1, tag, 4_000_000)));
        graph.roles[1].tasks.push(on(1 + tag as u8, receive(sender, tag)));
    }
    let outcome = play(&graph, &in_a_circle(4));
    assert_eq!(outcome.step.0, 4_000_000 * NIC + 3 * US);
}

#[test]
fn a_buffer_goes_in_equal_parts_to_all_members() {
    let mut graph = empty_graph(1, 1, 4);
    graph.roles[0].tasks = vec![collective(CollectiveKind::AllToAll, EXPERTS, 8_000_000)];
    let outcome = play(&graph, &packet(4));
    // A quarter stays on the server, over NVSwitch.
    assert_eq!(outcome.step.0, 6_000_000 * NIC / 8 + 2 * US);
    assert_eq!(carried(&outcome, "dp")[..2], [8_000_000, 24_000_000]);
    let over_circuits = play(&graph, &mixnet(4));
    assert!(over_circuits.circuits.decisions > 0, "its demand is known before it is reached");
}

/// Two all-to-alls from server 0 to server 1, the second this much later.
fn overlapping(sizes: [u32; 2], priorities: [u8; 2], later: u64) -> TaskGraph {
    let blocks = sizes.map(|size| [0, size, 0, 0]);
    let mut graph = with_blocks(empty_graph(1, 1, 2), &[&blocks[0], &blocks[1]]);
    let start = |block: u32| {
        let task = in_background(block, all_to_all(block, false));
        Task { priority: Priority(priorities[block as usize]), ..task }
    };
    let wait = |block| Task { layer: block as u16, ..wait(block) };
    graph.roles[0].tasks = vec![start(0), compute(later), start(1), wait(1), wait(0)];
    graph
}

/// When server 1 has what each of them sends.
fn ends(graph: &TaskGraph) -> [u64; 2] {
    let options = Options { timeline_workers: vec![WorkerId(1)], ..Options::default() };
    let outcome = execute(graph, &packet(2), &options, &mut Silent).expect("a valid graph");
    let line = &outcome.timeline;
    let done: Vec<u64> = (0..line.end.len())
        .filter(|&row| line.stream[row] == 1 && line.category[row] == EP.0)
        .map(|row| line.end[row])
        .collect();
    [done[1], done[0]]
}

#[test]
fn overlapping_all_to_alls_share_by_priority() {
    let sizes = [8_000_000, 4_000_000];
    let [long, short] = sizes.map(|size| u64::from(size) * NIC / 8);
    let latency = 2 * US;
    let shared = ends(&overlapping(sizes, [0, 0], 0));
    assert_eq!(shared, [long + short + latency, 2 * short + latency]);
    assert_eq!(ends(&overlapping(sizes, [5, 5], 0)), shared, "only differences matter");
    let second = ends(&overlapping(sizes, [0, 1], 0));
    assert_eq!(second, [long + short + latency, short + latency]);
    let first = ends(&overlapping(sizes, [9, 1], 0));
    assert_eq!(first, [long + latency, long + short + latency]);
    let later = ends(&overlapping(sizes, [0, 1], 3 * US));
    assert_eq!(later, [long + short + latency, 3 * US + short + latency]);
}

#[test]
fn an_all_to_all_in_the_background_costs_nothing_once_it_is_done() {
    let mut graph = overlapping([80_000, 80_000], [0, 0], 50 * US);
    graph.roles[0].tasks.insert(3, compute(50 * US));
    let outcome = play(&graph, &packet(2));
    assert_eq!(outcome.step.0, 100 * US);
    assert_eq!(outcome.critical_path[WORK.index()], 100 * US);
}

#[test]
fn another_stream_waits_for_an_all_to_all_that_nobody_has_reached() {
    let mut graph = with_blocks(empty_graph(1, 1, 2), &[&[0, 800_000, 800_000, 0]]);
    graph.roles[0].tasks =
        vec![on(1, compute(20 * US)), on(1, named(4, all_to_all(0, true))), wait(4), compute(US)];
    let outcome = play(&graph, &packet(2));
    assert_eq!(outcome.step.0, 20 * US + 800_000 * NIC / 8 + 2 * US + US);
    assert_eq!(outcome.roles[0].spent[EP.index()], 2 * (outcome.step.0 - US));
}

#[test]
fn groups_of_one_worker_need_nobody() {
    let mut graph = with_blocks(empty_graph(1, 2, 1), &[&[7_200_000]]);
    let local = in_background(0, all_to_all(0, false));
    graph.roles[0].tasks = vec![local, compute(US), wait(0)];
    let outcome = play(&graph, &packet(2));
    // 900 kB per GPU at 450 GB/s after 2 us, alongside the compute.
    assert_eq!(outcome.step.0, 4 * US);
    assert_eq!(carried(&outcome, "ep"), [2 * 7_200_000, 0, 0, 0, 0]);
    assert_eq!(outcome.flows, 0);
}

fn to(place: u32, tag: u32, bytes: Amount) -> Task {
    let peer = Peer::Member { family: FamilyId(0), place };
    task(TaskKind::Send { peer, tag: Tag(tag), bytes }, PP)
}

fn from(place: u32, tag: u32) -> Task {
    task(TaskKind::Receive { peer: Peer::Member { family: FamilyId(0), place }, tag: Tag(tag) }, PP)
}

/// Worker 0 serves, the others push what a table says and pull 1 MB.
fn parameter_server(pushes: &[u64]) -> TaskGraph {
    let count = pushes.len() as u32 + 1;
    let mut graph = empty_graph(1, 1, count);
    graph.families[0] = family("star", &[count]);
    let values = std::iter::once(0).chain(pushes.iter().copied()).collect();
    graph.tables = vec![WorkerTable { name: "push".into(), entries: 1, values }];
    let push = Amount::Entry { table: TableId(0), entry: 0 };
    let trainers = vec![compute(10 * US), to(0, 1, push), from(0, 2)];
    let mut served: Vec<Task> = (1..count).map(|place| from(place, 1)).collect();
    served.extend((1..count).map(|place| to(place, 2, Amount::Fixed(1_000_000))));
    let role = |name: &str, workers: std::ops::Range<u32>, tasks| Role {
        name: name.into(),
        workers: workers.map(WorkerId).collect(),
        tasks,
    };
    graph.roles = vec![role("server", 0..1, served), role("trainer", 1..count, trainers)];
    graph
}

#[test]
fn pushes_and_pulls_share_the_link_of_a_parameter_server() {
    let outcome = play(&parameter_server(&[1_000_000; 5]), &packet(6));
    let push = 5 * 1_000_000 * NIC / 8 + 2 * US;
    assert_eq!(outcome.step.0, 10 * US + 2 * push);
    assert_eq!(carried(&outcome, "pp")[1], 10 * 1_000_000);
    // The server idles until the pushes begin.
    assert_eq!(outcome.roles[0].spent[IDLE.index()], 10 * US + push);
    assert_eq!(outcome.roles[1].workers, 5);
    let uneven = play(&parameter_server(&[3_000_000, 1_000_000]), &packet(3));
    assert_eq!(uneven.step.0, 10 * US + 4_000_000 * NIC / 8 + 2_000_000 * NIC / 8 + 4 * US);
}

#[test]
fn messages_between_members_are_matched_worker_by_worker() {
    let mut graph = parameter_server(&[1; 2]);
    graph.roles[0].tasks.remove(1);
    assert_eq!(refuse(&graph, &packet(3)), "no receive matches tag 1 from worker 2 to worker 0");
    graph = parameter_server(&[1; 2]);
    graph.roles[1].tasks[1] = to(3, 1, Amount::Fixed(1));
    assert_eq!(
        refuse(&graph, &packet(3)),
        "role 'trainer': worker 1 has no other worker at place 3 of its group in family 'star'"
    );
}

#[test]
fn members_issue_the_same_collectives_in_the_same_order() {
    let mut graph = empty_graph(2, 1, 1);
    graph.families.push(one_ring(2));
    let reduce = |bytes| collective(CollectiveKind::AllReduce, RING, bytes);
    graph.roles[0].tasks = vec![reduce(1), reduce(2)];
    graph.roles[1].tasks = vec![reduce(1), compute(1), reduce(3)];
    let start = "group 0 of family 'dp': roles 'stage 0' and 'stage 1' disagree on collective 1: ";
    assert_eq!(refuse(&graph, &packet(2)), format!("{start}task 1 of one and task 2 of the other"));
    graph.roles[1].tasks.pop();
    assert_eq!(
        refuse(&graph, &packet(2)),
        format!("{start}task 1 of one and no task of the other")
    );
}

#[test]
fn handles_belong_to_one_task_and_one_wait() {
    let graph = |tasks| trainers(1, tasks);
    let twice = vec![named(1, compute(1)), named(1, compute(1)), wait(1)];
    assert_eq!(
        refuse(&graph(twice), &packet(1)),
        "role 'stage 0', task 1 (compute): handle 1 is used twice"
    );
    let again = vec![named(1, compute(1)), wait(1), wait(1)];
    assert_eq!(
        refuse(&graph(again), &packet(1)),
        "role 'stage 0', task 2 (wait): handle 1 is waited for twice"
    );
}

#[test]
fn a_stuck_stream_is_named() {
    let mut graph = empty_graph(2, 1, 1);
    graph.families.push(one_ring(2));
    let reduce = || collective(CollectiveKind::AllReduce, RING, 8);
    let cross = |from_other: u32, to_other: u32, other| {
        vec![super::receive(other, from_other), super::send(other, to_other, 1)]
    };
    graph.roles[0].tasks = vec![on(1, reduce())];
    graph.roles[0].tasks.extend(cross(0, 1, 1).into_iter().map(|task| on(1, task)));
    graph.roles[1].tasks = cross(1, 0, 0);
    graph.roles[1].tasks.push(reduce());
    assert_eq!(
        refuse(&graph, &packet(2)),
        "deadlock at 0 s: worker 0 (role 'stage 0', stream 1) waits at task 0, all-reduce over \
         family 'dp' that not all members reach; 2 of 2 workers are stuck"
    );
}

/// A collective that takes a share of the worker's speed delays what is computed meanwhile.
#[test]
fn computation_beside_a_collective_that_slows_it_down_ends_later() {
    let bytes = 8_000_000;
    let once = half_ring(bytes, 4);
    let run = |work: u64, slowed_ppm: u32| {
        let gather = in_background(0, collective(CollectiveKind::AllGather, RING, bytes));
        // Whatever the wait is called, time is charged to what it waits for.
        let wait = task(TaskKind::Wait { handle: Handle(0), slowed_ppm }, EP);
        play(&trainers(4, vec![gather, compute(work), wait]), &packet(4))
    };
    let nearly = once / 5 * 4;
    let cases =
        [(once / 2, 0), (once / 2, 300), (nearly, 300), (once, 300), (3 * once, 250), (0, 999)];
    for (work, share) in cases {
        let lost = once * share / 1000;
        let outcome = run(work, share as u32 * 1000);
        let step = once.max(work + lost);
        assert_eq!(outcome.step.0, step, "{work} ps at a share of {share}");
        assert_eq!(outcome.roles[0].spent[WORK.index()], 4 * work);
        assert_eq!(outcome.roles[0].spent[DP.index()], 4 * (step - work));
        // What ends last explains the step: the collective, or computation and what it lost.
        let of_dp = if once > work + lost { once } else { lost };
        assert_eq!(outcome.critical_path[DP.index()], of_dp);
        assert_eq!(outcome.critical_path[WORK.index()], step - of_dp);
    }
}

/// A ring of few members takes as long as the whole one, of which the others are absent.
#[test]
fn members_that_are_absent_count() {
    let kinds = [CollectiveKind::AllReduce, CollectiveKind::ReduceScatter];
    for kind in [kinds[0], kinds[1], CollectiveKind::AllGather] {
        for (present, absent) in [(2, 1), (2, 5), (3, 3), (4, 63)] {
            let step = |workers: u32, absent| {
                let mut graph = empty_graph(1, workers, 1);
                graph.families.push(GroupFamily { absent, ..one_ring(workers) });
                graph.roles[0].tasks = vec![collective(kind, RING, 8_000_001)];
                play(&graph, &packet(workers)).step
            };
            let whole = step(present * (1 + absent), 0);
            assert_eq!(step(present, absent), whole, "{kind:?} of {present} and {absent} each");
            assert!(step(present, 0) < whole);
        }
    }
}

/// Collectives are matched within their family, whatever others their members take part in.
#[test]
fn collectives_of_other_families_come_between() {
    let pair = FamilyId(2);
    let mut graph = empty_graph(2, 2, 1);
    graph.families.push(one_ring(4));
    // Only the workers of the second role also reduce among themselves.
    graph.families.push(GroupFamily {
        name: "pair".into(),
        offsets: vec![0, 2],
        workers: vec![WorkerId(2), WorkerId(3)],
        absent: 0,
    });
    let reduce = |family| collective(CollectiveKind::AllReduce, family, 8_000_000);
    graph.roles[0].tasks = vec![reduce(RING), reduce(RING)];
    graph.roles[1].tasks = vec![reduce(pair), reduce(RING), reduce(pair), reduce(RING)];
    let outcome = play(&graph, &packet(4));
    let (all, two) = (2 * half_ring(8_000_000, 4), 2 * half_ring(8_000_000, 2));
    assert_eq!(outcome.step.0, 2 * all + 2 * two);
    assert_eq!(outcome.roles[0].spent[DP.index()], 2 * outcome.step.0);
}

#[test]
fn an_observer_hears_now_and_then_how_many_tasks_are_done() {
    let rounds = 70_000;
    let mut graph = empty_graph(2, 1, 1);
    for tag in 0..rounds {
        graph.roles[0].tasks.extend([super::send(1, tag, 1000), compute(US)]);
        graph.roles[1].tasks.push(super::receive(0, tag));
    }
    let mut heard = Vec::new();
    let mut watch = |now: Time, done: u64| {
        heard.push((now, done));
        std::ops::ControlFlow::Continue(())
    };
    let outcome = execute(&graph, &packet(2), &Options::default(), &mut watch).unwrap();
    assert!(heard.is_sorted() && heard.iter().all(|&(now, _)| now.0 <= outcome.step.0));
    assert_eq!(heard.len() as u64, outcome.events / 50_000);
    assert!(heard[0].1 > 0 && heard[heard.len() - 1].1 < outcome.tasks);
    assert_eq!(outcome.tasks, crate::total_tasks(&graph));
}
