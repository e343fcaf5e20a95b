//! Makes the levels of all links consistent again after a change.
//!
//! Each link has a *level*: the rate of the flows that it limits, infinite while it is not full.
//! A flow's rate is the lowest level on its path. Levels are right when each is the fair level of
//! its link given the levels on the rest of its flows' paths. Then every flow has a full link on
//! which no rate is greater, which is the optimality condition of max-min fairness, and the
//! allocation that meets it is unique. So a change is repaired by recomputing dirty links and
//! making dirty exactly those that see a flow's rate change, until none is left: the cost is
//! that of the links whose level really changes, and the result is that of progressive filling
//! of the whole network.
//!
//! A link that is not full stays so while the rates that grow on it fit into its *headroom*, which
//! is kept by addition; it is computed only when that might be used up. A full link has none.
//!
//! Lower levels first: a link is affected only by levels below its own, so most links are
//! computed once; one that was computed too early is simply made dirty again.

use crate::ids::NO_LINK;
use crate::level::{NEARLY, fair_level, fair_level_of_equal, headroom, smaller};
use crate::network::{DIRTY, FlowNetwork, MOVES, TOUCHED};
use crate::store::{ELSEWHERE, Entry, MANY};
use std::cmp::Reverse;

/// Relative change of a level or rate that counts as none; rounding errors are a few 2^-53.
const TOLERANCE: f64 = 1.0 / (1u64 << 46) as f64;

fn differs(old: f64, new: f64, tolerance: f64) -> bool {
    // The lesser is finite if they differ at all.
    (new - old).abs() > tolerance * old.min(new)
}

impl FlowNetwork {
    /// Puts `link` among those to recompute.
    pub(crate) fn make_dirty(&mut self, link: u32) {
        if self.flags[link as usize] & DIRTY != 0 {
            return;
        }
        self.flags[link as usize] |= DIRTY;
        let level = self.levels[link as usize];
        let estimate = if level.is_finite() {
            level
        } else {
            let link = &self.store.links[link as usize];
            link.capacity / link.crossing.len() as f64
        };
        // The bits of positive floats are ordered as they are.
        self.dirty.push(Reverse((estimate.to_bits(), link)));
    }

    /// Takes note that a flow's rate on `link` grows by `change`, which may be negative.
    #[inline]
    pub(crate) fn load(&mut self, link: u32, change: f64) {
        let headroom = &mut self.headroom[link as usize];
        *headroom -= change;
        if *headroom < 0.0 && self.flags[link as usize] & DIRTY == 0 {
            self.make_dirty(link);
        }
    }

    /// Recomputes rates where dirty, at the current time.
    pub(crate) fn flush(&mut self) {
        let is_settled = self.touched.is_empty() && self.fresh.is_empty();
        if is_settled && self.dirty.is_empty() && self.grids.are_settled() {
            return;
        }
        self.statistics.recomputations += 1;
        self.level_grids();
        self.repair();
        self.settle_touched();
        self.queue_grids();
    }

    fn repair(&mut self) {
        let mut tolerance = TOLERANCE;
        let mut visits = 0;
        while let Some(Reverse((_, link))) = self.dirty.pop() {
            self.flags[link as usize] &= !DIRTY;
            visits += 1;
            if visits > 64 * (self.touched.len() + 16) {
                // Rounding errors chase one another: let go of ever larger ones.
                tolerance *= 2.0;
                visits = 0;
            }
            self.repair_link(link, tolerance);
        }
    }

    fn repair_link(&mut self, number: u32, tolerance: f64) {
        let mut caps = std::mem::take(&mut self.caps);
        let link = &self.store.links[number as usize];
        caps.clear();
        caps.extend(link.crossing.iter().map(|entry| self.store.cap(entry, number, &self.levels)));
        self.statistics.links_touched += 1;
        self.statistics.flows_touched += caps.len() as u64;
        let old = self.levels[number as usize];
        let fair = if self.store.are_single() {
            fair_level(link.capacity, &caps, old)
        } else {
            self.counts.clear();
            self.counts.extend(link.crossing.iter().map(|entry| self.store.count(entry.flow)));
            fair_level_of_equal(link.capacity, &caps, &self.counts, old)
        };
        let load = fair.load + link.in_cells;
        let full = fair.level.is_finite();
        if link.in_cells > 0.0 && load > link.capacity {
            self.caps = caps;
            self.open_through(number);
            self.make_dirty(number);
            return;
        }
        self.headroom[number as usize] =
            if full { f64::NEG_INFINITY } else { headroom(link.capacity, load) };
        if differs(old, fair.level, tolerance) {
            self.change_level(number, fair.level, &caps, tolerance);
        } else if self.flags[number as usize] & TOUCHED != 0 {
            // Its level has changed before, for other caps.
            self.flags[number as usize] |= MOVES;
        }
        self.caps = caps;
    }

    fn change_level(&mut self, number: u32, new: f64, caps: &[f64], tolerance: f64) {
        let old = std::mem::replace(&mut self.levels[number as usize], new);
        let (lower, upper, sign) = if old < new { (old, new, 1.0) } else { (new, old, -1.0) };
        let enough = lower + lower * tolerance;
        let crossing = std::mem::take(&mut self.store.links[number as usize].crossing);
        let mut moves = false;
        let (low, high) = (new * (1.0 - NEARLY), new * (1.0 + NEARLY));
        for (entry, &cap) in crossing.iter().zip(caps) {
            moves |= if entry.remaining < ELSEWHERE { cap < high } else { cap >= low };
            // The flow's rate goes from one to the other of `lower` and `min(cap, upper)`.
            if cap > enough {
                self.load_others(entry, number, sign * (smaller(cap, upper) - lower));
            }
        }
        self.store.links[number as usize].crossing = crossing;
        self.touch(number);
        let flags = &mut self.flags[number as usize];
        *flags = if moves { *flags | MOVES } else { *flags & !MOVES };
    }

    fn load_others(&mut self, entry: &Entry, number: u32, change: f64) {
        let change = change * self.store.weight(entry.flow);
        let [first, second, third] = entry.others;
        if first != MANY {
            self.load(first, change);
            if second != NO_LINK {
                self.load(second, change);
                self.load(third, change);
            }
            return;
        }
        for index in 0..self.store.path(entry.flow).len() {
            let other = self.store.path(entry.flow)[index].link;
            if other != number {
                self.load(other, change);
            }
        }
    }
}
