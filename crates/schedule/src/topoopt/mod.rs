//! TopoOpt's topology: fixed circuits for a whole job, from its demand averaged over the job.
//!
//! After the topology finder of TopoOpt (Wang et al., NSDI 2023, section 4), with duplex circuits:
//!
//! 1. some ports of a server are for ring all-reduces, the others for the rest;
//! 2. each ring group gets cycles `i -> i + p` with `p` coprime to its size, the strides `p` in
//!    geometric progression, so that the cycles together have a small diameter;
//! 3. the rest gets maximum-weight matchings, one after another, the demand of a joined pair being
//!    halved after each;
//! 4. ports that are left are joined, too, and parts that must talk to each other are connected;
//! 5. every pair that communicates gets its shortest paths, over other servers where need be.
//!
//! This one searches harder. A job is made of phases that follow each other, and a topology costs
//! the sum of what their busiest circuits carry (`predict`). Every number of ports for rings is
//! tried, where TopoOpt divides them by bytes (`start`); phases whose pairs all find ports get
//! direct circuits (`direct`); and circuits are swapped as long as that helps (`search`).
//!
//! Step 4 and swaps may take circuits of a cycle: a ring that runs along routes costs a job less
//! than crowded circuits do. An edge that lost its circuit is named.
//!
//! TopoOpt's rings are directed and take one transmitter and one receiver of each server. A duplex
//! cycle takes two ports and is two such rings, one in each direction, hence the same capacity.

#[cfg(test)]
mod bounds;
mod connect;
mod direct;
mod links;
mod matching;
mod paths;
mod predict;
mod request;
mod rings;
mod search;
mod start;
mod traffic;

pub use paths::Routes;
pub use request::{RingCycle, RingGroup, RoutedEdge, Strides, TopoRequest};

use lightloom_model::{Circuit, Invalid};
use predict::Plan;

/// Circuits and routes.
#[derive(Debug, Clone, PartialEq)]
pub struct TopoOptTopology {
    /// Bundles of duplex circuits, `a < b`, sorted.
    pub circuits: Vec<Circuit>,
    /// Cycles that ring groups got; a group without one is routed over whatever is there.
    pub cycles: Vec<RingCycle>,
    /// Edges of cycles that no circuit is left for, in the order of the cycles.
    pub routed_edges: Vec<RoutedEdge>,
    /// Shortest paths of every ordered pair that communicates, sorted by pair. For ring groups
    /// these are the neighbors of each of its cycles, or of its ring order if it has none, in both
    /// directions.
    pub routes: Routes,
    /// Maximum number of routes of a pair: fewer than allowed where that is better.
    pub max_routes: u32,
    /// Predicted bytes of the busiest circuit in each phase of the demand, then of the rings.
    pub busiest: Vec<f64>,
}

/// Finds a topology.
///
/// # Errors
/// If the request is not consistent, or one port per server cannot connect those that talk.
pub fn topology(request: &TopoRequest) -> Result<TopoOptTopology, Invalid> {
    let (plan, cycles) = plan(request)?;
    Ok(TopoOptTopology {
        circuits: plan.links.circuits().collect(),
        routed_edges: rings::routed_edges(request, &cycles, &plan.links),
        cycles,
        routes: plan.routes,
        max_routes: plan.max_routes,
        busiest: plan.busiest,
    })
}

/// The best topology found, and its cycles.
fn plan(request: &TopoRequest) -> Result<(Plan, Vec<RingCycle>), Invalid> {
    validate(request)?;
    let starts = start::all(request)?;
    // Routes may concentrate bytes, so that few are better.
    let half = |limit: &u32| (*limit > 1).then(|| (*limit).min(8).div_ceil(2));
    let limits = std::iter::successors(Some(request.max_routes.max(1)), half);
    let searched = limits.map(|max_routes| search::best(&starts, max_routes));
    let (which, plan) = search::cheapest(searched, |(_, plan)| plan.cost);
    Ok((plan, starts[which].cycles.clone()))
}

/// Most servers, most ports of each, and most ports of all: one circuit after another is found.
const MAX_SERVERS: u32 = 1 << 20;
const MAX_DEGREE: u32 = 1 << 16;
const MAX_PORTS: u64 = 1 << 24;

/// Most phases of the demand, and most of the rings: each is compared with all others.
const MAX_PHASES: usize = 64;

fn validate(request: &TopoRequest) -> Result<(), Invalid> {
    let n = request.servers;
    if n == 0 || request.degree == 0 {
        return Err(Invalid::new("a topology needs at least one server and one port at each"));
    }
    let ports = u64::from(n) * u64::from(request.degree);
    if n > MAX_SERVERS || request.degree > MAX_DEGREE || ports > MAX_PORTS {
        return Err(Invalid(format!(
            "{n} servers with {} ports each: expected at most {MAX_SERVERS} with {MAX_DEGREE} \
             each, {MAX_PORTS} in all",
            request.degree
        )));
    }
    if !request.phases.is_empty() && request.phases.len() != request.demand.len() {
        let (phases, entries) = (request.phases.len(), request.demand.len());
        return Err(Invalid(format!("{phases} phases for {entries} entries of demand")));
    }
    let of_rings = request.rings.iter().map(|group| group.phase).collect();
    for (what, mut phases) in [("demand", request.phases.to_vec()), ("rings", of_rings)] {
        phases.sort_unstable();
        phases.dedup();
        if phases.len() > MAX_PHASES {
            return Err(Invalid(format!(
                "{} phases of {what}: expected {MAX_PHASES} at most",
                phases.len()
            )));
        }
    }
    for (index, group) in request.rings.iter().enumerate() {
        let mut members = group.members.clone();
        members.sort_unstable();
        if let Some(&last) = members.last()
            && last >= n
        {
            return Err(Invalid(format!("ring {index}: no server {last} among {n}")));
        }
        if let Some(place) = (1..members.len()).find(|&i| members[i] == members[i - 1]) {
            let twice = members[place];
            return Err(Invalid(format!("ring {index}: server {twice} twice")));
        }
    }
    let wrong = request.demand.iter().find(|&&(from, to, _)| from >= n || to >= n);
    match wrong {
        Some((from, to, _)) => Err(Invalid(format!("demand {from} to {to}: only {n} servers"))),
        None => Ok(()),
    }
}
