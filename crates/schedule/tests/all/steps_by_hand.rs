//! Steps of Helios and X-NEST+ and demand over time, by hand.

use lightloom_schedule::epochs::{Epochs, NONE};
use lightloom_schedule::helios::{helios_matchings, helios_step};
use lightloom_schedule::steps::{
    DemandEstimate, Estimator, OverTime, SwitchStep, Turning, serve_over_time, xnest_step,
};
use lightloom_schedule::xnest_plus::{Reading, SwitchRule, switches_for, xnest_plan};

const NODES: Epochs = Epochs { nodes: 2, switches: 2, epoch: 10, delay: 2 };

/// One switch holds the pair, the other nothing; returns what each step was asked for.
fn served(arrivals: &[&[u64]], estimator: Estimator) -> (OverTime, Vec<Vec<u64>>) {
    let mut wanted_in_turn = Vec::new();
    let estimate = DemandEstimate::new(estimator, 500).unwrap();
    let found = serve_over_time(arrivals, &NODES, estimate, |wanted, held| {
        wanted_in_turn.push(wanted.to_vec());
        let turned = vec![held.is_empty(); 2];
        Ok(SwitchStep { matchings: vec![vec![1, 0], vec![NONE; 2]], turned })
    });
    (found.unwrap(), wanted_in_turn)
}

/// 30 bytes, then 5, then none: 10 go while the switch loses its delay, 12 a period after that.
#[test]
fn what_waits_and_what_was_measured_are_planned_for() {
    let arrivals: [&[u64]; 3] = [&[7, 30, 0, 0], &[0, 5, 0, 0], &[0; 4]];
    let (found, wanted_in_turn) = served(&arrivals, Estimator::Last);
    let expected = OverTime { backlog: vec![20, 13, 1], carried: vec![10, 12, 12], turned: 2 };
    assert_eq!(found, expected);
    assert_eq!(wanted_in_turn, [[0, 0, 0, 0], [7, 50, 0, 0], [0, 18, 0, 0]]);
    let (same, wanted_in_turn) = served(&arrivals, Estimator::Clairvoyant);
    assert_eq!(same, expected);
    assert_eq!(wanted_in_turn, [[7, 30, 0, 0], [0, 25, 0, 0], [0, 13, 0, 0]]);
    let (_, wanted_in_turn) = served(&arrivals, Estimator::Smoothed);
    assert_eq!(wanted_in_turn, [[0, 0, 0, 0], [3, 35, 0, 0], [1, 10 + 13, 0, 0]]);
}

/// 0 wants 40 bytes to 1, and 9 each way with 2: an epoch of 10 carries more of the latter.
#[test]
fn a_pair_is_worth_what_an_epoch_carries_of_it() {
    let mut demand = vec![0; 9];
    (demand[1], demand[2], demand[6]) = (40, 9, 9);
    let first = |room| helios_matchings(&demand, 3, 1, room).unwrap()[0].clone();
    assert_eq!(first(10), [2, NONE, 0]);
    assert_eq!(first(17), [2, NONE, 0]);
    assert_eq!(first(19), [1, 0, NONE]);
    let sizes = Epochs { nodes: 3, switches: 1, epoch: 10, delay: 90 };
    let step = helios_step(&demand, &[], &sizes, None).unwrap();
    assert_eq!(step.matchings, [[2, NONE, 0]]);
}

#[test]
fn the_next_switch_carries_what_the_first_one_leaves() {
    assert_eq!(
        helios_matchings(&[0, 25, 0, 0], 2, 4, 10).unwrap(),
        [vec![1, 0], vec![1, 0], vec![1, 0], vec![NONE; 2]]
    );
}

#[test]
fn switches_go_to_the_fewest_and_then_to_the_first() {
    assert_eq!(switches_for(&[5, 5], 1), [1, 0]);
    assert_eq!(switches_for(&[5, 5, 5], 4), [2, 1, 1]);
    // 6 / 2 and 3 / 1 are equal: the one with fewer
    assert_eq!(switches_for(&[6, 3], 3), [2, 1]);
    assert_eq!(switches_for(&[6, 3], 4), [2, 2]);
    assert_eq!(switches_for(&[100, 1], 2), [1, 1]);
}

fn shift(nodes: usize, by: usize, bytes: u64) -> impl Iterator<Item = (usize, u64)> {
    (0..nodes).map(move |from| (from * nodes + (from + by) % nodes, bytes))
}

fn shifts(nodes: usize, parts: &[(usize, u64)]) -> Vec<u64> {
    let mut demand = vec![0; nodes * nodes];
    for &(by, bytes) in parts {
        shift(nodes, by, bytes).for_each(|(cell, bytes)| demand[cell] += bytes);
    }
    demand
}

/// The two diagonals of a distance share its switches by their own bytes.
#[test]
fn diagonals_share_switches_by_bytes() {
    let plan = |parts: &[(usize, u64)], switches| {
        xnest_plan(&shifts(5, parts), 5, Reading::Diagonals, SwitchRule::Greedy, switches, None)
            .unwrap()
    };
    let even = plan(&[(1, 10), (4, 10)], 2);
    assert_eq!((even.weights, even.settings), (vec![100, 0], vec![(0, 0), (0, 1)]));
    let skewed = plan(&[(1, 30), (4, 10)], 4);
    let of_first = skewed.settings.iter().filter(|&&setting| setting == (0, 0)).count();
    assert_eq!((of_first, skewed.counts), (3, vec![4, 0]));
}

/// Two copies of each of two settings: one of each turns at a time.
#[test]
fn copies_of_a_setting_turn_one_after_the_other() {
    let demand = shifts(4, &[(1, 10), (2, 10)]);
    let plan = xnest_plan(&demand, 4, Reading::Diagonals, SwitchRule::Greedy, 4, None).unwrap();
    assert_eq!(plan.phases, [vec![0, 1], vec![2, 3]]);
    let mut halves = [plan.settings[..2].to_vec(), plan.settings[2..].to_vec()];
    for half in &mut halves {
        half.sort_unstable();
    }
    assert!(halves.iter().all(|half| half[0] != half[1]), "{:?}", plan.settings);
    let odd = xnest_plan(&demand, 4, Reading::Diagonals, SwitchRule::Greedy, 3, None).unwrap();
    assert_eq!(odd.phases, [vec![0, 1], vec![2]]);
}

#[test]
fn the_first_half_of_three_switches_are_two() {
    let sizes = Epochs { nodes: 4, switches: 3, epoch: 100, delay: 1 };
    let held = [(1, 0); 3];
    let step = |turning| {
        let demand = shifts(4, &[(1, 10)]);
        xnest_step(&demand, &held, &sizes, Reading::Diagonals, turning, None).unwrap()
    };
    assert_eq!(step(Turning::First).switches.turned, [true, true, false]);
    assert_eq!(step(Turning::Second).switches.turned, [false, false, true]);
    assert_eq!(step(Turning::All).switches.turned, [true; 3]);
}

/// What is wanted again stays where it is, whichever switch holds it.
#[test]
fn settings_that_are_wanted_again_stay_in_place() {
    let sizes = Epochs { nodes: 4, switches: 2, epoch: 100, delay: 1 };
    let demand = shifts(4, &[(1, 10), (2, 30)]);
    for held in [[(0, 0), (1, 0)], [(1, 0), (0, 0)]] {
        let found =
            xnest_step(&demand, &held, &sizes, Reading::Diagonals, Turning::All, None).unwrap();
        assert_eq!((found.settings, found.switches.turned), (held.to_vec(), vec![false; 2]));
    }
}
