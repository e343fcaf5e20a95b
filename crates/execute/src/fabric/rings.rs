//! The ways of a ring collective: in which orders it goes around, and how much goes each way.
//!
//! On a packet fabric there is one way, the order of its scope. Fixed circuits are duplex, so there
//! a ring of three or more goes both ways, half each: as two rings, of which one is the reverse of
//! the other. Where the topology has several cycles of the ring's servers, the buffer is divided
//! among all of them, as TopoOpt does (Wang et al., NSDI 2023, section 4), in proportion to what
//! the narrowest hop of each can carry: the ring of a cycle is done when its slowest hop is.
//!
//! A ring may go around in any order of its members, as its collectives are commutative. Workers of
//! one server follow each other, so a cycle crosses circuits once per server.

use super::direct::DirectLinks;
use super::{Fabric, Piece, weighted_shares};
use crate::seats::Seats;
use lightloom_model::{Carrier, WorkerId};
use rustc_hash::FxHashMap;

/// Resolution of capacities that are no whole number of circuits.
const FINE: u64 = 1 << 16;

/// One order in which a ring goes around.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RingWay {
    /// Members; each sends to the next, the last to the first.
    pub order: Vec<WorkerId>,
    /// Bytes over each edge.
    pub bytes: u64,
    /// Whether edges are hops of a cycle, with circuits of their own.
    pub cycle: bool,
}

impl Fabric {
    /// Divides what crosses each edge of a ring among its ways.
    pub fn ring_ways(&self, seats: &Seats, members: &[WorkerId], bytes: u64) -> Vec<RingWay> {
        let Some(direct) = &self.direct else {
            return vec![RingWay { order: members.to_vec(), bytes, cycle: false }];
        };
        let mut by_server: FxHashMap<u32, Vec<WorkerId>> = FxHashMap::default();
        for &worker in members {
            by_server.entry(seats.server[worker.index()]).or_default().push(worker);
        }
        let mut servers: Vec<u32> = by_server.keys().copied().collect();
        servers.sort_unstable();
        let cycles = direct.cycles_of(&servers);
        if cycles.is_empty() {
            return both_ways(members.to_vec(), bytes, false).collect();
        }
        let capacities = capacities(direct, cycles);
        cycles
            .iter()
            .zip(weighted_shares(bytes, capacities.iter().copied()))
            .flat_map(|(&cycle, share)| {
                let servers = &direct.cycles[cycle as usize].servers;
                let order = servers.iter().flat_map(|server| by_server[server].iter().copied());
                both_ways(order.collect(), share, true)
            })
            .collect()
    }

    /// How an edge of a ring is carried: over the circuits of its own, if it has some, else as any
    /// transfer.
    pub fn ring_pieces(
        &self,
        seats: &Seats,
        ends: (WorkerId, WorkerId),
        way: &RingWay,
    ) -> Vec<Piece> {
        if let (true, Some(direct)) = (way.cycle, &self.direct) {
            let (from, to) = (seats.server[ends.0.index()], seats.server[ends.1.index()]);
            if let Some(route) = direct.own_route(from, to) {
                return vec![Piece { carrier: Carrier::Direct { route }, bytes: way.bytes }];
            }
        }
        self.pieces(seats, ends, way.bytes)
    }
}

/// An order and its reverse, half each; two members use both directions already.
fn both_ways(order: Vec<WorkerId>, bytes: u64, cycle: bool) -> impl Iterator<Item = RingWay> {
    let back = (order.len() > 2).then(|| {
        let order = order.iter().rev().copied().collect();
        RingWay { order, bytes: bytes / 2, cycle }
    });
    let ahead = bytes - back.as_ref().map_or(0, |back| back.bytes);
    std::iter::once(RingWay { order, bytes: ahead, cycle }).chain(back)
}

/// What the narrowest hop of each cycle carries. Cycles that share a hop share its circuits by
/// their own numbers of circuits; a hop without circuits has what its routes have, divided by the
/// circuits that these take.
fn capacities(direct: &DirectLinks, cycles: &[u32]) -> Vec<u64> {
    let mut wanted: FxHashMap<(u32, u32), u64> = FxHashMap::default();
    for &cycle in cycles {
        let cycle = &direct.cycles[cycle as usize];
        for (from, to) in cycle.hops() {
            *wanted.entry((from.min(to), from.max(to))).or_default() += u64::from(cycle.count);
        }
    }
    let of_hop = |(from, to): (u32, u32), count: u32| {
        let there: u64 = match direct.own_route(from, to) {
            Some(route) => FINE * u64::from(direct.route(route).circuits),
            None => direct
                .routes(from, to)
                .iter()
                .map(|&route| direct.route(route))
                .map(|route| FINE * u64::from(route.circuits) / u64::from(route.relays + 1))
                .sum(),
        };
        there * u64::from(count) / wanted[&(from.min(to), from.max(to))]
    };
    cycles
        .iter()
        .map(|&cycle| {
            let cycle = &direct.cycles[cycle as usize];
            let narrowest = cycle.hops().map(|hop| of_hop(hop, cycle.count)).min();
            narrowest.unwrap_or(0).max(1)
        })
        .collect()
}
