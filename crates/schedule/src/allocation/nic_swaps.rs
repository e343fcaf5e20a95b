//! Circuits on planes that lie elsewhere than before are put back by swapping NICs.
//!
//! If two NICs of a server change places, what they end moves, and so must NICs of the servers at
//! the far ends, and so on: the two-colored paths and cycles of Kempe (1879). All that is placed
//! stays placed. A swap is made if more circuits are then where they were, until none is: the
//! fewest moves are not guaranteed.

use super::nics::{NicCircuit, NicEnd};
use lightloom_model::Fibers;

/// No server.
const NONE: u32 = u32::MAX;

/// Puts circuits back where `previous` ones were, as far as swaps do. Those are on NICs that
/// the fibers join.
pub(super) fn put_back(
    placed: &mut Vec<NicCircuit>,
    working: &[bool],
    fibers: Fibers,
    planes: usize,
    previous: &[NicCircuit],
) {
    let size = working.len();
    let mut ends = Ends {
        working,
        fibers,
        planes,
        peer: vec![NONE; size],
        home: vec![NONE; size],
        seen: vec![0; size],
        round: 0,
        steps: Vec::new(),
    };
    ends.fill(placed, previous);
    let mut pays = true;
    while pays {
        pays = false;
        for circuit in previous {
            pays |= ends.restore(circuit);
        }
    }
    ends.read(placed);
}

/// A server, two of whose NICs change places.
#[derive(Clone, Copy)]
struct Step {
    server: usize,
    nics: [usize; 2],
}

/// What the NICs end, n x planes.
struct Ends<'a> {
    working: &'a [bool],
    fibers: Fibers,
    planes: usize,
    /// The server that a NIC's circuit joins it to.
    peer: Vec<u32>,
    /// The one that it joined it to before.
    home: Vec<u32>,
    /// The round in which a NIC last changed places.
    seen: Vec<u32>,
    round: u32,
    /// The swap that is looked at.
    steps: Vec<Step>,
}

impl Ends<'_> {
    fn fill(&mut self, placed: &[NicCircuit], previous: &[NicCircuit]) {
        let planes = self.planes;
        for (circuits, peers) in [(placed, &mut self.peer), (previous, &mut self.home)] {
            for NicCircuit { a, b } in circuits {
                for (one, other) in [(a, b), (b, a)] {
                    peers[one.server as usize * planes + one.nic as usize] = other.server;
                }
            }
        }
    }

    /// Looks for a swap that puts this circuit back, and makes it if that pays.
    fn restore(&mut self, circuit: &NicCircuit) -> bool {
        let (server, nic, peer) =
            (circuit.a.server as usize, circuit.a.nic as usize, circuit.b.server);
        let row = server * self.planes;
        if self.peer[row + nic] == peer {
            return false;
        }
        for other in 0..self.planes {
            let is_away = self.peer[row + other] == peer && self.home[row + other] != peer;
            if is_away
                && self.gain(Step { server, nics: [nic, other] }).is_some_and(|gain| gain > 0)
            {
                for &Step { server, nics: [one, other] } in &self.steps {
                    self.peer.swap(server * self.planes + one, server * self.planes + other);
                }
                return true;
            }
        }
        false
    }

    /// How many more circuits are where they were after a swap; nothing if it is impossible.
    fn gain(&mut self, first: Step) -> Option<i32> {
        self.round += 1;
        self.steps.clear();
        self.add(first)?;
        let (mut gain, mut index) = (0, 0);
        while let Some(&Step { server, nics }) = self.steps.get(index) {
            index += 1;
            let [one, other] = nics;
            let far = nics.map(|nic| self.fibers.partner(nic, self.planes));
            for (from, to, far_to) in [(one, other, far[1]), (other, one, far[0])] {
                let [from, to] = [from, to].map(|nic| server * self.planes + nic);
                let peer = self.peer[from];
                if peer == NONE {
                    continue;
                }
                if !self.working[to] || !self.working[peer as usize * self.planes + far_to] {
                    return None;
                }
                // Each circuit is met from both ends.
                if server < peer as usize {
                    gain += i32::from(self.home[to] == peer) - i32::from(self.home[from] == peer);
                }
                self.add(Step { server: peer as usize, nics: far })?;
            }
        }
        Some(gain)
    }

    /// Adds a step, unless it is there; nothing if one of its NICs changes places with a third.
    fn add(&mut self, step: Step) -> Option<()> {
        let ends = step.nics.map(|nic| step.server * self.planes + nic);
        match ends.map(|end| self.seen[end] == self.round) {
            [true, true] => return Some(()),
            [false, false] => {}
            _ => return None,
        }
        for end in ends {
            self.seen[end] = self.round;
        }
        self.steps.push(step);
        Some(())
    }

    fn read(&self, placed: &mut Vec<NicCircuit>) {
        placed.clear();
        for (end, &peer) in self.peer.iter().enumerate() {
            let (server, nic) = ((end / self.planes) as u32, end % self.planes);
            if peer != NONE && server < peer {
                let far = self.fibers.partner(nic, self.planes) as u32;
                placed.push(NicCircuit {
                    a: NicEnd { server, nic: nic as u32 },
                    b: NicEnd { server: peer, nic: far },
                });
            }
        }
        placed.sort_unstable();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(a: [u32; 2], b: [u32; 2]) -> NicCircuit {
        NicCircuit { a: NicEnd { server: a[0], nic: a[1] }, b: NicEnd { server: b[0], nic: b[1] } }
    }

    /// Six servers, each joined to the next, on two NICs in turn.
    fn ring(first: u32) -> Vec<NicCircuit> {
        let circuit = |server: u32| {
            let nic = (server + first) % 2;
            let next = (server + 1) % 6;
            joined([server.min(next), nic], [server.max(next), nic])
        };
        let mut found: Vec<NicCircuit> = (0..6).map(circuit).collect();
        found.sort_unstable();
        found
    }

    #[test]
    fn a_ring_on_swapped_nics_returns_as_a_whole() {
        let before = ring(0);
        let mut placed = ring(1);
        assert!(placed.iter().all(|circuit| !before.contains(circuit)));
        put_back(&mut placed, &[true; 24], Fibers::Duplex, 4, &before);
        assert_eq!(placed, before);
    }

    /// The ring turns as a whole, which would put one circuit back and move two.
    #[test]
    fn circuits_stay_where_more_would_move() {
        let mut placed = ring(1);
        let there = placed.clone();
        let is_kept = |circuit: &&NicCircuit| [2, 3].contains(&circuit.a.server);
        let mut previous: Vec<NicCircuit> = there.iter().filter(is_kept).copied().collect();
        previous.push(joined([0, 1], [5, 1]));
        put_back(&mut placed, &[true; 24], Fibers::Duplex, 4, &previous);
        assert_eq!(placed, there);
    }

    #[test]
    fn nics_that_do_not_work_take_part_in_no_swap() {
        let mut working = [true; 24];
        working[3 * 4] = false;
        let on_working =
            |circuit: &NicCircuit| ![circuit.a, circuit.b].contains(&NicEnd { server: 3, nic: 0 });
        let [previous, there] = [0, 1].map(|first| {
            let mut circuits = ring(first);
            circuits.retain(on_working);
            circuits
        });
        let mut placed = there.clone();
        put_back(&mut placed, &working, Fibers::Duplex, 4, &previous);
        assert_eq!(placed, there);
    }

    /// Crossed fibers swap one pair of NICs here and the partners there.
    #[test]
    fn crossed_circuits_return_to_the_other_planes() {
        let on = |planes: [u32; 3]| {
            let [x, y, z] = planes;
            vec![joined([0, x], [1, x ^ 1]), joined([0, z], [2, z ^ 1]), joined([1, y], [2, y ^ 1])]
        };
        let before = on([0, 0, 2]);
        let mut placed = on([2, 2, 0]);
        put_back(&mut placed, &[true; 12], Fibers::Crossed, 4, &before);
        assert_eq!(placed, before);
    }
}
