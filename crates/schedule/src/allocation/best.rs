//! The best of all allocators, on the makespan under the routing that the request asks for.

use std::cmp::Ordering;

use super::bound::line_bound;
use super::problem::{Circuits, Problem};
use super::request::{Allocation, changed_pairs};
use super::routing::{finish_at, makespan};
use super::search::Search;
use super::{bundles, circulant, greedy};
use lightloom_model::Allocator;

/// The search for a shorter time ends when it is this close to the bound, or to what has failed.
const PRECISION: f64 = 5e-3;

/// Relative distance within which a time equals its bound: the two are summed in different orders.
const ROUNDING: f64 = 1e-12;

#[derive(Clone)]
struct Candidate {
    time: f64,
    changed: u32,
    chosen: Allocator,
    circuits: Circuits,
}

impl Candidate {
    fn new(problem: &Problem, chosen: Allocator, circuits: Circuits) -> Self {
        let time = makespan(problem, &circuits.count);
        let previous = problem.request.previous;
        let changed = previous.map_or(0, |old| changed_pairs(old, &circuits.count));
        Self { time, changed, chosen, circuits }
    }

    /// The faster one; of equally fast ones the one that changes less; else `self`.
    fn or(self, other: Self) -> Self {
        let better = match other.time.total_cmp(&self.time) {
            Ordering::Less => true,
            Ordering::Equal => other.changed < self.changed,
            Ordering::Greater => false,
        };
        if better { other } else { self }
    }

    fn reaches(&self, bound: f64) -> bool {
        self.time <= bound * (1.0 + ROUNDING)
    }
}

/// Never slower than any other allocator; among equally fast answers the one that changes the
/// fewest circuits.
pub fn best(problem: &Problem) -> Allocation {
    let found = fastest(problem);
    finish_at(problem, found.circuits.count, found.chosen, found.time)
}

fn fastest(problem: &Problem) -> Candidate {
    let rate = |chosen, circuits| Candidate::new(problem, chosen, circuits);
    let port_bound = problem.port_bound();
    let old = problem.request.previous.map(|count| problem.adopt(count));
    let stay = old.clone().map(|circuits| rate(Allocator::Best, circuits));
    if let Some(stay) = stay.as_ref().filter(|stay| stay.changed == 0)
        && stay.reaches(port_bound)
    {
        return stay.clone();
    }
    let found = rate(Allocator::Best, greedy::skip_max(problem));
    if stay.is_none() && found.reaches(port_bound) {
        return found;
    }
    let found = found
        .or(rate(Allocator::Static, circulant::circulant(problem)))
        .or(rate(Allocator::Reference, greedy::reference(problem)))
        .or(rate(Allocator::Paper, greedy::paper(problem)));
    let found = shorten(problem, found);
    // Searched apart, so that knowing what is there never makes the answer slower.
    let found = match stay {
        Some(stay) if stay.time < found.time => shorten(problem, stay),
        Some(stay) => found.or(stay),
        None => found,
    };
    // Starting from the circuits that are there, the same time may take fewer changes.
    match old {
        Some(old) if found.changed > 0 => {
            let (circuits, _) = Search::new(problem, old, found.time).run();
            found.or(rate(Allocator::Best, circuits))
        }
        _ => found,
    }
}

/// Looks for circuits that finish by ever shorter times, by bisection between the time reached and
/// a time that cannot be, or was not, reached.
fn shorten(problem: &Problem, mut found: Candidate) -> Candidate {
    let mut failed = line_bound(problem);
    let mut target = failed * (1.0 + ROUNDING);
    while found.time > failed * (1.0 + PRECISION) && found.time.is_finite() {
        let (mut circuits, mut in_time) =
            Search::new(problem, found.circuits.clone(), target).run();
        if !in_time && !problem.request.split {
            found = found.or(Candidate::new(problem, Allocator::Best, circuits));
            (circuits, in_time) =
                Search::new(problem, bundles::bundles(problem, target), target).run();
        }
        let next = Candidate::new(problem, Allocator::Best, circuits);
        if !in_time {
            failed = target;
        } else if next.time >= found.time {
            break;
        }
        found = found.or(next);
        target = f64::midpoint(failed, found.time);
    }
    found
}
