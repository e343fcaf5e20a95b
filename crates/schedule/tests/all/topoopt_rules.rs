//! Topologies for whole jobs: cycles, ports, paths and loads against replays, and what may not
//! matter.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::common::jobs::{Job, job, routes};
use lightloom_schedule::topoopt::{RingCycle, Strides, TopoOptTopology};
use proptest::prelude::*;

fn counts(found: &TopoOptTopology) -> BTreeMap<(u32, u32), u32> {
    found.circuits.iter().map(|circuit| ((circuit.a, circuit.b), circuit.count)).collect()
}

fn count(found: &TopoOptTopology, a: u32, b: u32) -> u32 {
    counts(found).get(&(a.min(b), a.max(b))).copied().unwrap_or(0)
}

fn strides_of(found: &TopoOptTopology, group: u32) -> Vec<u32> {
    found.cycles.iter().filter(|cycle| cycle.group == group).map(|cycle| cycle.stride).collect()
}

/// Number of shortest paths between all pairs, by lengths of paths through every third server.
fn shortest_paths(found: &TopoOptTopology, servers: u32) -> HashMap<(u32, u32), (u32, u64)> {
    let linked: BTreeSet<(u32, u32)> =
        counts(found).keys().flat_map(|&(a, b)| [(a, b), (b, a)]).collect();
    let mut best: HashMap<(u32, u32), (u32, u64)> = HashMap::new();
    for from in 0..servers {
        let mut reached: BTreeMap<u32, u64> = BTreeMap::from([(from, 1)]);
        for hops in 0..servers {
            let mut next: BTreeMap<u32, u64> = BTreeMap::new();
            for (&server, &paths) in &reached {
                best.insert((from, server), (hops, paths));
            }
            for (&server, &paths) in &reached {
                let peers = (0..servers).filter(|&peer| linked.contains(&(server, peer)));
                for peer in peers.filter(|&peer| !best.contains_key(&(from, peer))) {
                    *next.entry(peer).or_default() += paths;
                }
            }
            reached = next;
        }
    }
    best
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4))]

    /// A pair gets at least one path, at most as many as there are or were requested; exactly one
    /// if one is requested.
    #[test]
    fn pairs_get_shortest_paths_as_far_as_there_are_some(job in job(16, 7)) {
        let found = job.find();
        let shortest = shortest_paths(&found, job.servers);
        for (pair, paths) in routes(&found) {
            let (hops, number) = shortest[&pair];
            let distinct: BTreeSet<&Vec<u32>> = paths.iter().collect();
            prop_assert_eq!(distinct.len(), paths.len());
            prop_assert!(paths.iter().all(|path| path.len() as u32 == hops + 1));
            prop_assert!(paths.len() as u64 <= number.min(u64::from(found.max_routes)));
            // Paths of two hops differ in their relay: each relay that exists is one.
            if hops <= 2 {
                prop_assert_eq!(paths.len() as u64, number.min(u64::from(found.max_routes)));
            }
        }
    }

    /// Ordered pairs that have a path are those that communicate, each in one place.
    #[test]
    fn only_pairs_that_communicate_have_paths(job in job(16, 7)) {
        let found = job.find();
        let mut wanted: BTreeSet<(u32, u32)> =
            job.demand.iter().filter(|d| d.0 != d.1 && d.2 > 0).map(|d| (d.0, d.1)).collect();
        for (index, group) in job.rings.iter().enumerate() {
            let n = group.members.len();
            if n < 2 || group.edge_bytes == 0 {
                prop_assert!(strides_of(&found, index as u32).is_empty());
                continue;
            }
            let mut strides = strides_of(&found, index as u32);
            if strides.is_empty() {
                strides.push(1);
            }
            for (i, stride) in (0..n).flat_map(|i| strides.iter().map(move |&s| (i, s as usize))) {
                let (a, b) = (group.members[i], group.members[(i + stride) % n]);
                wanted.extend([(a, b), (b, a)]);
            }
        }
        let found: Vec<(u32, u32)> = routes(&found).into_keys().collect();
        prop_assert_eq!(found, wanted.into_iter().collect::<Vec<_>>());
    }

    /// Each cycle visits all members of its group.
    #[test]
    fn strides_are_coprime_to_their_groups(job in job(16, 7)) {
        let found = job.find();
        for RingCycle { group, stride } in &found.cycles {
            let n = job.rings[*group as usize].members.len() as u32;
            prop_assert_eq!(gcd(n, *stride), 1);
            prop_assert!(*stride <= (n / 2).max(1));
            prop_assert!(job.strides == Strides::Geometric || *stride == 1);
        }
        prop_assert!(found.cycles.is_sorted_by_key(|cycle| (cycle.group, cycle.stride)));
        prop_assert!(found.circuits.iter().all(|circuit| circuit.a < circuit.b));
        prop_assert!(found.circuits.is_sorted_by_key(|circuit| (circuit.a, circuit.b)));
    }

    /// Bytes count by proportion: all doubled, nothing changes. (Powers of two round alike.)
    #[test]
    fn twice_the_bytes_get_the_same_circuits(job in job(16, 7)) {
        let mut larger = job.clone();
        // Whole shares of what is divided among cycles.
        let mut job = job;
        for (one, other) in job.rings.iter_mut().zip(&mut larger.rings) {
            one.edge_bytes *= 55_440;
            other.edge_bytes = 2 * one.edge_bytes;
        }
        for (one, other) in job.demand.iter_mut().zip(&mut larger.demand) {
            one.2 *= 55_440;
            other.2 = 2 * one.2;
        }
        let (one, other) = (job.find(), larger.find());
        prop_assert_eq!((one.circuits, one.routes), (other.circuits, other.routes));
        let doubled: Vec<f64> = one.busiest.iter().map(|bytes| 2.0 * bytes).collect();
        prop_assert_eq!(doubled, other.busiest);
    }

    /// Demand of a pair that is listed in parts is their sum; what a server sends itself, or of
    /// nothing, changes nothing.
    #[test]
    fn demand_in_parts_is_its_sum(job in job(16, 7)) {
        let mut parts = job.clone();
        for entry in &mut parts.demand {
            entry.2 *= 2;
        }
        let mut doubled = job.clone();
        doubled.demand.extend(job.demand.iter().rev());
        doubled.demand.extend((0..job.servers).map(|server| (server, server, 1 << 40)));
        doubled.demand.extend((1..job.servers).map(|server| (0, server, 0)));
        prop_assert_eq!(doubled.find(), parts.find());
    }
}

/// A job of one ring uses every port, two for each cycle.
#[test]
fn a_single_ring_takes_all_ports() {
    for degree in 2..9_u32 {
        for n in 3..20_u32 {
            let members: Vec<u32> = (0..n).collect();
            for strides in [Strides::Geometric, Strides::One] {
                let job = Job { strides, ..Job::rings(n, degree, &[(&members, 1_000)]) };
                let found = job.find();
                let each = 1_000.0 / f64::from(degree / 2) / 2.0;
                assert!(found.busiest[1] <= each * 1.000_001, "{n} servers: {:?}", found.busiest);
                assert_eq!(found.cycles[0].stride, 1);
            }
        }
    }
}

/// A ring of two is one circuit per cycle, so it gets as many cycles as there are ports.
#[test]
fn a_ring_of_two_takes_one_port_per_cycle() {
    for degree in 2..9 {
        let found = Job::rings(2, degree, &[(&[0, 1], 1_000)]).find();
        assert_eq!(found.cycles.len() as u32, degree);
        assert_eq!(count(&found, 0, 1), degree);
    }
}

/// Groups without common servers do not compete.
#[test]
fn disjoint_groups_get_cycles_of_their_size() {
    let found = Job::rings(8, 4, &[(&[0, 1, 2, 3, 4], 1), (&[5, 6, 7], 1_000_000)]).find();
    assert_eq!(strides_of(&found, 0), [1, 2]);
    assert_eq!(strides_of(&found, 1), [1, 1]);
    for (a, b) in [(5, 6), (6, 7), (5, 7)] {
        assert_eq!(count(&found, a, b), 2);
    }
}

/// From three ports on, one is left for what is not a ring, however little that is.
#[test]
fn a_port_is_left_for_the_rest() {
    let members: Vec<u32> = (0..6).collect();
    for degree in 3..9 {
        let mut job = Job::rings(6, degree, &[(&members, 1_000_000)]);
        job.demand = vec![(0, 3, 1), (1, 4, 1), (2, 5, 1)];
        let found = job.find();
        assert_eq!(found.cycles.len() as u32, (degree - 1) / 2, "{degree} ports");
    }
}

/// A server that nobody talks to relays, and has no paths.
#[test]
fn silent_servers_have_circuits_but_no_paths() {
    let found = Job::pairs(7, 2, vec![(0, 1, 100), (1, 2, 100), (2, 0, 100)]).find();
    let ends: BTreeSet<u32> =
        found.routes.iter().flat_map(|path| [path[0], path[path.len() - 1]]).collect();
    assert_eq!(ends, BTreeSet::from([0, 1, 2]));
    let silent: u32 =
        found.circuits.iter().map(|c| c.count * (u32::from(c.a > 2) + u32::from(c.b > 2))).sum();
    assert_eq!(silent, 8, "each of four has both of its ports in use");
}

/// The load of the busiest circuit: bytes divided equally among paths.
fn busiest(job: &Job, found: &TopoOptTopology) -> f64 {
    let routes = routes(found);
    let mut loads: BTreeMap<(u32, u32), f64> = BTreeMap::new();
    for &(from, to, bytes) in &job.demand {
        let paths = &routes[&(from, to)];
        for hop in paths.iter().flat_map(|path| path.windows(2)) {
            let circuits = f64::from(count(found, hop[0], hop[1]));
            *loads.entry((hop[0], hop[1])).or_default() +=
                bytes as f64 / paths.len() as f64 / circuits;
        }
    }
    loads.into_values().fold(0.0, f64::max)
}

/// Equal demand of everyone to everyone: no circuit carries much more than its part of what all
/// paths together need.
#[test]
fn equal_demand_is_spread_over_all_circuits() {
    for (servers, degree) in [(8, 3), (8, 4), (12, 4), (16, 6)] {
        let pairs = (0..servers).flat_map(|a| (0..servers).map(move |b| (a, b)));
        let demand = pairs.filter(|pair| pair.0 != pair.1).map(|(a, b)| (a, b, 1_000)).collect();
        let job = Job::pairs(servers, degree, demand);
        let found = job.find();
        let hops: f64 = routes(&found).values().map(|paths| (paths[0].len() - 1) as f64).sum();
        let mean = hops * 1_000.0 / f64::from(servers * degree);
        let load = busiest(&job, &found);
        assert!(load >= mean * (1.0 - 1e-9));
        assert!(load <= 2.0 * mean, "{servers} servers, {degree} ports: {load} against {mean}");
    }
}

/// More ports never leave the busiest circuit of equal demand with more to carry.
#[test]
fn more_ports_carry_equal_demand_sooner() {
    let mut before = f64::INFINITY;
    for degree in [2, 3, 4, 6, 8] {
        let pairs = (0..10).flat_map(|a| (0..10).map(move |b| (a, b)));
        let demand = pairs.filter(|pair| pair.0 != pair.1).map(|(a, b)| (a, b, 1_000)).collect();
        let job = Job::pairs(10, degree, demand);
        let load = busiest(&job, &job.find());
        assert!(load < before, "{degree} ports: {load} against {before}");
        before = load;
    }
}
