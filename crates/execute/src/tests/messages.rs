//! Messages: several paths, priorities, and what their ends wait for.

use super::{NIC, US, carried, compute, line, play, receive, send, spent, wait};
use crate::network::Network;
use crate::parts::{Direct, Route};
use crate::testing::{IDLE, PP, direct, empty_graph, packet, with_blocks};
use crate::{Options, execute};
use lightloom_kernel::Silent;
use lightloom_model::{
    Amount, Circuit, Duration, Handle, Priority, StartUp, Task, TaskGraph, TaskKind, WorkerId,
};
use proptest::prelude::*;

fn urgent(priority: u8, task: Task) -> Task {
    Task { priority: Priority(priority), ..task }
}

/// The first role sends messages of these sizes and priorities, each to another server.
fn fan_out(messages: &[(u64, u8)]) -> TaskGraph {
    let mut graph = empty_graph(1 + messages.len() as u32, 1, 1);
    for (to, &(bytes, priority)) in (1..).zip(messages) {
        graph.roles[0].tasks.push(urgent(priority, send(to, 0, bytes)));
        graph.roles[to as usize].tasks = vec![receive(0, 0)];
    }
    graph
}

/// When each of the receivers has its message.
fn arrivals(graph: &TaskGraph, network: &Network) -> Vec<u64> {
    let receivers = 1..graph.workers() as u32;
    let timeline_workers = receivers.clone().map(WorkerId).collect();
    let options = Options { timeline_workers, ..Options::default() };
    let line = execute(graph, network, &options, &mut Silent).expect("a valid graph").timeline;
    let end = |worker: u32| {
        let rows = line.worker.iter().zip(&line.end);
        rows.filter(|(other, _)| **other == worker).map(|(_, &end)| end).max()
    };
    receivers.map(|worker| end(worker).expect("it has waited")).collect()
}

/// Fixed circuits from server 0 to server 2: two over server 1, and so many directly.
fn two_routes(own: u32, longer_first: bool) -> Direct {
    let mut network = line();
    network.circuits.push(Circuit { a: 0, b: 2, count: own });
    let place = if longer_first { network.routes.len() } else { 0 };
    network.routes.insert(place, Route { servers: vec![0, 2] });
    network
}

/// Two messages of 100 us are sent at once; the receiver computes for 100 us after the first, and
/// has the second then. Side by side both would arrive at 200 us.
#[test]
fn messages_of_a_pair_go_one_after_another() {
    let long = 100 * US;
    let bytes = 8 * long / NIC;
    let mut graph = empty_graph(2, 1, 1);
    graph.roles[0].tasks = vec![send(1, 0, bytes), send(1, 1, 0), send(1, 2, bytes)];
    graph.roles[1].tasks = vec![receive(0, 0), compute(long), receive(0, 1), receive(0, 2)];
    let outcome = play(&graph, &packet(2));
    assert_eq!(outcome.step.0, 2 * long + 2 * US);
}

#[test]
fn messages_of_higher_priority_go_first() {
    let bytes = [4_000_000_u64, 2_000_000, 1_000_000];
    let alone = bytes.map(|bytes| bytes * NIC / 8);
    let latency = 2 * US;
    let run = |priorities: [u8; 3]| {
        let messages: Vec<(u64, u8)> = bytes.into_iter().zip(priorities).collect();
        arrivals(&fan_out(&messages), &packet(4))
    };
    let [long, middle, short] = alone;
    let equal =
        vec![long + middle + short + latency, 2 * middle + short + latency, 3 * short + latency];
    assert_eq!(run([0, 0, 0]), equal);
    assert_eq!(run([7, 7, 7]), equal);
    let strict = [long, long + middle, long + middle + short].map(|end| end + latency);
    assert_eq!(run([9, 5, 1]), strict);
    let last_first = [long + middle + short, middle + short, short].map(|end| end + latency);
    assert_eq!(run([0, 1, 2]), last_first);
}

#[test]
fn a_message_is_there_when_the_last_of_its_parts_is() {
    // Half of the bytes takes the relay, whose path is 5 us long; the direct one is 1 us long.
    for longer_first in [false, true] {
        let network = direct(3, two_routes(2, longer_first));
        let mut graph = empty_graph(3, 1, 1);
        graph.roles[0].tasks = vec![send(2, 0, 800_000)];
        graph.roles[2].tasks = vec![receive(0, 0)];
        let outcome = play(&graph, &network);
        assert_eq!(outcome.step.0, 200_000 * NIC + 5 * US);
        // A message without bytes is as late as that of the longest of its paths.
        graph.roles[0].tasks = vec![send(2, 0, 0)];
        assert_eq!(play(&graph, &network).step.0, 5 * US);
    }
}

#[test]
fn software_begins_every_message_between_servers_and_none_inside() {
    let start_up = StartUp { message: Duration(14 * US), ..StartUp::default() };
    let with = |network: Network| Network { start_up, ..network };
    let graph = fan_out(&[(1_000_000, 0)]);
    let step = |network: &Network| play(&graph, network).step.0;
    assert_eq!(step(&with(packet(2))), step(&packet(2)) + 14 * US);
    let mut inside = graph.clone();
    inside.gpus_per_worker = 4;
    inside.worker_server = vec![0, 0];
    assert_eq!(play(&inside, &with(packet(1))), play(&inside, &packet(1)));
}

/// Where ranks have separate NICs, a message between whole servers uses all of them evenly.
#[test]
fn messages_use_the_nics_of_all_ranks() {
    let mut graph = fan_out(&[(8_000_000, 0)]);
    let whole = play(&graph, &packet(2)).step;
    graph = with_blocks(graph, &[&[0]]);
    let divided = |mut graph: TaskGraph, ranks: u32| {
        graph.gpus_per_worker = 2 * ranks;
        graph.demands[0].ranks_per_member = ranks;
        graph.demands[0].rank_counts = vec![0; 2 * (ranks * ranks) as usize];
        graph
    };
    assert_eq!(play(&divided(graph.clone(), 4), &packet(2)).step, whole);
    // A worker of half of a server has half of its NICs.
    let half = play(&divided(graph, 2), &packet(2)).step.0;
    assert_eq!(half, 2 * (whole.0 - 2 * US) + 2 * US);
}

#[test]
fn routes_share_a_message_by_their_narrowest_hops() {
    // Two circuits and then six over the relay, two directly: half of the bytes each.
    let mut network = two_routes(2, false);
    network.circuits[1].count = 6;
    let mut graph = empty_graph(3, 1, 1);
    graph.roles[0].tasks = vec![send(2, 0, 800_000)];
    graph.roles[2].tasks = vec![receive(0, 0)];
    let outcome = play(&graph, &direct(3, network));
    assert_eq!(outcome.step.0, 200_000 * NIC + 5 * US);
    assert_eq!(carried(&outcome, "pp")[3..], [800_000, 400_000]);
}

/// Sizes by worker: each worker of a role sends its own.
#[test]
fn every_worker_sends_what_its_table_says() {
    let mut graph = empty_graph(2, 3, 1);
    let values = vec![1_000_000, 5_000_000, 3_000_000, 0, 0, 0];
    graph.tables = vec![lightloom_model::WorkerTable { name: "sizes".into(), entries: 1, values }];
    let mut task = send(1, 0, 0);
    let TaskKind::Send { bytes, .. } = &mut task.kind else { unreachable!() };
    *bytes = Amount::Entry { table: lightloom_model::TableId(0), entry: 0 };
    graph.roles[0].tasks = vec![task];
    graph.roles[1].tasks = vec![receive(0, 0)];
    let outcome = play(&graph, &packet(6));
    let times = [1, 5, 3].map(|millions: u64| millions * 1_000_000 * NIC / 8 + 2 * US);
    assert_eq!(outcome.step.0, times[1]);
    assert_eq!(spent(&outcome, 1, PP), times.iter().sum::<u64>());
    assert_eq!(spent(&outcome, 1, IDLE), times.iter().map(|time| times[1] - time).sum::<u64>());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// A receiver idles until the message is sent, then it waits for the transfer, if at all.
    #[test]
    fn waiting_is_idle_before_the_send_and_transfer_after_it(
        bytes in 1_u64..5_000_000, sent_at in 0..100 * US, ready_at in 0..200 * US,
    ) {
        let mut graph = empty_graph(2, 1, 1);
        graph.roles[0].tasks = vec![compute(sent_at), send(1, 0, bytes)];
        graph.roles[1].tasks = vec![compute(ready_at), receive(0, 0)];
        let outcome = play(&graph, &packet(2));
        let arrival = sent_at + (bytes * NIC).div_ceil(8) + 2 * US;
        prop_assert_eq!(outcome.step.0, arrival.max(ready_at));
        let begin = ready_at.max(sent_at);
        prop_assert_eq!(spent(&outcome, 1, PP), arrival.saturating_sub(begin));
        prop_assert_eq!(spent(&outcome, 1, IDLE), sent_at.saturating_sub(ready_at));
        let on_path = if arrival > ready_at { arrival - sent_at } else { 0 };
        prop_assert_eq!(outcome.critical_path[PP.index()], on_path);
    }

    /// Messages of one sender that begin at once are done after all of their bytes, whatever the
    /// priorities; among equals the smaller one is never later.
    #[test]
    fn priorities_only_divide_the_time_that_all_messages_take(
        messages in prop::collection::vec((1_u64..3_000_000, 0_u8..3), 1..7),
    ) {
        let ends = arrivals(&fan_out(&messages), &packet(1 + messages.len() as u32));
        let all: u64 = messages.iter().map(|(bytes, _)| bytes).sum();
        let last = *ends.iter().max().expect("a message");
        prop_assert!(last.abs_diff(all * NIC / 8 + 2 * US) <= 20, "{last} of {all}");
        for (one, end) in messages.iter().zip(&ends) {
            // Nobody is earlier than all urgent bytes before it, and nobody waits for less urgent.
            let higher = messages.iter().filter(|other| other.1 > one.1).map(|other| other.0);
            let floor = higher.sum::<u64>() + one.0;
            let equal = messages.iter().filter(|other| other.1 == one.1);
            let ceiling = floor - one.0 + equal.map(|other| other.0.min(one.0)).sum::<u64>();
            let end = end - 2 * US;
            let urgent_first = messages.iter().any(|other| other.1 > one.1);
            prop_assert!(urgent_first || end + 20 >= floor * NIC / 8);
            prop_assert!(end <= ceiling * NIC / 8 + 40, "{end} {ceiling}");
        }
    }
}

/// A message for whose arrival its sender can wait.
fn meet(to: u32, tag: u32, bytes: u64) -> Task {
    Task { handle: Some(Handle(tag)), ..send(to, tag, bytes) }
}

/// Who comes first to a rendezvous waits for the other; both go on when the message is there.
#[test]
fn both_ends_of_a_rendezvous_go_on_when_it_is_over() {
    let (long, bytes) = (100 * US, 100 * US * 8 / NIC);
    for (sender, receiver) in [(0, 300), (300, 0), (70, 70)] {
        let late = sender.max(receiver) * US;
        let mut graph = empty_graph(2, 1, 1);
        graph.roles[0].tasks = vec![compute(sender * US), meet(1, 0, bytes), wait(0)];
        graph.roles[1].tasks = vec![compute(receiver * US), receive(0, 0)];
        let outcome = play(&graph, &packet(2));
        let over = late + long + 2 * US;
        assert_eq!(outcome.step.0, over);
        // without a rendezvous the message is on its way as soon as it is sent
        graph.roles[0].tasks = vec![compute(sender * US), send(1, 0, bytes)];
        let asynchronous = play(&graph, &packet(2)).step.0;
        assert_eq!(asynchronous, (receiver * US).max(sender * US + long + 2 * US));
        graph.roles[0].tasks =
            vec![compute(sender * US), meet(1, 0, bytes), compute(over), wait(0)];
        assert_eq!(play(&graph, &packet(2)).step.0, sender * US + over);
    }
}

#[test]
fn sends_that_wait_for_each_other_are_a_deadlock_unless_both_receive_meanwhile() {
    let program = |other: u32, tag: u32, waits_first: bool| {
        let (sends, gets) = (meet(other, tag, 1000), receive(other, 1 - tag));
        if waits_first { vec![sends, wait(tag), gets] } else { vec![sends, gets, wait(tag)] }
    };
    let mut graph = empty_graph(2, 1, 1);
    for (waits_first, other_waits_first) in [(true, false), (false, false), (true, true)] {
        graph.roles[0].tasks = program(1, 0, waits_first);
        graph.roles[1].tasks = program(0, 1, other_waits_first);
        let result = execute(&graph, &packet(2), &Options::default(), &mut Silent);
        if waits_first && other_waits_first {
            let error = result.expect_err("nobody receives").to_string();
            assert!(error.contains("deadlock at 0 s: worker 0"), "{error}");
            assert!(error.contains("the wait for handle 0"), "{error}");
        } else {
            // one message waits for the other where one end receives later
            let messages = 1 + u64::from(waits_first);
            let step = result.expect("no deadlock").step;
            assert_eq!(step.0, messages * (1000 * NIC / 8 + 2 * US));
        }
    }
}

proptest! {
    /// Of a chain of stages that pass messages on, none is earlier for waiting.
    #[test]
    fn a_rendezvous_is_never_earlier(
        durations in prop::collection::vec(prop::collection::vec(0_u64..50, 3), 2..5),
        sizes in prop::collection::vec(0_u64..3_000_000, 3),
    ) {
        let run = |is_rendezvous: bool| {
            let stages = durations.len() as u32;
            let mut graph = empty_graph(stages, 1, 1);
            for (stage, times) in (0..).zip(&durations) {
                let tasks = &mut graph.roles[stage as usize].tasks;
                for (tag, (&time, &bytes)) in (0..).zip(times.iter().zip(&sizes)) {
                    if stage > 0 {
                        tasks.push(receive(stage - 1, tag));
                    }
                    tasks.push(compute(time * US));
                    if stage + 1 < stages && is_rendezvous {
                        tasks.extend([meet(stage + 1, tag, bytes), wait(tag)]);
                    } else if stage + 1 < stages {
                        tasks.push(send(stage + 1, tag, bytes));
                    }
                }
            }
            play(&graph, &packet(stages)).step.0
        };
        prop_assert!(run(true) >= run(false));
    }
}
