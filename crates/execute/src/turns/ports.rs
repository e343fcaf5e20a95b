//! Who uses which ports: a port serves one block of transfers at a time, the others wait for it.
//!
//! A block needs all of its ports at once. Blocks are ordered by priority, then those that somebody
//! waits for, then by when they came; one begins when its ports are free and no earlier one waits
//! for any of them. The first of all that wait is the first at each of its ports, so that somebody
//! always goes on. What nobody waits for may go ahead of others of its kind, and stops for them.

use std::cmp::Reverse;
use std::collections::BTreeSet;

/// The place of a block among those that wait: a higher priority first, then one that somebody
/// waits for, then the earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    /// Its priority.
    pub priority: Reverse<u8>,
    /// Whether nobody waits for it.
    pub is_background: bool,
    /// Blocks before it.
    pub sequence: u64,
    /// The block.
    pub block: u32,
}

impl Place {
    /// Whether another block stops for this one: of two that nobody waits for, the later one.
    pub(super) fn interrupts(&self, other: &Self) -> bool {
        let is_before = (self.priority, self.is_background) < (other.priority, other.is_background);
        is_before || (self.is_background && self < other)
    }
}

/// A port of a NIC, into the crossbars or out of them.
#[derive(Debug, Clone, Default)]
struct Port {
    taken: Option<Place>,
    waiting: BTreeSet<Place>,
}

/// All ports.
#[derive(Debug, Default)]
pub(super) struct Ports(Vec<Port>);

impl Ports {
    /// Adds a port.
    pub(super) fn add(&mut self) {
        self.0.push(Port::default());
    }

    /// Has a block wait for its ports.
    pub(super) fn wait(&mut self, place: Place, ports: &[u32]) {
        for &port in ports {
            self.0[port as usize].waiting.insert(place);
        }
    }

    /// Gives a block its ports, if they are free and it is the first at each.
    pub(super) fn take(&mut self, place: Place, ports: &[u32]) -> bool {
        let is_next = |&port: &u32| {
            let port = &self.0[port as usize];
            port.taken.is_none() && port.waiting.first() == Some(&place)
        };
        let is_next = ports.iter().all(is_next);
        if is_next {
            self.hold(place, ports);
        }
        is_next
    }

    /// Gives a block its ports, which are free.
    pub(super) fn hold(&mut self, place: Place, ports: &[u32]) {
        for &port in ports {
            let port = &mut self.0[port as usize];
            debug_assert!(port.taken.is_none(), "only free ports are taken");
            port.taken = Some(place);
            port.waiting.remove(&place);
        }
    }

    /// The earlier blocks that wait for ports of a block, if all of these are free.
    pub(super) fn earlier(&self, place: Place, ports: &[u32]) -> Option<BTreeSet<Place>> {
        let all = ports.iter().map(|&port| &self.0[port as usize]);
        let are_free = all.clone().all(|port| port.taken.is_none());
        are_free.then(|| all.flat_map(|port| port.waiting.range(..place).copied()).collect())
    }

    /// Whether a block waits for one that does not stop for it.
    pub(super) fn is_held_up(&self, place: Place, ports: &[u32]) -> bool {
        let mut holders = ports.iter().filter_map(|&port| self.0[port as usize].taken);
        holders.any(|holder| !place.interrupts(&holder))
    }

    /// Who has the ports of a block that is the next one at each, if it is.
    pub(super) fn holders(&self, place: Place, ports: &[u32]) -> Option<BTreeSet<Place>> {
        let all = ports.iter().map(|&port| &self.0[port as usize]);
        let is_next = all.clone().all(|port| port.waiting.first() == Some(&place));
        is_next.then(|| all.filter_map(|port| port.taken).collect())
    }

    /// Frees ports; returns the blocks that wait for them, in their order.
    pub(super) fn free(&mut self, ports: &[u32]) -> BTreeSet<Place> {
        let mut next = BTreeSet::new();
        for &port in ports {
            let port = &mut self.0[port as usize];
            debug_assert!(port.taken.is_some(), "only taken ports are freed");
            port.taken = None;
            next.extend(&port.waiting);
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn place(priority: u8, block: u32) -> Place {
        Place { priority: Reverse(priority), is_background: false, sequence: block.into(), block }
    }

    fn request(all: &mut Ports, place: Place, ports: &[u32]) -> bool {
        all.wait(place, ports);
        all.take(place, ports)
    }

    fn ports(count: usize) -> Ports {
        let mut ports = Ports::default();
        (0..count).for_each(|_| ports.add());
        ports
    }

    #[test]
    fn a_block_waits_for_those_before_it_and_no_others() {
        let mut all = ports(4);
        assert!(request(&mut all, place(0, 0), &[0, 1]));
        assert!(!request(&mut all, place(0, 1), &[1, 2]));
        // Port 2 is free, but the second block is to have it.
        assert!(!request(&mut all, place(0, 2), &[2]));
        assert!(request(&mut all, place(0, 3), &[3]));
        let next: Vec<u32> = all.free(&[0, 1]).into_iter().map(|place| place.block).collect();
        assert_eq!(next, [1]);
        assert!(all.take(place(0, 1), &[1, 2]));
        assert!(!all.take(place(0, 2), &[2]));
    }

    #[test]
    fn a_higher_priority_overtakes_those_that_wait() {
        let mut all = ports(1);
        assert!(request(&mut all, place(0, 0), &[0]));
        assert!(!request(&mut all, place(0, 1), &[0]));
        assert!(!request(&mut all, place(3, 2), &[0]));
        let next: Vec<u32> = all.free(&[0]).into_iter().map(|place| place.block).collect();
        assert_eq!(next, [2, 1]);
    }

    proptest! {
        /// Whatever blocks want: each has its turn, and no port ever has two.
        #[test]
        fn everybody_has_a_turn(
            wants in prop::collection::vec(
                (prop::collection::btree_set(0_u32..6, 1..4), 0_u8..3), 1..20,
            ),
        ) {
            let mut all = ports(6);
            let wants = wants.into_iter();
            let wants: Vec<(Vec<u32>, u8)> =
                wants.map(|(set, priority)| (set.into_iter().collect(), priority)).collect();
            let mut users = [None; 6];
            let (mut running, mut done) = (Vec::new(), Vec::new());
            let begin = |place: Place, users: &mut [Option<u32>; 6], running: &mut Vec<u32>| {
                for &port in &wants[place.block as usize].0 {
                    assert_eq!(users[port as usize].replace(place.block), None);
                }
                running.push(place.block);
            };
            for (block, (ports, priority)) in (0..).zip(&wants) {
                let place = place(*priority, block);
                if request(&mut all, place, ports) {
                    begin(place, &mut users, &mut running);
                }
            }
            while !running.is_empty() {
                let block = running.remove(0);
                done.push(block);
                let ports = &wants[block as usize].0;
                for &port in ports {
                    users[port as usize] = None;
                }
                for place in all.free(ports) {
                    if all.take(place, &wants[place.block as usize].0) {
                        begin(place, &mut users, &mut running);
                    }
                }
            }
            done.sort_unstable();
            prop_assert_eq!(done, (0..wants.len() as u32).collect::<Vec<u32>>());
        }
    }
}
