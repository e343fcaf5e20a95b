//! A transport on a bench: its calls one by one, without a network between its ends.

use crate::transport::{Next, Transport};
use crate::{Config, Core, FlowSpec, MARKED, NicId, Packet, PacketFlowId, PacketKind, Topology};
use lightloom_model::Time;

/// A transport and the state of a network in which nothing moves by itself.
pub(crate) struct Bench<T> {
    pub(crate) core: Core,
    pub(crate) transport: T,
}

impl<T: Transport> Bench<T> {
    pub(crate) fn new(
        topology: Topology,
        config: Config,
        transport: impl FnOnce(&Core) -> T,
        flows: &[FlowSpec],
    ) -> Self {
        let core = Core::with_flows(topology, config, flows);
        let transport = transport(&core);
        Self { core, transport }
    }

    /// Starts a flow.
    pub(crate) fn start(&mut self, flow: u32) {
        self.transport.start(&mut self.core, PacketFlowId(flow));
    }

    /// What a NIC sends now.
    pub(crate) fn next(&mut self, nic: u32) -> Option<Packet> {
        let now = self.core.now();
        match self.transport.next(&mut self.core, NicId(nic), now) {
            Next::Packet(id) => Some(self.core.take_packet(id)),
            Next::At(_) | Next::Nothing => None,
        }
    }

    /// When a NIC that has nothing to send now will have something.
    pub(crate) fn next_time(&mut self, nic: u32) -> Option<Time> {
        let now = self.core.now();
        match self.transport.next(&mut self.core, NicId(nic), now) {
            Next::At(time) => Some(time),
            Next::Nothing => None,
            Next::Packet(_) => panic!("it sends now"),
        }
    }

    /// What a NIC sends until it has nothing more, at most so many packets.
    pub(crate) fn burst(&mut self, nic: u32, at_most: usize) -> Vec<Packet> {
        std::iter::from_fn(|| self.next(nic)).take(at_most).collect()
    }

    /// A packet arrives at the end that it is for; returns the control packets that it causes
    /// there.
    pub(crate) fn deliver(&mut self, packet: Packet) -> Vec<Packet> {
        let endpoints = self.core.endpoints(packet.flow);
        let nic = endpoints.target(packet.kind.is_forward());
        self.transport.receive(&mut self.core, nic, packet);
        self.core.take_queued(nic)
    }

    /// The switches trim a packet before it arrives.
    pub(crate) fn deliver_trimmed(&mut self, packet: Packet) -> Vec<Packet> {
        self.deliver(Packet { kind: PacketKind::Header, size: 64, ..packet })
    }

    /// The switches mark a packet before it arrives.
    pub(crate) fn deliver_marked(&mut self, packet: Packet) -> Vec<Packet> {
        self.deliver(Packet { flags: packet.flags | MARKED, ..packet })
    }

    /// The time of a NIC's wake-up has come; returns the control packets that it causes there.
    pub(crate) fn wake(&mut self, nic: u32) -> Vec<Packet> {
        self.transport.wake(&mut self.core, NicId(nic));
        self.core.take_queued(NicId(nic))
    }

    /// A flow's timer expires; returns the control packets that it causes at the sender.
    pub(crate) fn timer(&mut self, flow: u32) -> Vec<Packet> {
        self.transport.timer(&mut self.core, PacketFlowId(flow));
        let source = self.core.endpoints(PacketFlowId(flow)).source();
        self.core.take_queued(source)
    }
}

/// Kinds and sequence numbers of packets.
pub(crate) fn brief(packets: &[Packet]) -> Vec<(PacketKind, u32)> {
    packets.iter().map(|packet| (packet.kind, packet.sequence)).collect()
}

/// Sequence numbers of packets.
pub(crate) fn sequences(packets: &[Packet]) -> Vec<u32> {
    packets.iter().map(|packet| packet.sequence).collect()
}
