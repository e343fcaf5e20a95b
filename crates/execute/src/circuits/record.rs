//! Decisions of a run with everything that they started from, so that they can be replayed.

use super::region::Region;
use lightloom_decide::{Decider, Decision, Held, Policy, Region as Description, Upcoming};
use lightloom_model::Time;

/// A decision and its inputs.
#[derive(Debug, Clone, PartialEq)]
pub struct DecisionRecord {
    /// When it was taken.
    pub time: Time,
    /// Its region: index into [`Decisions::regions`].
    pub region: u32,
    /// The circuits held before.
    pub held: Held,
    /// The upcoming all-to-alls.
    pub upcoming: Vec<Upcoming>,
    /// What was decided.
    pub decision: Decision,
}

/// All decisions of a run, in order. The timing is the network's.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Decisions {
    /// The regions; those that are alike are one.
    pub regions: Vec<Description>,
    /// How circuits follow the demand in all of them.
    pub policy: Policy,
    /// The decisions.
    pub records: Vec<DecisionRecord>,
}

/// Keeps decisions, if asked to.
#[derive(Debug, Default)]
pub(super) struct Recorder {
    enabled: bool,
    records: Vec<DecisionRecord>,
}

impl Recorder {
    /// A recorder that keeps decisions, or does nothing.
    pub(super) fn new(enabled: bool) -> Self {
        Self { enabled, records: Vec::new() }
    }

    /// Keeps a decision on circuits that the region does not have yet.
    pub(super) fn record(
        &mut self,
        time: Time,
        region: &Region,
        upcoming: &[Upcoming],
        decision: &Decision,
    ) {
        if self.enabled {
            self.records.push(DecisionRecord {
                time,
                region: region.decider,
                held: region.held.clone(),
                upcoming: upcoming.to_vec(),
                decision: decision.clone(),
            });
        }
    }

    /// What was kept.
    pub(super) fn finish(self, deciders: &[Decider]) -> Decisions {
        let Some(first) = deciders.first().filter(|_| self.enabled) else {
            return Decisions::default();
        };
        let regions = deciders.iter().map(|decider| decider.region().record().clone()).collect();
        Decisions { regions, policy: *first.policy(), records: self.records }
    }
}
