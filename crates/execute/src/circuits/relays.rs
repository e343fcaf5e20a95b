//! Relaying inside regions: servers that pass the bytes of others on, between circuits and the EPS.
//!
//! How the bytes of an all-to-all are best divided among one-hop and two-hop paths over the
//! circuits held is the decider's; where relaying does not pay, all is as without. What is relayed
//! crosses the NVSwitch of the relay, on a link that all that it relays shares, and arrives later
//! by the time of a chunk.

use super::Circuits;
use super::region::Region;
use crate::fabric::eps::EpsLinks;
use crate::lower::{Bundle, RegionWay};
use crate::medium::{Medium, Wire};
use crate::outcome::LinkUse;
use lightloom_flowsim::LinkId;
use lightloom_model::units::PS_PER_S;
use lightloom_model::{Carrier, Duration, Network, Ocs, Rate, Time};
use lightloom_schedule::relay::{PathKind, RelayCost, RelayPath, RelayVerdict};

/// The links over which relays pass bytes on.
#[derive(Debug)]
pub struct RelayLinks {
    rate: Rate,
    /// Link of each server's NVSwitch; none where it is in no region.
    staging: Vec<Option<LinkId>>,
}

/// What relaying costs in this network.
pub fn cost_of(network: &Network, ocs: &Ocs) -> RelayCost {
    let gpu_rate = network.nvswitch.gpu_rate.0;
    RelayCost {
        staging_rate: Some(Rate(gpu_rate.saturating_mul(u64::from(network.gpus_per_server)))),
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
    pub fn new(network: &Network, ocs: &Ocs, regions: &[Region], medium: &mut Medium) -> Self {
        let rate = cost_of(network, ocs).staging_rate.expect("an NVSwitch has a rate");
        let mut staging = vec![None; network.servers as usize];
        for &server in regions.iter().flat_map(|region| &region.servers) {
            let wire = Wire::Relay { server, delay: relay_delay(network, ocs) };
            staging[server as usize] = Some(medium.add_link(rate, wire));
        }
        Self { rate, staging }
    }
}

impl Circuits<'_> {
    /// The ways of a group's all-to-all, sorted by sender, if relaying pays.
    pub fn relay(&mut self, group: u32, demand: &[u64]) -> Option<Vec<RegionWay>> {
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
        let region = self.region(index);
        let mut ways: Vec<RegionWay> =
            found.paths.iter().map(|way| region_way(region, &member_at, way)).collect();
        ways.sort_by_key(|way| (way.from, way.to));
        Some(ways)
    }

    /// What relays passed on up to now.
    pub fn relay_use(&self, end: Time, medium: &Medium) -> Option<LinkUse> {
        let relays = self.relays.as_ref()?;
        let links = relays.staging.iter().copied().flatten();
        let carried: Vec<u64> = links.map(|link| medium.carried(link)).collect();
        Some(LinkUse::new("relay", &carried, &vec![relays.rate; carried.len()], end))
    }

    /// The links that a relayed transfer takes.
    pub fn relay_links(
        &self,
        group: u32,
        ends: (u32, u32),
        carrier: Carrier,
        eps: &EpsLinks,
    ) -> Vec<LinkId> {
        let Carrier::Relay { server, circuit_in, circuit_out } = carrier else {
            unreachable!("only relayed transfers take a relay")
        };
        let relays = self.relays.as_ref().expect("servers relay");
        let region = self.region(self.of_group(group).expect("the group crosses servers"));
        let place = |member: u32| self.place_of(group, member);
        let middle = region.servers.binary_search(&server).expect("a relay is in the region");
        let mut links = Vec::with_capacity(9);
        let hop = |links: &mut Vec<LinkId>, from: usize, to: usize, circuit: bool| {
            if circuit {
                let link = region.links[from * region.size() + to];
                links.push(link.expect("a way takes circuits that are there"));
            } else {
                let path = eps.path((region.servers[from], 0), (region.servers[to], 0));
                links.extend_from_slice(path.links());
            }
        };
        hop(&mut links, place(ends.0), middle, circuit_in);
        links.push(relays.staging[server as usize].expect("a relay is in the region"));
        hop(&mut links, middle, place(ends.1), circuit_out);
        links
    }
}

fn region_way(region: &Region, member_at: &[u32], way: &RelayPath) -> RegionWay {
    let (source, destination) = (way.source as usize, way.destination as usize);
    let relay = way.relay.map(|relay| relay as usize);
    let (next, last) = (relay.unwrap_or(destination), relay.unwrap_or(source));
    let bundle = |from: usize, to: usize, peer: usize| Bundle {
        peer: peer as u32,
        circuits: u32::from(region.held.circuits[from * region.size() + to]),
    };
    let circuit_in =
        matches!(way.kind, PathKind::Circuit | PathKind::CircuitCircuit | PathKind::CircuitEps);
    let circuit_out =
        matches!(way.kind, PathKind::Circuit | PathKind::CircuitCircuit | PathKind::EpsCircuit);
    let carrier = match relay {
        Some(relay) => Carrier::Relay { server: region.servers[relay], circuit_in, circuit_out },
        None if circuit_in => Carrier::Circuit,
        None => Carrier::Eps { from_slot: 0, to_slot: 0 },
    };
    RegionWay {
        from: member_at[source],
        to: member_at[destination],
        bytes: way.bytes,
        carrier,
        first: circuit_in.then(|| bundle(source, next, next)),
        last: circuit_out.then(|| bundle(last, destination, last)),
    }
}
