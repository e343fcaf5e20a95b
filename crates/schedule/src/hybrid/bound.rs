//! A lower bound on the length of hybrid schedules.
//!
//! A schedule of K slots and length T holds circuits for T - K delays, so a line sends at most
//! that over circuits, and at most `share * T` over packets. It reaches at most K of its peers by
//! circuits, hence all of its pairs but the K largest go over packets at best. For each K this
//! bounds T from two sides, one rising with K and one falling; the least over K is the bound. With
//! whole numbers of slots it is often above the linear program in which slots are divisible, and
//! never above any schedule over one hop.

use super::demand::HybridDemand;

impl HybridDemand<'_> {
    /// Bytes of a circuit that no schedule can beat: the least, over the number of slots K, of the
    /// larger of (longest line + K delays) / (1 + share) and (what the K largest pairs of a line
    /// leave) / share. O(n^2 log n).
    pub fn lower_bound(&self) -> u64 {
        self.lower_bound_after(0)
    }

    /// The same from a moment on at which circuits had so much time to turn already.
    pub(super) fn lower_bound_after(&self, turned: u64) -> u64 {
        let turned = turned.min(self.delay);
        let lines = self.descending_lines();
        let sum = |line: &Vec<u64>| line.iter().sum::<u64>();
        let longest = lines.iter().map(sum).max().unwrap_or(0);
        let mut tails: Vec<u64> = lines.iter().map(sum).collect();
        let mut smallest = self.eps_time(longest);
        for slots in 1.. {
            let joint = self.joint_time(longest + slots as u64 * self.delay - turned);
            if joint >= smallest {
                break;
            }
            for (tail, line) in tails.iter_mut().zip(&lines) {
                *tail -= line.get(slots - 1).copied().unwrap_or(0);
            }
            let tail = tails.iter().copied().max().unwrap_or(0);
            smallest = smallest.min(joint.max(self.eps_time(tail)));
            if tail == 0 {
                break;
            }
        }
        smallest
    }

    /// Bytes of a circuit that no schedule can beat in which servers relay between slots.
    ///
    /// Two slots and more may reach every peer of a line. Yet over K slots the lines' K largest
    /// pairs are all that can go over one circuit, and other bytes over circuits take two: with n
    /// rows, sum of demand - n share T <= (n (T - K delay) + what those pairs send) / 2.
    /// O(n^2 log n).
    pub fn relayed_lower_bound(&self) -> u64 {
        let lines = self.descending_lines();
        let sum = |line: &Vec<u64>| line.iter().sum::<u64>();
        let longest = lines.iter().map(sum).max().unwrap_or(0);
        let total = lines.iter().take(self.rows).map(sum).map(u128::from).sum::<u128>();
        let mut direct = [0_u128; 2];
        let mut smallest = self.lower_bound();
        for slots in 1..=self.lines() as u64 {
            for (index, line) in lines.iter().enumerate() {
                let bytes = line.get(slots as usize - 1).copied().unwrap_or(0);
                direct[usize::from(index >= self.rows)] += u128::from(bytes);
            }
            if slots == 1 {
                continue;
            }
            let joint = self.joint_time(longest + slots * self.delay);
            if joint >= smallest {
                break;
            }
            let delays = self.rows as u128 * u128::from(slots) * u128::from(self.delay);
            let twice = (2 * total + delays).saturating_sub(direct[0].min(direct[1]));
            smallest = smallest.min(joint.max(self.twice_time(twice)));
        }
        smallest
    }

    /// The bytes of each line's pairs, the largest first.
    fn descending_lines(&self) -> Vec<Vec<u64>> {
        let mut lines: Vec<Vec<u64>> = vec![Vec::new(); self.lines()];
        for (cell, &bytes) in self.bytes.iter().enumerate().filter(|pair| *pair.1 > 0) {
            for line in self.lines_of(cell) {
                lines[line].push(bytes);
            }
        }
        for line in &mut lines {
            line.sort_unstable_by(|x, y| y.cmp(x));
        }
        lines
    }
}
