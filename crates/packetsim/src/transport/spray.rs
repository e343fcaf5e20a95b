//! The order in which a flow's packets take its paths.

use crate::config::{Config, PathChoice};
use crate::hash::mix;

/// Per flow a walk over all paths, each once per round, in an order that differs from round to
/// round: the count of the round, its bits flipped by a random mask.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Walk {
    count: u16,
    mask: u16,
}

/// The paths of all flows, and the random order of rounds.
#[derive(Debug, Clone)]
pub(super) struct Spray {
    paths: u32,
    /// Number of paths, rounded up to a power of two, less one.
    bits: u16,
    /// Number of rounds begun, over all walks.
    rounds: u64,
}

impl Spray {
    /// Over the paths that a flow may take.
    pub(super) fn new(config: &Config) -> Self {
        let paths = match config.paths {
            PathChoice::Ecmp => 1,
            PathChoice::Spray(paths) => u32::from(paths),
        };
        let bits = (paths.next_power_of_two() - 1) as u16;
        Self { paths, bits, rounds: mix(config.seed ^ 0x7370_7261_7973) }
    }

    /// Number of paths.
    pub(super) fn paths(&self) -> usize {
        self.paths as usize
    }

    /// The first round of a walk.
    pub(super) fn begin(&mut self) -> Walk {
        self.rounds = self.rounds.wrapping_add(1);
        Walk { count: 0, mask: mix(self.rounds) as u16 & self.bits }
    }

    /// The next path.
    #[inline]
    pub(super) fn step(&mut self, walk: &mut Walk) -> u16 {
        loop {
            let path = walk.count ^ walk.mask;
            if walk.count == self.bits {
                *walk = self.begin();
            } else {
                walk.count += 1;
            }
            if u32::from(path) < self.paths {
                return path;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::plain;

    #[test]
    fn every_round_takes_every_path_once() {
        for paths in [1, 2, 5, 128, 1000, u16::MAX] {
            let mut spray = Spray::new(&Config { paths: PathChoice::Spray(paths), ..plain() });
            let mut walk = spray.begin();
            let mut rounds = Vec::new();
            for _ in 0..3 {
                let round: Vec<u16> = (0..paths).map(|_| spray.step(&mut walk)).collect();
                let mut sorted = round.clone();
                sorted.sort_unstable();
                assert!(sorted.into_iter().eq(0..paths));
                rounds.push(round);
            }
            assert!(paths < 128 || rounds[0] != rounds[1] && rounds[1] != rounds[2]);
        }
        let mut spray = Spray::new(&plain());
        assert_eq!(spray.paths(), 1);
        let mut walk = spray.begin();
        assert_eq!([spray.step(&mut walk), spray.step(&mut walk)], [0, 0]);
    }

    #[test]
    fn walks_of_different_flows_and_seeds_differ() {
        let first = |seed, walks: usize| {
            let config = Config { paths: PathChoice::Spray(64), seed, ..plain() };
            let mut spray = Spray::new(&config);
            (0..walks)
                .map(|_| {
                    let mut walk = spray.begin();
                    (0..64).map(|_| spray.step(&mut walk)).collect::<Vec<u16>>()
                })
                .collect::<Vec<_>>()
        };
        let walks = first(1, 8);
        assert_eq!(walks, first(1, 8));
        let mut distinct = walks.clone();
        distinct.sort();
        distinct.dedup();
        assert!(distinct.len() > 4, "flows do not move in lock step");
        assert_ne!(walks, first(2, 8));
    }
}
