//! Paths from rack to rack over what tables know to be lit.
//!
//! A path is found whole, in one view of all circuits, so that it has no loop whatever becomes of
//! the circuits; one that is out of date costs time, which bytes spend on it in the dark.
//! A circuit counts 2 and an electrical link 5: over two circuits rather than electrically, as
//! X-NEST+ has it. Of paths that count the same, the nodes choose by a hash.

use lightloom_flowsim::LinkId;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

const CIRCUIT: u32 = 2;
pub(super) const ELECTRICAL: u32 = 5;
const UNKNOWN: u32 = u32::MAX;

/// A link from one rack to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Edge {
    pub to: u32,
    pub link: LinkId,
    /// Index of the circuit; nothing of an electrical link.
    pub circuit: Option<u32>,
}

/// Links in order, the circuits among them, and what the path counts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Route {
    pub links: Vec<LinkId>,
    pub circuits: Vec<u32>,
    pub cost: u32,
}

/// Paths from one rack to all others: per number of circuits and rack, the cost, and the rack
/// before with its edge.
#[derive(Debug, Clone)]
pub(super) struct Tree {
    costs: Vec<u32>,
    before: Vec<(u32, Option<Edge>)>,
    racks: usize,
}

impl Tree {
    /// Over edges that are electrical or whose circuit is known to be lit, at most so many of
    /// these, if there is a limit.
    pub(super) fn new(
        from: u32,
        edges: &[Vec<Edge>],
        most: Option<u32>,
        is_known: impl Fn(u32) -> bool,
    ) -> Self {
        let racks = edges.len();
        let states = racks * (most.unwrap_or(0) as usize + 1);
        let mut tree =
            Self { costs: vec![UNKNOWN; states], before: vec![(from, None); states], racks };
        tree.costs[from as usize] = 0;
        let mut open = BinaryHeap::from([Reverse((0, from))]);
        while let Some(Reverse((cost, state))) = open.pop() {
            if cost > tree.costs[state as usize] {
                continue;
            }
            let (used, rack) = (state / racks as u32, state % racks as u32);
            for &edge in &edges[rack as usize] {
                let (next, more) = match edge.circuit {
                    None => (used, ELECTRICAL),
                    Some(circuit) if !is_known(circuit) => continue,
                    Some(_) => match most {
                        None => (used, CIRCUIT),
                        Some(most) if used < most => (used + 1, CIRCUIT),
                        Some(_) => continue,
                    },
                };
                let next = next * racks as u32 + edge.to;
                let known = tree.costs[next as usize];
                let rank = |before: u32| mix(from, edge.to, before % racks as u32);
                let (before, _) = tree.before[next as usize];
                if (cost + more, rank(state)) < (known, rank(before)) {
                    tree.costs[next as usize] = cost + more;
                    tree.before[next as usize] = (state, Some(edge));
                    if cost + more < known {
                        open.push(Reverse((cost + more, next)));
                    }
                }
            }
        }
        tree
    }

    /// The path to another rack, if there is one.
    pub(super) fn route(&self, to: u32) -> Option<Route> {
        let states = (to as usize..self.costs.len()).step_by(self.racks);
        self.trace(states.min_by_key(|&state| self.costs[state])?)
    }

    /// The path to another rack over electrical links alone.
    pub(super) fn electrical(&self, to: u32) -> Option<Route> {
        self.trace(to as usize)
    }

    fn trace(&self, state: usize) -> Option<Route> {
        let cost = self.costs[state];
        if cost == UNKNOWN {
            return None;
        }
        let mut route = Route { cost, ..Route::default() };
        let mut at = state;
        while let (before, Some(edge)) = self.before[at] {
            route.links.push(edge.link);
            route.circuits.extend(edge.circuit);
            at = before as usize;
        }
        route.links.reverse();
        route.circuits.reverse();
        Some(route)
    }
}

/// A hash of three numbers (the finalizer of `SplitMix64`).
fn mix(a: u32, b: u32, c: u32) -> u64 {
    let mut x = (u64::from(a) << 42) ^ (u64::from(b) << 21) ^ u64::from(c);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn edges(racks: u32, circuits: &[(u32, u32)], cables: &[(u32, u32)]) -> Vec<Vec<Edge>> {
        let mut edges = vec![Vec::new(); racks as usize];
        for (circuit, &(from, to)) in (0..).zip(circuits) {
            let link = LinkId(circuit);
            edges[from as usize].push(Edge { to, link, circuit: Some(circuit) });
        }
        for (number, &(from, to)) in (100..).zip(cables) {
            edges[from as usize].push(Edge { to, link: LinkId(number), circuit: None });
        }
        edges
    }

    #[test]
    fn circuits_come_first_and_two_of_them_before_an_electrical_link() {
        let edges = edges(4, &[(0, 1), (1, 2), (0, 2)], &[(0, 2), (2, 3)]);
        let route = |most, dark: &[u32], to| {
            let tree = Tree::new(0, &edges, Some(most), |circuit| !dark.contains(&circuit));
            tree.route(to).map(|route| route.links.iter().map(|link| link.0).collect::<Vec<_>>())
        };
        assert_eq!(route(2, &[], 2), Some(vec![2]));
        assert_eq!(route(2, &[2], 2), Some(vec![0, 1]));
        assert_eq!(route(1, &[2], 2), Some(vec![100]));
        assert_eq!(route(2, &[2, 1], 3), Some(vec![100, 101]));
        assert_eq!(route(2, &[0], 1), None);
        let tree = Tree::new(0, &edges, Some(2), |_| true);
        assert_eq!(tree.electrical(3).unwrap().links, [LinkId(100), LinkId(101)]);
        assert_eq!(tree.electrical(1), None);
    }

    proptest! {
        /// No path has a rack twice, uses an unknown circuit or more of them than it may; none is
        /// left out that a search of all walks finds.
        #[test]
        fn paths_have_no_loop_and_are_shortest(
            circuits in prop::collection::vec((0..6_u32, 0..6_u32), 0..14),
            cables in prop::collection::vec((0..6_u32, 0..6_u32), 0..6),
            dark in prop::collection::vec(0..14_u32, 0..4),
            most in 0..4_u32,
        ) {
            let apart = |pairs: Vec<(u32, u32)>| -> Vec<(u32, u32)> {
                pairs.into_iter().filter(|(a, b)| a != b).collect()
            };
            let (circuits, cables) = (apart(circuits), apart(cables));
            let edges = edges(6, &circuits, &cables);
            let is_known = |circuit| !dark.contains(&circuit);
            let ends = |link: LinkId| match link.0 {
                cable @ 100.. => cables[cable as usize - 100],
                circuit => circuits[circuit as usize],
            };
            // Costs by Bellman and Ford over (rack, circuits used).
            let mut costs = [[UNKNOWN; 5]; 6];
            costs[0][0] = 0;
            for _ in 0..36 {
                let layers = 0..=most as usize;
                for (rack, used) in (0..6).flat_map(|rack| layers.clone().map(move |u| (rack, u))) {
                    let cost = costs[rack][used];
                    for edge in edges[rack].iter().filter(|_| cost != UNKNOWN) {
                        let (next, more) = match edge.circuit {
                            None => (used, ELECTRICAL),
                            Some(one) if is_known(one) && used < most as usize => {
                                (used + 1, CIRCUIT)
                            }
                            Some(_) => continue,
                        };
                        let known = &mut costs[edge.to as usize][next];
                        *known = (*known).min(cost + more);
                    }
                }
            }
            let tree = Tree::new(0, &edges, Some(most), is_known);
            for to in 1..6_u32 {
                let expected = costs[to as usize].into_iter().min().unwrap();
                let Some(route) = tree.route(to) else {
                    prop_assert_eq!(expected, UNKNOWN);
                    continue;
                };
                prop_assert_eq!(route.cost, expected);
                prop_assert!(route.circuits.len() <= most as usize);
                prop_assert!(route.circuits.iter().all(|&circuit| is_known(circuit)));
                let mut at = 0;
                let mut seen = vec![0];
                for &link in &route.links {
                    let (from, next) = ends(link);
                    prop_assert_eq!(from, at);
                    prop_assert!(!seen.contains(&next), "a loop over rack {}", next);
                    seen.push(next);
                    at = next;
                }
                prop_assert_eq!(at, to);
            }
        }
    }
}
