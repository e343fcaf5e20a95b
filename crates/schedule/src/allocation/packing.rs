//! Circuits for pairs that must not split, by a given time: whole bundles or nothing.
//!
//! By time T a pair needs `ceil(D / (B T))` circuits, and fewer are of no use to it. So pairs
//! compete with what their bundle takes off lines that are over their EPS budget, per circuit:
//! ports are a knapsack at each server. A greedy packing is improved by putting one bundle in and
//! taking out those that are in its way. Adding circuits one by one, as the search for split pairs
//! does, cannot see a bundle's worth before the last circuit.

use std::collections::BinaryHeap;

use super::problem::{Circuits, Problem, ROUNDING};
use super::search::positive;

/// Bundles put in until giving up, per server.
const MOVES_PER_SERVER: usize = 4;

/// Servers over budget that are looked at before giving up, the worst first.
const TRIES: usize = 8;

/// How much more a byte of excess counts each time that no bundle helps.
const IMPATIENCE: f64 = 0.5;

/// Bundles that finish by this time, or those that miss it by the fewest bytes; whether they do.
///
/// `patience` is how often bytes over budget may come to count more where no bundle helps.
pub(super) fn pack(problem: &Problem, time: f64, patience: usize) -> (Circuits, bool) {
    let mut packing = Packing::new(problem, time);
    packing.fill_all();
    let in_time = packing.improve(patience);
    (packing.circuits, in_time)
}

struct Packing<'p, 'r> {
    problem: &'p Problem<'r>,
    circuits: Circuits,
    /// Circuits that each pair needs, n x n; 0 if it cannot have them, or wants none.
    need: Vec<u32>,
    /// Bytes that each line of each server may have on the EPS.
    budget: Vec<f64>,
    slack: f64,
    /// What a byte over budget at each server counts for.
    weight: Vec<f64>,
    /// Bytes that each server sends to, and receives from, the EPS.
    load: Vec<[f64; 2]>,
    /// Servers that each server has a bundle to.
    joined: Vec<Vec<usize>>,
    /// Bytes over budget of both lines of each server.
    over: Vec<[f64; 2]>,
    /// Bundles to take out for the one that is looked at.
    evicted: Vec<(usize, usize)>,
    /// What each of its two servers may do without.
    spare: [Vec<Spare>; 2],
}

/// A bundle that a server may do without.
#[derive(Clone, Copy)]
struct Spare {
    far: usize,
    need: u32,
    /// What it costs both its ends to take it out.
    damage: f64,
}

impl<'p, 'r> Packing<'p, 'r> {
    fn new(problem: &'p Problem<'r>, time: f64) -> Self {
        let n = problem.n;
        let carry = problem.circuit * time;
        let budget: Vec<f64> = problem.eps.iter().map(|eps| eps * time).collect();
        let mut need = vec![0; n * n];
        let mut load = vec![[0.0; 2]; n];
        for a in 0..n {
            let cells = a * n..(a + 1) * n;
            load[a] = [problem.tx[cells.clone()].iter().sum(), problem.rx[cells].iter().sum()];
            for b in a + 1..n {
                let circuits = (problem.larger(a, b) / carry).ceil();
                let ports = problem.request.ports[a].min(problem.request.ports[b]);
                if circuits <= f64::from(ports) && problem.may_join(a, b) {
                    need[a * n + b] = circuits as u32;
                    need[b * n + a] = circuits as u32;
                }
            }
        }
        let mut packing = Self {
            problem,
            circuits: problem.no_circuits(),
            need,
            slack: budget.iter().copied().fold(carry, f64::max) * ROUNDING,
            budget,
            weight: vec![1.0; n],
            load,
            joined: vec![Vec::new(); n],
            over: vec![[0.0; 2]; n],
            evicted: Vec::new(),
            spare: [Vec::new(), Vec::new()],
        };
        (0..n).for_each(|server| packing.look(server));
        packing
    }

    /// Finds the bytes over budget of a server whose load has changed.
    fn look(&mut self, server: usize) {
        let budget = self.budget[server];
        self.over[server] = self.load[server].map(|load| positive(load - budget));
    }

    fn need(&self, a: usize, b: usize) -> u32 {
        self.need[a * self.problem.n + b]
    }

    /// Bytes from a to b, and back.
    fn bytes(&self, a: usize, b: usize) -> [f64; 2] {
        let cell = a * self.problem.n + b;
        [self.problem.tx[cell], self.problem.rx[cell]]
    }

    fn excess(&self, server: usize) -> f64 {
        let [tx, rx] = self.over[server];
        tx + rx
    }

    /// Change of a server's excess when these are added to its lines.
    fn cost(&self, server: usize, bytes: [f64; 2]) -> f64 {
        let over = |load: f64| positive(load - self.budget[server]);
        let ([tx, rx], [over_tx, over_rx]) = (self.load[server], self.over[server]);
        let cost = over(tx + bytes[0]) - over_tx + over(rx + bytes[1]) - over_rx;
        cost * self.weight[server]
    }

    /// What a bundle takes off lines that are over budget.
    fn gain(&self, a: usize, b: usize) -> f64 {
        let [out, back] = self.bytes(a, b);
        -self.cost(a, [-out, -back]) - self.cost(b, [-back, -out])
    }

    fn put(&mut self, a: usize, b: usize) {
        (0..self.need(a, b)).for_each(|_| self.circuits.add(a, b));
        let [out, back] = self.bytes(a, b);
        for (server, peer, [tx, rx]) in [(a, b, [out, back]), (b, a, [back, out])] {
            self.load[server][0] -= tx;
            self.load[server][1] -= rx;
            self.look(server);
            self.joined[server].push(peer);
        }
    }

    fn take(&mut self, a: usize, b: usize) {
        (0..self.need(a, b)).for_each(|_| self.circuits.remove(a, b));
        let [out, back] = self.bytes(a, b);
        for (server, peer, [tx, rx]) in [(a, b, [out, back]), (b, a, [back, out])] {
            self.load[server][0] += tx;
            self.load[server][1] += rx;
            self.look(server);
            self.joined[server].retain(|&other| other != peer);
        }
    }

    /// Whether the bundle is out, wanted, and could be put in if it were alone.
    fn is_out(&self, a: usize, b: usize) -> bool {
        self.need(a, b) > 0 && self.circuits.of(a, b) == 0
    }

    /// Puts bundles in by falling gain per circuit, as far as ports go.
    ///
    /// Gains only fall as other bundles take lines back within their budgets, so a gain that was
    /// worked out earlier is an upper bound: only the foremost pair need be looked at again.
    fn fill_all(&mut self) {
        let n = self.problem.n;
        let mut gains = Vec::with_capacity(n * n / 2);
        for a in 0..n {
            for b in (a + 1..n).filter(|&b| self.is_out(a, b)) {
                let gain = self.gain(a, b) / f64::from(self.need(a, b));
                if gain > 0.0 {
                    gains.push(key(gain, a, b));
                }
            }
        }
        let mut queue = BinaryHeap::from(gains);
        while let Some(foremost) = queue.pop() {
            if self.circuits.is_full() {
                break;
            }
            let (a, b) = pair(foremost);
            let need = self.need(a, b);
            if self.circuits.free[a].min(self.circuits.free[b]) < need {
                continue;
            }
            let gain = self.gain(a, b) / f64::from(need);
            if gain <= 0.0 {
                continue;
            }
            let now = key(gain, a, b);
            if queue.peek().is_some_and(|&next| next > now) {
                queue.push(now);
            } else {
                self.put(a, b);
            }
        }
    }

    fn improve(&mut self, mut patience: usize) -> bool {
        let mut worst: Vec<(f64, usize)> = Vec::with_capacity(self.problem.n);
        let mut closest: Option<(f64, Circuits)> = None;
        for _ in 0..MOVES_PER_SERVER * self.problem.n {
            worst.clear();
            let servers = (0..self.problem.n).map(|server| (self.excess(server), server));
            worst.extend(servers.filter(|entry| entry.0 > self.slack));
            if worst.is_empty() {
                return true;
            }
            let total: f64 = worst.iter().map(|entry| entry.0).sum();
            if self.step(&mut worst) {
                continue;
            }
            if closest.as_ref().is_none_or(|closest| total < closest.0) {
                closest = Some((total, self.circuits.clone()));
            }
            if patience == 0 {
                break;
            }
            patience -= 1;
            for &(_, server) in &worst {
                self.weight[server] += IMPATIENCE;
            }
        }
        if let Some((_, circuits)) = closest {
            self.circuits = circuits;
        }
        false
    }

    /// Puts the best bundle in at the first of the worst servers where one helps.
    fn step(&mut self, worst: &mut [(f64, usize)]) -> bool {
        worst.sort_unstable_by(|x, y| {
            let weighted = |entry: &(f64, usize)| entry.0 * self.weight[entry.1];
            weighted(y).total_cmp(&weighted(x)).then(x.1.cmp(&y.1))
        });
        for &(_, a) in worst.iter().take(TRIES) {
            let mut best = (self.slack, usize::MAX);
            self.list_spare(0, a);
            for b in 0..self.problem.n {
                let alone = if self.is_out(a, b) { self.gain(a, b) } else { 0.0 };
                if alone > best.0 {
                    let gain = alone - self.make_room(a, b, |cost| alone - cost > best.0);
                    if gain > best.0 {
                        best = (gain, b);
                    }
                }
            }
            if best.1 != usize::MAX {
                self.replace(a, best.1);
                return true;
            }
        }
        false
    }

    /// Lists what a server may do without, as the first or second end of a bundle to put in.
    fn list_spare(&mut self, end: usize, server: usize) {
        let mut spare = std::mem::take(&mut self.spare[end]);
        spare.clear();
        spare.extend(self.joined[server].iter().map(|&far| {
            let [out, back] = self.bytes(server, far);
            let damage = self.cost(server, [out, back]) + self.cost(far, [back, out]);
            Spare { far, need: self.need(server, far), damage }
        }));
        self.spare[end] = spare;
    }

    /// Lists the bundles to take out for this one, cheapest per circuit first; returns the sum of
    /// what taking out each alone would cost, or more than any if it is not `worthwhile`. With this
    /// bundle in, which leaves its lines room, they cost less together; to reckon with that made
    /// no time shorter on average. What `a` may do without has been listed.
    fn make_room(&mut self, a: usize, b: usize, worthwhile: impl Fn(f64) -> bool) -> f64 {
        self.evicted.clear();
        let need = self.need(a, b);
        let mut cost = 0.0;
        for (end, server) in [a, b].into_iter().enumerate() {
            let mut free = self.circuits.free[server];
            if end == 1 && free < need {
                self.list_spare(end, server);
            }
            while free < need {
                let per_circuit = |spare: &Spare| {
                    let short = f64::from((need - free).min(spare.need));
                    (spare.damage / short, spare.far)
                };
                let may_evict = |far: usize| {
                    !self.evicted.contains(&(server, far)) && !self.evicted.contains(&(far, server))
                };
                let cheapest = self.spare[end]
                    .iter()
                    .filter(|spare| may_evict(spare.far))
                    .map(|spare| (per_circuit(spare), spare))
                    .min_by(|(x, _), (y, _)| x.0.total_cmp(&y.0).then(x.1.cmp(&y.1)));
                let Some((_, spare)) = cheapest else { return f64::INFINITY };
                free += spare.need;
                cost += spare.damage;
                self.evicted.push((server, spare.far));
                // What is taken out never gains.
                if !worthwhile(cost) {
                    return f64::INFINITY;
                }
            }
        }
        cost
    }

    fn replace(&mut self, a: usize, b: usize) {
        self.make_room(a, b, |_| true);
        let evicted = std::mem::take(&mut self.evicted);
        for &(server, far) in &evicted {
            self.take(server, far);
        }
        self.put(a, b);
        for server in evicted.iter().flat_map(|&(server, far)| [far, server]).chain([a, b]) {
            self.fill(server);
        }
        self.evicted = evicted;
    }

    /// Puts in what helps at the ports of this server that are free.
    fn fill(&mut self, a: usize) {
        while self.circuits.free[a] > 0 {
            let mut best = (self.slack, usize::MAX);
            for b in 0..self.problem.n {
                let room = self.circuits.free[a].min(self.circuits.free[b]);
                if self.is_out(a, b) && self.need(a, b) <= room {
                    let gain = self.gain(a, b);
                    if gain > best.0 {
                        best = (gain, b);
                    }
                }
            }
            if best.1 == usize::MAX {
                return;
            }
            self.put(a, best.1);
        }
    }
}

/// Sorts by gain (above zero, whose bits sort like it), then by lower indices.
fn key(gain: f64, a: usize, b: usize) -> u128 {
    u128::from(gain.to_bits()) << 32 | u128::from(!((a as u32) << 16 | b as u32))
}

/// The pair of a key.
fn pair(key: u128) -> (usize, usize) {
    let pair = !(key as u32);
    ((pair >> 16) as usize, (pair & 0xffff) as usize)
}
