//! Networks with any transport.

use super::any::{AnySimulation, RepeatableSimulation};
use super::core::Core;
use super::engine::Simulation;
use super::halves::Halves;
use super::pair::Pair;
use crate::config::{Config, PathChoice};
use crate::error::PacketError;
use crate::topology::Topology;
use crate::transport::{Parameters, ParametersUser, Recovery, TransportKind};

impl TransportKind {
    /// Whether packets may overtake one another: it sprays them, or NICs tolerate that.
    pub fn takes_any_order(self, config: &Config) -> bool {
        config.paths != PathChoice::Ecmp
            || self.recovery().is_some_and(|recovery| recovery != Recovery::GoBackN)
    }

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

    /// As [`Self::simulation`], one that can be copied.
    ///
    /// # Errors
    /// If the configuration makes no sense.
    pub fn repeatable_simulation(
        self,
        topology: Topology,
        config: Config,
    ) -> Result<Box<dyn RepeatableSimulation>, PacketError> {
        self.hand_to(Whole(topology, config))
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

    /// A network in one piece or in two halves.
    pub(crate) fn build(
        self,
        topology: Topology,
        config: Config,
        halves: Option<Halves>,
    ) -> Result<Box<dyn AnySimulation>, PacketError> {
        self.hand_to(Parts { topology, config, halves })
    }
}

/// What a network is made of, but its transport.
struct Parts {
    topology: Topology,
    config: Config,
    halves: Option<Halves>,
}

/// The same, in one piece.
struct Whole(Topology, Config);

impl ParametersUser for Whole {
    type Result = Result<Box<dyn RepeatableSimulation>, PacketError>;

    fn take<P: Parameters>(self, parameters: P) -> Self::Result {
        let Self(topology, config) = self;
        parameters.validate()?;
        let config = Config { telemetry: P::TELEMETRY, ..config };
        let transport = |core: &Core| parameters.transport(core);
        Ok(Box::new(Simulation::new(topology, config, transport)?))
    }
}

impl ParametersUser for Parts {
    type Result = Result<Box<dyn AnySimulation>, PacketError>;

    fn take<P: Parameters>(self, parameters: P) -> Self::Result {
        let Self { topology, config, halves } = self;
        parameters.validate()?;
        let is_sprayed = !topology.spraying_nics().is_empty() && config.paths == PathChoice::Ecmp;
        if is_sprayed && parameters.recovery().is_none_or(|it| it == Recovery::GoBackN) {
            return Err(PacketError::invalid(
                "packets that are sprayed over planes overtake one another, which this transport \
                 takes for losses; choose one that tolerates that, such as ndp, or keep each flow \
                 on one plane",
            ));
        }
        let config = Config { telemetry: P::TELEMETRY, ..config };
        let transport = |core: &Core| parameters.transport(core);
        Ok(match halves {
            None => Box::new(Simulation::new(topology, config, transport)?),
            Some(halves) => Box::new(Pair::new(&topology, halves, config, transport)?),
        })
    }
}
