//! The network of a job: its description, its parts, and what each of them is asked for.
//!
//! [`Network`] is a list of parts ([`PartConfig`]); for a job, each of them adds its [`Link`]s to
//! the [`Links`] of the run and becomes a [`NetworkPart`]. All of them together are
//! `crate::fabric`.

mod config;
mod delegates;
mod lowering;
mod part;
mod placement;

pub use crate::demand::Copies;
pub use crate::links::{
    CONDUCTED, Division, End, Flow, Launch, Link, Links, PartId, Path, PathId, Paths, Share,
    equal_shares, weighted_shares,
};
pub use crate::packets::{Graph, Place};
pub use config::{Network, PacketFabric, PartConfig, Setting};
pub(crate) use config::{common_divisor, positive};
pub(crate) use delegates::{DelegateHolds, delegate_share};
pub use lowering::{AllToAllDemand, Lowering, Transfer};
pub use part::{Below, NetworkPart, RingOrder};
pub use placement::{NicGroups, Pair, Placement};
