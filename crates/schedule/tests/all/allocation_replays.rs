//! Allocators that work by need or by position, against slow replays that look at every pair.

use std::cmp::Reverse;

use crate::common::cases::{Builder, Case, Random, case, random_circuits, tied};
use lightloom_model::Allocator;
use lightloom_schedule::{Allocation, allocate, changed_pairs, route};
use proptest::prelude::*;

fn held(previous: Option<&[u16]>, n: usize, (a, b): (usize, usize)) -> u16 {
    previous.map_or(0, |count| count[a * n + b])
}

/// The pair with the largest rank; of equal ones the one of lower indices.
fn first_by<R: PartialOrd>(
    pairs: &[(usize, usize)],
    rank: impl Fn((usize, usize)) -> R,
) -> Option<(usize, usize)> {
    let mut first = *pairs.first()?;
    for &pair in pairs {
        if rank(pair) > rank(first) {
            first = pair;
        }
    }
    Some(first)
}

/// Algorithm 1 as printed, by a scan of all pairs for each circuit.
fn replay_paper(case: &Case, previous: Option<&[u16]>) -> Vec<u16> {
    let mut builder = Builder::new(case);
    let pairs = builder.pairs();
    loop {
        let next = first_by(&pairs, |pair| {
            let (forth, back) = builder.directions(pair);
            let count = builder.of(pair);
            let need = (forth + back) / f64::from(count.max(1));
            (count == 0, need, held(previous, case.servers, pair))
        });
        match next.filter(|&pair| builder.has_room(pair)) {
            Some(pair) => builder.add(pair),
            None => return builder.count,
        }
    }
}

/// The published simulator's reading: the need is divided by 100 C when the C-th circuit is given,
/// and pairs without a free port are passed over.
fn replay_reference(case: &Case, previous: Option<&[u16]>) -> Vec<u16> {
    let mut builder = Builder::new(case);
    let n = case.servers;
    let mut need = vec![0.0; n * n];
    for (a, b) in builder.pairs() {
        let (forth, back) = builder.directions((a, b));
        need[a * n + b] = forth + back;
    }
    loop {
        let open: Vec<_> =
            builder.pairs().into_iter().filter(|&pair| builder.has_room(pair)).collect();
        let next = first_by(&open, |pair| (need[pair.0 * n + pair.1], held(previous, n, pair)));
        let Some((a, b)) = next else { return builder.count };
        builder.add((a, b));
        need[a * n + b] /= 100.0 * f64::from(builder.of((a, b)));
    }
}

/// First circuits before second ones, then by the larger direction per circuit; ties go to pairs
/// that hold circuits, then as a circulant would resolve them.
fn replay_greedy(case: &Case, previous: Option<&[u16]>) -> Vec<u16> {
    let mut builder = Builder::new(case);
    let (n, degree) = (case.servers, case.ports.iter().copied().max().unwrap_or(0) as usize);
    let position = |(a, b): (usize, usize)| {
        let stride = (b - a).min(n - (b - a));
        let is_opposite = degree < n && degree % 2 == 1 && stride * 2 == n;
        if is_opposite { degree } else { stride * 2 }
    };
    loop {
        let open: Vec<_> =
            builder.pairs().into_iter().filter(|&pair| builder.has_room(pair)).collect();
        let next = first_by(&open, |pair| {
            let (forth, back) = builder.directions(pair);
            let count = builder.of(pair);
            let need = forth.max(back) / f64::from(count.max(1));
            (count == 0, need, held(previous, n, pair), Reverse(position(pair)))
        });
        let Some(pair) = next else { return builder.count };
        builder.add(pair);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(250))]

    #[test]
    fn readings_of_algorithm_1_follow_their_replays(case in case(8), ties in any::<bool>()) {
        let case = if ties { tied(case) } else { case };
        let found = allocate(Allocator::Paper, &case.request());
        prop_assert_eq!(found.circuits, replay_paper(&case, None));
        let found = allocate(Allocator::Reference, &case.request());
        prop_assert_eq!(found.circuits, replay_reference(&case, None));
    }

    #[test]
    fn ties_of_algorithm_1_go_to_pairs_that_hold_circuits(case in case(7), seed in 1..u64::MAX) {
        let case = tied(case);
        let mut random = Random(seed);
        let n = case.servers;
        let mut previous = vec![0; n * n];
        for (a, b) in (0..n).flat_map(|a| (0..a).map(move |b| (a, b))) {
            let count = (random.uniform() * 3.0) as u16;
            (previous[a * n + b], previous[b * n + a]) = (count, count);
        }
        let request = case.request().with_previous(Some(&previous)).unwrap();
        let found = allocate(Allocator::Paper, &request).circuits;
        prop_assert_eq!(found, replay_paper(&case, Some(&previous)));
        let found = allocate(Allocator::Reference, &request).circuits;
        prop_assert_eq!(found, replay_reference(&case, Some(&previous)));
    }

    #[test]
    fn greedy_follows_its_replay(case in case(9), ties in any::<bool>()) {
        let case = if ties { tied(case) } else { case };
        let found = allocate(Allocator::Greedy, &case.request());
        prop_assert_eq!(&found.circuits, &replay_greedy(&case, None));
        prop_assert_eq!(found.chosen, Allocator::Greedy);
    }

    /// What is there stays as a whole if it is as fast as circuits by need. Else the result is as
    /// fast as those, and closer to what is there if anything.
    #[test]
    fn greedy_leaves_only_for_something_faster(
        case in case(7), ties in any::<bool>(), seed in 1..u64::MAX,
    ) {
        let case = if ties { tied(case) } else { case };
        let previous = random_circuits(&case, &mut Random(seed));
        let request = case.request().with_previous(Some(&previous)).unwrap();
        let found = allocate(Allocator::Greedy, &request);
        let by_need = replay_greedy(&case, Some(&previous));
        let [stay, fresh] = [&previous, &by_need].map(|set| route(&request, set).makespan);
        if stay <= fresh {
            prop_assert_eq!(&found.circuits, &previous);
        } else {
            let [found, fresh] = [&found.circuits, &by_need].map(|to| changed_pairs(&previous, to));
            prop_assert!(found <= fresh);
        }
        prop_assert!(found.makespan <= stay.min(fresh));
        let routed = route(&request, &found.circuits);
        prop_assert_eq!(&found, &Allocation { chosen: Allocator::Greedy, ..routed });
    }

    /// Circuits that ports or allowed pairs do not admit any more are dropped, and no others.
    #[test]
    fn circuits_that_are_not_admitted_any_more_go(case in case(7), seed in 1..u64::MAX) {
        let mut random = Random(seed);
        let previous = random_circuits(&case, &mut random);
        let n = case.servers;
        let mut after = case.clone();
        for a in 0..n {
            for b in 0..a {
                let stays = random.uniform() < 0.7 && case.allowed[a * n + b];
                (after.allowed[a * n + b], after.allowed[b * n + a]) = (stays, stays);
            }
        }
        let kept: Vec<u16> = previous
            .iter()
            .zip(&after.allowed)
            .map(|(&count, &may)| if may { count } else { 0 })
            .collect();
        let stay = route(&after.request(), &kept).makespan;
        for allocator in [Allocator::Greedy, Allocator::Parametric, Allocator::Best] {
            let request = after.request().with_previous(Some(&previous)).unwrap();
            let found = allocate(allocator, &request);
            prop_assert!(request.admits(&found.circuits).is_ok());
            prop_assert!(found.makespan <= stay, "{:?}", allocator);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Greedy leaves no pair with demand and two free ports either.
    #[test]
    fn greedy_leaves_no_pair_in_need_with_two_free_ports(case in case(9)) {
        let circuits = allocate(Allocator::Greedy, &case.request()).circuits;
        let mut builder = Builder::new(&case);
        for (a, b) in builder.pairs() {
            for _ in 0..circuits[a * case.servers + b] {
                builder.add((a, b));
            }
        }
        prop_assert_eq!(&builder.count, &circuits, "a circuit for a pair without demand");
        for pair in builder.pairs() {
            prop_assert!(!builder.has_room(pair), "{:?} could be joined", pair);
        }
    }
}
