//! The shortest schedule over several switches that is found.
//!
//! The slots of shifts, of Birkhoff-von Neumann, of the critical-line rules with holds limited to
//! what a switch has time for, and slots of equal holds (see [`super::equal`]) are placed on the
//! switches. The best is then searched around (large-neighborhood search): what the switch that
//! ends last and one or two others send is scheduled anew on these, as long as that helps; for
//! small demand always, for large demand as long as a time limit allows.

use std::time::Instant;

use super::super::critical::{RULES, Rule, slots_by};
use super::super::demand::Demand;
use super::super::improve::improve;
use super::super::methods::plan_by;
use super::super::schedule::Method;
use super::super::slots::{Matchings, Slots};
use super::SwitchSchedule;
use super::equal::equal_slots;
use super::pack::{length, pack, serve, trim};

/// Slots per switch up to which holds are limited to its share of the time, or made equal.
const SHARES: u64 = 4;

/// Lines up to which switches are scheduled anew even without a time limit.
const SMALL: usize = 16;

/// The part of its length by which the last switch must become shorter.
const LEAST_GAIN: u64 = 500;

/// A schedule of the least length that the search finds. `until` bounds its time, softly.
pub(super) fn shortest(
    demand: &Demand,
    switches: usize,
    lower_bound: u64,
    until: Option<Instant>,
) -> SwitchSchedule {
    let mut search = Search::new(demand, switches, lower_bound, until);
    for method in [Method::RoundRobin, Method::Bvn] {
        if let Matchings::Slots(slots) = plan_by(demand, method)
            && search.may_continue()
        {
            search.offer(method, &slots);
        }
    }
    search.starts(&RULES);
    let Search { method, best, .. } = search;
    let small = demand.rows.max(demand.columns) <= SMALL;
    let mut best = trim(demand, &best);
    if demand.delay > 0 && (small || until.is_some()) {
        while length(&best, demand.delay) > lower_bound
            && let Some(better) = rebuilt(demand, &best, until)
        {
            best = better;
        }
    }
    SwitchSchedule::of(method, best, demand, lower_bound)
}

/// The schedule with the switch that ends last made shorter, and none made as long.
fn rebuilt(demand: &Demand, switches: &[Slots], until: Option<Instant>) -> Option<Vec<Slots>> {
    let mut order: Vec<usize> = (0..switches.len()).collect();
    order.sort_by_key(|&switch| switches[switch].length(demand.delay));
    let last = order.pop()?;
    let pairs = order.iter().map(|&one| vec![last, one]);
    let triples = order.windows(2).map(|two| vec![last, two[0], two[1]]);
    let sent = sent_by_each(demand, switches);
    let longest = switches[last].length(demand.delay);
    // Steps of a byte would never end.
    let enough = longest - longest / LEAST_GAIN;
    for group in pairs.chain(triples) {
        let mut bytes = vec![0; demand.bytes.len()];
        for &(cell, size) in group.iter().flat_map(|&switch| &sent[switch]) {
            bytes[cell] += size;
        }
        let part = Demand { bytes: &bytes, ..*demand };
        let bound = part.lower_bound_over(group.len());
        if bound >= enough {
            continue;
        }
        let mut search = Search::new(&part, group.len(), bound, until);
        search.longest = enough;
        search.starts(&RULES[..2]);
        if search.longest < enough {
            let mut result = switches.to_vec();
            for (&switch, slots) in group.iter().zip(search.best) {
                result[switch] = slots;
            }
            return Some(trim(demand, &result));
        }
        if !search.in_time() {
            return None;
        }
    }
    None
}

/// The cells, and how many of their bytes, that each switch sends.
fn sent_by_each(demand: &Demand, switches: &[Slots]) -> Vec<Vec<(usize, u64)>> {
    let mut left = demand.bytes.to_vec();
    let of = |slots: &Slots| {
        let mut sent = Vec::new();
        serve(&mut left, demand, slots, |cell, bytes| sent.push((cell, bytes)));
        sent
    };
    switches.iter().map(of).collect()
}

struct Search<'a> {
    demand: &'a Demand<'a>,
    until: Option<Instant>,
    lower_bound: u64,
    /// The best so far: its length, its method, and the slots of each switch.
    longest: u64,
    method: Method,
    best: Vec<Slots>,
}

impl<'a> Search<'a> {
    fn new(
        demand: &'a Demand<'a>,
        switches: usize,
        lower_bound: u64,
        until: Option<Instant>,
    ) -> Self {
        let best = vec![Slots::default(); switches];
        Self { demand, until, lower_bound, longest: u64::MAX, method: Method::RoundRobin, best }
    }

    fn in_time(&self) -> bool {
        self.until.is_none_or(|until| Instant::now() < until)
    }

    /// Whether there is time and something to gain; always, as long as nothing has been found.
    fn may_continue(&self) -> bool {
        self.longest == u64::MAX || (self.longest > self.lower_bound && self.in_time())
    }

    /// Tries slots of equal holds, and the critical-line rules under several limits on holds.
    fn starts(&mut self, rules: &[Rule]) {
        if self.demand.delay == 0 {
            return;
        }
        let switches = self.best.len();
        for share in 1..=SHARES {
            if self.may_continue()
                && let Some(slots) = equal_slots(self.demand, share as usize * switches)
            {
                self.offer(Method::Critical, &slots);
            }
        }
        for share in 0..=SHARES {
            let Some(limit) = self.limit(share) else { continue };
            for &rule in rules {
                if self.may_continue()
                    && let Some(slots) = slots_by(self.demand, rule, limit, self.until)
                {
                    self.offer(Method::Critical, &slots);
                }
            }
        }
    }

    /// How long each of so many slots per switch can be held within the bound; no limit for none.
    fn limit(&self, share: u64) -> Option<u64> {
        let Some(time) = self.lower_bound.checked_div(share) else { return Some(u64::MAX) };
        time.checked_sub(self.demand.delay).filter(|&hold| hold > 0)
    }

    /// Places slots on the switches, before and after swaps between them.
    fn offer(&mut self, method: Method, slots: &Slots) {
        let better = improve(self.demand, slots, self.until);
        for slots in [slots, &better] {
            let placed = pack(self.demand, slots, self.best.len());
            let longest = length(&placed, self.demand.delay);
            if longest < self.longest {
                (self.longest, self.method, self.best) = (longest, method, placed);
            }
        }
    }
}
