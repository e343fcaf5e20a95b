//! Relaying inside regions: servers that pass the bytes of others on, between circuits and the EPS.
//!
//! How the bytes of an all-to-all are best divided among one-hop and two-hop paths over the
//! circuits held is the decider's; where relaying does not pay, all is as without. What is relayed
//! crosses the NVSwitch of the relay, on a link that all that it relays shares, and arrives later
//! by the time of a chunk.

use super::Circuits;
use super::region::Region;
use crate::network::{Link, Links, Network};
use crate::outcome::LinkUse;
use lightloom_flowsim::LinkId;
use lightloom_model::units::PS_PER_S;
use lightloom_model::{Duration, Ocs, ServerId, Time};
use lightloom_packetsim::Cable;
use lightloom_schedule::relay::{PathKind, RelayCost, RelayPath, RelayVerdict};

/// The links over which relays pass bytes on.
#[derive(Debug)]
pub struct RelayLinks {
    /// Link of each server's NVSwitch; none where it is in no region.
    staging: Vec<Option<LinkId>>,
}

/// What relaying costs in this network.
pub fn cost_of(network: &Network, ocs: &Ocs) -> RelayCost {
    RelayCost {
        staging_rate: Some(network.nvswitch_rate()),
        chunk_bytes: ocs.relay_chunk.bytes,
        chunk_latency: ocs.relay_chunk.latency,
        memory_limit: None,
    }
}

/// What a relay adds to a transfer: the time of a chunk; nothing if servers do not relay.
pub fn relay_delay(network: &Network, ocs: &Ocs) -> Duration {
    if !ocs.policy.relaying {
        return Duration::ZERO;
    }
    let seconds = cost_of(network, ocs).latency(ocs.nic_rate);
    Duration((seconds * PS_PER_S as f64).round() as u64)
}

impl RelayLinks {
    /// Adds a link per server of the regions.
    pub fn new(network: &Network, ocs: &Ocs, regions: &[Region], links: &mut Links) -> Self {
        let inside = Cable { rate: network.nvswitch_rate(), delay: relay_delay(network, ocs) };
        let mut staging = vec![None; network.servers as usize];
        for &server in regions.iter().flat_map(|region| &region.servers) {
            let link = Link::relay(ServerId(server), inside);
            staging[server as usize] = Some(links.add(link));
        }
        Self { staging }
    }
}

impl Circuits<'_> {
    /// The paths of a group's all-to-all, sorted by sender, if relaying pays.
    pub fn relay(&mut self, group: u32, demand: &[u64]) -> Option<Vec<RegionPath>> {
        self.relays.as_ref()?;
        let index = self.of_group(group).expect("a group that crosses servers has a region");
        let size = self.region(index).size();
        let mut total = vec![0; size * size];
        self.fold(group, demand, &mut total);
        let region = &self.regions[index as usize];
        let decider = &mut self.deciders[region.decider as usize];
        let found = decider.relay(&region.held.circuits, &total)?;
        if found.verdict != RelayVerdict::Pays {
            self.statistics.one_hop += 1;
            return None;
        }
        self.statistics.relayed += 1;
        let mut member_at = vec![0; size];
        for member in 0..self.members_of(group) as u32 {
            member_at[self.place_of(group, member)] = member;
        }
        let mut paths: Vec<RegionPath> =
            found.paths.iter().map(|path| region_path(&member_at, path)).collect();
        paths.sort_by_key(|path| (path.from, path.to));
        Some(paths)
    }

    /// What relays passed on up to now.
    pub fn relay_use(&self, end: Time, links: &Links) -> Option<LinkUse> {
        let relays = self.relays.as_ref()?;
        let staging: Vec<LinkId> = relays.staging.iter().copied().flatten().collect();
        Some(LinkUse::of_links("relay", &staging, links, end))
    }

    /// The link of the relay at the end of a hop.
    pub fn relay_link(&self, group: u32, hop: &RegionHop) -> LinkId {
        let relays = self.relays.as_ref().expect("servers relay");
        let region = self.region(self.of_group(group).expect("the group crosses servers"));
        relays.staging[region.servers[hop.to] as usize].expect("a relay is in the region")
    }
}

/// A hop between two servers of a region, by their places in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RegionHop {
    /// Sender.
    pub from: usize,
    /// Receiver.
    pub to: usize,
    /// Over circuits, not the EPS.
    pub over_circuits: bool,
}

/// Bytes of one pair of members that take one path, in one or two hops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RegionPath {
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
