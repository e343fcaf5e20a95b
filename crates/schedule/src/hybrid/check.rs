//! Verifies a hybrid schedule against its demand, independently of how it was made.

use lightloom_model::Invalid;

use super::demand::HybridDemand;
use super::schedule::HybridSchedule;

/// Replays circuits and packets: every slot is a matching, circuits carry what the EPS does not,
/// no port of the EPS carries more than its rate allows by the stated length, and no hold ends
/// later; the bound is the one that holds.
///
/// # Errors
/// The first thing that is wrong.
pub fn check_hybrid(demand: &HybridDemand, found: &HybridSchedule) -> Result<(), Invalid> {
    let cells = demand.rows * demand.columns;
    if found.eps.len() != cells {
        return Err(wrong(&format!("{} EPS entries for {cells} pairs", found.eps.len())));
    }
    if found.slots.matchings.len() != demand.rows * found.slots.holds.len() {
        let (given, slots) = (found.slots.matchings.len(), found.slots.holds.len());
        return Err(wrong(&format!("{given} cells for {slots} slots of {} rows", demand.rows)));
    }
    let capacity = circuit_capacity(demand, found)?;
    let mut ports = vec![0_u128; demand.rows + demand.columns];
    for (cell, &room) in capacity.iter().enumerate() {
        let (row, column) = (cell / demand.columns, cell % demand.columns);
        let (wanted, packets) = (demand.bytes[cell], found.eps[cell]);
        if packets > wanted {
            let text = format!("{packets} of {wanted} bytes from {row} to {column} as packets");
            return Err(wrong(&text));
        }
        if u128::from(wanted - packets) > room {
            let rest = wanted - packets;
            let text = format!("circuits from {row} to {column} carry {room} of {rest} bytes");
            return Err(wrong(&text));
        }
        ports[row] += u128::from(packets);
        ports[demand.rows + column] += u128::from(packets);
    }
    let holds: u128 = found.slots.holds.iter().map(|&hold| u128::from(hold)).sum();
    let circuits = holds + u128::from(demand.delay) * found.slots.holds.len() as u128;
    if circuits > u128::from(found.length) {
        return Err(wrong(&format!("circuits take {circuits} of {}", found.length)));
    }
    let room = u128::from(demand.eps_bytes(found.length));
    if let Some(port) = ports.iter().position(|&bytes| bytes > room) {
        let text = format!("port {port} (rows first) sends {} of {room} as packets", ports[port]);
        return Err(wrong(&text));
    }
    let bound = demand.lower_bound();
    if bound != found.lower_bound || bound > found.length {
        let (said, length) = (found.lower_bound, found.length);
        return Err(wrong(&format!("it says bound {said}, but {bound} of {length} holds")));
    }
    Ok(())
}

/// What the slots could carry of each pair.
fn circuit_capacity(demand: &HybridDemand, found: &HybridSchedule) -> Result<Vec<u128>, Invalid> {
    let mut capacity = vec![0_u128; demand.rows * demand.columns];
    for (slot, &hold) in found.slots.holds.iter().enumerate() {
        if hold == 0 {
            return Err(wrong(&format!("slot {slot} is held for nothing")));
        }
        let mut taken = vec![false; demand.columns];
        for row in 0..demand.rows {
            let column = found.slots.matchings[slot * demand.rows + row];
            if column == -1 {
                continue;
            }
            let Some(column) = usize::try_from(column).ok().filter(|&c| c < demand.columns) else {
                return Err(wrong(&format!("slot {slot}, row {row}: no column {column}")));
            };
            if std::mem::replace(&mut taken[column], true) {
                return Err(wrong(&format!("slot {slot}: column {column} twice")));
            }
            capacity[row * demand.columns + column] += u128::from(hold);
        }
    }
    Ok(capacity)
}

fn wrong(text: &str) -> Invalid {
    Invalid(format!("hybrid schedule: {text}"))
}
