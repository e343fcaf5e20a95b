//! List scheduling of an open shop, the longest remaining line first.
//!
//! Rows are machines, columns are jobs, and each pair is one operation that is not interrupted. As
//! soon as a line is free it begins the pair whose other line is free and has most left to send;
//! where both lines of a finished pair are free the longer one chooses first. No pair waits while
//! both its lines are idle, so the length is at most twice the bound (Racsmany's bound for dense
//! open-shop schedules).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::bitset::{Bits, with_words};
use super::{Demand, Transfer};

/// Transfers of a demand if each costs its two ports the delay.
pub fn transfers(demand: &Demand, delay: u64) -> Vec<Transfer> {
    with_words!(demand.rows.max(demand.columns), run(demand, delay))
}

struct Shop<'a, const W: usize> {
    demand: &'a Demand<'a>,
    delay: u64,
    /// Columns that a row has not served, rows that a column has not.
    row_wants: Vec<Bits<W>>,
    column_wants: Vec<Bits<W>>,
    /// Time that the pairs of a line take which have not begun.
    row_load: Vec<u64>,
    column_load: Vec<u64>,
    free_rows: Bits<W>,
    free_columns: Bits<W>,
    /// End, row, column of what is being sent.
    ends: BinaryHeap<Reverse<(u64, u32, u32)>>,
    transfers: Vec<Transfer>,
    /// Load, side and number of lines that have just become free.
    freed: Vec<(u64, bool, usize)>,
}

const ROW: bool = false;
const COLUMN: bool = true;

fn run<const W: usize>(demand: &Demand, delay: u64) -> Vec<Transfer> {
    let (rows, columns) = (demand.rows, demand.columns);
    let mut shop = Shop::<W> {
        demand,
        delay,
        row_wants: vec![Bits::EMPTY; rows],
        column_wants: vec![Bits::EMPTY; columns],
        row_load: vec![0; rows],
        column_load: vec![0; columns],
        free_rows: Bits::below(rows),
        free_columns: Bits::below(columns),
        ends: BinaryHeap::with_capacity(rows.min(columns)),
        transfers: Vec::new(),
        freed: Vec::new(),
    };
    let mut pairs = 0;
    for row in 0..rows {
        for (column, &bytes) in demand.row(row).iter().enumerate().filter(|entry| *entry.1 > 0) {
            shop.row_wants[row].insert(column);
            shop.column_wants[column].insert(row);
            shop.row_load[row] += bytes + delay;
            shop.column_load[column] += bytes + delay;
            pairs += 1;
        }
    }
    shop.transfers.reserve_exact(pairs);
    let lines = (0..rows).map(|row| (shop.row_load[row], ROW, row));
    shop.freed = lines.chain((0..columns).map(|c| (shop.column_load[c], COLUMN, c))).collect();
    shop.begin(0);
    while let Some(Reverse((now, row, column))) = shop.ends.pop() {
        shop.free(row as usize, column as usize);
        // All that ends now is free before anything begins.
        while let Some(&Reverse((end, row, column))) = shop.ends.peek()
            && end == now
        {
            shop.ends.pop();
            shop.free(row as usize, column as usize);
        }
        shop.begin(now);
    }
    shop.transfers
}

impl<const W: usize> Shop<'_, W> {
    fn free(&mut self, row: usize, column: usize) {
        self.free_rows.insert(row);
        self.free_columns.insert(column);
        self.freed.push((self.row_load[row], ROW, row));
        self.freed.push((self.column_load[column], COLUMN, column));
    }

    /// Lets the lines that were freed choose, longest first.
    fn begin(&mut self, now: u64) {
        let mut freed = std::mem::take(&mut self.freed);
        freed.sort_unstable_by(|x, y| y.0.cmp(&x.0).then((x.1, x.2).cmp(&(y.1, y.2))));
        for &(_, side, line) in &freed {
            let pair = if side == ROW {
                let open = self.row_wants[line].and(&self.free_columns);
                let idle = self.free_rows.contains(line);
                let longest = longest(&open, &self.column_load).filter(|_| idle);
                longest.map(|column| (line, column))
            } else {
                let open = self.column_wants[line].and(&self.free_rows);
                let idle = self.free_columns.contains(line);
                longest(&open, &self.row_load).filter(|_| idle).map(|row| (row, line))
            };
            if let Some((row, column)) = pair {
                self.join(row, column, now);
            }
        }
        freed.clear();
        self.freed = freed;
    }

    fn join(&mut self, row: usize, column: usize, now: u64) {
        let bytes = self.demand.bytes[row * self.demand.columns + column];
        self.row_wants[row].remove(column);
        self.column_wants[column].remove(row);
        self.row_load[row] -= bytes + self.delay;
        self.column_load[column] -= bytes + self.delay;
        self.free_rows.remove(row);
        self.free_columns.remove(column);
        let (row, column) = (row as u32, column as u32);
        self.ends.push(Reverse((now + self.delay + bytes, row, column)));
        self.transfers.push(Transfer { row, column, start: now, bytes });
    }
}

/// The line with the largest load, the lowest of equals.
#[inline]
fn longest<const W: usize>(lines: &Bits<W>, load: &[u64]) -> Option<usize> {
    lines.iter().max_by_key(|&line| (load[line], Reverse(line)))
}
