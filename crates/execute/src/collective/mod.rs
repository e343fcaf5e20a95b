//! How collectives other than all-to-alls become transfers: around a ring of their members, one
//! file per way of going around.

mod chain;
mod circulation;
mod ring;

pub(crate) use circulation::Circulation;
use lightloom_model::{Collective, CollectiveKind, GroupFamily, GroupId, Payload};
pub use ring::{ring_edge_bytes, ring_steps};

impl Circulation {
    /// In a group of a family, of whose members some are absent for each that is there: only the
    /// edges that leave the others are counted. Two members or more; a ring passes each GPU of a
    /// member and its peers inside.
    pub(crate) fn new(collective: &Collective, family: &GroupFamily, group: GroupId) -> Self {
        let present = family.members(group).len();
        let members = present * (1 + family.absent as usize);
        let bytes = match collective.payload {
            Payload::Bytes(bytes) => bytes,
            Payload::Block { .. } => unreachable!("only all-to-alls move blocks"),
        };
        let all = match collective.kind {
            CollectiveKind::Broadcast => chain::broadcast(bytes, members),
            kind => ring::around(kind, bytes, members, 1 + collective.inside.peers as usize),
        };
        Self { edges: all.edges.min(present as u64), ..all }
    }
}
