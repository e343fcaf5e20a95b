//! State of single packets, for transports that acknowledge packets one by one.
//!
//! The receiver records what it has; the sender what was acknowledged, what is known to be lost,
//! and what is overdue. 32 bytes of bits per 64 packets, so that a packet's bits are together, and
//! 32 bytes per flow.
//!
//! Bits are kept for a window of packets alone: from the first that the sender does not know to
//! have arrived to the last that it has sent. All before are done, all behind are untouched. The
//! window slides over a ring of blocks, which grows where more is in flight than it holds, so
//! memory follows the packets in flight and not the size of flows.

use super::table::PerFlow;
use crate::flow::PacketFlowId;
use crate::memory::prefetch;

/// Packets of a block.
const BLOCK: u32 = u64::BITS;

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

/// State of a flow that every packet uses.
#[derive(Debug, Clone, Copy, Default)]
struct Entry {
    /// The first block of its ring.
    start: u32,
    /// Blocks of the ring, a power of two, less one.
    mask: u32,
    /// Packets.
    packets: u32,
    /// Receiver: all before this are here.
    expected: u32,
    /// Sender: all before this are acknowledged.
    settled: u32,
    /// Sender: the next new one.
    next: u32,
    /// Bits in `lost`.
    lost: u32,
    /// No block of the flow before this has any of them.
    first_lost: u32,
}

impl Entry {
    /// Where the block of a packet is.
    #[inline]
    fn place(&self, sequence: u32) -> usize {
        (self.start + ((sequence / BLOCK) & self.mask)) as usize
    }
}

/// State of a flow that is used now and then.
#[derive(Debug, Clone, Copy, Default)]
struct Window {
    /// First block in use.
    first: u32,
    /// `Entry::next` at the last check for overdue packets.
    checked: u32,
    /// Whether the flow has a ring.
    is_open: bool,
}

/// The packets of all flows.
#[derive(Debug, Clone, Default)]
pub(super) struct Ledger {
    flows: PerFlow<Entry>,
    windows: PerFlow<Window>,
    blocks: Vec<Block>,
    /// Rings that no flow uses, by the logarithm of their length.
    unused: [Vec<u32>; 32],
}

/// Number of packets before an acknowledged one that its acknowledgement covers, too.
const HISTORY: u32 = 16;

/// Blocks of the ring of a flow that starts, at most.
const FIRST_RING: u32 = 4;

/// Opening, sliding, closing.
impl Ledger {
    /// Makes room for a flow that starts.
    pub(super) fn open(&mut self, flow: PacketFlowId, packets: u32) {
        self.flows.make_room(flow, Entry::default());
        self.windows.make_room(flow, Window::default());
        // The bits of the packet behind the last one are read.
        let length = (packets / BLOCK + 1).next_power_of_two().min(FIRST_RING);
        let start = self.take_ring(length);
        self.flows[flow] = Entry { start, mask: length - 1, packets, ..Entry::default() };
        self.windows[flow] = Window { is_open: true, ..Window::default() };
    }

    /// The sender knows that everything has arrived: only that is remembered.
    pub(super) fn close(&mut self, flow: PacketFlowId) {
        if !std::mem::replace(&mut self.windows[flow].is_open, false) {
            return;
        }
        let entry = self.flows[flow];
        self.leave_ring(entry.start, entry.mask + 1);
        // The bits of a packet before these are read, but not used.
        let (expected, settled, next) = (entry.packets, entry.packets, entry.packets);
        self.flows[flow] = Entry { expected, settled, next, lost: 0, mask: 0, ..entry };
    }

    /// A ring of empty blocks.
    fn take_ring(&mut self, length: u32) -> u32 {
        if let Some(start) = self.unused[length.ilog2() as usize].pop() {
            return start;
        }
        let start = self.blocks.len() as u32;
        self.blocks.resize(self.blocks.len() + length as usize, Block::default());
        start
    }

    /// A ring is no longer used.
    fn leave_ring(&mut self, start: u32, length: u32) {
        self.blocks[start as usize..(start + length) as usize].fill(Block::default());
        self.unused[length.ilog2() as usize].push(start);
    }

    /// The next new packet is the first of its block: slides the window, and grows the ring if it
    /// does not hold that block as well.
    #[cold]
    fn slide(&mut self, flow: PacketFlowId) {
        let entry = &mut self.flows[flow];
        debug_assert_eq!(entry.lost, 0, "nothing new is sent before what was lost");
        let window = &mut self.windows[flow];
        let mut is_settled = true;
        while is_settled && entry.settled < entry.next {
            let block = self.blocks[entry.place(entry.settled)];
            is_settled = entry.settle(block.acknowledged);
        }
        while window.first < entry.settled / BLOCK {
            self.blocks[entry.place(window.first * BLOCK)] = Block::default();
            window.first += 1;
        }
        let blocks = entry.next / BLOCK - window.first;
        while blocks > self.flows[flow].mask {
            self.grow(flow);
        }
    }

    /// Doubles the ring of a flow.
    fn grow(&mut self, flow: PacketFlowId) {
        let (old, first) = (self.flows[flow], self.windows[flow].first);
        let mask = 2 * old.mask + 1;
        let new = Entry { start: self.take_ring(mask + 1), mask, ..old };
        for sequence in (first..=first + old.mask).map(|block| block * BLOCK) {
            self.blocks[new.place(sequence)] = self.blocks[old.place(sequence)];
        }
        self.leave_ring(old.start, old.mask + 1);
        self.flows[flow] = new;
    }
}

impl Entry {
    /// Moves `settled` behind the acknowledged packets of its block that follow one another;
    /// returns whether those are all.
    fn settle(&mut self, acknowledged: u64) -> bool {
        let bits = (!(acknowledged | before(self.settled, self.settled / BLOCK))).trailing_zeros();
        self.settled = (self.settled / BLOCK * BLOCK + bits).min(self.next);
        bits == BLOCK
    }
}

/// The bits of a block whose packets are before this one.
fn before(sequence: u32, block: u32) -> u64 {
    match sequence.saturating_sub(block * BLOCK) {
        bits @ 0..BLOCK => (1_u64 << bits) - 1,
        _ => u64::MAX,
    }
}

/// What happens to packets.
impl Ledger {
    /// Prefetches the state of a flow.
    #[inline]
    pub(super) fn prefetch(&self, flow: PacketFlowId) {
        self.flows.prefetch(flow);
    }

    /// Prefetches the state of a packet.
    #[inline]
    pub(super) fn prefetch_packet(&self, flow: PacketFlowId, sequence: u32) {
        if let Some(entry) = self.flows.get(flow) {
            prefetch(&self.blocks, entry.place(sequence));
        }
    }

    /// The sender has sent a packet, and is in the other half of the network: the receiver slides
    /// the window itself, by what it has.
    fn extend(&mut self, flow: PacketFlowId, sequence: u32) {
        let entry = &mut self.flows[flow];
        let is_in_block = (sequence + 1) / BLOCK == entry.next / BLOCK;
        entry.next = sequence + 1;
        entry.settled = entry.expected;
        if !is_in_block {
            self.slide(flow);
        }
    }

    /// The receiver gets a packet; returns whether it is new.
    #[inline]
    pub(super) fn receive(&mut self, flow: PacketFlowId, sequence: u32) -> bool {
        if sequence >= self.flows[flow].next {
            self.extend(flow, sequence);
        }
        let entry = &mut self.flows[flow];
        let bit = 1 << (sequence % BLOCK);
        let block = &mut self.blocks[entry.place(sequence)];
        if sequence < entry.expected || block.received & bit != 0 {
            return false;
        }
        block.received |= bit;
        if sequence == entry.expected {
            let mut next = sequence + 1;
            loop {
                let here = self.blocks[entry.place(next)].received;
                let run = (!(here >> (next % BLOCK))).trailing_zeros();
                if next % BLOCK + run < BLOCK {
                    next += run;
                    break;
                }
                next += BLOCK - next % BLOCK;
            }
            entry.expected = next;
        }
        true
    }

    /// Whether the receiver has a packet.
    #[inline]
    pub(super) fn has(&self, flow: PacketFlowId, sequence: u32) -> bool {
        let entry = &self.flows[flow];
        let received = self.blocks[entry.place(sequence)].received;
        let may_be_here = sequence < entry.next && received >> (sequence % BLOCK) & 1 == 1;
        sequence < entry.expected || may_be_here
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
        // Bit i of the word is packet `base` + i; those before the window have all arrived, and
        // the sender will know that by what is expected.
        let base = sequence.saturating_sub(HISTORY);
        let low = u128::from(self.blocks[entry.place(base)].received);
        let high = u128::from(self.blocks[entry.place(base + BLOCK)].received);
        let word = ((high << 64 | low) >> (base % BLOCK)) as u32;
        let history = word & ((1 << (sequence - base)) - 1);
        lead << 16 | history << (HISTORY - (sequence - base))
    }

    /// The sender learns that all before `expected` have arrived, and some others.
    #[inline]
    pub(super) fn acknowledge(&mut self, flow: PacketFlowId, expected: u32, selection: u32) {
        let entry = &mut self.flows[flow];
        entry.settled = entry.settled.max(expected);
        let sequence = expected + (selection >> 16);
        if selection == 0 || sequence < entry.settled {
            return;
        }
        // Bit i of the word is packet `base` + i.
        let base = sequence.saturating_sub(HISTORY).max(entry.settled);
        let word = u64::from(selection & 0xffff | 1 << HISTORY) >> (HISTORY - (sequence - base));
        let shift = base % BLOCK;
        self.blocks[entry.place(base)].acknowledged |= word << shift;
        if shift + (sequence - base) >= BLOCK {
            self.blocks[entry.place(sequence)].acknowledged |= word >> (BLOCK - shift);
        }
    }

    /// The sender learns that one packet has arrived; returns whether that was unknown, and it was
    /// not considered lost.
    #[inline]
    pub(super) fn acknowledge_one(&mut self, flow: PacketFlowId, sequence: u32) -> bool {
        let entry = &self.flows[flow];
        if sequence < entry.settled {
            return false;
        }
        let bit = 1 << (sequence % BLOCK);
        let block = &mut self.blocks[entry.place(sequence)];
        let was_in_flight = (block.acknowledged | block.lost) & bit == 0;
        block.acknowledged |= bit;
        was_in_flight
    }

    /// The sender learns that a packet was lost; returns whether that is new.
    pub(super) fn lose(&mut self, flow: PacketFlowId, sequence: u32) -> bool {
        let entry = &mut self.flows[flow];
        let bit = 1 << (sequence % BLOCK);
        let block = &mut self.blocks[entry.place(sequence)];
        if sequence < entry.settled || (block.acknowledged | block.lost) & bit != 0 {
            return false;
        }
        block.lost |= bit;
        entry.first_lost =
            if entry.lost == 0 { sequence / BLOCK } else { entry.first_lost.min(sequence / BLOCK) };
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
            let block = &mut self.blocks[entry.place(entry.first_lost * BLOCK)];
            if block.lost == 0 {
                entry.first_lost += 1;
                continue;
            }
            let sequence = entry.first_lost * BLOCK + block.lost.trailing_zeros();
            let bit = 1 << (sequence % BLOCK);
            if sequence >= entry.settled && block.acknowledged & bit == 0 {
                return Some(sequence);
            }
            block.lost &= !bit;
            entry.lost -= 1;
        }
        None
    }

    /// The sender sends the packet that [`Self::next`] has just returned.
    #[inline]
    pub(super) fn send(&mut self, flow: PacketFlowId, sending: Sending) {
        let entry = &mut self.flows[flow];
        if sending.is_new {
            entry.next += 1;
            if entry.next.is_multiple_of(BLOCK) {
                self.slide(flow);
            }
            return;
        }
        let bit = 1 << (sending.sequence % BLOCK);
        let block = &mut self.blocks[entry.place(sending.sequence)];
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
        let checked = std::mem::replace(&mut self.windows[flow].checked, entry.next);
        let mut expired = 0;
        let mut is_settled = true;
        for index in entry.settled / BLOCK..entry.next.div_ceil(BLOCK) {
            let place = entry.place(index * BLOCK);
            let acknowledged = self.blocks[place].acknowledged;
            let done = before(entry.settled, index) | acknowledged;
            is_settled = is_settled && entry.settle(acknowledged);
            let block = &mut self.blocks[place];
            let overdue = before(checked, index) & !(done | block.lost | block.again);
            block.again = 0;
            if overdue != 0 {
                block.lost |= overdue;
                entry.first_lost =
                    if entry.lost == 0 { index } else { entry.first_lost.min(index) };
                entry.lost += overdue.count_ones();
                expired += overdue.count_ones();
            }
        }
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
mod tests;
