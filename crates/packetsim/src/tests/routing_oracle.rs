//! Routing against all shortest paths, found by trying every one, on random networks.

use super::plain;
use crate::transport::line_rate::LineRate;
use crate::{Cable, Config, Core, NicId, NodeId, PacketLinkId, Simulation, Topology, presets};
use lightloom_model::{Duration, Rate};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const CABLE: Cable = Cable { rate: Rate(100_000_000_000), delay: Duration(1_000) };

/// Switches, the pairs of them that are joined, and the switch of each host.
#[derive(Debug, Clone)]
struct Map {
    switches: u32,
    joined: Vec<(u32, u32)>,
    hosts: Vec<u32>,
}

fn map() -> impl Strategy<Value = Map> {
    (2..7_u32).prop_flat_map(|switches| {
        let pair = (0..switches, 0..switches).prop_filter("two ends", |(a, b)| a != b);
        let joined = proptest::collection::vec(pair, 1..14);
        let hosts = proptest::collection::vec(0..switches, 2..7);
        (joined, hosts).prop_map(move |(joined, hosts)| Map { switches, joined, hosts })
    })
}

impl Map {
    fn topology(&self) -> Topology {
        let mut topology = Topology::new();
        let hosts: Vec<NodeId> = self.hosts.iter().map(|_| topology.add_host()).collect();
        let switches: Vec<NodeId> = (0..self.switches).map(|_| topology.add_switch()).collect();
        for (&host, &place) in hosts.iter().zip(&self.hosts) {
            topology.connect(host, switches[place as usize], CABLE, ["up", "down"]).unwrap();
        }
        for &(a, b) in &self.joined {
            let [a, b] = [a, b].map(|switch| switches[switch as usize]);
            topology.connect(a, b, CABLE, ["between", "between"]).unwrap();
        }
        topology
    }
}

fn core(topology: &Topology, seed: u64) -> Core {
    let config = Config { seed, ..plain() };
    Simulation::new(topology.clone(), config, LineRate::new).unwrap().core().clone()
}

/// Paths of at most so many links from a node to another that pass no host.
fn walks(topology: &Topology, from: NodeId, to: NodeId, links: usize) -> Vec<Vec<PacketLinkId>> {
    if from == to {
        return vec![Vec::new()];
    }
    if links == 0 {
        return Vec::new();
    }
    let leaving = topology.link_ids().filter(|link| topology.links()[link.0 as usize].from == from);
    let mut routes = Vec::new();
    for link in leaving {
        let next = topology.links()[link.0 as usize].to;
        if topology.is_host(next) && next != to {
            continue;
        }
        for rest in walks(topology, next, to, links - 1) {
            routes.push([vec![link], rest].concat());
        }
    }
    routes
}

/// All paths that are as short as any.
fn shortest(topology: &Topology, from: NodeId, to: NodeId) -> BTreeSet<Vec<PacketLinkId>> {
    let found = (1..9).map(|links| walks(topology, from, to, links));
    found.into_iter().find(|paths| !paths.is_empty()).unwrap_or_default().into_iter().collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    /// Only shortest paths are taken, each of them by some flow; where none joins two hosts there
    /// is none, and a flow between them is refused.
    #[test]
    fn exactly_the_shortest_paths_are_taken(map in map(), seed: u64) {
        let topology = map.topology();
        let core = core(&topology, seed);
        let hosts = map.hosts.len() as u32;
        for (from, to) in (0..hosts).flat_map(|from| (0..hosts).map(move |to| (from, to))) {
            if from == to {
                continue;
            }
            let expected = shortest(&topology, NodeId(from), NodeId(to));
            let path = |entropy| core.path(NicId(from), NicId(to), entropy);
            if expected.is_empty() {
                prop_assert_eq!(path(1), None);
                continue;
            }
            // A path has a probability of 1/27 at the least if three switches choose among three.
            let paths: BTreeSet<_> = (0..400).map(|entropy| path(entropy).unwrap()).collect();
            prop_assert!(paths.is_subset(&expected));
            if expected.len() <= 9 {
                prop_assert_eq!(paths.len(), expected.len());
            }
        }
    }
}

/// How often each path of a fat tree is taken between two hosts of different pods.
fn counts(seed: u64, draws: u64) -> BTreeMap<Vec<PacketLinkId>, u64> {
    let topology = presets::fat_tree(128, 8, CABLE.rate, CABLE.delay).unwrap();
    let core = core(&topology, seed);
    let mut counts = BTreeMap::new();
    for entropy in 0..draws {
        *counts.entry(core.path(NicId(3), NicId(99), entropy).unwrap()).or_default() += 1;
    }
    counts
}

/// Four aggregation switches of the pod, and four cores above each: if their choices depended on
/// each other, some of the sixteen paths would be taken more often.
#[test]
fn successive_switches_choose_independently() {
    for seed in [1, 2, 77] {
        let (paths, draws) = (16, 16_000);
        let counts = counts(seed, draws);
        let expected = (draws / paths) as f64;
        let square = |&count: &u64| (count as f64 - expected).powi(2) / expected;
        let chi: f64 = counts.values().map(square).sum();
        assert_eq!(counts.len() as u64, paths, "all of them");
        // 15 degrees of freedom: 37.7 with a probability of 0.001.
        assert!(chi < 37.7, "chi squared {chi} with seed {seed}");
    }
}

#[test]
fn the_seed_decides_which_path_a_flow_takes() {
    let topology = presets::fat_tree(128, 8, CABLE.rate, CABLE.delay).unwrap();
    let paths = |seed| {
        let core = core(&topology, seed);
        (0..40).map(|entropy| core.path(NicId(3), NicId(99), entropy).unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(paths(5), paths(5));
    let alike = paths(5).iter().zip(paths(6)).filter(|(a, b)| **a == *b).count();
    assert!(alike < 12, "{alike} of 40 alike; one in sixteen by chance");
}
