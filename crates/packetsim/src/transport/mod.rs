//! Transports: what is sent when.
//!
//! The network calls a transport when a flow starts, when a NIC can send, when a packet arrives at
//! the NIC that it is for, and when a timer of the transport expires. All state of flows that only
//! a transport understands is in the transport, indexed by flow or NIC.
//!
//! A transport is a file here that implements [`Transport`] and [`Parameters`], its module and a
//! line of the table below.

mod avoidance;
pub mod dcqcn;
pub mod dctcp;
pub mod eqds;
mod go_back_n;
pub mod hpcc;
mod kinds;
mod ledger;
pub mod line_rate;
pub mod mptcp;
pub mod ndp;
pub mod nscc;
mod overdue;
pub mod rccc;
mod round_robin;
mod spray;
pub mod swift;
mod table;
mod tcp;
mod windowed;

pub(crate) use kinds::Parameters;
pub use kinds::profile;

use crate::config::Config;
use crate::error::PacketError;
use crate::flow::PacketFlowId;
use crate::network::any::AnySimulation;
use crate::network::core::Core;
use crate::network::halves::Halves;
use crate::packet::{Packet, PacketId};
use crate::topology::{NicId, Topology};
use lightloom_model::{Duration, Rate, Time};
use table::PerFlow;

kinds::transports! {
    Ideal(line_rate::LineRateParameters<false>) =
        "ideal": "Sends at line rate into endless queues: hash collisions alone",
    Roce(line_rate::LineRateParameters<true>) =
        "roce": "Sends at line rate over a lossless network (PFC)",
    Dctcp(dctcp::DctcpParameters) =
        "dctcp": "A window that follows the share of marked packets",
    Mptcp(mptcp::MptcpParameters) =
        "mptcp": "Subflows on several paths, with windows that are coupled (LIA)",
    Dcqcn(dcqcn::DcqcnParameters) =
        "dcqcn": "Rates that congestion notifications cut, over a lossless network",
    Hpcc(hpcc::HpccParameters) =
        "hpcc": "Windows that switches' telemetry (INT) sets, over a lossless network",
    Swift(swift::SwiftParameters) =
        "swift": "Windows that keep the delay of packets near a target",
    Ndp(ndp::NdpParameters) =
        "ndp": "Pulls by the receiver, over switches that trim packets",
    Eqds(eqds::EqdsParameters) =
        "eqds": "Credit from the receiver, over switches that trim packets",
    Nscc(nscc::NsccParameters) =
        "uet-nscc": "Ultra Ethernet: windows by delay and marks, over such switches",
    Rccc(rccc::RcccParameters) =
        "uet-rccc": "Ultra Ethernet: credit from the receiver, over such switches",
}

/// What a NIC that can send does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// It sends this packet, made by [`Core::new_data`].
    Packet(PacketId),
    /// It sends nothing before this time.
    At(Time),
    /// It sends nothing until something else happens.
    Nothing,
}

/// Prefetches the state of a flow at the end that a packet is for.
#[inline]
fn prefetch_end<S: Clone, R: Clone>(packet: &Packet, senders: &PerFlow<S>, receivers: &PerFlow<R>) {
    if packet.kind.is_forward() {
        receivers.prefetch(packet.flow);
    } else {
        senders.prefetch(packet.flow);
    }
}

/// One transport, for all flows of a run.
pub trait Transport {
    /// A flow starts. Called in the order of [`PacketFlowId`]s at equal times, not overall.
    fn start(&mut self, core: &mut Core, flow: PacketFlowId);

    /// The receiver of a flow is made ready, which [`Self::start`] does otherwise: the flow will
    /// start in the other half of the network, which another instance simulates. Called when all
    /// flows are known, before any starts.
    fn expect(&mut self, core: &mut Core, flow: PacketFlowId) {
        let _ = (core, flow);
    }

    /// The NIC's transmitter is free at `at` (which may be shortly before [`Core::now`]) and
    /// nothing waits in its queues.
    fn next(&mut self, core: &mut Core, nic: NicId, at: Time) -> Next;

    /// A packet arrived at the NIC that it is for: the receiver's or the sender's.
    fn receive(&mut self, core: &mut Core, nic: NicId, packet: Packet);

    /// A packet will arrive soon at the NIC that it is for: prefetches the state of its flow.
    #[inline]
    fn prefetch_flow(&self, packet: &Packet) {
        let _ = packet;
    }

    /// It will arrive very soon: prefetches the state of the packet, by means of that of its flow.
    #[inline]
    fn prefetch_packet(&self, packet: &Packet) {
        let _ = packet;
    }

    /// The time set by [`Core::wake`] has come.
    fn wake(&mut self, core: &mut Core, nic: NicId) {
        let _ = (core, nic);
    }

    /// A timer set by [`Core::set_timer`] for a flow expires.
    fn timer(&mut self, core: &mut Core, flow: PacketFlowId) {
        let _ = (core, flow);
    }
}
