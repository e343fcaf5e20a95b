//! Buffers that the ports of a switch share, with dynamic thresholds.
//!
//! A queue may be as long as `alpha` times what is free of the buffer (Choudhury and Hahne, Dynamic
//! queue length thresholds for shared-memory packet switches, IEEE/ACM Transactions on Networking
//! 1998): n queues that overflow hold alpha / (1 + n alpha) of the buffer each, and the rest is
//! left for others.
//! Data alone is counted; a packet that is being sent has left the buffer.

use super::links::Links;
use crate::config::SharedBuffer;
use crate::topology::{PacketLinkId, Topology};

/// The buffers of all switches.
#[derive(Debug, Clone)]
pub(super) struct SharedBuffers {
    rule: SharedBuffer,
    /// Per link, where the links out of its sending end begin and end in `links`.
    ports: Vec<[u32; 2]>,
    links: Vec<PacketLinkId>,
}

impl SharedBuffers {
    pub(super) fn new(topology: &Topology, rule: SharedBuffer) -> Self {
        let mut out = vec![Vec::new(); topology.node_count()];
        for link in topology.link_ids() {
            out[topology.links()[link.index()].from.index()].push(link);
        }
        let mut begins = Vec::with_capacity(out.len());
        let mut links = Vec::with_capacity(topology.links().len());
        for ports in out {
            begins.push([links.len() as u32, (links.len() + ports.len()) as u32]);
            links.extend(ports);
        }
        let of_link = topology.links().iter().map(|spec| begins[spec.from.index()]);
        Self { rule, ports: of_link.collect(), links }
    }

    /// The links out of the switch at the sending end of a link.
    pub(super) fn ports(&self, link: PacketLinkId) -> &[PacketLinkId] {
        let [begin, end] = self.ports[link.index()];
        &self.links[begin as usize..end as usize]
    }

    /// Whether a packet may join a queue of this length at a link; all ports are settled.
    pub(super) fn admits(&self, links: &Links, link: PacketLinkId, queued: u32, size: u32) -> bool {
        let used: u64 = self.ports(link).iter().map(|&port| links.queued_data(port)).sum();
        let free = u64::from(self.rule.bytes).saturating_sub(used);
        let threshold = self.rule.alpha * free as f64;
        u64::from(size) <= free && f64::from(queued + size) <= threshold
    }
}
