//! What a topology is for, and the cycles in it.

use lightloom_model::choices;
use serde::Deserialize;

/// Servers that all-reduce among each other.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RingGroup {
    /// Its servers in ring order, each once.
    pub members: Vec<u32>,
    /// Bytes that cross each edge of the ring, one way: 2 (n-1)/n of the buffer.
    pub edge_bytes: u64,
    /// When it runs: rings of one phase run at the same time, those of different phases do not.
    pub phase: u32,
}

choices! {
    /// The cycles of a ring group that gets several.
    pub enum Strides: "strides" {
        Geometric = "geometric":
            "As TopoOpt: in geometric progression, for an all-reduce divided among the cycles",
        One = "one": "All of stride 1: parallel circuits in ring order",
    }
}

/// What the topology is for.
#[derive(Debug, Clone, Copy)]
pub struct TopoRequest<'a> {
    /// Number of servers.
    pub servers: u32,
    /// Ports of each server.
    pub degree: u32,
    /// Ring all-reduces.
    pub rings: &'a [RingGroup],
    /// Which cycles these get.
    pub strides: Strides,
    /// All other traffic: source, destination, bytes. A pair may occur several times.
    pub demand: &'a [(u32, u32, u64)],
    /// The phase of each entry of the demand, or none if all are of one; rings have others.
    pub phases: &'a [u32],
    /// Maximum number of shortest paths per ordered pair.
    pub max_routes: u32,
}

/// A cycle that serves a ring group: member `i` is joined to member `i + stride`, by a circuit or,
/// where [`RoutedEdge`] says so, by routes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingCycle {
    /// Index of the group.
    pub group: u32,
    /// Distance, in members of the group; coprime to their number.
    pub stride: u32,
}

/// An edge of a cycle whose circuit was taken, so that its ring runs over other servers there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoutedEdge {
    /// Index of the cycle.
    pub cycle: u32,
    /// Servers, in the order of the cycle.
    pub edge: (u32, u32),
}

/// What tests ask for.
#[cfg(test)]
pub(super) mod examples {
    use super::{RingGroup, Strides, TopoRequest};

    /// Servers of four ports each, and up to four routes of a pair.
    pub(in super::super) fn request<'a>(
        servers: u32,
        rings: &'a [RingGroup],
        demand: &'a [(u32, u32, u64)],
        phases: &'a [u32],
    ) -> TopoRequest<'a> {
        let strides = Strides::Geometric;
        TopoRequest { servers, degree: 4, rings, strides, demand, phases, max_routes: 4 }
    }

    pub(in super::super) fn group(members: &[u32], edge_bytes: u64, phase: u32) -> RingGroup {
        RingGroup { members: members.to_vec(), edge_bytes, phase }
    }
}
