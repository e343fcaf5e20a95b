//! Relaying inside regions: servers that pass the bytes of others on, between circuits and the EPS.
//!
//! How the bytes of an all-to-all are best divided among one-hop and two-hop paths over the
//! circuits held is the decider's; where relaying does not pay, all is as without. What is relayed
//! crosses the NVSwitch of the relay, on a link that all that it relays shares, and arrives later
//! by the time of a chunk.

use super::state::Circuits;
use crate::links::{LinkUse, Links};
use lightloom_flowsim::LinkId;
use lightloom_model::Time;
use lightloom_schedule::relay::{PathKind, RelayPath, RelayVerdict};

impl Circuits<'_> {
    /// The paths of a group's all-to-all, sorted by sender, if relaying pays.
    pub(crate) fn relay(&mut self, group: u32, demand: &[u64]) -> Option<Vec<RegionPath>> {
        self.relays.as_ref()?;
        let index = self.of_group(group).expect("a group that crosses servers has a region");
        let size = self.region(index).size();
        let mut total = vec![0; size * size];
        self.fold(group, demand, &mut total);
        let region = &self.regions[index as usize];
        let decider = &mut self.deciders[region.decider as usize];
        let relayed = decider.relay(&region.held.circuits, &total)?;
        if relayed.verdict != RelayVerdict::Pays {
            self.statistics.one_hop += 1;
            return None;
        }
        self.statistics.relayed += 1;
        let mut member_at = vec![0; size];
        for member in 0..self.members_of(group) as u32 {
            member_at[self.place_of(group, member)] = member;
        }
        let mut paths: Vec<RegionPath> =
            relayed.paths.iter().map(|path| region_path(&member_at, path)).collect();
        paths.sort_by_key(|path| (path.from, path.to));
        Some(paths)
    }

    /// What relays passed on up to now.
    pub(crate) fn relay_use(&self, end: Time, links: &Links) -> Option<LinkUse> {
        let relays = self.relays.as_ref()?;
        let staging: Vec<LinkId> = relays.staging.iter().copied().flatten().collect();
        Some(LinkUse::of_links("relay", &staging, links, end))
    }

    /// The link of the relay at the end of a hop.
    pub(crate) fn relay_link(&self, group: u32, hop: &RegionHop) -> LinkId {
        let relays = self.relays.as_ref().expect("servers relay");
        let region = self.region(self.of_group(group).expect("the group crosses servers"));
        relays.staging[region.servers[hop.to] as usize].expect("a relay is in the region")
    }
}

/// A hop between two servers of a region, by their places in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RegionHop {
    /// Sender.
    pub from: usize,
    /// Receiver.
    pub to: usize,
    /// Over circuits, not the EPS.
    pub over_circuits: bool,
}

/// Bytes of one pair of members that take one path, in one or two hops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RegionPath {
    /// Sending member.
    pub from: u32,
    /// Receiving member.
    pub to: u32,
    /// How many.
    pub bytes: u64,
    /// To the receiver, or to a relay.
    pub first: RegionHop,
    /// From the relay, if there is one.
    pub second: Option<RegionHop>,
}

fn region_path(member_at: &[u32], path: &RelayPath) -> RegionPath {
    let (source, destination) = (path.source as usize, path.destination as usize);
    let relay = path.relay.map(|relay| relay as usize);
    let circuit_in =
        matches!(path.kind, PathKind::Circuit | PathKind::CircuitCircuit | PathKind::CircuitEps);
    let circuit_out = matches!(path.kind, PathKind::CircuitCircuit | PathKind::EpsCircuit);
    let next = relay.unwrap_or(destination);
    RegionPath {
        from: member_at[source],
        to: member_at[destination],
        bytes: path.bytes,
        first: RegionHop { from: source, to: next, over_circuits: circuit_in },
        second: relay.map(|relay| RegionHop {
            from: relay,
            to: destination,
            over_circuits: circuit_out,
        }),
    }
}
