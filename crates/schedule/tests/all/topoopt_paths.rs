//! Paths, cycles and ports of topologies by hand, and paths against the rule that divides them.

use crate::common::jobs::{Job, job, links, routes};
use lightloom_schedule::topoopt::{Strides, TopoOptTopology};
use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};

fn cycles_of(found: &TopoOptTopology, group: u32) -> Vec<u32> {
    found.cycles.iter().filter(|cycle| cycle.group == group).map(|cycle| cycle.stride).collect()
}

fn everyone(servers: u32) -> Vec<u32> {
    (0..servers).collect()
}

/// Hops from a server over the circuits that there are.
fn hops(neighbors: &[Vec<u32>], from: u32) -> Vec<u32> {
    let mut hops = vec![u32::MAX; neighbors.len()];
    hops[from as usize] = 0;
    let mut queue = VecDeque::from([from]);
    while let Some(server) = queue.pop_front() {
        for &peer in &neighbors[server as usize] {
            if hops[peer as usize] == u32::MAX {
                hops[peer as usize] = hops[server as usize] + 1;
                queue.push_back(peer);
            }
        }
    }
    hops
}

/// Paths back from a server, at most so many: those that may be made are divided among the servers
/// before it, the first ones one more, beginning with another one for each destination.
fn back(neighbors: &[Vec<u32>], hops: &[u32], path: &[u32], limit: usize) -> Vec<Vec<u32>> {
    let (end, last) = (path[0] as usize, path[path.len() - 1] as usize);
    if hops[last] == 0 {
        return vec![path.iter().rev().copied().collect()];
    }
    let closer = |peer: &&u32| hops[**peer as usize] + 1 == hops[last];
    let mut before: Vec<u32> = neighbors[last].iter().filter(closer).copied().collect();
    let turns = end % before.len();
    before.rotate_left(turns);
    before.truncate(limit);
    let mut found = Vec::new();
    for (index, &server) in before.iter().enumerate() {
        let share = (limit + before.len() - 1 - index) / before.len();
        found.extend(back(neighbors, hops, &[path, &[server]].concat(), share));
    }
    found
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4))]

    #[test]
    fn paths_are_divided_among_the_servers_before_each_other(job in job(24, 5)) {
        let found = job.find();
        let mut neighbors = vec![Vec::new(); job.servers as usize];
        for (from, to) in links(&found).into_keys() {
            neighbors[from as usize].push(to);
        }
        let mut expected: BTreeMap<(u32, u32), Vec<Vec<u32>>> = BTreeMap::new();
        for (from, to) in routes(&found).into_keys() {
            let hops = hops(&neighbors, from);
            let paths = back(&neighbors, &hops, &[to], found.max_routes as usize);
            expected.insert((from, to), paths);
        }
        prop_assert_eq!(routes(&found), expected);
    }

    #[test]
    fn at_least_one_path_is_made(job in job(16, 5)) {
        let none = Job { max_routes: 0, ..job.clone() };
        let one = Job { max_routes: 1, ..job };
        prop_assert_eq!(none.find(), one.find());
    }
}

/// From 0 to 3 over 1 or 2, from 3 to 0 likewise; paths of one destination begin at another relay
/// than those of the next.
#[test]
fn destinations_do_not_crowd_on_one_relay() {
    let mut job = Job::pairs(6, 2, vec![]);
    for relay in [4, 5] {
        job.demand.extend((0..4).map(|end| (end, relay, 1_000_000)));
    }
    // 4 and 5 have four ports' worth of demand: with four ports each, all ends hang on both.
    job.degree = 4;
    job.max_routes = 1;
    job.demand.extend([(0, 2, 1), (0, 3, 1), (1, 2, 1), (1, 3, 1)]);
    let found = job.find();
    let relays: Vec<Vec<u32>> = routes(&found)
        .into_values()
        .flatten()
        .filter(|path| path.len() == 3)
        .map(|path| vec![path[2], path[1]])
        .collect();
    for pair in relays.windows(2).filter(|pair| pair[0][0] != pair[1][0]) {
        assert_ne!(pair[0][1], pair[1][1], "{relays:?}");
    }
}

#[test]
fn the_next_cycle_goes_to_the_largest_share_after_it() {
    let (one, other) = ([0, 1, 2, 3, 4], [0, 2, 4, 1, 3]);
    // shares of a second cycle: 500 and 300; of a third one: 333
    let found = Job::rings(5, 8, &[(&one, 1_000), (&other, 600)]).find();
    assert_eq!([0, 1].map(|group| cycles_of(&found, group).len()), [3, 1]);
}

/// 4 is nearer to 5 than to 3 by ratio.
#[test]
fn strides_are_nearest_by_ratio() {
    let found = Job::rings(32, 4, &[(&everyone(32), 1_000)]).find();
    assert_eq!(cycles_of(&found, 0), [1, 5]);
    let found = Job::rings(13, 6, &[(&everyone(13), 1_000)]).find();
    assert_eq!(cycles_of(&found, 0), [1, 2, 4]);
}

#[test]
fn strides_that_are_used_up_are_used_again_in_turn() {
    let found = Job::rings(5, 8, &[(&everyone(5), 1_000)]).find();
    assert_eq!(cycles_of(&found, 0), [1, 1, 2, 2]);
    assert!(found.circuits.iter().all(|circuit| circuit.count == 2));
    let one = Job { strides: Strides::One, ..Job::rings(5, 8, &[(&everyone(5), 1_000)]) };
    assert_eq!(cycles_of(&one.find(), 0), [1; 4]);
}

#[test]
fn rings_without_bytes_get_no_cycle_though_ports_are_free() {
    let found = Job::rings(8, 4, &[(&[0, 1, 2, 3], 1_000), (&[4, 5, 6], 0)]).find();
    assert_eq!((cycles_of(&found, 0).len(), cycles_of(&found, 1).len()), (2, 0));
}

/// Servers that nobody talks to are joined half-way round.
#[test]
fn silent_servers_are_joined_half_way_round() {
    let found = Job::pairs(8, 1, vec![]).find();
    let pairs: Vec<(u32, u32)> = found.circuits.iter().map(|c| (c.a, c.b)).collect();
    assert_eq!(pairs, [(0, 4), (1, 5), (2, 6), (3, 7)]);
    let odd = Job::pairs(5, 1, vec![]).find();
    assert_eq!(odd.circuits.iter().map(|c| (c.a, c.b)).collect::<Vec<_>>(), [(0, 2), (1, 3)]);
}

#[test]
fn the_server_just_beyond_the_last_one_is_not_there() {
    let ring = Job::rings(3, 2, &[(&[0, 3], 1)]);
    assert_eq!(ring.refusal(), "ring 0: no server 3 among 3");
    for (from, to) in [(3, 0), (0, 3)] {
        let text = Job::pairs(3, 2, vec![(from, to, 1)]).refusal();
        assert_eq!(text, format!("demand {from} to {to}: only 3 servers"));
    }
}
