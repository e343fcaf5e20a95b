//! A budget of `balanced` and of relaying: any of it yields a schedule, more of it no longer one.

use std::cell::Cell;

use crate::common::regimes::{self, Random};
use lightloom_model::Rate;
use lightloom_schedule::hybrid::{
    HybridBudget, HybridDemand, HybridMethod, HybridSchedule, PortRates, check_hybrid,
    relay_hybrid, schedule_hybrid, schedule_hybrid_within,
};

/// What a search finds that is stopped after so many looks at the budget.
type Search<'a> = dyn Fn(&HybridBudget) -> HybridSchedule + 'a;

fn after(looks: usize, is_longer: bool, search: &Search<'_>) -> HybridSchedule {
    let left = Cell::new(looks);
    let is_spent = || {
        let now = left.get();
        left.set(now.saturating_sub(1));
        now == 0
    };
    let budget =
        if is_longer { HybridBudget::until(&is_spent) } else { HybridBudget::unless(&is_spent) };
    search(&budget)
}

/// Lengths with ever more of the budget, to the end of the search.
fn lengths(demand: &HybridDemand, is_longer: bool, search: &Search<'_>) -> Vec<u64> {
    let looks = (0..16).map(|power| (2.3_f64.powi(power) - 1.0) as usize).chain([usize::MAX]);
    let found = looks.map(|looks| after(looks, is_longer, search));
    let length = |found: HybridSchedule| {
        check_hybrid(demand, &found).unwrap();
        found.length
    };
    found.map(length).collect()
}

fn each_demand(test: impl Fn(&HybridDemand)) {
    for (seed, kind) in (1..).zip(regimes::KINDS) {
        let bytes = regimes::demand(kind, 8, &mut Random(seed * 7_919));
        for (delay, eps) in [(400_000, 10), (4_000_000, 50), (40_000_000, 25)] {
            let rates = PortRates { circuit: Rate(100), eps: Rate(eps) };
            test(&HybridDemand::new(8, 8, &bytes, delay, rates).unwrap());
        }
    }
}

#[test]
fn more_of_the_budget_is_never_worse() {
    each_demand(|demand| {
        let search =
            |budget: &HybridBudget| schedule_hybrid_within(demand, HybridMethod::Balanced, budget);
        assert_eq!(after(0, false, &search).slots.len(), 0, "packets alone come first");
        let usual = schedule_hybrid(demand, HybridMethod::Balanced).length;
        for is_longer in [false, true] {
            let found = lengths(demand, is_longer, &search);
            assert!(found.is_sorted_by(|one, other| one >= other), "{found:?}");
            let last = found[found.len() - 1];
            assert!(if is_longer { last <= usual } else { last == usual }, "{last} {usual}");
        }
    });
}

#[test]
fn relaying_is_never_worse_for_more_of_the_budget_either() {
    each_demand(|demand| {
        let plain = schedule_hybrid(demand, HybridMethod::Balanced);
        let search = |budget: &HybridBudget| relay_hybrid(demand, plain.clone(), budget).unwrap();
        let found = lengths(demand, false, &search);
        assert_eq!(found[0], plain.length);
        assert!(found.is_sorted_by(|one, other| one >= other), "{found:?}");
    });
}
