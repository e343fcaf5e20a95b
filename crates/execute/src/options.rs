//! What a run may be asked to record.

use lightloom_model::WorkerId;

/// What to record beyond the totals.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// Workers whose spans are recorded, with the circuits and decisions of their regions, the
    /// critical path and the bytes on their way.
    pub timeline_workers: Vec<WorkerId>,
    /// Whether decisions of the circuit policy for equal demand and equal present circuits are
    /// computed once.
    pub share_equal_work: bool,
    /// Whether every decision is recorded, with what it started from, and every circuit of those
    /// that take turns.
    pub record_decisions: bool,
    /// Whether flows of packets are recorded, and what each of them waited for.
    pub record_packets: bool,
}
