//! The topology finder: ports, routes, connection, rings, and how well loads are spread.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::common::jobs::{Job, job, links};
use lightloom_schedule::topoopt::{RingCycle, RingGroup, RoutedEdge, Strides, topology};
use proptest::prelude::*;

/// Groups of 8 servers with an all-to-all each, pipeline neighbors, data-parallel rings.
fn training(servers: u32, stages: u32) -> Job {
    let mut job = Job::new(servers, 8);
    let stage = servers / stages;
    for server in 0..servers {
        let group = server / 8 * 8;
        let peers = (group..group + 8).filter(|&peer| peer != server);
        job.demand.extend(peers.map(|peer| (server, peer, 9_000)));
        if server + stage < servers {
            job.demand.extend([(server, server + stage, 700), (server + stage, server, 700)]);
        }
    }
    for start in (0..servers).step_by(stage as usize) {
        job.rings.extend((0..8).map(|member| RingGroup {
            members: (start + member..start + stage).step_by(8).collect(),
            edge_bytes: 4_000,
            phase: 0,
        }));
    }
    job
}

fn distances(servers: u32, links: &BTreeMap<(u32, u32), u32>, from: u32) -> Vec<Option<usize>> {
    let mut distance = vec![None; servers as usize];
    distance[from as usize] = Some(0);
    let mut queue = VecDeque::from([from]);
    while let Some(server) = queue.pop_front() {
        let next = distance[server as usize].map(|hops| hops + 1);
        for (&(_, peer), _) in links.range((server, 0)..=(server, u32::MAX)) {
            if distance[peer as usize].is_none() {
                distance[peer as usize] = next;
                queue.push_back(peer);
            }
        }
    }
    distance
}

fn ring_order(group: &RingGroup) -> Vec<(u32, u32)> {
    let n = group.members.len();
    if n < 2 || group.edge_bytes == 0 {
        return vec![];
    }
    (0..n).map(|i| (group.members[i], group.members[(i + 1) % n])).collect()
}

fn cycle_edges(job: &Job, cycle: RingCycle) -> Vec<(u32, u32)> {
    let members = &job.rings[cycle.group as usize].members;
    let (n, stride) = (members.len(), cycle.stride as usize);
    let count = if n == 2 { 1 } else { n };
    (0..count).map(|i| (members[i], members[(i + stride) % n])).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4))]

    #[test]
    fn ports_hold_and_everyone_who_talks_has_shortest_routes(job in job(24, 9)) {
        let found = job.find();
        let links = links(&found);
        for server in 0..job.servers {
            let used: u32 =
                links.range((server, 0)..=(server, u32::MAX)).map(|entry| entry.1).sum();
            prop_assert!(used <= job.degree, "server {server} has {used} circuits");
        }
        let mut routes: BTreeMap<(u32, u32), Vec<&[u32]>> = BTreeMap::new();
        for route in found.routes.iter() {
            routes.entry((route[0], route[route.len() - 1])).or_default().push(route);
        }
        let wanted = job.demand.iter().filter(|d| d.0 != d.1 && d.2 > 0).map(|d| (d.0, d.1));
        for pair in wanted.chain(job.rings.iter().flat_map(ring_order)) {
            prop_assert!(routes.contains_key(&pair), "no route for {pair:?}");
        }
        for (&(from, to), own) in &routes {
            prop_assert!(own.len() <= job.max_routes as usize);
            let hops = distances(job.servers, &links, from)[to as usize].unwrap();
            for route in own {
                prop_assert_eq!(route.len(), hops + 1);
                prop_assert!(route.windows(2).all(|hop| links.contains_key(&(hop[0], hop[1]))));
            }
            let mut distinct = own.clone();
            distinct.sort_unstable();
            distinct.dedup();
            prop_assert_eq!(distinct.len(), own.len());
        }
    }

    /// Every edge of every cycle has a circuit of its own, or is named as one that has none left.
    #[test]
    fn edges_of_cycles_have_circuits_or_are_named(job in job(24, 9)) {
        let found = job.find();
        let named: BTreeSet<(u32, (u32, u32))> =
            found.routed_edges.iter().map(|routed| (routed.cycle, routed.edge)).collect();
        prop_assert_eq!(named.len(), found.routed_edges.len());
        let mut left = links(&found);
        let mut named_pairs = Vec::new();
        for (index, cycle) in (0..).zip(&found.cycles) {
            for edge in cycle_edges(&job, *cycle) {
                if named.contains(&(index, edge)) {
                    named_pairs.push(edge);
                    continue;
                }
                let count = left.entry(edge).or_insert(0);
                prop_assert!(*count > 0, "{edge:?} of cycle {index}");
                *count -= 1;
                *left.get_mut(&(edge.1, edge.0)).unwrap() -= 1;
            }
        }
        prop_assert_eq!(named_pairs.len(), named.len(), "an edge that is in no cycle");
        for pair in named_pairs {
            prop_assert_eq!(left.get(&pair).copied().unwrap_or(0), 0, "{:?} has one", pair);
        }
    }

    #[test]
    fn ports_of_servers_are_not_left_dark(job in job(24, 9)) {
        let found = job.find();
        let mut free = vec![job.degree; job.servers as usize];
        for circuit in &found.circuits {
            free[circuit.a as usize] -= circuit.count;
            free[circuit.b as usize] -= circuit.count;
        }
        prop_assert!(free.iter().filter(|&&ports| ports > 0).count() <= 1, "{free:?}");
    }

    #[test]
    fn the_answer_is_the_same_every_time(job in job(24, 9)) {
        prop_assert_eq!(topology(&job.request()), topology(&job.request()));
    }
}

#[test]
fn a_small_all_to_all_is_a_full_mesh() {
    let mut job = Job::new(8, 7);
    job.demand = (0..8).flat_map(|a| (0..8).map(move |b| (a, b, 100))).collect();
    let found = job.find();
    assert_eq!(found.circuits.len(), 28);
    assert!(found.circuits.iter().all(|circuit| circuit.count == 1));
    assert!(found.routes.iter().all(|route| route.len() == 2));
    assert_eq!(found.routes.len(), 56);
}

#[test]
fn a_heavy_pair_gets_several_circuits() {
    let mut job = Job::new(4, 3);
    job.demand = vec![(0, 1, 900), (1, 2, 10), (2, 3, 900), (3, 0, 10)];
    let found = job.find();
    assert_eq!(links(&found)[&(0, 1)], 2);
    assert_eq!(links(&found)[&(2, 3)], 2);
}

/// `TotientPerms` with geometric strides: the diameter is O(d n^(1/d)), d being directed strides.
#[test]
fn cycles_of_a_pure_ring_job_keep_paths_short() {
    for servers in [12_u32, 16, 63, 128, 360] {
        for degree in [2_u32, 4, 6, 8] {
            let mut job = Job::new(servers, degree);
            let members = (0..servers).collect();
            job.rings = vec![RingGroup { members, edge_bytes: 1_000, phase: 0 }];
            let found = job.find();
            let cycles = degree / 2;
            assert_eq!(found.cycles.len(), cycles as usize);
            assert_eq!(found.cycles[0].stride, 1);
            let links = links(&found);
            let farthest = distances(servers, &links, 0).into_iter().max().unwrap().unwrap();
            let n = f64::from(servers);
            let bound = f64::from(cycles) * n.powf(1.0 / f64::from(cycles)) + 1.0;
            assert!(farthest as f64 <= bound, "n {servers}, d {degree}: {farthest} > {bound}");
        }
    }
}

#[test]
fn strides_of_one_are_parallel_circuits() {
    let mut job = Job::new(6, 4);
    job.strides = Strides::One;
    job.rings = vec![RingGroup { members: (0..6).collect(), edge_bytes: 10, phase: 0 }];
    let found = job.find();
    assert_eq!(found.circuits.len(), 6);
    assert!(found.circuits.iter().all(|circuit| circuit.count == 2));
}

/// Server 1 talks, but all ports of the others are in the ring of three: it gives up a circuit.
#[test]
fn a_cycle_that_cuts_servers_off_says_which_edge_is_routed() {
    let mut job = Job::new(4, 2);
    let ring =
        |members: &[u32]| RingGroup { members: members.to_vec(), edge_bytes: 1_000_000, phase: 0 };
    job.rings = vec![ring(&[0, 2, 3]), ring(&[0, 2])];
    job.demand = vec![(1, 0, 1_400_000_000), (1, 2, 800_000_000), (0, 2, 1_000_000_000)];
    let found = job.find();
    assert_eq!(found.cycles, [RingCycle { group: 0, stride: 1 }]);
    assert_eq!(found.routed_edges, [RoutedEdge { cycle: 0, edge: (0, 2) }]);
    let route = found.routes.iter().find(|route| route[0] == 0 && route[route.len() - 1] == 2);
    assert_eq!(route.unwrap().len(), 3);
}

/// One light pair between two groups whose ports are all taken must still be connected.
#[test]
fn parts_without_free_ports_are_connected_by_a_swap() {
    let mut job = Job::new(8, 3);
    for group in [0, 4] {
        for a in group..group + 4 {
            let peers = (group..group + 4).filter(|&b| b != a);
            job.demand.extend(peers.map(|b| (a, b, 1_000_000)));
        }
    }
    job.demand.push((0, 7, 1));
    let found = job.find();
    let links = links(&found);
    assert!(distances(8, &links, 0)[7].is_some());
    assert!(distances(8, &links, 0).iter().all(Option::is_some));
}

#[test]
fn one_port_each_connects_couples_only() {
    let mut couples = Job::new(4, 1);
    couples.demand = vec![(0, 1, 5), (2, 3, 5)];
    assert_eq!(couples.find().circuits.len(), 2);
    let mut chain = Job::new(3, 1);
    chain.demand = vec![(0, 1, 5), (1, 2, 5)];
    let text = chain.refusal();
    assert!(text.ends_with("give each server at least 2"), "{text}");
}

#[test]
fn inconsistent_requests_are_named() {
    let mut job = Job::new(3, 2);
    job.demand = vec![(0, 3, 1)];
    assert_eq!(job.refusal(), "demand 0 to 3: only 3 servers");
    job.demand.clear();
    job.rings = vec![RingGroup { members: vec![0, 5], edge_bytes: 1, phase: 0 }];
    assert_eq!(job.refusal(), "ring 0: no server 5 among 3");
    job.rings = vec![RingGroup { members: vec![2, 0, 2], edge_bytes: 1, phase: 0 }];
    assert_eq!(job.refusal(), "ring 0: server 2 twice");
    let text = "a topology needs at least one server and one port at each";
    assert_eq!(Job::new(3, 0).refusal(), text);
}

/// Bytes per circuit of the busiest bundle over the least that any topology could have.
fn crowding(job: &Job) -> f64 {
    let found = job.find();
    let links = links(&found);
    let sizes: BTreeMap<(u32, u32), u64> =
        job.demand.iter().map(|&(from, to, size)| ((from, to), size)).collect();
    let mut routes: BTreeMap<(u32, u32), Vec<&[u32]>> = BTreeMap::new();
    for route in found.routes.iter() {
        routes.entry((route[0], route[route.len() - 1])).or_default().push(route);
    }
    let mut loads: BTreeMap<(u32, u32), f64> = BTreeMap::new();
    for (pair, &size) in &sizes {
        let own = &routes[pair];
        for hop in own.iter().flat_map(|route| route.windows(2)) {
            let hop = (hop[0], hop[1]);
            *loads.entry(hop).or_default() +=
                size as f64 / own.len() as f64 / f64::from(links[&hop]);
        }
    }
    let mut sent = vec![0; job.servers as usize];
    for (&(from, _), &size) in &sizes {
        sent[from as usize] += size;
    }
    let ideal = *sent.iter().max().unwrap() as f64 / f64::from(job.degree);
    loads.values().fold(0.0, |largest: f64, &load| largest.max(load)) / ideal
}

/// Without swaps the light pairs between stages would crowd onto single circuits (5.6 times the
/// ideal load at 512 servers, 44 times at 4,096).
#[test]
fn light_pairs_do_not_crowd_onto_one_circuit() {
    let small = crowding(&training(128, 8));
    assert!(small < 2.0, "128 servers: {small}");
    let large = crowding(&training(512, 8));
    assert!(large < 3.0, "512 servers: {large}");
}

#[test]
fn four_thousand_servers_are_connected() {
    let job = training(4096, 8);
    let found = job.find();
    let pairs: std::collections::BTreeSet<(u32, u32)> =
        found.routes.iter().map(|route| (route[0], route[route.len() - 1])).collect();
    assert!(job.demand.iter().all(|&(from, to, _)| pairs.contains(&(from, to))));
}
