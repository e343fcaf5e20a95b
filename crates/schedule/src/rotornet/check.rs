//! Follows every byte of a round robin.

use super::rotor::{Move, Rotor, RotorSchedule};
use crate::demand::{MAX_BYTES, check_square, length_of};
use lightloom_model::Invalid;
use rustc_hash::FxHashMap;

/// Checks that every move has a circuit with room for it, that relayed bytes arrive before they
/// leave, that each pair gets its bytes, and that length and line are as stated.
///
/// # Errors
/// If not: the first thing that is wrong.
pub fn check(demand: &[u64], rotor: &Rotor, schedule: &RotorSchedule) -> Result<(), Invalid> {
    let lines = check_square(demand, rotor.nodes)?;
    rotor.check_sizes()?;
    check_slots(rotor, schedule)?;
    if schedule.largest_line != lines.largest {
        let text = format!("the largest line is {}, not {}", lines.largest, schedule.largest_line);
        return Err(Invalid(text));
    }
    let n = rotor.nodes as u32;
    let stranger = |m: &&Move| [m.from, m.to, m.source, m.destination].iter().any(|&x| x >= n);
    if let Some(wrong) = schedule.moves.iter().find(stranger) {
        return Err(Invalid(format!("{wrong:?} is not among {n} nodes")));
    }
    let mut delivered = vec![0_u64; demand.len()];
    // Bytes at (node, source, destination), and those that arrive in the present slot.
    let mut stored: FxHashMap<(u32, u32, u32), u64> = FxHashMap::default();
    let mut first = 0;
    for (slot, (&turn, &hold)) in (0..).zip(schedule.turns.iter().zip(&schedule.holds)) {
        let end = schedule.moves[first..].iter().position(|m| m.slot != slot);
        let moves = &schedule.moves[first..end.map_or(schedule.moves.len(), |end| first + end)];
        first += moves.len();
        check_room(rotor, turn, hold, moves)?;
        for m in moves.iter().filter(|m| m.from != m.source) {
            let key = (m.from, m.source, m.destination);
            let left = stored.get(&key).copied().unwrap_or(0).checked_sub(m.bytes);
            let wrong = || Invalid(format!("node {} relays bytes that it has not got", m.from));
            stored.insert(key, left.filter(|_| m.to == m.destination).ok_or_else(wrong)?);
        }
        for m in moves {
            if m.to == m.destination {
                let cell = &mut delivered[(m.source * n + m.destination) as usize];
                *cell = cell.saturating_add(m.bytes);
            } else {
                let cell = stored.entry((m.to, m.source, m.destination)).or_default();
                *cell = cell.saturating_add(m.bytes);
            }
        }
    }
    if first < schedule.moves.len() {
        return Err(Invalid::new("moves are not sorted by slot"));
    }
    let wanted = (0..demand.len() as u32).filter(|cell| cell / n != cell % n);
    match { wanted }.find(|&cell| delivered[cell as usize] != demand[cell as usize]) {
        Some(cell) => {
            let (got, wants) = (delivered[cell as usize], demand[cell as usize]);
            let (source, to) = (cell / n, cell % n);
            Err(Invalid(format!("{got} of {wants} bytes from {source} to {to} arrive")))
        }
        None => Ok(()),
    }
}

fn check_slots(rotor: &Rotor, schedule: &RotorSchedule) -> Result<(), Invalid> {
    let (turns, holds) = (&schedule.turns, &schedule.holds);
    let ordered = turns.windows(2).all(|pair| pair[0] < pair[1]);
    let skips = turns.iter().zip(0..).any(|(&turn, slot)| turn != slot);
    if turns.len() != holds.len() || !ordered || (skips && !rotor.held) {
        return Err(Invalid::new("slots do not follow each other as switches turn"));
    }
    if turns.last().copied().max(holds.iter().copied().max()) > Some(MAX_BYTES) {
        return Err(Invalid::new("a slot of more than 2^53 bytes, or more turns"));
    }
    if !rotor.held && holds.windows(2).any(|pair| pair[0] != pair[1]) {
        return Err(Invalid::new("slots are not equally long"));
    }
    let length = length_of(holds.iter().map(|&hold| rotor.time(hold)))?;
    if length != schedule.length {
        return Err(Invalid(format!("slots take {length}, not {}", schedule.length)));
    }
    Ok(())
}

/// Checks that the circuits of a turn have room for the moves of its slot.
fn check_room(rotor: &Rotor, turn: u64, hold: u64, moves: &[Move]) -> Result<(), Invalid> {
    let n = rotor.nodes as u32;
    let mut room: FxHashMap<(u32, u32), u64> = FxHashMap::default();
    for (switch, shift) in rotor.shifts(turn).enumerate() {
        for from in 0..n {
            let pair = (from, (from + shift as u32) % n);
            *room.entry(pair).or_default() += rotor.room(hold, turn, switch);
        }
    }
    for m in moves {
        let left = room.get(&(m.from, m.to)).and_then(|left| left.checked_sub(m.bytes));
        let Some(left) = left else {
            let text = format!("no room from {} to {} at turn {turn}", m.from, m.to);
            return Err(Invalid(text));
        };
        room.insert((m.from, m.to), left);
    }
    Ok(())
}
