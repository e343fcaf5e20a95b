//! Flows as their users see them.

use crate::topology::{NicId, PacketLinkId};
use lightloom_model::{Bytes, Time};

/// A flow; indices count from 0 in the order in which flows were added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PacketFlowId(pub u32);

impl PacketFlowId {
    /// Its index, for arrays.
    #[inline]
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// A flow to simulate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowSpec {
    /// Sending NIC.
    pub source: NicId,
    /// Receiving NIC.
    pub destination: NicId,
    /// Payload.
    pub size: Bytes,
    /// Start time.
    pub start: Time,
    /// Its priority: ports send packets of higher ones first.
    pub priority: u8,
    /// Its class of traffic, see [`PacketScenario::classes`].
    ///
    /// [`PacketScenario::classes`]: crate::PacketScenario::classes
    pub class: u8,
    /// The links that it takes, instead of shortest paths by hash; acknowledgements take the
    /// reverse route.
    pub route: Option<Vec<PacketLinkId>>,
}

/// The NICs between which a flow runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Endpoints([NicId; 2]);

impl Endpoints {
    pub(crate) fn new(source: NicId, destination: NicId) -> Self {
        Self([source, destination])
    }

    /// The sending NIC.
    #[inline]
    pub fn source(self) -> NicId {
        self.0[0]
    }

    /// The receiving NIC.
    #[inline]
    pub fn destination(self) -> NicId {
        self.0[1]
    }

    /// The NIC to which a packet goes, forward from source to destination or back.
    #[inline]
    pub(crate) fn target(self, is_forward: bool) -> NicId {
        self.0[usize::from(is_forward)]
    }
}

/// Progress of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowProgress {
    /// Payload.
    pub size: Bytes,
    /// Number of packets.
    pub packets: u32,
    /// Packets that the receiver has, each counted once.
    pub received: u32,
    /// Start time.
    pub start: Time,
    /// When the receiver had all packets; [`FlowProgress::NEVER`] until then.
    pub received_at: Time,
    /// When the sender knew that; [`FlowProgress::NEVER`] until then.
    pub done_at: Time,
}

impl FlowProgress {
    /// A time that has not come yet.
    pub const NEVER: Time = Time(u64::MAX);

    /// Whether the sender knows that the receiver has all packets.
    #[inline]
    pub fn is_done(&self) -> bool {
        self.done_at != Self::NEVER
    }
}
