//! The switches of a packet fabric as packets see them, or those of some of its servers.
//!
//! A packet fabric is a three-tier tree (Al-Fares et al., SIGCOMM 2008), of which only the ToRs and
//! pods of the servers asked for are built, but these as in the whole fabric: a ToR has an uplink
//! to each aggregation switch of its pod, as many as NICs below it, or fewer or slower ones where
//! it is oversubscribed; an aggregation switch has as many uplinks as ToRs below it, and that at
//! position p of every pod meets the others at its own cores. Where several ToRs share the NICs of
//! a server, each serves as many consecutive ones. Planes are separate trees; where every NIC
//! sprays packets over several, each is a copy of the tree with a part of its rates.

use super::eps::Eps;
use crate::packets::{Graph, Place};
use lightloom_model::{Rate, ServerId};
use lightloom_packetsim::{Cable, NodeId, PacketError};

/// The sizes of a packet fabric.
pub(super) struct Tree<'a> {
    eps: &'a Eps,
    /// Uplinks of a ToR, and the rate of each; also those of the layers above.
    uplinks: u64,
    uplink_rate: Rate,
    /// ToRs of a full pod.
    tors_per_pod: u64,
    /// ToRs that serve the same servers, in one plane.
    rails: u32,
}

impl<'a> Tree<'a> {
    pub(super) fn new(eps: &'a Eps, servers: u32) -> Self {
        let rails = eps.rails / eps.planes;
        let below = u64::from(eps.servers_per_tor.min(servers)) * u64::from(eps.nics / eps.rails);
        let attached = eps.nic_rate.0.saturating_mul(below);
        let uplink = eps.tor_uplink.map_or(attached, |rate| rate.0.min(attached));
        // at most `below`
        let uplinks = uplink.div_ceil(eps.nic_rate.0).max(1);
        let tor_places = eps.servers_per_pod.min(servers).div_ceil(eps.servers_per_tor);
        let tors_per_pod = u64::from(tor_places) * u64::from(rails);
        let uplink_rate = Rate((uplink / uplinks).max(1));
        Self { eps, uplinks, uplink_rate, tors_per_pod, rails }
    }

    pub(super) fn connect(&self, graph: &mut Graph, places: &[Place]) -> Result<(), PacketError> {
        // every switch has a link, so that there is room for these, too
        graph.check_room(places.len() as u64 * u64::from(self.eps.nics))?;
        let planes = graph.planes(self.eps.sprayed_planes);
        let mut tors: Vec<(Place, Vec<NodeId>)> = Vec::new();
        for (server, &place) in places.iter().enumerate() {
            let number = tors.iter().position(|(other, _)| *other == place);
            let index = number.unwrap_or_else(|| {
                let nodes = (0..planes)
                    .flat_map(|plane| (0..self.eps.rails).map(move |_| plane).collect::<Vec<_>>());
                let nodes = nodes.map(|plane| graph.add_switch_of(plane)).collect();
                tors.push((place, nodes));
                tors.len() - 1
            });
            for nic in 0..self.eps.nics {
                let rail = nic / (self.eps.nics / self.eps.rails);
                let tor = |plane: u32| tors[index].1[(plane * self.eps.rails + rail) as usize];
                let tors: Vec<NodeId> = (0..planes).map(tor).collect();
                let port = Rate((self.eps.nic_rate.0 / u64::from(planes)).max(1));
                graph.add_nic(ServerId(server as u32), &tors, self.cable(port))?;
            }
        }
        if tors.len() > 1 || self.rails > 1 {
            let share = Rate((self.uplink_rate.0 / u64::from(planes)).max(1));
            for plane in 0..self.eps.planes * planes {
                let first = (plane * self.rails) as usize;
                let own = |(place, nodes): &(Place, Vec<NodeId>)| {
                    (*place, nodes[first..first + self.rails as usize].to_vec())
                };
                let own: Vec<_> = tors.iter().map(own).collect();
                self.join(graph, &own, share, plane / self.eps.planes)?;
            }
        }
        Ok(())
    }

    /// Aggregation switches of each pod of a plane, and cores if there are several.
    fn join(
        &self,
        graph: &mut Graph,
        tors: &[(Place, Vec<NodeId>)],
        uplink_rate: Rate,
        plane: u32,
    ) -> Result<(), PacketError> {
        let switches = tors.len() as u64 * u64::from(self.rails);
        graph.check_room(self.uplinks.saturating_mul(switches))?;
        let mut pods: Vec<(u32, Vec<NodeId>)> = Vec::new();
        for (place, nodes) in tors {
            let number = pods.iter().position(|(pod, _)| *pod == place.pod);
            let index = number.unwrap_or_else(|| {
                let above = (0..self.uplinks).map(|_| graph.add_switch_of(plane)).collect();
                pods.push((place.pod, above));
                pods.len() - 1
            });
            for &tor in nodes {
                for &above in &pods[index].1 {
                    let cable = self.cable(uplink_rate);
                    graph.connect(tor, above, cable, ["tor up", "tor down"])?;
                }
            }
        }
        if pods.len() == 1 {
            return Ok(());
        }
        let cores = self.uplinks.saturating_mul(self.tors_per_pod);
        graph.check_room(cores.saturating_mul(pods.len() as u64))?;
        for position in 0..self.uplinks as usize {
            for _ in 0..self.tors_per_pod {
                let core = graph.add_switch_of(plane);
                for (_, above) in &pods {
                    let cable = self.cable(uplink_rate);
                    graph.connect(above[position], core, cable, ["agg up", "agg down"])?;
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
