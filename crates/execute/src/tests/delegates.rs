//! Messages and rings that leave over NICs of other GPUs, which copy them over the NVSwitch.

use super::{NIC, US, carried, one_ring, play, receive, ring, send, wait};
use crate::network::Network;
use crate::parts::Eps;
use crate::testing::{GBPS, empty_graph, eps, mixnet, packet};
use lightloom_model::{AllToAll, CollectiveKind, Duration, NvSwitch, Rate, TaskGraph};
use proptest::prelude::*;

const BYTES: u64 = 72_000_000;

/// Latency of a hop over the NVSwitch.
const HOP: u64 = 3 * US;

/// One message between two servers.
fn message(bytes: u64) -> TaskGraph {
    let mut graph = empty_graph(2, 1, 1);
    graph.roles[0].tasks = vec![send(1, 0, bytes)];
    graph.roles[1].tasks = vec![receive(0, 0)];
    graph
}

/// One ring of four servers.
fn all_reduce(bytes: u64) -> TaskGraph {
    let mut graph = empty_graph(1, 4, 1);
    graph.families.push(one_ring(4));
    graph.roles[0].tasks = vec![ring(CollectiveKind::AllReduce, 5, bytes, 0), wait(5)];
    graph
}

/// So many NICs, which all bytes of a server share.
fn pooled(servers: u32, nics: u32) -> Network {
    let network = Network { all_to_all: AllToAll::Hierarchical, ..packet(servers) };
    network.with(Eps { nics, ..eps(servers) })
}

/// GPUs that reach the NVSwitch at so many Gb/s, and each other in 3 us.
fn with_nvlink(network: Network, gbps: u64) -> Network {
    let mut nvswitch = NvSwitch::uniform(Rate(gbps * GBPS), Duration(2 * US));
    nvswitch.gather.peer = Duration(HOP);
    Network { nvswitch, ..network }
}

/// Picoseconds of bytes over so many links of so many Gb/s.
fn over(bytes: u64, links: u64, gbps: u64) -> u64 {
    bytes * 8_000 / (links * gbps)
}

#[test]
fn a_message_over_two_nics_of_eight_gpus_is_as_long_as_its_slower_stage() {
    let graph = message(BYTES);
    let latency = 2 * US + 2 * HOP;
    // each delegate holds an eighth, and copies three eighths of the bytes
    for (gbps, slower) in [(3600, over(BYTES, 2, 400)), (100, over(BYTES * 3 / 8, 1, 100))] {
        let outcome = play(&graph, &with_nvlink(pooled(2, 2), gbps));
        assert_eq!(outcome.step.0, slower + latency, "{gbps} Gb/s");
        // both ends, both delegates
        assert_eq!(carried(&outcome, "pp")[..2], [BYTES * 3 / 2, BYTES]);
    }
}

#[test]
fn bytes_that_leave_over_the_nics_of_their_gpus_are_not_copied() {
    let own = play(&message(BYTES), &packet(2));
    assert_eq!(own.step.0, BYTES * NIC / 8 + 2 * US);
    for network in [pooled(2, 8), pooled(2, 16), packet(2).with(Eps { nics: 2, ..eps(2) })] {
        assert_eq!(carried(&play(&message(BYTES), &network), "pp")[0], 0);
    }
    assert_eq!(play(&message(BYTES), &pooled(2, 8)).step, own.step);
}

#[test]
fn workers_that_use_the_nics_of_their_neighbors_copy_half_or_all_of_a_message() {
    let mut graph = message(BYTES);
    graph.gpus_per_worker = 4;
    // half of the NICs of a server are the worker's own, or all are everybody's
    let outcome = play(&graph, &with_nvlink(pooled(2, 8), 20));
    assert_eq!(outcome.step.0, over(BYTES, 8, 20) + 2 * US + 2 * HOP);
    assert_eq!(carried(&outcome, "pp")[0], 2 * BYTES);
}

#[test]
fn a_ring_copies_what_each_edge_carries_and_waits_in_each_step() {
    let edge = BYTES * 6 / 4;
    for (gbps, slower) in [(3600, over(edge, 2, 400)), (100, over(edge * 3 / 8, 1, 100))] {
        let outcome = play(&all_reduce(BYTES), &with_nvlink(pooled(4, 2), gbps));
        assert_eq!(outcome.step.0, slower + 6 * (2 * US + 2 * HOP), "{gbps} Gb/s");
        assert_eq!(carried(&outcome, "dp")[..2], [4 * edge * 3 / 2, 4 * edge]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Packet NICs cost the same whatever else a server has.
    #[test]
    fn pooled_nics_of_a_tree_and_alongside_circuits_cost_the_same(
        bytes in 1_u64..100_000_000,
        nics in 1_u32..9,
        gbps in 10_u64..4000,
    ) {
        for graph in [message(bytes), all_reduce(bytes)] {
            let servers = graph.worker_server.len() as u32;
            let alongside = mixnet(servers).with(Eps { nics, ..eps(servers) });
            let run = |network| play(&graph, &with_nvlink(network, gbps)).step;
            prop_assert_eq!(run(pooled(servers, nics)), run(alongside));
            // more NICs never take longer
            prop_assert!(run(pooled(servers, nics + 1)) <= run(pooled(servers, nics)));
        }
    }
}
