//! A lower bound on the length of a schedule over several switches.
//!
//! A schedule of K slots on s switches lasts T. The bytes and the delays of all slots fit, so that
//! min(s, K) T is at least the sum of holds and K delays; what [`bound`](super::super::bound) says
//! of the holds of K slots does not depend on where they are. Among the q s + 1 slots with
//! the longest holds some switch has q + 1, which last no less than the shortest q + 1 of them
//! (as for jobs on parallel machines). The least over K is the bound: at least L / s and a delay,
//! and (L + degree x delay) / s.

use super::super::bound::Lines;
use super::super::demand::Demand;

impl Demand<'_> {
    /// Bytes that a port could send at one switch before the last byte is sent, at least, if every
    /// line has a port at each of several switches. O(lines^2 x degree) at worst.
    pub fn lower_bound_over(&self, switches: usize) -> u64 {
        let lines = Lines::new(self);
        if lines.longest == 0 {
            return 0;
        }
        if self.delay == 0 {
            return lines.longest.div_ceil(switches as u64);
        }
        let mut smallest = u64::MAX;
        for slots in lines.busiest.. {
            let used = slots.min(switches) as u64;
            let delays = slots as u64 * self.delay;
            if slots >= switches && (lines.longest + delays).div_ceil(used) >= smallest {
                break;
            }
            let holds = lines.holds(slots);
            let sum = lines.longest.max(holds.iter().sum());
            let fluid = (sum + delays).div_ceil(used);
            smallest = smallest.min(fluid.max(self.crowded(&holds, slots, switches)));
        }
        smallest
    }

    /// What the switch lasts that has one more than its share of the longest slots.
    fn crowded(&self, holds: &[u64], slots: usize, switches: usize) -> u64 {
        let hold = |slot: usize| holds.get(slot).copied().unwrap_or(0);
        let together = |more: usize| -> u64 {
            let last = more * switches;
            (last - more..=last).map(|slot| hold(slot) + self.delay).sum()
        };
        (1..=(slots - 1) / switches).map(together).max().unwrap_or(0)
    }
}
