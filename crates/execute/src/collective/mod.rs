//! How collectives other than all-to-alls become transfers: around a ring of their members, one
//! file per way of going around.

mod chain;
mod ring;

use lightloom_model::{Collective, CollectiveKind, Payload};
pub use ring::{ring_edge_bytes, ring_steps};

/// How a collective goes around its members, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Circulation {
    /// Bytes over each edge.
    pub edge_bytes: u64,
    /// Edges from one member to the next: one per member, but for chains.
    pub edges: u64,
    /// Steps of the longest chain of messages, each over one edge.
    pub steps: u64,
}

impl Circulation {
    /// Of two members or more.
    pub(crate) fn new(collective: &Collective, members: usize) -> Self {
        let bytes = match collective.payload {
            Payload::Bytes(bytes) => bytes,
            Payload::Block { .. } => unreachable!("only all-to-alls move blocks"),
        };
        match collective.kind {
            CollectiveKind::Broadcast => chain::broadcast(bytes, members),
            kind => ring::around(kind, bytes, members),
        }
    }

    /// Whether the last member sends to the first.
    pub(crate) fn is_closed(&self, members: usize) -> bool {
        self.edges == members as u64
    }
}
