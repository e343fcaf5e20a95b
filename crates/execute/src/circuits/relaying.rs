//! Relaying inside regions: servers that pass the bytes of others on, between circuits and the EPS.
//!
//! An all-to-all asks how its bytes are best divided among one-hop and two-hop ways over the
//! circuits that are there; where that does not pay, all is as without relaying. What is relayed
//! crosses the NVSwitch of the relay, on a link that all that it relays shares, and arrives later
//! by the time of a chunk. Circuits are still those of the allocator, but only where they are
//! faster than those held when both relay.

use super::domain::Domain;
use super::memo::Memo;
use super::{Choice, Circuits};
use crate::fabric::eps::EpsLinks;
use crate::lower::{Bundle, RegionWay};
use crate::medium::{Medium, Wire};
use lightloom_flowsim::LinkId;
use lightloom_model::units::PS_PER_S;
use lightloom_model::{Carrier, Duration, Network, Ocs, Rate, Reconfigure, WorkerId};
use lightloom_schedule::relay::{
    PathKind, RelayCost, RelayPath, RelayRequest, RelayVerdict, Relayed, relay,
};
use lightloom_schedule::{Ahead, Allocation, EpsRates};
use std::sync::Arc;

/// What relaying costs, and the links over which relays pass bytes on.
#[derive(Debug)]
pub struct Relays {
    cost: RelayCost,
    /// Link of each server's NVSwitch; none where it is in no domain.
    staging: Vec<Option<LinkId>>,
    memo: Memo<Arc<Relayed>>,
}

/// What relaying costs in this network, if servers relay.
pub fn cost_of(network: &Network, ocs: &Ocs) -> Option<RelayCost> {
    let relaying = ocs.relaying?;
    let gpu_rate = network.nvswitch.gpu_rate.0;
    Some(RelayCost {
        staging_rate: Some(Rate(gpu_rate.saturating_mul(u64::from(network.gpus_per_server)))),
        chunk_bytes: relaying.chunk_bytes,
        chunk_latency: relaying.chunk_latency,
        memory_limit: None,
    })
}

/// What a relay adds to a transfer: the time of a chunk; nothing if servers do not relay.
pub fn relay_delay(network: &Network, ocs: &Ocs) -> Duration {
    let seconds = cost_of(network, ocs).map_or(0.0, |cost| cost.latency(ocs.nic_rate));
    Duration((seconds * PS_PER_S as f64).round() as u64)
}

impl Relays {
    /// Adds a link per server of the domains.
    pub fn new(
        network: &Network,
        ocs: &Ocs,
        domains: &[Domain],
        share_equal_work: bool,
        medium: &mut Medium,
    ) -> Option<Self> {
        let cost = cost_of(network, ocs)?;
        let rate = cost.staging_rate.expect("an NVSwitch has a rate");
        let mut staging = vec![None; network.servers as usize];
        for &server in domains.iter().flat_map(|domain| &domain.servers) {
            let wire = Wire::Relay { server, delay: relay_delay(network, ocs) };
            staging[server as usize] = Some(medium.add_link(rate, wire));
        }
        Some(Self { cost, staging, memo: Memo::new(share_equal_work) })
    }

    /// The links of all relays, and the rate of each.
    pub fn links(&self) -> (Vec<LinkId>, Rate) {
        let rate = self.cost.staging_rate.expect("an NVSwitch has a rate");
        (self.staging.iter().copied().flatten().collect(), rate)
    }
}

impl Circuits<'_> {
    /// The ways of a group's all-to-all, sorted by sender, if relaying pays.
    pub fn relay(&mut self, group: u32, demand: &[u64]) -> Option<Vec<RegionWay>> {
        let index = self.of_group(group).expect("a group that crosses servers has a domain");
        let size = self.domain(index).size();
        let mut total = vec![0; size * size];
        self.fold(group, demand, &mut total);
        let held = self.domain(index).circuits.clone();
        let found = self.relayed(index, &held, &total)?;
        if found.verdict != RelayVerdict::Pays {
            self.statistics.one_hop += 1;
            return None;
        }
        self.statistics.relayed += 1;
        let mut member_at = vec![0; size];
        for member in 0..self.members {
            let worker = group as usize * self.members + member;
            member_at[self.place[worker] as usize] = member as u32;
        }
        let domain = self.domain(index);
        let mut ways: Vec<RegionWay> =
            found.paths.iter().map(|way| region_way(domain, &member_at, way)).collect();
        ways.sort_by_key(|way| (way.from, way.to));
        Some(ways)
    }

    /// The best division of a demand over some circuits; nothing if servers do not relay. The
    /// all-to-all of a decision asks what the decision asked, and backward passes what forward
    /// passes asked, so equal questions are answered once.
    fn relayed(&mut self, index: u32, circuits: &[u16], demand: &[u64]) -> Option<Arc<Relayed>> {
        let domain = &self.domains[index as usize];
        let Relays { cost, memo, .. } = self.relays.as_mut()?;
        if let Some(known) = memo.known(domain.shape, demand, circuits) {
            return Some(known);
        }
        let found = Arc::new(relay(&RelayRequest {
            servers: domain.size(),
            demand,
            circuits,
            circuit_rate: self.ocs.nic_rate,
            eps_rates: EpsRates::Equal(self.eps_rate),
            cost: *cost,
        }));
        memo.keep(domain.shape, demand, circuits, &found);
        Some(found)
    }

    /// A choice that one-hop times led to, or to hold what is there if that is no slower once both
    /// relay.
    pub(super) fn choose_relayed(&mut self, index: u32, ahead: &[Ahead], choice: Choice) -> Choice {
        let held = self.domain(index).circuits.clone();
        let Some(first) = self.relayed(index, &choice.allocation.circuits, &choice.demand) else {
            return choice;
        };
        let makespan = first.makespan + first.latency;
        let choice = Choice { allocation: Allocation { makespan, ..choice.allocation }, ..choice };
        if choice.allocation.circuits == held {
            return choice;
        }
        let mut sum = |circuits: &[u16]| -> f64 {
            let time = |next: &Ahead| {
                let found = self.relayed(index, circuits, &next.demand).expect("servers relay");
                found.makespan + found.latency
            };
            ahead.iter().map(time).sum()
        };
        let (before, after) = (sum(&held), sum(&choice.allocation.circuits));
        let weighs = matches!(self.ocs.reconfigure, Reconfigure::BreakEven | Reconfigure::Oracle);
        let delay = self.switching().time(&held, &choice.allocation.circuits);
        let exposed = if weighs { delay.0.saturating_sub(ahead[0].hidden.0) } else { 0 };
        if after + exposed as f64 * 1e-12 < before {
            return Choice { saved: before - after, ..choice };
        }
        let found = self.relayed(index, &held, &choice.demand).expect("servers relay");
        let allocation = Allocation {
            circuits: held,
            makespan: found.makespan + found.latency,
            chosen: self.domain(index).chosen,
            ..choice.allocation
        };
        Choice { allocation, saved: 0.0, ..choice }
    }

    /// The links that a relayed transfer takes.
    pub fn relay_links(
        &self,
        group: u32,
        ends: (WorkerId, WorkerId),
        carrier: Carrier,
        eps: &EpsLinks,
    ) -> Vec<LinkId> {
        let Carrier::Relay { server, circuit_in, circuit_out } = carrier else {
            unreachable!("only relayed transfers take a relay")
        };
        let relays = self.relays.as_ref().expect("servers relay");
        let domain = self.domain(self.of_group(group).expect("the group crosses servers"));
        let place = |worker: WorkerId| self.place[worker as usize] as usize;
        let middle = domain.servers.binary_search(&server).expect("a relay is in the domain");
        let mut links = Vec::with_capacity(9);
        let hop = |links: &mut Vec<LinkId>, from: usize, to: usize, circuit: bool| {
            if circuit {
                let link = domain.links[from * domain.size() + to];
                links.push(link.expect("a way takes circuits that are there"));
            } else {
                let path = eps.path((domain.servers[from], 0), (domain.servers[to], 0));
                links.extend_from_slice(path.links());
            }
        };
        hop(&mut links, place(ends.0), middle, circuit_in);
        links.push(relays.staging[server as usize].expect("a relay is in the domain"));
        hop(&mut links, middle, place(ends.1), circuit_out);
        links
    }
}

fn region_way(domain: &Domain, member_at: &[u32], way: &RelayPath) -> RegionWay {
    let (source, destination) = (way.source as usize, way.destination as usize);
    let relay = way.relay.map(|relay| relay as usize);
    let (next, last) = (relay.unwrap_or(destination), relay.unwrap_or(source));
    let bundle = |from: usize, to: usize, peer: usize| Bundle {
        peer: peer as u32,
        circuits: u32::from(domain.circuits[from * domain.size() + to]),
    };
    let circuit_in =
        matches!(way.kind, PathKind::Circuit | PathKind::CircuitCircuit | PathKind::CircuitEps);
    let circuit_out =
        matches!(way.kind, PathKind::Circuit | PathKind::CircuitCircuit | PathKind::EpsCircuit);
    let carrier = match relay {
        Some(relay) => Carrier::Relay { server: domain.servers[relay], circuit_in, circuit_out },
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
