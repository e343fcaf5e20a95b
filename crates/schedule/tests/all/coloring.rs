//! Edge coloring and routing of permutations: proper, complete, with as few colors as can be.

use crate::common::cases::Random;
use lightloom_schedule::coloring::{
    Bipartite, FabricShape, NONE, Pods, check_coloring, check_route, color_edges, route_permutation,
};
use proptest::prelude::*;

type Edges = Vec<(u32, u32)>;

fn assert_colored(left: u32, right: u32, edges: &[(u32, u32)], spare: u32) {
    let graph = Bipartite::new(left, right, edges).unwrap();
    let colors = graph.max_degree() + spare;
    let found = color_edges(&graph, colors).unwrap();
    check_coloring(&graph, colors, &found).unwrap();
}

/// A union of `degree` random permutations.
fn regular(n: u32, degree: u32, random: &mut Random) -> Edges {
    (0..degree).flat_map(|_| (0..n).zip(permutation(n, random))).collect()
}

fn permutation(n: u32, random: &mut Random) -> Vec<u32> {
    let mut order: Vec<u32> = (0..n).collect();
    for i in (1..n as usize).rev() {
        order.swap(i, (random.uniform() * (i + 1) as f64) as usize);
    }
    order
}

/// Makes many hosts send to themselves, hence many leaves and pods keep circuits inside.
fn bring_home(to: &mut [u32], random: &mut Random) {
    for host in 0..to.len() {
        let sender = to.iter().position(|&peer| peer as usize == host).unwrap();
        if random.uniform() < 0.6 {
            to.swap(host, sender);
        }
    }
}

#[test]
fn every_degree_and_any_spare_colors() {
    let mut random = Random(7);
    for degree in 0..40 {
        let edges = regular(9, degree, &mut random);
        for spare in [0, 1, 3] {
            assert_colored(9, 9, &edges, spare);
        }
    }
    assert_colored(300, 300, &regular(300, 63, &mut random), 0);
    assert_colored(300, 300, &regular(300, 33, &mut random), 0);
}

#[test]
fn parallel_edges_stars_paths_and_nothing() {
    assert_colored(1, 1, &[(0, 0); 13], 0);
    let star: Edges = (0..1_000).map(|leaf| (0, leaf)).collect();
    assert_colored(1, 1_000, &star, 0);
    let path: Edges = (0..999).flat_map(|i| [(i, i), (i, i + 1)]).collect();
    assert_colored(999, 1_000, &path, 0);
    // a large degree at one vertex and many of degree one must not cost (vertices x colors)
    let broom: Edges =
        (0..100_000).map(|i| (0, i)).chain((0..99_999).map(|i| (i + 1, i))).collect();
    assert_colored(100_000, 100_000, &broom, 0);
    assert_colored(0, 0, &[], 0);
    assert_colored(3, 4, &[], 0);
}

#[test]
fn wrong_graphs_and_too_few_colors_are_refused() {
    let text = Bipartite::new(2, 2, &[(0, 1), (2, 0)]).unwrap_err().0;
    assert_eq!(text, "edge 1 joins 2 and 0: only 2 and 2 there");
    let crowded = Bipartite::new(2, 2, &[(0, 1), (1, 1), (0, 0)]).unwrap();
    let text = color_edges(&crowded, 1).unwrap_err().0;
    assert_eq!(text, "left vertex 0 has 2 edges but there are 1 colors");
}

#[test]
fn the_checker_sees_what_is_wrong() {
    let graph = Bipartite::new(2, 2, &[(0, 0), (0, 1), (1, 1)]).unwrap();
    assert!(check_coloring(&graph, 2, &[0, 1, 0]).is_ok());
    for wrong in [&[0, 0, 1][..], &[0, 1, 1], &[0, 2, 0], &[0, 1]] {
        assert!(check_coloring(&graph, 2, wrong).is_err(), "{wrong:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_multigraph_is_colored_with_its_largest_degree(
        (left, right, edges) in (1..12_u32, 1..12_u32).prop_flat_map(|(left, right)| {
            (Just(left), Just(right), prop::collection::vec((0..left, 0..right), 0..150))
        }),
        spare in 0..3_u32,
    ) {
        assert_colored(left, right, &edges, spare);
    }

    #[test]
    fn skewed_multigraphs_too(seed in 1..u64::MAX, edges in 1..600_usize) {
        let mut random = Random(seed);
        let mut end = || (30.0 * random.uniform().powi(3)) as u32;
        let edges: Edges = (0..edges).map(|_| (end(), end())).collect();
        assert_colored(30, 30, &edges, 0);
    }

    #[test]
    fn partial_permutations_are_routed(
        seed in 1..u64::MAX,
        leaf in 1..7_u32,
        leaves in 1..5_u32,
        pods in prop::option::of(1..5_u32),
        idle in prop_oneof![Just(0.0), Just(0.4)],
        near in any::<bool>(),
    ) {
        let mut random = Random(seed);
        let hosts = leaf * leaves * pods.unwrap_or(1);
        let mut to = permutation(hosts, &mut random);
        if near {
            bring_home(&mut to, &mut random);
        }
        for peer in &mut to {
            if random.uniform() < idle {
                *peer = NONE;
            }
        }
        let pods = pods.map(|_| Pods { leaves, cores: leaves });
        let shape = FabricShape { leaf, spines: leaf, pods };
        let route = route_permutation(&to, &shape).unwrap();
        check_route(&to, &shape, &route).unwrap();
    }
}

fn full(hosts: u32, leaf: u32, pods: Option<Pods>) {
    let mut random = Random(11);
    let shape = FabricShape { leaf, spines: leaf, pods };
    for to in [
        permutation(hosts, &mut random),
        (0..hosts).map(|host| (host + leaf) % hosts).collect(),
        (0..hosts).map(|host| (host + hosts / 2) % hosts).collect(),
        (0..hosts).map(|host| host % leaf * (hosts / leaf) + host / leaf).collect(),
    ] {
        let route = route_permutation(&to, &shape).unwrap();
        check_route(&to, &shape, &route).unwrap();
        assert!(route.spine.iter().all(|&spine| spine == NONE || spine < leaf));
    }
}

#[test]
fn whole_permutations_of_sixteen_thousand_hosts() {
    full(16_384, 64, None);
    full(16_384, 32, Some(Pods { leaves: 16, cores: 16 }));
    // no power of two anywhere
    full(48 * 48 * 7, 48, None);
    full(27 * 27 * 6, 27, Some(Pods { leaves: 27, cores: 27 }));
}

#[test]
fn pairs_inside_a_leaf_or_pod_stay_inside() {
    let shape = FabricShape { leaf: 2, spines: 2, pods: Some(Pods { leaves: 2, cores: 2 }) };
    // host 0 and 1 in their leaf, 2 and 4 across pods, 5 and 6 inside the second pod
    let to = [1, 0, 4, NONE, 2, 6, 5, 7];
    let route = route_permutation(&to, &shape).unwrap();
    check_route(&to, &shape, &route).unwrap();
    let leaves_leaf: Vec<bool> = route.spine.iter().map(|&spine| spine != NONE).collect();
    assert_eq!(leaves_leaf, [false, false, true, false, true, true, true, false]);
    let leaves_pod: Vec<bool> = route.core.iter().map(|&core| core != NONE).collect();
    assert_eq!(leaves_pod, [false, false, true, false, true, false, false, false]);
}

#[test]
fn fewer_spines_do_if_few_circuits_leave_a_leaf() {
    let shape = FabricShape { leaf: 4, spines: 1, pods: None };
    let to = [1, 2, 3, 4, 5, 6, 7, 0];
    let route = route_permutation(&to, &shape).unwrap();
    check_route(&to, &shape, &route).unwrap();
    let shifted: Vec<u32> = (0..8).map(|host| (host + 2) % 8).collect();
    let text = route_permutation(&shifted, &shape).unwrap_err().0;
    assert_eq!(text, "a leaf has 2 circuits to others but 1 up-links");
}

#[test]
fn wrong_permutations_are_refused() {
    let shape = FabricShape { leaf: 2, spines: 2, pods: None };
    let refused = |to: &[u32]| route_permutation(to, &shape).unwrap_err().0;
    assert_eq!(refused(&[0, 1, 2]), "3 hosts do not fill leaves of 2");
    assert_eq!(refused(&[0, 1, 2, 2]), "host 2 is the destination of two hosts");
    assert_eq!(refused(&[0, 1, 2, 9]), "host 3 sends to 9: only 4 hosts");
    let pods = FabricShape { pods: Some(Pods { leaves: 4, cores: 4 }), ..shape };
    let text = route_permutation(&[0, 1, 2, 3], &pods).unwrap_err().0;
    assert_eq!(text, "4 hosts do not fill pods of 8");
    let huge = FabricShape { spines: 1 << 30, ..shape };
    assert!(route_permutation(&[0, 1, 2, 3], &huge).is_err());
}

#[test]
fn the_route_checker_sees_what_is_wrong() {
    let shape = FabricShape { leaf: 2, spines: 2, pods: Some(Pods { leaves: 2, cores: 2 }) };
    let to = [4, 5, 6, 7, 0, 1, 2, 3];
    let good = route_permutation(&to, &shape).unwrap();
    check_route(&to, &shape, &good).unwrap();
    let mut number = 0;
    for part in 0..5 {
        let length = [&good.spine, &good.core, &good.leaf_switches, &good.spine_switches]
            .get(part)
            .map_or(good.core_switches.len(), |values| values.len());
        for index in 0..length {
            let mut wrong = good.clone();
            let values = match part {
                0 => &mut wrong.spine,
                1 => &mut wrong.core,
                2 => &mut wrong.leaf_switches,
                3 => &mut wrong.spine_switches,
                _ => &mut wrong.core_switches,
            };
            values[index] = if values[index] == NONE { 0 } else { NONE };
            assert!(check_route(&to, &shape, &wrong).is_err(), "part {part} place {index}");
            number += 1;
        }
    }
    assert_eq!(number, 8 + 8 + 16 + 16 + 8);
}
