//! The slots one after another: delivery first, relaying with what is left.

use std::collections::VecDeque;

use super::rotor::{Move, Rotor, RotorSchedule};
use crate::demand::length_of;
use lightloom_model::Invalid;

/// Maximum number of slots of a result.
const MAX_SLOTS: usize = 1 << 20;

struct State<'a> {
    rotor: &'a Rotor,
    slot: u64,
    /// What each source still has for each destination.
    own: Vec<u64>,
    /// What each node holds for each destination on behalf of others: source, bytes.
    held: Vec<VecDeque<(u32, u64)>>,
    /// The sum of that, and of what arrives in the present slot.
    held_bytes: Vec<u64>,
    left: u64,
    moves: Vec<Move>,
}

struct Circuit {
    from: usize,
    to: usize,
    sent: u64,
}

/// Serves the demand with slots of at most `slot` bytes.
pub(super) fn run(
    demand: &[u64],
    rotor: &Rotor,
    slot: u64,
    largest_line: u64,
) -> Result<RotorSchedule, Invalid> {
    let n = rotor.nodes;
    let mut own = demand.to_vec();
    for node in 0..n {
        own[node * n + node] = 0;
    }
    let left = own.iter().sum();
    let held = vec![VecDeque::new(); n * n];
    let moves = Vec::new();
    let mut state = State { rotor, slot, own, held, held_bytes: vec![0; n * n], left, moves };
    let (mut turns, mut holds) = (Vec::new(), Vec::new());
    for turn in 0.. {
        if state.left == 0 {
            break;
        }
        let hold = state.play(turn, holds.len() as u32);
        if hold > 0 {
            turns.push(turn);
            holds.push(hold);
        }
        if holds.len() > MAX_SLOTS {
            let text = format!("{MAX_SLOTS} slots of {slot} bytes do not serve this demand");
            return Err(Invalid(text));
        }
    }
    let length = length_of(holds.iter().map(|&hold| u128::from(hold) + u128::from(rotor.delay)))?;
    Ok(RotorSchedule { turns, holds, moves: state.moves, length, largest_line })
}

impl State<'_> {
    /// Plays one turn and returns how long it is held.
    fn play(&mut self, turn: u64, slot: u32) -> u64 {
        let n = self.rotor.nodes;
        let rotor = *self.rotor;
        let pairs = rotor.shifts(turn).flat_map(|shift| (0..n).map(move |i| (i, (i + shift) % n)));
        let mut circuits: Vec<Circuit> =
            pairs.map(|(from, to)| Circuit { from, to, sent: 0 }).collect();
        for circuit in &mut circuits {
            self.deliver(circuit, slot);
        }
        let longest = circuits.iter().map(|circuit| circuit.sent).max().unwrap_or(0);
        let hold = if self.rotor.held { longest } else { self.slot };
        if self.rotor.relay {
            // Arrivals wait for the next slot.
            let mut arrivals = Vec::new();
            for circuit in &circuits {
                self.offer(circuit, hold - circuit.sent, slot, &mut arrivals);
            }
            for (cell, source, bytes) in arrivals {
                self.held[cell].push_back((source, bytes));
            }
        }
        hold
    }

    /// Sends what the far end wants: relayed bytes first, then the near end's own.
    fn deliver(&mut self, circuit: &mut Circuit, slot: u32) {
        let cell = circuit.from * self.rotor.nodes + circuit.to;
        let (from, to) = (circuit.from as u32, circuit.to as u32);
        while circuit.sent < self.slot {
            let Some(&(source, waiting)) = self.held[cell].front() else { break };
            let bytes = waiting.min(self.slot - circuit.sent);
            if bytes == waiting {
                self.held[cell].pop_front();
            } else {
                self.held[cell][0].1 -= bytes;
            }
            self.held_bytes[cell] -= bytes;
            circuit.sent += bytes;
            self.left -= bytes;
            self.moves.push(Move { slot, from, to, source, destination: to, bytes });
        }
        let bytes = self.own[cell].min(self.slot - circuit.sent);
        if bytes > 0 {
            self.own[cell] -= bytes;
            circuit.sent += bytes;
            self.left -= bytes;
            self.moves.push(Move { slot, from, to, source: from, destination: to, bytes });
        }
    }

    /// Sends bytes that do not fit into their next own slot to a node that can deliver them in
    /// its next one, divided equally among destinations as far as that is possible.
    fn offer(
        &mut self,
        circuit: &Circuit,
        room: u64,
        slot: u32,
        arrivals: &mut Vec<(usize, u32, u64)>,
    ) {
        let n = self.rotor.nodes;
        let (near, far) = (circuit.from * n, circuit.to * n);
        let mut offers: Vec<(u64, usize)> = (0..n)
            .filter(|&end| end != circuit.from && end != circuit.to)
            .map(|end| {
                let excess = self.own[near + end].saturating_sub(self.slot);
                let taken = self.own[far + end] + self.held_bytes[far + end];
                (excess.min(self.slot.saturating_sub(taken)), end)
            })
            .filter(|offer| offer.0 > 0)
            .collect();
        offers.sort_unstable();
        let mut room = room;
        for (index, &(offer, end)) in offers.iter().enumerate() {
            let bytes = offer.min(room / (offers.len() - index) as u64);
            if bytes == 0 {
                continue;
            }
            room -= bytes;
            self.own[near + end] -= bytes;
            self.held_bytes[far + end] += bytes;
            let (from, to) = (circuit.from as u32, circuit.to as u32);
            arrivals.push((far + end, from, bytes));
            let destination = end as u32;
            self.moves.push(Move { slot, from, to, source: from, destination, bytes });
        }
    }
}
