//! From the demand of an all-to-all to a [`Lowering`].
//!
//! - **Hierarchical**: every pair's bytes over the paths that the network has for it, by delegates.
//! - **Flat**: rank to rank, each over the NICs of its own GPUs; nothing to gather. With one rank
//!   per worker that is all NICs of the worker evenly.
//! - **Rail**: every copy first moves to the local GPUs on the rail of its destination, so these
//!   receive what other ranks send over their rail (PXN); nothing to scatter. Tokens that cross the
//!   network once per member keep the rail of their home rank instead: on arrival the GPUs there
//!   copy them to the ranks of their member; on the way back these add up before they leave.
//!   NVSwitch and network work on successive chunks at once, so this is part of the local step.
//! - **Local**: bytes between GPUs of one worker: of the busiest rank, where ranks are known, else
//!   in equal parts from each GPU.

use super::Lowering;
use super::delegates::Delegates;
use super::inside::Inside;
use crate::circuits::Circuits;
use crate::network::{Fabric, NicGroups, Pair, Placement, weighted_shares};
use lightloom_model::{AllToAll, GroupId, WorkerId};

/// How often a token of several ranks of one member crosses the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Copies {
    /// Once for each copy.
    #[default]
    Each,
    /// Once; the receiving member copies it to its ranks (dispatch).
    OnArrival,
    /// Once; the sending member adds up what its ranks have for the token's home (combine).
    BeforeLeaving,
}

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
    pub fn ends(&self, from: u32, to: u32) -> (WorkerId, WorkerId) {
        (self.members[from as usize], self.members[to as usize])
    }

    /// Bytes from one member to another.
    fn bytes(&self, from: u32, to: u32) -> u64 {
        self.demand[from as usize * self.members.len() + to as usize]
    }

    /// Bytes from each rank of a member to each rank of another, or of itself, but none.
    fn between_ranks(
        &self,
        (from, to): (u32, u32),
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

    /// The NIC groups of ranks of two members.
    fn groups_of(&self, from: (u32, u32), to: (u32, u32)) -> (u32, u32) {
        let group = |(member, rank): (u32, u32)| {
            self.placement.group_of_rank(self.members[member as usize], rank)
        };
        (group(from), group(to))
    }

    /// The servers of two members.
    pub fn pair(&self, from: u32, to: u32) -> Pair {
        self.placement.pair(self.ends(from, to))
    }
}

/// Lowers the all-to-alls of one network; keeps its memory.
#[derive(Debug)]
pub(crate) struct Lowerer {
    mode: AllToAll,
    /// Bytes of a pair from NIC group to NIC group.
    group_bytes: Vec<u64>,
    inside: Inside,
    delegates: Delegates,
}

impl Lowerer {
    /// For networks that spread all-to-alls like this.
    pub(crate) fn new(mode: AllToAll) -> Self {
        let (inside, delegates) = (Inside::default(), Delegates::default());
        Self { mode, group_bytes: Vec::new(), inside, delegates }
    }

    /// Whether it wants to know what ranks send each other, where a member has several.
    pub(crate) fn is_by_rank(&self) -> bool {
        self.mode != AllToAll::Hierarchical
    }

    /// Lowers an all-to-all.
    pub(crate) fn lower(
        &mut self,
        all_to_all: &AllToAllDemand,
        (fabric, circuits): (&mut Fabric, Option<&mut Circuits<'_>>),
        lowering: &mut Lowering,
    ) {
        lowering.reset(all_to_all.members.len());
        let (others, ranks) = (all_to_all.size() - 1, all_to_all.placement.ranks);
        lowering.peers = if self.mode == AllToAll::Flat { others * ranks } else { others };
        lowering.is_mixed = ranks > 1 && self.is_by_rank();
        if lowering.is_mixed {
            return self.lower_ranks(all_to_all, fabric, lowering);
        }
        lower_local(all_to_all, lowering);
        if self.mode == AllToAll::Hierarchical {
            fabric.lower_all_to_all(circuits, all_to_all, lowering);
            self.delegates.assign(lowering, all_to_all.placement, fabric.links.count());
        } else {
            lowering.divide_each(all_to_all, |pair, bytes, division| {
                let one = |nics: NicGroups| NicGroups { count: 1, ..nics };
                let pair = Pair { from: one(pair.from), to: one(pair.to) };
                fabric.divide_pair(&pair, bytes, division);
            });
        }
    }

    /// Rank to rank (`flat`), or along a rail (`rail`); one flow per pair of members and pair of
    /// NIC groups.
    fn lower_ranks(
        &mut self,
        all_to_all: &AllToAllDemand,
        fabric: &Fabric,
        lowering: &mut Lowering,
    ) {
        let members = all_to_all.size();
        let placement = all_to_all.placement;
        let groups = placement.groups as usize;
        self.inside.reset(members as usize, groups);
        for from in 0..members {
            for (sending, receiving, bytes) in all_to_all.between_ranks((from, from)) {
                let ends = all_to_all.groups_of((from, sending), (from, receiving));
                self.inside.add(from, ends, bytes);
            }
            for to in (0..members).filter(|&to| to != from) {
                self.group_bytes.clear();
                self.group_bytes.resize(groups * groups, 0);
                if self.mode == AllToAll::Rail && all_to_all.copies != Copies::Each {
                    self.add_tokens(all_to_all, (from, to));
                } else {
                    self.add_copies(all_to_all, (from, to));
                }
                let pair = all_to_all.pair(from, to);
                for (cell, &bytes) in self.group_bytes.iter().enumerate() {
                    if bytes > 0 {
                        let one = |nics: NicGroups, group| NicGroups {
                            first: group as u16,
                            count: 1,
                            ..nics
                        };
                        let (from_group, to_group) = (cell / groups, cell % groups);
                        let pair =
                            Pair { from: one(pair.from, from_group), to: one(pair.to, to_group) };
                        lowering.divide((from, to), |division| {
                            fabric.divide_pair(&pair, bytes, division);
                        });
                    }
                }
            }
            lowering.end_sender();
        }
        self.inside.assign(lowering, placement.gpus_per_group());
    }

    /// Bytes of a pair by (sending group, receiving group), every copy from rank to rank; over the
    /// rail of its destination where that is the strategy.
    fn add_copies(&mut self, all_to_all: &AllToAllDemand, (from, to): (u32, u32)) {
        let groups = all_to_all.placement.groups;
        for (sending, receiving, bytes) in all_to_all.between_ranks((from, to)) {
            let (own, target) = all_to_all.groups_of((from, sending), (to, receiving));
            let mut group = own;
            if self.mode == AllToAll::Rail && own != target {
                group = target;
                self.inside.add(from, (own, target), bytes);
            }
            self.group_bytes[(group * groups + target) as usize] += bytes;
        }
    }

    /// Bytes of a pair by (sending group, receiving group), every token once: along the rail of the
    /// rank that it comes from and returns to, and inside the member that copies or adds up.
    fn add_tokens(&mut self, all_to_all: &AllToAllDemand, (from, to): (u32, u32)) {
        let placement = all_to_all.placement;
        let is_returning = all_to_all.copies == Copies::BeforeLeaving;
        let mut of_home = vec![0_u64; placement.ranks as usize];
        let copier = if is_returning { from } else { to };
        for (sending, receiving, bytes) in all_to_all.between_ranks((from, to)) {
            let home = if is_returning { receiving } else { sending };
            of_home[home as usize] += bytes;
            if sending != receiving {
                let ends = all_to_all.groups_of((copier, sending), (copier, receiving));
                self.inside.add(copier, ends, bytes);
            }
        }
        if of_home.iter().all(|&bytes| bytes == 0) {
            of_home.fill(1);
        }
        let shares = weighted_shares(all_to_all.bytes(from, to), of_home.iter().copied());
        for (home, bytes) in (0..).zip(shares) {
            let (sending, receiving) = all_to_all.groups_of((from, home), (to, home));
            self.group_bytes[(sending * placement.groups + receiving) as usize] += bytes;
        }
    }
}

fn lower_local(all_to_all: &AllToAllDemand, lowering: &mut Lowering) {
    let members = all_to_all.members.len();
    for member in 0..members {
        let bytes = all_to_all.demand[member * members + member];
        lowering.local[member] = bytes.div_ceil(u64::from(all_to_all.placement.gpus));
        lowering.nvswitch_bytes += bytes;
    }
}
