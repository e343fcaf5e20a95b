//! List scheduling of an open shop, the longest remaining line first.
//!
//! Rows are machines, columns are jobs, and each pair is one operation that is not interrupted. As
//! soon as a line is free it begins the pair whose other line is free and has most left to send;
//! where both lines of a finished pair are free the longer one chooses first. No pair waits while
//! both its lines are idle, so the length is at most twice the bound (Racsmany's bound for dense
//! open-shop schedules).

use std::cmp::Reverse;

use super::bitset::{Bits, Lines, with_lines};
use super::demand::Demand;
use super::slots::PairTransfer;

/// Transfers of a demand if each costs its two ports the delay, sorted by start.
pub(super) fn transfers(demand: &Demand, delay: u64) -> Vec<PairTransfer> {
    with_lines!(demand.rows.max(demand.columns), run(demand, delay))
}

const ROW: usize = 0;
const COLUMN: usize = 1;
const NEVER: u64 = u64::MAX;

#[derive(Clone, Copy)]
struct Line<const W: usize> {
    /// Lines of the other side that it has not begun to serve.
    wants: Bits<W>,
    /// Time that these take.
    load: u64,
}

impl<const W: usize> Line<W> {
    #[inline]
    fn begin(&mut self, other: usize, time: u64) {
        self.wants.remove(other);
        self.load -= time;
    }
}

/// Load, side and number of a line that has just become free.
type Freed = (Reverse<u64>, u32, u32);

/// One side of the crossbar.
struct Side<const L: usize, const W: usize> {
    lines: Lines<Line<W>, L>,
    free: Bits<W>,
}

impl<const L: usize, const W: usize> Side<L, W> {
    fn new(count: usize) -> Self {
        let lines = Lines::all(Line { wants: Bits::EMPTY, load: 0 });
        Self { lines, free: Bits::below(count) }
    }
}

struct Shop<'a, const L: usize, const W: usize> {
    bytes: &'a [u64],
    columns: usize,
    delay: u64,
    sides: [Side<L, W>; 2],
    ends: Ends<L>,
    /// Column that each row sends to, if any.
    partner: Lines<u32, L>,
    transfers: Vec<PairTransfer>,
}

fn run<const L: usize, const W: usize>(demand: &Demand, delay: u64) -> Vec<PairTransfer> {
    let mut shop = Shop::<L, W>::new(demand, delay);
    let mut freed = Vec::with_capacity(demand.rows + demand.columns);
    (0..demand.rows).for_each(|row| shop.free(ROW, row, &mut freed));
    (0..demand.columns).for_each(|column| shop.free(COLUMN, column, &mut freed));
    shop.begin(&mut freed, 0);
    while let Some((now, row)) = shop.ends.pop() {
        let column = shop.partner[row] as usize;
        if shop.ends.first() != now {
            // These two want each other no more, so neither cares what the other chooses.
            shop.serve::<ROW>(row, now);
            shop.serve::<COLUMN>(column, now);
            continue;
        }
        // All that ends now is free before anything begins.
        freed.clear();
        let mut also = Some((now, row));
        while let Some((_, row)) = also {
            shop.free(ROW, row, &mut freed);
            shop.free(COLUMN, shop.partner[row] as usize, &mut freed);
            also = if shop.ends.first() == now { shop.ends.pop() } else { None };
        }
        shop.begin(&mut freed, now);
    }
    shop.transfers
}

impl<'a, const L: usize, const W: usize> Shop<'a, L, W> {
    fn new(demand: &Demand<'a>, delay: u64) -> Self {
        let (rows, columns) = (demand.rows, demand.columns);
        let mut sides = [Side::<L, W>::new(rows), Side::<L, W>::new(columns)];
        let [row_side, column_side] = &mut sides;
        let mut pairs = 0;
        for (row, cells) in demand.bytes.chunks_exact(columns.max(1)).enumerate() {
            let mut line = Line { wants: Bits::EMPTY, load: 0 };
            for (column, (&bytes, other)) in
                cells.iter().zip(column_side.lines.iter_mut()).enumerate()
            {
                let wanted = bytes > 0;
                let time = if wanted { bytes + delay } else { 0 };
                line.load += time;
                other.load += time;
                line.wants.insert_if(column, wanted);
                other.wants.insert_if(row, wanted);
                pairs += usize::from(wanted);
            }
            row_side.lines[row] = line;
        }
        let transfers = Vec::with_capacity(pairs);
        Self {
            bytes: demand.bytes,
            columns,
            delay,
            sides,
            ends: Ends::new(rows),
            partner: Lines::all(0),
            transfers,
        }
    }

    fn free(&mut self, side: usize, line: usize, freed: &mut Vec<Freed>) {
        self.sides[side].free.insert(line);
        freed.push((Reverse(self.sides[side].lines[line].load), side as u32, line as u32));
    }

    /// Lets free lines choose, the longest first.
    fn begin(&mut self, freed: &mut [Freed], now: u64) {
        freed.sort_unstable();
        for &(_, side, line) in &*freed {
            let (side, line) = (side as usize, line as usize);
            if self.sides[side].free.contains(line) {
                self.sides[side].free.remove(line);
                if side == ROW {
                    self.serve::<ROW>(line, now);
                } else {
                    self.serve::<COLUMN>(line, now);
                }
            }
        }
    }

    /// Joins an idle line to the longest free one that it wants; if there is none it is free.
    #[allow(clippy::inline_always, reason = "called once per side, in the innermost loop")]
    #[inline(always)]
    fn serve<const SIDE: usize>(&mut self, line: usize, now: u64) {
        let open = self.sides[SIDE].lines[line].wants.and(&self.sides[1 - SIDE].free);
        let Some(other) = longest(&open, &self.sides[1 - SIDE].lines) else {
            self.sides[SIDE].free.insert(line);
            return;
        };
        let (row, column) = if SIDE == ROW { (line, other) } else { (other, line) };
        let bytes = self.bytes[row * self.columns + column];
        let time = bytes + self.delay;
        self.sides[1 - SIDE].free.remove(other);
        self.sides[ROW].lines[row].begin(column, time);
        self.sides[COLUMN].lines[column].begin(row, time);
        self.partner[row] = column as u32;
        self.ends.set(row, now + time);
        self.transfers.push(PairTransfer {
            row: row as u32,
            column: column as u32,
            start: now,
            bytes,
        });
    }
}

/// The line with the largest load, the lowest of equals.
#[inline]
fn longest<const L: usize, const W: usize>(
    open: &Bits<W>,
    lines: &Lines<Line<W>, L>,
) -> Option<usize> {
    let mut best = None;
    // What is left of a wanted line is more than nothing.
    let mut largest = 0;
    open.each(|line| {
        let load = lines[line].load;
        if load > largest {
            (largest, best) = (load, Some(line));
        }
    });
    best
}

/// When each row ends: a tree of minima over the rows.
///
/// Node k is the earlier of nodes 2k and 2k + 1; below the last of them are the rows.
struct Ends<const L: usize> {
    nodes: Lines<u64, L>,
    rows: Lines<u64, L>,
    leaves: usize,
}

impl<const L: usize> Ends<L> {
    fn new(rows: usize) -> Self {
        let leaves = rows.next_power_of_two().max(2);
        Self { nodes: Lines::all(NEVER), rows: Lines::all(NEVER), leaves }
    }

    #[inline]
    fn first(&self) -> u64 {
        self.nodes[1]
    }

    /// Takes out a row that ends first, and when it does.
    #[inline]
    fn pop(&mut self) -> Option<(u64, usize)> {
        let first = self.nodes[1];
        if first == NEVER {
            return None;
        }
        let mut node = 2;
        while node < self.leaves {
            node = 2 * (node + usize::from(self.nodes[node] != first));
        }
        let row = node - self.leaves;
        let row = row + usize::from(self.rows[row] != first);
        self.set(row, NEVER);
        Some((first, row))
    }

    #[inline]
    fn set(&mut self, row: usize, time: u64) {
        self.rows[row] = time;
        let mut earliest = time.min(self.rows[row ^ 1]);
        let mut node = (self.leaves + row) >> 1;
        // What climbs stays in a register, so that only the siblings are loaded.
        while node > 1 {
            self.nodes[node] = earliest;
            earliest = earliest.min(self.nodes[node ^ 1]);
            node /= 2;
        }
        self.nodes[1] = earliest;
    }
}
