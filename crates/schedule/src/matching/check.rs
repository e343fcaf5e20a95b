//! Proof by duality, from the definitions alone.

use super::assignment::Assignment;
use super::general::GeneralMatching;
use super::weights::{NONE, check_weights};
use lightloom_model::Invalid;

/// Checks that rows and columns are matched once each, that the duals cover every cell, and that
/// both values are equal; then no matching is heavier.
///
/// # Errors
/// If not: the first thing that is wrong.
pub fn check_assignment(
    rows: usize,
    columns: usize,
    weights: &[i64],
    assignment: &Assignment,
) -> Result<(), Invalid> {
    check_weights(rows, columns, weights)?;
    let (row_duals, column_duals) = (&assignment.row_duals, &assignment.column_duals);
    check_length("rows", rows, assignment.column_of.len().max(row_duals.len()))?;
    check_length("rows", rows, assignment.column_of.len().min(row_duals.len()))?;
    check_length("columns", columns, column_duals.len())?;
    let mut used = vec![false; columns];
    let mut weight = 0;
    for (row, &column) in assignment.column_of.iter().enumerate().filter(|cell| *cell.1 != NONE) {
        match used.get_mut(column as usize) {
            Some(seen) if !*seen => *seen = true,
            _ => return Err(Invalid(format!("row {row} is matched to {column}, which is taken"))),
        }
        weight += i128::from(weights[row * columns + column as usize]);
    }
    for (row, &dual) in row_duals.iter().enumerate() {
        let cells = weights[row * columns..].iter().zip(column_duals);
        if let Some(column) = { cells }.position(|(&weight, other)| dual + other < weight) {
            return Err(Invalid(format!("the duals of row {row} and column {column} are low")));
        }
    }
    let duals = row_duals.iter().chain(column_duals);
    check_values(weight, assignment.weight, duals.clone().map(|&dual| i128::from(dual)).sum())?;
    check_not_negative(duals)
}

/// As [`check_assignment`] for pairs of vertices; duals of odd sets count, too.
///
/// # Errors
/// If not: the first thing that is wrong.
pub fn check_general(
    vertices: usize,
    weights: &[i64],
    matching: &GeneralMatching,
) -> Result<(), Invalid> {
    check_weights(vertices, vertices, weights)?;
    let duals = &matching.doubled_duals;
    check_length("vertices", vertices, matching.mate.len())?;
    check_length("vertices", vertices, duals.len())?;
    let mut doubled = 0;
    for (vertex, &mate) in (0..).zip(&matching.mate).filter(|pair| *pair.1 != NONE) {
        if mate == vertex || matching.mate.get(mate as usize) != Some(&vertex) {
            return Err(Invalid(format!("vertex {vertex} is matched to {mate}, not in turn")));
        }
        doubled += i128::from(weights[vertex as usize * vertices + mate as usize]);
    }
    let mut value: i128 = duals.iter().map(|&dual| i128::from(dual)).sum();
    let mut cover: Vec<i64> =
        duals.iter().flat_map(|one| duals.iter().map(move |other| one + other)).collect();
    for blossom in &matching.blossoms {
        let mut members = blossom.members.clone();
        members.sort_unstable();
        members.dedup();
        let inside = members.last().is_some_and(|&last| (last as usize) < vertices);
        if !inside || members.len() != blossom.members.len() || members.len() % 2 == 0 {
            return Err(Invalid(format!("{:?} is no odd set of vertices", blossom.members)));
        }
        value += i128::from(blossom.dual) * (members.len() as i128 - 1);
        for &one in &members {
            for &other in &members {
                cover[one as usize * vertices + other as usize] += 2 * blossom.dual;
            }
        }
    }
    let low = (0..vertices * vertices)
        .find(|cell| cell / vertices != cell % vertices && cover[*cell] < 2 * weights[*cell]);
    if let Some(cell) = low {
        let (one, other) = (cell / vertices, cell % vertices);
        return Err(Invalid(format!("the duals of vertices {one} and {other} are low")));
    }
    check_values(doubled, 2 * matching.weight, value)?;
    check_not_negative(duals.iter().chain(matching.blossoms.iter().map(|blossom| &blossom.dual)))
}

fn check_length(name: &str, expected: usize, length: usize) -> Result<(), Invalid> {
    if expected == length {
        return Ok(());
    }
    Err(Invalid(format!("{expected} {name} in the weights but {length} in the result")))
}

fn check_values(primal: i128, stated: i128, dual: i128) -> Result<(), Invalid> {
    if primal == stated && primal == dual {
        return Ok(());
    }
    Err(Invalid(format!("the matching has weight {primal}, stated {stated}, proved {dual}")))
}

fn check_not_negative<'a>(mut duals: impl Iterator<Item = &'a i64>) -> Result<(), Invalid> {
    match duals.find(|dual| **dual < 0) {
        Some(dual) => Err(Invalid(format!("a dual is {dual}, below 0"))),
        None => Ok(()),
    }
}
