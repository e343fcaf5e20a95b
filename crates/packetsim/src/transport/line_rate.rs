//! Line rate without congestion control: RoCE where the network is lossless (PFC), ideal where
//! buffers are unlimited; elsewhere what go-back-N alone can do.

use super::go_back_n::GoBackN;
use super::interface::{Next, Parameters, Transport};
use super::round_robin::RoundRobin;
use crate::config::{Config, Pfc};
use crate::error::PacketError;
use crate::flow::PacketFlowId;
use crate::network::core::Core;
use crate::packet::Packet;
use crate::topology::NicId;
use lightloom_model::{Duration, Rate, Time};
use serde::{Deserialize, Serialize};

/// Time without acknowledgements after which a flow goes back: 4.096 us x 2^14, the timeout 14 that
/// programs commonly ask for when they set up a connection (`ibv_modify_qp`).
pub const TIMEOUT: Duration = Duration(4_096_000 << 14);

/// A lossless network or endless queues; there is nothing else to choose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LineRateParameters<const LOSSLESS: bool> {}

impl<const LOSSLESS: bool> Parameters for LineRateParameters<LOSSLESS> {
    type Transport = LineRate;

    /// Lossless as `htsim_roce` of csg-htsim: pauses from 15 packets on, goes on below 12.
    fn profile(_rate: Rate) -> (Config, Self) {
        let pauses = Pfc { pause_bytes: 15 * 4096, resume_bytes: 12 * 4096 };
        (Config { pfc: LOSSLESS.then_some(pauses), ..Config::ENDLESS }, Self {})
    }

    fn validate(&self) -> Result<(), PacketError> {
        Ok(())
    }

    fn longest_timeout(&self) -> Duration {
        TIMEOUT
    }

    fn transport(self, core: &Core) -> LineRate {
        LineRate::new(core)
    }
}

/// State of the flows.
#[derive(Debug, Clone)]
pub struct LineRate {
    active: RoundRobin,
    packets: GoBackN,
}

impl LineRate {
    /// For the NICs of a network.
    pub fn new(core: &Core) -> Self {
        Self { active: RoundRobin::new(core), packets: GoBackN::new(core, TIMEOUT) }
    }
}

impl Transport for LineRate {
    fn start(&mut self, core: &mut Core, flow: PacketFlowId) {
        self.packets.start(core, flow);
        self.active.add(core.endpoints(flow).source(), flow, core.priority(flow));
    }

    fn expect(&mut self, _core: &mut Core, flow: PacketFlowId) {
        self.packets.expect(flow);
    }

    fn next(&mut self, core: &mut Core, nic: NicId, _at: Time) -> Next {
        self.active.heed_pauses(core, nic);
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
            self.active.add(nic, packet.flow, core.priority(packet.flow));
        }
    }

    #[inline]
    fn prefetch_flow(&self, packet: &Packet) {
        self.packets.prefetch(packet);
    }

    fn spare(&self, _core: &Core, flow: PacketFlowId) -> u32 {
        self.packets.spare(flow)
    }

    fn shorten(&mut self, flow: PacketFlowId, packets: u32) {
        self.packets.shorten(flow, packets);
    }

    fn timer(&mut self, core: &mut Core, flow: PacketFlowId) {
        if self.packets.timer(core, flow) {
            self.active.add(core.endpoints(flow).source(), flow, core.priority(flow));
        }
    }
}
