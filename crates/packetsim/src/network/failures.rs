//! Failures of links: which are down, and of which all switches know.

use super::routing::Routing;
use crate::failure::Failure;
use crate::topology::PacketLinkId;
use rustc_hash::FxHashMap;

/// All failures of a run.
#[derive(Debug, Clone, Default)]
pub(super) struct Failures {
    all: Vec<Failure>,
    /// How many failures a link has now, and of how many switches know; of links that ever fail.
    now: FxHashMap<PacketLinkId, u32>,
    known: FxHashMap<PacketLinkId, u32>,
    /// Paths before the first failure.
    pub(super) initial: Option<Box<Routing>>,
}

impl Failures {
    /// Adds one; returns its index.
    pub(super) fn add(&mut self, failure: Failure) -> u32 {
        self.all.push(failure);
        self.all.len() as u32 - 1
    }

    pub(super) fn get(&self, index: u32) -> &Failure {
        &self.all[index as usize]
    }

    /// A link fails once more, or is repaired once more; returns whether it was up before, or is
    /// after.
    pub(super) fn count(&mut self, link: PacketLinkId, fails: bool) -> bool {
        count(&mut self.now, link, fails)
    }

    /// Switches learn of a failure, or that it is over.
    pub(super) fn learn(&mut self, index: u32, fails: bool) {
        for &link in &self.all[index as usize].links {
            count(&mut self.known, link, fails);
        }
    }

    /// Whether switches know that a link has failed.
    pub(super) fn is_avoided(&self, link: PacketLinkId) -> bool {
        self.known.get(&link).is_some_and(|&count| count > 0)
    }
}

fn count(counts: &mut FxHashMap<PacketLinkId, u32>, link: PacketLinkId, rises: bool) -> bool {
    let count = counts.entry(link).or_default();
    if rises {
        *count += 1;
        *count == 1
    } else {
        *count -= 1;
        *count == 0
    }
}
