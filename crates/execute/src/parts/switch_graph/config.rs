//! The description of packet switches that are joined in any way.

use crate::network::{Network, PacketFabric, positive};
use crate::packets::{Extent, Graph, Place};
use lightloom_model::{Duration, Invalid, Rate, ServerId};
use lightloom_packetsim::{Cable, NodeId, PacketError};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::sync::OnceLock;

/// Switches, and bundles between them, that memory holds.
const MAX_SWITCHES: u32 = 1 << 20;
/// Parallel links of two switches: as packets each is a link.
const MAX_PARALLEL: u32 = 1 << 10;
/// Links between switches on a path from the first server's switch.
const MAX_HOPS: u32 = 64;

/// Parallel links between two switches, duplex.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(from = "[u64; 6]")]
pub struct Bundle {
    /// One end.
    pub a: u32,
    /// The other end.
    pub b: u32,
    /// Number of links.
    pub count: u32,
    /// Rate of each.
    pub rate: Rate,
    /// Propagation delay of each.
    pub delay: Duration,
    /// Which of the layers they are of.
    pub layer: u32,
}

impl From<[u64; 6]> for Bundle {
    fn from([a, b, count, rate, delay, layer]: [u64; 6]) -> Self {
        let [a, b, count, layer] =
            [a, b, count, layer].map(|value| u32::try_from(value).unwrap_or(u32::MAX));
        Self { a, b, count, rate: Rate(rate), delay: Duration(delay), layer }
    }
}

/// Packet switches that are joined in any way, with the NICs of all servers on them.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct SwitchGraph {
    /// NICs of each server.
    pub nics: u32,
    /// Links of each NIC, over which it spreads its bytes evenly.
    pub ports: u32,
    /// Rate of each of these links.
    #[serde(rename = "port_rate_bps")]
    pub port_rate: Rate,
    /// Propagation delay of each.
    #[serde(rename = "port_delay_ps")]
    pub port_delay: Duration,
    /// Number of switches.
    pub switches: u32,
    /// The switch at the other end of each link of each NIC, server by server.
    pub switch_of_port: Vec<u32>,
    /// What joins the switches.
    pub bundles: Vec<Bundle>,
    /// Names of the layers in results, from the first end of a bundle to the second and back.
    pub layers: Vec<(String, String)>,
    /// Share of the rate between switches that fluid flows reach, as some of them collide where
    /// others are idle. Packets are spread as their transport spreads them.
    pub reached: f64,
    /// Links of servers that join nothing, as (server, link): failed, or to a switch that has. What
    /// would cross them is spread over the others of both servers.
    #[serde(default)]
    pub failed: BTreeSet<(u32, u32)>,
    /// Hops from the first server's switch to the farthest one.
    #[serde(skip)]
    pub(super) farthest: OnceLock<u32>,
}

impl SwitchGraph {
    /// Links of each server.
    pub(super) fn server_ports(&self) -> usize {
        (self.nics * self.ports) as usize
    }

    /// The switches that a server's links lead to.
    pub(super) fn switches_of(&self, server: ServerId) -> &[u32] {
        let count = self.server_ports();
        &self.switch_of_port[server.index() * count..][..count]
    }

    /// What each switch is joined to, and by what.
    pub(super) fn neighbors(&self) -> Vec<Vec<(u32, Bundle)>> {
        let mut neighbors = vec![Vec::new(); self.switches as usize];
        for bundle in &self.bundles {
            neighbors[bundle.a as usize].push((bundle.b, *bundle));
            neighbors[bundle.b as usize].push((bundle.a, *bundle));
        }
        neighbors
    }

    /// Hops from the first server's switch to the farthest one that it reaches.
    fn farthest(&self) -> u32 {
        *self.farthest.get_or_init(|| {
            let neighbors = self.neighbors();
            let hops = distances(&neighbors, self.switch_of_port[0]);
            hops.into_iter().filter(|&hops| hops != u32::MAX).max().unwrap_or(0)
        })
    }

    fn check_bundle(&self, bundle: &Bundle) -> Result<(), Invalid> {
        let Bundle { a, b, count, rate, layer, .. } = *bundle;
        if a >= self.switches || b >= self.switches || a == b {
            return Err(Invalid(format!("switches: {a} - {b} are no two switches")));
        }
        if count == 0 || count > MAX_PARALLEL {
            return Err(Invalid(format!(
                "switches: {count} links {a} - {b}: expected 1 to {MAX_PARALLEL}"
            )));
        }
        if layer as usize >= self.layers.len() {
            return Err(Invalid(format!("switches: no layer {layer} of {a} - {b}")));
        }
        positive("switches.rate", rate)
    }
}

/// Hops from one switch to every other one; the largest number where there is no way.
fn distances(neighbors: &[Vec<(u32, Bundle)>], from: u32) -> Vec<u32> {
    let mut hops = vec![u32::MAX; neighbors.len()];
    hops[from as usize] = 0;
    let mut reached = vec![from];
    let mut next = 0;
    while let Some(&switch) = reached.get(next) {
        next += 1;
        for &(other, _) in &neighbors[switch as usize] {
            if hops[other as usize] == u32::MAX {
                hops[other as usize] = hops[switch as usize] + 1;
                reached.push(other);
            }
        }
    }
    hops
}

impl SwitchGraph {
    /// Checks the description for so many servers.
    pub(super) fn check(&self, servers: u32) -> Result<(), Invalid> {
        positive("switches.port_rate", self.port_rate)?;
        if self.nics == 0 || self.ports == 0 || servers == 0 {
            return Err(Invalid::new("switches: nics, their ports and servers must be above 0"));
        }
        if self.switches == 0 || self.switches > MAX_SWITCHES {
            return Err(Invalid(format!(
                "switches: {} of them, expected 1 to {MAX_SWITCHES}",
                self.switches
            )));
        }
        let expected = u64::from(servers) * u64::from(self.nics) * u64::from(self.ports);
        if self.switch_of_port.len() as u64 != expected {
            return Err(Invalid(format!(
                "switches: {} links of servers, expected {expected}",
                self.switch_of_port.len()
            )));
        }
        if let Some(switch) = self.switch_of_port.iter().find(|&&switch| switch >= self.switches) {
            return Err(Invalid(format!("switches: a server is on switch {switch}, not there")));
        }
        let ports = self.server_ports() as u32;
        let outside = |&&(server, link): &&(u32, u32)| server >= servers || link >= ports;
        if let Some((server, link)) = self.failed.iter().find(outside) {
            return Err(Invalid(format!(
                "switches: link {link} of server {server} has failed, which is not there"
            )));
        }
        if !(self.reached > 0.0 && self.reached <= 1.0) {
            return Err(Invalid(format!(
                "switches: reached = {}: expected above 0, to 1",
                self.reached
            )));
        }
        self.bundles.iter().try_for_each(|bundle| self.check_bundle(bundle))?;
        if self.farthest() > MAX_HOPS {
            return Err(Invalid(format!(
                "switches: a path has {} links, expected at most {MAX_HOPS}",
                self.farthest()
            )));
        }
        Ok(())
    }

    /// What transports are configured for: three tiers at least, as for a tree.
    pub(super) fn reach(&self) -> Extent {
        let between = self.bundles.iter().map(|bundle| bundle.delay.0).max().unwrap_or(0);
        let path = 2 * self.port_delay.0 + u64::from(self.farthest()) * between;
        Extent { rate: self.port_rate, delay: Duration(path.max(6 * self.port_delay.0)) }
    }
}

impl PacketFabric for SwitchGraph {
    fn nics(&self) -> (u32, Rate) {
        (self.nics, Rate(self.port_rate.0.saturating_mul(u64::from(self.ports))))
    }

    fn links(&self) -> (u32, Rate) {
        (self.server_ports() as u32, self.port_rate)
    }

    fn tors(&self) -> u32 {
        let mut first: Vec<u32> = self.switches_of(ServerId(0)).to_vec();
        first.dedup();
        let runs = first.len() as u32;
        if self.ports == 1 && self.nics.is_multiple_of(runs) { runs } else { self.nics }
    }

    fn lacks_nics(&self) -> bool {
        !self.failed.is_empty()
    }

    /// Each server has a place of its own: what is behind it may be like no other.
    fn place(&self, server: ServerId) -> Place {
        Place { pod: 0, tor: server.0 }
    }

    fn tells_places_apart(&self) -> bool {
        true
    }

    /// About: as far as the farthest switch, where servers share none.
    fn hops(&self, from: Place, to: Place, _same_group: bool) -> u64 {
        let [from, to] = [from, to].map(|place| self.switches_of(ServerId(place.tor))[0]);
        if from == to { 2 } else { 2 + u64::from(self.farthest()) }
    }

    /// Of the switches, those on shortest paths between the servers.
    fn connect(
        &self,
        _network: &Network,
        places: &[Place],
        graph: &mut Graph,
    ) -> Result<(), PacketError> {
        graph.check_room(places.len() as u64 * self.server_ports() as u64)?;
        let mut nodes: Vec<Option<NodeId>> = vec![None; self.switches as usize];
        let mut attached = Vec::new();
        let own = Cable { rate: self.port_rate, delay: self.port_delay };
        for (server, place) in (0..).map(ServerId).zip(places) {
            for &switch in self.switches_of(ServerId(place.tor)) {
                let node = *nodes[switch as usize].get_or_insert_with(|| {
                    attached.push(switch);
                    graph.add_switch()
                });
                graph.add_nic(server, &[node], own)?;
            }
        }
        let between = self.between(&attached);
        for (node, _) in nodes.iter_mut().zip(&between).filter(|(_, used)| **used) {
            node.get_or_insert_with(|| graph.add_switch());
        }
        let links = self.bundles.iter().filter_map(|bundle| {
            let ends = [bundle.a, bundle.b];
            let used = ends.iter().all(|&end| between[end as usize]);
            used.then(|| (ends.map(|end| nodes[end as usize]), bundle))
        });
        for (ends, bundle) in links {
            let [Some(a), Some(b)] = ends else { continue };
            graph.check_room(u64::from(bundle.count))?;
            let cable = Cable { rate: bundle.rate, delay: bundle.delay };
            let (up, down) = &self.layers[bundle.layer as usize];
            for _ in 0..bundle.count {
                graph.connect(a, b, cable, [up, down])?;
            }
        }
        Ok(())
    }
}

impl SwitchGraph {
    /// Which switches are on shortest paths between these, or are these where there are several.
    fn between(&self, attached: &[u32]) -> Vec<bool> {
        let neighbors = self.neighbors();
        let mut used = vec![false; neighbors.len()];
        for &root in attached {
            let hops = distances(&neighbors, root);
            let mut marked = vec![false; neighbors.len()];
            let mut open: Vec<u32> = attached.to_vec();
            open.retain(|&switch| switch != root && hops[switch as usize] != u32::MAX);
            while let Some(switch) = open.pop() {
                if std::mem::replace(&mut marked[switch as usize], true) {
                    continue;
                }
                used[switch as usize] = true;
                let nearer = neighbors[switch as usize].iter().map(|&(other, _)| other);
                open.extend(nearer.filter(|&other| {
                    hops[other as usize].checked_add(1) == Some(hops[switch as usize])
                }));
            }
        }
        used
    }
}
