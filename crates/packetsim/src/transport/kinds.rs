//! What every transport has: parameters with the network of its reference, and a name.

use super::{Transport, TransportKind, TransportName};
use crate::config::Config;
use crate::error::PacketError;
use crate::network::any::AnySimulation;
use crate::network::core::Core;
use crate::network::engine::Simulation;
use crate::network::halves::Halves;
use crate::network::pair::Pair;
use crate::topology::Topology;
use lightloom_model::{Duration, Invalid, Rate};
use serde::{Serialize, de::DeserializeOwned};

/// The parameters of a transport. Their serialized form is what users see: times in picoseconds
/// and rates in bits per second, as the ends of their names say.
pub(crate) trait Parameters: Copy + Serialize + DeserializeOwned {
    /// The transport that they are of.
    type Transport: Transport + Send + 'static;

    /// Whether switches write into its packets what they know of their links (INT).
    const TELEMETRY: bool = false;

    /// The network for which its reference configures it, and its parameters there. Thresholds and
    /// rates that grow with those of links are for NICs of `rate`.
    fn profile(rate: Rate) -> (Config, Self);

    /// Checks the values.
    ///
    /// # Errors
    /// Says which value is wrong and what was expected.
    fn validate(&self) -> Result<(), PacketError>;

    /// The longest time for which a sender may be silent before it tries again.
    fn longest_timeout(&self) -> Duration;

    /// Makes a window that never grows hold so many packets at least.
    fn hold(&mut self, packets: u32) {
        let _ = packets;
    }

    /// The transport for the NICs of a network.
    ///
    /// # Errors
    /// If the parameters make no sense.
    fn transport(self, core: &Core) -> Result<Self::Transport, PacketError>;
}

/// Defines [`TransportName`] and [`TransportKind`] from a table of all transports.
macro_rules! transports {
    ($($kind:ident($parameters:ty) = $name:literal: $description:literal,)+) => {
        lightloom_model::choices! {
            /// The transports that [`profile`] knows.
            pub enum TransportName: "transport" {
                $($kind = $name: $description,)+
            }
        }

        /// A transport and its parameters.
        #[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(tag = "name")]
        pub enum TransportKind {
            $(#[doc = $description] #[serde(rename = $name)] $kind($parameters),)+
        }

        impl TransportKind {
            /// Its name.
            pub fn name(self) -> TransportName {
                match self {
                    $(Self::$kind(_) => TransportName::$kind,)+
                }
            }

            fn profile(name: TransportName, rate: Rate) -> (Config, Self) {
                match name {
                    $(TransportName::$kind => {
                        let (config, parameters) = <$parameters>::profile(rate);
                        let telemetry = <$parameters>::TELEMETRY;
                        (Config { telemetry, ..config }, Self::$kind(parameters))
                    })+
                }
            }

            /// Makes a window that never grows hold so many packets at least.
            pub fn hold(&mut self, packets: u32) {
                match self {
                    $(Self::$kind(parameters) => parameters.hold(packets),)+
                }
            }

            /// The longest time for which a sender may be silent before it tries again.
            pub(crate) fn longest_timeout(self) -> Duration {
                match self {
                    $(Self::$kind(parameters) => parameters.longest_timeout(),)+
                }
            }

            /// A network in one piece or in two halves.
            pub(crate) fn build(
                self,
                topology: Topology,
                config: Config,
                halves: Option<Halves>,
            ) -> Result<Box<dyn AnySimulation>, PacketError> {
                match self {
                    $(Self::$kind(parameters) => {
                        kinds::build(parameters, topology, config, halves)
                    })+
                }
            }
        }
    };
}
pub(super) use transports;

/// The transport of this name, with the network for which its reference configures it, for NICs of
/// `rate`.
///
/// # Errors
/// If there is none of this name; says which there are.
pub fn profile(name: &str, rate: Rate) -> Result<(Config, TransportKind), PacketError> {
    let name: TransportName = name.parse().map_err(|Invalid(text)| PacketError::Invalid(text))?;
    Ok(TransportKind::profile(name, rate))
}

impl TransportKind {
    /// An idle network with this transport.
    ///
    /// # Errors
    /// If the configuration makes no sense.
    pub fn simulation(
        self,
        topology: Topology,
        config: Config,
    ) -> Result<Box<dyn AnySimulation>, PacketError> {
        self.build(topology, config, None)
    }

    /// As [`Self::simulation`], by two threads with the same results, for flows without explicit
    /// routes. What it records of packet events is not put together.
    ///
    /// # Errors
    /// If the network cannot be divided into two halves.
    pub fn simulation_in_halves(
        self,
        topology: Topology,
        config: Config,
    ) -> Result<Box<dyn AnySimulation>, PacketError> {
        let halves = Halves::of(&topology);
        let halves = halves.map_err(|why| PacketError::invalid(format!("no two halves: {why}")))?;
        self.build(topology, config, Some(halves))
    }
}

/// A network with a transport, in one piece or in two halves.
pub(super) fn build<P: Parameters>(
    parameters: P,
    topology: Topology,
    config: Config,
    halves: Option<Halves>,
) -> Result<Box<dyn AnySimulation>, PacketError> {
    parameters.validate()?;
    let config = Config { telemetry: P::TELEMETRY, ..config };
    let transport = |core: &Core| parameters.transport(core).expect("just validated");
    Ok(match halves {
        None => Box::new(Simulation::new(topology, config, transport)?),
        Some(halves) => Box::new(Pair::new(&topology, halves, config, transport)?),
    })
}
