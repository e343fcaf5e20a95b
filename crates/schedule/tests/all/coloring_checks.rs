//! What the checkers of colorings and routes say of results that are wrong in one way.

use lightloom_schedule::coloring::{
    Bipartite, FabricRoute, FabricShape, NONE, Pods, check_coloring, check_route,
};

const PAIRS: FabricShape = FabricShape { leaf: 2, spines: 1, pods: None };
const PODS: FabricShape =
    FabricShape { leaf: 1, spines: 1, pods: Some(Pods { leaves: 2, cores: 1 }) };

/// Two leaves of two hosts and a spine; all is dark but what is named: input, output.
fn route(leaves: &[(usize, u32)], spine: &[(usize, u32)], spines: [u32; 4]) -> FabricRoute {
    FabricRoute {
        spine: spines.to_vec(),
        core: vec![NONE; 4],
        leaf_switches: lit(6, leaves),
        spine_switches: lit(2, spine),
        core_switches: vec![],
    }
}

fn lit(inputs: usize, connections: &[(usize, u32)]) -> Vec<u32> {
    let mut outputs = vec![NONE; inputs];
    for &(input, output) in connections {
        outputs[input] = output;
    }
    outputs
}

fn refusal(to: [u32; 4], shape: &FabricShape, route: &FabricRoute) -> String {
    check_route(&to, shape, route).unwrap_err().to_string()
}

const DARK: [u32; 4] = [NONE; 4];

#[test]
fn a_circuit_inside_a_leaf_does_not_climb() {
    let to = [1, NONE, NONE, NONE];
    check_route(&to, &PAIRS, &route(&[(0, 1)], &[], DARK)).unwrap();
    let over = route(&[(0, 2), (2, 1)], &[(0, 0)], [0, NONE, NONE, NONE]);
    assert_eq!(refusal(to, &PAIRS, &over), "host 0 leaves its leaf without need");
}

#[test]
fn a_circuit_inside_a_pod_does_not_climb() {
    let to = [1, NONE, NONE, NONE];
    // each leaf: host, spine; the spine of each pod: two leaves, a core; the core: two pods
    let mut over = FabricRoute {
        spine: vec![0, NONE, NONE, NONE],
        core: vec![0, NONE, NONE, NONE],
        leaf_switches: lit(8, &[(0, 1), (3, 0)]),
        spine_switches: lit(6, &[(0, 2), (2, 1)]),
        core_switches: lit(2, &[(0, 0)]),
    };
    assert_eq!(refusal(to, &PODS, &over), "host 0 leaves its pod without need");
    over.core[0] = NONE;
    over.spine_switches = lit(6, &[(0, 1)]);
    over.core_switches = lit(2, &[]);
    check_route(&to, &PODS, &over).unwrap();
}

#[test]
fn connections_that_carry_nothing_are_counted() {
    let to = [1, NONE, NONE, NONE];
    let idle = route(&[(0, 1), (5, 0)], &[], DARK);
    assert_eq!(refusal(to, &PAIRS, &idle), "2 connections are made in switches, but 1 are used");
}

#[test]
fn an_output_has_one_input() {
    let twice = route(&[(0, 1), (1, 1)], &[], DARK);
    let text = refusal([1, 1, NONE, NONE], &PAIRS, &twice);
    assert_eq!(text, "output 1 of a leaf switch is not free");
    let beyond = route(&[(0, 3)], &[], DARK);
    let text = refusal([1, NONE, NONE, NONE], &PAIRS, &beyond);
    assert_eq!(text, "output 3 of a leaf switch is not free");
}

/// Light that comes down into an up-link would be taken for that of the next leaf's host.
#[test]
fn light_comes_down_to_hosts() {
    let back = route(&[(0, 2), (2, 2)], &[(0, 0)], [0, NONE, NONE, NONE]);
    let text = refusal([2, NONE, NONE, NONE], &PAIRS, &back);
    assert!(text.ends_with("ends in the dark") || text.contains("is not free"), "{text}");
    let dark = route(&[(0, 2)], &[(0, 1)], [0, NONE, NONE, NONE]);
    assert_eq!(
        refusal([2, NONE, NONE, NONE], &PAIRS, &dark),
        "the circuit of host 0 ends in the dark"
    );
}

#[test]
fn circuits_end_where_they_should_by_the_path_that_is_stated() {
    let to = [2, NONE, NONE, NONE];
    let good = route(&[(0, 2), (5, 0)], &[(0, 1)], [0, NONE, NONE, NONE]);
    check_route(&to, &PAIRS, &good).unwrap();
    let text = refusal([3, NONE, NONE, NONE], &PAIRS, &good);
    assert_eq!(text, "the circuit of host 0 ends at 2, not 3");
    for wrong in [
        FabricRoute { spine: DARK.to_vec(), ..good.clone() },
        FabricRoute { core: vec![0, NONE, NONE, NONE], ..good.clone() },
    ] {
        let text = refusal(to, &PAIRS, &wrong);
        assert_eq!(text, "host 0 does not take the path that is stated");
    }
    for wrong in
        [FabricRoute { core: vec![], ..good.clone() }, FabricRoute { spine: vec![], ..good }]
    {
        let text = refusal(to, &PAIRS, &wrong);
        assert_eq!(text, "spines and cores are not stated for 4 hosts");
    }
}

#[test]
fn sizes_of_fabrics_are_checked_without_hosts() {
    let refused = |shape: FabricShape| shape.validate(0).unwrap_err().to_string();
    let wide = FabricShape { leaf: 1, spines: 1 << 29, pods: None };
    let wrong = "switches of such a fabric have over 4194304 up-links, for 0 hosts";
    assert_eq!(refused(wide), wrong);
    let cores = Some(Pods { leaves: 1, cores: 1 << 29 });
    let text = refused(FabricShape { leaf: 1, spines: 1, pods: cores });
    assert_eq!(text, wrong);
    // spines of 2^33 up-links, times 2^31 cores, are 0 in 64 bits
    let cores = Some(Pods { leaves: 2, cores: 1 << 31 });
    let vast = FabricShape { leaf: 2, spines: 1 << 31, pods: cores };
    let text = vast.validate(8).unwrap_err().to_string();
    assert_eq!(text, "switches of such a fabric have over 4202496 up-links, for 8 hosts");
    FabricShape { spines: 1 << 22, ..wide }.validate(0).unwrap();
    let needs = "a leaf needs at least one host and a pod one leaf";
    assert_eq!(refused(FabricShape { leaf: 0, ..PAIRS }), needs);
    let pods = Some(Pods { leaves: 0, cores: 1 });
    assert_eq!(refused(FabricShape { pods, ..PAIRS }), needs);
    let text = PODS.validate(3).unwrap_err().to_string();
    assert_eq!(text, "3 hosts do not fill pods of 2");
}

fn graph(edges: &[(u32, u32)]) -> Bipartite<'_> {
    Bipartite::new(2, 2, edges).unwrap()
}

#[test]
fn graphs_and_colors_are_compared_in_size() {
    for (edge, text) in [
        ((0, 2), "edge 0 joins 0 and 2: only 2 and 2 there"),
        ((2, 0), "edge 0 joins 2 and 0: only 2 and 2 there"),
    ] {
        assert_eq!(Bipartite::new(2, 2, &[edge]).unwrap_err().to_string(), text);
    }
    let text = |colors: u32, of_edge: &[u32]| {
        check_coloring(&graph(&[(0, 0), (1, 1)]), colors, of_edge).unwrap_err().to_string()
    };
    assert_eq!(text(1, &[0, 0, 0]), "2 edges but 3 colors of edges");
    assert_eq!(text(1, &[0]), "2 edges but 1 colors of edges");
    assert_eq!(text(1, &[0, 1]), "edge 1 has color 1 of 1");
}
