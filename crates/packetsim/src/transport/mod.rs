//! Transports: what is sent when.
//!
//! The network calls a transport when a flow starts, when a NIC can send, when a packet arrives at
//! the NIC that it is for, and when a timer of the transport expires. All state of flows that only
//! a transport understands is in the transport, indexed by flow or NIC.
//!
//! A transport is a file here that implements [`Transport`] and `Parameters`, its module and a
//! line of the table below.

mod avoidance;
pub mod dcqcn;
pub mod dctcp;
pub mod eqds;
mod fit;
mod go_back_n;
pub mod hpcc;
mod interface;
mod ledger;
pub mod line_rate;
pub mod mptcp;
pub mod ndp;
pub mod nscc;
mod overdue;
mod paced;
pub mod rccc;
mod recovery;
mod reliable;
mod round_robin;
mod selective;
mod several;
mod spray;
pub mod swift;
mod table;
mod tcp;
mod windowed;

pub use fit::Extent;
pub use interface::{Next, Transport};
pub(crate) use interface::{Parameters, ParametersUser};
pub use recovery::Recovery;
pub(crate) use several::{AnyTransport, Several};

use crate::config::Config;
use crate::error::PacketError;
use lightloom_model::{Duration, Invalid, Rate};

interface::transports! {
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

/// The transport of this name, with the network for which its reference configures it, for NICs of
/// `rate`.
///
/// # Errors
/// If there is none of this name; says which there are.
pub fn profile(name: &str, rate: Rate) -> Result<(Config, TransportKind), PacketError> {
    let name: TransportName = name.parse().map_err(|Invalid(text)| PacketError::Invalid(text))?;
    Ok(TransportKind::profile(name, rate))
}

/// The transport of this name, with a network, that fill links of any rate and length: what
/// [`profile`] has, grown by what a round trip holds, with windows that fill a round trip.
/// The last packet of a flow is no longer than what is left to send.
///
/// # Errors
/// If there is none of this name; says which there are.
pub fn fitted(name: &str, extent: Extent) -> Result<(Config, TransportKind), PacketError> {
    let name: TransportName = name.parse().map_err(|Invalid(text)| PacketError::Invalid(text))?;
    let (config, mut transport) = TransportKind::profile(name, extent.rate);
    let reference = transport.reference_rate().unwrap_or(extent.rate);
    let factor = extent.over(reference, &config);
    transport.fit(factor);
    Ok((Config { full_tail: false, ..config.grown(factor) }, transport))
}
