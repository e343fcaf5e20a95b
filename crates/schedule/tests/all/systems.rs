//! `RotorNet`, Helios and X-NEST+: closed forms, bytes followed, and the papers' own numbers.

use std::collections::BTreeSet;
use std::path::Path;

use crate::common::cases::Random;
use lightloom_schedule::epochs::{EpochRun, Epochs, NONE};
use lightloom_schedule::helios::{helios, helios_matchings};
use lightloom_schedule::rotornet::{Cycling, Rotor, RotorSchedule, check, rotate};
use lightloom_schedule::xnest_plus::{
    Reading, SwitchRule, sub_matrices, switches_for, xnest_plan, xnest_plus,
};
use proptest::prelude::*;

const PLAIN: Rotor = Rotor {
    nodes: 8,
    switches: 1,
    slot: None,
    delay: 0,
    held: false,
    relay: false,
    cycling: Cycling::Shared,
};

fn public_matrix() -> Option<Vec<u64>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../../shared/data/mixtral_8x8_token_matrix.txt");
    let Ok(text) = std::fs::read_to_string(path) else {
        eprintln!("skipped: ../shared/data/mixtral_8x8_token_matrix.txt is not there");
        return None;
    };
    let cells = text.split(|c: char| !c.is_ascii_digit()).filter(|cell| !cell.is_empty());
    Some(cells.map(|cell| cell.parse().expect("a number")).collect())
}

fn checked(demand: &[u64], rotor: &Rotor) -> RotorSchedule {
    let found = rotate(demand, rotor).unwrap();
    check(demand, rotor, &found).unwrap();
    found
}

fn random_demand(n: usize, power: i32, random: &mut Random) -> Vec<u64> {
    (0..n * n).map(|_| (1e6 * random.uniform().powi(power)) as u64).collect()
}

#[test]
fn the_public_matrix_takes_1_12_and_1_000() {
    let Some(demand) = public_matrix() else { return };
    let fixed = checked(&demand, &PLAIN).over_bound(1);
    assert!((fixed - 1.12).abs() < 0.005, "{fixed}");
    let held = checked(&demand, &Rotor { held: true, ..PLAIN }).over_bound(1);
    assert!((held - 1.000).abs() < 0.0005, "{held}");
}

#[test]
fn equal_demand_is_served_in_the_least_time() {
    for switches in [1, 2, 4, 7] {
        for (held, relay) in [(false, false), (false, true), (true, false), (true, true)] {
            let rotor = Rotor { switches, held, relay, ..PLAIN };
            let found = checked(&[7_000; 64], &rotor);
            // 7 matchings over `switches` at a time, the last round perhaps not full
            let rounds = 7_u64.div_ceil(switches as u64);
            if !relay {
                assert_eq!(found.length, 7_000 * rounds);
            }
            assert!(found.length <= 7_000 * rounds);
        }
    }
}

#[test]
fn slots_and_delays_add_up() {
    let mut random = Random(3);
    let demand = random_demand(8, 1, &mut random);
    let entry = |shift: usize| (0..8).map(|i| demand[i * 8 + (i + shift) % 8]).max().unwrap();
    let longest = (1..8).map(entry).max().unwrap();
    assert_eq!(checked(&demand, &PLAIN).length, 7 * longest);
    let held = Rotor { held: true, delay: 100, ..PLAIN };
    assert_eq!(checked(&demand, &held).length, (1..8).map(entry).sum::<u64>() + 700);
    let short = Rotor { slot: Some(longest.div_ceil(3)), delay: 10, ..PLAIN };
    let length = checked(&demand, &short).length;
    assert!(length <= 21 * (longest.div_ceil(3) + 10) && length > 14 * (longest.div_ceil(3) + 10));
}

#[test]
fn relays_spread_what_one_pair_wants() {
    let mut demand = vec![0; 81];
    demand[5] = 900_000;
    let rotor = Rotor { nodes: 9, slot: Some(1_000), ..PLAIN };
    let alone = checked(&demand, &rotor);
    let spread = checked(&demand, &Rotor { relay: true, ..rotor });
    assert_eq!(alone.relayed(), 0);
    assert!(alone.over_bound(1) > 7.9);
    assert!(spread.over_bound(1) < 1.05, "{}", spread.over_bound(1));
    // direct slots take an eighth, the other seven go round
    assert!((spread.relayed() as f64 / 900_000.0 - 0.875).abs() < 0.01);
}

#[test]
fn what_fits_into_direct_slots_is_not_relayed() {
    let demand = vec![500; 64];
    let rotor = Rotor { slot: Some(500), relay: true, ..PLAIN };
    assert_eq!(checked(&demand, &rotor).relayed(), 0);
}

#[test]
fn wrong_schedules_are_seen() {
    let mut demand = vec![10_u64; 64];
    demand[3] = 2_000;
    let rotor = Rotor { slot: Some(100), relay: true, delay: 5, ..PLAIN };
    let good = checked(&demand, &rotor);
    let relayed = good.moves.iter().position(|m| m.from != m.source).expect("a second hop");
    let edits: [&dyn Fn(&mut RotorSchedule); 10] = [
        &|found| found.length += 1,
        &|found| found.largest_line += 1,
        &|found| found.holds[2] += 1,
        &|found| found.turns[2] += 1,
        &|found| found.moves[0].bytes += 1,
        &|found| found.moves[0].to = 77,
        &|found| found.moves[0].to = (found.moves[0].to + 1) % 8,
        &|found| found.moves[relayed].source = (found.moves[relayed].source + 1) % 8,
        &|found| found.moves.swap(0, relayed),
        &|found| {
            found.moves.pop();
        },
    ];
    for (number, edit) in edits.iter().enumerate() {
        let mut wrong = good.clone();
        edit(&mut wrong);
        assert!(check(&demand, &rotor, &wrong).is_err(), "edit {number}");
    }
    let mut other = demand.clone();
    other[1] += 1;
    assert!(check(&other, &rotor, &good).is_err());
}

#[test]
fn impossible_rotors_are_refused() {
    let refused = |rotor: Rotor| rotate(&[1 << 40; 64], &rotor).unwrap_err().0;
    assert_eq!(refused(Rotor { nodes: 7, ..PLAIN }), "64 entries for 7 nodes");
    assert!(refused(Rotor { switches: 0, ..PLAIN }).starts_with("a rotor needs 2 nodes"));
    assert!(refused(Rotor { slot: Some(0), ..PLAIN }).starts_with("a rotor needs 2 nodes"));
    let text = refused(Rotor { slot: Some(1), ..PLAIN });
    assert_eq!(text, "65536 slots of 1 bytes, or 1048576 moves, do not serve this demand");
    let mut large = [0; 64];
    large[1] = 1 << 54;
    let text = rotate(&large, &PLAIN).unwrap_err().0;
    assert_eq!(text, "18014398509481984 bytes at (0, 1) are beyond 2^53");
}

/// Replays the epochs and checks what they say of themselves.
fn assert_serves(demand: &[u64], sizes: &Epochs, run: &EpochRun) {
    let n = sizes.nodes;
    let mut left = demand.to_vec();
    let mut turned = 0;
    for (epoch, matchings) in run.matchings.iter().enumerate() {
        assert_eq!(matchings.len(), sizes.switches);
        for (switch, matching) in matchings.iter().enumerate() {
            let mut heard = BTreeSet::new();
            let stays = epoch > 0 && run.matchings[epoch - 1][switch] == *matching;
            turned += u64::from(!stays);
            let room = sizes.epoch + if stays { sizes.delay } else { 0 };
            for (from, &to) in matching.iter().enumerate().filter(|pair| *pair.1 != NONE) {
                assert!(heard.insert(to) && to as usize != from);
                let cell = &mut left[from * n + to as usize];
                *cell = cell.saturating_sub(room);
            }
        }
    }
    assert!((0..n * n).all(|cell| cell / n == cell % n || left[cell] == 0));
    assert_eq!(turned, run.turned);
    let each = sizes.epoch + sizes.delay;
    let epochs = run.matchings.len() as u64;
    assert!(run.length <= epochs * each && (epochs == 0 || run.length > (epochs - 1) * each));
}

#[test]
fn helios_takes_the_heaviest_pairs_and_then_the_rest() {
    // 0 - 1 and 2 - 3 are heaviest together although 1 - 2 is the heaviest pair
    let demand = [0, 60, 0, 0, 30, 0, 50, 0, 0, 50, 0, 30, 0, 0, 60, 0];
    let found = helios_matchings(&demand, 4, 2, 100).unwrap();
    assert_eq!(found, [[1, 0, 3, 2], [NONE, 2, 1, NONE]]);
    let sizes = Epochs { nodes: 4, switches: 1, epoch: 100, delay: 7 };
    let run = helios(&demand, &sizes).unwrap();
    assert_serves(&demand, &sizes, &run);
    assert_eq!((run.matchings.len(), run.length, run.turned), (2, 107 + 57, 2));
    // short epochs: a circuit is worth what it carries, so the same pairs stay while it lasts
    let run = helios(&demand, &Epochs { epoch: 30, ..sizes }).unwrap();
    assert!(run.turned <= run.matchings.len() as u64);
}

#[test]
fn both_readings_split_every_ordered_pair_once() {
    for nodes in 2..14 {
        for reading in [Reading::Pairings, Reading::Diagonals] {
            let matrices = sub_matrices(nodes, reading);
            let mut pairs = BTreeSet::new();
            for matrix in matrices.iter().flatten() {
                for (from, &to) in matrix.iter().enumerate().filter(|pair| *pair.1 != NONE) {
                    assert!(pairs.insert((from, to)), "{nodes} {from} {to}");
                    let turned = matrix[to as usize] as usize == from;
                    assert!(turned || reading == Reading::Diagonals);
                }
            }
            assert_eq!(pairs.len(), nodes * (nodes - 1));
            let expected = match reading {
                Reading::Pairings => nodes - 1 + nodes % 2,
                Reading::Diagonals => nodes / 2,
            };
            assert_eq!(matrices.len(), expected);
        }
    }
}

#[test]
fn six_nodes_are_split_as_the_figure_may_be_read() {
    let pairings = sub_matrices(6, Reading::Pairings);
    assert_eq!(pairings[0], [[5, 4, 3, 2, 1, 0]]);
    assert_eq!(pairings[1], [[2, 5, 0, 4, 3, 1]]);
    assert_eq!(pairings.len(), 5);
    let diagonals = sub_matrices(6, Reading::Diagonals);
    assert_eq!(diagonals[0], [[1, 2, 3, 4, 5, 0], [5, 0, 1, 2, 3, 4]]);
    assert_eq!(diagonals[1], [[2, 3, 4, 5, 0, 1], [4, 5, 0, 1, 2, 3]]);
    assert_eq!(diagonals[2], [[3, 4, 5, 0, 1, 2]]);
}

#[test]
fn as_printed_the_numbers_do_not_add_up_and_here_they_do() {
    // W = .5 .2 .15 .1 .05 (the paper: N = round(W * switches / 2))
    let weights = [50_u64, 20, 15, 10, 5];
    // halves up, halves to even: neither adds up
    for (switches, up, even) in [(4, 1, 1), (10, 6, 4)] {
        let exact = weights.map(|weight| weight as f64 / 100.0 * f64::from(switches) / 2.0);
        assert_eq!(exact.iter().map(|x| x.round() as u32).sum::<u32>(), up);
        assert_eq!(exact.iter().map(|x| x.round_ties_even() as u32).sum::<u32>(), even);
        let half = switches_for(&weights, switches as usize / 2);
        assert_eq!(half.iter().sum::<u32>(), switches / 2);
    }
    assert_eq!(switches_for(&weights, 10), [4, 2, 2, 1, 1]);
    assert_eq!(switches_for(&[0, 0, 0], 4), [2, 1, 1]);
    assert_eq!(switches_for(&[0, 3, 0], 4), [0, 4, 0]);
    assert_eq!(switches_for(&[], 4), [0; 0]);
}

/// The least largest weight per switch over all ways to give out the switches, as (weight, number).
fn brute_force(weights: &[u64], switches: u32) -> f64 {
    match weights {
        [] => 0.0,
        [last] => per_switch(*last, switches),
        [first, rest @ ..] => (0..=switches)
            .map(|count| per_switch(*first, count).max(brute_force(rest, switches - count)))
            .fold(f64::INFINITY, f64::min),
    }
}

fn per_switch(weight: u64, switches: u32) -> f64 {
    if weight == 0 { 0.0 } else { weight as f64 / f64::from(switches) }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn every_byte_of_every_rotor_is_followed(
        seed in 1..u64::MAX,
        nodes in 2..9_usize,
        switches in 1..5_usize,
        slots in prop::option::of(1..30_u64),
        delay in 0..1_000_u64,
        held in any::<bool>(),
        relay in any::<bool>(),
        power in 0..9,
    ) {
        let mut random = Random(seed);
        let demand = random_demand(nodes, power, &mut random);
        let slot = slots.map(|slots| (1_000_000 / slots).max(1));
        let found = checked(&demand, &Rotor { nodes, switches, slot, delay, held, relay, ..PLAIN });
        prop_assert!(found.over_bound(switches) >= 1.0);
        prop_assert!(relay || found.relayed() == 0);
    }

    #[test]
    fn epochs_serve_everything(
        seed in 1..u64::MAX,
        nodes in 2..9_usize,
        switches in 1..5_usize,
        epoch in 50_000..2_000_000_u64,
        delay in 0..100_000_u64,
        power in 0..9,
    ) {
        let mut random = Random(seed);
        let demand = random_demand(nodes, power, &mut random);
        let sizes = Epochs { nodes, switches, epoch, delay };
        let runs = [
            helios(&demand, &sizes),
            xnest_plus(&demand, &sizes, Reading::Pairings),
            xnest_plus(&demand, &sizes, Reading::Diagonals),
        ];
        for run in runs {
            let run = run.unwrap();
            assert_serves(&demand, &sizes, &run);
            prop_assert!(run.largest_line == 0 || run.over_bound(switches) >= 1.0);
        }
    }

    #[test]
    fn switches_follow_the_largest_weight_per_switch(
        weights in prop::collection::vec(0..60_u64, 1..6),
        switches in 1..9_u32,
    ) {
        let counts = switches_for(&weights, switches as usize);
        prop_assert_eq!(counts.iter().sum::<u32>(), switches);
        let worst = weights.iter().zip(&counts).map(|(&w, &n)| per_switch(w, n));
        let smallest = brute_force(&weights, switches);
        prop_assert!(worst.fold(0.0, f64::max) <= smallest, "least {smallest}");
    }

    #[test]
    fn plans_keep_what_stays_and_turn_by_halves(
        seed in 1..u64::MAX,
        nodes in 2..9_usize,
        switches in 1..9_usize,
        diagonals in any::<bool>(),
    ) {
        let reading = if diagonals { Reading::Diagonals } else { Reading::Pairings };
        let mut random = Random(seed);
        let demands = [0, 1].map(|_| random_demand(nodes, 4, &mut random));
        let plan = |demand: &[u64], previous| {
            xnest_plan(demand, nodes, reading, SwitchRule::Greedy, switches, previous).unwrap()
        };
        let first = plan(&demands[0], None);
        let everyone: Vec<u32> = (0..switches as u32).collect();
        prop_assert_eq!(first.phases.concat(), everyone);
        let again = plan(&demands[0], Some(&first.settings));
        prop_assert_eq!(&again.settings, &first.settings);
        prop_assert!(again.phases.concat().is_empty());
        let next = plan(&demands[1], Some(&first.settings));
        for (matrix, &count) in (0..).zip(&next.counts) {
            let holders = next.settings.iter().filter(|setting| setting.0 == matrix).count();
            prop_assert_eq!(holders, count as usize);
        }
        let changed: Vec<u32> = (0..switches)
            .filter(|&switch| first.settings[switch] != next.settings[switch])
            .map(|switch| switch as u32)
            .collect();
        prop_assert_eq!(next.phases.concat(), changed);
        let half = switches.div_ceil(2) as u32;
        prop_assert!(next.phases[0].iter().all(|&switch| switch < half));
        prop_assert!(next.phases[1].iter().all(|&switch| switch >= half));
    }
}

#[test]
fn wrong_plans_are_refused() {
    let refused = |nodes, switches, previous: Option<&[(u32, u32)]>| {
        xnest_plan(&[1; 16], nodes, Reading::Pairings, SwitchRule::Greedy, switches, previous)
            .unwrap_err()
            .0
    };
    assert_eq!(refused(5, 1, None), "16 entries for 5 nodes");
    assert_eq!(refused(4, 0, None), "there must be two nodes and a switch");
    assert_eq!(refused(4, 2, Some(&[(0, 0)])), "1 previous settings for 2 switches");
    let sizes = Epochs { nodes: 4, switches: 1, epoch: 0, delay: 0 };
    let text = helios(&[1; 16], &sizes).unwrap_err().0;
    assert_eq!(text, "there must be a switch, and epochs of 1 to 2^53 bytes");
}
