//! The shortest schedule over several switches that is found.
//!
//! The slots of every method, of the critical-line rules with holds limited to what a switch has
//! time for, and slots of equal holds (see [`super::equal`]) are placed on the switches. Then the
//! search looks around the best of them (large-neighborhood search): what the switch that ends last
//! and one or two others send is scheduled anew on these, as long as that helps; for small demand
//! always, for large demand as long as a time limit allows.

use super::super::budget::Budget;
use super::super::critical::{RULES, Rule, slots_by};
use super::super::demand::Demand;
use super::super::improve::improve;
use super::super::methods::plan_by;
use super::super::schedule::Method;
use super::super::slots::{Matchings, Slots};
use super::equal::equal_slots;
use super::pack::{length, pack, serve, trim};
use super::schedule::SwitchSchedule;

/// Slots per switch up to which holds are limited to its share of the time, or made equal.
const SHARES: u64 = 4;

/// Lines up to which switches are scheduled anew even without a time limit.
const SMALL: usize = 16;

/// The part of its length by which the last switch must become shorter.
const MIN_GAIN: u64 = 500;

/// A schedule of the least length that the search finds. The budget bounds it, softly.
pub(super) fn shortest(
    demand: &Demand,
    switches: usize,
    lower_bound: u64,
    budget: &Budget,
) -> SwitchSchedule {
    let mut search = Search::new(demand, switches, lower_bound, budget);
    search.offer_method(Method::RoundRobin);
    search.offer_method(Method::Greedy);
    search.offer_method(Method::Bvn);
    search.starts(&RULES);
    for method in [Method::Threshold, Method::OpenShop, Method::Maximal] {
        search.offer_method(method);
    }
    let Search { method, best, .. } = search;
    let small = demand.rows.max(demand.columns) <= SMALL;
    let mut best = trim(demand, &best);
    if demand.delay > 0 && (small || budget.is_limited()) {
        while length(&best, demand.delay) > lower_bound
            && let Some(better) = rebuilt(demand, &best, budget)
        {
            best = better;
        }
    }
    SwitchSchedule::of(method, best, demand, lower_bound)
}

/// The schedule with the switch that ends last made shorter, and none made as long.
fn rebuilt(demand: &Demand, switches: &[Slots], budget: &Budget) -> Option<Vec<Slots>> {
    let mut order: Vec<usize> = (0..switches.len()).collect();
    order.sort_by_key(|&switch| switches[switch].length(demand.delay));
    let last = order.pop()?;
    let pairs = order.iter().map(|&one| vec![last, one]);
    let triples = order.windows(2).map(|two| vec![last, two[0], two[1]]);
    let sent = sent_by_each(demand, switches);
    let longest = switches[last].length(demand.delay);
    // Steps of a byte would never end.
    let enough = longest - longest / MIN_GAIN;
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
        let mut search = Search::new(&part, group.len(), bound, budget);
        search.longest = enough;
        search.starts(&RULES[..2]);
        if search.longest < enough {
            let mut result = switches.to_vec();
            for (&switch, slots) in group.iter().zip(search.best) {
                result[switch] = slots;
            }
            return Some(trim(demand, &result));
        }
        if budget.is_spent() {
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
    budget: &'a Budget,
    lower_bound: u64,
    /// The best so far: its length, its method, and the slots of each switch.
    longest: u64,
    method: Method,
    best: Vec<Slots>,
}

impl<'a> Search<'a> {
    fn new(demand: &'a Demand<'a>, switches: usize, lower_bound: u64, budget: &'a Budget) -> Self {
        let best = vec![Slots::default(); switches];
        Self { demand, budget, lower_bound, longest: u64::MAX, method: Method::RoundRobin, best }
    }

    /// Whether there is time and something to gain; always, as long as nothing has been found.
    fn may_continue(&self) -> bool {
        self.longest == u64::MAX || (self.longest > self.lower_bound && !self.budget.is_spent())
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
                self.offer_improved(&slots);
            }
        }
        for share in 0..=SHARES {
            let Some(limit) = self.limit(share) else { continue };
            for &rule in rules {
                if self.may_continue()
                    && let Some(slots) = slots_by(self.demand, rule, limit, self.budget)
                {
                    self.offer_improved(&slots);
                }
            }
        }
    }

    /// How long each of so many slots per switch can be held within the bound; no limit for none.
    ///
    /// Where delays take most of the time so little is left for each that the slots would be many
    /// and useless, and without end if it is a byte.
    fn limit(&self, share: u64) -> Option<u64> {
        let Some(time) = self.lower_bound.checked_div(share) else { return Some(u64::MAX) };
        time.checked_sub(self.demand.delay).filter(|&hold| hold > time / 4)
    }

    /// Places the slots of a method on the switches; those of shifts also after swaps.
    fn offer_method(&mut self, method: Method) {
        if self.demand.check_size(method).is_err() || !self.may_continue() {
            return;
        }
        if let Matchings::Slots(slots) = plan_by(self.demand, method) {
            self.offer(method, &slots);
            if method == Method::RoundRobin && self.demand.delay > 0 && self.may_continue() {
                let better = improve(self.demand, &slots, self.budget);
                self.offer(method, &better);
            }
        }
    }

    /// Places slots on the switches, before and after swaps between them.
    fn offer_improved(&mut self, slots: &Slots) {
        let better = improve(self.demand, slots, self.budget);
        self.offer(Method::Critical, slots);
        self.offer(Method::Critical, &better);
    }

    fn offer(&mut self, method: Method, slots: &Slots) {
        let placed = pack(self.demand, slots, self.best.len());
        let longest = length(&placed, self.demand.delay);
        if longest < self.longest {
            (self.longest, self.method, self.best) = (longest, method, placed);
        }
    }
}
