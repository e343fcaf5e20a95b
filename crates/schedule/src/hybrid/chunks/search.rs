//! Plans for chunks: the usual two, and the best of ours.

use super::super::balanced;
use super::super::budget::HybridBudget;
use super::super::schedule::length_of;
use super::build::{Target, for_target};
use super::demand::ChunkDemand;
use super::plan::{Aim, Plan, PlannedSlot, Played, Queues, planned, play};
use crate::permutation::{self, Matchings, Method, Slots};

/// Targets that are tried per start.
const TARGETS: usize = 5;

/// Share of the latest end above which a line is urgent.
const URGENT: [f64; 2] = [0.9, 0.6];

/// Plans that are improved, the best ones.
const STARTS: usize = 2;

/// Chunks and pairs of slots that plays of changed plans may visit without a limit.
const WORK: usize = 4_000_000;

/// The schedule of everything once the last chunk is released.
pub(super) fn together(demand: &ChunkDemand, budget: &HybridBudget) -> Plan {
    let last = demand.chunks.iter().map(|chunk| chunk.release).max().unwrap_or(0);
    let slots = slots_of(demand, &demand.bytes_where(|_| true), budget).0;
    let slots = planned(&slots, demand.rows, last.saturating_add(demand.delay));
    Plan { slots, release: vec![last; demand.chunks.len()] }
}

/// A schedule for the chunks of each release time, after the one before; of many times some are
/// taken together.
pub(super) fn in_order(demand: &ChunkDemand, queues: &Queues, budget: &HybridBudget) -> Plan {
    let times = demand.thresholds(|chunk| Some(chunk.release));
    let mut plan = Plan { slots: Vec::new(), release: rounded(demand, &times) };
    let (mut now, rounded) = (0, plan.release.clone());
    for time in times {
        let mut bytes = vec![0; demand.rows * demand.columns];
        for (cell, order) in bytes.iter_mut().zip(&queues.cells) {
            let own = order.iter().filter(|&&chunk| rounded[chunk as usize] == time);
            *cell = own.map(|&chunk| demand.chunks[chunk as usize].bytes).sum();
        }
        let (slots, length) = slots_of(demand, &bytes, budget);
        now = time.max(now);
        plan.slots.extend(planned(&slots, demand.rows, now.saturating_add(demand.delay)));
        for (own, _) in plan.release.iter_mut().zip(&rounded).filter(|one| *one.1 == time) {
            *own = now;
        }
        now = now.saturating_add(length);
    }
    plan
}

/// Slots for bytes that are all there, and their length with packets.
fn slots_of(demand: &ChunkDemand, bytes: &[u64], budget: &HybridBudget) -> (Slots, u64) {
    let part = demand.part(bytes).expect("a part of what fits");
    let slots = if demand.rates.eps.0 > 0 {
        balanced::slots(&part, &budget.as_usual())
    } else {
        let of = permutation::Demand::new(demand.rows, demand.columns, bytes, demand.delay, false);
        let schedule = permutation::decompose(&of.expect("it fits"), Method::Critical, None);
        match schedule.plan {
            Matchings::Slots(slots) => slots,
            Matchings::Transfers(_) => unreachable!("all ports stop"),
        }
    };
    let length = length_of(&part, &slots);
    (slots, length)
}

/// The first of these times at which each chunk is there.
fn rounded(demand: &ChunkDemand, times: &[u64]) -> Vec<u64> {
    let later = |release: u64| times.iter().copied().find(|&time| time >= release);
    demand.releases().into_iter().map(|release| later(release).unwrap_or(release)).collect()
}

/// The best of plans for several targets and of the usual ones, improved.
pub(super) fn pipelined(demand: &ChunkDemand, queues: &Queues, budget: &HybridBudget) -> Played {
    let mut search = Search { demand, queues, budget, best: None, work: 0 };
    let release = demand.releases();
    let usual = [together(demand, budget), in_order(demand, queues, budget)];
    let mut plans = Vec::new();
    for plan in usual {
        let early = plan.slots.iter().map(|slot| PlannedSlot { not_before: 0, ..slot.clone() });
        let early = Plan { slots: early.collect(), release: release.clone() };
        let same = Plan { slots: plan.slots.clone(), release: release.clone() };
        plans.extend([plan, same, early].map(|plan| (search.offer(&plan), plan)));
    }
    for times in groups(&demand.thresholds(|chunk| Some(chunk.release))) {
        for urgent in URGENT {
            search.by_targets(&rounded(demand, &times), urgent, &mut plans);
        }
    }
    plans.sort_by_key(|plan| plan.0);
    for (_, plan) in plans.into_iter().take(if budget.is_limited() { 8 } else { STARTS }) {
        search.improve(plan);
    }
    search.best.expect("plans were offered")
}

/// All of these times, every second, every fourth and so on; the last one is always there.
fn groups(times: &[u64]) -> Vec<Vec<u64>> {
    let steps = (0..).map(|power| 1 << power).take_while(|&step| step < 2 * times.len());
    let every = |step| times.iter().rev().step_by(step).rev().copied().collect();
    steps.map(every).collect()
}

struct Search<'a> {
    demand: &'a ChunkDemand<'a>,
    queues: &'a Queues,
    budget: &'a HybridBudget<'a>,
    best: Option<Played>,
    work: usize,
}

impl Search<'_> {
    /// Plays a plan and keeps the best.
    fn offer(&mut self, plan: &Plan) -> Aim {
        let played = play(self.demand, self.queues, plan);
        self.work += self.demand.chunks.len() + plan.slots.len() * self.demand.rows;
        let aim = played.aim();
        if self.best.as_ref().is_none_or(|best| aim < best.aim()) {
            self.best = Some(played);
        }
        aim
    }

    /// Lateness that is to be small, or length if nothing has a deadline.
    fn first_of(&self, aim: Aim) -> i64 {
        if self.demand.has_deadlines() {
            aim.late
        } else {
            i64::try_from(aim.length).unwrap_or(i64::MAX)
        }
    }

    fn by_targets(&mut self, release: &[u64], urgent: f64, plans: &mut Vec<(Aim, Plan)>) {
        let demand = self.demand;
        let mut low = demand.lateness_bound().unwrap_or_else(|| demand.lower_bound().cast_signed());
        let mut high = self.first_of(self.best.as_ref().expect("the usual ones").aim());
        for _ in 0..TARGETS {
            if low >= high {
                break;
            }
            let late = low + (high - low) / 2;
            let target = Target { release, late, urgent };
            let Some(slots) = for_target(demand, self.queues, target, self.budget) else { break };
            let plan = Plan { slots, release: demand.releases() };
            let aim = self.offer(&plan);
            if self.first_of(aim) > late {
                low = late + 1;
            }
            high = high.min(self.first_of(aim));
            plans.push((aim, plan));
        }
    }

    /// Leaves slots out, changes holds and the order, as long as that helps.
    fn improve(&mut self, mut plan: Plan) {
        let mut aim = self.offer(&plan);
        let until = self.work + WORK;
        let mut since = 0;
        let mut slot = 0;
        while since < plan.slots.len() {
            if self.budget.is_spent() || self.work > until && !self.budget.is_limited() {
                return;
            }
            slot = if slot + 1 < plan.slots.len() { slot + 1 } else { 0 };
            since += 1;
            for other in changed(&plan, slot, &self.demand.thresholds(|c| Some(c.release))) {
                let found = self.offer(&other);
                if found < aim {
                    (aim, plan, since) = (found, other, 0);
                    break;
                }
            }
        }
    }
}

/// Plans that differ in one slot.
fn changed(plan: &Plan, slot: usize, times: &[u64]) -> Vec<Plan> {
    let with = |change: &dyn Fn(&mut Vec<PlannedSlot>)| {
        let mut other = plan.clone();
        change(&mut other.slots);
        other
    };
    let mut plans = vec![with(&|slots| drop(slots.remove(slot)))];
    for factor in [0.5, 0.8, 0.95, 1.05, 1.25, 2.0] {
        plans.push(with(&|slots| {
            slots[slot].hold = ((slots[slot].hold as f64 * factor).ceil() as u64).max(1);
        }));
    }
    if slot + 1 < plan.slots.len() {
        plans.push(with(&|slots| slots.swap(slot, slot + 1)));
    }
    let now = plan.slots[slot].not_before;
    let later = times.iter().copied().find(|&time| time > now);
    for time in [Some(0), later].into_iter().flatten().filter(|&time| time != now) {
        plans.push(with(&|slots| slots[slot].not_before = time));
    }
    plans
}
