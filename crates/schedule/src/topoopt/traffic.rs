//! What a topology must carry, phase by phase.

use super::request::{RingCycle, TopoRequest};
use super::rings;

/// Bytes of one ordered pair in one phase.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Send {
    /// Index of the pair.
    pub pair: usize,
    pub phase: usize,
    pub bytes: f64,
}

/// An edge of a cycle: the indexes of its two ordered pairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Edge {
    pub forth: usize,
    pub back: usize,
    /// Edges of cycles of this ring between the same servers, this one included.
    pub parallel: u32,
}

/// A ring and the cycles that it is divided among.
#[derive(Debug)]
pub(super) struct Ring {
    pub phase: usize,
    /// Bytes that cross each edge if there is one cycle.
    pub bytes: f64,
    pub cycles: Vec<Vec<Edge>>,
}

/// All that servers send each other.
#[derive(Debug)]
pub(super) struct Traffic {
    /// Ordered pairs that need a route, sorted, each once.
    pub pairs: Vec<(u32, u32)>,
    /// What is no ring; sorted by pair.
    pub sends: Vec<Send>,
    pub rings: Vec<Ring>,
    /// Phases of the sends, then phases of the rings.
    pub phases: usize,
}

impl Traffic {
    /// Rings that have no cycle run in their own order.
    pub(super) fn of(request: &TopoRequest, cycles: &[RingCycle]) -> Self {
        let mut phases: Vec<u32> = request.phases.to_vec();
        phases.sort_unstable();
        phases.dedup();
        let mut ring_phases: Vec<u32> = request.rings.iter().map(|group| group.phase).collect();
        ring_phases.sort_unstable();
        ring_phases.dedup();
        let first_of_rings = phases.len().max(1);
        let phase_of =
            |index: usize| request.phases.get(index).map_or(0, |phase| place(&phases, phase));

        let mut entries: Vec<((u32, u32), usize, f64)> = (0..)
            .zip(request.demand)
            .filter(|&(_, &(from, to, bytes))| from != to && bytes > 0)
            .map(|(index, &(from, to, bytes))| ((from, to), phase_of(index), bytes as f64))
            .collect();
        // Stable, so that sums do not depend on how the sort moves equals.
        entries.sort_by_key(|&(pair, phase, _)| (pair, phase));
        entries.dedup_by(|next, kept| {
            let same = (next.0, next.1) == (kept.0, kept.1);
            kept.2 += if same { next.2 } else { 0.0 };
            same
        });
        let orders = orders(request, cycles);
        let edges = orders.iter().flat_map(|(_, cycles)| cycles.iter().flatten().copied());
        let mut pairs: Vec<(u32, u32)> = edges.flat_map(|(a, b)| [(a, b), (b, a)]).collect();
        pairs.extend(entries.iter().map(|entry| entry.0));
        pairs.sort_unstable();
        pairs.dedup();
        let sends = entries
            .into_iter()
            .map(|(pair, phase, bytes)| Send { pair: place(&pairs, &pair), phase, bytes })
            .collect();
        let rings = orders
            .into_iter()
            .map(|(group, cycles)| Ring {
                phase: first_of_rings + place(&ring_phases, &request.rings[group].phase),
                bytes: request.rings[group].edge_bytes as f64,
                cycles: with_places(&cycles, &pairs),
            })
            .collect();
        Self { pairs, sends, rings, phases: first_of_rings + ring_phases.len() }
    }
}

/// Where a value is in a sorted list that has it.
fn place<T: Ord>(sorted: &[T], value: &T) -> usize {
    sorted.binary_search(value).expect("a value of the list")
}

type Pairs = Vec<(u32, u32)>;

/// Groups that send something, and the edges of each of their cycles.
fn orders(request: &TopoRequest, cycles: &[RingCycle]) -> Vec<(usize, Vec<Pairs>)> {
    let mut strides = vec![Vec::new(); request.rings.len()];
    for cycle in cycles {
        strides[cycle.group as usize].push(cycle.stride as usize);
    }
    let groups = request.rings.iter().zip(strides).enumerate();
    groups
        .filter(|(_, (group, _))| group.edge_bytes > 0 && group.members.len() > 1)
        .map(|(index, (group, mut strides))| {
            if strides.is_empty() {
                strides.push(1);
            }
            let edges =
                strides.iter().map(|&stride| rings::edges(&group.members, stride).collect());
            (index, edges.collect())
        })
        .collect()
}

fn with_places(cycles: &[Pairs], pairs: &[(u32, u32)]) -> Vec<Vec<Edge>> {
    let mut all: Vec<(u32, u32)> =
        cycles.iter().flatten().map(|&(a, b)| (a.min(b), a.max(b))).collect();
    all.sort_unstable();
    let parallel = |(a, b): (u32, u32)| {
        let pair = (a.min(b), a.max(b));
        all.partition_point(|other| *other <= pair) - all.partition_point(|other| *other < pair)
    };
    let edge = |&(a, b): &(u32, u32)| Edge {
        forth: place(pairs, &(a, b)),
        back: place(pairs, &(b, a)),
        parallel: parallel((a, b)) as u32,
    };
    cycles.iter().map(|cycle| cycle.iter().map(edge).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::super::request::examples::{group, request};
    use super::*;

    /// Entries of a pair add up within their phase; what has no bytes, or stays, is left out.
    #[test]
    fn a_pair_sends_in_several_phases() {
        let demand = [(0, 1, 10), (1, 1, 9), (0, 1, 30), (3, 4, 0), (1, 0, 7), (0, 1, 5)];
        let traffic = Traffic::of(&request(8, &[], &demand, &[7, 7, 7, 7, 3, 3]), &[]);
        assert_eq!(traffic.pairs, [(0, 1), (1, 0)]);
        let sends = [(0, 0, 5.0), (0, 1, 40.0), (1, 0, 7.0)];
        assert_eq!(traffic.sends, sends.map(|(pair, phase, bytes)| Send { pair, phase, bytes }));
        let traffic = Traffic::of(&request(8, &[], &demand, &[]), &[]);
        assert_eq!((traffic.sends.len(), traffic.phases), (2, 1));
    }

    /// Phases of rings come after those of the demand; a ring without a cycle runs in its order.
    #[test]
    fn rings_have_phases_of_their_own() {
        let rings = [group(&[5, 3, 6], 8, 4), group(&[6, 7, 5], 0, 1), group(&[1, 2], 9, 4)];
        let cycle = |group| RingCycle { group, stride: 1 };
        let traffic = Traffic::of(&request(8, &rings, &[], &[]), &[cycle(2), cycle(2)]);
        assert_eq!(traffic.phases, 3);
        assert_eq!(traffic.pairs, [(1, 2), (2, 1), (3, 5), (3, 6), (5, 3), (5, 6), (6, 3), (6, 5)]);
        let first = &traffic.rings[0];
        assert_eq!((first.phase, first.bytes, first.cycles.len()), (2, 8.0, 1));
        let places: Vec<(usize, usize)> =
            first.cycles[0].iter().map(|edge| (edge.forth, edge.back)).collect();
        assert_eq!(places, [(4, 2), (3, 6), (7, 5)]);
        let edge = Edge { forth: 0, back: 1, parallel: 2 };
        assert_eq!(traffic.rings[1].cycles, [[edge], [edge]]);
    }
}
