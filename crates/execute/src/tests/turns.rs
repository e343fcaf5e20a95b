//! Circuits whose ports take turns, against times by hand.

use super::{RING, US, compute, one_ring, play, receive, refuse, ring, send, wait};
use crate::network::{Network, PartConfig};
use crate::parts::{Crossbars, Keeping, Lateness, MatchingFinder, TurnRules, TurnTiming};
use crate::testing::{
    DP, EP, EXPERTS, GBPS, all_to_all, empty_graph, eps, family, packet, task, with_blocks,
};
use crate::{Options, Outcome, PacketTransport, Plugins, TransferModel, execute, execute_as};
use lightloom_kernel::Silent;
use lightloom_model::{
    AllToAll, Collective, CollectiveKind, Duration, FamilyId, Payload, Priority, Rate, Task,
    TaskGraph, TaskKind, Time, WorkerId,
};
use lightloom_schedule::permutation::Method;
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::sync::Arc;

const LATENCY: u64 = 2 * US;
const GUARD: u64 = US;
const DECISION: u64 = 50 * US;

/// Eight NICs of 100 Gb/s: 10 ps for a byte of a server.
const BYTE: u64 = 10;

fn rules() -> TurnRules {
    let timing =
        TurnTiming { latency: Duration(LATENCY), guard: Duration(GUARD), ..TurnTiming::default() };
    let finders = vec![finder(Method::Bvn, DECISION)];
    TurnRules {
        timing,
        lower_tiers: Vec::new(),
        finders,
        lateness: None,
        do_all_wait: false,
        keeping: Keeping::No,
    }
}

/// A method that takes so long for each member.
fn finder(method: Method, each: u64) -> MatchingFinder {
    let decision = (0..16).map(|members| Duration(members * each)).collect();
    MatchingFinder { method, decision }
}

fn crossbars(rules: TurnRules) -> Crossbars {
    Crossbars { nics: 8, nic_rate: Rate(100 * GBPS), rules, failed: BTreeSet::new() }
}

fn network_of(servers: u32, crossbars: Crossbars) -> Network {
    let parts: Vec<Arc<dyn PartConfig>> = vec![Arc::new(crossbars)];
    Network { parts, all_to_all: AllToAll::Hierarchical, ..packet(servers) }
}

fn network(servers: u32) -> Network {
    network_of(servers, crossbars(rules()))
}

fn recorded(graph: &TaskGraph, network: &Network) -> Outcome {
    let options = Options { record_decisions: true, ..Options::default() };
    execute(graph, network, &options, &mut Silent).expect("a valid graph")
}

/// A ring of workers 0 to `members - 1`, each of which first computes for so long.
fn one_collective(kind: CollectiveKind, bytes: u64, ready: &[u64]) -> TaskGraph {
    let mut graph = empty_graph(ready.len() as u32, 1, 1);
    graph.families.push(one_ring(ready.len() as u32));
    for (role, &ready) in graph.roles.iter_mut().zip(ready) {
        role.tasks = vec![compute(ready), ring(kind, 0, bytes, 0), wait(0)];
    }
    graph
}

#[test]
fn a_ring_takes_a_slot_for_each_of_its_steps() {
    for (kind, steps) in [(CollectiveKind::AllReduce, 6), (CollectiveKind::AllGather, 3)] {
        let graph = one_collective(kind, 4_000_000, &[0; 4]);
        let slot = 1_000_000 * BYTE + LATENCY + GUARD;
        let outcome = play(&graph, &network(4));
        assert_eq!(outcome.step, Duration(steps * slot), "{kind:?}");
        assert_eq!((outcome.turns.turns, outcome.turns.slots), (1, steps));
        // Slots of 8 us carry 500 kB: each step takes two of them.
        let length = Some(Duration(8 * US));
        let timing = TurnTiming { length, ..rules().timing };
        let slotted = network_of(4, crossbars(TurnRules { timing, ..rules() }));
        assert_eq!(play(&graph, &slotted).step, Duration(2 * steps * 8 * US));
    }
}

#[test]
fn chunks_of_a_broadcast_follow_each_other_along_the_chain() {
    let graph = one_collective(CollectiveKind::Broadcast, 3_000_000, &[0; 4]);
    // Three chunks over three edges: five slots.
    let slot = 1_000_000 * BYTE + LATENCY + GUARD;
    assert_eq!(play(&graph, &network(4)).step, Duration(5 * slot));
}

#[test]
fn the_last_member_has_all_of_a_ring_wait() {
    let ready = [0, 70 * US, 3 * US];
    let graph = one_collective(CollectiveKind::ReduceScatter, 3_000_000, &ready);
    let slot = 1_000_000 * BYTE + LATENCY + GUARD;
    assert_eq!(play(&graph, &network(3)).step, Duration(70 * US + 2 * slot));
}

#[test]
fn a_message_takes_one_slot_and_fixed_slots_begin_by_the_clock() {
    let mut graph = empty_graph(2, 1, 1);
    graph.roles[0].tasks = vec![compute(5 * US), send(1, 0, 1_000_000)];
    graph.roles[1].tasks = vec![receive(0, 0)];
    let sent = 10 * US + LATENCY + GUARD;
    assert_eq!(play(&graph, &network(2)).step, Duration(5 * US + sent));
    // It is ready at 5 us and waits for the slot that begins at 20 us.
    let timing = TurnTiming { length: Some(Duration(20 * US)), ..rules().timing };
    let slotted = network_of(2, crossbars(TurnRules { timing, ..rules() }));
    let outcome = play(&graph, &slotted);
    assert_eq!(outcome.step, Duration(40 * US));
    assert_eq!(outcome.turns.waiting, u128::from(15 * US));
}

/// Rings over families of these workers, of so many bytes, which nobody waits for at first.
fn background_rings(rings: &[(Vec<u32>, u64)], workers: u32) -> TaskGraph {
    let mut graph = empty_graph(workers, 1, 1);
    for (members, _) in rings {
        let workers = members.iter().map(|&worker| WorkerId(worker)).collect();
        let offsets = vec![0, members.len() as u32];
        graph.families.push(lightloom_model::GroupFamily { offsets, workers, ..family("dp", &[]) });
    }
    for (worker, role) in (0..).zip(&mut graph.roles) {
        let own = (0..).zip(rings).filter(|(_, (members, _))| members.contains(&worker));
        for (number, &(_, bytes)) in own.clone() {
            let mut task = ring(CollectiveKind::AllGather, number, bytes, 0);
            if let TaskKind::Collective(collective) = &mut task.kind {
                collective.family = Some(FamilyId(RING.0 + number));
            }
            role.tasks.push(task);
        }
        role.tasks.push(compute(US));
        role.tasks.extend(own.map(|(number, _)| wait(number)));
    }
    graph
}

/// The second ring waits for the first; the third, which shares no port with that, goes ahead.
#[test]
fn a_ring_goes_ahead_of_one_that_waits_and_stops_for_it() {
    let overhead = LATENCY + GUARD;
    let all = |third| {
        let rings = [(vec![0, 2], 2_000_000), (vec![0, 1, 2, 3], 4_000_000), (vec![1, 3], third)];
        play(&background_rings(&rings, 4), &network(4))
    };
    let (first, second) = (10 * US + overhead, 3 * (10 * US + overhead));
    let short = all(1_000_000);
    assert_eq!((short.step, short.turns.turns), (Duration(first + second), 3));
    // 20 us of which it has sent 12 when the first is over; then its last bytes arrive.
    let long = all(4_000_000);
    let step = first + LATENCY + second + 8 * US + overhead;
    assert_eq!((long.step, long.turns.turns), (Duration(step), 4));
}

/// Two rings over families of these workers, which begin together.
fn two_rings(first: &[u32], second: &[u32], workers: u32) -> TaskGraph {
    let mut graph = empty_graph(workers, 1, 1);
    for members in [first, second] {
        let workers = members.iter().map(|&worker| WorkerId(worker)).collect();
        let offsets = vec![0, members.len() as u32];
        graph.families.push(lightloom_model::GroupFamily { offsets, workers, ..family("dp", &[]) });
    }
    for (worker, role) in (0..).zip(&mut graph.roles) {
        for (handle, members) in [(0, first), (1, second)] {
            if members.contains(&worker) {
                let mut task = ring(CollectiveKind::AllGather, handle, 2_000_000, 0);
                if let TaskKind::Collective(collective) = &mut task.kind {
                    collective.family = Some(FamilyId(RING.0 + handle));
                }
                role.tasks.push(task);
            }
        }
        for (handle, members) in [(0, first), (1, second)] {
            if members.contains(&worker) {
                role.tasks.push(wait(handle));
            }
        }
    }
    graph
}

#[test]
fn collectives_that_share_a_nic_take_turns_and_others_do_not() {
    let slot = 1_000_000 * BYTE + LATENCY + GUARD;
    let shared = recorded(&two_rings(&[0, 1], &[1, 2], 3), &network(3));
    assert_eq!(shared.step, Duration(2 * slot));
    assert_eq!(shared.turns.waiting, u128::from(slot));
    let apart = recorded(&two_rings(&[0, 1], &[2, 3], 4), &network(4));
    assert_eq!((apart.step, apart.turns.waiting), (Duration(slot), 0));
}

#[test]
fn workers_of_one_server_have_nics_of_their_own() {
    // Two workers of four GPUs on each of two servers: two rings of four NICs each.
    let mut graph = two_rings(&[0, 2], &[1, 3], 4);
    graph.gpus_per_worker = 4;
    graph.worker_server = vec![0, 0, 1, 1];
    let slot = 1_000_000 * 2 * BYTE + LATENCY + GUARD;
    assert_eq!(play(&graph, &network(2)).step, Duration(slot));
    let three = Crossbars { nics: 3, ..crossbars(rules()) };
    assert!(refuse(&graph, &network_of(2, three)).contains("3 NICs of a server of 8 GPUs cannot"));
}

/// An all-to-all of this demand, by members that are ready at these times.
fn one_all_to_all(demand: &[u32], ready: &[u64], tasks: &[Task]) -> TaskGraph {
    let members = ready.len() as u32;
    let mut graph = with_blocks(empty_graph(1, 1, members), &[demand]);
    graph.roles = (0..)
        .zip(ready)
        .map(|(worker, &ready)| lightloom_model::Role {
            name: format!("member {worker}"),
            workers: vec![WorkerId(worker)],
            tasks: [&[compute(ready)], tasks].concat(),
        })
        .collect();
    graph
}

/// Two cyclic shifts of three servers: 10 us and 20 us.
const SHIFTS: [u32; 9] =
    [0, 1_000_000, 2_000_000, 2_000_000, 0, 1_000_000, 1_000_000, 2_000_000, 0];

#[test]
fn an_all_to_all_takes_its_matchings_once_the_last_member_is_ready() {
    let both = 30 * US + 2 * (LATENCY + GUARD);
    let known = one_all_to_all(&SHIFTS, &[0, 9 * US, 4 * US], &[all_to_all(0, false)]);
    let outcome = recorded(&known, &network(3));
    assert_eq!(outcome.step, Duration(9 * US + both));
    assert_eq!((outcome.turns.slots, outcome.turns.decisions), (2, 0));
    // What each sender's row is was found by hand; every slot joins all three servers.
    assert_eq!(outcome.circuit_turns.len(), 6);
    assert_eq!(outcome.straggler_wait, u128::from((9 + 5) * US));
}

#[test]
fn the_time_to_decide_is_charged_once_per_demand() {
    let both = 30 * US + 2 * (LATENCY + GUARD);
    let tasks = [all_to_all(0, true), all_to_all(0, false), all_to_all(0, false)];
    let graph = one_all_to_all(&SHIFTS, &[0; 3], &tasks);
    let outcome = play(&graph, &network(3));
    assert_eq!(outcome.step, Duration(3 * DECISION + 3 * both));
    assert_eq!((outcome.turns.decisions, outcome.turns.deciding), (1, u128::from(3 * DECISION)));
    let free =
        network_of(3, crossbars(TurnRules { finders: vec![finder(Method::Bvn, 0)], ..rules() }));
    assert_eq!(play(&graph, &free).step, Duration(3 * both));
}

#[test]
fn an_all_to_all_takes_what_ends_first_with_the_time_to_decide() {
    let (quick, exact) = (finder(Method::RoundRobin, US), finder(Method::Bvn, 10 * US));
    // The shifts last as long as their largest pairs: 20 us longer than the longest line.
    let sizes = [0, 2_000_000, 1_000_000, 4_000_000, 0, 1_000_000, 1_000_000, 1_000_000, 0];
    let play_all = |finders: &[&MatchingFinder], is_new| {
        let finders = finders.iter().copied().cloned().collect();
        let graph = one_all_to_all(&sizes, &[0; 3], &[all_to_all(0, is_new)]);
        play(&graph, &network_of(3, crossbars(TurnRules { finders, ..rules() })))
    };
    for (is_new, best) in [(true, &quick), (false, &exact)] {
        let alone = play_all(&[best], is_new);
        for finders in [[&quick, &exact], [&exact, &quick]] {
            let both = play_all(&finders, is_new);
            assert_eq!((both.step, both.turns), (alone.step, alone.turns), "{is_new}");
        }
        let other = if is_new { &exact } else { &quick };
        assert!(alone.step < play_all(&[other], is_new).step);
    }
}

#[test]
fn bytes_are_carried_by_crossbars_and_none_is_lost() {
    let graph = one_all_to_all(&SHIFTS, &[0; 3], &[all_to_all(0, true)]);
    let outcome = play(&graph, &network(3));
    let column = outcome.ledger.columns.iter().position(|&name| name == "crossbar").unwrap();
    assert_eq!(super::carried(&outcome, "ep")[column], 9_000_000);
    let up = outcome.links.iter().find(|used| used.name == "crossbar_up").unwrap();
    assert_eq!((up.links, up.carried_bytes), (3, 9_000_000));
}

#[test]
fn late_members_delay_what_they_take_part_in_by_the_latest_of_them() {
    // The latest of m exponential times is H_m times the mean.
    let mean = Duration(100 * US);
    let count = 4_000;
    let barrier = Collective {
        kind: CollectiveKind::AllGather,
        family: Some(EXPERTS),
        payload: Payload::Bytes(4),
        inside: lightloom_model::Inside::NONE,
        asynchronous: false,
    };
    let mut graph = empty_graph(1, 1, 4);
    graph.roles[0].tasks = vec![task(TaskKind::Collective(barrier), EP); count];
    let late = |seed| {
        let lateness = Some(Lateness { mean, seed });
        play(&graph, &network_of(4, crossbars(TurnRules { lateness, ..rules() })))
    };
    let punctual = play(&graph, &network(4)).step;
    let first = late(7);
    assert_eq!(u128::from(first.step.0 - punctual.0), first.turns.late);
    let expected = (1.0 + 1.0 / 2.0 + 1.0 / 3.0 + 1.0 / 4.0) * mean.0 as f64 * count as f64;
    assert!((first.turns.late as f64 / expected - 1.0).abs() < 0.03);
    assert_eq!(late(7).step, first.step);
    assert_ne!(late(8).step, first.step);
}

#[test]
fn a_failed_nic_slows_the_slots_of_its_server() {
    let graph = one_collective(CollectiveKind::AllGather, 3_500_000, &[0; 2]);
    let with = |failed: &[(u32, u32)]| {
        let failed = failed.iter().copied().collect();
        network_of(2, Crossbars { failed, ..crossbars(rules()) })
    };
    let time = |failed| play(&graph, &with(failed)).step.0;
    assert_eq!(time(&[]), 1_750_000 * BYTE + LATENCY + GUARD);
    assert_eq!(time(&[(1, 3)]), 1_750_000 * BYTE * 8 / 7 + LATENCY + GUARD);
    let all: Vec<(u32, u32)> = (0..8).map(|nic| (0, nic)).collect();
    assert!(refuse(&graph, &with(&all)).contains("all 8 NICs of a worker on server 0 have failed"));
    assert!(refuse(&graph, &with(&[(2, 0)])).contains("there are 2 servers of 8 NICs"));
}

/// To visit each takes minutes.
#[test]
fn working_nics_are_counted_without_visiting_each() {
    let graph = one_collective(CollectiveKind::AllGather, 3_500_000, &[0; 2]);
    let time = |nics| {
        let failed = [(1, 3)].into_iter().collect();
        play(&graph, &network_of(2, Crossbars { nics, failed, ..crossbars(rules()) })).step.0
    };
    assert_eq!(time(8), 1_750_000 * BYTE * 8 / 7 + LATENCY + GUARD);
    assert!((LATENCY + GUARD..time(1 << 16)).contains(&time(u32::MAX)));
}

#[test]
fn packets_take_what_fluids_take() {
    let graph = one_all_to_all(&SHIFTS, &[0, US, 0], &[all_to_all(0, true)]);
    let network = network(3);
    let options = PacketTransport::new("dctcp", network.extent()).expect("a transport");
    let model = TransferModel::Packets(&options);
    let packets =
        execute_as(model, &graph, &network, &Options::default(), &mut Silent, Plugins::default())
            .expect("a valid step");
    let flows = play(&graph, &network);
    assert_eq!((packets.step, packets.run_hash), (flows.step, flows.run_hash));
    assert_eq!(packets.packet_hops, 0);
}

#[test]
fn crossbars_are_alone_and_have_rates_and_slots() {
    let graph = one_collective(CollectiveKind::AllGather, 8, &[0; 2]);
    let slow = Crossbars { nic_rate: Rate(0), ..crossbars(rules()) };
    assert!(refuse(&graph, &network_of(2, slow)).contains("crossbar.nic_rate"));
    let none = Crossbars { nics: 0, ..crossbars(rules()) };
    assert!(refuse(&graph, &network_of(2, none)).contains("nics must be above 0"));
    let nobody = crossbars(TurnRules { finders: Vec::new(), ..rules() });
    assert!(refuse(&graph, &network_of(2, nobody)).contains("expected a method"));
    let both = network(2).with(eps(2));
    assert!(refuse(&graph, &both).contains("expected no other part"));
    let timing = TurnTiming { length: Some(Duration(LATENCY)), ..rules().timing };
    let short = crossbars(TurnRules { timing, ..rules() });
    assert!(refuse(&graph, &network_of(2, short)).contains("over before data arrives"));
}

#[test]
fn slots_that_lose_more_than_schedules_count_are_refused_when_they_are_due() {
    let graph = one_all_to_all(&SHIFTS, &[0; 3], &[all_to_all(0, false)]);
    let with = |guard| {
        let timing = TurnTiming { guard: Duration(guard), ..rules().timing };
        network_of(3, crossbars(TurnRules { timing, ..rules() }))
    };
    let text = refuse(&graph, &with(1 << 62));
    assert_eq!(text, "crossbar: delay of 461168601842938790 bytes: too long for 3 x 3");
    // a ring has no schedule to find
    let ring = one_collective(CollectiveKind::AllGather, 8, &[0; 2]);
    for guard in [1 << 62, u64::MAX] {
        let text = refuse(&ring, &with(guard));
        assert!(text.contains("over 53 days of simulated time"), "{text}");
    }
}

/// A ring of three workers, and all-to-alls of theirs after so much computation each; the ring
/// begins before all of that and is waited for at the end, or begins then.
fn ring_alongside(size: u64, sizes: &[u32], ready: &[u64], is_overlapped: bool) -> TaskGraph {
    let all_to_alls = ready.iter().flat_map(|&ready| [compute(ready), all_to_all(0, false)]);
    let start = [ring(CollectiveKind::AllGather, 0, size, 0)];
    let (before, after) = start.split_at(usize::from(is_overlapped));
    let tasks: Vec<Task> = before.iter().copied().chain(all_to_alls).collect();
    let mut graph = one_all_to_all(sizes, &[0; 3], &[&tasks[..], after, &[wait(0)]].concat());
    graph.families.push(one_ring(3));
    graph
}

#[test]
fn a_ring_that_nobody_waits_for_stops_for_an_all_to_all() {
    let outcome = recorded(&ring_alongside(3_000_000, &SHIFTS, &[5 * US], true), &network(3));
    // Two steps of 10 us, and two matchings of 30 us together.
    let (alone, all_to_all) = (2 * (10 * US + LATENCY + GUARD), 30 * US + 2 * (LATENCY + GUARD));
    assert_eq!(outcome.step, Duration(alone + all_to_all + LATENCY + GUARD));
    assert_eq!((outcome.turns.turns, outcome.turns.slots), (3, 4));
    assert_eq!(outcome.turns.waiting, u128::from(LATENCY + all_to_all));
    let mut begins: Vec<Time> = outcome.circuit_turns.iter().map(|turn| turn.begin).collect();
    begins.sort_unstable();
    begins.dedup();
    let first = 5 * US + LATENCY;
    let second = first + 20 * US + LATENCY + GUARD;
    assert_eq!(begins, [0, first, second, first + all_to_all].map(Time));
}

#[test]
fn a_ring_that_somebody_waits_for_does_not_stop() {
    // Worker 2 has nothing else to do; a message from worker 0 to worker 1 comes later.
    let mut graph = one_collective(CollectiveKind::AllGather, 3_000_000, &[0; 3]);
    let start = ring(CollectiveKind::AllGather, 0, 3_000_000, 0);
    let step = 10 * US + LATENCY + GUARD;
    graph.roles[0].tasks = vec![start, compute(2 * US), send(1, 0, 1_000_000), wait(0)];
    graph.roles[1].tasks = vec![compute(US), start, receive(0, 0), wait(0)];
    graph.roles[2].tasks = vec![start, wait(0)];
    let outcome = play(&graph, &network(3));
    assert_eq!(outcome.turns.waiting, u128::from(2 * step - US));
    assert_eq!((outcome.step, outcome.turns.turns), (Duration(US + 3 * step), 2));
}

#[test]
fn a_higher_priority_stops_what_somebody_waits_for() {
    let mut graph = empty_graph(2, 1, 1);
    let urgent = Task { priority: Priority(1), ..send(1, 1, 100_000) };
    graph.roles[0].tasks = vec![send(1, 0, 1_000_000), compute(4 * US), urgent];
    graph.roles[1].tasks = vec![receive(0, 1), receive(0, 0)];
    let outcome = play(&graph, &network(2));
    assert_eq!(outcome.turns.waiting, u128::from(LATENCY + US + LATENCY + GUARD));
    assert_eq!(outcome.step, Duration(11 * US + 3 * (LATENCY + GUARD)));
}

/// Rules by which rings hold their circuits, and ports keep them.
fn keeping(keeping: Keeping, guard: u64) -> TurnRules {
    let timing = TurnTiming { is_held: true, guard: Duration(guard), ..rules().timing };
    TurnRules { timing, keeping, ..rules() }
}

#[test]
fn ports_that_keep_their_circuits_turn_for_others_only() {
    // Two rings of four and three steps, then a message to the next worker and one to another.
    let mut graph = empty_graph(4, 1, 1);
    graph.families.push(one_ring(4));
    let size = 4_000_000;
    for worker in 0..4 {
        let rings = [0, 1].map(|tag| ring(CollectiveKind::AllGather, tag, size, 0));
        let [first, second] = rings;
        graph.roles[worker].tasks = vec![first, wait(0), second, wait(1), compute(4 * US)];
    }
    graph.roles[0].tasks.extend([send(1, 2, 100_000), send(2, 3, 100_000)]);
    graph.roles[1].tasks.push(receive(0, 2));
    graph.roles[2].tasks.push(receive(0, 3));
    let guard = 7 * US;
    let step = |kept| play(&graph, &network_of(4, crossbars(keeping(kept, guard)))).step;
    let sent = 2 * 3 * (1_000_000 * BYTE + LATENCY) + 4 * US + 2 * (US + LATENCY);
    assert_eq!(step(Keeping::No), Duration(sent + 4 * guard));
    // Nothing turns for the second ring, nor for the message that goes where its edge went.
    assert_eq!(step(Keeping::Needed), Duration(sent + 2 * guard));
    // At first all ports are free and somebody needs them; the last message waits for the one
    // before it.
    assert_eq!(step(Keeping::Ahead), Duration(sent + 2 * guard));
}

#[test]
fn ports_turn_ahead_while_their_workers_compute() {
    for (computing, dark) in [(0, 7 * US), (3 * US, 4 * US), (9 * US, 0)] {
        let graph = one_collective(CollectiveKind::AllGather, 4_000_000, &[computing; 4]);
        let step = |kept| play(&graph, &network_of(4, crossbars(keeping(kept, 7 * US)))).step;
        let sent = computing + 3 * (1_000_000 * BYTE + LATENCY);
        assert_eq!(step(Keeping::Needed), Duration(sent + 7 * US));
        assert_eq!(step(Keeping::Ahead), Duration(sent + dark), "{computing}");
    }
}

#[test]
fn circuits_that_are_kept_are_held() {
    let rules = TurnRules { keeping: Keeping::Ahead, ..rules() };
    let graph = one_collective(CollectiveKind::AllGather, 4_000_000, &[0; 2]);
    assert!(refuse(&graph, &network_of(2, crossbars(rules))).contains("are held by rings, too"));
}

/// All-to-alls of two groups of three, and a ring of all six, whenever they are ready.
fn busy_graph(sizes: &[u32], ready: &[u64]) -> TaskGraph {
    let mut graph = empty_graph(1, 2, 3);
    graph = with_blocks(graph, &[sizes]);
    graph.families.push(one_ring(6));
    graph.roles = (0..6)
        .map(|worker| lightloom_model::Role {
            name: format!("worker {worker}"),
            workers: vec![WorkerId(worker)],
            tasks: vec![
                ring(CollectiveKind::AllReduce, 0, 3_000_001, 0),
                compute(ready[worker as usize]),
                all_to_all(0, true),
                ring(CollectiveKind::AllGather, 1, 1_000_003, 0),
                all_to_all(0, false),
                wait(0),
                wait(1),
            ],
        })
        .collect();
    graph
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Rings that go ahead of others stop for them, so that all end, and soon: no later than one
    /// after another, but for what stopping costs. At no time has a port two circuits.
    #[test]
    fn rings_that_nobody_waits_for_end_no_later_than_one_after_another(
        rings in prop::collection::vec(
            (prop::sample::subsequence((0..5_u32).collect::<Vec<u32>>(), 2..5), 1_u64..9_000_000),
            1..7,
        ),
        length in prop::option::of(4 * US..100 * US),
    ) {
        let timing = TurnTiming { length: length.map(Duration), ..rules().timing };
        let network = network_of(5, crossbars(TurnRules { timing, ..rules() }));
        let play_all = |rings: &[_]| recorded(&background_rings(rings, 5), &network);
        let together = play_all(&rings);
        let alone = rings.iter().map(|ring| play_all(std::slice::from_ref(ring)).step.0);
        let (sum, longest) = alone.fold((0, 0), |(sum, most), one| (sum + one, one.max(most)));
        let stops = together.turns.turns - rings.len() as u64;
        let each = length.unwrap_or(LATENCY + GUARD);
        prop_assert!(longest <= together.step.0);
        prop_assert!(together.step.0 <= sum + stops * each);
        for port in 0..10 {
            let uses = |turn: &&crate::CircuitTurn| turn.from.0 == port || turn.to.0 == port;
            let turns = together.circuit_turns.iter().filter(uses);
            let mut spans: Vec<(Time, Time)> = turns.map(|turn| (turn.begin, turn.end)).collect();
            spans.sort_unstable();
            prop_assert!(spans.windows(2).all(|two| two[0].1 <= two[1].0), "{port}: {spans:?}");
        }
    }

    /// Rings on other ports neither delay others nor hasten them, in whatever order they come.
    #[test]
    fn rings_on_other_ports_do_not_matter(
        here in prop::collection::vec(
            (prop::sample::subsequence((0..4_u32).collect::<Vec<u32>>(), 2..5), 1_u64..9_000_000),
            1..5,
        ),
        there in prop::collection::vec(
            (prop::sample::subsequence((4..8_u32).collect::<Vec<u32>>(), 2..5), 1_u64..9_000_000),
            1..5,
        ),
        length in prop::option::of(4 * US..100 * US),
    ) {
        let timing = TurnTiming { length: length.map(Duration), ..rules().timing };
        let network = network_of(8, crossbars(TurnRules { timing, ..rules() }));
        let step = |rings: &[_]| play(&background_rings(rings, 8), &network).step;
        let apart = step(&here).max(step(&there));
        let longest = here.len().max(there.len());
        let taking_turns = (0..longest).flat_map(|place| [here.get(place), there.get(place)]);
        let taking_turns: Vec<(Vec<u32>, u64)> = taking_turns.flatten().cloned().collect();
        prop_assert_eq!(step(&taking_turns), apart);
        prop_assert_eq!(step(&[&here[..], &there].concat()), apart);
        prop_assert_eq!(step(&[&there[..], &here].concat()), apart);
    }

    /// A step is no longer without one of its rings, but for what stopping costs; and no order of
    /// few rings is more than twice as long as one in which two of them swap places.
    #[test]
    fn a_ring_less_is_not_slower_and_any_order_is_near_the_best(
        rings in prop::collection::vec(
            (prop::sample::subsequence((0..5_u32).collect::<Vec<u32>>(), 2..4), 1_u64..9_000_000),
            3..5,
        ),
    ) {
        let network = network(5);
        let play_all = |rings: &[_]| play(&background_rings(rings, 5), &network);
        let all = play_all(&rings);
        let cost = |outcome: &Outcome, rings: usize| {
            (outcome.turns.turns - rings as u64) * (LATENCY + GUARD)
        };
        for place in 0..rings.len() {
            let mut fewer = rings.clone();
            fewer.remove(place);
            let without = play_all(&fewer);
            prop_assert!(without.step.0 <= all.step.0 + cost(&without, fewer.len()), "{place}");
        }
        let orders = (0..rings.len()).flat_map(|first| (0..rings.len()).map(move |to| (first, to)));
        let swapped = orders.map(|(first, to)| {
            let mut other = rings.clone();
            other.swap(first, to);
            play_all(&other).step.0
        });
        let best = swapped.min().expect("an order");
        prop_assert!(all.step.0 <= 2 * best + cost(&all, rings.len()), "{} {best}", all.step.0);
    }

    /// Every all-to-all stops the ring once at most, which costs a guard time and a latency, or a
    /// slot; so overlap and punctual members can make a step no slower than that. All bytes arrive.
    #[test]
    fn what_runs_alongside_holds_nobody_up(
        size in 1_u64..20_000_000,
        sizes in prop::collection::vec(0_u32..2_000_000, 9),
        ready in prop::collection::vec(0..60 * US, 1..5),
        length in prop::option::of(4 * US..100 * US),
        is_held in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let is_held = is_held && length.is_none();
        let timing = TurnTiming { length: length.map(Duration), is_held, ..rules().timing };
        let with = |lateness| network_of(3, crossbars(TurnRules { timing, lateness, ..rules() }));
        let play_all = |size, is_overlapped, lateness| {
            recorded(&ring_alongside(size, &sizes, &ready, is_overlapped), &with(lateness))
        };
        let [alongside, apart] = [true, false].map(|first| play_all(size, first, None));
        let slot = length.unwrap_or(LATENCY + GUARD);
        let stops = ready.len() as u64;
        prop_assert!(alongside.step.0 <= apart.step.0 + stops * slot);
        let late = play_all(size, true, Some(Lateness { mean: Duration(30 * US), seed }));
        prop_assert!(alongside.step.0 <= late.step.0 + stops * slot);
        for outcome in [&alongside, &apart, &late] {
            let sent: u64 = outcome.ledger.purposes.iter().map(|purpose| purpose.sent).sum();
            let up = outcome.links.iter().find(|used| used.name == "crossbar_up").unwrap();
            prop_assert_eq!(up.carried_bytes, sent);
            prop_assert!(outcome.turns.turns <= 2 * stops + 1);
        }
    }

    /// Replayed from the record of circuits alone: at no time has a port two of them; what they
    /// could carry is enough; and servers may be named otherwise.
    #[test]
    fn no_port_ever_has_two_circuits(
        sizes in prop::collection::vec(0_u32..2_000_000, 9),
        ready in prop::collection::vec(0..100 * US, 6),
        order in Just((0..6_u32).collect::<Vec<u32>>()).prop_shuffle(),
        length in prop::option::of(4 * US..100 * US),
        method in prop::sample::select(vec![Method::Bvn, Method::Critical, Method::RoundRobin]),
        is_aligned in any::<bool>(),
        kept in prop::sample::select(vec![Keeping::No, Keeping::Needed, Keeping::Ahead]),
    ) {
        let is_held = kept != Keeping::No;
        let length = length.filter(|_| !is_held).map(Duration);
        let timing = TurnTiming { length, is_aligned, is_held, ..rules().timing };
        let finders = vec![finder(method, DECISION)];
        let rules = TurnRules { timing, finders, keeping: kept, ..rules() };
        let network = network_of(6, crossbars(rules));
        let mut graph = busy_graph(&sizes, &ready);
        let outcome = recorded(&graph, &network);
        let mut joined = 0;
        for port in 0..12 {
            let uses = |turn: &&crate::CircuitTurn| turn.from.0 == port || turn.to.0 == port;
            let turns = outcome.circuit_turns.iter().filter(uses);
            let mut spans: Vec<(Time, Time)> = turns.map(|turn| (turn.begin, turn.end)).collect();
            spans.sort_unstable();
            prop_assert!(spans.windows(2).all(|two| two[0].1 <= two[1].0), "{port}: {spans:?}");
            joined += spans.iter().map(|(begin, end)| end.since(*begin).0).sum::<u64>();
        }
        let sent: u64 = outcome.ledger.purposes.iter().map(|purpose| purpose.sent).sum();
        prop_assert!(joined >= 2 * sent * BYTE);
        graph.worker_server = order;
        let renamed = recorded(&graph, &network);
        prop_assert_eq!((renamed.step, renamed.run_hash), (outcome.step, outcome.run_hash));
        let ends = [&outcome, &renamed].map(|one| one.turns);
        prop_assert_eq!(ends[0], ends[1]);
        let dp = outcome.categories.iter().position(|name| name == "dp");
        prop_assert_eq!(dp, Some(DP.index()));
    }
}
