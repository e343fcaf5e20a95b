//! Schedules that are improved after they were made: no swap between two slots of one is left that
//! saves time, and on many matrices all improvements together are worth what they take.

use crate::common::crossbar::{Crossbar, Played};
use crate::common::regimes::Random;
use lightloom_schedule::permutation::{Method, Slots};

/// Row, column, and what the first and the second of two slots send of the pair.
type Shared = (usize, usize, [u64; 2]);

fn of_two(case: &Crossbar, first: &Played, second: &Played) -> Vec<Shared> {
    let sent = |slot: &Played, cell: usize| slot.before[cell] - slot.after[cell];
    let both = |cell: usize| [sent(first, cell), sent(second, cell)];
    let cells = (0..case.bytes.len()).filter(|&cell| both(cell) != [0, 0]);
    cells.map(|cell| (cell / case.columns, cell % case.columns, both(cell))).collect()
}

/// Pairs in groups that share no line.
fn components(pairs: &[Shared]) -> Vec<Vec<Shared>> {
    let mut groups: Vec<Vec<Shared>> = Vec::new();
    for &pair in pairs {
        let meets = |group: &Vec<Shared>| group.iter().any(|o| o.0 == pair.0 || o.1 == pair.1);
        let (with, without): (Vec<_>, Vec<_>) = groups.into_iter().partition(meets);
        groups = without;
        groups.push(with.into_iter().flatten().chain([pair]).collect());
    }
    groups
}

/// The least time of two slots if every group may change places as a whole, and a pair that meets
/// no other may be divided at will.
fn best_of_two(groups: &[Vec<Shared>], delay: u64) -> u64 {
    let (alone, rigid): (Vec<_>, Vec<_>) = groups.iter().partition(|group| group.len() == 1);
    let whole = alone.iter().map(|group| group[0].2.iter().sum::<u64>()).max().unwrap_or(0);
    let longest = |group: &[Shared], slot: usize| group.iter().map(|pair| pair.2[slot]).max();
    let mut best = u64::MAX;
    for turned in 0..1_usize << rigid.len() {
        let mut holds = [0, 0];
        for (index, group) in rigid.iter().enumerate() {
            let turn = turned >> index & 1;
            for slot in [0, 1] {
                holds[slot ^ turn] = holds[slot ^ turn].max(longest(group, slot).unwrap_or(0));
            }
        }
        let slots = if holds.contains(&0) { 1 } else { 2 };
        best = best.min(whole.max(holds[0] + holds[1]) + slots * delay);
    }
    best
}

fn assert_no_swap_saves(case: &Crossbar, slots: &Slots) {
    let played = case.play(slots);
    for (index, second) in played.iter().enumerate() {
        for first in &played[..index] {
            let groups = components(&of_two(case, first, second));
            let now = first.hold + second.hold + 2 * case.delay;
            let best = best_of_two(&groups, case.delay);
            assert!(best >= now, "{best} instead of {now}: {groups:?}");
        }
    }
}

/// Whether two slots join pairs that do not meet, or the same ones.
fn could_be_one(groups: &[Vec<Shared>]) -> bool {
    let of_one = |group: &Vec<Shared>| {
        group.len() == 1 || (0..2).any(|slot| group.iter().all(|pair| pair.2[slot] == 0))
    };
    groups.iter().all(of_one)
}

/// Slots that join pairs that do not meet save no byte as one, but a delay: greedy matchings leave
/// some, improved ones none.
#[test]
fn slots_that_do_not_meet_become_one() {
    let mut random = Random(3);
    let mut left_apart = 0;
    for _ in 0..200 {
        let bytes: Vec<u64> = (0..9).map(|_| (20.0 * random.uniform()) as u64).collect();
        let case = Crossbar::square(&bytes, 17);
        let apart = |slots: &Slots| {
            let played = case.play(slots);
            let firsts = |second: usize| (0..second).map(move |first| (first, second));
            let pairs = (0..played.len()).flat_map(firsts);
            pairs
                .filter(|&(a, b)| could_be_one(&components(&of_two(&case, &played[a], &played[b]))))
                .count()
        };
        let slots = case.slots(Method::Critical);
        assert_no_swap_saves(&case, &slots);
        assert_eq!(apart(&slots), 0, "{bytes:?}");
        left_apart += apart(&case.slots(Method::Greedy));
    }
    assert!(left_apart > 0);
}
