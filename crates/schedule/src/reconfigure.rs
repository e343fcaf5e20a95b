//! Whether to reconfigure at all: keep the circuits that are there, or switch to others.
//!
//! New circuits pay only if they save more time than their switching costs:
//!
//! ```text
//! switch  <=>  time ahead with the circuits held - time ahead with the new ones > exposed delay
//! exposed  =   max(0, delay(pairs that change) - hidden)
//! ```
//!
//! *Ahead* are the next all-to-alls whose demand is known or predicted; *hidden* is the time until
//! each is reached, mostly compute, behind which a switch before it may hide. Both sides count on
//! the best that can follow: a switch later on, where it pays. So [`break_even`] is a dynamic
//! program over the all-to-alls ahead, in which each takes the circuits held or one of the
//! proposals, and it says how the best plan goes on. Its plan is never longer than keeping what is
//! there, nor than any other order of the same proposals; [`plan_time`] checks the length.
//!
//! Assumes that circuits are duplex, hence as good for the transpose of a demand; that a switch is
//! begun when the all-to-all before it is over; and times at line rate ([`makespans`]).

use crate::allocation::{Request, changed_pairs, makespans, port_bound};
use lightloom_model::{Duration, SwitchDelay};

/// How long the way from one set of circuits to another takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Switching {
    /// By the number of pairs that are switched.
    pub delay: SwitchDelay,
    /// Whether circuits that do not change stay up; if not, all are switched as soon as one is.
    pub keep_unchanged: bool,
}

impl Switching {
    /// Pairs that the switch must touch: those that change, or all if it cannot spare any.
    ///
    /// # Panics
    /// If the two differ in size, or are not square.
    pub fn pairs(&self, from: &[u16], to: &[u16]) -> u32 {
        let changed = changed_pairs(from, to);
        if changed == 0 || self.keep_unchanged {
            return changed;
        }
        let total = |circuits: &[u16]| circuits.iter().map(|&count| u32::from(count)).sum::<u32>();
        (total(from) / 2).max(total(to) / 2)
    }

    /// From the decision until all circuits are up.
    ///
    /// # Panics
    /// As [`Self::pairs`].
    pub fn time(&self, from: &[u16], to: &[u16]) -> Duration {
        self.delay.for_pairs(self.pairs(from, to))
    }

    /// The part of [`Self::time`] that is not hidden, in seconds.
    fn exposed(&self, from: &[u16], to: &[u16], hidden: Duration) -> f64 {
        Duration(self.time(from, to).0.saturating_sub(hidden.0)).as_seconds()
    }
}

/// An all-to-all whose demand is known or predicted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ahead {
    /// Bytes from source to destination, n x n.
    pub demand: Vec<u64>,
    /// From the end of the all-to-all before it (for the first one: from now) until its last
    /// member reaches it.
    pub hidden: Duration,
}

/// What [`break_even`] finds. All times are in seconds.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// All-to-alls ahead, and what later switches expose, if the next one keeps what is there.
    pub hold: f64,
    /// The same after the best switch now, without what that one exposes; infinite without a
    /// proposal that differs from what is there.
    pub switch: f64,
    /// What the best switch now exposes.
    pub exposed: f64,
    /// The proposal that is best to switch to, even if none pays.
    pub best: Option<usize>,
    /// The circuits of each all-to-all under the shorter plan: a proposal, or what was held at the
    /// start.
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

/// The demands for which an allocator is worth asking: each one ahead, then their sum.
///
/// A demand is left out if it, or its transpose, came before.
pub fn questions(ahead: &[&[u64]]) -> Vec<Vec<u64>> {
    let mut found: Vec<Vec<u64>> = Vec::new();
    for (index, &demand) in ahead.iter().enumerate() {
        if same_before(ahead, index).is_none() {
            found.push(demand.to_vec());
        }
    }
    if found.len() > 1 {
        let mut sum = vec![0_u64; found[0].len()];
        for demand in ahead {
            for (total, &bytes) in sum.iter_mut().zip(*demand) {
                *total = total.saturating_add(bytes);
            }
        }
        found.push(sum);
    }
    found
}

/// Whether no circuits whatever could pay for a switch now: all that could be saved, down to the
/// port bound, is less than what the change of a single pair exposes.
///
/// It needs no allocator, so that a caller may ask this first.
///
/// # Panics
/// As [`break_even`].
pub fn cannot_pay(request: &Request, held: &[u16], ahead: &[Ahead], switching: &Switching) -> bool {
    let Some(first) = ahead.first() else { return true };
    let least = Duration(switching.delay.for_pairs(1).0.saturating_sub(first.hidden.0));
    let mut saved = 0.0;
    for next in ahead {
        let asked = Request { demand: &next.demand, previous: None, ..*request };
        saved += makespans(&asked, &[held])[0] - port_bound(&asked);
        if saved > least.as_seconds() {
            return false;
        }
    }
    true
}

/// Weighs the circuits held against proposals for the all-to-alls ahead.
///
/// The demand and the previous circuits of `request` are not looked at.
///
/// # Panics
/// If sizes differ, see [`Request::validate`].
pub fn break_even(
    request: &Request,
    held: &[u16],
    ahead: &[Ahead],
    proposals: &[Vec<u16>],
    switching: &Switching,
) -> Verdict {
    let states = states(held, proposals);
    let sets: Vec<&[u16]> = states.iter().map(|&state| circuits(held, proposals, state)).collect();
    let times = times(request, ahead, &sets);
    let delays: Vec<Duration> =
        sets.iter().flat_map(|from| sets.iter().map(|to| switching.time(from, to))).collect();
    let exposed = |from: usize, to: usize, hidden: Duration| {
        Duration(delays[from * sets.len() + to].0.saturating_sub(hidden.0)).as_seconds()
    };
    // From the end: seconds from all-to-all `index` on if it has these circuits, and which ones the
    // next one then has.
    let mut left = vec![0.0; sets.len()];
    let mut follow: Vec<Vec<usize>> = Vec::with_capacity(ahead.len());
    for index in (0..ahead.len()).rev() {
        let mut next = vec![0; sets.len()];
        let mut total = times[index].clone();
        if let Some(later) = ahead.get(index + 1) {
            for state in 0..sets.len() {
                let cost = |to: usize| exposed(state, to, later.hidden) + left[to];
                next[state] = least(sets.len(), state, cost);
                total[state] += cost(next[state]);
            }
        }
        left = total;
        follow.push(next);
    }
    follow.reverse();
    let hidden = ahead.first().map_or(Duration::ZERO, |first| first.hidden);
    let switched = |to: usize| exposed(0, to, hidden) + left[to];
    let best = (1..sets.len()).min_by(|&a, &b| switched(a).total_cmp(&switched(b)));
    let mut verdict = Verdict {
        hold: left[0],
        switch: best.map_or(f64::INFINITY, |to| left[to]),
        exposed: best.map_or(0.0, |to| exposed(0, to, hidden)),
        best: best.and_then(|to| states[to]),
        plan: Vec::with_capacity(ahead.len()),
    };
    let mut state = if verdict.pays() { best.unwrap_or(0) } else { 0 };
    for next in &follow {
        verdict.plan.push(states[state]);
        state = next[state];
    }
    verdict
}

/// Seconds that a plan takes: the all-to-alls ahead, and what its switches expose.
///
/// # Panics
/// If sizes differ, or the plan names a proposal that is not there.
pub fn plan_time(
    request: &Request,
    held: &[u16],
    ahead: &[Ahead],
    (proposals, plan): (&[Vec<u16>], &[Option<usize>]),
    switching: &Switching,
) -> f64 {
    assert_eq!(ahead.len(), plan.len(), "a plan has circuits for each all-to-all");
    let mut present = held;
    let mut total = 0.0;
    for (next, &state) in ahead.iter().zip(plan) {
        let chosen = circuits(held, proposals, state);
        let asked = Request { demand: &next.demand, previous: None, ..*request };
        total += switching.exposed(present, chosen, next.hidden);
        total += makespans(&asked, &[chosen])[0];
        present = chosen;
    }
    total
}

/// What is held, and each proposal that is new.
fn states(held: &[u16], proposals: &[Vec<u16>]) -> Vec<Option<usize>> {
    let mut found = vec![None];
    for (index, proposal) in proposals.iter().enumerate() {
        if proposal != held && !proposals[..index].contains(proposal) {
            found.push(Some(index));
        }
    }
    found
}

fn circuits<'a>(held: &'a [u16], proposals: &'a [Vec<u16>], state: Option<usize>) -> &'a [u16] {
    state.map_or(held, |index| &proposals[index])
}

/// Seconds of each all-to-all ahead over each set of circuits.
fn times(request: &Request, ahead: &[Ahead], sets: &[&[u16]]) -> Vec<Vec<f64>> {
    let demands: Vec<&[u64]> = ahead.iter().map(|next| next.demand.as_slice()).collect();
    let mut found: Vec<Vec<f64>> = Vec::with_capacity(ahead.len());
    for (index, &demand) in demands.iter().enumerate() {
        let known = same_before(&demands, index).map(|before| found[before].clone());
        let asked = Request { demand, previous: None, ..*request };
        found.push(known.unwrap_or_else(|| makespans(&asked, sets)));
    }
    found
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

/// The cheapest state to go on with; of equal ones the present one, then the first.
fn least(states: usize, present: usize, cost: impl Fn(usize) -> f64) -> usize {
    let mut best = present;
    for state in 0..states {
        if cost(state) < cost(best) {
            best = state;
        }
    }
    best
}
