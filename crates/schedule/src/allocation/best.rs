//! The best of all allocators, on the makespan under the routing of the request.

use super::enumerate::{MAX_SERVERS, enumerate};
use super::parametric::{Candidate, held, parametric, shorten};
use super::problem::Problem;
use super::{algorithm1, circulant, greedy};
use lightloom_model::Allocator;

/// How often a search goes on where no move helps.
const PATIENCE: usize = 3;

/// Never slower than any other allocator, nor for knowing what is there; among equally fast
/// results one that changes few circuits.
///
/// Beyond the parametric one, this looks from where each of the others ends: local search is not
/// exact, and another start may lead to another end. Where the parametric one is proved, these can
/// only be as fast. Small regions are searched for the optimum, as far as that ends.
pub(super) fn best(problem: &Problem) -> Candidate {
    let best = parametric(problem);
    if best.stays(problem) {
        return best;
    }
    let rate = |chosen, circuits| Candidate::new(problem, chosen, circuits);
    let previous = problem.request.previous;
    let mut others = rate(Allocator::Static, circulant::circulant(problem));
    for previous in [None, previous].into_iter().take(1 + usize::from(previous.is_some())) {
        others = others
            .or(rate(Allocator::Reference, algorithm1::reference(problem, previous)))
            .or(rate(Allocator::Paper, algorithm1::paper(problem, previous)));
    }
    if best.is_proved() {
        return best.or(others).settled(problem);
    }
    if problem.n <= MAX_SERVERS {
        let fastest = enumerate(problem, best.clone().or(others.clone()), Allocator::Best);
        if fastest.is_proved() {
            return fastest.settled(problem);
        }
    }
    let mut best = best.or(shorten(problem, others, Allocator::Best, PATIENCE));
    if held(problem, Allocator::Best).is_some() {
        let unaware = rate(Allocator::Greedy, greedy::skip(problem, None));
        best = best.or(shorten(problem, unaware, Allocator::Best, PATIENCE));
    }
    best.settled(problem)
}
