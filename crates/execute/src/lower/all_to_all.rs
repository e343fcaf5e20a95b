//! From the demand of an all-to-all to a [`Lowering`].
//!
//! - **Hierarchical**: every pair's bytes over the paths that the network has for it, by delegates.
//! - **Flat**: rank to rank, each over the NICs of its own GPUs; nothing to gather. With one rank
//!   per worker that is all NICs of the worker evenly. Between large racks bytes are regrouped.
//! - **Rail**: every copy first moves to the local GPUs on the rail of its destination, so these
//!   receive what other ranks send over their rail (PXN); nothing to scatter. Tokens that cross the
//!   network once per member keep the rail of their home rank instead: on arrival the GPUs there
//!   copy them to the ranks of their member; on the way back these add up before they leave.
//!   NVSwitch and network work on successive chunks at once, so this is part of the local step.
//! - **Local**: bytes between GPUs of one worker: of the busiest rank, where ranks are known, else
//!   in equal parts from each GPU.

use super::delegates::Delegates;
use super::inside::Inside;
use super::regroup::regroup;
use crate::circuits::Circuits;
use crate::demand::Copies;
use crate::fabric::Fabric;
use crate::network::{
    AllToAllDemand, Lowering, Network, NicGroups, PacketFabric, Pair, common_divisor,
    weighted_shares,
};
use lightloom_model::AllToAll;

/// Lowers the all-to-alls of one network; keeps its memory.
#[derive(Debug)]
pub(crate) struct Lowerer {
    mode: AllToAll,
    /// Whether GPUs gather and scatter for others.
    has_delegates: bool,
    /// NIC groups of a server above which bytes of a pair are regrouped.
    regroup_above: u32,
    /// ToRs of a server's NICs.
    tors: u32,
    /// Bytes of a pair from NIC group to NIC group.
    group_bytes: Vec<u64>,
    /// Bytes of a pair by the rank that they come from or return to.
    of_home: Vec<u64>,
    inside: Inside,
    delegates: Delegates,
}

impl Lowerer {
    /// For all-to-alls on a network.
    pub(crate) fn new(network: &Network) -> Self {
        let fabric = network.packet_fabric();
        // what takes the place of a lost NIC depends on who sends to whom
        let is_whole = fabric.is_some_and(|fabric| !fabric.lacks_nics());
        Self {
            mode: network.all_to_all,
            has_delegates: network.delegates,
            regroup_above: if is_whole { network.regroup_above } else { u32::MAX },
            tors: fabric.map_or(1, PacketFabric::tors),
            group_bytes: Vec::new(),
            of_home: Vec::new(),
            inside: Inside::default(),
            delegates: Delegates::default(),
        }
    }

    /// Whether it wants to know what ranks send each other, where a member has several.
    pub(crate) fn is_by_rank(&self) -> bool {
        self.mode != AllToAll::Hierarchical
    }

    /// Lowers an all-to-all.
    pub(crate) fn lower(
        &mut self,
        all_to_all: &AllToAllDemand,
        fabric: &mut Fabric,
        circuits: Option<&mut Circuits<'_>>,
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
            if self.has_delegates {
                self.delegates.assign(lowering, all_to_all.placement, fabric.links.count());
            }
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
            for (sending, receiving, bytes) in all_to_all.between_ranks(from, from) {
                let (own, target) =
                    all_to_all.groups_of(Pair::new(from, from), Pair::new(sending, receiving));
                self.inside.add(from, own, target, bytes);
            }
            for to in (0..members).filter(|&to| to != from) {
                self.group_bytes.clear();
                self.group_bytes.resize(groups * groups, 0);
                if self.mode == AllToAll::Rail && all_to_all.copies != Copies::Each {
                    self.add_tokens(all_to_all, from, to);
                } else {
                    self.add_copies(all_to_all, from, to);
                }
                if placement.groups > self.regroup_above && fabric.links.are_fluid() {
                    let tors = common_divisor(self.tors, placement.groups) as usize;
                    regroup(&mut self.group_bytes, groups, tors);
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
                        lowering.divide(from, to, |division| {
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
    fn add_copies(&mut self, all_to_all: &AllToAllDemand, from: u32, to: u32) {
        let groups = all_to_all.placement.groups;
        for (sending, receiving, bytes) in all_to_all.between_ranks(from, to) {
            let (own, target) =
                all_to_all.groups_of(Pair::new(from, to), Pair::new(sending, receiving));
            let mut group = own;
            if self.mode == AllToAll::Rail && own != target {
                group = target;
                self.inside.add(from, own, target, bytes);
            }
            self.group_bytes[(group * groups + target) as usize] += bytes;
        }
    }

    /// Bytes of a pair by (sending group, receiving group), every token once: along the rail of the
    /// rank that it comes from and returns to, and inside the member that copies or adds up.
    fn add_tokens(&mut self, all_to_all: &AllToAllDemand, from: u32, to: u32) {
        let placement = all_to_all.placement;
        let is_returning = all_to_all.copies == Copies::BeforeLeaving;
        let of_home = &mut self.of_home;
        of_home.clear();
        of_home.resize(placement.ranks as usize, 0);
        let copier = if is_returning { from } else { to };
        for (sending, receiving, bytes) in all_to_all.between_ranks(from, to) {
            let home = if is_returning { receiving } else { sending };
            of_home[home as usize] += bytes;
            if sending != receiving {
                let (own, target) =
                    all_to_all.groups_of(Pair::new(copier, copier), Pair::new(sending, receiving));
                self.inside.add(copier, own, target, bytes);
            }
        }
        if of_home.iter().all(|&bytes| bytes == 0) {
            of_home.fill(1);
        }
        let shares = weighted_shares(all_to_all.bytes(from, to), of_home.iter().copied());
        for (home, bytes) in (0..).zip(shares) {
            let (sending, receiving) =
                all_to_all.groups_of(Pair::new(from, to), Pair::new(home, home));
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
