//! Given circuits, which bytes go over them and which over the EPS, and how long that takes.
//!
//! - *no-split* (MixNet section 5.3): a pair with circuits uses only these, all others the EPS;
//! - *split*: a pair may send the part of its bytes that its circuits cannot carry over the EPS.
//!
//! With split the least makespan T is exact and needs no linear program: at time T a pair must
//! spill `max(0, D - C B T)` and no less, so the 2 n budgets of the EPS (TX and RX of each server)
//! do not interact, and T is the largest of the 2 n times that each would need alone.

use super::problem::Problem;
use super::request::{Allocation, Request};
use lightloom_model::Allocator;

/// Splits the demand between the given circuits and the EPS.
///
/// `chosen` of the result is `Best` and means nothing here: nothing was chosen.
///
/// # Panics
/// If `circuits` is not n x n.
pub fn route(request: &Request, circuits: &[u16]) -> Allocation {
    let problem = Problem::new(request);
    assert_eq!(circuits.len(), problem.n * problem.n, "circuits are n x n");
    finish(&problem, circuits.to_vec(), Allocator::Best)
}

/// Seconds until the last byte at line rate over each of these sets of circuits.
///
/// # Panics
/// If a set is not n x n.
pub fn makespans(request: &Request, sets: &[&[u16]]) -> Vec<f64> {
    let problem = Problem::new(request);
    let time = |circuits: &&[u16]| {
        assert_eq!(circuits.len(), problem.n * problem.n, "circuits are n x n");
        makespan(&problem, circuits)
    };
    sets.iter().map(time).collect()
}

/// Routes the demand over circuits that an allocator has found.
pub(super) fn finish(problem: &Problem, circuits: Vec<u16>, chosen: Allocator) -> Allocation {
    let makespan = makespan(problem, &circuits);
    finish_at(problem, circuits, chosen, makespan)
}

/// As [`finish`], the makespan being known.
pub(super) fn finish_at(
    problem: &Problem,
    circuits: Vec<u16>,
    chosen: Allocator,
    makespan: f64,
) -> Allocation {
    let eps_bytes = if problem.request.split {
        spill(problem, &circuits, makespan)
    } else {
        keep_whole(problem, &circuits)
    };
    Allocation { circuits, eps_bytes, makespan, chosen }
}

/// Pairs of a line up to which all are looked at alike.
const FEW: usize = 16;

/// Bytes whose sums are exact in `f64`.
const EXACT: f64 = (1_u64 << 53) as f64;

/// Seconds until the last byte, at line rate.
///
/// In a large region few pairs of a line have circuits, and all others matter by their sum only.
pub(super) fn makespan(problem: &Problem, circuits: &[u16]) -> f64 {
    let (n, circuit) = (problem.n, problem.circuit);
    let mut time = 0.0;
    let mut joined: Vec<(usize, f64)> = Vec::with_capacity(if n > FEW { n } else { 0 });
    for (server, &eps) in problem.eps.iter().enumerate() {
        let cells = server * n..(server + 1) * n;
        let counts = &circuits[cells.clone()];
        let lines = [&problem.tx[cells.clone()], &problem.rx[cells]];
        if n <= FEW {
            for bytes in lines {
                time = line_time(
                    problem,
                    each(bytes, counts, circuit),
                    Packets { rest: 0.0, rate: eps },
                    time,
                );
            }
            continue;
        }
        joined.clear();
        for (peer, &count) in counts.iter().enumerate() {
            if count > 0 {
                joined.push((peer, f64::from(count) * circuit));
            }
        }
        for (bytes, &sum) in lines.into_iter().zip(&problem.sums()[server]) {
            let rest = if sum <= EXACT {
                sum - joined.iter().map(|&(peer, _)| bytes[peer]).sum::<f64>()
            } else {
                let others = bytes.iter().zip(counts).filter(|pair| *pair.1 == 0);
                others.map(|pair| pair.0).sum()
            };
            let pairs = joined.iter().map(|&(peer, rate)| (bytes[peer], rate));
            time = line_time(problem, pairs, Packets { rest, rate: eps }, time);
        }
    }
    time
}

/// What a line has on the EPS whatever its circuits, and the rate of its server there.
#[derive(Clone, Copy)]
pub(super) struct Packets {
    pub rest: f64,
    pub rate: f64,
}

/// Bytes of each pair of a line, and the rate of its circuits.
pub(super) fn each(
    bytes: &[f64],
    counts: &[u16],
    circuit: f64,
) -> impl Iterator<Item = (f64, f64)> + Clone {
    bytes.iter().zip(counts).map(move |(&bytes, &count)| (bytes, f64::from(count) * circuit))
}

/// The time that one line (the TX or RX side of one server) needs; `at_least` if that is more.
#[inline]
fn line_time(
    problem: &Problem,
    pairs: impl Iterator<Item = (f64, f64)> + Clone,
    packets: Packets,
    at_least: f64,
) -> f64 {
    if problem.request.split {
        split_time(&pairs, packets, at_least)
    } else {
        whole_time(pairs, packets, at_least)
    }
}

/// Least T >= `at_least` with `rest + sum_j max(0, bytes_j - rate_j T) <= eps T`.
///
/// The difference of the two sides is convex and falls with T, so Newton's method from the left
/// never overshoots, and it ends because each step drops a pair from the sum.
#[inline]
pub(super) fn split_time(
    pairs: &(impl Iterator<Item = (f64, f64)> + Clone),
    packets: Packets,
    at_least: f64,
) -> f64 {
    let mut time = at_least;
    loop {
        let (mut excess, mut rate) = (packets.rest, packets.rate);
        for (size, own_rate) in pairs.clone() {
            if size > own_rate * time {
                excess += size;
                rate += own_rate;
            }
        }
        if excess <= rate * time {
            return time;
        }
        if rate == 0.0 {
            return f64::INFINITY;
        }
        let next = excess / rate;
        // Rounding may leave a pair at its limit on either side; no progress means done.
        if next <= time {
            return time;
        }
        time = next;
    }
}

/// The time of the slowest circuit and of the EPS when each pair uses one of them only.
#[inline]
fn whole_time(pairs: impl Iterator<Item = (f64, f64)>, packets: Packets, at_least: f64) -> f64 {
    let (mut time, mut rest) = (at_least, packets.rest);
    for (size, rate) in pairs {
        if rate > 0.0 {
            time = time.max(size / rate);
        } else {
            rest += size;
        }
    }
    if rest > 0.0 { time.max(rest / packets.rate) } else { time }
}

fn spill(problem: &Problem, circuits: &[u16], makespan: f64) -> Vec<u64> {
    let per_circuit = problem.circuit * makespan;
    let mut spilled = each_pair(problem, circuits, |size, count| {
        if count == 0 {
            return size;
        }
        // The cast saturates: circuits that could carry more than 2^64 bytes carry all.
        let carried = (f64::from(count) * per_circuit).round() as u64;
        size.saturating_sub(carried)
    });
    // What rounding leaves of 2^53 bytes and more must not go where there is no EPS.
    let n = problem.n;
    for (pair, bytes) in spilled.iter_mut().enumerate().filter(|pair| circuits[pair.0] > 0) {
        if problem.eps[pair / n] == 0.0 || problem.eps[pair % n] == 0.0 {
            *bytes = 0;
        }
    }
    spilled
}

fn keep_whole(problem: &Problem, circuits: &[u16]) -> Vec<u64> {
    each_pair(problem, circuits, |size, count| if count == 0 { size } else { 0 })
}

fn each_pair(problem: &Problem, circuits: &[u16], share: impl Fn(u64, u16) -> u64) -> Vec<u64> {
    let n = problem.n;
    let mut eps_bytes: Vec<u64> =
        problem.request.demand.iter().zip(circuits).map(|(&size, &c)| share(size, c)).collect();
    for server in 0..n {
        eps_bytes[server * n + server] = 0;
    }
    eps_bytes
}
