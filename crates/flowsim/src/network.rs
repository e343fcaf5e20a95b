//! The network as its user sees it: links, flows, time.

use crate::grid::Grids;
use crate::ids::{FlowId, LinkId};
use crate::level::headroom;
use crate::store::{Entry, Flow, IN_CELL, Link, Store};
use lightloom_kernel::IndexedQueue;
use lightloom_model::{Bytes, Rate, Time};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What the network has done so far, for benchmarks and reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Statistics {
    /// Instants at which rates were recomputed.
    pub recomputations: u64,
    /// Links whose level was computed, over all recomputations.
    pub links_touched: u64,
    /// Flows looked at for that, once for each of these links.
    pub flows_touched: u64,
    /// Flows that have finished.
    pub completions: u64,
}

/// Completions, as a power of two, between two recomputations of all links, which bounds what
/// headroom loses by rounding: at most 2^-53 of a capacity a time, 2^-30 is kept in reserve.
const RENEWAL: u32 = 20;

/// In `FlowNetwork::flags`: the link is in `dirty`.
pub(crate) const DIRTY: u8 = 1;
/// The link is in `touched`.
pub(crate) const TOUCHED: u8 = 2;
/// The link is in `rekey`.
pub(crate) const REKEY: u8 = 4;
/// A flow may have the link as its bottleneck and no longer should, or the reverse.
pub(crate) const MOVES: u8 = 8;

/// Links and the flows on them.
#[derive(Debug, Clone)]
pub struct FlowNetwork {
    pub(crate) now: u64,
    pub(crate) store: Store,
    // Per link what is looked at from other links, densely; see `repair`.
    pub(crate) levels: Vec<f64>,
    pub(crate) headroom: Vec<f64>,
    pub(crate) flags: Vec<u8>,
    pub(crate) grids: Grids,
    /// Next finish time of the flows whose bottleneck each link is.
    pub(crate) queue: IndexedQueue,
    // Work of the next recomputation: links to compute, to settle, to put in the queue anew.
    pub(crate) dirty: BinaryHeap<Reverse<(u64, u32)>>,
    pub(crate) touched: Vec<u32>,
    pub(crate) rekey: Vec<u32>,
    /// Flows that started since the last one.
    pub(crate) fresh: Vec<u32>,
    /// Flows without bytes, which finish when they start.
    instant: Vec<u32>,
    /// Buffers, empty between calls.
    pub(crate) caps: Vec<f64>,
    pub(crate) counts: Vec<u32>,
    ending: Vec<u32>,
    pub(crate) finishing: Vec<(u64, u32)>,
    /// Finished before a start or rate change, not yet reported.
    finished: Vec<u64>,
    finished_at: u64,
    next_sequence: u64,
    /// Links on which rates may have changed, if somebody watches them.
    pub(crate) changed: Option<Vec<u32>>,
    pub(crate) statistics: Statistics,
}

impl Statistics {
    /// Both together.
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            recomputations: self.recomputations + other.recomputations,
            links_touched: self.links_touched + other.links_touched,
            flows_touched: self.flows_touched + other.flows_touched,
            completions: self.completions + other.completions,
        }
    }
}

impl Default for FlowNetwork {
    fn default() -> Self {
        Self::new()
    }
}

impl FlowNetwork {
    /// A network without links.
    pub fn new() -> Self {
        Self {
            now: 0,
            store: Store::new(),
            // Entry 0 is the link without limit.
            levels: vec![f64::INFINITY],
            headroom: vec![f64::INFINITY],
            flags: vec![0],
            grids: Grids::default(),
            queue: IndexedQueue::new(),
            dirty: BinaryHeap::new(),
            touched: Vec::new(),
            rekey: Vec::new(),
            fresh: Vec::new(),
            instant: Vec::new(),
            caps: Vec::new(),
            counts: Vec::new(),
            ending: Vec::new(),
            finishing: Vec::new(),
            finished: Vec::new(),
            finished_at: 0,
            next_sequence: 0,
            changed: None,
            statistics: Statistics::default(),
        }
    }

    /// Adds a link of this rate (0: dark).
    pub fn add_link(&mut self, rate: Rate) -> LinkId {
        let link = LinkId((self.levels.len() - 1) as u32);
        let capacity = rate.0 as f64;
        self.store.links.push(Link::new(capacity, self.now));
        self.levels.push(f64::INFINITY);
        self.headroom.push(headroom(capacity, 0.0));
        self.flags.push(0);
        link
    }

    /// Changes the rate of a link; at 0 it is dark and the flows on it stall.
    ///
    /// # Panics
    /// If `now` is earlier than a previous call's.
    pub fn set_rate(&mut self, now: Time, link: LinkId, rate: Rate) {
        self.set_capacity(now, link, rate.0 as f64);
    }

    /// As `set_rate`, for what others leave of a link.
    pub(crate) fn set_capacity(&mut self, now: Time, link: LinkId, capacity: f64) {
        self.step_to(now);
        self.store.links[link.0 as usize + 1].capacity = capacity;
        self.make_dirty(link.0 + 1);
        self.set_line_capacity(link.0 + 1, capacity);
        if let Some(changed) = &mut self.changed {
            changed.push(link.0 + 1);
        }
    }

    /// Keeps note of links on which rates change from now on.
    pub(crate) fn watch(&mut self) {
        self.changed.get_or_insert_default();
    }

    /// Appends the links on which rates may have changed since the last call, each once.
    pub(crate) fn take_changed(&mut self, into: &mut Vec<LinkId>) {
        if let Some(changed) = &mut self.changed {
            changed.sort_unstable();
            changed.dedup();
            into.extend(changed.drain(..).map(|link| LinkId(link - 1)));
        }
    }

    /// Sum of the rates of the flows on a link, as of the last `next_completion`.
    pub(crate) fn load_of(&self, link: LinkId) -> f64 {
        let number = link.0 + 1;
        let level = self.levels[number as usize];
        let crossing = &self.store.links[number as usize].crossing;
        let rate = |entry: &Entry| {
            level.min(self.store.cap(entry, number, &self.levels)) * self.store.weight(entry.flow)
        };
        let load: f64 = crossing.iter().map(rate).filter(|rate| rate.is_finite()).sum();
        load + self.load_of_cells(number)
    }

    /// Starts a flow of `size` over `path`; `token` is given back when it has finished.
    ///
    /// # Panics
    /// If `now` is earlier than a previous call's, or `path` is empty or has a link twice.
    pub fn start(&mut self, now: Time, size: Bytes, path: &[LinkId], token: u64) -> FlowId {
        self.start_equal(now, size, 1, path, token)
    }

    /// Starts this many flows of `size` each over one path, as one: they have equal rates, their
    /// shares of links are those that they would have apart, and they finish together.
    ///
    /// # Panics
    /// As [`Self::start`], or if there is none.
    pub fn start_equal(
        &mut self,
        now: Time,
        size: Bytes,
        count: u32,
        path: &[LinkId],
        token: u64,
    ) -> FlowId {
        assert!(count > 0, "one flow or more");
        assert!(!path.is_empty(), "a flow needs at least one link");
        for (index, link) in path.iter().enumerate() {
            assert!(!path[..index].contains(link), "link {} twice in one path", link.0);
        }
        self.step_to(now);
        let flow = self.store.insert(token, size.0, self.next_sequence);
        self.store.set_count(flow, count);
        self.next_sequence += 1;
        if size.0 == 0 {
            // It is over before it could take a share of any link.
            self.instant.push(flow);
            return FlowId(flow);
        }
        if count == 1
            && let Some(cell) = self.empty_cell(path)
            && self.enter_cell(cell, flow, path, size.0 as f64 * 8.0)
        {
            return FlowId(flow);
        }
        self.open_grids(path);
        self.fresh.push(flow);
        self.store.enter(flow, path);
        let level = |link: &LinkId| self.levels[link.0 as usize + 1];
        let rate = path.iter().map(level).fold(f64::INFINITY, f64::min) * f64::from(count);
        for link in path {
            // As long as no link of the path is full, the infinite rate uses up any headroom.
            self.load(link.0 + 1, rate);
        }
        FlowId(flow)
    }

    /// When the next flow finishes, if no further change happens; `None` if all are stalled.
    pub fn next_completion(&mut self) -> Option<Time> {
        if !self.finished.is_empty() {
            return Some(Time(self.finished_at));
        }
        self.next_finish().map(Time)
    }

    /// Goes to `now` and appends to `done` the tokens of the flows that finish at or before it,
    /// in the order of (finish time, start).
    ///
    /// # Panics
    /// If `now` is earlier than a previous call's.
    pub fn advance(&mut self, now: Time, done: &mut Vec<u64>) {
        assert!(now.0 >= self.now, "time runs backwards: {} after {}", now.0, self.now);
        done.append(&mut self.finished);
        while let Some(time) = self.next_finish().filter(|&time| time <= now.0) {
            self.finish_at(time, done);
            if time == now.0 {
                // Rates are recomputed only after what the caller starts at this instant.
                break;
            }
        }
        self.now = now.0;
    }

    /// The rate of a flow, or of each of equal ones, in bits per second, as of the last
    /// `next_completion` (infinite for a flow without bytes).
    pub fn rate_of(&self, flow: FlowId) -> f64 {
        if self.store.flows[flow.0 as usize].bottleneck == IN_CELL {
            return self.rate_in_cell(flow.0);
        }
        let path = self.store.path(flow.0);
        path.iter().map(|hop| self.levels[hop.link as usize]).fold(f64::INFINITY, f64::min)
    }

    /// Number of flows that have not finished.
    pub fn active(&self) -> usize {
        self.store.len()
    }

    /// Bytes that flows which have finished or were withdrawn have sent over a link.
    pub fn carried(&self, link: LinkId) -> u64 {
        self.store.links[link.0 as usize + 1].carried
    }

    /// What has been done so far.
    pub fn statistics(&self) -> Statistics {
        self.statistics
    }

    fn next_finish(&mut self) -> Option<u64> {
        self.flush();
        if !self.instant.is_empty() {
            return Some(self.now);
        }
        self.queue.peek().map(|(time, _)| time.0)
    }

    /// Before a change at `now`: what happens until then, happens first.
    pub(crate) fn step_to(&mut self, now: Time) {
        assert!(now.0 >= self.now, "time runs backwards: {} after {}", now.0, self.now);
        if now.0 == self.now {
            return;
        }
        let mut done = std::mem::take(&mut self.finished);
        while let Some(time) = self.next_finish().filter(|&time| time <= now.0) {
            if done.is_empty() {
                self.finished_at = time;
            }
            self.finish_at(time, &mut done);
            if time == now.0 {
                break;
            }
        }
        self.finished = done;
        self.now = now.0;
    }

    /// Keeps note of the links of a flow whose rate changes, if somebody watches them.
    #[inline]
    pub(crate) fn note_path(&mut self, flow: u32) {
        if let Some(changed) = &mut self.changed {
            changed.extend(self.store.path(flow).iter().map(|hop| hop.link));
        }
    }

    /// Finishes the flows whose finish time is `time`.
    fn finish_at(&mut self, time: u64, done: &mut Vec<u64>) {
        self.now = time;
        let flows = &self.store.flows;
        self.finishing
            .extend(self.instant.drain(..).map(|flow| (flows[flow as usize].sequence, flow)));
        if self.queue.peek().is_some_and(|(earliest, _)| earliest.0 == time) {
            let mut links = std::mem::take(&mut self.ending);
            self.queue.append_earliest(&mut links);
            for link in links.drain(..) {
                if !self.collect_from_cells(link) {
                    self.collect_finished(link);
                    self.touch(link);
                }
            }
            self.ending = links;
        }
        let mut finishing = std::mem::take(&mut self.finishing);
        finishing.sort_unstable();
        let before = self.statistics.completions;
        for (_, flow) in finishing.drain(..) {
            let Flow { token, size, bottleneck, .. } = self.store.flows[flow as usize];
            done.push(token);
            self.note_path(flow);
            if bottleneck == IN_CELL {
                self.leave_cell(flow);
            } else {
                self.leave_links(flow, self.levels[bottleneck as usize]);
            }
            self.count_carried(flow, size);
            self.store.free(flow);
            self.statistics.completions += 1;
        }
        self.finishing = finishing;
        if before >> RENEWAL != self.statistics.completions >> RENEWAL {
            self.renew_middles();
            for link in 1..self.levels.len() {
                self.make_dirty(link as u32);
            }
        }
    }

    /// Counts bytes of a flow, or of each of equal ones, on the links of its path.
    pub(crate) fn count_carried(&mut self, flow: u32, bytes: u64) {
        let bytes = bytes * u64::from(self.store.count(flow));
        for index in 0..self.store.path(flow).len() {
            let link = self.store.path(flow)[index].link;
            self.store.links[link as usize].carried += bytes;
        }
    }

    /// Takes a flow of this rate, or equal ones of it, off the links of its path.
    pub(crate) fn leave_links(&mut self, flow: u32, rate: f64) {
        let rate = rate * self.store.weight(flow);
        for index in 0..self.store.path(flow).len() {
            let hop = self.store.path(flow)[index];
            self.store.remove_entry(hop);
            self.leave_line(hop.link);
            self.load(hop.link, -rate);
            let link = &self.store.links[hop.link as usize];
            if link.crossing.is_empty() {
                // Exactly, if it was not full; else it is dirty and computed anyway.
                self.headroom[hop.link as usize] = headroom(link.capacity, link.in_cells);
            }
        }
    }
}
