//! Circuits for traffic that is not a ring: repeated matchings of heavy pairs.

use super::links::Links;
use super::request::RingGroup;
use super::rings;
use crate::matching::match_general;

/// Undirected pairs and what they still want; the larger direction counts, as circuits are duplex.
pub(super) struct PairDemand {
    /// Lower server, higher server, bytes.
    pub pairs: Vec<(u32, u32, f64)>,
}

impl PairDemand {
    pub(super) fn of_rest(demand: &[(u32, u32, u64)]) -> Self {
        let mut directed: Vec<(u32, u32, u64)> =
            demand.iter().filter(|d| d.0 != d.1 && d.2 > 0).copied().collect();
        directed.sort_unstable();
        let mut pairs: Vec<(u32, u32, f64)> = Vec::with_capacity(directed.len());
        for entries in directed.chunk_by(|x, y| (x.0, x.1) == (y.0, y.1)) {
            let (from, to, _) = entries[0];
            let bytes = entries.iter().map(|entry| entry.2 as f64).sum();
            pairs.push((from.min(to), from.max(to), bytes));
        }
        pairs.sort_unstable_by_key(|pair| (pair.0, pair.1));
        pairs.dedup_by(|next, kept| {
            let same = (next.0, next.1) == (kept.0, kept.1);
            kept.2 = if same { kept.2.max(next.2) } else { kept.2 };
            same
        });
        Self { pairs }
    }

    /// Adds the edges of one cycle of a ring.
    pub(super) fn add_ring(&mut self, group: &RingGroup, stride: u32) {
        if group.edge_bytes > 0 {
            let edges = rings::edges(&group.members, stride as usize);
            let bytes = group.edge_bytes as f64;
            self.pairs.extend(edges.map(|(a, b)| (a.min(b), a.max(b), bytes)));
        }
    }

    /// Counts demand per circuit that there is.
    pub(super) fn per_circuit(&mut self, links: &Links) {
        for (a, b, bytes) in &mut self.pairs {
            *bytes /= f64::from(links.count(*a, *b).max(1));
        }
    }

    /// Adds up entries of the same pair.
    pub(super) fn merge(&mut self) {
        self.pairs.sort_by_key(|pair| (pair.0, pair.1));
        self.pairs.dedup_by(|next, kept| {
            let same = (next.0, next.1) == (kept.0, kept.1);
            kept.2 += if same { next.2 } else { 0.0 };
            same
        });
    }
}

/// Maximum number of servers for which matchings are exact; they take (servers)^3 at worst.
const MAX_EXACT: usize = 256;

/// Largest weight of an exact matching: what bytes are scaled to.
const SCALE: f64 = (1_u64 << 40) as f64;

/// Matchings until no pair with demand has a free port at both ends; the demand of a joined pair
/// is halved after each, as `TopoOpt` does.
pub(super) fn serve(demand: &mut PairDemand, links: &mut Links) {
    let mut open: Vec<usize> = (0..demand.pairs.len()).collect();
    loop {
        open.retain(|&pair| links.has_room(demand.pairs[pair].0, demand.pairs[pair].1));
        if open.is_empty() {
            return;
        }
        let matched = if links.servers() <= MAX_EXACT {
            heaviest(demand, &open, links.servers())
        } else {
            greedy(demand, &mut open, links.servers())
        };
        for pair in matched {
            let (a, b, bytes) = demand.pairs[pair];
            links.add(a, b);
            demand.pairs[pair].2 = bytes / 2.0;
        }
    }
}

/// The heaviest matching of the open pairs.
fn heaviest(demand: &PairDemand, open: &[usize], servers: usize) -> Vec<usize> {
    let largest = open.iter().map(|&pair| demand.pairs[pair].2).fold(0.0, f64::max);
    let mut weights = vec![0_i64; servers * servers];
    for &pair in open {
        let (a, b, bytes) = demand.pairs[pair];
        // At least 1: a pair that wants something is joined rather than not.
        let weight = ((bytes / largest * SCALE) as i64).max(1);
        weights[a as usize * servers + b as usize] = weight;
        weights[b as usize * servers + a as usize] = weight;
    }
    let mate = match_general(servers, &weights).expect("a symmetric matrix").mate;
    let joined = |&pair: &usize| mate[demand.pairs[pair].0 as usize] == demand.pairs[pair].1;
    open.iter().copied().filter(joined).collect()
}

/// The heaviest pair first, then the heaviest of the rest: half of the optimum at worst.
fn greedy(demand: &PairDemand, open: &mut [usize], servers: usize) -> Vec<usize> {
    let weight = |pair: usize| demand.pairs[pair].2;
    open.sort_by(|&x, &y| weight(y).total_cmp(&weight(x)).then(x.cmp(&y)));
    let mut used = vec![false; servers];
    let mut matched = Vec::new();
    for &pair in open.iter() {
        let (a, b, _) = demand.pairs[pair];
        if !used[a as usize] && !used[b as usize] {
            used[a as usize] = true;
            used[b as usize] = true;
            matched.push(pair);
        }
    }
    matched
}

/// Joins servers that have ports left but nobody to talk to: they may still relay for others.
///
/// Each is joined to the one half-way round the list of such servers, which keeps paths short.
pub(super) fn join_leftovers(links: &mut Links) {
    loop {
        let open: Vec<u32> =
            (0..links.servers() as u32).filter(|&server| links.free(server) > 0).collect();
        if open.len() < 2 {
            return;
        }
        let half = open.len() / 2;
        for index in 0..half {
            links.add(open[index], open[index + half]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const CHAIN: [(u32, u32, u64); 3] = [(0, 1, 60), (1, 2, 100), (2, 3, 60)];

    #[test]
    fn two_pairs_outweigh_the_heaviest() {
        let demand = PairDemand::of_rest(&CHAIN);
        assert_eq!(heaviest(&demand, &[0, 1, 2], 4), [0, 2]);
        assert_eq!(greedy(&demand, &mut [0, 1, 2], 4), [1]);
    }

    #[test]
    fn demand_is_halved_after_each_matching() {
        let mut demand = PairDemand::of_rest(&CHAIN);
        let mut links = Links::new(4, 3);
        serve(&mut demand, &mut links);
        // 0-1 and 2-3, then 1-2 alone, then 0-1 and 2-3 again; 1 and 2 have no port left
        let bundles: Vec<(u32, u32, u32)> = links.circuits().map(|c| (c.a, c.b, c.count)).collect();
        assert_eq!(bundles, [(0, 1, 2), (1, 2, 1), (2, 3, 2)]);
        assert_eq!(demand.pairs, [(0, 1, 15.0), (1, 2, 50.0), (2, 3, 15.0)]);
    }

    /// 30 + 30 bytes in one direction and 50 in the other are 60, not 110.
    #[test]
    fn the_larger_direction_of_a_pair_counts() {
        let demand = [(3, 1, 30), (1, 3, 50), (3, 1, 30), (2, 2, 9), (0, 1, 0), (2, 0, 7)];
        assert_eq!(PairDemand::of_rest(&demand).pairs, [(0, 2, 7.0), (1, 3, 60.0)]);
    }

    /// The second cycle of five servers joins each to the one after the next.
    #[test]
    fn demand_and_edges_of_cycles_add_up() {
        let ring = RingGroup { members: vec![0, 1, 2, 3, 4], edge_bytes: 100, phase: 0 };
        let mut demand = PairDemand::of_rest(&[(2, 0, 7), (1, 0, 5)]);
        demand.add_ring(&ring, 2);
        demand.merge();
        let apart = [(0, 3), (1, 3), (1, 4), (2, 4)].map(|(a, b)| (a, b, 100.0));
        let mut expected = vec![(0, 1, 5.0), (0, 2, 107.0)];
        expected.extend(apart);
        assert_eq!(demand.pairs, expected);
    }

    /// The largest sum over all matchings of these pairs, from the definition.
    fn largest_sum(pairs: &[(u32, u32, f64)], used: u32) -> f64 {
        let Some((&(a, b, bytes), rest)) = pairs.split_first() else { return 0.0 };
        let without = largest_sum(rest, used);
        let ends = 1 << a | 1 << b;
        if used & ends > 0 { without } else { without.max(bytes + largest_sum(rest, used | ends)) }
    }

    proptest! {
        #[test]
        fn a_matching_is_heaviest_or_at_least_half_of_it(
            demand in prop::collection::vec((0..7_u32, 0..7_u32, 0..1_000_u64), 0..16),
        ) {
            let demand = PairDemand::of_rest(&demand);
            let mut open: Vec<usize> = (0..demand.pairs.len()).collect();
            prop_assume!(!open.is_empty());
            let sum = |matched: &[usize]| {
                let pairs = matched.iter().map(|&pair| &demand.pairs[pair]);
                let distinct: BTreeSet<u32> = pairs.flat_map(|pair| [pair.0, pair.1]).collect();
                assert_eq!(distinct.len(), 2 * matched.len(), "a server in two pairs");
                matched.iter().map(|&pair| demand.pairs[pair].2).sum::<f64>()
            };
            let largest = largest_sum(&demand.pairs, 0);
            let weight = sum(&heaviest(&demand, &open, 7));
            prop_assert!((weight - largest).abs() < 1e-6 * largest, "{weight} of {largest}");
            prop_assert!(2.0 * sum(&greedy(&demand, &mut open, 7)) >= largest);
        }
    }
}
