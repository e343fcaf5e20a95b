//! Explicit routes through hosts, and flows that finish when they arrive.

use super::{flow, plain};
use crate::transport::line_rate::LineRate;
use crate::transport::{Next, Transport};
use crate::{
    Cable, Control, Core, FlowSpec, NicId, Packet, PacketFlowId, PacketKind, PacketLinkId,
    Simulation, Topology,
};
use lightloom_kernel::Silent;
use lightloom_model::{Duration, Rate, Time};

const US: u64 = 1_000_000;
/// A full packet at 100 Gb/s.
const PACKET: u64 = 4160 * 80;

/// One packet per flow, on whatever path, acknowledged on another.
struct Stray(Vec<PacketFlowId>);

impl Transport for Stray {
    fn start(&mut self, _core: &mut Core, flow: PacketFlowId) {
        self.0.push(flow);
    }

    fn next(&mut self, core: &mut Core, _nic: NicId, _at: Time) -> Next {
        self.0.pop().map_or(Next::Nothing, |flow| Next::Packet(core.new_data(flow, 0, 7)))
    }

    fn receive(&mut self, core: &mut Core, nic: NicId, packet: Packet) {
        assert_eq!(packet.path, 0, "transports see no places on routes");
        if packet.kind == PacketKind::Data {
            core.receive(packet.flow);
            let ack = Control::new(PacketKind::Ack, packet.flow);
            core.send_control(nic, Control { sequence: 1, path: 9, ..ack });
        } else {
            core.complete(packet.flow);
        }
    }
}

/// Three hosts in a line, and the route from the first over the second to the third.
fn line() -> (Topology, FlowSpec) {
    let mut topology = Topology::new();
    let hosts: Vec<_> = (0..3).map(|_| topology.add_host()).collect();
    let mut route: Vec<PacketLinkId> = Vec::new();
    for pair in hosts.windows(2) {
        let rate = Rate(100_000_000_000);
        route.push(
            topology
                .connect(pair[0], pair[1], Cable { rate, delay: Duration(US) }, ["", ""])
                .unwrap(),
        );
    }
    // NICs 0 and 1 are the ends of the first link, 2 and 3 of the second.
    (topology, FlowSpec { route: Some(route), ..flow((0, 3), 4096) })
}

fn first_finish<T: Transport>(
    mut simulation: Simulation<T>,
    spec: &FlowSpec,
    on_arrival: bool,
) -> u64 {
    if on_arrival {
        simulation.finish_on_arrival();
    }
    simulation.add_flow(spec).unwrap();
    let mut done = Vec::new();
    assert!(simulation.advance(Time(u64::MAX), &mut done, &mut Silent).unwrap());
    assert_eq!(done, [PacketFlowId(0)]);
    let now = simulation.core().now().0;
    assert!(!simulation.advance(Time(u64::MAX), &mut done, &mut Silent).unwrap(), "once only");
    now
}

#[test]
fn flows_finish_when_acknowledged_or_when_they_arrive() {
    let arrival = 2 * (PACKET + US);
    let acknowledged = arrival + 2 * (64 * 80 + US);
    for (on_arrival, expected) in [(true, arrival), (false, acknowledged)] {
        let (topology, spec) = line();
        let simulation = Simulation::new(topology, plain(), LineRate::new).unwrap();
        assert_eq!(first_finish(simulation, &spec, on_arrival), expected);
    }
}

#[test]
fn routes_hold_whatever_path_a_transport_chooses() {
    let (topology, spec) = line();
    let simulation = Simulation::new(topology, plain(), |_| Stray(Vec::new())).unwrap();
    assert_eq!(first_finish(simulation, &spec, true), 2 * (PACKET + US));
}
