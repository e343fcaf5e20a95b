//! Demand of one crossbar, and schedules of it played slot by slot.

#![allow(dead_code, reason = "each user takes a part")]

use lightloom_schedule::permutation::{Demand, Matchings, Method, Schedule, Slots, decompose};
use proptest::prelude::*;

#[derive(Debug, Clone)]
pub struct Crossbar {
    pub rows: usize,
    pub columns: usize,
    pub bytes: Vec<u64>,
    pub delay: u64,
}

/// What a slot finds, and what it leaves.
pub struct Played {
    /// Row and column of each pair that is joined.
    pub pairs: Vec<(usize, usize)>,
    pub hold: u64,
    pub before: Vec<u64>,
    pub after: Vec<u64>,
}

impl Crossbar {
    pub fn square(bytes: &[u64], delay: u64) -> Self {
        let lines = bytes.len().isqrt();
        Self { rows: lines, columns: lines, bytes: bytes.to_vec(), delay }
    }

    pub fn demand(&self, partial: bool) -> Demand<'_> {
        Demand::new(self.rows, self.columns, &self.bytes, self.delay, partial).expect("valid")
    }

    pub fn run(&self, method: Method) -> Schedule {
        decompose(&self.demand(false), method, None)
    }

    pub fn slots(&self, method: Method) -> Slots {
        let Matchings::Slots(slots) = self.run(method).plan else { panic!("all ports stop") };
        slots
    }

    pub fn cell(&self, (row, column): (usize, usize)) -> usize {
        row * self.columns + column
    }

    /// Cells of each line, rows first.
    pub fn lines(&self) -> Vec<Vec<usize>> {
        let row = |row: usize| (0..self.columns).map(|column| self.cell((row, column))).collect();
        let column = |column: usize| (0..self.rows).map(|row| self.cell((row, column))).collect();
        (0..self.rows).map(row).chain((0..self.columns).map(column)).collect()
    }

    /// What each line has of these bytes, and a delay for each of its pairs with some.
    pub fn loads(&self, bytes: &[u64], delay: u64) -> Vec<u64> {
        let own = |cell: &usize| if bytes[*cell] > 0 { bytes[*cell] + delay } else { 0 };
        self.lines().iter().map(|line| line.iter().map(own).sum()).collect()
    }

    pub fn longest_line(&self) -> u64 {
        self.loads(&self.bytes, 0).into_iter().max().unwrap_or(0)
    }

    /// What was sent is received.
    pub fn transposed(&self) -> Self {
        let cell = |cell: usize| self.bytes[cell % self.rows * self.columns + cell / self.rows];
        let bytes = (0..self.bytes.len()).map(cell).collect();
        Self { rows: self.columns, columns: self.rows, bytes, delay: self.delay }
    }

    pub fn times(&self, factor: u64) -> Self {
        let bytes = self.bytes.iter().map(|bytes| factor * bytes).collect();
        Self { bytes, delay: factor * self.delay, ..self.clone() }
    }

    /// What is left if these pairs send for so long.
    pub fn after(&self, left: &[u64], pairs: &[(usize, usize)], hold: u64) -> Vec<u64> {
        let mut after = left.to_vec();
        for &pair in pairs {
            let cell = &mut after[self.cell(pair)];
            *cell = cell.saturating_sub(hold);
        }
        after
    }

    /// Plays slots one after another: each must be a matching of pairs with bytes left.
    pub fn play(&self, slots: &Slots) -> Vec<Played> {
        let mut before = self.bytes.clone();
        let mut all = Vec::new();
        for (slot, &hold) in slots.holds.iter().enumerate() {
            let joined = &slots.matchings[slot * self.rows..(slot + 1) * self.rows];
            let pairs = joined.iter().enumerate().filter(|pair| *pair.1 >= 0);
            let pairs: Vec<(usize, usize)> = pairs.map(|(row, &c)| (row, c as usize)).collect();
            for (index, &(row, column)) in pairs.iter().enumerate() {
                assert!(pairs[..index].iter().all(|pair| pair.1 != column), "{column} twice");
                assert!(before[self.cell((row, column))] > 0, "a circuit for nothing");
            }
            let after = self.after(&before, &pairs, hold);
            all.push(Played { pairs, hold, before, after: after.clone() });
            before = after;
        }
        assert!(before.iter().all(|&bytes| bytes == 0), "bytes are left");
        all
    }
}

/// Up to so many rows and columns with entries up to `bytes`, a third of them 0; the delay is
/// nothing, little, or as much as the bytes.
pub fn crossbar(limit: usize, bytes: u64) -> impl Strategy<Value = Crossbar> {
    let entry = prop_oneof![1 => Just(0_u64), 2 => 1..=bytes];
    let delay = prop_oneof![Just(0), 1..=1 + bytes / 8, 1..=2 * bytes];
    (1..=limit, 1..=limit, delay).prop_flat_map(move |(rows, columns, delay)| {
        let bytes = prop::collection::vec(entry.clone(), rows * columns);
        bytes.prop_map(move |bytes| Crossbar { rows, columns, bytes, delay })
    })
}
