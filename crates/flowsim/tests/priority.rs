//! Strict priorities: closed forms, and equality with one class where all are equal.

use lightloom_flowsim::{FlowNetwork, LinkId, PriorityNetwork};
use lightloom_model::{Bytes, Rate, Time};
use proptest::prelude::*;

const GBPS: u64 = 1_000_000_000;
/// Picoseconds of a byte at 8 Gb/s.
const BYTE: u64 = 1000;

fn links(rates: &[u64]) -> PriorityNetwork {
    let mut network = PriorityNetwork::new();
    for rate in rates {
        network.add_link(Rate(rate * GBPS));
    }
    network
}

/// Runs until a time: adds tokens and finish times.
fn finish_until(network: &mut PriorityNetwork, time: u64, found: &mut Vec<(u64, u64)>) {
    let mut done = Vec::new();
    while let Some(next) = network.next_completion().filter(|next| next.0 <= time) {
        network.advance(next, &mut done);
        found.extend(done.drain(..).map(|token| (token, next.0)));
    }
}

/// As [`finish_until`], without priorities.
fn finish_plain(network: &mut FlowNetwork, time: u64, found: &mut Vec<(u64, u64)>) {
    let mut done = Vec::new();
    while let Some(next) = network.next_completion().filter(|next| next.0 <= time) {
        network.advance(next, &mut done);
        found.extend(done.drain(..).map(|token| (token, next.0)));
    }
}

/// Runs to the end: tokens and finish times.
fn finish(network: &mut PriorityNetwork) -> Vec<(u64, u64)> {
    let mut found = Vec::new();
    finish_until(network, u64::MAX, &mut found);
    found
}

#[test]
fn the_lower_class_waits_where_the_higher_fills_a_link() {
    let mut network = links(&[8]);
    network.start(Time(0), Bytes(1000), 0, &[LinkId(0)], 0);
    let urgent = network.start(Time(0), Bytes(500), 1, &[LinkId(0)], 1);
    assert_eq!(network.next_completion(), Some(Time(500 * BYTE)));
    assert_eq!(network.rate_of(urgent).to_bits(), 8e9_f64.to_bits());
    assert_eq!(finish(&mut network), [(1, 500 * BYTE), (0, 1500 * BYTE)]);
    assert_eq!((network.carried(LinkId(0)), network.active()), (1500, 0));
}

/// 600 of 1000 bytes are sent before the urgent flow comes; it is withdrawn with 200 of 500 left.
#[test]
fn what_is_withdrawn_is_left_and_leaves_its_share_to_the_others() {
    let mut network = links(&[8]);
    let slow = network.start(Time(0), Bytes(1000), 0, &[LinkId(0)], 0);
    let urgent = network.start(Time(600 * BYTE), Bytes(500), 1, &[LinkId(0)], 1);
    let now = Time(900 * BYTE);
    assert_eq!(network.left(now, slow, 0), Some(Bytes(400)));
    assert_eq!(network.left(now, slow, 1), None, "the token is another flow's");
    assert_eq!(network.withdraw(now, urgent, 1), Some(Bytes(200)));
    assert_eq!(network.withdraw(now, urgent, 1), None);
    assert_eq!((network.carried(LinkId(0)), network.active()), (300, 1));
    assert_eq!(finish(&mut network), [(0, 1300 * BYTE)]);
    assert_eq!(network.carried(LinkId(0)), 1300);
}

#[test]
fn the_lower_class_shares_what_the_higher_leaves() {
    // The urgent flow is held to 2 of 8 Gb/s elsewhere; two others share the remaining 6.
    let mut network = links(&[8, 2]);
    network.start(Time(0), Bytes(1000), 7, &[LinkId(0), LinkId(1)], 7);
    let others = [0, 1].map(|token| network.start(Time(0), Bytes(375), 2, &[LinkId(0)], token));
    assert_eq!(network.next_completion(), Some(Time(1000 * BYTE)));
    for other in others {
        assert!((network.rate_of(other) - 3e9).abs() < 1.0);
    }
    assert_eq!(finish(&mut network), [(0, 1000 * BYTE), (1, 1000 * BYTE), (7, 4000 * BYTE)]);
}

#[test]
fn a_flow_under_way_gives_way_and_takes_over_again() {
    let mut network = links(&[8]);
    network.start(Time(0), Bytes(1000), 1, &[LinkId(0)], 0);
    network.start(Time(400 * BYTE), Bytes(300), 2, &[LinkId(0)], 1);
    // Nothing is left for the third before the others are done.
    network.start(Time(500 * BYTE), Bytes(100), 0, &[LinkId(0)], 2);
    let expected = [(1, 700 * BYTE), (0, 1300 * BYTE), (2, 1400 * BYTE)];
    assert_eq!(finish(&mut network), expected);
}

#[test]
fn a_change_of_rate_reaches_every_class() {
    let mut network = links(&[16, 8]);
    network.start(Time(0), Bytes(2000), 1, &[LinkId(0), LinkId(1)], 0);
    network.start(Time(0), Bytes(2000), 0, &[LinkId(0)], 1);
    // The urgent one has 8, the other the 8 that are left; from here on nothing is left.
    network.set_rate(Time(1000 * BYTE), LinkId(0), Rate(8 * GBPS));
    assert_eq!(finish(&mut network), [(0, 2000 * BYTE), (1, 3000 * BYTE)]);
}

#[test]
fn completions_of_classes_that_nobody_asked_for_are_due_from_the_first_on() {
    let mut network = links(&[8, 8]);
    network.start(Time(0), Bytes(1000), 1, &[LinkId(0)], 0);
    network.start(Time(0), Bytes(2000), 0, &[LinkId(1)], 1);
    network.start(Time(5000 * BYTE), Bytes(1000), 1, &[LinkId(0)], 2);
    assert_eq!(network.next_completion(), Some(Time(1000 * BYTE)));
    let mut done = Vec::new();
    network.advance(Time(5000 * BYTE), &mut done);
    assert_eq!(done, [0, 1]);
    assert_eq!(network.next_completion(), Some(Time(6000 * BYTE)));
}

/// Whatever the rounding errors of shares that fill a link, nothing is left of it.
#[test]
fn a_full_link_leaves_nothing_for_the_lower_class() {
    for count in 1..=49 {
        let mut network = links(&[7, 11]);
        for token in 0..count {
            network.start(Time(0), Bytes(1000), 1, &[LinkId(0)], token);
        }
        let other = network.start(Time(0), Bytes(1000), 0, &[LinkId(0), LinkId(1)], count);
        network.next_completion();
        assert_eq!(network.rate_of(other).to_bits(), 0, "{count} urgent flows");
    }
}

#[derive(Debug, Clone)]
struct Start {
    at: u64,
    size: u64,
    path: Vec<LinkId>,
}

fn starts() -> impl Strategy<Value = Vec<Start>> {
    let one = (0..2000_u64, 1..5000_u64, prop::collection::btree_set(0..4_u32, 1..4));
    prop::collection::vec(one, 1..20).prop_map(|all| {
        let mut starts: Vec<Start> = all
            .into_iter()
            .map(|(at, size, path)| {
                let path = path.into_iter().map(LinkId).collect();
                Start { at: at * BYTE, size, path }
            })
            .collect();
        starts.sort_by_key(|start| start.at);
        starts
    })
}

proptest! {
    #[test]
    fn equal_priorities_are_as_none(starts in starts(), priority in 0_u8..4) {
        let rates = [8, 5, 3, 11];
        let mut plain = FlowNetwork::new();
        for rate in rates {
            plain.add_link(Rate(rate * GBPS));
        }
        let mut network = links(&rates);
        let (mut expected, mut found) = (Vec::new(), Vec::new());
        for (token, start) in starts.iter().enumerate() {
            let (at, size) = (Time(start.at), Bytes(start.size));
            finish_plain(&mut plain, start.at, &mut expected);
            finish_until(&mut network, start.at, &mut found);
            plain.start(at, size, &start.path, token as u64);
            network.start(at, size, priority, &start.path, token as u64);
        }
        finish_plain(&mut plain, u64::MAX, &mut expected);
        found.extend(finish(&mut network));
        prop_assert_eq!(found, expected);
        prop_assert_eq!(network.statistics(), plain.statistics());
    }

    /// Every class has grids of its own, whose capacities are what the higher ones leave.
    #[test]
    fn what_is_expected_changes_nothing(starts in starts(), sides in 0..4_u32) {
        let rates = [8, 5, 3, 11];
        let mut networks = [links(&rates), links(&rates)];
        let rest: Vec<LinkId> = (0..4).filter(|&link| link != sides).map(LinkId).collect();
        networks[1].expect(&[LinkId(sides)], &rest);
        let [expected, found] = networks.map(|mut network| {
            let mut found = Vec::new();
            for (token, start) in starts.iter().enumerate() {
                let (at, priority) = (Time(start.at), token as u8 % 3);
                finish_until(&mut network, start.at, &mut found);
                network.start(at, Bytes(start.size), priority, &start.path, token as u64);
            }
            found.extend(finish(&mut network));
            found.sort_unstable();
            found
        });
        prop_assert_eq!(expected.len(), found.len());
        for ((token, time), (other, wanted)) in found.into_iter().zip(expected) {
            prop_assert_eq!(token, other);
            prop_assert!(time.abs_diff(wanted) <= 2, "{} and {}", time, wanted);
        }
    }

    #[test]
    fn lower_classes_change_nothing_for_higher(
        urgent in starts(), others in starts(),
    ) {
        let rates = [8, 5, 3, 11];
        let mut alone = links(&rates);
        let mut both = links(&rates);
        let mut all: Vec<(u8, &Start)> = urgent.iter().map(|start| (1, start)).collect();
        all.extend(others.iter().map(|start| (0, start)));
        all.sort_by_key(|(_, start)| start.at);
        let (mut expected, mut found) = (Vec::new(), Vec::new());
        for (token, (priority, start)) in all.iter().enumerate() {
            let (size, priority) = (Bytes(start.size), *priority);
            finish_until(&mut both, start.at, &mut found);
            finish_until(&mut alone, start.at, &mut expected);
            both.start(Time(start.at), size, priority, &start.path, token as u64);
            if priority == 1 {
                alone.start(Time(start.at), size, priority, &start.path, token as u64);
            }
        }
        expected.extend(finish(&mut alone));
        found.extend(finish(&mut both));
        prop_assert_eq!(found.len(), all.len(), "every flow finishes");
        let urgent_only = found.into_iter().filter(|(token, _)| all[*token as usize].0 == 1);
        for ((token, time), (other, wanted)) in urgent_only.zip(expected) {
            prop_assert_eq!(token, other);
            prop_assert!(time.abs_diff(wanted) <= 1, "{} and {}", time, wanted);
        }
    }

    /// A link that has anything to carry is never idle: priorities say who is first, not when all
    /// is through, and all bytes are carried.
    #[test]
    fn one_link_is_through_when_it_was_without_priorities(
        starts in starts(), priorities in prop::collection::vec(0_u8..4, 20),
    ) {
        let ends = [true, false].map(|is_strict| {
            let mut network = links(&[7]);
            let mut found = Vec::new();
            for (token, (start, priority)) in starts.iter().zip(&priorities).enumerate() {
                let (at, size) = (Time(start.at), Bytes(start.size));
                finish_until(&mut network, start.at, &mut found);
                let priority = if is_strict { *priority } else { 0 };
                network.start(at, size, priority, &[LinkId(0)], token as u64);
            }
            found.extend(finish(&mut network));
            let last = found.iter().map(|(_, time)| *time).max().unwrap_or(0);
            (last, found.len(), network.carried(LinkId(0)))
        });
        let ([strict, shared], all) = (ends, starts.iter().map(|start| start.size).sum::<u64>());
        prop_assert!(strict.0.abs_diff(shared.0) <= 40, "{:?} {:?}", strict, shared);
        prop_assert_eq!((strict.1, strict.2), (starts.len(), all));
    }

    /// More of a class delays no higher one on a link, and makes nothing there earlier.
    #[test]
    fn more_bytes_are_felt_by_their_own_class_and_lower_ones(
        starts in starts(), priorities in prop::collection::vec(0_u8..4, 20), more in 1_u64..5000,
    ) {
        let run = |more: u64| {
            let mut network = links(&[7]);
            let mut found = Vec::new();
            for (token, (start, priority)) in starts.iter().zip(&priorities).enumerate() {
                let size = Bytes(start.size + if token == 0 { more } else { 0 });
                finish_until(&mut network, start.at, &mut found);
                network.start(Time(start.at), size, *priority, &[LinkId(0)], token as u64);
            }
            found.extend(finish(&mut network));
            found.sort_unstable();
            found
        };
        for ((token, before), (_, after)) in run(0).into_iter().zip(run(more)) {
            prop_assert!(after + 40 >= before, "{}: {} instead of {}", token, after, before);
            let is_above = priorities[token as usize] > priorities[0];
            prop_assert!(!is_above || after <= before + 40, "{}: {} {}", token, after, before);
        }
    }
}
