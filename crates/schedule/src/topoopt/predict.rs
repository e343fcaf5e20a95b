//! What a topology costs its job: the bytes that its busiest circuits carry, phase after phase.
//!
//! Phases of a job follow each other, and each lasts as long as its busiest circuit. So the
//! predicted time of a topology is the sum over phases of the bytes of its busiest circuit in
//! one direction. Routes share the bytes of a pair in proportion to the circuits of their
//! narrowest hops, and a ring is divided among its cycles in proportion to what the narrowest hop
//! of each can carry, as the network does that runs them.
//!
//! A change relieves one of several equally busy circuits at a time. So that this counts, a phase
//! costs a small part ([`EVENNESS`]) of the power mean of its loads, too.

use super::links::{Links, Neighbors};
use super::paths::{self, Routes};
use super::traffic::{Ring, Send, Traffic};

/// Weight of the power mean of a phase's loads next to the largest.
const EVENNESS: f64 = 0.1;

/// A topology with its routes and what they carry.
#[derive(Clone)]
pub(super) struct Plan {
    pub links: Links,
    pub routes: Routes,
    pub max_routes: u32,
    pub loads: Loads,
    /// Bytes of the busiest circuit of each phase.
    pub busiest: Vec<f64>,
    /// Sum over phases of the power means of their loads.
    pub unevenness: f64,
    /// What is to be least: busiest circuits, and how even the others are.
    pub cost: f64,
}

/// What each bundle carries.
#[derive(Clone)]
pub(super) struct Loads {
    pub neighbors: Neighbors,
    /// Circuits of each bundle, in each direction.
    pub counts: Vec<u32>,
    /// Bytes of each phase over each bundle, in each direction: `(phases, bundles)`.
    pub bytes: Vec<f64>,
    /// What pairs send in each phase, shares of rings included.
    pub sends: Vec<Send>,
    /// Where the routes of each pair begin, and the end of the last.
    pub routes_of: Vec<usize>,
    /// Circuits of the narrowest hop of each route.
    pub narrowest: Vec<u32>,
    /// Bundle of each hop; route `r` has as many before it as servers, less `r`.
    pub hops: Vec<usize>,
}

impl Plan {
    /// Routes all traffic over circuits that connect all who talk.
    pub(super) fn of(links: Links, traffic: &Traffic, max_routes: u32) -> Self {
        let neighbors = links.neighbors();
        let routes = paths::shortest(&neighbors, &traffic.pairs, max_routes);
        let mut loads = Loads::new(neighbors, links.counts(), &routes, traffic);
        loads.carry(&routes, traffic.phases);
        let ports = f64::from(links.ports());
        let bundles = loads.counts.len();
        let (mut busiest, mut unevenness) = (Vec::with_capacity(traffic.phases), 0.0);
        for phase in 0..traffic.phases {
            let (mut largest, mut powers) = (0.0_f64, 0.0);
            let bytes = &loads.bytes[phase * bundles..(phase + 1) * bundles];
            for (&bytes, &count) in bytes.iter().zip(&loads.counts) {
                let each = bytes / f64::from(count);
                largest = largest.max(each);
                powers += f64::from(count) * (each * each) * (each * each);
            }
            unevenness += (powers / ports).sqrt().sqrt();
            busiest.push(largest);
        }
        let cost = busiest.iter().sum::<f64>() + EVENNESS * unevenness;
        Self { links, routes, max_routes, loads, busiest, unevenness, cost }
    }

    /// Each send with its routes: their hops and their share of its bytes.
    pub(super) fn shares(
        &self,
    ) -> impl Iterator<Item = (&Send, impl Iterator<Item = (&[usize], f64)>)> {
        self.loads.sends.iter().map(|send| (send, self.loads.shares(&self.routes, send)))
    }
}

impl Loads {
    fn new(neighbors: Neighbors, counts: Vec<u32>, routes: &Routes, traffic: &Traffic) -> Self {
        let mut routes_of = Vec::with_capacity(traffic.pairs.len() + 1);
        let mut hops = Vec::with_capacity(routes.servers.len() - routes.len());
        let mut narrowest = Vec::with_capacity(routes.len());
        let mut previous = None;
        for (index, route) in routes.iter().enumerate() {
            let ends = (route[0], route[route.len() - 1]);
            if previous != Some(ends) {
                routes_of.push(index);
                previous = Some(ends);
            }
            let first = hops.len();
            hops.extend(route.windows(2).map(|hop| neighbors.index(hop[0], hop[1])));
            narrowest.push(hops[first..].iter().map(|&hop| counts[hop]).min().unwrap_or(0));
        }
        routes_of.push(routes.len());
        let mut loads = Self {
            neighbors,
            counts,
            bytes: Vec::new(),
            sends: traffic.sends.clone(),
            routes_of,
            narrowest,
            hops,
        };
        for ring in &traffic.rings {
            loads.divide(ring, routes);
        }
        loads
    }

    /// Divides a ring among its cycles, in both directions; two servers send each other everything.
    fn divide(&mut self, ring: &Ring, routes: &Routes) {
        let capacity = |pair: usize| -> f64 {
            let range = self.routes_of[pair]..self.routes_of[pair + 1];
            range
                .map(|route| {
                    let hops = routes.hops(route);
                    f64::from(self.narrowest[route]) / hops as f64
                })
                .sum()
        };
        let capacities: Vec<f64> = ring
            .cycles
            .iter()
            .map(|edges| {
                let each = edges.iter().map(|edge| {
                    capacity(edge.forth).min(capacity(edge.back)) / f64::from(edge.parallel)
                });
                each.fold(f64::INFINITY, f64::min)
            })
            .collect();
        let sum: f64 = capacities.iter().sum();
        for (edges, capacity) in ring.cycles.iter().zip(&capacities) {
            let directions = if edges.len() == 1 { 1.0 } else { 2.0 };
            let bytes = ring.bytes * capacity / sum / directions;
            let ends = edges.iter().flat_map(|edge| [edge.forth, edge.back]);
            self.sends.extend(ends.map(|pair| Send { pair, phase: ring.phase, bytes }));
        }
    }

    fn carry(&mut self, routes: &Routes, phases: usize) {
        let bundles = self.counts.len();
        let mut bytes = vec![0.0; phases * bundles];
        for send in &self.sends {
            for (hops, share) in self.shares(routes, send) {
                for &hop in hops {
                    bytes[send.phase * bundles + hop] += share;
                }
            }
        }
        self.bytes = bytes;
    }

    fn shares<'a>(
        &'a self,
        routes: &'a Routes,
        send: &'a Send,
    ) -> impl Iterator<Item = (&'a [usize], f64)> {
        let range = self.routes_of[send.pair]..self.routes_of[send.pair + 1];
        let sum: u32 = self.narrowest[range.clone()].iter().sum();
        range.map(move |route| {
            let start = routes.offsets[route] as usize - route;
            let hops = &self.hops[start..start + routes.hops(route)];
            (hops, send.bytes * f64::from(self.narrowest[route]) / f64::from(sum))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::request::examples::{group, request};
    use super::super::request::{RingCycle, TopoRequest};
    use super::*;

    fn plan(request: &TopoRequest, cycles: &[RingCycle], circuits: &[(u32, u32)]) -> Plan {
        let mut links = Links::new(request.servers, request.degree);
        for &(a, b) in circuits {
            links.add(a, b);
        }
        Plan::of(links, &Traffic::of(request, cycles), request.max_routes)
    }

    /// 8 bytes in one direction and 4 in the other over two circuits, then 6 over the same.
    #[test]
    fn phases_add_up_and_directions_do_not() {
        let demand = [(0, 1, 8), (1, 0, 4), (0, 1, 6)];
        let predicted = plan(&request(4, &[], &demand, &[0, 0, 1]), &[], &[(0, 1), (0, 1)]);
        assert_eq!(predicted.busiest, [4.0, 3.0]);
        let (one, two) = ((4_f64.powi(4) + 2_f64.powi(4)) / 8.0, 3_f64.powi(4) / 8.0);
        let cost = 7.0 + EVENNESS * (one.powf(0.25) + two.powf(0.25));
        assert!((predicted.cost - cost).abs() < 1e-12);
    }

    /// Around a square, two circuits wide on one side and one on the other: 20 and 10 bytes.
    #[test]
    fn routes_share_by_their_narrowest_hops() {
        let circuits = [(0, 1), (0, 1), (1, 2), (1, 2), (2, 3), (3, 0)];
        let predicted = plan(&request(4, &[], &[(0, 2, 30)], &[]), &[], &circuits);
        assert_eq!(predicted.busiest, [10.0]);
        let one = TopoRequest { max_routes: 1, ..request(4, &[], &[(0, 2, 30)], &[]) };
        let predicted = plan(&one, &[], &circuits);
        assert!([15.0, 30.0].contains(&predicted.busiest[0]), "{:?}", predicted.busiest);
    }

    /// 60 bytes over two cycles, in both directions: 15 in each; a hop whose circuit is gone
    /// takes half a circuit around.
    #[test]
    fn rings_are_divided_among_cycles_in_both_directions() {
        let ring = [group(&[0, 1, 2], 60, 0)];
        let twice = [RingCycle { group: 0, stride: 1 }; 2];
        let all = [(0, 1), (1, 2), (2, 0), (0, 1), (1, 2), (2, 0)];
        assert_eq!(plan(&request(4, &ring, &[], &[]), &twice, &all).busiest, [0.0, 15.0]);
        assert_eq!(plan(&request(4, &ring, &[], &[]), &twice[..1], &all[..3]).busiest, [0.0, 30.0]);
        assert_eq!(plan(&request(4, &ring, &[], &[]), &twice[..1], &all[..2]).busiest, [0.0, 60.0]);
    }

    #[test]
    fn two_servers_of_a_ring_send_each_other_everything() {
        let ring = [group(&[3, 1], 60, 0)];
        let cycle = [RingCycle { group: 0, stride: 1 }];
        assert_eq!(plan(&request(4, &ring, &[], &[]), &cycle, &[(1, 3)]).busiest, [0.0, 60.0]);
    }
}
