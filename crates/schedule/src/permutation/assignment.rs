//! The assignment of greatest weight between rows and columns, warm-started.
//!
//! Shortest augmenting paths over a dense square matrix (Jonker and Volgenant 1987). The prices of
//! the columns are kept from one call to the next: weights that changed little need few paths.

const NOBODY: usize = usize::MAX;

pub(super) struct Assignment {
    lines: usize,
    /// Weight of each pair, `lines` x `lines`; what is not there has no weight.
    pub weights: Vec<f64>,
    row_price: Vec<f64>,
    column_price: Vec<f64>,
    column_of: Vec<usize>,
    row_of: Vec<usize>,
    distance: Vec<f64>,
    before: Vec<usize>,
    done: Vec<bool>,
}

impl Assignment {
    pub(super) fn new(lines: usize) -> Self {
        Self {
            lines,
            weights: vec![0.0; lines * lines],
            row_price: vec![0.0; lines],
            column_price: vec![0.0; lines],
            column_of: vec![NOBODY; lines],
            row_of: vec![NOBODY; lines],
            distance: vec![0.0; lines],
            before: vec![0; lines],
            done: vec![false; lines],
        }
    }

    /// Column of each row; all rows are assigned.
    pub(super) fn solve(&mut self) -> &[usize] {
        self.column_of.fill(NOBODY);
        self.row_of.fill(NOBODY);
        for row in 0..self.lines {
            let weights = &self.weights[row * self.lines..(row + 1) * self.lines];
            let (mut smallest, mut at) = (f64::INFINITY, 0);
            for (column, (weight, price)) in weights.iter().zip(&self.column_price).enumerate() {
                if -weight - price < smallest {
                    (smallest, at) = (-weight - price, column);
                }
            }
            self.row_price[row] = smallest;
            if self.row_of[at] == NOBODY {
                self.row_of[at] = row;
                self.column_of[row] = at;
            }
        }
        for row in 0..self.lines {
            if self.column_of[row] == NOBODY {
                self.augment(row);
            }
        }
        &self.column_of
    }

    fn augment(&mut self, root: usize) {
        self.distance.fill(f64::INFINITY);
        self.done.fill(false);
        let (mut row, mut so_far) = (root, 0.0);
        let end = loop {
            let weights = &self.weights[row * self.lines..(row + 1) * self.lines];
            let (mut smallest, mut at) = (f64::INFINITY, NOBODY);
            for (column, &weight) in weights.iter().enumerate() {
                if self.done[column] {
                    continue;
                }
                let reduced = -weight - self.row_price[row] - self.column_price[column];
                if so_far + reduced < self.distance[column] {
                    self.distance[column] = so_far + reduced;
                    self.before[column] = row;
                }
                if self.distance[column] < smallest {
                    (smallest, at) = (self.distance[column], column);
                }
            }
            self.done[at] = true;
            so_far = smallest;
            match self.row_of[at] {
                NOBODY => break at,
                next => row = next,
            }
        };
        for column in 0..self.lines {
            if self.done[column] && column != end {
                let gain = so_far - self.distance[column];
                self.column_price[column] -= gain;
                self.row_price[self.row_of[column]] += gain;
            }
        }
        self.row_price[root] += so_far;
        let mut column = end;
        loop {
            let row = self.before[column];
            self.row_of[column] = row;
            let freed = std::mem::replace(&mut self.column_of[row], column);
            if row == root {
                return;
            }
            column = freed;
        }
    }
}
