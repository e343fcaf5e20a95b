//! Schedules and the methods that make them.

use lightloom_model::choices;

use super::demand::Demand;
use super::slots::Matchings;

choices! {
    /// How demand becomes matchings.
    pub enum Method: "permutation method" {
        RoundRobin = "round-robin": "Cyclic shifts, each held to the largest demand on it",
        OpenShop = "open-shop":
            "List scheduling of an open shop, the longest remaining line first",
        Bvn = "bvn": "Birkhoff-von Neumann: the sum of holds is the longest line",
        Threshold = "threshold": "Matchings that can be held longest first, exact like `bvn`",
        Maximal = "maximal": "Maximal (greedy) matchings, at most twice the longest line",
        Greedy = "greedy":
            "A greedy matching per slot, the critical lines first, with an eye on the delay",
        Critical = "critical":
            "Whatever shortens the critical lines most, with an eye on the delay",
        Previous = "previous": "The matchings of an earlier schedule, with holds for this demand",
        Auto = "auto": "The shortest of all the others",
    }
}

impl Method {
    /// Every method that makes matchings of its own, cheapest first.
    pub fn single() -> impl Iterator<Item = Self> {
        Self::ALL.iter().copied().filter(|method| !method.takes_previous())
    }

    /// Whether an earlier schedule is of use to it.
    pub fn takes_previous(self) -> bool {
        matches!(self, Self::Previous | Self::Auto)
    }
}

/// Matchings over time, with the certificate of their length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    /// The method whose matchings these are, never `Auto`.
    pub method: Method,
    /// The matchings or transfers.
    pub plan: Matchings,
    /// Bytes that a port could send from the first reconfiguration to the last byte.
    pub length: u64,
    /// Bytes that no schedule can beat.
    pub lower_bound: u64,
    /// Slots that the earlier schedule had not, if its matchings were kept.
    pub new_slots: Option<usize>,
}

impl Schedule {
    pub(super) fn of(method: Method, plan: Matchings, demand: &Demand, lower_bound: u64) -> Self {
        let length = plan.length(demand.delay);
        debug_assert!(length >= lower_bound, "{length} is below the bound {lower_bound}");
        Self { method, plan, length, lower_bound, new_slots: None }
    }
}
