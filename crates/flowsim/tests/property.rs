//! Random networks and histories: the incremental result is that of progressive filling of the
//! whole network, capacities are respected, bytes are conserved, and times agree with a simulator
//! that recomputes everything at every event.

mod common;

use common::{close, progressive_filling};
use lightloom_flowsim::{FlowId, FlowNetwork, LinkId};
use lightloom_model::{Bytes, Rate, Time};
use proptest::prelude::*;
use std::collections::BTreeMap;

const MS: u64 = 1_000_000_000;

/// One change; numbers are taken modulo what exists.
#[derive(Debug, Clone)]
enum Change {
    Start {
        size: u64,
        path: Vec<usize>,
    },
    Rate {
        link: usize,
        rate: u64,
    },
    /// Takes a flow off its links.
    Withdraw {
        flow: usize,
    },
    /// Goes this far towards (in percent), or past, the next completion.
    Advance {
        percent: u64,
    },
}

#[derive(Debug, Clone)]
struct History {
    rates: Vec<u64>,
    /// Links that many flows lead from and to, with numbers taken as they are.
    expected: Vec<[Vec<usize>; 2]>,
    changes: Vec<Change>,
}

fn rate() -> impl Strategy<Value = u64> {
    // Round numbers make ties, which are the hard case.
    prop_oneof![
        6 => (1u64..=4).prop_map(|number| number * 100_000_000_000),
        2 => 10_000_000_000u64..3_200_000_000_000,
        1 => Just(0),
    ]
}

fn size() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => (1u64..=4).prop_map(|number| number * 1_000_000),
        4 => 1u64..100_000_000,
        1 => Just(0),
        1 => 1u64..100,
    ]
}

/// Capacities and hence levels that nearly tie.
fn close_rate() -> impl Strategy<Value = u64> {
    (1u64..3, 0u64..8).prop_map(|(number, more)| number * 100_000_000_000 + more)
}

fn history(links: usize, longest: usize, events: usize) -> impl Strategy<Value = History> {
    history_of(rate, links, longest, events)
}

fn history_of<S: Strategy<Value = u64>>(
    rate: fn() -> S,
    links: usize,
    longest: usize,
    events: usize,
) -> impl Strategy<Value = History> {
    (2..=links).prop_flat_map(move |links| {
        let path = prop::collection::btree_set(0..links, 1..=longest.min(links))
            .prop_map(|set| set.into_iter().collect::<Vec<_>>())
            .prop_shuffle();
        let change = prop_oneof![
            6 => (size(), path).prop_map(|(size, path)| Change::Start { size, path }),
            1 => (0..links, rate()).prop_map(|(link, rate)| Change::Rate { link, rate }),
            1 => (0..99_usize).prop_map(|flow| Change::Withdraw { flow }),
            4 => prop_oneof![3 => Just(100u64), 1 => 0u64..300]
                .prop_map(|percent| Change::Advance { percent }),
        ];
        let changes = prop::collection::vec(change, 1..events);
        (prop::collection::vec(rate(), links), changes).prop_map(|(rates, changes)| History {
            rates,
            expected: Vec::new(),
            changes,
        })
    })
}

/// Rows, columns, and links between them.
type Shape = (usize, usize, usize);

/// One all-to-all: rows that begin one after the other, each with a flow to some columns, and then
/// many ends. A path crosses the links between by the halves that its ends are in, as in a tree.
fn all_to_all((rows, columns, middles): Shape) -> impl Strategy<Value = Vec<Change>> {
    let path = move |row: usize, column: usize| {
        let halves = [row, column].map(|line| usize::from(line >= 4));
        let between = (0..middles).filter(move |_| halves[0] != halves[1]).take(2);
        let middle = between.map(move |link| rows + columns + (halves[0] + link) % middles);
        let path = [row].into_iter().chain(middle).chain([rows + column]);
        path.collect::<Vec<_>>()
    };
    let flows = prop::collection::vec(prop::option::weighted(0.8, size()), columns);
    let until_next = prop_oneof![3 => Just(0_u64), 2 => 0_u64..100, 1 => Just(300)];
    let senders = prop::collection::vec((flows, until_next), rows);
    (senders, 0..rows, 1..70_usize).prop_map(move |(senders, first, ends)| {
        let mut changes = Vec::new();
        for (index, (flows, percent)) in senders.into_iter().enumerate() {
            let row = (first + index) % rows;
            let flows = flows.into_iter().enumerate();
            let started = flows.filter_map(|(column, size)| Some((column, size?)));
            changes.extend(
                started.map(|(column, size)| Change::Start { size, path: path(row, column) }),
            );
            changes.push(Change::Advance { percent });
        }
        changes.extend((0..ends).map(|_| Change::Advance { percent: 100 }));
        changes
    })
}

/// All-to-alls one after the other, and now and then something else at any time.
fn all_to_alls(rounds: usize) -> impl Strategy<Value = History> {
    let shape = (2..=8_usize, 2..=8_usize, 0..=3_usize);
    shape.prop_flat_map(move |(rows, columns, middles)| {
        let links = rows + columns + middles + 1;
        let path = prop::collection::btree_set(0..links, 1..=3)
            .prop_map(|set| set.into_iter().collect::<Vec<_>>())
            .prop_shuffle();
        let other = prop_oneof![
            2 => (size(), path).prop_map(|(size, path)| Change::Start { size, path }),
            1 => (0..links, rate()).prop_map(|(link, rate)| Change::Rate { link, rate }),
            1 => (0..99_usize).prop_map(|flow| Change::Withdraw { flow }),
        ];
        let others = prop::collection::vec((other, 0.0..1.0), 0..3);
        let rounds = prop::collection::vec(all_to_all((rows, columns, middles)), 1..=rounds);
        let rates = prop_oneof![
            3 => (rate(), 1..12_u64).prop_map(move |(rate, wide)| {
                let rate = rate.max(1_000_000_000);
                let of = |link| if link < rows + columns { rate } else { wide * rate / 2 };
                (0..links).map(of).collect::<Vec<_>>()
            }),
            1 => prop::collection::vec(rate(), links),
        ];
        (rates, rounds, others).prop_map(move |(rates, rounds, others)| {
            let mut changes = rounds.concat();
            for (other, place) in others {
                let place: f64 = place;
                changes.insert((place * changes.len() as f64) as usize, other);
            }
            let sides = [(0..rows).collect(), (rows..rows + columns).collect()];
            History { rates, expected: vec![sides], changes }
        })
    })
}

/// The slow simulator: every rate from scratch at every event.
struct Slow {
    now: f64,
    capacity: Vec<f64>,
    /// Path and bits left by token.
    flows: BTreeMap<u64, (Vec<usize>, f64)>,
    finished: BTreeMap<u64, f64>,
}

impl Slow {
    fn new(rates: &[u64]) -> Self {
        let capacity = rates.iter().map(|&rate| rate as f64).collect();
        Self { now: 0.0, capacity, flows: BTreeMap::new(), finished: BTreeMap::new() }
    }

    fn compare(&self, finished: &BTreeMap<u64, u64>) {
        for (token, time) in finished {
            let expected = self.finished[token];
            let difference = (*time as f64 - expected).abs();
            // A time rounded the other way is a picosecond of a fast flow, more of a slow one.
            let allowed = 1e-9 * expected + 500.0;
            assert!(difference <= allowed, "flow {token}: {time} ps, slow {expected}");
        }
    }

    fn rates(&self) -> Vec<f64> {
        let paths: Vec<&[usize]> = self.flows.values().map(|(path, _)| path.as_slice()).collect();
        progressive_filling(&self.capacity, &paths)
    }

    fn run_to(&mut self, limit: f64) {
        while self.now < limit {
            let rates = self.rates();
            let ends = self.flows.values().zip(&rates).map(|((_, bits), rate)| {
                // No bits at no rate is an end now.
                if *bits <= 0.0 { self.now } else { (self.now + bits * 1e12 / rate - 1e-3).ceil() }
            });
            let next = ends.fold(limit, f64::min);
            let span = next - self.now;
            let now = next;
            let mut left = BTreeMap::new();
            for ((token, (path, bits)), rate) in
                std::mem::take(&mut self.flows).into_iter().zip(rates)
            {
                let bits = bits - rate * span / 1e12;
                if bits <= rate * 2e-15 {
                    self.finished.insert(token, now);
                } else {
                    left.insert(token, (path, bits));
                }
            }
            self.flows = left;
            self.now = now;
        }
    }
}

struct Run {
    network: FlowNetwork,
    capacity: Vec<f64>,
    links: Vec<LinkId>,
    now: u64,
    /// By token: slot, path, size.
    active: BTreeMap<u64, (FlowId, Vec<usize>, u64)>,
    carried: Vec<u64>,
    finished: BTreeMap<u64, u64>,
}

impl Run {
    fn new(rates: &[u64]) -> Self {
        let mut network = FlowNetwork::new();
        let links = rates.iter().map(|&rate| network.add_link(Rate(rate))).collect();
        Self {
            network,
            capacity: rates.iter().map(|&rate| rate as f64).collect(),
            links,
            now: 0,
            active: BTreeMap::new(),
            carried: vec![0; rates.len()],
            finished: BTreeMap::new(),
        }
    }

    fn set_rate(&mut self, link: usize, rate: u64) {
        self.network.set_rate(Time(self.now), self.links[link], Rate(rate));
        self.capacity[link] = rate as f64;
    }

    fn start(&mut self, token: u64, size: u64, path: &[usize]) {
        let links: Vec<_> = path.iter().map(|&link| self.links[link]).collect();
        let flow = self.network.start(Time(self.now), Bytes(size), &links, token);
        self.active.insert(token, (flow, path.to_vec(), size));
    }

    /// Takes a flow that has bytes off its links, if there is any: its token, and bytes left.
    fn withdraw(&mut self, number: usize) -> Option<(u64, u64)> {
        let flows = self.active.iter().filter(|(_, (_, _, size))| *size > 0);
        let tokens: Vec<u64> = flows.map(|(&token, _)| token).collect();
        let token = *tokens.get(number % tokens.len().max(1))?;
        let (flow, path, size) = self.active.remove(&token).expect("it is on its way");
        let now = Time(self.now);
        let left = self.network.left(now, flow, token);
        assert_eq!(self.network.withdraw(now, flow, token), left);
        assert_eq!(self.network.withdraw(now, flow, token), None, "it is withdrawn once");
        let left = left.expect("it had not finished").0;
        for link in path {
            self.carried[link] += size - left;
        }
        Some((token, left))
    }

    /// Advances completion by completion to `limit`.
    fn advance(&mut self, limit: u64) {
        let mut done = Vec::new();
        while let Some(time) = self.network.next_completion().filter(|time| time.0 <= limit) {
            assert!(time.0 >= self.now);
            self.now = time.0;
            self.network.advance(time, &mut done);
            assert!(!done.is_empty() && done.is_sorted(), "tokens {done:?} of one instant");
            for token in done.drain(..) {
                let (_, path, size) = self.active.remove(&token).expect("finishes once");
                for link in path {
                    self.carried[link] += size;
                }
                self.finished.insert(token, time.0);
            }
            self.check();
        }
        self.now = limit;
        self.network.advance(Time(limit), &mut done);
        assert!(done.is_empty());
    }

    /// Rates, capacities and bytes.
    fn check(&mut self) {
        self.network.next_completion();
        // Flows without bytes are over before they take a share.
        let flows: Vec<_> = self.active.values().filter(|(_, _, size)| *size > 0).collect();
        let paths: Vec<&[usize]> = flows.iter().map(|(_, path, _)| path.as_slice()).collect();
        let expected = progressive_filling(&self.capacity, &paths);
        let mut used = vec![0.0; self.links.len()];
        for ((flow, path, _), expected) in flows.into_iter().zip(expected) {
            let rate = self.network.rate_of(*flow);
            assert!(close(rate, expected), "rate {rate}, progressive filling {expected}");
            for &link in path {
                used[link] += rate;
            }
        }
        for (used, capacity) in used.iter().zip(&self.capacity) {
            assert!(*used <= capacity * (1.0 + 1e-12), "{used} on a link of {capacity}");
        }
        let carried: Vec<u64> = self.links.iter().map(|&link| self.network.carried(link)).collect();
        assert_eq!(carried, self.carried);
        assert_eq!(self.network.active(), self.active.len());
    }
}

/// Plays it in both simulators; `None` leaves out the slow one, and the comparison of times.
fn play(history: &History, slow: Option<Slow>) -> Run {
    let mut run = Run::new(&history.rates);
    let mut slow = slow;
    for sides in &history.expected {
        let [first, last] =
            [0, 1].map(|side: usize| sides[side].iter().map(|&link| run.links[link]).collect());
        let (first, last): (Vec<LinkId>, Vec<LinkId>) = (first, last);
        run.network.expect(&first, &last);
    }
    for (token, change) in history.changes.iter().enumerate() {
        let token = token as u64;
        match change {
            Change::Start { size, path } => {
                run.start(token, *size, path);
                if let Some(slow) = &mut slow {
                    slow.flows.insert(token, (path.clone(), *size as f64 * 8.0));
                }
            }
            Change::Rate { link, rate } => {
                run.set_rate(*link, *rate);
                if let Some(slow) = &mut slow {
                    slow.capacity[*link] = *rate as f64;
                }
            }
            Change::Withdraw { flow } => {
                let Some((token, left)) = run.withdraw(*flow) else { continue };
                if let Some(slow) = &mut slow {
                    let (_, bits) = slow.flows.remove(&token).expect("it is on its way there, too");
                    // Times are rounded to picoseconds in both: a byte or two, and more of more.
                    let bytes = bits / 8.0;
                    assert!((left as f64 - bytes).abs() <= 1e-9 * bytes + 300.0, "{left} {bytes}");
                }
            }
            Change::Advance { percent } => {
                let next = run.network.next_completion().map_or(run.now + MS, |time| time.0);
                let limit = run.now + (next - run.now) * percent / 100;
                run.advance(limit);
                if let Some(slow) = &mut slow {
                    slow.run_to(limit as f64);
                }
            }
        }
        run.check();
    }
    for link in 0..run.links.len() {
        run.set_rate(link, 100_000_000_000);
    }
    run.advance(run.now + 10_000 * MS);
    assert_eq!(run.network.active(), 0, "flows are left on lit links");
    if let Some(mut slow) = slow {
        slow.capacity.fill(1e11);
        slow.run_to(run.now as f64);
        slow.compare(&run.finished);
    }
    run
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn small_networks(history in history(4, 3, 40)) {
        play(&history, Some(Slow::new(&history.rates)));
    }

    #[test]
    fn wide_networks(history in history(30, 4, 120)) {
        play(&history, Some(Slow::new(&history.rates)));
    }

    #[test]
    fn long_paths(history in history(12, 9, 60)) {
        play(&history, Some(Slow::new(&history.rates)));
    }

    #[test]
    fn levels_that_nearly_tie(history in history_of(close_rate, 12, 4, 80)) {
        play(&history, None);
    }

    #[test]
    fn all_to_alls_that_are_expected(history in all_to_alls(2)) {
        play(&history, Some(Slow::new(&history.rates)));
    }

    /// What is expected changes no time by more than a rounding error, nor the order of ends.
    #[test]
    fn what_is_expected_changes_nothing(history in all_to_alls(3)) {
        let expected = play(&history, None);
        let others = play(&History { expected: Vec::new(), ..history }, None);
        for (token, time) in &expected.finished {
            prop_assert!(time.abs_diff(others.finished[token]) <= 1, "flow {}", token);
        }
        prop_assert_eq!(expected.finished.len(), others.finished.len());
    }

    /// The same changes, but completions are only asked for at the end.
    #[test]
    fn it_does_not_matter_when_completions_are_asked_for(history in history(6, 3, 40)) {
        let mut eager = Run::new(&history.rates);
        let mut lazy = Run::new(&history.rates);
        let mut tokens = Vec::new();
        for (token, change) in history.changes.iter().enumerate() {
            match change {
                Change::Start { size, path } => {
                    eager.start(token as u64, *size, path);
                    lazy.start(token as u64, *size, path);
                }
                Change::Rate { link, rate } => {
                    eager.set_rate(*link, *rate);
                    lazy.set_rate(*link, *rate);
                }
                // Which flows are on their way is known only where completions are asked for.
                Change::Withdraw { .. } => {}
                Change::Advance { percent } => {
                    let now = eager.now + percent * MS / 100;
                    lazy.now = now;
                    let before = tokens.len();
                    eager.network.advance(Time(now), &mut tokens);
                    prop_assert!(tokens.len() >= before);
                    eager.now = now;
                }
            }
        }
        let end = Time(eager.now);
        eager.network.advance(end, &mut tokens);
        let mut late = Vec::new();
        lazy.network.advance(end, &mut late);
        prop_assert_eq!(tokens, late);
        prop_assert_eq!(eager.network.next_completion(), lazy.network.next_completion());
    }

    #[test]
    fn the_same_history_gives_the_same_run(history in history(8, 4, 60)) {
        let (first, second) = (play(&history, None), play(&history, None));
        prop_assert_eq!(first.finished, second.finished);
        prop_assert_eq!(first.network.statistics(), second.network.statistics());
    }
}
