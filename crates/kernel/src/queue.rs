//! The event queue: pops in the order `(time, priority, sequence)`, whatever the payload.
//!
//! The standard binary heap over one 128-bit key per event, `time | priority | sequence`: unique,
//! so ties cannot occur, and compared without a branch, which takes a quarter off the time of the
//! same heap over tuples (`benches/queue.rs`). A 4-ary heap with its payloads in a slab took a
//! third more than that one; a calendar queue suits evenly spread times, which the bursts of
//! collectives are not.

use lightloom_model::Time;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

const PRIORITY_SHIFT: u32 = 56;
const SEQUENCE_MASK: u64 = (1 << PRIORITY_SHIFT) - 1;

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

#[derive(Debug, Clone)]
struct Entry<T> {
    key: u128,
    payload: T,
}

impl<T> Entry<T> {
    fn time(&self) -> Time {
        Time((self.key >> 64) as u64)
    }

    fn priority(&self) -> u8 {
        (self.key as u64 >> PRIORITY_SHIFT) as u8
    }
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl<T> Eq for Entry<T> {}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Entry<T> {
    /// The reverse: the standard heap has the greatest on top.
    fn cmp(&self, other: &Self) -> Ordering {
        other.key.cmp(&self.key)
    }
}

/// Events in the order `(time, priority, sequence)`.
#[derive(Debug, Clone)]
pub struct EventQueue<T> {
    heap: BinaryHeap<Entry<T>>,
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
        Self { heap: BinaryHeap::new(), next_sequence: 0 }
    }

    /// Adds an event; returns its sequence number.
    pub fn push(&mut self, time: Time, priority: u8, payload: T) -> u64 {
        let sequence = self.next_sequence;
        debug_assert!(sequence <= SEQUENCE_MASK, "2^56 events is 70 years of pushing");
        self.next_sequence += 1;
        let order = u64::from(priority) << PRIORITY_SHIFT | sequence;
        self.heap.push(Entry { key: u128::from(time.0) << 64 | u128::from(order), payload });
        sequence
    }

    /// Time and priority of the next event.
    pub fn peek(&self) -> Option<(Time, u8)> {
        self.heap.peek().map(|entry| (entry.time(), entry.priority()))
    }

    /// Removes the next event.
    pub fn pop(&mut self) -> Option<Event<T>> {
        let entry = self.heap.pop()?;
        Some(Event {
            time: entry.time(),
            priority: entry.priority(),
            sequence: entry.key as u64 & SEQUENCE_MASK,
            payload: entry.payload,
        })
    }

    /// Removes the next event if it happens at or before `limit`.
    pub fn pop_until(&mut self, limit: Time) -> Option<Event<T>> {
        if self.heap.peek()?.time() > limit { None } else { self.pop() }
    }

    /// Time and payload of every event that waits, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (Time, &T)> {
        self.heap.iter().map(|entry| (entry.time(), &entry.payload))
    }

    /// Number of events waiting.
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
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
    fn the_largest_keys_fit() {
        let mut queue = EventQueue::new();
        queue.push(Time(u64::MAX), u8::MAX, 1);
        queue.push(Time(u64::MAX), 0, 2);
        let event = queue.pop().unwrap();
        assert_eq!((event.time, event.priority, event.sequence), (Time(u64::MAX), 0, 1));
        assert_eq!(queue.peek(), Some((Time(u64::MAX), u8::MAX)));
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
