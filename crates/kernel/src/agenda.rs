//! A calendar of sources with one pending event each, and a heap of timers.
//!
//! A *source* (a link, a NIC) has at most one event pending. The calendar is a wheel of buckets, so
//! adding an event is O(1). A bucket is a list of chunks of a cache line each, which are reused at
//! once: pending events lie close together, and nothing is allocated in steady state. Buckets are
//! narrow, so the times in one are mostly in order already. Events beyond the wheel's horizon, and
//! timers, of which there are few, wait in a heap.
//!
//! Order: time; at one time the heap before the wheel; then the order of scheduling.

use crate::queue::EventQueue;
use lightloom_model::{Duration, Time};

/// An event that is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due<T> {
    /// The pending event of a source.
    Source(u32),
    /// A timer.
    Timer(T),
}

/// Events of a chunk.
const CHUNK: usize = 7;

/// The end of a list of chunks.
const NONE: u32 = u32::MAX;

/// Some events of a bucket, in order of scheduling: the time since the bucket's begin in the upper
/// half, the source in the lower half.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct Chunk {
    events: [u64; CHUNK],
    len: u32,
    /// The preceding chunk of its bucket, or the next spare one.
    next: u32,
}

/// Number of upcoming events that [`Agenda::upcoming`] shows in order.
pub const PREVIEW: usize = 12;

/// Events that may have been taken before their memory is reused.
const MAX_TAKEN: usize = 64;

/// The pending event of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourceEvent {
    /// When it is due.
    pub time: Time,
    /// Whose it is.
    pub source: u32,
}

/// Pending events of many sources, and timers with a payload.
#[derive(Debug, Clone)]
pub struct Agenda<T> {
    /// A bucket spans `2^shift` ps.
    shift: u32,
    /// The last chunk of each bucket.
    buckets: Vec<u32>,
    /// One bit per bucket that has events.
    occupied: Vec<u64>,
    /// Number of bits in `occupied`.
    occupied_count: u32,
    chunks: Vec<Chunk>,
    /// The first chunk that no bucket uses; it leads to the others.
    spare: u32,
    /// The buckets that are being emptied, in order.
    current: Vec<SourceEvent>,
    /// Number of events of `current` that have been taken.
    taken: usize,
    /// Index of the last bucket in `current`, counted from time zero.
    cursor: u64,
    far: EventQueue<Due<T>>,
    /// When the first event of `far` is due.
    far_time: Time,
}

impl<T: Copy> Agenda<T> {
    /// An agenda for this number of sources, most of which schedule at most `horizon` ahead.
    pub fn new(sources: usize, horizon: Duration) -> Self {
        // Most sources schedule far less than the horizon ahead, or nothing.
        let buckets = sources.next_power_of_two().clamp(1 << 8, 1 << 18);
        let width = (horizon.0 / (buckets as u64 - 2)).max(1);
        let shift = (u64::BITS - width.leading_zeros()).min(u32::BITS);
        Self {
            shift,
            buckets: vec![NONE; buckets],
            occupied: vec![0; buckets / 64],
            occupied_count: 0,
            chunks: Vec::new(),
            spare: NONE,
            current: Vec::new(),
            taken: 0,
            cursor: 0,
            far: EventQueue::new(),
            far_time: Time(u64::MAX),
        }
    }

    /// Schedules the event of a source that has none pending.
    #[inline]
    pub fn schedule(&mut self, source: u32, time: Time) {
        let slot = time.0 >> self.shift;
        if slot > self.cursor && slot - self.cursor < self.buckets.len() as u64 {
            let bucket = slot as usize & (self.buckets.len() - 1);
            let event = (time.0 & ((1 << self.shift) - 1)) << 32 | u64::from(source);
            if let Some(chunk) = self.chunks.get_mut(self.buckets[bucket] as usize)
                && let Some(place) = chunk.events.get_mut(chunk.len as usize)
            {
                *place = event;
                chunk.len += 1;
            } else {
                self.begin_chunk(bucket, event);
            }
        } else {
            self.schedule_elsewhere(source, time);
        }
    }

    /// Adds a chunk with one event to a bucket.
    fn begin_chunk(&mut self, bucket: usize, event: u64) {
        let next = self.buckets[bucket];
        if next == NONE {
            self.occupied[bucket / 64] |= 1 << (bucket % 64);
            self.occupied_count += 1;
        }
        let mut chunk = Chunk { events: [0; CHUNK], len: 1, next };
        chunk.events[0] = event;
        if let Some(spare) = self.chunks.get_mut(self.spare as usize) {
            self.buckets[bucket] = std::mem::replace(&mut self.spare, spare.next);
            *spare = chunk;
        } else {
            self.buckets[bucket] = self.chunks.len() as u32;
            self.chunks.push(chunk);
        }
    }

    fn schedule_elsewhere(&mut self, source: u32, time: Time) {
        if time.0 >> self.shift <= self.cursor {
            self.drop_taken();
            // There are few, and those due at the same time were scheduled earlier.
            let place = self.current[self.taken..].partition_point(|other| other.time <= time);
            self.current.insert(self.taken + place, SourceEvent { time, source });
        } else {
            self.push_far(time, Due::Source(source));
        }
    }

    /// Sets a timer; any number may be pending, also at one time.
    pub fn set_timer(&mut self, time: Time, timer: T) {
        self.push_far(time, Due::Timer(timer));
    }

    fn push_far(&mut self, time: Time, due: Due<T>) {
        self.far.push(time, 0, due);
        self.far_time = self.far_time.min(time);
    }

    /// The next events of the calendar in order, if enough of them are near: for prefetching.
    #[inline]
    pub fn upcoming(&self) -> Option<&[SourceEvent; PREVIEW]> {
        self.current[self.taken..].first_chunk()
    }

    /// Removes the next event, if it is due at or before `limit`.
    #[inline]
    pub fn pop(&mut self, limit: Time) -> Option<(Time, Due<T>)> {
        if self.taken + PREVIEW < self.current.len()
            && let Some(&SourceEvent { time, source }) = self.current.get(self.taken)
            && time < self.far_time
            && time <= limit
        {
            self.taken += 1;
            return Some((time, Due::Source(source)));
        }
        self.pop_elsewhere(limit)
    }

    fn pop_elsewhere(&mut self, limit: Time) -> Option<(Time, Due<T>)> {
        while self.current.len() <= self.taken + PREVIEW
            && let Some(slot) = self.near_occupied()
        {
            self.load(slot);
        }
        if self.taken == self.current.len() && self.occupied_count > 0 {
            let slot = self.next_occupied();
            if slot << self.shift <= self.far_time.0 {
                self.load(slot);
            }
        }
        if let Some(&SourceEvent { time, source }) = self.current.get(self.taken)
            && time < self.far_time
        {
            if time > limit {
                return None;
            }
            self.taken += 1;
            return Some((time, Due::Source(source)));
        }
        let event = self.far.pop_until(limit)?;
        self.far_time = self.far.peek().map_or(Time(u64::MAX), |(time, _)| time);
        if self.taken == self.current.len() {
            // Nothing is due before this, so the horizon moves along.
            self.cursor = self.cursor.max(event.time.0 >> self.shift);
        }
        Some((event.time, event.payload))
    }

    /// Whether nothing is pending.
    pub fn is_empty(&self) -> bool {
        self.taken == self.current.len() && self.occupied_count == 0 && self.far.is_empty()
    }

    /// Index of the next occupied bucket, if it is near.
    #[inline]
    fn near_occupied(&self) -> Option<u64> {
        let start = (self.cursor as usize + 1) & (self.buckets.len() - 1);
        let (word, shift) = (start / 64, start % 64);
        let rest = self.occupied[(word + 1) & (self.occupied.len() - 1)];
        // In two steps, as there is no shift by 64.
        let bits = self.occupied[word] >> shift | rest << 1 << (63 - shift);
        (bits != 0).then(|| self.cursor + 1 + u64::from(bits.trailing_zeros()))
    }

    /// Index of the next occupied bucket, where there is one and none is near.
    fn next_occupied(&self) -> u64 {
        let words = self.occupied.len();
        let start = (self.cursor as usize + 1) / 64;
        // The bits of the first word that lie before the start come last.
        let later = (1..=words).find(|later| self.occupied[(start + later) % words] != 0);
        let word = start + later.expect("a bucket is occupied");
        word as u64 * 64 + u64::from(self.occupied[word % words].trailing_zeros())
    }

    /// Reuses the memory of taken events, once there are many.
    fn drop_taken(&mut self) {
        if self.taken > MAX_TAKEN {
            self.current.drain(..self.taken);
            self.taken = 0;
        }
    }

    /// Moves the events of a bucket to the end of `current`.
    fn load(&mut self, slot: u64) {
        self.drop_taken();
        let bucket = slot as usize & (self.buckets.len() - 1);
        self.occupied[bucket / 64] &= !(1 << (bucket % 64));
        self.occupied_count -= 1;
        self.cursor = slot;
        let begin = slot << self.shift;
        let first = self.current.len();
        let mut is_sorted = true;
        let mut latest = Time::ZERO;
        let mut index = self.reversed(bucket);
        while index != NONE {
            let chunk = &mut self.chunks[index as usize];
            self.current.extend(chunk.events[..chunk.len as usize].iter().map(|event| {
                let time = Time(begin + (event >> 32));
                is_sorted &= latest <= time;
                latest = time;
                SourceEvent { time, source: *event as u32 }
            }));
            let next = std::mem::replace(&mut chunk.next, self.spare);
            self.spare = std::mem::replace(&mut index, next);
        }
        if !is_sorted {
            self.current[first..].sort_by_key(|event| event.time);
        }
    }

    /// Detaches the chunks of a bucket in order; returns the first, each leads to the next.
    fn reversed(&mut self, bucket: usize) -> u32 {
        let mut index = std::mem::replace(&mut self.buckets[bucket], NONE);
        let mut behind = NONE;
        while index != NONE {
            let next = std::mem::replace(&mut self.chunks[index as usize].next, behind);
            behind = std::mem::replace(&mut index, next);
        }
        behind
    }

    /// The pending event of every source that has one.
    pub fn pending(&self) -> impl Iterator<Item = SourceEvent> {
        let current = self.current[self.taken..].iter().copied();
        let mask = self.buckets.len() as u64 - 1;
        let later = (1..=mask).flat_map(move |offset| {
            let slot = self.cursor + offset;
            let last = self.chunks.get(self.buckets[(slot & mask) as usize] as usize);
            let chunks = std::iter::successors(last, |chunk| self.chunks.get(chunk.next as usize));
            let events = chunks.flat_map(|chunk| &chunk.events[..chunk.len as usize]);
            events.map(move |event| SourceEvent {
                time: Time((slot << self.shift) + (event >> 32)),
                source: *event as u32,
            })
        });
        let far = self.far.iter().filter_map(|(time, due)| match due {
            Due::Source(source) => Some(SourceEvent { time, source: *source }),
            Due::Timer(_) => None,
        });
        current.chain(later).chain(far)
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
            let mut agenda: Agenda<u32> = Agenda::new(SOURCES as usize, Duration(horizon));
            let mut list: Vec<(u64, u32, u64, Due<u32>)> = Vec::new();
            let mut free: Vec<u32> = (0..SOURCES).collect();
            let mut now = 0;
            for (sequence, (is_timer, later, pick)) in operations.into_iter().enumerate() {
                let time = now + if pick % 5 == 0 { 0 } else { later };
                if is_timer {
                    agenda.set_timer(Time(time), sequence as u32);
                    list.push((time, 0, sequence as u64, Due::Timer(sequence as u32)));
                } else if let Some(source) = free.pop() {
                    agenda.schedule(source, Time(time));
                    list.push((time, 1, sequence as u64, Due::Source(source)));
                }
                if pick % 3 == 0 {
                    let limit = now + pick % 150_000;
                    let first = list.iter().copied().min_by_key(|entry| (entry.0, entry.2));
                    let found = agenda.pop(Time(limit));
                    match (first, found) {
                        (Some(entry), Some((Time(time), due))) => {
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
                let pair = |event: SourceEvent| (event.source, event.time.0);
                let mut sources: Vec<_> = agenda.pending().map(pair).collect();
                let mut listed: Vec<_> = list
                    .iter()
                    .filter_map(|&(time, _, _, due)| match due {
                        Due::Source(source) => Some((source, time)),
                        Due::Timer(_) => None,
                    })
                    .collect();
                sources.sort_unstable();
                listed.sort_unstable();
                prop_assert_eq!(sources, listed);
            }
        }
    }

    #[test]
    fn a_long_bucket_does_not_grow() {
        let mut agenda: Agenda<u8> = Agenda::new(1, Duration(1 << 40));
        for time in (0..100_000).map(Time) {
            agenda.schedule(0, time);
            assert_eq!(agenda.pop(Time(u64::MAX)), Some((time, Due::Source(0))));
        }
        assert!(agenda.current.capacity() < 8 * MAX_TAKEN);
    }

    #[test]
    fn equal_times_keep_the_order_of_scheduling_and_timers_go_first() {
        let mut agenda: Agenda<u8> = Agenda::new(8, Duration(1_000_000));
        for source in [3, 1, 2] {
            agenda.schedule(source, Time(500_000));
        }
        agenda.schedule(7, Time(499_999));
        agenda.set_timer(Time(500_000), 9);
        let mut order = Vec::new();
        while let Some((_, due)) = agenda.pop(Time(u64::MAX)) {
            order.push(due);
        }
        let sources = [3, 1, 2].map(Due::Source);
        assert_eq!(order[..2], [Due::Source(7), Due::Timer(9)]);
        assert_eq!(order[2..], sources);
    }
}
