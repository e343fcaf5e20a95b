//! Sums over vectors, written so that the compiler can use vector instructions.

/// Partial sums that a dot product keeps, so that one addition does not wait for the last.
const LANES: usize = 8;

/// Rows that are combined in one pass over the result.
const ROWS: usize = 4;

/// The dot product of two vectors of one length.
pub(crate) fn dot(left: &[f64], right: &[f64]) -> f64 {
    debug_assert_eq!(left.len(), right.len());
    let mut sums = [0.0; LANES];
    let (left_chunks, right_chunks) = (left.chunks_exact(LANES), right.chunks_exact(LANES));
    let rest: f64 = (left_chunks.remainder().iter())
        .zip(right_chunks.remainder())
        .map(|(one, other)| one * other)
        .sum();
    for (ones, others) in left_chunks.zip(right_chunks) {
        for lane in 0..LANES {
            sums[lane] += ones[lane] * others[lane];
        }
    }
    sums.iter().sum::<f64>() + rest
}

/// Adds multiples of rows to a vector: one factor per row.
pub(crate) fn add_rows<'a>(total: &mut [f64], factors: &[f64], rows: impl Fn(usize) -> &'a [f64]) {
    let whole = factors.len() / ROWS * ROWS;
    for first in (0..whole).step_by(ROWS) {
        let length = total.len();
        let row = |index: usize| &rows(first + index)[..length];
        let (one, two, three, four) = (row(0), row(1), row(2), row(3));
        let factor = &factors[first..first + ROWS];
        for place in 0..length {
            total[place] += factor[0] * one[place]
                + factor[1] * two[place]
                + factor[2] * three[place]
                + factor[3] * four[place];
        }
    }
    for (index, &factor) in factors.iter().enumerate().skip(whole) {
        for (sum, &value) in total.iter_mut().zip(rows(index)) {
            *sum += factor * value;
        }
    }
}

/// Sum of absolute differences.
pub(crate) fn distance(left: &[f64], right: &[f64]) -> f64 {
    left.iter().zip(right).map(|(one, other)| (one - other).abs()).sum()
}

/// Solves `A x = b` for a symmetric positive definite `A`, row after row, by elimination without
/// pivots (Cholesky's); only the upper triangle of `A` is used. `A` is overwritten, and `b` becomes
/// `x`.
///
/// Returns `false`, and leaves `b` in no useful state, if `A` is not positive definite.
#[must_use]
pub(crate) fn solve_positive(matrix: &mut [f64], vector: &mut [f64]) -> bool {
    let size = vector.len();
    for row in 0..size {
        let (lead, below) = matrix[row * size..].split_at_mut(size);
        let lead = &lead[row..];
        let pivot = lead[0];
        if pivot.is_nan() || pivot <= 0.0 {
            return false;
        }
        let value = vector[row];
        for (index, lower) in below.chunks_exact_mut(size).enumerate() {
            let factor = lead[index + 1] / pivot;
            for (entry, upper) in lower[row + 1 + index..].iter_mut().zip(&lead[index + 1..]) {
                *entry -= factor * upper;
            }
            vector[row + 1 + index] -= factor * value;
        }
    }
    for row in (0..size).rev() {
        let (lead, solved) = (&matrix[row * size..(row + 1) * size], &vector[row + 1..]);
        let rest: f64 = lead[row + 1..].iter().zip(solved).map(|(one, other)| one * other).sum();
        vector[row] = (vector[row] - rest) / lead[row];
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn vectors(rows: usize, size: usize) -> impl Strategy<Value = Vec<Vec<f64>>> {
        prop::collection::vec(prop::collection::vec(-1.0..1.0, size), rows)
    }

    proptest! {
        #[test]
        fn sums_are_those_of_the_definition(size in 0_usize..40, seed in vectors(7, 40)) {
            let rows: Vec<&[f64]> = seed.iter().map(|row| &row[..size]).collect();
            let plain: f64 = rows[0].iter().zip(rows[1]).map(|(one, other)| one * other).sum();
            prop_assert!((dot(rows[0], rows[1]) - plain).abs() < 1e-12);

            for count in 0..6 {
                let factors = &seed[6][..count];
                let mut total = rows[6].to_vec();
                add_rows(&mut total, factors, |index| rows[index]);
                for place in 0..size {
                    let plain: f64 = (0..count).map(|row| factors[row] * rows[row][place]).sum();
                    prop_assert!((total[place] - rows[6][place] - plain).abs() < 1e-12);
                }
            }
        }

        #[test]
        fn a_solution_solves_its_system(size in 1_usize..20, seed in vectors(21, 20)) {
            let entry = |row: usize, column: usize| {
                let product = dot(&seed[row][..size], &seed[column][..size]);
                product + if row == column { 0.1 } else { 0.0 }
            };
            let mut matrix: Vec<f64> =
                (0..size * size).map(|place| entry(place / size, place % size)).collect();
            let before = matrix.clone();
            let mut solution = seed[20][..size].to_vec();
            prop_assert!(solve_positive(&mut matrix, &mut solution));
            for row in 0..size {
                let side = dot(&before[row * size..(row + 1) * size], &solution);
                prop_assert!((side - seed[20][row]).abs() < 1e-9);
            }
        }
    }

    #[test]
    fn an_indefinite_matrix_has_no_solution() {
        assert!(!solve_positive(&mut [1.0, 2.0, 2.0, 1.0], &mut [1.0, 1.0]));
        assert!(!solve_positive(&mut [f64::NAN], &mut [1.0]));
    }
}
