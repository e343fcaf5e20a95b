//! Circuits on planes that are there already: as many as can be stay on their NICs.
//!
//! A circuit that must move goes dark, so of all assignments the one that has most of the previous
//! circuits is wanted. Iterative deepening: with a budget of 0 moves, then 1 and so on, circuits
//! without NICs are placed in turn on every plane, those in the way are moved off (each costs one
//! of the budget), and what was placed stays. If an assignment with m moves exists, placing
//! circuits where it has them moves only circuits that it has elsewhere, so the search finds it
//! with a budget of m: the first budget that suffices is the smallest.

use super::nics::{NicCircuit, NicEnd};
use super::planes::{Planes, assign_from, assign_planes, lacking_nics};
use lightloom_model::Fibers;

/// Circuits on planes, and how many had to move.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlaneMoves {
    /// The circuits on NICs, as of [`assign_planes`].
    pub planes: Planes,
    /// Circuits that were there and still are wanted, but are on other NICs now.
    pub moves: u32,
    /// Whether it is proved that no assignment has fewer.
    pub is_fewest: bool,
}

/// As [`assign_planes`], with the fewest moves of `previous` circuits that `effort` steps find.
///
/// Previous circuits that are not wanted, that are on NICs that do not work or that no plane joins
/// are ignored.
///
/// # Panics
/// As [`assign_planes`].
pub fn assign_planes_from(
    circuits: &[u16],
    working: &[bool],
    fibers: Fibers,
    previous: &[NicCircuit],
    effort: u32,
) -> PlaneMoves {
    let n = circuits.len().isqrt();
    let planes = working.len().checked_div(n).unwrap_or(0);
    if let Some(reason) = lacking_nics(circuits, working, n) {
        return PlaneMoves { planes: Planes::Infeasible(reason), moves: 0, is_fewest: false };
    }
    let mut board = Held::new(n, planes, working, fibers);
    board.adopt(circuits, previous);
    let before = board.placed();
    let kept = |found: &[NicCircuit]| {
        found.iter().filter(|circuit| before.binary_search(circuit).is_ok()).count()
    };
    let possible = board.keepable(circuits);
    if let Some(is_fewest) = board.settle(effort) {
        let placed = board.placed();
        let moves = (possible - kept(&placed)) as u32;
        return PlaneMoves { planes: Planes::Assigned(placed), moves, is_fewest };
    }
    let near = assign_from(circuits, working, fibers, previous, effort);
    let planes = if near.len() == circuits.iter().map(|&c| usize::from(c)).sum::<usize>() / 2 {
        Planes::Assigned(near)
    } else {
        assign_planes(circuits, working, fibers, effort)
    };
    let moves = match &planes {
        Planes::Assigned(found) => (possible - kept(found)) as u32,
        Planes::Infeasible(_) | Planes::NotFound(..) => 0,
    };
    PlaneMoves { planes, moves, is_fewest: false }
}

/// What holds a NIC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Holder {
    peer: usize,
    /// Whether the search placed it, and must leave it there.
    is_fixed: bool,
}

/// Circuits on NICs, and those that wait for one.
#[derive(Debug, Clone)]
struct Held<'a> {
    n: usize,
    planes: usize,
    working: &'a [bool],
    fibers: Fibers,
    /// The circuit of each NIC, n x planes.
    holders: Vec<Option<Holder>>,
    /// Circuits without NICs: lower server, higher server.
    waiting: Vec<(usize, usize)>,
    /// Circuits of each pair (lower server first) that are there, but not wanted.
    surplus: Vec<u32>,
}

impl<'a> Held<'a> {
    fn new(n: usize, planes: usize, working: &'a [bool], fibers: Fibers) -> Self {
        let (holders, surplus) = (vec![None; n * planes], vec![0; n * n]);
        Self { n, planes, working, fibers, holders, waiting: vec![], surplus }
    }

    fn partner(&self, nic: usize) -> usize {
        self.fibers.partner(nic, self.planes)
    }

    /// Takes over circuits that are there between pairs that want some; the rest waits.
    fn adopt(&mut self, circuits: &[u16], previous: &[NicCircuit]) {
        let n = self.n;
        let mut left: Vec<u32> = circuits.iter().map(|&count| u32::from(count)).collect();
        for NicCircuit { a, b } in previous {
            let (low, high, nic) = (a.server as usize, b.server as usize, a.nic as usize);
            let exists =
                low < high && high < n && nic < self.planes && circuits[low * n + high] > 0;
            if !exists || self.partner(nic) != b.nic as usize || !self.is_free(low, high, nic) {
                continue;
            }
            self.put(low, high, nic, false);
            let pair = low * n + high;
            match left[pair].checked_sub(1) {
                Some(rest) => left[pair] = rest,
                None => self.surplus[pair] += 1,
            }
        }
        for low in 0..n {
            for high in low + 1..n {
                let count = left[low * n + high] as usize;
                self.waiting.extend(std::iter::repeat_n((low, high), count));
            }
        }
    }

    /// Number of previous circuits that are wanted.
    fn keepable(&self, circuits: &[u16]) -> usize {
        let wanted = circuits.iter().map(|&count| usize::from(count)).sum::<usize>() / 2;
        wanted - self.waiting.len()
    }

    fn works(&self, low: usize, high: usize, nic: usize) -> bool {
        self.working[low * self.planes + nic]
            && self.working[high * self.planes + self.partner(nic)]
    }

    fn ends(&self, low: usize, high: usize, nic: usize) -> [usize; 2] {
        [low * self.planes + nic, high * self.planes + self.partner(nic)]
    }

    fn is_free(&self, low: usize, high: usize, nic: usize) -> bool {
        let free = |end: usize| self.holders[end].is_none();
        self.works(low, high, nic) && self.ends(low, high, nic).into_iter().all(free)
    }

    fn put(&mut self, low: usize, high: usize, nic: usize, is_fixed: bool) {
        let [one, other] = self.ends(low, high, nic);
        self.holders[one] = Some(Holder { peer: high, is_fixed });
        self.holders[other] = Some(Holder { peer: low, is_fixed });
    }

    /// What moving off what is in the way costs; `None` if it cannot be moved.
    fn cost(&self, low: usize, high: usize, nic: usize) -> Option<u32> {
        if !self.works(low, high, nic) {
            return None;
        }
        let mut cost = 0;
        for (server, end) in [low, high].into_iter().zip(self.ends(low, high, nic)) {
            let Some(holder) = self.holders[end] else { continue };
            // A circuit of this very pair would only change places with it.
            if holder.is_fixed || [low, high].contains(&holder.peer) {
                return None;
            }
            cost += u32::from(self.surplus[self.pair(server, holder.peer)] == 0);
        }
        Some(cost)
    }

    fn pair(&self, one: usize, other: usize) -> usize {
        one.min(other) * self.n + one.max(other)
    }

    /// Takes the circuit at this NIC away; it waits unless its pair has others to spare.
    fn take(&mut self, server: usize, nic: usize) {
        let Some(Holder { peer, .. }) = self.holders[server * self.planes + nic].take() else {
            return;
        };
        let far = self.partner(nic);
        self.holders[peer * self.planes + far] = None;
        let pair = self.pair(server, peer);
        match self.surplus[pair].checked_sub(1) {
            Some(rest) => self.surplus[pair] = rest,
            None => self.waiting.push((server.min(peer), server.max(peer))),
        }
    }

    /// Places what waits; whether that is proved to move fewest, or `None` if it was not achieved.
    fn settle(&mut self, effort: u32) -> Option<bool> {
        let mut left = effort;
        let start = self.clone();
        if self.deepen(&mut left) {
            self.drop_surplus();
            return Some(true);
        }
        *self = start;
        let mut waiting = std::mem::take(&mut self.waiting);
        left = effort;
        while let Some(circuit) = waiting.pop() {
            self.waiting.push(circuit);
            if !self.deepen(&mut left) {
                return None;
            }
            self.holders.iter_mut().flatten().for_each(|holder| holder.is_fixed = false);
        }
        self.drop_surplus();
        Some(false)
    }

    /// Searches with ever larger budgets, until one suffices or the steps are used up.
    fn deepen(&mut self, left: &mut u32) -> bool {
        let limit = self.holders.iter().flatten().count() / 2;
        (0..=limit as u32).any(|budget| *left > 0 && self.descend(budget, left) == Some(true))
    }

    /// Places all that waits within the budget; `None` once the steps are used up.
    fn descend(&mut self, budget: u32, left: &mut u32) -> Option<bool> {
        *left = left.checked_sub(1)?;
        if self.waiting.is_empty() {
            return Some(true);
        }
        // The circuit with fewest options first: if it has none, nothing else need be tried.
        let (mut index, mut options) = (0, None::<Vec<(u32, usize)>>);
        for (place, &(low, high)) in self.waiting.iter().enumerate() {
            let planes: Vec<(u32, usize)> = (0..self.planes)
                .filter_map(|nic| Some((self.cost(low, high, nic)?, nic)))
                .filter(|option| option.0 <= budget)
                .collect();
            if options.as_ref().is_none_or(|fewest| planes.len() < fewest.len()) {
                (index, options) = (place, Some(planes));
            }
        }
        let mut options = options.unwrap_or_default();
        options.sort_unstable();
        let before = self.clone();
        for (cost, nic) in options {
            let (low, high) = self.waiting.swap_remove(index);
            let far = self.partner(nic);
            self.take(low, nic);
            self.take(high, far);
            self.put(low, high, nic, true);
            match self.descend(budget - cost, left) {
                Some(false) => self.clone_from(&before),
                other => return other,
            }
        }
        Some(false)
    }

    /// Takes circuits away that no pair wants any more.
    fn drop_surplus(&mut self) {
        for low in 0..self.n {
            for nic in 0..self.planes {
                let holder = self.holders[low * self.planes + nic];
                let Some(peer) = holder.map(|holder| holder.peer).filter(|&peer| peer > low) else {
                    continue;
                };
                if self.surplus[low * self.n + peer] > 0 {
                    self.take(low, nic);
                }
            }
        }
    }

    /// The circuits on NICs, sorted.
    fn placed(&self) -> Vec<NicCircuit> {
        let mut circuits = Vec::new();
        for low in 0..self.n {
            for nic in 0..self.planes {
                let holder = self.holders[low * self.planes + nic];
                let Some(peer) = holder.map(|holder| holder.peer).filter(|&peer| peer > low) else {
                    continue;
                };
                let end =
                    |server: usize, nic: usize| NicEnd { server: server as u32, nic: nic as u32 };
                circuits.push(NicCircuit { a: end(low, nic), b: end(peer, self.partner(nic)) });
            }
        }
        circuits.sort_unstable();
        circuits
    }
}
