//! RotorNet's round robin (Mellette et al., SIGCOMM 2017): circuits that ignore the demand.
//!
//! The N - 1 shifts `i -> i + s` follow each other, as many at a time as there are switches, so
//! every ordered pair meets once in a cycle. Slots are all equally long, or end when their busiest
//! circuit has nothing left to send ("held"). With relaying (`RotorLB`) a circuit first carries
//! what it may deliver: relayed bytes, then its own; what is left of the slot takes bytes that
//! would not fit into their next own slot one hop to a node that can deliver them in its next one.
//!
//! [`check`] follows every byte of a result. Bytes are the unit of time: what a circuit carries
//! meanwhile. Assumes that the switches turn together and that nodes store what they relay.
//! Leaves out propagation, and the staggering of switches that hides reconfiguration from those
//! who can wait.

mod balance;
mod check;

pub use check::check;

use crate::demand::check_square;
use lightloom_model::Invalid;

/// Maximum number of slots of a result.
const MAX_SLOTS: usize = 1 << 20;

/// How the switches turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rotor {
    /// Number of nodes (top-of-rack switches, or servers).
    pub nodes: usize,
    /// Rotor switches; each node has a port at each.
    pub switches: usize,
    /// Bytes that a circuit carries in a slot at most. By default the largest entry of the demand,
    /// so that one cycle will do; with relaying a tenth of the mean entry of the longest line.
    pub slot: Option<u64>,
    /// Bytes that a circuit could carry while the switches turn.
    pub delay: u64,
    /// Whether a slot ends when nothing is left to send to the nodes now connected.
    pub held: bool,
    /// Whether spare room takes bytes to relays.
    pub relay: bool,
}

impl Rotor {
    /// The shift of each switch at a turn.
    pub fn shifts(&self, turn: u64) -> impl Iterator<Item = usize> {
        let (switches, shifts) = (self.switches as u64, self.nodes as u64 - 1);
        (0..switches).map(move |switch| ((turn * switches + switch) % shifts) as usize + 1)
    }
}

/// Bytes that cross one circuit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Move {
    /// Index of the slot.
    pub slot: u32,
    /// Ends of the circuit.
    pub from: u32,
    /// Where it ends.
    pub to: u32,
    /// Who wants to send these bytes.
    pub source: u32,
    /// To whom.
    pub destination: u32,
    /// How many.
    pub bytes: u64,
}

/// A round robin that serves a demand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RotorSchedule {
    /// Turn of each slot; turns without a slot are skipped at once.
    pub turns: Vec<u64>,
    /// How long each slot is held, in bytes of one circuit.
    pub holds: Vec<u64>,
    /// What is sent, slot by slot.
    pub moves: Vec<Move>,
    /// All holds, and a delay before each.
    pub length: u64,
    /// The most bytes that a node sends or receives.
    pub largest_line: u64,
}

impl RotorSchedule {
    /// Length over what no schedule beats: the largest line over all ports of its node.
    pub fn over_bound(&self, switches: usize) -> f64 {
        match self.largest_line {
            0 => 1.0,
            line => self.length as f64 * switches as f64 / line as f64,
        }
    }

    /// Bytes that took two hops.
    pub fn relayed(&self) -> u64 {
        let first_hops = self.moves.iter().filter(|m| m.to != m.destination);
        first_hops.map(|m| m.bytes).sum()
    }
}

/// Serves a demand, `nodes` x `nodes` bytes, row = source; the diagonal is ignored.
///
/// # Errors
/// If sizes do not fit, or slots are so short that a million do not serve the demand.
pub fn rotate(demand: &[u64], rotor: &Rotor) -> Result<RotorSchedule, Invalid> {
    let lines = check_square(demand, rotor.nodes)?;
    if rotor.nodes < 2 || rotor.switches == 0 || rotor.slot == Some(0) {
        return Err(Invalid::new("a rotor needs 2 nodes, a switch and slots of a byte or more"));
    }
    let slot = rotor.slot.unwrap_or_else(|| {
        if rotor.relay {
            lines.largest.div_ceil(10 * (rotor.nodes as u64 - 1))
        } else {
            lines.largest_entry
        }
    });
    balance::run(demand, rotor, slot.max(1), lines.largest)
}
