//! What every transport has: what it does when, and parameters with the network of its reference.

use super::recovery::Recovery;
use super::table::PerFlow;
use crate::config::Config;
use crate::error::PacketError;
use crate::flow::PacketFlowId;
use crate::network::core::Core;
use crate::packet::{Packet, PacketId};
use crate::topology::NicId;
use lightloom_model::{Duration, Rate, Time};
use serde::{Serialize, de::DeserializeOwned};

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
pub(super) fn prefetch_end<S: Clone, R: Clone>(
    packet: &Packet,
    senders: &PerFlow<S>,
    receivers: &PerFlow<R>,
) {
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

/// The parameters of a transport. Their serialized form is what users see: times in picoseconds
/// and rates in bits per second, as the ends of their names say.
pub(crate) trait Parameters: Copy + Serialize + DeserializeOwned {
    /// The transport that they are of.
    type Transport: Transport + Clone + Send + 'static;

    /// Whether switches write into its packets what they know of their links (INT).
    const TELEMETRY: bool = false;

    /// The network for which its reference configures it, and its parameters there. Thresholds and
    /// rates that grow with those of links are for NICs of `rate`.
    fn profile(rate: Rate) -> (Config, Self);

    /// Checks the values.
    ///
    /// # Errors
    /// Says which value is wrong and what was expected.
    fn validate(&self) -> Result<(), PacketError>;

    /// The longest time for which a sender may be silent before it tries again.
    fn longest_timeout(&self) -> Duration;

    /// The rate of NICs for which thresholds of the profile are; `None` where they grow with it.
    fn reference_rate() -> Option<Rate> {
        Some(Rate(100_000_000_000))
    }

    /// Windows fill round trips, and what else is in packets grows by a factor: see
    /// [`super::fitted`].
    fn fit(&mut self, factor: f64) {
        let _ = factor;
    }

    /// The window that a flow begins with and that may hold less than a round trip, in packets, if
    /// it is given.
    fn given_window(&self) -> Option<f64> {
        None
    }

    /// What its NICs do about packets that are missing, if there is a choice.
    fn recovery(&self) -> Option<Recovery> {
        None
    }

    /// The transport for the NICs of a network, of parameters that were checked.
    fn transport(self, core: &Core) -> Self::Transport;
}

/// What works with the parameters of any transport.
pub(crate) trait ParametersUser {
    /// What it makes of them.
    type Result;

    /// Takes those of one.
    fn take<P: Parameters>(self, parameters: P) -> Self::Result;
}

/// Defines [`TransportName`] and [`TransportKind`] from a table of all transports.
macro_rules! transports {
    ($($kind:ident($parameters:ty) = $name:literal: $description:literal,)+) => {
        lightloom_model::choices! {
            /// The transports that [`profile`] knows.
            pub enum TransportName: "transport" {
                $($kind = $name: $description,)+
            }
        }

        /// A transport and its parameters.
        #[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(tag = "name")]
        pub enum TransportKind {
            $(#[doc = $description] #[serde(rename = $name)] $kind($parameters),)+
        }

        impl TransportKind {
            /// Its name.
            pub fn name(self) -> TransportName {
                match self {
                    $(Self::$kind(_) => TransportName::$kind,)+
                }
            }

            /// Its parameters with the network for which its reference configures it.
            pub(crate) fn profile(name: TransportName, rate: Rate) -> (Config, Self) {
                match name {
                    $(TransportName::$kind => {
                        let (config, parameters) = <$parameters>::profile(rate);
                        let telemetry = <$parameters>::TELEMETRY;
                        (Config { telemetry, ..config }, Self::$kind(parameters))
                    })+
                }
            }

            /// The rate of NICs for which the thresholds of the profile are, if it is one rate.
            pub(super) fn reference_rate(self) -> Option<Rate> {
                match self {
                    $(Self::$kind(_) => <$parameters>::reference_rate(),)+
                }
            }

            /// Windows fill round trips, and what else is in packets grows by a factor.
            pub(super) fn fit(&mut self, factor: f64) {
                match self {
                    $(Self::$kind(parameters) => parameters.fit(factor),)+
                }
            }

            /// What its NICs do about packets that are missing, if there is a choice.
            pub(crate) fn recovery(self) -> Option<Recovery> {
                match self {
                    $(Self::$kind(parameters) => parameters.recovery(),)+
                }
            }

            /// The window that a flow begins with, in packets, if it is given.
            pub(crate) fn given_window(self) -> Option<f64> {
                match self {
                    $(Self::$kind(parameters) => parameters.given_window(),)+
                }
            }

            /// The longest time for which a sender may be silent before it tries again.
            pub(crate) fn longest_timeout(self) -> Duration {
                match self {
                    $(Self::$kind(parameters) => parameters.longest_timeout(),)+
                }
            }

            /// Hands the parameters to what works with those of any transport.
            pub(crate) fn hand_to<U: ParametersUser>(self, user: U) -> U::Result {
                match self {
                    $(Self::$kind(parameters) => user.take(parameters),)+
                }
            }
        }
    };
}
pub(super) use transports;
