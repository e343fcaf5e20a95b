//! A time that no circuits can beat, server by server.
//!
//! Tighter than the port bound: a server with more peers than ports cannot reach them all, so even
//! if it were alone it would send part of its bytes over the EPS. The bound gives each line (TX or
//! RX of one server) the circuits that suit it best, whatever that does to others, and lets it
//! split; so it holds with and without split.

use super::problem::Problem;
use super::request::Request;
use super::routing::{Packets, each, split_time};

/// Seconds that no circuits can beat: the largest sum of a row or column over the line rate of all
/// ports of that server.
pub fn port_bound(request: &Request) -> f64 {
    Problem::new(request).port_bound()
}

/// Seconds that no circuits can beat, nearer than the port bound: each line (TX or RX of one
/// server) with the circuits that suit it best, whatever that does to others.
pub fn line_bound(request: &Request) -> f64 {
    line_bound_of(&Problem::new(request))
}

/// Largest over all lines of the time that the line needs with circuits of its own choice.
pub(super) fn line_bound_of(problem: &Problem) -> f64 {
    *problem.line_bound.get_or_init(|| find_line_bound(problem))
}

fn find_line_bound(problem: &Problem) -> f64 {
    let n = problem.n;
    let mut bound = problem.port_bound();
    let mut line = Line { rests: Vec::with_capacity(n), counts: vec![0; n] };
    for server in 0..n {
        let cells = server * n..(server + 1) * n;
        for bytes in [&problem.tx[cells.clone()], &problem.rx[cells.clone()]] {
            bound = line.time(problem, server, bytes, bound);
        }
    }
    bound
}

/// Buffers for one line.
struct Line {
    /// Bytes beyond whole circuits, and whose they are.
    rests: Vec<(f64, usize)>,
    counts: Vec<u16>,
}

impl Line {
    /// The line's own time, or `at_least` if that is more.
    ///
    /// Newton's method from above on the parametric problem: the circuits that carry most at time
    /// T need some time T' <= T, and if T' = T nothing is faster.
    fn time(&mut self, problem: &Problem, server: usize, bytes: &[f64], at_least: f64) -> f64 {
        let (ports, eps) = (problem.request.ports[server] as usize, problem.eps[server]);
        let sum: f64 = bytes.iter().sum();
        // Circuits that carry most at `at_least` may already do.
        if sum - self.choose(problem, bytes, ports, at_least) <= eps * at_least {
            return at_least;
        }
        if eps == 0.0 {
            return at_least.max(shared_out(bytes, ports, problem.circuit));
        }
        let mut time = self.chosen_time(problem, bytes, eps, at_least);
        while time.is_finite() {
            self.choose(problem, bytes, ports, time);
            let next = self.chosen_time(problem, bytes, eps, at_least);
            if next >= time {
                break;
            }
            time = next;
        }
        time
    }

    /// The time that the line needs with the circuits chosen last.
    fn chosen_time(&self, problem: &Problem, bytes: &[f64], eps: f64, at_least: f64) -> f64 {
        split_time(
            &each(bytes, &self.counts, problem.circuit),
            Packets { rest: 0.0, rate: eps },
            at_least,
        )
    }

    /// Sets the circuits that carry most by this time; returns how many bytes that is.
    fn choose(&mut self, problem: &Problem, bytes: &[f64], ports: usize, time: f64) -> f64 {
        let carry = problem.circuit * time;
        let mut left = ports;
        let mut carried = 0.0;
        self.rests.clear();
        self.counts.fill(0);
        for (peer, &size) in bytes.iter().enumerate().filter(|entry| *entry.1 > 0.0) {
            let full = ((size / carry) as usize).min(left);
            left -= full;
            self.counts[peer] = full as u16;
            carried += full as f64 * carry;
            self.rests.push((size - full as f64 * carry, peer));
        }
        if left > 0 {
            if left < self.rests.len() {
                self.rests.select_nth_unstable_by(left - 1, |x, y| y.0.total_cmp(&x.0));
            }
            for &(rest, peer) in self.rests.iter().take(left).filter(|entry| entry.0 > 0.0) {
                carried += rest;
                self.counts[peer] += 1;
            }
        }
        carried
    }
}

/// The time of a line without an EPS: every peer needs a circuit, and each further one goes to the
/// slowest. (Newton's method stops too early: what is carried no longer grows with the time.)
fn shared_out(bytes: &[f64], ports: usize, circuit: f64) -> f64 {
    let mut peers: Vec<(f64, f64)> =
        bytes.iter().filter(|&&size| size > 0.0).map(|&size| (size, 1.0)).collect();
    if peers.len() > ports {
        return f64::INFINITY;
    }
    let mut left = ports - peers.len();
    loop {
        let slowest = peers.iter_mut().max_by(|x, y| (x.0 / x.1).total_cmp(&(y.0 / y.1)));
        let Some((size, count)) = slowest else { return 0.0 };
        if left == 0 {
            return *size / (*count * circuit);
        }
        *count += 1.0;
        left -= 1;
    }
}
