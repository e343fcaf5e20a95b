//! Regional circuit switches as a network describes them.

use lightloom_decide::{Reconfigure, When};
use lightloom_model::{Allocator, Duration, Failures, Fibers, FirstAllToAll, Rate, SwitchTiming};

/// The chunks in which servers pass bytes on that are on their way to others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RelayChunk {
    /// Bytes are passed on in chunks of this size, each once it has arrived.
    pub bytes: u64,
    /// Time to notice a chunk and to start its copy and its sending.
    pub latency: Duration,
}

/// Regional circuit switches and how they are used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ocs {
    /// Optical ports per server (the degree, or alpha, of the paper).
    pub ports: u32,
    /// Rate of each.
    pub nic_rate: Rate,
    /// Propagation delay of one circuit.
    pub circuit_delay: Duration,
    /// Region of each server; servers without one have `u32::MAX`.
    pub region_of_server: Vec<u32>,
    /// How fibers are laid where a region has one switch per NIC index; `None` where one switch
    /// joins any two of its ports.
    pub planes: Option<Fibers>,
    /// Demand to circuits.
    pub allocator: Allocator,
    /// When circuits follow the demand.
    pub when: Reconfigure,
    /// What the first all-to-all of a forward pass does.
    pub first: FirstAllToAll,
    /// Whether a pair with circuits may send its excess over the EPS.
    pub split: bool,
    /// The chunks in which servers pass bytes on, if they do.
    pub relaying: Option<RelayChunk>,
    /// How long a switch takes.
    pub timing: SwitchTiming,
    /// What has failed. A failed server is taken to be replaced by a spare one without circuits,
    /// which only the packet fabric reaches.
    pub failures: Failures,
}

impl Ocs {
    /// When circuits are decided.
    pub(crate) fn when(&self) -> When {
        When { policy: self.when, first: self.first }
    }
}
