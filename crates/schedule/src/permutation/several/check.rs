//! Verifies a schedule over several switches against its demand, independently of how it was made.

use lightloom_model::Invalid;

use super::super::demand::Demand;
use super::schedule::SwitchSchedule;

/// Checks that every slot is a matching, that no line has two circuits at a time on a switch, that
/// all delays are paid, that the demand is served exactly, and that length and bound hold.
///
/// # Errors
/// The first thing that is wrong.
pub fn check_over(demand: &Demand, schedule: &SwitchSchedule) -> Result<(), Invalid> {
    let mut left = demand.bytes.to_vec();
    let mut end = 0;
    for (switch, slots) in schedule.switches.iter().enumerate() {
        if slots.matchings.len() != demand.rows * slots.holds.len() {
            let (cells, count, rows) = (slots.matchings.len(), slots.len(), demand.rows);
            return Err(wrong(&format!(
                "switch {switch}: {cells} cells for {count} slots of {rows} rows"
            )));
        }
        // Slots of a switch follow each other, each after a delay, so that none overlap.
        let mut now = 0_u64;
        for (slot, &hold) in slots.holds.iter().enumerate() {
            let matching = &slots.matchings[slot * demand.rows..(slot + 1) * demand.rows];
            serve(demand, matching, hold, &mut left)
                .map_err(|text| wrong(&format!("switch {switch}, slot {slot}: {text}")))?;
            now = now.saturating_add(demand.delay).saturating_add(hold);
        }
        end = end.max(now);
    }
    if let Some(cell) = left.iter().position(|&bytes| bytes > 0) {
        let (row, column, bytes) = (cell / demand.columns, cell % demand.columns, left[cell]);
        return Err(wrong(&format!("row {row} still has {bytes} bytes for column {column}")));
    }
    if end != schedule.length {
        return Err(wrong(&format!("it says length {}, but lasts {end}", schedule.length)));
    }
    let (bound, said) = (demand.lower_bound_over(schedule.switches.len()), schedule.lower_bound);
    if bound != said || bound > end {
        return Err(wrong(&format!("it says bound {said}, but {bound} of {end} holds")));
    }
    Ok(())
}

fn serve(demand: &Demand, matching: &[i32], hold: u64, left: &mut [u64]) -> Result<(), String> {
    if hold == 0 {
        return Err("held for nothing".to_owned());
    }
    let mut used = vec![false; demand.columns];
    for (row, &column) in matching.iter().enumerate().filter(|pair| *pair.1 != -1) {
        let Some(column) = usize::try_from(column).ok().filter(|&c| c < demand.columns) else {
            return Err(format!("row {row}: no column {column}"));
        };
        if std::mem::replace(&mut used[column], true) {
            return Err(format!("column {column} twice"));
        }
        let cell = &mut left[row * demand.columns + column];
        if *cell == 0 {
            return Err(format!("row {row} has nothing for column {column}"));
        }
        *cell -= hold.min(*cell);
    }
    Ok(())
}

fn wrong(text: &str) -> Invalid {
    Invalid(format!("schedule: {text}"))
}
