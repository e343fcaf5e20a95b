//! The matchings that rotor switches pass through: each ordered pair of nodes is in one of them.

use super::rotor::Rotor;
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::SplitMix64;

/// Draws of which one must have every moment of a cycle joined.
const MOST_DRAWS: u64 = 16;

/// Who is joined to whom by each of n - 1 matchings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RotorMatchings {
    /// Matching s joins node i to i + s.
    Shifts {
        /// Number of nodes.
        nodes: usize,
    },
    /// Peer of each node, by matching.
    Drawn(Vec<Vec<u32>>),
}

impl RotorMatchings {
    /// The peer of a node in a matching from 1 on.
    pub fn peer(&self, matching: usize, node: usize) -> usize {
        match self {
            Self::Shifts { nodes } => (node + matching) % nodes,
            Self::Drawn(peers) => peers[matching - 1][node] as usize,
        }
    }

    /// Draws matchings for rotors such that the circuits of those that do not turn join all nodes
    /// at every moment of a cycle, as in Opera (Mellette et al., NSDI 2020): of a few draws the
    /// first for which that holds, or else that for which it holds most often.
    ///
    /// O(draws n^2 (log n + switches)).
    pub fn drawn(rotor: &Rotor, seed: u64) -> Self {
        let mut random = SplitMix64::seed_from_u64(seed);
        let mut draw = || Self::Drawn(disjoint(rotor.nodes, &mut random));
        let mut best = draw();
        let mut apart = best.moments_apart(rotor);
        for _ in 1..if rotor.switches < 3 { 1 } else { MOST_DRAWS } {
            if apart == 0 {
                break;
            }
            let next = draw();
            let more = next.moments_apart(rotor);
            if more < apart {
                (best, apart) = (next, more);
            }
        }
        best
    }

    /// Turns of a cycle in which the circuits of switches that do not turn leave nodes apart.
    fn moments_apart(&self, rotor: &Rotor) -> usize {
        let switches = rotor.switches as u64;
        let cycle = (rotor.nodes as u64 - 1).div_ceil(switches) * switches;
        (1..=cycle).filter(|&turn| !self.joins_all(rotor, turn)).count()
    }

    /// Whether circuits that are lit during a turn, there and back, join all nodes.
    fn joins_all(&self, rotor: &Rotor, turn: u64) -> bool {
        let before = rotor.shifts(turn - 1);
        let is_lit = |(now, before): &(usize, usize)| now == before;
        let lit = rotor.shifts(turn).zip(before).filter(is_lit).map(|(now, _)| now);
        let mut first: Vec<usize> = (0..rotor.nodes).collect();
        let mut parts = rotor.nodes;
        for (matching, node) in lit.flat_map(|held| (0..rotor.nodes).map(move |node| (held, node)))
        {
            let [a, b] = [node, self.peer(matching, node)].map(|node| root(&mut first, node));
            if a != b {
                first[a] = b;
                parts -= 1;
            }
        }
        parts == 1
    }
}

/// The representative of the part of a node.
fn root(first: &mut [usize], mut node: usize) -> usize {
    while first[node] != node {
        first[node] = first[first[node]];
        node = first[node];
    }
    node
}

/// Matchings of n nodes that have no pair in common, at random: each is one of the regular
/// bipartite graph of the pairs that are left, found by random walks (Goel, Kapralov and Khanna,
/// STOC 2010) in O(n log n) expected.
fn disjoint(nodes: usize, random: &mut SplitMix64) -> Vec<Vec<u32>> {
    let others = |node| (0..nodes as u32).filter(|&peer| peer as usize != node).collect();
    let mut left: Vec<Vec<u32>> = (0..nodes).map(others).collect();
    let mut matchings = Vec::with_capacity(nodes.saturating_sub(1));
    for _ in 1..nodes {
        // By peer, the node that it is matched with, and its place among what that has left.
        let mut held: Vec<Option<(usize, usize)>> = vec![None; nodes];
        for start in 0..nodes {
            let (mut node, mut lost) = (start, None);
            loop {
                let choices = left[node].len() - usize::from(lost.is_some());
                let mut place = (random.next_u64() % choices as u64) as usize;
                // Not the peer that another node has just taken from this one.
                place += usize::from(lost.is_some_and(|lost| place >= lost));
                let peer = left[node][place] as usize;
                match held[peer].replace((node, place)) {
                    None => break,
                    Some((other, at)) => (node, lost) = (other, Some(at)),
                }
            }
        }
        let mut matching = vec![0; nodes];
        for (peer, held) in (0..).zip(held) {
            let (node, place) = held.expect("every walk ends at a peer of its own");
            matching[node] = peer;
            left[node].swap_remove(place);
        }
        matchings.push(matching);
    }
    matchings
}

#[cfg(test)]
mod tests {
    use super::super::rotor::Cycling;
    use super::*;

    fn rotor(nodes: usize, switches: usize) -> Rotor {
        let (slot, cycling) = (Some(1000), Cycling::Staggered);
        Rotor { nodes, switches, slot, delay: 10, held: false, relay: false, cycling }
    }

    #[test]
    fn each_pair_is_in_one_matching_and_every_moment_joins_all() {
        for (nodes, switches) in [(2, 3), (5, 3), (8, 4), (16, 3), (27, 4), (64, 4), (108, 6)] {
            let rotor = rotor(nodes, switches);
            for seed in 0..4 {
                let matchings = RotorMatchings::drawn(&rotor, seed);
                let mut seen = vec![0; nodes * nodes];
                for matching in 1..nodes {
                    let mut peers: Vec<usize> =
                        (0..nodes).map(|node| matchings.peer(matching, node)).collect();
                    for (node, &peer) in peers.iter().enumerate() {
                        seen[node * nodes + peer] += 1;
                    }
                    peers.sort_unstable();
                    assert!(peers.into_iter().eq(0..nodes));
                }
                let is_right = |(cell, &count)| count == i32::from(cell / nodes != cell % nodes);
                assert!(seen.iter().enumerate().all(is_right), "{nodes} {seed}");
                assert_eq!(matchings.moments_apart(&rotor), 0, "{nodes} {switches} {seed}");
            }
        }
    }

    #[test]
    fn shifts_leave_nodes_apart() {
        // Of two switches of an even number of nodes one holds odd shifts, the other even ones.
        assert!(RotorMatchings::Shifts { nodes: 16 }.moments_apart(&rotor(16, 2)) > 0);
    }

    #[test]
    fn a_seed_says_what_is_drawn() {
        let rotor = rotor(12, 3);
        assert_eq!(RotorMatchings::drawn(&rotor, 1), RotorMatchings::drawn(&rotor, 1));
        assert_ne!(RotorMatchings::drawn(&rotor, 1), RotorMatchings::drawn(&rotor, 2));
    }
}
