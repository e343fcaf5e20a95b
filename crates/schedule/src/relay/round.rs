//! From fractions to whole bytes, and within the memory that relays have.

use super::request::{PathKind, RelayPath};
use super::resources::{RegionResources, Uses, Via};

/// Bytes of a pair that go one path, not whole yet.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PathShare {
    /// Where they come from.
    pub from: u32,
    /// Where they go.
    pub to: u32,
    /// The path.
    pub via: Via,
    /// How many.
    pub bytes: f64,
}

/// Whole bytes of every path, sorted; what rounding leaves over goes the largest path of the pair.
///
/// The parts of a pair follow each other, and every pair with demand has some.
pub(super) fn whole_paths(resources: &RegionResources, parts: &[PathShare]) -> Vec<RelayPath> {
    let mut whole: Vec<RelayPath> = Vec::with_capacity(parts.len());
    for pair in parts.chunk_by(|one, next| (one.from, one.to) == (next.from, next.to)) {
        let begin = whole.len();
        let mut left = resources.demand(pair[0].from as usize, pair[0].to as usize);
        for part in pair {
            let bytes = (part.bytes as u64).min(left);
            left -= bytes;
            if bytes > 0 {
                whole.push(part.path(bytes));
            }
        }
        if whole.len() == begin {
            whole.push(pair[0].path(0));
        }
        let largest = (begin..whole.len()).max_by_key(|&index| whole[index].bytes);
        whole[largest.expect("chunks are not empty")].bytes += left;
        whole[begin..].sort_unstable();
    }
    if let Some(limit) = resources.request.cost.memory_limit {
        spare_memory(resources, limit, &mut whole);
    }
    whole
}

impl PathShare {
    /// What its path uses.
    pub(super) fn uses(&self, resources: &RegionResources) -> Uses {
        resources.uses(self.from as usize, self.to as usize, self.via)
    }

    fn path(&self, bytes: u64) -> RelayPath {
        RelayPath {
            source: self.from,
            destination: self.to,
            kind: self.via.kind,
            relay: self.via.kind.is_relayed().then_some(self.via.relay),
            bytes,
        }
    }
}

/// Sends what relays cannot hold in one hop: every path over such a relay keeps the same fraction.
fn spare_memory(resources: &RegionResources, limit: u64, whole: &mut Vec<RelayPath>) {
    let mut staging = vec![0_u64; resources.n];
    for path in whole.iter() {
        if let Some(relay) = path.relay {
            staging[relay as usize] += path.bytes;
        }
    }
    for index in 0..whole.len() {
        let path = whole[index];
        let Some(relay) = path.relay else { continue };
        let total = staging[relay as usize];
        if total <= limit {
            continue;
        }
        // at most `bytes`, as limit < total
        let kept = (u128::from(path.bytes) * u128::from(limit) / u128::from(total)) as u64;
        whole[index].bytes = kept;
        let joined = resources.request.circuits
            [path.source as usize * resources.n + path.destination as usize]
            > 0;
        let kind = if joined { PathKind::Circuit } else { PathKind::Eps };
        whole.push(RelayPath { kind, relay: None, bytes: path.bytes - kept, ..path });
    }
    whole.sort_unstable();
    whole.dedup_by(|next, path| {
        let same = (next.source, next.destination, next.kind, next.relay)
            == (path.source, path.destination, path.kind, path.relay);
        if same {
            path.bytes += next.bytes;
        }
        same
    });
    whole.retain(|path| path.bytes > 0);
}
