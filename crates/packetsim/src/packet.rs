//! Packets: 32 bytes each, in one slab, chained through it into queues and wires.

use crate::memory::{prefetch, room_for};

/// The end of a chain.
pub(crate) const NONE: u32 = u32::MAX;

/// What a packet is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Payload, to the receiver.
    Data,
    /// The header of data whose payload was cut off, to the receiver.
    Header,
    /// Control, from the sender to the receiver.
    Request,
    /// Acknowledgement, to the sender.
    Ack,
    /// Something is missing, to the sender.
    Nack,
    /// Permission to send, to the sender.
    Pull,
    /// Congestion notification, to the sender.
    Cnp,
}

impl Kind {
    /// Whether it goes from sender to receiver.
    #[inline]
    pub fn is_forward(self) -> bool {
        self as u8 <= Self::Request as u8
    }
}

/// It met a queue beyond the marking threshold.
pub const MARKED: u8 = 1;
/// An acknowledgement says that the data was marked.
pub const ECHO: u8 = 2;
/// Free for transports.
pub const TRANSPORT_A: u8 = 4;
/// Free for transports.
pub const TRANSPORT_B: u8 = 8;

/// One packet.
#[derive(Debug, Clone, Copy)]
#[repr(align(32))]
pub struct Packet {
    /// On a wire: when the packet behind it, if there is one, reaches the far end. Kept here, so
    /// that the arrival of a packet need not look at the next one.
    pub(crate) next_arrival: u64,
    /// Flow.
    pub flow: u32,
    /// Data: its number in the flow. Control: what the transport makes of it.
    pub number: u32,
    /// Free for transports.
    pub value: u32,
    /// The packet behind it, if it is not the last of its chain.
    pub(crate) next: u32,
    /// Bytes on the wire.
    pub size: u16,
    /// Which of the flow's equal paths it takes; on an explicit route, the links behind it.
    pub path: u16,
    /// Place, among the links into a switch, of that over which it came.
    pub(crate) ingress: u16,
    /// What it is.
    pub kind: Kind,
    /// `MARKED`, `ECHO`, ...
    pub flags: u8,
}

/// All packets that are somewhere.
#[derive(Debug, Clone)]
pub(crate) struct Packets {
    slots: Vec<Packet>,
    free: u32,
    pub(crate) live: u32,
}

/// Packets in order.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Chain {
    pub(crate) head: u32,
    pub(crate) tail: u32,
}

impl Chain {
    pub(crate) const EMPTY: Self = Self { head: NONE, tail: NONE };

    #[inline]
    pub(crate) fn is_empty(self) -> bool {
        self.head == NONE
    }
}

impl Packets {
    pub(crate) fn new() -> Self {
        Self { slots: Vec::new(), free: NONE, live: 0 }
    }

    /// The most that there were at one time.
    pub(crate) fn peak(&self) -> usize {
        self.slots.len()
    }

    /// Puts a packet into a slot.
    #[inline]
    pub(crate) fn take(&mut self, packet: Packet) -> u32 {
        self.live += 1;
        if self.free == NONE {
            return self.add(packet);
        }
        let id = self.free;
        let slot = &mut self.slots[id as usize];
        self.free = slot.next;
        *slot = packet;
        id
    }

    /// Puts a packet into a new slot.
    fn add(&mut self, packet: Packet) -> u32 {
        if self.slots.len() == self.slots.capacity() {
            // Not by `reserve`, which would move the old pages along.
            let mut larger = room_for(2 * self.slots.len().max(1 << 10));
            larger.extend_from_slice(&self.slots);
            self.slots = larger;
        }
        self.slots.push(packet);
        self.slots.len() as u32 - 1
    }

    #[inline]
    pub(crate) fn free(&mut self, id: u32) {
        self.live -= 1;
        self.slots[id as usize].next = self.free;
        self.free = id;
    }

    /// Puts a packet last.
    #[inline]
    pub(crate) fn push(&mut self, chain: &mut Chain, id: u32) {
        if chain.is_empty() {
            chain.head = id;
        } else {
            self.slots[chain.tail as usize].next = id;
        }
        chain.tail = id;
    }

    /// Puts a packet last on a wire from which it arrives at some time; returns whether it is the
    /// first.
    #[inline]
    pub(crate) fn push_arriving(&mut self, wire: &mut Chain, id: u32, arrival: u64) -> bool {
        let is_first = wire.is_empty();
        if is_first {
            wire.head = id;
        } else {
            let last = &mut self.slots[wire.tail as usize];
            (last.next, last.next_arrival) = (id, arrival);
        }
        wire.tail = id;
        is_first
    }

    /// Takes the first packet out of a chain that has one; returns its slot, and a copy, so that
    /// the slot need not be looked at again.
    #[inline]
    pub(crate) fn pop(&mut self, chain: &mut Chain) -> (u32, Packet) {
        let id = chain.head;
        let packet = self.slots[id as usize];
        chain.head = if id == chain.tail { NONE } else { packet.next };
        self.prefetch(chain.head);
        (id, packet)
    }

    /// The slots of a chain in order.
    pub(crate) fn chain(&self, chain: Chain) -> impl Iterator<Item = u32> {
        let first = (!chain.is_empty()).then_some(chain.head);
        std::iter::successors(first, move |&id| {
            (id != chain.tail).then(|| self.slots[id as usize].next)
        })
    }

    /// A packet, or `None` for `NONE`.
    #[inline]
    pub(crate) fn get(&self, id: u32) -> Option<&Packet> {
        self.slots.get(id as usize)
    }

    /// Asks for a packet that will be looked at soon.
    #[inline]
    pub(crate) fn prefetch(&self, id: u32) {
        prefetch(&self.slots, id as usize);
    }

    /// Exchanges the contents of two slots, which stay where they are in their chains.
    pub(crate) fn swap_contents(&mut self, a: u32, b: u32) {
        self.slots.swap(a as usize, b as usize);
        let next = self.slots[a as usize].next;
        self.slots[a as usize].next = self.slots[b as usize].next;
        self.slots[b as usize].next = next;
    }
}

impl std::ops::Index<u32> for Packets {
    type Output = Packet;

    #[inline]
    fn index(&self, id: u32) -> &Packet {
        &self.slots[id as usize]
    }
}

impl std::ops::IndexMut<u32> for Packets {
    #[inline]
    fn index_mut(&mut self, id: u32) -> &mut Packet {
        &mut self.slots[id as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_has_32_bytes() {
        assert_eq!(size_of::<Packet>(), 32);
    }
}
