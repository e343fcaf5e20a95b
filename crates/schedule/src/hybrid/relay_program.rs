//! Holds and two-hop routes over given slots: a linear program, solved by first-order steps.
//!
//! With matchings in a given order, the bytes of a pair i to j go over circuits of a slot that
//! joins them, or to m in slot a, stay there, and go on to j in a later slot b: two slots make one
//! such path for each i, a and b. With K slots the program is
//!
//! ```text
//! minimize sum_k h_k + price * relayed
//!   bytes over row i in slot k          <= h_k
//!   bytes of a pair over all its paths  <= its demand
//!   demand of a line - bytes over paths <= share (K delay + sum_k h_k)
//! ```
//!
//! It is solved by the primal-dual hybrid gradient (Chambolle and Pock, 2011) with diagonal steps,
//! restarts to the average and a primal weight, as PDLP does (Applegate et al., `NeurIPS` 2021).
//! The answer is near; whoever uses it makes it whole and measures the length exactly.

use super::demand::HybridDemand;
use crate::permutation::Slots;

/// Bytes of a path: over one row in one slot, or over two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Path {
    pub source: u32,
    /// Nobody, if the path is direct.
    pub relay: Option<u32>,
    pub destination: u32,
    pub first: u32,
    /// The same as the first, if the path is direct.
    pub second: u32,
}

/// What relaying a byte costs, so that none is relayed for nothing.
const PRICE: f64 = 2e-4;

/// Errors below this share of the longest line are none.
const TOLERANCE: f64 = 1e-4;

/// Steps between two looks at the errors, and at most.
const LOOK: usize = 40;
const STEPS: usize = 4_000;

/// All direct paths of pairs with bytes, then all over a relay.
pub(super) fn paths(demand: &HybridDemand, slots: &Slots) -> Vec<Path> {
    let rows = demand.rows;
    let matchings: Vec<&[i32]> = slots.matchings.chunks_exact(rows.max(1)).collect();
    let wanted = |source: usize, to: usize| demand.bytes[source * demand.columns + to] > 0;
    let mut direct = Vec::new();
    let mut relayed = Vec::new();
    for (first, matching) in matchings.iter().enumerate() {
        for (source, &relay) in matching.iter().enumerate().filter(|pair| *pair.1 >= 0) {
            let relay = relay as usize;
            let path = |relay, to: usize, second: usize| Path {
                source: source as u32,
                relay,
                destination: to as u32,
                first: first as u32,
                second: second as u32,
            };
            if wanted(source, relay) {
                direct.push(path(None, relay, first));
            }
            for (second, later) in matchings.iter().enumerate().skip(first + 1) {
                let Ok(to) = usize::try_from(later[relay]) else { continue };
                if relay != source && to != relay && to != source && wanted(source, to) {
                    relayed.push(path(Some(relay as u32), to, second));
                }
            }
        }
    }
    direct.extend(relayed);
    direct
}

/// Holds of slots and bytes of paths, near the optimum.
pub(super) struct Routes {
    pub holds: Vec<f64>,
    pub bytes: Vec<f64>,
    /// Numbers that were visited.
    pub work: usize,
}

/// Solves the program; nothing if the budget is spent before.
pub(super) fn solve(
    demand: &HybridDemand,
    slots: &Slots,
    paths: &[Path],
    is_spent: &dyn Fn() -> bool,
) -> Option<Routes> {
    let mut program = Program::new(demand, slots, paths);
    let mut state = State::new(&program);
    let (mut sum, mut start) = (state.zero(), state.clone());
    let (mut weight, mut count, mut steps) = (1.0_f64, 0_usize, 0_usize);
    let mut lowest = f64::INFINITY;
    while steps < STEPS {
        program.step(&mut state, weight);
        sum.add(&state);
        count += 1;
        steps += 1;
        if !count.is_multiple_of(LOOK) {
            continue;
        }
        if is_spent() {
            return None;
        }
        let average = sum.scaled(1.0 / count as f64);
        let (current, mean) = (program.error(&state), program.error(&average));
        let error = current.min(mean);
        let is_stale = error < 0.8 * lowest && count >= 10 * LOOK || count >= 10 * LOOK + steps / 3;
        if error < 0.2 * lowest || error < TOLERANCE || is_stale {
            if mean < current {
                state = average;
            }
            let (primal, dual) = program.distance(&state, &start);
            if primal > 1e-12 && dual > 1e-12 {
                weight = (weight * primal / dual).sqrt();
            }
            start = state.clone();
            sum = state.zero();
            (count, lowest) = (0, error);
        }
        if error < TOLERANCE {
            break;
        }
    }
    let holds = state.holds.iter().map(|hold| hold * program.scale).collect();
    let bytes = state.bytes.iter().map(|bytes| bytes * program.scale).collect();
    let size = paths.len() + demand.rows * slots.holds.len() + demand.bytes.len();
    Some(Routes { holds, bytes, work: steps * size })
}

struct Program {
    paths: Vec<Rows>,
    pairs: Vec<f64>,
    scale: f64,
    share: f64,
    /// What lines need beyond what packets carry in the delays.
    needs: Vec<f64>,
    rows: usize,
    steps: Steps,
    /// Activity of each row, reused.
    active: Dual,
}

/// The rows of a path's column.
struct Rows {
    ports: [u32; 2],
    pair: u32,
    lines: [u32; 2],
    is_relayed: bool,
}

/// One over the sum of the absolute entries of each column and row.
struct Steps {
    hold: f64,
    rows: Dual,
}

/// A number for each row of the program.
#[derive(Clone)]
struct Dual {
    ports: Vec<f64>,
    pairs: Vec<f64>,
    lines: Vec<f64>,
}

impl Dual {
    fn parts(&self) -> [&Vec<f64>; 3] {
        [&self.ports, &self.pairs, &self.lines]
    }

    fn parts_mut(&mut self) -> [&mut Vec<f64>; 3] {
        [&mut self.ports, &mut self.pairs, &mut self.lines]
    }
}

#[derive(Clone)]
struct State {
    holds: Vec<f64>,
    bytes: Vec<f64>,
    dual: Dual,
}

impl State {
    fn new(program: &Program) -> Self {
        let zero = |values: &Vec<f64>| vec![0.0; values.len()];
        let [ports, pairs, lines] = program.active.parts().map(zero);
        Self {
            holds: vec![0.0; ports.len() / program.rows.max(1)],
            bytes: vec![0.0; program.paths.len()],
            dual: Dual { ports, pairs, lines },
        }
    }

    fn zero(&self) -> Self {
        self.scaled(0.0)
    }

    fn parts_mut(&mut self) -> [&mut Vec<f64>; 5] {
        let Self { holds, bytes, dual: Dual { ports, pairs, lines } } = self;
        [holds, bytes, ports, pairs, lines]
    }

    fn add(&mut self, other: &Self) {
        let [ports, pairs, lines] = other.dual.parts();
        let others = [&other.holds, &other.bytes, ports, pairs, lines];
        for (own, other) in self.parts_mut().into_iter().zip(others) {
            own.iter_mut().zip(other).for_each(|(own, other)| *own += other);
        }
    }

    fn scaled(&self, factor: f64) -> Self {
        let mut result = self.clone();
        result.parts_mut().into_iter().flatten().for_each(|value| *value *= factor);
        result
    }
}

impl Program {
    fn new(demand: &HybridDemand, slots: &Slots, paths: &[Path]) -> Self {
        let (rows, count) = (demand.rows, slots.holds.len());
        let sums = demand.line_sums(demand.bytes);
        let scale = sums.iter().copied().max().unwrap_or(0).max(1) as f64;
        let share = demand.share();
        let delays = share * count as f64 * demand.delay as f64 / scale;
        let columns: Vec<Rows> = paths.iter().map(|path| rows_of(demand, path)).collect();
        let zero = Dual {
            ports: vec![0.0; count * rows],
            pairs: vec![0.0; demand.bytes.len()],
            lines: vec![0.0; demand.lines()],
        };
        let mut sizes = zero.clone();
        sizes.ports.fill(1.0);
        sizes.lines.fill(share * count as f64);
        for column in &columns {
            for &port in column.ports() {
                sizes.ports[port as usize] += 1.0;
            }
            sizes.pairs[column.pair as usize] += 1.0;
            column.lines.iter().for_each(|&line| sizes.lines[line as usize] += 1.0);
        }
        for value in sizes.parts_mut().into_iter().flatten() {
            *value = 1.0 / value.max(1e-9);
        }
        let hold = 1.0 / (rows as f64 + share * demand.lines() as f64);
        Self {
            paths: columns,
            pairs: demand.bytes.iter().map(|&bytes| bytes as f64 / scale).collect(),
            scale,
            share,
            needs: sums.iter().map(|&sum| sum as f64 / scale - delays).collect(),
            rows,
            steps: Steps { hold, rows: sizes },
            active: zero,
        }
    }

    /// What a unit of each hold costs at these prices.
    fn hold_rates(&self, dual: &Dual) -> Vec<f64> {
        let lines = self.share * dual.lines.iter().sum::<f64>();
        let slots = dual.ports.chunks_exact(self.rows.max(1));
        slots.map(|ports| 1.0 - ports.iter().sum::<f64>() - lines).collect()
    }

    /// How far each row is above its bound.
    fn excess(&mut self, holds: &[f64], bytes: &[f64]) {
        let Dual { ports, pairs, lines } = &mut self.active;
        for (ports, hold) in ports.chunks_exact_mut(self.rows.max(1)).zip(holds) {
            ports.fill(-hold);
        }
        pairs.iter_mut().zip(&self.pairs).for_each(|(pair, bytes)| *pair = -bytes);
        let packets = self.share * holds.iter().sum::<f64>();
        lines.iter_mut().zip(&self.needs).for_each(|(line, need)| *line = need - packets);
        for (column, bytes) in self.paths.iter().zip(bytes) {
            for &port in column.ports() {
                ports[port as usize] += bytes;
            }
            pairs[column.pair as usize] += bytes;
            column.lines.iter().for_each(|&line| lines[line as usize] -= bytes);
        }
    }

    fn step(&mut self, state: &mut State, weight: f64) {
        let (mut next_holds, mut next_bytes) = (state.holds.clone(), state.bytes.clone());
        let rates = self.hold_rates(&state.dual);
        for ((hold, beyond), rate) in state.holds.iter_mut().zip(&mut next_holds).zip(rates) {
            *hold = (*hold - weight * self.steps.hold * rate).max(0.0);
            *beyond = 2.0 * *hold - *beyond;
        }
        let columns = state.bytes.iter_mut().zip(&mut next_bytes).zip(&self.paths);
        for ((bytes, beyond), column) in columns {
            let rate = column.rate(&state.dual);
            *bytes = (*bytes - weight * column.step() * rate).max(0.0);
            *beyond = 2.0 * *bytes - *beyond;
        }
        self.excess(&next_holds, &next_bytes);
        let sizes = self.steps.rows.parts().into_iter().flatten();
        let active = self.active.parts().into_iter().flatten();
        let duals = state.dual.parts_mut().into_iter().flatten();
        for ((dual, excess), size) in duals.zip(active).zip(sizes) {
            *dual = (*dual + size / weight * excess).max(0.0);
        }
    }

    /// The largest violation, on either side, or the gap between both.
    fn error(&mut self, state: &State) -> f64 {
        self.excess(&state.holds, &state.bytes);
        let largest = |known: f64, value: &f64| known.max(*value);
        let primal = self.active.parts().into_iter().flatten().fold(0.0, largest);
        let mut dual = self.hold_rates(&state.dual).iter().fold(0.0, |x: f64, y| x.max(-y));
        let mut value = state.holds.iter().sum::<f64>();
        for (column, bytes) in self.paths.iter().zip(&state.bytes) {
            dual = dual.max(-column.rate(&state.dual));
            value += if column.is_relayed { PRICE * bytes } else { 0.0 };
        }
        let needs = state.dual.lines.iter().zip(&self.needs).map(|(dual, need)| dual * need);
        let pairs = state.dual.pairs.iter().zip(&self.pairs).map(|(dual, bytes)| dual * bytes);
        let gap = value - needs.sum::<f64>() + pairs.sum::<f64>();
        primal.max(dual).max(gap.abs())
    }

    /// Between two states, each side in the measure of its steps.
    fn distance(&self, one: &State, other: &State) -> (f64, f64) {
        let square = |x: &f64, y: &f64| (x - y) * (x - y);
        let mut primal: f64 = one.holds.iter().zip(&other.holds).map(|(x, y)| square(x, y)).sum();
        primal /= self.steps.hold;
        for ((x, y), column) in one.bytes.iter().zip(&other.bytes).zip(&self.paths) {
            primal += square(x, y) / column.step();
        }
        let sizes = self.steps.rows.parts().into_iter().flatten();
        let others = other.dual.parts().into_iter().flatten();
        let own = one.dual.parts().into_iter().flatten();
        let dual: f64 = own.zip(others).zip(sizes).map(|((x, y), s)| square(x, y) / s).sum();
        (primal.sqrt(), dual.sqrt())
    }
}

impl Rows {
    fn ports(&self) -> &[u32] {
        if self.is_relayed { &self.ports } else { &self.ports[..1] }
    }

    /// What a unit of the column costs at these prices.
    fn rate(&self, dual: &Dual) -> f64 {
        let ports: f64 = self.ports().iter().map(|&port| dual.ports[port as usize]).sum();
        let lines: f64 = self.lines.iter().map(|&line| dual.lines[line as usize]).sum();
        let price = if self.is_relayed { PRICE } else { 0.0 };
        price + ports + dual.pairs[self.pair as usize] - lines
    }

    fn step(&self) -> f64 {
        if self.is_relayed { 1.0 / 5.0 } else { 1.0 / 4.0 }
    }
}

fn rows_of(demand: &HybridDemand, path: &Path) -> Rows {
    let rows = demand.rows as u32;
    let first = path.first * rows + path.source;
    let second = path.relay.map_or(first, |relay| path.second * rows + relay);
    Rows {
        ports: [first, second],
        pair: path.source * demand.columns as u32 + path.destination,
        lines: [path.source, rows + path.destination],
        is_relayed: path.relay.is_some(),
    }
}
