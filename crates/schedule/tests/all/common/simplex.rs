//! Linear programs by the simplex method: exact optima of tiny worlds, and their duals.

#![allow(dead_code, reason = "each user takes a part")]

const ZERO: f64 = 1e-10;

/// Maximizes `objective x` where every row has `coefficients x <= bound`, `x >= 0` and no bound is
/// below 0, so that `x = 0` is a start.
pub struct Program {
    pub objective: Vec<f64>,
    pub rows: Vec<Row>,
}

pub struct Row {
    pub coefficients: Vec<f64>,
    pub bound: f64,
}

#[derive(Debug)]
pub struct Optimum {
    pub value: f64,
    pub solution: Vec<f64>,
    /// One per row: by how much the optimum grows with its bound.
    pub duals: Vec<f64>,
}

impl Program {
    /// The optimum, or nothing if there is none below infinity.
    pub fn maximize(&self) -> Option<Optimum> {
        let (variables, rows) = (self.objective.len(), self.rows.len());
        let width = variables + rows + 1;
        let mut table: Vec<Vec<f64>> = Vec::with_capacity(rows + 1);
        for (place, row) in self.rows.iter().enumerate() {
            let mut line = row.coefficients.clone();
            line.resize(width, 0.0);
            line[variables + place] = 1.0;
            line[width - 1] = row.bound;
            table.push(line);
        }
        let mut last: Vec<f64> = self.objective.iter().map(|value| -value).collect();
        last.resize(width, 0.0);
        table.push(last);
        let mut basis: Vec<usize> = (variables..variables + rows).collect();
        // Bland's rule: the first column that improves, the first row of a tie; it cannot cycle.
        while let Some(column) = (0..width - 1).find(|&column| table[rows][column] < -ZERO) {
            let row = leaving(&table, &basis, column)?;
            pivot(&mut table, row, column);
            basis[row] = column;
        }
        let mut solution = vec![0.0; variables];
        for (line, &column) in table.iter().zip(&basis).filter(|place| *place.1 < variables) {
            solution[column] = line[width - 1];
        }
        let duals = table[rows][variables..width - 1].iter().map(|dual| dual.max(0.0)).collect();
        Some(Optimum { value: table[rows][width - 1], solution, duals })
    }
}

fn leaving(table: &[Vec<f64>], basis: &[usize], column: usize) -> Option<usize> {
    let mut best: Option<(f64, usize)> = None;
    for (row, line) in table[..basis.len()].iter().enumerate() {
        if line[column] <= ZERO {
            continue;
        }
        let ratio = line[line.len() - 1] / line[column];
        let better = best.is_none_or(|(smallest, other)| {
            ratio < smallest - ZERO
                || ((ratio - smallest).abs() <= ZERO && basis[row] < basis[other])
        });
        if better {
            best = Some((ratio, row));
        }
    }
    best.map(|found| found.1)
}

fn pivot(table: &mut [Vec<f64>], row: usize, column: usize) {
    let factor = 1.0 / table[row][column];
    for value in &mut table[row] {
        *value *= factor;
    }
    let line = table[row].clone();
    for (index, other) in table.iter_mut().enumerate() {
        let times = other[column];
        if index != row && times != 0.0 {
            for (value, own) in other.iter_mut().zip(&line) {
                *value -= times * own;
            }
        }
    }
}
