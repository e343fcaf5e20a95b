//! Local improvement of an all-stop schedule: the best swap between two slots.
//!
//! The pairs of two slots form paths and cycles that alternate between the slots, and each of
//! these may be turned over without the slots ceasing to be matchings. The sum of both holds is
//! least when every path has its larger side in the same slot. A pair that meets no other, in one
//! slot or in both, may be divided between the slots at will. If nothing remains for the second
//! slot it is saved together with its delay. Swaps continue until no two slots can be improved.

use super::budget::Budget;
use super::demand::Demand;
use super::slots::Slots;

const NOBODY: i32 = -1;

struct Slot {
    /// Column of each row, and row of each column, that it is joined to.
    to: Vec<i32>,
    back: Vec<i32>,
    /// What each row sends.
    bytes: Vec<u64>,
    hold: u64,
    /// Number of changes to any slot when this one changed last.
    changed: u64,
}

/// Improves slots that serve the demand; stops early, with a valid schedule, when time is up.
pub(super) fn improve(demand: &Demand, slots: &Slots, budget: &Budget) -> Slots {
    let mut work = Work::new(demand, slots);
    work.run(budget);
    served(demand, &work.give())
}

/// The same slots without pairs that have nothing left to send, held no longer than needed.
///
/// A pair in several slots is served by the first of them as far as they last, so that the last
/// may have nothing left to do.
pub(super) fn served(demand: &Demand, slots: &Slots) -> Slots {
    Work::new(demand, slots).give()
}

/// What becomes of two slots.
struct Swap {
    /// Holds of rigid paths with the larger side first, and the largest pair that is divisible.
    large: u64,
    small: u64,
    divisible: u64,
}

impl Swap {
    fn merges(&self) -> bool {
        self.small == 0
    }

    fn time(&self, delay: u64) -> u64 {
        let holds = self.divisible.max(self.large + self.small);
        if self.merges() { holds + delay } else { holds + 2 * delay }
    }
}

/// Rows of one path or cycle, as a range of the order in which they were visited.
struct Path {
    rows: std::ops::Range<usize>,
    /// Largest of each slot.
    bytes: [u64; 2],
    divisible: bool,
}

struct Work {
    delay: u64,
    slots: Vec<Slot>,
    changes: u64,
    paths: Vec<Path>,
    order: Vec<usize>,
    seen: Vec<bool>,
}

impl Work {
    fn new(demand: &Demand, slots: &Slots) -> Self {
        let (rows, columns) = (demand.rows, demand.columns);
        let mut left = demand.bytes.to_vec();
        let of = |(matching, &hold): (&[i32], &u64)| {
            let mut slot = Slot {
                to: vec![NOBODY; rows],
                back: vec![NOBODY; columns],
                bytes: vec![0; rows],
                hold: 0,
                changed: 0,
            };
            for (row, &column) in matching.iter().enumerate().filter(|pair| *pair.1 >= 0) {
                let cell = &mut left[row * columns + column as usize];
                let bytes = hold.min(*cell);
                *cell -= bytes;
                if bytes > 0 {
                    slot.to[row] = column;
                    slot.back[column as usize] = row as i32;
                    slot.bytes[row] = bytes;
                    slot.hold = slot.hold.max(bytes);
                }
            }
            slot
        };
        let slots = slots.matchings.chunks_exact(rows.max(1)).zip(&slots.holds).map(of).collect();
        Self {
            delay: demand.delay,
            slots,
            changes: 1,
            paths: Vec::new(),
            order: Vec::new(),
            seen: vec![false; rows],
        }
    }

    fn give(&self) -> Slots {
        let mut slots = Slots::default();
        for slot in self.slots.iter().filter(|slot| slot.hold > 0) {
            slots.push(&slot.to, slot.hold);
        }
        slots
    }

    fn run(&mut self, budget: &Budget) {
        let mut since = 0;
        loop {
            let before = self.changes;
            for first in 0..self.slots.len() {
                if budget.is_spent() {
                    return;
                }
                for second in 0..first {
                    let changed = self.slots[first].changed.max(self.slots[second].changed);
                    let live = self.slots[first].hold > 0 && self.slots[second].hold > 0;
                    if live && changed >= since {
                        self.swap(second, first);
                    }
                }
            }
            self.slots.retain(|slot| slot.hold > 0);
            if self.changes == before {
                return;
            }
            since = before;
        }
    }

    /// Makes the best swap between two slots, if it saves time.
    fn swap(&mut self, first: usize, second: usize) {
        self.find_paths(first, second);
        let mut swap = Swap { large: 0, small: 0, divisible: 0 };
        for path in &self.paths {
            let [a, b] = path.bytes;
            if path.divisible {
                swap.divisible = swap.divisible.max(a + b);
            } else {
                swap.large = swap.large.max(a.max(b));
                swap.small = swap.small.max(a.min(b));
            }
        }
        let now = self.slots[first].hold + self.slots[second].hold + 2 * self.delay;
        if swap.time(self.delay) < now {
            self.apply(first, second, &swap);
        }
    }

    fn find_paths(&mut self, first: usize, second: usize) {
        let (a, b) = (&self.slots[first], &self.slots[second]);
        self.paths.clear();
        self.order.clear();
        self.seen.fill(false);
        for root in 0..self.seen.len() {
            if self.seen[root] || (a.to[root] < 0 && b.to[root] < 0) {
                continue;
            }
            let start = self.order.len();
            self.seen[root] = true;
            self.order.push(root);
            let mut bytes = [0, 0];
            let mut columns = 0;
            let mut head = start;
            while head < self.order.len() {
                let row = self.order[head];
                head += 1;
                bytes[0] = bytes[0].max(a.bytes[row]);
                bytes[1] = bytes[1].max(b.bytes[row]);
                for (column, back) in [(a.to[row], &b.back), (b.to[row], &a.back)] {
                    if column >= 0 {
                        columns += 1;
                        let next = back[column as usize];
                        if next >= 0 && !self.seen[next as usize] {
                            self.seen[next as usize] = true;
                            self.order.push(next as usize);
                        }
                    }
                }
            }
            let alone = self.order.len() == start + 1;
            let divisible = alone && (columns == 1 || a.to[root] == b.to[root]);
            self.paths.push(Path { rows: start..self.order.len(), bytes, divisible });
        }
    }

    fn apply(&mut self, first: usize, second: usize, found: &Swap) {
        let share = found.divisible.max(found.large + found.small) - found.small;
        self.changes += 1;
        let (head, tail) = self.slots.split_at_mut(second);
        let (a, b) = (&mut head[first], &mut tail[0]);
        for path in &self.paths {
            let rows = &self.order[path.rows.clone()];
            if path.divisible {
                let row = rows[0];
                let column = a.to[row].max(b.to[row]);
                let total = a.bytes[row] + b.bytes[row];
                for (slot, bytes) in
                    [(&mut *a, total.min(share)), (&mut *b, total - total.min(share))]
                {
                    slot.bytes[row] = bytes;
                    slot.to[row] = if bytes > 0 { column } else { NOBODY };
                }
            } else if path.bytes[1] > path.bytes[0] {
                for &row in rows {
                    std::mem::swap(&mut a.to[row], &mut b.to[row]);
                    std::mem::swap(&mut a.bytes[row], &mut b.bytes[row]);
                }
            }
        }
        for slot in [a, b] {
            slot.back.fill(NOBODY);
            for (row, &column) in slot.to.iter().enumerate().filter(|pair| *pair.1 >= 0) {
                slot.back[column as usize] = row as i32;
            }
            slot.hold = slot.bytes.iter().copied().max().unwrap_or(0);
            slot.changed = self.changes;
        }
    }
}
