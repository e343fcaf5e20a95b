//! A lower bound on the length of all-stop schedules that knows that pairs differ in size.
//!
//! Let the holds of K slots be sorted, largest first. A line of degree d is in at most K slots, so
//! at most K - d of its pairs are served by more than one slot. Hence of its r + K - d largest
//! pairs at least r are served by one slot each, and the r-th largest hold is no less than its
//! (r + K - d)-th largest pair. The sum over r of the largest such pair of any line bounds the sum
//! of holds, as does the longest line; the least over K >= the largest degree, with K delays, is
//! the bound.

use super::Demand;

/// The bound for a demand whose longest line and largest degree are these.
pub(super) fn all_stop(demand: &Demand, longest: u64, busiest: usize) -> u64 {
    let (rows, columns, delay) = (demand.rows, demand.columns, demand.delay);
    let row = |row: usize| demand.row(row).to_vec();
    let column =
        |column: usize| (0..rows).map(|row| demand.bytes[row * columns + column]).collect();
    let mut lines: Vec<Vec<u64>> = (0..rows).map(row).chain((0..columns).map(column)).collect();
    for line in &mut lines {
        line.retain(|&bytes| bytes > 0);
        line.sort_unstable_by(|x, y| y.cmp(x));
    }
    let mut smallest = u64::MAX;
    let mut holds = vec![0_u64; busiest];
    for slots in busiest.. {
        let delays = slots as u64 * delay;
        if longest + delays >= smallest {
            break;
        }
        holds.fill(0);
        for line in &lines {
            let split = (slots - line.len()).min(line.len());
            for (hold, &bytes) in holds.iter_mut().zip(&line[split..]) {
                *hold = (*hold).max(bytes);
            }
        }
        smallest = smallest.min(delays + longest.max(holds.iter().sum()));
    }
    smallest
}
