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
//! Ours searches harder. The job is made of phases that follow each other, and a topology costs the
//! sum of what their busiest circuits carry ([`predict`]). Every number of ports for rings is tried,
//! where TopoOpt divides them by bytes; phases whose pairs all find ports get direct circuits
//! ([`direct`]); and circuits are exchanged as long as that helps ([`search`]).
//!
//! Step 4 and exchanges may take circuits of a cycle: a ring that runs along routes costs a job less
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
mod traffic;

pub use paths::Routes;
pub use request::{RingCycle, RingGroup, RoutedEdge, Strides, TopoRequest};

use lightloom_model::{Circuit, Invalid};
use links::Links;
use predict::Plan;
use traffic::Traffic;

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
    /// these are the neighbors of each of its cycles, or of its ring order if it has none, both
    /// ways.
    pub routes: Routes,
    /// Most routes of a pair: fewer than allowed where that is better.
    pub max_routes: u32,
    /// Predicted bytes of the busiest circuit in each phase of the demand, then in each of the rings.
    pub busiest: Vec<f64>,
}

/// Finds a topology.
///
/// # Errors
/// If the request is not consistent, or one port per server cannot connect those that talk.
pub fn topology(request: &TopoRequest) -> Result<TopoOptTopology, Invalid> {
    let (plan, cycles) = plan(request)?;
    Ok(TopoOptTopology {
        circuits: plan.links.circuits(),
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
    let starts = starts(request)?;
    // Routes may concentrate bytes, so that fewer are better.
    let half = |limit: &u32| (*limit > 1).then(|| limit.div_ceil(2));
    let limits = std::iter::successors(Some(request.max_routes.max(1)), half);
    let found = limits.map(|max_routes| search::best(&starts, max_routes));
    let (which, plan) = search::least(found, |(_, plan)| plan.cost);
    Ok((plan, starts[which].cycles.clone()))
}

/// Circuits that a search begins with.
struct Start {
    cycles: Vec<RingCycle>,
    links: Links,
    traffic: Traffic,
}

/// `TopoOpt`'s ports for rings and matchings for the rest; then direct circuits for what fits, with
/// each number of ports that rings may have.
fn starts(request: &TopoRequest) -> Result<Vec<Start>, Invalid> {
    let by_bytes = rings::ports_by_bytes(request);
    let mut starts = vec![start(request, by_bytes, false)?];
    let mut seen: Vec<Vec<RingCycle>> = Vec::new();
    for ports in 0..=rings::most_ports(request).min(MAX_STARTS) {
        let direct = start(request, ports, true)?;
        let has_cycles = by_bytes == 0 || !direct.cycles.is_empty();
        if has_cycles && !seen.contains(&direct.cycles) {
            seen.push(direct.cycles.clone());
            starts.push(direct);
        }
    }
    Ok(starts)
}

fn start(request: &TopoRequest, ring_ports: u32, is_direct: bool) -> Result<Start, Invalid> {
    let mut links = Links::new(request.servers, request.degree);
    let cycles = rings::place(request, ring_ports, &mut links);
    if is_direct {
        direct::join(request, &mut links);
    }
    let mut pairs = without_cycles(request, &cycles);
    pairs.per_circuit(&links);
    matching::serve(&mut pairs, &mut links);
    for cycle in &cycles {
        pairs.add_ring(&request.rings[cycle.group as usize], cycle.stride);
    }
    pairs.merge();
    matching::serve(&mut pairs, &mut links);
    matching::join_leftovers(&mut links);
    let traffic = Traffic::of(request, &cycles);
    connect::connect(&traffic.pairs, &pairs, &mut links)?;
    matching::join_leftovers(&mut links);
    Ok(Start { cycles, links, traffic })
}

/// Most servers, most ports of each, and most ports of all: one circuit after another is found.
const MAX_SERVERS: u32 = 1 << 20;
const MAX_DEGREE: u32 = 1 << 16;
const MAX_PORTS: u64 = 1 << 24;

/// Most divisions of ports between rings and the rest that are tried.
const MAX_STARTS: u32 = 16;

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

/// What pairs want that no cycle serves: a ring that got none competes for circuits like
/// everything else.
fn without_cycles(request: &TopoRequest, cycles: &[RingCycle]) -> matching::PairDemand {
    let mut pairs = matching::PairDemand::of_rest(request.demand);
    for (index, group) in request.rings.iter().enumerate() {
        if cycles.iter().all(|cycle| cycle.group as usize != index) {
            pairs.add_ring(group, 1);
        }
    }
    pairs.merge();
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of two rings the one that has a cycle wants no other circuits.
    #[test]
    fn rings_without_a_cycle_want_circuits_with_everything_else() {
        let group = |members: &[u32], edge_bytes| RingGroup {
            members: members.to_vec(),
            edge_bytes,
            phase: 0,
        };
        let request = TopoRequest {
            servers: 8,
            degree: 4,
            rings: &[group(&[0, 1, 2], 8), group(&[1, 2, 3], 50)],
            strides: Strides::Geometric,
            demand: &[(2, 1, 10), (4, 5, 1)],
            phases: &[],
            max_routes: 1,
        };
        let wanted = without_cycles(&request, &[RingCycle { group: 0, stride: 1 }; 2]);
        assert_eq!(wanted.pairs, [(1, 2, 60.0), (1, 3, 50.0), (2, 3, 50.0), (4, 5, 1.0)]);
    }
}
