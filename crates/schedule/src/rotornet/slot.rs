//! One slot of a round robin, from queues alone: delivery first, relaying with what is left.

use std::collections::VecDeque;

use lightloom_model::Invalid;

use super::matchings::RotorMatchings;
use super::rotor::{Move, Rotor};
use crate::demand::{MAX_BYTES, check_square};

/// What waits at the nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RotorQueues {
    /// What each source still has for each destination, row after row.
    pub own: Vec<u64>,
    /// What each node holds for each destination on behalf of others: source, bytes, oldest first.
    pub relayed: Vec<VecDeque<(u32, u64)>>,
    /// The sum of that, and of what arrives in the present slot.
    relayed_bytes: Vec<u64>,
}

impl RotorQueues {
    /// Queues of a demand, `nodes` x `nodes` bytes; the diagonal is ignored.
    ///
    /// # Errors
    /// If sizes do not fit.
    pub fn new(demand: &[u64], nodes: usize) -> Result<Self, Invalid> {
        check_square(demand, nodes)?;
        let mut own = demand.to_vec();
        for node in 0..nodes {
            own[node * nodes + node] = 0;
        }
        let relayed = vec![VecDeque::new(); nodes * nodes];
        Ok(Self { own, relayed, relayed_bytes: vec![0; nodes * nodes] })
    }

    /// Lets a node hold bytes of a source for a destination.
    ///
    /// # Errors
    /// If one of them is not among the nodes, or they are not three.
    pub fn hold(&mut self, node: u32, source: u32, to: u32, bytes: u64) -> Result<(), Invalid> {
        let nodes = self.own.len().isqrt();
        let stranger = [node, source, to].into_iter().any(|one| one as usize >= nodes);
        if stranger
            || node == source
            || node == to
            || source == to
            || !(1..=1 << 53).contains(&bytes)
        {
            let text = format!("node {node} cannot hold {bytes} bytes from {source} to {to}");
            return Err(Invalid(text));
        }
        let cell = node as usize * nodes + to as usize;
        self.relayed[cell].push_back((source, bytes));
        self.relayed_bytes[cell] += bytes;
        Ok(())
    }

    /// Bytes that have not arrived.
    pub fn waiting(&self) -> u64 {
        self.own.iter().chain(&self.relayed_bytes).sum()
    }
}

/// What is sent in a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RotorSlot {
    /// How long it is held, in bytes of one circuit; nothing if it may be skipped.
    pub hold: u64,
    /// What is sent; the index of the slot in each is 0.
    pub moves: Vec<Move>,
}

/// Plays one turn of the switches and takes what is sent from the queues.
///
/// `room` is the longest slot. A circuit carries up to that many bytes: relayed ones that it may
/// deliver, then its near end's own.
/// What is left takes, with `relay`, bytes that would not fit into their next own slot one hop to a
/// node that can deliver them in its next one (`RotorLB`, Mellette et al., SIGCOMM 2017).
/// O(switches n) circuits, with relaying O(n log n) for each.
///
/// # Errors
/// If the queues are not those of the rotor's nodes.
pub fn rotor_slot(
    queues: &mut RotorQueues,
    rotor: &Rotor,
    room: u64,
    turn: u64,
) -> Result<RotorSlot, Invalid> {
    rotor_slot_by(queues, rotor, &RotorMatchings::Shifts { nodes: rotor.nodes }, room, turn)
}

/// The same with other matchings than shifts.
///
/// # Errors
/// If the queues are not those of the rotor's nodes.
pub fn rotor_slot_by(
    queues: &mut RotorQueues,
    rotor: &Rotor,
    matchings: &RotorMatchings,
    room: u64,
    turn: u64,
) -> Result<RotorSlot, Invalid> {
    rotor.check_sizes()?;
    rotor.check(room)?;
    if room.max(turn) > MAX_BYTES {
        return Err(Invalid::new("a slot of more than 2^53 bytes, or more turns"));
    }
    if queues.own.len() != rotor.nodes * rotor.nodes {
        let text = format!("{} queues for {} nodes", queues.own.len(), rotor.nodes);
        return Err(Invalid(text));
    }
    let mut moves = Vec::new();
    let room = rotor.turn_time(room);
    let hold = RotorTurn { rotor, matchings, room, queues, moves: &mut moves, slot: 0 }.play(turn);
    Ok(RotorSlot { hold, moves })
}

/// A turn that is being played; `room` is the longest slot.
pub(crate) struct RotorTurn<'a> {
    pub(crate) rotor: &'a Rotor,
    pub(crate) matchings: &'a RotorMatchings,
    pub(crate) room: u64,
    pub(crate) queues: &'a mut RotorQueues,
    pub(crate) moves: &'a mut Vec<Move>,
    pub(crate) slot: u32,
}

struct Circuit {
    from: usize,
    to: usize,
    /// What it carries in the slot at most.
    room: u64,
    sent: u64,
}

impl RotorTurn<'_> {
    /// Plays one turn and returns how long it is held.
    pub(crate) fn play(mut self, turn: u64) -> u64 {
        let n = self.rotor.nodes;
        let mut circuits = Vec::with_capacity(n * self.rotor.switches);
        for (switch, shift) in self.rotor.shifts(turn).enumerate() {
            let room = self.rotor.room(self.room, turn, switch);
            circuits.extend((0..n).map(|from| Circuit {
                from,
                to: self.matchings.peer(shift, from),
                room,
                sent: 0,
            }));
        }
        for circuit in &mut circuits {
            self.deliver(circuit);
        }
        let longest = circuits.iter().map(|circuit| circuit.sent).max().unwrap_or(0);
        let hold = if self.rotor.held { longest } else { self.room };
        if self.rotor.relay {
            // Arrivals wait for the next slot.
            let mut arrivals = Vec::new();
            for circuit in &circuits {
                let room = circuit.room.min(hold) - circuit.sent;
                self.offer(circuit, room, &mut arrivals);
            }
            for (cell, source, bytes) in arrivals {
                self.queues.relayed[cell].push_back((source, bytes));
            }
        }
        hold
    }

    /// Sends what the far end wants: relayed bytes first, then the near end's own.
    fn deliver(&mut self, circuit: &mut Circuit) {
        let cell = circuit.from * self.rotor.nodes + circuit.to;
        let (from, to, slot) = (circuit.from as u32, circuit.to as u32, self.slot);
        let queues = &mut *self.queues;
        while circuit.sent < circuit.room {
            let Some(&(source, waiting)) = queues.relayed[cell].front() else { break };
            let bytes = waiting.min(circuit.room - circuit.sent);
            if bytes == waiting {
                queues.relayed[cell].pop_front();
            } else {
                queues.relayed[cell][0].1 -= bytes;
            }
            queues.relayed_bytes[cell] -= bytes;
            circuit.sent += bytes;
            self.moves.push(Move { slot, from, to, source, destination: to, bytes });
        }
        let bytes = queues.own[cell].min(circuit.room - circuit.sent);
        if bytes > 0 {
            queues.own[cell] -= bytes;
            circuit.sent += bytes;
            self.moves.push(Move { slot, from, to, source: from, destination: to, bytes });
        }
    }

    /// Sends bytes that do not fit into their next own slot to a node that can deliver them in
    /// its next one, divided equally among destinations as far as that is possible.
    fn offer(&mut self, circuit: &Circuit, room: u64, arrivals: &mut Vec<(usize, u32, u64)>) {
        let n = self.rotor.nodes;
        let (near, far) = (circuit.from * n, circuit.to * n);
        let queues = &mut *self.queues;
        let mut offers: Vec<(u64, usize)> = (0..n)
            .filter(|&end| end != circuit.from && end != circuit.to)
            .map(|end| {
                let excess = queues.own[near + end].saturating_sub(self.room);
                let taken = queues.own[far + end] + queues.relayed_bytes[far + end];
                (excess.min(self.room.saturating_sub(taken)), end)
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
            queues.own[near + end] -= bytes;
            queues.relayed_bytes[far + end] += bytes;
            let (from, to, slot) = (circuit.from as u32, circuit.to as u32, self.slot);
            arrivals.push((far + end, from, bytes));
            let destination = end as u32;
            self.moves.push(Move { slot, from, to, source: from, destination, bytes });
        }
    }
}
