//! Cases whose answer is known exactly.

use lightloom_flowsim::{FlowNetwork, LinkId};
use lightloom_model::{Bytes, Rate, Time};

const GIGA: u64 = 1_000_000_000;
const MS: u64 = 1_000_000_000;

fn network<const N: usize>(rates: [u64; N]) -> (FlowNetwork, [LinkId; N]) {
    let mut network = FlowNetwork::new();
    let links = rates.map(|rate| network.add_link(Rate(rate)));
    (network, links)
}

/// Runs until nothing is left to finish; all (time, token).
fn drain(network: &mut FlowNetwork) -> Vec<(u64, u64)> {
    let mut all = Vec::new();
    let mut done = Vec::new();
    while let Some(time) = network.next_completion() {
        network.advance(time, &mut done);
        assert!(!done.is_empty(), "a completion without a flow at {}", time.0);
        all.extend(done.drain(..).map(|token| (time.0, token)));
    }
    all
}

fn exactly(rate: f64, expected: f64) {
    assert!((rate - expected).abs() <= f64::EPSILON * expected, "{rate}, expected {expected}");
}

#[test]
fn one_flow_takes_size_over_rate() {
    let (mut network, [link]) = network([400 * GIGA]);
    network.start(Time(7), Bytes(GIGA), &[link], 5);
    assert_eq!(drain(&mut network), [(7 + 20 * MS, 5)]);
    assert_eq!((network.carried(link), network.active()), (GIGA, 0));
    assert_eq!(network.next_completion(), None);
}

#[test]
fn an_odd_size_is_rounded_up_to_a_picosecond() {
    for (size, rate) in [(1, 3_200 * GIGA), (12_345_678_901, 400 * GIGA), (999, 7)] {
        let (mut network, [link]) = network([rate]);
        network.start(Time::ZERO, Bytes(size), &[link], 0);
        let expected = Rate(rate).transmission(Bytes(size)).0;
        assert_eq!(network.next_completion(), Some(Time(expected)), "{size} at {rate}");
    }
}

#[test]
fn equal_flows_share_equally_and_finish_at_one_instant() {
    for count in 1..=64 {
        let (mut network, [link]) = network([400 * GIGA]);
        for token in 0..count {
            network.start(Time::ZERO, Bytes(GIGA), &[link], token);
        }
        let expected: Vec<_> = (0..count).map(|token| (count * 20 * MS, token)).collect();
        assert_eq!(drain(&mut network), expected);
        assert_eq!(network.statistics().recomputations, 2);
    }
}

#[test]
fn the_three_link_line_is_max_min_fair() {
    // One flow over all three links, one on the first, two on the second, one on the third.
    let (mut network, [a, b, c]) = network([12 * GIGA, 12 * GIGA, 12 * GIGA]);
    let long = network.start(Time::ZERO, Bytes(GIGA), &[a, b, c], 0);
    let on_a = network.start(Time::ZERO, Bytes(GIGA), &[a], 1);
    let on_b = [2, 3].map(|token| network.start(Time::ZERO, Bytes(GIGA), &[b], token));
    let on_c = network.start(Time::ZERO, Bytes(GIGA), &[c], 4);
    network.next_completion();
    for flow in [long, on_b[0], on_b[1]] {
        exactly(network.rate_of(flow), 4e9);
    }
    exactly(network.rate_of(on_a), 8e9);
    exactly(network.rate_of(on_c), 8e9);
    // 8 Gb at 8 Gb/s, then the three others together at 4 Gb/s.
    assert_eq!(
        drain(&mut network),
        [(1000 * MS, 1), (1000 * MS, 4), (2000 * MS, 0), (2000 * MS, 2), (2000 * MS, 3)]
    );
}

#[test]
fn a_line_with_one_crossing_flow_gives_every_flow_one_half() {
    let (mut network, links) = network([10 * GIGA; 3]);
    let long = network.start(Time::ZERO, Bytes(GIGA), &links, 0);
    let short = links.map(|link| network.start(Time::ZERO, Bytes(GIGA), &[link], 1));
    network.next_completion();
    for flow in [long, short[0], short[1], short[2]] {
        exactly(network.rate_of(flow), 5e9);
    }
    assert_eq!(drain(&mut network).iter().map(|&(time, _)| time).max(), Some(1600 * MS));
}

#[test]
fn a_parking_lot_halves_nothing_but_shares_the_last_link() {
    // Flow i enters at link i and leaves at the end: the last link carries all of them.
    let (mut network, links) = network([10 * GIGA; 5]);
    let flows: Vec<_> = (0..5)
        .map(|first| network.start(Time::ZERO, Bytes(GIGA), &links[first..], first as u64))
        .collect();
    network.next_completion();
    for &flow in &flows {
        exactly(network.rate_of(flow), 2e9);
    }
    let expected: Vec<_> = (0..5).map(|token| (4000 * MS, token)).collect();
    assert_eq!(drain(&mut network), expected);
    assert_eq!(links.map(|link| network.carried(link) / GIGA), [1, 2, 3, 4, 5]);
}

#[test]
fn what_a_narrow_link_leaves_is_taken_by_the_others() {
    // Two flows share 10, one of them is held to 2 elsewhere.
    let (mut network, [wide, narrow]) = network([10 * GIGA, 2 * GIGA]);
    let held = network.start(Time::ZERO, Bytes(GIGA), &[wide, narrow], 0);
    let free = network.start(Time::ZERO, Bytes(GIGA), &[wide], 1);
    network.next_completion();
    exactly(network.rate_of(held), 2e9);
    exactly(network.rate_of(free), 8e9);
    assert_eq!(drain(&mut network), [(1000 * MS, 1), (4000 * MS, 0)]);
}

#[test]
fn a_flow_follows_two_links_that_fall_to_one_level() {
    // The first flow is held to 4 Gb/s by the third link, then to 2 Gb/s by both others at once,
    // while a newcomer takes just what it leaves on the third, whose level stays.
    let (mut network, [a, b, c, narrow]) = network([8, 8, 8, 2].map(|rate| rate * GIGA));
    network.start(Time::ZERO, Bytes(GIGA), &[a, b, c], 0);
    let other = network.start(Time::ZERO, Bytes(2 * GIGA), &[c], 1);
    assert_eq!(network.next_completion(), Some(Time(2000 * MS)));
    network.set_rate(Time(1000 * MS), a, Rate(2 * GIGA));
    network.set_rate(Time(1000 * MS), b, Rate(2 * GIGA));
    network.start(Time(1000 * MS), Bytes(GIGA), &[c, narrow], 3);
    // Half of the first was left at 1 s: 2 s more at 2 Gb/s.
    assert_eq!(network.next_completion(), Some(Time(3000 * MS)));
    exactly(network.rate_of(other), 4e9);
    assert_eq!(drain(&mut network)[0], (3000 * MS, 0));
}

#[test]
fn a_flow_goes_to_the_lowest_of_several_changed_links() {
    // The last link rises from 1 to 2 Gb/s while the middle one falls from no level to 4 Gb/s;
    // the first, untouched, keeps two flows at 1 Gb/s.
    let (mut network, [a, b, c]) = network([2 * GIGA, 9 * GIGA, 2 * GIGA]);
    network.start(Time::ZERO, Bytes(GIGA), &[a, b, c], 0);
    network.start(Time::ZERO, Bytes(GIGA), &[a], 1);
    network.start(Time::ZERO, Bytes(GIGA / 8), &[c], 2);
    assert_eq!(network.next_completion(), Some(Time(1000 * MS)));
    network.start(Time(1000 * MS), Bytes(3 * GIGA), &[b], 3);
    network.start(Time(1000 * MS), Bytes(3 * GIGA), &[b], 4);
    assert_eq!(
        drain(&mut network),
        [(1000 * MS, 2), (7000 * MS, 3), (7000 * MS, 4), (8000 * MS, 0), (8000 * MS, 1)]
    );
}

#[test]
fn incast_takes_the_sum_over_the_receiver() {
    for count in [1, 2, 7, 31] {
        let mut network = FlowNetwork::new();
        let down = network.add_link(Rate(400 * GIGA));
        for token in 0..count {
            let up = network.add_link(Rate(400 * GIGA));
            network.start(Time::ZERO, Bytes(GIGA), &[up, down], token);
        }
        let expected: Vec<_> = (0..count).map(|token| (count * 20 * MS, token)).collect();
        assert_eq!(drain(&mut network), expected);
        assert_eq!(network.carried(down), count * GIGA);
    }
}

#[test]
fn a_uniform_all_to_all_takes_the_bytes_of_one_server_over_its_rate() {
    let servers = 8;
    let mut network = FlowNetwork::new();
    let ends: Vec<_> = (0..servers)
        .map(|_| (network.add_link(Rate(400 * GIGA)), network.add_link(Rate(400 * GIGA))))
        .collect();
    for source in 0..servers {
        for target in (0..servers).filter(|&target| target != source) {
            let path = [ends[source].0, ends[target].1];
            network.start(Time::ZERO, Bytes(GIGA), &path, 0);
        }
    }
    let done = drain(&mut network);
    assert_eq!(done.len(), 56);
    assert!(done.iter().all(|&(time, _)| time == 7 * 20 * MS));
    assert_eq!(network.statistics().recomputations, 2);
}

#[test]
fn a_late_flow_shares_from_then_on() {
    let (mut network, [link]) = network([8 * GIGA]);
    network.start(Time::ZERO, Bytes(2 * GIGA), &[link], 0);
    assert_eq!(network.next_completion(), Some(Time(2000 * MS)));
    // 1 GB left of the first when the second starts.
    network.start(Time(1000 * MS), Bytes(GIGA), &[link], 1);
    assert_eq!(drain(&mut network), [(3000 * MS, 0), (3000 * MS, 1)]);
}

#[test]
fn a_dark_link_stalls_its_flows_until_it_is_lit() {
    let (mut network, [dark, other]) = network([8 * GIGA, 8 * GIGA]);
    let stalled = network.start(Time::ZERO, Bytes(GIGA), &[dark, other], 0);
    network.start(Time::ZERO, Bytes(2 * GIGA), &[other], 1);
    network.set_rate(Time(250 * MS), dark, Rate(0));
    // 125 MB each at half rate; then the second alone: 1,875 MB more.
    assert_eq!(network.next_completion(), Some(Time(2125 * MS)));
    exactly(network.rate_of(stalled), 0.0);
    let mut done = Vec::new();
    network.advance(Time(5000 * MS), &mut done);
    assert_eq!((done.as_slice(), network.active()), ([1].as_slice(), 1));
    assert_eq!(network.next_completion(), None);
    network.set_rate(Time(6000 * MS), dark, Rate(4 * GIGA));
    assert_eq!(drain(&mut network), [(7750 * MS, 0)]);
}

#[test]
fn a_flow_may_start_on_a_dark_link() {
    let (mut network, [link]) = network([0]);
    network.start(Time::ZERO, Bytes(GIGA), &[link], 3);
    assert_eq!(network.next_completion(), None);
    network.set_rate(Time(5), link, Rate(8 * GIGA));
    assert_eq!(drain(&mut network), [(5 + 1000 * MS, 3)]);
}

#[test]
fn a_flow_without_bytes_finishes_at_once_even_in_the_dark() {
    let (mut network, [dark, lit]) = network([0, 8 * GIGA]);
    network.start(Time(3), Bytes(GIGA), &[lit], 0);
    network.start(Time(3), Bytes(0), &[dark, lit], 1);
    assert_eq!(network.next_completion(), Some(Time(3)));
    let mut done = Vec::new();
    network.advance(Time(3), &mut done);
    assert_eq!(done, [1]);
    assert_eq!(network.next_completion(), Some(Time(3 + 1000 * MS)));
    assert_eq!(network.carried(dark), 0);
}

#[test]
fn completions_come_in_order_of_time_and_start() {
    let (mut network, [a, b, c]) = network([8 * GIGA; 3]);
    network.start(Time::ZERO, Bytes(2 * GIGA), &[a], 10);
    network.start(Time::ZERO, Bytes(GIGA), &[c], 11);
    network.start(Time::ZERO, Bytes(GIGA), &[b], 12);
    let mut done = Vec::new();
    network.advance(Time(9000 * MS), &mut done);
    assert_eq!(done, [11, 12, 10]);
}

#[test]
fn a_start_after_unreported_completions_keeps_their_order_and_time() {
    let (mut network, [link]) = network([8 * GIGA]);
    network.start(Time::ZERO, Bytes(GIGA), &[link], 0);
    // The first ends at 1 s, so the second has the link alone from 4 s.
    network.start(Time(4000 * MS), Bytes(GIGA), &[link], 1);
    assert_eq!(network.next_completion(), Some(Time(1000 * MS)));
    let mut done = Vec::new();
    network.advance(Time(4000 * MS), &mut done);
    assert_eq!(done, [0]);
    assert_eq!(drain(&mut network), [(5000 * MS, 1)]);
}

#[test]
fn starts_and_finishes_of_one_instant_are_one_recomputation() {
    let (mut network, [link]) = network([8 * GIGA]);
    let mut done = Vec::new();
    network.start(Time::ZERO, Bytes(GIGA), &[link], 0);
    network.start(Time::ZERO, Bytes(GIGA), &[link], 1);
    for round in 1..=10 {
        let time = network.next_completion().unwrap();
        assert_eq!(time, Time(round * 2000 * MS));
        assert_eq!(network.statistics().recomputations, round);
        network.advance(time, &mut done);
        network.start(time, Bytes(GIGA), &[link], 0);
        network.start(time, Bytes(GIGA), &[link], 1);
    }
    assert_eq!(network.statistics().completions, 20);
}

#[test]
fn a_change_in_one_part_leaves_the_others_alone() {
    let mut network = FlowNetwork::new();
    let links: Vec<_> = (0..1000).map(|_| network.add_link(Rate(GIGA))).collect();
    for &link in &links {
        network.start(Time::ZERO, Bytes(GIGA), &[link], 0);
    }
    network.next_completion();
    let before = network.statistics();
    network.start(Time(5), Bytes(GIGA), &[links[17]], 1);
    network.next_completion();
    let after = network.statistics();
    assert_eq!(after.links_touched - before.links_touched, 1);
    assert_eq!(after.flows_touched - before.flows_touched, 2);
}

#[test]
fn a_link_that_is_never_full_nor_idle_keeps_its_books() {
    // A million flows of a third of the link and one of a sixth; a half is left.
    let (mut network, [wide, sixth, third]) = network([600, 100, 200].map(|rate| rate * GIGA));
    network.start(Time::ZERO, Bytes(1 << 50), &[wide, sixth], 0);
    let mut done = Vec::new();
    let mut now = Time::ZERO;
    for number in 1..=(1 << 20) + 9 {
        network.start(now, Bytes(1_000 + number % 1_009), &[third, wide], number);
        now = network.next_completion().unwrap();
        network.advance(now, &mut done);
        assert_eq!(done.pop(), Some(number));
    }
    // Each was alone on its bottleneck; nothing was computed but that, now and then all links.
    let statistics = network.statistics();
    assert!(statistics.links_touched < 2 * statistics.recomputations + 10, "{statistics:?}");
    let short = network.start(now, Bytes(GIGA), &[third, wide], 1);
    let rest = network.start(now, Bytes(GIGA), &[wide], 2);
    network.next_completion();
    exactly(network.rate_of(short), 2e11);
    exactly(network.rate_of(rest), 3e11);
}

#[test]
fn a_flow_that_ends_at_the_time_of_a_change_has_ended_before_it() {
    for change in [0, 1, 2] {
        let (mut network, [link, other]) = network([8 * GIGA, 8 * GIGA]);
        network.start(Time::ZERO, Bytes(GIGA), &[link], 7);
        network.start(Time::ZERO, Bytes(2 * GIGA), &[other], 8);
        let now = Time(1000 * MS);
        // Its link goes dark, another flow joins it, or something else changes.
        match change {
            0 => network.set_rate(now, link, Rate(0)),
            1 => drop(network.start(now, Bytes(GIGA), &[link], 9)),
            _ => network.set_rate(now, other, Rate(4 * GIGA)),
        }
        assert_eq!((network.active(), network.carried(link)), (1 + change % 2, GIGA));
        assert_eq!(network.next_completion(), Some(now), "it is still to be reported");
        let mut done = Vec::new();
        network.advance(now, &mut done);
        assert_eq!(done, [7]);
    }
}

/// Capacities of links that are never full are kept by addition, and computed anew once in 2^20
/// completions, lest rounding errors add up.
#[test]
fn all_links_are_recomputed_once_in_a_million_completions() {
    let (mut network, [busy, idle, narrow]) = network([600, 600, 100].map(|rate| rate * GIGA));
    network.start(Time::ZERO, Bytes(1 << 60), &[narrow, idle], 0);
    let mut now = Time::ZERO;
    let mut done = Vec::new();
    let mut all = 0;
    for number in 1..=(1 << 20) + 100 {
        network.start(now, Bytes(1_000), &[busy], number);
        now = network.next_completion().unwrap();
        let before = network.statistics().links_touched;
        network.advance(now, &mut done);
        network.next_completion();
        match network.statistics().links_touched - before {
            // The flow's link alone, or that and both others.
            0 | 1 => {}
            3 => all += 1,
            other => panic!("{other} links at completion {number}"),
        }
    }
    assert_eq!(all, 1, "at completion 2^20");
}

/// Flows that join later with just what the first one has left: whatever the rounding errors of
/// what was sent so far, all end at one picosecond.
#[test]
fn flows_with_equally_much_left_end_at_one_instant() {
    for rate in [7, 3, 11, 400, 999] {
        let (mut network, [link]) = network([rate * GIGA]);
        // After each 27.72 ms one more flow shares the link: a time that 1 to 12 divide.
        let (count, interval) = (12_u64, 27_720 * MS / 1000);
        let unit = rate * 27_720 * 125; // bytes of the whole rate in this time
        let mut left = 4 * unit + (1..count).map(|flows| unit / flows).sum::<u64>();
        for token in 0..count {
            network.start(Time(token * interval), Bytes(left), &[link], token);
            left -= unit / (token + 1);
        }
        let mut done = Vec::new();
        let time = network.next_completion().unwrap();
        network.advance(time, &mut done);
        assert_eq!(done, (0..count).collect::<Vec<_>>(), "at {rate} Gb/s");
    }
}

/// Three flows send 0.003, then 0.002, then 0.001 bits per picosecond, over times in which they
/// send
/// fractions of bits, in all whole bytes. A fourth that starts then with just as much left ends
/// with
/// them.
#[test]
fn rounding_errors_of_bits_left_do_not_part_flows_that_end_together() {
    for turn in 0..200_u64 {
        let (mut network, [link]) = network([9 * GIGA]);
        let size = GIGA + 12_345 * turn;
        for token in 0..3 {
            network.start(Time::ZERO, Bytes(size), &[link], token);
        }
        // 3,000.006 bits and more, some and 0.004, and 0.99 more than a whole number.
        let (first, some) = (1_000_002 + 1_000 * turn, 700 + 7 * turn);
        let rest = 8_000_000 - (3_001 + 3 * turn + some);
        let [second, third] = [500 * some + 2, 1_000 * rest + 990];
        network.set_rate(Time(first), link, Rate(6 * GIGA));
        network.set_rate(Time(first + second), link, Rate(3 * GIGA));
        let now = Time(first + second + third);
        network.start(now, Bytes(size - 1_000_000), &[link], 3);
        let time = network.next_completion().unwrap();
        let mut done = Vec::new();
        network.advance(time, &mut done);
        assert_eq!(done, [0, 1, 2, 3], "turn {turn}");
    }
}

#[test]
#[should_panic(expected = "link 1 twice in one path")]
fn a_path_with_a_loop_is_a_bug() {
    let (mut network, [a, b]) = network([1, 1]);
    network.start(Time::ZERO, Bytes(1), &[b, a, b], 0);
}

#[test]
#[should_panic(expected = "a flow needs at least one link")]
fn a_path_without_links_is_a_bug() {
    FlowNetwork::new().start(Time::ZERO, Bytes(1), &[], 0);
}

#[test]
#[should_panic(expected = "time runs backwards: 4 after 5")]
fn time_does_not_run_backwards() {
    let (mut network, [link]) = network([1]);
    network.start(Time(5), Bytes(1), &[link], 0);
    network.set_rate(Time(4), link, Rate(1));
}
