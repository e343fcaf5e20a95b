//! The orders of a ring collective over fixed circuits, and how much goes around in each.
//!
//! Fixed circuits are duplex, so a ring of three or more goes both ways, half each: as two rings,
//! of which one is the reverse of the other. Where the topology has several cycles of the ring's
//! servers, the buffer is divided among all of them, as TopoOpt does (Wang et al., NSDI 2023,
//! section 4), in proportion to what the narrowest hop of each can carry: the ring of a cycle is
//! done when its slowest hop is.
//!
//! A ring may go around in any order of its members, as its collectives are commutative. Workers of
//! one server follow each other, so a cycle crosses circuits once per server.

use crate::network::{Pair, RingOrder, weighted_shares};
use lightloom_model::{Invalid, ServerId};
use rustc_hash::FxHashMap;

/// Resolution of capacities that are no whole number of circuits.
const FINE: u64 = 1 << 16;

/// A ring through servers that all-reduce among each other, each hop over circuits of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cycle {
    /// Its servers in ring order, each once; the last one is joined to the first.
    pub servers: Vec<u32>,
    /// Parallel duplex circuits of each hop.
    pub count: u32,
}

impl Cycle {
    /// Each server and the next one.
    pub fn hops(&self) -> impl Iterator<Item = Pair<u32>> {
        let next = self.servers.iter().cycle().skip(1);
        self.servers.iter().copied().zip(next.copied()).map(|(from, to)| Pair::new(from, to))
    }

    /// Checks that it is a ring of some of so many servers.
    ///
    /// # Errors
    /// Says what it is not.
    pub(super) fn validate(&self, servers: u32) -> Result<(), Invalid> {
        let mut sorted = self.servers.clone();
        sorted.sort_unstable();
        let twice = sorted.windows(2).any(|pair| pair[0] == pair[1]);
        if sorted.len() < 2 || twice || sorted.iter().any(|&server| server >= servers) {
            return Err(Invalid(format!("cycle {:?} is no ring of servers", self.servers)));
        }
        if self.count == 0 {
            return Err(Invalid(format!("cycle {:?} has no circuits", self.servers)));
        }
        Ok(())
    }
}

/// The cycles of a topology.
#[derive(Debug)]
pub(super) struct Cycles {
    cycles: Vec<Cycle>,
    /// Cycles by their servers, sorted.
    by_servers: FxHashMap<Vec<u32>, Vec<u32>>,
}

impl Cycles {
    pub(super) fn new(cycles: &[Cycle]) -> Self {
        let mut by_servers: FxHashMap<Vec<u32>, Vec<u32>> = FxHashMap::default();
        for (index, cycle) in (0..).zip(cycles) {
            let mut servers = cycle.servers.clone();
            servers.sort_unstable();
            by_servers.entry(servers).or_default().push(index);
        }
        Self { cycles: cycles.to_vec(), by_servers }
    }

    /// Divides what crosses each edge of a ring of members on these servers among its orders;
    /// `capacity` is what a hop can carry, in units of so much per circuit.
    pub(super) fn ring_orders(
        &self,
        members: &[ServerId],
        bytes: u64,
        capacity: impl Fn(Pair<u32>, u64) -> u64,
    ) -> Vec<RingOrder> {
        let mut by_server: FxHashMap<u32, Vec<u32>> = FxHashMap::default();
        for (member, server) in (0..).zip(members) {
            by_server.entry(server.0).or_default().push(member);
        }
        let mut servers: Vec<u32> = by_server.keys().copied().collect();
        servers.sort_unstable();
        let Some(cycles) = self.by_servers.get(&servers) else {
            return both_directions((0..members.len() as u32).collect(), bytes, false).collect();
        };
        let capacities = self.capacities(cycles, capacity);
        cycles
            .iter()
            .zip(weighted_shares(bytes, capacities.iter().copied()))
            .flat_map(|(&cycle, share)| {
                let servers = &self.cycles[cycle as usize].servers;
                let order = servers.iter().flat_map(|server| by_server[server].iter().copied());
                both_directions(order.collect(), share, true)
            })
            .collect()
    }

    /// What the narrowest hop of each cycle carries. Cycles that share a hop share its circuits by
    /// their own numbers of circuits.
    fn capacities(&self, cycles: &[u32], capacity: impl Fn(Pair<u32>, u64) -> u64) -> Vec<u64> {
        let mut wanted: FxHashMap<(u32, u32), u64> = FxHashMap::default();
        for &cycle in cycles {
            let cycle = &self.cycles[cycle as usize];
            for Pair { from, to } in cycle.hops() {
                *wanted.entry((from.min(to), from.max(to))).or_default() += u64::from(cycle.count);
            }
        }
        let of_hop = |hop: Pair<u32>, count: u32| {
            let wanted = wanted[&(hop.from.min(hop.to), hop.from.max(hop.to))];
            capacity(hop, FINE) * u64::from(count) / wanted
        };
        cycles
            .iter()
            .map(|&cycle| {
                let cycle = &self.cycles[cycle as usize];
                let narrowest = cycle.hops().map(|hop| of_hop(hop, cycle.count)).min();
                narrowest.unwrap_or(0).max(1)
            })
            .collect()
    }
}

/// An order and its reverse, half each; two members use both directions already.
fn both_directions(
    order: Vec<u32>,
    bytes: u64,
    has_own_circuits: bool,
) -> impl Iterator<Item = RingOrder> {
    let back = (order.len() > 2).then(|| {
        let order = order.iter().rev().copied().collect();
        RingOrder { order, bytes: bytes / 2, has_own_circuits }
    });
    let forward = bytes - back.as_ref().map_or(0, |back| back.bytes);
    std::iter::once(RingOrder { order, bytes: forward, has_own_circuits }).chain(back)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn servers(list: &[u32]) -> Vec<ServerId> {
        list.iter().map(|&server| ServerId(server)).collect()
    }

    /// Every hop has circuits enough for what its cycles want of it.
    fn plenty(_: Pair<u32>, fine: u64) -> u64 {
        fine
    }

    fn cycles(lists: &[(&[u32], u32)]) -> Cycles {
        let all: Vec<Cycle> = lists
            .iter()
            .map(|&(servers, count)| Cycle { servers: servers.to_vec(), count })
            .collect();
        Cycles::new(&all)
    }

    #[test]
    fn a_ring_without_a_cycle_goes_both_directions_in_its_own_order() {
        let orders = cycles(&[]).ring_orders(&servers(&[4, 7, 9]), 101, plenty);
        let order = |order: &[u32], bytes| RingOrder {
            order: order.to_vec(),
            bytes,
            has_own_circuits: false,
        };
        assert_eq!(orders, [order(&[0, 1, 2], 51), order(&[2, 1, 0], 50)]);
        let two = cycles(&[]).ring_orders(&servers(&[4, 7]), 101, plenty);
        assert_eq!(two, [order(&[0, 1], 101)]);
    }

    #[test]
    fn cycles_share_a_ring_by_their_circuits() {
        // Strides 1 and 2 of five servers share no hop: three circuits and one.
        let both = cycles(&[(&[0, 1, 2, 3, 4], 3), (&[0, 2, 4, 1, 3], 1)]);
        let capacity = |Pair { from: a, to: b }: Pair<u32>, fine: u64| {
            let stride = a.abs_diff(b).min(5 - a.abs_diff(b));
            if stride == 1 { 3 * fine } else { fine }
        };
        let orders = both.ring_orders(&servers(&[0, 1, 2, 3, 4]), 8000, capacity);
        let bytes: Vec<u64> = orders.iter().map(|order| order.bytes).collect();
        assert_eq!(bytes, [3000, 3000, 1000, 1000]);
        assert_eq!(orders[2].order, [0, 2, 4, 1, 3]);
        assert_eq!(orders[3].order, [3, 1, 4, 2, 0]);
        assert!(orders.iter().all(|order| order.has_own_circuits));
    }

    #[test]
    fn members_of_one_server_follow_each_other() {
        let one = cycles(&[(&[5, 3, 8], 1)]);
        let orders = one.ring_orders(&servers(&[3, 5, 3, 8]), 10, plenty);
        assert_eq!(orders[0].order, [1, 0, 2, 3]);
    }

    proptest! {
        /// Whatever the cycles: every order visits all members, those of a server one after the
        /// other, and all orders together carry all bytes, as much forward as back.
        #[test]
        fn orders_visit_all_members_and_carry_all_bytes(
            size in 3_u32..9,
            members in prop::collection::vec(0_u32..9, 9),
            counts in prop::collection::vec(1_u32..5, 1..4),
            bytes in 0_u64..1_000_000_000,
        ) {
            // All of the servers have a member, some of them more.
            let placed: Vec<u32> =
                (0..size).chain(members.iter().map(|server| server % size)).collect();
            // Cycles of different rotations and reversals of the same servers.
            let rings: Vec<Vec<u32>> = (0..counts.len() as u32)
                .map(|shift| (0..size).map(|place| (place * (size - 1) + shift) % size).collect())
                .collect();
            let all: Vec<(&[u32], u32)> =
                rings.iter().map(Vec::as_slice).zip(counts.iter().copied()).collect();
            let orders = cycles(&all).ring_orders(&servers(&placed), bytes, plenty);
            prop_assert_eq!(orders.len(), 2 * counts.len());
            prop_assert_eq!(orders.iter().map(|order| order.bytes).sum::<u64>(), bytes);
            for pair in orders.chunks(2) {
                prop_assert!(pair[0].bytes - pair[1].bytes <= 1);
                let back: Vec<u32> = pair[1].order.iter().rev().copied().collect();
                prop_assert_eq!(&pair[0].order, &back);
            }
            for RingOrder { order, .. } in &orders {
                let mut sorted = order.clone();
                sorted.sort_unstable();
                prop_assert_eq!(sorted, (0..placed.len() as u32).collect::<Vec<u32>>());
                let mut visited: Vec<u32> =
                    order.iter().map(|&member| placed[member as usize]).collect();
                visited.dedup();
                prop_assert_eq!(visited.len(), size as usize);
            }
        }
    }
}
