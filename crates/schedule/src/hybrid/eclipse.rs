//! Eclipse (Bojja Venkatakrishnan et al., SIGMETRICS 2016): the most bytes per time, slot by slot.
//!
//! Each slot is the matching and the hold that maximize the bytes sent over hold plus delay; the
//! best hold is some pair's bytes, and is found among them by bisection, as the ratio nearly has a
//! single peak. The paper fills a given window; here the window is the one after which packets can
//! carry the rest the earliest, the last hold shortened to fit.

use super::budget::HybridBudget;
use super::demand::HybridDemand;
use crate::matching::{NONE, assign};
use crate::permutation::Slots;

/// The slots, or nothing if the budget is spent before.
pub(super) fn slots(demand: &HybridDemand, budget: &HybridBudget) -> Option<Slots> {
    let mut left = demand.bytes.to_vec();
    let mut all = Slots::default();
    let busiest = |left: &[u64]| demand.line_sums(left).into_iter().max().unwrap_or(0);
    let mut best = (demand.eps_time(busiest(&left)), Slots::default());
    let mut time = 0;
    while time < best.0 && left.iter().any(|&bytes| bytes > 0) {
        if budget.is_spent() {
            return None;
        }
        let (matching, hold) = fastest_slot(demand, &left);
        let before = left.clone();
        let serve = |left: &mut Vec<u64>, hold: u64| {
            left.copy_from_slice(&before);
            for (row, &column) in matching.iter().enumerate().filter(|pair| *pair.1 >= 0) {
                let cell = &mut left[row * demand.columns + column as usize];
                *cell = cell.saturating_sub(hold);
            }
            demand.eps_time(busiest(left))
        };
        // The shortest last hold after which packets are no later than circuits.
        let (mut short, mut long) = (1, hold);
        while short < long {
            let middle = short + (long - short) / 2;
            if serve(&mut left, middle) <= time + demand.delay + middle {
                long = middle;
            } else {
                short = middle + 1;
            }
        }
        let length = serve(&mut left, long).max(time + demand.delay + long);
        if length < best.0 {
            let mut prefix = all.clone();
            prefix.matchings.extend(&matching);
            prefix.holds.push(long);
            best = (length, prefix);
        }
        serve(&mut left, hold);
        time += hold + demand.delay;
        all.matchings.extend(&matching);
        all.holds.push(hold);
    }
    Some(best.1)
}

/// Bytes per time, compared exactly.
#[derive(Clone, Copy)]
struct Pace {
    bytes: i128,
    time: u64,
}

impl Pace {
    fn is_below(self, other: Self) -> bool {
        self.bytes * i128::from(other.time) < other.bytes * i128::from(self.time)
    }
}

/// The matching and the longest hold that send most bytes per time.
///
/// The longest, because some pair has all its bytes sent then: a longer one would else be as good.
/// So there are no more slots than pairs, also without a delay, when holds of a byte are as good.
fn fastest_slot(demand: &HybridDemand, left: &[u64]) -> (Vec<i32>, u64) {
    let mut holds: Vec<u64> = left.iter().copied().filter(|&bytes| bytes > 0).collect();
    holds.sort_unstable();
    holds.dedup();
    let mut best: Option<(Pace, Vec<u32>, u64)> = None;
    let mut rate = |hold: u64| {
        let weights: Vec<i64> = left.iter().map(|&bytes| bytes.min(hold).cast_signed()).collect();
        let assignment = assign(demand.rows, demand.columns, &weights).expect("bytes are weights");
        let rate = Pace { bytes: assignment.weight, time: hold + demand.delay };
        if best.as_ref().is_none_or(|known| !rate.is_below(known.0)) {
            best = Some((rate, assignment.column_of, hold));
        }
        rate
    };
    let (mut low, mut high) = (0, holds.len() - 1);
    while low < high {
        let middle = usize::midpoint(low, high);
        if rate(holds[middle + 1]).is_below(rate(holds[middle])) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    rate(holds[low]);
    let (_, columns, hold) = best.expect("a hold was tried");
    let matching =
        columns.into_iter().map(|column| if column == NONE { -1 } else { column as i32 });
    (matching.collect(), hold)
}

#[cfg(test)]
mod tests {
    use super::super::demand::PortRates;
    use super::*;
    use lightloom_model::Rate;

    fn demand(bytes: &[u64], delay: u64) -> HybridDemand<'_> {
        let rates = PortRates { circuit: Rate(10), eps: Rate(1) };
        HybridDemand::new(3, 3, bytes, delay, rates).unwrap()
    }

    fn all_slots(demand: &HybridDemand) -> Slots {
        slots(demand, &HybridBudget::USUAL).expect("no limit")
    }

    /// Every hold and every matching of three lines, one by one.
    #[test]
    fn a_slot_sends_most_bytes_per_time() {
        let permutations = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
        for seed in 1..60_u64 {
            let bytes: Vec<u64> =
                (0..9).map(|cell| (seed * 7_919 + cell * cell * 31) % 23).collect();
            let demand = demand(&bytes, seed % 9);
            let rate = |to: &[usize], hold: u64| {
                let sent = |(row, &column): (usize, &usize)| bytes[row * 3 + column].min(hold);
                let sum = to.iter().enumerate().map(sent).sum::<u64>();
                sum as f64 / (hold + demand.delay) as f64
            };
            let holds = bytes.iter().copied().filter(|&hold| hold > 0);
            let all = holds.flat_map(|hold| permutations.map(|to| rate(&to, hold)));
            let (matching, hold) = fastest_slot(&demand, &bytes);
            let cells = matching.iter().enumerate().filter(|pair| *pair.1 >= 0);
            let sent = cells.map(|(row, &column)| bytes[row * 3 + column as usize].min(hold));
            let rate = sent.sum::<u64>() as f64 / (hold + demand.delay) as f64;
            // bisection may miss a second peak, never by half
            let best = all.fold(0.0, f64::max);
            assert!(rate <= best + 1e-9 && rate >= 0.5 * best, "{rate} of {best}");
        }
    }

    /// 80 bytes per pair on one shift, 6 on the other: 6 + 6 bytes take packets 120, circuits 82.
    #[test]
    fn the_window_ends_when_packets_are_done() {
        let bytes = [0, 80, 6, 6, 0, 80, 80, 6, 0];
        let slots = all_slots(&demand(&bytes, 2));
        assert_eq!((slots.matchings.as_slice(), slots.holds.len()), (&[1, 2, 0][..], 1));
        // 80 - h + 6 bytes as packets by h + 2: h >= 78
        assert_eq!(slots.holds, [78]);
    }

    /// Without a delay a hold of one byte sends as much per time as the longest.
    #[test]
    fn without_a_delay_there_are_no_more_slots_than_pairs() {
        let bytes = [1 << 40, 1, 0, 0, 1 << 39, 0, 0, 0, 0];
        let all = all_slots(&demand(&bytes, 0));
        assert!((1..=3).contains(&all.holds.len()), "{:?}", all.holds);
    }

    #[test]
    fn what_packets_carry_sooner_gets_no_slot() {
        let all = all_slots(&demand(&[0, 5, 0, 0, 0, 0, 0, 0, 0], 1_000));
        assert_eq!(all.holds, [] as [u64; 0]);
    }
}
