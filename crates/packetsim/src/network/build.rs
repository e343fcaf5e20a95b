//! Networks with any transport.

use super::any::{AnySimulation, RepeatableSimulation};
use super::core::Core;
use super::engine::Simulation;
use super::halves::Halves;
use super::pair::Pair;
use crate::config::{Config, PathChoice};
use crate::error::PacketError;
use crate::scenario::TrafficClass;
use crate::topology::Topology;
use crate::transport::{
    AnyTransport, Parameters, ParametersUser, Recovery, Several, TransportKind,
};

impl TransportKind {
    /// Whether packets may overtake one another: it sprays them, or NICs tolerate that.
    pub fn takes_any_order(self, config: &Config) -> bool {
        config.paths != PathChoice::Ecmp
            || self.recovery().is_some_and(|recovery| recovery != Recovery::GoBackN)
    }

    /// Whether receivers ask for packets, by one that goes back in addition to acknowledgments.
    pub fn is_pulled(self) -> bool {
        matches!(self, Self::Ndp(_) | Self::Eqds(_) | Self::Rccc(_))
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
        let config = Checked(&topology, config).take(parameters)?;
        let transport = |core: &Core| parameters.transport(core);
        Ok(match halves {
            None => Box::new(Simulation::new(topology, config, transport)?),
            Some(halves) => Box::new(Pair::new(&topology, halves, config, transport)?),
        })
    }
}

/// The configuration of a network with a transport, if both make sense.
struct Checked<'a>(&'a Topology, Config);

impl ParametersUser for Checked<'_> {
    type Result = Result<Config, PacketError>;

    fn take<P: Parameters>(self, parameters: P) -> Self::Result {
        let Self(topology, config) = self;
        parameters.validate()?;
        let is_sprayed = !topology.spraying_nics().is_empty() && config.paths == PathChoice::Ecmp;
        if is_sprayed && parameters.recovery().is_none_or(|it| it == Recovery::GoBackN) {
            return Err(PacketError::invalid(
                "packets that are sprayed over planes overtake one another, which this transport \
                 takes for losses; choose one that tolerates that, such as ndp, or keep each flow \
                 on one plane",
            ));
        }
        Ok(Config { telemetry: P::TELEMETRY, ..config })
    }
}

/// Makes a transport for a network.
struct Maker<'a>(&'a Core);

impl ParametersUser for Maker<'_> {
    type Result = AnyTransport;

    fn take<P: Parameters>(self, parameters: P) -> AnyTransport {
        Box::new(parameters.transport(self.0))
    }
}

/// An idle network with several transports; `priorities` are those of the flows of each class,
/// `None` for a class without flows.
///
/// # Errors
/// If a configuration makes no sense, or classes of one priority differ in their queues.
pub(crate) fn build_classes(
    topology: Topology,
    classes: &[TrafficClass],
    priorities: &[Option<u8>],
) -> Result<Box<dyn AnySimulation>, PacketError> {
    let checked = |it: &TrafficClass| it.transport.hand_to(Checked(&topology, it.config));
    let configs = classes.iter().map(checked).collect::<Result<Vec<Config>, _>>()?;
    let queues = (0..=configs[0].highest_priority)
        .map(|priority| queue_of(classes, priorities, priority))
        .collect::<Result<Vec<Config>, _>>()?;
    if configs[0].links_fail && !topology.spraying_nics().is_empty() {
        return Err(PacketError::invalid(
            "NICs that spray packets over planes and watch for failures have one transport; \
             expected one for all flows",
        ));
    }
    let mut core = Core::of_classes(topology, &configs, &queues)?;
    let mut make = |(class, it): (usize, &TrafficClass)| {
        core.set_class(class);
        it.transport.hand_to(Maker(&core))
    };
    let all = classes.iter().enumerate().map(&mut make).collect();
    let priorities: Vec<u8> = priorities.iter().map(|it| it.unwrap_or(0)).collect();
    let transport = Several::new(&core, all, &priorities);
    Ok(Box::new(Simulation { core, transport }))
}

/// The settings by which packets of a priority are queued: those of its classes.
fn queue_of(
    classes: &[TrafficClass],
    priorities: &[Option<u8>],
    priority: u8,
) -> Result<Config, PacketError> {
    let has = |(it, own): (_, &Option<u8>)| (*own == Some(priority)).then_some(it);
    let mut sharing = classes.iter().zip(priorities).filter_map(has);
    let first = sharing.next().unwrap_or(&classes[0]);
    for other in sharing {
        if let Some(what) = first.config.queue_difference(&other.config) {
            let [one, other] = [first, other].map(|it| it.transport.name());
            return Err(PacketError::invalid(format!(
                "{one} and {other} share the queues of priority {priority}, and differ in \
                 {what}; give them other priorities, or the same queues"
            )));
        }
    }
    Ok(first.config)
}
