//! Rules that hold whatever the numbers: what is scaled, renamed, added or turned around.

use super::{US, carried, compute, one_ring, play, receive, ring, send, wait};
use crate::Outcome;
use crate::network::Network;
use crate::parts::{Eps, Ocs};
use crate::testing::{
    DP, EP, GBPS, IDLE, WORK, all_to_all, empty_graph, eps, mixnet, packet, with_blocks,
};
use lightloom_decide::Reconfigure;
use lightloom_model::{
    AllToAll, CollectiveKind, Duration, NvSwitch, Payload, Rate, SwitchTiming, TaskGraph, TaskKind,
};
use proptest::prelude::*;

/// Two stages of `members` workers: both compute, move tokens, pass something on and reduce.
fn step(members: u32, tokens: &[u32], work: [u64; 2]) -> TaskGraph {
    let mut graph = with_blocks(empty_graph(2, 1, members), &[tokens]);
    graph.families.push(one_ring(2 * members));
    let ring = ring(CollectiveKind::AllReduce, 1, 1_200_000, 0);
    graph.roles[0].tasks = vec![
        compute(work[0]),
        all_to_all(0, true),
        compute(work[1]),
        send(1, 0, 3_000_000),
        ring,
        wait(1),
    ];
    graph.roles[1].tasks =
        vec![receive(0, 0), all_to_all(0, true), compute(work[0]), ring, wait(1)];
    graph
}

/// Without any latency: links, NVSwitch and software take no time but for bytes.
fn immediate(servers: u32) -> Network {
    let nvswitch = NvSwitch::uniform(Rate(3600 * GBPS), Duration::ZERO);
    let fabric = Eps { link_delay: Duration::ZERO, ..eps(servers) };
    Network { nvswitch, ..packet(servers) }.with(fabric)
}

fn faster(network: &Network, times: u64) -> Network {
    let mut network = network.clone();
    for pace in [&mut network.nvswitch.all_to_all, &mut network.nvswitch.gather] {
        pace.gpu_rate = Rate(pace.gpu_rate.0 * times);
    }
    let rate = Rate(400 * GBPS * times);
    network.with(Eps { nic_rate: rate, link_delay: Duration::ZERO, ..eps(immediate(1).servers) })
}

fn bytes(members: usize) -> impl Strategy<Value = Vec<u32>> {
    prop::collection::vec(prop_oneof![1 => Just(0_u32), 4 => 1_u32..4_000_000], members * members)
}

/// A matrix with rows and columns renamed.
fn renamed(tokens: &[u32], order: &[usize]) -> Vec<u32> {
    let n = order.len();
    let mut found = vec![0; n * n];
    for from in 0..n {
        for to in 0..n {
            found[order[from] * n + order[to]] = tokens[from * n + to];
        }
    }
    found
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Bytes at twice the rate and half the computation: half the step.
    #[test]
    fn twice_as_fast_takes_half_the_time(
        tokens in bytes(3), work in [0_u64..50, 0_u64..50], times in 2_u64..5,
    ) {
        let work = work.map(|us| 2 * 3 * 4 * us * US);
        let whole = play(&step(3, &tokens, work), &one_tor(&immediate(6), 6));
        let graph = step(3, &tokens, work.map(|time| time / times));
        let quick = play(&graph, &one_tor(&faster(&immediate(6), times), 6));
        let expected = whole.step.0 / times;
        // Each flow, and each copy, is rounded up to a picosecond.
        prop_assert!(quick.step.0.abs_diff(expected) < 200, "{} {expected}", quick.step.0);
    }

    /// Twice the bytes and twice the computation: twice the step.
    #[test]
    fn twice_as_much_takes_twice_the_time(tokens in bytes(3), work in 0_u64..50) {
        let network = one_tor(&immediate(6), 6);
        let graph = |times: u32| {
            let tokens: Vec<u32> = tokens.iter().map(|bytes| bytes * times).collect();
            let mut graph = with_blocks(empty_graph(1, 1, 3), &[&tokens]);
            graph.roles[0].tasks = vec![compute(work * u64::from(times)), all_to_all(0, true)];
            graph
        };
        let [once, twice] = [1, 2].map(|times| play(&graph(times), &network).step.0);
        prop_assert!(twice.abs_diff(2 * once) < 50, "{once} {twice}");
    }

    /// Servers under one ToR are alike: other names for the members change no time and no byte.
    #[test]
    fn names_of_members_do_not_matter(
        tokens in bytes(4), order in Just(vec![0_usize, 1, 2, 3]).prop_shuffle(), mode in 0..2_u8,
    ) {
        let mode = [AllToAll::Flat, AllToAll::Hierarchical][usize::from(mode)];
        let network = Network { all_to_all: mode, ..packet(8) };
        let one = play(&step(4, &tokens, [5 * US, 7 * US]), &network);
        let other = play(&step(4, &renamed(&tokens, &order), [5 * US, 7 * US]), &network);
        // Flows of one instant start in another order, which may round otherwise.
        prop_assert!(one.step.0.abs_diff(other.step.0) < 50, "{:?} {:?}", one.step, other.step);
        prop_assert_eq!(&one.ledger, &other.ledger);
        for (a, b) in one.links.iter().zip(&other.links) {
            prop_assert_eq!((&a.name, a.carried_bytes), (&b.name, b.carried_bytes));
        }
    }

    /// The way back of an all-to-all loads the same links the other way round.
    #[test]
    fn the_way_back_takes_as_long_as_the_way_there(tokens in bytes(4)) {
        let mut graph = with_blocks(empty_graph(1, 1, 4), &[&tokens]);
        graph.roles[0].tasks = vec![all_to_all(0, true)];
        let there = play(&graph, &packet(4));
        let TaskKind::Collective(collective) = &mut graph.roles[0].tasks[0].kind else { panic!() };
        let Payload::Block { transposed, .. } = &mut collective.payload else { panic!() };
        *transposed = true;
        let mirrored: Vec<u32> =
            (0..16).map(|cell| tokens[cell % 4 * 4 + cell / 4]).collect();
        let mut other = with_blocks(empty_graph(1, 1, 4), &[&mirrored]);
        other.roles[0].tasks = vec![all_to_all(0, true)];
        let back = play(&graph, &packet(4));
        prop_assert_eq!(back.step, play(&other, &packet(4)).step);
        prop_assert_eq!(carried(&back, "ep"), carried(&there, "ep"));
    }

    /// Servers that no worker is on change nothing but how little of the links is used.
    #[test]
    fn idle_servers_change_nothing(tokens in bytes(3), more in 1_u32..9) {
        let graph = step(3, &tokens, [5 * US, 7 * US]);
        let alone = play(&graph, &one_tor(&packet(6), 6));
        let among = play(&graph, &one_tor(&packet(6 + more), 6 + more));
        prop_assert_eq!((alone.step, &alone.roles, &alone.ledger),
            (among.step, &among.roles, &among.ledger));
        for (few, many) in alone.links.iter().zip(&among.links) {
            let share = few.mean * few.links as f64 / many.links as f64;
            prop_assert!((many.mean - share).abs() < 1e-12, "{} {share}", many.mean);
            prop_assert_eq!(few.max.to_bits(), many.max.to_bits());
        }
    }

    /// Every worker's time is somewhere, and the causes of the end add up to the step.
    #[test]
    fn all_time_is_accounted_for(tokens in bytes(3), work in [0_u64..50, 0_u64..50]) {
        for network in [packet(6), mixnet(6).with(switching(6, Reconfigure::BreakEven, 300 * US))] {
            let outcome = play(&step(3, &tokens, work.map(|us| us * US)), &network);
            for role in &outcome.roles {
                let total: u64 = role.spent.iter().sum();
                prop_assert_eq!(total, outcome.step.0 * u64::from(role.workers));
            }
            prop_assert_eq!(outcome.critical_path.iter().sum::<u64>(), outcome.step.0);
            let computed = outcome.roles[0].spent[WORK.index()];
            prop_assert_eq!(computed, 3 * (work[0] + work[1]) * US);
            prop_assert!(outcome.critical_path[WORK.index()] <= outcome.step.0);
        }
    }

    /// What all-to-alls carry over each kind of link is what the demand and the routing say.
    #[test]
    fn bytes_are_where_the_ledger_says(tokens in bytes(4)) {
        let mut graph = with_blocks(empty_graph(1, 1, 4), &[&tokens]);
        graph.roles[0].tasks = vec![all_to_all(0, true)];
        let remote: u64 =
            (0..16).filter(|cell| cell % 5 != 0).map(|cell| u64::from(tokens[cell])).sum();
        let flat = play(&graph, &packet(4));
        prop_assert_eq!(carried(&flat, "ep")[1], remote);
        prop_assert_eq!((class(&flat, "server_up"), class(&flat, "server_down")), (remote, remote));
        let mixed = play(&graph, &mixnet(4));
        let row = carried(&mixed, "ep");
        prop_assert_eq!(row[1] + row[2], remote);
        prop_assert_eq!((class(&mixed, "server_up"), class(&mixed, "circuit")), (row[1], row[2]));
    }
}

fn class(outcome: &Outcome, name: &str) -> u64 {
    outcome.links.iter().find(|link| link.name == name).expect("a class of links").carried_bytes
}

/// All servers under one ToR, whatever their number.
fn one_tor(network: &Network, servers: u32) -> Network {
    let network = Network { servers, ..network.clone() };
    let (_, rate) = network.packet_fabric().expect("a packet fabric").nics();
    let delay = network.extent().delay.0 / 6;
    network.with(Eps { nic_rate: rate, link_delay: Duration(delay), ..eps(servers) })
}

fn switching(servers: usize, when: Reconfigure, delay: u64) -> Ocs {
    let timing = SwitchTiming { fixed: Duration(delay), ..SwitchTiming::default() };
    Ocs { timing, ..crate::testing::ocs_when(servers, when) }
}

#[test]
fn exposed_and_hidden_delay_add_up_to_all_delay() {
    let mut tasks = Vec::new();
    for block in [0, 1, 0, 1, 0] {
        tasks.extend([compute(300 * US), all_to_all(block, tasks.is_empty())]);
    }
    // Every member sends to one other: to that with the other last, or the other first, bit.
    let blocks: [Vec<u32>; 2] = [1, 2].map(|bit| {
        let sends = |cell: u32| cell / 4 == (cell % 4) ^ bit;
        (0..16).map(|cell| if sends(cell) { 60_000_000 } else { 0 }).collect()
    });
    let mut graph = with_blocks(empty_graph(1, 1, 4), &[&blocks[0], &blocks[1]]);
    graph.roles[0].tasks = tasks;
    for delay in [0, 100 * US, 299 * US, 400 * US, 3_000 * US] {
        let network = mixnet(4).with(switching(4, Reconfigure::Always, delay));
        let outcome = play(&graph, &network);
        let circuits = &outcome.circuits;
        assert_eq!(circuits.hidden().0 + circuits.exposed.0, circuits.delay.0);
        assert_eq!(circuits.delay.0, circuits.reconfigurations * delay);
        assert!(circuits.reconfigurations >= 3, "{circuits:?}");
        // Decided when the all-to-all before is over: 300 us and the scatter hide the switch.
        let exposed = circuits.exposed.0 / circuits.reconfigurations;
        let limit = delay.saturating_sub(300 * US);
        assert!(exposed <= limit && exposed + 100 * US >= limit, "{exposed} of {delay}");
    }
}

#[test]
fn a_stage_without_work_idles_until_its_message_arrives() {
    let mut graph = empty_graph(2, 1, 1);
    graph.roles[0].tasks = vec![compute(30 * US), send(1, 0, 400_000)];
    graph.roles[1].tasks = vec![receive(0, 0), compute(10 * US)];
    let outcome = play(&graph, &packet(2));
    let spent = |role: usize, category: lightloom_model::CategoryId| {
        outcome.roles[role].spent[category.index()]
    };
    // 50 kB over each of 8 NICs take 1 us, two links 2 us.
    assert_eq!(outcome.step.0, (30 + 1 + 2 + 10) * US);
    assert_eq!((spent(1, IDLE), spent(1, WORK)), (30 * US, 10 * US));
    assert_eq!((spent(0, WORK), spent(0, IDLE)), (30 * US, 13 * US));
    assert_eq!((spent(0, EP), spent(0, DP)), (0, 0));
}
