//! What can be seen of a network from outside, without a trace: links are settled lazily (see
//! `engine`), and to settle them for a look could change the order of simultaneous events.

use crate::core::{Core, DARK, LinkCounters};
use crate::topology::{LinkId, Topology};

impl Core {
    /// Bytes of the packets that a link has sent or is sending, as far as it is settled.
    pub fn sent_bytes(&self, link: LinkId) -> u64 {
        self.links[link.0 as usize].sent_bytes
    }

    /// Per link, when the first packet on its wire has arrived, in ps; 0 if it is empty.
    pub(crate) fn arrivals(&self) -> Vec<u64> {
        let mut arrivals = vec![0; self.links.len()];
        for (source, time) in self.agenda.sources() {
            if let Some(arrival) = arrivals.get_mut(source as usize) {
                *arrival = time;
            }
        }
        arrivals
    }

    /// Bytes that have come out of the far end of a link, the part of a packet that is coming
    /// included; the first packet on it has arrived at `arrival`, see [`Self::arrivals`].
    pub(crate) fn carried_bytes(&self, link: LinkId, arrival: u64) -> u64 {
        let slot = &self.links[link.0 as usize];
        let sizes = self.packets.chain(slot.wire).map(|id| u64::from(self.packets[id].size));
        let mut left: u64 = sizes.sum();
        // Only the first can have begun to arrive; what begins to be sent later is known by the
        // time at which the one before it has arrived.
        if !slot.wire.is_empty() {
            let packet = &self.packets[slot.wire.head];
            let span = self.classes[usize::from(slot.class)].transmission(packet.size);
            let ahead = (arrival - self.now).min(span);
            left -= u64::from(packet.size) * (span - ahead) / span;
        }
        slot.sent_bytes - left
    }

    /// Bytes that wait for a link, without the packet that it is sending.
    pub fn waiting_bytes(&self, link: LinkId) -> u64 {
        let slot = &self.links[link.0 as usize];
        let mut waiting = u64::from(slot.data_bytes) + u64::from(slot.control_bytes);
        if slot.is_stopped() {
            return waiting;
        }
        let class = &self.classes[usize::from(slot.class)];
        let mut free_at = slot.free_at;
        for chain in [slot.control, slot.data] {
            for id in self.packets.chain(chain) {
                if free_at > self.now {
                    break;
                }
                let size = self.packets[id].size;
                waiting -= u64::from(size);
                free_at += class.transmission(size);
            }
        }
        waiting
    }

    /// Whether a link is a circuit that is not there.
    pub fn is_dark(&self, link: LinkId) -> bool {
        self.links[link.0 as usize].flags & DARK != 0
    }

    /// The link over which a flow leaves its source.
    pub fn first_link(&self, flow: u32) -> LinkId {
        let [source, _] = self.ends(flow);
        LinkId(self.uplinks[source as usize])
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
