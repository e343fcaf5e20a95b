//! Allocators that work by need or by position, against slow replays that look at every pair.

use crate::common::cases::{Case, Random, case};
use lightloom_model::Allocator;
use lightloom_schedule::{Request, allocate, changed_pairs, route};
use proptest::prelude::*;

/// Circuits under construction, as plain as can be.
struct Builder<'a> {
    case: &'a Case,
    count: Vec<u16>,
    free: Vec<u32>,
}

impl<'a> Builder<'a> {
    fn new(case: &'a Case) -> Self {
        let count = vec![0; case.servers * case.servers];
        Self { case, count, free: case.ports.clone() }
    }

    fn of(&self, (a, b): (usize, usize)) -> u16 {
        self.count[a * self.case.servers + b]
    }

    fn has_room(&self, (a, b): (usize, usize)) -> bool {
        self.free[a] > 0 && self.free[b] > 0
    }

    fn add(&mut self, (a, b): (usize, usize)) {
        for (server, peer) in [(a, b), (b, a)] {
            self.free[server] -= 1;
            self.count[server * self.case.servers + peer] += 1;
        }
    }

    fn directions(&self, (a, b): (usize, usize)) -> (f64, f64) {
        let bytes = |from: usize, to: usize| self.case.demand[from * self.case.servers + to] as f64;
        (bytes(a, b), bytes(b, a))
    }

    /// Pairs that may be joined and have demand and a port at both ends.
    fn pairs(&self) -> Vec<(usize, usize)> {
        let n = self.case.servers;
        let all = (0..n).flat_map(|a| (a + 1..n).map(move |b| (a, b)));
        all.filter(|&(a, b)| {
            let (forth, back) = self.directions((a, b));
            let ports = self.case.ports[a].min(self.case.ports[b]);
            self.case.allowed[a * n + b] && ports > 0 && forth + back > 0.0
        })
        .collect()
    }
}

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

/// First circuits before second ones, then by the larger direction per circuit; ties as a
/// circulant would resolve them.
fn replay_greedy(case: &Case) -> Vec<u16> {
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
            (count == 0, need, std::cmp::Reverse(position(pair)))
        });
        let Some(pair) = next else { return builder.count };
        builder.add(pair);
    }
}

/// Demand of a few sizes only, so that many pairs are in equal need.
fn tied(mut case: Case) -> Case {
    case.demand.iter_mut().for_each(|bytes| *bytes = *bytes % 3 * 6_000_000);
    case
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
        let request = Request { previous: Some(&previous), ..case.request() };
        let found = allocate(Allocator::Paper, &request).circuits;
        prop_assert_eq!(found, replay_paper(&case, Some(&previous)));
        let found = allocate(Allocator::Reference, &request).circuits;
        prop_assert_eq!(found, replay_reference(&case, Some(&previous)));
    }

    #[test]
    fn greedy_follows_its_replay(case in case(9), ties in any::<bool>()) {
        let case = if ties { tied(case) } else { case };
        let found = allocate(Allocator::Greedy, &case.request());
        prop_assert_eq!(&found.circuits, &replay_greedy(&case));
        prop_assert_eq!(found.chosen, Allocator::Greedy);
    }

    /// What is there stays as a whole, or something faster is there.
    #[test]
    fn greedy_leaves_only_for_something_faster(case in case(7), seed in 1..u64::MAX) {
        let previous = random_circuits(&case, &mut Random(seed));
        let request = Request { previous: Some(&previous), ..case.request() };
        let found = allocate(Allocator::Greedy, &request);
        let stay = route(&request, &previous).makespan;
        let fresh = allocate(Allocator::Greedy, &case.request()).makespan;
        prop_assert!(found.makespan <= stay);
        prop_assert!(found.makespan <= fresh, "ties may follow what is there, times may not");
        if changed_pairs(&previous, &found.circuits) > 0 {
            prop_assert!(found.makespan < stay);
        }
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
            let request = Request { previous: Some(&previous), ..after.request() };
            let found = allocate(allocator, &request);
            prop_assert!(request.admits(&found.circuits).is_ok());
            prop_assert!(found.makespan <= stay, "{:?}", allocator);
        }
    }
}

/// Random circuits within ports and allowed pairs.
fn random_circuits(case: &Case, random: &mut Random) -> Vec<u16> {
    let mut builder = Builder::new(case);
    let n = case.servers;
    for _ in 0..4 * n {
        let [a, b] = [0, 1].map(|_| (random.uniform() * n as f64) as usize);
        if a != b && case.allowed[a * n + b] && builder.has_room((a, b)) {
            builder.add((a, b));
        }
    }
    builder.count
}

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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// A static topology leaves no circuit out that ports and pairs admit, and the multiplicities
    /// of pairs with a free port each are even.
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
