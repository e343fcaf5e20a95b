//! How packets are sent.

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
    /// What is simulated of what repeats.
    pub repeats: Repeats,
}

impl PacketTransport {
    /// The transport of this name, with windows, queues and thresholds that hold a round trip of a
    /// network of this [extent](crate::Network::extent).
    ///
    /// # Errors
    /// If there is none of this name; says which there are.
    pub fn new(name: &str, extent: Extent) -> Result<Self, PacketError> {
        let (config, transport) = fitted(name, extent)?;
        Ok(Self { transport, config, repeats: Repeats::default() })
    }
}
