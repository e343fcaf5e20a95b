//! Packets as what carries bytes: the graph of a network, and its transfers as flows of packets.

mod batches;
mod flows;
mod graph;
mod launched;
mod network;
mod transport;

pub use graph::{Graph, Place};
pub(crate) use launched::LaunchedId;
pub(crate) use network::PacketNetwork;
pub use transport::{Extent, PacketTransport, PlaneFailure, Repeats};

use crate::error::{ExecuteError, network as unfit};
use lightloom_packetsim::PacketError;

impl From<PacketError> for ExecuteError {
    fn from(error: PacketError) -> Self {
        match error {
            PacketError::Interrupted(stopped) => Self::Interrupted(stopped),
            PacketError::Invalid(text) | PacketError::Stuck(text) => unfit(text),
        }
    }
}
