//! What happens next: a calendar of sources and a heap of timers.
//!
//! A *source* (a link, a NIC) has at most one event pending, so the calendar is a wheel of buckets
//! whose entries are the sources themselves, chained through one array: to add and to take an event
//! is O(1) and allocates nothing. A bucket is sorted when its turn comes. What lies beyond the
//! wheel's horizon, and timers, of which there are few, wait in a heap.
//!
//! Order: time; at one time the heap before the wheel; then the order of scheduling.

use lightloom_kernel::EventQueue;
use lightloom_model::Time;
use std::cmp::Reverse;

const NONE: u32 = u32::MAX;

/// What is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due<T> {
    /// The pending event of a source.
    Source(u32),
    /// A timer.
    Timer(T),
}

/// A source in a bucket.
#[derive(Debug, Clone, Copy)]
struct Entry {
    time: u64,
    next: u32,
}

/// Pending events.
#[derive(Debug, Clone)]
pub struct Agenda<T> {
    /// A bucket spans `2^shift` ps.
    shift: u32,
    /// First source of each bucket; the last one scheduled is first.
    heads: Vec<u32>,
    /// One bit per bucket that has any.
    occupied: Vec<u64>,
    entries: Vec<Entry>,
    /// The bucket that is being emptied, latest first.
    current: Vec<(u64, u32)>,
    /// Its number, counted from time zero.
    cursor: u64,
    /// Sources in buckets.
    waiting: usize,
    far: EventQueue<Due<T>>,
    /// When the first of `far` is due.
    far_time: u64,
}

impl<T: Copy> Agenda<T> {
    /// An agenda for so many sources, most of which schedule at most `horizon` ps ahead.
    pub fn new(sources: usize, horizon: u64) -> Self {
        // A few to a bucket, as most sources schedule far less than the horizon ahead.
        let buckets = (sources / 8).next_power_of_two().clamp(1 << 8, 1 << 18);
        let width = (horizon / (buckets as u64 - 2)).max(1);
        let shift = u64::BITS - width.leading_zeros();
        Self {
            shift,
            heads: vec![NONE; buckets],
            occupied: vec![0; buckets / 64],
            entries: vec![Entry { time: 0, next: NONE }; sources],
            current: Vec::new(),
            cursor: 0,
            waiting: 0,
            far: EventQueue::new(),
            far_time: u64::MAX,
        }
    }

    /// Schedules the event of a source that has none pending.
    #[inline]
    pub fn schedule(&mut self, source: u32, time: u64) {
        let slot = time >> self.shift;
        if slot > self.cursor && slot - self.cursor < self.heads.len() as u64 {
            let bucket = slot as usize & (self.heads.len() - 1);
            let head = &mut self.heads[bucket];
            self.entries[source as usize] = Entry { time, next: *head };
            *head = source;
            self.occupied[bucket / 64] |= 1 << (bucket % 64);
            self.waiting += 1;
        } else {
            self.schedule_elsewhere(source, time);
        }
    }

    fn schedule_elsewhere(&mut self, source: u32, time: u64) {
        if time >> self.shift <= self.cursor {
            // Few are here, and those due at the same time go first.
            let place = self.current.partition_point(|&(other, _)| other > time);
            self.current.insert(place, (time, source));
        } else {
            self.push_far(time, Due::Source(source));
        }
    }

    /// Sets a timer.
    pub fn set_timer(&mut self, time: u64, timer: T) {
        self.push_far(time, Due::Timer(timer));
    }

    fn push_far(&mut self, time: u64, due: Due<T>) {
        self.far.push(Time(time), 0, due);
        self.far_time = self.far_time.min(time);
    }

    /// The source that is due so many events later, as far as that is known.
    #[inline]
    pub fn upcoming(&self, later: usize) -> Option<u32> {
        let place = self.current.len().checked_sub(later)?;
        self.current.get(place).map(|&(_, source)| source)
    }

    /// Takes what is due next, if that is at or before `limit`.
    #[inline]
    pub fn pop(&mut self, limit: u64) -> Option<(u64, Due<T>)> {
        if let Some(&(time, source)) = self.current.last()
            && time < self.far_time
            && time <= limit
        {
            self.current.pop();
            return Some((time, Due::Source(source)));
        }
        self.pop_elsewhere(limit)
    }

    fn pop_elsewhere(&mut self, limit: u64) -> Option<(u64, Due<T>)> {
        if self.current.is_empty() && self.waiting > 0 {
            let slot = self.next_occupied();
            if slot << self.shift <= self.far_time {
                self.load(slot);
            }
        }
        if let Some(&(time, source)) = self.current.last()
            && time < self.far_time
        {
            if time > limit {
                return None;
            }
            self.current.pop();
            return Some((time, Due::Source(source)));
        }
        let event = self.far.pop_until(Time(limit))?;
        self.far_time = self.far.peek().map_or(u64::MAX, |(time, _)| time.0);
        if self.current.is_empty() {
            // Nothing waits before this, so the horizon moves along.
            self.cursor = self.cursor.max(event.time.0 >> self.shift);
        }
        Some((event.time.0, event.payload))
    }

    /// Whether nothing is pending.
    pub fn is_empty(&self) -> bool {
        self.current.is_empty() && self.waiting == 0 && self.far.is_empty()
    }

    /// The number of the next bucket that has any.
    fn next_occupied(&self) -> u64 {
        let mask = self.heads.len() - 1;
        let start = (self.cursor as usize + 1) & mask;
        let words = self.occupied.len();
        let (mut word, mut bits) = (start / 64, self.occupied[start / 64] >> (start % 64));
        let mut ahead = 0;
        if bits == 0 {
            ahead = 64 - start % 64;
            loop {
                word = (word + 1) % words;
                bits = self.occupied[word];
                if bits != 0 {
                    break;
                }
                ahead += 64;
            }
        }
        self.cursor + 1 + (ahead + bits.trailing_zeros() as usize) as u64
    }

    /// Empties a bucket into `current`.
    fn load(&mut self, slot: u64) {
        let bucket = slot as usize & (self.heads.len() - 1);
        let mut source = std::mem::replace(&mut self.heads[bucket], NONE);
        self.occupied[bucket / 64] &= !(1 << (bucket % 64));
        while source != NONE {
            let entry = self.entries[source as usize];
            self.current.push((entry.time, source));
            source = entry.next;
        }
        self.waiting -= self.current.len();
        self.cursor = slot;
        // The chain is in reverse order of scheduling, as `current` is of time: a stable sort
        // keeps the order of scheduling among equal times.
        if self.current.len() > 32 {
            self.current.sort_by_key(|&(time, _)| Reverse(time));
            return;
        }
        for index in 1..self.current.len() {
            let entry = self.current[index];
            let mut hole = index;
            while hole > 0 && self.current[hole - 1].0 < entry.0 {
                self.current[hole] = self.current[hole - 1];
                hole -= 1;
            }
            self.current[hole] = entry;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Random schedules against a sorted list.
        #[test]
        fn agrees_with_a_list(
            horizon in 1u64..100_000,
            operations in prop::collection::vec(
                (any::<bool>(), 0u64..200_000, any::<u64>()),
                1..400,
            ),
        ) {
            const SOURCES: u32 = 16;
            let mut agenda: Agenda<u32> = Agenda::new(SOURCES as usize, horizon);
            let mut list: Vec<(u64, u32, u64, Due<u32>)> = Vec::new();
            let mut free: Vec<u32> = (0..SOURCES).collect();
            let mut now = 0;
            for (sequence, (is_timer, ahead, pick)) in operations.into_iter().enumerate() {
                let time = now + if pick % 5 == 0 { 0 } else { ahead };
                if is_timer {
                    agenda.set_timer(time, sequence as u32);
                    list.push((time, 0, sequence as u64, Due::Timer(sequence as u32)));
                } else if let Some(source) = free.pop() {
                    agenda.schedule(source, time);
                    list.push((time, 1, sequence as u64, Due::Source(source)));
                }
                if pick % 3 == 0 {
                    let limit = now + pick % 150_000;
                    let least = list.iter().copied().min_by_key(|entry| (entry.0, entry.2));
                    let found = agenda.pop(limit);
                    match (least, found) {
                        (Some(entry), Some((time, due))) => {
                            // Among equal times only one order is promised: that of scheduling
                            // within the wheel.
                            prop_assert_eq!(entry.0, time);
                            let place = list.iter().position(|other| other.3 == due).unwrap();
                            prop_assert_eq!(list[place].0, time);
                            list.remove(place);
                            if let Due::Source(source) = due { free.push(source); }
                            now = time;
                        }
                        (Some(entry), None) => prop_assert!(entry.0 > limit),
                        (None, found) => prop_assert!(found.is_none()),
                    }
                }
                prop_assert_eq!(agenda.is_empty(), list.is_empty());
            }
        }
    }

    #[test]
    fn equal_times_keep_the_order_of_scheduling_and_timers_go_first() {
        let mut agenda: Agenda<u8> = Agenda::new(8, 1_000_000);
        for source in [3, 1, 2] {
            agenda.schedule(source, 500_000);
        }
        agenda.schedule(7, 499_999);
        agenda.set_timer(500_000, 9);
        let mut order = Vec::new();
        while let Some((_, due)) = agenda.pop(u64::MAX) {
            order.push(due);
        }
        let sources = [3, 1, 2].map(Due::Source);
        assert_eq!(order[..2], [Due::Source(7), Due::Timer(9)]);
        assert_eq!(order[2..], sources);
    }
}
