//! How packets are sent.

use crate::circuits::relays::relay_delay;
use lightloom_model::units::PS_PER_S;
use lightloom_model::{Network, Rate};
use lightloom_packetsim::{Config, PacketError, TransportKind, profile};

/// Packets of a window for the queues on the way.
const QUEUED: u32 = 16;

/// Transport, sizes, queues, paths.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PacketOptions {
    /// Who may send what when.
    pub transport: TransportKind,
    /// Sizes, queues, paths, seed.
    pub config: Config,
}

impl PacketOptions {
    /// The transport of this name, as its reference configures it for NICs of the network, with two
    /// exceptions: the last packet of a transfer is no longer than what is left to send, and
    /// windows that never grow are no smaller than what the longest path of the network holds.
    ///
    /// # Errors
    /// If there is none of this name; says which there are.
    pub fn new(name: &str, network: &Network) -> Result<Self, PacketError> {
        let rate = fastest(network);
        let (config, mut transport) = profile(name, rate)?;
        let bits = u128::from(rate.0) * u128::from(2 * longest(network));
        let packet = u128::from(PS_PER_S) * 8 * u128::from(config.mtu);
        let window = u32::try_from(bits / packet).unwrap_or(u32::MAX).saturating_add(QUEUED);
        match &mut transport {
            TransportKind::Ndp(parameters) => parameters.window = parameters.window.max(window),
            TransportKind::Eqds(parameters) => {
                parameters.window = parameters.window.max(window).min(1 << 14);
            }
            _ => {}
        }
        Ok(Self { transport, config: Config { full_tail: false, ..config } })
    }
}

fn fastest(network: &Network) -> Rate {
    let rates = [
        network.eps.as_ref().map(|eps| eps.nic_rate),
        network.ocs.as_ref().map(|ocs| ocs.nic_rate),
        network.direct.as_ref().map(|direct| direct.link_rate),
    ];
    rates.into_iter().flatten().max().unwrap_or(Rate(1))
}

/// The longest propagation one way, in ps.
fn longest(network: &Network) -> u64 {
    let eps = network.eps.as_ref().map_or(0, |eps| 6 * eps.link_delay.0);
    let regional = network.ocs.as_ref().map_or(0, |ocs| {
        let relayed = 2 * ocs.circuit_delay.0.max(eps) + relay_delay(network, ocs).0;
        if ocs.policy.relaying { relayed } else { ocs.circuit_delay.0 }
    });
    let direct = network.direct.as_ref().map_or(0, |direct| {
        let hops = direct.routes.iter().map(|route| route.servers.len() as u64 - 1);
        let hops = hops.max().unwrap_or(1);
        hops * direct.link_delay.0 + (hops - 1) * direct.relay_delay.0
    });
    eps.max(regional).max(direct)
}
