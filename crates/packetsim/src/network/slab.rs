//! Where packets are: one slab of slots, chained through it into queues and wires.

use crate::memory::{prefetch, with_large_pages};
use crate::packet::{Packet, PacketId};
use lightloom_model::Time;

/// The end of a chain.
pub(crate) const NO_PACKET: PacketId = PacketId(u32::MAX);

/// All packets in the network.
#[derive(Debug, Clone)]
pub(super) struct PacketSlab {
    slots: Vec<Packet>,
    free: PacketId,
    live: u32,
}

/// Packets in order.
#[derive(Debug, Clone, Copy)]
pub(super) struct Chain {
    head: PacketId,
    tail: PacketId,
}

impl Chain {
    pub(super) const EMPTY: Self = Self { head: NO_PACKET, tail: NO_PACKET };

    #[inline]
    pub(super) fn is_empty(self) -> bool {
        self.head == NO_PACKET
    }

    /// The first packet, or [`NO_PACKET`].
    #[inline]
    pub(super) fn head(self) -> PacketId {
        self.head
    }

    /// The last packet, or [`NO_PACKET`].
    #[inline]
    pub(super) fn tail(self) -> PacketId {
        if self.is_empty() { NO_PACKET } else { self.tail }
    }
}

impl PacketSlab {
    pub(super) fn new() -> Self {
        Self { slots: Vec::new(), free: NO_PACKET, live: 0 }
    }

    /// Maximum number of packets at one time.
    pub(super) fn peak(&self) -> usize {
        self.slots.len()
    }

    /// Number of packets now.
    pub(super) fn live(&self) -> u32 {
        self.live
    }

    /// Puts a packet into a slot.
    #[inline]
    pub(super) fn insert(&mut self, packet: Packet) -> PacketId {
        self.live += 1;
        if self.free == NO_PACKET {
            return self.grow(packet);
        }
        let id = self.free;
        let slot = &mut self.slots[id.0 as usize];
        self.free = slot.next;
        *slot = packet;
        id
    }

    /// Puts a packet into a new slot.
    fn grow(&mut self, packet: Packet) -> PacketId {
        if self.slots.len() == self.slots.capacity() {
            // Not by `reserve`, which would move the old pages along.
            let mut larger = with_large_pages(2 * self.slots.len().max(1 << 10));
            larger.extend_from_slice(&self.slots);
            self.slots = larger;
        }
        self.slots.push(packet);
        PacketId(self.slots.len() as u32 - 1)
    }

    #[inline]
    pub(super) fn free(&mut self, id: PacketId) {
        self.live -= 1;
        self.slots[id.0 as usize].next = self.free;
        self.free = id;
    }

    /// Appends a packet to a chain.
    #[inline]
    pub(super) fn push(&mut self, chain: &mut Chain, id: PacketId) {
        if chain.is_empty() {
            chain.head = id;
        } else {
            self.slots[chain.tail.0 as usize].next = id;
        }
        chain.tail = id;
    }

    /// Appends a packet to a wire, whose far end it reaches at `arrival`; returns whether it is the
    /// first.
    #[inline]
    pub(super) fn push_arriving(&mut self, wire: &mut Chain, id: PacketId, arrival: Time) -> bool {
        let is_first = wire.is_empty();
        if is_first {
            wire.head = id;
        } else {
            let last = &mut self.slots[wire.tail.0 as usize];
            (last.next, last.next_arrival) = (id, arrival);
        }
        wire.tail = id;
        is_first
    }

    /// Removes the first packet of a chain that has one; returns its slot, and a copy, so that the
    /// slot need not be loaded again.
    #[inline]
    pub(super) fn pop(&mut self, chain: &mut Chain) -> (PacketId, Packet) {
        let id = chain.head;
        let packet = self.slots[id.0 as usize];
        chain.head = if id == chain.tail { NO_PACKET } else { packet.next };
        self.prefetch(chain.head);
        (id, packet)
    }

    /// The slots of a chain in order.
    pub(super) fn chain(&self, chain: Chain) -> impl Iterator<Item = PacketId> {
        let first = (!chain.is_empty()).then_some(chain.head);
        std::iter::successors(first, move |&id| {
            (id != chain.tail).then(|| self.slots[id.0 as usize].next)
        })
    }

    /// A packet, or `None` for [`NO_PACKET`].
    #[inline]
    pub(super) fn get(&self, id: PacketId) -> Option<&Packet> {
        self.slots.get(id.0 as usize)
    }

    /// Prefetches a packet.
    #[inline]
    pub(super) fn prefetch(&self, id: PacketId) {
        prefetch(&self.slots, id.0 as usize);
    }

    /// Swaps the contents of two slots, which keep their places in their chains.
    pub(super) fn swap_contents(&mut self, a: PacketId, b: PacketId) {
        let (a, b) = (a.0 as usize, b.0 as usize);
        self.slots.swap(a, b);
        let next = self.slots[a].next;
        self.slots[a].next = self.slots[b].next;
        self.slots[b].next = next;
    }
}

impl std::ops::Index<PacketId> for PacketSlab {
    type Output = Packet;

    #[inline]
    fn index(&self, id: PacketId) -> &Packet {
        &self.slots[id.0 as usize]
    }
}

impl std::ops::IndexMut<PacketId> for PacketSlab {
    #[inline]
    fn index_mut(&mut self, id: PacketId) -> &mut Packet {
        &mut self.slots[id.0 as usize]
    }
}

#[cfg(test)]
impl Packet {
    /// Data of a flow that nothing has queued yet.
    pub(crate) fn data(flow: u32, sequence: u32, size: u16) -> Self {
        Self {
            next_arrival: Time::ZERO,
            flow: crate::flow::PacketFlowId(flow),
            sequence,
            value: 0,
            next: NO_PACKET,
            size,
            path: 0,
            ingress: 0,
            kind: crate::packet::PacketKind::Data,
            flags: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(sequence: u32) -> Packet {
        Packet::data(0, sequence, 100)
    }

    fn sequences(slab: &PacketSlab, chain: Chain) -> Vec<u32> {
        slab.chain(chain).map(|id| slab[id].sequence).collect()
    }

    #[test]
    fn chains_are_queues_and_slots_are_reused() {
        let mut slab = PacketSlab::new();
        let mut chains = [Chain::EMPTY; 2];
        assert_eq!((chains[0].head(), chains[0].tail()), (NO_PACKET, NO_PACKET));
        for sequence in 0..10 {
            let id = slab.insert(packet(sequence));
            slab.push(&mut chains[sequence as usize % 2], id);
        }
        assert_eq!(sequences(&slab, chains[0]), [0, 2, 4, 6, 8]);
        assert_eq!(sequences(&slab, chains[1]), [1, 3, 5, 7, 9]);
        for expected in [0, 2, 4, 6, 8] {
            let (id, packet) = slab.pop(&mut chains[0]);
            assert_eq!(packet.sequence, expected);
            slab.free(id);
        }
        assert!(chains[0].is_empty() && slab.live() == 5);
        for sequence in 10..15 {
            let id = slab.insert(packet(sequence));
            slab.push(&mut chains[0], id);
        }
        assert_eq!((slab.peak(), slab.live()), (10, 10), "no new slot was needed");
        assert_eq!(sequences(&slab, chains[0]), [10, 11, 12, 13, 14]);
        assert_eq!(sequences(&slab, chains[1]), [1, 3, 5, 7, 9]);
    }

    #[test]
    fn swapped_packets_take_each_others_places() {
        let mut slab = PacketSlab::new();
        let mut queue = Chain::EMPTY;
        for sequence in 0..3 {
            let id = slab.insert(packet(sequence));
            slab.push(&mut queue, id);
        }
        let newcomer = slab.insert(packet(9));
        slab.swap_contents(queue.tail(), newcomer);
        assert_eq!(sequences(&slab, queue), [0, 1, 9]);
        assert_eq!(slab[newcomer].sequence, 2);
        // Also in the middle of a chain.
        let middle = slab.chain(queue).nth(1).unwrap();
        slab.swap_contents(middle, newcomer);
        assert_eq!(sequences(&slab, queue), [0, 2, 9]);
    }

    #[test]
    fn packets_on_a_wire_know_when_the_next_one_arrives() {
        let mut slab = PacketSlab::new();
        let mut wire = Chain::EMPTY;
        for (sequence, arrival) in [(0, 50), (1, 80), (2, 90)] {
            let id = slab.insert(packet(sequence));
            let is_first = slab.push_arriving(&mut wire, id, Time(arrival));
            assert_eq!(is_first, sequence == 0);
        }
        assert_eq!(slab.pop(&mut wire).1.next_arrival, Time(80));
        assert_eq!(slab.pop(&mut wire).1.next_arrival, Time(90));
        slab.pop(&mut wire);
        assert!(wire.is_empty());
        let id = slab.insert(packet(3));
        assert!(slab.push_arriving(&mut wire, id, Time(99)), "the wire was empty");
    }

    #[test]
    fn a_slab_grows_beyond_its_first_capacity() {
        let mut slab = PacketSlab::new();
        let ids: Vec<PacketId> =
            (0..10_000).map(|sequence| slab.insert(packet(sequence))).collect();
        for (sequence, &id) in ids.iter().enumerate() {
            assert_eq!(slab[id].sequence as usize, sequence);
        }
        assert_eq!(slab.peak(), 10_000);
        assert!(slab.get(NO_PACKET).is_none());
    }
}
