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
pub fn check_chunks(demand: &ChunkDemand, schedule: &ChunkSchedule) -> Result<(), Invalid> {
    check_slots(demand, schedule)?;
    let mut sent = vec![0_u128; demand.chunks.len()];
    let mut ends = demand.releases();
    for (place, transfer) in schedule.transfers.iter().enumerate() {
        let Some(chunk) = demand.chunks.get(transfer.chunk as usize) else {
            return Err(wrong(&format!("transfer {place}: no chunk {}", transfer.chunk)));
        };
        if transfer.bytes == 0 || transfer.start < chunk.release || transfer.end <= transfer.start {
            let (start, end, release) = (transfer.start, transfer.end, chunk.release);
            let text = format!(
                "transfer {place}: {} bytes from {start} to {end} of a chunk released at {release}",
                transfer.bytes
            );
            return Err(wrong(&text));
        }
        sent[transfer.chunk as usize] += u128::from(transfer.bytes);
        let end = &mut ends[transfer.chunk as usize];
        *end = transfer.end.max(*end);
    }
    for (index, chunk) in demand.chunks.iter().enumerate() {
        let (sent, bytes) = (sent[index], chunk.bytes);
        if sent != u128::from(bytes) {
            return Err(wrong(&format!("{sent} of {bytes} bytes of chunk {index} are sent")));
        }
    }
    check_circuits(demand, schedule)?;
    check_packets(demand, schedule)?;
    check_claims(demand, schedule, &ends)
}

fn check_slots(demand: &ChunkDemand, schedule: &ChunkSchedule) -> Result<(), Invalid> {
    let (count, cells) = (schedule.slots.holds.len(), schedule.slots.matchings.len());
    if cells != demand.rows * count || schedule.starts.len() != count {
        let starts = schedule.starts.len();
        return Err(wrong(&format!("{cells} cells and {starts} starts for {count} slots")));
    }
    let mut before = 0_u64;
    for slot in 0..count {
        let (start, hold) = (schedule.starts[slot], schedule.slots.holds[slot]);
        if start < before.saturating_add(demand.delay) || hold == 0 {
            let text =
                format!("slot {slot} of {hold} bytes at {start}, the one before to {before}");
            return Err(wrong(&text));
        }
        before = start.saturating_add(hold);
        let mut used = vec![false; demand.columns];
        for &column in &schedule.slots.matchings[slot * demand.rows..(slot + 1) * demand.rows] {
            if column == -1 {
                continue;
            }
            match usize::try_from(column).ok().and_then(|column| used.get_mut(column)) {
                Some(used) if !*used => *used = true,
                _ => return Err(wrong(&format!("slot {slot}: column {column} is not free"))),
            }
        }
    }
    Ok(())
}

/// Transfers over circuits: of a joined pair, within the hold, one at a time.
fn check_circuits(demand: &ChunkDemand, schedule: &ChunkSchedule) -> Result<(), Invalid> {
    let mut rows: BTreeMap<u32, Vec<&ChunkTransfer>> = BTreeMap::new();
    for one in schedule.transfers.iter().filter(|one| one.slot.is_some()) {
        rows.entry(demand.chunks[one.chunk as usize].row).or_default().push(one);
    }
    for (row, mut transfers) in rows {
        transfers.sort_by_key(|one| one.start);
        let mut before = 0;
        for transfer in transfers {
            let refuse =
                |text: &str| Err(wrong(&format!("row {row} at {}: {text}", transfer.start)));
            let slot = transfer.slot.expect("a circuit") as usize;
            let Some(&start) = schedule.starts.get(slot) else {
                return refuse(&format!("no slot {slot}"));
            };
            let joined = schedule.slots.matchings[slot * demand.rows + row as usize];
            if i64::from(joined) != i64::from(demand.chunks[transfer.chunk as usize].column) {
                return refuse(&format!("slot {slot} does not join the pair of the chunk"));
            }
            if transfer.start < start
                || transfer.end > start.saturating_add(schedule.slots.holds[slot])
            {
                return refuse(&format!("not within slot {slot}"));
            }
            if transfer.end - transfer.start < transfer.bytes || transfer.start < before {
                return refuse("more than a circuit carries");
            }
            before = transfer.end;
        }
    }
    Ok(())
}

/// Packets: in periods that do not overlap, no port above its rate.
fn check_packets(demand: &ChunkDemand, found: &ChunkSchedule) -> Result<(), Invalid> {
    let mut periods: BTreeMap<(u64, u64), Vec<u128>> = BTreeMap::new();
    for transfer in found.transfers.iter().filter(|transfer| transfer.slot.is_none()) {
        let chunk = &demand.chunks[transfer.chunk as usize];
        let empty = || vec![0_u128; demand.rows + demand.columns];
        let ports = periods.entry((transfer.start, transfer.end)).or_insert_with(empty);
        for port in [chunk.row as usize, demand.rows + chunk.column as usize] {
            ports[port] += u128::from(transfer.bytes);
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

fn check_claims(
    demand: &ChunkDemand,
    schedule: &ChunkSchedule,
    ends: &[u64],
) -> Result<(), Invalid> {
    let sent = demand.chunks.iter().zip(ends).filter(|one| one.0.bytes > 0);
    let length = sent.clone().map(|one| *one.1).max().unwrap_or(0);
    let late = |deadline: u64, end: u64| end.cast_signed() - deadline.cast_signed();
    let lateness = sent.filter_map(|(chunk, &end)| Some(late(chunk.deadline?, end))).max();
    if length != schedule.length || lateness != schedule.lateness {
        let (said, late) = (schedule.length, schedule.lateness);
        let text = format!("it says {said}, late {late:?}, and takes {length}, late {lateness:?}");
        return Err(wrong(&text));
    }
    let differs = |chunk: &usize| {
        demand.chunks[*chunk].bytes > 0 && schedule.ends.get(*chunk) != ends.get(*chunk)
    };
    if let Some(chunk) = (0..ends.len()).find(differs) {
        return Err(wrong(&format!(
            "chunk {chunk} does not end when it says, but {}",
            ends[chunk]
        )));
    }
    let bounds = (demand.lower_bound(), demand.lateness_bound());
    if bounds != (schedule.lower_bound, schedule.lateness_bound) || bounds.0 > length {
        return Err(wrong(&format!("other bounds than {bounds:?}")));
    }
    Ok(())
}

fn wrong(text: &str) -> Invalid {
    Invalid(format!("schedule of chunks: {text}"))
}
