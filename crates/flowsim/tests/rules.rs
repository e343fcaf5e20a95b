//! Rules that hold whatever the numbers, and the work that changes cost.

use lightloom_flowsim::{FlowNetwork, LinkId};
use lightloom_model::{Bytes, Rate, Time};
use proptest::prelude::*;

const GIGA: u64 = 1_000_000_000;
const MS: u64 = 1_000_000_000;

/// A flow of `size` bytes that starts at `at`.
#[derive(Debug, Clone)]
struct Start {
    at: u64,
    size: u64,
    path: Vec<u32>,
}

/// Rates of links, and flows in the order in which they start.
#[derive(Debug, Clone)]
struct World {
    rates: Vec<u64>,
    starts: Vec<Start>,
}

impl World {
    /// When each flow ends, in the order of starts.
    fn ends(&self) -> Vec<u64> {
        let mut network = FlowNetwork::new();
        for &rate in &self.rates {
            network.add_link(Rate(rate));
        }
        let mut ends = vec![0; self.starts.len()];
        for (token, Start { at, size, path }) in self.starts.iter().enumerate() {
            report(&mut network, Some(*at), &mut ends);
            let path: Vec<LinkId> = path.iter().map(|&link| LinkId(link)).collect();
            network.start(Time(*at), Bytes(*size), &path, token as u64);
        }
        report(&mut network, None, &mut ends);
        assert_eq!(network.active(), 0);
        ends
    }
}

/// Notes the times of completions up to a time.
fn report(network: &mut FlowNetwork, until: Option<u64>, ends: &mut [u64]) {
    let mut done = Vec::new();
    let is_due = |time: &Time| until.is_none_or(|until| time.0 <= until);
    while let Some(time) = network.next_completion().filter(is_due) {
        network.advance(time, &mut done);
        done.drain(..).for_each(|token| ends[token as usize] = time.0);
    }
}

fn worlds() -> impl Strategy<Value = World> {
    let links = 6_u32;
    let path = prop::collection::btree_set(0..links, 1..=5)
        .prop_map(|set| set.into_iter().collect::<Vec<u32>>())
        .prop_shuffle();
    let start = (0..20 * MS, 1_u64..50_000_000, path);
    let start = start.prop_map(|(at, size, path)| Start { at, size, path });
    let rates =
        prop::collection::vec((1_u64..40).prop_map(|rate| rate * 10 * GIGA), links as usize);
    (rates, prop::collection::vec(start, 1..15)).prop_map(|(rates, mut starts)| {
        starts.sort_by_key(|start| start.at);
        World { rates, starts }
    })
}

/// As close as rounding up each of so many completions, by flows of other rates, leaves it.
fn close(one: &[u64], other: &[u64]) -> bool {
    one.iter().zip(other).all(|(a, b)| a.abs_diff(*b) <= 1_000)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn at_twice_the_rate_everything_takes_half_the_time(world in worlds()) {
        let mut quick = world.clone();
        quick.rates.iter_mut().for_each(|rate| *rate *= 2);
        quick.starts.iter_mut().for_each(|start| start.at /= 2);
        let doubled: Vec<u64> = quick.ends().iter().map(|end| 2 * end).collect();
        prop_assert!(close(&world.ends(), &doubled));
    }

    #[test]
    fn names_of_links_and_their_order_on_a_path_do_not_matter(
        world in worlds(), names in Just((0..6_u32).collect::<Vec<u32>>()).prop_shuffle(),
    ) {
        let mut renamed = world.clone();
        for (old, &new) in names.iter().enumerate() {
            renamed.rates[new as usize] = world.rates[old];
        }
        for start in &mut renamed.starts {
            start.path = start.path.iter().rev().map(|&link| names[link as usize]).collect();
        }
        prop_assert!(close(&world.ends(), &renamed.ends()));
    }

    #[test]
    fn many_of_every_flow_on_links_as_many_times_as_fast_end_as_one(
        world in worlds(), times in 2_usize..5,
    ) {
        let mut many = world.clone();
        many.rates.iter_mut().for_each(|rate| *rate *= times as u64);
        many.starts = world.starts.iter().flat_map(|one| vec![one.clone(); times]).collect();
        let ends = world.ends();
        let expected: Vec<u64> = ends.iter().flat_map(|&end| vec![end; times]).collect();
        prop_assert!(close(&many.ends(), &expected));
    }

    #[test]
    fn a_link_that_can_carry_everything_changes_nothing(world in worlds(), at in 0_usize..6) {
        let mut wider = world.clone();
        wider.rates.push(world.rates.iter().sum::<u64>() * 20);
        for start in &mut wider.starts {
            start.path.insert(at.min(start.path.len()), 6);
        }
        prop_assert!(close(&world.ends(), &wider.ends()));
    }

    #[test]
    fn another_flow_on_one_link_never_speeds_up_who_meets_nobody_else(
        sizes in prop::collection::vec(1_u64..50_000_000, 1..10), more in 1_u64..50_000_000,
    ) {
        let flow = |size: u64| Start { at: 0, size, path: vec![0] };
        let alone = World { rates: vec![80 * GIGA], starts: sizes.into_iter().map(flow).collect() };
        let mut joined = alone.clone();
        joined.starts.push(flow(more));
        let later = joined.ends();
        prop_assert!(alone.ends().iter().zip(&later).all(|(before, after)| before <= after));
        // The link is never idle before the last of them ends.
        let bytes: u64 = joined.starts.iter().map(|start| start.size).sum();
        prop_assert!(later.iter().max().unwrap().abs_diff(bytes * 100) <= 20);
    }
}

#[test]
fn completions_that_nobody_asked_for_are_due_from_the_first_on() {
    let mut network = FlowNetwork::new();
    let link = network.add_link(Rate(8 * GIGA));
    network.start(Time::ZERO, Bytes(1_000), &[link], 0);
    network.start(Time::ZERO, Bytes(2_000), &[link], 1);
    // 2 us for the first, which shares the link; 1 us for what is left of the second.
    network.start(Time(5 * MS), Bytes(1_000), &[link], 2);
    assert_eq!(network.next_completion(), Some(Time(2_000_000)));
    let mut done = Vec::new();
    network.advance(Time(5 * MS), &mut done);
    assert_eq!(done, [0, 1]);
    assert_eq!(network.next_completion(), Some(Time(5 * MS + 1_000_000)));
}

#[test]
fn long_paths_that_come_and_go_keep_apart() {
    // Paths of 8, 12 and 16 links, each on links of its own, two of each at a time.
    let lengths = [8_u32, 12, 16];
    let mut network = FlowNetwork::new();
    for _ in 0..2 * (8 + 12 + 16) {
        network.add_link(Rate(8 * GIGA));
    }
    let mut done = Vec::new();
    let mut now = Time::ZERO;
    for round in 0..6 {
        // One of a pair ends before the other, and longer ones take its place.
        let order = [lengths, [12, 8, 16], [16, 8, 12]][round % 3];
        let mut first = 0;
        for (token, length) in (0..).zip(order) {
            for copy in 0..2 {
                let path: Vec<LinkId> = (first..first + length).map(LinkId).collect();
                first += length;
                network.start(now, Bytes(1_000 * (1 + copy)), &path, 2 * token + copy);
            }
        }
        for (size, expected) in [(1_000_000, [0, 2, 4]), (2_000_000, [1, 3, 5])] {
            let time = network.next_completion().unwrap();
            assert_eq!(time.since(now).0, size, "round {round}");
            network.advance(time, &mut done);
            assert_eq!(done, expected, "round {round}");
            done.clear();
            if size == 2_000_000 {
                now = time;
            }
        }
    }
    assert_eq!(network.carried(LinkId(0)), 6 * 1_000);
}

#[test]
fn a_longer_path_does_not_take_the_place_of_one_under_way() {
    let mut network = FlowNetwork::new();
    let links: Vec<LinkId> = (0..40).map(|_| network.add_link(Rate(8 * GIGA))).collect();
    network.start(Time::ZERO, Bytes(1_000), &links[..8], 0);
    network.start(Time::ZERO, Bytes(5_000), &links[8..16], 1);
    let mut done = Vec::new();
    network.advance(Time(1_000_000), &mut done);
    assert_eq!(done, [0]);
    let longer = network.start(Time(1_000_000), Bytes(9_000), &links[20..32], 2);
    network.next_completion();
    assert!((network.rate_of(longer) - 8e9).abs() < 1.0);
    network.advance(Time(20_000_000), &mut done);
    assert_eq!(done, [0, 1, 2]);
    let carried: Vec<u64> = links.iter().map(|&link| network.carried(link)).collect();
    let expected = |link: usize| match link {
        0..8 => 1_000,
        8..16 => 5_000,
        20..32 => 9_000,
        _ => 0,
    };
    assert_eq!(carried, (0..40).map(expected).collect::<Vec<u64>>());
}

/// Links computed by the flows that `change` makes, round after round.
fn touched(rates: &[u64], rounds: u64, change: impl Fn(&mut FlowNetwork, u64)) -> u64 {
    let mut network = FlowNetwork::new();
    for rate in rates {
        network.add_link(Rate(rate * GIGA));
    }
    for round in 0..rounds {
        change(&mut network, round);
    }
    network.statistics().links_touched
}

/// A link that is never full is computed when its flows could fill it, not when flows come and go.
#[test]
fn what_a_flow_has_left_free_is_free_again() {
    let rounds = 500;
    let count = touched(&[1_000, 100], rounds, |network, round| {
        let (now, path) = (Time(round * MS), [LinkId(1), LinkId(0)]);
        if round == 0 {
            network.start(now, Bytes(1 << 50), &path, 0);
            network.next_completion();
        }
        network.start(now, Bytes(1_000), &path, 1);
        network.advance(Time((round + 1) * MS), &mut Vec::new());
    });
    // The narrow link for each start and each end.
    assert!(count < 2 * rounds + 20, "{count} links in {rounds} rounds");
}

/// Rates that fall leave more of other links free, and take nothing of them.
#[test]
fn a_link_that_slows_down_does_not_load_others() {
    let rounds = 500;
    let count = touched(&[1_000, 100], rounds, |network, round| {
        if round == 0 {
            network.start(Time::ZERO, Bytes(1 << 50), &[LinkId(0), LinkId(1)], 0);
        }
        let rate = Rate((100 - 50 * (round % 2)) * GIGA);
        network.set_rate(Time(round * MS), LinkId(1), rate);
        network.next_completion();
    });
    assert!(count < rounds + 20, "{count} links in {rounds} rounds");
}

/// Levels are computed from the lowest up, so that a chain of bottlenecks is passed once.
#[test]
fn each_level_of_a_chain_is_computed_about_once() {
    let links = 64_u64;
    let mut network = FlowNetwork::new();
    for link in 0..links {
        network.add_link(Rate((link + 1) * GIGA));
    }
    // One flow over each two neighbors, and one on each link alone.
    for link in 0..links as u32 {
        network.start(Time::ZERO, Bytes(GIGA), &[LinkId(link)], 0);
        if link > 0 {
            network.start(Time::ZERO, Bytes(GIGA), &[LinkId(link), LinkId(link - 1)], 1);
        }
    }
    network.next_completion();
    let touched = network.statistics().links_touched;
    assert!(touched < 3 * links, "{touched} for {links} links");
}
