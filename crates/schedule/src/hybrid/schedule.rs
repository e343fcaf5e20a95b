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

/// Matchings over time, and what packets carry in addition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HybridSchedule {
    /// Whose matchings these are.
    pub method: HybridMethod,
    /// The matchings.
    pub slots: Slots,
    /// Bytes of each pair over the EPS, row after row; the rest goes over circuits.
    pub eps: Vec<u64>,
    /// Bytes that a circuit could carry from the first reconfiguration to the last byte.
    pub length: u64,
    /// Bytes that no schedule can beat.
    pub lower_bound: u64,
}

impl HybridSchedule {
    pub(super) fn of(method: HybridMethod, slots: Slots, demand: &HybridDemand) -> Self {
        let eps = left_after(demand, &slots);
        let length = length(demand, &slots, &eps);
        let lower_bound = demand.lower_bound();
        debug_assert!(length >= lower_bound, "{length} is below the bound {lower_bound}");
        Self { method, slots, eps, length, lower_bound }
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

/// Until the last hold ends and the busiest port of the EPS has sent what is left.
pub(super) fn length(demand: &HybridDemand, slots: &Slots, left: &[u64]) -> u64 {
    let busiest = demand.line_sums(left).into_iter().max().unwrap_or(0);
    slots.length(demand.delay).max(demand.eps_time(busiest))
}
