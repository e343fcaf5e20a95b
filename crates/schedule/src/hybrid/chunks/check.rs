//! Verifies a schedule of chunks against its demand, independently of how it was made.

use std::collections::BTreeMap;

use lightloom_model::Invalid;

use super::demand::ChunkDemand;
use super::schedule::ChunkSchedule;
use super::transfer::ChunkTransfer;

/// Replays slots and transfers: slots are matchings with a delay before each, every chunk is sent
/// in full and not before its release, over circuits that are there, one after another on a port,
/// and packets in periods in which no port carries more than its rate allows; ends, length and
/// lateness follow from that, and the bounds are those that hold.
///
/// # Errors
/// The first thing that is wrong.
pub fn check_chunks(demand: &ChunkDemand, found: &ChunkSchedule) -> Result<(), Invalid> {
    check_slots(demand, found)?;
    let mut sent = vec![0_u128; demand.chunks.len()];
    let mut ends = demand.releases();
    for (place, one) in found.transfers.iter().enumerate() {
        let Some(chunk) = demand.chunks.get(one.chunk as usize) else {
            return Err(wrong(&format!("transfer {place}: no chunk {}", one.chunk)));
        };
        if one.bytes == 0 || one.start < chunk.release || one.end <= one.start {
            let (start, end, release) = (one.start, one.end, chunk.release);
            let text = format!(
                "transfer {place}: {} bytes from {start} to {end} of a chunk released at {release}",
                one.bytes
            );
            return Err(wrong(&text));
        }
        sent[one.chunk as usize] += u128::from(one.bytes);
        let end = &mut ends[one.chunk as usize];
        *end = one.end.max(*end);
    }
    for (index, chunk) in demand.chunks.iter().enumerate() {
        let (sent, bytes) = (sent[index], chunk.bytes);
        if sent != u128::from(bytes) {
            return Err(wrong(&format!("{sent} of {bytes} bytes of chunk {index} are sent")));
        }
    }
    check_circuits(demand, found)?;
    check_packets(demand, found)?;
    check_claims(demand, found, &ends)
}

fn check_slots(demand: &ChunkDemand, found: &ChunkSchedule) -> Result<(), Invalid> {
    let (count, cells) = (found.slots.holds.len(), found.slots.matchings.len());
    if cells != demand.rows * count || found.starts.len() != count {
        let starts = found.starts.len();
        return Err(wrong(&format!("{cells} cells and {starts} starts for {count} slots")));
    }
    let mut before = 0_u64;
    for slot in 0..count {
        let (start, hold) = (found.starts[slot], found.slots.holds[slot]);
        if start < before.saturating_add(demand.delay) || hold == 0 {
            let text =
                format!("slot {slot} of {hold} bytes at {start}, the one before to {before}");
            return Err(wrong(&text));
        }
        before = start.saturating_add(hold);
        let mut taken = vec![false; demand.columns];
        for &column in &found.slots.matchings[slot * demand.rows..(slot + 1) * demand.rows] {
            if column == -1 {
                continue;
            }
            match usize::try_from(column).ok().and_then(|column| taken.get_mut(column)) {
                Some(taken) if !*taken => *taken = true,
                _ => return Err(wrong(&format!("slot {slot}: column {column} is not free"))),
            }
        }
    }
    Ok(())
}

/// Transfers over circuits: of a joined pair, within the hold, one at a time.
fn check_circuits(demand: &ChunkDemand, found: &ChunkSchedule) -> Result<(), Invalid> {
    let mut rows: BTreeMap<u32, Vec<&ChunkTransfer>> = BTreeMap::new();
    for one in found.transfers.iter().filter(|one| one.slot.is_some()) {
        rows.entry(demand.chunks[one.chunk as usize].row).or_default().push(one);
    }
    for (row, mut transfers) in rows {
        transfers.sort_by_key(|one| one.start);
        let mut before = 0;
        for one in transfers {
            let refuse = |text: &str| Err(wrong(&format!("row {row} at {}: {text}", one.start)));
            let slot = one.slot.expect("a circuit") as usize;
            let Some(&start) = found.starts.get(slot) else {
                return refuse(&format!("no slot {slot}"));
            };
            let joined = found.slots.matchings[slot * demand.rows + row as usize];
            if i64::from(joined) != i64::from(demand.chunks[one.chunk as usize].column) {
                return refuse(&format!("slot {slot} does not join the pair of the chunk"));
            }
            if one.start < start || one.end > start.saturating_add(found.slots.holds[slot]) {
                return refuse(&format!("not within slot {slot}"));
            }
            if one.end - one.start < one.bytes || one.start < before {
                return refuse("more than a circuit carries");
            }
            before = one.end;
        }
    }
    Ok(())
}

/// Packets: in periods that do not overlap, no port above its rate.
fn check_packets(demand: &ChunkDemand, found: &ChunkSchedule) -> Result<(), Invalid> {
    let mut periods: BTreeMap<(u64, u64), Vec<u128>> = BTreeMap::new();
    for one in found.transfers.iter().filter(|one| one.slot.is_none()) {
        let chunk = &demand.chunks[one.chunk as usize];
        let empty = || vec![0_u128; demand.rows + demand.columns];
        let ports = periods.entry((one.start, one.end)).or_insert_with(empty);
        for port in [chunk.row as usize, demand.rows + chunk.column as usize] {
            ports[port] += u128::from(one.bytes);
        }
    }
    let mut before = 0;
    for ((start, end), ports) in periods {
        if start < before {
            return Err(wrong(&format!("packets from {start} and still until {before}")));
        }
        before = end;
        let room = u128::from(demand.rates.eps_bytes(end - start));
        if let Some(port) = ports.iter().position(|&bytes| bytes > room) {
            let bytes = ports[port];
            let text =
                format!("port {port} (rows first) sends {bytes} of {room} as packets from {start}");
            return Err(wrong(&text));
        }
    }
    Ok(())
}

fn check_claims(demand: &ChunkDemand, found: &ChunkSchedule, ends: &[u64]) -> Result<(), Invalid> {
    let sent = demand.chunks.iter().zip(ends).filter(|one| one.0.bytes > 0);
    let length = sent.clone().map(|one| *one.1).max().unwrap_or(0);
    let late = |deadline: u64, end: u64| end.cast_signed() - deadline.cast_signed();
    let lateness = sent.filter_map(|(chunk, &end)| Some(late(chunk.deadline?, end))).max();
    if length != found.length || lateness != found.lateness {
        let (said, late) = (found.length, found.lateness);
        let text = format!("it says {said}, late {late:?}, and takes {length}, late {lateness:?}");
        return Err(wrong(&text));
    }
    let differs = |chunk: &usize| {
        demand.chunks[*chunk].bytes > 0 && found.ends.get(*chunk) != ends.get(*chunk)
    };
    if let Some(chunk) = (0..ends.len()).find(differs) {
        return Err(wrong(&format!(
            "chunk {chunk} does not end when it says, but {}",
            ends[chunk]
        )));
    }
    let bounds = (demand.lower_bound(), demand.lateness_bound());
    if bounds != (found.lower_bound, found.lateness_bound) || bounds.0 > length {
        return Err(wrong(&format!("other bounds than {bounds:?}")));
    }
    Ok(())
}

fn wrong(text: &str) -> Invalid {
    Invalid(format!("schedule of chunks: {text}"))
}
