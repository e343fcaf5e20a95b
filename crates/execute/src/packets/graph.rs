//! The graph of a network, or of some of its servers: NICs, switches, circuits, relays.
//!
//! The packet fabric adds its switches and NICs itself (see [`crate::network::PacketFabric`]). A
//! circuit joins two servers directly. What a server passes on crosses a link inside it, to an
//! inner end and back.

use lightloom_model::{Duration, ServerId};
use lightloom_packetsim::{Cable, NicId, NodeId, PacketError, PacketLinkId, Topology};
use rustc_hash::FxHashMap;

/// Where a packet fabric has a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Place {
    /// Its pod.
    pub pod: u32,
    /// Its ToR (rail: set of ToRs), over all pods.
    pub tor: u32,
}

/// Hosts are servers; links are in the order in which they were added.
#[derive(Debug)]
pub struct Graph {
    topology: Topology,
    hosts: Vec<NodeId>,
    /// NICs of each server on the packet fabric.
    nics: Vec<Vec<NicId>>,
    /// Circuits of each pair, from the smaller server to the larger.
    circuits: FxHashMap<(ServerId, ServerId), Vec<PacketLinkId>>,
    /// The path in and out of each server that passes bytes on.
    relays: FxHashMap<ServerId, [PacketLinkId; 2]>,
}

impl Graph {
    /// So many servers that nothing joins yet.
    pub(crate) fn new(servers: usize) -> Self {
        let mut topology = Topology::new();
        let hosts = (0..servers).map(|_| topology.add_host()).collect();
        Self {
            topology,
            hosts,
            nics: vec![Vec::new(); servers],
            circuits: FxHashMap::default(),
            relays: FxHashMap::default(),
        }
    }

    /// Adds a switch.
    pub fn add_switch(&mut self) -> NodeId {
        self.topology.add_switch()
    }

    /// Adds a NIC of a server on the packet fabric, connected to a switch.
    ///
    /// # Errors
    /// If the graph is too large.
    pub fn add_nic(
        &mut self,
        server: ServerId,
        switch: NodeId,
        cable: Cable,
    ) -> Result<(), PacketError> {
        let nic = NicId(self.topology.nic_count() as u32);
        self.connect(self.hosts[server.index()], switch, cable, ["nic up", "nic down"])?;
        self.nics[server.index()].push(nic);
        Ok(())
    }

    /// Connects two nodes by a link each way.
    ///
    /// # Errors
    /// If the graph is too large.
    pub fn connect(
        &mut self,
        a: NodeId,
        b: NodeId,
        cable: Cable,
        layers: [&str; 2],
    ) -> Result<(), PacketError> {
        self.topology.connect(a, b, cable, layers).map(|_| ())
    }

    /// The graph as the simulator takes it.
    pub(super) fn topology(&self) -> &Topology {
        &self.topology
    }

    /// A group of the NICs of a server on the packet fabric; groups are of `count` each.
    pub(super) fn nics(&self, server: ServerId, group: u16, count: u32) -> &[NicId] {
        let count = count as usize;
        &self.nics[server.index()][usize::from(group) * count..][..count]
    }

    /// The links of all circuits that may ever lead from one server to another.
    pub(super) fn circuits(
        &mut self,
        from: ServerId,
        to: ServerId,
        members: u32,
        cable: Cable,
    ) -> Result<Vec<PacketLinkId>, PacketError> {
        let (low, high) = (from.min(to), from.max(to));
        let [a, b] = [low, high].map(|server| self.hosts[server.index()]);
        let links = self.circuits.entry((low, high)).or_default();
        while links.len() < members as usize {
            links.push(self.topology.connect(a, b, cable, ["circuit", "circuit"])?);
        }
        let is_forward = from == low;
        Ok(links.iter().map(|link| if is_forward { *link } else { link.reverse() }).collect())
    }

    /// The links into a server's inner end and back, over which it passes bytes on.
    pub(super) fn relay(
        &mut self,
        server: ServerId,
        cable: Cable,
    ) -> Result<[PacketLinkId; 2], PacketError> {
        if let Some(links) = self.relays.get(&server) {
            return Ok(*links);
        }
        let inner = self.topology.add_host();
        let half = Cable { delay: Duration(cable.delay.0.div_ceil(2)), ..cable };
        let host = self.hosts[server.index()];
        let link = self.topology.connect(host, inner, half, ["relay in", "relay out"])?;
        let links = [link, link.reverse()];
        self.relays.insert(server, links);
        Ok(links)
    }
}
