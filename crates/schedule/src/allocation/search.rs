//! Local search: circuits that finish by a given time, by moving few circuits at once.
//!
//! At a fixed time T the problem is one of sums: what a pair must spill to the EPS depends on its
//! own circuits only, and a server's TX and RX have a budget of `eps T` bytes each. The search
//! lowers the bytes over budget, summed over all lines, until none is left. As a move touches at
//! most four pairs, its effect is a handful of additions, whatever the size of the region.
//!
//! Moves: a server over budget gets a circuit to some peer; each of the two that has no free port
//! gives up a circuit for it, and the two servers at the far ends of these are joined if they may.
//! The search is not exact: for budgets per server the problem is believed to be NP-hard.

use std::collections::BinaryHeap;

use super::problem::{Circuits, Problem, ROUNDING};

/// How much more a byte of excess counts each time that no move helps.
const IMPATIENCE: f64 = 0.5;

/// Moves until giving up, per server.
const MOVES_PER_SERVER: usize = 2;

/// Servers over budget that are looked at before giving up, the worst first.
const TRIES: usize = 4;

/// Circuits that finish by this time, or those that miss it by the fewest bytes; whether they do.
///
/// `patience` is how often bytes over budget may come to count more where no move helps.
pub(super) fn search(
    problem: &Problem,
    start: Circuits,
    time: f64,
    patience: usize,
) -> (Circuits, bool) {
    if problem.request.split {
        Search::<true>::new(problem, start, time).run(patience)
    } else {
        Search::<false>::new(problem, start, time).run(patience)
    }
}

/// A search of pairs that may split, or may not.
pub(super) struct Search<'p, 'r, const SPLIT: bool> {
    problem: &'p Problem<'r>,
    circuits: Circuits,
    /// Bytes that one circuit carries by the given time.
    carry: f64,
    /// Bytes that are rounding and no load.
    slack: f64,
    loads: Vec<Load>,
    joined: Joined,
    wishes: BinaryHeap<Wish>,
    ends: [End; 2],
}

/// Servers that each server has circuits to, by index, and the effect of one circuit less.
///
/// Empty until a search runs; trails of [`super::sticky`] do without.
#[derive(Default)]
struct Joined {
    entries: Vec<(u16, Change)>,
    /// Where each server's entries begin, and how many there are.
    rows: Vec<(usize, usize)>,
}

impl Joined {
    fn of(&self, server: usize) -> &[(u16, Change)] {
        let (start, length) = self.rows[server];
        &self.entries[start..start + length]
    }

    /// Sets the effect of one circuit less to a peer, or that there is none left.
    fn set(&mut self, server: usize, peer: usize, less: Option<Change>) {
        let (start, length) = self.rows[server];
        let place = self.of(server).binary_search_by_key(&(peer as u16), |entry| entry.0);
        match (place, less) {
            (Ok(index), Some(less)) => self.entries[start + index].1 = less,
            (Ok(index), None) => {
                self.entries.copy_within(start + index + 1..start + length, start + index);
                self.rows[server].1 -= 1;
            }
            (Err(index), Some(less)) => {
                let index = start + index;
                self.entries.copy_within(index..start + length, index + 1);
                self.entries[index] = (peer as u16, less);
                self.rows[server].1 += 1;
            }
            (Err(_), None) => {}
        }
    }
}

/// A peer, and what a circuit to it would gain if nothing had to be given up. Larger is first:
/// more gain (the bits of numbers below zero sort so), then the higher index.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Wish {
    alone: u64,
    peer: usize,
}

/// What a server sends and receives at the given time.
#[derive(Clone, Copy)]
struct Load {
    /// Bytes that it sends to the EPS, and receives from it.
    tx: f64,
    rx: f64,
    /// Bytes that each of the two may be.
    budget: f64,
    /// Bytes over budget of each.
    over_tx: f64,
    over_rx: f64,
    /// Bytes that its pairs send on too few circuits, without split.
    unsplit: f64,
    /// What a byte over budget counts for, and what its excess does.
    weight: f64,
    weighted: f64,
}

impl Load {
    #[inline]
    fn over(&self, bytes: f64) -> f64 {
        positive(bytes - self.budget)
    }

    /// Adds to its lines.
    fn add(&mut self, change: Change) {
        self.tx += change.out;
        self.rx += change.back;
        self.over_tx = self.over(self.tx);
        self.over_rx = self.over(self.rx);
        self.unsplit = positive(self.unsplit + change.unsplit);
        self.weighted = self.excess() * self.weight;
    }

    /// Bytes over budget, and on unsplit circuits.
    #[inline]
    fn excess(&self) -> f64 {
        self.over_tx + self.over_rx + self.unsplit
    }

    /// Change of the bytes over budget when these are added to its lines.
    #[inline]
    fn cost(&self, tx: f64, rx: f64) -> f64 {
        let cost = self.over(self.tx + tx) - self.over_tx + self.over(self.rx + rx) - self.over_rx;
        cost * self.weight
    }
}

/// What one circuit more, or less, between a and b changes.
#[derive(Clone, Copy, Default)]
struct Change {
    /// Bytes on the EPS from a to b.
    out: f64,
    /// Bytes on the EPS from b to a.
    back: f64,
    /// Bytes beyond what circuits carry that must not be split.
    unsplit: f64,
}

impl Change {
    /// The same change, seen from b.
    fn reversed(self) -> Self {
        Self { out: self.back, back: self.out, ..self }
    }
}

/// One of the two servers that a move joins: the circuits that it may give up for the new one,
/// and what it can do.
#[derive(Default)]
struct End {
    given_up: Vec<GivenUp>,
    sides: Vec<Side>,
}

/// What one of the two servers can do to get a port.
#[derive(Clone, Copy)]
struct Side {
    /// What both cost (negative is good), here and at the far end.
    cost: f64,
    /// What they would cost if the far end had no excess left.
    min_cost: f64,
    /// Which circuit is given up, if its ports are taken.
    given_up: Option<usize>,
}

/// A circuit that may be given up.
#[derive(Clone, Copy)]
struct GivenUp {
    /// The server at its far end, and what giving it up changes, seen from the near one.
    far: usize,
    less: Change,
    /// What that costs the far end, without and with bytes that must not be split, and what its
    /// excess counts for.
    lines: f64,
    suffers: f64,
    excess: f64,
    /// Whether the lines of the far end stay within their budgets.
    within: bool,
}

#[derive(Clone, Copy)]
struct Move {
    ends: [usize; 2],
    far: [Option<usize>; 2],
    /// Whether the far ends are joined.
    close: bool,
}

impl<'p, 'r, const SPLIT: bool> Search<'p, 'r, SPLIT> {
    /// A search that starts with these circuits.
    pub(super) fn new(problem: &'p Problem<'r>, circuits: Circuits, time: f64) -> Self {
        let n = problem.n;
        let carry = problem.circuit * time;
        let idle = |eps: &f64| Load {
            tx: 0.0,
            rx: 0.0,
            budget: eps * time,
            over_tx: 0.0,
            over_rx: 0.0,
            unsplit: 0.0,
            weight: 1.0,
            weighted: 0.0,
        };
        let loads: Vec<Load> = problem.eps.iter().map(idle).collect();
        let slack = loads.iter().map(|load| load.budget).fold(carry, f64::max) * ROUNDING;
        let mut search = Self {
            problem,
            circuits,
            carry,
            slack,
            loads,
            joined: Joined::default(),
            wishes: BinaryHeap::new(),
            ends: [End::default(), End::default()],
        };
        let mut joined = Vec::new();
        (0..n).for_each(|server| search.load(server, &mut joined));
        search
    }

    /// Sums up what a server sends and receives; `joined` is room for servers.
    fn load(&mut self, server: usize, joined: &mut Vec<usize>) {
        let row = server * self.problem.n..(server + 1) * self.problem.n;
        let counts = &self.circuits.count[row.clone()];
        let (tx, rx) = (&self.problem.tx[row.clone()], &self.problem.rx[row]);
        let mut load = self.loads[server];
        if SPLIT {
            for ((&count, &out), &back) in counts.iter().zip(tx).zip(rx) {
                if count == 0 {
                    load.tx += out;
                    load.rx += back;
                } else {
                    load.tx += self.beyond(out, count).0;
                    load.rx += self.beyond(back, count).0;
                }
            }
        } else {
            // Of whole numbers it is the same to the bit to subtract what is on circuits.
            [load.tx, load.rx] = self.problem.sums()[server];
            joined.clear();
            joined.extend((0..counts.len()).filter(|&peer| counts[peer] > 0));
            for &peer in &*joined {
                load.tx -= tx[peer];
                load.rx -= rx[peer];
            }
            let (before, after) = joined.split_at(joined.partition_point(|&peer| peer < server));
            for (bytes, peers) in [(rx, before), (tx, joined.as_slice()), (rx, after)] {
                for &peer in peers {
                    load.unsplit += self.beyond(bytes[peer], counts[peer]).1;
                }
            }
        }
        load.add(Change::default());
        self.loads[server] = load;
    }

    /// Moves circuits until everything ends in time, or no move helps; says whether it does.
    ///
    /// Where no move helps, bytes over budget come to count more at the servers that have them,
    /// which makes moves worth while that only shift the excess; `patience` is how often. Circuits
    /// that miss the time are often better than those that the search began with: those with the
    /// fewest bytes over budget are returned.
    fn run(mut self, mut patience: usize) -> (Circuits, bool) {
        self.list_joined();
        let mut worst: Vec<(f64, usize)> = Vec::with_capacity(self.problem.n);
        let mut closest: Option<(f64, Circuits)> = None;
        for _ in 0..MOVES_PER_SERVER * self.problem.n {
            worst.clear();
            let servers = (0..self.problem.n).map(|server| (self.excess(server), server));
            worst.extend(servers.filter(|entry| entry.0 > self.slack));
            if worst.is_empty() {
                return (self.circuits, true);
            }
            let step = self.step_at_worst(&mut worst);
            if let Some(step) = step {
                self.apply(&step);
                continue;
            }
            let total: f64 = (0..self.problem.n).map(|server| self.excess(server)).sum();
            if patience == 0 {
                break;
            }
            if closest.as_ref().is_none_or(|closest| total < closest.0) {
                closest = Some((total, self.circuits.clone()));
            }
            patience -= 1;
            for server in 0..self.problem.n {
                if self.excess(server) > self.slack {
                    self.loads[server].weight += IMPATIENCE;
                    self.loads[server].add(Change::default());
                }
            }
        }
        let total: f64 = (0..self.problem.n).map(|server| self.excess(server)).sum();
        match closest {
            Some((other, circuits)) if other < total => (circuits, false),
            _ => (self.circuits, false),
        }
    }

    /// The best move at the first of the worst servers that has one.
    fn step_at_worst(&mut self, worst: &mut Vec<(f64, usize)>) -> Option<Move> {
        for entry in worst.iter_mut() {
            entry.0 *= self.loads[entry.1].weight;
        }
        if worst.len() > TRIES {
            worst.select_nth_unstable_by(TRIES - 1, falling);
            worst.truncate(TRIES);
        }
        worst.sort_unstable_by(falling);
        worst.iter().find_map(|&(_, server)| self.best_move(server))
    }

    /// The circuits as they are now.
    pub(super) fn circuits(&self) -> &Circuits {
        &self.circuits
    }

    /// Ends the search.
    pub(super) fn into_circuits(self) -> Circuits {
        self.circuits
    }

    /// Whether a server is within its budgets, but for rounding.
    pub(super) fn in_time(&self, server: usize) -> bool {
        self.excess(server) <= self.slack
    }

    /// Bytes on the EPS, and bytes beyond what unsplit circuits carry.
    #[inline]
    fn beyond(&self, bytes: f64, count: u16) -> (f64, f64) {
        let rest = positive(bytes - f64::from(count) * self.carry);
        match (SPLIT, count) {
            (true, _) => (rest, 0.0),
            (false, 0) => (bytes, 0.0),
            (false, _) => (0.0, rest),
        }
    }

    /// Bytes over budget at a server, and on its unsplit circuits.
    fn excess(&self, server: usize) -> f64 {
        self.loads[server].excess()
    }

    /// The effect of one circuit more, or less.
    #[inline]
    fn change(&self, a: usize, b: usize, more: bool) -> Change {
        let cell = a * self.problem.n + b;
        let (old, bytes) =
            (self.circuits.count[cell], [self.problem.tx[cell], self.problem.rx[cell]]);
        self.change_of(bytes, old, if more { old + 1 } else { old - 1 })
    }

    /// The effect of another number of circuits on a pair with these bytes, out and back.
    #[inline]
    fn change_of(&self, [out, back]: [f64; 2], old: u16, new: u16) -> Change {
        if SPLIT {
            let (old, new) = (f64::from(old) * self.carry, f64::from(new) * self.carry);
            return Change {
                out: positive(out - new) - positive(out - old),
                back: positive(back - new) - positive(back - old),
                unsplit: 0.0,
            };
        }
        let (old_out, new_out) = (self.beyond(out, old), self.beyond(out, new));
        let (old_back, new_back) = (self.beyond(back, old), self.beyond(back, new));
        Change {
            out: new_out.0 - old_out.0,
            back: new_back.0 - old_back.0,
            unsplit: (new_out.1 - old_out.1) + (new_back.1 - old_back.1),
        }
    }

    /// Change of a server's bytes over budget when these are added to its lines.
    #[inline]
    fn cost(&self, server: usize, tx: f64, rx: f64) -> f64 {
        self.loads[server].cost(tx, rx)
    }

    /// The weights of two servers, added.
    fn both(&self, a: usize, b: usize) -> f64 {
        self.loads[a].weight + self.loads[b].weight
    }

    /// The move at this server that lowers the bytes over budget most.
    ///
    /// What a circuit to a peer would gain if nothing had to be given up for it is tried first:
    /// giving up circuits only adds to loads, so a peer whose circuit alone gains less than the
    /// best move so far need not be looked at. (Joining the far ends may gain, too; that is left
    /// out of the comparison, which loses little and saves most of the work.)
    fn best_move(&mut self, server: usize) -> Option<Move> {
        let mut wishes = self.list_wishes(server);
        let mut ends = std::mem::take(&mut self.ends);
        self.list_given_up(server, &mut ends[0].given_up);
        let mut best = (-self.slack, None);
        while let Some(Wish { alone, peer }) = wishes.pop() {
            if f64::from_bits(alone) >= best.0 {
                break;
            }
            self.try_peer([server, peer], &mut ends, &mut best);
        }
        self.ends = ends;
        self.wishes = wishes;
        best.1
    }

    /// Peers of a server, and what a circuit to each would gain if nothing had to be given up.
    fn list_wishes(&mut self, server: usize) -> BinaryHeap<Wish> {
        let mut wishes = std::mem::take(&mut self.wishes).into_vec();
        wishes.clear();
        let row = server * self.problem.n..(server + 1) * self.problem.n;
        let bytes = self.problem.tx[row.clone()].iter().zip(&self.problem.rx[row.clone()]);
        let peers = self.circuits.count[row].iter().zip(bytes).zip(&self.loads);
        let near = &self.loads[server];
        for (peer, ((&count, (&out, &back)), load)) in peers.enumerate() {
            let carried = f64::from(count) * self.carry;
            let wants = out > carried || back > carried;
            if wants && self.problem.may_join(server, peer) && self.problem.request.ports[peer] > 0
            {
                let more = self.change_of([out, back], count, count + 1);
                let alone = near.cost(more.out, more.back)
                    + load.cost(more.back, more.out)
                    + (near.weight + load.weight) * more.unsplit;
                if alone < -self.slack {
                    wishes.push(Wish { alone: alone.to_bits(), peer });
                }
            }
        }
        wishes.into()
    }

    /// The circuits that a server may give up, and what that does to those at their far ends; none
    /// if it has free ports.
    #[inline]
    fn list_given_up(&self, server: usize, given_up: &mut Vec<GivenUp>) {
        given_up.clear();
        if self.circuits.free[server] > 0 {
            return;
        }
        given_up.extend(self.joined.of(server).iter().map(|&(far, less)| {
            let far = usize::from(far);
            let load = &self.loads[far];
            let lines = load.cost(less.back, less.out);
            let suffers = lines + load.weight * less.unsplit;
            let within = load.tx + less.back <= load.budget && load.rx + less.out <= load.budget;
            GivenUp { far, less, lines, suffers, excess: load.weighted, within }
        }));
    }

    /// All ways to join these two. What one end gives up matters to the other only if both give
    /// up a circuit to the same server, or if the far ends are joined.
    ///
    /// Sides that cannot beat the best move so far are left out: those of `a` first, by what `b`
    /// cannot be below.
    fn try_peer(&self, [a, b]: [usize; 2], ends: &mut [End; 2], best: &mut (f64, Option<Move>)) {
        let more = self.change(a, b, true);
        let unsplit = self.both(a, b) * more.unsplit;
        let [from_a, from_b] = ends;
        let lowest_b = self.lowest_cost(b, more.reversed());
        let limit = best.0;
        let beats = |min_cost: f64| min_cost + lowest_b + unsplit < limit;
        self.list_sides([a, b], more, from_a, beats);
        if from_a.sides.is_empty() {
            return;
        }
        let min_a = from_a.sides.iter().map(|side| side.min_cost).fold(f64::INFINITY, f64::min);
        self.list_given_up(b, &mut from_b.given_up);
        let beats = |min_cost: f64| min_a + min_cost + unsplit < limit;
        self.list_sides([b, a], more.reversed(), from_b, beats);
        for side_a in &from_a.sides {
            for side_b in &from_b.sides {
                if side_a.min_cost + side_b.min_cost + unsplit >= best.0 {
                    continue;
                }
                let apart = side_a.cost + side_b.cost + unsplit;
                let x = side_a.given_up.map(|index| &from_a.given_up[index]);
                let y = side_b.given_up.map(|index| &from_b.given_up[index]);
                let (gain, close) = match (x, y) {
                    (Some(x), Some(y)) if x.far == y.far => (apart + self.shared(x, y), false),
                    (Some(x), Some(y)) if self.problem.may_join(x.far, y.far) => {
                        let joining = self.joining(x, y);
                        (apart + joining.min(0.0), joining <= 0.0)
                    }
                    _ => (apart, false),
                };
                if gain < best.0 {
                    let far = [x, y].map(|given_up| given_up.map(|circuit| circuit.far));
                    *best = (gain, Some(Move { ends: [a, b], far, close }));
                }
            }
        }
    }

    /// What no side of this server costs less than: giving up a circuit only adds to its lines,
    /// and spares it at most bytes that must not be split and the excess of the far end.
    #[inline]
    fn lowest_cost(&self, server: usize, more: Change) -> f64 {
        let own_load = &self.loads[server];
        let cost = own_load.cost(more.out, more.back);
        if self.circuits.free[server] > 0 {
            return cost;
        }
        let (mut unsplit, mut far) = (0.0, 0.0);
        for (peer, less) in self.joined.of(server) {
            let weighted = self.loads[usize::from(*peer)].weighted;
            far = if weighted > far { weighted } else { far };
            let spared = own_load.weight * less.unsplit;
            unsplit = if !SPLIT && spared < unsplit { spared } else { unsplit };
        }
        cost + unsplit - far
    }

    /// What the first of these can do to get a port for a circuit to the other, as far as it
    /// `beats` other moves.
    #[inline]
    fn list_sides(
        &self,
        [server, peer]: [usize; 2],
        more: Change,
        end: &mut End,
        beats: impl Fn(f64) -> bool,
    ) {
        end.sides.clear();
        let own_load = &self.loads[server];
        if self.circuits.free[server] > 0 {
            let spent = own_load.cost(more.out, more.back);
            end.sides.push(Side { cost: spent, min_cost: spent, given_up: None });
            return;
        }
        for (index, other) in end.given_up.iter().enumerate() {
            let less = other.less;
            let spent = own_load.cost(more.out + less.out, more.back + less.back)
                + own_load.weight * less.unsplit;
            let min_cost = spent - other.excess;
            if beats(min_cost) && other.far != peer {
                let cost = spent + other.suffers;
                end.sides.push(Side { cost, min_cost, given_up: Some(index) });
            }
        }
    }

    /// What it costs more that both circuits are taken from one server.
    fn shared(&self, x: &GivenUp, y: &GivenUp) -> f64 {
        let (out, back) = (x.less.back + y.less.back, x.less.out + y.less.out);
        self.cost(x.far, out, back) - x.lines - y.lines
    }

    /// What it gains to join the far ends.
    #[inline]
    fn joining(&self, x: &GivenUp, y: &GivenUp) -> f64 {
        if SPLIT && x.within && y.within {
            return 0.0;
        }
        let more = self.change(x.far, y.far, true);
        let gain = |circuit: &GivenUp, more: Change| {
            let less = circuit.less.reversed();
            self.cost(circuit.far, less.out + more.out, less.back + more.back) - circuit.lines
        };
        gain(x, more) + gain(y, more.reversed()) + self.both(x.far, y.far) * more.unsplit
    }

    fn apply(&mut self, step: &Move) {
        let [a, b] = step.ends;
        for (server, far) in step.ends.into_iter().zip(step.far) {
            if let Some(far) = far {
                self.shift_joined(server, far, false);
            }
        }
        self.shift_joined(a, b, true);
        if let ([Some(x), Some(y)], true) = (step.far, step.close) {
            self.shift_joined(x, y, true);
        }
    }

    /// Adds or removes one circuit during a search.
    fn shift_joined(&mut self, a: usize, b: usize, more: bool) {
        self.shift(a, b, more);
        let less = (self.circuits.of(a, b) > 0).then(|| self.change(a, b, false));
        self.joined.set(a, b, less);
        self.joined.set(b, a, less.map(Change::reversed));
    }

    /// Adds or removes one circuit.
    pub(super) fn shift(&mut self, a: usize, b: usize, more: bool) {
        let change = self.change(a, b, more);
        for (server, change) in [(a, change), (b, change.reversed())] {
            self.loads[server].add(change);
        }
        if more {
            self.circuits.add(a, b);
        } else {
            self.circuits.remove(a, b);
        }
    }

    fn list_joined(&mut self) {
        let n = self.problem.n;
        let max_peers = |&ports: &u32| n.min(ports as usize);
        let total = self.problem.request.ports.iter().map(max_peers).sum();
        let mut entries = Vec::with_capacity(total);
        let mut rows = Vec::with_capacity(n);
        let mut start = 0;
        for (server, ports) in self.problem.request.ports.iter().enumerate() {
            for (peer, &count) in self.circuits.count[server * n..][..n].iter().enumerate() {
                if count > 0 {
                    entries.push((peer as u16, self.change(server, peer, false)));
                }
            }
            rows.push((start, entries.len() - start));
            start += max_peers(ports);
            entries.resize(start, (0, Change::default()));
        }
        self.joined = Joined { entries, rows };
    }
}

/// The number, or 0 if it is below: one instruction, as none of these is NaN.
#[inline]
pub(super) fn positive(number: f64) -> f64 {
    if number > 0.0 { number } else { 0.0 }
}

/// Larger values first, then lower indices.
fn falling(x: &(f64, usize), y: &(f64, usize)) -> std::cmp::Ordering {
    y.0.total_cmp(&x.0).then(x.1.cmp(&y.1))
}
