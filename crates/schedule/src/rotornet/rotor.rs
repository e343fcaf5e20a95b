//! Rotor switches, and what they do.

use lightloom_model::{Invalid, by_name, choices};
use serde::Deserialize;

use crate::demand::{MAX_BYTES as MAX_TIME, check_switches};

choices! {
    /// Which shifts a switch holds, and when it turns.
    pub enum Cycling: "cycling" {
        Shared = "shared": "All shifts pass all switches, which turn together",
        Fixed = "fixed": "Each switch cycles through a subset of its own; all turn together",
        Staggered = "staggered": "Subsets as with fixed; one switch after the other turns",
    }
}

/// How the switches turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rotor {
    /// Number of nodes (top-of-rack switches, or servers), which the demand says.
    #[serde(skip)]
    pub nodes: usize,
    /// Rotor switches; each node has a port at each.
    pub switches: usize,
    /// Bytes that a circuit carries in a slot at most. By default the largest entry of the demand,
    /// so that one cycle will do; with relaying a tenth of the mean entry of the longest line.
    #[serde(rename = "slot_bytes")]
    pub slot: Option<u64>,
    /// Bytes that a circuit could carry while its switch turns.
    #[serde(rename = "delay_bytes")]
    pub delay: u64,
    /// Whether a slot ends when nothing is left to send to the nodes now connected.
    pub held: bool,
    /// Whether spare room takes bytes to relays.
    pub relay: bool,
    /// Which shifts a switch holds, and when it turns.
    #[serde(with = "by_name")]
    pub cycling: Cycling,
}

impl Rotor {
    /// The shift of each switch at a turn.
    pub fn shifts(&self, turn: u64) -> impl Iterator<Item = usize> {
        let (switches, shifts) = (self.switches as u64, self.nodes as u64 - 1);
        let cycling = self.cycling;
        (0..switches).map(move |switch| {
            let local = match cycling {
                Cycling::Shared => return ((turn * switches + switch) % shifts) as usize + 1,
                Cycling::Fixed => turn,
                Cycling::Staggered => (turn + switches - switch) / switches,
            };
            // More switches than shifts: the first ones once more.
            let first = switch % shifts;
            let subset = (shifts - first).div_ceil(switches);
            (first + local % subset * switches) as usize + 1
        })
    }

    /// Time from one turn to the next, in bytes of one circuit, delays aside unless the switches
    /// are staggered: then they turn in turn, each after a slot and a delay.
    pub(crate) fn turn_time(&self, slot: u64) -> u64 {
        match self.cycling {
            Cycling::Staggered => (slot + self.delay).div_ceil(self.switches as u64),
            Cycling::Shared | Cycling::Fixed => slot,
        }
    }

    /// What a circuit of a switch carries in a turn that is held so long.
    pub(crate) fn room(&self, hold: u64, turn: u64, switch: usize) -> u64 {
        let turns = turn == 0 || turn % self.switches as u64 == switch as u64;
        match self.cycling {
            Cycling::Staggered if turns => hold.saturating_sub(self.delay),
            _ => hold,
        }
    }

    /// Time that a turn takes, all in all.
    pub(crate) fn time(&self, hold: u64) -> u128 {
        match self.cycling {
            Cycling::Staggered => u128::from(hold),
            Cycling::Shared | Cycling::Fixed => u128::from(hold) + u128::from(self.delay),
        }
    }

    /// Checks that there is something to turn.
    pub(crate) fn check_sizes(&self) -> Result<(), Invalid> {
        if self.nodes < 2 || self.switches == 0 || self.slot == Some(0) {
            let text = "a rotor needs 2 nodes, a switch and slots of a byte or more";
            return Err(Invalid::new(text));
        }
        if self.slot.unwrap_or(0).max(self.delay) > MAX_TIME {
            return Err(Invalid::new("a slot or a delay is beyond 2^53 bytes"));
        }
        check_switches(self.switches)
    }

    /// Checks that staggered switches can turn in time, with slots of so many bytes.
    pub(crate) fn check(&self, slot: u64) -> Result<(), Invalid> {
        if self.cycling != Cycling::Staggered {
            return Ok(());
        }
        if self.held {
            return Err(Invalid::new("staggered switches turn by the clock: slots cannot be held"));
        }
        let each = self.turn_time(slot);
        if each < self.delay {
            let (delay, switches) = (self.delay, self.switches);
            let text = format!(
                "{switches} switches turn every {each} bytes: less than a delay of {delay}"
            );
            return Err(Invalid(text));
        }
        Ok(())
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
