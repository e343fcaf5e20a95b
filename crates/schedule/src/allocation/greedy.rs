//! The skipping greedy: the pair that needs it most gets the next circuit, while there is one to
//! give.
//!
//! Differs from Algorithm 1 of MixNet in that the larger direction counts, as circuits are duplex,
//! and that a pair that finds a port taken is passed over. Every pair gets its first circuit
//! before any gets a second one; after that a pair with demand D and c circuits needs D / c.
//! Ties are resolved as a circulant would: all neighbors first, then all pairs two steps apart and
//! so on, and an odd port for the opposite server, which spreads equal demand over all ports. By
//! index, the last servers would stay dark.
//!
//! No heap: pairs are sorted once, and those that have c circuits are in the same order for every
//! c. So the next pair is at the head of one of a few queues, one for each c.

use super::problem::{Circuits, Problem};
use super::request::{Allocation, changed_pairs};
use super::routing::{finish, finish_at, makespan};
use super::sticky::settle;
use lightloom_model::Allocator;

/// Circuits by need; those that are there stay if these are not faster.
///
/// What is there is looked at first: circuits that reach the port bound are the result, and
/// nothing need be sorted.
pub(super) fn greedy(problem: &Problem) -> Allocation {
    let Some(previous) = problem.request.previous else {
        return finish(problem, skip(problem, None).count, Allocator::Greedy);
    };
    let stay = problem.adopt(previous);
    let time = makespan(problem, &stay.count);
    let intact = changed_pairs(previous, &stay.count) == 0;
    if intact && problem.reaches_bound(time) {
        return finish_at(problem, stay.count, Allocator::Greedy, time);
    }
    let fresh = skip(problem, Some(previous));
    let fresh_time = makespan(problem, &fresh.count);
    if time <= fresh_time {
        return finish_at(problem, stay.count, Allocator::Greedy, time);
    }
    let settled = settle(problem, previous, fresh, fresh_time);
    // What is undone can be faster, as need alone does not find the fastest circuits.
    finish(problem, settled.count, Allocator::Greedy)
}

/// Circuits by need; of pairs in equal need those first that hold most circuits now, then those
/// of short strides.
pub(super) fn skip(problem: &Problem, previous: Option<&[u16]>) -> Circuits {
    let pairs = by_need(problem, previous);
    let mut circuits = problem.no_circuits();
    let mut queues: Vec<Queue> = Vec::new();
    let mut first = Queue::default();
    for &pair in &pairs {
        if circuits.is_full() {
            return circuits;
        }
        let (a, b) = pair.ends();
        if circuits.has_room(a, b) {
            circuits.add(a, b);
            first.waiting.push(pair);
        }
    }
    queues.push(first);
    while !circuits.is_full() {
        let Some((queue, pair)) = neediest(&mut queues) else { break };
        let (a, b) = pair.ends();
        if circuits.has_room(a, b) {
            circuits.add(a, b);
            if queue + 1 == queues.len() {
                queues.push(Queue::default());
            }
            queues[queue + 1].waiting.push(pair);
        }
    }
    circuits
}

/// A pair that wants circuits.
#[derive(Clone, Copy)]
struct Pair {
    /// Bytes of the larger direction.
    bytes: f64,
    /// Circuits that the pair holds now.
    held: u16,
    /// Place of the pair's stride among those of a circulant, see [`stride_rank`].
    stride: u16,
    a: u16,
    b: u16,
}

/// The bits of a key below those of the circuits held.
const MASK: u64 = (1 << 48) - 1;

impl Pair {
    /// Larger is first: need, circuits held now, short strides, lower indices.
    fn key(&self, circuits: usize) -> u128 {
        let need = self.bytes / circuits as f64;
        let ends = (u64::from(self.a) << 16) | u64::from(self.b);
        let rest = u64::from(self.held) << 48 | (!((u64::from(self.stride) << 32) | ends) & MASK);
        // The bits of positive numbers sort like these.
        u128::from(need.to_bits()) << 64 | u128::from(rest)
    }

    /// The pair of a key with one circuit.
    fn of_key(key: u128) -> Self {
        let (held, rest) = ((key >> 48) as u16, !(key as u64));
        let [stride, a, b] = [(rest >> 32) as u16, (rest >> 16) as u16, rest as u16];
        Self { bytes: f64::from_bits((key >> 64) as u64), held, stride, a, b }
    }

    fn ends(&self) -> (usize, usize) {
        (usize::from(self.a), usize::from(self.b))
    }
}

/// Pairs with equally many circuits, in the order in which they got the last one.
#[derive(Default)]
struct Queue {
    waiting: Vec<Pair>,
    head: usize,
}

/// Takes the pair in greatest need out of its queue; queue k holds pairs with k + 1 circuits.
fn neediest(queues: &mut [Queue]) -> Option<(usize, Pair)> {
    let heads = queues.iter().enumerate();
    let heads = heads.filter_map(|(k, queue)| queue.waiting.get(queue.head).map(|p| (k, *p)));
    let heaviest = heads.max_by_key(|(k, pair)| pair.key(k + 1))?;
    queues[heaviest.0].head += 1;
    Some(heaviest)
}

fn by_need(problem: &Problem, previous: Option<&[u16]>) -> Vec<Pair> {
    let n = problem.n;
    let ports = problem.request.ports;
    let degree = ports.iter().copied().max().unwrap_or(0) as usize;
    let mut keys = Vec::with_capacity(n * n / 2);
    for a in (0..n).filter(|&a| ports[a] > 0) {
        for b in a + 1..n {
            let bytes = problem.larger(a, b);
            if bytes > 0.0 && ports[b] > 0 && problem.may_join(a, b) {
                let held = previous.map_or(0, |count| count[a * n + b]);
                let stride = stride_rank((b - a).min(n - (b - a)), n, degree);
                keys.push(Pair { bytes, held, stride, a: a as u16, b: b as u16 }.key(1));
            }
        }
    }
    keys.sort_unstable();
    keys.into_iter().rev().map(Pair::of_key).collect()
}

/// Which strides (steps from one end to the other around the ring of all `n` servers) come first.
///
/// Short ones, but an odd number of ports ends in a circuit to the opposite server: any other
/// stride takes two ports of each.
fn stride_rank(stride: usize, n: usize, degree: usize) -> u16 {
    let is_last = degree < n && !degree.is_multiple_of(2) && stride * 2 == n;
    (if is_last { degree / 2 * 2 + 1 } else { stride * 2 }) as u16
}
