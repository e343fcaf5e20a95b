//! What a run yields, and what it may be asked for.

use crate::circuits::record::Decisions;
use crate::ledger::Ledger;
use crate::network::Links;
use crate::timeline::{CircuitTimeline, Snapshot, Timeline};
use lightloom_flowsim::LinkId;
use lightloom_model::{Duration, Rate, Time, WorkerId};

/// What to record beyond the totals.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// Workers whose spans are recorded, with the circuits and decisions of their regions.
    pub timeline_workers: Vec<WorkerId>,
    /// Whether decisions of the circuit policy for equal demand and equal present circuits are
    /// computed once.
    pub share_equal_work: bool,
    /// Whether every decision is recorded, with what it started from.
    pub record_decisions: bool,
}

/// Use of one class of links over the step.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LinkUse {
    /// Class, such as `server_up`.
    pub name: String,
    /// Number of links.
    pub links: usize,
    /// Bytes of finished flows over all of them.
    pub carried_bytes: u64,
    /// Carried bits over what all links could carry in the step.
    pub mean: f64,
    /// The same for the busiest link.
    pub max: f64,
}

impl LinkUse {
    /// Of links whose members were all lit from the start.
    pub fn of_links(name: &str, class: &[LinkId], links: &Links, end: Time) -> Self {
        let carried: Vec<u64> = class.iter().map(|&link| links.carried(link)).collect();
        let rates: Vec<Rate> = class.iter().map(|&link| links.full_rate(link)).collect();
        Self::new(name, &carried, &rates, end)
    }

    /// From what each link carried and its rate.
    pub fn new(name: &str, carried: &[u64], rates: &[Rate], end: Time) -> Self {
        let seconds = end.as_seconds();
        let capacity = |rate: &Rate| rate.0 as f64 / 8.0 * seconds;
        let share = |bytes: f64, limit: f64| if limit > 0.0 { bytes / limit } else { 0.0 };
        let total: u64 = carried.iter().sum();
        let mean = share(total as f64, rates.iter().map(capacity).sum());
        let max = carried
            .iter()
            .zip(rates)
            .map(|(&bytes, rate)| share(bytes as f64, capacity(rate)))
            .fold(0.0, f64::max);
        Self { name: name.to_string(), links: carried.len(), carried_bytes: total, mean, max }
    }
}

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

/// What the workers of a role did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RoleTimes {
    /// Name of the role.
    pub name: String,
    /// Its workers.
    pub workers: u32,
    /// Picoseconds by category on the main streams, added over the workers; they sum to the step
    /// times the workers.
    pub spent: Vec<u64>,
}

/// The result of one step.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// From the start until the last worker is done.
    pub step: Duration,
    /// Hash of everything that happened: same inputs, same hash.
    pub run_hash: u128,
    /// Events handled, completions of flows included.
    pub events: u64,
    /// Flows simulated.
    pub flows: u64,
    /// Tasks played, over all workers.
    pub tasks: u64,
    /// Names of the categories, in the order of the columns below.
    pub categories: Vec<String>,
    /// What each role did, in the order of the task graph.
    pub roles: Vec<RoleTimes>,
    /// Picoseconds by category along the chain of causes that ends with the last worker; sums to
    /// the step time.
    pub critical_path: Vec<u64>,
    /// The part of all-to-alls during which some member had not yet arrived, added over
    /// all workers.
    pub straggler_wait: u128,
    /// Bytes by purpose and carrier, conserved.
    pub ledger: Ledger,
    /// Circuit policy.
    pub circuits: CircuitStatistics,
    /// Use of links.
    pub links: Vec<LinkUse>,
    /// Spans of selected workers.
    pub timeline: Timeline,
    /// Circuits of the regions of selected workers.
    pub circuit_timeline: CircuitTimeline,
    /// Decisions of the circuit policy for the groups of selected workers.
    pub snapshots: Vec<Snapshot>,
    /// Every decision with what it started from, if asked for.
    pub decisions: Decisions,
    /// Packets that left a link, once for each; none of fluids.
    pub packet_hops: u64,
    /// What the flow simulation did.
    pub flow_statistics: lightloom_flowsim::Statistics,
}
