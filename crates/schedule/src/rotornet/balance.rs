//! The slots one after another, from the queues of a whole demand.

use super::matchings::RotorMatchings;
use super::rotor::{Rotor, RotorSchedule};
use super::slot::{RotorQueues, RotorTurn};
use crate::demand::length_of;
use lightloom_model::Invalid;

/// Maximum number of slots of a result, or of so many per node if these are more.
const MAX_SLOTS: usize = 1 << 16;
const MAX_SLOTS_PER_NODE: usize = 1 << 8;

/// Maximum number of moves of a result, or of so many per pair if these are more.
const MAX_MOVES: usize = 1 << 20;
const MAX_MOVES_PER_PAIR: usize = 1 << 8;

/// Serves the demand with slots of at most `slot` bytes.
pub(super) fn run(
    demand: &[u64],
    rotor: &Rotor,
    slot: u64,
    largest_line: u64,
) -> Result<RotorSchedule, Invalid> {
    let mut queues = RotorQueues::new(demand, rotor.nodes)?;
    let matchings = &RotorMatchings::Shifts { nodes: rotor.nodes };
    let room = rotor.turn_time(slot);
    let max_slots = MAX_SLOTS.max(MAX_SLOTS_PER_NODE * rotor.nodes);
    let max_moves = MAX_MOVES.max(MAX_MOVES_PER_PAIR * rotor.nodes * rotor.nodes);
    let too_many = || {
        let text = format!(
            "{max_slots} slots of {slot} bytes, or {max_moves} moves, do not serve this demand"
        );
        Invalid(text)
    };
    // What the busiest line sends in a slot at most.
    let share = rotor.switches as u128 * u128::from(room);
    if u128::from(largest_line) > share * max_slots as u128 {
        return Err(too_many());
    }
    let (mut turns, mut holds, mut moves) = (Vec::new(), Vec::new(), Vec::new());
    let mut left = queues.waiting();
    for turn in 0.. {
        if left == 0 {
            break;
        }
        let first = moves.len();
        let slot_index = holds.len() as u32;
        let (queues, moves) = (&mut queues, &mut moves);
        let play = RotorTurn { rotor, matchings, room, queues, moves, slot: slot_index };
        let hold = play.play(turn);
        let delivered = moves[first..].iter().filter(|m| m.to == m.destination);
        left -= delivered.map(|m| m.bytes).sum::<u64>();
        if hold > 0 {
            turns.push(turn);
            holds.push(hold);
        }
        if holds.len() > max_slots || moves.len() > max_moves {
            return Err(too_many());
        }
    }
    let length = length_of(holds.iter().map(|&hold| rotor.time(hold)))?;
    Ok(RotorSchedule { turns, holds, moves, length, largest_line })
}
