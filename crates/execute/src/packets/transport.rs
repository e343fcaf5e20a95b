//! How packets are sent.

use lightloom_model::{Network, Rate};
use lightloom_packetsim::{Config, PacketError, TransportKind, profile};

/// Transport, sizes, queues, paths.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PacketOptions {
    /// Who may send what when.
    pub transport: TransportKind,
    /// Sizes, queues, paths, seed.
    pub config: Config,
}

impl PacketOptions {
    /// The transport of this name, as its reference configures it for NICs of the network, but that
    /// the last packet of a transfer is no longer than what is left to send.
    ///
    /// # Errors
    /// If there is none of this name; says which there are.
    pub fn new(name: &str, network: &Network) -> Result<Self, PacketError> {
        let rates = [
            network.eps.as_ref().map(|eps| eps.nic_rate),
            network.ocs.as_ref().map(|ocs| ocs.nic_rate),
            network.direct.as_ref().map(|direct| direct.link_rate),
        ];
        let rate = rates.into_iter().flatten().max().unwrap_or(Rate(1));
        let (config, transport) = profile(name, rate)?;
        Ok(Self { transport, config: Config { full_tail: false, ..config } })
    }
}
