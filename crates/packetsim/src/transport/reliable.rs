//! Reliable connections, whichever way their NICs recover.

use super::go_back_n::GoBackN;
use super::recovery::Recovery;
use super::selective::SelectiveRepeat;
use crate::flow::PacketFlowId;
use crate::network::core::Core;
use crate::packet::{Packet, PacketId};
use crate::topology::NicId;
use lightloom_model::Duration;

/// What all flows have sent and received.
#[derive(Debug, Clone)]
pub(super) enum Reliable {
    GoBackN(GoBackN),
    Selective(Box<SelectiveRepeat>),
}

/// Calls the method of either.
macro_rules! either {
    ($it:expr, $packets:ident => $call:expr) => {
        match $it {
            Reliable::GoBackN($packets) => $call,
            Reliable::Selective($packets) => $call,
        }
    };
}

impl Reliable {
    /// For a network and NICs that recover in this way, after a timeout if they learn nothing.
    pub(super) fn new(core: &Core, recovery: Recovery, timeout: Duration) -> Self {
        let config = core.config();
        let is_ordered = !core.reorders();
        let loses = config.links_fail || config.pfc.is_none() && config.queue_bytes != u32::MAX;
        let is_selective = match recovery {
            Recovery::Auto => !is_ordered,
            Recovery::GoBackN => false,
            Recovery::Selective => true,
        };
        if is_selective {
            let packets = SelectiveRepeat::new(is_ordered, loses.then_some(timeout));
            return Self::Selective(Box::new(packets));
        }
        Self::GoBackN(GoBackN::new((loses || !is_ordered).then_some(timeout)))
    }

    /// The receiver of a flow is made ready.
    pub(super) fn expect(&mut self, core: &Core, flow: PacketFlowId) {
        either!(self, packets => packets.expect(core, flow));
    }

    pub(super) fn start(&mut self, core: &Core, flow: PacketFlowId) {
        either!(self, packets => packets.start(core, flow));
    }

    /// Prefetches what the arrival of a packet will use.
    #[inline]
    pub(super) fn prefetch(&self, packet: &Packet) {
        either!(self, packets => packets.prefetch(packet));
    }

    /// Whether a flow may have something to send.
    #[inline]
    pub(super) fn has_more(&self, flow: PacketFlowId) -> bool {
        either!(self, packets => packets.has_more(flow))
    }

    /// The number of packets that have arrived, as far as the sender knows, and of those and what
    /// is in flight.
    #[inline]
    pub(super) fn span(&self, flow: PacketFlowId) -> (u32, u32) {
        either!(self, packets => packets.span(flow))
    }

    /// The next packet of a flow, if it has one.
    #[inline]
    pub(super) fn send(&mut self, core: &mut Core, flow: PacketFlowId) -> Option<PacketId> {
        either!(self, packets => packets.send(core, flow))
    }

    /// Processes a packet that arrived at `nic`; returns whether its flow sends something again.
    #[inline]
    pub(super) fn receive(&mut self, core: &mut Core, nic: NicId, packet: Packet) -> bool {
        either!(self, packets => packets.receive(core, nic, packet))
    }

    /// A flow's timer expires; returns whether it sends something again.
    pub(super) fn timer(&mut self, core: &mut Core, flow: PacketFlowId) -> bool {
        either!(self, packets => packets.timer(core, flow))
    }
}
