//! Relaying over the slots of a schedule: fewer slots, each held longer.
//!
//! Bytes that go over a third server take the time of two circuits, which idle ports have, and save
//! a slot with its delay. For given slots [`super::relay_program`] has holds and routes near the
//! optimum; they are made whole here, and the length is measured. Then slots are left out, the
//! shortest ones, half of them at first, as long as the schedule gets shorter.

use super::budget::HybridBudget;
use super::demand::HybridDemand;
use super::eclipse;
use super::relay_program::{Path, Routes, paths, solve};
use super::schedule::{HybridMethod, HybridRelay, HybridSchedule, length, without};
use crate::permutation::Slots;

/// Slots that are tried to be left out one by one.
const SHORTEST: usize = 4;

/// Lines up to which another start is tried.
const SMALL: usize = 32;

/// Numbers that the linear programs of a start may visit without a limit: a second or so.
const WORK: usize = 200_000_000;

/// Holds are tried that are longer by these shares, as routes are near the optimum only.
const LONGER: [f64; 5] = [0.0, 1e-4, 3e-4, 1e-3, 3e-3];

/// The schedule with relays where they make it shorter.
pub(super) fn with_relays(
    demand: &HybridDemand,
    plain: HybridSchedule,
    budget: &HybridBudget,
) -> HybridSchedule {
    let lower_bound = demand.relayed_lower_bound();
    let plain = HybridSchedule { relays: Some(Vec::new()), lower_bound, ..plain };
    let mut search = Search { demand, budget, work: 0 };
    let mut best = search.from(&plain.slots);
    if plain.method == HybridMethod::Balanced && demand.rows <= SMALL {
        // Its slots, the largest first, lose less by some of them.
        let other = eclipse::slots(demand, budget).and_then(|slots| search.from(&slots));
        best = best.into_iter().chain(other).min_by_key(|found| found.length);
    }
    match best.filter(|found| found.length < plain.length) {
        Some(Candidate { slots, relays, eps, length }) => {
            HybridSchedule { slots, eps, relays: Some(relays), length, ..plain }
        }
        None => plain,
    }
}

/// Slots with whole holds and routes.
struct Candidate {
    slots: Slots,
    relays: Vec<HybridRelay>,
    eps: Vec<u64>,
    length: u64,
}

struct Search<'a> {
    demand: &'a HybridDemand<'a>,
    budget: &'a HybridBudget<'a>,
    work: usize,
}

impl Search<'_> {
    /// The shortest schedule over some of these slots.
    fn from(&mut self, slots: &Slots) -> Option<Candidate> {
        let until = self.work + WORK;
        let mut best = self.solve(slots)?;
        let mut fewer = best.slots.len() / 2;
        while fewer > 0 && (self.work < until || self.budget.is_limited()) {
            let shortest = if fewer > 1 { 1 } else { SHORTEST };
            match self.with_fewer(&best, fewer, shortest) {
                Some(found) => best = found,
                None => fewer /= 2,
            }
            fewer = fewer.min(best.slots.len());
        }
        Some(best)
    }

    fn solve(&mut self, slots: &Slots) -> Option<Candidate> {
        if slots.len() < 2 || self.budget.is_spent() {
            return None;
        }
        let paths = paths(self.demand, slots);
        let routes = solve(self.demand, slots, &paths, &|| self.budget.is_spent())?;
        self.work += routes.work;
        let whole = LONGER.map(|longer| whole(self.demand, slots, &paths, &routes, 1.0 + longer));
        whole.into_iter().min_by_key(|found| found.length)
    }

    /// A shorter schedule without so many slots, from the shortest ones or the next ones on.
    fn with_fewer(&mut self, best: &Candidate, fewer: usize, shortest: usize) -> Option<Candidate> {
        let mut order: Vec<usize> = (0..best.slots.len()).collect();
        order.sort_by_key(|&slot| best.slots.holds[slot]);
        let groups = order.windows(fewer).take(shortest);
        let mut candidates = groups.map_while(|group| {
            let mut group = group.to_vec();
            group.sort_unstable_by(|x, y| y.cmp(x));
            let less = |slots: Slots, slot| without(self.demand.rows, &slots, slot);
            self.solve(&group.into_iter().fold(best.slots.clone(), less))
        });
        candidates.find(|candidates| candidates.length < best.length)
    }
}

/// Whole holds and routes within them.
fn whole(
    demand: &HybridDemand,
    slots: &Slots,
    paths: &[Path],
    routes: &Routes,
    longer: f64,
) -> Candidate {
    let rows = demand.rows;
    let round = |hold: &f64| (hold * longer).ceil() as u64;
    let holds: Vec<u64> = routes.holds.iter().map(round).collect();
    let mut fill = Fill {
        rows,
        columns: demand.columns,
        ports: holds.iter().flat_map(|&hold| std::iter::repeat_n(hold, rows)).collect(),
        left: demand.bytes.to_vec(),
        bytes: vec![0; paths.len()],
    };
    for (index, (path, bytes)) in paths.iter().zip(&routes.bytes).enumerate() {
        fill.send(index, path, bytes.floor() as u64);
    }
    // What rounding left goes over the same circuits, what is then too much over relays.
    for (index, path) in paths.iter().enumerate().filter(|path| path.1.relay.is_none()) {
        fill.send(index, path, u64::MAX);
    }
    let candidate = Slots { matchings: slots.matchings.clone(), holds };
    let room = demand.eps_bytes(candidate.length(demand.delay));
    let mut sums = demand.line_sums(&fill.left);
    for (index, path) in paths.iter().enumerate().filter(|path| path.1.relay.is_some()) {
        let lines = [path.source as usize, rows + path.destination as usize];
        let excess = lines.map(|line| sums[line].saturating_sub(room));
        let sent = fill.send(index, path, excess[0].max(excess[1]));
        for line in lines {
            sums[line] -= sent;
        }
    }
    fill.finish(demand, &candidate, paths)
}

/// Bytes are sent over paths as long as ports and pairs have some left.
struct Fill {
    rows: usize,
    columns: usize,
    /// What each row can still send in each slot.
    ports: Vec<u64>,
    left: Vec<u64>,
    bytes: Vec<u64>,
}

impl Fill {
    fn ports_of(&self, path: &Path) -> [usize; 2] {
        let first = path.first as usize * self.rows + path.source as usize;
        let second = path.second as usize * self.rows;
        [first, path.relay.map_or(first, |relay| second + relay as usize)]
    }

    fn send(&mut self, index: usize, path: &Path, wanted: u64) -> u64 {
        let [first, second] = self.ports_of(path);
        let cell = path.source as usize * self.columns + path.destination as usize;
        let bytes = wanted.min(self.ports[first]).min(self.ports[second]).min(self.left[cell]);
        self.ports[first] -= bytes;
        if first != second {
            self.ports[second] -= bytes;
        }
        self.left[cell] -= bytes;
        self.bytes[index] += bytes;
        bytes
    }

    /// Holds as long as they are used; slots and pairs that are not used are left out.
    fn finish(&self, demand: &HybridDemand, before: &Slots, paths: &[Path]) -> Candidate {
        let mut used = vec![0; self.ports.len()];
        for (path, bytes) in paths.iter().zip(&self.bytes) {
            let [first, second] = self.ports_of(path);
            used[first] += bytes;
            if first != second {
                used[second] += bytes;
            }
        }
        let mut slots = Slots::default();
        let mut index_of = vec![0; before.len()];
        for (slot, used) in used.chunks_exact(self.rows).enumerate() {
            index_of[slot] = slots.len() as u32;
            let hold = used.iter().copied().max().unwrap_or(0);
            if hold > 0 {
                let matching = &before.matchings[slot * self.rows..(slot + 1) * self.rows];
                let columns = matching.iter().zip(used);
                slots
                    .matchings
                    .extend(columns.map(|(&to, &bytes)| if bytes > 0 { to } else { -1 }));
                slots.holds.push(hold);
            }
        }
        let relays = paths.iter().zip(&self.bytes).filter(|path| *path.1 > 0);
        let relays = relays.filter_map(|(path, &bytes)| {
            Some(HybridRelay {
                source: path.source,
                relay: path.relay?,
                destination: path.destination,
                first: index_of[path.first as usize],
                second: index_of[path.second as usize],
                bytes,
            })
        });
        let length = length(demand, &slots, &self.left);
        Candidate { relays: relays.collect(), eps: self.left.clone(), length, slots }
    }
}
