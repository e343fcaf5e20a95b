//! Collectives lowered to what a network carries: transfers over paths, and copies in servers.
//!
//! MixNet section 5.3 has five steps: (1) find the delegate GPUs, (2) gather onto them over
//! NVSwitch, (3) send between servers, (4) meanwhile send inside the servers, (5) scatter from the
//! delegates. A [`Lowering`] is the outcome of step 1: the sizes of all the others.

mod all_to_all;
mod delegates;
mod inside;

pub(crate) use all_to_all::Lowerer;
pub use all_to_all::{AllToAllDemand, Copies};
pub use delegates::delegate_share;

use crate::network::{Division, Pair, Path, PathId, Share};
use lightloom_flowsim::LinkId;

/// Bytes from one member of a group to another over one path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transfer {
    /// Sending member.
    pub from: u32,
    /// Receiving member.
    pub to: u32,
    /// Size.
    pub bytes: u64,
    /// Path, of [`Lowering::path`].
    pub path: PathId,
}

/// The sizes of the steps of one all-to-all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Lowering {
    /// Step 3, by sender: those of member `i` are `transfers[first[i]..first[i + 1]]`.
    pub transfers: Vec<Transfer>,
    /// Where each sender's transfers begin; one entry more than members.
    pub first: Vec<u32>,
    /// Step 2: bytes that the busiest delegate GPU of each member receives from other GPUs.
    pub gather: Vec<u64>,
    /// Step 5: bytes that the busiest delegate GPU of each member sends to other GPUs.
    pub scatter: Vec<u64>,
    /// Step 4: bytes that each GPU of a member sends to other GPUs of the member.
    pub local: Vec<u64>,
    /// Ranks of other members that each rank sends to.
    pub peers: u32,
    /// Whether ranks also send to others of the same member, or across rails.
    pub is_mixed: bool,
    /// Bytes of steps 2, 4 and 5 together, of all members, for the ledger.
    pub nvswitch_bytes: u64,
    /// The paths of all transfers, and the shares of the pair that is being divided.
    division: Division,
}

impl Lowering {
    /// Empties the lowering for a group of this many members and keeps its memory.
    pub fn reset(&mut self, members: usize) {
        self.transfers.clear();
        self.first.clear();
        self.first.push(0);
        for column in [&mut self.gather, &mut self.scatter, &mut self.local] {
            column.clear();
            column.resize(members, 0);
        }
        self.nvswitch_bytes = 0;
        self.division.clear();
    }

    /// Adds the transfers of one member to another: the shares, but empty ones, into which
    /// `divide` divides their bytes.
    pub fn divide(&mut self, (from, to): (u32, u32), divide: impl FnOnce(&mut Division)) {
        divide(&mut self.division);
        for &Share { path, bytes } in &self.division.shares {
            if bytes > 0 {
                self.transfers.push(Transfer { from, to, bytes, path });
            }
        }
        self.division.shares.clear();
    }

    /// Adds the transfers of all members to one another, dividing the bytes of each pair.
    pub fn divide_each(
        &mut self,
        all_to_all: &AllToAllDemand<'_>,
        mut divide: impl FnMut(&Pair, u64, &mut Division),
    ) {
        for from in 0..all_to_all.size() {
            for (to, bytes) in all_to_all.remote(from) {
                let pair = all_to_all.pair(from, to);
                self.divide((from, to), |division| divide(&pair, bytes, division));
            }
            self.end_sender();
        }
    }

    /// Ends the transfers of the next sender.
    pub fn end_sender(&mut self) {
        self.first.push(self.transfers.len() as u32);
    }

    /// Where the transfers of a member are.
    pub fn sent_by(&self, member: u32) -> std::ops::Range<usize> {
        let member = member as usize;
        self.first[member] as usize..self.first[member + 1] as usize
    }

    /// A path of one of the transfers.
    #[inline]
    pub fn path(&self, id: PathId) -> &Path {
        self.division.paths.path(id)
    }

    /// The links of a path.
    #[inline]
    pub fn links(&self, id: PathId) -> &[LinkId] {
        self.division.paths.links(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::PartId;
    use lightloom_model::Duration;

    const PATH: Path = Path {
        part: PartId::INSIDE,
        latency: Duration::ZERO,
        relays: 0,
        sending_nics: 1,
        receiving_nics: 1,
    };

    #[test]
    fn transfers_are_found_by_sender() {
        let mut lowering = Lowering::default();
        lowering.reset(3);
        lowering.divide((0, 1), |division| division.push(PATH, &[LinkId(4)], 1));
        lowering.end_sender();
        lowering.end_sender();
        for (to, links) in [(0, [LinkId(5)]), (1, [LinkId(6)])] {
            lowering.divide((2, to), |division| {
                division.push(PATH, &[], 0);
                division.push(PATH, &links, 1);
            });
        }
        lowering.end_sender();
        assert_eq!(lowering.sent_by(0), 0..1);
        assert_eq!(lowering.sent_by(1), 1..1);
        assert_eq!(lowering.sent_by(2), 1..3);
        let links = |index: usize| lowering.links(lowering.transfers[index].path);
        assert_eq!([links(0), links(1), links(2)], [&[LinkId(4)], &[LinkId(5)], &[LinkId(6)]]);
    }

    #[test]
    fn a_reset_lowering_remembers_nothing() {
        let mut lowering =
            Lowering { gather: vec![7; 9], nvswitch_bytes: 3, ..Lowering::default() };
        lowering.divide((0, 1), |division| division.push(PATH, &[LinkId(4)], 1));
        lowering.reset(2);
        assert_eq!(lowering.gather, [0, 0]);
        assert_eq!((lowering.nvswitch_bytes, lowering.first.as_slice()), (0, &[0][..]));
        assert!(lowering.transfers.is_empty());
    }
}
