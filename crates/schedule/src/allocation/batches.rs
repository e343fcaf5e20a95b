//! The order in which a switch makes and deletes circuits on its way from some to others.
//!
//! A pair without the EPS that has circuits before and after must have one all the time: what is
//! made in a batch carries nothing until the batch is done, and what is deleted in it nothing any
//! more. So a new circuit is made before the last old one is deleted wherever its NICs are spare,
//! or become so by deleting others first. Where NICs are so scarce that pairs wait for each other
//! in a circle, one of them goes dark for a batch, and is named.
//!
//! Each batch takes all that it can: new circuits in order, with what they displace, and old ones
//! of pairs that need none. Which new circuit comes first can decide whether a circle closes; every
//! one is tried first.

use super::nics::{NicCircuit, NicEnd};
use std::collections::{BTreeMap, BTreeSet};

/// What a switch does at once.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ChangeBatch {
    /// Circuits to delete, sorted.
    pub delete: Vec<NicCircuit>,
    /// Circuits to make on NICs that are then free, sorted.
    pub create: Vec<NicCircuit>,
}

impl ChangeBatch {
    /// Port pairs that the switch touches.
    pub fn pairs(&self) -> usize {
        self.delete.len().max(self.create.len())
    }
}

/// A change in batches.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ChangeBatches {
    /// In order.
    pub batches: Vec<ChangeBatch>,
    /// Pairs that have neither a circuit nor the EPS during some batch.
    pub dark: Vec<(u32, u32)>,
}

/// Divides the change from some circuits on NICs to others into batches of at most `max_pairs`.
///
/// `has_eps` says which servers reach the EPS; a pair does if both do. Servers beyond its length do
/// not.
///
/// # Panics
/// If a NIC ends two circuits, before or after; or if `max_pairs` is below 2, as a new circuit may
/// displace two.
pub fn plan_batches(
    from: &[NicCircuit],
    to: &[NicCircuit],
    has_eps: &[bool],
    max_pairs: usize,
) -> ChangeBatches {
    assert!(max_pairs >= 2, "a new circuit may displace two");
    let start = Transition::new(from, to, has_eps);
    let mut best: Option<ChangeBatches> = None;
    for first in 0..start.create.len().max(1) {
        let mut transition = start.clone();
        transition.create.rotate_left(first);
        let batches = transition.run(max_pairs);
        let is_better = best.as_ref().is_none_or(|best| batches.dark.len() < best.dark.len());
        if is_better {
            best = Some(batches);
        }
        if best.as_ref().is_some_and(|best| best.dark.is_empty()) {
            break;
        }
    }
    best.expect("at least one order")
}

fn pair(circuit: &NicCircuit) -> (u32, u32) {
    (circuit.a.server, circuit.b.server)
}

/// Circuits on their way.
#[derive(Clone)]
struct Transition {
    /// Which circuit each NIC ends.
    at: BTreeMap<NicEnd, NicCircuit>,
    delete: BTreeSet<NicCircuit>,
    create: Vec<NicCircuit>,
    /// Live circuits of pairs that must keep one.
    live: BTreeMap<(u32, u32), usize>,
}

impl Transition {
    fn new(from: &[NicCircuit], to: &[NicCircuit], has_eps: &[bool]) -> Self {
        let (before, after): (BTreeSet<_>, BTreeSet<_>) =
            (from.iter().collect(), to.iter().collect());
        for circuits in [from, to] {
            let ends: BTreeSet<NicEnd> = circuits.iter().flat_map(|c| [c.a, c.b]).collect();
            assert_eq!(ends.len(), 2 * circuits.len(), "a NIC ends two circuits");
        }
        let on_eps = |server: u32| has_eps.get(server as usize).copied().unwrap_or(false);
        let stays: BTreeSet<(u32, u32)> = to.iter().map(pair).collect();
        let mut live = BTreeMap::new();
        for (one, other) in from.iter().map(pair) {
            if stays.contains(&(one, other)) && !(on_eps(one) && on_eps(other)) {
                *live.entry((one, other)).or_insert(0) += 1;
            }
        }
        Self {
            at: from
                .iter()
                .flat_map(|circuit| [(circuit.a, *circuit), (circuit.b, *circuit)])
                .collect(),
            delete: before.difference(&after).map(|circuit| **circuit).collect(),
            create: after.difference(&before).map(|circuit| **circuit).collect(),
            live,
        }
    }

    fn run(mut self, max_pairs: usize) -> ChangeBatches {
        let mut batches = ChangeBatches::default();
        while !self.delete.is_empty() || !self.create.is_empty() {
            let mut batch = self.displace(max_pairs);
            self.sweep(&mut batch, max_pairs);
            if batch.pairs() == 0 {
                // Pairs wait for each other.
                let circuit = *self.delete.first().expect("what a new circuit waits for");
                batches.dark.push(pair(&circuit));
                self.remove(&circuit, &mut batch);
            }
            for circuit in &batch.create {
                if let Some(live) = self.live.get_mut(&pair(circuit)) {
                    *live += 1;
                }
            }
            batch.delete.sort_unstable();
            batch.create.sort_unstable();
            batches.batches.push(batch);
        }
        batches.dark.sort_unstable();
        batches.dark.dedup();
        batches
    }

    /// New circuits whose NICs are free, or become so by what may be deleted.
    fn displace(&mut self, max_pairs: usize) -> ChangeBatch {
        let mut batch = ChangeBatch::default();
        for circuit in std::mem::take(&mut self.create) {
            let mut blockers: Vec<NicCircuit> =
                [circuit.a, circuit.b].iter().filter_map(|end| self.at.get(end)).copied().collect();
            blockers.dedup();
            let fits = batch.create.len() < max_pairs
                && batch.delete.len() + blockers.len() <= max_pairs
                && self.may_delete(&blockers);
            if !fits {
                self.create.push(circuit);
                continue;
            }
            for blocker in &blockers {
                self.remove(blocker, &mut batch);
            }
            self.at.insert(circuit.a, circuit);
            self.at.insert(circuit.b, circuit);
            batch.create.push(circuit);
        }
        batch
    }

    /// Deletes circuits that are in nobody's way: those of pairs that need none, and if nothing
    /// could be made, others as far as that leaves their pairs one.
    fn sweep(&mut self, batch: &mut ChangeBatch, max_pairs: usize) {
        let is_stuck = batch.create.is_empty();
        for circuit in self.delete.clone() {
            let needs_none = !self.live.contains_key(&pair(&circuit));
            let may_delete = needs_none || (is_stuck && self.may_delete(&[circuit]));
            if batch.delete.len() < max_pairs && may_delete {
                self.remove(&circuit, batch);
            }
        }
    }

    /// Whether these may all be deleted, so that every pair that must keep a live circuit does.
    fn may_delete(&self, circuits: &[NicCircuit]) -> bool {
        circuits.iter().all(|circuit| {
            let own = circuits.iter().filter(|other| pair(other) == pair(circuit)).count();
            let keeps_one = self.live.get(&pair(circuit)).is_none_or(|&live| live > own);
            keeps_one && self.delete.contains(circuit)
        })
    }

    fn remove(&mut self, circuit: &NicCircuit, batch: &mut ChangeBatch) {
        self.delete.remove(circuit);
        self.at.remove(&circuit.a);
        self.at.remove(&circuit.b);
        if let Some(live) = self.live.get_mut(&pair(circuit)) {
            *live -= 1;
        }
        batch.delete.push(*circuit);
    }
}
