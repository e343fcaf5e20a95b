//! A lowered all-to-all: its demand, and the transfers and copies that it becomes.

use super::placement::{Pair, Placement};
use crate::demand::Copies;
use crate::links::{Division, Path, PathId, Share};
use lightloom_flowsim::LinkId;
use lightloom_model::{GroupId, WorkerId};

/// The demand of an all-to-all, and where its members are.
#[derive(Debug, Clone, Copy)]
pub struct AllToAllDemand<'a> {
    /// Group.
    pub group: GroupId,
    /// Its members, in order.
    pub members: &'a [WorkerId],
    /// Bytes from member to member, row-major; the diagonal stays in the server.
    pub demand: &'a [u64],
    /// Bytes from rank to rank, row-major, where data moves rank by rank; else empty.
    pub rank_demand: &'a [u64],
    /// Whether a token goes once to a member, and who then copies it.
    pub copies: Copies,
    /// Where workers are.
    pub placement: &'a Placement,
}

impl<'a> AllToAllDemand<'a> {
    /// Number of members.
    pub fn size(&self) -> u32 {
        self.members.len() as u32
    }

    /// Other members that a member sends bytes to, and how many.
    pub fn remote(&self, from: u32) -> impl Iterator<Item = (u32, u64)> + use<'a> {
        let members = self.members.len();
        let row = &self.demand[from as usize * members..(from as usize + 1) * members];
        row.iter()
            .enumerate()
            .map(|(to, &bytes)| (to as u32, bytes))
            .filter(move |&(to, bytes)| to != from && bytes > 0)
    }

    /// Two members as workers.
    pub fn ends(&self, from: u32, to: u32) -> Pair<WorkerId> {
        Pair::new(self.members[from as usize], self.members[to as usize])
    }

    /// Bytes from one member to another.
    pub(crate) fn bytes(&self, from: u32, to: u32) -> u64 {
        self.demand[from as usize * self.members.len() + to as usize]
    }

    /// Bytes from each rank of a member to each rank of another, or of itself, but none.
    pub(crate) fn between_ranks(
        &self,
        from: u32,
        to: u32,
    ) -> impl Iterator<Item = (u32, u32, u64)> + use<'a> {
        let ranks = self.placement.ranks;
        let (demand, length) = (self.rank_demand, self.members.len() * ranks as usize);
        (0..ranks).flat_map(move |sending| {
            let begin = (from * ranks + sending) as usize * length + (to * ranks) as usize;
            let row = &demand[begin..begin + ranks as usize];
            let row = (0..).zip(row).filter(|&(_, &bytes)| bytes > 0);
            row.map(move |(receiving, &bytes)| (sending, receiving, bytes))
        })
    }

    /// The NIC groups of a rank of one member and of a rank of another.
    pub(crate) fn groups_of(&self, members: Pair<u32>, ranks: Pair<u32>) -> (u32, u32) {
        let group =
            |member: u32, rank| self.placement.group_of_rank(self.members[member as usize], rank);
        (group(members.from, ranks.from), group(members.to, ranks.to))
    }

    /// The servers of two members.
    pub fn pair(&self, from: u32, to: u32) -> Pair {
        self.placement.pair(self.ends(from, to))
    }
}

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
    pub fn divide(&mut self, from: u32, to: u32, divide: impl FnOnce(&mut Division)) {
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
                self.divide(from, to, |division| divide(&pair, bytes, division));
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
    use crate::links::PartId;
    use lightloom_model::Duration;

    const PATH: Path = Path {
        part: PartId::INSIDE,
        latency: Duration::ZERO,
        relays: 0,
        sending_nics: 1,
        receiving_nics: 1,
        forwarding_gpus: 0,
    };

    #[test]
    fn transfers_are_found_by_sender() {
        let mut lowering = Lowering::default();
        lowering.reset(3);
        lowering.divide(0, 1, |division| division.push(PATH, &[LinkId(4)], 1));
        lowering.end_sender();
        lowering.end_sender();
        for (to, links) in [(0, [LinkId(5)]), (1, [LinkId(6)])] {
            lowering.divide(2, to, |division| {
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
        lowering.divide(0, 1, |division| division.push(PATH, &[LinkId(4)], 1));
        lowering.reset(2);
        assert_eq!(lowering.gather, [0, 0]);
        assert_eq!((lowering.nvswitch_bytes, lowering.first.as_slice()), (0, &[0][..]));
        assert!(lowering.transfers.is_empty());
    }
}
