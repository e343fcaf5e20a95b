//! Schedules over several switches.

use super::super::demand::Demand;
use super::super::schedule::{Method, Schedule};
use super::super::slots::{Matchings, Slots};
use super::pack;

/// Matchings over time on several switches, with the certificate of their length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwitchSchedule {
    /// The method whose matchings these are, never `Auto`.
    pub method: Method,
    /// The slots of each switch, one after another.
    ///
    /// A pair that is joined in several slots sends in those of the first switch first.
    pub switches: Vec<Slots>,
    /// Bytes that a port could send until the last switch has finished.
    pub length: u64,
    /// Bytes that no schedule can beat.
    pub lower_bound: u64,
}

impl SwitchSchedule {
    pub(super) fn of(
        method: Method,
        switches: Vec<Slots>,
        demand: &Demand,
        lower_bound: u64,
    ) -> Self {
        let length = pack::length(&switches, demand.delay);
        debug_assert!(length >= lower_bound, "{length} is below the bound {lower_bound}");
        Self { method, switches, length, lower_bound }
    }

    pub(super) fn of_one(schedule: Schedule) -> Self {
        let Schedule { method, plan, length, lower_bound, .. } = schedule;
        let Matchings::Slots(slots) = plan else {
            unreachable!("without partial reconfiguration there are slots")
        };
        Self { method, switches: vec![slots], length, lower_bound }
    }
}
