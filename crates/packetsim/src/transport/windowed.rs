//! Flows with a window and a pace over reliable connections, for transports that differ in how they
//! set these.
//!
//! A flow sends while less than its window is in flight, and no sooner than its pace allows after
//! its last packet. Among flows that may send, the NIC chooses the one that could first, so that
//! flows take turns. Every packet states when it was sent, to the
//! nanosecond, and its acknowledgement returns that.

use super::interface::{Next, Transport};
use super::paced::{Paced, Waiting};
use super::recovery::Recovery;
use super::reliable::Reliable;
use super::table::PerFlow;
use crate::flow::PacketFlowId;
use crate::network::core::Core;
use crate::packet::{Packet, PacketKind};
use crate::topology::NicId;
use lightloom_model::{Duration, Time};

/// An acknowledgement that has reached the sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Acknowledgement {
    /// Packets that it acknowledges for the first time.
    pub newly: u32,
    /// First packet that is not acknowledged.
    pub first: u32,
    /// Next packet to send.
    pub next: u32,
    /// Time since the packet that it responds to was sent.
    pub round_trip: Duration,
}

/// Why a flow goes back to the first missing packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Loss {
    /// The receiver reported a gap.
    Reported,
    /// Nothing was acknowledged for a timeout.
    Timeout,
}

/// How a transport sets the window and the pace of a flow.
pub(crate) trait WindowRule {
    /// What it knows of a flow.
    type State: Clone + std::fmt::Debug;

    /// A flow starts.
    fn begin(&mut self, core: &Core, flow: PacketFlowId) -> Self::State;

    /// An acknowledgement, with [`Core::stamps`] if there are any.
    fn acknowledge(&self, core: &Core, state: &mut Self::State, ack: Acknowledgement);

    /// A loss.
    fn lose(&self, core: &Core, state: &mut Self::State, loss: Loss);

    /// Bytes in flight, above 0, from which on a flow sends nothing more.
    fn window_bytes(&self, core: &Core, state: &Self::State) -> f64;

    /// Time between two packets of this size.
    fn gap(&self, state: &Self::State, bytes: u32) -> Duration;
}

/// All flows.
#[derive(Debug, Clone)]
pub(crate) struct Windowed<R: WindowRule> {
    rule: R,
    packets: Reliable,
    states: PerFlow<Option<R::State>>,
    /// When a flow may send at the earliest.
    free_at: PerFlow<Time>,
    waiting: Paced,
}

impl<R: WindowRule> Windowed<R> {
    pub(super) fn with_rule(core: &Core, rule: R, recovery: Recovery, timeout: Duration) -> Self {
        Self {
            rule,
            packets: Reliable::new(core, recovery, timeout),
            states: PerFlow::default(),
            free_at: PerFlow::default(),
            waiting: Paced::new(core),
        }
    }

    /// What the rule knows of a flow that has started.
    #[cfg(test)]
    pub(super) fn state(&self, flow: PacketFlowId) -> Option<&R::State> {
        self.states.get(flow)?.as_ref()
    }

    /// Whether a flow has a packet to send, and room in its window.
    #[inline]
    fn may_send(&self, core: &Core, flow: PacketFlowId) -> bool {
        if !self.packets.has_more(flow) {
            return false;
        }
        let (first, next) = self.packets.span(flow);
        let Some(state) = &self.states[flow] else { return false };
        let bytes = u64::from(next - first) * u64::from(core.config().packet_bytes());
        (bytes as f64) < self.rule.window_bytes(core, state)
    }

    /// Lets a flow wait for its turn, if it may send.
    fn add(&mut self, core: &Core, flow: PacketFlowId) {
        if !self.waiting.has(flow) && self.may_send(core, flow) {
            self.waiting.add(core, flow, self.free_at[flow].max(core.now()));
        }
    }

    fn lose(&mut self, core: &Core, flow: PacketFlowId, loss: Loss) {
        if let Some(state) = &mut self.states[flow] {
            self.rule.lose(core, state, loss);
        }
        self.add(core, flow);
    }
}

/// A time as a stamp of 32 bits, for differences of up to four seconds.
fn nanoseconds(time: Time) -> u32 {
    (time.0 / 1000) as u32
}

impl<R: WindowRule> Transport for Windowed<R> {
    fn start(&mut self, core: &mut Core, flow: PacketFlowId) {
        self.packets.start(core, flow);
        self.states.make_room(flow, None);
        self.states[flow] = Some(self.rule.begin(core, flow));
        self.free_at.make_room(flow, Time::ZERO);
        self.waiting.make_room(flow);
        self.add(core, flow);
    }

    fn expect(&mut self, core: &mut Core, flow: PacketFlowId) {
        self.packets.expect(core, flow);
    }

    fn next(&mut self, core: &mut Core, nic: NicId, at: Time) -> Next {
        loop {
            let flow = match self.waiting.next(core, nic, at) {
                Waiting::Ready(flow) => flow,
                Waiting::From(time) => return Next::At(time),
                Waiting::None => return Next::Nothing,
            };
            if self.may_send(core, flow)
                && let Some(id) = self.packets.send(core, flow)
            {
                let packet = core.packet_mut(id);
                packet.value = nanoseconds(at);
                let size = u32::from(packet.size);
                let gap = self.states[flow].as_ref().map(|state| self.rule.gap(state, size));
                self.free_at[flow] = self.waiting.begin(core, flow, at) + gap.unwrap_or_default();
                let stays = self.may_send(core, flow);
                self.waiting.renew(core, flow, stays.then_some(self.free_at[flow]));
                return Next::Packet(id);
            }
            self.waiting.renew(core, flow, None);
        }
    }

    #[inline]
    fn prefetch_flow(&self, packet: &Packet) {
        self.packets.prefetch(packet);
        if !packet.kind.is_forward() {
            self.states.prefetch(packet.flow);
        }
    }

    fn receive(&mut self, core: &mut Core, nic: NicId, packet: Packet) {
        let flow = packet.flow;
        if packet.kind.is_forward() {
            self.packets.receive(core, nic, packet);
            return;
        }
        let before = self.packets.span(flow).0;
        let goes_back = self.packets.receive(core, nic, packet);
        let (first, next) = self.packets.span(flow);
        if packet.kind == PacketKind::Ack
            && let Some(state) = &mut self.states[flow]
        {
            let nanoseconds = nanoseconds(core.now()).wrapping_sub(packet.value);
            let round_trip = Duration(1000 * u64::from(nanoseconds));
            let ack = Acknowledgement { newly: first - before, first, next, round_trip };
            self.rule.acknowledge(core, state, ack);
        }
        if goes_back {
            return self.lose(core, flow, Loss::Reported);
        }
        self.add(core, flow);
    }

    fn timer(&mut self, core: &mut Core, flow: PacketFlowId) {
        if self.packets.timer(core, flow) {
            self.lose(core, flow, Loss::Timeout);
        }
    }
}
