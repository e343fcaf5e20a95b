//! Links and paths of the packet fabric.
//!
//! A flow crosses the sender's NICs, the uplink and downlink of the ToRs where these can be a
//! bottleneck, and the receiver's NICs. Above the ToRs the fabric is non-blocking, so pods only
//! lengthen the path: 2 links under one ToR, 4 within a pod, 6 beyond, each with the propagation
//! delay of one link. In a rail-optimised fabric a ToR serves one NIC slot of its servers, and a
//! flow between different slots climbs over the layer above even under one set of ToRs.

use crate::medium::{Medium, Wire};
use lightloom_flowsim::LinkId;
use lightloom_model::{Duration, Eps, Failures, Rate};

/// A NIC slot of a server.
pub type Port = (u32, u16);

/// Links that a flow crosses; unused entries repeat the last.
#[derive(Debug, Clone, Copy)]
pub struct EpsPath {
    links: [LinkId; 4],
    count: usize,
}

impl EpsPath {
    /// The links in order.
    pub fn links(&self) -> &[LinkId] {
        &self.links[..self.count]
    }
}

/// The links of a packet fabric.
#[derive(Debug)]
pub struct EpsLinks {
    config: Eps,
    slots: u32,
    /// Per server and slot.
    pub up: Vec<LinkId>,
    /// Per server and slot.
    pub down: Vec<LinkId>,
    /// Per ToR (rail: per set of ToRs and slot); empty where they cannot be a bottleneck.
    pub tor_up: Vec<LinkId>,
    /// As `tor_up`.
    pub tor_down: Vec<LinkId>,
    /// Rate of each of `up` and `down`: that of the NICs of the slot, less the part of the server's
    /// NICs that has failed, over whose other NICs all of its slots are spread.
    pub slot_rates: Vec<Rate>,
    /// Rate of `tor_up` and `tor_down`.
    pub tor_rate: Rate,
}

impl EpsLinks {
    /// Adds the links of all servers and ToRs.
    pub fn new(
        config: &Eps,
        failures: &Failures,
        (servers, slots): (u32, u32),
        medium: &mut Medium,
    ) -> Self {
        let nics_per_slot = u64::from(config.nics / slots);
        let slot_rate = Rate(config.nic_rate.0.saturating_mul(nics_per_slot));
        let mut slot_rates = vec![slot_rate; (servers * slots) as usize];
        // A failed server's spare has all of its NICs on this fabric.
        let nics = Failures { servers: Vec::new(), ..failures.clone() };
        for &(server, _) in &nics.eps_nics {
            let rate = nics.eps_rate(server, slot_rate, config.nics);
            slot_rates[(server * slots) as usize..][..slots as usize].fill(rate);
        }
        let of_slots = |wire: fn(u32, u16) -> Wire, medium: &mut Medium| {
            let ports = (0..servers * slots).zip(&slot_rates);
            let wires =
                ports.map(|(port, &rate)| (rate, wire(port / slots, (port % slots) as u16)));
            wires.map(|(rate, wire)| medium.add_link(rate, wire)).collect()
        };
        let up = of_slots(|server, slot| Wire::Up { server, slot }, medium);
        let down = of_slots(|server, slot| Wire::Down { server, slot }, medium);
        let tors = servers.div_ceil(config.servers_per_tor);
        let (tor_count, tor_rate, attached) = Self::tor_links(config, slots, tors);
        let needed = tors > 1 && tor_rate.0 < attached;
        let cross_rail = config.rail && slots > 1 && tor_rate.0 < attached;
        let count = if needed || cross_rail { tor_count } else { 0 };
        let mut switches = || (0..count).map(|_| medium.add_link(tor_rate, Wire::Switch)).collect();
        let (tor_up, tor_down) = (switches(), switches());
        Self { config: config.clone(), slots, up, down, tor_up, tor_down, slot_rates, tor_rate }
    }

    /// Number of ToR links, the rate of each, and the rate of the NICs below each.
    fn tor_links(config: &Eps, slots: u32, tors: u32) -> (u32, Rate, u64) {
        let below = config.nic_rate.0.saturating_mul(u64::from(config.servers_per_tor));
        let nics = u64::from(config.nics);
        let uplink = config.tor_uplink.map_or(u64::MAX, |rate| rate.0);
        if config.rail {
            // One ToR per NIC; those of a slot act as one.
            let per_slot = nics / u64::from(slots);
            (tors * slots, Rate(uplink.saturating_mul(per_slot)), below.saturating_mul(per_slot))
        } else {
            (tors, Rate(uplink), below.saturating_mul(nics))
        }
    }

    fn tor(&self, port: Port) -> u32 {
        let set = port.0 / self.config.servers_per_tor;
        if self.config.rail { set * self.slots + u32::from(port.1) } else { set }
    }

    /// The links from one port to another.
    pub fn path(&self, from: Port, to: Port) -> EpsPath {
        let up = self.up[(from.0 * self.slots + u32::from(from.1)) as usize];
        let down = self.down[(to.0 * self.slots + u32::from(to.1)) as usize];
        let (source, destination) = (self.tor(from), self.tor(to));
        if source == destination || self.tor_up.is_empty() {
            return EpsPath { links: [up, down, down, down], count: 2 };
        }
        let tor_up = self.tor_up[source as usize];
        let tor_down = self.tor_down[destination as usize];
        EpsPath { links: [up, tor_up, tor_down, down], count: 4 }
    }

    /// Propagation from one port to another.
    pub fn latency(&self, from: Port, to: Port) -> Duration {
        let pod = |port: Port| port.0 / self.config.servers_per_pod;
        let links = if self.tor(from) == self.tor(to) {
            2
        } else if pod(from) == pod(to) {
            4
        } else {
            6
        };
        Duration(self.config.link_delay.0.saturating_mul(links))
    }
}
