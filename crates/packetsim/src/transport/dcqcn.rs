//! DCQCN over `RoCEv2` (Zhu et al., SIGCOMM 2015) with go-back-N.
//!
//! Switches mark by queue length ([`crate::Ecn`]). The receiver responds to marked packets with
//! congestion notifications (CNP), few per flow. The sender paces each flow at its current rate: a
//! notification cuts it by the share `alpha / 2`, where `alpha` follows how often notifications
//! come, and then it rises towards the target rate of before the cut (fast recovery), and beyond by
//! additive and hyper increase, whenever some time has passed or some bytes were sent.
//!
//! The paper leaves details open; they follow here the NICs of NVIDIA and the ns-3 model of HPCC
//! (Li et al., SIGCOMM 2019), whose parameters are the defaults: `alpha` is renewed once per
//! interval, up if a notification came in it and down if none did; a rate is cut at most once per
//! interval; and, by default, cuts without an increase in between keep the target.
//!
//! A flow sends when the time of its last packet at its current rate has passed; among those that
//! may send, the NIC chooses the one that could first, so that flows take turns. The rate is
//! updated when a flow sends or a notification arrives: no flow needs a timer for it, and a rate
//! that rises while a packet is paced counts from the next one on. Notifications are separate
//! packets. Leaves out windows and the burst limits of NICs.

mod parameters;
mod reaction;
#[cfg(test)]
mod replay_tests;

pub use parameters::DcqcnParameters;

use super::interface::{Next, Parameters, Transport};
use super::paced::{Paced, Waiting};
use super::recovery::Recovery;
use super::reliable::Reliable;
use super::table::{PerFlow, PerNic};
use crate::config::{Config, Ecn, Marking, Pfc};
use crate::error::PacketError;
use crate::flow::PacketFlowId;
use crate::network::core::Core;
use crate::packet::{Control, MARKED, Packet, PacketKind};
use crate::topology::NicId;
use lightloom_model::{Duration, Rate, Time};
use parameters::MIN_INTERVAL;
use reaction::Reaction;

/// Bit-picoseconds in a byte and second.
const BYTE: f64 = 8e12;

impl Parameters for DcqcnParameters {
    type Transport = Dcqcn;

    fn profile(rate: Rate) -> (Config, Self) {
        (network(rate), Self::of_rate(rate))
    }

    fn validate(&self) -> Result<(), PacketError> {
        let wrong = |text: String| Err(PacketError::invalid(text));
        if !(self.gain > 0.0 && self.gain < 1.0) {
            return wrong(format!("DCQCN gain {}; expected 0 < gain < 1", self.gain));
        }
        let spans = [
            ("alpha interval", self.alpha_interval.0),
            ("increase interval", self.increase_interval.0),
            ("increase bytes", self.increase_bytes),
            ("additive increase", self.additive.0),
            ("hyper increase", self.hyper.0),
            ("minimum rate", self.minimum.0),
            ("timeout", self.timeout.0),
        ];
        if let Some((name, _)) = spans.iter().find(|(_, value)| *value == 0) {
            return wrong(format!("DCQCN {name} 0; expected more than 0"));
        }
        // Each interval that has passed is calculated, however long nothing was sent.
        if self.increase_interval < MIN_INTERVAL {
            return wrong(format!(
                "DCQCN increase interval {} ps; expected {} ps at least",
                self.increase_interval.0, MIN_INTERVAL.0
            ));
        }
        Ok(())
    }

    fn reference_rate() -> Option<Rate> {
        None
    }

    fn recovery(&self) -> Option<Recovery> {
        Some(self.recovery)
    }

    fn longest_timeout(&self) -> Duration {
        self.timeout
    }

    fn transport(self, core: &Core) -> Dcqcn {
        Dcqcn::new(core, self)
    }
}

/// The ns-3 model of HPCC (Li et al., SIGCOMM 2019). For each 25 Gb/s, marks from 100 kB on with a
/// probability that rises to 0.2 at 400 kB, on departure. Its buffer of 8 MB for each 25 Gb/s
/// pauses an input that holds an eighth of what is free: here, of the whole buffer.
/// Acknowledgements have priority.
pub(super) fn network(rate: Rate) -> Config {
    let bytes = |per_25_gbps: u64| {
        let bytes = u128::from(rate.0) * u128::from(per_25_gbps) / 25_000_000_000;
        u32::try_from(bytes).unwrap_or(u32::MAX).max(1)
    };
    Config {
        full_tail: false,
        control_priority: true,
        ecn: Some(Ecn {
            marking: Marking::Departure,
            min_bytes: bytes(100_000),
            max_bytes: bytes(400_000),
            probability: 0.2,
        }),
        pfc: Some(Pfc {
            pause_bytes: bytes(1_000_000),
            resume_bytes: bytes(1_000_000).saturating_sub(3 * 1024).max(1),
        }),
        ..Config::ENDLESS
    }
}

/// State of the flows.
#[derive(Debug, Clone)]
pub struct Dcqcn {
    parameters: DcqcnParameters,
    packets: Reliable,
    reactions: PerFlow<Reaction>,
    /// The time from which on the receiver of a flow may notify.
    notify_from: PerFlow<Time>,
    waiting: Paced,
    /// Rate of each NIC.
    lines: PerNic<f64>,
}

impl Dcqcn {
    /// For the NICs of a network.
    pub fn new(core: &Core, parameters: DcqcnParameters) -> Self {
        let nics = core.nic_count();
        Self {
            parameters,
            packets: Reliable::new(core, parameters.recovery, parameters.timeout),
            reactions: PerFlow::default(),
            notify_from: PerFlow::default(),
            waiting: Paced::new(core),
            lines: PerNic::new(nics, |nic| core.nic_rate(nic).0 as f64),
        }
    }

    /// Rate of a flow that has started, in bits per second, as of its last packet or notification.
    pub fn rate(&self, flow: PacketFlowId) -> f64 {
        self.reactions[flow].current
    }

    /// The receiver gets a marked packet.
    fn mark(&mut self, core: &mut Core, nic: NicId, flow: PacketFlowId) {
        let from = &mut self.notify_from[flow];
        if core.now() >= *from {
            *from = core.now() + self.parameters.cnp_interval;
            core.send_control(nic, Control::new(PacketKind::Cnp, flow));
        }
    }
}

impl Transport for Dcqcn {
    fn start(&mut self, core: &mut Core, flow: PacketFlowId) {
        let nic = core.endpoints(flow).source();
        self.expect(core, flow);
        self.packets.start(core, flow);
        self.reactions.make_room(flow, Reaction::new(0.0));
        self.reactions[flow] = Reaction::new(self.lines[nic]);
        self.waiting.make_room(flow);
        self.waiting.add(core, flow, core.now());
    }

    fn expect(&mut self, core: &mut Core, flow: PacketFlowId) {
        self.packets.expect(core, flow);
        self.notify_from.make_room(flow, Time::ZERO);
    }

    fn next(&mut self, core: &mut Core, nic: NicId, at: Time) -> Next {
        let line = self.lines[nic];
        loop {
            let flow = match self.waiting.next(core, nic, at) {
                Waiting::Ready(flow) => flow,
                Waiting::From(time) => return Next::At(time),
                Waiting::None => return Next::Nothing,
            };
            let Some(id) = self.packets.send(core, flow) else {
                // The packet to be sent again was not lost.
                self.waiting.renew(core, flow, None);
                continue;
            };
            let size = core.packet_mut(id).size;
            let reaction = &mut self.reactions[flow];
            reaction.renew(&self.parameters, line, at);
            reaction.count(&self.parameters, line, u64::from(size));
            // Rounded down, so that a flow at full rate leaves no gap.
            let gap = Duration((f64::from(size) * BYTE / reaction.current) as u64);
            let until = self.waiting.begin(core, flow, at) + gap;
            self.waiting.renew(core, flow, self.packets.has_more(flow).then_some(until));
            return Next::Packet(id);
        }
    }

    #[inline]
    fn prefetch_flow(&self, packet: &Packet) {
        self.packets.prefetch(packet);
    }

    fn receive(&mut self, core: &mut Core, nic: NicId, packet: Packet) {
        let flow = packet.flow;
        if packet.kind == PacketKind::Cnp {
            let line = self.lines[nic];
            return self.reactions[flow].notify(&self.parameters, line, core.now());
        }
        if packet.flags & MARKED != 0 {
            self.mark(core, nic, flow);
        }
        if self.packets.receive(core, nic, packet) {
            self.waiting.add(core, flow, core.now());
        }
    }

    fn timer(&mut self, core: &mut Core, flow: PacketFlowId) {
        if self.packets.timer(core, flow) {
            self.waiting.add(core, flow, core.now());
        }
    }
}
