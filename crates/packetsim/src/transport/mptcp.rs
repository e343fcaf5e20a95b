//! MPTCP (RFC 8684) with coupled congestion control (LIA, RFC 6356).
//!
//! A flow has subflows, each a connection of TCP `NewReno` that keeps to its own path. Data is
//! numbered by flow, and by subflow as well: whichever subflow has room in its window when its NIC
//! turns to it takes the next packet of the flow. Each recovers its own losses. When one times
//! out, what it has in flight is given to the others, too, once; its own attempts continue.
//!
//! A window is halved as TCP's, and past its threshold it grows by `alpha / total` of a packet per
//! packet acknowledged, `total` being the sum of windows, or as TCP's if that is less.
//! A subflow alone is TCP. A window grows only while it, and not the NIC, limits its subflow (RFC
//! 7661, and kernels): else subflows that fill their NIC would grow windows that say nothing about
//! their paths.
//!
//! Assumes subflows that exist already and a receiver whose buffer never fills. A flow with an
//! explicit route has one subflow. Leaves out marks and selective acknowledgements.

mod connection;
mod probe;

use super::dctcp::WINDOW;
use super::fit::window;
use super::interface::{Next, Parameters, Transport};
use super::round_robin::RoundRobin;
use super::table::PerFlow;
use super::tcp::{Arrived, MAX_DOUBLINGS, NEVER, PROBE, REPEAT, Receiver, Sender, nanoseconds};
use crate::config::{Config, EarlyDrop};
use crate::error::PacketError;
use crate::flow::PacketFlowId;
use crate::network::core::Core;
use crate::packet::{Control, Packet, PacketKind, TRANSPORT_A};
use crate::topology::NicId;
use connection::{Connection, Sent};
use lightloom_model::{Duration, Rate, Time};
use probe::Probe;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::ops::Range;

/// A probe, and in acknowledgements: it was new.
const PROBING: u8 = TRANSPORT_A;

/// Maximum number of subflows of a flow.
const MAX_SUBFLOWS: u16 = 256;

/// Parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MptcpParameters {
    /// Subflows of a flow.
    pub subflows: u16,
    /// Window of each at the start, in packets; `None`: their share of what fills a round trip, and
    /// `WINDOW` at least.
    pub initial_window: Option<u32>,
    /// Window up to which it doubles per round trip at the start, in packets.
    pub initial_threshold: u32,
    /// Minimum time until a retransmission.
    #[serde(rename = "min_timeout_ps")]
    pub min_timeout: Duration,
    /// Timeouts are at multiples of this: kernels check timers periodically.
    #[serde(rename = "timer_tick_ps")]
    pub timer_tick: Duration,
    /// Whether a sender that hears nothing probes before that.
    pub probes: bool,
}

impl Default for MptcpParameters {
    /// Eight subflows, after which Raiciu et al. (SIGCOMM 2011) find that more gain little in a
    /// fat tree; the rest as for DCTCP.
    fn default() -> Self {
        Self {
            subflows: 8,
            initial_window: Some(WINDOW),
            initial_threshold: 10_000,
            min_timeout: Duration(10_000_000_000),
            timer_tick: Duration(1_000_000_000),
            probes: false,
        }
    }
}

impl Parameters for MptcpParameters {
    type Transport = Mptcp;

    /// Jumbo frames and acknowledgements among data. Queues of 100 packets as in csg-htsim, which
    /// drops a tenth of what meets the last three places; here the share grows from 0 at half of
    /// the queue (RED). Without it, in the lock step of simulated time, which flow a full queue
    /// drops is decided by phases: one that adds packets loses, and another never does.
    fn profile(_rate: Rate) -> (Config, Self) {
        let network = Config {
            mtu: 8936,
            queue_bytes: 100 * 9000,
            early_drop: Some(EarlyDrop { share: 0.5, probability: 0.1 }),
            ..Config::ENDLESS
        };
        (network, Self::default())
    }

    fn validate(&self) -> Result<(), PacketError> {
        let wrong = |text: String| Err(PacketError::invalid(text));
        if !(1..=MAX_SUBFLOWS).contains(&self.subflows) {
            return wrong(format!(
                "MPTCP flows of {} subflows; expected 1 to {MAX_SUBFLOWS}",
                self.subflows
            ));
        }
        let initial = self.initial_window.unwrap_or(WINDOW);
        if initial == 0 || self.initial_threshold == 0 {
            return wrong(format!(
                "MPTCP starts with a window of {} packets and a threshold of {}; expected at least \
                 1 each",
                initial, self.initial_threshold
            ));
        }
        if self.min_timeout.0 == 0 || self.timer_tick.0 == 0 {
            return wrong("MPTCP timeout and timer tick; expected both above 0".into());
        }
        Ok(())
    }

    fn fit(&mut self, _factor: f64) {
        (self.initial_window, self.probes) = (None, true);
    }

    fn given_window(&self) -> Option<f64> {
        self.initial_window.map(|it| f64::from(it) * f64::from(self.subflows))
    }

    fn longest_timeout(&self) -> Duration {
        Duration(self.min_timeout.0.saturating_mul(1 << MAX_DOUBLINGS))
    }

    fn transport(self, core: &Core) -> Mptcp {
        Mptcp::new(core, self)
    }
}

/// The index of a subflow among those of all flows.
type Subflow = PacketFlowId;

/// State of the flows.
#[derive(Debug, Clone)]
pub struct Mptcp {
    parameters: MptcpParameters,
    /// Subflows take turns at their NIC, as in the fair queues of kernels.
    active: RoundRobin,
    /// Per subflow.
    senders: PerFlow<Sender>,
    /// Per subflow what it has in flight, from its first packet not acknowledged on.
    sent: PerFlow<VecDeque<Sent>>,
    probes: PerFlow<Probe>,
    receivers: PerFlow<Receiver>,
    arrived: PerFlow<Arrived>,
    /// Per flow, at its sender.
    connections: PerFlow<Connection>,
    /// Per flow what its receiver has.
    data: PerFlow<Receiver>,
    arrived_data: PerFlow<Arrived>,
}

impl Mptcp {
    /// For the NICs of a network.
    pub fn new(core: &Core, parameters: MptcpParameters) -> Self {
        Self {
            parameters,
            active: RoundRobin::new(core),
            senders: PerFlow::default(),
            sent: PerFlow::default(),
            probes: PerFlow::default(),
            receivers: PerFlow::default(),
            arrived: PerFlow::default(),
            connections: PerFlow::default(),
            data: PerFlow::default(),
            arrived_data: PerFlow::default(),
        }
    }

    /// The windows of a flow's subflows, in packets.
    pub fn windows(&self, core: &Core, flow: PacketFlowId) -> Vec<f64> {
        let windows = self.subflows(core, flow).map(|it| self.senders[PacketFlowId(it)].window);
        windows.collect()
    }

    /// The subflow of a path.
    fn subflow(&self, flow: PacketFlowId, path: u16) -> Subflow {
        PacketFlowId(flow.0 * u32::from(self.parameters.subflows) + u32::from(path))
    }

    /// The flow of a subflow.
    fn flow(&self, subflow: Subflow) -> PacketFlowId {
        PacketFlowId(subflow.0 / u32::from(self.parameters.subflows))
    }

    /// The path of a subflow.
    fn path(&self, subflow: Subflow) -> u16 {
        (subflow.0 % u32::from(self.parameters.subflows)) as u16
    }

    /// The subflow of a packet that has arrived.
    fn subflow_of(&self, core: &Core, packet: &Packet) -> Subflow {
        // On an explicit route packets count links.
        let path = if core.has_route(packet.flow) { 0 } else { packet.path };
        self.subflow(packet.flow, path)
    }

    /// The subflows of a flow.
    fn subflows(&self, core: &Core, flow: PacketFlowId) -> Range<u32> {
        let first = self.subflow(flow, 0).0;
        let count = if core.has_route(flow) { 1 } else { self.parameters.subflows };
        first..first + u32::from(count)
    }

    /// Acknowledgements for which the window of a subflow grows by one packet: LIA.
    fn acknowledgements_per_packet(&self, core: &Core, subflow: Subflow) -> f64 {
        let senders =
            self.subflows(core, self.flow(subflow)).map(|it| &self.senders[PacketFlowId(it)]);
        let windows = senders.filter(|it| it.rtt > 0).map(|it| (it.own_window(), it.rtt));
        coupled(self.senders[subflow].window, windows)
    }

    /// Gives to a subflow what its window has room for.
    fn hand_over(&mut self, core: &Core, nic: NicId, subflow: Subflow) {
        let flow = self.flow(subflow);
        let sender = &mut self.senders[subflow];
        let known = sender.first + self.sent[subflow].len() as u32;
        sender
            .hand_over(known.saturating_add(self.connections[flow].left(core.flow(flow).packets)));
        if sender.may_send() {
            self.active.add(nic, subflow, core.priority(flow));
        }
    }

    fn start_deadline(&mut self, core: &mut Core, subflow: Subflow, now: Time) {
        self.senders[subflow].start_deadline(now, self.parameters.min_timeout);
        self.watch(core, self.flow(subflow));
    }

    /// Makes sure that a timer is pending, before all deadlines or any that may replace them.
    fn watch(&mut self, core: &mut Core, flow: PacketFlowId) {
        if self.connections[flow].has_timer {
            return;
        }
        let deadlines = self.subflows(core, flow).map(|it| self.senders[PacketFlowId(it)].deadline);
        let Some(deadline) = deadlines.min().filter(|&deadline| deadline != NEVER) else { return };
        self.connections[flow].has_timer = true;
        let time = deadline.min(core.now() + self.parameters.min_timeout);
        let time = Time(time.0.next_multiple_of(self.parameters.timer_tick.0));
        let probe =
            self.subflows(core, flow).filter_map(|it| self.probe_at(core, PacketFlowId(it)));
        core.set_timer(flow, probe.min().map_or(time, |it| it.min(time).max(core.now())));
    }

    /// When a subflow is to probe, if it has something in flight.
    fn probe_at(&self, core: &Core, subflow: Subflow) -> Option<Time> {
        if !self.parameters.probes {
            return None;
        }
        let idle = || core.round_trip(self.flow(subflow));
        self.probes[subflow].due(&self.senders[subflow], idle)
    }

    /// A subflow has heard nothing for long: it sends its first missing packet again.
    fn probe(&mut self, core: &Core, subflow: Subflow) {
        let flow = self.flow(subflow);
        let sender = &mut self.senders[subflow];
        if sender.may_send() {
            // What waits for the NIC tells as much.
            return self.probes[subflow].send(core.now());
        }
        self.probes[subflow].count(core.now());
        sender.flags |= REPEAT | PROBE;
        self.active.add(core.endpoints(flow).source(), subflow, core.priority(flow));
    }

    /// Nothing of a subflow was acknowledged in time: others get what it has in flight.
    fn time_out(&mut self, core: &mut Core, subflow: Subflow) {
        let flow = self.flow(subflow);
        let sender = &mut self.senders[subflow];
        sender.take_back();
        sender.time_out();
        self.connections[flow].give_to_others(&mut self.sent[subflow]);
        self.start_deadline(core, subflow, core.now());
        let nic = core.endpoints(flow).source();
        for other in self.subflows(core, flow).map(PacketFlowId) {
            self.hand_over(core, nic, other);
        }
    }

    fn data(&mut self, core: &mut Core, nic: NicId, packet: Packet) {
        let (flow, subflow) = (packet.flow, self.subflow_of(core, &packet));
        if self.data[flow].accept(&mut self.arrived_data[flow], packet.sequence) {
            core.receive(flow);
        }
        let receiver = &mut self.receivers[subflow];
        let is_new = receiver.accept(&mut self.arrived[subflow], packet.value);
        let (sequence, value) = (receiver.expected, packet.value);
        let flags = if is_new { packet.flags & PROBING } else { 0 };
        let path = self.path(subflow);
        let ack = Control { sequence, value, path, flags, ..Control::new(PacketKind::Ack, flow) };
        core.send_control(nic, ack);
    }

    fn acknowledgement(&mut self, core: &mut Core, nic: NicId, packet: Packet) {
        let (flow, subflow) = (packet.flow, self.subflow_of(core, &packet));
        let packets = core.flow(flow).packets;
        let sender = &mut self.senders[subflow];
        if packet.sequence < sender.first || self.connections[flow].is_complete(packets) {
            return;
        }
        self.probes[subflow].hear(core.now());
        let is_limiting = !sender.may_send();
        sender.take_back();
        let sent = &mut self.sent[subflow];
        if let Some(since) = Sent::time_of(sent, sender.first, packet.value) {
            sender.measure(nanoseconds(core.now()).wrapping_sub(since).max(1));
        }
        if packet.sequence > sender.first {
            let newly = packet.sequence - sender.first;
            self.connections[flow].acknowledge(sent.drain(..newly as usize));
            if sender.advance(packet.sequence) && is_limiting {
                let acknowledgements = self.acknowledgements_per_packet(core, subflow);
                self.senders[subflow].grow(acknowledgements);
            }
            if self.connections[flow].is_complete(packets) {
                return self.complete(core, flow);
            }
            let sender = &mut self.senders[subflow];
            if packet.flags & PROBING != 0 {
                sender.recover();
            }
            if sender.unsent == sender.first {
                sender.deadline = NEVER;
            } else {
                self.start_deadline(core, subflow, core.now());
            }
        } else {
            sender.repeat();
        }
        self.hand_over(core, nic, subflow);
    }

    /// Everything has arrived: whatever is still in flight does not matter.
    fn complete(&mut self, core: &mut Core, flow: PacketFlowId) {
        for subflow in self.subflows(core, flow).map(PacketFlowId) {
            let sender = &mut self.senders[subflow];
            sender.deadline = NEVER;
            sender.flags &= !(REPEAT | PROBE);
            sender.take_back();
            self.sent[subflow] = VecDeque::new();
        }
        core.complete(flow);
    }

    /// The next packet that a subflow sends: its number there, and that of its data.
    fn take(&mut self, core: &Core, subflow: Subflow, now: Time) -> Option<[u32; 2]> {
        let flow = self.flow(subflow);
        let (sender, sent) = (&mut self.senders[subflow], &mut self.sent[subflow]);
        if !sender.may_send() {
            return None;
        }
        let index = (sender.upcoming() - sender.first) as usize;
        let time = nanoseconds(now);
        if let Some(again) = sent.get_mut(index) {
            again.is_repeated = true;
            return Some([sender.send(), again.data]);
        }
        let Some(data) = self.connections[flow].take(core.flow(flow).packets) else {
            // Another subflow was first.
            sender.take_back();
            return None;
        };
        sent.push_back(Sent { data, time, is_repeated: false, is_elsewhere: false });
        Some([sender.send(), data])
    }
}

/// RFC 6356: `min(alpha / total, 1 / own_window)` of a packet per acknowledgement, turned upside
/// down, of windows in packets and round trips.
///
/// With `alpha = total max(w / rtt^2) / (sum w / rtt)^2`, `total` cancels.
fn coupled(own_window: f64, subflows: impl Iterator<Item = (f64, u32)>) -> f64 {
    let add = |(rate, best): (f64, f64), (window, rtt): (f64, u32)| {
        let pace = window / f64::from(rtt);
        (rate + pace, best.max(pace / f64::from(rtt)))
    };
    let (rate, best) = subflows.fold((0.0, 0.0), add);
    if best > 0.0 { own_window.max(rate * rate / best) } else { own_window }
}

impl Transport for Mptcp {
    fn start(&mut self, core: &mut Core, flow: PacketFlowId) {
        self.expect(core, flow);
        let MptcpParameters { subflows, initial_window, initial_threshold, .. } = self.parameters;
        let least = WINDOW * u32::from(subflows);
        let share = || window(core, flow, least).div_ceil(u32::from(subflows));
        let initial_window = initial_window.unwrap_or_else(share);
        let last = self.subflow(flow, self.parameters.subflows - 1);
        let sender = Sender::new(initial_window, initial_threshold);
        self.senders.make_room(last, sender);
        for subflow in self.subflows(core, flow).map(PacketFlowId) {
            self.senders[subflow] = sender;
        }
        self.sent.make_room(last, VecDeque::new());
        self.probes.make_room(last, Probe::default());
        self.connections.make_room(flow, Connection::default());
        let nic = core.endpoints(flow).source();
        for subflow in self.subflows(core, flow).map(PacketFlowId) {
            self.hand_over(core, nic, subflow);
        }
    }

    fn expect(&mut self, _core: &mut Core, flow: PacketFlowId) {
        let last = self.subflow(flow, self.parameters.subflows - 1);
        self.receivers.make_room(last, Receiver::default());
        self.arrived.make_room(last, Arrived::default());
        self.data.make_room(flow, Receiver::default());
        self.arrived_data.make_room(flow, Arrived::default());
    }

    fn next(&mut self, core: &mut Core, nic: NicId, at: Time) -> Next {
        self.active.heed_pauses(core, nic);
        while let Some(subflow) = self.active.first(nic) {
            let Some([number, data]) = self.take(core, subflow, at) else {
                self.active.remove_first(nic);
                continue;
            };
            self.active.rotate(nic);
            let is_probe = self.senders[subflow].flags & PROBE != 0;
            self.senders[subflow].flags &= !PROBE;
            self.probes[subflow].send(at);
            if self.senders[subflow].deadline == NEVER {
                self.start_deadline(core, subflow, at);
            }
            let (flow, path) = (self.flow(subflow), self.path(subflow));
            let id = core.new_data(flow, data, path);
            let packet = core.packet_mut(id);
            packet.value = number;
            packet.flags |= if is_probe { PROBING } else { 0 };
            return Next::Packet(id);
        }
        Next::Nothing
    }

    #[inline]
    fn prefetch_flow(&self, packet: &Packet) {
        let subflow = self.subflow(packet.flow, packet.path);
        if packet.kind.is_forward() {
            self.receivers.prefetch(subflow);
            self.data.prefetch(packet.flow);
        } else {
            self.senders.prefetch(subflow);
            self.connections.prefetch(packet.flow);
        }
    }

    fn receive(&mut self, core: &mut Core, nic: NicId, packet: Packet) {
        match packet.kind {
            PacketKind::Data => self.data(core, nic, packet),
            PacketKind::Ack => self.acknowledgement(core, nic, packet),
            _ => {}
        }
    }

    fn timer(&mut self, core: &mut Core, flow: PacketFlowId) {
        self.connections[flow].has_timer = false;
        let (now, minimum) = (core.now(), self.parameters.min_timeout);
        for subflow in self.subflows(core, flow).map(PacketFlowId) {
            let sender = &mut self.senders[subflow];
            let is_due = sender.deadline <= now;
            if is_due && !sender.is_early(core.round_trip(flow), minimum, now) {
                self.time_out(core, subflow);
            } else if self.probe_at(core, subflow).is_some_and(|due| due <= now) {
                self.probe(core, subflow);
            }
        }
        self.watch(core, flow);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_near(found: f64, expected: f64) -> bool {
        (found - expected).abs() < 1e-9
    }

    /// alpha = total max(w / rtt^2) / (sum w / rtt)^2, and alpha / total per acknowledgement.
    #[test]
    fn windows_worked_out_by_hand_grow_as_the_rfc_says() {
        // total 30, max(10 / 1, 20 / 4) = 10, sum 10 + 10: alpha = 300 / 400, and 30 / 0.75 = 40.
        let two = || [(10.0, 1), (20.0, 2)].into_iter();
        assert!(is_near(coupled(10.0, two()), 40.0) && is_near(coupled(20.0, two()), 40.0));
        // n equal ones: alpha = 1 / n.
        let equal = (0..4).map(|_| (25.0, 700));
        assert!(is_near(coupled(25.0, equal), 100.0 / 0.25));
        // One alone is TCP.
        assert!(is_near(coupled(17.0, [(17.0, 30)].into_iter()), 17.0));
    }

    /// A small window with a short round trip makes alpha large: no window grows faster than TCP's.
    #[test]
    fn no_window_grows_faster_than_that_of_tcp() {
        // sum 10 + 2, max(1, 2): 144 / 2.
        let windows = || [(100.0, 10), (2.0, 1)].into_iter();
        assert!(is_near(coupled(2.0, windows()), 72.0));
        assert!(is_near(coupled(100.0, windows()), 100.0));
        assert!(is_near(coupled(9.0, std::iter::empty()), 9.0), "nothing is known yet");
    }
}
