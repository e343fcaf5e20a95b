//! A network with any transport, for those who need not know which.

use crate::core::Core;
use crate::engine::Simulation;
use crate::error::PacketError;
use crate::flow::{FlowId, FlowSpec};
use crate::scenario::Tracing;
use crate::topology::LinkId;
use crate::transport::Transport;
use lightloom_kernel::Observer;
use lightloom_model::Time;

/// What [`Simulation`] does, whatever its transport; see there.
pub trait Network {
    /// See [`Simulation::add_flow`].
    ///
    /// # Errors
    /// As there.
    fn add_flow(&mut self, spec: &FlowSpec) -> Result<FlowId, PacketError>;

    /// See [`Simulation::set_dark`].
    fn set_dark(&mut self, time: Time, link: LinkId, dark: bool);

    /// See [`Simulation::finish_on_arrival`].
    fn finish_on_arrival(&mut self);

    /// See [`Simulation::advance`].
    ///
    /// # Errors
    /// As there.
    fn advance(
        &mut self,
        limit: Time,
        finished: &mut Vec<FlowId>,
        observer: &mut dyn Observer,
    ) -> Result<bool, PacketError>;

    /// See [`Simulation::set_tracing`].
    fn set_tracing(&mut self, tracing: Tracing);

    /// See [`Simulation::settle_all`].
    fn settle_all(&mut self);

    /// The state of the network.
    fn core(&self) -> &Core;
}

impl<T: Transport> Network for Simulation<T> {
    fn add_flow(&mut self, spec: &FlowSpec) -> Result<FlowId, PacketError> {
        self.add_flow(spec)
    }

    fn set_dark(&mut self, time: Time, link: LinkId, dark: bool) {
        self.set_dark(time, link, dark);
    }

    fn finish_on_arrival(&mut self) {
        self.finish_on_arrival();
    }

    fn advance(
        &mut self,
        limit: Time,
        finished: &mut Vec<FlowId>,
        observer: &mut dyn Observer,
    ) -> Result<bool, PacketError> {
        self.advance(limit, finished, observer)
    }

    fn set_tracing(&mut self, tracing: Tracing) {
        self.set_tracing(tracing);
    }

    fn settle_all(&mut self) {
        self.settle_all();
    }

    fn core(&self) -> &Core {
        self.core()
    }
}
