//! Circuits on planes and NICs against a search of everything, and what must hold for any change.

use std::collections::BTreeSet;

use crate::common::cases::Random;
use lightloom_model::Fibers;
use lightloom_schedule::{
    NicCircuit, NicEnd, Planes, assign_from, assign_partial, assign_planes, check_planes, map_nics,
    map_working_nics,
};
use proptest::prelude::*;

const EFFORT: u32 = 20_000;

/// Every pair of `n` servers.
fn pairs(n: usize) -> Vec<(usize, usize)> {
    (0..n).flat_map(|a| (a + 1..n).map(move |b| (a, b))).collect()
}

/// Every multigraph of `n` servers with at most `limit` circuits per pair.
fn multigraphs(n: usize, limit: u16) -> Vec<Vec<u16>> {
    let mut found = vec![vec![0; n * n]];
    for (a, b) in pairs(n) {
        let longer = |counts: &Vec<u16>| {
            (0..=limit)
                .map(|count| {
                    let mut more = counts.clone();
                    (more[a * n + b], more[b * n + a]) = (count, count);
                    more
                })
                .collect::<Vec<_>>()
        };
        found = found.iter().flat_map(longer).collect();
    }
    found
}

/// Random circuits, up to the working NICs of each server.
fn random_counts(n: usize, planes: usize, working: &[bool], random: &mut Random) -> Vec<u16> {
    let mut free: Vec<usize> = (0..n)
        .map(|a| working[a * planes..(a + 1) * planes].iter().filter(|&&works| works).count())
        .collect();
    let mut counts = vec![0; n * n];
    for _ in 0..n * planes {
        let [a, b] = [0, 1].map(|_| (random.uniform() * n as f64) as usize);
        if a != b && free[a].min(free[b]) > 0 {
            counts[a * n + b] += 1;
            counts[b * n + a] += 1;
            free[a] -= 1;
            free[b] -= 1;
        }
    }
    counts
}

fn random_working(n: usize, planes: usize, random: &mut Random) -> Vec<bool> {
    (0..n * planes).map(|_| random.uniform() < 0.85).collect()
}

fn edges(counts: &[u16], n: usize) -> Vec<(usize, usize)> {
    pairs(n)
        .into_iter()
        .flat_map(|(a, b)| std::iter::repeat_n((a, b), usize::from(counts[a * n + b])))
        .collect()
}

/// The maximum number of circuits that find NICs, over all choices.
fn max_placed(edges: &[(usize, usize)], working: &mut [bool], planes: usize, odd: bool) -> usize {
    let Some((&(a, b), rest)) = edges.split_first() else { return 0 };
    let mut best = max_placed(rest, working, planes, odd);
    for nic in 0..planes {
        let far = if odd { nic ^ 1 } else { nic };
        let (one, other) = (a * planes + nic, b * planes + far);
        if far < planes && working[one] && working[other] {
            (working[one], working[other]) = (false, false);
            best = best.max(1 + max_placed(rest, working, planes, odd));
            (working[one], working[other]) = (true, true);
        }
    }
    best
}

/// The pairs that circuits on NICs join, as counts.
fn counted(circuits: &[NicCircuit], n: usize) -> Vec<u16> {
    let mut counts = vec![0; n * n];
    for circuit in circuits {
        let (a, b) = (circuit.a.server as usize, circuit.b.server as usize);
        counts[a * n + b] += 1;
        counts[b * n + a] += 1;
    }
    counts
}

/// Four servers, two planes, any circuits, some NICs out of order: found if and only if it exists.
#[test]
fn an_assignment_is_found_exactly_where_one_exists() {
    let (n, planes) = (4, 2);
    let mut random = Random(31);
    for counts in multigraphs(n, 2) {
        for fibers in [Fibers::Duplex, Fibers::Crossed] {
            let mut working = random_working(n, planes, &mut random);
            let all = edges(&counts, n);
            let exists =
                max_placed(&all, &mut working, planes, fibers == Fibers::Crossed) == all.len();
            match assign_planes(&counts, &working, fibers, EFFORT) {
                Planes::Assigned(found) => {
                    assert!(exists);
                    check_planes(&counts, &working, fibers, &found).unwrap();
                }
                Planes::Infeasible(reason) => assert!(!exists, "{counts:?}: {reason}"),
                Planes::NotFound(..) => panic!("{counts:?}: a search of few steps is complete"),
            }
        }
    }
}

/// A partial assignment holds what can be held, and never more than what was requested.
#[test]
fn a_partial_assignment_joins_no_more_than_requested_and_nearly_all_that_can() {
    let (n, planes) = (4, 3);
    let mut random = Random(37);
    let (mut placed, mut possible) = (0, 0);
    for _ in 0..120 {
        let mut working = random_working(n, planes, &mut random);
        let counts = random_counts(n, planes, &working, &mut random);
        let found = assign_partial(&counts, &working, Fibers::Duplex, EFFORT);
        let there = counted(&found, n);
        assert!(there.iter().zip(&counts).all(|(there, wanted)| there <= wanted));
        check_planes(&there, &working, Fibers::Duplex, &found).unwrap();
        let best = max_placed(&edges(&counts, n), &mut working, planes, false);
        assert!(found.len() <= best);
        placed += found.len();
        possible += best;
    }
    assert!(placed * 20 >= possible * 19, "{placed} of {possible}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]

    /// What is there and wanted stays on its NICs where no other circuit needs them.
    #[test]
    fn nothing_moves_where_nothing_changed(
        n in 2..9_usize, planes in 1..6_usize, seed in 1..u64::MAX, crossed in any::<bool>(),
    ) {
        let fibers = if crossed { Fibers::Crossed } else { Fibers::Duplex };
        let mut random = Random(seed);
        let planes = if crossed { planes * 2 } else { planes };
        let working = random_working(n, planes, &mut random);
        let counts = random_counts(n, planes, &working, &mut random);
        let before = assign_partial(&counts, &working, fibers, EFFORT);
        let there = counted(&before, n);
        prop_assert_eq!(&assign_from(&there, &working, fibers, &before, EFFORT), &before);
        let mut fewer = there.clone();
        if let Some(gone) = before.first() {
            let (a, b) = (gone.a.server as usize, gone.b.server as usize);
            (fewer[a * n + b], fewer[b * n + a]) = (fewer[a * n + b] - 1, fewer[b * n + a] - 1);
        }
        let after = assign_from(&fewer, &working, fibers, &before, EFFORT);
        prop_assert!(after.iter().all(|circuit| before.contains(circuit)));
        prop_assert_eq!(counted(&after, n), fewer);
    }

    /// Circuits on NICs that fail must move; all others of an otherwise idle plane stay.
    #[test]
    fn circuits_leave_nics_that_fail(
        n in 2..9_usize, planes in 1..5_usize, seed in 1..u64::MAX,
    ) {
        let mut random = Random(seed);
        // As many spare planes as there are in use: what must move finds room without others.
        let width = 2 * planes;
        let mut working: Vec<bool> = (0..n * width).map(|end| end % width < planes).collect();
        let counts = random_counts(n, planes, &vec![true; n * planes], &mut random);
        let before = assign_partial(&counts, &working, Fibers::Duplex, EFFORT);
        let there = counted(&before, n);
        working = vec![true; n * width];
        let Some(broken) = before.first() else { return Ok(()) };
        working[broken.a.server as usize * width + broken.a.nic as usize] = false;
        let after = assign_from(&there, &working, Fibers::Duplex, &before, EFFORT);
        prop_assert!(check_planes(&there, &working, Fibers::Duplex, &after).is_ok());
        let kept = before.iter().filter(|circuit| after.contains(circuit)).count();
        prop_assert_eq!(kept, before.len() - 1);
    }

    /// What is not there, does not work, or is on no plane, is not taken over.
    #[test]
    fn previous_circuits_that_cannot_be_are_ignored(n in 2..7_usize, seed in 1..u64::MAX) {
        let planes = 3;
        let mut random = Random(seed);
        let working = random_working(n, planes, &mut random);
        let counts = random_counts(n, planes, &working, &mut random);
        let mut any = |limit: usize| (random.uniform() * limit as f64) as u32;
        let previous: Vec<NicCircuit> = (0..3 * n)
            .filter_map(|_| {
                let (one, other) = (any(n), any(n));
                let [low, high] = [one.min(other), one.max(other)];
                let ends = [low, high].map(|server| NicEnd { server, nic: any(planes + 1) });
                (low < high).then_some(NicCircuit { a: ends[0], b: ends[1] })
            })
            .collect();
        let found = assign_from(&counts, &working, Fibers::Duplex, &previous, EFFORT);
        let there = counted(&found, n);
        prop_assert!(there.iter().zip(&counts).all(|(there, wanted)| there <= wanted));
        prop_assert!(check_planes(&there, &working, Fibers::Duplex, &found).is_ok());
    }

    /// Renamed planes assign as many circuits: whether there is an assignment does not change.
    #[test]
    fn names_of_planes_do_not_decide(n in 2..6_usize, turn in 0..3_usize, seed in 1..u64::MAX) {
        let planes = 3;
        let mut random = Random(seed);
        let working = random_working(n, planes, &mut random);
        let counts = random_counts(n, planes, &working, &mut random);
        let turned: Vec<bool> = (0..n * planes)
            .map(|end| {
                let (server, nic) = (end / planes, end % planes);
                let source = server * planes + (nic + turn) % planes;
                working[source]
            })
            .collect();
        let is_assigned = |working: &[bool]| {
            matches!(assign_planes(&counts, working, Fibers::Duplex, EFFORT), Planes::Assigned(_))
        };
        prop_assert_eq!(is_assigned(&working), is_assigned(&turned));
    }

    /// NICs that are out of order end no circuit, and each of the others at most one.
    #[test]
    fn mapping_avoids_nics_that_do_not_work(
        n in 2..8_usize, width in 1..7_usize, nodes in 1..4_u32, seed in 1..u64::MAX,
    ) {
        let mut random = Random(seed);
        let working = random_working(n, width, &mut random);
        let counts = random_counts(n, width, &working, &mut random);
        let ports = vec![width as u32; n];
        let mapped = map_working_nics(&counts, &ports, &working, nodes, &[]);
        let mut seen = BTreeSet::new();
        for end in mapped.iter().flat_map(|circuit| [circuit.a, circuit.b]) {
            prop_assert!(working[end.server as usize * width + end.nic as usize]);
            prop_assert!(seen.insert(end));
        }
        prop_assert_eq!(counted(&mapped, n), counts.clone());
        prop_assert!(mapped.is_sorted());
        // What it returns is where it stays.
        let again = map_working_nics(&counts, &ports, &working, nodes, &mapped);
        prop_assert_eq!(again, mapped);
    }

    /// A circuit whose NIC failed is mapped to another; those on working NICs stay.
    #[test]
    fn mapping_moves_only_what_failed(n in 2..8_usize, width in 2..7_usize, seed in 1..u64::MAX) {
        let mut random = Random(seed);
        let fewer = vec![true; n * (width - 1)];
        let counts = random_counts(n, width - 1, &fewer, &mut random);
        let ports = vec![width as u32; n];
        let before = map_nics(&counts, &ports, 2, &[]);
        let Some(broken) = before.first() else { return Ok(()) };
        let mut working = vec![true; n * width];
        let end = if seed % 2 == 0 { broken.a } else { broken.b };
        working[end.server as usize * width + end.nic as usize] = false;
        let after = map_working_nics(&counts, &ports, &working, 2, &before);
        prop_assert_eq!(counted(&after, n), counts);
        prop_assert!(before[1..].iter().all(|circuit| after.contains(circuit)));
        prop_assert!(!after.contains(broken));
    }

    /// All circuits to one peer use the nodes evenly: none has two more than another while NICs
    /// of both are free.
    #[test]
    fn a_single_bundle_is_divided_evenly_among_nodes(
        half in 1..5_u32, nodes in 1..4_u32, count in 0..12_u16,
    ) {
        let width = 2 * half * nodes;
        let count = count.min(width as u16);
        let mapped = map_nics(&[0, count, count, 0], &[width, width], nodes, &[]);
        let mut used = vec![0_i32; nodes as usize];
        for circuit in &mapped {
            used[(circuit.a.nic * nodes / width) as usize] += 1;
        }
        let spread = used.iter().max().unwrap() - used.iter().min().unwrap();
        prop_assert!(spread <= 1, "{:?}", used);
    }
}
