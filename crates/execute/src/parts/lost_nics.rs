//! NICs of a packet fabric that are lost, and where the bytes go that would cross them.
//!
//! A group of NICs keeps what its working ones take; the rest is spread over the groups of the
//! server, and arrives at those in their place, in proportion to the NICs that work at both ends:
//! all NICs left are loaded alike. The copy to another GPU's NIC, over the NVSwitch, is left out.

use super::eps::Eps;
use crate::error::{ExecuteError, network as unfit};
use lightloom_model::ServerId;
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;

/// A group of NICs of one server.
#[derive(Debug, Clone, Copy)]
pub(super) struct NicGroup {
    pub(super) server: ServerId,
    pub(super) group: u16,
}

/// The NICs that are lost of the servers that lack some.
#[derive(Debug)]
pub(super) struct LostNics {
    /// NICs of a server, and of a group.
    nics: u32,
    group: u32,
    /// Per server that lacks some: whether each NIC works.
    works: FxHashMap<u32, Vec<bool>>,
}

impl LostNics {
    /// Of `nics` of each server, in so many groups, those that are lost, as (server, NIC); `plane`
    /// is the network that a NIC is on, of those that nothing joins.
    ///
    /// # Errors
    /// If no NIC of one server reaches one of another.
    pub(super) fn new<'a>(
        nics: u32,
        groups: u32,
        lost: impl Iterator<Item = &'a (u32, u32)>,
        plane: impl Fn(usize) -> u32,
    ) -> Result<Self, ExecuteError> {
        let mut works: FxHashMap<u32, Vec<bool>> = FxHashMap::default();
        for &(server, nic) in lost {
            let works_here = works.entry(server).or_insert_with(|| vec![true; nics as usize]);
            works_here[nic as usize] = false;
        }
        let found = Self { nics, group: nics / groups, works };
        found.check(groups, plane)?;
        Ok(found)
    }

    /// Every two servers share a working NIC, or have one each of a plane where NICs are not told
    /// apart.
    fn check(&self, groups: u32, plane: impl Fn(usize) -> u32) -> Result<(), ExecuteError> {
        let planes = |works: &[bool]| -> BTreeSet<u32> {
            (0..works.len()).filter(|&nic| works[nic]).map(&plane).collect()
        };
        let mut kinds: FxHashMap<&[bool], u32> = FxHashMap::default();
        for (&server, works) in &self.works {
            kinds.entry(works).and_modify(|first| *first = server.min(*first)).or_insert(server);
        }
        let mut kinds: Vec<(u32, &[bool])> = kinds.into_iter().map(|(w, s)| (s, w)).collect();
        kinds.sort_unstable();
        for (place, &(server, works)) in kinds.iter().enumerate() {
            for &(other, theirs) in &kinds[place..] {
                let is_joined = if groups == 1 {
                    !planes(works).is_disjoint(&planes(theirs))
                } else {
                    works.iter().zip(theirs).any(|(one, two)| *one && *two)
                };
                if !is_joined {
                    return Err(unfit(format!(
                        "NICs on the packet fabric have failed: none that works joins server \
                         {server} to server {other}"
                    )));
                }
            }
        }
        Ok(())
    }

    /// NICs of a group that work.
    pub(super) fn working(&self, server: u32, group: u32) -> u32 {
        (0..self.group).filter(|nic| self.is_working(server, group * self.group + nic)).count()
            as u32
    }

    /// Whether bytes between two groups take other paths as well.
    pub(super) fn concern(&self, ends: [NicGroup; 2]) -> bool {
        self.group < self.nics && self.are_of(ends)
    }

    /// Whether one of two servers lacks some.
    pub(super) fn are_of(&self, ends: [NicGroup; 2]) -> bool {
        ends.iter().any(|end| self.works.contains_key(&end.server.0))
    }

    /// Weights of the paths between two servers: from one group to the other, and then from each
    /// group to that in its place.
    pub(super) fn weights(&self, from: NicGroup, to: NicGroup) -> Vec<u64> {
        let lanes = |from: NicGroup, to: NicGroup| -> u64 {
            let works = |NicGroup { server, group }: NicGroup, nic| {
                self.is_working(server.0, u32::from(group) * self.group + nic)
            };
            (0..self.group).filter(|&nic| works(from, nic) && works(to, nic)).count() as u64
        };
        let own = lanes(from, to);
        let groups = (self.nics / self.group) as u16;
        let in_place = |group| lanes(NicGroup { group, ..from }, NicGroup { group, ..to });
        let others: Vec<u64> = (0..groups).map(in_place).collect();
        let lost = u64::from(self.group) - own;
        let sum: u64 = others.iter().sum();
        std::iter::once(own * sum).chain(others.into_iter().map(|lanes| lanes * lost)).collect()
    }

    /// Whether a NIC is there.
    pub(super) fn is_working(&self, server: u32, nic: u32) -> bool {
        self.works.get(&server).is_none_or(|works| works[nic as usize])
    }
}

/// Checks that lost NICs and replaced servers exist.
///
/// # Errors
/// Names the first that does not.
pub(super) fn check_parts(config: &Eps, servers: u32) -> Result<(), lightloom_model::Invalid> {
    let invalid = |text| Err(lightloom_model::Invalid(text));
    let outside = |&&(server, nic): &&(u32, u32)| server >= servers || nic >= config.nics;
    if let Some((server, nic)) = config.failed.iter().find(outside) {
        return invalid(format!(
            "eps: NIC {nic} of server {server} has failed, which is not there"
        ));
    }
    let beyond: BTreeSet<u32> = config.replaced.range(servers..).copied().collect();
    match beyond.first() {
        Some(server) => invalid(format!("eps: server {server} is replaced, which is not there")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::eps;

    fn at(server: u32, group: u16) -> NicGroup {
        NicGroup { server: ServerId(server), group }
    }

    fn lost(failed: &[(u32, u32)], groups: u32) -> Result<LostNics, String> {
        lost_of_planes(failed, groups, 1)
    }

    /// NICs in a row are of one plane.
    fn lost_of_planes(failed: &[(u32, u32)], groups: u32, planes: u32) -> Result<LostNics, String> {
        let config = Eps { failed: failed.iter().copied().collect(), planes, ..eps(4) };
        LostNics::new(config.nics, groups, config.failed.iter(), |nic| config.plane_of(nic))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn a_lost_nic_is_spread_over_the_others() {
        let lost = lost(&[(0, 3)], 8).unwrap();
        assert!(
            lost.concern([at(0, 0), at(1, 0)])
                && lost.concern([at(2, 0), at(0, 0)])
                && !lost.concern([at(1, 0), at(2, 0)])
        );
        assert_eq!((lost.working(0, 3), lost.working(0, 2), lost.working(1, 3)), (0, 1, 1));
        assert_eq!(lost.weights(at(0, 3), at(1, 3)), [0, 1, 1, 1, 0, 1, 1, 1, 1]);
        assert_eq!(lost.weights(at(0, 2), at(1, 2)), [7, 0, 0, 0, 0, 0, 0, 0, 0]);
        // as bytes arrive
        assert_eq!(lost.weights(at(1, 3), at(0, 3)), [0, 1, 1, 1, 0, 1, 1, 1, 1]);
    }

    #[test]
    fn a_group_keeps_what_its_other_nics_take() {
        let lost = lost(&[(0, 3)], 4).unwrap();
        // half of the bytes of group 1 stay on it, the rest goes over all 7 NICs
        assert_eq!(lost.weights(at(0, 1), at(1, 1)), [7, 2, 1, 2, 2]);
        assert_eq!(lost.weights(at(0, 0), at(1, 0)), [14, 0, 0, 0, 0]);
    }

    #[test]
    fn servers_that_nothing_joins_are_refused() {
        let all: Vec<(u32, u32)> = (0..8).map(|nic| (2, nic)).collect();
        for groups in [1, 8] {
            let text = "NICs on the packet fabric have failed: none that works joins server 2 to";
            assert!(lost(&all, groups).unwrap_err().contains(text));
        }
        let halves: Vec<(u32, u32)> = (0..8).map(|nic| (u32::from(nic >= 4), nic)).collect();
        assert!(lost(&halves, 1).is_ok());
        let apart = lost_of_planes(&halves, 1, 2).unwrap_err();
        assert!(apart.contains("joins server 0 to server 1"), "{apart}");
        let some: Vec<(u32, u32)> = (0..7).map(|nic| (u32::from(nic >= 4), nic)).collect();
        assert!(lost_of_planes(&some, 1, 2).is_ok());
        assert!(lost(&halves, 8).unwrap_err().contains("joins server 0 to server 1"));
    }
}
