//! Verifies a schedule against its demand, independently of how it was made.

use lightloom_model::Invalid;

use super::budget::Budget;
use super::demand::Demand;
use super::optimum::{self, Found};
use super::schedule::Schedule;
use super::slots::{Matchings, PairTransfer, Slots};

/// Checks that every slot is a matching, that the demand is served exactly, and that length and
/// bound are what the schedule says.
///
/// # Errors
/// The first thing that is wrong.
pub fn check(demand: &Demand, schedule: &Schedule) -> Result<(), Invalid> {
    match &schedule.plan {
        Matchings::Slots(slots) => check_slots(demand, slots)?,
        Matchings::Transfers(transfers) => check_transfers(demand, transfers)?,
    }
    let length = schedule.plan.length(demand.delay);
    if length != schedule.length {
        return Err(wrong(&format!("it says length {}, but lasts {length}", schedule.length)));
    }
    let (bound, stated) = (demand.lower_bound(), schedule.lower_bound);
    if stated < bound || bound > length {
        return Err(wrong(&format!("it says bound {stated}, but {bound} of {length} holds")));
    }
    if stated > bound { check_proved(demand, stated, length) } else { Ok(()) }
}

/// How many times as many evaluations a proof may take as those of `auto`.
const PATIENCE: u32 = 4;

/// A bound above the one of a formula is proved anew by a search.
fn check_proved(demand: &Demand, stated: u64, length: u64) -> Result<(), Invalid> {
    if demand.partial || demand.delay == 0 || stated > length {
        return Err(wrong(&format!("it says bound {stated} of {length}, which is not one")));
    }
    let searched = optimum::search(demand, stated, PATIENCE, &Budget::unlimited());
    match searched {
        Found { slots: Some(slots), .. } => {
            let shorter = slots.length(demand.delay);
            Err(wrong(&format!("it says bound {stated}, but there is a schedule of {shorter}")))
        }
        Found { lower_bound, .. } if lower_bound < stated => {
            Err(wrong(&format!("it says bound {stated}, but only {lower_bound} is proved")))
        }
        Found { .. } => Ok(()),
    }
}

fn wrong(text: &str) -> Invalid {
    Invalid(format!("schedule: {text}"))
}

fn check_slots(demand: &Demand, slots: &Slots) -> Result<(), Invalid> {
    let Demand { rows, columns, .. } = *demand;
    if slots.matchings.len() != rows * slots.holds.len() {
        let text =
            format!("{} cells for {} slots of {rows} rows", slots.matchings.len(), slots.len());
        return Err(wrong(&text));
    }
    let mut left = demand.bytes.to_vec();
    let mut used = vec![usize::MAX; columns];
    for (slot, &hold) in slots.holds.iter().enumerate() {
        if hold == 0 {
            return Err(wrong(&format!("slot {slot} is held for nothing")));
        }
        for row in 0..rows {
            let column = slots.matchings[slot * rows + row];
            if column == -1 {
                continue;
            }
            let Some(column) = usize::try_from(column).ok().filter(|&c| c < columns) else {
                return Err(wrong(&format!("slot {slot}, row {row}: no column {column}")));
            };
            if used[column] == slot {
                return Err(wrong(&format!("slot {slot}: column {column} twice")));
            }
            used[column] = slot;
            let cell = &mut left[row * columns + column];
            if *cell == 0 {
                let text = format!("slot {slot}: row {row} has nothing for column {column}");
                return Err(wrong(&text));
            }
            *cell -= hold.min(*cell);
        }
    }
    all_served(&left, columns)
}

fn all_served(left: &[u64], columns: usize) -> Result<(), Invalid> {
    match left.iter().position(|&bytes| bytes > 0) {
        None => Ok(()),
        Some(cell) => {
            let (row, column, bytes) = (cell / columns, cell % columns, left[cell]);
            Err(wrong(&format!("row {row} still has {bytes} bytes for column {column}")))
        }
    }
}

fn check_transfers(demand: &Demand, transfers: &[PairTransfer]) -> Result<(), Invalid> {
    let Demand { rows, columns, delay, .. } = *demand;
    if !demand.partial {
        return Err(wrong("transfers, but all ports stop"));
    }
    let mut left = demand.bytes.to_vec();
    let mut busy: Vec<Vec<(u64, u64)>> = vec![Vec::new(); rows + columns];
    for (index, transfer) in transfers.iter().enumerate() {
        let (row, column) = (transfer.row as usize, transfer.column as usize);
        if row >= rows || column >= columns {
            return Err(wrong(&format!("transfer {index}: no pair {row} to {column}")));
        }
        let cell = &mut left[row * columns + column];
        if transfer.bytes == 0 || transfer.bytes > *cell {
            let text = format!("transfer {index}: {} bytes of {cell}", transfer.bytes);
            return Err(wrong(&text));
        }
        *cell -= transfer.bytes;
        let interval = (transfer.start, transfer.end(delay));
        busy[row].push(interval);
        busy[rows + column].push(interval);
    }
    for (line, intervals) in busy.iter_mut().enumerate() {
        intervals.sort_unstable();
        if let Some(pair) = intervals.windows(2).find(|pair| pair[0].1 > pair[1].0) {
            let text = format!("line {line} (rows first) has two circuits at {}", pair[1].0);
            return Err(wrong(&text));
        }
    }
    all_served(&left, columns)
}
