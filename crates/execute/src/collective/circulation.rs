//! How bytes go around the members of a collective.

/// How a collective goes around its members, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Circulation {
    /// Bytes over each edge.
    pub edge_bytes: u64,
    /// Edges from one member to the next: one per member, but for chains.
    pub edges: u64,
    /// Steps of the longest chain of messages, each over one edge.
    pub steps: u64,
}

impl Circulation {
    /// Steps until the last of as many chunks as steps has crossed its last edge: around a ring all
    /// edges are busy in each step, along a chain the chunks follow each other.
    pub(crate) fn steps_of_chunks(&self, members: usize) -> u64 {
        if self.is_closed(members) { self.steps } else { self.steps + self.edges - 1 }
    }

    /// Whether the last member sends to the first.
    pub(crate) fn is_closed(&self, members: usize) -> bool {
        self.edges == members as u64
    }
}
