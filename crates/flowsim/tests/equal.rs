//! Equal flows as one and the same ones apart: equal rates, times and bytes, whatever happens.

use lightloom_flowsim::{FlowId, FlowNetwork, LinkId};
use lightloom_model::{Bytes, Rate, Time};
use proptest::prelude::*;

const GBPS: u64 = 1_000_000_000;

/// A change; numbers are taken modulo what exists.
#[derive(Debug, Clone)]
enum Change {
    Start {
        bytes: u64,
        count: u32,
        path: Vec<u32>,
    },
    Rate {
        link: u32,
        gbps: u64,
    },
    Withdraw {
        number: usize,
    },
    /// So many picoseconds pass.
    Pass {
        time: u64,
    },
}

fn changes(links: u32) -> impl Strategy<Value = Vec<Change>> {
    let path = prop::collection::btree_set(0..links, 1..=links.min(6) as usize)
        .prop_map(|path| path.into_iter().collect::<Vec<_>>())
        .prop_shuffle();
    let bytes = prop_oneof![(1_u64..4).prop_map(|number| number * 1_000_000), 1_u64..9_000_000];
    let change = prop_oneof![
        6 => (bytes, 1_u32..6, path)
            .prop_map(|(bytes, count, path)| Change::Start { bytes, count, path }),
        1 => (0..links, 0_u64..40).prop_map(|(link, gbps)| Change::Rate { link, gbps }),
        1 => (0_usize..99).prop_map(|number| Change::Withdraw { number }),
        4 => (0_u64..900_000_000).prop_map(|time| Change::Pass { time }),
    ];
    prop::collection::vec(change, 1..30)
}

/// A network, its flows with their tokens, and when those of each start have all ended.
struct Run {
    network: FlowNetwork,
    flows: Vec<Vec<FlowId>>,
    left: Vec<usize>,
    ends: Vec<Option<Time>>,
}

impl Run {
    fn new(links: u32) -> Self {
        let mut network = FlowNetwork::new();
        for link in 0..links {
            network.add_link(Rate(u64::from(link % 3 + 1) * 8 * GBPS));
        }
        Self { network, flows: Vec::new(), left: Vec::new(), ends: Vec::new() }
    }

    fn pass(&mut self, until: Time) {
        let mut done = Vec::new();
        while let Some(next) = self.network.next_completion().filter(|&next| next <= until) {
            self.network.advance(next, &mut done);
            for token in done.drain(..) {
                self.left[token as usize] -= 1;
                self.ends[token as usize] = Some(next);
            }
        }
        self.network.advance(until, &mut done);
    }

    /// What each of the flows of a start has left when they are withdrawn.
    fn withdraw(&mut self, now: Time, number: usize) -> Vec<Option<Bytes>> {
        let flows = self.flows[number].clone();
        let left = flows.into_iter().map(|flow| self.network.withdraw(now, flow, number as u64));
        left.collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn equal_flows_as_one_are_as_they_are_apart(
        (links, changes) in (2_u32..7).prop_flat_map(|links| (Just(links), changes(links)))
    ) {
        let (mut one, mut apart) = (Run::new(links), Run::new(links));
        let mut now = Time(0);
        for change in changes {
            match change {
                Change::Start { bytes, count, path } => {
                    let path: Vec<LinkId> = path.into_iter().map(LinkId).collect();
                    let token = one.flows.len() as u64;
                    let (bytes, single) = (Bytes(bytes), &mut apart.network);
                    one.flows.push(vec![one.network.start_equal(now, bytes, count, &path, token)]);
                    let starts = (0..count).map(|_| single.start(now, bytes, &path, token));
                    apart.flows.push(starts.collect());
                    one.left.push(1);
                    apart.left.push(count as usize);
                    one.ends.push(None);
                    apart.ends.push(None);
                }
                Change::Rate { link, gbps } => {
                    for run in [&mut one, &mut apart] {
                        run.network.set_rate(now, LinkId(link), Rate(gbps * GBPS));
                    }
                }
                Change::Withdraw { number } if !one.flows.is_empty() => {
                    let number = number % one.flows.len();
                    let left = one.withdraw(now, number)[0];
                    for other in apart.withdraw(now, number) {
                        let difference = left.map_or(0, |left| left.0).abs_diff(
                            other.map_or(0, |other| other.0)
                        );
                        prop_assert!(difference <= 1, "{:?} {:?}", left, other);
                    }
                }
                Change::Withdraw { .. } => {}
                Change::Pass { time } => {
                    now.0 += time;
                    one.pass(now);
                    apart.pass(now);
                }
            }
        }
        for link in 0..links {
            for run in [&mut one, &mut apart] {
                run.network.set_rate(now, LinkId(link), Rate(GBPS));
            }
        }
        one.pass(Time(1 << 50));
        apart.pass(Time(1 << 50));
        for (together, each) in one.ends.iter().zip(&apart.ends) {
            let [together, each] = [together, each].map(|end| end.map_or(0, |end| end.0));
            prop_assert!(together.abs_diff(each) <= 2 + each / (1 << 30), "{} {}", together, each);
        }
        for link in (0..links).map(LinkId) {
            let [together, each] = [&one, &apart].map(|run| run.network.carried(link));
            prop_assert!(together.abs_diff(each) <= 300, "{} {}", together, each);
        }
    }
}

#[test]
fn equal_flows_share_as_many() {
    // Three equal flows and one: a quarter of the link each.
    let mut network = FlowNetwork::new();
    let link = network.add_link(Rate(8 * GBPS));
    network.start_equal(Time(0), Bytes(1000), 3, &[link], 7);
    let single = network.start(Time(0), Bytes(2000), &[link], 8);
    let mut done = Vec::new();
    assert_eq!(network.next_completion(), Some(Time(4_000_000)));
    assert!((network.rate_of(single) - 2e9).abs() < 1.0);
    network.advance(Time(4_000_000), &mut done);
    assert_eq!((done.as_slice(), network.carried(link)), (&[7][..], 3000));
    assert_eq!(network.next_completion(), Some(Time(5_000_000)));
}
