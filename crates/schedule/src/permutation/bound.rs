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
        if self.delay == 0 {
            return self.longest_line();
        }
        if self.partial {
            return self.line_bounds().own;
        }
        self.all_stop_bound(&self.largest_pairs())
    }

    /// The all-stop bound of one crossbar, given [`Demand::largest_pairs`].
    pub(super) fn all_stop_bound(&self, sorted: &[(u64, u32)]) -> u64 {
        let lines = Lines::of(self, sorted);
        let mut smallest = u64::MAX;
        for slots in lines.busiest.. {
            let delays = slots as u64 * self.delay;
            if lines.longest + delays >= smallest {
                break;
            }
            smallest = smallest.min(delays + lines.longest.max(lines.holds(slots).iter().sum()));
        }
        smallest
    }

    /// Bytes of the longest line.
    pub(super) fn longest_line(&self) -> u64 {
        let mut columns = vec![0; self.columns];
        let mut longest = 0;
        for row in self.bytes.chunks_exact(self.columns.max(1)) {
            // Two passes, each of which adds several numbers at once.
            columns.iter_mut().zip(row).for_each(|(column, bytes)| *column += bytes);
            longest = longest.max(row.iter().sum());
        }
        columns.into_iter().fold(longest, u64::max)
    }

    /// Peers of the line with most peers.
    pub(super) fn busiest_line(&self) -> usize {
        self.line_bounds().busiest as usize
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

/// The lines of a demand, for bounds on the holds of slots that serve it.
pub(super) struct Lines {
    /// Bytes of each pair, largest first, line after line.
    pairs: Vec<Vec<u64>>,
    /// Largest sum of any line, and largest number of peers.
    pub longest: u64,
    pub busiest: usize,
}

impl Lines {
    pub(super) fn new(demand: &Demand) -> Self {
        Self::of(demand, &demand.largest_pairs())
    }

    /// The same of pairs that are sorted.
    fn of(demand: &Demand, sorted: &[(u64, u32)]) -> Self {
        let (rows, columns) = (demand.rows, demand.columns);
        let mut pairs = vec![Vec::with_capacity(columns); rows];
        pairs.resize_with(rows + columns, || Vec::with_capacity(rows));
        for &(bytes, cell) in sorted {
            let (row, column) = (cell as usize / columns, cell as usize % columns);
            pairs[row].push(bytes);
            pairs[rows + column].push(bytes);
        }
        let longest = pairs.iter().map(|line| line.iter().sum()).max().unwrap_or(0);
        let busiest = pairs.iter().map(Vec::len).max().unwrap_or(0);
        Self { pairs, longest, busiest }
    }

    /// What the longest holds of that many slots are at least, longest first.
    pub(super) fn holds(&self, slots: usize) -> Vec<u64> {
        let mut holds = vec![0_u64; self.busiest];
        for line in &self.pairs {
            let split = (slots - line.len()).min(line.len());
            for (hold, &bytes) in holds.iter_mut().zip(&line[split..]) {
                *hold = (*hold).max(bytes);
            }
        }
        holds
    }
}
