//! The slots one after another, from the queues of a whole demand.

use super::rotor::{Rotor, RotorSchedule};
use super::slot::{RotorQueues, RotorTurn};
use crate::demand::length_of;
use lightloom_model::Invalid;

/// Maximum number of slots of a result.
const MAX_SLOTS: usize = 1 << 20;

/// Serves the demand with slots of at most `slot` bytes.
pub(super) fn run(
    demand: &[u64],
    rotor: &Rotor,
    slot: u64,
    largest_line: u64,
) -> Result<RotorSchedule, Invalid> {
    let mut queues = RotorQueues::new(demand, rotor.nodes)?;
    let room = rotor.turn_time(slot);
    let (mut turns, mut holds, mut moves) = (Vec::new(), Vec::new(), Vec::new());
    let mut left = queues.waiting();
    for turn in 0.. {
        if left == 0 {
            break;
        }
        let first = moves.len();
        let slot_index = holds.len() as u32;
        let play =
            RotorTurn { rotor, room, queues: &mut queues, moves: &mut moves, slot: slot_index };
        let hold = play.play(turn);
        let delivered = moves[first..].iter().filter(|m| m.to == m.destination);
        left -= delivered.map(|m| m.bytes).sum::<u64>();
        if hold > 0 {
            turns.push(turn);
            holds.push(hold);
        }
        if holds.len() > MAX_SLOTS {
            let text = format!("{MAX_SLOTS} slots of {slot} bytes do not serve this demand");
            return Err(Invalid(text));
        }
    }
    let length = length_of(holds.iter().map(|&hold| rotor.time(hold)))?;
    Ok(RotorSchedule { turns, holds, moves, length, largest_line })
}
