//! One time per index (a link, a flow, a server), any of which may change; the earliest is on top.
//!
//! A 4-ary implicit heap of (time, index) with the position of every index, so that moving a time
//! is one sift from where it stands: in simulations most changes are small and stop at once.
//! Equal times are ordered by index, hence the order of pops is a function of the content alone.

use lightloom_model::Time;

const ARITY: usize = 4;
const ABSENT: u32 = u32::MAX;

/// The time in the upper and the index in the lower half: one comparison, without a branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key(u128);

impl Key {
    fn new(time: Time, index: u32) -> Self {
        Self(u128::from(time.0) << 64 | u128::from(index))
    }

    fn time(self) -> Time {
        Time((self.0 >> 64) as u64)
    }

    fn index(self) -> u32 {
        self.0 as u32
    }
}

/// A priority queue of indices whose times may move.
#[derive(Debug, Clone, Default)]
pub struct IndexedQueue {
    heap: Vec<Key>,
    position: Vec<u32>,
}

impl IndexedQueue {
    /// An empty queue.
    pub fn new() -> Self {
        Self::default()
    }

    /// Puts `index` at `time`, whether or not it was in the queue.
    pub fn set(&mut self, index: u32, time: Time) {
        if index as usize >= self.position.len() {
            self.position.resize(index as usize + 1, ABSENT);
        }
        let key = Key::new(time, index);
        let position = self.position[index as usize];
        if position == ABSENT {
            self.heap.push(key);
            self.sift_up(self.heap.len() - 1, key);
        } else {
            self.place(position as usize, key);
        }
    }

    /// Takes `index` out, if it is in.
    pub fn remove(&mut self, index: u32) {
        let Some(&position) = self.position.get(index as usize) else { return };
        if position == ABSENT {
            return;
        }
        self.position[index as usize] = ABSENT;
        let last = self.heap.pop().expect("an index with a position is in the heap");
        if last.index() != index {
            self.place(position as usize, last);
        }
    }

    /// The earliest time and its index.
    pub fn peek(&self) -> Option<(Time, u32)> {
        self.heap.first().map(|key| (key.time(), key.index()))
    }

    /// Appends all indices of the earliest time, in no order of meaning, and leaves them in.
    pub fn append_earliest(&self, indices: &mut Vec<u32>) {
        let Some((time, _)) = self.peek() else { return };
        let begin = indices.len();
        // They are connected from the top; `indices` first holds their positions.
        indices.push(0);
        let mut next = begin;
        while next < indices.len() {
            let first = indices[next] as usize * ARITY + 1;
            for child in first..(first + ARITY).min(self.heap.len()) {
                if self.heap[child].time() == time {
                    indices.push(child as u32);
                }
            }
            next += 1;
        }
        for index in &mut indices[begin..] {
            *index = self.heap[*index as usize].index();
        }
    }

    /// The time of `index`, if it is in the queue.
    pub fn time_of(&self, index: u32) -> Option<Time> {
        let position = *self.position.get(index as usize)?;
        (position != ABSENT).then(|| self.heap[position as usize].time())
    }

    /// Number of indices in the queue.
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    /// Writes `key` at the hole `position` and restores the order around it.
    fn place(&mut self, position: usize, key: Key) {
        if position > 0 && key < self.heap[(position - 1) / ARITY] {
            self.sift_up(position, key);
        } else {
            self.sift_down(position, key);
        }
    }

    fn sift_up(&mut self, mut hole: usize, key: Key) {
        while hole > 0 {
            let parent = (hole - 1) / ARITY;
            let above = self.heap[parent];
            if above <= key {
                break;
            }
            self.write(hole, above);
            hole = parent;
        }
        self.write(hole, key);
    }

    fn sift_down(&mut self, mut hole: usize, key: Key) {
        loop {
            let first = hole * ARITY + 1;
            let (earliest, below) = if let Some(children) = self.heap.get(first..first + ARITY) {
                let near =
                    if children[1] < children[0] { (1, children[1]) } else { (0, children[0]) };
                let far =
                    if children[3] < children[2] { (3, children[3]) } else { (2, children[2]) };
                if far.1 < near.1 { far } else { near }
            } else if let Some(children) = self.heap.get(first..) {
                let earliest = children.iter().copied().enumerate().min_by_key(|(_, child)| *child);
                let Some(earliest) = earliest else { break };
                earliest
            } else {
                break;
            };
            if key <= below {
                break;
            }
            self.write(hole, below);
            hole = first + earliest;
        }
        self.write(hole, key);
    }

    fn write(&mut self, hole: usize, key: Key) {
        self.heap[hole] = key;
        self.position[key.index() as usize] = hole as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn the_earliest_is_on_top_and_moves() {
        let mut queue = IndexedQueue::new();
        queue.set(7, Time(30));
        queue.set(2, Time(20));
        queue.set(5, Time(20));
        assert_eq!(queue.peek(), Some((Time(20), 2)));
        queue.set(2, Time(40));
        assert_eq!(queue.peek(), Some((Time(20), 5)));
        queue.remove(5);
        queue.remove(5);
        queue.remove(900);
        assert_eq!(queue.peek(), Some((Time(30), 7)));
        assert_eq!((queue.time_of(2), queue.time_of(5)), (Some(Time(40)), None));
        assert_eq!(queue.len(), 2);
    }

    proptest! {
        #[test]
        fn agrees_with_a_map(
            operations in prop::collection::vec((0u32..40, prop::option::of(0u64..30)), 0..400),
        ) {
            let mut queue = IndexedQueue::new();
            let mut map: BTreeMap<u32, u64> = BTreeMap::new();
            for (index, time) in operations {
                if let Some(time) = time {
                    queue.set(index, Time(time));
                    map.insert(index, time);
                } else {
                    queue.remove(index);
                    map.remove(&index);
                }
                let first_due = map.iter().map(|(&index, &time)| (Time(time), index)).min();
                prop_assert_eq!(queue.peek(), first_due);
                prop_assert_eq!((queue.len(), queue.is_empty()), (map.len(), map.is_empty()));
                prop_assert_eq!(queue.time_of(index), map.get(&index).map(|&time| Time(time)));
                let mut earliest = vec![99];
                queue.append_earliest(&mut earliest);
                earliest[1..].sort_unstable();
                let is_earliest =
                    |time: u64| first_due.is_some_and(|(first, _)| first == Time(time));
                let all = map.iter().filter(|&(_, &time)| is_earliest(time));
                let all: Vec<u32> = all.map(|(&index, _)| index).collect();
                prop_assert_eq!(&earliest[1..], all);
            }
        }
    }
}
