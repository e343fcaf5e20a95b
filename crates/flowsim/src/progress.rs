//! Bytes sent and finish times.
//!
//! Bits left are kept per flow as of the time at which its bottleneck link was last *settled*;
//! all flows that a link limits have the same rate, so the next to finish is the one with least
//! left, and one division gives the link's next finish time.

use crate::network::FlowNetwork;
use crate::store::{Flow, NO_LINK};
use lightloom_model::Time;
use lightloom_model::units::PS_PER_S;

const PS: f64 = PS_PER_S as f64;
/// Rounding errors of bits left and of rates, relative to the time to send and absolute in ps,
/// within which a finish time counts as the whole picosecond that it nearly is.
const RELATIVE_SNAP: f64 = 1.0 / (1u64 << 42) as f64;
const ABSOLUTE_SNAP: f64 = 1.0 / 1024.0;

/// Picoseconds to send `bits` at `rate` (bits per second), rounded up; `None` for ever.
pub(crate) fn time_to_send(bits: f64, rate: f64) -> Option<u64> {
    if bits <= 0.0 {
        return Some(0);
    }
    let exact = bits * PS / rate;
    if exact >= u64::MAX as f64 / 2.0 {
        return None;
    }
    let nearest = exact.round();
    if (exact - nearest).abs() > exact * RELATIVE_SNAP + ABSOLUTE_SNAP {
        return Some(exact.ceil() as u64);
    }
    let whole = |number: f64| number.fract() == 0.0 && number < (1u64 << 53) as f64;
    if whole(bits) && whole(rate) {
        let bit_ps = u128::from(bits as u64) * u128::from(PS_PER_S);
        return Some(bit_ps.div_ceil(u128::from(rate as u64)) as u64);
    }
    Some(nearest as u64)
}

impl FlowNetwork {
    /// Bits that each flow limited by `link` has sent since the link was settled.
    fn sent_since_settled(&self, link: u32) -> f64 {
        let span = self.now - self.settled[link as usize];
        if span == 0 { 0.0 } else { self.drain[link as usize] * span as f64 / PS }
    }

    /// Brings bits left, bottlenecks and finish times up to date with the new levels.
    pub(crate) fn settle_touched(&mut self) {
        let mut index = 0;
        // A pass may touch further links.
        while index < self.touched.len() {
            let link = self.touched[index];
            index += 1;
            self.settle(link);
        }
        self.touched.clear();
        for index in 0..self.fresh.len() {
            let flow = self.fresh[index];
            let mut least = (f64::INFINITY, NO_LINK);
            for hop in self.store.path(flow) {
                let level = self.levels[hop.link as usize];
                if level < least.0 {
                    least = (level, hop.link);
                }
            }
            self.join(flow, least.1);
        }
        self.fresh.clear();
        for index in 0..self.rekey.len() {
            let link = self.rekey[index];
            self.in_rekey[link as usize] = false;
            self.queue_link(link);
        }
        self.rekey.clear();
    }

    /// Settles one link: its flows' bits left as of now, and which flows it limits.
    fn settle(&mut self, link: u32) {
        let sent = self.sent_since_settled(link);
        let level = self.levels[link as usize];
        self.settled[link as usize] = self.now;
        self.drain[link as usize] = if level.is_finite() { level } else { 0.0 };
        self.least[link as usize] = f64::INFINITY;
        self.is_touched[link as usize] = false;
        self.mark_rekey(link);
        let mut least = f64::INFINITY;
        for index in 0..self.store.crossing(link).len() {
            let entry = self.store.crossing(link)[index];
            let flow = &mut self.store.flows[entry.flow as usize];
            let bottleneck = flow.bottleneck;
            if bottleneck == link {
                flow.remaining = (flow.remaining - sent).max(0.0);
                let remaining = flow.remaining;
                let (other, other_link) = self.store.rest_of_path(entry, link, &self.levels);
                if other < level {
                    self.join(entry.flow, other_link);
                } else {
                    least = remaining.min(least);
                }
            } else if bottleneck != NO_LINK && level < self.levels[bottleneck as usize] {
                let remaining = self.leave(entry.flow);
                self.store.flows[entry.flow as usize].remaining = remaining;
                let (other, other_link) = self.store.rest_of_path(entry, link, &self.levels);
                if other < level {
                    self.join(entry.flow, other_link);
                } else {
                    self.store.flows[entry.flow as usize].bottleneck = link;
                    least = remaining.min(least);
                }
            }
        }
        self.least[link as usize] = least;
    }

    /// Makes `link` the bottleneck of `flow`, whose bits left are as of now.
    fn join(&mut self, flow: u32, link: u32) {
        let sent = self.sent_since_settled(link);
        let flow = &mut self.store.flows[flow as usize];
        // As if it had been limited by this link since it was settled.
        flow.remaining += sent;
        flow.bottleneck = link;
        let least = &mut self.least[link as usize];
        *least = least.min(flow.remaining);
        self.mark_rekey(link);
    }

    /// Bits left now of a flow whose bottleneck is not settled yet.
    fn leave(&mut self, flow: u32) -> f64 {
        let Flow { remaining, bottleneck, .. } = self.store.flows[flow as usize];
        if remaining <= self.least[bottleneck as usize] {
            self.touch(bottleneck);
        }
        (remaining - self.sent_since_settled(bottleneck)).max(0.0)
    }

    pub(crate) fn touch(&mut self, link: u32) {
        if !self.is_touched[link as usize] {
            self.is_touched[link as usize] = true;
            self.touched.push(link);
        }
    }

    fn mark_rekey(&mut self, link: u32) {
        if !self.in_rekey[link as usize] {
            self.in_rekey[link as usize] = true;
            self.rekey.push(link);
        }
    }

    fn queue_link(&mut self, link: u32) {
        let least = self.least[link as usize];
        match time_to_send(least, self.drain[link as usize]) {
            Some(span) => self.queue.set(link, Time(self.settled[link as usize] + span)),
            None => self.queue.remove(link),
        }
    }

    /// Appends the flows that `link`, whose finish time is now, limits and that have finished.
    pub(crate) fn collect_finished(&mut self, link: u32) {
        let sent = self.sent_since_settled(link);
        let bound = sent * (1.0 + RELATIVE_SNAP)
            + self.drain[link as usize] * (ABSOLUTE_SNAP / PS);
        let bound = bound.max(self.least[link as usize]);
        for entry in self.store.crossing(link) {
            let flow = &self.store.flows[entry.flow as usize];
            if flow.bottleneck == link && flow.remaining <= bound {
                let sequence = self.store.tickets[entry.flow as usize].sequence;
                self.finishing.push((sequence, entry.flow));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lightloom_model::{Bytes, Rate};
    use proptest::prelude::*;

    #[test]
    fn times_are_whole_picoseconds_rounded_up() {
        assert_eq!(time_to_send(8e9, 4e11), Some(20_000_000_000));
        assert_eq!(time_to_send(8.0, 3.2e12), Some(3));
        assert_eq!(time_to_send(0.0, 1.0), Some(0));
        assert_eq!(time_to_send(8e9, 4e11 / 3.0), Some(60_000_000_000));
        assert_eq!(time_to_send(8e9, 4e11 / 7.0), Some(140_000_000_000));
    }

    #[test]
    fn nothing_arrives_without_a_rate() {
        assert_eq!(time_to_send(8.0, 0.0), None);
        assert_eq!(time_to_send(0.0, 0.0), Some(0));
        assert_eq!(time_to_send(f64::INFINITY, 1.0), None);
    }

    proptest! {
        #[test]
        fn whole_rates_agree_with_integer_arithmetic(
            size in 1u64..1 << 40, rate in 1_000_000u64..4_000_000_000_000,
        ) {
            let expected = Rate(rate).transmission(Bytes(size)).0;
            prop_assert_eq!(time_to_send(size as f64 * 8.0, rate as f64), Some(expected));
        }
    }
}
