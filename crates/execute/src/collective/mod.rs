//! How collectives other than all-to-alls become transfers: around a ring of their members, one
//! file per way of going around.

mod chain;
mod circulation;
mod ring;

pub(crate) use circulation::Circulation;
use lightloom_model::{Collective, CollectiveKind, Payload};
pub use ring::{ring_edge_bytes, ring_steps};

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
}
