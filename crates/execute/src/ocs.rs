//! Regional circuit switches as a network describes them.

use lightloom_decide::{Reconfigure, When};
use lightloom_model::{
    Allocator, Duration, Failures, Fibers, FirstAllToAll, Rate, SwitchTiming, by_name,
};
use serde::{Deserialize, Deserializer};

/// The chunks in which servers pass bytes on that are on their way to others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(from = "[u64; 2]")]
pub struct RelayChunk {
    /// Bytes are passed on in chunks of this size, each once it has arrived.
    pub bytes: u64,
    /// Time to notice a chunk and to start its copy and its sending.
    pub latency: Duration,
}

impl From<[u64; 2]> for RelayChunk {
    fn from([bytes, latency]: [u64; 2]) -> Self {
        Self { bytes, latency: Duration(latency) }
    }
}

/// Regional circuit switches and how they are used.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Ocs {
    /// Optical ports per server (the degree, or alpha, of the paper).
    pub ports: u32,
    /// Rate of each.
    #[serde(rename = "nic_rate_bps")]
    pub nic_rate: Rate,
    /// Propagation delay of one circuit.
    #[serde(rename = "circuit_delay_ps")]
    pub circuit_delay: Duration,
    /// Region of each server; servers without one have `u32::MAX`.
    pub region_of_server: Vec<u32>,
    /// How fibers are laid where a region has one switch per NIC index; `None` where one switch
    /// joins any two of its ports.
    pub planes: Option<Fibers>,
    /// Demand to circuits.
    #[serde(with = "by_name")]
    pub allocator: Allocator,
    /// When circuits follow the demand.
    #[serde(with = "by_name")]
    pub when: Reconfigure,
    /// What the first all-to-all of a forward pass does.
    #[serde(with = "by_name")]
    pub first: FirstAllToAll,
    /// Whether a pair with circuits may send its excess over the EPS.
    pub split: bool,
    /// The chunks in which servers pass bytes on, if they do.
    pub relaying: Option<RelayChunk>,
    /// How long a switch takes.
    pub timing: SwitchTiming,
    /// What has failed. A failed server is taken to be replaced by a spare one without circuits,
    /// which only the packet fabric reaches.
    #[serde(deserialize_with = "or_none")]
    pub failures: Failures,
}

/// Nothing has failed if it is not said.
fn or_none<'de, D: Deserializer<'de>>(source: D) -> Result<Failures, D::Error> {
    Option::deserialize(source).map(Option::unwrap_or_default)
}

impl Ocs {
    /// When circuits are decided.
    pub(crate) fn when(&self) -> When {
        When { policy: self.when, first: self.first }
    }
}
