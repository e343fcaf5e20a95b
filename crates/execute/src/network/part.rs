//! How a part of a network carries bytes during a run.
//!
//! A [`NetworkPart`] finds paths over the links that its description added, divides bytes among
//! them, and says when its circuits change by the clock. Parts stand in an order, and each may rely
//! on those below it: circuits of regions leave pairs without circuits to the packet fabric below
//! them. The last part is asked first.

use super::lowering::{AllToAllDemand, Lowering};
use super::placement::Pair;
use crate::links::{Division, Flow, LinkUse, Links};
use lightloom_flowsim::LinkId;
use lightloom_model::{ServerId, Time};
use std::fmt;

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

    /// Takes a transfer over a path of its own into its care; false if it is to start as any other.
    /// What begins at an instant it sends when it is told to [`launch`](Self::launch), as flows of
    /// its own, with tokens that no owner has.
    fn conduct(&mut self, _now: Time, _flow: Flow, _path: &[LinkId], _links: &mut Links) -> bool {
        false
    }

    /// Everything of an instant has begun and ended.
    fn launch(&mut self, _now: Time, _links: &mut Links) {}

    /// A flow that it has started has ended: adds the tokens of the transfers that are whole with
    /// that.
    fn conducted(&mut self, _now: Time, _token: u64, _links: &mut Links, _done: &mut Vec<u64>) {}

    /// Whether it has transfers in its care.
    fn is_busy(&self) -> bool {
        false
    }

    /// When its links next change by the clock, not before `now`, and later if it has just followed
    /// the clock.
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
