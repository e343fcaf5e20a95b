//! Paths of a dragonfly that are not shortest (Kim et al., ISCA 2008).
//!
//! A packet to another group may go to a third one first, that of a NIC drawn by the hash of its
//! flow and path, and from there on by the shortest path. With Valiant routing each does so. With
//! UGAL its first switch compares the queues, times the number of links, of both paths: UGAL-L its
//! own queues, UGAL-G also those of the links that leave the group, which a real switch does not
//! know.
//!
//! Where a packet is says which part of its path it is on: the detour is over once it has left its
//! group.

use super::flows::RouteKey;
use super::routing::Routing;
use crate::config::{Balancing, Config};
use crate::error::PacketError;
use crate::flow::Endpoints;
use crate::hash::mix;
use crate::packet::{DETOUR, Packet};
use crate::topology::{Dragonfly, NicId, NodeId, PacketLinkId, Topology};

const NO_SWITCH: u32 = u32::MAX;

/// What a switch knows of one of two paths of a packet.
#[derive(Debug, Clone, Default)]
pub(super) struct KnownPath {
    /// The links whose queues are read.
    pub(super) read: Vec<PacketLinkId>,
    /// Links to the receiving NIC.
    pub(super) length: u32,
}

/// A detour of a packet at a switch of its first group.
#[derive(Debug, Clone)]
pub(super) struct Detour {
    /// A NIC of the group that it goes to first.
    pub(super) to: NicId,
    /// Whether the switch is to decide by these paths; else the packet takes the detour.
    pub(super) is_open: bool,
    pub(super) minimal: KnownPath,
    pub(super) other: KnownPath,
}

/// The dragonfly, and which packets leave its shortest paths.
#[derive(Debug, Clone)]
pub(super) struct Detours {
    balancing: Balancing,
    shape: Dragonfly,
    /// NICs of a plane.
    nics: u32,
    /// Per node the index of a switch in its plane, or [`NO_SWITCH`].
    switches: Vec<u32>,
}

impl Detours {
    /// The detours of a configuration, if it has any.
    ///
    /// # Errors
    /// If switches would pause links of a dragonfly, or packets take detours elsewhere.
    pub(super) fn new(config: &Config, topology: &Topology) -> Result<Option<Self>, PacketError> {
        let Some((shape, routers)) = topology.dragonfly() else {
            if config.has_detours() {
                let text = "the routings valiant, ugal-l and ugal-g are for a dragonfly; choose \
                            ecmp, adaptive or flowlet";
                return Err(PacketError::invalid(text));
            }
            return Ok(None);
        };
        if config.pfc.is_some() {
            return Err(PacketError::invalid(
                "links of a dragonfly that pause (PFC) wait for one another without virtual \
                 channels, which are not modeled; turn PFC off (--pfc off)",
            ));
        }
        if !config.has_detours() {
            return Ok(None);
        }
        let mut switches = vec![NO_SWITCH; topology.node_count()];
        for &(node, index) in routers {
            switches[node.index()] = index;
        }
        let hosts = (0..topology.node_count() as u32).filter(|&it| topology.is_host(NodeId(it)));
        let nics = hosts.count() as u32;
        Ok(Some(Self { balancing: config.balancing, shape, nics, switches }))
    }

    /// The switch of a NIC, by its index in the plane.
    fn switch_of(&self, nic: NicId) -> u32 {
        nic.0 % self.nics / self.shape.hosts_per_switch
    }

    /// The group of a NIC in its plane.
    fn group_of(&self, nic: NicId) -> u32 {
        self.switch_of(nic) / self.shape.switches_per_group
    }

    /// A NIC of a third group of the plane, by hash; none if there is no such group or both ends
    /// are in one.
    fn via(&self, from: NicId, to: NicId, entropy: u64) -> Option<NicId> {
        let groups = [self.group_of(from), self.group_of(to)];
        let size = self.shape.hosts_per_switch * self.shape.switches_per_group;
        let span = |group: u32| (group * size, (group * size + size).min(self.nics));
        let mut spans = groups.map(span);
        spans.sort_unstable();
        let inside = spans.iter().map(|(begin, end)| end - begin).sum::<u32>();
        if groups[0] == groups[1] || inside >= self.nics {
            return None;
        }
        let hash = mix(entropy ^ 0x76_616c_6961_6e74) >> 32;
        let mut nic = ((hash * u64::from(self.nics - inside)) >> 32) as u32;
        for (begin, end) in spans {
            if nic >= begin {
                nic += end - begin;
            }
        }
        Some(NicId(from.0 / self.nics * self.nics + nic))
    }

    /// The detour of a packet at a node that it reached over a link, if it may take or takes one.
    pub(super) fn at(
        &self,
        topology: &Topology,
        routing: &Routing,
        node: NodeId,
        over: PacketLinkId,
        key: RouteKey,
        packet: &Packet,
    ) -> Option<Detour> {
        let is_forward = packet.kind.is_forward();
        let [from, to] = [!is_forward, is_forward].map(|it| key.endpoints.target(it));
        let switch = self.switches[node.index()];
        // A packet that comes back after failures goes straight on.
        let is_first_group = switch != NO_SWITCH
            && switch / self.shape.switches_per_group == self.group_of(from)
            && !topology.is_global(over);
        if !is_first_group {
            return None;
        }
        let entropy = key.entropy(packet.path, is_forward);
        let via = self.via(from, to, entropy)?;
        routing.next(node, via, entropy)?;
        let certain = Detour {
            to: via,
            is_open: false,
            minimal: KnownPath::default(),
            other: KnownPath::default(),
        };
        if self.balancing == Balancing::Valiant || packet.flags & DETOUR != 0 {
            return Some(certain);
        }
        if switch != self.switch_of(from) {
            return None;
        }
        let straight = self.walk(topology, routing, node, to, to, entropy)?;
        let around = self.walk(topology, routing, node, via, to, entropy)?;
        let [minimal, other] = [straight, around].map(|links| self.known_path(topology, &links));
        Some(Detour { is_open: true, minimal, other, ..certain })
    }

    /// What a switch knows of a path that begins with these links.
    fn known_path(&self, topology: &Topology, links: &[PacketLinkId]) -> KnownPath {
        let out = links.iter().position(|&link| topology.is_global(link)).unwrap_or(0);
        let read = match self.balancing {
            Balancing::UgalGlobal => links[..=out].to_vec(),
            _ => links[..1].to_vec(),
        };
        KnownPath { read, length: links.len() as u32 }
    }

    /// The links from a node towards a NIC until its group, and from there to another one.
    fn walk(
        &self,
        topology: &Topology,
        routing: &Routing,
        mut node: NodeId,
        via: NicId,
        to: NicId,
        entropy: u64,
    ) -> Option<Vec<PacketLinkId>> {
        let mut links = Vec::new();
        let mut heading = via;
        loop {
            let switch = self.switches[node.index()];
            if switch != NO_SWITCH && switch / self.shape.switches_per_group == self.group_of(via) {
                heading = to;
            }
            let link = routing.next(node, heading, entropy)?;
            links.push(link);
            node = topology.links()[link.index()].to;
            if topology.is_host(node) {
                return Some(links);
            }
        }
    }

    /// The links of a path with a detour from NIC to NIC, if there is one.
    pub(super) fn path(
        &self,
        topology: &Topology,
        routing: &Routing,
        endpoints: Endpoints,
        entropy: u64,
    ) -> Option<Vec<PacketLinkId>> {
        let via = self.via(endpoints.source(), endpoints.destination(), entropy)?;
        let uplink = topology.uplink(endpoints.source());
        let first = topology.links()[uplink.index()].to;
        let to = endpoints.destination();
        let rest = self.walk(topology, routing, first, via, to, entropy)?;
        Some([vec![uplink], rest].concat())
    }
}
