//! What the checkers of matchings say of proofs that are wrong in one way, and limits of weights.

use lightloom_schedule::matching::{
    Assignment, Blossom, GeneralMatching, MAX_SIZE, MAX_WEIGHT, NONE, assign, check_assignment,
    check_general, match_general,
};

/// One row, one column, weight 5.
fn single() -> Assignment {
    Assignment { column_of: vec![0], weight: 5, row_duals: vec![5], column_duals: vec![0] }
}

fn refusal(rows: usize, columns: usize, weights: &[i64], found: &Assignment) -> String {
    check_assignment(rows, columns, weights, found).unwrap_err().to_string()
}

#[test]
fn a_proof_covers_each_cell_and_has_the_value_of_the_matching() {
    check_assignment(1, 1, &[5], &single()).unwrap();
    let text = refusal(1, 1, &[5], &Assignment { row_duals: vec![4], ..single() });
    assert_eq!(text, "the duals of row 0 and column 0 are low");
    let text = refusal(1, 1, &[5], &Assignment { row_duals: vec![6], ..single() });
    assert_eq!(text, "the matching has weight 5, stated 5, proved 6");
    let text = refusal(1, 1, &[5], &Assignment { weight: 6, ..single() });
    assert_eq!(text, "the matching has weight 5, stated 6, proved 5");
    let below = Assignment { row_duals: vec![6], column_duals: vec![-1], ..single() };
    assert_eq!(refusal(1, 1, &[5], &below), "a dual is -1, below 0");
}

#[test]
fn results_have_the_size_of_their_weights() {
    for found in
        [Assignment { row_duals: vec![], ..single() }, Assignment { column_of: vec![], ..single() }]
    {
        assert_eq!(refusal(1, 1, &[5], &found), "1 rows in the weights but 0 in the result");
    }
    let long = Assignment { row_duals: vec![5, 0], ..single() };
    assert_eq!(refusal(1, 1, &[5], &long), "1 rows in the weights but 2 in the result");
    let wide = Assignment { column_duals: vec![0, 0], ..single() };
    assert_eq!(refusal(1, 1, &[5], &wide), "1 columns in the weights but 2 in the result");
}

#[test]
fn a_column_is_taken_once() {
    let both = Assignment {
        column_of: vec![0, 0],
        weight: 10,
        row_duals: vec![5, 5],
        column_duals: vec![0],
    };
    assert_eq!(refusal(2, 1, &[5, 5], &both), "row 1 is matched to 0, which is taken");
    let beyond = Assignment { column_of: vec![1], ..single() };
    assert_eq!(refusal(1, 1, &[5], &beyond), "row 0 is matched to 1, which is taken");
}

/// A triangle of equal weights: one pair, proved by its odd set.
fn triangle() -> ([i64; 9], GeneralMatching) {
    let blossoms = vec![Blossom { members: vec![0, 1, 2], dual: 2 }];
    let found =
        GeneralMatching { mate: vec![1, 0, NONE], weight: 2, doubled_duals: vec![0; 3], blossoms };
    ([0, 2, 2, 2, 0, 2, 2, 2, 0], found)
}

#[test]
fn odd_sets_are_odd_and_count_each_vertex_once() {
    let (weights, good) = triangle();
    check_general(3, &weights, &good).unwrap();
    let refused = |blossom: Blossom| {
        let found = GeneralMatching { blossoms: vec![blossom], ..good.clone() };
        check_general(3, &weights, &found).unwrap_err().to_string()
    };
    for members in [vec![0, 1], vec![0, 1, 1], vec![0, 1, 3], vec![]] {
        let text = format!("{members:?} is no odd set of vertices");
        assert_eq!(refused(Blossom { members, dual: 2 }), text);
    }
    let low = "the duals of vertices 0 and 1 are low";
    assert_eq!(refused(Blossom { members: vec![0, 1, 2], dual: 1 }), low);
    assert_eq!(refused(Blossom { members: vec![0], dual: 2 }), low);
    // Of one vertex a dual covers nothing and proves nothing, whatever it is.
    let mut extra = good.clone();
    extra.blossoms.push(Blossom { members: vec![1], dual: -1 });
    let text = check_general(3, &weights, &extra).unwrap_err().to_string();
    assert_eq!(text, "a dual is -1, below 0");
}

#[test]
fn mates_are_matched_in_turn() {
    let (weights, good) = triangle();
    for (mate, text) in [
        (vec![0, NONE, NONE], "vertex 0 is matched to 0, not in turn"),
        (vec![1, 2, 0], "vertex 0 is matched to 1, not in turn"),
        (vec![3, NONE, NONE], "vertex 0 is matched to 3, not in turn"),
    ] {
        let found = GeneralMatching { mate, ..good.clone() };
        assert_eq!(check_general(3, &weights, &found).unwrap_err().to_string(), text);
    }
}

#[test]
fn the_diagonal_of_pairs_is_ignored() {
    let plain = match_general(4, &[0, 3, 9, 1, 3, 0, 2, 8, 9, 2, 0, 4, 1, 8, 4, 0]).unwrap();
    let marked = match_general(4, &[90, 3, 9, 1, 3, 70, 2, 8, 9, 2, 1, 4, 1, 8, 4, 99]).unwrap();
    assert_eq!((plain.mate.as_slice(), plain.weight), (&[2, 3, 0, 1][..], 17));
    assert_eq!(marked, plain);
    assert_eq!(match_general(2, &[9, 0, 0, 9]).unwrap().mate, [NONE; 2]);
}

#[test]
fn every_pair_has_one_weight() {
    for (one, other) in [(1, 0), (2, 0), (2, 1), (3, 2)] {
        let mut weights = [0; 16];
        weights[one * 4 + other] = 1;
        let text = match_general(4, &weights).unwrap_err().to_string();
        assert_eq!(text, format!("weights of ({one}, {other}) and ({other}, {one}) differ"));
    }
}

#[test]
fn weights_are_limited_in_size_and_number() {
    for weight in [MAX_WEIGHT, -MAX_WEIGHT] {
        assert_eq!(assign(1, 1, &[weight]).unwrap().weight, i128::from(weight.max(0)));
        let text = assign(1, 1, &[weight + weight.signum()]).unwrap_err().to_string();
        assert!(text.ends_with("at (0, 0) is beyond 2^60"), "{text}");
    }
    for (rows, columns) in [(1, MAX_SIZE + 1), (MAX_SIZE + 1, 1)] {
        let text = assign(rows, columns, &[]).unwrap_err().to_string();
        assert_eq!(text, format!("a matrix of {rows} x {columns}: at most 16384 a side"));
    }
    let row = vec![1; MAX_SIZE];
    assert_eq!(assign(1, MAX_SIZE, &row).unwrap().weight, 1);
}
