//! Matchings against every permutation and every set of pairs, and proofs from their definition.

use crate::common::cases::Random;
use lightloom_schedule::matching::{
    Assignment, GeneralMatching, NONE, assign, check_assignment, check_general, match_general,
};
use proptest::prelude::*;

/// The largest sum over all sets of pairs, subset by subset.
fn best_pairs(n: usize, weights: &[i64]) -> i64 {
    let mut best = vec![0_i64; 1 << n];
    for set in 1_usize..1 << n {
        let one = set.trailing_zeros() as usize;
        let rest = set & (set - 1);
        best[set] = best[rest];
        for other in (one + 1..n).filter(|other| rest >> other & 1 == 1) {
            best[set] = best[set].max(weights[one * n + other] + best[rest & !(1 << other)]);
        }
    }
    best[(1 << n) - 1]
}

/// The largest sum over all permutations; cells below 0 stay alone.
fn best_permutation(n: usize, weights: &[i64], row: usize, taken: usize) -> i64 {
    if row == n {
        return 0;
    }
    let free = (0..n).filter(|column| taken >> column & 1 == 0);
    let with = free.map(|column| {
        let own = weights[row * n + column].max(0);
        own + best_permutation(n, weights, row + 1, taken | 1 << column)
    });
    with.max().unwrap_or(0)
}

fn assigned(rows: usize, columns: usize, weights: &[i64]) -> Assignment {
    let found = assign(rows, columns, weights).unwrap();
    check_assignment(rows, columns, weights, &found).unwrap();
    found
}

fn matched(n: usize, weights: &[i64]) -> GeneralMatching {
    let found = match_general(n, weights).unwrap();
    check_general(n, weights, &found).unwrap();
    found
}

fn symmetric(n: usize, mut weight: impl FnMut(usize, usize) -> i64) -> Vec<i64> {
    let mut weights = vec![0; n * n];
    for one in 0..n {
        for other in one + 1..n {
            let own = weight(one, other);
            weights[one * n + other] = own;
            weights[other * n + one] = own;
        }
    }
    weights
}

fn transposed(rows: usize, columns: usize, weights: &[i64]) -> Vec<i64> {
    (0..rows * columns).map(|cell| weights[cell % rows * columns + cell / rows]).collect()
}

fn random_cells(count: usize, random: &mut Random) -> Vec<i64> {
    (0..count).map(|_| (40.0 * random.uniform()) as i64 - 8).collect()
}

/// Products of sorted factors: alike with alike is best (the rearrangement inequality).
#[test]
fn sorted_products_are_matched_in_order() {
    for n in 1..20_i64 {
        let size = n as usize;
        let weights: Vec<i64> = (0..n * n).map(|cell| (cell / n + 1) * (cell % n + 1)).collect();
        let found = assigned(size, size, &weights);
        assert_eq!(found.weight, (1..=i128::from(n)).map(|i| i * i).sum::<i128>());
        assert_eq!(found.column_of, (0..n as u32).collect::<Vec<_>>());
    }
}

/// Weights that are sums of a row's and a column's part: every perfect matching is as heavy.
#[test]
fn sums_of_parts_add_up() {
    for n in [1_i64, 2, 5, 12] {
        let weights: Vec<i64> =
            (0..n * n).map(|cell| 3 * (cell / n) + 7 * (cell % n) + 1).collect();
        let expected = i128::from(n * (n - 1) / 2 * 10 + n);
        assert_eq!(assigned(n as usize, n as usize, &weights).weight, expected);
        let pairs = symmetric(n as usize, |one, other| i64::from((one + other) as u32) + 1);
        if n % 2 == 0 {
            let expected = i128::from(n * (n - 1) / 2 + n / 2);
            assert_eq!(matched(n as usize, &pairs).weight, expected);
        }
    }
}

/// A path of equal edges: every second one; with one heavy edge, that one and its sides.
#[test]
fn paths_take_every_second_edge() {
    for n in 2..20_usize {
        let path = symmetric(n, |one, other| i64::from(other == one + 1) * 10);
        assert_eq!(matched(n, &path).weight, 10 * (n as i128 / 2));
    }
    let heavy = symmetric(4, |one, other| if other == one + 1 { [10, 21, 10][one] } else { 0 });
    assert_eq!(matched(4, &heavy).mate, [NONE, 2, 1, NONE]);
    let light = symmetric(4, |one, other| if other == one + 1 { [10, 19, 10][one] } else { 0 });
    assert_eq!(matched(4, &light).mate, [1, 0, 3, 2]);
}

#[test]
fn nothing_is_matched_at_no_weight() {
    for weight in [0, -1, -100] {
        assert_eq!(assigned(3, 4, &[weight; 12]).column_of, [NONE; 3]);
        assert_eq!(matched(4, &symmetric(4, |_, _| weight)).mate, [NONE; 4]);
    }
}

/// Three vertices, all pairs of one weight: half of it for each cannot be proved without the set.
#[test]
fn a_triangle_is_proved_by_its_odd_set() {
    let weights = symmetric(3, |_, _| 6);
    let found = matched(3, &weights);
    assert_eq!(found.weight, 6);
    assert_eq!(found.blossoms.len(), 1);
    assert_eq!(found.blossoms[0].members, [0, 1, 2]);
    let mut without = found.clone();
    without.blossoms.clear();
    assert!(check_general(3, &weights, &without).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn assignments_are_the_best_permutations(seed in 1..u64::MAX, n in 1..7_usize) {
        let weights = random_cells(n * n, &mut Random(seed));
        let best = best_permutation(n, &weights, 0, 0);
        prop_assert_eq!(assigned(n, n, &weights).weight, i128::from(best));
    }

    #[test]
    fn pairs_are_the_best_of_all_sets(seed in 1..u64::MAX, n in 1..11_usize) {
        let mut random = Random(seed);
        let weights = symmetric(n, |_, _| (40.0 * random.uniform()) as i64 - 8);
        prop_assert_eq!(matched(n, &weights).weight, i128::from(best_pairs(n, &weights)));
    }

    /// Complementary slackness: matched cells are tight, and who is alone has dual 0.
    #[test]
    fn matched_cells_are_tight(seed in 1..u64::MAX, rows in 1..9_usize, columns in 1..9_usize) {
        let weights = random_cells(rows * columns, &mut Random(seed));
        let found = assigned(rows, columns, &weights);
        let mut alone = vec![true; columns];
        for (row, &column) in found.column_of.iter().enumerate() {
            if column == NONE {
                prop_assert_eq!(found.row_duals[row], 0);
                continue;
            }
            let place = column as usize;
            alone[place] = false;
            let duals = found.row_duals[row] + found.column_duals[place];
            prop_assert_eq!(duals, weights[row * columns + place]);
        }
        for column in (0..columns).filter(|&column| alone[column]) {
            prop_assert_eq!(found.column_duals[column], 0);
        }
    }

    /// Rows and columns are alike, and so are the two sides of a graph of pairs.
    #[test]
    fn both_sides_are_alike(seed in 1..u64::MAX, rows in 1..8_usize, columns in 1..8_usize) {
        let weights = random_cells(rows * columns, &mut Random(seed));
        let found = assigned(rows, columns, &weights).weight;
        let turned = transposed(rows, columns, &weights);
        prop_assert_eq!(assigned(columns, rows, &turned).weight, found);
        let pairs = symmetric(rows + columns, |one, other| {
            if one < rows && other >= rows { weights[one * columns + other - rows] } else { 0 }
        });
        prop_assert_eq!(matched(rows + columns, &pairs).weight, found);
    }

    #[test]
    fn scaled_weights_scale_the_matching(seed in 1..u64::MAX, n in 1..9_usize, by in 2..9_i64) {
        let mut random = Random(seed);
        let weights = symmetric(n, |_, _| (40.0 * random.uniform()) as i64 - 8);
        let scaled: Vec<i64> = weights.iter().map(|weight| by * weight).collect();
        prop_assert_eq!(matched(n, &scaled).weight, i128::from(by) * matched(n, &weights).weight);
        let (one, other) = (assigned(n, n, &weights).weight, assigned(n, n, &scaled).weight);
        prop_assert_eq!(other, i128::from(by) * one);
    }

    /// A vertex more never makes a matching lighter, and adds its heaviest pair at most.
    #[test]
    fn a_vertex_more_adds_its_heaviest_pair_at_most(seed in 1..u64::MAX, n in 2..10_usize) {
        let mut random = Random(seed);
        let weights = symmetric(n, |_, _| (40.0 * random.uniform()) as i64 - 8);
        let fewer = symmetric(n - 1, |one, other| weights[one * n + other]);
        let (all, rest) = (matched(n, &weights).weight, matched(n - 1, &fewer).weight);
        let heaviest = weights[(n - 1) * n..].iter().copied().max().unwrap_or(0).max(0);
        prop_assert!(rest <= all && all <= rest + i128::from(heaviest));
    }
}
