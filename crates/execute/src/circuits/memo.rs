//! Decisions shared between equal questions.
//!
//! Two questions are equal only if all of their bytes are: servers and ports (by number of a known
//! shape), demand, and present circuits; the hash only finds the candidate. The table is emptied
//! when it grows past a limit, so that a step without repetitions does not fill the memory.

use lightloom_schedule::Allocation;
use rustc_hash::{FxHashMap, FxHasher};
use std::hash::{Hash, Hasher};

/// Bytes of keys and answers after which the table is emptied.
const LIMIT_BYTES: usize = 256 << 20;

/// A question and its answer.
#[derive(Debug)]
struct Entry {
    shape: u32,
    demand: Vec<u64>,
    previous: Vec<u16>,
    answer: Allocation,
}

/// Answers to earlier questions, by the hash of the question.
#[derive(Debug, Default)]
pub struct Memo {
    answers: FxHashMap<u64, Entry>,
    size_bytes: usize,
    /// Questions answered from the table.
    pub hits: u64,
    /// Questions that had to be computed.
    pub misses: u64,
    enabled: bool,
}

impl Memo {
    /// An empty table.
    pub fn new(enabled: bool) -> Self {
        Self { enabled, ..Self::default() }
    }

    /// The answer to a question, computed unless it is known.
    pub fn answer(
        &mut self,
        shape: u32,
        demand: &[u64],
        previous: &[u16],
        compute: impl FnOnce() -> Allocation,
    ) -> Allocation {
        if !self.enabled {
            self.misses += 1;
            return compute();
        }
        let mut hasher = FxHasher::default();
        (shape, demand, previous).hash(&mut hasher);
        let hash = hasher.finish();
        if let Some(known) = self.answers.get(&hash)
            && (known.shape == shape && known.demand == demand && known.previous == previous)
        {
            self.hits += 1;
            return known.answer.clone();
        }
        self.misses += 1;
        let answer = compute();
        self.size_bytes += demand.len() * 2 * (size_of::<u64>() + size_of::<u16>());
        self.size_bytes += size_of::<Entry>();
        if self.size_bytes > LIMIT_BYTES {
            self.answers.clear();
            self.size_bytes = 0;
        }
        let (demand, previous) = (demand.to_vec(), previous.to_vec());
        self.answers.insert(hash, Entry { shape, demand, previous, answer: answer.clone() });
        answer
    }
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
            memo.answer(shape, demand, previous, || allocation(makespan)).makespan.to_bits()
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
        let mut memo = Memo::new(false);
        memo.answer(0, &[1], &[1], || allocation(1.0));
        memo.answer(0, &[1], &[1], || allocation(1.0));
        assert_eq!((memo.hits, memo.misses), (0, 2));
    }
}
