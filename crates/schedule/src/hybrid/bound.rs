//! A lower bound on the length of hybrid schedules.
//!
//! A schedule of K slots and length T holds circuits for T - K delays, so a line sends at most
//! that over circuits, and at most `share * T` over packets. It reaches at most K of its peers by
//! circuits, hence all of its pairs but the K largest go over packets at best. For each K this
//! bounds T from two sides, one rising with K and one falling; the least over K is the bound. With
//! whole numbers of slots it is often above the linear program in which slots are divisible, and
//! never above any schedule.

use super::demand::HybridDemand;

impl HybridDemand<'_> {
    /// Bytes of a circuit that no schedule can beat: the least, over the number of slots K, of the
    /// larger of (longest line + K delays) / (1 + share) and (what the K largest pairs of a line
    /// leave) / share. O(n^2 log n).
    pub fn lower_bound(&self) -> u64 {
        let mut lines: Vec<Vec<u64>> = vec![Vec::new(); self.lines()];
        for (cell, &bytes) in self.bytes.iter().enumerate().filter(|pair| *pair.1 > 0) {
            for line in self.lines_of(cell) {
                lines[line].push(bytes);
            }
        }
        for line in &mut lines {
            line.sort_unstable_by(|x, y| y.cmp(x));
        }
        let sum = |line: &Vec<u64>| line.iter().sum::<u64>();
        let longest = lines.iter().map(sum).max().unwrap_or(0);
        let mut tails: Vec<u64> = lines.iter().map(sum).collect();
        let mut smallest = self.eps_time(longest);
        for slots in 1.. {
            let joint = self.joint_time(longest + slots as u64 * self.delay);
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
}
