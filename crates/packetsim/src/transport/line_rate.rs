//! Line rate without congestion control: RoCE where the network is lossless (PFC), ideal where
//! buffers are unlimited; elsewhere what go-back-N alone can do.

use super::interface::{Next, Parameters, Transport};
use super::recovery::Recovery;
use super::reliable::Reliable;
use super::round_robin::RoundRobin;
use crate::config::{Config, Pfc};
use crate::error::PacketError;
use crate::flow::PacketFlowId;
use crate::network::core::Core;
use crate::packet::Packet;
use crate::topology::NicId;
use lightloom_model::{Duration, Rate, Time, by_name};
use serde::{Deserialize, Serialize};

/// Time without acknowledgements after which a flow goes back: 4.096 us x 2^14, the timeout 14 that
/// programs commonly ask for when they set up a connection (`ibv_modify_qp`).
pub const TIMEOUT: Duration = Duration(4_096_000 << 14);

/// A lossless network or endless queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LineRateParameters<const LOSSLESS: bool> {
    /// What NICs do about packets that are missing.
    #[serde(with = "by_name")]
    pub recovery: Recovery,
}

impl<const LOSSLESS: bool> Parameters for LineRateParameters<LOSSLESS> {
    type Transport = LineRate;

    /// Lossless as `htsim_roce` of csg-htsim: pauses from 15 packets on, goes on below 12.
    fn profile(_rate: Rate) -> (Config, Self) {
        let pauses = Pfc { pause_bytes: 15 * 4096, resume_bytes: 12 * 4096 };
        (
            Config { pfc: LOSSLESS.then_some(pauses), ..Config::ENDLESS },
            Self { recovery: Recovery::Auto },
        )
    }

    fn validate(&self) -> Result<(), PacketError> {
        Ok(())
    }

    fn recovery(&self) -> Option<Recovery> {
        Some(self.recovery)
    }

    fn longest_timeout(&self) -> Duration {
        TIMEOUT
    }

    fn transport(self, core: &Core) -> LineRate {
        LineRate::with_recovery(core, self.recovery)
    }
}

/// State of the flows.
#[derive(Debug, Clone)]
pub struct LineRate {
    active: RoundRobin,
    packets: Reliable,
}

impl LineRate {
    /// For the NICs of a network.
    pub fn new(core: &Core) -> Self {
        Self::with_recovery(core, Recovery::Auto)
    }

    /// For NICs that recover in this way.
    pub fn with_recovery(core: &Core, recovery: Recovery) -> Self {
        Self { active: RoundRobin::new(core), packets: Reliable::new(core, recovery, TIMEOUT) }
    }
}

impl Transport for LineRate {
    fn start(&mut self, core: &mut Core, flow: PacketFlowId) {
        self.packets.start(core, flow);
        self.active.add(core.endpoints(flow).source(), flow, core.priority(flow));
    }

    fn expect(&mut self, core: &mut Core, flow: PacketFlowId) {
        self.packets.expect(core, flow);
    }

    fn next(&mut self, core: &mut Core, nic: NicId, _at: Time) -> Next {
        self.active.heed_pauses(core, nic);
        while let Some(flow) = self.active.first(nic) {
            if let Some(id) = self.packets.send(core, flow) {
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

    fn timer(&mut self, core: &mut Core, flow: PacketFlowId) {
        if self.packets.timer(core, flow) {
            self.active.add(core.endpoints(flow).source(), flow, core.priority(flow));
        }
    }
}
