//! Switches that choose among equal paths by load, packet by packet or flowlet by flowlet.
//!
//! A flowlet is packets of a flow that follow one another closely: as long as the gap between them
//! is longer than paths differ, it may take another path without overtaking what came before
//! (CONGA, Alizadeh et al., SIGCOMM 2014). A NIC with ports on several planes chooses among these
//! by load, however switches choose.
//!
//! Assumes that a switch knows its own queues alone, and these exactly.

use super::fabric::Fabric;
use crate::config::{Balancing, Config};
use crate::flow::PacketFlowId;
use crate::packet::Packet;
use crate::topology::{NodeId, PacketLinkId, Topology};
use lightloom_model::{Bytes, Duration, Time};
use rustc_hash::FxHashMap;

/// What tells flowlets at a switch apart: packets of a flow one way, on one of its paths.
type FlowletKey = (NodeId, PacketFlowId, u16, bool);

/// The last packet of a flowlet.
#[derive(Debug, Clone, Copy)]
struct Flowlet {
    link: PacketLinkId,
    time: Time,
}

/// What switches remember of their choices.
#[derive(Debug, Clone)]
pub(super) struct Balancer {
    balancing: Balancing,
    gap: Duration,
    flowlets: FxHashMap<FlowletKey, Flowlet>,
    /// Per node whether it is a NIC that sprays packets; empty if there is none.
    sprays: Vec<bool>,
}

impl Balancer {
    pub(super) fn new(config: &Config, topology: &Topology) -> Self {
        let Config { balancing, flowlet_gap, .. } = *config;
        let nics = topology.spraying_nics();
        let nodes = if nics.is_empty() { 0 } else { topology.node_count() };
        let mut sprays = vec![false; nodes];
        for nic in nics {
            sprays[nic.index()] = true;
        }
        Self { balancing, gap: flowlet_gap, flowlets: FxHashMap::default(), sprays }
    }

    /// Whether queues have a say in where packets go.
    #[inline]
    pub(super) fn reads_queues(&self) -> bool {
        self.balancing != Balancing::Hash || !self.sprays.is_empty()
    }

    /// The link that a packet takes from a switch, of several that are settled; a hash would choose
    /// `hashed`.
    pub(super) fn choose(
        &mut self,
        fabric: &Fabric,
        links: &[PacketLinkId],
        hashed: PacketLinkId,
        node: NodeId,
        packet: &Packet,
        now: Time,
    ) -> PacketLinkId {
        let sprays = self.sprays.get(node.index()).is_some_and(|&it| it);
        if sprays || self.balancing == Balancing::Adaptive {
            return first_free(fabric, links, hashed, packet.priority(), now);
        }
        if self.balancing != Balancing::Flowlets {
            return hashed;
        }
        let key = (node, packet.flow, packet.path, packet.kind.is_forward());
        let last = self.flowlets.get(&key);
        let last = last.filter(|it| now.since(it.time) < self.gap && links.contains(&it.link));
        let link = last.map_or_else(
            || first_free(fabric, links, hashed, packet.priority(), now),
            |it| it.link,
        );
        self.flowlets.insert(key, Flowlet { link, time: now });
        link
    }
}

/// Whether a link is stopped, and how long one more packet of a priority would wait for it.
pub(super) fn wait(
    fabric: &Fabric,
    link: PacketLinkId,
    priority: u8,
    now: Time,
) -> (bool, Duration) {
    let all = fabric.links();
    let queued = Bytes(all.bytes_ahead(link, priority));
    (
        all.is_stopped(link, priority),
        all.free_at(link).since(now) + all.rate(link).transmission(queued),
    )
}

/// The link that could first begin to send one more packet. Among equals the first from that of
/// the hash on, so that switches do not all prefer the same.
fn first_free(
    fabric: &Fabric,
    links: &[PacketLinkId],
    hashed: PacketLinkId,
    priority: u8,
    now: Time,
) -> PacketLinkId {
    let place = links.iter().position(|&link| link == hashed).unwrap_or(0);
    let (before, from) = links.split_at(place);
    let in_turn = from.iter().chain(before).copied();
    in_turn.min_by_key(|&link| wait(fabric, link, priority, now)).unwrap_or(hashed)
}
