//! Servers of a region that pass bytes of others on.

use super::{NIC, US, carried, compute, play};
use crate::network::Network;
use crate::parts::{Ocs, RelayChunk};
use crate::testing::{all_to_all, empty_graph, mixnet, ocs_when, with_blocks, with_first};
use crate::{Options, execute};
use lightloom_decide::Reconfigure;
use lightloom_kernel::Silent;
use lightloom_model::{Duration, FirstAllToAll, SwitchTiming, TaskGraph};

const CHUNK: RelayChunk = RelayChunk { bytes: 50_000, latency: Duration(10 * US) };

fn region(servers: u32, ports: u32, relaying: Option<RelayChunk>) -> Network {
    let ocs = Ocs { ports, ..ocs_when(servers as usize, Reconfigure::Never) };
    mixnet(servers).with(Ocs { relaying, ..ocs })
}

/// From 0 to 1 among three servers, one circuit between any two and two NICs on the packet fabric.
fn hot_pair(bytes: u32) -> TaskGraph {
    let mut graph = with_blocks(empty_graph(1, 1, 3), &[&[0, bytes, 0, 0, 0, 0, 0, 0, 0]]);
    graph.roles[0].tasks = vec![all_to_all(0, true)];
    graph
}

#[test]
fn a_hot_pair_uses_the_third_server_and_pays_for_it() {
    let outcome = play(&hot_pair(8_000_000), &region(3, 2, Some(CHUNK)));
    assert_eq!((outcome.circuits.relayed, outcome.circuits.one_hop), (1, 0));
    // 2 MB over each circuit of both ends, whose delegate had one eighth, and 4 MB over the EPS.
    let hop = 2 * US + (1_750_000_u64 * 1000).div_ceil(450);
    // Propagation of two hops, a chunk on the wire, across the switch and until it is noticed.
    let late = 2 * US + 50_000 * NIC + 50_000 * 1000 / 3600 + 10 * US;
    let exact = hop + 2_000_000 * NIC + late + hop;
    let step = outcome.step.0;
    assert!(step.abs_diff(exact) < exact / 50, "{step} instead of {exact}");
    let relayed = carried(&outcome, "ep")[4];
    assert!(relayed.abs_diff(2_000_000) < 50_000, "{relayed} relayed");
    let staged = outcome.links.iter().find(|link| link.name == "relay").expect("relays");
    assert_eq!((staged.links, staged.carried_bytes), (3, relayed));
    let direct = play(&hot_pair(8_000_000), &region(3, 2, None));
    assert!(step < direct.step.0);
    assert_eq!(direct.circuits.relayed + direct.circuits.one_hop, 0);
}

#[test]
fn relays_that_do_not_pay_change_nothing() {
    let slow = RelayChunk { latency: Duration(100 * US), ..CHUNK };
    let outcome = play(&hot_pair(1_000_000), &region(3, 2, Some(slow)));
    assert_eq!((outcome.circuits.relayed, outcome.circuits.one_hop), (0, 1));
    assert_eq!(carried(&outcome, "ep")[4], 0);
    assert_eq!(outcome.step, play(&hot_pair(1_000_000), &region(3, 2, None)).step);
}

/// Wider than the circuits of a server: hot columns, as routers make them.
fn hot_columns(servers: u32) -> TaskGraph {
    let cells = servers * servers;
    let tokens: Vec<u32> = (0..cells)
        .map(|cell| {
            let (from, to) = (cell / servers, cell % servers);
            u32::from(from != to) * 40_000_000 / (1 + to)
        })
        .collect();
    let mut graph = with_blocks(empty_graph(1, 1, servers), &[&tokens, &tokens]);
    graph.roles[0].tasks = vec![all_to_all(0, true), compute(40_000 * US), all_to_all(1, false)];
    graph
}

#[test]
fn wide_regions_are_much_faster() {
    let graph = hot_columns(16);
    let direct = play(&graph, &region(16, 6, None)).step.0 - 40_000 * US;
    let relayed = play(&graph, &region(16, 6, Some(CHUNK))).step.0 - 40_000 * US;
    assert!(relayed * 3 < direct * 2, "{relayed} against {direct}");
}

/// On hot columns other circuits gain nothing once servers relay.
#[test]
fn circuits_that_gain_nothing_with_relays_are_not_switched() {
    let graph = hot_columns(16);
    let with = |when, relaying| {
        let ocs = Ocs { relaying, ..ocs_when(16, when) };
        play(&graph, &mixnet(16).with(ocs))
    };
    let held = with(Reconfigure::Never, Some(CHUNK));
    for policy in [Reconfigure::Always, Reconfigure::BreakEven] {
        let outcome = with(policy, Some(CHUNK));
        assert_eq!(outcome.circuits.relayed, 2);
        assert!(outcome.step.0 <= held.step.0 + held.step.0 / 100, "{policy:?}");
    }
}

#[test]
fn groups_that_share_servers_relay_too() {
    let mut graph = with_blocks(empty_graph(1, 2, 4), &[&[0; 16]]);
    graph.gpus_per_worker = 4;
    graph.worker_server = vec![0, 1, 2, 3, 3, 2, 1, 0];
    graph.demands[0].counts = (0..32).map(|cell| (cell % 7) * 3_000_000).collect();
    for group in 0..2 {
        for member in 0..4 {
            graph.demands[0].counts[group * 16 + member * 5] = 0;
        }
    }
    graph.roles[0].tasks = vec![all_to_all(0, true)];
    let outcome = play(&graph, &region(4, 2, Some(CHUNK)));
    assert_eq!(outcome.circuits.relayed + outcome.circuits.one_hop, 2);
    assert_eq!(outcome, play(&graph, &region(4, 2, Some(CHUNK))));
}

/// Whether routings are shared between equal requests makes no difference to what comes out.
#[test]
fn shared_routings_change_nothing() {
    let graph = hot_columns(16);
    for when in [Reconfigure::Never, Reconfigure::Always, Reconfigure::BreakEven] {
        let ocs = Ocs { relaying: Some(CHUNK), ..ocs_when(16, when) };
        let network = mixnet(16).with(ocs);
        let run = |share_equal_work| {
            let options = Options { share_equal_work, ..Options::default() };
            execute(&graph, &network, &options, &mut Silent).unwrap()
        };
        let (shared, alone) = (run(true), run(false));
        assert_eq!((shared.step, shared.ledger), (alone.step, alone.ledger));
        assert_eq!(shared.circuits.relayed, alone.circuits.relayed);
    }
}

#[test]
fn a_switch_that_gains_little_once_both_relay_must_not_cost_more_than_it_gains() {
    // One hop over the circuits held takes 533 us, after a switch 400 us; relays bring the former
    // to 400 us as well, and the latency of a chunk. That is all that a switch would save.
    let graph = hot_pair(80_000_000);
    let network = |delay| {
        let timing = SwitchTiming { fixed: Duration(delay), ..SwitchTiming::default() };
        let ocs = Ocs { ports: 2, timing, ..ocs_when(3, Reconfigure::BreakEven) };
        let network = mixnet(3).with(Ocs { relaying: Some(CHUNK), ..ocs });
        with_first(network, FirstAllToAll::Block)
    };
    for (delay, switches) in [(0, 1), (5 * US, 1), (15 * US, 0), (100 * US, 0)] {
        let outcome = play(&graph, &network(delay));
        assert_eq!(outcome.circuits.reconfigurations, switches, "delay {delay} ps");
        assert_eq!(outcome.circuits.exposed.0, switches * delay);
    }
}
