//! What the circuit policy did, in numbers.

use lightloom_model::Duration;

/// What the circuit policy did.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct CircuitStatistics {
    /// Decisions, also those that change no circuit.
    pub decisions: u64,
    /// Decisions that changed circuits.
    pub reconfigurations: u64,
    /// Decisions not taken since another group of the same servers used the circuits.
    pub skipped: u64,
    /// Pairs that changed, over all reconfigurations.
    pub pairs_changed: u64,
    /// Delay of all reconfigurations, once per all-to-all that they serve.
    pub delay: Duration,
    /// The part of it for which the mean member waited.
    pub exposed: Duration,
    /// By how much less upcoming all-to-alls take at line rate than with the circuits held before,
    /// over all reconfigurations, in seconds.
    pub saved_s: f64,
    /// Sum over decisions of the time at line rate of what was decided for, in seconds.
    pub makespan_s: f64,
    /// Sum of the bounds that no circuits can beat, in seconds.
    pub bound_s: f64,
    /// All-to-alls that relays served.
    pub relayed: u64,
    /// All-to-alls for which relaying, though allowed, did not pay.
    pub one_hop: u64,
    /// Requests to the allocator.
    pub allocations: u64,
    /// Those served from an earlier equal one.
    pub shared: u64,
}

impl CircuitStatistics {
    /// The part of the delay that was hidden behind compute.
    pub fn hidden(&self) -> Duration {
        Duration(self.delay.0.saturating_sub(self.exposed.0))
    }
}
