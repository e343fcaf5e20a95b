//! One more slot, for what the kept ones are short of.
//!
//! The worth of pairs, the dual of the holds' program, prices any matching: one that is worth more
//! than 1 shortens the sum of holds for every byte that it is held (column generation, Gilmore and
//! Gomory 1961). The one of greatest worth is an assignment problem.

use super::super::assignment::Assignment;
use super::super::demand::Demand;
use super::cover::NOBODY;

/// The column of each row in the matching of greatest worth; nothing if it shortens nothing.
pub(super) fn best_matching(demand: &Demand, worth: &[(usize, f64)]) -> Option<Vec<i32>> {
    let lines = demand.rows.max(demand.columns);
    let mut assignment = Assignment::new(lines);
    for &(cell, worth) in worth {
        assignment.weights[cell / demand.columns * lines + cell % demand.columns] = worth;
    }
    let columns = assignment.solve().to_vec();
    let weight = |row: usize| assignment.weights[row * lines + columns[row]];
    if (0..lines).map(weight).sum::<f64>() <= 1.0 {
        return None;
    }
    let joined = |row| if weight(row) > 0.0 { columns[row] as i32 } else { NOBODY };
    Some((0..demand.rows).map(joined).collect())
}
