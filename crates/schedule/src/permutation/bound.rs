//! A lower bound on the length of all-stop schedules that knows that pairs differ in size.
//!
//! Let the holds of K slots be sorted, largest first. A line of degree d is in at most K slots, so
//! at most K - d of its pairs are served by more than one slot. Hence of its r + K - d largest
//! pairs at least r are served by one slot each, and the r-th largest hold is no less than its
//! (r + K - d)-th largest pair. The sum over r of the largest such pair of any line bounds the sum
//! of holds, as does the longest line; the least over K >= the largest degree, with K delays, is
//! the bound.

use super::demand::Demand;

impl Demand<'_> {
    /// Bytes that no schedule can beat.
    ///
    /// With partial reconfiguration a line needs its sum and a delay for each of its peers.
    /// All-stop, see the module: at least the longest line, and a delay for each peer of the
    /// busiest.
    pub fn lower_bound(&self) -> u64 {
        if self.partial || self.delay == 0 {
            return self.line_bounds().own;
        }
        let lines = self.line_bounds();
        all_stop(self, lines.longest, lines.busiest as usize)
    }

    /// An all-stop bound in one pass.
    pub(super) fn simple_bound(&self) -> u64 {
        let lines = self.line_bounds();
        lines.longest + lines.busiest * self.delay
    }

    fn line_bounds(&self) -> LineBounds {
        let mut columns = vec![(0_u64, 0_u64); self.columns];
        let mut bounds = LineBounds::default();
        for row in self.bytes.chunks_exact(self.columns.max(1)) {
            let (mut sum, mut degree) = (0, 0);
            for (column, &bytes) in columns.iter_mut().zip(row) {
                let wanted = u64::from(bytes > 0);
                sum += bytes;
                degree += wanted;
                column.0 += bytes;
                column.1 += wanted;
            }
            bounds.take(sum, degree, self.delay);
        }
        for (sum, degree) in columns {
            bounds.take(sum, degree, self.delay);
        }
        bounds
    }
}

/// Largest values of any line: its sum, its peers, its sum with a delay for each peer.
#[derive(Default)]
struct LineBounds {
    longest: u64,
    busiest: u64,
    own: u64,
}

impl LineBounds {
    fn take(&mut self, sum: u64, degree: u64, delay: u64) {
        self.longest = self.longest.max(sum);
        self.busiest = self.busiest.max(degree);
        self.own = self.own.max(sum + degree * delay);
    }
}

/// The bound for a demand whose longest line and largest degree are these.
fn all_stop(demand: &Demand, longest: u64, busiest: usize) -> u64 {
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
