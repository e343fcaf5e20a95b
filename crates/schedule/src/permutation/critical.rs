//! Delay-aware greedy: each slot shortens the critical lines as much as its delay allows.
//!
//! The load of a line is what it has left to send plus a delay for each peer that it has left.
//! Each slot is a greedy matching by bytes, where pairs on lines of more than nine tenths of the
//! largest load come first; it is held for the time, among those after which a pair has finished,
//! that wastes the smallest share: hold plus delay, minus what the largest load falls by.

use super::{Demand, Slots};

pub fn decompose(demand: &Demand) -> Slots {
    let mut work = Work::new(demand);
    let mut slots = Slots::default();
    while let Some(most) = work.left.iter().copied().max().filter(|&most| most > 0) {
        let matching = work.greedy(most);
        let hold = work.best_hold(&matching);
        work.serve(&matching, hold);
        slots.push(&matching, hold);
    }
    slots
}

struct Work<'a> {
    demand: &'a Demand<'a>,
    left: Vec<u64>,
    row_load: Vec<u64>,
    column_load: Vec<u64>,
}

impl<'a> Work<'a> {
    fn new(demand: &'a Demand<'a>) -> Self {
        let (mut row_load, mut column_load) = (vec![0; demand.rows], vec![0; demand.columns]);
        for (row, load) in row_load.iter_mut().enumerate() {
            for (column, &bytes) in demand.row(row).iter().enumerate() {
                let time = if bytes > 0 { bytes + demand.delay } else { 0 };
                *load += time;
                column_load[column] += time;
            }
        }
        Self { demand, left: demand.bytes.to_vec(), row_load, column_load }
    }

    fn greedy(&self, most: u64) -> Vec<i32> {
        let largest = self.row_load.iter().chain(&self.column_load).copied().max().unwrap_or(0);
        // A line of nine tenths of the largest load or less is not urgent, the longest is 1.
        let urgency = |load: u64| (load as f64 / largest as f64 * 10.0 - 9.0).max(0.0);
        let rows: Vec<f64> = self.row_load.iter().map(|&load| urgency(load)).collect();
        let columns: Vec<f64> = self.column_load.iter().map(|&load| urgency(load)).collect();
        let mut keys = Vec::with_capacity(self.left.len());
        for (cell, &bytes) in self.left.iter().enumerate().filter(|entry| *entry.1 > 0) {
            let (row, column) = (cell / columns.len(), cell % columns.len());
            keys.push((bytes as f64 + most as f64 * (rows[row] + columns[column]), row, column));
        }
        keys.sort_unstable_by(|x, y| y.0.total_cmp(&x.0).then((x.1, x.2).cmp(&(y.1, y.2))));
        let mut matching = vec![-1; rows.len()];
        let mut taken = vec![false; columns.len()];
        for (_, row, column) in keys {
            if matching[row] < 0 && !taken[column] {
                matching[row] = column as i32;
                taken[column] = true;
            }
        }
        matching
    }

    fn best_hold(&self, matching: &[i32]) -> u64 {
        let delay = self.demand.delay;
        let columns = self.demand.columns;
        let pairs: Vec<(usize, usize, u64)> = (matching.iter().enumerate())
            .filter(|&(_, &column)| column >= 0)
            .map(|(row, &column)| (row, column as usize))
            .map(|(row, column)| (row, column, self.left[row * columns + column]))
            .collect();
        let mut idle_columns = vec![true; columns];
        for &(_, column, _) in &pairs {
            idle_columns[column] = false;
        }
        let idle_rows = (0..matching.len()).filter(|&row| matching[row] < 0);
        let idle = idle_rows.map(|row| self.row_load[row]).chain(
            (0..columns).filter(|&column| idle_columns[column]).map(|c| self.column_load[c]),
        );
        let idle = idle.max().unwrap_or(0);
        let loads = self.row_load.iter().chain(&self.column_load);
        let largest = loads.copied().max().unwrap_or(0);
        let mut holds: Vec<u64> = pairs.iter().map(|&(_, _, bytes)| bytes).collect();
        holds.sort_unstable();
        holds.dedup();
        let waste = |hold: u64| {
            let after = pairs.iter().map(|&(row, column, bytes)| {
                let served = if bytes <= hold { bytes + delay } else { hold };
                self.row_load[row].max(self.column_load[column]) - served
            });
            let after = after.max().unwrap_or(0).max(idle);
            let time = (hold + delay) as f64;
            (time - (largest - after) as f64) / time
        };
        let least = holds.iter().map(|&hold| (waste(hold), hold));
        // Among equals the longest.
        least.min_by(|x, y| x.0.total_cmp(&y.0).then(y.1.cmp(&x.1))).expect("a pair is joined").1
    }

    fn serve(&mut self, matching: &[i32], hold: u64) {
        let (columns, delay) = (self.demand.columns, self.demand.delay);
        for (row, &column) in matching.iter().enumerate().filter(|entry| *entry.1 >= 0) {
            let cell = &mut self.left[row * columns + column as usize];
            let served = if *cell <= hold { *cell + delay } else { hold };
            *cell -= hold.min(*cell);
            self.row_load[row] -= served;
            self.column_load[column as usize] -= served;
        }
    }
}
