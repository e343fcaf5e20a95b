//! Verifies a hybrid schedule against its demand, independently of how it was made.

use lightloom_model::Invalid;

use super::demand::HybridDemand;
use super::schedule::HybridSchedule;

/// Replays circuits and packets: every slot is a matching, relays send on in a later slot what they
/// got, circuits carry what neither they nor the EPS do, no port of the EPS carries more than its
/// rate allows by the stated length, and no hold ends later; the bound is the one that holds.
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
    let mut capacity = slot_capacity(demand, found)?;
    let relayed = take_relayed(demand, found, &mut capacity)?;
    let mut direct = vec![0_u128; cells];
    for (place, room) in capacity.into_iter().enumerate() {
        if let Ok(column) = usize::try_from(found.slots.matchings[place]) {
            direct[place % demand.rows * demand.columns + column] += u128::from(room);
        }
    }
    let mut ports = vec![0_u128; demand.rows + demand.columns];
    for (cell, &room) in direct.iter().enumerate() {
        let (row, column) = (cell / demand.columns, cell % demand.columns);
        let packets = found.eps[cell];
        let Some(wanted) = demand.bytes[cell].checked_sub(relayed[cell]) else {
            let (bytes, of) = (relayed[cell], demand.bytes[cell]);
            return Err(wrong(&format!("{bytes} of {of} bytes from {row} to {column} relayed")));
        };
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
    let bound = match found.relays {
        Some(_) => demand.relayed_lower_bound(),
        None => demand.lower_bound(),
    };
    if bound != found.lower_bound || bound > found.length {
        let (said, length) = (found.lower_bound, found.length);
        return Err(wrong(&format!("it says bound {said}, but {bound} of {length} holds")));
    }
    Ok(())
}

/// What each row can send in each slot, slot after slot.
fn slot_capacity(demand: &HybridDemand, found: &HybridSchedule) -> Result<Vec<u64>, Invalid> {
    let mut capacity = vec![0; found.slots.matchings.len()];
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
            capacity[slot * demand.rows + row] = hold;
        }
    }
    Ok(capacity)
}

/// Takes what is relayed off the capacity of both slots; returns its bytes of each pair.
fn take_relayed(
    demand: &HybridDemand,
    found: &HybridSchedule,
    capacity: &mut [u64],
) -> Result<Vec<u64>, Invalid> {
    let mut relayed = vec![0_u64; demand.rows * demand.columns];
    for (place, one) in found.relays.iter().flatten().enumerate() {
        let refuse = |text: &str| Err(wrong(&format!("relay {place}: {text}")));
        let servers = [one.source, one.relay, one.destination].map(|server| server as usize);
        let [source, relay, destination] = servers;
        if demand.rows != demand.columns || servers.iter().any(|&server| server >= demand.rows) {
            return refuse("not between servers that send and receive");
        }
        if source == relay || relay == destination || source == destination {
            return refuse("not over a third server");
        }
        if one.first >= one.second || one.second as usize >= found.slots.holds.len() {
            return refuse(&format!("slot {} is not after slot {}", one.second, one.first));
        }
        for (slot, row, column) in [(one.first, source, relay), (one.second, relay, destination)] {
            let port = slot as usize * demand.rows + row;
            if usize::try_from(found.slots.matchings[port]) != Ok(column) {
                return refuse(&format!("slot {slot} does not join {row} to {column}"));
            }
            let Some(rest) = capacity[port].checked_sub(one.bytes) else {
                return refuse(&format!("slot {slot}: {row} cannot send {} bytes more", one.bytes));
            };
            capacity[port] = rest;
        }
        let cell = &mut relayed[source * demand.columns + destination];
        *cell = cell.saturating_add(one.bytes);
    }
    Ok(relayed)
}

fn wrong(text: &str) -> Invalid {
    Invalid(format!("hybrid schedule: {text}"))
}
