//! From the demand of an all-to-all to a [`Lowering`].
//!
//! - **Hierarchical**: every pair's bytes over the paths that the network has for it, by delegates.
//! - **Flat**: rank to rank, each over the NICs of its own GPUs; nothing to gather. With one rank
//!   per worker that is all NICs of the worker evenly.
//! - **Rail**: a rank's bytes first move to the local GPUs on the rail of the destination rank, so
//!   these receive what other ranks send over their rail; nothing to scatter.
//! - **Local**: bytes between GPUs of one worker, in equal parts from each GPU.

use super::Lowering;
use super::delegates::Delegates;
use crate::circuits::Circuits;
use crate::network::{Fabric, NicGroups, Pair, Placement};
use lightloom_model::{AllToAll, GroupId, WorkerId};

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
    delegates: Delegates,
}

impl Lowerer {
    /// For networks that spread all-to-alls like this.
    pub(crate) fn new(mode: AllToAll) -> Self {
        let delegates = Delegates::default();
        Self { mode, group_bytes: Vec::new(), delegates }
    }

    /// Lowers an all-to-all.
    pub(crate) fn lower(
        &mut self,
        all_to_all: &AllToAllDemand,
        (fabric, circuits): (&mut Fabric, Option<&mut Circuits<'_>>),
        lowering: &mut Lowering,
    ) {
        lowering.reset(all_to_all.members.len());
        lower_local(all_to_all, lowering);
        if self.mode == AllToAll::Hierarchical {
            fabric.lower_all_to_all(circuits, all_to_all, lowering);
            self.delegates.assign(lowering, all_to_all.placement, fabric.links.count());
        } else if all_to_all.placement.ranks > 1 {
            self.lower_ranks(all_to_all, fabric, lowering);
        } else {
            lowering.divide_each(all_to_all, |pair, bytes, division| {
                let one = |nics: NicGroups| NicGroups { count: 1, ..nics };
                let pair = Pair { from: one(pair.from), to: one(pair.to) };
                fabric.divide_pair(&pair, bytes, division);
            });
        }
    }

    /// Rank to rank (`flat`), or over the rail of the destination (`rail`); one flow per pair of
    /// members and pair of NIC groups.
    fn lower_ranks(
        &mut self,
        all_to_all: &AllToAllDemand,
        fabric: &Fabric,
        lowering: &mut Lowering,
    ) {
        let members = all_to_all.size();
        let placement = all_to_all.placement;
        let groups = placement.groups as usize;
        for from in 0..members {
            let mut moved = vec![0_u64; groups];
            for to in (0..members).filter(|&to| to != from) {
                self.add_groups(all_to_all, (from, to), &mut moved);
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
            let busiest = moved.iter().copied().max().unwrap_or(0);
            lowering.gather[from as usize] =
                busiest.div_ceil(u64::from(placement.gpus_per_group()));
            lowering.nvswitch_bytes += moved.iter().sum::<u64>();
            lowering.end_sender();
        }
    }

    /// Bytes of a pair by (sending group, receiving group) into `group_bytes`, and what the local
    /// GPUs on each rail receive from other ranks into `moved`.
    fn add_groups(
        &mut self,
        all_to_all: &AllToAllDemand,
        (from, to): (u32, u32),
        moved: &mut [u64],
    ) {
        let placement = all_to_all.placement;
        let ranks = placement.ranks;
        let groups = placement.groups as usize;
        let row_length = all_to_all.members.len() * ranks as usize;
        let (source, destination) = all_to_all.ends(from, to);
        self.group_bytes.clear();
        self.group_bytes.resize(groups * groups, 0);
        for sending in 0..ranks {
            let own = placement.group_of_rank(source, sending) as usize;
            let row = (from * ranks + sending) as usize * row_length;
            for receiving in 0..ranks {
                let bytes = all_to_all.rank_demand[row + (to * ranks + receiving) as usize];
                let target = placement.group_of_rank(destination, receiving) as usize;
                let mut group = own;
                if self.mode == AllToAll::Rail {
                    group = target;
                    if own != target {
                        moved[target] += bytes;
                    }
                }
                self.group_bytes[group * groups + target] += bytes;
            }
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
