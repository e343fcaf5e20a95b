//! Permutations over fabrics: every permutation of a few hosts, followed switch by switch.

use crate::common::cases::Random;
use lightloom_schedule::coloring::{
    FabricRoute, FabricShape, NONE, Pods, check_route, route_permutation,
};
use proptest::prelude::*;

fn two_tiers(leaf: u32, spines: u32) -> FabricShape {
    FabricShape { leaf, spines, pods: None }
}

/// All orders of the hosts.
fn permutations(hosts: u32) -> Vec<Vec<u32>> {
    if hosts == 0 {
        return vec![vec![]];
    }
    let mut all = Vec::new();
    for shorter in permutations(hosts - 1) {
        for place in 0..hosts as usize {
            let mut order = shorter.clone();
            order.insert(place, hosts - 1);
            all.push(order);
        }
    }
    all
}

fn shuffled(hosts: u32, random: &mut Random) -> Vec<u32> {
    let mut order: Vec<u32> = (0..hosts).collect();
    for i in (1..order.len()).rev() {
        order.swap(i, (random.uniform() * (i + 1) as f64) as usize);
    }
    order
}

/// The circuits that leave the fullest group of so many hosts, or enter it.
fn crossings(to: &[u32], size: u32) -> u32 {
    let mut counts = vec![[0; 2]; to.len() / size as usize];
    for (host, &peer) in (0..).zip(to).filter(|pair| *pair.1 != NONE) {
        if host / size != peer / size {
            counts[(host / size) as usize][0] += 1;
            counts[(peer / size) as usize][1] += 1;
        }
    }
    counts.into_iter().flatten().max().unwrap_or(0)
}

/// Two tiers, from the settings alone: leaf, spine, leaf.
fn destination(route: &FabricRoute, shape: &FabricShape, host: u32) -> u32 {
    let (leaf, ports) = (host / shape.leaf, shape.leaf + shape.spines);
    let leaves = route.leaf_switches.len() as u32 / ports;
    let up = route.leaf_switches[(leaf * ports + host % shape.leaf) as usize];
    if up == NONE {
        return NONE;
    }
    if up < shape.leaf {
        return leaf * shape.leaf + up;
    }
    let below = route.spine_switches[((up - shape.leaf) * leaves + leaf) as usize];
    below * shape.leaf + route.leaf_switches[(below * ports + up) as usize]
}

fn assert_routed(to: &[u32], shape: &FabricShape) -> FabricRoute {
    let route = route_permutation(to, shape).unwrap();
    check_route(to, shape, &route).unwrap();
    for (host, &peer) in (0..).zip(to) {
        let place = host as usize;
        let crosses = peer != NONE && host / shape.leaf != peer / shape.leaf;
        assert_eq!(route.spine[place] != NONE, crosses, "host {host} of {to:?}");
        if shape.pods.is_none() {
            assert_eq!(destination(&route, shape, host), peer, "host {host} of {to:?}");
        }
        let pod = shape.pods.map(|pods| shape.leaf * pods.leaves);
        let leaves_pod = peer != NONE && pod.is_some_and(|pod| host / pod != peer / pod);
        assert_eq!(route.core[place] != NONE, leaves_pod, "host {host} of {to:?}");
    }
    assert_links_carry_one(to, shape, &route);
    route
}

/// No two circuits leave a leaf over one spine, or enter one over it.
fn assert_links_carry_one(to: &[u32], shape: &FabricShape, route: &FabricRoute) {
    let mut links = std::collections::BTreeSet::new();
    for (host, &peer) in (0..).zip(to) {
        let spine = route.spine[host as usize];
        if spine != NONE {
            assert!(spine < shape.spines);
            assert!(links.insert((false, host / shape.leaf, spine)), "an up-link twice");
            assert!(links.insert((true, peer / shape.leaf, spine)), "a down-link twice");
        }
    }
}

#[test]
fn every_permutation_of_six_hosts_is_routed() {
    for to in permutations(6) {
        for leaf in [1, 2, 3, 6] {
            assert_routed(&to, &two_tiers(leaf, leaf));
        }
    }
}

#[test]
fn every_permutation_of_six_hosts_is_routed_over_pods() {
    for to in permutations(6) {
        for (leaf, leaves) in [(1, 2), (1, 3), (2, 1), (3, 1), (1, 6)] {
            let pods = Some(Pods { leaves, cores: leaves });
            assert_routed(&to, &FabricShape { leaf, spines: leaf, pods });
        }
    }
}

/// As many spines as the fullest leaf has circuits to others suffice, and no fewer.
#[test]
fn spines_are_needed_for_the_fullest_leaf() {
    for to in permutations(6) {
        for leaf in [2, 3] {
            let needed = crossings(&to, leaf);
            assert_routed(&to, &two_tiers(leaf, needed));
            if needed > 0 {
                let text = route_permutation(&to, &two_tiers(leaf, needed - 1)).unwrap_err().0;
                let expected =
                    format!("a leaf has {needed} circuits to others but {} up-links", needed - 1);
                assert_eq!(text, expected);
            }
        }
    }
}

#[test]
fn idle_hosts_and_hosts_that_stay_light_nothing_above() {
    for shape in [
        two_tiers(3, 2),
        FabricShape { pods: Some(Pods { leaves: 2, cores: 2 }), ..two_tiers(3, 3) },
    ] {
        let idle = assert_routed(&[NONE; 12], &shape);
        let dark = |switches: &[u32]| switches.iter().all(|&output| output == NONE);
        assert!(dark(&idle.leaf_switches) && dark(&idle.spine_switches));
        let home: Vec<u32> = (0..12).collect();
        let stays = assert_routed(&home, &shape);
        assert!(dark(&stays.spine_switches) && dark(&stays.core_switches));
        assert!(dark(&stays.spine) && dark(&stays.core));
        assert_eq!(stays.leaf_switches.iter().filter(|&&output| output != NONE).count(), 12);
    }
}

/// A circuit over a core crosses two leaves, two spines and the core; inside a pod one spine.
#[test]
fn circuits_cross_as_many_switches_as_tiers_need() {
    let shape = FabricShape { leaf: 1, spines: 1, pods: Some(Pods { leaves: 2, cores: 2 }) };
    let lit = |switches: &[u32]| switches.iter().filter(|&&output| output != NONE).count();
    for (to, leaves, spines, cores) in [
        ([0, NONE, NONE, NONE], 1, 0, 0),
        ([1, NONE, NONE, NONE], 2, 1, 0),
        ([2, NONE, NONE, NONE], 2, 2, 1),
        ([1, 0, 3, 2], 8, 4, 0),
        ([2, 3, 0, 1], 8, 8, 4),
    ] {
        let route = assert_routed(&to, &shape);
        let found =
            (lit(&route.leaf_switches), lit(&route.spine_switches), lit(&route.core_switches));
        assert_eq!(found, (leaves, spines, cores), "{to:?}");
    }
}

#[test]
fn too_few_cores_are_named() {
    let shape = FabricShape { leaf: 1, spines: 1, pods: Some(Pods { leaves: 2, cores: 1 }) };
    assert_routed(&[2, NONE, 1, NONE], &shape);
    let text = route_permutation(&[2, 3, 0, 1], &shape).unwrap_err().0;
    assert_eq!(text, "a pod has 2 circuits to others but 1 up-links");
}

#[test]
fn a_route_of_another_permutation_is_refused() {
    let shape = two_tiers(2, 2);
    let all = permutations(4);
    for to in &all {
        let route = assert_routed(to, &shape);
        for other in &all {
            assert_eq!(check_route(other, &shape, &route).is_ok(), to == other);
        }
    }
}

/// Up-links are numbered behind hosts: up-link 1 of leaf 0 would be host 3, who is elsewhere.
#[test]
fn light_that_comes_down_into_an_up_link_reaches_nobody() {
    let route = FabricRoute {
        spine: vec![0, NONE, NONE, NONE],
        core: vec![NONE; 4],
        leaf_switches: [[2, NONE, 3, NONE], [NONE; 4]].concat(),
        spine_switches: vec![0, NONE, NONE, NONE],
        core_switches: vec![],
    };
    let text = check_route(&[3, NONE, NONE, NONE], &two_tiers(2, 2), &route).unwrap_err().0;
    assert_eq!(text, "the circuit of host 0 ends in the dark");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// Where circuits go back, they find as many spines.
    #[test]
    fn the_inverse_permutation_needs_as_many_spines(
        seed in 1..u64::MAX,
        leaf in 1..6_u32,
        leaves in 1..6_u32,
    ) {
        let to = shuffled(leaf * leaves, &mut Random(seed));
        let mut back = vec![0; to.len()];
        for (host, &peer) in (0..).zip(&to) {
            back[peer as usize] = host;
        }
        let needed = crossings(&to, leaf);
        prop_assert_eq!(needed, crossings(&back, leaf));
        assert_routed(&to, &two_tiers(leaf, needed));
        assert_routed(&back, &two_tiers(leaf, needed));
    }

    /// Hosts of a leaf are alike: another order inside needs as many spines.
    #[test]
    fn hosts_of_a_leaf_are_alike(seed in 1..u64::MAX, leaf in 2..6_u32, leaves in 1..6_u32) {
        let to = shuffled(leaf * leaves, &mut Random(seed));
        let place = |host: u32| host / leaf * leaf + (host + 1) % leaf;
        let mut turned = vec![0; to.len()];
        for (host, &peer) in (0..).zip(&to) {
            turned[place(host) as usize] = place(peer);
        }
        prop_assert_eq!(crossings(&to, leaf), crossings(&turned, leaf));
        assert_routed(&turned, &two_tiers(leaf, crossings(&to, leaf)));
    }

    /// A host that falls idle frees its links and needs no other spine more.
    #[test]
    fn fewer_circuits_need_no_more_spines(
        seed in 1..u64::MAX,
        leaf in 1..5_u32,
        leaves in 2..5_u32,
        idle in 0..20_usize,
    ) {
        let to = shuffled(leaf * leaves, &mut Random(seed));
        let mut fewer = to.clone();
        fewer[idle % to.len()] = NONE;
        let shape = two_tiers(leaf, crossings(&to, leaf));
        let lit = |route: &FabricRoute| {
            route.spine_switches.iter().filter(|&&output| output != NONE).count()
        };
        let (all, rest) = (assert_routed(&to, &shape), assert_routed(&fewer, &shape));
        let crossed = usize::from(all.spine[idle % to.len()] != NONE);
        prop_assert_eq!(lit(&all), lit(&rest) + crossed);
    }
}
