//! TopoOpt's topology: fixed circuits for a whole job, from its demand averaged over the job.
//!
//! After the topology finder of TopoOpt (Wang et al., NSDI 2023, section 4), with duplex circuits:
//!
//! 1. the ports of a server are divided between ring all-reduces and the rest by traffic;
//! 2. each ring group gets cycles `i -> i + p` with `p` coprime to its size, the strides `p` in
//!    geometric progression, so that the cycles together have a small diameter;
//! 3. the rest gets maximum-weight matchings, one after another, the demand of a joined pair being
//!    halved after each;
//! 4. ports that are left are joined, too, and parts that must talk to each other are connected;
//! 5. every pair that communicates gets its shortest paths, over other servers where need be;
//! 6. circuits are swapped where routes crowd.
//!
//! Steps 4 and 6 may take circuits of a cycle: a ring that runs along routes costs a job less than
//! crowded circuits do. An edge that lost its circuit is named.
//!
//! TopoOpt's rings are directed and take one transmitter and one receiver of each server. A duplex
//! cycle takes two ports and is two such rings, one in each direction, hence the same capacity.

mod connect;
mod links;
mod matching;
mod paths;
mod relieve;
mod request;
mod rings;

pub use paths::Routes;
pub use request::{RingCycle, RingGroup, RoutedEdge, Strides, TopoRequest};

use lightloom_model::{Circuit, Invalid};
use links::Links;

/// Circuits and routes.
#[derive(Debug, Clone, PartialEq, Eq)]
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
}

/// Finds a topology.
///
/// # Errors
/// If the request is not consistent, or one port per server cannot connect those that talk.
pub fn topology(request: &TopoRequest) -> Result<TopoOptTopology, Invalid> {
    validate(request)?;
    let mut links = Links::new(request.servers, request.degree);
    let cycles = rings::place(request, &mut links);
    let mut pairs = without_cycles(request, &cycles);
    matching::serve(&mut pairs, &mut links);
    for cycle in &cycles {
        pairs.add_ring(&request.rings[cycle.group as usize], cycle.stride);
    }
    pairs.merge();
    matching::serve(&mut pairs, &mut links);
    matching::join_leftovers(&mut links);
    let (talking, bytes) = talking_pairs(request, &cycles);
    connect::connect(&talking, &pairs, &mut links)?;
    matching::join_leftovers(&mut links);
    let (links, routes) = relieve::relieve(links, &talking, &bytes, request.max_routes.max(1));
    let routed_edges = rings::routed_edges(request, &cycles, &links);
    Ok(TopoOptTopology { circuits: links.circuits(), cycles, routed_edges, routes })
}

/// Most servers, most ports of each, and most ports of all: one circuit after another is found.
const MAX_SERVERS: u32 = 1 << 20;
const MAX_DEGREE: u32 = 1 << 16;
const MAX_PORTS: u64 = 1 << 24;

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

/// Ordered pairs that need a route, sorted, each once; and the bytes of each.
///
/// A ring's bytes are planned as divided equally among its cycles, each of which runs both ways;
/// with one stride only they run one way. Two servers send each other everything.
fn talking_pairs(request: &TopoRequest, cycles: &[RingCycle]) -> (Vec<(u32, u32)>, Vec<f64>) {
    let mut pairs: Vec<(u32, u32, f64)> = request
        .demand
        .iter()
        .filter(|&&(from, to, bytes)| from != to && bytes > 0)
        .map(|&(from, to, bytes)| (from, to, bytes as f64))
        .collect();
    let mut own = vec![0_u32; request.rings.len()];
    for cycle in cycles {
        own[cycle.group as usize] += 1;
    }
    let unserved = own.iter().enumerate().filter(|entry| *entry.1 == 0);
    let order = unserved.map(|(group, _)| RingCycle { group: group as u32, stride: 1 });
    for cycle in order.chain(cycles.iter().copied()) {
        let group = &request.rings[cycle.group as usize];
        if group.edge_bytes > 0 {
            let share = group.edge_bytes as f64 / f64::from(own[cycle.group as usize].max(1));
            let (forth, back) = match (group.members.len(), request.strides) {
                (2, _) => (share, share),
                (_, Strides::One) => (share, 0.0),
                (_, Strides::Geometric) => (share / 2.0, share / 2.0),
            };
            for (a, b) in rings::edges(&group.members, cycle.stride as usize) {
                pairs.extend([(a, b, forth), (b, a, back)]);
            }
        }
    }
    // Stable, so that sums do not depend on how the sort moves equals.
    pairs.sort_by_key(|&(from, to, _)| (from, to));
    pairs.dedup_by(|next, kept| {
        let same = (next.0, next.1) == (kept.0, kept.1);
        kept.2 += if same { next.2 } else { 0.0 };
        same
    });
    pairs.into_iter().map(|(from, to, bytes)| ((from, to), bytes)).unzip()
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "halves of whole numbers are exact")]
mod tests {
    use super::*;

    fn group(members: &[u32], edge_bytes: u64) -> RingGroup {
        RingGroup { members: members.to_vec(), edge_bytes }
    }

    fn request<'a>(
        rings: &'a [RingGroup],
        demand: &'a [(u32, u32, u64)],
        strides: Strides,
    ) -> TopoRequest<'a> {
        TopoRequest { servers: 8, degree: 4, rings, strides, demand, max_routes: 1 }
    }

    fn talking(request: &TopoRequest, cycles: &[RingCycle]) -> Vec<(u32, u32, f64)> {
        let (pairs, bytes) = talking_pairs(request, cycles);
        pairs.into_iter().zip(bytes).map(|((from, to), bytes)| (from, to, bytes)).collect()
    }

    const TWICE: [RingCycle; 2] =
        [RingCycle { group: 0, stride: 1 }, RingCycle { group: 0, stride: 1 }];

    /// 60 bytes over 2 cycles, both ways: 15 for each way of each.
    #[test]
    fn a_ring_sends_equal_parts_over_each_way_of_its_cycles() {
        let ring = [group(&[5, 3, 6], 60)];
        let found = talking(&request(&ring, &[], Strides::Geometric), &TWICE);
        let pairs = [(3, 5), (3, 6), (5, 3), (5, 6), (6, 3), (6, 5)];
        assert_eq!(found, pairs.map(|(from, to)| (from, to, 30.0)));
        let once = talking(&request(&ring, &[], Strides::Geometric), &TWICE[..1]);
        assert_eq!(once, pairs.map(|(from, to)| (from, to, 30.0)));
    }

    /// Rings in their order run one way, and their pairs have routes both ways.
    #[test]
    fn a_ring_of_one_stride_sends_one_way() {
        let ring = [group(&[5, 3, 6], 60)];
        let found = talking(&request(&ring, &[], Strides::One), &TWICE);
        let forth = [(5, 3), (3, 6), (6, 5)];
        let sends = |from, to| if forth.contains(&(from, to)) { 60.0 } else { 0.0 };
        assert_eq!(found.len(), 6);
        assert!(found.iter().all(|&(from, to, bytes)| bytes == sends(from, to)), "{found:?}");
    }

    #[test]
    fn two_servers_of_a_ring_send_each_other_everything() {
        let ring = [group(&[4, 1], 60)];
        for strides in [Strides::One, Strides::Geometric] {
            let found = talking(&request(&ring, &[], strides), &TWICE);
            assert_eq!(found, [(1, 4, 60.0), (4, 1, 60.0)]);
        }
    }

    /// Entries of a pair add up, a ring without a cycle runs in its order, and what has no bytes
    /// needs no route.
    #[test]
    fn everything_that_a_pair_sends_adds_up() {
        let rings = [group(&[0, 1, 2], 8), group(&[6, 7, 5], 0)];
        let demand = [(0, 1, 10), (1, 1, 9), (0, 1, 30), (3, 4, 0), (1, 0, 7)];
        let found = talking(&request(&rings, &demand, Strides::Geometric), &[]);
        let expected =
            [(0, 1, 44.0), (0, 2, 4.0), (1, 0, 11.0), (1, 2, 4.0), (2, 0, 4.0), (2, 1, 4.0)];
        assert_eq!(found, expected);
    }

    /// Of two rings the one that has a cycle wants no other circuits.
    #[test]
    fn rings_without_a_cycle_want_circuits_with_everything_else() {
        let rings = [group(&[0, 1, 2], 8), group(&[1, 2, 3], 50)];
        let wanted =
            without_cycles(&request(&rings, &[(2, 1, 10), (4, 5, 1)], Strides::Geometric), &TWICE);
        assert_eq!(wanted.pairs, [(1, 2, 60.0), (1, 3, 50.0), (2, 3, 50.0), (4, 5, 1.0)]);
    }
}
