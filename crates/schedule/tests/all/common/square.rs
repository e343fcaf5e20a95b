//! Demand of one switch: random squares, their lines, and nodes in another order.

#![allow(dead_code, reason = "each user takes a part")]

use proptest::prelude::*;

/// Nodes and the bytes of every pair, nothing on the diagonal.
#[derive(Debug, Clone)]
pub struct Square {
    pub n: usize,
    pub demand: Vec<u64>,
}

impl Square {
    pub fn equal(n: usize, bytes: u64) -> Self {
        let cell = |cell: usize| if cell / n == cell % n { 0 } else { bytes };
        Self { n, demand: (0..n * n).map(cell).collect() }
    }

    pub fn one(n: usize, from: usize, to: usize, bytes: u64) -> Self {
        let mut demand = vec![0; n * n];
        demand[from * n + to] = bytes;
        Self { n, demand }
    }

    pub fn sum(&self) -> u64 {
        self.demand.iter().sum()
    }

    pub fn largest_line(&self) -> u64 {
        let n = self.n;
        let row = |i: usize| self.demand[i * n..(i + 1) * n].iter().sum::<u64>();
        let column = |i: usize| (0..n).map(|from| self.demand[from * n + i]).sum::<u64>();
        (0..n).flat_map(|i| [row(i), column(i)]).max().unwrap_or(0)
    }

    pub fn times(&self, factor: u64) -> Self {
        let demand = self.demand.iter().map(|bytes| factor * bytes).collect();
        Self { n: self.n, demand }
    }

    /// Node i is called `i + by` here.
    pub fn turned(&self, by: usize) -> Self {
        let n = self.n;
        let mut demand = vec![0; n * n];
        for from in 0..n {
            for to in 0..n {
                demand[(from + by) % n * n + (to + by) % n] = self.demand[from * n + to];
            }
        }
        Self { n, demand }
    }

    pub fn transposed(&self) -> Self {
        let n = self.n;
        let demand = (0..n * n).map(|cell| self.demand[cell % n * n + cell / n]).collect();
        Self { n, demand }
    }
}

/// Squares of 2 to `limit` nodes with entries up to `bytes`, a third of them 0.
pub fn square(limit: usize, bytes: u64) -> impl Strategy<Value = Square> {
    let entry = prop_oneof![1 => Just(0_u64), 2 => 0..bytes];
    (2..=limit)
        .prop_flat_map(move |n| (Just(n), prop::collection::vec(entry.clone(), n * n)))
        .prop_map(|(n, mut demand)| {
            for node in 0..n {
                demand[node * n + node] = 0;
            }
            Square { n, demand }
        })
}
