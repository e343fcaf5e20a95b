//! How packets are sent.

use lightloom_model::{Duration, Time};
pub use lightloom_packetsim::Extent;
use lightloom_packetsim::{Config, PacketError, TransportKind, fitted};

/// How often what happens several times alike is simulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Repeats {
    /// Flows that may meet have a network of their own, which is simulated once for all that
    /// happen alike (see [`lightloom_packetsim::Scenes`]).
    #[default]
    Once,
    /// The same, each time it happens.
    Each,
    /// All flows are in one network.
    InOneNetwork,
}

/// Transport, sizes, queues, paths.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PacketTransport {
    /// Who may send what when.
    pub transport: TransportKind,
    /// Sizes, queues, paths, seed.
    pub config: Config,
    /// What these hold a round trip of.
    pub extent: Extent,
    /// What is simulated of what repeats.
    pub repeats: Repeats,
    /// A plane over which NICs spray packets that fails during the run; then all flows are in one
    /// network.
    pub plane_failure: Option<PlaneFailure>,
}

/// A plane that fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlaneFailure {
    /// Which.
    pub plane: u32,
    /// When, from the start of the step.
    pub time: Time,
    /// When it works again, if it does.
    pub repaired: Option<Time>,
    /// Time until all switches know of either.
    pub detection: Duration,
}

impl PacketTransport {
    /// The transport of this name, with windows, queues and thresholds that hold a round trip of a
    /// network of this [extent](crate::Network::extent).
    ///
    /// # Errors
    /// If there is none of this name; says which there are.
    pub fn new(name: &str, extent: Extent) -> Result<Self, PacketError> {
        let (config, transport) = fitted(name, extent)?;
        Ok(Self { transport, config, extent, repeats: Repeats::default(), plane_failure: None })
    }

    /// Whether NICs may spray packets over planes: the transport does not take overtaking for loss.
    pub fn sprays(&self) -> bool {
        self.transport.takes_any_order(&self.config)
    }
}
