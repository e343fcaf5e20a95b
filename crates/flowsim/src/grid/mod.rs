//! What is known of grids: see `all_to_all`, which keeps flows in them.

mod cells;
mod filling;

pub(crate) use cells::{Grid, Middle};
pub(crate) use filling::{Cell, SIDE, each};

/// In [`Place::grid`]: the link is in none.
pub(crate) const NO_GRID: u32 = u32::MAX;
/// Where a link stands in a grid.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub grid: u32,
    pub side: u8,
    pub line: u8,
}

impl Place {
    pub(crate) const NONE: Self = Self { grid: NO_GRID, side: 0, line: 0 };

    /// The grid that the link is in.
    pub(crate) fn grid(self) -> Option<usize> {
        (self.grid != NO_GRID).then_some(self.grid as usize)
    }
}

/// All grids of a network.
#[derive(Debug, Clone, Default)]
pub(crate) struct Grids {
    pub grids: Vec<Grid>,
    /// Those in which flows, or capacities, have changed.
    pub stale: Vec<u32>,
}

impl Grids {
    /// Whether nothing has changed in them since rates were computed.
    pub(crate) fn are_settled(&self) -> bool {
        self.stale.is_empty()
    }

    pub(crate) fn make_stale(&mut self, number: usize) {
        if !std::mem::replace(&mut self.grids[number].is_stale, true) {
            self.stale.push(number as u32);
        }
    }
}
