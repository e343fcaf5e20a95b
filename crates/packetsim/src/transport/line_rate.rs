//! Line rate without congestion control: RoCE where the network is lossless (PFC), ideal where
//! buffers are unlimited; elsewhere what go-back-N alone can do.

use super::go_back_n::GoBackN;
use super::round_robin::RoundRobin;
use super::{Next, Transport};
use crate::flow::PacketFlowId;
use crate::network::core::Core;
use crate::packet::Packet;
use crate::topology::NicId;
use lightloom_model::{Duration, Time};

/// Time without acknowledgements after which a flow goes back: 4.096 us x 2^14, the timeout 14 that
/// programs commonly ask for when they set up a connection (`ibv_modify_qp`).
pub const TIMEOUT: Duration = Duration(4_096_000 << 14);

/// State of the flows.
#[derive(Debug, Clone)]
pub struct LineRate {
    active: RoundRobin,
    packets: GoBackN,
}

impl LineRate {
    /// For the NICs of a network.
    pub fn new(core: &Core) -> Self {
        Self { active: RoundRobin::new(core.nic_count()), packets: GoBackN::new(core, TIMEOUT) }
    }
}

impl Transport for LineRate {
    fn start(&mut self, core: &mut Core, flow: PacketFlowId) {
        self.packets.start(core, flow);
        self.active.add(core.endpoints(flow).source(), flow);
    }

    fn expect(&mut self, _core: &mut Core, flow: PacketFlowId) {
        self.packets.expect(flow);
    }

    fn next(&mut self, core: &mut Core, nic: NicId, _at: Time) -> Next {
        while let Some(flow) = self.active.first(nic) {
            if self.packets.has_more(flow) {
                let id = self.packets.send(core, flow);
                self.active.rotate(nic);
                return Next::Packet(id);
            }
            self.active.remove_first(nic);
        }
        Next::Nothing
    }

    fn receive(&mut self, core: &mut Core, nic: NicId, packet: Packet) {
        if self.packets.receive(core, nic, packet) {
            self.active.add(nic, packet.flow);
        }
    }

    #[inline]
    fn prefetch_flow(&self, packet: &Packet) {
        self.packets.prefetch(packet);
    }

    fn timer(&mut self, core: &mut Core, flow: PacketFlowId) {
        if self.packets.timer(core, flow) {
            self.active.add(core.endpoints(flow).source(), flow);
        }
    }
}
