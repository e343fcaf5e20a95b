//! Helios and X-NEST+ epoch by epoch: matchings against brute force, bytes and time by replay.

use crate::common::square::{Square, square};
use lightloom_schedule::epochs::{EpochRun, Epochs, NONE};
use lightloom_schedule::helios::{helios, helios_matchings};
use lightloom_schedule::xnest_plus::{
    Reading, SwitchRule, sub_matrices, switches_for, xnest_plan, xnest_plus,
};
use proptest::prelude::*;

fn sizes(nodes: usize, switches: usize, epoch: u64, delay: u64) -> Epochs {
    Epochs { nodes, switches, epoch, delay }
}

/// What a pairing carries in an epoch, both directions.
fn carried(left: &[u64], matching: &[u32], room: u64) -> u64 {
    let n = matching.len();
    let pairs = matching.iter().enumerate().filter(|pair| *pair.1 != NONE);
    pairs.map(|(from, &to)| left[from * n + to as usize].min(room)).sum()
}

/// The largest sum that any pairing carries.
fn best_pairing(left: &[u64], n: usize, room: u64, taken: u32) -> u64 {
    let Some(one) = (0..n).find(|node| taken >> node & 1 == 0) else { return 0 };
    let taken = taken | 1 << one;
    let mut best = best_pairing(left, n, room, taken);
    for other in (one + 1..n).filter(|node| taken >> node & 1 == 0) {
        let both = left[one * n + other].min(room) + left[other * n + one].min(room);
        best = best.max(both + best_pairing(left, n, room, taken | 1 << other));
    }
    best
}

fn is_duplex(matching: &[u32]) -> bool {
    let pairs = (0..).zip(matching).filter(|pair| *pair.1 != NONE);
    pairs.into_iter().all(|(node, &peer)| peer != node && matching[peer as usize] == node)
}

/// Bytes and time from the matchings alone: room of an epoch, more where a switch stays.
fn replay(square: &Square, sizes: &Epochs, run: &EpochRun) -> (u64, u64) {
    let (mut left, n) = (square.demand.clone(), square.n);
    let (mut length, mut last) = (0, 0);
    for (epoch, matchings) in run.matchings.iter().enumerate() {
        last = 0;
        for (switch, matching) in matchings.iter().enumerate() {
            let stays = epoch > 0 && run.matchings[epoch - 1][switch] == *matching;
            let start = if stays { 0 } else { sizes.delay };
            for (from, &to) in matching.iter().enumerate().filter(|pair| *pair.1 != NONE) {
                let cell = &mut left[from * n + to as usize];
                let sent = (*cell).min(sizes.epoch + sizes.delay - start);
                *cell -= sent;
                last = last.max(if sent > 0 { start + sent } else { start });
            }
        }
        length += sizes.epoch + sizes.delay;
    }
    let spare = if run.matchings.is_empty() { 0 } else { sizes.epoch + sizes.delay - last };
    (left.iter().sum(), length - spare)
}

#[test]
fn two_nodes_take_epochs_of_one_circuit() {
    for (bytes, epoch, delay) in [(100_u64, 100, 7), (101, 100, 7), (300, 40, 5), (1, 9, 0)] {
        let run = helios(&[0, bytes, 0, 0], &sizes(2, 1, epoch, delay)).unwrap();
        // The circuit is set once and carries during later delays, too.
        assert_eq!((run.turned, run.length), (1, delay + bytes), "{bytes} {epoch} {delay}");
        let epochs = (delay + bytes).div_ceil(epoch + delay);
        assert_eq!(run.matchings.len() as u64, epochs);
    }
}

#[test]
fn as_many_switches_as_pairings_serve_equal_demand_in_one_epoch() {
    for n in [2, 4, 6] {
        let square = Square::equal(n, 50);
        let sizes = sizes(n, n - 1, 50, 3);
        let mesh = xnest_plus(&square.demand, &sizes, Reading::Pairings).unwrap();
        assert_eq!((mesh.matchings.len(), mesh.length, mesh.turned), (1, 53, n as u64 - 1));
        assert!((mesh.over_bound(n - 1) - 53.0 / 50.0).abs() < 1e-12);
        // Three pairings of six nodes may leave two triangles, which no two pairings serve.
        if n < 6 {
            let run = helios(&square.demand, &sizes).unwrap();
            assert_eq!((run.matchings.len(), run.length, run.turned), (1, 53, n as u64 - 1));
        }
    }
}

/// Three nodes cannot all be paired: each of three pairings takes an epoch of its own.
#[test]
fn three_nodes_need_three_pairings() {
    let square = Square::equal(3, 20);
    let run = helios(&square.demand, &sizes(3, 1, 20, 4)).unwrap();
    assert_eq!((run.matchings.len(), run.length, run.turned), (3, 72, 3));
    assert!(run.matchings.iter().all(|epoch| epoch[0].iter().filter(|&&p| p == NONE).count() == 1));
    let pairings = xnest_plus(&square.demand, &sizes(3, 1, 20, 4), Reading::Pairings).unwrap();
    assert_eq!((pairings.matchings.len(), pairings.length), (3, 72));
    // The two diagonals together meet everyone.
    let diagonals = xnest_plus(&square.demand, &sizes(3, 2, 20, 4), Reading::Diagonals).unwrap();
    assert_eq!((diagonals.matchings.len(), diagonals.length), (1, 24));
}

/// The definition of X-NEST+'s counts by hand: no switch could move and lower the largest weight.
fn is_balanced(weights: &[u64], counts: &[u32]) -> bool {
    let load = |i: usize, more: u32| weights[i] as f64 / f64::from(counts[i] + more);
    let largest =
        (0..weights.len()).filter(|&i| counts[i] > 0).map(|i| load(i, 0)).fold(0.0, f64::max);
    (0..weights.len()).filter(|&i| counts[i] > 1).all(|i| {
        let after = weights[i] as f64 / f64::from(counts[i] - 1);
        after >= largest * (1.0 - 1e-12)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_helios_matching_is_the_heaviest_of_what_is_left(
        square in square(6, 100),
        switches in 1..4_usize,
        room in 1..120_u64,
    ) {
        let found = helios_matchings(&square.demand, square.n, switches, room).unwrap();
        prop_assert_eq!(found.len(), switches);
        let mut left = square.demand.clone();
        for matching in &found {
            prop_assert!(is_duplex(matching));
            let best = best_pairing(&left, square.n, room, 0);
            prop_assert_eq!(carried(&left, matching, room), best);
            for (from, &to) in matching.iter().enumerate().filter(|pair| *pair.1 != NONE) {
                let cell = &mut left[from * square.n + to as usize];
                *cell = cell.saturating_sub(room);
            }
        }
    }

    #[test]
    fn epochs_can_be_replayed(
        square in square(6, 100),
        switches in 1..4_usize,
        epoch in 5..120_u64,
        delay in 0..20_u64,
        planner in 0..3,
    ) {
        let sizes = sizes(square.n, switches, epoch, delay);
        let run = match planner {
            0 => helios(&square.demand, &sizes),
            1 => xnest_plus(&square.demand, &sizes, Reading::Pairings),
            _ => xnest_plus(&square.demand, &sizes, Reading::Diagonals),
        }
        .unwrap();
        let (left, length) = replay(&square, &sizes, &run);
        prop_assert_eq!(left, 0);
        prop_assert!(length <= run.length && run.length <= length + delay,
            "{length} replayed, {} stated", run.length);
        prop_assert_eq!(run.largest_line, square.largest_line());
        prop_assert!(run.over_bound(switches) >= 1.0);
        // Each epoch sends at most what all its circuits carry.
        let per_epoch = (switches * square.n) as u64 * (epoch + delay);
        prop_assert!(square.sum() <= run.matchings.len() as u64 * per_epoch);
        prop_assert!(run.turned <= (run.matchings.len() * switches) as u64);
    }

    #[test]
    fn all_sizes_scaled_alike_scale_the_length(
        square in square(5, 80),
        epoch in 5..60_u64,
        delay in 0..20_u64,
        factor in 2..6_u64,
    ) {
        let small = helios(&square.demand, &sizes(square.n, 2, epoch, delay)).unwrap();
        let large = sizes(square.n, 2, factor * epoch, factor * delay);
        let large = helios(&square.times(factor).demand, &large).unwrap();
        // Epochs that are long enough for all carry the same weights in both.
        prop_assert_eq!(large.largest_line, factor * small.largest_line);
        let min_epochs = square.largest_line().div_ceil(2 * (epoch + delay));
        prop_assert!(small.matchings.len() as u64 >= min_epochs);
        prop_assert!(large.matchings.len() as u64 >= min_epochs);
    }

    /// Circuits are duplex: demand turned round has pairings of the same weight.
    #[test]
    fn transposed_demand_has_equal_pairings(square in square(6, 100), room in 1..120_u64) {
        let n = square.n;
        let first = |square: &Square| {
            let found = helios_matchings(&square.demand, n, 1, room).unwrap();
            carried(&square.demand, &found[0], room)
        };
        prop_assert_eq!(first(&square), first(&square.transposed()));
        prop_assert_eq!(first(&square), first(&square.turned(1)));
        // More room never carries less.
        let wide = helios_matchings(&square.demand, n, 1, 2 * room).unwrap();
        prop_assert!(carried(&square.demand, &wide[0], 2 * room) >= first(&square));
    }

    /// With one epoch for everything the delay is paid once.
    #[test]
    fn a_longer_delay_is_a_longer_run_if_one_epoch_suffices(
        square in square(6, 50),
        delay in 0..1_000_u64,
    ) {
        let n = square.n;
        let switches = n - 1 + n % 2;
        let at = |delay: u64| {
            xnest_plus(&square.demand, &sizes(n, switches, 50, delay), Reading::Pairings).unwrap()
        };
        let (now, later) = (at(delay), at(delay + 10));
        if now.matchings.len() == 1 {
            prop_assert_eq!(later.length, now.length + 10);
            let largest = square.demand.iter().max().unwrap();
            prop_assert!(now.length <= delay + largest);
        }
    }

    #[test]
    fn switches_follow_the_weights(
        weights in prop::collection::vec(0..60_u64, 1..7),
        switches in 0..14_usize,
    ) {
        let counts = switches_for(&weights, switches);
        prop_assert_eq!(counts.iter().sum::<u32>() as usize, switches);
        prop_assert!(is_balanced(&weights, &counts), "{weights:?} {counts:?}");
        let busy = weights.iter().filter(|&&weight| weight > 0).count();
        for (&weight, &count) in weights.iter().zip(&counts) {
            prop_assert!(weight > 0 || busy == 0 || count == 0, "a switch for nothing");
            prop_assert!(weight == 0 || switches < busy || count > 0, "traffic without a switch");
        }
        // Weights in another unit, one more switch: the same counts, one more somewhere.
        let scaled: Vec<u64> = weights.iter().map(|weight| 1_000 * weight).collect();
        prop_assert_eq!(&switches_for(&scaled, switches), &counts);
        let more = switches_for(&weights, switches + 1);
        prop_assert!(more.iter().zip(&counts).all(|(more, count)| more >= count));
    }

    /// What a sub-matrix is said to carry is what its configurations carry.
    #[test]
    fn the_weights_of_a_plan_divide_the_traffic(
        square in square(7, 1_000),
        switches in 1..8_usize,
        diagonals in any::<bool>(),
    ) {
        let reading = if diagonals { Reading::Diagonals } else { Reading::Pairings };
        let rule = SwitchRule::Greedy;
        let plan = xnest_plan(&square.demand, square.n, reading, rule, switches, None).unwrap();
        prop_assert_eq!(plan.weights.iter().sum::<u64>(), square.sum());
        let matrices = sub_matrices(square.n, reading);
        prop_assert_eq!(plan.weights.len(), matrices.len());
        for (matrix, &weight) in matrices.iter().zip(&plan.weights) {
            let own: u64 = matrix.iter().map(|one| carried(&square.demand, one, u64::MAX)).sum();
            prop_assert_eq!(own, weight);
        }
        for &(matrix, which) in &plan.settings {
            prop_assert!((which as usize) < matrices[matrix as usize].len());
        }
        prop_assert_eq!(&plan.counts, &switches_for(&plan.weights, switches));
    }
}
