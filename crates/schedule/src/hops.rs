//! Which of a few matchings so many switches hold, so that the busiest circuit carries least.
//!
//! Bytes between nodes that no circuit joins are relayed: they take the shortest ways over the
//! circuits of all switches, at each node in equal parts over the circuits that begin one. A
//! choice by direct traffic alone leaves these bytes out, and may leave nodes without any way.
//! The search gives one switch another matching at a time, the best change first, until none helps:
//! at least as good as where it begins. O(n^2 s) for the loads of n nodes and s switches, and s m
//! of them for a change, of m matchings.

use crate::epochs::NONE;
use std::cmp::Ordering;

/// What circuits carry of a demand.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CircuitLoads {
    /// Pairs of nodes that no way joins.
    pub apart: u64,
    /// Bytes of such pairs.
    pub stranded: u64,
    /// Most bytes over a circuit.
    pub busiest: f64,
    /// Bytes over all circuits, each once for each that it crosses.
    pub crossed: f64,
}

impl CircuitLoads {
    /// What a demand (`from` times nodes plus `to`) puts on circuits from each node to its peer.
    pub fn of<'a>(
        demand: &[u64],
        nodes: usize,
        matchings: impl IntoIterator<Item = &'a [u32]>,
    ) -> Self {
        let mut peers: Vec<Vec<u32>> = vec![Vec::new(); nodes];
        for matching in matchings {
            for (node, &peer) in matching.iter().enumerate() {
                if peer != NONE && peer as usize != node {
                    peers[node].push(peer);
                }
            }
        }
        let mut over: Vec<Vec<f64>> = peers.iter().map(|own| vec![0.0; own.len()]).collect();
        let mut loads = Self { apart: 0, stranded: 0, busiest: 0.0, crossed: 0.0 };
        let mut backward: Vec<Vec<u32>> = vec![Vec::new(); nodes];
        for (node, own) in (0..).zip(&peers) {
            for &peer in own {
                backward[peer as usize].push(node);
            }
        }
        for to in 0..nodes {
            loads.add_to(to, demand, &peers, &backward, &mut over);
        }
        // Parallel circuits share: they begin the same ways.
        let all = over.iter().flatten();
        loads.busiest = all.clone().fold(0.0, |most, &bytes| most.max(bytes));
        loads.crossed = all.sum();
        loads
    }

    /// Adds what is bound for one node.
    fn add_to(
        &mut self,
        to: usize,
        demand: &[u64],
        peers: &[Vec<u32>],
        backward: &[Vec<u32>],
        over: &mut [Vec<f64>],
    ) {
        let nodes = peers.len();
        let mut hops = vec![NONE; nodes];
        hops[to] = 0;
        let mut order = vec![to as u32];
        let mut next = 0;
        while let Some(&node) = order.get(next) {
            next += 1;
            for &before in &backward[node as usize] {
                if hops[before as usize] == NONE {
                    hops[before as usize] = hops[node as usize] + 1;
                    order.push(before);
                }
            }
        }
        let bytes = |from: usize| demand[from * nodes + to];
        let mut passing: Vec<f64> = (0..nodes).map(|from| bytes(from) as f64).collect();
        for from in (0..nodes).filter(|&from| hops[from] == NONE) {
            self.apart += 1;
            self.stranded = self.stranded.saturating_add(bytes(from));
        }
        for &node in order[1..].iter().rev() {
            let node = node as usize;
            let is_nearer =
                |peer: u32| hops[peer as usize] != NONE && hops[peer as usize] < hops[node];
            let nearer = peers[node].iter().filter(|&&peer| is_nearer(peer)).count();
            let each = passing[node] / nearer as f64;
            for (place, &peer) in
                peers[node].iter().enumerate().filter(|(_, peer)| is_nearer(**peer))
            {
                over[node][place] += each;
                passing[peer as usize] += each;
            }
        }
    }

    /// Whether these are better than others: no pair apart before all else, then the busiest
    /// circuit, then all circuits; sums of shares differ by rounding.
    fn compare(&self, other: &Self) -> Ordering {
        let about = |a: f64, b: f64| {
            if (a - b).abs() <= 1e-9 * a.max(b) { Ordering::Equal } else { a.total_cmp(&b) }
        };
        let ways = self.apart.cmp(&other.apart).then(self.stranded.cmp(&other.stranded));
        let load = ways.then_with(|| about(self.busiest, other.busiest));
        load.then_with(|| about(self.crossed, other.crossed))
    }
}

/// Chooses, by their indices, the matching of each of so many switches, from `start` on; the
/// switches of `others` stay.
pub fn fewest_on_the_busiest(
    demand: &[u64],
    nodes: usize,
    matchings: &[&[u32]],
    others: &[&[u32]],
    start: Vec<usize>,
) -> Vec<usize> {
    let loads = |chosen: &[usize]| {
        let own = chosen.iter().map(|&index| matchings[index]);
        CircuitLoads::of(demand, nodes, own.chain(others.iter().copied()))
    };
    let mut chosen = start;
    let mut held = loads(&chosen);
    loop {
        let mut best: Option<(CircuitLoads, usize, usize)> = None;
        for place in 0..chosen.len() {
            let before = chosen[place];
            if chosen[..place].contains(&before) {
                continue;
            }
            for index in (0..matchings.len()).filter(|&index| index != before) {
                chosen[place] = index;
                let found = loads(&chosen);
                let target = best.as_ref().map_or(&held, |(best, ..)| best);
                if found.compare(target) == Ordering::Less {
                    best = Some((found, place, index));
                }
            }
            chosen[place] = before;
        }
        let Some((found, place, index)) = best else {
            return chosen;
        };
        (held, chosen[place]) = (found, index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xnest_plus::{Reading, sub_matrices};
    use proptest::prelude::*;

    fn pairings(nodes: usize) -> Vec<Vec<u32>> {
        sub_matrices(nodes, Reading::Pairings).concat()
    }

    fn refs(matchings: &[Vec<u32>]) -> Vec<&[u32]> {
        matchings.iter().map(Vec::as_slice).collect()
    }

    /// Two pairings of eight nodes are one ring of eight. All to all, by hand: 1 + 2 + 3 hops
    /// either way and half of 4 each way cross a circuit, which is 8 equal messages.
    #[test]
    fn a_ring_of_eight_carries_eight_messages_a_circuit() {
        let all = pairings(8);
        let demand: Vec<u64> = (0..64).map(|cell| u64::from(cell / 8 != cell % 8)).collect();
        let loads = CircuitLoads::of(&demand, 8, [all[0].as_slice(), all[3].as_slice()]);
        assert_eq!((loads.apart, loads.stranded), (0, 0));
        assert!((loads.busiest - 8.0).abs() < 1e-12);
        assert!((loads.crossed - 16.0 * 8.0).abs() < 1e-12);
    }

    #[test]
    fn circuits_of_one_pair_share_and_others_stay_apart() {
        let all = pairings(4);
        let mut demand = vec![0; 16];
        (demand[1], demand[2]) = (6, 10);
        let held = all.iter().find(|own| own[0] == 1).unwrap().as_slice();
        let loads = CircuitLoads::of(&demand, 4, [held, held]);
        assert_eq!((loads.apart, loads.stranded, loads.busiest), (8, 10, 3.0));
    }

    #[test]
    fn no_nodes_stay_apart_that_circuits_could_join() {
        let all = pairings(8);
        // Nothing but 0 and its peer in the first pairing: both switches would hold it.
        let mut demand = vec![0; 64];
        demand[all[0][0] as usize] = 1_000;
        let chosen = fewest_on_the_busiest(&demand, 8, &refs(&all), &[], vec![0, 0]);
        assert_ne!(chosen[0], chosen[1]);
        // One switch joins pairs alone, and then those that send.
        assert_eq!(fewest_on_the_busiest(&demand, 8, &refs(&all), &[], vec![4]), [0]);
        // Beside a switch that stays, the other one does not copy it.
        let kept = [all[0].as_slice()];
        let beside = fewest_on_the_busiest(&demand, 8, &refs(&all), &kept, vec![0]);
        assert_ne!(beside, [0]);
    }

    proptest! {
        /// Bytes that are not stranded cross at least one circuit, at most as many as there are
        /// nodes; a search is never worse than where it begins, and no change is left.
        #[test]
        fn a_search_ends_where_no_change_helps(
            demand in prop::collection::vec(0..9_u64, 36),
            start in prop::collection::vec(0..5_usize, 1..5),
        ) {
            let all = pairings(6);
            let off_diagonal = |cell: usize| u64::from(cell / 6 != cell % 6) * demand[cell];
            let demand: Vec<u64> = (0..36).map(off_diagonal).collect();
            let sum: u64 = demand.iter().sum();
            let loads = |chosen: &[usize]| {
                CircuitLoads::of(&demand, 6, chosen.iter().map(|&one| all[one].as_slice()))
            };
            let chosen = fewest_on_the_busiest(&demand, 6, &refs(&all), &[], start.clone());
            let found = loads(&chosen);
            prop_assert!(found.compare(&loads(&start)) != Ordering::Greater);
            let moved = (sum - found.stranded) as f64;
            prop_assert!(found.crossed >= moved - 1e-9 && found.crossed <= 5.0 * moved + 1e-9);
            for place in 0..chosen.len() {
                for index in 0..5 {
                    let mut other = chosen.clone();
                    other[place] = index;
                    prop_assert!(loads(&other).compare(&found) != Ordering::Less);
                }
            }
        }
    }
}
