//! Circulants: circuits by position alone, and where ports go that a circulant leaves over.

use crate::common::cases::{Builder, Case, case, joined_pairs};
use lightloom_model::Allocator;
use lightloom_schedule::allocate;
use proptest::prelude::*;

fn static_case(servers: usize, ports: u32) -> Case {
    Case::new(servers, vec![1; servers * servers], ports)
}

/// With an even number of ports, fewer than peers, each server is joined to its nearest neighbors
/// on both sides.
#[test]
fn circulants_of_even_ports_join_the_nearest() {
    for servers in 3..14_usize {
        for ports in (2..servers as u32).step_by(2) {
            let case = static_case(servers, ports);
            let found = allocate(Allocator::Static, &case.request()).circuits;
            for a in 0..servers {
                for b in 0..servers {
                    let stride = a.abs_diff(b).min(servers - a.abs_diff(b));
                    let is_near = stride > 0 && stride <= ports as usize / 2;
                    let count = found[a * servers + b];
                    assert_eq!(count, u16::from(is_near), "{servers} servers, {a} to {b}");
                }
            }
        }
    }
}

/// An odd port of an even number of servers goes to the opposite one.
#[test]
fn circulants_of_odd_ports_join_the_opposite() {
    for half in 2..8_usize {
        let servers = 2 * half;
        for ports in (1..servers as u32 - 1).step_by(2) {
            let case = static_case(servers, ports);
            let found = allocate(Allocator::Static, &case.request()).circuits;
            for a in 0..servers {
                let opposite = (a + half) % servers;
                assert_eq!(found[a * servers + opposite], 1, "{servers} servers, {ports} ports");
                let row = &found[a * servers..(a + 1) * servers];
                assert_eq!(row.iter().map(|&count| u32::from(count)).sum::<u32>(), ports);
            }
        }
    }
}

/// The pairs of a circulant in turn: all strides up to half the degree, and an odd port for the
/// opposite server or, if there is none, for every second step of a walk in the widest stride.
fn circle(n: usize, degree: usize) -> Vec<(usize, usize)> {
    let step = |from: usize, stride: usize| (from + stride) % n;
    let strides = 1..=degree / 2;
    let mut turns: Vec<(usize, usize)> =
        strides.flat_map(|stride| (0..n).map(move |a| (a, step(a, stride)))).collect();
    if degree % 2 == 1 && n.is_multiple_of(2) {
        turns.extend((0..n / 2).map(|a| (a, a + n / 2)));
    } else if degree % 2 == 1 {
        let walk: Vec<usize> = (0..n).map(|steps| steps * (n / 2) % n).collect();
        turns.extend(walk.chunks_exact(2).map(|two| (two[0], two[1])));
    }
    turns
}

/// All pairs as often as the widest server can, then a circulant of what it has left; ports that
/// remain anywhere go one by one to the open pair with the fewest circuits, short strides first.
fn replay_static(case: &Case) -> Vec<u16> {
    let (n, mut builder) = (case.servers, Builder::new(case));
    let degree = case.ports.iter().copied().max().unwrap_or(0) as usize;
    if n < 2 {
        return builder.count;
    }
    let mut turns = circle(n, n - 1).repeat(degree / (n - 1));
    turns.extend(circle(n, degree % (n - 1)));
    let is_open = |builder: &Builder, (a, b)| case.allowed[a * n + b] && builder.has_room((a, b));
    for pair in turns {
        if is_open(&builder, pair) {
            builder.add(pair);
        }
    }
    let all = || (1..=n / 2).flat_map(|stride| (0..n).map(move |a| (a, (a + stride) % n)));
    while let Some(pair) =
        all().filter(|&pair| is_open(&builder, pair)).min_by_key(|&pair| builder.of(pair))
    {
        builder.add(pair);
    }
    builder.count
}

/// Five servers of one port, and of three: the odd port goes two steps on, and server 3 has none
/// to go to.
#[test]
fn circulants_of_odd_regions_leave_one_server_out() {
    let one = allocate(Allocator::Static, &static_case(5, 1).request()).circuits;
    assert_eq!(one, joined_pairs(5, &[(0, 2), (1, 4)]));
    let three = allocate(Allocator::Static, &static_case(5, 3).request()).circuits;
    let ring = [(0, 1), (1, 2), (2, 3), (3, 4), (0, 4)];
    assert_eq!(three, joined_pairs(5, &[&ring[..], &[(0, 2), (1, 4)]].concat()));
}

/// The ring of four without two opposite sides: the ports of these join the diagonals, rather than
/// double the sides that are left.
#[test]
fn ports_left_over_join_pairs_that_have_no_circuit_yet() {
    let mut case = static_case(4, 2);
    for pair in [1, 4, 11, 14] {
        case.allowed[pair] = false;
    }
    let found = allocate(Allocator::Static, &case.request()).circuits;
    assert_eq!(found, joined_pairs(4, &[(1, 2), (0, 3), (0, 2), (1, 3)]));
    // Without the diagonals the sides are all there is.
    for pair in [2, 7, 8, 13] {
        case.allowed[pair] = false;
    }
    let found = allocate(Allocator::Static, &case.request()).circuits;
    assert_eq!(found, joined_pairs(4, &[(1, 2), (1, 2), (0, 3), (0, 3)]));
}

/// The server with most ports decides how dense the circulant is: three peers each, of which
/// server 0 can have one.
#[test]
fn a_server_with_few_ports_does_not_thin_the_circulant() {
    let mut case = static_case(4, 3);
    case.ports[0] = 1;
    let found = allocate(Allocator::Static, &case.request()).circuits;
    assert_eq!(found, joined_pairs(4, &[(0, 1), (1, 2), (1, 3), (2, 3), (2, 3)]));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn circulants_follow_their_replay(case in case(11)) {
        let found = allocate(Allocator::Static, &case.request());
        prop_assert_eq!(found.circuits, replay_static(&case));
        prop_assert_eq!(found.chosen, Allocator::Static);
    }

    /// A static topology leaves no circuit out that ports and pairs admit.
    #[test]
    fn circulants_leave_no_pair_with_two_free_ports(case in case(9)) {
        let found = allocate(Allocator::Static, &case.request());
        let n = case.servers;
        let used = |server: usize| -> u32 {
            found.circuits[server * n..(server + 1) * n].iter().map(|&c| u32::from(c)).sum()
        };
        for a in 0..n {
            for b in (0..a).filter(|&b| case.allowed[a * n + b]) {
                let is_open = used(a) < case.ports[a] && used(b) < case.ports[b];
                prop_assert!(!is_open, "{a} and {b} could be joined");
            }
        }
    }
}
