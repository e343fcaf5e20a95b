//! Parts that have failed, and circuit switches that cannot join any two NICs.

use super::{US, compute, play};
use crate::network::Network;
use crate::parts::{Ocs, RelayChunk};
use crate::testing::{all_to_all, empty_graph, mixnet, ocs, ocs_when, with_blocks};
use crate::{Options, Outcome, PacketTransport, Plugins, TransferModel, execute, execute_as};
use lightloom_decide::Reconfigure;
use lightloom_kernel::Silent;
use lightloom_model::{Allocator, Duration, Failures, Fibers, TaskGraph};

/// 8 MB from server 0 to server 1, and nothing else.
fn one_pair(servers: u32) -> TaskGraph {
    let mut tokens = vec![0; (servers * servers) as usize];
    tokens[1] = 8_000_000;
    let mut graph = with_blocks(empty_graph(1, 1, servers), &[&tokens]);
    graph.roles[0].tasks = vec![compute(40_000 * US), all_to_all(0, false)];
    graph
}

fn network(servers: u32, base: Ocs, failures: Failures) -> Network {
    mixnet(servers).with(Ocs { failures, ..base })
}

/// Circuits between servers 0 and 1 after the decision for [`one_pair`].
fn joined(base: Ocs, failures: Failures) -> u16 {
    let outcome = recorded(&one_pair(2), &network(2, base, failures));
    outcome.decisions.records[0].decision.held.circuits[1]
}

fn recorded(graph: &TaskGraph, network: &Network) -> Outcome {
    let options = Options { record_decisions: true, ..Options::default() };
    execute(graph, network, &options, &mut Silent).expect("a valid step")
}

#[test]
fn failed_parts_end_no_circuits() {
    let none = Failures::default;
    assert_eq!(joined(ocs(2), none()), 6);
    assert_eq!(joined(ocs(2), Failures { nics: vec![(0, 2), (1, 3)], ..none() }), 5);
    assert_eq!(joined(ocs(2), Failures { planes: vec![5], ..none() }), 5);
    assert_eq!(joined(ocs(2), Failures { servers: vec![1], ..none() }), 0);
    // On planes NIC i joins NIC i, so that two broken ones cost two circuits.
    let planes = || Ocs { planes: Some(Fibers::Duplex), ..ocs(2) };
    assert_eq!(joined(planes(), Failures { nics: vec![(0, 2), (1, 3)], ..none() }), 4);
    assert_eq!(joined(planes(), Failures { nics: vec![(0, 2), (1, 2)], ..none() }), 5);
}

#[test]
fn what_has_failed_takes_longer() {
    let graph = one_pair(2);
    let step = |failures| play(&graph, &network(2, ocs(2), failures)).step;
    let healthy = step(Failures::default());
    let nic = step(Failures { nics: vec![(0, 0)], ..Failures::default() });
    let eps = step(Failures { eps_nics: vec![(1, 0)], ..Failures::default() });
    let server = step(Failures { servers: vec![0], ..Failures::default() });
    assert!(healthy < nic && healthy < eps && nic < server, "{healthy:?} {nic:?} {eps:?}");
}

#[test]
fn a_failed_eps_nic_halves_the_links_of_its_server() {
    // Without circuits all goes over two NICs of 400 Gb/s, then over one.
    let graph = one_pair(2);
    let apart = || Ocs { region_of_server: vec![0, 1], ..ocs_when(2, Reconfigure::Never) };
    let one = Failures { eps_nics: vec![(1, 0)], ..Failures::default() };
    let healthy = play(&graph, &network(2, apart(), Failures::default()));
    let broken = play(&graph, &network(2, apart(), one));
    // 8 MB at 800 Gb/s are 80 us, at 400 Gb/s 160 us.
    assert_eq!(broken.step.0 - healthy.step.0, 80 * US);
    let use_of = |outcome: &Outcome, name: &str| {
        outcome.links.iter().find(|class| class.name == name).expect("EPS links").max
    };
    let (one, both) = (use_of(&broken, "server_down"), use_of(&healthy, "server_down"));
    assert!(one > both && one <= 1.0);
}

#[test]
fn a_server_needs_an_eps_nic_and_packets_need_them_all() {
    let graph = one_pair(2);
    let refusal = |failures| {
        let network = network(2, ocs(2), failures);
        execute(&graph, &network, &Options::default(), &mut Silent).unwrap_err().to_string()
    };
    let all = Failures { eps_nics: vec![(1, 0), (1, 1)], ..Failures::default() };
    let text = refusal(all);
    assert_eq!(text, "failed EPS NICs: all 2 of server 1, expected one that works");
    let text = refusal(Failures { nics: vec![(2, 0)], ..Failures::default() });
    assert_eq!(text, "failed server: 2, expected 0 to 1");
    let one = network(2, ocs(2), Failures { eps_nics: vec![(1, 0)], ..Failures::default() });
    let packets = PacketTransport::new("dctcp", one.extent()).expect("a transport");
    let options = Options::default();
    let model = TransferModel::Packets(&packets);
    let refused = execute_as(model, &graph, &one, &options, &mut Silent, Plugins::default());
    let text = refused.unwrap_err().to_string();
    assert_eq!(text, "failed EPS NICs are simulated as flows only: leave packets out");
}

#[test]
fn packets_cross_the_circuits_that_are_left() {
    let graph = one_pair(2);
    let broken = network(2, ocs(2), Failures { nics: vec![(0, 0)], ..Failures::default() });
    let packets = PacketTransport::new("ideal", broken.extent()).expect("a transport");
    let model = TransferModel::Packets(&packets);
    let options = Options::default();
    let played = execute_as(model, &graph, &broken, &options, &mut Silent, Plugins::default());
    let (played, fluid) = (played.expect("a valid step"), play(&graph, &broken));
    assert_eq!(played.ledger, fluid.ledger);
    let [one, other] = [played.step.0, fluid.step.0].map(|step| (step - 40_000 * US) as f64);
    assert!((0.0..0.05).contains(&(one / other - 1.0)), "{one} {other}");
}

/// Three servers that all send to each other.
fn triangle() -> TaskGraph {
    let tokens: Vec<u32> = (0..9).map(|cell| if cell % 4 == 0 { 0 } else { 6_000_000 }).collect();
    let mut graph = with_blocks(empty_graph(1, 1, 3), &[&tokens]);
    graph.roles[0].tasks = vec![compute(40_000 * US), all_to_all(0, false)];
    graph
}

#[test]
fn circuits_that_planes_cannot_build_are_not_played() {
    // Two circuits on each side of a triangle take six planes; four build four of them.
    let with = |planes| Ocs { ports: 4, planes, ..ocs(3) };
    let circuits = |planes| {
        let outcome = recorded(&triangle(), &network(3, with(planes), Failures::default()));
        let decision = &outcome.decisions.records[0].decision;
        (decision.held.nics.len(), outcome.step)
    };
    let (free, fast) = circuits(None);
    let (duplex, slow) = circuits(Some(Fibers::Duplex));
    let (crossed, same) = circuits(Some(Fibers::Crossed));
    assert_eq!((free, duplex, crossed), (6, 4, 6));
    assert!(slow > fast && same == fast);
}

#[test]
fn relays_and_every_allocator_do_without_what_has_failed() {
    let chunk = RelayChunk { bytes: 50_000, latency: Duration(10 * US) };
    let failures = Failures { nics: vec![(0, 0), (2, 1)], ..Failures::default() };
    for &allocator in Allocator::ALL {
        let base = ocs(3);
        let base = Ocs { ports: 2, allocator, relaying: Some(chunk), ..base };
        let outcome = recorded(&triangle(), &network(3, base, failures.clone()));
        for record in &outcome.decisions.records {
            let used = record.decision.held.nics.iter().flat_map(|circuit| [circuit.a, circuit.b]);
            let broken = |(server, nic)| (server == 0 && nic == 0) || (server == 2 && nic == 1);
            assert!(!used.map(|end| (end.server, end.nic)).any(broken), "{allocator}");
        }
    }
}

#[test]
fn a_part_that_is_named_twice_has_failed_once() {
    let outcome = |failures| play(&one_pair(2), &network(2, ocs(2), failures));
    let once = Failures { nics: vec![(0, 2)], eps_nics: vec![(1, 0)], ..Failures::default() };
    let twice = Failures {
        nics: once.nics.repeat(2),
        eps_nics: once.eps_nics.repeat(3),
        ..Failures::default()
    };
    assert_eq!(outcome(once), outcome(twice));
}
