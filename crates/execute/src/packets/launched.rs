//! Transfers that may be withdrawn, and the batches in which they go.
//!
//! Between racks whose circuits change, what has not left its server may take another path. A
//! launched transfer therefore goes in *batches*: so many bytes are on their way over each bundle
//! between racks at a time, the others wait at their source, in turn, also while a circuit on
//! their path is dark; those of a higher priority come before others. What is withdrawn while on
//! its way is sent again from its source: packets that are in the network cross it all the same,
//! and count for nothing.

use lightloom_flowsim::LinkId;
use lightloom_model::Time;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// What was asked for: an index, and how often it has been used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LaunchedId {
    pub(super) number: u32,
    pub(super) serial: u32,
}

/// A transfer that may be withdrawn.
#[derive(Debug, Default)]
pub(super) struct Launched {
    pub(super) serial: u32,
    pub(super) token: u64,
    /// As packets have it.
    pub(super) priority: u8,
    pub(super) bytes: u64,
    /// Bytes that wait at their source.
    pub(super) unsent: u64,
    pub(super) path: Vec<LinkId>,
    /// The bundles in which it needs room, see [`Turns::limited`].
    pub(super) limited: u32,
    /// The batches on their way.
    pub(super) batches: Vec<u32>,
}

/// A transfer that waits for its turn. Most of what is looked at while it waits is here: thousands
/// may wait for a bundle, and all of them try when one has arrived.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waiting {
    pub(super) id: LaunchedId,
    /// The bundles in which it needs room, see [`Turns::limited`].
    pub(super) limited: u32,
    pub(super) priority: u8,
}

/// Who waits for what.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// Those that may try to send, and for which bundle they waited.
    pub(super) ready: VecDeque<(Waiting, Option<LinkId>)>,
    /// When something got ready that has not tried to send since.
    pub(super) due: Option<Time>,
    /// By bundle, those that wait until it has room.
    pub(super) waiting: Vec<VecDeque<Waiting>>,
    /// By bundle, bytes of batches on their way over it.
    pub(super) on_way: Vec<u64>,
    /// By bundle, bytes that may be.
    pub(super) most: Vec<u64>,
    /// By bundle with a limit, the batches on their way over it.
    pub(super) batches: Vec<Vec<u32>>,
    /// By number of a launched transfer, how often it has been used; 0 where nobody uses it.
    serials: Vec<u32>,
    /// Lists of bundles with a limit, and the number of each.
    lists: Vec<Vec<LinkId>>,
    numbers: FxHashMap<Vec<LinkId>, u32>,
}

impl Turns {
    pub(super) fn add_bundle(&mut self, most: u64) {
        self.waiting.push(VecDeque::new());
        self.on_way.push(0);
        self.most.push(most);
        self.batches.push(Vec::new());
    }

    /// The number of a list of bundles.
    pub(super) fn limited(&mut self, bundles: Vec<LinkId>) -> u32 {
        *self.numbers.entry(bundles).or_insert_with_key(|bundles| {
            self.lists.push(bundles.clone());
            self.lists.len() as u32 - 1
        })
    }

    /// A transfer begins.
    pub(super) fn begin(&mut self, LaunchedId { number, serial }: LaunchedId) {
        let number = number as usize;
        self.serials.resize(self.serials.len().max(number + 1), 0);
        self.serials[number] = serial;
    }

    /// It ends.
    pub(super) fn end(&mut self, number: u32) {
        self.serials[number as usize] = 0;
    }

    /// Whether it has not ended.
    pub(super) fn is_there(&self, id: LaunchedId) -> bool {
        self.serials[id.number as usize] == id.serial
    }

    pub(super) fn has_room(&self, bundle: LinkId) -> bool {
        self.on_way[bundle.0 as usize] < self.most[bundle.0 as usize]
    }

    /// The first of a list of bundles that has no room.
    pub(super) fn full(&self, limited: u32) -> Option<LinkId> {
        self.lists[limited as usize].iter().copied().find(|&bundle| !self.has_room(bundle))
    }

    /// It may try to send, after those of its priority and higher ones.
    pub(super) fn get_ready(&mut self, it: Waiting, waited_for: Option<LinkId>) {
        let goes_first = |(other, _): &(Waiting, _)| other.priority >= it.priority;
        let place = self.ready.iter().rposition(goes_first).map_or(0, |last| last + 1);
        self.ready.insert(place, (it, waited_for));
    }

    /// It waits for room in a bundle, after those of its priority and higher ones.
    pub(super) fn wait(&mut self, bundle: LinkId, it: Waiting) {
        let waiting = &mut self.waiting[bundle.0 as usize];
        let goes_first = |other: &Waiting| other.priority >= it.priority;
        let place = waiting.iter().rposition(goes_first).map_or(0, |last| last + 1);
        waiting.insert(place, it);
    }

    /// The first that waits for a bundle with room may try.
    pub(super) fn wake(&mut self, bundle: Option<LinkId>) {
        let Some(bundle) = bundle.filter(|&bundle| self.has_room(bundle)) else { return };
        if let Some(it) = self.waiting[bundle.0 as usize].pop_front() {
            self.get_ready(it, Some(bundle));
        }
    }
}
