//! Whole steps of packets against closed forms and against flows.

use super::{NIC, US, carried, compute, line, one_ring, pairs, play, receive, ring, send, wait};
use crate::network::Network;
use crate::parts::{Eps, Ocs, RelayChunk};
use crate::testing::{all_to_all, direct, empty_graph, eps, mixnet, ocs_when, packet, with_blocks};
use crate::{Options, Outcome, PacketTransport, Plugins, Repeats, TransferModel, execute_as};
use lightloom_decide::Reconfigure;
use lightloom_kernel::Silent;
use lightloom_model::{
    AllToAll, CollectiveKind, Duration, FirstAllToAll, Rate, SwitchTiming, TaskGraph,
};

/// Bytes of a full packet on the wire, and of its payload.
const WIRE: u64 = 4160;
const MTU: u64 = 4096;

fn options(name: &str) -> PacketTransport {
    let options = PacketTransport::new(name, packet(1).extent()).expect("a transport");
    // Closed forms are of flows that begin at any time.
    PacketTransport { repeats: Repeats::InOneNetwork, ..options }
}

fn play_packets(graph: &TaskGraph, network: &Network, name: &str) -> Outcome {
    let record = Options { share_equal_work: true, ..Options::default() };
    execute_as(
        TransferModel::Packets(&options(name)),
        graph,
        network,
        &record,
        &mut Silent,
        Plugins::default(),
    )
    .expect("a valid step")
}

fn one(tokens: &[u32], members: u32) -> TaskGraph {
    let mut graph = with_blocks(empty_graph(1, 1, members), &[tokens]);
    graph.roles[0].tasks = vec![all_to_all(0, true)];
    graph
}

/// By how much one time is longer than another.
fn excess(packets: &Outcome, flows: &Outcome) -> f64 {
    packets.step.0 as f64 / flows.step.0 as f64 - 1.0
}

#[test]
fn one_pair_takes_what_store_and_forward_takes() {
    let (packets, links) = (25, 2);
    let graph = one(&[0, 8 * packets as u32 * MTU as u32, 0, 0], 2);
    for name in ["ideal", "roce"] {
        let outcome = play_packets(&graph, &packet(2), name);
        assert_eq!(outcome.step.0, (packets + links - 1) * WIRE * NIC + links * US, "{name}");
        assert_eq!(carried(&outcome, "ep"), [0, 8 * packets * MTU, 0, 0, 0]);
        for class in &outcome.links {
            assert_eq!(class.carried_bytes, 8 * packets * MTU, "{}", class.name);
        }
        // Eight flows over two links, and what was acknowledged until the last byte arrived.
        assert!(outcome.packet_hops > 8 * packets * links);
        assert!(outcome.packet_hops < 8 * packets * links * 2);
    }
}

#[test]
fn every_rail_has_its_tor() {
    // Rank 0 of member 0 to rank 1 of member 1: slots of four NICs, over the layer above.
    let mut graph = one(&[0, 4 * 10 * MTU as u32, 0, 0], 2);
    graph.demands[0].ranks_per_member = 2;
    graph.demands[0].rank_counts = vec![0; 16];
    graph.demands[0].rank_counts[3] = 4 * 10 * MTU as u32;
    let rails = Eps { rails: eps(2).nics, ..eps(2) };
    let outcome = play_packets(&graph, &packet(2).with(rails), "ideal");
    assert_eq!(outcome.step.0, (10 + 3) * WIRE * NIC + 4 * US);
    assert_eq!(play_packets(&graph, &packet(2), "ideal").step.0, (10 + 1) * WIRE * NIC + 2 * US);
}

#[test]
fn pods_and_uplinks_are_as_the_network_says() {
    // Two servers in two pods of one ToR each, whose four uplinks are half of its NICs.
    let eps = Eps {
        servers_per_tor: 1,
        servers_per_pod: 1,
        tor_uplink: Some(Rate(1_600_000_000_000)),
        ..eps(2)
    };
    let network = packet(2).with(eps);
    let graph = one(&[0, 8 * 100 * MTU as u32, 0, 0], 2);
    let outcome = play_packets(&graph, &network, "ideal");
    let alone = (100 + 5) * WIRE * NIC + 6 * US;
    // Eight flows on four uplinks, drawn by hash: at best two on each, at worst all on one.
    assert!(outcome.step.0 > alone + 90 * WIRE * NIC, "{} {alone}", outcome.step.0);
    assert!(outcome.step.0 < alone + 8 * 100 * WIRE * NIC);
}

#[test]
fn relays_pass_packets_on_over_their_nvswitch() {
    let bytes = 2 * 50 * MTU;
    let graph = one(&[0, 0, bytes as u32, 0, 0, 0, 0, 0, 0], 3);
    let outcome = play_packets(&graph, &direct(3, line()), "ideal");
    // Two links of NICs and twice the NVSwitch of the relay, on which both flows may meet.
    let crossing = WIRE * 8 * 1000 / 28_800;
    let all_to_all = (50 + 1) * WIRE * NIC + 2 * US + 3 * US + 2 * crossing;
    let flows = play(&graph, &direct(3, line()));
    let scattering = flows.step.0 - (50 * MTU * NIC + 5 * US);
    let expected = all_to_all + scattering;
    assert!(outcome.step.0.abs_diff(expected) <= 2 * crossing, "{} {expected}", outcome.step.0);
    assert_eq!(carried(&outcome, "ep")[1..], [0, 0, bytes, bytes]);
}

#[test]
fn every_circuit_of_every_bundle_carries_alike() {
    // Three circuits, then two: six flows, so that both bundles are as fast as fluids find them.
    let mut fabric = line();
    fabric.circuits[0].count = 3;
    let bytes = 6 * 100 * MTU;
    let graph = one(&[0, 0, bytes as u32, 0, 0, 0, 0, 0, 0], 3);
    let packets = play_packets(&graph, &direct(3, fabric.clone()), "ideal");
    let flows = play(&graph, &direct(3, fabric));
    let excess = excess(&packets, &flows);
    assert!((0.0..0.03).contains(&excess), "{excess}");
}

#[test]
fn circuits_go_dark_and_come_up() {
    // 0 and 1, 2 and 3 send much to each other at first, 0 and 2, 1 and 3 then.
    let [first, second] =
        [[(0, 1), (2, 3)], [(0, 2), (1, 3)]].map(|ends| pairs(4, &ends, 8_000_000));
    let mut graph = with_blocks(empty_graph(1, 1, 4), &[&first, &second]);
    let between = compute(40_000 * US);
    graph.roles[0].tasks = vec![all_to_all(0, true), between, all_to_all(1, false)];
    let policy = ocs_when(4, Reconfigure::Always);
    let network = mixnet(4).with(policy);
    for name in ["ideal", "roce", "dctcp"] {
        let (packets, flows) = (play_packets(&graph, &network, name), play(&graph, &network));
        assert_eq!(packets.circuits.reconfigurations, 1);
        assert_eq!(packets.ledger, flows.ledger);
        let (exchanged, fluid) = (packets.step.0 - 40_000 * US, flows.step.0 - 40_000 * US);
        let excess = exchanged as f64 / fluid as f64 - 1.0;
        // DCTCP begins with ten packets: round trips pass until its window fills a circuit.
        let slower = if name == "dctcp" { 0.15 } else { 0.05 };
        assert!((0.0..slower).contains(&excess), "{name}: {excess}");
    }
}

#[test]
fn regions_relay_packets() {
    let chunk = RelayChunk { bytes: 50_000, latency: Duration(10 * US) };
    let ocs = Ocs { ports: 2, ..ocs_when(3, Reconfigure::Never) };
    let network = mixnet(3).with(Ocs { relaying: Some(chunk), ..ocs });
    let graph = one(&[0, 8_000_000, 0, 0, 0, 0, 0, 0, 0], 3);
    let (packets, flows) = (play_packets(&graph, &network, "ideal"), play(&graph, &network));
    assert_eq!(packets.circuits.relayed, 1);
    assert_eq!(packets.ledger, flows.ledger);
    let excess = excess(&packets, &flows);
    assert!((0.0..0.05).contains(&excess), "{excess}");
}

#[test]
fn as_packets_shrink_times_become_those_of_flows() {
    // From everywhere to everywhere, and a pipeline and a ring of three.
    let tokens: Vec<u32> = (0..9).map(|cell| if cell % 4 == 0 { 0 } else { 4_000_000 }).collect();
    let all_to_all = one(&tokens, 3);
    let mut sends = empty_graph(2, 1, 1);
    sends.roles[0].tasks = vec![send(1, 1, 8_000_000)];
    sends.roles[1].tasks = vec![receive(0, 1)];
    let mut rings = empty_graph(1, 1, 3);
    rings.families.push(one_ring(3));
    rings.roles[0].tasks = vec![ring(CollectiveKind::AllReduce, 1, 8_000_000, 0), wait(1)];
    for (graph, servers) in [(&all_to_all, 3), (&sends, 2), (&rings, 3)] {
        let flows = play(graph, &packet(servers));
        let excess = |mtu: u32| {
            let mut options = options("ideal");
            // What is no payload is a constant share, so that only the size of packets differs.
            (options.config.mtu, options.config.header) = (mtu, mtu / 1024);
            options.config.control_bytes = mtu / 1024;
            let model = TransferModel::Packets(&options);
            let record = Options::default();
            let network = packet(servers);
            let outcome =
                execute_as(model, graph, &network, &record, &mut Silent, Plugins::default());
            excess(&outcome.unwrap(), &flows)
        };
        let (large, small) = (excess(8192), excess(1024));
        assert!(large > small && small > 0.0, "{large} {small}");
        // Headers are left; what depends on the size shrinks by eight with it.
        let header = 1.0 / 1024.0;
        let ratio = (large - header) / (small - header);
        assert!((4.0..16.0).contains(&ratio), "{ratio}: {large} {small}");
    }
}

#[test]
fn equal_steps_of_packets_have_equal_hashes() {
    let graph = one(&[0, 900_000, 300_000, 5_000, 0, 70_000, 800_000, 1, 0], 3);
    let network = Network { all_to_all: AllToAll::Hierarchical, ..packet(3) };
    for name in lightloom_packetsim::TransportName::ALL.iter().map(|name| name.name()) {
        let (one, other) =
            (play_packets(&graph, &network, name), play_packets(&graph, &network, name));
        assert_eq!(one, other);
    }
}

#[test]
fn what_cannot_be_sent_is_refused() {
    let text = PacketTransport::new("tcp", packet(1).extent()).unwrap_err().to_string();
    assert!(text.starts_with("transport = 'tcp': expected one of ideal, "), "{text}");
    let mut large = options("dctcp");
    large.config.mtu = 1 << 17;
    assert!(refusal(&large, &packet(2)).starts_with("mtu 131072 B and"));
}

fn refusal(options: &PacketTransport, network: &Network) -> String {
    let model = TransferModel::Packets(options);
    let graph = one(&[0, 1, 0, 0], 2);
    execute_as(model, &graph, network, &Options::default(), &mut Silent, Plugins::default())
        .unwrap_err()
        .to_string()
}

#[test]
fn more_links_than_memory_holds_are_refused_before_they_are_made() {
    let of = |servers: u32, nics: u32, servers_per_tor: u32| {
        let tree = Eps { nics, servers_per_tor, servers_per_pod: 1, ..eps(servers) };
        refusal(&options("dctcp"), &packet(servers).with(tree))
    };
    assert_eq!(of(2, 1 << 31, 1), "4294967296 links; expected at most 4194304");
    // a ToR of many pods has as many uplinks in each as there are NICs of all servers below it
    assert_eq!(of(2048, 2, 2048), "8392704 links; expected at most 4194304");
}

/// Four servers of eight circuits each, no packet fabric for what may take these, 25 ms to switch.
#[test]
fn packets_that_begin_as_circuits_come_up_take_all_of_them() {
    let packets = 50;
    let bytes = 8 * packets * MTU;
    // One way, so that no acknowledgments are in between.
    let mut demand = [0; 16];
    (demand[1], demand[11]) = (bytes as u32, bytes as u32);
    let graph = one(&demand, 4);
    for keep_unchanged in [true, false] {
        let base = ocs_when(4, Reconfigure::Always);
        let timing = SwitchTiming { keep_unchanged, ..base.timing };
        let network = mixnet(4).with(Ocs {
            ports: 8,
            split: false,
            first: FirstAllToAll::Block,
            timing,
            ..base
        });
        let outcome = play_packets(&graph, &network, "ideal");
        assert_eq!(outcome.circuits.reconfigurations, 1);
        assert_eq!(carried(&outcome, "ep")[1..3], [0, 2 * bytes]);
        assert_eq!(outcome.step.0, 25_000 * US + packets * WIRE * NIC + US);
    }
}

#[test]
fn packets_of_two_ranks_share_no_nic() {
    // Each rank of a member sends to the same rank of the other one, over its own four NICs.
    let bytes = 4 * 20 * MTU;
    let mut graph = one(&[0, 2 * bytes as u32, 0, 0], 2);
    graph.demands[0].ranks_per_member = 2;
    graph.demands[0].rank_counts = vec![0; 16];
    for cell in [2, 7] {
        graph.demands[0].rank_counts[cell] = bytes as u32;
    }
    let outcome = play_packets(&graph, &packet(2), "ideal");
    assert_eq!(outcome.step.0, (20 + 1) * WIRE * NIC + 2 * US);
}

/// One message between two servers of two ToRs: the uplinks of a ToR are as fast as they are said
/// to be, alone or together.
#[test]
fn slow_uplinks_slow_packets_down_as_much() {
    let gbps = |rate: u64| Rate(rate * 1_000_000_000);
    let (packets, nics) = (400, 2);
    let mut graph = empty_graph(2, 1, 1);
    graph.roles[0].tasks = vec![send(1, 0, nics * packets * MTU)];
    graph.roles[1].tasks = vec![receive(0, 0)];
    let step = |uplink: u64| {
        let fabric = Eps {
            nics: nics as u32,
            servers_per_tor: 1,
            servers_per_pod: 2,
            tor_uplink: Some(gbps(uplink)),
            ..eps(2)
        };
        play_packets(&graph, &packet(2).with(fabric), "ideal").step.0
    };
    // All packets cross one uplink of 200 Gb/s, or of 100: twice and four times as long as a NIC's.
    let wire = nics * packets * WIRE * NIC;
    for (uplink, times) in [(200, 2), (100, 4), (400, 1)] {
        let found = step(uplink);
        let (low, high) = (times * wire, times * (wire + 8 * WIRE * NIC) + 4 * US);
        assert!((low..=high).contains(&found), "{uplink}: {found} {low} {high}");
    }
}

/// Above the ToRs a fabric is as wide as its NICs: two pods of two ToRs each, one server per ToR.
#[test]
fn pods_are_joined_by_as_many_cores_as_they_need() {
    let (packets, nics) = (300, 4);
    let fabric = Eps { nics: nics as u32, servers_per_tor: 1, servers_per_pod: 2, ..eps(4) };
    let network = packet(4).with(fabric);
    let step = |senders: &[usize]| {
        let mut graph = empty_graph(4, 1, 1);
        for &sender in senders {
            graph.roles[sender].tasks = vec![send(sender as u32 + 2, 0, nics * packets * MTU)];
            graph.roles[sender + 2].tasks = vec![receive(sender as u32, 0)];
        }
        play_packets(&graph, &network, "ndp").step.0
    };
    // Packets that are spread over all paths find all cores free of each other.
    let (alone, both) = (step(&[0]), step(&[0, 1]));
    assert!(alone >= packets * WIRE * NIC + 6 * US);
    assert!(both < alone * 5 / 4, "{both} instead of {alone}");
}
