//! The order in which a flow's packets take its paths.

use crate::config::{Config, Overflow, PathChoice};
use crate::flow::PacketFlowId;
use crate::hash::mix;

/// Per end of a flow a walk over all paths, each once per round, in an order that differs from
/// round to round: the count of the round, its bits flipped by a random mask.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Walk {
    count: u16,
    /// A state of a generator of its own; the mask is its upper bits.
    random: u16,
}

/// A linear congruential generator modulo 2^16 that takes all values (Hull and Dobell, SIAM Review
/// 1962: an odd increment, and a factor that is 1 more than a multiple of 4).
const FACTOR: u16 = 25_173;
const INCREMENT: u16 = 13_849;

/// The paths of all flows, and the random order of rounds.
#[derive(Debug, Clone)]
pub(super) struct Spray {
    paths: u32,
    /// Number of paths, rounded up to a power of two, less one.
    bits: u16,
    /// How far a state is shifted to be a mask.
    shift: u32,
    seed: u64,
}

impl Spray {
    /// Over the paths that a flow may take.
    pub(super) fn new(config: &Config) -> Self {
        let paths = match config.paths {
            PathChoice::Ecmp => 1,
            PathChoice::Spray(paths) => u32::from(paths),
        };
        let bits = (paths.next_power_of_two() - 1) as u16;
        let shift = u16::BITS - bits.count_ones();
        Self { paths, bits, shift, seed: mix(config.seed ^ 0x7370_7261_7973) }
    }

    /// Number of paths.
    pub(super) fn paths(&self) -> usize {
        self.paths as usize
    }

    /// The first round of a walk, of a flow's packets forward to its receiver or back.
    pub(super) fn begin(&self, flow: PacketFlowId, is_forward: bool) -> Walk {
        let hash = mix(self.seed ^ u64::from(flow.0) << 1 ^ u64::from(is_forward));
        Walk { count: 0, random: hash as u16 }
    }

    /// The next path.
    #[inline]
    pub(super) fn step(&self, walk: &mut Walk) -> u16 {
        loop {
            let path = walk.count ^ (u32::from(walk.random) >> self.shift) as u16;
            if walk.count == self.bits {
                walk.count = 0;
                walk.random = walk.random.wrapping_mul(FACTOR).wrapping_add(INCREMENT);
            } else {
                walk.count += 1;
            }
            if u32::from(path) < self.paths {
                return path;
            }
        }
    }
}

/// `htsim_ndp` and `htsim_eqds` of csg-htsim: sprays over 128 paths, queues of 35 packets, in NDP
/// without their headers. They hold the packet that is being sent, too; ours do not.
pub(super) fn trimming(is_ndp: bool) -> Config {
    let packet = Config::ENDLESS.packet_bytes();
    let queue = 35 * if is_ndp { Config::ENDLESS.mtu } else { packet };
    Config {
        full_tail: is_ndp,
        control_priority: true,
        queue_bytes: queue - packet,
        control_queue_bytes: 2 * queue,
        overflow: Overflow::Trim,
        paths: PathChoice::Spray(128),
        ..Config::ENDLESS
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::plain;

    #[test]
    fn every_round_takes_every_path_once() {
        for paths in [1, 2, 5, 128, 1000, u16::MAX] {
            let spray = Spray::new(&Config { paths: PathChoice::Spray(paths), ..plain() });
            let mut walk = spray.begin(PacketFlowId(7), true);
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
        let spray = Spray::new(&plain());
        assert_eq!(spray.paths(), 1);
        let mut walk = spray.begin(PacketFlowId(0), false);
        assert_eq!([spray.step(&mut walk), spray.step(&mut walk)], [0, 0]);
    }

    #[test]
    fn walks_of_different_flows_and_seeds_differ() {
        let first = |seed, walks: u32| {
            let config = Config { paths: PathChoice::Spray(64), seed, ..plain() };
            let spray = Spray::new(&config);
            (0..walks)
                .map(|walk| {
                    let mut walk = spray.begin(PacketFlowId(walk / 2), walk % 2 == 0);
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
