//! From fractions to whole bytes, and within the memory that relays have.

use super::request::{Kind, Way};
use super::ways::{Hop, Uses, Ways};

/// Bytes of a pair that go one way, not whole yet.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Part {
    /// Where they come from.
    pub from: u32,
    /// Where they go.
    pub to: u32,
    /// The way.
    pub hop: Hop,
    /// How many.
    pub bytes: f64,
}

/// Whole bytes of every way, sorted; what rounding leaves over goes the largest way of the pair.
///
/// The parts of a pair follow each other, and every pair with demand has some.
pub fn whole_ways(ways: &Ways, parts: &[Part]) -> Vec<Way> {
    let mut whole: Vec<Way> = Vec::with_capacity(parts.len());
    for pair in parts.chunk_by(|one, next| (one.from, one.to) == (next.from, next.to)) {
        let begin = whole.len();
        let mut left = ways.demand(pair[0].from as usize, pair[0].to as usize);
        for part in pair {
            let bytes = (part.bytes as u64).min(left);
            left -= bytes;
            if bytes > 0 {
                whole.push(part.way(bytes));
            }
        }
        if whole.len() == begin {
            whole.push(pair[0].way(0));
        }
        let largest = (begin..whole.len()).max_by_key(|&index| whole[index].bytes);
        whole[largest.expect("chunks are not empty")].bytes += left;
        whole[begin..].sort_unstable();
    }
    if let Some(limit) = ways.request.cost.memory_limit {
        spare_memory(ways, limit, &mut whole);
    }
    whole
}

impl Part {
    /// What its way uses.
    pub(super) fn uses(&self, ways: &Ways) -> Uses {
        ways.uses(self.from as usize, self.to as usize, self.hop)
    }

    fn way(&self, bytes: u64) -> Way {
        Way {
            source: self.from,
            destination: self.to,
            kind: self.hop.kind,
            relay: self.hop.kind.is_relayed().then_some(self.hop.relay),
            bytes,
        }
    }
}

/// Sends what relays cannot hold in one hop: every way over such a relay keeps the same fraction.
fn spare_memory(ways: &Ways, limit: u64, whole: &mut Vec<Way>) {
    let mut staging = vec![0_u64; ways.n];
    for way in whole.iter() {
        if let Some(relay) = way.relay {
            staging[relay as usize] += way.bytes;
        }
    }
    for index in 0..whole.len() {
        let way = whole[index];
        let Some(relay) = way.relay else { continue };
        let total = staging[relay as usize];
        if total <= limit {
            continue;
        }
        // at most `bytes`, as limit < total
        let kept = (u128::from(way.bytes) * u128::from(limit) / u128::from(total)) as u64;
        whole[index].bytes = kept;
        let joined =
            ways.request.circuits[way.source as usize * ways.n + way.destination as usize] > 0;
        let kind = if joined { Kind::Circuit } else { Kind::Eps };
        whole.push(Way { kind, relay: None, bytes: way.bytes - kept, ..way });
    }
    whole.sort_unstable();
    whole.dedup_by(|next, way| {
        let same = (next.source, next.destination, next.kind, next.relay)
            == (way.source, way.destination, way.kind, way.relay);
        if same {
            way.bytes += next.bytes;
        }
        same
    });
    whole.retain(|way| way.bytes > 0);
}
