//! How packets are sent.

use lightloom_model::units::PS_PER_S;
use lightloom_model::{Duration, Rate};
use lightloom_packetsim::{Config, PacketError, TransportKind, profile};

/// Packets of a window for the queues on the path.
const QUEUED: u32 = 16;

/// What packet transports are configured for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Of the fastest single link.
    pub rate: Rate,
    /// Of the longest path: propagation and forwarding one way.
    pub delay: Duration,
}

/// How often what happens several times alike is simulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Repeats {
    /// Flows that may meet have a network of their own, which is simulated once for all that
    /// happen alike (see [`lightloom_packetsim::Scenes`]), and without long steady states.
    #[default]
    Once,
    /// As `Once`, each time it happens, and with steady states: where none is skipped, the same.
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
    /// The transport of this name, as its reference configures it for NICs of a network of this
    /// [extent](crate::Network::extent), with two exceptions: the last packet of a transfer is no
    /// longer than what is left to send, and windows that never grow are no smaller than what the
    /// longest path of the network holds.
    ///
    /// # Errors
    /// If there is none of this name; says which there are.
    pub fn new(name: &str, extent: Extent) -> Result<Self, PacketError> {
        let Extent { rate, delay } = extent;
        let (config, mut transport) = profile(name, rate)?;
        let bits = u128::from(rate.0) * u128::from(2 * delay.0);
        let packet = u128::from(PS_PER_S) * 8 * u128::from(config.mtu);
        let window = u32::try_from(bits / packet).unwrap_or(u32::MAX).saturating_add(QUEUED);
        transport.hold(window);
        let config = Config { full_tail: false, ..config };
        Ok(Self { transport, config, repeats: Repeats::default() })
    }
}
