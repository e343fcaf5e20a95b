//! Paths that a flow avoids for a while, as Ultra Ethernet's senders do.
//!
//! Packets are sprayed over all paths. A path is skipped once for a mark and four times for a
//! trimmed packet, up to 15 times.

use super::spray::{Spray, Walk};
use crate::config::Config;
use crate::flow::PacketFlowId;

/// Times that a path is skipped for a mark, for a trimmed packet, and at most.
pub(super) const MARK_PENALTY: u8 = 1;
pub(super) const TRIM_PENALTY: u8 = 4;
const MAX_PENALTY: u8 = 15;

/// The paths of all flows.
#[derive(Debug, Clone)]
pub(super) struct Avoidance {
    spray: Spray,
    /// How often each path of each flow is still to be skipped.
    penalties: Vec<u8>,
}

impl Avoidance {
    /// Over the paths that a flow may take.
    pub(super) fn new(config: &Config) -> Self {
        Self { spray: Spray::new(config), penalties: Vec::new() }
    }

    /// A flow starts.
    pub(super) fn begin(&mut self, flow: PacketFlowId) -> Walk {
        let size = (flow.index() + 1) * self.spray.paths();
        self.penalties.resize(self.penalties.len().max(size), 0);
        self.spray.begin(flow, true)
    }

    /// The next path that is not to be skipped; after a round of skipped ones, any.
    pub(super) fn next(&mut self, flow: PacketFlowId, walk: &mut Walk) -> u16 {
        let paths = self.spray.paths();
        let mut path = self.spray.step(walk);
        for _ in 0..paths {
            let penalty = &mut self.penalties[flow.index() * paths + usize::from(path)];
            if *penalty == 0 {
                break;
            }
            *penalty -= 1;
            path = self.spray.step(walk);
        }
        path
    }

    /// A path is to be skipped some times more.
    pub(super) fn avoid(&mut self, flow: PacketFlowId, path: u16, penalty: u8) {
        let place = flow.index() * self.spray.paths() + usize::from(path);
        self.penalties[place] = (self.penalties[place] + penalty).min(MAX_PENALTY);
    }
}
