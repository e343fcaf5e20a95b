//! Where flows are kept: the links of their paths, and the flows that cross each link.
//!
//! A flow is one cache line. What a pass over a link needs lies in the link's own list of
//! entries, in order; the flow is touched only when it starts, ends or changes its bottleneck.
//! Links are numbered from 1 here; number 0 is a link without limit that no path contains, which
//! fills up short paths. Removal is O(path).

use crate::grid::Place;
use crate::ids::{LinkId, NO_LINK, SHORT};
use crate::level::smaller;

/// As first of [`Entry::others`]: the path is longer than [`SHORT`], look it up.
pub(crate) const MANY: u32 = u32::MAX;
/// As [`Flow::bottleneck`]: the flow is in a cell of a grid, and has no entries.
pub(crate) const IN_CELL: u32 = u32::MAX;
/// [`Entry::remaining`] on links that are not the flow's bottleneck. Less anything, it stays.
pub(crate) const ELSEWHERE: f64 = f64::INFINITY;

/// One link of a path and the position of the flow's entry there.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Hop {
    pub link: u32,
    pub position: u32,
}

#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
pub(crate) struct Flow {
    pub token: u64,
    pub size: u64,
    pub sequence: u64,
    /// The link that sets its rate; `NO_LINK` until rates are first computed.
    pub bottleneck: u32,
    length: u32,
    /// The path if it is short; else the link of the first is its place in `Store::long`.
    hops: [Hop; SHORT],
}

/// A flow on a link that it crosses.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    pub flow: u32,
    /// The other links of its path.
    pub others: [u32; SHORT - 1],
    /// If the link is its bottleneck, bits left when the link was settled, else `ELSEWHERE`.
    pub remaining: f64,
}

/// A link. Bits left and finish times are explained in `progress`.
#[derive(Debug, Clone)]
pub(crate) struct Link {
    pub crossing: Vec<Entry>,
    /// Bits per second.
    pub capacity: f64,
    /// Rate since `settled` of each flow whose bottleneck it is.
    pub drain: f64,
    /// Time as of which bits left are known, in ps.
    pub settled: u64,
    /// Minimum of the bits left of the flows whose bottleneck it is.
    pub minimum: f64,
    /// Bytes that flows which have left have sent over it.
    pub carried: u64,
    /// Where it stands in a grid, as the first or the last link of paths.
    pub place: Place,
    /// Grids with flows that it is in the middle of the paths of, and the sum of their rates.
    pub passing: Vec<u32>,
    pub in_cells: f64,
}

impl Link {
    pub(crate) fn new(capacity: f64, now: u64) -> Self {
        Self {
            crossing: Vec::new(),
            capacity,
            drain: 0.0,
            settled: now,
            minimum: ELSEWHERE,
            carried: 0,
            place: Place::NONE,
            passing: Vec::new(),
            in_cells: 0.0,
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Store {
    pub flows: Vec<Flow>,
    /// How many equal flows each stands for; shorter than `flows` where the others are one each.
    counts: Vec<u32>,
    pub links: Vec<Link>,
    free_slots: Vec<u32>,
    /// Long paths, in blocks of a power of two.
    long: Vec<Hop>,
    /// Free blocks of `long` by the logarithm of their length.
    free_long: Vec<Vec<u32>>,
}

impl Store {
    pub(crate) fn new() -> Self {
        let links = vec![Link::new(f64::INFINITY, 0)];
        Self {
            flows: vec![],
            counts: vec![],
            links,
            free_slots: vec![],
            long: vec![],
            free_long: vec![],
        }
    }

    /// Number of flows.
    pub(crate) fn len(&self) -> usize {
        self.flows.len() - self.free_slots.len()
    }

    /// How many equal flows one stands for.
    #[inline]
    pub(crate) fn count(&self, flow: u32) -> u32 {
        self.counts.get(flow as usize).copied().unwrap_or(1)
    }

    /// The same, as a factor on its rate.
    #[inline]
    pub(crate) fn weight(&self, flow: u32) -> f64 {
        f64::from(self.count(flow))
    }

    /// Whether every flow stands for itself alone.
    #[inline]
    pub(crate) fn are_single(&self) -> bool {
        self.counts.is_empty()
    }

    /// Has a flow, which is on no link yet, stand for so many equal ones.
    pub(crate) fn set_count(&mut self, flow: u32, count: u32) {
        if count != self.count(flow) {
            let length = self.counts.len().max(flow as usize + 1);
            self.counts.resize(length, 1);
            self.counts[flow as usize] = count;
        }
    }

    pub(crate) fn path(&self, flow: u32) -> &[Hop] {
        let flow = &self.flows[flow as usize];
        let length = flow.length as usize;
        if length <= SHORT {
            &flow.hops[..length]
        } else {
            let first = flow.hops[0].link as usize;
            &self.long[first..first + length]
        }
    }

    fn path_mut(&mut self, flow: u32) -> &mut [Hop] {
        let flow = &mut self.flows[flow as usize];
        let length = flow.length as usize;
        if length <= SHORT {
            &mut flow.hops[..length]
        } else {
            let first = flow.hops[0].link as usize;
            &mut self.long[first..first + length]
        }
    }

    /// A flow that is on no link yet.
    pub(crate) fn insert(&mut self, token: u64, size: u64, sequence: u64) -> u32 {
        let hops = [Hop::default(); SHORT];
        let flow = Flow { token, size, sequence, bottleneck: NO_LINK, length: 0, hops };
        if let Some(slot) = self.free_slots.pop() {
            self.flows[slot as usize] = flow;
            slot
        } else {
            self.flows.push(flow);
            (self.flows.len() - 1) as u32
        }
    }

    /// Puts `flow` on every link of `path`.
    pub(crate) fn enter(&mut self, flow: u32, path: &[LinkId]) {
        let length = path.len();
        self.flows[flow as usize].length = length as u32;
        if length > SHORT {
            self.flows[flow as usize].hops[0].link = self.allocate_long(length);
        }
        let mut links = [NO_LINK; SHORT];
        for (slot, link) in links.iter_mut().zip(path) {
            *slot = link.0 + 1;
        }
        let [first, second, third, fourth] = links;
        for (index, link) in path.iter().enumerate() {
            let others = match index {
                _ if length > SHORT => [MANY, NO_LINK, NO_LINK],
                0 => [second, third, fourth],
                1 => [first, third, fourth],
                2 => [first, second, fourth],
                _ => [first, second, third],
            };
            let link = link.0 + 1;
            let crossing = &mut self.links[link as usize].crossing;
            let position = crossing.len() as u32;
            crossing.push(Entry { flow, others, remaining: ELSEWHERE });
            self.path_mut(flow)[index] = Hop { link, position };
        }
    }

    /// Gives `flow` a path without putting it on its links: it is in a cell.
    pub(crate) fn enter_cell(&mut self, flow: u32, path: &[LinkId]) {
        let flow = &mut self.flows[flow as usize];
        flow.bottleneck = IN_CELL;
        flow.length = path.len() as u32;
        for (hop, link) in flow.hops.iter_mut().zip(path) {
            hop.link = link.0 + 1;
        }
    }

    /// Puts a flow that was in a cell on the links of its path.
    pub(crate) fn enter_from_cell(&mut self, flow: u32) {
        let Flow { hops, length, .. } = self.flows[flow as usize];
        let path = hops.map(|hop| LinkId(hop.link.wrapping_sub(1)));
        self.enter(flow, &path[..length as usize]);
    }

    fn allocate_long(&mut self, length: usize) -> u32 {
        let class = length.next_power_of_two().trailing_zeros() as usize;
        if class >= self.free_long.len() {
            self.free_long.resize_with(class + 1, Vec::new);
        }
        self.free_long[class].pop().unwrap_or_else(|| {
            let first = self.long.len();
            self.long.resize(first + (1 << class), Hop::default());
            first as u32
        })
    }

    /// Takes the entry at `hop` off its link.
    pub(crate) fn remove_entry(&mut self, hop: Hop) {
        let crossing = &mut self.links[hop.link as usize].crossing;
        crossing.swap_remove(hop.position as usize);
        if let Some(moved) = crossing.get(hop.position as usize) {
            let moved = moved.flow;
            let path = self.path_mut(moved);
            let place = path.iter_mut().find(|place| place.link == hop.link);
            place.expect("a flow on a link has it in its path").position = hop.position;
        }
    }

    /// Whether a slot has a flow that is on links, or in a cell.
    pub(crate) fn holds(&self, flow: u32) -> bool {
        self.flows[flow as usize].length > 0
    }

    /// Frees the slot of a flow that is off all its links.
    pub(crate) fn free(&mut self, flow: u32) {
        let Flow { length, hops, .. } = self.flows[flow as usize];
        self.flows[flow as usize].length = 0;
        if length as usize > SHORT {
            let class = length.next_power_of_two().trailing_zeros() as usize;
            self.free_long[class].push(hops[0].link);
        }
        self.free_slots.push(flow);
    }

    /// The entry of `flow` on a link of its path.
    pub(crate) fn entry_mut(&mut self, flow: u32, link: u32) -> &mut Entry {
        let hop = self.path(flow).iter().find(|hop| hop.link == link);
        let position = hop.expect("an entry is asked for on a link of the path").position;
        &mut self.links[link as usize].crossing[position as usize]
    }

    /// The lowest level on the rest of the path of an entry of `link`.
    #[inline]
    pub(crate) fn cap(&self, entry: &Entry, link: u32, levels: &[f64]) -> f64 {
        let [first, second, third] = entry.others;
        if first == MANY {
            let rest = self.path(entry.flow).iter().filter(|hop| hop.link != link);
            return rest.map(|hop| levels[hop.link as usize]).fold(f64::INFINITY, smaller);
        }
        let cap = levels[first as usize];
        if second == NO_LINK {
            return cap;
        }
        smaller(smaller(cap, levels[second as usize]), levels[third as usize])
    }

    /// The link with the lowest level on the path of `flow`, the earlier one if equal.
    pub(crate) fn lowest(&self, flow: u32, levels: &[f64]) -> u32 {
        let level = |hop: &&Hop| levels[hop.link as usize];
        let lowest = self.path(flow).iter().min_by(|a, b| level(a).total_cmp(&level(b)));
        lowest.map_or(NO_LINK, |hop| hop.link)
    }
}
