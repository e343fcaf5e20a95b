//! Rotor switches, and what they do.

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
