//! What can be seen of a network from outside, without a trace: links are settled lazily (see
//! `engine`), and to settle them for a look could change the order of simultaneous events.

use crate::core::{Core, LinkCounters};
use crate::topology::{LinkId, Topology};

impl Core {
    /// Bytes of the packets that a link has sent or is sending, as far as it is settled.
    pub fn sent_bytes(&self, link: LinkId) -> u64 {
        self.links[link.0 as usize].sent_bytes
    }

    /// Most data that ever waited for a link, in bytes.
    pub fn peak_bytes(&self, link: LinkId) -> u32 {
        self.links[link.0 as usize].peak_bytes
    }

    /// What happened on a link until now.
    pub fn link_counters(&self, link: LinkId) -> LinkCounters {
        let mut counters = self.link_counters[link.0 as usize];
        counters.paused += self.current_pause(link.0);
        counters
    }

    /// Most packets that there were at one time.
    pub fn peak_packets(&self) -> u64 {
        self.packets.peak() as u64
    }

    /// Number of flows.
    pub fn flow_count(&self) -> usize {
        self.flows.state.len()
    }

    /// Number of flows whose senders know that everything has arrived.
    pub fn finished_count(&self) -> usize {
        self.flows.done
    }

    /// Packets that receivers have, each counted once.
    pub fn received_packets(&self) -> u64 {
        self.flows.state.iter().map(|flow| u64::from(flow.received)).sum()
    }

    /// Whether nothing is left to happen.
    pub fn is_idle(&self) -> bool {
        self.agenda.is_empty()
    }

    /// Hosts, switches, links.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }
}
