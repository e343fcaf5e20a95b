//! What a run yields.

use crate::circuits::{CircuitStatistics, Decisions};
use crate::in_flight::InFlight;
use crate::ledger::Ledger;
use crate::links::LinkUse;
use crate::recording::Recording;
use crate::timeline::{CircuitTimeline, CriticalSpans, Snapshot, Timeline};
use crate::turns::{CircuitTurn, TurnStatistics};
use lightloom_model::Duration;

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
    /// Picoseconds by category, of those of the roles, in which members of collectives were late at
    /// random, added over all workers.
    pub late: Vec<u128>,
    /// Bytes by purpose and carrier, conserved.
    pub ledger: Ledger,
    /// Circuit policy.
    pub circuits: CircuitStatistics,
    /// Use of links.
    pub links: Vec<LinkUse>,
    /// Spans of selected workers.
    pub timeline: Timeline,
    /// Spans of the critical path, if some worker is selected.
    pub critical_spans: CriticalSpans,
    /// Bytes on their way by purpose, in the order of the ledger, if some worker is selected.
    pub in_flight: InFlight,
    /// Circuits of the regions of selected workers.
    pub circuit_timeline: CircuitTimeline,
    /// Decisions of the circuit policy for the groups of selected workers.
    pub snapshots: Vec<Snapshot>,
    /// Every decision with what it started from, if asked for.
    pub decisions: Decisions,
    /// What the turns of circuits were, where their ports take turns.
    pub turns: TurnStatistics,
    /// The circuits of these, if asked for.
    pub circuit_turns: Vec<CircuitTurn>,
    /// Packets that left a link, once for each; none of fluids.
    pub packet_hops: u64,
    /// Of these, packets that were simulated; the others repeat what had happened alike.
    pub simulated_hops: u64,
    /// What was sent as packets, and what it waited for, if asked for.
    pub recording: Option<Box<Recording>>,
    /// What the flow simulation did.
    pub flow_statistics: lightloom_flowsim::Statistics,
}
