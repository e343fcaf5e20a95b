//! Branch and bound: bundles that finish by a given time, or the proof that there are none.
//!
//! For small regions without split. At a fixed time a pair has all the circuits that it needs, or
//! none, and each line (TX or RX of one server) must get at least what is over its EPS budget off
//! the EPS. A line alone is a knapsack of its server's ports; its fractional optimum bounds what
//! can be got, and decides most bundles: a bundle without which the bound falls short is in, one
//! with which it falls short is out. What is left is tried both ways, bytes per circuit first.
//!
//! Assumes at most [`MAX_SERVERS`] servers: the sets of bundles must fit 128 bits.

use super::problem::{Circuits, Problem, ROUNDING};

/// Largest region that is looked at.
pub(super) const MAX_SERVERS: usize = 16;

/// Lines of the largest region.
const LINES: usize = 2 * MAX_SERVERS;

/// What is known about a time.
pub(super) enum Verdict {
    /// Circuits that finish by it.
    Possible(Circuits),
    /// There are none.
    Impossible,
    /// The search was cut off.
    Unknown,
}

/// Looks for bundles that finish by this time; gives up after `effort` branches.
pub(super) fn branch(problem: &Problem, time: f64, effort: u32) -> Verdict {
    let mut tree = Tree::new(problem, time, effort);
    match tree.descend(tree.root) {
        Some(true) => Verdict::Possible(tree.circuits(problem)),
        Some(false) => Verdict::Impossible,
        None => Verdict::Unknown,
    }
}

/// A pair that can finish by the time on circuits of its own.
#[derive(Clone, Copy)]
struct Bundle {
    ends: [usize; 2],
    /// Circuits that it takes.
    need: u32,
    /// Bytes from the first end to the second, and back.
    bytes: [f64; 2],
}

impl Bundle {
    /// Bytes that it takes off a line of this server.
    fn off(&self, line: usize) -> f64 {
        let reversed = usize::from(self.ends[0] != line / 2);
        self.bytes[(line % 2) ^ reversed]
    }
}

/// What is decided at a branch.
#[derive(Clone, Copy)]
struct Node {
    chosen: u128,
    open: u128,
    free: [u32; MAX_SERVERS],
    /// Bytes that each line must still get off the EPS; line 2 s is the TX of server s.
    lack: [f64; LINES],
    /// Servers whose lines must be looked at again.
    dirty: u32,
}

/// What to do at a branch.
enum Next {
    /// No line lacks anything.
    Done,
    /// A line cannot get what it lacks.
    Stuck,
    /// This bundle is to be tried both ways.
    Try(usize),
}

struct Tree {
    lines: usize,
    bundles: Vec<Bundle>,
    /// Bundles at each line by falling bytes per circuit.
    order: Vec<Vec<(f64, u8)>>,
    slack: f64,
    effort: u32,
    root: Node,
    found: Node,
}

impl Tree {
    fn new(problem: &Problem, time: f64, effort: u32) -> Self {
        let n = problem.n;
        assert!(n <= MAX_SERVERS, "{n} servers to branch on");
        let carry = problem.circuit * time;
        let mut bundles = Vec::with_capacity(n * n / 2);
        let mut root = Node {
            chosen: 0,
            open: 0,
            free: [0; MAX_SERVERS],
            lack: [0.0; LINES],
            dirty: (1 << n) - 1,
        };
        let mut slack = carry;
        for a in 0..n {
            let (cells, budget) = (a * n..(a + 1) * n, problem.eps[a] * time);
            slack = slack.max(budget);
            root.free[a] = problem.request.ports[a];
            root.lack[2 * a] = problem.tx[cells.clone()].iter().sum::<f64>() - budget;
            root.lack[2 * a + 1] = problem.rx[cells].iter().sum::<f64>() - budget;
        }
        slack *= ROUNDING;
        for a in 0..n {
            for b in a + 1..n {
                // Rounding must not cost a circuit.
                let need = (problem.larger(a, b) / carry * (1.0 - ROUNDING)).ceil();
                let sum = root.free[a].min(root.free[b]);
                if need > 0.0 && need <= f64::from(sum) && problem.may_join(a, b) {
                    let bytes = [problem.tx[a * n + b], problem.rx[a * n + b]];
                    bundles.push(Bundle { ends: [a, b], need: need as u32, bytes });
                }
            }
        }
        root.open = if bundles.len() == 128 { !0 } else { (1 << bundles.len()) - 1 };
        let mut order = vec![Vec::with_capacity(n); 2 * n];
        for (index, bundle) in bundles.iter().enumerate() {
            for line in bundle.ends.into_iter().flat_map(|server| [2 * server, 2 * server + 1]) {
                if root.lack[line] > slack {
                    order[line].push((bundle.off(line) / f64::from(bundle.need), index as u8));
                }
            }
        }
        for line in &mut order {
            line.sort_unstable_by(|x, y| y.0.total_cmp(&x.0).then(x.1.cmp(&y.1)));
        }
        Self { lines: 2 * n, bundles, order, slack, effort, found: root, root }
    }

    /// Whether the open bundles can be decided so that no line lacks anything.
    fn descend(&mut self, mut node: Node) -> Option<bool> {
        loop {
            self.effort = self.effort.checked_sub(1)?;
            let index = match self.settle(&mut node) {
                Next::Stuck => return Some(false),
                Next::Done => {
                    self.found = node;
                    return Some(true);
                }
                Next::Try(index) => index,
            };
            let mut with = node;
            self.put(&mut with, index);
            if self.descend(with)? {
                return Some(true);
            }
            self.leave(&mut node, index);
        }
    }

    /// Decides what the lines alone decide; the next to try is the first open bundle of the line
    /// with least to spare.
    fn settle(&self, node: &mut Node) -> Next {
        while node.dirty != 0 {
            let server = node.dirty.trailing_zeros() as usize;
            node.dirty &= node.dirty - 1;
            for line in [2 * server, 2 * server + 1] {
                if node.lack[line] > self.slack && !self.fits(node, line) {
                    return Next::Stuck;
                }
            }
        }
        let mut tightest = (f64::INFINITY, Next::Done);
        for line in (0..self.lines).filter(|&line| node.lack[line] > self.slack) {
            let spare = self.knapsack(node, line).0 - node.lack[line];
            if spare < -self.slack {
                return Next::Stuck;
            }
            let spare = spare / node.lack[line];
            if spare < tightest.0 {
                let mut all = self.order[line].iter().map(|entry| usize::from(entry.1));
                let open = all.find(|&index| self.is_open(node, index));
                tightest = (spare, open.map_or(Next::Stuck, Next::Try));
            }
        }
        tightest.1
    }

    /// Whether a bundle is undecided, and its ends have the ports.
    fn is_open(&self, node: &Node, index: usize) -> bool {
        let Bundle { ends: [a, b], need, .. } = self.bundles[index];
        node.open >> index & 1 == 1 && need <= node.free[a] && need <= node.free[b]
    }

    /// What the open bundles can take off a line at most, ports being divisible, and the bytes per
    /// circuit of the last one that is taken, in part or not at all.
    fn knapsack(&self, node: &Node, line: usize) -> (f64, f64) {
        let (mut left, mut sum) = (node.free[line / 2], 0.0);
        for &(each, index) in &self.order[line] {
            let index = usize::from(index);
            if self.is_open(node, index) {
                let need = self.bundles[index].need;
                if need > left {
                    return (sum + f64::from(left) * each, each);
                }
                sum += self.bundles[index].off(line);
                left -= need;
            }
        }
        (sum, 0.0)
    }

    /// Decides the bundles of a line that it cannot do without, or cannot afford; whether it can
    /// get what it lacks.
    fn fits(&self, node: &mut Node, line: usize) -> bool {
        let (sum, limit) = self.knapsack(node, line);
        let spare = sum - node.lack[line] + self.slack;
        if spare < 0.0 {
            return false;
        }
        for &(each, index) in &self.order[line] {
            let index = usize::from(index);
            if !self.is_open(node, index) {
                continue;
            }
            let loss = f64::from(self.bundles[index].need) * (each - limit);
            if loss > spare {
                self.put(node, index);
            } else if -loss > spare {
                self.leave(node, index);
            }
        }
        true
    }

    fn put(&self, node: &mut Node, index: usize) {
        let bundle = &self.bundles[index];
        node.open &= !(1 << index);
        node.chosen |= 1 << index;
        for server in bundle.ends {
            node.free[server] -= bundle.need;
            node.lack[2 * server] -= bundle.off(2 * server);
            node.lack[2 * server + 1] -= bundle.off(2 * server + 1);
            node.dirty |= 1 << server;
        }
    }

    fn leave(&self, node: &mut Node, index: usize) {
        node.open &= !(1 << index);
        for server in self.bundles[index].ends {
            node.dirty |= 1 << server;
        }
    }

    /// The bundles that were found, and what else there is room for.
    fn circuits(&self, problem: &Problem) -> Circuits {
        let mut circuits = problem.no_circuits();
        let chosen = |index: usize| self.found.chosen >> index & 1 == 1;
        let (first, rest): (Vec<usize>, Vec<usize>) =
            (0..self.bundles.len()).partition(|&index| chosen(index));
        for index in first.into_iter().chain(rest) {
            let Bundle { ends: [a, b], need, .. } = self.bundles[index];
            if circuits.free[a].min(circuits.free[b]) >= need {
                (0..need).for_each(|_| circuits.add(a, b));
            }
        }
        circuits
    }
}
