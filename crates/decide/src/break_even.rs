//! Whether to reconfigure at all: keep the circuits that are held, or switch to others.
//!
//! New circuits pay only if they save more time than their switching costs:
//!
//! ```text
//! switch  <=>  time with the circuits held - time with the new ones > exposed delay
//! exposed  =   max(0, delay(pairs that change) - hidden)
//! ```
//!
//! *Time* is that of the upcoming all-to-alls whose demand is known or predicted; *hidden* is the
//! time until each is reached, mostly compute, behind which a switch before it may hide. Both sides
//! count on the best that can follow: a switch later on, where it pays. So [`break_even`] is a
//! dynamic program over the upcoming all-to-alls, in which each takes the circuits held or one of
//! the proposals, and it says how the best plan continues. Its plan is never longer than keeping
//! what is held, nor than any other order of the same proposals; [`plan_time`] checks the length.
//!
//! Assumes that circuits are duplex, hence as good for the transpose of a demand; that a switch is
//! begun when the all-to-all before it is over; and times at line rate ([`makespans`]).

use crate::decision::Upcoming;
use lightloom_model::{Duration, SwitchTiming};
use lightloom_schedule::{Request, changed_pairs, makespans, port_bound};
use std::borrow::Cow;

/// Pairs that a switch from one set of circuits to another must touch: those that change, or all if
/// it cannot spare any.
///
/// # Panics
/// If the two differ in size, or are not square.
pub fn switched_pairs(timing: &SwitchTiming, from: &[u16], to: &[u16]) -> u32 {
    let changed = changed_pairs(from, to);
    if changed == 0 || timing.keep_unchanged {
        return changed;
    }
    let total = |circuits: &[u16]| circuits.iter().map(|&count| u32::from(count)).sum::<u32>();
    (total(from) / 2).max(total(to) / 2)
}

/// From the decision until all circuits are up.
///
/// # Panics
/// As [`switched_pairs`].
pub fn switch_time(timing: &SwitchTiming, from: &[u16], to: &[u16]) -> Duration {
    timing.for_pairs(switched_pairs(timing, from, to))
}

/// The part of a switch that is not hidden, in seconds.
pub(crate) fn exposed_seconds(delay: Duration, hidden: Duration) -> f64 {
    Duration(delay.0.saturating_sub(hidden.0)).as_seconds()
}

/// What circuits save over those held; nothing where neither ever gets all bytes through.
pub(crate) fn saved_seconds(hold: f64, switch: f64) -> f64 {
    if hold.is_infinite() && switch.is_infinite() { 0.0 } else { hold - switch }
}

/// What [`break_even`] finds. All times are in seconds.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// The upcoming all-to-alls, and what later switches expose, if the next one keeps what is
    /// held.
    pub hold: f64,
    /// The same after the best switch now, without what that one exposes; infinite without a
    /// proposal that differs from what is held.
    pub switch: f64,
    /// What the best switch now exposes.
    pub exposed: f64,
    /// The proposal that is best to switch to, even if none pays.
    pub best: Option<usize>,
    /// The circuits of each all-to-all under the shorter plan: a proposal, or what is held now.
    pub plan: Vec<Option<usize>>,
}

impl Verdict {
    /// Whether a switch now pays.
    pub fn pays(&self) -> bool {
        self.best.is_some() && self.switch + self.exposed < self.hold
    }

    /// Length of the shorter plan.
    pub fn time(&self) -> f64 {
        if self.pays() { self.switch + self.exposed } else { self.hold }
    }
}

/// The demands that circuits are worth requesting for: each upcoming one, then their sum.
///
/// A demand is left out if it, or its transpose, came before.
pub fn demands_to_request<'a>(upcoming: &[&'a [u64]]) -> Vec<Cow<'a, [u64]>> {
    let mut found: Vec<Cow<'a, [u64]>> = Vec::new();
    for (index, &demand) in upcoming.iter().enumerate() {
        if same_before(upcoming, index).is_none() {
            found.push(Cow::Borrowed(demand));
        }
    }
    if found.len() > 1 {
        let mut sum = vec![0_u64; found[0].len()];
        for demand in upcoming {
            for (total, &bytes) in sum.iter_mut().zip(*demand) {
                *total = total.saturating_add(bytes);
            }
        }
        found.push(Cow::Owned(sum));
    }
    found
}

/// Whether no circuits whatever could pay for a switch now: all that could be saved, down to the
/// port bound, is less than what the change of a single pair exposes.
///
/// It needs no allocator, so that a caller may try this first.
///
/// # Panics
/// As [`break_even`].
pub fn cannot_pay(
    request: &Request,
    held: &[u16],
    upcoming: &[Upcoming],
    timing: &SwitchTiming,
) -> bool {
    upcoming.is_empty() || max_gain(request, held, upcoming, timing).is_some()
}

/// What could be saved at most and what is exposed at least, if [`cannot_pay`]; nothing otherwise.
pub(crate) fn max_gain(
    request: &Request,
    held: &[u16],
    upcoming: &[Upcoming],
    timing: &SwitchTiming,
) -> Option<(f64, f64)> {
    let min_exposed = exposed_seconds(timing.for_pairs(1), upcoming[0].hidden);
    let mut saved = 0.0;
    for next in upcoming {
        let evaluated = for_demand(request, &next.demand);
        saved += saved_seconds(makespans(&evaluated, &[held])[0], port_bound(&evaluated));
        if saved > min_exposed {
            return None;
        }
    }
    Some((saved, min_exposed))
}

/// Compares the circuits held with proposals for the upcoming all-to-alls.
///
/// The demand and the previous circuits of `request` are not looked at.
///
/// # Panics
/// If sizes differ.
pub fn break_even(
    request: &Request,
    held: &[u16],
    upcoming: &[Upcoming],
    proposals: &[Vec<u16>],
    timing: &SwitchTiming,
) -> Verdict {
    let sets: Vec<&[u16]> = proposals.iter().map(Vec::as_slice).collect();
    compare(request, held, upcoming, &sets, &|from, to| {
        let circuits = |state: Option<usize>| state.map_or(held, |index| sets[index]);
        switch_time(timing, circuits(from), circuits(to))
    })
}

/// How long a switch takes from one state to another: what is held, or a proposal.
pub(crate) type SwitchTime<'a> = &'a dyn Fn(Option<usize>, Option<usize>) -> Duration;

/// As [`break_even`], for switches that take as long as `switch` says.
pub(crate) fn compare(
    request: &Request,
    held: &[u16],
    upcoming: &[Upcoming],
    proposals: &[&[u16]],
    switch: SwitchTime,
) -> Verdict {
    let states = states(held, proposals);
    let circuits = |state: &Option<usize>| state.map_or(held, |index| proposals[index]);
    let sets: Vec<&[u16]> = states.iter().map(circuits).collect();
    let times = times(request, upcoming, &sets);
    let delays: Vec<Duration> =
        states.iter().flat_map(|&from| states.iter().map(move |&to| switch(from, to))).collect();
    let exposed = |from: usize, to: usize, hidden: Duration| {
        exposed_seconds(delays[from * sets.len() + to], hidden)
    };
    // From the end: seconds from all-to-all `index` on if it has these circuits, and which ones the
    // next one then has.
    let mut left = vec![0.0; sets.len()];
    let mut follow: Vec<Vec<usize>> = Vec::with_capacity(upcoming.len());
    for index in (0..upcoming.len()).rev() {
        let mut next = vec![0; sets.len()];
        let mut total = times[index].clone();
        if let Some(later) = upcoming.get(index + 1) {
            for state in 0..sets.len() {
                let cost = |to: usize| exposed(state, to, later.hidden) + left[to];
                next[state] = cheapest(sets.len(), state, cost);
                total[state] += cost(next[state]);
            }
        }
        left = total;
        follow.push(next);
    }
    follow.reverse();
    let hidden = upcoming.first().map_or(Duration::ZERO, |first| first.hidden);
    let switched = |to: usize| exposed(0, to, hidden) + left[to];
    let best = (1..sets.len()).min_by(|&a, &b| switched(a).total_cmp(&switched(b)));
    let mut verdict = Verdict {
        hold: left[0],
        switch: best.map_or(f64::INFINITY, |to| left[to]),
        exposed: best.map_or(0.0, |to| exposed(0, to, hidden)),
        best: best.and_then(|to| states[to]),
        plan: Vec::with_capacity(upcoming.len()),
    };
    let mut state = if verdict.pays() { best.unwrap_or(0) } else { 0 };
    for next in &follow {
        verdict.plan.push(states[state]);
        state = next[state];
    }
    verdict
}

/// Seconds that a plan takes: the upcoming all-to-alls, and what its switches expose.
///
/// # Panics
/// If sizes differ, or the plan names a proposal that is not there.
pub fn plan_time(
    request: &Request,
    held: &[u16],
    upcoming: &[Upcoming],
    proposals: &[Vec<u16>],
    plan: &[Option<usize>],
    timing: &SwitchTiming,
) -> f64 {
    assert_eq!(upcoming.len(), plan.len(), "a plan has circuits for each all-to-all");
    let mut present = held;
    let mut total = 0.0;
    for (next, &state) in upcoming.iter().zip(plan) {
        let chosen = state.map_or(held, |index| proposals[index].as_slice());
        let evaluated = for_demand(request, &next.demand);
        total += exposed_seconds(switch_time(timing, present, chosen), next.hidden);
        total += makespans(&evaluated, &[chosen])[0];
        present = chosen;
    }
    total
}

/// What is held, and each proposal that is new.
fn states(held: &[u16], proposals: &[&[u16]]) -> Vec<Option<usize>> {
    let mut found = vec![None];
    for (index, proposal) in proposals.iter().enumerate() {
        if *proposal != held && !proposals[..index].contains(proposal) {
            found.push(Some(index));
        }
    }
    found
}

/// Seconds of each upcoming all-to-all over each set of circuits.
fn times(request: &Request, upcoming: &[Upcoming], sets: &[&[u16]]) -> Vec<Vec<f64>> {
    let demands: Vec<&[u64]> = upcoming.iter().map(|next| next.demand.as_slice()).collect();
    let mut found: Vec<Vec<f64>> = Vec::with_capacity(upcoming.len());
    for (index, &demand) in demands.iter().enumerate() {
        let before = same_before(&demands, index).map(|before| found[before].clone());
        let evaluated = for_demand(request, demand);
        found.push(before.unwrap_or_else(|| makespans(&evaluated, sets)));
    }
    found
}

fn for_demand<'a>(request: &Request<'a>, demand: &'a [u64]) -> Request<'a> {
    request.with_demand(demand).unwrap_or_else(|invalid| panic!("{invalid}"))
}

/// An earlier all-to-all with this one's demand or its transpose, hence its times.
fn same_before(demands: &[&[u64]], index: usize) -> Option<usize> {
    let demand = demands[index];
    (0..index).find(|&before| demands[before] == demand || is_transpose(demands[before], demand))
}

fn is_transpose(one: &[u64], other: &[u64]) -> bool {
    let n = one.len().isqrt();
    one.len() == other.len()
        && (0..n).all(|row| (0..n).all(|column| one[row * n + column] == other[column * n + row]))
}

/// The cheapest state to continue with; of equal ones the present one, then the first.
fn cheapest(states: usize, present: usize, cost: impl Fn(usize) -> f64) -> usize {
    let mut best = present;
    for state in 0..states {
        if cost(state) < cost(best) {
            best = state;
        }
    }
    best
}
