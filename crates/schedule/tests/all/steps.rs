//! Steps of controllers: from what was measured and what is held to what is held next.

use std::collections::BTreeSet;

use crate::common::regimes::Random;
use lightloom_schedule::epochs::{Epochs, NONE};
use lightloom_schedule::helios::{helios, helios_matchings};
use lightloom_schedule::rotornet::{Cycling, Rotor, check, rotate};
use lightloom_schedule::steps::{
    DemandEstimate, Estimator, RotorQueues, SwitchStep, Turning, helios_step, rotor_slot,
    serve_over_time, xnest_step,
};
use lightloom_schedule::xnest_plus::{Reading, sub_matrices, switches_for, xnest_plus};
use proptest::prelude::*;

const SIZES: Epochs = Epochs { nodes: 6, switches: 4, epoch: 1_000, delay: 100 };

fn skewed(nodes: usize, random: &mut Random) -> Vec<u64> {
    (0..nodes * nodes)
        .map(|cell| {
            let bytes = (5e3 * random.uniform().powi(4)) as u64;
            if cell / nodes == cell % nodes { 0 } else { bytes }
        })
        .collect()
}

/// Serves what is left over the circuits of a step; returns whether anything is left.
fn serve(left: &mut [u64], step: &SwitchStep, sizes: &Epochs) -> bool {
    for (matching, &turned) in step.matchings.iter().zip(&step.turned) {
        let room = sizes.epoch + if turned { 0 } else { sizes.delay };
        for (from, &to) in matching.iter().enumerate().filter(|pair| *pair.1 != NONE) {
            let cell = &mut left[from * sizes.nodes + to as usize];
            *cell -= room.min(*cell);
        }
    }
    left.iter().any(|&bytes| bytes > 0)
}

#[test]
fn a_run_of_helios_is_its_steps_with_a_clairvoyant_estimate() {
    let mut random = Random(5);
    let demand = skewed(6, &mut random);
    let run = helios(&demand, &SIZES).unwrap();
    let (mut left, mut held, mut turned) = (demand, Vec::new(), 0);
    for matchings in &run.matchings {
        let step = helios_step(&left, &held, &SIZES, None).unwrap();
        assert_eq!(&step.matchings, matchings);
        turned += step.turned.iter().filter(|&&turns| turns).count() as u64;
        serve(&mut left, &step, &SIZES);
        held = step.matchings;
    }
    assert!(left.iter().all(|&bytes| bytes == 0));
    assert_eq!(turned, run.turned);
}

#[test]
fn a_run_of_xnest_plus_is_its_steps_for_all_switches_at_once() {
    let mut random = Random(6);
    let demand = skewed(6, &mut random);
    for reading in [Reading::Pairings, Reading::Diagonals] {
        let run = xnest_plus(&demand, &SIZES, reading).unwrap();
        let (mut left, mut held) = (demand.clone(), Vec::new());
        for matchings in &run.matchings {
            let step = xnest_step(&left, &held, &SIZES, reading, Turning::All, None).unwrap();
            assert_eq!((&step.switches.matchings, step.next), (matchings, Turning::All));
            serve(&mut left, &step.switches, &SIZES);
            held = step.settings;
        }
        assert!(left.iter().all(|&bytes| bytes == 0));
    }
}

#[test]
fn a_run_of_rotornet_is_its_slots() {
    let mut random = Random(7);
    let demand = skewed(6, &mut random);
    for cycling in [Cycling::Shared, Cycling::Fixed, Cycling::Staggered] {
        for relay in [false, true] {
            let slot = Some(400);
            let rotor =
                Rotor { nodes: 6, switches: 2, slot, delay: 30, held: false, relay, cycling };
            let run = rotate(&demand, &rotor).unwrap();
            check(&demand, &rotor, &run).unwrap();
            let mut queues = RotorQueues::new(&demand, 6).unwrap();
            let (mut moves, mut turn) = (Vec::new(), 0);
            while queues.waiting() > 0 {
                let found = rotor_slot(&mut queues, &rotor, 400, turn).unwrap();
                assert_eq!(found.hold, run.holds[turn as usize]);
                moves.extend(found.moves);
                turn += 1;
            }
            assert_eq!(turn as usize, run.holds.len());
            let of_run = run.moves.iter().map(|m| (m.from, m.to, m.source, m.destination, m.bytes));
            let of_slots = moves.iter().map(|m| (m.from, m.to, m.source, m.destination, m.bytes));
            assert!(of_run.eq(of_slots));
        }
    }
}

#[test]
fn an_estimate_of_the_same_demand_turns_nothing() {
    let mut random = Random(8);
    let demand = skewed(6, &mut random);
    let first = helios_step(&demand, &[], &SIZES, None).unwrap();
    assert_eq!(first.turned, [true; 4]);
    assert_eq!(first.matchings, helios_matchings(&demand, 6, 4, SIZES.epoch).unwrap());
    let again = helios_step(&demand, &first.matchings, &SIZES, None).unwrap();
    assert_eq!(again, SwitchStep { turned: vec![false; 4], ..first });
}

/// Hysteresis in closed form: two pairs of nodes, and a crossing that carries 25 % more.
#[test]
fn switches_turn_only_for_enough() {
    let sizes = Epochs { nodes: 4, switches: 1, epoch: 100, delay: 0 };
    let mut demand = vec![0; 16];
    (demand[1], demand[4 * 2 + 3]) = (40, 40);
    let held = helios_step(&demand, &[], &sizes, None).unwrap().matchings;
    (demand[2], demand[4 + 3]) = (50, 50);
    let turns = |hysteresis| helios_step(&demand, &held, &sizes, hysteresis).unwrap().turned[0];
    assert!(turns(None) && turns(Some(0)) && turns(Some(249)));
    assert!(!turns(Some(250)) && !turns(Some(5_000)));
    // what is held is worth nothing: anything gains enough
    demand.fill(0);
    demand[2] = 1;
    assert!(helios_step(&demand, &held, &sizes, Some(5_000)).unwrap().turned[0]);
}

#[test]
fn halves_turn_one_after_another_and_the_other_keeps_its_older_plan() {
    let matrices = sub_matrices(6, Reading::Pairings);
    let only = |wanted: usize| {
        let mut demand = vec![0; 36];
        for (node, &peer) in matrices[wanted][0].iter().enumerate() {
            demand[node * 6 + peer as usize] = 10;
        }
        demand
    };
    let step = |demand: &[u64], held: &[(u32, u32)], turning| {
        xnest_step(demand, held, &SIZES, Reading::Pairings, turning, None).unwrap()
    };
    let first = step(&only(1), &[], Turning::First);
    assert_eq!((first.settings.as_slice(), first.next), (&[(1, 0); 4][..], Turning::Second));
    assert_eq!(first.switches.turned, [true; 4]);
    let second = step(&only(3), &first.settings, first.next);
    assert_eq!(second.settings, [(1, 0), (1, 0), (3, 0), (3, 0)]);
    assert_eq!(second.switches.turned, [false, false, true, true]);
    assert_eq!(second.switches.matchings[2], matrices[3][0]);
    let third = step(&only(3), &second.settings, second.next);
    assert_eq!(third.settings, [(3, 0); 4]);
    assert_eq!(
        (third.switches.turned, third.next),
        (vec![true, true, false, false], Turning::Second)
    );
}

/// `N_i = W_i * switches / 2`, where that is whole.
#[test]
fn a_half_follows_the_shares_of_the_whole_traffic() {
    let mut random = Random(9);
    let sizes = Epochs { switches: 10, ..SIZES };
    let (mut held, mut turning) = (Vec::new(), Turning::First);
    for _ in 0..6 {
        let demand = skewed(6, &mut random);
        let before = held.clone();
        let step = xnest_step(&demand, &held, &sizes, Reading::Pairings, turning, None).unwrap();
        let half = match turning {
            _ if before.is_empty() => 0..10,
            Turning::First => 0..5,
            _ => 5..10,
        };
        let weights: Vec<u64> = sub_matrices(6, Reading::Pairings)
            .iter()
            .map(|one| one[0].iter().enumerate().map(|(a, &b)| demand[a * 6 + b as usize]).sum())
            .collect();
        let counts = switches_for(&weights, half.len());
        for (matrix, &count) in (0..).zip(&counts) {
            let group = &step.settings[half.clone()];
            assert_eq!(group.iter().filter(|one| one.0 == matrix).count(), count as usize);
        }
        (held, turning) = (step.settings, step.next);
    }
}

#[test]
fn hysteresis_keeps_the_settings_of_xnest_plus() {
    let mut random = Random(10);
    let (one, two) = (skewed(6, &mut random), skewed(6, &mut random));
    let step = |demand: &[u64], held: &[(u32, u32)], hysteresis| {
        xnest_step(demand, held, &SIZES, Reading::Pairings, Turning::All, hysteresis).unwrap()
    };
    let held = step(&one, &[], Some(900_000)).settings;
    let kept = step(&two, &held, Some(900_000));
    assert_eq!((&kept.settings, kept.switches.turned), (&held, vec![false; 4]));
    assert_ne!(step(&two, &held, None).settings, held);
}

/// Each pair of nodes once in a cycle, and no shift on two switches.
#[test]
fn fixed_subsets_divide_the_shifts() {
    for (nodes, switches) in [(9, 4), (8, 2), (7, 3), (5, 4), (4, 6)] {
        let rotor = |cycling| Rotor {
            nodes,
            switches,
            slot: None,
            delay: 0,
            held: false,
            relay: false,
            cycling,
        };
        let cycle = (nodes - 1).div_ceil(switches) as u64;
        let fixed = rotor(Cycling::Fixed);
        let mut of_switch = vec![BTreeSet::new(); switches];
        for turn in 0..3 * cycle {
            for (switch, shift) in fixed.shifts(turn).enumerate() {
                of_switch[switch].insert(shift);
            }
        }
        let all: BTreeSet<usize> = of_switch.iter().flatten().copied().collect();
        assert_eq!(all, (1..nodes).collect());
        if switches < nodes {
            assert_eq!(of_switch.iter().map(BTreeSet::len).sum::<usize>(), nodes - 1);
        }
        // staggered switches hold the same subsets, each shift for as many turns as switches
        let staggered = rotor(Cycling::Staggered);
        for turn in 1..4 * switches as u64 {
            let now: Vec<usize> = staggered.shifts(turn).collect();
            let before: Vec<usize> = staggered.shifts(turn - 1).collect();
            for switch in 0..switches {
                assert!(of_switch[switch].contains(&now[switch]));
                let may_turn = turn % switches as u64 == switch as u64;
                assert!(may_turn || now[switch] == before[switch], "switch {switch}, turn {turn}");
            }
        }
    }
}

/// Two switches, a slot of 90 bytes and a delay of 10: every 50 a switch turns, and carries 40.
#[test]
fn a_staggered_switch_loses_the_delay_alone() {
    let rotor = Rotor {
        nodes: 3,
        switches: 2,
        slot: Some(90),
        delay: 10,
        held: false,
        relay: false,
        cycling: Cycling::Staggered,
    };
    let mut queues = RotorQueues::new(&[0, 500, 500, 0, 0, 0, 0, 0, 0], 3).unwrap();
    let sent = |queues: &mut RotorQueues, turn| {
        let found = rotor_slot(queues, &rotor, 90, turn).unwrap();
        (found.hold, found.moves.iter().map(|m| (m.to, m.bytes)).collect::<Vec<_>>())
    };
    assert_eq!(sent(&mut queues, 0), (50, vec![(1, 40), (2, 40)]));
    assert_eq!(sent(&mut queues, 1), (50, vec![(1, 50), (2, 40)]));
    assert_eq!(sent(&mut queues, 2), (50, vec![(1, 40), (2, 50)]));
    assert_eq!(queues.waiting(), 1_000 - 80 - 90 - 90);
}

#[test]
fn relayed_bytes_go_first_and_reach_their_destination() {
    let rotor = Rotor {
        nodes: 4,
        switches: 1,
        slot: None,
        delay: 0,
        held: true,
        relay: true,
        cycling: Cycling::Shared,
    };
    let mut queues = RotorQueues::new(&[0; 16], 4).unwrap();
    queues.own[1] = 70;
    queues.hold(0, 3, 1, 60).unwrap();
    let found = rotor_slot(&mut queues, &rotor, 100, 0).unwrap();
    let sent: Vec<_> = found.moves.iter().map(|m| (m.source, m.destination, m.bytes)).collect();
    assert_eq!((found.hold, sent), (100, vec![(3, 1, 60), (0, 1, 40)]));
    assert_eq!(queues.waiting(), 30);
}

#[test]
fn wrong_steps_are_refused() {
    let zero = [0; 36];
    let held = |held: &[Vec<u32>]| helios_step(&zero, held, &SIZES, None).unwrap_err().0;
    assert_eq!(held(&[vec![NONE; 6]]), "1 matchings held for 4 switches");
    let dark = vec![NONE; 6];
    let wrong = |one: Vec<u32>| held(&[dark.clone(), one, dark.clone(), dark.clone()]);
    assert_eq!(wrong(vec![NONE; 5]), "switch 1 holds no matching of 6 nodes");
    assert_eq!(
        wrong(vec![6, NONE, NONE, NONE, NONE, NONE]),
        "switch 1 holds no matching of 6 nodes"
    );
    assert_eq!(wrong(vec![2, 2, NONE, NONE, NONE, NONE]), "switch 1 holds no matching of 6 nodes");
    let xnest = |held: &[(u32, u32)]| {
        let turning = Turning::First;
        xnest_step(&zero, held, &SIZES, Reading::Pairings, turning, None).unwrap_err().0
    };
    assert_eq!(xnest(&[(0, 0)]), "1 settings for 4 switches, 6 nodes");
    assert_eq!(xnest(&[(5, 0); 4]), "there is no setting (5, 0)");
    assert_eq!(xnest(&[(0, 1); 4]), "there is no setting (0, 1)");
    let none = Epochs { switches: 0, ..SIZES };
    let text = helios_step(&zero, &[], &none, None).unwrap_err().0;
    assert_eq!(text, "there must be a switch, and epochs of 1 to 2^53 bytes");
    let mut queues = RotorQueues::new(&zero, 6).unwrap();
    for (node, source, to, bytes) in
        [(0, 0, 1, 5), (0, 1, 0, 5), (0, 1, 1, 5), (0, 6, 1, 5), (0, 2, 1, 0)]
    {
        let text = queues.hold(node, source, to, bytes).unwrap_err().0;
        assert_eq!(text, format!("node {node} cannot hold {bytes} bytes from {source} to {to}"));
    }
    let rotor = Rotor {
        nodes: 5,
        switches: 3,
        slot: None,
        delay: 9,
        held: false,
        relay: false,
        cycling: Cycling::Staggered,
    };
    let refused = |rotor: Rotor, room| {
        rotor_slot(&mut RotorQueues::new(&zero, 6).unwrap(), &rotor, room, 0).unwrap_err().0
    };
    assert_eq!(refused(rotor, 90), "36 queues for 5 nodes");
    assert_eq!(
        refused(Rotor { nodes: 6, held: true, ..rotor }, 90),
        "staggered switches turn by the clock: slots cannot be held"
    );
    assert_eq!(
        refused(Rotor { nodes: 6, ..rotor }, 15),
        "3 switches turn every 8 bytes: less than a delay of 9"
    );
    assert!(refused(Rotor { switches: 0, ..rotor }, 9).starts_with("a rotor needs 2 nodes"));
}

/// Demand that stays is learned; demand that alternates is what smoothing is for.
#[test]
fn clairvoyance_is_an_upper_limit_that_estimates_approach() {
    let mut random = Random(11);
    let patterns = [skewed(6, &mut random), skewed(6, &mut random)];
    let run = |estimator, period: usize| {
        let arrivals: Vec<&[u64]> =
            (0..40).map(|index| patterns[index / period % 2].as_slice()).collect();
        let estimate = DemandEstimate::new(estimator, 300).unwrap();
        let sizes = Epochs { switches: 1, ..SIZES };
        serve_over_time(&arrivals, &sizes, estimate, |expected, held| {
            helios_step(expected, held, &sizes, None)
        })
        .unwrap()
    };
    let carried = |estimator, period| run(estimator, period).carried.iter().sum::<u64>();
    for period in [1, 10] {
        let best = carried(Estimator::Clairvoyant, period);
        for estimator in [Estimator::Last, Estimator::Smoothed] {
            let found = carried(estimator, period);
            assert!(found <= best + best / 50, "{estimator:?}: {found} of {best}");
            assert!(10 * found > 8 * best, "{estimator:?}: {found} of {best}");
        }
    }
    let found = run(Estimator::Last, 10);
    let arrived: u64 = (0..40).map(|index| patterns[index / 10 % 2].iter().sum::<u64>()).sum();
    assert_eq!(found.carried.iter().sum::<u64>() + found.backlog[39], arrived);
    assert_eq!((found.carried.len(), found.backlog.len()), (40, 40));
}

#[test]
fn hysteresis_turns_switches_less_often_over_time() {
    let mut random = Random(12);
    let base = skewed(6, &mut random);
    let periods: Vec<Vec<u64>> = (0..30)
        .map(|_| {
            base.iter()
                .map(|&bytes| (bytes as f64 * (0.8 + 0.4 * random.uniform())) as u64)
                .collect()
        })
        .collect();
    let arrivals: Vec<&[u64]> = periods.iter().map(Vec::as_slice).collect();
    let turned = |hysteresis| {
        let estimate = DemandEstimate::new(Estimator::Last, 1_000).unwrap();
        let step =
            |expected: &[u64], held: &[Vec<u32>]| helios_step(expected, held, &SIZES, hysteresis);
        serve_over_time(&arrivals, &SIZES, estimate, step).unwrap().turned
    };
    assert!(turned(Some(200)) < turned(None), "{} {}", turned(Some(200)), turned(None));
    // plans before and after the first measurement, none later
    assert_eq!(turned(Some(1_000_000)), 8);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn staggered_and_fixed_rotors_deliver_every_byte(
        seed in 1..u64::MAX,
        nodes in 2..8_usize,
        switches in 1..5_usize,
        slot in 50..2_000_u64,
        delay_share in 0..10_u64,
        relay in any::<bool>(),
        staggered in any::<bool>(),
    ) {
        let demand = skewed(nodes, &mut Random(seed));
        let cycling = if staggered { Cycling::Staggered } else { Cycling::Fixed };
        let delay = slot * delay_share / 100;
        let rotor =
            Rotor { nodes, switches, slot: Some(slot), delay, held: false, relay, cycling };
        let found = rotate(&demand, &rotor).unwrap();
        check(&demand, &rotor, &found).unwrap();
        let rounds = if staggered { 0 } else { found.holds.len() as u64 };
        prop_assert_eq!(found.length, found.holds.iter().sum::<u64>() + rounds * delay);
        prop_assert!(found.over_bound(switches) >= 1.0);
    }
}
