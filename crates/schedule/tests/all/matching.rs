//! Matchings of largest weight: proved by their duals, and equal to brute force where that can be.

use crate::common::cases::Random;
use lightloom_schedule::matching::{
    MAX_WEIGHT, NONE, assign, check_assignment, check_general, match_general,
};
use proptest::prelude::*;

/// Best sum over all ways to match the rows from `row` on to columns that are free.
fn brute_assign(columns: usize, weights: &[i64], row: usize, taken: u32) -> i64 {
    if (row + 1) * columns > weights.len() || columns == 0 {
        return 0;
    }
    let alone = brute_assign(columns, weights, row + 1, taken);
    let with = (0..columns).filter(|column| taken >> column & 1 == 0).map(|column| {
        weights[row * columns + column]
            + brute_assign(columns, weights, row + 1, taken | 1 << column)
    });
    with.fold(alone, i64::max)
}

fn brute_general(n: usize, weights: &[i64], taken: u32) -> i64 {
    let Some(one) = (0..n).find(|vertex| taken >> vertex & 1 == 0) else { return 0 };
    let taken = taken | 1 << one;
    let with = (one + 1..n)
        .filter(|other| taken >> other & 1 == 0)
        .map(|other| weights[one * n + other] + brute_general(n, weights, taken | 1 << other));
    with.fold(brute_general(n, weights, taken), i64::max)
}

fn symmetric(n: usize, mut weight: impl FnMut(usize, usize) -> i64) -> Vec<i64> {
    let mut weights = vec![0; n * n];
    for one in 0..n {
        for other in 0..one {
            let own = weight(other, one);
            weights[one * n + other] = own;
            weights[other * n + one] = own;
        }
    }
    weights
}

fn proved_general(n: usize, weights: &[i64]) -> i128 {
    let found = match_general(n, weights).unwrap();
    check_general(n, weights, &found).unwrap();
    for (vertex, &mate) in found.mate.iter().enumerate() {
        assert!(mate == NONE || weights[vertex * n + mate as usize] > 0);
    }
    found.weight
}

fn proved_assignment(rows: usize, columns: usize, weights: &[i64]) -> i128 {
    let found = assign(rows, columns, weights).unwrap();
    check_assignment(rows, columns, weights, &found).unwrap();
    for (row, &column) in found.column_of.iter().enumerate() {
        assert!(column == NONE || weights[row * columns + column as usize] > 0);
    }
    found.weight
}

fn weight() -> impl Strategy<Value = i64> {
    prop_oneof![
        2 => Just(0_i64),
        3 => 0..4_i64,
        3 => -5..20_i64,
        1 => 0..1_000_000_i64,
        1 => Just(MAX_WEIGHT),
        1 => Just(MAX_WEIGHT - 1),
        1 => Just(-MAX_WEIGHT),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]

    #[test]
    fn assignments_are_optimal(
        (rows, columns, weights) in (0..5_usize, 0..5_usize).prop_flat_map(|(rows, columns)| {
            let cells = prop::collection::vec(weight(), rows * columns);
            (Just(rows), Just(columns), cells)
        })
    ) {
        // MAX_WEIGHT four times still fits
        let found = proved_assignment(rows, columns, &weights);
        prop_assert_eq!(found, i128::from(brute_assign(columns, &weights, 0, 0)));
    }

    #[test]
    fn pairs_are_optimal(
        (n, cells) in (0..9_usize)
            .prop_flat_map(|n| (Just(n), prop::collection::vec(weight(), n * n)))
    ) {
        let weights = symmetric(n, |one, other| cells[one * n + other]);
        let found = proved_general(n, &weights);
        prop_assert_eq!(found, i128::from(brute_general(n, &weights, 0)));
    }

    #[test]
    fn larger_graphs_are_proved(seed in 1..u64::MAX, n in 9..40_usize, kind in 0..5) {
        let mut random = Random(seed);
        let weights = symmetric(n, |one, other| drawn(kind, one, other, &mut random));
        proved_general(n, &weights);
        proved_assignment(n, n, &weights);
        proved_assignment(n - 7, n, &weights[..(n - 7) * n]);
        proved_assignment(n + 3, n, &[&weights[..], &weights[..3 * n]].concat());
    }

    #[test]
    fn new_names_change_no_value(seed in 1..u64::MAX, n in 2..14_usize) {
        let mut random = Random(seed);
        let weights = symmetric(n, |_, _| (9.0 * random.uniform()) as i64);
        let mut order: Vec<usize> = (0..n).collect();
        for i in (1..n).rev() {
            order.swap(i, (random.uniform() * (i + 1) as f64) as usize);
        }
        let renamed = symmetric(n, |one, other| weights[order[one] * n + order[other]]);
        prop_assert_eq!(proved_general(n, &weights), proved_general(n, &renamed));
        prop_assert_eq!(proved_assignment(n, n, &weights), proved_assignment(n, n, &renamed));
    }
}

/// Many ties, few values, sparse edges, hot vertices, lengths on a line (deep blossoms).
fn drawn(kind: i32, one: usize, other: usize, random: &mut Random) -> i64 {
    let draw = random.uniform();
    let (one, other) = (i64::try_from(one).unwrap(), i64::try_from(other).unwrap());
    match kind {
        0 => i64::from(draw < 0.3),
        1 => (4.0 * draw) as i64,
        2 => (1e15 * draw.powi(6)) as i64,
        3 => 1_000_000 / (one + 1) / (other + 1) + (10.0 * draw) as i64,
        _ => 1_000 - 25 * (other - one) + (30.0 * draw) as i64,
    }
}

#[test]
fn odd_cycles_leave_one_alone() {
    for n in [3, 5, 7, 21, 101] {
        let ring =
            symmetric(n, |one, other| i64::from(other - one == 1 || other - one == n - 1) * 6);
        assert_eq!(proved_general(n, &ring), 6 * (n as i128 / 2));
        let complete = symmetric(n, |_, _| 7);
        assert_eq!(proved_general(n, &complete), 7 * (n as i128 / 2));
    }
}

/// The cases of van Rantwijk's test suite (mwmatching.py, 2008), whose optima are known: edges and
/// their weights with vertices from 1 on, and the partner of each vertex.
const BLOSSOMS: [(&str, &[usize]); 6] = [
    ("1 2 8, 1 3 9, 2 3 10, 3 4 7", &[2, 1, 4, 3]),
    ("1 2 9, 1 3 8, 2 3 10, 1 4 5, 4 5 4, 1 6 3", &[6, 3, 2, 5, 4, 1]),
    ("1 2 9, 1 3 9, 2 3 10, 2 4 8, 3 5 8, 4 5 10, 5 6 6", &[3, 4, 1, 2, 6, 5]),
    (
        "1 2 45, 1 5 45, 2 3 50, 3 4 45, 4 5 50, 1 6 30, 3 9 35, 4 8 35, 5 7 26, 9 10 5",
        &[6, 3, 2, 8, 7, 1, 5, 4, 10, 9],
    ),
    (
        "1 2 40, 1 3 40, 2 3 60, 2 4 55, 3 5 55, 4 5 50, 1 8 15, 5 7 30, 6 7 10, 8 10 10, 4 9 30",
        &[2, 1, 5, 9, 3, 7, 6, 10, 4, 8],
    ),
    (
        "1 2 45, 1 7 45, 2 3 50, 3 4 45, 4 5 95, 4 6 94, 5 6 94, 6 7 50, 1 8 30, 3 11 35, 5 9 36, \
         7 10 26, 11 12 5",
        &[8, 3, 2, 6, 9, 4, 10, 1, 5, 7, 12, 11],
    ),
];

#[test]
fn blossoms_are_shrunk_nested_relabelled_and_opened() {
    for (edges, expected) in BLOSSOMS {
        let n = expected.len();
        let mut weights = vec![0; n * n];
        for edge in edges.split(',') {
            let numbers: Vec<usize> =
                edge.split_whitespace().map(|number| number.parse().unwrap()).collect();
            let (one, other) = (numbers[0] - 1, numbers[1] - 1);
            weights[one * n + other] = i64::try_from(numbers[2]).unwrap();
            weights[other * n + one] = i64::try_from(numbers[2]).unwrap();
        }
        proved_general(n, &weights);
        let mate: Vec<usize> =
            match_general(n, &weights).unwrap().mate.iter().map(|&v| v as usize + 1).collect();
        assert_eq!(mate, expected);
    }
}

#[test]
fn the_checkers_see_what_is_wrong() {
    let weights = symmetric(5, |one, other| i64::from((5 * one as u32 + 3 * other as u32) % 7) + 3);
    let good = match_general(5, &weights).unwrap();
    assert!(!good.blossoms.is_empty());
    let edits: [fn(&mut lightloom_schedule::matching::GeneralMatching); 6] = [
        |found| found.mate.swap(0, 1),
        |found| found.weight += 1,
        |found| found.doubled_duals[0] -= 1,
        |found| found.doubled_duals[4] += 2,
        |found| found.blossoms.clear(),
        |found| {
            found.blossoms[0].members.pop();
        },
    ];
    for (number, edit) in edits.iter().enumerate() {
        let mut wrong = good.clone();
        edit(&mut wrong);
        assert!(check_general(5, &weights, &wrong).is_err(), "edit {number}");
    }
    let good = assign(5, 5, &weights).unwrap();
    let edits: [fn(&mut lightloom_schedule::matching::Assignment); 5] = [
        |found| found.column_of[0] = found.column_of[1],
        |found| found.weight -= 1,
        |found| found.row_duals[0] -= 1,
        |found| found.column_duals[0] += 1,
        |found| {
            found.row_duals[0] += 100;
            found.row_duals[1] -= 100;
        },
    ];
    for (number, edit) in edits.iter().enumerate() {
        let mut wrong = good.clone();
        edit(&mut wrong);
        assert!(check_assignment(5, 5, &weights, &wrong).is_err(), "edit {number}");
    }
}

#[test]
fn wrong_weights_are_refused() {
    let text = assign(2, 3, &[1; 5]).unwrap_err().0;
    assert_eq!(text, "5 weights for a matrix of 2 x 3");
    let text = match_general(2, &[0, 1, 2, 0]).unwrap_err().0;
    assert_eq!(text, "weights of (1, 0) and (0, 1) differ");
    for wrong in [i64::MIN, i64::MAX, MAX_WEIGHT + 1] {
        let text = assign(1, 2, &[0, wrong]).unwrap_err().0;
        assert_eq!(text, format!("weight {wrong} at (0, 1) is beyond 2^60"));
    }
}
