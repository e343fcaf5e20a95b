//! Answers shared between equal questions: to the allocator, and to the router of relays.
//!
//! Two questions are equal only if all of their bytes are: servers and ports (by number of a known
//! shape), demand, and circuits (those held now, or those to route over); the hash only finds the
//! candidate. The table is emptied when it grows past a limit, so that a step without repetitions
//! does not fill the memory.

use lightloom_schedule::Allocation;
use lightloom_schedule::relay::{RelayPath, Relayed};
use rustc_hash::{FxHashMap, FxHasher};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// Bytes of keys and answers after which the table is emptied.
const LIMIT_BYTES: usize = 256 << 20;

/// An answer that can be kept.
pub trait Answer: Clone {
    /// About what it takes of the memory.
    fn size_bytes(&self) -> usize;
}

impl Answer for Allocation {
    fn size_bytes(&self) -> usize {
        size_of::<Self>() + self.eps_bytes.len() * (size_of::<u64>() + size_of::<u16>())
    }
}

impl Answer for Arc<Relayed> {
    fn size_bytes(&self) -> usize {
        size_of::<Relayed>() + self.paths.len() * size_of::<RelayPath>()
    }
}

/// A question and its answer.
#[derive(Debug)]
struct Entry<A> {
    shape: u32,
    demand: Vec<u64>,
    previous: Vec<u16>,
    answer: A,
}

/// Answers to earlier questions, by the hash of the question.
#[derive(Debug)]
pub struct Memo<A> {
    answers: FxHashMap<u64, Entry<A>>,
    size_bytes: usize,
    /// Questions answered from the table.
    pub hits: u64,
    /// Questions that had to be computed.
    pub misses: u64,
    enabled: bool,
}

impl<A> Default for Memo<A> {
    fn default() -> Self {
        Self { answers: FxHashMap::default(), size_bytes: 0, hits: 0, misses: 0, enabled: false }
    }
}

impl<A: Answer> Memo<A> {
    /// An empty table.
    pub fn new(enabled: bool) -> Self {
        Self { enabled, ..Self::default() }
    }

    /// The answer to a question, if it is known.
    pub fn known(&mut self, shape: u32, demand: &[u64], previous: &[u16]) -> Option<A> {
        let found =
            self.enabled.then(|| self.answers.get(&hash(shape, demand, previous))).flatten();
        let same = |known: &&Entry<A>| {
            known.shape == shape && known.demand == demand && known.previous == previous
        };
        let answer = found.filter(same).map(|known| known.answer.clone());
        *(if answer.is_some() { &mut self.hits } else { &mut self.misses }) += 1;
        answer
    }

    /// Keeps the answer to a question.
    pub fn keep(&mut self, shape: u32, demand: &[u64], previous: &[u16], answer: &A) {
        if !self.enabled {
            return;
        }
        self.size_bytes += demand.len() * (size_of::<u64>() + size_of::<u16>());
        self.size_bytes += size_of::<Entry<A>>() + answer.size_bytes();
        if self.size_bytes > LIMIT_BYTES {
            self.answers.clear();
            self.size_bytes = 0;
        }
        let hash = hash(shape, demand, previous);
        let (demand, previous) = (demand.to_vec(), previous.to_vec());
        self.answers.insert(hash, Entry { shape, demand, previous, answer: answer.clone() });
    }
}

fn hash(shape: u32, demand: &[u64], previous: &[u16]) -> u64 {
    let mut hasher = FxHasher::default();
    (shape, demand, previous).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use lightloom_model::Allocator;

    fn allocation(makespan: f64) -> Allocation {
        Allocation { circuits: vec![], eps_bytes: vec![], makespan, chosen: Allocator::Paper }
    }

    #[test]
    fn only_equal_questions_share_an_answer() {
        let mut memo = Memo::new(true);
        let mut ask = |shape, demand: &[u64], previous: &[u16], makespan| {
            let known = memo.known(shape, demand, previous);
            let answer = known.unwrap_or_else(|| {
                memo.keep(shape, demand, previous, &allocation(makespan));
                allocation(makespan)
            });
            answer.makespan.to_bits()
        };
        assert_eq!(ask(0, &[1, 2], &[3], 1.0), 1.0_f64.to_bits());
        assert_eq!(ask(0, &[1, 2], &[3], 2.0), 1.0_f64.to_bits());
        assert_eq!(ask(1, &[1, 2], &[3], 3.0), 3.0_f64.to_bits());
        assert_eq!(ask(0, &[2, 1], &[3], 4.0), 4.0_f64.to_bits());
        assert_eq!(ask(0, &[1, 2], &[4], 5.0), 5.0_f64.to_bits());
        assert_eq!((memo.hits, memo.misses), (1, 4));
    }

    #[test]
    fn a_disabled_table_computes_everything() {
        let mut memo = Memo::<Allocation>::new(false);
        for _ in 0..2 {
            assert_eq!(memo.known(0, &[1], &[1]), None);
            memo.keep(0, &[1], &[1], &allocation(1.0));
        }
        assert_eq!((memo.hits, memo.misses), (0, 2));
    }
}
