//! The allocators by name.

use super::problem::Problem;
use super::request::{Allocation, Request};
use super::{algorithm1, best, circulant, greedy, parametric, routing};
use lightloom_model::Allocator;

/// Turns demand into circuits by the named allocator, and routes the demand over them.
pub fn allocate(allocator: Allocator, request: &Request) -> Allocation {
    let problem = Problem::new(request);
    let circuits = match allocator {
        Allocator::Paper => algorithm1::paper(&problem, request.previous),
        Allocator::Reference => algorithm1::reference(&problem, request.previous),
        Allocator::Static => circulant::circulant(&problem),
        Allocator::Greedy => return greedy::greedy(&problem),
        Allocator::Parametric => return parametric::parametric(&problem).finish(&problem),
        Allocator::Best => return best::best(&problem).finish(&problem),
    };
    routing::finish(&problem, circuits.count, allocator)
}
