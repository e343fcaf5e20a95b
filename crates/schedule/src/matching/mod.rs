//! Matchings of largest weight, each with a dual that proves it.
//!
//! - [`assign`]: rows to columns (a switch whose transmitters and receivers are set apart);
//! - [`match_general`]: pairs of servers (a switch of duplex circuits);
//! - [`check_assignment`], [`check_general`]: is a result feasible, its dual feasible, and are
//!   the two values equal? Then no matching is heavier (weak duality), whoever made the result.
//!
//! Weights are whole numbers, so that equality is exact. Pairs of weight 0 or less are never
//! matched: a matching need not be perfect. Among matchings of equal weight the choice is
//! deterministic.
//!
//! Leaves out sparse graphs: weights are dense matrices, time is O(n^3), memory O(n^2).

mod assignment;
mod check;
mod forest;
mod general;
mod search;

pub use assignment::{Assignment, assign};
pub use check::{check_assignment, check_general};
pub use general::{Blossom, GeneralMatching, match_general};

use lightloom_model::Invalid;

/// Nobody.
pub const NONE: u32 = u32::MAX;

/// Largest weight, either sign: sums of a few stay within 64 bits.
pub const MAX_WEIGHT: i64 = 1 << 60;

/// Maximum number of rows, columns or vertices.
pub const MAX_SIZE: usize = 1 << 14;

fn check_weights(rows: usize, columns: usize, weights: &[i64]) -> Result<(), Invalid> {
    if rows.max(columns) > MAX_SIZE {
        return Err(Invalid(format!("a matrix of {rows} x {columns}: at most {MAX_SIZE} a side")));
    }
    if weights.len() != rows * columns {
        let given = weights.len();
        return Err(Invalid(format!("{given} weights for a matrix of {rows} x {columns}")));
    }
    let limit = MAX_WEIGHT.unsigned_abs();
    match weights.iter().position(|&weight| weight.unsigned_abs() > limit) {
        Some(cell) => {
            let (row, column, weight) = (cell / columns, cell % columns, weights[cell]);
            let text = format!("weight {weight} at ({row}, {column}) is beyond 2^60");
            Err(Invalid(text))
        }
        None => Ok(()),
    }
}
