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

use std::ops::Range;

use super::problem::{Circuits, Problem, ROUNDING};

/// How much more a byte of excess counts each time that no move helps.
const IMPATIENCE: f64 = 0.5;

/// Moves until giving up, per server.
const MOVES_PER_SERVER: usize = 2;

/// Servers over budget that are looked at before giving up, the worst first.
const TRIES: usize = 4;

pub(super) struct Search<'p, 'r> {
    problem: &'p Problem<'r>,
    circuits: Circuits,
    /// Bytes that one circuit carries by the given time.
    carry: f64,
    /// Bytes that are rounding and no load.
    slack: f64,
    loads: Vec<Load>,
    /// Servers that each server has circuits to, and the effect of one circuit less.
    joined: Vec<Vec<(u16, Change)>>,
    wishes: Vec<(f64, usize)>,
    given_up: Vec<GivenUp>,
    sides: [Vec<Side>; 2],
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
    /// What a byte over budget counts for.
    weight: f64,
}

impl Load {
    fn over(&self, bytes: f64) -> f64 {
        (bytes - self.budget).max(0.0)
    }

    /// Adds to its lines.
    fn add(&mut self, change: Change) {
        self.tx += change.out;
        self.rx += change.back;
        self.over_tx = self.over(self.tx);
        self.over_rx = self.over(self.rx);
    }

    /// Bytes over budget, and on unsplit circuits.
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

/// One of the two servers that a move joins, and the circuit that it gives up for the new one.
#[derive(Clone, Copy)]
struct Side {
    /// What both cost (negative is good), here and at the far end.
    cost: f64,
    /// What they would cost if the far end had no excess left.
    min_cost: f64,
    /// The far end of the circuit given up, and what giving it up changes, seen from there.
    far: Option<(usize, Change)>,
}

/// A circuit that may be given up.
#[derive(Clone, Copy)]
struct GivenUp {
    /// The server at its far end, and what giving it up changes, seen from the near one.
    far: usize,
    less: Change,
    /// What that costs the far end, and what its excess counts for.
    suffers: f64,
    excess: f64,
}

#[derive(Clone, Copy)]
struct Move {
    ends: [usize; 2],
    far: [Option<usize>; 2],
    /// Whether the far ends are joined.
    close: bool,
}

impl<'p, 'r> Search<'p, 'r> {
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
        };
        let loads: Vec<Load> = problem.eps.iter().map(idle).collect();
        let slack = loads.iter().map(|load| load.budget).fold(carry, f64::max) * ROUNDING;
        let max_peers = problem.request.ports.iter().max().map_or(0, |&max| n.min(max as usize));
        let mut search = Self {
            problem,
            circuits,
            carry,
            slack,
            loads,
            joined: vec![Vec::new(); n],
            wishes: Vec::with_capacity(n),
            given_up: Vec::with_capacity(max_peers),
            sides: [Vec::with_capacity(max_peers), Vec::with_capacity(max_peers)],
        };
        for server in 0..n {
            search.load(server);
            search.joined[server].reserve(problem.request.ports[server].min(n as u32) as usize);
            search.list_joined(server);
        }
        search
    }

    /// Sums up what a server sends and receives.
    fn load(&mut self, server: usize) {
        let row = server * self.problem.n..(server + 1) * self.problem.n;
        let counts = &self.circuits.count[row.clone()];
        let (tx, rx) = (&self.problem.tx[row.clone()], &self.problem.rx[row]);
        let mut load = self.loads[server];
        for ((&count, &out), &back) in counts.iter().zip(tx).zip(rx) {
            if count == 0 {
                load.tx += out;
                load.rx += back;
            } else {
                load.tx += self.beyond(out, count).0;
                load.rx += self.beyond(back, count).0;
            }
        }
        if !self.problem.request.split {
            let n = self.problem.n;
            let back = |peers: Range<usize>| peers.map(|peer| (rx[peer], counts[peer]));
            let out = tx.iter().copied().zip(counts.iter().copied());
            let pairs = back(0..server).chain(out).chain(back(server..n));
            let joined = pairs.filter(|&(_, count)| count > 0);
            load.unsplit = joined.map(|(bytes, count)| self.beyond(bytes, count).1).sum();
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
    pub(super) fn run(mut self, mut patience: usize) -> (Circuits, bool) {
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
        let rest = (bytes - f64::from(count) * self.carry).max(0.0);
        match (self.problem.request.split, count) {
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
        let mut wishes = std::mem::take(&mut self.wishes);
        let mut sides = std::mem::take(&mut self.sides);
        self.list_wishes(server, &mut wishes);
        wishes.sort_unstable_by(|x, y| falling(y, x));
        let mut given_up = std::mem::take(&mut self.given_up);
        given_up.clear();
        if self.circuits.free[server] == 0 {
            for circuit in &self.joined[server] {
                given_up.push(self.give_up(circuit));
            }
        }
        let mut best = (-self.slack, None);
        for &(alone, peer) in &wishes {
            if alone >= best.0 {
                break;
            }
            self.try_peer(server, peer, &given_up, &mut sides, &mut best);
        }
        self.given_up = given_up;
        self.wishes = wishes;
        self.sides = sides;
        best.1
    }

    /// Peers of a server, and what a circuit to each would gain if nothing had to be given up.
    fn list_wishes(&self, server: usize, wishes: &mut Vec<(f64, usize)>) {
        wishes.clear();
        let row = server * self.problem.n..(server + 1) * self.problem.n;
        let bytes = self.problem.tx[row.clone()].iter().zip(&self.problem.rx[row.clone()]);
        let peers = self.circuits.count[row].iter().zip(bytes).zip(&self.loads);
        let own = &self.loads[server];
        for (peer, ((&count, (&out, &back)), load)) in peers.enumerate() {
            let wants = out.max(back) > f64::from(count) * self.carry;
            if wants && self.problem.may_join(server, peer) && self.problem.request.ports[peer] > 0
            {
                let more = self.change_of([out, back], count, count + 1);
                let alone = own.cost(more.out, more.back)
                    + load.cost(more.back, more.out)
                    + (own.weight + load.weight) * more.unsplit;
                if alone < -self.slack {
                    wishes.push((alone, peer));
                }
            }
        }
    }

    /// What giving up a circuit does to the server at its far end.
    #[inline]
    fn give_up(&self, &(far, less): &(u16, Change)) -> GivenUp {
        let load = &self.loads[usize::from(far)];
        let suffers = load.cost(less.back, less.out) + load.weight * less.unsplit;
        GivenUp { far: usize::from(far), less, suffers, excess: load.excess() * load.weight }
    }

    /// All ways to join these two. What one end gives up matters to the other only if both give
    /// up a circuit to the same server, or if the far ends are joined.
    fn try_peer(
        &self,
        a: usize,
        b: usize,
        given_up: &[GivenUp],
        sides: &mut [Vec<Side>; 2],
        best: &mut (f64, Option<Move>),
    ) {
        let more = self.change(a, b, true);
        let [from_a, from_b] = sides;
        self.list_sides(a, b, more, given_up.iter().copied(), from_a);
        let given_up = self.joined[b].iter().map(|circuit| self.give_up(circuit));
        self.list_sides(b, a, more.reversed(), given_up, from_b);
        let unsplit = self.both(a, b) * more.unsplit;
        let min_b = from_b.iter().map(|side| side.min_cost).fold(f64::INFINITY, f64::min);
        for side_a in from_a.iter() {
            if side_a.min_cost + min_b + unsplit >= best.0 {
                continue;
            }
            for side_b in from_b.iter() {
                if side_a.min_cost + side_b.min_cost + unsplit >= best.0 {
                    continue;
                }
                let apart = side_a.cost + side_b.cost + unsplit;
                let (gain, close) = match (side_a.far, side_b.far) {
                    (Some(x), Some(y)) if x.0 == y.0 => (apart + self.shared(x, y), false),
                    (Some(x), Some(y)) if self.problem.may_join(x.0, y.0) => {
                        let joining = self.joining(x, y);
                        (apart + joining.min(0.0), joining <= 0.0)
                    }
                    _ => (apart, false),
                };
                if gain < best.0 {
                    let far = [side_a.far, side_b.far].map(|far| far.map(|(server, _)| server));
                    *best = (gain, Some(Move { ends: [a, b], far, close }));
                }
            }
        }
    }

    /// What `server` can do to get a port for a circuit to `peer`.
    #[inline]
    fn list_sides(
        &self,
        server: usize,
        peer: usize,
        more: Change,
        given_up: impl Iterator<Item = GivenUp>,
        sides: &mut Vec<Side>,
    ) {
        sides.clear();
        if self.circuits.free[server] > 0 {
            let own = self.cost(server, more.out, more.back);
            sides.push(Side { cost: own, min_cost: own, far: None });
            return;
        }
        let own_load = &self.loads[server];
        for other in given_up {
            if other.far != peer {
                let less = other.less;
                let own = own_load.cost(more.out + less.out, more.back + less.back)
                    + own_load.weight * less.unsplit;
                let far = Some((other.far, less.reversed()));
                sides.push(Side { cost: own + other.suffers, min_cost: own - other.excess, far });
            }
        }
    }

    /// What it costs more that both circuits are taken from one server.
    fn shared(&self, x: (usize, Change), y: (usize, Change)) -> f64 {
        let (far, x, y) = (x.0, x.1, y.1);
        self.cost(far, x.out + y.out, x.back + y.back)
            - self.cost(far, x.out, x.back)
            - self.cost(far, y.out, y.back)
    }

    /// What it gains to join the far ends.
    #[inline]
    fn joining(&self, x: (usize, Change), y: (usize, Change)) -> f64 {
        let within = |(far, change): (usize, Change)| {
            let load = &self.loads[far];
            load.tx + change.out <= load.budget && load.rx + change.back <= load.budget
        };
        if self.problem.request.split && within(x) && within(y) {
            return 0.0;
        }
        let more = self.change(x.0, y.0, true);
        let gain = |(far, less): (usize, Change), more: Change| {
            self.cost(far, less.out + more.out, less.back + more.back)
                - self.cost(far, less.out, less.back)
        };
        gain(x, more) + gain(y, more.reversed()) + self.both(x.0, y.0) * more.unsplit
    }

    fn apply(&mut self, step: &Move) {
        let [a, b] = step.ends;
        for (server, far) in step.ends.into_iter().zip(step.far) {
            if let Some(far) = far {
                self.shift(server, far, false);
            }
        }
        self.shift(a, b, true);
        if let ([Some(x), Some(y)], true) = (step.far, step.close) {
            self.shift(x, y, true);
        }
        for server in [Some(a), Some(b), step.far[0], step.far[1]].into_iter().flatten() {
            self.list_joined(server);
        }
    }

    /// Adds or removes one circuit.
    pub(super) fn shift(&mut self, a: usize, b: usize, more: bool) {
        let change = self.change(a, b, more);
        for (server, change) in [(a, change), (b, change.reversed())] {
            let load = &mut self.loads[server];
            load.add(change);
            load.unsplit = (load.unsplit + change.unsplit).max(0.0);
        }
        if more {
            self.circuits.add(a, b);
        } else {
            self.circuits.remove(a, b);
        }
    }

    fn list_joined(&mut self, server: usize) {
        let row = server * self.problem.n..(server + 1) * self.problem.n;
        let counts = &self.circuits.count[row];
        let mut joined = std::mem::take(&mut self.joined[server]);
        joined.clear();
        for (peer, &count) in counts.iter().enumerate() {
            if count > 0 {
                joined.push((peer as u16, self.change(server, peer, false)));
            }
        }
        self.joined[server] = joined;
    }
}

/// Larger values first, then lower indices.
fn falling(x: &(f64, usize), y: &(f64, usize)) -> std::cmp::Ordering {
    y.0.total_cmp(&x.0).then(x.1.cmp(&y.1))
}
