//! Circuits of regions, which change by decisions taken during the run (MixNet).
//!
//! They carry all-to-alls, and of these what the routing over the circuits held assigns to them;
//! everything else, and pairs without circuits, is left to the packet fabric below. Where servers
//! relay, bytes may take two hops, over circuits and the packet fabric in any combination.
//!
//! Which circuits are held, and when they change, is up to [`Circuits`]; here are their
//! description, and their paths.

use crate::circuits::{Circuits, RegionHop, RegionPath, relay_delay};
use crate::error::ExecuteError;
use crate::links::LinkUse;
use crate::network::{
    AllToAllDemand, Below, Division, Links, Lowering, Network, NetworkPart, NicGroups, Pair,
    PartConfig, Path, Setting, positive,
};
use crate::ocs::Ocs;
use crate::packets::Extent;
use lightloom_flowsim::LinkId;
use lightloom_model::{Duration, Failures, Invalid, Rate, ServerId, Time};
use std::sync::Arc;

/// Maximum number of optical links of a server: searches for circuits join them one by one.
const MAX_PORTS: u32 = 256;

impl PartConfig for Ocs {
    fn name(&self) -> &'static str {
        "ocs"
    }

    fn validate(&self, network: &Network, below: &[Arc<dyn PartConfig>]) -> Result<(), Invalid> {
        positive("ocs.nic_rate", self.nic_rate)?;
        if self.ports > MAX_PORTS {
            return Err(Invalid(format!(
                "ocs.ports = {}: expected at most {MAX_PORTS}",
                self.ports
            )));
        }
        if self.region_of_server.len() != network.servers as usize {
            return Err(Invalid::new("ocs.region_of_server needs one entry per server"));
        }
        let Some(fabric) = below.iter().find_map(|part| part.packet_fabric()) else {
            return Err(Invalid::new("ocs needs an eps before it, for pairs without circuits"));
        };
        let (nics, rate) = fabric.links();
        self.failures.validate(&vec![self.ports; network.servers as usize], nics)?;
        for &(server, _) in &self.failures.eps_nics {
            let failed = Failures { servers: Vec::new(), ..self.failures.clone() };
            if failed.eps_rate(server, rate, nics) == Rate(0) {
                return Err(Invalid(format!(
                    "failed EPS NICs: all {nics} of server {server}, expected one that works"
                )));
            }
        }
        Ok(())
    }

    fn extent(&self, network: &Network, below: Duration) -> Extent {
        let relayed = 2 * self.circuit_delay.0.max(below.0) + relay_delay(network, self).0;
        let delay = if self.relaying.is_some() { relayed } else { self.circuit_delay.0 };
        Extent { rate: self.nic_rate, delay: Duration(delay) }
    }

    fn decided_circuits(&self) -> Option<&Ocs> {
        Some(self)
    }

    fn build(
        &self,
        _setting: &mut Setting<'_>,
    ) -> Result<Option<Box<dyn NetworkPart>>, ExecuteError> {
        Ok(None)
    }
}

/// A hop over circuits or the packet fabric: its links, latency and NICs.
struct Hop {
    links: Vec<LinkId>,
    path: Path,
}

impl Circuits<'_> {
    /// The path over the circuits of a pair, of which there are `count`.
    fn circuit_path(&self, count: u32) -> Path {
        Path {
            part: self.id,
            latency: self.ocs.circuit_delay,
            relays: 0,
            sending_nics: count,
            receiving_nics: count,
            forwarding_gpus: 0,
        }
    }

    /// Divides each pair as the routing over the circuits held has it.
    fn lower_direct(
        &self,
        all_to_all: &AllToAllDemand<'_>,
        below: Below<'_>,
        lowering: &mut Lowering,
    ) {
        let group = all_to_all.group.0;
        let (eps_bytes, counts) = self.route(group, all_to_all.demand);
        let members = all_to_all.size();
        for from in 0..members {
            for (to, bytes) in all_to_all.remote(from) {
                let cell = (from * members + to) as usize;
                lowering.divide(from, to, |division| {
                    let over_eps = eps_bytes[cell];
                    if bytes > over_eps {
                        let link = self.link(group, from, to);
                        let link = link.expect("bytes take circuits that may be");
                        let path = self.circuit_path(u32::from(counts[cell]));
                        division.push(path, &[link], bytes - over_eps);
                    }
                    if over_eps > 0 {
                        below.divide(&all_to_all.pair(from, to), over_eps, division);
                    }
                });
            }
            lowering.end_sender();
        }
    }

    /// Over one hop or two; `paths` are sorted by sender.
    fn lower_relayed(
        &self,
        all_to_all: &AllToAllDemand<'_>,
        paths: &[RegionPath],
        below: Below<'_>,
        lowering: &mut Lowering,
    ) {
        let group = all_to_all.group.0;
        let mut scratch = Division::default();
        let mut rest = paths;
        for from in 0..all_to_all.size() {
            let (own, others) = rest.split_at(rest.partition_point(|path| path.from == from));
            rest = others;
            for RegionPath { to, bytes, first, second, .. } in own {
                let mut hop = self.hop(group, first, below, &mut scratch);
                if let Some(second) = second {
                    let last = self.hop(group, second, below, &mut scratch);
                    hop.links.push(self.relay_link(group, first));
                    hop.links.extend(last.links);
                    hop.path.latency = hop.path.latency + self.relay_delay + last.path.latency;
                    hop.path.relays = 1;
                    hop.path.receiving_nics = last.path.receiving_nics;
                }
                lowering.divide(from, *to, |division| {
                    division.push(hop.path, &hop.links, *bytes);
                });
            }
            lowering.end_sender();
        }
    }

    fn hop(&self, group: u32, hop: &RegionHop, below: Below<'_>, scratch: &mut Division) -> Hop {
        let region = self.region(self.of_group(group).expect("the group crosses servers"));
        let cell = hop.from * region.size() + hop.to;
        if hop.over_circuits {
            let link = region.links[cell].expect("a path takes circuits that are there");
            let count = u32::from(region.held.circuits[cell]);
            return Hop { links: vec![link], path: self.circuit_path(count) };
        }
        let nics = |place: usize| {
            let server = ServerId(region.servers[place]);
            NicGroups { server, first: 0, count: 1 }
        };
        scratch.clear();
        below.divide(&Pair { from: nics(hop.from), to: nics(hop.to) }, 1, scratch);
        let path = scratch.shares[0].path;
        Hop { links: scratch.paths.links(path).to_vec(), path: *scratch.paths.path(path) }
    }
}

impl NetworkPart for Circuits<'_> {
    /// Circuits carry all-to-alls alone.
    fn divide(&self, pair: &Pair, bytes: u64, below: Below<'_>, division: &mut Division) {
        below.divide(pair, bytes, division);
    }

    fn lower_all_to_all(
        &mut self,
        all_to_all: &AllToAllDemand<'_>,
        below: Below<'_>,
        lowering: &mut Lowering,
    ) {
        match self.relay(all_to_all.group.0, all_to_all.demand) {
            Some(paths) => self.lower_relayed(all_to_all, &paths, below, lowering),
            None => self.lower_direct(all_to_all, below, lowering),
        }
    }

    fn link_use(&mut self, end: Time, links: &Links) -> Vec<LinkUse> {
        let circuits = self.end(end, links);
        std::iter::once(circuits).chain(self.relay_use(end, links)).collect()
    }
}
