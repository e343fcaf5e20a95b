//! A simulation with any transport, for callers that need not know which.

use super::core::Core;
use super::engine::Simulation;
use super::halves::Balance;
use crate::counters::{Counters, LinkCounters};
use crate::error::PacketError;
use crate::events::EventLogging;
use crate::failure::Failure;
use crate::flow::{FlowSpec, PacketFlowId};
use crate::topology::PacketLinkId;
use crate::transport::Transport;
use lightloom_kernel::Observer;
use lightloom_model::Time;

/// A [`Simulation`] with any transport.
pub trait AnySimulation {
    /// See [`Simulation::add_flow`].
    ///
    /// # Errors
    /// As there.
    fn add_flow(&mut self, spec: &FlowSpec) -> Result<PacketFlowId, PacketError>;

    /// See [`Simulation::hold_flow`].
    ///
    /// # Errors
    /// As there.
    fn hold_flow(&mut self, spec: &FlowSpec) -> Result<PacketFlowId, PacketError>;

    /// See [`Simulation::start_flow`].
    fn start_flow(&mut self, flow: PacketFlowId);

    /// See [`Simulation::set_dark`].
    fn set_dark(&mut self, time: Time, link: PacketLinkId, dark: bool);

    /// See [`Simulation::add_failure`].
    fn add_failure(&mut self, failure: &Failure);

    /// See [`Simulation::hash_by_ends`].
    fn hash_by_ends(&mut self);

    /// See [`Simulation::finish_on_arrival`].
    fn finish_on_arrival(&mut self);

    /// See [`Simulation::finish_twice`].
    fn finish_twice(&mut self);

    /// See [`Simulation::advance`].
    ///
    /// # Errors
    /// As there.
    fn advance(
        &mut self,
        limit: Time,
        finished: &mut Vec<PacketFlowId>,
        observer: &mut dyn Observer,
    ) -> Result<bool, PacketError>;

    /// See [`Simulation::record_events`].
    fn record_events(&mut self, logging: EventLogging);

    /// See [`Simulation::settle_all`].
    fn settle_all(&mut self);

    /// The state of the network: all of its flows, and what is not about a link or a total.
    fn core(&self) -> &Core;

    /// The state in which the sending end of a link is.
    fn core_of(&self, _link: PacketLinkId) -> &Core {
        self.core()
    }

    /// Maximum number of bytes of data that a packet that came since the last call left waiting for
    /// a link.
    fn take_peak(&mut self, link: PacketLinkId) -> u32;

    /// See [`Core::link_counters`].
    fn link_counters(&self, link: PacketLinkId) -> LinkCounters {
        self.core().link_counters(link)
    }

    /// See [`Core::counters`].
    fn counters(&self) -> Counters {
        self.core().counters()
    }

    /// Maximum number of packets in the network at one time, or an upper bound of that.
    fn peak_packets(&self) -> u64 {
        self.core().peak_packets()
    }

    /// Whether no event is pending.
    fn is_idle(&self) -> bool {
        self.core().is_idle()
    }

    /// How evenly the work was divided, if there are two threads.
    fn balance(&self) -> Option<Balance> {
        None
    }
}

impl<T: Transport> AnySimulation for Simulation<T> {
    fn add_flow(&mut self, spec: &FlowSpec) -> Result<PacketFlowId, PacketError> {
        self.add_flow(spec)
    }

    fn hold_flow(&mut self, spec: &FlowSpec) -> Result<PacketFlowId, PacketError> {
        self.hold_flow(spec)
    }

    fn start_flow(&mut self, flow: PacketFlowId) {
        self.start_flow(flow);
    }

    fn set_dark(&mut self, time: Time, link: PacketLinkId, dark: bool) {
        self.set_dark(time, link, dark);
    }

    fn add_failure(&mut self, failure: &Failure) {
        self.add_failure(failure);
    }

    fn hash_by_ends(&mut self) {
        self.hash_by_ends();
    }

    fn finish_on_arrival(&mut self) {
        self.finish_on_arrival();
    }

    fn finish_twice(&mut self) {
        self.finish_twice();
    }

    fn advance(
        &mut self,
        limit: Time,
        finished: &mut Vec<PacketFlowId>,
        observer: &mut dyn Observer,
    ) -> Result<bool, PacketError> {
        self.advance(limit, finished, observer)
    }

    fn record_events(&mut self, logging: EventLogging) {
        self.record_events(logging);
    }

    fn settle_all(&mut self) {
        self.settle_all();
    }

    fn core(&self) -> &Core {
        self.core()
    }

    fn take_peak(&mut self, link: PacketLinkId) -> u32 {
        self.core.take_peak(link)
    }
}

/// A [`Simulation`] that can be copied, for callers that simulate alike things once.
pub trait RepeatableSimulation: AnySimulation {
    /// Another one in the same state.
    fn copy(&self) -> Box<dyn RepeatableSimulation>;

    /// When the next event is due.
    fn next_time(&mut self) -> Option<Time>;

    /// Whether all flows are done and no packet is left.
    fn is_drained(&self) -> bool;
}

impl<T: Transport + Clone + 'static> RepeatableSimulation for Simulation<T> {
    fn copy(&self) -> Box<dyn RepeatableSimulation> {
        Box::new(self.clone())
    }

    fn next_time(&mut self) -> Option<Time> {
        self.core.clock.next_time()
    }

    fn is_drained(&self) -> bool {
        self.core.is_drained()
    }
}
