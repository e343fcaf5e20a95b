//! Topologies that a search begins with.

use lightloom_model::Invalid;

use super::links::Links;
use super::request::{RingCycle, TopoRequest};
use super::traffic::Traffic;
use super::{connect, direct, matching, rings};

/// Maximum number of divisions of ports between rings and the rest that are tried.
const MAX_STARTS: u32 = 16;

/// Circuits that a search begins with.
pub(super) struct Start {
    pub cycles: Vec<RingCycle>,
    pub links: Links,
    pub traffic: Traffic,
}

impl Start {
    /// Whether a search from here is one from there: cycles and circuits decide the traffic.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.cycles == other.cycles && self.links == other.links
    }
}

/// `TopoOpt`'s ports for rings and matchings for the rest; then direct circuits for what fits, with
/// each number of ports that rings may have.
///
/// # Errors
/// If the servers that talk cannot be connected.
pub(super) fn all(request: &TopoRequest) -> Result<Vec<Start>, Invalid> {
    let by_bytes = rings::ports_by_bytes(request);
    let mut starts = vec![start(request, by_bytes, false)?];
    let mut seen: Vec<Vec<RingCycle>> = Vec::new();
    for ports in 0..=rings::max_ports(request).min(MAX_STARTS) {
        let Ok(direct) = start(request, ports, true) else { continue };
        // Only what else needs ports is a reason for rings to go without.
        let may_start = rings::has_rest(request) || !direct.cycles.is_empty();
        if may_start && !seen.contains(&direct.cycles) {
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
    use super::super::request::examples::{group, request};
    use super::*;

    /// A ring that has a cycle wants no other circuits.
    #[test]
    fn rings_without_a_cycle_want_circuits_with_everything_else() {
        let rings = [group(&[0, 1, 2], 8, 0), group(&[1, 2, 3], 50, 0)];
        let request = request(8, &rings, &[(2, 1, 10), (4, 5, 1)], &[]);
        let wanted = without_cycles(&request, &[RingCycle { group: 0, stride: 1 }; 2]);
        assert_eq!(wanted.pairs, [(1, 2, 60.0), (1, 3, 50.0), (2, 3, 50.0), (4, 5, 1.0)]);
    }
}
