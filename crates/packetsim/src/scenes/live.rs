//! The network of a scene.

use crate::error::PacketError;
use crate::flow::{FlowProgress, FlowSpec, PacketFlowId};
use crate::network::any::RepeatableSimulation;
use crate::topology::PacketLinkId;
use lightloom_kernel::Observer;
use lightloom_model::{Duration, Time};
use rustc_hash::FxHashSet;

/// A network of its own, which begins at the start of a scene.
pub(super) struct Live {
    simulation: Box<dyn RepeatableSimulation>,
    /// Flows that have not ended.
    open: Vec<PacketFlowId>,
    /// Flows that have ended since the last things began, and `late` ones.
    pub(super) seen: usize,
    /// Flows that had ended before, of which nobody has heard.
    pub(super) late: Vec<u32>,
    /// Time in which the fastest link sends a packet.
    packet: Duration,
}

impl Live {
    /// A copy of an idle network.
    pub(super) fn new(idle: &dyn RepeatableSimulation, packet: Duration) -> Self {
        let (open, late) = Default::default();
        Self { simulation: idle.copy(), open, seen: 0, late, packet }
    }

    /// The time since the start of the scene.
    pub(super) fn now(&self) -> Time {
        self.simulation.core().now()
    }

    /// A flow begins now.
    pub(super) fn add_flow(&mut self, flow: &FlowSpec) -> Result<(), PacketError> {
        let start = self.now();
        self.open.push(self.simulation.add_flow(&FlowSpec { start, ..flow.clone() })?);
        Ok(())
    }

    /// Flows that have not ended, by number.
    pub(super) fn open(&self) -> FxHashSet<u32> {
        self.open.iter().map(|flow| flow.0).collect()
    }

    /// A link goes dark now, or comes up.
    pub(super) fn set_dark(&mut self, link: PacketLinkId, dark: bool) {
        self.simulation.set_dark(self.now(), link, dark);
    }

    /// Runs until flows end, which are returned, or a time.
    pub(super) fn run(
        &mut self,
        until: Time,
        observer: &mut dyn Observer,
    ) -> Result<Option<Vec<PacketFlowId>>, PacketError> {
        let mut ended = Vec::new();
        if !self.simulation.advance(until, &mut ended, observer)? {
            return Ok(None);
        }
        let core = self.simulation.core();
        self.open.retain(|&flow| !is_whole(core.flow(flow)));
        Ok(Some(ended))
    }

    /// A time before which no flow ends.
    pub(super) fn bound(&mut self) -> Time {
        let core = self.simulation.core();
        // Packets of a flow arrive one after the other; the last one may be short.
        let missing = |flow: &PacketFlowId| {
            let progress = core.flow(*flow);
            progress.packets - progress.received
        };
        let fewest = self.open.iter().map(missing).min().unwrap_or(0).saturating_sub(2);
        let arrived = core.now() + Duration(self.packet.0.saturating_mul(u64::from(fewest)));
        let event = self.simulation.next_time().unwrap_or(Time(u64::MAX >> 1));
        arrived.max(event)
    }

    /// When its next event is due.
    pub(super) fn next_time(&mut self) -> Option<Time> {
        self.simulation.next_time()
    }

    /// Whether all flows are done and no packet is left.
    pub(super) fn is_drained(&self) -> bool {
        self.simulation.is_drained()
    }

    /// Packets that have crossed a link.
    pub(super) fn hops(&self) -> u64 {
        let counters = self.simulation.counters();
        counters.data_hops + counters.control_hops
    }
}

fn is_whole(progress: &FlowProgress) -> bool {
    progress.received == progress.packets
}
