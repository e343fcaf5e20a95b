//! Holds in whole bytes.

use super::super::demand::Demand;
use super::cover::Cover;

/// The earlier holds times the least factor that serves all pairs that they served.
pub(super) fn longer_by_a_factor(demand: &Demand, cover: &Cover) -> Vec<u64> {
    let served = cover.served(&cover.holds);
    let (mut wanted, mut given) = (0_u64, 1_u64);
    for (&bytes, &served) in demand.bytes.iter().zip(&served).filter(|pair| *pair.1 > 0) {
        if u128::from(bytes) * u128::from(given) > u128::from(wanted) * u128::from(served) {
            (wanted, given) = (bytes, served);
        }
    }
    let times = |hold: u64| (u128::from(hold) * u128::from(wanted)).div_ceil(u128::from(given));
    // A factor is never more than the bytes of a pair.
    cover.holds.iter().map(|&hold| times(hold).min(1 << 53) as u64).collect()
}

/// The nearest whole holds that serve the demand, none longer than needed.
pub(super) fn whole(demand: &Demand, cover: &Cover, holds: &[f64]) -> Vec<u64> {
    let mut holds: Vec<u64> = holds.iter().map(|hold| hold.round() as u64).collect();
    fit(demand, cover, &mut holds);
    holds
}

/// Makes holds longer until every pair is served, and then shorter as far as possible.
pub(super) fn fit(demand: &Demand, cover: &Cover, holds: &mut [u64]) {
    let mut served = cover.served(holds);
    for (slot, hold) in holds.iter_mut().enumerate() {
        // A later slot of the pair might have done: shortening sees to that.
        let missing = |cell: usize| demand.bytes[cell].saturating_sub(served[cell]);
        let more = cover.pairs(slot).map(missing).max().unwrap_or(0);
        if more > 0 {
            *hold += more;
            cover.pairs(slot).for_each(|cell| served[cell] = served[cell].saturating_add(more));
        }
    }
    shorten(demand, cover, holds, &mut served);
}

/// Makes holds shorter as far as every pair is still served, the shortest first.
fn shorten(demand: &Demand, cover: &Cover, holds: &mut [u64], served: &mut [u64]) {
    let mut order: Vec<usize> = (0..holds.len()).filter(|&slot| holds[slot] > 0).collect();
    order.sort_by_key(|&slot| holds[slot]);
    for slot in order {
        let spare = |cell: usize| served[cell] - demand.bytes[cell];
        let less = cover.pairs(slot).map(spare).min().unwrap_or(u64::MAX).min(holds[slot]);
        if less > 0 {
            holds[slot] -= less;
            cover.pairs(slot).for_each(|cell| served[cell] -= less);
        }
    }
}

/// Leaves out slots while longer holds of others cost less than a slot's hold and delay.
pub(super) fn drop_slots(demand: &Demand, cover: &Cover, holds: &mut [u64]) {
    let slots_of = slots_of_cells(demand, cover);
    let mut served = cover.served(holds);
    loop {
        let mut order: Vec<usize> = (0..holds.len()).filter(|&slot| holds[slot] > 0).collect();
        order.sort_by_key(|&slot| holds[slot]);
        let mut dropped = false;
        for slot in order {
            let Some(longer) = without(demand, cover, holds, &served, &slots_of, slot) else {
                continue;
            };
            for (other, more) in longer {
                holds[other] += more;
                cover.pairs(other).for_each(|cell| served[cell] += more);
            }
            let hold = std::mem::take(&mut holds[slot]);
            cover.pairs(slot).for_each(|cell| served[cell] = served[cell].saturating_sub(hold));
            dropped = true;
        }
        if !dropped {
            return;
        }
        shorten(demand, cover, holds, &mut served);
    }
}

fn slots_of_cells(demand: &Demand, cover: &Cover) -> Vec<Vec<u32>> {
    let mut slots = vec![Vec::new(); demand.bytes.len()];
    for slot in 0..cover.len() {
        cover.pairs(slot).for_each(|cell| slots[cell].push(slot as u32));
    }
    slots
}

/// Which slots must be held how much longer without a slot, if that costs less than the slot.
fn without(
    demand: &Demand,
    cover: &Cover,
    holds: &[u64],
    served: &[u64],
    slots_of: &[Vec<u32>],
    slot: usize,
) -> Option<Vec<(usize, u64)>> {
    let cost = holds[slot] + demand.delay;
    let missing = |cell: usize| (demand.bytes[cell] + holds[slot]).saturating_sub(served[cell]);
    let mut cells: Vec<(u64, usize)> =
        cover.pairs(slot).map(|cell| (missing(cell), cell)).filter(|pair| pair.0 > 0).collect();
    cells.sort_unstable_by(|x, y| y.cmp(x));
    let mut longer: Vec<(usize, u64)> = Vec::new();
    let mut sum = 0;
    for (bytes, cell) in cells {
        let others = || slots_of[cell].iter().map(|&other| other as usize);
        let still_used = others().filter(|&other| other != slot && holds[other] > 0);
        let more =
            |other: usize| longer.iter().find(|pair| pair.0 == other).map_or(0, |pair| pair.1);
        let already: u64 = still_used.clone().map(more).sum();
        let lacking = bytes.saturating_sub(already);
        if lacking == 0 {
            continue;
        }
        let other = still_used.max_by_key(|&other| more(other))?;
        sum += lacking;
        if sum >= cost {
            return None;
        }
        match longer.iter_mut().find(|pair| pair.0 == other) {
            Some(pair) => pair.1 += lacking,
            None => longer.push((other, lacking)),
        }
    }
    (sum < cost).then_some(longer)
}
