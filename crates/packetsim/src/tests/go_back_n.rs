//! Loss and recovery at line rate, and NICs that wait.

use super::{flow, in_order, plain, run};
use crate::presets::star;
use crate::transport::Next;
use crate::transport::Transport;
use crate::transport::line_rate::{LineRate, TIMEOUT};
use crate::{
    Config, Core, FlowSpec, NicId, Packet, PacketFlowId, PacketKind, PacketLinkId, Simulation,
};
use lightloom_model::{Duration, Rate, Time};

const US: u64 = 1_000_000;
const FAST: Rate = Rate(100_000_000_000);
/// Time to send a packet, an acknowledgement, at 100 Gb/s, in ps.
const SPAN: u64 = 332_800;
const ACK: u64 = 5_120;

/// Data packets that crossed the link to a host of a star.
fn delivered<T: Transport>(simulation: &Simulation<T>, host: u32) -> u64 {
    simulation.core().sent_bytes(PacketLinkId(2 * host + 1)) / 4160
}

fn drops<T: Transport>(simulation: &Simulation<T>, hosts: u32) -> u64 {
    (0..2 * hosts).map(|link| simulation.core().link_counters(PacketLinkId(link)).drops).sum()
}

/// Two flows of five packets to one host, whose port holds one packet in addition to the one in
/// service. Every packet of the second flow but one finds it full.
#[test]
fn a_lost_tail_comes_after_the_timeout() {
    let config = Config { queue_bytes: 4160, control_priority: true, ..plain() };
    let topology = star(3, FAST, Duration(US)).unwrap();
    let specs = in_order([flow((0, 2), 2 * 4096), flow((1, 2), 3 * 4096)]);
    let (simulation, flows) = run(topology, config, LineRate::new, &specs);
    // At 2 us and each packet time both send one: of the first pair, one is sent, one queued; of
    // the second, the first flow's joins as the queued one leaves, the second's is lost; its third
    // packet, behind a gap, joins, is refused and asked for: go back to packet 1.
    assert_eq!(drops(&simulation, 3), 1);
    let span = |packets: u64| packets * SPAN;
    assert_eq!(flows[0].received_at, span(1) + US + span(3) + US);
    // The third packet arrives behind three others, its NACK takes two links, and packets 1 and 2
    // follow at once.
    let requested = span(1) + US + span(4) + US + 2 * (ACK + US);
    assert_eq!(flows[1].received_at, requested + span(3) + 2 * US);
    assert!(flows[1].done_at < TIMEOUT.0);
    assert_eq!(delivered(&simulation, 2), 2 + 1 + 1 + 2);

    // Now the lost packet is the flow's last, and only time tells.
    let specs = in_order([flow((0, 2), 2 * 4096), flow((1, 2), 2 * 4096)]);
    let topology = star(3, FAST, Duration(US)).unwrap();
    let (simulation, flows) = run(topology, config, LineRate::new, &specs);
    assert_eq!(drops(&simulation, 3), 1);
    // The timeout counts from the acknowledgement of the packet before it.
    let acknowledged = span(1) + US + span(2) + US + 2 * (ACK + US);
    let received = acknowledged + TIMEOUT.0 + span(2) + 2 * US;
    assert_eq!(flows[1].received_at, received);
}

/// Sends the packets of each flow at a distance of its own, in us: its size in packets.
#[derive(Debug, Clone, Default)]
struct Paced {
    flows: Vec<(PacketFlowId, Time)>,
    sent: Vec<(PacketFlowId, Time)>,
}

impl Transport for Paced {
    fn start(&mut self, core: &mut Core, flow: PacketFlowId) {
        self.flows.push((flow, core.now()));
    }

    fn next(&mut self, core: &mut Core, _nic: NicId, at: Time) -> Next {
        let Some(first) = self.flows.iter_mut().min_by_key(|(_, time)| *time) else {
            return Next::Nothing;
        };
        if first.1 > at {
            return Next::At(first.1);
        }
        let flow = first.0;
        first.1 += Duration(u64::from(core.flow(flow).packets) * US);
        self.sent.push((flow, at));
        if self.sent.len() == 12 {
            self.flows.clear();
        }
        Next::Packet(core.new_data(flow, 0, 0))
    }

    fn receive(&mut self, _core: &mut Core, _nic: NicId, packet: Packet) {
        assert_eq!(packet.kind, PacketKind::Data);
    }
}

/// A NIC that waits for a slow flow does not keep a faster one waiting that starts later.
#[test]
fn nics_wake_for_the_earliest_of_their_flows() {
    let topology = star(2, FAST, Duration(US)).unwrap();
    let slow = flow((0, 1), 100 * 4096);
    let fast = FlowSpec { start: Time(30 * US), ..flow((0, 1), 15 * 4096) };
    let mut simulation = Simulation::new(topology, plain(), |_| Paced::default()).unwrap();
    for spec in [slow, fast] {
        simulation.add_flow(&spec).unwrap();
    }
    let silent = &mut lightloom_kernel::Silent;
    assert!(!simulation.advance(Time(u64::MAX), &mut Vec::new(), silent).unwrap());
    let times = [(0, 0), (1, 30), (1, 45), (1, 60), (1, 75), (1, 90), (0, 100), (1, 105)];
    let rest = [(1, 120), (1, 135), (1, 150), (1, 165)];
    let expected: Vec<(PacketFlowId, Time)> = times
        .iter()
        .chain(&rest)
        .map(|&(flow, time)| (PacketFlowId(flow), Time(time * US)))
        .collect();
    assert_eq!(simulation.transport().sent, expected);
}
