//! The graph of a network, or of some of its servers: NICs, switches, circuits, relays.
//!
//! A packet fabric is a three-tier tree (Al-Fares et al., SIGCOMM 2008), of which only the ToRs and
//! pods of the servers asked for are built, but these as in the whole fabric: a ToR has an uplink
//! to each aggregation switch of its pod, as many as NICs below it, or fewer or slower ones where
//! it is oversubscribed; an aggregation switch has as many uplinks as ToRs below it, and that at
//! position p of every pod meets the others at its own cores. In a rail-optimised fabric the ToR of
//! rail i serves NIC i of its servers. A circuit joins two servers directly. What a server passes
//! on crosses a link inside it, to an inner end and back.

use lightloom_model::{Duration, Eps, Network, Rate};
use lightloom_packetsim::{Cable, LinkId, NicId, NodeId, PacketError, Topology};
use rustc_hash::FxHashMap;

/// Where a server sits in a packet fabric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Its pod.
    pub pod: u32,
    /// Its ToR (rail: set of ToRs), over all pods.
    pub tor: u32,
}

impl Place {
    /// The place of a server; all are in one where there is no packet fabric.
    pub fn of(server: u32, eps: Option<&Eps>) -> Self {
        eps.map_or(Self { pod: 0, tor: 0 }, |eps| Self {
            pod: server / eps.servers_per_pod,
            tor: server / eps.servers_per_tor,
        })
    }
}

/// Links on the shortest path between NICs of two servers, of one rail or of two.
pub fn links_between(from: Place, to: Place, same_rail: bool) -> u64 {
    if from == to && same_rail {
        2
    } else if from.pod == to.pod {
        4
    } else {
        6
    }
}

/// Hosts are servers; links are in the order in which they were asked for.
#[derive(Debug)]
pub struct Plant {
    /// The graph.
    pub topology: Topology,
    hosts: Vec<NodeId>,
    /// NICs of each server on the packet fabric.
    nics: Vec<Vec<NicId>>,
    /// Circuits of each pair, from the smaller number to the larger.
    circuits: FxHashMap<(u32, u32), Vec<LinkId>>,
    /// The way in and out of each server that passes bytes on.
    relays: FxHashMap<u32, [LinkId; 2]>,
}

impl Plant {
    /// Servers at these places, on the packet fabric if there is one.
    pub fn new(network: &Network, places: &[Place]) -> Result<Self, PacketError> {
        let mut topology = Topology::new();
        let hosts: Vec<NodeId> = places.iter().map(|_| topology.add_host()).collect();
        let mut plant = Self {
            topology,
            hosts,
            nics: vec![Vec::new(); places.len()],
            circuits: FxHashMap::default(),
            relays: FxHashMap::default(),
        };
        if let Some(eps) = &network.eps {
            Tree::new(eps, network.servers).build(&mut plant, places)?;
        }
        Ok(plant)
    }

    /// The NICs of a server on the packet fabric.
    pub fn nics(&self, server: u32) -> &[NicId] {
        &self.nics[server as usize]
    }

    /// The links of all circuits that may ever lead from one server to another.
    pub fn circuits(
        &mut self,
        (from, to): (u32, u32),
        most: u32,
        (rate, delay): (Rate, Duration),
    ) -> Result<Vec<LinkId>, PacketError> {
        let (low, high) = (from.min(to), from.max(to));
        let [a, b] = [low, high].map(|server| self.hosts[server as usize]);
        let cable = Cable { rate, delay };
        let links = self.circuits.entry((low, high)).or_default();
        while links.len() < most as usize {
            links.push(self.topology.connect(a, b, cable, ["circuit", "circuit"])?);
        }
        let is_forward = from == low;
        Ok(links.iter().map(|link| if is_forward { *link } else { link.reverse() }).collect())
    }

    /// The links into a server's inner end and back, over which it passes bytes on.
    pub fn relay(
        &mut self,
        server: u32,
        rate: Rate,
        delay: Duration,
    ) -> Result<[LinkId; 2], PacketError> {
        if let Some(links) = self.relays.get(&server) {
            return Ok(*links);
        }
        let inner = self.topology.add_host();
        let half = Cable { rate, delay: Duration(delay.0.div_ceil(2)) };
        let server_host = self.hosts[server as usize];
        let link = self.topology.connect(server_host, inner, half, ["relay in", "relay out"])?;
        let links = [link, link.reverse()];
        self.relays.insert(server, links);
        Ok(links)
    }
}

/// The sizes of a packet fabric.
struct Tree<'a> {
    eps: &'a Eps,
    /// Uplinks of a ToR, and the rate of each; also those of the layers above.
    uplinks: u32,
    uplink_rate: Rate,
    /// ToRs of a full pod.
    tors_per_pod: u32,
    /// ToRs that serve the same servers.
    rails: u32,
}

impl<'a> Tree<'a> {
    fn new(eps: &'a Eps, servers: u32) -> Self {
        let rails = if eps.rail { eps.nics } else { 1 };
        let below = eps.servers_per_tor.min(servers) * (eps.nics / rails);
        let attached = eps.nic_rate.0.saturating_mul(u64::from(below));
        let uplink = eps.tor_uplink.map_or(attached, |rate| rate.0.min(attached));
        // at most `below`
        let uplinks = uplink.div_ceil(eps.nic_rate.0).max(1) as u32;
        let tors_per_pod = eps.servers_per_pod.min(servers).div_ceil(eps.servers_per_tor) * rails;
        let uplink_rate = Rate((uplink / u64::from(uplinks)).max(1));
        Self { eps, uplinks, uplink_rate, tors_per_pod, rails }
    }

    fn build(&self, plant: &mut Plant, places: &[Place]) -> Result<(), PacketError> {
        let mut tors: Vec<(Place, Vec<NodeId>)> = Vec::new();
        for (server, &place) in places.iter().enumerate() {
            let known = tors.iter().position(|(other, _)| *other == place);
            let index = known.unwrap_or_else(|| {
                let nodes = (0..self.rails).map(|_| plant.topology.add_switch()).collect();
                tors.push((place, nodes));
                tors.len() - 1
            });
            for nic in 0..self.eps.nics {
                let id = NicId(plant.topology.nic_count() as u32);
                let tor = tors[index].1[(nic % self.rails) as usize];
                let cable = self.cable(self.eps.nic_rate);
                let host = plant.hosts[server];
                plant.topology.connect(host, tor, cable, ["nic up", "nic down"])?;
                plant.nics[server].push(id);
            }
        }
        if tors.len() > 1 || self.rails > 1 {
            self.join(plant, &tors)?;
        }
        Ok(())
    }

    /// Aggregation switches of each pod, and cores if there are several.
    fn join(&self, plant: &mut Plant, tors: &[(Place, Vec<NodeId>)]) -> Result<(), PacketError> {
        let mut pods: Vec<(u32, Vec<NodeId>)> = Vec::new();
        for (place, nodes) in tors {
            let known = pods.iter().position(|(pod, _)| *pod == place.pod);
            let index = known.unwrap_or_else(|| {
                let above = (0..self.uplinks).map(|_| plant.topology.add_switch()).collect();
                pods.push((place.pod, above));
                pods.len() - 1
            });
            for &tor in nodes {
                for &above in &pods[index].1 {
                    let cable = self.cable(self.uplink_rate);
                    plant.topology.connect(tor, above, cable, ["tor up", "tor down"])?;
                }
            }
        }
        if pods.len() == 1 {
            return Ok(());
        }
        for position in 0..self.uplinks as usize {
            for _ in 0..self.tors_per_pod {
                let core = plant.topology.add_switch();
                for (_, above) in &pods {
                    let cable = self.cable(self.uplink_rate);
                    let names = ["agg up", "agg down"];
                    plant.topology.connect(above[position], core, cable, names)?;
                }
            }
        }
        Ok(())
    }

    /// A connection of this rate inside the fabric.
    fn cable(&self, rate: Rate) -> Cable {
        Cable { rate, delay: self.eps.link_delay }
    }
}
