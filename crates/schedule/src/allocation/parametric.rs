//! Bisection on the makespan, with a local search at each time.
//!
//! Between a bound that no circuits beat (each line alone with the circuits that suit it best) and
//! the time reached, [`Search`] moves a few circuits at once so that no server is over its EPS
//! budget. Without split it also packs whole bundles, see [`pack`]. A time at which both give up
//! is taken for impossible, which it need not be: the result is near exact, not exact. Small
//! regions without split are solved by [`branch`] and bound, and are exact if that ends.

use std::cmp::Ordering;

use super::bound::line_bound_of;
use super::branching::{MAX_SERVERS, Verdict, branch};
use super::greedy::skip;
use super::packing::pack;
use super::problem::{Circuits, Problem, ROUNDING};
use super::request::{Allocation, changed_pairs};
use super::routing::{finish_at, makespan};
use super::search::search;
use super::sticky::settle;
use lightloom_model::Allocator;

/// The search for a shorter time ends when it is this close to the bound, or to what has failed.
const PRECISION: f64 = 5e-3;

/// Where, without split, the next time to try lies between what has failed and the time reached.
/// Most tries fail, but leave faster circuits behind: nearer to the time reached fewer are needed.
const SKEW: f64 = 0.75;

/// Times closer than this, relatively, are the same.
pub(super) const CLOSE: f64 = 1e-9;

/// Branches per time until giving up.
const BRANCHES: u32 = 300;

/// Circuits, and what speaks for them.
#[derive(Clone)]
pub(super) struct Candidate {
    pub time: f64,
    /// A time that is proved impossible, or zero.
    pub bound: f64,
    pub changed: u32,
    pub chosen: Allocator,
    pub circuits: Circuits,
}

impl Candidate {
    pub(super) fn new(problem: &Problem, chosen: Allocator, circuits: Circuits) -> Self {
        let time = makespan(problem, &circuits.count);
        let previous = problem.request.previous;
        let changed = previous.map_or(0, |old| changed_pairs(old, &circuits.count));
        Self { time, bound: 0.0, changed, chosen, circuits }
    }

    /// The faster one; of equally fast ones the one that changes less; else `self`.
    pub(super) fn or(self, other: Self) -> Self {
        let better = match other.time.total_cmp(&self.time) {
            Ordering::Less => true,
            Ordering::Equal => other.changed < self.changed,
            Ordering::Greater => false,
        };
        let bound = self.bound.max(other.bound);
        Self { bound, ..if better { other } else { self } }
    }

    /// Whether it is proved that nothing is faster.
    pub(super) fn is_proved(&self) -> bool {
        self.time <= self.bound * (1.0 + CLOSE)
    }

    /// The bytes of the EPS, and all else that is requested.
    pub(super) fn finish(self, problem: &Problem) -> Allocation {
        finish_at(problem, self.circuits.count, self.chosen, self.time)
    }

    /// Whether these are all circuits that are there, and nothing can be faster.
    pub(super) fn stays(&self, problem: &Problem) -> bool {
        self.changed == 0 && problem.reaches_bound(self.time)
    }

    /// Equally fast circuits that change fewer of those that are there.
    pub(super) fn settled(self, problem: &Problem) -> Self {
        let Some(previous) = problem.request.previous.filter(|_| self.changed > 0) else {
            return self;
        };
        let (chosen, time) = (self.chosen, self.time);
        let (near, _) = search(problem, problem.adopt(previous), time, 0);
        let candidate = self.or(Self::new(problem, chosen, near));
        if candidate.changed == 0 {
            return candidate;
        }
        let circuits = settle(problem, previous, candidate.circuits, candidate.time);
        Self { bound: candidate.bound, ..Self::new(problem, chosen, circuits) }
    }
}

/// Circuits by bisection from the skipping greedy, or from what is there if that is faster.
pub(super) fn parametric(problem: &Problem) -> Candidate {
    let stay = held(problem, Allocator::Parametric);
    if let Some(stay) = stay.as_ref().filter(|stay| stay.stays(problem)) {
        return stay.clone();
    }
    let circuits = skip(problem, problem.request.previous);
    let fresh = Candidate::new(problem, Allocator::Parametric, circuits);
    let start = match stay {
        Some(stay) => stay.or(fresh),
        None => fresh,
    };
    shorten(problem, start, Allocator::Parametric, 0).settled(problem)
}

/// The circuits that are there, as far as ports and allowed pairs admit them.
pub(super) fn held(problem: &Problem, chosen: Allocator) -> Option<Candidate> {
    let previous = problem.request.previous?;
    Some(Candidate::new(problem, chosen, problem.adopt(previous)))
}

/// Circuits that finish sooner than these, if any are found; such are labeled as `name`'s.
///
/// Without split the time with split comes first: it is a bound as good as the search, and its
/// circuits are a start as good as any where most pairs need one circuit at most.
pub(super) fn shorten(
    problem: &Problem,
    found: Candidate,
    name: Allocator,
    patience: usize,
) -> Candidate {
    if problem.reaches_bound(found.time) || !found.time.is_finite() {
        return found;
    }
    let bound = line_bound_of(problem).max(found.bound);
    let mut found = Candidate { bound, ..found };
    if problem.request.split {
        return bisect(problem, found, name, (bound, patience)).0;
    }
    if problem.n <= MAX_SERVERS {
        found = prove(problem, found, name);
        if found.is_proved() {
            return found;
        }
    }
    let bound = found.bound;
    let mut relaxed = problem.clone();
    relaxed.request.split = true;
    let start = Candidate::new(&relaxed, name, found.circuits.clone());
    let (start, failed) = bisect(&relaxed, start, name, (bound, patience));
    let found = found.or(Candidate::new(problem, name, start.circuits));
    bisect(problem, found, name, (failed, patience)).0
}

/// Looks for whole bundles that finish by ever shorter times, and for the proof that there are
/// none; as far as branching decides.
fn prove(problem: &Problem, mut candidate: Candidate, name: Allocator) -> Candidate {
    let mut target = candidate.bound * (1.0 + ROUNDING);
    while !candidate.is_proved() {
        let last = candidate.time <= candidate.bound * (1.0 + PRECISION);
        if last {
            target = candidate.time * (1.0 - CLOSE);
        }
        match branch(problem, target, BRANCHES) {
            Verdict::Possible(circuits) => {
                let next = Candidate::new(problem, name, circuits);
                if next.time >= candidate.time {
                    break;
                }
                candidate = candidate.or(next);
            }
            Verdict::Impossible => candidate.bound = if last { candidate.time } else { target },
            Verdict::Unknown => break,
        }
        target = f64::midpoint(candidate.bound, candidate.time);
    }
    candidate
}

/// Looks for circuits that finish by ever shorter times, by bisection between the time reached and
/// a time that cannot be, or was not, reached. Returns that, too.
fn bisect(
    problem: &Problem,
    mut candidate: Candidate,
    name: Allocator,
    (mut failed, patience): (f64, usize),
) -> (Candidate, f64) {
    let mut target = failed * (1.0 + ROUNDING);
    while candidate.time > failed * (1.0 + PRECISION) {
        let (circuits, in_time) = attempt(problem, &mut candidate, name, (target, patience));
        let next = Candidate::new(problem, name, circuits);
        if !in_time {
            failed = target;
        } else if next.time >= candidate.time {
            break;
        }
        candidate = candidate.or(next);
        let skew = if problem.request.split { 0.5 } else { SKEW };
        target = failed + skew * (candidate.time - failed);
    }
    (candidate, failed)
}

/// Looks for circuits that finish by this time.
fn attempt(
    problem: &Problem,
    candidate: &mut Candidate,
    name: Allocator,
    (target, patience): (f64, usize),
) -> (Circuits, bool) {
    let start = candidate.circuits.clone();
    let (circuits, in_time) = search(problem, start, target, patience);
    if in_time || problem.request.split {
        return (circuits, in_time);
    }
    let missed = Candidate::new(problem, name, circuits);
    *candidate = candidate.clone().or(missed);
    let (circuits, in_time) = pack(problem, target, patience);
    if in_time {
        return (circuits, true);
    }
    search(problem, circuits, target, patience)
}
