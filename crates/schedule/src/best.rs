//! The best of all allocators, on the makespan under the routing that the request asks for.

use crate::problem::Problem;
use crate::request::{Allocation, changed_pairs};
use crate::routing::{finish_at, makespan};
use crate::{circulant, greedy};
use lightloom_model::Allocator;

/// Never slower than any other allocator; among equally fast answers the one that changes the
/// fewest circuits.
pub fn best(problem: &Problem) -> Allocation {
    let candidates = [
        (Allocator::Best, greedy::skip_max(problem).count),
        (Allocator::Static, circulant::circulant(problem)),
        (Allocator::Reference, greedy::reference(problem)),
        (Allocator::Paper, greedy::paper(problem)),
    ];
    let rated = candidates.into_iter().map(|(chosen, circuits)| {
        let time = makespan(problem, &circuits);
        let changed = problem.request.previous.map_or(0, |old| changed_pairs(old, &circuits));
        (time, changed, chosen, circuits)
    });
    let (time, _, chosen, circuits) = rated
        .min_by(|one, other| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1)))
        .expect("there are four candidates");
    finish_at(problem, circuits, chosen, time)
}
