//! Trees as graphs against the packet fabric, and graphs that are no trees.

use super::*;
use crate::network::{Network, PartConfig};
use crate::parts::Eps;
use crate::testing::{GBPS, all_to_all, empty_graph, eps, packet, with_blocks};
use crate::{Options, Outcome, PacketTransport, Plugins, TransferModel, execute_as};
use lightloom_kernel::Silent;
use lightloom_model::TaskGraph;

const RATE: u64 = 400 * GBPS;

fn bundle(a: u32, b: u32, count: u32) -> Bundle {
    Bundle { a, b, count, rate: Rate(RATE), delay: Duration(1_000_000), layer: 0 }
}

/// Switches of servers whose links lead to these.
fn graph(nics: u32, switches: u32, ports: &[&[u32]], bundles: Vec<Bundle>) -> SwitchGraph {
    SwitchGraph {
        nics,
        ports: ports[0].len() as u32 / nics,
        port_rate: Rate(RATE),
        port_delay: Duration(1_000_000),
        switches,
        switch_of_port: ports.concat(),
        bundles,
        layers: vec![("up".into(), "down".into())],
        reached: 1.0,
        ..SwitchGraph::default()
    }
}

/// Sets of `rails` leaves for two servers each, all joined to as many spines as a leaf has links.
fn leaf_spine(servers: u32, rails: u32) -> SwitchGraph {
    let leaves = servers / 2 * rails;
    let of_server = |server: u32| -> Vec<u32> {
        (0..8).map(|nic| server / 2 * rails + nic * rails / 8).collect()
    };
    let ports: Vec<Vec<u32>> = (0..servers).map(of_server).collect();
    let ports: Vec<&[u32]> = ports.iter().map(Vec::as_slice).collect();
    let spines = 2 * 8 / rails;
    let all = (0..leaves).flat_map(|leaf| (0..spines).map(move |spine| (leaf, leaves + spine)));
    let bundles = all.map(|(a, b)| bundle(a, b, 1)).collect();
    SwitchGraph { reached: 0.75, ..graph(8, leaves + spines, &ports, bundles) }
}

fn tree(servers: u32, rails: u32) -> Eps {
    // three quarters of the uplinks of a ToR, as of the graph
    let reached = Rate(2 * 8 * RATE / u64::from(rails) * 3 / 4);
    let eps = Eps { servers_per_tor: 2, servers_per_pod: servers, rails, ..eps(servers) };
    Eps { tor_uplink_reached: Some(reached), ..eps }
}

fn uneven(servers: u32, scale: u32) -> TaskGraph {
    let members = servers as usize;
    let bytes = |cell: usize| scale * (1 + (cell * 7 % 5) as u32);
    let matrix: Vec<u32> = (0..members * members)
        .map(|cell| if cell.is_multiple_of(members + 1) { 0 } else { bytes(cell) })
        .collect();
    let mut graph = with_blocks(empty_graph(1, 1, servers), &[&matrix]);
    graph.roles[0].tasks = vec![all_to_all(0, true)];
    graph
}

fn alone(servers: u32, part: impl PartConfig + 'static) -> Network {
    Network { parts: vec![], ..packet(servers) }.with(part)
}

fn run(model: TransferModel, graph: &TaskGraph, network: &Network) -> Outcome {
    let options = Options { share_equal_work: true, ..Options::default() };
    execute_as(model, graph, network, &options, &mut Silent, Plugins::default())
        .expect("a valid step")
}

#[test]
fn a_tree_as_a_graph_takes_the_same_time_to_the_picosecond() {
    for rails in [1, 2, 8] {
        let job = uneven(6, 1_000_003);
        let (as_graph, as_tree) = (alone(6, leaf_spine(6, rails)), alone(6, tree(6, rails)));
        let [a, b] = [&as_graph, &as_tree].map(|net| run(TransferModel::Flows, &job, net));
        assert_eq!(a.step, b.step, "{rails} rails");
        let carried = |outcome: &Outcome| -> Vec<u64> {
            outcome.links.iter().map(|class| class.carried_bytes).collect()
        };
        assert_eq!(carried(&a), carried(&b));
    }
}

#[test]
fn a_graph_without_nics_takes_as_long_as_the_tree_without_them() {
    for rails in [1, 2, 8] {
        for failed in [vec![(1, 3)], vec![(0, 0), (0, 1), (5, 7)], vec![(2, 0), (3, 0)]] {
            let job = uneven(6, 1_000_003);
            let failed: std::collections::BTreeSet<(u32, u32)> = failed.into_iter().collect();
            let as_graph = alone(6, SwitchGraph { failed: failed.clone(), ..leaf_spine(6, rails) });
            let as_tree = alone(6, Eps { failed: failed.clone(), ..tree(6, rails) });
            let [a, b] = [&as_graph, &as_tree].map(|net| run(TransferModel::Flows, &job, net));
            let whole = run(TransferModel::Flows, &job, &alone(6, leaf_spine(6, rails)));
            // of several ToRs that a group of NICs does not tell apart the tree makes one
            let apart = a.step.0.abs_diff(b.step.0) as f64 / b.step.0 as f64;
            assert!(rails > 1 || apart < 1e-6, "{failed:?}: {} {}", a.step.0, b.step.0);
            // fair flows are not the shortest: with fewer links they may end a little earlier
            assert!(a.step.0 * 1_005 >= whole.step.0 * 1_000, "{rails} rails, {failed:?}");
        }
    }
}

#[test]
fn links_that_are_lost_at_one_end_each_are_paired_anew() {
    let failed = [(0, 0), (1, 1)].into_iter().collect();
    let two = |ports| graph(2, 1, &[&[0, 0], &[0, 0]], ports);
    let (part, links) = built(2, &SwitchGraph { failed, ..two(vec![]) });
    assert_eq!(paths(&part, 0, 1), [(2, 1_000_000)]);
    assert_eq!(links.count(), 4);
}

#[test]
fn a_tree_as_a_graph_is_the_same_run_of_packets() {
    for rails in [1, 8] {
        let job = uneven(4, 40_960);
        let (as_graph, as_tree) = (alone(4, leaf_spine(4, rails)), alone(4, tree(4, rails)));
        let packets = PacketTransport::new("roce", as_graph.extent()).expect("a transport");
        assert_eq!(as_graph.extent(), as_tree.extent());
        let [a, b] =
            [&as_graph, &as_tree].map(|net| run(TransferModel::Packets(&packets), &job, net));
        assert_eq!((a.step, a.packet_hops), (b.step, b.packet_hops), "{rails} rails");
    }
}

/// Paths from one server's first group of NICs to another's, and the link rates on them.
fn paths(part: &SwitchPart, from: u32, to: u32) -> Vec<(usize, u64)> {
    let mut division = Division::default();
    let group = |server| NicGroup { server: ServerId(server), group: 0 };
    part.push(group(from), group(to), 1_000_000, &mut division);
    let shares = division.shares.iter();
    shares.map(|share| (division.paths.links(share.path).len(), share.bytes)).collect()
}

fn built(servers: u32, config: &SwitchGraph) -> (SwitchPart, Links) {
    let network = alone(servers, config.clone());
    network.validate().expect("a valid network");
    let placement = network.place(&empty_graph(1, servers, 1)).expect("a place for each");
    let mut links = Links::flows();
    let mut setting =
        Setting { id: PartId::at(0), network: &network, placement: &placement, links: &mut links };
    let part = SwitchPart::new(config, &mut setting).expect("joined servers");
    (part, links)
}

#[test]
fn spines_are_one_and_so_are_separate_planes() {
    let (part, links) = built(6, &leaf_spine(6, 1));
    // up and down of six servers, and of three leaves
    assert_eq!(links.count(), 12 + 6);
    assert_eq!(paths(&part, 0, 1), [(2, 1_000_000)]);
    assert_eq!(paths(&part, 0, 2), [(4, 1_000_000)]);
    // two planes: each NIC has a link on both
    let ports: Vec<Vec<u32>> =
        (0..4).map(|server| [server / 2, 3 + server / 2].repeat(8)).collect();
    let ports: Vec<&[u32]> = ports.iter().map(Vec::as_slice).collect();
    let between =
        [0, 3].map(|first| [bundle(first, first + 2, 4), bundle(first + 1, first + 2, 4)]);
    let (part, links) = built(4, &graph(8, 6, &ports, between.concat()));
    assert_eq!(links.count(), 8 + 4);
    assert_eq!(paths(&part, 0, 3), [(4, 1_000_000)]);
}

#[test]
fn bytes_are_divided_among_shortest_paths_by_rate() {
    // leaf 0 to leaf 1 over switch 2 by three links, over switch 3 by one
    let wide = vec![bundle(0, 2, 3), bundle(2, 1, 3), bundle(0, 3, 1), bundle(3, 1, 1)];
    let (part, _) = built(2, &graph(8, 4, &[&[0; 8], &[1; 8]], wide));
    assert_eq!(paths(&part, 0, 1), [(4, 750_000), (4, 250_000)]);
    // a longer way is not taken
    let detour = vec![bundle(0, 1, 1), bundle(0, 2, 9), bundle(2, 1, 9)];
    let (part, _) = built(2, &graph(8, 3, &[&[0; 8], &[1; 8]], detour));
    assert_eq!(paths(&part, 0, 1), [(3, 1_000_000)]);
}

#[test]
fn of_very_many_paths_some_are_taken_evenly() {
    // a grid of eight by eight switches, servers at two corners: 3,432 ways
    let at = |x: u32, y: u32| 8 * y + x;
    let cells = (0..8).flat_map(|y| (0..8).map(move |x| (x, y)));
    let bundles = cells
        .flat_map(|(x, y)| {
            let right = (x < 7).then(|| bundle(at(x, y), at(x + 1, y), 1));
            right.into_iter().chain((y < 7).then(|| bundle(at(x, y), at(x, y + 1), 1)))
        })
        .collect();
    let config = graph(8, 64, &[&[0; 8], &[63; 8]], bundles);
    let (part, _) = built(2, &config);
    let shares = paths(&part, 0, 1);
    assert_eq!(shares.len(), 16);
    assert!(shares.iter().all(|&(links, bytes)| links == 16 && bytes == 62_500), "{shares:?}");
}

#[test]
fn wrong_graphs_are_refused_in_one_line() {
    let refusal = |config: SwitchGraph| alone(2, config).validate().unwrap_err().to_string();
    let ports: [&[u32]; 2] = [&[0; 8], &[1; 8]];
    let joined = |bundles| graph(8, 2, &ports, bundles);
    assert_eq!(refusal(joined(vec![bundle(0, 0, 1)])), "switches: 0 - 0 are no two switches");
    assert_eq!(refusal(joined(vec![bundle(0, 2, 1)])), "switches: 0 - 2 are no two switches");
    assert_eq!(
        refusal(joined(vec![bundle(0, 1, 0)])),
        "switches: 0 links 0 - 1: expected 1 to 1024"
    );
    let config = SwitchGraph { reached: 0.0, ..joined(vec![bundle(0, 1, 1)]) };
    assert_eq!(refusal(config), "switches: reached = 0: expected above 0, to 1");
    let config = graph(8, 2, &ports[..1], vec![bundle(0, 1, 1)]);
    assert_eq!(refusal(config), "switches: 8 links of servers, expected 16");
    let failed = [(1, 8)].into_iter().collect();
    let config = SwitchGraph { failed, ..joined(vec![bundle(0, 1, 1)]) };
    assert_eq!(refusal(config), "switches: link 8 of server 1 has failed, which is not there");
    let chain: Vec<Bundle> = (0..99).map(|at| bundle(at, at + 1, 1)).collect();
    let config = graph(8, 100, &[&[0; 8], &[99; 8]], chain);
    assert_eq!(refusal(config), "switches: a path has 99 links, expected at most 64");
    let apart = alone(2, joined(vec![]));
    let placement = apart.place(&empty_graph(1, 2, 1)).expect("a place for each");
    let mut links = Links::flows();
    let mut setting =
        Setting { id: PartId::at(0), network: &apart, placement: &placement, links: &mut links };
    let error = SwitchPart::new(&joined(vec![]), &mut setting).unwrap_err().to_string();
    assert!(error.contains("no links lead from server 0 to server 1"), "{error}");
}
