//! Algorithm 1 of MixNet (section 5.2): the pair in greatest need, TX + RX, gets the next circuit.
//!
//! Two readings, which differ in what follows when a port runs out and in what a pair's need is:
//!
//! - [`paper`]: the loop ends at the first pair that finds a port taken;
//! - [`reference`]: such pairs are skipped, first circuits come before second ones.
//!
//! As printed, every pair with demand starts at T = infinity, so the choice among them is open.
//! Here the larger demand goes first: on the one public routing matrix that gives 1.95 times the
//! port bound, against 2.18 for the order of indices, and it is what the text says ("the longest
//! transfers"). Among equal demands the pair with most circuits now goes first, then the one of
//! lower indices. A pair without demand has T = 0 and gets nothing: the loop ends when no other
//! pair is left.

use std::collections::BinaryHeap;

use super::problem::{Circuits, Problem};

/// Algorithm 1 as printed.
pub(super) fn paper(problem: &Problem, previous: Option<&[u16]>) -> Circuits {
    let mut circuits = problem.no_circuits();
    let mut queue = Queue::new(problem, previous);
    while let Some(entry) = queue.pop() {
        if !circuits.has_room(entry.a, entry.b) {
            break;
        }
        circuits.add(entry.a, entry.b);
        let time = problem.sum(entry.a, entry.b) / f64::from(circuits.of(entry.a, entry.b));
        queue.push(false, time, entry);
    }
    circuits
}

/// As the simulator that the MixNet authors published: when the C-th circuit is given, the
/// pair's remaining need is divided by 100 C, so that in effect each pair gets its first circuit
/// before any gets a second one, unless demands differ by more than 100.
pub(super) fn reference(problem: &Problem, previous: Option<&[u16]>) -> Circuits {
    let mut circuits = problem.no_circuits();
    let mut queue = Queue::new(problem, previous);
    while let Some(entry) = queue.pop() {
        if circuits.is_full() {
            break;
        }
        if circuits.has_room(entry.a, entry.b) {
            circuits.add(entry.a, entry.b);
            let count = f64::from(circuits.of(entry.a, entry.b));
            queue.push(true, entry.need / (100.0 * count), entry);
        }
    }
    circuits
}

#[derive(Clone, Copy)]
struct Entry {
    need: f64,
    a: usize,
    b: usize,
}

/// Pairs by falling need; pairs without circuits (T = infinity) before all others.
///
/// A key packs, from the top: the infinite mark, the bits of the need (which sort like the need,
/// as it is positive), the circuits that are there now, and the pair, inverted so that lower
/// indices come first.
struct Queue<'p> {
    heap: BinaryHeap<u128>,
    n: usize,
    previous: Option<&'p [u16]>,
}

impl<'p> Queue<'p> {
    fn new(problem: &Problem, previous: Option<&'p [u16]>) -> Self {
        let before = |a: usize, b: usize| previous.map_or(0, |count| count[a * problem.n + b]);
        let mut keys = Vec::with_capacity(problem.n * problem.n / 2);
        for a in 0..problem.n {
            if problem.request.ports[a] == 0 {
                continue;
            }
            for b in a + 1..problem.n {
                let need = problem.sum(a, b);
                let can = problem.request.ports[b] > 0 && problem.may_join(a, b);
                if need > 0.0 && can {
                    keys.push(key(true, need, before(a, b), (a, b)));
                }
            }
        }
        Self { heap: BinaryHeap::from(keys), n: problem.n, previous }
    }

    fn push(&mut self, infinite: bool, need: f64, entry: Entry) {
        let held = self.previous.map_or(0, |count| count[entry.a * self.n + entry.b]);
        self.heap.push(key(infinite, need, held, (entry.a, entry.b)));
    }

    fn pop(&mut self) -> Option<Entry> {
        self.heap.pop().map(|key| {
            let need = f64::from_bits((key >> 48) as u64 & !INFINITE);
            let pair = !(key as u32);
            Entry { need, a: (pair >> 16) as usize, b: (pair & 0xffff) as usize }
        })
    }
}

const INFINITE: u64 = 1 << 63;

fn key(infinite: bool, need: f64, before: u16, (a, b): (usize, usize)) -> u128 {
    let rank = need.to_bits() | if infinite { INFINITE } else { 0 };
    let pair = !(((a as u32) << 16) | b as u32);
    u128::from(rank) << 48 | u128::from(before) << 32 | u128::from(pair)
}
