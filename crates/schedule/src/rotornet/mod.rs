//! RotorNet's round robin (Mellette et al., SIGCOMM 2017): circuits that ignore the demand.
//!
//! The N - 1 shifts `i -> i + s` follow each other, as many at a time as there are switches, so
//! every ordered pair meets once in a cycle. Slots are all equally long, or end when their busiest
//! circuit has nothing left to send ("held"). With relaying (`RotorLB`) a circuit first carries
//! what it may deliver: relayed bytes, then its own; what is left of the slot takes bytes that
//! would not fit into their next own slot one hop to a node that can deliver them in its next one.
//!
//! [`check`] follows every byte of a result. Bytes are the unit of time: what a circuit carries
//! meanwhile. Switches turn together or one after another ([`Cycling`]); [`rotor_slot`] is one slot
//! from what waits. Assumes that nodes store what they relay. Leaves out propagation.

mod balance;
mod check;
mod matchings;
mod rotor;
mod slot;

pub use check::check;
pub use matchings::RotorMatchings;
pub use rotor::{Cycling, Move, Rotor, RotorSchedule};
pub use slot::{RotorQueues, RotorSlot, rotor_slot, rotor_slot_by};

use crate::demand::check_square;
use lightloom_model::Invalid;

/// Serves a demand, `nodes` x `nodes` bytes, row = source; the diagonal is ignored.
///
/// # Errors
/// If sizes do not fit, or slots are so short that 65,536 (or 256 per node) do not serve the
/// demand.
pub fn rotate(demand: &[u64], rotor: &Rotor) -> Result<RotorSchedule, Invalid> {
    let lines = check_square(demand, rotor.nodes)?;
    rotor.check_sizes()?;
    let slot = rotor.slot.unwrap_or_else(|| {
        if rotor.relay {
            lines.largest.div_ceil(10 * (rotor.nodes as u64 - 1))
        } else {
            lines.largest_entry
        }
    });
    rotor.check(slot.max(1))?;
    balance::run(demand, rotor, slot.max(1), lines.largest)
}
