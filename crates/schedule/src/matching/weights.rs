//! Weights of a matching: their limits, and nobody.

use lightloom_model::Invalid;

/// Nobody.
pub const NONE: u32 = u32::MAX;

/// Largest weight, either sign: sums of a few stay within 64 bits.
pub const MAX_WEIGHT: i64 = 1 << 60;

/// Maximum number of rows, columns or vertices.
pub const MAX_SIZE: usize = 1 << 14;

/// Checks the size of a matrix and of its weights.
pub(super) fn check_weights(rows: usize, columns: usize, weights: &[i64]) -> Result<(), Invalid> {
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
