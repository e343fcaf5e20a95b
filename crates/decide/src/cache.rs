//! Results shared between equal requests: to the allocator, and to the router of relays.
//!
//! Two requests are equal only if all of their bytes are: demand, and circuits (those held now, or
//! those to route over); the hash only finds the candidate. Everything else is the decider's. The
//! table is emptied when it grows past a limit, so that a run without repetitions does not fill the
//! memory.

use lightloom_schedule::Allocation;
use lightloom_schedule::relay::{RelayPath, Relayed};
use rustc_hash::{FxHashMap, FxHasher};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// A result that can be kept.
pub(crate) trait Cacheable: Clone {
    /// About what it takes of the memory.
    fn size_bytes(&self) -> usize;
}

impl Cacheable for Arc<Allocation> {
    fn size_bytes(&self) -> usize {
        size_of::<Allocation>() + self.eps_bytes.len() * (size_of::<u64>() + size_of::<u16>())
    }
}

impl Cacheable for Arc<Relayed> {
    fn size_bytes(&self) -> usize {
        size_of::<Relayed>() + self.paths.len() * size_of::<RelayPath>()
    }
}

/// A request and its result.
#[derive(Debug, Clone)]
struct Entry<R> {
    demand: Vec<u64>,
    circuits: Vec<u16>,
    result: R,
}

/// Results of earlier requests, by the hash of the request.
#[derive(Debug, Clone)]
pub(crate) struct Cache<R> {
    entries: FxHashMap<u64, Entry<R>>,
    size_bytes: usize,
    /// Bytes of requests and results after which the table is emptied; nothing is kept if 0.
    limit_bytes: usize,
    /// Requests served from the table.
    pub hits: u64,
    /// Requests that had to be computed.
    pub misses: u64,
}

impl<R: Cacheable> Cache<R> {
    /// An empty table; nothing is kept with a limit of 0.
    pub(crate) fn new(limit_bytes: usize) -> Self {
        Self { entries: FxHashMap::default(), size_bytes: 0, limit_bytes, hits: 0, misses: 0 }
    }

    /// The result of an equal request, if there was one.
    pub(crate) fn get(&mut self, demand: &[u64], circuits: &[u16]) -> Option<R> {
        let enabled = self.limit_bytes > 0;
        let found = enabled.then(|| self.entries.get(&hash(demand, circuits))).flatten();
        let same = |entry: &&Entry<R>| entry.demand == demand && entry.circuits == circuits;
        let result = found.filter(same).map(|entry| entry.result.clone());
        *(if result.is_some() { &mut self.hits } else { &mut self.misses }) += 1;
        result
    }

    /// Forgets all results.
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.size_bytes = 0;
    }

    /// Keeps the result of a request.
    pub(crate) fn insert(&mut self, demand: &[u64], circuits: &[u16], result: &R) {
        if self.limit_bytes == 0 {
            return;
        }
        self.size_bytes += demand.len() * (size_of::<u64>() + size_of::<u16>());
        self.size_bytes += size_of::<Entry<R>>() + result.size_bytes();
        if self.size_bytes > self.limit_bytes {
            self.clear();
        }
        let hash = hash(demand, circuits);
        let (demand, circuits) = (demand.to_vec(), circuits.to_vec());
        self.entries.insert(hash, Entry { demand, circuits, result: result.clone() });
    }
}

fn hash(demand: &[u64], circuits: &[u16]) -> u64 {
    let mut hasher = FxHasher::default();
    (demand, circuits).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use lightloom_model::Allocator;

    fn allocation(makespan: f64) -> Arc<Allocation> {
        let chosen = Allocator::Paper;
        Arc::new(Allocation { circuits: vec![], eps_bytes: vec![], makespan, chosen })
    }

    #[test]
    fn only_equal_requests_share_a_result() {
        let mut cache = Cache::new(1 << 20);
        let mut request = |demand: &[u64], circuits: &[u16], makespan| {
            let result = cache.get(demand, circuits).unwrap_or_else(|| {
                cache.insert(demand, circuits, &allocation(makespan));
                allocation(makespan)
            });
            result.makespan.to_bits()
        };
        assert_eq!(request(&[1, 2], &[3], 1.0), 1.0_f64.to_bits());
        assert_eq!(request(&[1, 2], &[3], 2.0), 1.0_f64.to_bits());
        assert_eq!(request(&[2, 1], &[3], 4.0), 4.0_f64.to_bits());
        assert_eq!(request(&[1, 2], &[4], 5.0), 5.0_f64.to_bits());
        assert_eq!((cache.hits, cache.misses), (1, 3));
    }

    /// The hash finds a candidate; another request of the same hash is not served by it.
    #[test]
    fn requests_of_equal_hash_are_told_apart() {
        let request: (&[u64], &[u16]) = (&[1, 2], &[3]);
        for (demand, circuits) in [(vec![1, 4], vec![3]), (vec![1, 2], vec![5])] {
            let mut cache = Cache::new(1 << 20);
            let result = allocation(1.0);
            cache.entries.insert(hash(request.0, request.1), Entry { demand, circuits, result });
            assert!(cache.get(request.0, request.1).is_none());
        }
    }

    #[test]
    fn a_full_table_is_emptied() {
        let mut cache = Cache::new(300);
        cache.insert(&[1], &[1], &allocation(1.0));
        assert!(cache.get(&[1], &[1]).is_some());
        cache.insert(&[2], &[1], &allocation(2.0));
        cache.insert(&[3], &[1], &allocation(3.0));
        assert!(cache.get(&[1], &[1]).is_none());
    }

    #[test]
    fn a_disabled_table_computes_everything() {
        let mut cache = Cache::<Arc<Allocation>>::new(0);
        for _ in 0..2 {
            assert!(cache.get(&[1], &[1]).is_none());
            cache.insert(&[1], &[1], &allocation(1.0));
        }
        assert_eq!((cache.hits, cache.misses), (0, 2));
    }
}
