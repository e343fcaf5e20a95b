//! A calendar of sources with one pending event each, and a heap of timers.
//!
//! A *source* (a link, a NIC) has at most one event pending. The calendar is a wheel of buckets, so
//! adding an event is O(1). A bucket is a list of chunks of a cache line each, which are reused at
//! once: pending events lie close together, and nothing is allocated in steady state. Buckets are
//! narrow, so the times in one are mostly in order already. Events beyond the wheel's horizon, and
//! timers, of which there are few, wait in a heap.
//!
//! Order: time; at one time timers before sources; timers by their own order, sources by their
//! *turn*, a permutation that differs from time to time so that none is always preferred. It does
//! not depend on when anything was scheduled, so whoever has some of the sources alone takes their
//! events in the same order.

use lightloom_model::{Duration, Time};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// An event that is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Due<T> {
    /// A timer.
    Timer(T),
    /// The pending event of a source.
    Source(u32),
}

/// The turn of a source at a time, and the source whose turn it is: bits that a hash of the time
/// chooses are flipped.
#[inline]
fn turn(time: Time, source: u32) -> u32 {
    source ^ (time.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32
}

/// Events of a chunk.
const CHUNK: usize = 7;

/// The end of a list of chunks.
const NONE: u32 = u32::MAX;

/// Some events of a bucket, in order of scheduling: the time since the bucket's begin in the upper
/// half, the turn of the source in the lower half, so that they compare as the events do.
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

/// What fewer sources are about is in the caches anyway: to know their next events early costs a
/// tenth of a run, as events come in between.
const FEW: usize = 1 << 11;

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
    /// Number of events after the next that are kept in order, where there are as many near.
    ahead: usize,
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
    /// A bucket that is being sorted.
    sorting: Vec<u64>,
    /// Index of the last bucket in `current`, counted from time zero.
    cursor: u64,
    /// Sources by their turn.
    far: BinaryHeap<Reverse<(Time, Due<T>)>>,
    /// When the first event of `far` is due.
    far_time: Time,
}

impl<T: Copy + Ord> Agenda<T> {
    /// An agenda for this number of sources, most of which schedule at most `horizon` ahead.
    pub fn new(sources: usize, horizon: Duration) -> Self {
        // Most sources schedule far less than the horizon ahead, or nothing.
        let buckets = sources.next_power_of_two().clamp(1 << 8, 1 << 18);
        let width = (horizon.0 / (buckets as u64 - 2)).max(1);
        let shift = (u64::BITS - width.leading_zeros()).min(u32::BITS);
        Self {
            shift,
            ahead: if sources < FEW { 0 } else { PREVIEW },
            buckets: vec![NONE; buckets],
            occupied: vec![0; buckets / 64],
            occupied_count: 0,
            chunks: Vec::new(),
            spare: NONE,
            current: Vec::new(),
            taken: 0,
            sorting: Vec::new(),
            cursor: 0,
            far: BinaryHeap::new(),
            far_time: Time(u64::MAX),
        }
    }

    /// Schedules the event of a source that has none pending.
    #[inline]
    pub fn schedule(&mut self, source: u32, time: Time) {
        let slot = time.0 >> self.shift;
        if slot > self.cursor && slot - self.cursor < self.buckets.len() as u64 {
            let bucket = slot as usize & (self.buckets.len() - 1);
            let event = (time.0 & ((1 << self.shift) - 1)) << 32 | u64::from(turn(time, source));
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
            // There are few.
            let key = |event: &SourceEvent| (event.time, turn(event.time, event.source));
            let event = SourceEvent { time, source };
            let later = &self.current[self.taken..];
            let place = later.partition_point(|other| key(other) < key(&event));
            self.current.insert(self.taken + place, event);
        } else {
            self.push_far(time, Due::Source(turn(time, source)));
        }
    }

    /// Sets a timer; any number may be pending, also at one time.
    pub fn set_timer(&mut self, time: Time, timer: T) {
        self.push_far(time, Due::Timer(timer));
    }

    fn push_far(&mut self, time: Time, due: Due<T>) {
        self.far.push(Reverse((time, due)));
        self.far_time = self.far_time.min(time);
    }

    /// The next events of the calendar in order, if enough of them are near and sources are
    /// many: for prefetching.
    #[inline]
    pub fn upcoming(&self) -> Option<&[SourceEvent; PREVIEW]> {
        self.current[self.taken..].first_chunk()
    }

    /// Removes the next event, if it is due at or before `limit`.
    #[inline]
    pub fn pop(&mut self, limit: Time) -> Option<(Time, Due<T>)> {
        if self.taken + self.ahead < self.current.len()
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
        while self.current.len() <= self.taken + self.ahead
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
        let far = self.far.peek().map(|Reverse(event)| *event);
        if let Some(&SourceEvent { time, source }) = self.current.get(self.taken)
            && far.is_none_or(|far| (time, Due::Source(turn(time, source))) < far)
        {
            if time > limit {
                return None;
            }
            self.taken += 1;
            return Some((time, Due::Source(source)));
        }
        let (time, due) = far.filter(|&(time, _)| time <= limit)?;
        self.far.pop();
        self.far_time = self.far.peek().map_or(Time(u64::MAX), |Reverse((time, _))| *time);
        if self.taken == self.current.len() {
            // Nothing is due before this, so the horizon moves along.
            self.cursor = self.cursor.max(time.0 >> self.shift);
        }
        Some(match due {
            Due::Source(place) => (time, Due::Source(turn(time, place))),
            timer @ Due::Timer(_) => (time, timer),
        })
    }

    /// When the next event is due.
    pub fn next_time(&mut self) -> Option<Time> {
        if self.taken == self.current.len() && self.occupied_count > 0 {
            let slot = self.next_occupied();
            if slot << self.shift <= self.far_time.0 {
                self.load(slot);
            }
        }
        let first = self.current.get(self.taken).map(|event| event.time);
        let far = self.far.peek().map(|Reverse((time, _))| *time);
        first.into_iter().chain(far).min()
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
        self.sorting.clear();
        let mut is_sorted = true;
        let mut latest = 0;
        let mut index = self.reversed(bucket);
        while index != NONE {
            let chunk = &mut self.chunks[index as usize];
            for &event in &chunk.events[..chunk.len as usize] {
                is_sorted &= latest <= event;
                latest = event;
                self.sorting.push(event);
            }
            let next = std::mem::replace(&mut chunk.next, self.spare);
            self.spare = std::mem::replace(&mut index, next);
        }
        if !is_sorted {
            self.sorting.sort_unstable();
        }
        self.current.extend(self.sorting.iter().map(|event| {
            let time = Time(begin + (event >> 32));
            SourceEvent { time, source: turn(time, *event as u32) }
        }));
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
        let far = self.far.iter().filter_map(|&Reverse((time, due))| match due {
            Due::Source(source) => Some(SourceEvent { time, source }),
            Due::Timer(_) => None,
        });
        let by_turn = later.chain(far);
        current.chain(
            by_turn.map(|SourceEvent { time, source }| SourceEvent {
                time,
                source: turn(time, source),
            }),
        )
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
            let mut list: Vec<(u64, Due<u32>)> = Vec::new();
            let mut free: Vec<u32> = (0..SOURCES).collect();
            let mut now = 0;
            for (sequence, (is_timer, later, pick)) in operations.into_iter().enumerate() {
                let time = now + if pick % 5 == 0 { 0 } else { later };
                if is_timer {
                    // Numbers fall, so that the order of setting is not theirs.
                    let timer = 1000 - sequence as u32;
                    agenda.set_timer(Time(time), timer);
                    list.push((time, Due::Timer(timer)));
                } else if let Some(source) = free.pop() {
                    agenda.schedule(source, Time(time));
                    list.push((time, Due::Source(source)));
                }
                if pick % 3 == 0 {
                    let limit = now + pick % 150_000;
                    let first = list.iter().copied().min_by_key(|&(time, due)| match due {
                        Due::Source(source) => (time, 1, turn(Time(time), source)),
                        Due::Timer(timer) => (time, 0, timer),
                    });
                    let popped = agenda.pop(Time(limit));
                    match (first, popped) {
                        (Some(entry), Some((Time(time), due))) => {
                            prop_assert_eq!(entry, (time, due));
                            list.retain(|other| *other != entry);
                            if let Due::Source(source) = due { free.push(source); }
                            now = time;
                        }
                        (Some(entry), None) => prop_assert!(entry.0 > limit),
                        (None, popped) => prop_assert!(popped.is_none()),
                    }
                }
                prop_assert_eq!(agenda.is_empty(), list.is_empty());
                let pair = |event: SourceEvent| (event.source, event.time.0);
                let mut sources: Vec<_> = agenda.pending().map(pair).collect();
                let mut listed: Vec<_> = list
                    .iter()
                    .filter_map(|&(time, due)| match due {
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
    fn at_one_time_timers_go_first_and_sources_by_turn_however_far_they_were() {
        let mut agenda: Agenda<u8> = Agenda::new(8, Duration(1_000_000));
        let time = Time(5_000_000);
        // Beyond the horizon, then within it.
        agenda.schedule(4, time);
        agenda.set_timer(time, 9);
        agenda.schedule(6, Time(4_900_000));
        assert_eq!(agenda.pop(time), Some((Time(4_900_000), Due::Source(6))));
        for source in [5, 3] {
            agenda.schedule(source, time);
        }
        agenda.set_timer(time, 2);
        let due = std::iter::from_fn(|| agenda.pop(time)).map(|(_, due)| due);
        let mut sources = [3, 4, 5];
        sources.sort_unstable_by_key(|&source| turn(time, source));
        let expected = [2, 9].map(Due::Timer).into_iter().chain(sources.map(Due::Source));
        assert_eq!(due.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
    }

    /// A permutation, and over many times every order of a few sources.
    #[test]
    fn turns_change_from_time_to_time() {
        let mut first = [0_u32; 8];
        for time in (0..8_000).map(|slot| Time(slot * 332_800)) {
            assert!((0..1 << 12).all(|source| turn(time, turn(time, source)) == source));
            let source = (40..48).min_by_key(|&source| turn(time, source)).unwrap();
            first[source as usize - 40] += 1;
        }
        // 1,000 each, within five deviations of 30.
        assert!(first.iter().all(|count| (850..1_150).contains(count)), "{first:?}");
    }
}
