//! The shortest schedule of all methods, cheapest method first.
//!
//! It stops as soon as a schedule meets the lower bound or the time is up. With a delay, cyclic
//! shifts (for small demand also as few slots as possible) are improved by swaps, the
//! critical-line method is tried with every rule, and groups of slots are rebuilt: for small demand
//! always, for large demand as long as a time limit allows.

use std::time::Instant;

use super::critical::{RULES, by_rule};
use super::demand::Demand;
use super::fewest;
use super::improve::improve;
use super::methods::plan_by;
use super::rebuild::rebuild;
use super::schedule::{Method, Schedule};
use super::slots::{Matchings, Slots};

/// What `auto` tries after cyclic shifts and Birkhoff-von Neumann.
const LAST: [Method; 3] = [Method::Threshold, Method::OpenShop, Method::Maximal];

/// Lines up to which groups of slots are rebuilt even without a time limit.
const SMALL: usize = 16;

/// Lines up to which they are rebuilt in what each rule found, not in the best alone, and up to
/// which as few slots as possible are tried.
const TINY: usize = 8;

pub(super) fn decompose(demand: &Demand, until: Option<Instant>) -> Schedule {
    let bound = demand.lower_bound();
    // With partial reconfiguration the open shop is nearly always the shortest by far.
    let cheapest = if demand.partial { Method::OpenShop } else { Method::RoundRobin };
    let best = schedule(cheapest, demand, bound);
    let mut search = Search { demand, until, best, others: Vec::new() };
    search.all();
    search.best
}

fn schedule(method: Method, demand: &Demand, bound: u64) -> Schedule {
    Schedule::of(method, plan_by(demand, method), demand, bound)
}

struct Search<'a> {
    demand: &'a Demand<'a>,
    until: Option<Instant>,
    best: Schedule,
    /// Slots of the rules, to be rebuilt.
    others: Vec<Slots>,
}

impl Search<'_> {
    fn all(&mut self) {
        let demand = self.demand;
        let lines = demand.rows.max(demand.columns);
        // Without delay this is optimal.
        if self.may_continue() {
            self.offer(Method::Bvn, plan_by(demand, Method::Bvn));
        }
        if self.may_continue()
            && let Matchings::Slots(slots) = plan_by(demand, Method::RoundRobin)
        {
            self.offer(Method::RoundRobin, Matchings::Slots(improve(demand, &slots, self.until)));
        }
        // Like the critical-line method it takes the delay into account, and that alone; with 16
        // lines and more it hardly ever helped.
        if self.may_continue() && lines <= TINY {
            let slots = improve(demand, &fewest::decompose(demand), self.until);
            self.offer(Method::Critical, Matchings::Slots(slots));
        }
        for rule in RULES {
            if self.may_continue()
                && let Some(slots) = by_rule(demand, rule, self.until)
            {
                if lines <= TINY {
                    self.others.push(slots.clone());
                }
                self.offer(Method::Critical, Matchings::Slots(slots));
            }
        }
        for method in LAST {
            if self.may_continue() {
                self.offer(method, plan_by(demand, method));
            }
        }
        // Worth its time where it is short, or where the caller has time.
        if self.may_continue()
            && (lines <= SMALL || self.until.is_some())
            && let Matchings::Slots(slots) = &self.best.plan
        {
            let slots = rebuild(demand, slots, self.until);
            self.offer(self.best.method, Matchings::Slots(slots));
        }
        for slots in std::mem::take(&mut self.others) {
            if self.may_continue() {
                let slots = rebuild(demand, &slots, self.until);
                self.offer(Method::Critical, Matchings::Slots(slots));
            }
        }
    }

    fn may_continue(&self) -> bool {
        let in_time = self.until.is_none_or(|until| Instant::now() < until);
        in_time && self.best.length > self.best.lower_bound
    }

    fn offer(&mut self, method: Method, plan: Matchings) {
        let found = Schedule::of(method, plan, self.demand, self.best.lower_bound);
        if found.length < self.best.length {
            self.best = found;
        }
    }
}
