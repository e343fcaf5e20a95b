//! The shortest schedule of all methods, in the order of what they promise for their time.
//!
//! It stops as soon as a schedule meets the lower bound or the budget is spent. With a delay, whole
//! pairs come first, at any budget, then Birkhoff-von Neumann if it may be shorter, a greedy
//! matching per slot, the critical-line method, and what helps less often. At last groups of slots
//! are rebuilt: for small demand always, for large demand as long as a limit allows; and the holds
//! of the best are found anew by a linear program. For demand of a few lines the optimum is sought
//! and proved. The order does not depend on the budget, so that more of it is never worse.

use super::budget::Budget;
use super::bvn;
use super::critical::{RULES, Rule, WHOLE, greedy, slots_by};
use super::demand::Demand;
use super::fewest;
use super::improve::improve;
use super::methods::plan_by;
use super::optimum::{self, Found};
use super::previous::keep;
use super::rebuild::rebuild;
use super::schedule::{Method, Schedule};
use super::slots::{Matchings, Slots};
use super::whole;

/// What is tried after the critical-line rules.
const LAST: [Method; 3] = [Method::Threshold, Method::OpenShop, Method::Maximal];

/// Lines up to which groups of slots are rebuilt even without a limit.
const SMALL: usize = 16;

/// Lines up to which they are rebuilt in what each rule found, not in the best alone, and up to
/// which as few slots as possible are tried.
const TINY: usize = 8;

/// Lines up to which slots are saved, without a limit, where the length cannot be less.
const SPARED: usize = 64;

/// The shortest schedule; the matchings of an earlier one are kept unless another is shorter.
pub(super) fn decompose(demand: &Demand, kept: Option<Schedule>, budget: &Budget) -> Schedule {
    if let Some(kept) = &kept
        && kept.length == kept.lower_bound
    {
        return kept.clone();
    }
    // The bound sorts the pairs, as whole pairs do: these then cost little more.
    let sorted = (demand.delay > 0 && !demand.partial).then(|| demand.largest_pairs());
    let bound = sorted
        .as_deref()
        .map_or_else(|| demand.lower_bound(), |sorted| demand.all_stop_bound(sorted));
    // With partial reconfiguration the open shop is nearly always the shortest by far.
    let cheapest = if demand.partial { Method::OpenShop } else { Method::RoundRobin };
    let best = Schedule::of(cheapest, plan_by(demand, cheapest), demand, bound);
    let mut search = Search { demand, budget, best, others: Vec::new() };
    if demand.delay == 0 {
        search.without_delay();
    } else {
        search.with_delay(sorted.as_deref());
    }
    if let Some(kept) = kept {
        search.start_from(kept);
    }
    search.best
}

struct Search<'a> {
    demand: &'a Demand<'a>,
    budget: &'a Budget,
    best: Schedule,
    /// Slots of the rules, to be rebuilt.
    others: Vec<Slots>,
}

impl Search<'_> {
    /// Birkhoff-von Neumann is optimal; then as few slots as may be.
    fn without_delay(&mut self) {
        if self.budget.is_limited() {
            self.serve_whole();
        }
        if self.may_continue()
            && let Some(slots) = bvn::within(self.demand, u64::MAX, self.budget)
        {
            self.offer(Method::Bvn, Matchings::Slots(slots));
        }
        let few = self.lines() <= SPARED || self.budget.is_limited();
        if !few || self.demand.partial || self.budget.is_spent() {
            return;
        }
        self.offer(Method::Threshold, plan_by(self.demand, Method::Threshold));
        if (self.lines() <= SMALL || self.budget.is_limited())
            && let Matchings::Slots(slots) = &self.best.plan
        {
            // A byte for each slot: none is worth a longer hold.
            let priced = Demand { delay: 1, ..*self.demand };
            let fewer = improve(&priced, slots, self.budget);
            self.offer(self.best.method, Matchings::Slots(fewer));
        }
    }

    /// Whole pairs whatever the budget, if they are sorted: shifts alone may be far too long.
    fn with_delay(&mut self, sorted: Option<&[(u64, u32)]>) {
        let whole = match sorted {
            Some(sorted) if self.best.length > self.best.lower_bound => {
                let slots = whole::of_pieces(self.demand, sorted);
                self.offer(Method::Greedy, Matchings::Slots(slots.clone()));
                Some(slots)
            }
            _ => self.serve_whole(),
        };
        self.serve_exactly();
        let greedy = self.serve_greedily();
        let mut starts: Vec<Slots> = whole.into_iter().chain(greedy).collect();
        starts.sort_by_key(|slots| slots.length(self.demand.delay));
        for slots in starts {
            self.offer_improved(&slots);
        }
        self.follow(RULES[1]);
        if self.may_continue()
            && let Matchings::Slots(slots) = plan_by(self.demand, Method::RoundRobin)
        {
            let slots = improve(self.demand, &slots, self.budget);
            self.offer(Method::RoundRobin, Matchings::Slots(slots));
        }
        // Like the critical-line method it takes the delay into account, and that alone; with 16
        // lines and more it hardly ever helped.
        if self.may_continue() && self.lines() <= TINY {
            let slots = improve(self.demand, &fewest::decompose(self.demand), self.budget);
            self.offer(Method::Critical, Matchings::Slots(slots));
        }
        RULES[2..].iter().filter(|&&rule| rule != WHOLE).for_each(|&rule| self.follow(rule));
        for method in LAST {
            if self.may_continue() && self.demand.check_size(method).is_ok() {
                self.offer(method, plan_by(self.demand, method));
            }
        }
        self.rebuild();
        self.refit();
        self.prove();
    }

    /// Looks for the shortest schedule of a few lines, and for what no schedule can beat.
    fn prove(&mut self) {
        if !self.may_continue() || self.demand.partial {
            return;
        }
        let Found { slots, lower_bound } =
            optimum::search(self.demand, self.best.length, 1, self.budget);
        if let Some(slots) = slots {
            self.offer(Method::Critical, Matchings::Slots(slots));
        }
        self.best.lower_bound = self.best.lower_bound.max(lower_bound);
    }

    /// Whole pairs: found nearly as fast as shifts, and close to the bound if delays are long.
    fn serve_whole(&mut self) -> Option<Slots> {
        if !self.may_continue() {
            return None;
        }
        let slots = slots_by(self.demand, WHOLE, u64::MAX, self.budget)?;
        self.offer(Method::Greedy, Matchings::Slots(slots.clone()));
        Some(slots)
    }

    /// Birkhoff-von Neumann, as long as it may become the shortest.
    fn serve_exactly(&mut self) {
        // It takes the longest line, and a delay for each slot.
        let limit = (self.best.length - self.demand.longest_line()) / self.demand.delay;
        if self.may_continue()
            && let Some(slots) = bvn::within(self.demand, limit, self.budget)
        {
            self.offer(Method::Bvn, Matchings::Slots(slots));
        }
    }

    /// Greedy matchings, the first ones followed by whole pairs: at times that is shorter, and it
    /// is all there is if the time is up before the end.
    fn serve_greedily(&mut self) -> Option<Slots> {
        if !self.may_continue() {
            return None;
        }
        let (demand, budget) = (self.demand, self.budget);
        let slots = greedy(demand, budget, |slots, left| {
            if slots.len().is_power_of_two() {
                let rest = whole::decompose(&Demand { bytes: left, ..*demand }, u64::MAX);
                let mut all = slots.clone();
                all.append(&rest);
                self.offer(Method::Greedy, Matchings::Slots(all));
            }
        })?;
        self.offer(Method::Greedy, Matchings::Slots(slots.clone()));
        Some(slots)
    }

    /// Offers what was kept, and what is found around it; apart from the search without it, which
    /// might otherwise end elsewhere, at something longer.
    fn start_from(&mut self, kept: Schedule) {
        let Matchings::Slots(slots) = &kept.plan else { unreachable!("only slots are kept") };
        let slots = slots.clone();
        if kept.length <= self.best.length {
            self.best = Schedule { lower_bound: self.best.lower_bound, ..kept };
        }
        if self.demand.delay == 0 || !self.may_continue() {
            return;
        }
        let mut slots = improve(self.demand, &slots, self.budget);
        if self.lines() <= SMALL || self.budget.is_limited() {
            slots = rebuild(self.demand, &slots, self.budget);
        }
        self.offer(Method::Critical, Matchings::Slots(slots));
    }

    /// Offers the slots of a rule before and after swaps.
    fn follow(&mut self, rule: Rule) {
        if self.may_continue()
            && let Some(slots) = slots_by(self.demand, rule, u64::MAX, self.budget)
        {
            self.offer(Method::Critical, Matchings::Slots(slots.clone()));
            self.offer_improved(&slots);
        }
    }

    fn offer_improved(&mut self, slots: &Slots) {
        if self.may_continue() {
            let slots = improve(self.demand, slots, self.budget);
            if self.lines() <= TINY {
                self.others.push(slots.clone());
            }
            self.offer(Method::Critical, Matchings::Slots(slots));
        }
    }

    /// Rebuilds groups of slots, worth its time where it is short, or where the caller has time.
    fn rebuild(&mut self) {
        if self.may_continue()
            && (self.lines() <= SMALL || self.budget.is_limited())
            && let Matchings::Slots(slots) = &self.best.plan
        {
            let slots = rebuild(self.demand, slots, self.budget);
            self.offer(self.best.method, Matchings::Slots(slots));
        }
        for slots in std::mem::take(&mut self.others) {
            if self.may_continue() {
                let slots = rebuild(self.demand, &slots, self.budget);
                self.offer(Method::Critical, Matchings::Slots(slots));
            }
        }
    }

    /// Holds anew for the best slots, with idle lines joined in them: a pair may then be divided.
    fn refit(&mut self) {
        if self.may_continue()
            && !self.demand.partial
            && let Matchings::Slots(slots) = &self.best.plan
        {
            let refitted = keep(self.demand, slots, 0, self.budget);
            self.offer(self.best.method, refitted.plan);
        }
    }

    fn lines(&self) -> usize {
        self.demand.rows.max(self.demand.columns)
    }

    fn may_continue(&self) -> bool {
        self.best.length > self.best.lower_bound && !self.budget.is_spent()
    }

    /// Keeps what is shorter, or as short with fewer slots.
    fn offer(&mut self, method: Method, plan: Matchings) {
        let schedule = Schedule::of(method, plan, self.demand, self.best.lower_bound);
        let (length, slots) = (self.best.length, self.best.plan.configurations());
        let fewer = !self.demand.partial && schedule.plan.configurations() < slots;
        if schedule.length < length || (schedule.length == length && fewer) {
            self.best = schedule;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::critical;
    use super::*;

    /// The budget of the critical-line method alone suffices for a schedule that is no longer: what
    /// comes before takes no more than a look at the budget each.
    #[test]
    fn a_limit_is_spent_on_what_promises_most() {
        for (lines, delay) in [(16, 2_000), (40, 2_000), (40, 40_000)] {
            let cell = |cell: u64| cell * cell * 7_919 % 100_003;
            let bytes: Vec<u64> = (0..lines * lines).map(cell).collect();
            let lines = usize::try_from(lines).unwrap();
            let demand = Demand::new(lines, lines, &bytes, delay, false).unwrap();
            let plenty = 1 << 40;
            let budget = Budget::of_steps(plenty);
            for rule in [RULES[0], RULES[1]] {
                critical::by_rule(&demand, rule, &budget).unwrap();
            }
            let alone = critical::decompose(&demand).length(delay);
            let taken = plenty - budget.steps_left();
            let schedule = decompose(&demand, None, &Budget::of_steps(taken + 6));
            assert!(schedule.length <= alone, "{lines} lines: {} of {alone}", schedule.length);
        }
    }
}
