//! Bipartite matching of largest weight: rows are added one by one along shortest paths.
//!
//! The method of successive shortest paths (Tomizawa, 1971; Jonker and Volgenant, 1987), with
//! duals that are never negative, as rows and columns may stay alone. It keeps
//!
//! - row dual + column dual >= weight for every cell, with equality where matched;
//! - dual 0 of every column that is alone, and of every row that was added and is alone.
//!
//! A new row takes the dual at which its best cell is tight. If that column is taken, Dijkstra's
//! algorithm over the slacks finds the cheapest way to make room: up to a free column, or to a row
//! that gives up (at the price of its dual).

use super::weights::{NONE, check_weights};
use lightloom_model::Invalid;

/// A matching of rows and columns, and its proof.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    /// Column of each row; [`NONE`] if alone.
    pub column_of: Vec<u32>,
    /// Sum of the weights.
    pub weight: i128,
    /// Dual of each row; together with `column_duals` their sum is `weight`.
    pub row_duals: Vec<i64>,
    /// Dual of each column.
    pub column_duals: Vec<i64>,
}

/// Finds a matching of largest weight; `weights` is rows x columns, row by row.
///
/// # Errors
/// If sizes do not fit or a weight is beyond [`super::MAX_WEIGHT`].
pub fn assign(rows: usize, columns: usize, weights: &[i64]) -> Result<Assignment, Invalid> {
    check_weights(rows, columns, weights)?;
    if rows <= columns {
        return Ok(Paths::new(rows, columns, weights).solve());
    }
    // Fewer searches: the shorter side is added.
    let flipped: Vec<i64> =
        (0..columns * rows).map(|cell| weights[cell % rows * columns + cell / rows]).collect();
    let assignment = Paths::new(columns, rows, &flipped).solve();
    let mut column_of = vec![NONE; rows];
    for (column, &row) in (0..).zip(&assignment.column_of) {
        if row != NONE {
            column_of[row as usize] = column;
        }
    }
    Ok(Assignment {
        column_of,
        weight: assignment.weight,
        row_duals: assignment.column_duals,
        column_duals: assignment.row_duals,
    })
}

struct Paths<'a> {
    columns: usize,
    weights: &'a [i64],
    column_of: Vec<u32>,
    row_of: Vec<u32>,
    row_duals: Vec<i64>,
    column_duals: Vec<i64>,
    /// Length of the shortest path to each column in the present search.
    distance: Vec<i64>,
    /// The row before each column on it.
    before: Vec<u32>,
    /// Columns that the search has not settled, then those it has, in order.
    order: Vec<u32>,
}

/// Where a path ends: at a free column, or at a row that gives up.
enum End {
    Column(usize),
    Row(usize),
}

impl<'a> Paths<'a> {
    fn new(rows: usize, columns: usize, weights: &'a [i64]) -> Self {
        Self {
            columns,
            weights,
            column_of: vec![NONE; rows],
            row_of: vec![NONE; columns],
            row_duals: vec![0; rows],
            column_duals: vec![0; columns],
            distance: vec![0; columns],
            before: vec![0; columns],
            order: (0..columns as u32).collect(),
        }
    }

    fn solve(mut self) -> Assignment {
        for row in 0..self.column_of.len() {
            self.add(row);
        }
        let mut weight = 0;
        for (row, column) in self.column_of.iter_mut().enumerate() {
            if *column != NONE {
                let pair_weight = self.weights[row * self.columns + *column as usize];
                weight += i128::from(pair_weight.max(0));
                // Tight at 0 or less: both duals are 0, either may be alone.
                *column = if pair_weight > 0 { *column } else { NONE };
            }
        }
        Assignment {
            column_of: self.column_of,
            weight,
            row_duals: self.row_duals,
            column_duals: self.column_duals,
        }
    }

    fn weights_of(&self, row: usize) -> &'a [i64] {
        &self.weights[row * self.columns..(row + 1) * self.columns]
    }

    fn add(&mut self, row: usize) {
        let needs = self.weights_of(row).iter().zip(&self.column_duals).map(|(w, dual)| w - dual);
        let (mut best, mut column) = (0, NONE);
        for (need, index) in needs.zip(0..) {
            // A free column saves the search.
            let free = need == best && column != NONE && self.row_of[index as usize] == NONE;
            if need > best || (free && self.row_of[column as usize] != NONE) {
                (best, column) = (need, index);
            }
        }
        self.row_duals[row] = best;
        if column == NONE {
            return;
        }
        if self.row_of[column as usize] == NONE {
            self.column_of[row] = column;
            self.row_of[column as usize] = row as u32;
            return;
        }
        let (end, length, settled) = self.search(row);
        self.shift_duals(row, length, settled);
        self.flip(row, &end);
    }

    /// Dijkstra's algorithm; returns the end of the cheapest path, its length, and the number of
    /// columns before it.
    fn search(&mut self, start: usize) -> (End, i64, usize) {
        self.distance.fill(i64::MAX);
        let (mut row, mut reached) = (start, 0);
        let mut give_up = (self.row_duals[start], start);
        for settled in 0..self.columns {
            let nearest = self.relax(row, reached, settled);
            let column = self.order[nearest] as usize;
            reached = self.distance[column];
            if give_up.0 <= reached {
                return (End::Row(give_up.1), give_up.0, settled);
            }
            if self.row_of[column] == NONE {
                return (End::Column(column), reached, settled);
            }
            self.order.swap(settled, nearest);
            row = self.row_of[column] as usize;
            give_up = give_up.min((reached + self.row_duals[row], row));
        }
        (End::Row(give_up.1), give_up.0, self.columns)
    }

    /// Takes the cells of a row into account; returns the place of the nearest open column.
    fn relax(&mut self, row: usize, reached: i64, settled: usize) -> usize {
        let weights = self.weights_of(row);
        let offset = reached + self.row_duals[row];
        let (mut shortest, mut nearest) = (i64::MAX, settled);
        for place in settled..self.columns {
            let column = self.order[place] as usize;
            let length = offset + self.column_duals[column] - weights[column];
            if length < self.distance[column] {
                self.distance[column] = length;
                self.before[column] = row as u32;
            }
            let length = self.distance[column];
            let frees = length == shortest && self.row_of[column] == NONE;
            if length < shortest || frees {
                (shortest, nearest) = (length, place);
            }
        }
        nearest
    }

    /// Makes the path tight and keeps all other cells covered.
    fn shift_duals(&mut self, start: usize, length: i64, settled: usize) {
        self.row_duals[start] -= length;
        for &column in &self.order[..settled] {
            let shift = length - self.distance[column as usize];
            self.column_duals[column as usize] += shift;
            self.row_duals[self.row_of[column as usize] as usize] -= shift;
        }
    }

    fn flip(&mut self, start: usize, end: &End) {
        let mut column = match *end {
            End::Column(column) => column,
            End::Row(row) if row == start => return,
            End::Row(row) => std::mem::replace(&mut self.column_of[row], NONE) as usize,
        };
        loop {
            let row = self.before[column];
            self.row_of[column] = row;
            let next = std::mem::replace(&mut self.column_of[row as usize], column as u32);
            if row as usize == start {
                return;
            }
            column = next as usize;
        }
    }
}
