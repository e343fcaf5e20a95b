//! State of single packets, for transports that acknowledge packets one by one.
//!
//! The receiver records what it has; the sender what was acknowledged, what is known to be lost,
//! and what is overdue. 32 bytes of bits per 64 packets, so that a packet's bits are together, and
//! 32 bytes per flow.

use super::table::PerFlow;
use crate::flow::PacketFlowId;
use crate::memory::prefetch;

/// Bits of 64 packets.
#[derive(Debug, Clone, Copy, Default)]
struct Block {
    /// The receiver has it.
    received: u64,
    /// The sender knows that.
    acknowledged: u64,
    /// The sender is to send it again.
    lost: u64,
    /// It was sent again since the last check for overdue packets.
    again: u64,
}

/// State of a flow.
#[derive(Debug, Clone, Copy, Default)]
struct Entry {
    /// Its first block.
    start: u32,
    /// Packets.
    packets: u32,
    /// Receiver: all before this are here.
    expected: u32,
    /// Sender: all before this are acknowledged.
    settled: u32,
    /// Sender: the next new one.
    next: u32,
    /// Sender: `next` at the last check for overdue packets.
    checked: u32,
    /// Bits in `lost`.
    lost: u32,
    /// No block of the flow before this has any of them.
    first_lost: u32,
}

/// The packets of all flows.
#[derive(Debug, Clone, Default)]
pub(super) struct Ledger {
    flows: PerFlow<Entry>,
    blocks: Vec<Block>,
}

/// Number of packets before an acknowledged one that its acknowledgement covers, too.
const HISTORY: u32 = 16;

impl Ledger {
    /// Makes room for a flow that starts.
    pub(super) fn open(&mut self, flow: PacketFlowId, packets: u32) {
        self.flows.make_room(flow, Entry::default());
        let start = self.blocks.len() as u32;
        self.flows[flow] = Entry { start, packets, ..Entry::default() };
        // One more, so that bits may be read past the end.
        let blocks = self.blocks.len() + packets.div_ceil(64) as usize + 1;
        self.blocks.resize(blocks, Block::default());
    }

    /// Prefetches the state of a flow.
    #[inline]
    pub(super) fn prefetch(&self, flow: PacketFlowId) {
        self.flows.prefetch(flow);
    }

    /// Prefetches the state of a packet.
    #[inline]
    pub(super) fn prefetch_packet(&self, flow: PacketFlowId, sequence: u32) {
        if let Some(entry) = self.flows.get(flow) {
            prefetch(&self.blocks, (entry.start + sequence / 64) as usize);
        }
    }

    /// The receiver gets a packet; returns whether it is new.
    #[inline]
    pub(super) fn receive(&mut self, flow: PacketFlowId, sequence: u32) -> bool {
        let entry = &mut self.flows[flow];
        let bit = 1 << (sequence % 64);
        let block = &mut self.blocks[(entry.start + sequence / 64) as usize];
        if block.received & bit != 0 {
            return false;
        }
        block.received |= bit;
        if sequence == entry.expected {
            let mut next = sequence + 1;
            loop {
                let here = self.blocks[(entry.start + next / 64) as usize].received;
                let run = (!(here >> (next % 64))).trailing_zeros();
                if next % 64 + run < 64 {
                    next += run;
                    break;
                }
                next += 64 - next % 64;
            }
            entry.expected = next;
        }
        true
    }

    /// Whether the receiver has a packet.
    #[inline]
    pub(super) fn has(&self, flow: PacketFlowId, sequence: u32) -> bool {
        let block = self.flows[flow].start + sequence / 64;
        self.blocks[block as usize].received >> (sequence % 64) & 1 == 1
    }

    /// The receiver has all packets before this one.
    #[inline]
    pub(super) fn expected(&self, flow: PacketFlowId) -> u32 {
        self.flows[flow].expected
    }

    /// Selective acknowledgement, in 32 bits in addition to [`Self::expected`]: how far ahead of
    /// that the packet is, and which of the 16 packets before it the receiver has; 0 if it is not
    /// ahead.
    #[inline]
    pub(super) fn selection(&self, flow: PacketFlowId, sequence: u32) -> u32 {
        let entry = &self.flows[flow];
        let lead = sequence.saturating_sub(entry.expected);
        if lead == 0 || lead > u32::from(u16::MAX) {
            return 0;
        }
        // Bit i of the word is packet `base` + i.
        let base = sequence.saturating_sub(HISTORY);
        let block = (entry.start + base / 64) as usize;
        let low = u128::from(self.blocks[block].received);
        let high = u128::from(self.blocks[block + 1].received);
        let word = ((high << 64 | low) >> (base % 64)) as u32;
        let history = word & ((1 << (sequence - base)) - 1);
        lead << 16 | history << (HISTORY - (sequence - base))
    }

    /// The sender learns that all before `expected` have arrived, and some others.
    #[inline]
    pub(super) fn acknowledge(&mut self, flow: PacketFlowId, expected: u32, selection: u32) {
        let entry = &mut self.flows[flow];
        entry.settled = entry.settled.max(expected);
        if selection == 0 {
            return;
        }
        let sequence = expected + (selection >> 16);
        // Bit i of the word is packet `sequence` - 16 + i.
        let mut word = u64::from(selection & 0xffff | 1 << HISTORY);
        let mut base = sequence.wrapping_sub(HISTORY);
        if sequence < HISTORY {
            word >>= HISTORY - sequence;
            base = 0;
        }
        let shift = base % 64;
        let block = (entry.start + base / 64) as usize;
        self.blocks[block].acknowledged |= word << shift;
        if shift > 64 - HISTORY - 1 {
            self.blocks[block + 1].acknowledged |= word >> (64 - shift);
        }
    }

    /// The sender learns that one packet has arrived.
    #[inline]
    pub(super) fn acknowledge_one(&mut self, flow: PacketFlowId, sequence: u32) {
        let block = self.flows[flow].start + sequence / 64;
        self.blocks[block as usize].acknowledged |= 1 << (sequence % 64);
    }

    /// The sender learns that a packet was lost; returns whether that is new.
    pub(super) fn lose(&mut self, flow: PacketFlowId, sequence: u32) -> bool {
        let entry = &mut self.flows[flow];
        let bit = 1 << (sequence % 64);
        let block = &mut self.blocks[(entry.start + sequence / 64) as usize];
        if sequence < entry.settled || (block.acknowledged | block.lost) & bit != 0 {
            return false;
        }
        block.lost |= bit;
        entry.first_lost =
            if entry.lost == 0 { sequence / 64 } else { entry.first_lost.min(sequence / 64) };
        entry.lost += 1;
        true
    }

    /// Packets to send again, some of which may have been acknowledged since.
    #[inline]
    pub(super) fn lost(&self, flow: PacketFlowId) -> u32 {
        self.flows[flow].lost
    }

    /// The next packet to send: the first lost one, else the next new one.
    #[inline]
    pub(super) fn next(&mut self, flow: PacketFlowId) -> Option<Sending> {
        if self.flows[flow].lost > 0
            && let Some(sequence) = self.first_lost(flow)
        {
            return Some(Sending { sequence, is_new: false });
        }
        let entry = &self.flows[flow];
        (entry.next < entry.packets).then_some(Sending { sequence: entry.next, is_new: true })
    }

    #[cold]
    fn first_lost(&mut self, flow: PacketFlowId) -> Option<u32> {
        let entry = &mut self.flows[flow];
        while entry.lost > 0 {
            let block = &mut self.blocks[(entry.start + entry.first_lost) as usize];
            if block.lost == 0 {
                entry.first_lost += 1;
                continue;
            }
            let sequence = entry.first_lost * 64 + block.lost.trailing_zeros();
            let bit = 1 << (sequence % 64);
            if sequence >= entry.settled && block.acknowledged & bit == 0 {
                return Some(sequence);
            }
            block.lost &= !bit;
            entry.lost -= 1;
        }
        None
    }

    /// The sender sends the packet that [`Self::next`] returned.
    #[inline]
    pub(super) fn send(&mut self, flow: PacketFlowId, sending: Sending) {
        let entry = &mut self.flows[flow];
        if sending.is_new {
            entry.next += 1;
            return;
        }
        let bit = 1 << (sending.sequence % 64);
        let block = &mut self.blocks[(entry.start + sending.sequence / 64) as usize];
        block.lost &= !bit;
        block.again |= bit;
        entry.lost -= 1;
    }

    /// Packets of the flow that are yet to be sent for the first time.
    #[inline]
    pub(super) fn unsent(&self, flow: PacketFlowId) -> u32 {
        let entry = &self.flows[flow];
        entry.packets - entry.next
    }

    /// Considers packets lost that were sent before the last call of this function and are neither
    /// acknowledged nor known to be lost; returns their number.
    pub(super) fn expire(&mut self, flow: PacketFlowId) -> u32 {
        let entry = &mut self.flows[flow];
        let mut expired = 0;
        let mut is_settled = true;
        for index in entry.settled / 64..entry.next.div_ceil(64) {
            let block = &mut self.blocks[(entry.start + index) as usize];
            let before = |sequence: u32| match sequence.saturating_sub(index * 64) {
                bits @ 0..64 => (1_u64 << bits) - 1,
                _ => u64::MAX,
            };
            let done = before(entry.settled) | block.acknowledged;
            if is_settled {
                let bits = (!done).trailing_zeros();
                entry.settled = entry.settled.max(index * 64 + bits).min(entry.next);
                is_settled = bits == 64;
            }
            let overdue = before(entry.checked) & !(done | block.lost | block.again);
            block.again = 0;
            if overdue != 0 {
                block.lost |= overdue;
                entry.first_lost =
                    if entry.lost == 0 { index } else { entry.first_lost.min(index) };
                entry.lost += overdue.count_ones();
                expired += overdue.count_ones();
            }
        }
        entry.checked = entry.next;
        expired
    }
}

/// A packet that may be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sending {
    /// Its sequence number.
    pub(super) sequence: u32,
    /// Whether it was never sent before.
    pub(super) is_new: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const FLOW: PacketFlowId = PacketFlowId(0);
    const PACKETS: u32 = 200;

    fn send(ledger: &mut Ledger) -> Option<Sending> {
        let sending = ledger.next(FLOW)?;
        ledger.send(FLOW, sending);
        Some(sending)
    }

    #[test]
    fn lost_packets_go_first_in_order() {
        let mut ledger = Ledger::default();
        ledger.open(FLOW, 130);
        for number in 0..129 {
            assert_eq!(send(&mut ledger), Some(Sending { sequence: number, is_new: true }));
        }
        for number in [128, 3, 70, 3] {
            assert_eq!(ledger.lose(FLOW, number), !(number == 3 && ledger.lost(FLOW) == 3));
        }
        ledger.acknowledge_one(FLOW, 70);
        let order: Vec<u32> =
            std::iter::from_fn(|| send(&mut ledger)).map(|it| it.sequence).collect();
        assert_eq!(order, [3, 128, 129]);
        assert_eq!((ledger.unsent(FLOW), ledger.lost(FLOW)), (0, 0));
    }

    #[test]
    fn overdue_packets_are_lost_at_the_second_check() {
        let mut ledger = Ledger::default();
        ledger.open(FLOW, PACKETS);
        for _ in 0..100 {
            send(&mut ledger);
        }
        assert_eq!(ledger.expire(FLOW), 0);
        for _ in 0..50 {
            send(&mut ledger);
        }
        ledger.acknowledge(FLOW, 60, 0);
        ledger.acknowledge_one(FLOW, 63);
        ledger.lose(FLOW, 80);
        let again = send(&mut ledger);
        assert_eq!(again, Some(Sending { sequence: 80, is_new: false }));
        // 60 to 99 but 63, arrived, and 80, just sent again.
        assert_eq!(ledger.expire(FLOW), 38);
        assert_eq!(send(&mut ledger).map(|it| it.sequence), Some(60));
        // Now 80 and what was sent as new between; not 60.
        assert_eq!(ledger.expire(FLOW), 51);
    }

    proptest! {
        /// Acknowledgements, in any order of arrival, against sets.
        #[test]
        fn acknowledgements_say_what_arrived(
            order in Just((0..PACKETS).collect::<Vec<u32>>()).prop_shuffle(),
            taken in 1..PACKETS as usize,
        ) {
            let mut ledger = Ledger::default();
            ledger.open(FLOW, PACKETS);
            while send(&mut ledger).is_some() {}
            let mut here = BTreeSet::new();
            let mut known = BTreeSet::new();
            for &number in &order[..taken] {
                prop_assert!(ledger.receive(FLOW, number));
                prop_assert!(!ledger.receive(FLOW, number));
                here.insert(number);
                let expected = (0..=PACKETS).find(|number| !here.contains(number)).unwrap();
                prop_assert_eq!(ledger.expected(FLOW), expected);
                let selection = ledger.selection(FLOW, number);
                ledger.acknowledge(FLOW, expected, selection);
                known.extend(0..expected);
                if number > expected {
                    known.extend(here.range(number.saturating_sub(HISTORY)..=number));
                }
            }
            // Exactly the packets that the sender does not know of expire.
            ledger.expire(FLOW);
            prop_assert_eq!(ledger.expire(FLOW) as usize, PACKETS as usize - known.len());
            for number in 0..PACKETS {
                prop_assert_eq!(ledger.has(FLOW, number), here.contains(&number));
            }
        }
    }
}
