//! DCQCN over `RoCEv2` (Zhu et al., SIGCOMM 2015) with go-back-N.
//!
//! Switches mark by queue length ([`crate::Ecn`]). The receiver answers marked packets with
//! congestion notifications (CNP), few per flow. The sender paces each flow at its current rate: a
//! notification cuts it by the share `alpha / 2`, where `alpha` follows how often notifications
//! come, and then it rises towards the target rate of before the cut (fast recovery), and beyond by
//! additive and hyper increase, whenever some time has passed or some bytes were sent.
//!
//! The paper leaves details open; these follow the NICs of NVIDIA and the ns-3 model of HPCC
//! (Li et al., SIGCOMM 2019), whose parameters are the defaults: `alpha` is renewed once per
//! interval, up if a notification came in it and down if none did; a rate is cut at most once per
//! interval; and, unless told otherwise, cuts without an increase in between keep the target.
//!
//! A flow sends when the time of its last packet at its current rate has passed; among those that
//! may send, the NIC takes the one that could first, so that flows take turns. The rate is brought
//! up to date when a flow sends or a notification comes: no flow needs a timer for it, and a rate
//! that rises while a packet is paced counts from the next one on. Notifications are packets of
//! their own. Leaves out windows and the burst limits of NICs.

mod reaction;

use super::go_back_n::GoBackN;
use super::line_rate::TIMEOUT;
use super::{Next, Transport};
use crate::core::Core;
use crate::error::PacketError;
use crate::packet::{Kind, MARKED, Packet};
use lightloom_model::{Duration, Rate};
use reaction::Reaction;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

/// Bit-picoseconds in a byte and second.
const BYTE: f64 = 8e12;

/// What DCQCN can be tuned by; the rates of NICs scale with the link, see [`Self::of_rate`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DcqcnParameters {
    /// The receiver sends at most one notification per flow and such an interval; 0: one for each
    /// marked packet (paper: 50 us, `min_time_between_cnps` of NICs).
    pub cnp_interval: Duration,
    /// The sender cuts a rate at most once per interval (NICs: `rate_reduce_monitor_period`).
    pub cut_interval: Duration,
    /// Interval of `alpha` (paper: 55 us, NICs: `dce_tcp_rtt`).
    pub alpha_interval: Duration,
    /// Weight of one interval in `alpha`: g (NICs: `dce_tcp_g`).
    pub gain: f64,
    /// Time between increases (paper: 55 us, NICs: `rpg_time_reset`).
    pub increase_interval: Duration,
    /// Bytes between increases (paper: 10 MB, NICs: `rpg_byte_reset`); `u64::MAX`: time alone.
    pub increase_bytes: u64,
    /// Increases of fast recovery: F (paper: 5, NICs: `rpg_threshold`).
    pub recovery_stages: u32,
    /// `R_AI` (paper: 40 Mb/s at 40 Gb/s, NICs: `rpg_ai_rate`).
    pub additive: Rate,
    /// `R_HAI` (NICs: `rpg_hai_rate`).
    pub hyper: Rate,
    /// Least rate of a flow (NICs: `rpg_min_rate`).
    pub minimum: Rate,
    /// Whether each cut makes the current rate the target, as in the paper, or only those after an
    /// increase (NICs: `clamp_tgt_rate`).
    pub clamp_target: bool,
    /// Time without acknowledgements after which a flow begins again, where packets are lost.
    pub timeout: Duration,
}

const MICROSECOND: u64 = 1_000_000;

impl DcqcnParameters {
    /// Those of the ns-3 model of HPCC for NICs of a rate: its `dcqcn`, that is, the defaults of
    /// NICs with 5 and 50 Mb/s for each 25 Gb/s.
    pub fn of_rate(rate: Rate) -> Self {
        Self {
            cnp_interval: Duration(0),
            cut_interval: Duration(4 * MICROSECOND),
            alpha_interval: Duration(MICROSECOND),
            gain: 1.0 / 256.0,
            increase_interval: Duration(300 * MICROSECOND),
            increase_bytes: u64::MAX,
            recovery_stages: 1,
            additive: Rate((rate.0 / 5_000).max(1)),
            hyper: Rate((rate.0 / 500).max(1)),
            minimum: Rate((rate.0 / 100).clamp(1, 1_000_000_000)),
            clamp_target: false,
            timeout: TIMEOUT,
        }
    }

    /// Checks the values.
    ///
    /// # Errors
    /// Says which value is wrong and what was expected.
    pub fn validate(&self) -> Result<(), PacketError> {
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
        match spans.iter().find(|(_, value)| *value == 0) {
            Some((name, _)) => wrong(format!("DCQCN {name} 0; expected more than 0")),
            None => Ok(()),
        }
    }
}

/// State of the flows.
#[derive(Debug, Clone)]
pub struct Dcqcn {
    parameters: DcqcnParameters,
    packets: GoBackN,
    reactions: Vec<Reaction>,
    /// Per flow the time from which on the receiver may notify.
    notify_from: Vec<u64>,
    /// Whether a flow is in `waiting`.
    is_waiting: Vec<bool>,
    /// Per NIC the flows with something to send, by the time from which on they may.
    waiting: Vec<BinaryHeap<Reverse<(u64, u32)>>>,
    /// Rate of each NIC.
    lines: Vec<f64>,
}

impl Dcqcn {
    /// For the NICs of a network.
    ///
    /// # Errors
    /// If the parameters make no sense.
    pub fn new(core: &Core, parameters: DcqcnParameters) -> Result<Self, PacketError> {
        parameters.validate()?;
        let nics = core.nic_count();
        Ok(Self {
            parameters,
            packets: GoBackN::new(core, parameters.timeout),
            reactions: Vec::new(),
            notify_from: Vec::new(),
            is_waiting: Vec::new(),
            waiting: vec![BinaryHeap::new(); nics],
            lines: (0..nics as u32).map(|nic| core.nic_rate(nic).0 as f64).collect(),
        })
    }

    /// Rate of a flow that has started, in bits per second, as of its last packet or notification.
    pub fn rate(&self, flow: u32) -> f64 {
        self.reactions[flow as usize].current
    }

    fn add(&mut self, nic: u32, flow: u32, time: u64) {
        if !std::mem::replace(&mut self.is_waiting[flow as usize], true) {
            self.waiting[nic as usize].push(Reverse((time, flow)));
        }
    }

    /// The receiver got a marked packet.
    fn mark(&mut self, core: &mut Core, nic: u32, flow: u32) {
        let from = &mut self.notify_from[flow as usize];
        if core.now() >= *from {
            *from = core.now() + self.parameters.cnp_interval.0;
            core.send_control(nic, Kind::Cnp, flow, (0, 0), (0, 0));
        }
    }
}

impl Transport for Dcqcn {
    fn start(&mut self, core: &mut Core, flow: u32) {
        let [nic, _] = core.ends(flow);
        let needed = self.reactions.len().max(flow as usize + 1);
        self.packets.start(core, flow);
        self.reactions.resize(needed, Reaction::new(0.0));
        self.reactions[flow as usize] = Reaction::new(self.lines[nic as usize]);
        self.notify_from.resize(needed, 0);
        self.is_waiting.resize(needed, false);
        self.add(nic, flow, core.now());
    }

    fn next(&mut self, core: &mut Core, nic: u32, at: u64) -> Next {
        let line = self.lines[nic as usize];
        let waiting = &mut self.waiting[nic as usize];
        while let Some(mut first) = waiting.peek_mut() {
            let Reverse((time, flow)) = *first;
            if time > at {
                return Next::At(time);
            }
            if !self.packets.has_more(flow) {
                // What it had to send again was on its way.
                PeekMut::pop(first);
                self.is_waiting[flow as usize] = false;
                continue;
            }
            let id = self.packets.send(core, flow);
            let size = core.packet_mut(id).size;
            let reaction = &mut self.reactions[flow as usize];
            reaction.renew(&self.parameters, line, at);
            reaction.count(&self.parameters, line, u64::from(size));
            if self.packets.has_more(flow) {
                // Rounded down, so that a flow at full rate leaves no gap.
                let gap = (f64::from(size) * BYTE / reaction.current) as u64;
                *first = Reverse((at + gap, flow));
            } else {
                PeekMut::pop(first);
                self.is_waiting[flow as usize] = false;
            }
            return Next::Packet(id);
        }
        Next::Nothing
    }

    #[inline]
    fn prefetch(&self, packet: &Packet) {
        self.packets.prefetch(packet);
    }

    fn receive(&mut self, core: &mut Core, nic: u32, packet: Packet) {
        let flow = packet.flow;
        if packet.kind == Kind::Cnp {
            let line = self.lines[nic as usize];
            return self.reactions[flow as usize].notify(&self.parameters, line, core.now());
        }
        if packet.flags & MARKED != 0 {
            self.mark(core, nic, flow);
        }
        if self.packets.receive(core, nic, packet) {
            self.add(nic, flow, core.now());
        }
    }

    fn timer(&mut self, core: &mut Core, flow: u32, _tag: u32) {
        if self.packets.timer(core, flow) {
            self.add(core.ends(flow)[0], flow, core.now());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonsense_is_refused() {
        let rate = Rate(800_000_000_000);
        let base = DcqcnParameters::of_rate(rate);
        base.validate().unwrap();
        let text = |parameters: DcqcnParameters| parameters.validate().unwrap_err().to_string();
        assert_eq!(
            text(DcqcnParameters { gain: 1.0, ..base }),
            "DCQCN gain 1; expected 0 < gain < 1"
        );
        assert_eq!(
            text(DcqcnParameters { minimum: Rate(0), ..base }),
            "DCQCN minimum rate 0; expected more than 0"
        );
    }
}
