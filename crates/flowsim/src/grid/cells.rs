//! The cells of one grid: what is left of their flows, how fast they are, and which ends first.

use super::filling::{Cell, Cells, Filling, Lanes, SIDE, each, ones};
use crate::ids::{NO_LINK, SHORT};
use crate::level::{NEARLY, smaller};
use crate::span::{ABSOLUTE_SNAP, PS, RELATIVE_SNAP, time_to_send};

/// What paths cross between a row and a column, and by how much more than its links know of.
#[derive(Debug, Clone)]
pub(crate) struct Middle {
    pub links: [u32; SHORT - 2],
    pub change: f64,
}

#[derive(Debug, Clone)]
pub(crate) struct Grid {
    /// Links of the rows and of the columns; `NO_LINK` after the last.
    pub links: [[u32; SIDE]; 2],
    pub capacity: [Lanes; 2],
    /// Cells with a flow.
    pub taken: Cells,
    /// Per cell: bits left as of `settled`, the rate since then, and how long the rest takes with
    /// it, in ps; nothing, none and for ever in empty cells.
    pub left: [Lanes; SIDE],
    pub rate: [Lanes; SIDE],
    pub rest: [Lanes; SIDE],
    pub settled: u64,
    pub flow: [[u32; SIDE]; SIDE],
    /// Per cell, the place of what its path crosses in `middles`; the first is for nothing.
    pub middle: [[u8; SIDE]; SIDE],
    pub middles: Vec<Middle>,
    /// Rates below this one are as they were when rates were last computed.
    pub kept_below: f64,
    /// How long after `settled` the first flow ends, if any does, and all cells whose flows do.
    pub first_end: Option<u64>,
    pub ending: Cells,
    /// Flows on lines that are in no cell, once for each line.
    pub others: u32,
    pub is_stale: bool,
}

impl Grid {
    /// Without flows.
    pub(crate) fn new(links: [[u32; SIDE]; 2]) -> Self {
        Self {
            links,
            capacity: [[0.0; SIDE]; 2],
            taken: 0,
            left: [[0.0; SIDE]; SIDE],
            rate: [[0.0; SIDE]; SIDE],
            rest: [[f64::INFINITY; SIDE]; SIDE],
            settled: 0,
            flow: [[0; SIDE]; SIDE],
            middle: [[0; SIDE]; SIDE],
            middles: vec![Middle { links: [NO_LINK; SHORT - 2], change: 0.0 }],
            kept_below: 0.0,
            first_end: None,
            ending: 0,
            others: 0,
            is_stale: false,
        }
    }

    /// Brings bits left up to date.
    pub(crate) fn settle(&mut self, now: u64) {
        if self.settled == now {
            return;
        }
        let span = (now - self.settled) as f64;
        self.settled = now;
        for row in 0..SIDE {
            if (self.taken >> (SIDE * row)) as u8 == 0 {
                continue;
            }
            let (left, rest) = (&mut self.left[row], &mut self.rest[row]);
            for lane in 0..SIDE {
                let less = left[lane] - self.rate[row][lane] * span / PS;
                left[lane] = if less > 0.0 { less } else { 0.0 };
                rest[lane] -= span;
            }
        }
    }

    /// A flow of this many bits starts in an empty cell.
    pub(crate) fn enter(&mut self, cell: Cell, flow: u32, bits: f64, middle: u8) {
        self.taken |= cell.bit();
        let Cell { row, column } = cell;
        self.flow[row][column] = flow;
        self.middle[row][column] = middle;
        self.left[row][column] = bits;
        self.kept_below = 0.0;
    }

    /// The flow of a cell ends.
    pub(crate) fn leave(&mut self, cell: Cell) {
        self.taken &= !cell.bit();
        let Cell { row, column } = cell;
        let rate = std::mem::take(&mut self.rate[row][column]);
        self.left[row][column] = 0.0;
        self.rest[row][column] = f64::INFINITY;
        self.middles[usize::from(self.middle[row][column])].change -= rate;
        // Lower rates than that of the flow stay as they are.
        self.kept_below = smaller(self.kept_below, rate * (1.0 - NEARLY));
    }

    /// Computes rates; returns how many lines were filled, and how many flows these limit.
    pub(crate) fn fill(&mut self) -> (u64, u64) {
        let mut filling = Filling::new(&self.capacity, self.taken, &self.rate, self.kept_below);
        let (mut lines, flows) = (0, filling.by_row.count_ones().into());
        while let Some((line, rate)) = filling.next() {
            lines += 1;
            if line < SIDE {
                for column in ones(filling.stop_row(line)) {
                    let cell = Cell { row: line, column };
                    filling.take_from_column(cell, rate);
                    self.set_rate(cell, rate);
                }
            } else {
                for row in ones(filling.stop_column(line - SIDE)) {
                    let cell = Cell { row, column: line - SIDE };
                    filling.take_from_row(cell, rate);
                    self.set_rate(cell, rate);
                }
            }
        }
        self.kept_below = f64::INFINITY;
        (lines, flows)
    }

    #[inline]
    fn set_rate(&mut self, Cell { row, column }: Cell, rate: f64) {
        let old = std::mem::replace(&mut self.rate[row][column], rate);
        self.middles[usize::from(self.middle[row][column])].change += rate - old;
        let left = self.left[row][column];
        self.rest[row][column] = if left > 0.0 { left * PS / rate } else { 0.0 };
    }

    /// The least of what flows take to end, by column.
    fn soonest(&self) -> Lanes {
        let mut soonest = [f64::INFINITY; SIDE];
        for rest in &self.rest {
            for lane in 0..SIDE {
                soonest[lane] = smaller(rest[lane], soonest[lane]);
            }
        }
        soonest
    }

    /// The cells whose flows take no longer than this to end; the soonest of a column tells whether
    /// it has any.
    fn ending_within(&self, bound: f64, soonest: &Lanes) -> Cells {
        let mut ending = 0;
        for lane in (0..SIDE).filter(|&lane| soonest[lane] <= bound) {
            for (row, rest) in self.rest.iter().enumerate() {
                ending |= u64::from(rest[lane] <= bound) << (SIDE * row + lane);
            }
        }
        ending & self.taken
    }

    /// Finds out when the first flow ends, and which do then.
    pub(crate) fn find_first(&mut self) {
        // Whatever ends first rounds up to less than this.
        let soonest = self.soonest();
        let least = soonest.into_iter().fold(f64::INFINITY, smaller);
        let near = self.ending_within(late(least + 1.0), &soonest);
        let rest = |cell: &Cell| self.rest[cell.row][cell.column];
        let first = each(near).min_by(|one, other| rest(one).total_cmp(&rest(other)));
        self.first_end = first.and_then(|Cell { row, column }| {
            time_to_send(self.left[row][column], self.rate[row][column])
        });
        let bound = self.first_end.map_or(0.0, |span| late(span as f64));
        let is_ending = |cell: &Cell| first == Some(*cell) || rest(cell) <= bound;
        self.ending = each(near).filter(is_ending).fold(0, |all, cell| all | cell.bit());
    }
}

/// A time that counts as this one.
fn late(time: f64) -> f64 {
    time + time * RELATIVE_SNAP + ABSOLUTE_SNAP
}
