//! What NICs that spray packets over planes see of these, see [`super::super::plane_watch`].

use super::Core;
use crate::flow::PacketFlowId;
use crate::network::clock::Timer;
use crate::packet::{Packet, PacketId};
use crate::topology::PacketLinkId;
use lightloom_model::{Bytes, Duration};

impl Core {
    /// Whether NICs watch what arrives over planes.
    #[inline]
    pub(in crate::network) fn watches_planes(&self) -> bool {
        self.fabric.planes.is_some()
    }

    /// A packet that came over `over` goes to `next`: out of a NIC by a port on a plane, or into
    /// the host, or it is at a switch. Returns packets that a NIC sends again, as
    /// [`Self::check_plane`].
    #[cold]
    pub(in crate::network) fn watch_plane(
        &mut self,
        over: PacketLinkId,
        next: PacketLinkId,
        id: PacketId,
        packet: &Packet,
    ) -> Vec<(PacketLinkId, Packet)> {
        let now = self.clock.now();
        let links = self.topology.links();
        let (is_from_host, is_to_host) = (
            self.topology.is_host(links[over.index()].from),
            self.topology.is_host(links[next.index()].to),
        );
        let mut again = Vec::new();
        if is_to_host && let Some(planes) = &mut self.fabric.planes {
            again = planes.arrive(id, now);
        }
        if is_from_host {
            let to = self.endpoints(packet.flow).target(packet.kind.is_forward());
            let known = self.fabric.planes.as_ref().and_then(|planes| planes.stream(next, to));
            let patience = match known {
                None => self.plane_patience(packet.flow, next),
                Some(_) => Duration::ZERO,
            };
            if let Some(planes) = &mut self.fabric.planes {
                let stream = known.unwrap_or_else(|| planes.begin(next, to, patience));
                planes.send(stream, id, *packet, now);
            }
        }
        self.over_from_hosts(again)
    }

    /// Packets, with the links by which they came from hosts.
    fn over_from_hosts(&self, packets: Vec<Packet>) -> Vec<(PacketLinkId, Packet)> {
        let over = |packet: &Packet| {
            let ends = self.endpoints(packet.flow);
            self.nics.uplink(ends.target(!packet.kind.is_forward()))
        };
        packets.into_iter().map(|packet| (over(&packet), packet)).collect()
    }

    /// Time without an arrival after which a NIC takes a plane for failed: as given, or twice the
    /// round trip of a flow and what a full queue, of two round trips at most, takes.
    fn plane_patience(&self, flow: PacketFlowId, port: PacketLinkId) -> Duration {
        self.config.plane_silence.unwrap_or_else(|| {
            let round_trip = self.round_trip(flow).0;
            let queue = self
                .fabric
                .links()
                .rate(port)
                .transmission(Bytes(u64::from(self.config.queue_bytes)));
            Duration(2 * round_trip + queue.0.min(2 * round_trip))
        })
    }

    /// A NIC looks whether anything arrives by one of its ports: packets that it sends again, with
    /// the links by which they came from hosts.
    pub(in crate::network) fn check_plane(&mut self, stream: u32) -> Vec<(PacketLinkId, Packet)> {
        let Some(planes) = &mut self.fabric.planes else { return Vec::new() };
        let mut packets = Vec::new();
        if let Some(time) = planes.check(stream, self.clock.now(), &mut packets) {
            self.clock.set_timer(time, Timer::Plane(stream));
        }
        self.over_from_hosts(packets)
    }
}
