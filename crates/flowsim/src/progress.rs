//! Bytes sent and finish times.
//!
//! Bits left are kept per flow as of the time at which its bottleneck link was last *settled*;
//! all flows that a link limits have the same rate, so the next to finish is the one with the
//! fewest left, and one division gives the link's next finish time.

use crate::ids::NO_LINK;
use crate::level::smaller;
use crate::network::{FlowNetwork, MOVES, REKEY, TOUCHED};
use crate::span::{ABSOLUTE_SNAP, PS, RELATIVE_SNAP, time_to_send};
use crate::store::{ELSEWHERE, Flow, Link};
use lightloom_model::Time;

impl FlowNetwork {
    /// Brings bits left, bottlenecks and finish times up to date with the new levels.
    pub(crate) fn settle_touched(&mut self) {
        let mut index = 0;
        // A pass may touch further links.
        while index < self.touched.len() {
            let link = self.touched[index];
            index += 1;
            self.flags[link as usize] &= !TOUCHED;
            self.settle(link);
        }
        if self.changed.is_some() {
            self.note_touched();
        }
        for index in 0..self.fresh.len() {
            let flow = self.fresh[index];
            self.note_path(flow);
            let Flow { bottleneck, size, .. } = self.store.flows[flow as usize];
            if bottleneck == NO_LINK {
                let lowest = self.store.lowest(flow, &self.levels);
                self.join(flow, lowest, size as f64 * 8.0);
            }
        }
        self.fresh.clear();
        debug_assert!(self.touched.iter().all(|&link| self.is_settled(link)), "a flow is lost");
        self.touched.clear();
        for index in 0..self.rekey.len() {
            let link = self.rekey[index];
            self.flags[link as usize] &= !REKEY;
            let Link { minimum, drain, settled, .. } = self.store.links[link as usize];
            match time_to_send(minimum, drain) {
                Some(span) => self.queue.set(link, Time(settled + span)),
                None => self.queue.remove(link),
            }
        }
        self.rekey.clear();
    }

    /// Keeps note of all links of the flows whose rates follow touched links.
    fn note_touched(&mut self) {
        for index in 0..self.touched.len() {
            let link = self.touched[index] as usize;
            for entry in 0..self.store.links[link].crossing.len() {
                self.note_path(self.store.links[link].crossing[entry].flow);
            }
        }
    }

    /// Settles one link: its flows' bits left as of now, and whose bottleneck it is.
    fn settle(&mut self, number: u32) {
        let level = self.levels[number as usize];
        let link = &mut self.store.links[number as usize];
        let sent = sent_since_settled(link, self.now);
        link.settled = self.now;
        link.drain = if level.is_finite() { level } else { 0.0 };
        let mut lowest = ELSEWHERE;
        for entry in &mut link.crossing {
            let left = entry.remaining - sent;
            entry.remaining = if left > 0.0 { left } else { 0.0 };
            lowest = smaller(entry.remaining, lowest);
        }
        link.minimum = lowest;
        self.mark_rekey(number);
        if self.flags[number as usize] & MOVES == 0 {
            return;
        }
        self.flags[number as usize] &= !MOVES;
        self.let_go(number, level);
        self.take_in(number, level);
    }

    /// Lets those flows of a link go whose bottleneck is now elsewhere.
    fn let_go(&mut self, number: u32, level: f64) {
        let mut index = 0;
        let mut left = false;
        while let Some(entry) = self.store.links[number as usize].crossing.get(index) {
            if entry.remaining < ELSEWHERE && self.store.cap(entry, number, &self.levels) < level {
                let (flow, remaining) = (entry.flow, entry.remaining);
                self.store.links[number as usize].crossing[index].remaining = ELSEWHERE;
                let lowest = self.store.lowest(flow, &self.levels);
                self.join(flow, lowest, remaining);
                left = true;
            }
            index += 1;
        }
        if left {
            let link = &mut self.store.links[number as usize];
            let remaining = link.crossing.iter().map(|entry| entry.remaining);
            link.minimum = remaining.fold(ELSEWHERE, smaller);
        }
    }

    /// Takes in those flows that a link now limits most.
    fn take_in(&mut self, number: u32, level: f64) {
        let mut index = 0;
        while let Some(entry) = self.store.links[number as usize].crossing.get(index) {
            if entry.remaining == ELSEWHERE && level <= self.store.cap(entry, number, &self.levels)
            {
                let flow = entry.flow;
                let bottleneck = self.store.flows[flow as usize].bottleneck;
                if level < self.levels[bottleneck as usize] {
                    let remaining = self.leave(flow);
                    self.store.flows[flow as usize].bottleneck = number;
                    let link = &mut self.store.links[number as usize];
                    link.crossing[index].remaining = remaining;
                    link.minimum = smaller(link.minimum, remaining);
                }
            }
            index += 1;
        }
    }

    /// Makes `number` the bottleneck of `flow`, which has `remaining` bits left.
    pub(crate) fn join(&mut self, flow: u32, number: u32, remaining: f64) {
        self.store.flows[flow as usize].bottleneck = number;
        // As if it had been limited by this link since it was settled.
        let remaining =
            remaining + sent_since_settled(&self.store.links[number as usize], self.now);
        self.store.entry_mut(flow, number).remaining = remaining;
        let link = &mut self.store.links[number as usize];
        link.minimum = smaller(link.minimum, remaining);
        self.mark_rekey(number);
    }

    /// Takes `flow` from its bottleneck, if it has one; returns the bits left.
    fn leave(&mut self, flow: u32) -> f64 {
        let Flow { bottleneck, size, .. } = self.store.flows[flow as usize];
        if bottleneck == NO_LINK {
            return size as f64 * 8.0;
        }
        let entry = self.store.entry_mut(flow, bottleneck);
        let remaining = std::mem::replace(&mut entry.remaining, ELSEWHERE);
        let link = &self.store.links[bottleneck as usize];
        let left = remaining - sent_since_settled(link, self.now);
        if remaining <= link.minimum {
            self.touch(bottleneck);
        }
        left.max(0.0)
    }

    /// Bits that `flow` has left, which `link` limits.
    pub(crate) fn bits_left_on(&self, flow: u32, link: u32) -> f64 {
        let hop = self.store.path(flow).iter().find(|hop| hop.link == link);
        let position = hop.expect("a flow's bottleneck is on its path").position;
        let link = &self.store.links[link as usize];
        let remaining = link.crossing[position as usize].remaining;
        (remaining - sent_since_settled(link, self.now)).max(0.0)
    }

    /// Whether the flows that cross `link` drain at the lowest level of their paths.
    fn is_settled(&self, link: u32) -> bool {
        self.store.links[link as usize].crossing.iter().all(|entry| {
            let bottleneck = self.store.flows[entry.flow as usize].bottleneck;
            let lowest = self.levels[self.store.lowest(entry.flow, &self.levels) as usize];
            let drain = self.store.links[bottleneck as usize].drain;
            (drain - lowest).abs() <= 1e-9 * lowest
        })
    }

    /// Makes sure that `link` is settled.
    pub(crate) fn touch(&mut self, link: u32) {
        if self.flags[link as usize] & TOUCHED == 0 {
            self.flags[link as usize] |= TOUCHED;
            self.touched.push(link);
        }
    }

    fn mark_rekey(&mut self, link: u32) {
        if self.flags[link as usize] & REKEY == 0 {
            self.flags[link as usize] |= REKEY;
            self.rekey.push(link);
        }
    }

    /// Appends the flows that finish now, as `link`, which limits them, has them in the queue.
    pub(crate) fn collect_finished(&mut self, link: u32) {
        let link = &self.store.links[link as usize];
        let sent = sent_since_settled(link, self.now);
        let bound = sent * (1.0 + RELATIVE_SNAP) + link.drain * (ABSOLUTE_SNAP / PS);
        let bound = bound.max(link.minimum);
        for entry in &link.crossing {
            if entry.remaining <= bound {
                let sequence = self.store.flows[entry.flow as usize].sequence;
                self.finishing.push((sequence, entry.flow));
            }
        }
    }
}

/// Bits that each flow limited by `link` has sent since the link was settled.
fn sent_since_settled(link: &Link, now: u64) -> f64 {
    if link.settled == now { 0.0 } else { link.drain * (now - link.settled) as f64 / PS }
}
