//! Branch and bound over all circuits of a small region: the fastest ones, or the proof that these
//! are.
//!
//! At a fixed time the pairs are given their circuits one after the other. What a pair then has on
//! the EPS is known; a line (TX or RX of one server) must stay within its EPS budget, whatever the
//! pairs that are still to come: their bytes less what the ports that are left, at both ends, can
//! carry at most. Circuits that finish by the time set a shorter one, until there are none: then
//! nothing is faster.
//!
//! Local search ends up to 7 % above the optimum where each server has one or two ports.

use super::parametric::{CLOSE, Candidate};
use super::problem::{Circuits, Problem, ROUNDING};
use lightloom_model::Allocator;

/// Largest region that is looked at.
pub(super) const MAX_SERVERS: usize = 5;

/// Sets of circuits, complete or not, that are looked at before giving up.
const MAX_NODES: u32 = 5_000;

/// The fastest circuits, if that many sets suffice to find them; then they are proved.
pub(super) fn enumerate(problem: &Problem, mut best: Candidate, name: Allocator) -> Candidate {
    let mut nodes = MAX_NODES;
    while !best.is_proved() && !problem.reaches_bound(best.time) {
        let target =
            if best.time.is_finite() { best.time * (1.0 - CLOSE) } else { longest(problem) };
        let mut tree = Tree::new(problem, target, nodes);
        let verdict = tree.descend(0);
        nodes = tree.nodes;
        match verdict {
            Some(true) => {
                let next = Candidate::new(problem, name, tree.circuits);
                if next.time >= best.time {
                    break;
                }
                best = best.or(next);
            }
            Some(false) => {
                best.bound = best.time;
                break;
            }
            None => break,
        }
    }
    best
}

/// A time that circuits finish by if they ever do: one carries any pair, and the EPS everything.
fn longest(problem: &Problem) -> f64 {
    let mut time = 0.0_f64;
    for server in 0..problem.n {
        for peer in 0..problem.n {
            time = time.max(problem.larger(server, peer) / problem.circuit);
        }
        if problem.eps[server] > 0.0 {
            let [sent, received] = problem.sums()[server];
            time = time.max(sent.max(received) / problem.eps[server]);
        }
    }
    time
}

/// A pair with demand, and the circuits that are of use to it.
#[derive(Clone, Copy)]
struct Pair {
    ends: [usize; 2],
    bytes: [f64; 2],
    max: u32,
}

struct Tree<'p, 'r> {
    problem: &'p Problem<'r>,
    /// Bytes that one circuit carries by the given time.
    carry: f64,
    slack: f64,
    pairs: Vec<Pair>,
    circuits: Circuits,
    /// Bytes that each server may still send to, and receive from, the EPS.
    left: [[f64; 2]; MAX_SERVERS],
    nodes: u32,
}

impl<'p, 'r> Tree<'p, 'r> {
    fn new(problem: &'p Problem<'r>, time: f64, nodes: u32) -> Self {
        let n = problem.n;
        assert!(n <= MAX_SERVERS, "{n} servers to enumerate");
        let carry = problem.circuit * time;
        let mut pairs: Vec<Pair> = Vec::with_capacity(n * n / 2);
        for a in 0..n {
            for b in a + 1..n {
                let bytes = [problem.tx[a * n + b], problem.rx[a * n + b]];
                let max = (problem.larger(a, b) / carry * (1.0 - ROUNDING)).ceil();
                let max = if problem.may_join(a, b) { max as u32 } else { 0 };
                if problem.larger(a, b) > 0.0 {
                    pairs.push(Pair { ends: [a, b], bytes, max });
                }
            }
        }
        pairs.sort_by(|x, y| {
            let larger = |pair: &Pair| pair.bytes[0].max(pair.bytes[1]);
            larger(y).total_cmp(&larger(x)).then(x.ends.cmp(&y.ends))
        });
        let mut left = [[0.0; 2]; MAX_SERVERS];
        let mut slack = carry;
        for (left, eps) in left.iter_mut().zip(&problem.eps) {
            *left = [eps * time; 2];
            slack = slack.max(eps * time);
        }
        let circuits = problem.no_circuits();
        Self { problem, carry, slack: slack * ROUNDING, pairs, circuits, left, nodes }
    }

    /// Whether the pairs from this one on can get circuits so that everything ends in time;
    /// nothing if too many sets were looked at.
    fn descend(&mut self, index: usize) -> Option<bool> {
        self.nodes = self.nodes.checked_sub(1)?;
        if !self.may_end(index) {
            return Some(false);
        }
        let Some(&Pair { ends: [a, b], bytes: [out, back], max }) = self.pairs.get(index) else {
            return Some(true);
        };
        let limit = max.min(self.circuits.free[a]).min(self.circuits.free[b]);
        let before = self.left;
        for count in (0..=limit).rev() {
            if !self.problem.request.split && count > 0 && count < max {
                continue;
            }
            let carried = f64::from(count) * self.carry;
            let (out, back) = ((out - carried).max(0.0), (back - carried).max(0.0));
            for (server, [sent, received]) in [(a, [out, back]), (b, [back, out])] {
                self.left[server][0] -= sent;
                self.left[server][1] -= received;
            }
            (0..count).for_each(|_| self.circuits.add(a, b));
            if self.descend(index + 1)? {
                return Some(true);
            }
            (0..count).for_each(|_| self.circuits.remove(a, b));
            self.left = before;
        }
        Some(false)
    }

    /// Whether each line by itself could stay within its budget with the ports that are left. Whole
    /// circuits' loads come first, then what remains of each pair.
    fn may_end(&self, index: usize) -> bool {
        let mut spilled = [[0.0; 2]; MAX_SERVERS];
        let mut units = [[0; 2]; MAX_SERVERS];
        let mut rests = [[[0.0; MAX_SERVERS]; 2]; MAX_SERVERS];
        for pair in &self.pairs[index..] {
            let [a, b] = pair.ends;
            let ports = pair.max.min(self.circuits.free[a]).min(self.circuits.free[b]);
            let lines = [(a, 0, 0), (a, 1, 1), (b, 0, 1), (b, 1, 0)];
            for (server, line, direction) in lines {
                let bytes = pair.bytes[direction];
                let full = ((bytes / self.carry) as u32).min(ports);
                spilled[server][line] += bytes;
                units[server][line] += full;
                if full < ports {
                    let peer = if server == a { b } else { a };
                    let rest = (bytes - f64::from(full) * self.carry).min(self.carry);
                    rests[server][line][peer] = rest;
                }
            }
        }
        for server in 0..self.problem.n {
            let free = self.circuits.free[server];
            for line in 0..2 {
                let full = units[server][line].min(free);
                let mut rests = rests[server][line];
                rests.sort_unstable_by(|x, y| y.total_cmp(x));
                let rest: f64 = rests.iter().take((free - full) as usize).sum();
                let carried = f64::from(full) * self.carry + rest;
                if spilled[server][line] - carried > self.left[server][line] + self.slack {
                    return false;
                }
            }
        }
        true
    }
}
