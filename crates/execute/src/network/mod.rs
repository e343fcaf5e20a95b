//! The network of a job: its description, its parts and their links, and the paths of transfers.
//!
//! [`Network`] is a list of parts ([`PartConfig`]); for a job, each of them adds its [`Link`]s to
//! the [`Links`] of the run and becomes a [`NetworkPart`]. [`Fabric`] is all of them together.

mod config;
mod fabric;
mod link;
mod links;
mod part;
mod paths;
mod placement;
mod shares;

pub use crate::packets::{Graph, Place};
pub use config::Network;
pub(crate) use config::positive;
pub(crate) use fabric::Fabric;
pub use link::{End, Link};
pub use links::{Flow, Links};
pub use part::{Below, NetworkPart, NicGroups, PacketFabric, Pair, PartConfig, RingOrder, Setting};
pub use paths::{Division, PartId, Path, PathId, Paths, Share};
pub use placement::Placement;
pub use shares::{equal_shares, weighted_shares};
