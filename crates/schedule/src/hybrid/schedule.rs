//! A schedule of circuits and packets, and the methods that make it.

use lightloom_model::choices;

use super::demand::HybridDemand;
use crate::permutation::Slots;

choices! {
    /// How a demand is divided between circuits and packets.
    pub enum HybridMethod: "hybrid method" {
        Balanced = "balanced":
            "Slots for what the EPS cannot carry by a target length, then holds by linear programs",
        Solstice = "solstice": "Solstice (Liu et al., CoNEXT 2015): stuff, then slice by halving",
        Eclipse = "eclipse":
            "Eclipse (Bojja Venkatakrishnan et al., SIGMETRICS 2016): most bytes per time",
    }
}

/// Bytes of a pair that a third server keeps between two slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HybridRelay {
    /// Where they start.
    pub source: u32,
    /// Who keeps them.
    pub relay: u32,
    /// Where they end.
    pub destination: u32,
    /// The slot in which they reach the relay.
    pub first: u32,
    /// A later slot, in which they leave it.
    pub second: u32,
    /// How many.
    pub bytes: u64,
}

/// Matchings over time, and what packets carry in addition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HybridSchedule {
    /// Whose matchings these are.
    pub method: HybridMethod,
    /// The matchings.
    pub slots: Slots,
    /// Bytes of each pair over the EPS, row after row.
    pub eps: Vec<u64>,
    /// Bytes over two circuits, if relaying is allowed; the rest goes over one.
    pub relays: Option<Vec<HybridRelay>>,
    /// Bytes that a circuit could carry from the first reconfiguration to the last byte.
    pub length: u64,
    /// Bytes that no schedule can beat; that of relaying if it is allowed.
    pub lower_bound: u64,
}

impl HybridSchedule {
    pub(super) fn of(method: HybridMethod, slots: Slots, demand: &HybridDemand) -> Self {
        let eps = left_after(demand, &slots);
        let length = length(demand, &slots, &eps);
        let lower_bound = demand.lower_bound();
        debug_assert!(length >= lower_bound, "{length} is below the bound {lower_bound}");
        Self { method, slots, eps, relays: None, length, lower_bound }
    }

    /// Bytes that each of so many servers keeps for others at most, if in every slot all that
    /// arrives does so before any of it leaves.
    pub fn relay_memory(&self, servers: usize) -> Vec<u64> {
        let mut peaks = vec![0; servers];
        for slot in 0..self.slots.len() as u32 {
            let mut kept = vec![0; servers];
            for relay in self.relays.iter().flatten() {
                if (relay.first..=relay.second).contains(&slot) {
                    kept[relay.relay as usize] += relay.bytes;
                }
            }
            for (peak, kept) in peaks.iter_mut().zip(kept) {
                *peak = kept.max(*peak);
            }
        }
        peaks
    }

    /// Length over lower bound.
    pub fn over_bound(&self) -> f64 {
        if self.lower_bound == 0 { 1.0 } else { self.length as f64 / self.lower_bound as f64 }
    }
}

/// What circuits leave if every slot sends as much as it can.
pub(super) fn left_after(demand: &HybridDemand, slots: &Slots) -> Vec<u64> {
    let mut left = demand.bytes.to_vec();
    for (matching, &hold) in slots.matchings.chunks_exact(demand.rows.max(1)).zip(&slots.holds) {
        for (row, &column) in matching.iter().enumerate().filter(|pair| *pair.1 >= 0) {
            let cell = &mut left[row * demand.columns + column as usize];
            *cell = cell.saturating_sub(hold);
        }
    }
    left
}

/// Length of the schedule in which packets carry what these slots leave.
pub(super) fn length_of(demand: &HybridDemand, slots: &Slots) -> u64 {
    length(demand, slots, &left_after(demand, slots))
}

/// Until the last hold ends and the busiest port of the EPS has sent what is left.
pub(super) fn length(demand: &HybridDemand, slots: &Slots, left: &[u64]) -> u64 {
    let busiest = demand.line_sums(left).into_iter().max().unwrap_or(0);
    slots.length(demand.delay).max(demand.eps_time(busiest))
}

/// The slots without one of them.
pub(super) fn without(rows: usize, slots: &Slots, slot: usize) -> Slots {
    let mut fewer = slots.clone();
    fewer.holds.remove(slot);
    fewer.matchings.drain(slot * rows..(slot + 1) * rows);
    fewer
}
