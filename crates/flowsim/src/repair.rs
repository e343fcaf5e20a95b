//! Makes the levels of all links consistent again after a change.
//!
//! Each link has a *level*: the rate of the flows that it limits, infinite while it is not full.
//! A flow's rate is the least level on its path. Levels are right when each is the fair level of
//! its link given the levels on the rest of its flows' paths. Then every flow has a full link on
//! which no rate is greater, which is the optimality condition of max-min fairness, and the
//! allocation that meets it is unique. So a change is repaired by recomputing dirty links and
//! making dirty exactly those that see a flow's rate change, until none is left: the cost is
//! that of the links whose level really changes, and the result is that of progressive filling
//! of the whole network.
//!
//! Lower levels first: a link is affected only by levels below its own, so most links are
//! computed once; one that was computed too early is simply made dirty again.

use crate::level::fair_level;
use crate::network::FlowNetwork;
use crate::store::{Entry, MANY};
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
        if self.is_dirty[link as usize] {
            return;
        }
        self.is_dirty[link as usize] = true;
        let level = self.levels[link as usize];
        let estimate = if level.is_finite() {
            level
        } else {
            self.capacity[link as usize] / self.store.crossing(link).len() as f64
        };
        // The bits of positive floats are ordered as they are.
        self.dirty.push(Reverse((estimate.to_bits(), link)));
    }

    /// Recomputes rates where dirty, at the current time.
    pub(crate) fn flush(&mut self) {
        if self.dirty.is_empty() {
            return;
        }
        self.statistics.recomputations += 1;
        self.repair();
        self.settle_touched();
    }

    fn repair(&mut self) {
        let mut tolerance = TOLERANCE;
        let mut visits = 0;
        while let Some(Reverse((_, link))) = self.dirty.pop() {
            self.is_dirty[link as usize] = false;
            visits += 1;
            if visits > 64 * (self.touched.len() + 16) {
                // Rounding errors chase one another: let go of ever larger ones.
                tolerance *= 2.0;
                visits = 0;
            }
            self.repair_link(link, tolerance);
        }
    }

    fn repair_link(&mut self, link: u32, tolerance: f64) {
        let mut caps = std::mem::take(&mut self.caps);
        caps.clear();
        for &entry in self.store.crossing(link) {
            caps.push(self.store.rest_of_path(entry, link, &self.levels).0);
        }
        self.statistics.links_touched += 1;
        self.statistics.flows_touched += caps.len() as u64;
        let old = self.levels[link as usize];
        let new = fair_level(self.capacity[link as usize], &caps, old);
        if differs(old, new, tolerance) {
            self.levels[link as usize] = new;
            self.touch(link);
            for (index, &cap) in caps.iter().enumerate() {
                if differs(old.min(cap), new.min(cap), tolerance) {
                    let entry = self.store.crossing(link)[index];
                    self.make_rest_dirty(entry, link);
                }
            }
        }
        self.caps = caps;
    }

    fn make_rest_dirty(&mut self, entry: Entry, link: u32) {
        if entry.other != MANY {
            if entry.other != crate::store::NO_LINK {
                self.make_dirty(entry.other);
            }
            return;
        }
        for index in 0..self.store.path(entry.flow).len() {
            let other = self.store.path(entry.flow)[index].link;
            if other != link {
                self.make_dirty(other);
            }
        }
    }
}
