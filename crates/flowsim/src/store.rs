//! Where flows are kept: their slots, the links of their paths, and who crosses which link.
//!
//! Links are numbered from 1 here; number 0 is a link without limit that no path contains, which
//! stands for "the rest of the path" of a flow with a single link. Removal is O(path).

/// The link without limit.
pub(crate) const NO_LINK: u32 = 0;
/// In [`Entry::other`]: the path has three links or more, look it up.
pub(crate) const MANY: u32 = u32::MAX;

/// What every pass over a link reads and writes of a flow.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Flow {
    /// Bits left to send when its bottleneck was last settled.
    pub remaining: f64,
    /// The link that sets its rate; `NO_LINK` until rates are first computed.
    pub bottleneck: u32,
    first_hop: u32,
    hops: u32,
}

/// What only its start and its end need.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ticket {
    pub sequence: u64,
    pub token: u64,
    pub size: u64,
}

/// One link of a path and where the flow stands among those that cross it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Hop {
    pub link: u32,
    position: u32,
}

/// One flow that crosses a link.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    pub flow: u32,
    /// The other link of a path of two, `NO_LINK` of a path of one, else `MANY`.
    pub other: u32,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Store {
    pub flows: Vec<Flow>,
    pub tickets: Vec<Ticket>,
    free_slots: Vec<u32>,
    hops: Vec<Hop>,
    /// Freed blocks of hops by the logarithm of their length.
    free_hops: Vec<Vec<u32>>,
    crossing: Vec<Vec<Entry>>,
}

impl Store {
    pub fn new() -> Self {
        Self { crossing: vec![Vec::new()], ..Self::default() }
    }

    pub fn add_link(&mut self) {
        self.crossing.push(Vec::new());
    }

    /// The flows that cross `link`.
    pub fn crossing(&self, link: u32) -> &[Entry] {
        &self.crossing[link as usize]
    }

    pub fn path(&self, flow: u32) -> &[Hop] {
        let flow = &self.flows[flow as usize];
        &self.hops[flow.first_hop as usize..(flow.first_hop + flow.hops) as usize]
    }

    /// A flow that has not begun: no bottleneck and on no link.
    pub fn insert(&mut self, ticket: Ticket) -> u32 {
        let remaining = ticket.size as f64 * 8.0;
        let flow = Flow { remaining, bottleneck: NO_LINK, first_hop: 0, hops: 0 };
        if let Some(slot) = self.free_slots.pop() {
            self.flows[slot as usize] = flow;
            self.tickets[slot as usize] = ticket;
            slot
        } else {
            self.flows.push(flow);
            self.tickets.push(ticket);
            (self.flows.len() - 1) as u32
        }
    }

    /// Puts `flow` on every link of `path`.
    pub fn enter(&mut self, flow: u32, path: impl ExactSizeIterator<Item = u32> + Clone) {
        let length = path.len();
        let class = length.next_power_of_two().trailing_zeros() as usize;
        if class >= self.free_hops.len() {
            self.free_hops.resize_with(class + 1, Vec::new);
        }
        let first = self.free_hops[class].pop().unwrap_or_else(|| {
            let first = self.hops.len();
            self.hops.resize(first + (1 << class), Hop::default());
            first as u32
        });
        self.flows[flow as usize].first_hop = first;
        self.flows[flow as usize].hops = length as u32;
        let sum: u64 = path.clone().map(u64::from).sum();
        for (index, link) in path.enumerate() {
            let other = match length {
                1 => NO_LINK,
                2 => (sum - u64::from(link)) as u32,
                _ => MANY,
            };
            let crossing = &mut self.crossing[link as usize];
            self.hops[first as usize + index] = Hop { link, position: crossing.len() as u32 };
            crossing.push(Entry { flow, other });
        }
    }

    /// Takes `flow` off its links and frees its slot.
    pub fn remove(&mut self, flow: u32) {
        let Flow { first_hop, hops, .. } = self.flows[flow as usize];
        for index in first_hop..first_hop + hops {
            let Hop { link, position } = self.hops[index as usize];
            let crossing = &mut self.crossing[link as usize];
            crossing.swap_remove(position as usize);
            if let Some(moved) = crossing.get(position as usize) {
                let moved = self.flows[moved.flow as usize];
                let range = moved.first_hop as usize..(moved.first_hop + moved.hops) as usize;
                let hop = self.hops[range].iter_mut().find(|hop| hop.link == link);
                hop.expect("a flow on a link has it in its path").position = position;
            }
        }
        if hops > 0 {
            let class = hops.next_power_of_two().trailing_zeros() as usize;
            self.free_hops[class].push(first_hop);
        }
        self.free_slots.push(flow);
    }

    /// Number of flows.
    pub fn len(&self) -> usize {
        self.flows.len() - self.free_slots.len()
    }

    /// The least level on the path of the flow of `entry`, `link` left out, and its link.
    pub fn rest_of_path(&self, entry: Entry, link: u32, levels: &[f64]) -> (f64, u32) {
        if entry.other != MANY {
            return (levels[entry.other as usize], entry.other);
        }
        let mut least = (f64::INFINITY, NO_LINK);
        for hop in self.path(entry.flow) {
            let level = levels[hop.link as usize];
            if hop.link != link && level < least.0 {
                least = (level, hop.link);
            }
        }
        least
    }
}
