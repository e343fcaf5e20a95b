//! What a part of a network is: how it is described, and how it carries bytes during a run.
//!
//! A part is one file in `parts/`, with two faces. Its *description* ([`PartConfig`]) is plain data
//! that a fabric fills in; it checks itself and, given a job, adds its links. The result is a
//! [`NetworkPart`], which finds paths over these links, divides bytes among them, and says when its
//! circuits change by the clock. Nothing outside the file knows what kind of part it is.
//!
//! Parts stand in an order, and each may rely on those below it: circuits of regions leave pairs
//! without circuits to the packet fabric below them. The last part is asked first.

use super::config::Network;
use super::links::Links;
use super::paths::{Division, PartId};
use super::placement::Placement;
use crate::error::ExecuteError;
use crate::lower::{AllToAllDemand, Lowering};
use crate::outcome::LinkUse;
use crate::packets::{Graph, Place};
use lightloom_model::{Duration, Invalid, Ocs, Rate, ServerId, Time};
use lightloom_packetsim::PacketError;
use std::fmt;
use std::sync::Arc;

/// The description of a part of a network.
pub trait PartConfig: fmt::Debug + Send + Sync {
    /// Its name in results: what a ledger counts its bytes under.
    fn name(&self) -> &'static str;

    /// Checks the description, given the parts below it.
    ///
    /// # Errors
    /// Names the first field that is wrong.
    fn validate(&self, network: &Network, below: &[Arc<dyn PartConfig>]) -> Result<(), Invalid>;

    /// The fastest single link, and the longest propagation and forwarding one way: what packet
    /// transports are configured for. `below` is the longest of the parts below.
    fn extent(&self, network: &Network, below: Duration) -> (Rate, Duration);

    /// The packet fabric, where the part is one.
    fn packet_fabric(&self) -> Option<&dyn PacketFabric> {
        None
    }

    /// Whether it tells the NICs of a server apart, so that ranks can send over their own.
    fn tells_nics_apart(&self) -> bool {
        false
    }

    /// Whether its links change by the clock.
    fn follows_clock(&self) -> bool {
        false
    }

    /// The circuits whose changes are decided during the run, where the part is these.
    fn decided_circuits(&self) -> Option<&Ocs> {
        None
    }

    /// Adds its links and finds its paths for a job. Nothing for circuits that follow decisions:
    /// these the run holds itself (see `circuits`).
    ///
    /// # Errors
    /// If it cannot serve the job.
    fn build(
        &self,
        setting: &mut Setting<'_>,
    ) -> Result<Option<Box<dyn NetworkPart>>, ExecuteError>;
}

/// What a part of packet switches adds to a description.
pub trait PacketFabric {
    /// NICs of each server on it, and the rate of each.
    fn nics(&self) -> (u32, Rate);

    /// Where it has a server.
    fn place(&self, server: ServerId) -> Place;

    /// Links on the shortest path between NICs of two servers, of one group of NICs or of two.
    fn hops(&self, from: Place, to: Place, same_group: bool) -> u64;

    /// Adds its switches and NICs for servers at these places.
    ///
    /// # Errors
    /// If the graph would be too large.
    fn connect(
        &self,
        network: &Network,
        places: &[Place],
        graph: &mut Graph,
    ) -> Result<(), PacketError>;
}

/// What a part is built for.
pub struct Setting<'a> {
    /// The part.
    pub id: PartId,
    /// The network that it is of.
    pub network: &'a Network,
    /// Where workers are.
    pub placement: &'a Placement,
    /// Where its links go.
    pub links: &'a mut Links,
}

/// A group of NICs of a server, which bytes use evenly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NicGroups {
    /// Server.
    pub server: ServerId,
    /// First group.
    pub first: u16,
    /// How many.
    pub count: u16,
}

/// The ends of a transfer between two servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pair {
    /// Where bytes leave.
    pub from: NicGroups,
    /// Where they arrive.
    pub to: NicGroups,
}

impl Pair {
    /// The two servers.
    pub fn servers(&self) -> (ServerId, ServerId) {
        (self.from.server, self.to.server)
    }
}

/// An order in which a ring collective goes around.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RingOrder {
    /// Members of the ring, by their place in its group; each sends to the next, the last to the
    /// first.
    pub order: Vec<u32>,
    /// Bytes over each edge.
    pub bytes: u64,
    /// Whether edges have dedicated circuits.
    pub has_own_circuits: bool,
}

/// A part of a network during a run.
pub trait NetworkPart: fmt::Debug {
    /// Whether every server reaches every other one.
    fn joins_all(&self) -> bool {
        true
    }

    /// Whether one server reaches another.
    fn joins(&self, _from: ServerId, _to: ServerId) -> bool {
        true
    }

    /// Divides bytes of a pair of servers among paths.
    fn divide(&self, pair: &Pair, bytes: u64, below: Below<'_>, division: &mut Division);

    /// Divides the bytes of an edge of a ring that has circuits of its own.
    fn divide_edge(&self, pair: &Pair, bytes: u64, below: Below<'_>, division: &mut Division) {
        self.divide(pair, bytes, below, division);
    }

    /// Divides what crosses each edge of a ring of members on these servers among orders.
    fn ring_orders(&self, servers: &[ServerId], bytes: u64) -> Vec<RingOrder> {
        let order = (0..servers.len() as u32).collect();
        vec![RingOrder { order, bytes, has_own_circuits: false }]
    }

    /// Lowers an all-to-all between whole servers to transfers, by sender.
    fn lower_all_to_all(
        &mut self,
        all_to_all: &AllToAllDemand<'_>,
        below: Below<'_>,
        lowering: &mut Lowering,
    ) {
        lowering.divide_each(all_to_all, |pair, bytes, division| {
            self.divide(pair, bytes, below, division);
        });
    }

    /// When its links next change by the clock, later than `now`.
    fn next_change(&self, _now: Time) -> Option<Time> {
        None
    }

    /// Sets its links to what the clock has them be from `now` on.
    fn follow_clock(&mut self, _now: Time, _links: &mut Links) {}

    /// Use of each class of its links up to the end of a run.
    fn link_use(&mut self, end: Time, links: &Links) -> Vec<LinkUse>;
}

/// The parts below another.
#[derive(Debug, Clone, Copy)]
pub struct Below<'a>(&'a [Box<dyn NetworkPart>]);

impl<'a> Below<'a> {
    /// All of these parts, of which the last one is asked first.
    pub fn new(parts: &'a [Box<dyn NetworkPart>]) -> Self {
        Self(parts)
    }

    fn top(self) -> Option<(&'a dyn NetworkPart, Self)> {
        self.0.split_last().map(|(top, below)| (top.as_ref(), Self(below)))
    }

    /// Whether there is no part.
    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// As [`NetworkPart::divide`], by the parts below.
    pub fn divide(self, pair: &Pair, bytes: u64, division: &mut Division) {
        let (top, below) = self.top().expect("some part carries every transfer");
        top.divide(pair, bytes, below, division);
    }

    /// As [`NetworkPart::divide_edge`], by the parts below.
    pub fn divide_edge(self, pair: &Pair, bytes: u64, division: &mut Division) {
        let (top, below) = self.top().expect("some part carries every transfer");
        top.divide_edge(pair, bytes, below, division);
    }

    /// As [`NetworkPart::ring_orders`], by the parts below.
    pub fn ring_orders(self, servers: &[ServerId], bytes: u64) -> Vec<RingOrder> {
        let (top, _) = self.top().expect("some part carries every transfer");
        top.ring_orders(servers, bytes)
    }

    /// Whether every server reaches every other one over some part.
    pub fn joins_all(self) -> bool {
        self.0.iter().any(|part| part.joins_all())
    }

    /// Whether one server reaches another over some part.
    pub fn joins(self, from: ServerId, to: ServerId) -> bool {
        self.0.iter().any(|part| part.joins(from, to))
    }
}
