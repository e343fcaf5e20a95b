//! Circuits that ignore the demand: server i is joined to i +- 1, i +- 2, ...
//!
//! The baseline that every demand-aware allocator must beat to be worth its reconfigurations.

use super::problem::{Circuits, Problem};

/// A circulant of the given ports.
///
/// Pairs get equally many circuits, up to one: with more ports than peers the whole graph is taken
/// several times. An odd remainder goes to the opposite server (even n) or pairs up neighbors
/// along the widest stride (odd n, where one server must stay without). Ports that differ between
/// servers, and pairs that may not be joined, leave ports over; these go to the pairs with the
/// fewest circuits.
pub(super) fn circulant(problem: &Problem) -> Circuits {
    let n = problem.n;
    let mut circuits = problem.no_circuits();
    let degree = problem.request.ports.iter().copied().max().unwrap_or(0);
    if n >= 2 {
        let rounds = degree / (n as u32 - 1);
        for _ in 0..rounds {
            strides(problem, &mut circuits, n - 1);
        }
        strides(problem, &mut circuits, degree as usize % (n - 1));
        fill(problem, &mut circuits);
    }
    circuits
}

/// One circulant of `degree` < n.
fn strides(problem: &Problem, circuits: &mut Circuits, degree: usize) {
    let n = problem.n;
    let mut join = |a: usize, b: usize| {
        if circuits.has_room(a, b) && problem.may_join(a, b) {
            circuits.add(a, b);
        }
    };
    for stride in 1..=degree / 2 {
        for a in 0..n {
            join(a, (a + stride) % n);
        }
    }
    if degree.is_multiple_of(2) {
        return;
    }
    if n.is_multiple_of(2) {
        for a in 0..n / 2 {
            join(a, a + n / 2);
        }
    } else {
        // (n - 1) / 2 has no common divisor with n: its steps visit every server once.
        let stride = n / 2;
        for step in (0..n - 1).step_by(2) {
            join(step * stride % n, (step + 1) * stride % n);
        }
    }
}

/// Gives the ports that are left to the pairs with the fewest circuits.
fn fill(problem: &Problem, circuits: &mut Circuits) {
    let n = problem.n;
    let mut level = 0;
    while !circuits.is_full() {
        let mut possible = false;
        for stride in 1..=n / 2 {
            for a in 0..n {
                let b = (a + stride) % n;
                if problem.may_join(a, b) && circuits.has_room(a, b) {
                    if circuits.of(a, b) <= level {
                        circuits.add(a, b);
                    }
                    possible = true;
                }
            }
        }
        if !possible {
            return;
        }
        level += 1;
    }
}
