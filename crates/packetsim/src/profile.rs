//! Transports by name, each with the parameters and the network of its reference.
//!
//! A transport is added in three places of this file: a variant of [`TransportKind`] with its
//! parameters, its profile, and a line of `TransportKind::network`.

use crate::config::{Config, Ecn, Marking, Overflow, Paths, Pfc};
use crate::core::Core;
use crate::engine::Simulation;
use crate::error::PacketError;
use crate::network::Network;
use crate::topology::Topology;
use crate::transport::dctcp::{Dctcp, DctcpParameters};
use crate::transport::line_rate::LineRate;
use lightloom_model::Duration;

/// A transport and its parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum TransportKind {
    /// Line rate over endless buffers, for closed forms.
    Ideal,
    /// RoCE with PFC and without congestion control.
    Roce,
    /// A window that follows the share of marked packets.
    Dctcp(DctcpParameters),
}

/// Names that [`profile`] knows.
pub const PROFILES: [&str; 3] = ["ideal", "roce", "dctcp"];

/// The transport of this name, with the network for which its reference configures it.
///
/// # Errors
/// If there is none of this name; says which there are.
pub fn profile(name: &str) -> Result<(Config, TransportKind), PacketError> {
    match name {
        "ideal" => Ok((ENDLESS, TransportKind::Ideal)),
        "roce" => Ok((ROCE, TransportKind::Roce)),
        "dctcp" => Ok((DCTCP, TransportKind::Dctcp(DctcpParameters::default()))),
        _ => Err(PacketError::invalid(format!(
            "there is no transport {name:?}; choose one of {}",
            PROFILES.join(", ")
        ))),
    }
}

/// Packets of 4,096 B and headers and control packets of 64 B; queues without end.
const ENDLESS: Config = Config {
    mtu: 4096,
    header: 64,
    full_tail: true,
    control_bytes: 64,
    control_priority: false,
    queue_bytes: u32::MAX,
    control_queue_bytes: u32::MAX,
    overflow: Overflow::Drop,
    ecn: None,
    pfc: None,
    paths: Paths::Ecmp,
    seed: 1,
};

/// `htsim_roce` of csg-htsim: pauses from 15 packets on, goes on below 12.
const ROCE: Config =
    Config { pfc: Some(Pfc { pause_bytes: 15 * 4096, resume_bytes: 12 * 4096 }), ..ENDLESS };

/// ffsim-opera, the simulator of TopoOpt and MixNet: full packets of 8,936 B, queues of 200 of them
/// that mark from the 51st on when a packet departs, acknowledgements that take no room.
const DCTCP: Config = Config {
    mtu: 8936,
    header: 0,
    control_bytes: 1,
    control_priority: true,
    queue_bytes: 200 * 8936,
    ecn: Some(Ecn {
        marking: Marking::Departure,
        min_bytes: 50 * 8936,
        max_bytes: 50 * 8936,
        probability: 1.0,
    }),
    ..ENDLESS
};

impl TransportKind {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ideal => "ideal",
            Self::Roce => "roce",
            Self::Dctcp(_) => "dctcp",
        }
    }

    /// An idle network with this transport.
    ///
    /// # Errors
    /// If the configuration makes no sense.
    pub fn network(
        self,
        topology: Topology,
        config: Config,
    ) -> Result<Box<dyn Network>, PacketError> {
        match self {
            Self::Ideal | Self::Roce => {
                Ok(Box::new(Simulation::new(topology, config, LineRate::new)?))
            }
            Self::Dctcp(parameters) => {
                parameters.validate()?;
                let dctcp = |core: &Core| Dctcp::new(core, parameters).expect("just validated");
                Ok(Box::new(Simulation::new(topology, config, dctcp)?))
            }
        }
    }

    /// The longest time for which a sender may be silent before it tries again.
    pub(crate) fn longest_timeout(self) -> Duration {
        match self {
            Self::Ideal | Self::Roce => Duration::ZERO,
            Self::Dctcp(parameters) => parameters.longest_timeout(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_a_profile_that_is_valid_and_bears_it() {
        for name in PROFILES {
            let (config, transport) = profile(name).unwrap();
            assert_eq!(transport.name(), name);
            assert_eq!(config.validate(), Ok(()));
        }
        let error = profile("tcp").unwrap_err().to_string();
        assert!(error.starts_with("there is no transport \"tcp\"; choose one of ideal, roce"));
    }
}
