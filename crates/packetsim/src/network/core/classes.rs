//! Classes of traffic, each with a transport and settings of its own, and which is at work.

use super::Core;
use crate::config::Config;
use crate::flow::PacketFlowId;
use crate::topology::NicId;

impl Core {
    /// Those of a class.
    #[inline]
    pub(crate) fn config_of_class(&self, class: usize) -> &Config {
        if class == 0 { &self.config } else { &self.others[class - 1] }
    }

    /// Those of the class of a flow.
    #[inline]
    pub(crate) fn config_of(&self, flow: PacketFlowId) -> &Config {
        self.config_of_class(self.class_of(flow))
    }

    /// The class of a flow.
    #[inline]
    pub(crate) fn class_of(&self, flow: PacketFlowId) -> usize {
        if self.others.is_empty() { 0 } else { self.flows.class(flow) }
    }

    /// From now on the transport of a class is at work.
    #[inline]
    pub(crate) fn set_class(&mut self, class: usize) {
        self.class = class;
    }

    /// That class.
    #[inline]
    pub(crate) fn class(&self) -> usize {
        self.class
    }

    /// Whether a flow is of the class whose transport is at work.
    pub(crate) fn is_at_work(&self, flow: PacketFlowId) -> bool {
        self.class_of(flow) == self.class
    }

    /// Notes the priority of what a NIC with several transports sends.
    pub(crate) fn set_last_priority(&mut self, nic: NicId, priority: u8) {
        self.nics.set_last_priority(nic, priority);
    }

    /// The priority of what a NIC with several transports sent last; the highest if it has one.
    #[inline]
    pub(crate) fn last_priority(&self, nic: NicId) -> u8 {
        self.nics.last_priority(nic)
    }
}
