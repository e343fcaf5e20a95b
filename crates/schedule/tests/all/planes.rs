//! Circuits on planes: colorings that exist are found, those that cannot be are refused.

use crate::common::cases::Random;
use lightloom_model::Fibers;
use lightloom_schedule::{NicCircuit, NicEnd, Planes, assign_planes, check_planes};
use proptest::prelude::*;

const EFFORT: u32 = 20_000;

fn circuits(n: usize, edges: &[(usize, usize, u16)]) -> Vec<u16> {
    let mut counts = vec![0; n * n];
    for &(a, b, count) in edges {
        counts[a * n + b] += count;
        counts[b * n + a] += count;
    }
    counts
}

/// A union of random matchings, one per plane: can be built by design.
fn built(n: usize, planes: usize, working: &[bool], random: &mut Random) -> Vec<u16> {
    let mut counts = vec![0; n * n];
    for plane in 0..planes {
        let mut order: Vec<usize> = (0..n).filter(|&a| working[a * planes + plane]).collect();
        for i in (1..order.len()).rev() {
            order.swap(i, (random.uniform() * (i + 1) as f64) as usize);
        }
        for pair in order.chunks_exact(2) {
            counts[pair[0] * n + pair[1]] += 1;
            counts[pair[1] * n + pair[0]] += 1;
        }
    }
    counts
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn what_was_built_plane_by_plane_is_found_again(
        n in 2..33_usize, planes in 1..9_usize, seed in 1..u64::MAX,
    ) {
        let working = vec![true; n * planes];
        let counts = built(n, planes, &working, &mut Random(seed));
        match assign_planes(&counts, &working, Fibers::Duplex, EFFORT) {
            Planes::Assigned(found) => {
                prop_assert!(check_planes(&counts, &working, Fibers::Duplex, &found).is_ok());
            }
            Planes::Infeasible(reason) => prop_assert!(false, "{reason}"),
            Planes::NotFound(found, left) => {
                let all: u32 = counts.iter().map(|&count| u32::from(count)).sum::<u32>() / 2;
                prop_assert_eq!(found.len() + left.len(), all as usize);
            }
        }
    }

    #[test]
    fn crossed_fibers_always_work(n in 2..33_usize, half in 1..5_usize, seed in 1..u64::MAX) {
        let planes = 2 * half;
        let working = vec![true; n * planes];
        let mut random = Random(seed);
        let mut counts = vec![0_u16; n * n];
        let mut free = vec![planes; n];
        for _ in 0..n * planes * 4 {
            let [a, b] = [0, 1].map(|_| (random.uniform() * n as f64) as usize);
            if a != b && free[a].min(free[b]) > 0 {
                counts[a * n + b] += 1;
                counts[b * n + a] += 1;
                free[a] -= 1;
                free[b] -= 1;
            }
        }
        let Planes::Assigned(found) = assign_planes(&counts, &working, Fibers::Crossed, 1) else {
            panic!("no two-factors");
        };
        prop_assert!(check_planes(&counts, &working, Fibers::Crossed, &found).is_ok());
    }

    #[test]
    fn failed_nics_are_never_used(
        n in 2..9_usize, planes in 1..5_usize, seed in 1..u64::MAX, crossed in any::<bool>(),
    ) {
        let mut random = Random(seed);
        let working: Vec<bool> = (0..n * planes).map(|_| random.uniform() > 0.2).collect();
        let fibers = if crossed { Fibers::Crossed } else { Fibers::Duplex };
        let counts = built(n, planes, &working, &mut random);
        match assign_planes(&counts, &working, fibers, EFFORT) {
            Planes::Assigned(found) => {
                prop_assert!(check_planes(&counts, &working, fibers, &found).is_ok());
            }
            Planes::Infeasible(reason) => prop_assert!(crossed, "{reason}"),
            Planes::NotFound(..) => {}
        }
    }
}

#[test]
fn a_fat_triangle_needs_half_as_many_planes_again() {
    let triangle = circuits(3, &[(0, 1, 2), (1, 2, 2), (0, 2, 2)]);
    let four = assign_planes(&triangle, &[true; 12], Fibers::Duplex, EFFORT);
    let text = "6 circuits join servers 0, 1, 2 to each other, but 4 planes can join 3 servers at \
                most 4 times";
    assert_eq!(four, Planes::Infeasible(text.into()));
    let six = assign_planes(&triangle, &[true; 18], Fibers::Duplex, EFFORT);
    assert!(matches!(six, Planes::Assigned(found) if found.len() == 6));
    let crossed = assign_planes(&triangle, &[true; 12], Fibers::Crossed, EFFORT);
    assert!(matches!(crossed, Planes::Assigned(found) if found.len() == 6));
}

/// Three regular, without a bridge, not three-colorable: only a search shows it.
#[test]
fn petersens_graph_is_proved_infeasible() {
    let mut edges = Vec::new();
    for i in 0..5 {
        edges.extend([(i, (i + 1) % 5, 1), (i, i + 5, 1), (5 + i, 5 + (i + 2) % 5, 1)]);
    }
    let counts = circuits(10, &edges);
    let found = assign_planes(&counts, &[true; 30], Fibers::Duplex, EFFORT);
    assert_eq!(found, Planes::Infeasible("every assignment was tried".into()));
    let short = assign_planes(&counts, &[true; 30], Fibers::Duplex, 30);
    assert!(matches!(short, Planes::NotFound(kept, left) if kept.len() + left.len() == 15));
    let four = assign_planes(&counts, &[true; 40], Fibers::Duplex, EFFORT);
    assert!(matches!(four, Planes::Assigned(_)));
}

#[test]
fn reasons_are_stated() {
    let pair = circuits(2, &[(0, 1, 2)]);
    let reason = |working: &[bool], fibers| match assign_planes(&pair, working, fibers, EFFORT) {
        Planes::Infeasible(text) => text,
        other => panic!("{other:?}"),
    };
    let text = reason(&[true, false, true, true], Fibers::Duplex);
    assert_eq!(text, "server 0 has 2 circuits but 1 working NICs");
    let text = reason(&[true, true, false, false, false, false, true, true], Fibers::Duplex);
    assert_eq!(text, "servers 0 and 1 have no working NICs that can be joined");
}

/// Servers 2 and 3 each lack a NIC, on different planes: two of the three planes can join only one
/// pair of the four servers, which is one circuit too few for all.
#[test]
fn sets_that_failed_nics_overfill_are_named() {
    let counts = circuits(4, &[(0, 1, 1), (0, 2, 1), (0, 3, 1), (1, 2, 1), (1, 3, 1)]);
    let mut working = [true; 12];
    (working[3 * 2], working[3 * 3 + 1]) = (false, false);
    let text = "5 circuits join servers 0, 1, 2, 3 to each other, but 3 planes can join 4 servers \
                at most 4 times";
    let found = assign_planes(&counts, &working, Fibers::Duplex, EFFORT);
    assert_eq!(found, Planes::Infeasible(text.into()));
}

#[test]
fn the_checker_names_what_is_wrong() {
    let pair = circuits(2, &[(0, 1, 1)]);
    let end = |server, nic| NicEnd { server, nic };
    let check = |assigned: &[NicCircuit], fibers| {
        let working = [true, true, false, true, true, true];
        check_planes(&pair, &working, fibers, assigned).map_err(|error| error.to_string())
    };
    let joined = |x, y| NicCircuit { a: end(0, x), b: end(1, y) };
    assert_eq!(check(&[joined(0, 0)], Fibers::Duplex), Ok(()));
    assert_eq!(check(&[joined(0, 1)], Fibers::Crossed), Ok(()));
    let refused = |assigned: &[NicCircuit]| check(assigned, Fibers::Duplex).unwrap_err();
    assert_eq!(refused(&[]), "0 of 1 circuits join 0 and 1");
    assert_eq!(refused(&[joined(2, 2)]), "NIC 2 of server 0 does not work");
    assert_eq!(refused(&[joined(0, 1)]), "NICs 0 and 1 are on no common plane");
    assert_eq!(refused(&[joined(0, 0), joined(0, 0)]), "NIC 0 of server 0 ends two circuits");
}
