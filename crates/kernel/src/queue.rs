//! The event queue: pops in the order `(time, priority, sequence)`, whatever the payload.
//!
//! A 4-ary implicit heap of 24-byte keys; payloads lie still in a slab. Against a binary heap it
//! halves the depth, and the four children of a node lie in two cache lines, so that a pop costs
//! fewer misses; a calendar queue would be faster only for evenly spread times, which collective
//! bursts are not (`benches/queue.rs` compares with the standard binary heap).

use lightloom_model::Time;

const ARITY: usize = 4;
const SEQUENCE_BITS: u32 = 56;

/// A popped event and the key that ordered it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event<T> {
    /// When it happens.
    pub time: Time,
    /// Lower goes first at the same time.
    pub priority: u8,
    /// Number of events pushed before it.
    pub sequence: u64,
    /// What happens.
    pub payload: T,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    time: u64,
    /// Priority in the upper 8 bits, sequence in the others: unique, so ties cannot occur.
    order: u64,
    slot: u32,
}

/// Events in the order `(time, priority, sequence)`.
#[derive(Debug, Clone)]
pub struct EventQueue<T> {
    heap: Vec<Key>,
    payloads: Vec<Option<T>>,
    free: Vec<u32>,
    next_sequence: u64,
}

impl<T> Default for EventQueue<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> EventQueue<T> {
    /// An empty queue.
    pub fn new() -> Self {
        Self { heap: Vec::new(), payloads: Vec::new(), free: Vec::new(), next_sequence: 0 }
    }

    /// Adds an event; returns its sequence number.
    pub fn push(&mut self, time: Time, priority: u8, payload: T) -> u64 {
        let sequence = self.next_sequence;
        debug_assert!(sequence >> SEQUENCE_BITS == 0, "2^56 events is 70 years of pushing");
        self.next_sequence += 1;
        let slot = if let Some(slot) = self.free.pop() {
            self.payloads[slot as usize] = Some(payload);
            slot
        } else {
            self.payloads.push(Some(payload));
            (self.payloads.len() - 1) as u32
        };
        let order = u64::from(priority) << SEQUENCE_BITS | sequence;
        let key = Key { time: time.0, order, slot };
        self.heap.push(key);
        self.sift_up(self.heap.len() - 1, key);
        sequence
    }

    /// Time and priority of the next event.
    pub fn peek(&self) -> Option<(Time, u8)> {
        self.heap.first().map(|key| (Time(key.time), (key.order >> SEQUENCE_BITS) as u8))
    }

    /// Removes the next event.
    pub fn pop(&mut self) -> Option<Event<T>> {
        let last = self.heap.pop()?;
        let first = if let Some(&first) = self.heap.first() {
            self.sift_down(last);
            first
        } else {
            last
        };
        self.free.push(first.slot);
        let payload = self.payloads[first.slot as usize].take().expect("a queued key has payload");
        Some(Event {
            time: Time(first.time),
            priority: (first.order >> SEQUENCE_BITS) as u8,
            sequence: first.order & ((1 << SEQUENCE_BITS) - 1),
            payload,
        })
    }

    /// Removes the next event if it happens at or before `limit`.
    pub fn pop_until(&mut self, limit: Time) -> Option<Event<T>> {
        if self.heap.first()?.time > limit.0 { None } else { self.pop() }
    }

    /// Number of events waiting.
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    fn sift_up(&mut self, mut hole: usize, key: Key) {
        while hole > 0 {
            let parent = (hole - 1) / ARITY;
            if self.heap[parent] <= key {
                break;
            }
            self.heap[hole] = self.heap[parent];
            hole = parent;
        }
        self.heap[hole] = key;
    }

    /// Moves the hole at the root to the bottom along the least children, then lifts `key` from
    /// there: the last leaf nearly always belongs near the bottom, so comparing it on the way
    /// down would be wasted.
    fn sift_down(&mut self, key: Key) {
        let mut hole = 0;
        loop {
            let first = hole * ARITY + 1;
            let children = self.heap.len().saturating_sub(first).min(ARITY);
            if children == 0 {
                break;
            }
            let mut least = first;
            for child in first + 1..first + children {
                if self.heap[child] < self.heap[least] {
                    least = child;
                }
            }
            self.heap[hole] = self.heap[least];
            hole = least;
        }
        self.sift_up(hole, key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn order_is_time_then_priority_then_sequence() {
        let mut queue = EventQueue::new();
        queue.push(Time(2), 0, "late");
        queue.push(Time(1), 9, "low priority");
        queue.push(Time(1), 3, "first of two");
        queue.push(Time(1), 3, "second of two");
        assert_eq!(queue.peek(), Some((Time(1), 3)));
        let names: Vec<_> = std::iter::from_fn(|| queue.pop()).map(|event| event.payload).collect();
        assert_eq!(names, ["first of two", "second of two", "low priority", "late"]);
        assert!(queue.pop().is_none() && queue.is_empty());
    }

    #[test]
    fn pop_until_leaves_later_events() {
        let mut queue = EventQueue::new();
        queue.push(Time(5), 0, ());
        assert!(queue.pop_until(Time(4)).is_none());
        let event = queue.pop_until(Time(5)).unwrap();
        assert_eq!((event.time, event.priority, event.sequence), (Time(5), 0, 0));
    }

    #[test]
    fn slots_are_reused() {
        let mut queue = EventQueue::new();
        for time in 0..1000 {
            queue.push(Time(time), 0, time);
            queue.push(Time(time), 1, time);
            assert_eq!(queue.pop().unwrap().payload, queue.pop().unwrap().payload);
        }
        assert_eq!(queue.payloads.len(), 2);
    }

    proptest! {
        /// Against a sorted list, under any mixture of pushes and pops.
        #[test]
        fn agrees_with_a_sorted_list(
            operations in prop::collection::vec(prop::option::of((0u64..20, 0u8..3)), 0..300),
        ) {
            let mut queue = EventQueue::new();
            let mut list: Vec<(u64, u8, u64)> = Vec::new();
            for operation in operations {
                if let Some((time, priority)) = operation {
                    let sequence = queue.push(Time(time), priority, time * 3);
                    list.push((time, priority, sequence));
                    list.sort_unstable();
                } else {
                    let expected = (!list.is_empty()).then(|| list.remove(0));
                    let popped = queue.pop();
                    if let Some(event) = popped {
                        prop_assert_eq!(event.payload, event.time.0 * 3);
                    }
                    let key = popped.map(|event| (event.time.0, event.priority, event.sequence));
                    prop_assert_eq!(key, expected);
                }
                prop_assert_eq!(queue.len(), list.len());
            }
        }
    }
}
