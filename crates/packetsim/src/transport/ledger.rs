//! Which packets of a flow are where, for transports that answer for single packets.
//!
//! The receiver notes what it has; the sender what was acknowledged, what is known to be lost, and
//! what to give up waiting for. 32 bytes of bits per 64 packets, so that a packet's bits are
//! together, and 32 bytes per flow.

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
    /// It was sent again since the last look at what is overdue.
    again: u64,
}

/// What there is one of per flow.
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
    /// Sender: `next` at the last look at what is overdue.
    looked: u32,
    /// Bits in `lost`.
    lost: u32,
    /// No block of the flow before this has any.
    first_lost: u32,
}

/// The packets of all flows.
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    flows: Vec<Entry>,
    blocks: Vec<Block>,
}

/// Packets that are told about before the one that an acknowledgement is for.
const HISTORY: u32 = 16;

impl Ledger {
    /// Makes room for a flow that starts.
    pub fn open(&mut self, flow: u32, packets: u32) {
        let needed = self.flows.len().max(flow as usize + 1);
        self.flows.resize(needed, Entry::default());
        let start = self.blocks.len() as u32;
        self.flows[flow as usize] = Entry { start, packets, ..Entry::default() };
        // One more, so that bits may be looked at past the end.
        let blocks = self.blocks.len() + packets.div_ceil(64) as usize + 1;
        self.blocks.resize(blocks, Block::default());
    }

    /// Asks for what is known of a flow.
    #[inline]
    pub fn prefetch(&self, flow: u32) {
        prefetch(&self.flows, flow as usize);
    }

    /// Asks for what is known of a packet.
    #[inline]
    pub fn prefetch_packet(&self, flow: u32, number: u32) {
        if let Some(entry) = self.flows.get(flow as usize) {
            prefetch(&self.blocks, (entry.start + number / 64) as usize);
        }
    }

    /// The receiver gets a packet; returns whether it is new.
    #[inline]
    pub fn receive(&mut self, flow: u32, number: u32) -> bool {
        let entry = &mut self.flows[flow as usize];
        let bit = 1 << (number % 64);
        let block = &mut self.blocks[(entry.start + number / 64) as usize];
        if block.received & bit != 0 {
            return false;
        }
        block.received |= bit;
        if number == entry.expected {
            let mut next = number + 1;
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
    pub fn has(&self, flow: u32, number: u32) -> bool {
        let block = self.flows[flow as usize].start + number / 64;
        self.blocks[block as usize].received >> (number % 64) & 1 == 1
    }

    /// The receiver has all packets before this one.
    #[inline]
    pub fn expected(&self, flow: u32) -> u32 {
        self.flows[flow as usize].expected
    }

    /// Selective acknowledgement, in 32 bits beside [`Self::expected`]: how far ahead of that the
    /// packet is, and which of the 16 packets before it the receiver has; 0 if it is not ahead.
    #[inline]
    pub fn selection(&self, flow: u32, number: u32) -> u32 {
        let entry = &self.flows[flow as usize];
        let ahead = number.saturating_sub(entry.expected);
        if ahead == 0 || ahead > u32::from(u16::MAX) {
            return 0;
        }
        // Bit i of the word is packet `base` + i.
        let base = number.saturating_sub(HISTORY);
        let block = (entry.start + base / 64) as usize;
        let low = u128::from(self.blocks[block].received);
        let high = u128::from(self.blocks[block + 1].received);
        let word = ((high << 64 | low) >> (base % 64)) as u32;
        let history = word & ((1 << (number - base)) - 1);
        ahead << 16 | history << (HISTORY - (number - base))
    }

    /// The sender hears that all before `expected` have arrived, and of some others.
    #[inline]
    pub fn acknowledge(&mut self, flow: u32, expected: u32, selection: u32) {
        let entry = &mut self.flows[flow as usize];
        entry.settled = entry.settled.max(expected);
        if selection == 0 {
            return;
        }
        let number = expected + (selection >> 16);
        // Bit i of the word is packet `number` - 16 + i.
        let mut word = u64::from(selection & 0xffff | 1 << HISTORY);
        let mut base = number.wrapping_sub(HISTORY);
        if number < HISTORY {
            word >>= HISTORY - number;
            base = 0;
        }
        let shift = base % 64;
        let block = (entry.start + base / 64) as usize;
        self.blocks[block].acknowledged |= word << shift;
        if shift > 64 - HISTORY - 1 {
            self.blocks[block + 1].acknowledged |= word >> (64 - shift);
        }
    }

    /// The sender hears that one packet has arrived.
    #[inline]
    pub fn acknowledge_one(&mut self, flow: u32, number: u32) {
        let block = self.flows[flow as usize].start + number / 64;
        self.blocks[block as usize].acknowledged |= 1 << (number % 64);
    }

    /// The sender hears that a packet was lost; returns whether that is news.
    pub fn lose(&mut self, flow: u32, number: u32) -> bool {
        let entry = &mut self.flows[flow as usize];
        let bit = 1 << (number % 64);
        let block = &mut self.blocks[(entry.start + number / 64) as usize];
        if number < entry.settled || (block.acknowledged | block.lost) & bit != 0 {
            return false;
        }
        block.lost |= bit;
        entry.first_lost =
            if entry.lost == 0 { number / 64 } else { entry.first_lost.min(number / 64) };
        entry.lost += 1;
        true
    }

    /// Packets to send again, some of which may have been acknowledged since.
    #[inline]
    pub fn lost(&self, flow: u32) -> u32 {
        self.flows[flow as usize].lost
    }

    /// The next packet to send: the first lost one, else the next new one.
    #[inline]
    pub fn next(&mut self, flow: u32) -> Option<Sending> {
        if self.flows[flow as usize].lost > 0
            && let Some(number) = self.first_lost(flow)
        {
            return Some(Sending { number, is_new: false });
        }
        let entry = &self.flows[flow as usize];
        (entry.next < entry.packets).then_some(Sending { number: entry.next, is_new: true })
    }

    #[cold]
    fn first_lost(&mut self, flow: u32) -> Option<u32> {
        let entry = &mut self.flows[flow as usize];
        while entry.lost > 0 {
            let block = &mut self.blocks[(entry.start + entry.first_lost) as usize];
            if block.lost == 0 {
                entry.first_lost += 1;
                continue;
            }
            let number = entry.first_lost * 64 + block.lost.trailing_zeros();
            let bit = 1 << (number % 64);
            if number >= entry.settled && block.acknowledged & bit == 0 {
                return Some(number);
            }
            block.lost &= !bit;
            entry.lost -= 1;
        }
        None
    }

    /// The sender sends what [`Self::next`] said.
    #[inline]
    pub fn send(&mut self, flow: u32, sending: Sending) {
        let entry = &mut self.flows[flow as usize];
        if sending.is_new {
            entry.next += 1;
            return;
        }
        let bit = 1 << (sending.number % 64);
        let block = &mut self.blocks[(entry.start + sending.number / 64) as usize];
        block.lost &= !bit;
        block.again |= bit;
        entry.lost -= 1;
    }

    /// Packets of the flow that are yet to be sent for the first time.
    #[inline]
    pub fn unsent(&self, flow: u32) -> u32 {
        let entry = &self.flows[flow as usize];
        entry.packets - entry.next
    }

    /// Gives up waiting for what was sent before the last call of this function and is neither
    /// acknowledged nor known to be lost; returns the number of these, lost now.
    pub fn expire(&mut self, flow: u32) -> u32 {
        let entry = &mut self.flows[flow as usize];
        let mut expired = 0;
        let mut is_settled = true;
        for index in entry.settled / 64..entry.next.div_ceil(64) {
            let block = &mut self.blocks[(entry.start + index) as usize];
            let before = |number: u32| match number.saturating_sub(index * 64) {
                bits @ 0..64 => (1_u64 << bits) - 1,
                _ => u64::MAX,
            };
            let done = before(entry.settled) | block.acknowledged;
            if is_settled {
                let bits = (!done).trailing_zeros();
                entry.settled = entry.settled.max(index * 64 + bits).min(entry.next);
                is_settled = bits == 64;
            }
            let overdue = before(entry.looked) & !(done | block.lost | block.again);
            block.again = 0;
            if overdue != 0 {
                block.lost |= overdue;
                entry.first_lost =
                    if entry.lost == 0 { index } else { entry.first_lost.min(index) };
                entry.lost += overdue.count_ones();
                expired += overdue.count_ones();
            }
        }
        entry.looked = entry.next;
        expired
    }
}

/// A packet that may be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sending {
    /// Its number.
    pub number: u32,
    /// Whether it was never sent before.
    pub is_new: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const PACKETS: u32 = 200;

    fn send(ledger: &mut Ledger) -> Option<Sending> {
        let sending = ledger.next(0)?;
        ledger.send(0, sending);
        Some(sending)
    }

    #[test]
    fn lost_packets_go_first_in_order() {
        let mut ledger = Ledger::default();
        ledger.open(0, 130);
        for number in 0..129 {
            assert_eq!(send(&mut ledger), Some(Sending { number, is_new: true }));
        }
        for number in [128, 3, 70, 3] {
            assert_eq!(ledger.lose(0, number), !(number == 3 && ledger.lost(0) == 3));
        }
        ledger.acknowledge_one(0, 70);
        let order: Vec<u32> =
            std::iter::from_fn(|| send(&mut ledger)).map(|it| it.number).collect();
        assert_eq!(order, [3, 128, 129]);
        assert_eq!((ledger.unsent(0), ledger.lost(0)), (0, 0));
    }

    #[test]
    fn what_is_overdue_is_lost_at_the_second_look() {
        let mut ledger = Ledger::default();
        ledger.open(0, PACKETS);
        for _ in 0..100 {
            send(&mut ledger);
        }
        assert_eq!(ledger.expire(0), 0);
        for _ in 0..50 {
            send(&mut ledger);
        }
        ledger.acknowledge(0, 60, 0);
        ledger.acknowledge_one(0, 63);
        ledger.lose(0, 80);
        let again = send(&mut ledger);
        assert_eq!(again, Some(Sending { number: 80, is_new: false }));
        // 60 to 99 but 63, arrived, and 80, just sent again.
        assert_eq!(ledger.expire(0), 38);
        assert_eq!(send(&mut ledger).map(|it| it.number), Some(60));
        // Now 80 and what was sent as new between; not 60.
        assert_eq!(ledger.expire(0), 51);
    }

    proptest! {
        /// The receiver's answers, in any order of arrival, against sets.
        #[test]
        fn acknowledgements_say_what_arrived(
            order in Just((0..PACKETS).collect::<Vec<u32>>()).prop_shuffle(),
            taken in 1..PACKETS as usize,
        ) {
            let mut ledger = Ledger::default();
            ledger.open(0, PACKETS);
            while send(&mut ledger).is_some() {}
            let mut here = BTreeSet::new();
            let mut told = BTreeSet::new();
            for &number in &order[..taken] {
                prop_assert!(ledger.receive(0, number));
                prop_assert!(!ledger.receive(0, number));
                here.insert(number);
                let expected = (0..=PACKETS).find(|number| !here.contains(number)).unwrap();
                prop_assert_eq!(ledger.expected(0), expected);
                let selection = ledger.selection(0, number);
                ledger.acknowledge(0, expected, selection);
                told.extend(0..expected);
                if number > expected {
                    told.extend(here.range(number.saturating_sub(HISTORY)..=number));
                }
            }
            // What was told is exactly what does not expire.
            ledger.expire(0);
            prop_assert_eq!(ledger.expire(0) as usize, PACKETS as usize - told.len());
            for number in 0..PACKETS {
                prop_assert_eq!(ledger.has(0, number), here.contains(&number));
            }
        }
    }
}
