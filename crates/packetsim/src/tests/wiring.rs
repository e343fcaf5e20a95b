//! The wiring of named topologies, link by link, from the formulas of their documentation.

use crate::presets::{fat_tree, leaf_spine, rail, rail_route, smallest_radix, star};
use crate::{Cable, PacketLinkId, Topology};
use lightloom_model::{Duration, Rate};
use std::collections::{BTreeMap, BTreeSet};

const RATE: Rate = Rate(100_000_000_000);
const DELAY: Duration = Duration(500);

/// The cables by the names of their ends, and the number of each.
fn cables(topology: &Topology) -> BTreeMap<(String, String), usize> {
    let mut count_of = BTreeMap::new();
    for link in topology.link_ids().step_by(2) {
        let spec = topology.links()[link.0 as usize];
        let back = topology.links()[link.reverse().0 as usize];
        assert_eq!((back.from, back.to), (spec.to, spec.from));
        assert_eq!((back.rate, back.delay), (spec.rate, spec.delay));
        *count_of.entry((topology.title(spec.from), topology.title(spec.to))).or_default() += 1;
    }
    count_of
}

/// Number of cables at each switch whose name begins so.
fn ports(topology: &Topology, kind: &str) -> BTreeMap<String, usize> {
    let mut count_of = BTreeMap::new();
    for ((a, b), count) in cables(topology) {
        for end in [a, b].into_iter().filter(|end| end.starts_with(kind)) {
            *count_of.entry(end).or_default() += count;
        }
    }
    count_of
}

/// Al-Fares et al.: host h under ToR h / (k / 2); the aggregation switch at position p of a pod
/// under the cores p + (k / 2) l.
#[test]
fn a_fat_tree_is_wired_as_published() {
    for (hosts, radix) in [(16, 4), (54, 6), (128, 8), (20, 6), (3, 4)] {
        let topology = fat_tree(hosts, radix, RATE, DELAY).unwrap();
        let half = radix / 2;
        let tors = hosts.div_ceil(half);
        let pods = tors.div_ceil(half);
        let mut expected = BTreeSet::new();
        for host in 0..hosts {
            expected.insert((format!("host {host}"), format!("tor-{}", host / half)));
        }
        for tor in 0..tors * u32::from(tors > 1) {
            for position in 0..half {
                let above = tor / half * half + position;
                expected.insert((format!("tor-{tor}"), format!("agg-{above}")));
            }
        }
        for above in 0..pods * half * u32::from(pods > 1) {
            for row in 0..half {
                let core = above % half + half * row;
                expected.insert((format!("agg-{above}"), format!("core-{core}")));
            }
        }
        let found = cables(&topology);
        assert!(found.values().all(|&count| count == 1), "one cable each");
        assert_eq!(found.into_keys().collect::<BTreeSet<_>>(), expected, "{hosts} of {radix}");
        for kind in ["tor", "agg", "core"] {
            let used = ports(&topology, kind);
            assert!(used.values().all(|&count| count <= radix as usize), "{kind}: {used:?}");
        }
    }
}

/// A full tree uses every port of every switch.
#[test]
fn a_full_fat_tree_leaves_no_port_free() {
    for radix in [2, 4, 6, 8] {
        let topology = fat_tree(radix * radix * radix / 4, radix, RATE, DELAY).unwrap();
        for kind in ["tor", "agg", "core"] {
            let used = ports(&topology, kind);
            assert!(used.values().all(|&count| count == radix as usize), "{radix}: {used:?}");
        }
    }
}

#[test]
fn the_smallest_radix_suffices_and_none_smaller_does() {
    for hosts in [1, 2, 3, 16, 17, 54, 55, 128, 129, 1024, 1025, 16_384] {
        let radix = smallest_radix(hosts);
        assert!(radix * radix * radix / 4 >= hosts, "{hosts} hosts on {radix} ports");
        let smaller = radix - 2;
        assert!(smaller * smaller * smaller / 4 < hosts, "{hosts} hosts on {smaller} ports");
        assert!(fat_tree(hosts, radix, RATE, DELAY).is_ok());
        assert!(fat_tree(hosts, smaller, RATE, DELAY).is_err());
    }
}

#[test]
fn every_leaf_has_a_link_to_every_spine() {
    let spine_rate = Rate(7_000_000_000);
    for (hosts, per_leaf, spines) in [(16, 4, 3), (10, 4, 1), (4, 4, 5)] {
        let topology = leaf_spine(hosts, per_leaf, spines, RATE, spine_rate, DELAY).unwrap();
        let leaves = hosts.div_ceil(per_leaf);
        let mut expected = BTreeSet::new();
        for host in 0..hosts {
            expected.insert((format!("host {host}"), format!("leaf-{}", host / per_leaf)));
        }
        for leaf in 0..leaves * u32::from(leaves > 1) {
            let to = |spine| (format!("leaf-{leaf}"), format!("spine-{spine}"));
            expected.extend((0..spines).map(to));
        }
        assert_eq!(cables(&topology).into_keys().collect::<BTreeSet<_>>(), expected);
        for spec in topology.links() {
            let is_host = topology.is_host(spec.from) || topology.is_host(spec.to);
            assert_eq!(spec.rate, if is_host { RATE } else { spine_rate });
            assert_eq!(spec.delay, DELAY);
        }
    }
}

#[test]
fn a_star_is_one_switch() {
    let topology = star(5, RATE, DELAY).unwrap();
    let expected = (0..5).map(|host| (format!("host {host}"), "switch".to_owned())).collect();
    assert_eq!(cables(&topology).into_keys().collect::<BTreeSet<_>>(), expected);
}

#[test]
fn hosts_of_a_rail_network_are_on_their_rail_and_in_their_server() {
    let nic = Cable { rate: RATE, delay: DELAY };
    let nvlink = Cable { rate: Rate(3_600_000_000_000), delay: Duration(9) };
    let topology = rail(12, 4, nic, nvlink).unwrap();
    let mut expected = BTreeSet::new();
    for host in 0..12 {
        expected.insert((format!("host {host}"), format!("rail-{}", host % 4)));
        expected.insert((format!("host {host}"), format!("nvswitch-{}", host / 4)));
    }
    assert_eq!(cables(&topology).into_keys().collect::<BTreeSet<_>>(), expected);
    for spec in topology.links() {
        let ends = [spec.from, spec.to].map(|node| topology.title(node));
        let is_nvlink = ends.iter().any(|end| end.starts_with("nvswitch"));
        let cable = if is_nvlink { nvlink } else { nic };
        assert_eq!((spec.rate, spec.delay), (cable.rate, cable.delay), "{ends:?}");
    }
}

/// A route joins its ends, crosses one rail switch at most, that of the destination's rail, and
/// changes the rail inside the sender's server alone.
#[test]
fn rail_routes_stay_on_the_rail_of_their_destination() {
    let nic = Cable { rate: RATE, delay: DELAY };
    let topology = rail(12, 4, nic, nic).unwrap();
    let spec = |link: &PacketLinkId| topology.links()[link.0 as usize];
    for (from, to) in (0..12).flat_map(|from| (0..12).map(move |to| (from, to))) {
        if from == to {
            continue;
        }
        let route = rail_route(4, from, to);
        assert!(route.windows(2).all(|pair| spec(&pair[0]).to == spec(&pair[1]).from));
        assert_eq!((spec(&route[0]).from.0, spec(&route[route.len() - 1]).to.0), (from, to));
        let nodes: Vec<String> = route.iter().map(|link| topology.title(spec(link).to)).collect();
        let rails: Vec<&String> = nodes.iter().filter(|node| node.starts_with("rail")).collect();
        let servers = nodes.iter().filter(|node| node.starts_with("nvswitch")).count();
        if from / 4 == to / 4 {
            assert_eq!((rails.len(), servers, route.len()), (0, 1, 2));
        } else {
            assert_eq!(rails, [&format!("rail-{}", to % 4)]);
            assert_eq!(servers, usize::from(from % 4 != to % 4));
            assert_eq!(route.len(), 2 + 2 * servers);
        }
    }
}
