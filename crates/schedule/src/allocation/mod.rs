//! Demand of a region to circuits under a port budget (MixNet section 5.2, and better).
//!
//! [`allocate`] turns the demand of a region into circuits and says how the bytes are split between
//! those circuits and the EPS; [`route`] does only the second part, for circuits that are there.
//! [`map_nics`] picks the NICs that end each circuit.
//!
//! Assumes that circuits are duplex, that a circuit switch can join any two ports of a region, and
//! that bytes flow at line rate in one hop: start-up latency and the copies inside a server are
//! left to whoever simulates.

mod algorithm1;
mod best;
mod bound;
mod branching;
mod circulant;
mod greedy;
mod nics;
mod packing;
mod parametric;
mod planes;
mod problem;
mod request;
mod routing;
mod search;
mod sticky;

pub use bound::{line_bound, port_bound};
pub use nics::{NicCircuit, NicEnd, map_nics, map_working_nics};
pub use planes::{Planes, assign_from, assign_partial, assign_planes, check_planes};
pub use request::{Allocation, EpsRates, Request, changed_pairs};
pub use routing::{makespans, route};

use lightloom_model::Allocator;
use problem::Problem;

/// Turns demand into circuits by the named allocator, and routes the demand over them.
///
/// # Panics
/// If the request is not consistent, see [`Request::validate`].
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
