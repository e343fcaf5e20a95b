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
pub fn check_hybrid(demand: &HybridDemand, schedule: &HybridSchedule) -> Result<(), Invalid> {
    let cells = demand.rows * demand.columns;
    if schedule.eps.len() != cells {
        return Err(wrong(&format!("{} EPS entries for {cells} pairs", schedule.eps.len())));
    }
    if schedule.slots.matchings.len() != demand.rows * schedule.slots.holds.len() {
        let (given, slots) = (schedule.slots.matchings.len(), schedule.slots.holds.len());
        return Err(wrong(&format!("{given} cells for {slots} slots of {} rows", demand.rows)));
    }
    let mut capacity = slot_capacity(demand, schedule)?;
    let relayed = take_relayed(demand, schedule, &mut capacity)?;
    let mut direct = vec![0_u128; cells];
    for (place, room) in capacity.into_iter().enumerate() {
        if let Ok(column) = usize::try_from(schedule.slots.matchings[place]) {
            direct[place % demand.rows * demand.columns + column] += u128::from(room);
        }
    }
    let mut ports = vec![0_u128; demand.rows + demand.columns];
    for (cell, &room) in direct.iter().enumerate() {
        let (row, column) = (cell / demand.columns, cell % demand.columns);
        let packets = schedule.eps[cell];
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
    let holds: u128 = schedule.slots.holds.iter().map(|&hold| u128::from(hold)).sum();
    let circuits = holds + u128::from(demand.delay) * schedule.slots.holds.len() as u128;
    if circuits > u128::from(schedule.length) {
        return Err(wrong(&format!("circuits take {circuits} of {}", schedule.length)));
    }
    let room = u128::from(demand.eps_bytes(schedule.length));
    if let Some(port) = ports.iter().position(|&bytes| bytes > room) {
        let text = format!("port {port} (rows first) sends {} of {room} as packets", ports[port]);
        return Err(wrong(&text));
    }
    let bound = match schedule.relays {
        Some(_) => demand.relayed_lower_bound(),
        None => demand.lower_bound(),
    };
    if bound != schedule.lower_bound || bound > schedule.length {
        let (said, length) = (schedule.lower_bound, schedule.length);
        return Err(wrong(&format!("it says bound {said}, but {bound} of {length} holds")));
    }
    Ok(())
}

/// What each row can send in each slot, slot after slot.
fn slot_capacity(demand: &HybridDemand, schedule: &HybridSchedule) -> Result<Vec<u64>, Invalid> {
    let mut capacity = vec![0; schedule.slots.matchings.len()];
    for (slot, &hold) in schedule.slots.holds.iter().enumerate() {
        if hold == 0 {
            return Err(wrong(&format!("slot {slot} is held for nothing")));
        }
        let mut used = vec![false; demand.columns];
        for row in 0..demand.rows {
            let column = schedule.slots.matchings[slot * demand.rows + row];
            if column == -1 {
                continue;
            }
            let Some(column) = usize::try_from(column).ok().filter(|&c| c < demand.columns) else {
                return Err(wrong(&format!("slot {slot}, row {row}: no column {column}")));
            };
            if std::mem::replace(&mut used[column], true) {
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
    schedule: &HybridSchedule,
    capacity: &mut [u64],
) -> Result<Vec<u64>, Invalid> {
    let mut relayed = vec![0_u64; demand.rows * demand.columns];
    for (place, hop) in schedule.relays.iter().flatten().enumerate() {
        let refuse = |text: &str| Err(wrong(&format!("relay {place}: {text}")));
        let servers = [hop.source, hop.relay, hop.destination].map(|server| server as usize);
        let [source, relay, destination] = servers;
        if demand.rows != demand.columns || servers.iter().any(|&server| server >= demand.rows) {
            return refuse("not between servers that send and receive");
        }
        if source == relay || relay == destination || source == destination {
            return refuse("not over a third server");
        }
        if hop.first >= hop.second || hop.second as usize >= schedule.slots.holds.len() {
            return refuse(&format!("slot {} is not after slot {}", hop.second, hop.first));
        }
        for (slot, row, column) in [(hop.first, source, relay), (hop.second, relay, destination)] {
            let port = slot as usize * demand.rows + row;
            if usize::try_from(schedule.slots.matchings[port]) != Ok(column) {
                return refuse(&format!("slot {slot} does not join {row} to {column}"));
            }
            let Some(rest) = capacity[port].checked_sub(hop.bytes) else {
                return refuse(&format!("slot {slot}: {row} cannot send {} bytes more", hop.bytes));
            };
            capacity[port] = rest;
        }
        let cell = &mut relayed[source * demand.columns + destination];
        *cell = cell.saturating_add(hop.bytes);
    }
    Ok(relayed)
}

fn wrong(text: &str) -> Invalid {
    Invalid(format!("hybrid schedule: {text}"))
}
