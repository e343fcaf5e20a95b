//! The flows of packets of a network: all in one network, or each scene in its own.

use super::transport::{PacketTransport, Repeats};
use crate::error::ExecuteError;
use lightloom_kernel::Observer;
use lightloom_model::Time;
use lightloom_packetsim::{
    AnySimulation, Config, Core, Failure, FlowSpec, PacketError, PacketFlowId, PacketLinkId,
    SceneHops, Scenes, Topology,
};

/// What moves the packets of flows.
pub(super) enum PacketFlows {
    /// One network.
    One(Box<dyn AnySimulation>),
    /// A network for each of the scenes, which may be known.
    Scenes(Box<Scenes>),
}

impl PacketFlows {
    /// An idle network; one if flows are withdrawn from it.
    pub(super) fn new(
        topology: Topology,
        options: &PacketTransport,
        withdraws: bool,
    ) -> Result<Self, PacketError> {
        let PacketTransport { transport, config, repeats, plane_failure, .. } = *options;
        let is_one = withdraws || repeats == Repeats::InOneNetwork || plane_failure.is_some();
        if is_one {
            let config = Config { links_fail: plane_failure.is_some(), ..config };
            let mut simulation = transport.repeatable_simulation(topology, config)?;
            simulation.hash_by_ends();
            simulation.finish_on_arrival();
            return Ok(Self::One(simulation));
        }
        let scenes = Scenes::new(transport, topology, config, repeats == Repeats::Once)?;
        Ok(Self::Scenes(Box::new(scenes)))
    }

    /// Links will fail; in one network.
    pub(super) fn add_failure(&mut self, failure: &Failure) {
        match self {
            Self::One(simulation) => simulation.add_failure(failure),
            Self::Scenes(_) => unreachable!("flows are in one network where links fail"),
        }
    }

    /// The network, for its paths.
    pub(super) fn core(&self) -> &Core {
        match self {
            Self::One(simulation) => simulation.core(),
            Self::Scenes(scenes) => scenes.core(),
        }
    }

    pub(super) fn now(&self) -> Time {
        match self {
            Self::One(simulation) => simulation.core().now(),
            Self::Scenes(scenes) => scenes.now(),
        }
    }

    /// A link goes dark, or comes up, at a time when nothing is left to be done before.
    pub(super) fn set_dark(&mut self, now: Time, link: PacketLinkId, dark: bool) {
        match self {
            Self::One(simulation) => simulation.set_dark(now, link, dark),
            Self::Scenes(scenes) => scenes.set_dark(now, link, dark),
        }
    }

    /// A flow begins at its start.
    pub(super) fn add_flow(&mut self, flow: FlowSpec) -> Result<PacketFlowId, PacketError> {
        match self {
            Self::One(simulation) => simulation.add_flow(&flow),
            Self::Scenes(scenes) => Ok(scenes.add_flow(flow.start, flow)),
        }
    }

    /// As [`AnySimulation::advance`].
    pub(super) fn advance(
        &mut self,
        limit: Time,
        finished: &mut Vec<PacketFlowId>,
        observer: &mut dyn Observer,
    ) -> Result<bool, ExecuteError> {
        Ok(match self {
            Self::One(simulation) => simulation.advance(limit, finished, observer)?,
            Self::Scenes(scenes) => scenes.advance(limit, finished, observer)?,
        })
    }

    /// Packets that left a link, once for each.
    pub(super) fn hops(&mut self, observer: &mut dyn Observer) -> Result<SceneHops, ExecuteError> {
        Ok(match self {
            Self::One(simulation) => {
                let counters = simulation.core().counters();
                let all = counters.data_hops + counters.control_hops;
                SceneHops { all, simulated: all }
            }
            Self::Scenes(scenes) => scenes.hops(observer)?,
        })
    }
}
