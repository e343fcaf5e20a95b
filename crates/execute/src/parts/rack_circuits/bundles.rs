//! What begins at an instant, and which servers are told apart by classes alone.

use super::alike::Start;
use crate::network::Links;
use lightloom_flowsim::LinkId;

/// What begins, and the classes of servers that are alike.
#[derive(Debug)]
pub(super) struct Bundles {
    /// What has begun at this instant.
    pub(super) starts: Vec<Start>,
    /// Whether some of that crosses racks.
    pub(super) crosses: bool,
    /// By server; empty while each is by itself.
    pub(super) classes: Vec<u32>,
    /// Servers of each class.
    pub(super) sizes: Vec<u32>,
    /// Links up from each class and down to it; perhaps more of them than classes.
    pub(super) links: [Vec<LinkId>; 2],
    /// Bytes that these had carried when they were last looked at.
    pub(super) seen: [Vec<u64>; 2],
    /// Bytes that servers have sent and received over the links of their classes.
    carried: [Vec<u64>; 2],
    /// Whether all transfers go on by themselves.
    #[cfg(test)]
    pub is_off: bool,
}

impl Bundles {
    pub(super) fn new(servers: u32) -> Self {
        let nothing = || [vec![0; servers as usize], vec![0; servers as usize]];
        Self {
            starts: Vec::new(),
            crosses: false,
            classes: Vec::new(),
            sizes: Vec::new(),
            links: Default::default(),
            seen: Default::default(),
            carried: nothing(),
            #[cfg(test)]
            is_off: false,
        }
    }

    /// Takes note of a transfer that begins.
    pub(super) fn gather(&mut self, start: Start, crosses_racks: bool) {
        self.starts.push(start);
        self.crosses |= crosses_racks;
    }

    /// Whether something begins at this instant.
    pub(super) fn are_waiting(&self) -> bool {
        !self.starts.is_empty()
    }

    /// Whether something between racks begins at this instant.
    pub(super) fn cross_racks(&self) -> bool {
        self.crosses
    }

    /// Bytes that each server has sent (0) or received (1) over links of classes; of nothing else.
    pub(super) fn carried(&self, side: usize) -> &[u64] {
        self.carried.get(side).map_or(&[], Vec::as_slice)
    }

    /// Links of classes.
    #[cfg(test)]
    pub(super) fn down(&self) -> &[LinkId] {
        &self.links[1]
    }

    /// Counts for servers what the links of their classes have carried.
    pub(super) fn account(&mut self, links: &Links) {
        for side in [0, 1] {
            let carried = self.links[side].iter().map(|&link| links.carried(link));
            let carried: Vec<u64> = carried.collect();
            for (&class, sum) in self.classes.iter().zip(&mut self.carried[side]) {
                let [class, size] = [class as usize, self.sizes[class as usize] as usize];
                *sum += (carried[class] - self.seen[side][class]) / size as u64;
            }
            self.seen[side] = carried;
        }
    }
}
