//! Line rate without congestion control: RoCE where the network is lossless (PFC), ideal where
//! buffers have no end; elsewhere what go-back-N alone can do.

use super::go_back_n::GoBackN;
use super::{ActiveFlows, Next, Transport};
use crate::core::Core;
use crate::packet::Packet;
use lightloom_model::Duration;

/// Time without news after which a flow begins again: 4.096 us x 2^14, the timeout 14 that programs
/// commonly ask for when they set up a connection (`ibv_modify_qp`).
pub const TIMEOUT: Duration = Duration(4_096_000 << 14);

/// State of the flows.
#[derive(Debug, Clone)]
pub struct LineRate {
    active: ActiveFlows,
    packets: GoBackN,
}

impl LineRate {
    /// For the NICs of a network.
    pub fn new(core: &Core) -> Self {
        Self { active: ActiveFlows::new(core.nic_count()), packets: GoBackN::new(core, TIMEOUT) }
    }
}

impl Transport for LineRate {
    fn start(&mut self, core: &mut Core, flow: u32) {
        self.packets.start(core, flow);
        self.active.add(core.ends(flow)[0], flow);
    }

    fn next(&mut self, core: &mut Core, nic: u32, _at: u64) -> Next {
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

    fn receive(&mut self, core: &mut Core, nic: u32, packet: Packet) {
        if self.packets.receive(core, nic, packet) {
            self.active.add(nic, packet.flow);
        }
    }

    #[inline]
    fn prefetch(&self, packet: &Packet) {
        self.packets.prefetch(packet);
    }

    fn timer(&mut self, core: &mut Core, flow: u32, _tag: u32) {
        if self.packets.timer(core, flow) {
            self.active.add(core.ends(flow)[0], flow);
        }
    }
}
