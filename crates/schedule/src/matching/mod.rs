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
mod weights;

pub use assignment::{Assignment, assign};
pub use check::{check_assignment, check_general};
pub use general::{Blossom, GeneralMatching, match_general};
pub use weights::{MAX_SIZE, MAX_WEIGHT, NONE};
