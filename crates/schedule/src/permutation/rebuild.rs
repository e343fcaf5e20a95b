//! Large-neighbourhood search: a few slots are taken out and what they sent is scheduled anew.
//!
//! Groups of slots, neighbors in order of their holds or some places apart, are replaced by the
//! critical-line method's schedule of their bytes if that is shorter. The search ends after a round
//! over all groups without success, or when the time is up.

use super::budget::Budget;
use super::critical::{RULES, by_rule};
use super::demand::Demand;
use super::improve::served;
use super::slots::Slots;

/// Slots per group, and places between them.
const GROUPS: [(usize, usize); 6] = [(3, 1), (4, 2), (5, 1), (4, 3), (7, 1), (6, 2)];

/// Shortens slots that serve the demand; the result serves it, too.
pub(super) fn rebuild(demand: &Demand, slots: &Slots, budget: &Budget) -> Slots {
    let mut best = sorted(demand, slots);
    loop {
        let before = best.length(demand.delay);
        for (size, apart) in GROUPS {
            let mut first = 0;
            while first + (size - 1) * apart < best.len() {
                if budget.is_spent() {
                    return best;
                }
                let group: Vec<usize> = (0..size).map(|place| first + place * apart).collect();
                if let Some(better) = replace(demand, &best, &group, budget) {
                    best = better;
                }
                first += 1;
            }
        }
        if best.length(demand.delay) == before {
            return best;
        }
        best = sorted(demand, &best);
    }
}

/// The slots with the longest hold first, pairs without bytes left out.
fn sorted(demand: &Demand, slots: &Slots) -> Slots {
    let rows = demand.rows;
    let mut order: Vec<usize> = (0..slots.len()).collect();
    order.sort_by_key(|&slot| std::cmp::Reverse(slots.holds[slot]));
    let mut result = Slots::default();
    for slot in order {
        result.push(&slots.matchings[slot * rows..(slot + 1) * rows], slots.holds[slot]);
    }
    served(demand, &result)
}

fn replace(demand: &Demand, slots: &Slots, group: &[usize], budget: &Budget) -> Option<Slots> {
    let (rows, columns) = (demand.rows, demand.columns);
    let mut left = demand.bytes.to_vec();
    let mut bytes = vec![0; rows * columns];
    let mut kept = Slots::default();
    let mut now = 0;
    for (slot, &hold) in slots.holds.iter().enumerate() {
        let matching = &slots.matchings[slot * rows..(slot + 1) * rows];
        let in_group = group.contains(&slot);
        for (row, &column) in matching.iter().enumerate().filter(|pair| *pair.1 >= 0) {
            let cell = row * columns + column as usize;
            let sent = hold.min(left[cell]);
            left[cell] -= sent;
            if in_group {
                bytes[cell] += sent;
            }
        }
        if in_group {
            now += hold + demand.delay;
        } else {
            kept.push(matching, hold);
        }
    }
    let part = Demand { bytes: &bytes, ..*demand };
    if part.simple_bound() >= now {
        return None;
    }
    let mut rebuilt: Option<Slots> = None;
    for rule in RULES {
        let slots = by_rule(&part, rule, budget)?;
        let length = slots.length(demand.delay);
        if length < now {
            now = length;
            rebuilt = Some(slots);
        }
    }
    let rebuilt = rebuilt?;
    for (matching, &hold) in rebuilt.matchings.chunks_exact(rows).zip(&rebuilt.holds) {
        kept.push(matching, hold);
    }
    Some(served(demand, &kept))
}
