//! Grids: flows from a few links to a few others that nothing else crosses.
//!
//! An all-to-all along a rail sends from each member's NIC to that of every other, and hardly ever
//! does anything else cross these NICs meanwhile. A grid has a row for each link that such paths
//! begin with, a column for each that they end with, and in each *cell* one flow at most. What is
//! known of its flows is in tables of eight by eight numbers then, and nothing moves when a flow
//! starts or ends.
//!
//! Rates are max-min fair as everywhere, and only how fast they are found is different. Links
//! between the two ends of a path take part in that by their headroom alone: they must not be full.
//! Whatever does not fit (another flow on a line, a second one in a cell, a full link in between)
//! *opens* the grid: its flows go on as all others do, and flows return to cells once its lines are
//! empty.

use crate::grid::{Cell, Grid, Middle, NO_GRID, Place, SIDE, each};
use crate::ids::{LinkId, NO_LINK, SHORT};
use crate::network::FlowNetwork;
use crate::span::PS;
use lightloom_model::Time;

/// Kinds of middles of a grid at most, for one byte each.
const MAX_MIDDLES: usize = 256;
/// Index of rows, and of columns, in what a grid has for both.
const SIDES: [usize; 2] = [0, 1];

/// A cell of one of the grids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GridCell {
    grid: usize,
    cell: Cell,
}

impl FlowNetwork {
    /// Says that many flows will lead from links of `first` to links of `last`: flows of an
    /// all-to-all. That changes no rate and no time, only how fast they are found. It does
    /// nothing if a link is among such links already, or a side has more than eight.
    pub fn expect(&mut self, first: &[LinkId], last: &[LinkId]) {
        let is_free = |link: &LinkId| {
            let link = &self.store.links[link.0 as usize + 1];
            link.place.grid == NO_GRID && link.crossing.is_empty()
        };
        let is_small = first.len().max(last.len()) <= SIDE;
        if !is_small
            || first.is_empty()
            || last.is_empty()
            || !first.iter().chain(last).all(is_free)
        {
            return;
        }
        let number = self.grids.grids.len() as u32;
        let mut grid = Grid::new([[NO_LINK; SIDE]; 2]);
        for (side, links) in SIDES.into_iter().zip([first, last]) {
            for (line, link) in links.iter().enumerate() {
                let stored = &mut self.store.links[link.0 as usize + 1];
                stored.place = Place { grid: number, side: side as u8, line: line as u8 };
                grid.links[side][line] = link.0 + 1;
                grid.capacity[side][line] = stored.capacity;
            }
        }
        self.grids.grids.push(grid);
    }

    /// The empty cell that a flow over this path can be in; `None` if there is none.
    pub(crate) fn empty_cell(&self, path: &[LinkId]) -> Option<GridCell> {
        let (&[first, ref middle @ .., last], true) = (path, path.len() <= SHORT) else {
            return None;
        };
        let place = |link: LinkId| self.store.links[link.0 as usize + 1].place;
        let (from, to) = (place(first), place(last));
        if (from.grid, from.side, to.side) != (to.grid, 0, 1) {
            return None;
        }
        let cell = Cell { row: from.line.into(), column: to.line.into() };
        let number = from.grid()?;
        let grid = &self.grids.grids[number];
        let is_empty = grid.others == 0 && grid.taken & cell.bit() == 0;
        let is_free = |&link: &LinkId| {
            self.levels[link.0 as usize + 1].is_infinite() && place(link).grid == NO_GRID
        };
        (is_empty && middle.iter().all(is_free)).then_some(GridCell { grid: number, cell })
    }

    /// Starts a flow of this many bits in an empty cell; false if its path is one too many.
    pub(crate) fn enter_cell(
        &mut self,
        cell: GridCell,
        flow: u32,
        path: &[LinkId],
        bits: f64,
    ) -> bool {
        let GridCell { grid: number, cell } = cell;
        let mut links = [NO_LINK; SHORT - 2];
        for (slot, link) in links.iter_mut().zip(&path[1..path.len() - 1]) {
            *slot = link.0 + 1;
        }
        let Some(middle) = self.middle(number, links) else { return false };
        self.store.enter_cell(flow, path);
        let grid = &mut self.grids.grids[number];
        grid.settle(self.now);
        grid.enter(cell, flow, bits, middle);
        self.grids.make_stale(number);
        true
    }

    /// The place of links between rows and columns among the middles of a grid; `None` if there are
    /// too many.
    fn middle(&mut self, number: usize, links: [u32; SHORT - 2]) -> Option<u8> {
        let middles = &mut self.grids.grids[number].middles;
        if let Some(place) = middles.iter().position(|middle| middle.links == links) {
            return Some(place as u8);
        }
        if middles.len() == MAX_MIDDLES {
            return None;
        }
        middles.push(Middle { links, change: 0.0 });
        let place = middles.len() - 1;
        for link in links.into_iter().filter(|&link| link != NO_LINK) {
            let passing = &mut self.store.links[link as usize].passing;
            if !passing.contains(&(number as u32)) {
                passing.push(number as u32);
            }
        }
        Some(place as u8)
    }

    /// A flow starts on these links, but in no cell: it opens the grids that they are lines of.
    pub(crate) fn open_grids(&mut self, path: &[LinkId]) {
        for link in path {
            if let Some(number) = self.store.links[link.0 as usize + 1].place.grid() {
                self.open(number);
                self.grids.grids[number].others += 1;
            }
        }
    }

    /// A flow has left a link that it crossed in no cell.
    #[inline]
    pub(crate) fn leave_line(&mut self, link: u32) {
        if let Some(number) = self.store.links[link as usize].place.grid() {
            self.grids.grids[number].others -= 1;
        }
    }

    /// Has the flows of a grid go on as all others do.
    fn open(&mut self, number: usize) {
        let now = self.now;
        let grid = &mut self.grids.grids[number];
        if grid.taken == 0 {
            return;
        }
        grid.settle(now);
        let flow = |Cell { row, column }| (grid.flow[row][column], row, grid.left[row][column]);
        let flows: Vec<(u32, usize, f64)> = each(grid.taken).map(flow).collect();
        for cell in each(grid.taken) {
            grid.leave(cell);
        }
        let rows = grid.links[0];
        grid.others += 2 * flows.len() as u32;
        self.queue.remove(rows[0]);
        self.load_middles(number);
        for (flow, row, left) in flows {
            self.store.enter_from_cell(flow);
            // As if its row had limited it so far.
            self.join(flow, rows[row], left);
            for index in 0..self.store.path(flow).len() {
                let link = self.store.path(flow)[index].link;
                self.touch(link);
                self.load(link, f64::INFINITY);
            }
        }
    }

    /// Opens the grids whose flows cross a link.
    pub(crate) fn open_through(&mut self, link: u32) {
        let passing = std::mem::take(&mut self.store.links[link as usize].passing);
        for &number in &passing {
            self.open(number as usize);
        }
        let link = &mut self.store.links[link as usize];
        (link.passing, link.in_cells) = (passing, 0.0);
    }

    /// Tells the links in the middle of paths by how much the rates there have grown.
    fn load_middles(&mut self, number: usize) {
        for place in 1..self.grids.grids[number].middles.len() {
            let middle = &mut self.grids.grids[number].middles[place];
            let change = std::mem::take(&mut middle.change);
            for link in middle.links {
                if link != NO_LINK && change != 0.0 {
                    self.store.links[link as usize].in_cells += change;
                    self.load(link, change);
                }
            }
        }
    }

    /// Adds up anew what flows in cells load the middles of their paths with, as sums of changes
    /// lose digits.
    pub(crate) fn renew_middles(&mut self) {
        let links = &mut self.store.links;
        for grid in &mut self.grids.grids {
            for middle in &mut grid.middles {
                middle.change = 0.0;
                for link in middle.links {
                    links[link as usize].in_cells = 0.0;
                }
            }
        }
        for grid in &self.grids.grids {
            for Cell { row, column } in each(grid.taken) {
                let middle = &grid.middles[usize::from(grid.middle[row][column])];
                for link in middle.links {
                    links[link as usize].in_cells += grid.rate[row][column];
                }
            }
        }
        links[NO_LINK as usize].in_cells = 0.0;
    }

    /// The capacity of a link has changed.
    pub(crate) fn set_line_capacity(&mut self, link: u32, capacity: f64) {
        let Place { side, line, .. } = self.store.links[link as usize].place;
        let Some(number) = self.store.links[link as usize].place.grid() else { return };
        let (side, line) = (usize::from(side), usize::from(line));
        let grid = &mut self.grids.grids[number];
        grid.capacity[side][line] = capacity;
        if grid.taken != 0 {
            grid.kept_below = 0.0;
            self.grids.make_stale(number);
        }
    }

    /// Computes rates in grids where something has changed.
    pub(crate) fn level_grids(&mut self) {
        for index in 0..self.grids.stale.len() {
            let number = self.grids.stale[index] as usize;
            let grid = &mut self.grids.grids[number];
            grid.settle(self.now);
            let (lines, flows) = grid.fill();
            grid.find_first();
            self.statistics.links_touched += lines;
            self.statistics.flows_touched += flows;
            self.load_middles(number);
            if let Some(changed) = &mut self.changed {
                let Grid { links, middles, .. } = &self.grids.grids[number];
                let all = links.as_flattened().iter();
                let all = all.chain(middles.iter().flat_map(|middle| &middle.links));
                changed.extend(all.copied().filter(|&link| link != NO_LINK));
            }
        }
    }

    /// Puts the next end in each of these grids into the queue, at the number of its first row:
    /// there is none of that link's own as long as it has flows in cells alone.
    pub(crate) fn queue_grids(&mut self) {
        for number in self.grids.stale.drain(..) {
            let grid = &mut self.grids.grids[number as usize];
            grid.is_stale = false;
            if grid.taken == 0 {
                continue;
            }
            match grid.first_end {
                Some(span) => self.queue.set(grid.links[0][0], Time(grid.settled + span)),
                None => self.queue.remove(grid.links[0][0]),
            }
        }
    }

    /// Appends the flows of a grid that end now, if the queue has that as the time of this link.
    pub(crate) fn collect_from_cells(&mut self, link: u32) -> bool {
        let Some(number) = self.store.links[link as usize].place.grid() else { return false };
        let grid = &mut self.grids.grids[number];
        if grid.taken == 0 {
            return false;
        }
        for Cell { row, column } in each(grid.ending) {
            let flow = grid.flow[row][column];
            self.finishing.push((self.store.flows[flow as usize].sequence, flow));
        }
        true
    }

    /// Takes a flow that has ended out of its cell.
    pub(crate) fn leave_cell(&mut self, flow: u32) {
        let GridCell { grid: number, cell } = self.cell_of(flow);
        let grid = &mut self.grids.grids[number];
        grid.settle(self.now);
        grid.leave(cell);
        if grid.taken == 0 {
            self.queue.remove(grid.links[0][0]);
        }
        self.grids.make_stale(number);
    }

    fn cell_of(&self, flow: u32) -> GridCell {
        let path = self.store.path(flow);
        let [from, to] =
            [path[0], path[path.len() - 1]].map(|hop| self.store.links[hop.link as usize].place);
        let grid = from.grid().expect("a flow in a cell leads from a row to a column");
        GridCell { grid, cell: Cell { row: from.line.into(), column: to.line.into() } }
    }

    /// The rate of a flow in a cell.
    pub(crate) fn rate_in_cell(&self, flow: u32) -> f64 {
        let GridCell { grid, cell: Cell { row, column } } = self.cell_of(flow);
        self.grids.grids[grid].rate[row][column]
    }

    /// Bits that a flow in a cell has left.
    pub(crate) fn bits_left_in_cell(&self, flow: u32) -> f64 {
        let GridCell { grid, cell: Cell { row, column } } = self.cell_of(flow);
        let grid = &self.grids.grids[grid];
        let sent = grid.rate[row][column] * (self.now - grid.settled) as f64 / PS;
        (grid.left[row][column] - sent).max(0.0)
    }

    /// Sum of the rates of the flows in cells that cross a link.
    pub(crate) fn load_of_cells(&self, link: u32) -> f64 {
        let link = &self.store.links[link as usize];
        let Some(number) = link.place.grid() else { return link.in_cells };
        let grid = &self.grids.grids[number];
        let line = usize::from(link.place.line);
        let is_own = |cell: &Cell| [cell.row, cell.column][usize::from(link.place.side)] == line;
        each(grid.taken).filter(is_own).map(|cell| grid.rate[cell.row][cell.column]).sum()
    }
}

#[cfg(test)]
// The numbers are chosen so that results are exact.
#[allow(clippy::float_cmp)]
mod tests {
    use super::*;

    use lightloom_model::{Bytes, Rate};

    const GBPS: u64 = 1_000_000_000;
    /// Time of a byte at 8 Gb/s, in picoseconds.
    const BYTE: u64 = 1000;

    /// Two rows, two columns, a link between them and one elsewhere, of 8 Gb/s or as said.
    fn network(between_gbps: u64) -> (FlowNetwork, [LinkId; 6]) {
        let mut network = FlowNetwork::new();
        let links = [8, 8, 8, 8, between_gbps, 8].map(|rate| network.add_link(Rate(rate * GBPS)));
        network.expect(&links[..2], &links[2..4]);
        (network, links)
    }

    /// Tokens and when they end.
    fn ends(network: &mut FlowNetwork) -> Vec<(u64, u64)> {
        let (mut done, mut times) = (Vec::new(), Vec::new());
        while let Some(next) = network.next_completion() {
            network.advance(next, &mut done);
            times.extend(done.drain(..).map(|token| (token, next.0)));
        }
        times
    }

    fn taken(network: &FlowNetwork) -> u32 {
        network.grids.grids[0].taken.count_ones()
    }

    #[test]
    fn an_all_to_all_is_in_cells_until_it_ends() {
        let (mut network, [a, b, c, d, ..]) = network(8);
        for (token, path) in [[a, c], [a, d], [b, c]].iter().enumerate() {
            network.start(Time(0), Bytes(300), path, token as u64);
        }
        assert_eq!((taken(&network), network.active()), (3, 3));
        // Both full lines halve their rate, after which one flow is alone with half its bytes.
        assert_eq!(network.next_completion(), Some(Time(600 * BYTE)));
        assert_eq!([a, b, c, d].map(|link| network.load_of(link)), [8e9, 4e9, 8e9, 4e9]);
        assert_eq!(ends(&mut network), [(0, 600 * BYTE), (1, 600 * BYTE), (2, 600 * BYTE)]);
        assert_eq!([a, b, c, d].map(|link| network.carried(link)), [600, 300, 600, 300]);
        assert_eq!((taken(&network), network.active()), (0, 0));
    }

    #[test]
    fn what_ends_leaves_lower_rates_as_they_are() {
        let (mut network, [a, b, c, d, ..]) = network(8);
        network.set_rate(Time(0), c, Rate(2 * GBPS));
        let flow = network.start(Time(0), Bytes(600), &[a, c], 0);
        let other = network.start(Time(0), Bytes(300), &[a, d], 1);
        network.start(Time(0), Bytes(10), &[b, d], 2);
        assert_eq!(network.next_completion(), Some(Time(20 * BYTE)));
        assert_eq!([flow, other].map(|flow| network.rate_of(flow)), [2e9, 4e9]);
        let mut done = Vec::new();
        network.advance(Time(20 * BYTE), &mut done);
        let before = network.statistics();
        network.next_completion();
        assert_eq!([flow, other].map(|flow| network.rate_of(flow)), [2e9, 6e9]);
        assert_eq!(network.statistics().flows_touched - before.flows_touched, 1);
    }

    /// Starts an all-to-all, then this: how many flows are in cells before and after, and the ends.
    fn opened(path: &[usize], between_gbps: u64) -> (u32, u32, Vec<(u64, u64)>) {
        let (mut network, links) = network(between_gbps);
        let [a, b, c, d, between, _] = links;
        network.start(Time(0), Bytes(400), &[a, between, d], 0);
        network.start(Time(0), Bytes(400), &[b, c], 1);
        network.next_completion();
        let before = taken(&network);
        let path: Vec<LinkId> = path.iter().map(|&link| links[link]).collect();
        network.start(Time(200 * BYTE), Bytes(200), &path, 2);
        network.next_completion();
        let after = taken(&network);
        let times = ends(&mut network);
        // All lines are empty again.
        network.start(Time(2000 * BYTE), Bytes(1), &[a, c], 3);
        assert_eq!(taken(&network), 1);
        (before, after, times)
    }

    #[test]
    fn whatever_does_not_fit_opens_a_grid() {
        let halves = vec![(1, 400 * BYTE), (0, 600 * BYTE), (2, 600 * BYTE)];
        // A second flow in a cell, and one that crosses a line alone.
        assert_eq!(opened(&[0, 4, 3], 80), (2, 0, halves.clone()));
        assert_eq!(opened(&[0], 80), (2, 0, halves.clone()));
        // The link in between is full once another flow crosses it.
        assert_eq!(opened(&[4, 5], 8), (2, 0, halves));
        // One that is wide enough is not; nor does a flow in a cell of its own open it.
        let apart = vec![(0, 400 * BYTE), (1, 400 * BYTE), (2, 400 * BYTE)];
        assert_eq!(opened(&[4, 5], 16), (2, 2, apart));
        let alongside = vec![(0, 600 * BYTE), (1, 600 * BYTE), (2, 600 * BYTE)];
        assert_eq!(opened(&[0, 2], 80), (2, 3, alongside));
    }

    #[test]
    fn flows_over_a_full_link_are_in_no_cell() {
        let (mut network, [a, b, c, d, between, _]) = network(4);
        network.start(Time(0), Bytes(100), &[a, between, d], 0);
        assert_eq!(network.next_completion(), Some(Time(200 * BYTE)));
        assert_eq!(taken(&network), 0);
        network.start(Time(0), Bytes(100), &[b, c], 1);
        assert_eq!(ends(&mut network), [(1, 100 * BYTE), (0, 200 * BYTE)]);
        // Full from before, not by what is in cells.
        network.start(Time(300 * BYTE), Bytes(100), &[between], 2);
        network.next_completion();
        network.start(Time(300 * BYTE), Bytes(100), &[a, between, d], 3);
        assert_eq!(taken(&network), 0);
        assert_eq!(ends(&mut network), [(2, 700 * BYTE), (3, 700 * BYTE)]);
    }

    #[test]
    fn a_dark_line_stalls_its_flows_alone() {
        let (mut network, [a, b, c, d, ..]) = network(8);
        network.start(Time(0), Bytes(100), &[a, c], 0);
        network.start(Time(0), Bytes(100), &[b, d], 1);
        network.set_rate(Time(50 * BYTE), a, Rate(0));
        assert_eq!(network.next_completion(), Some(Time(100 * BYTE)));
        let mut done = Vec::new();
        network.advance(Time(100 * BYTE), &mut done);
        assert_eq!((done, network.next_completion(), taken(&network)), (vec![1], None, 1));
        network.set_rate(Time(300 * BYTE), a, Rate(4 * GBPS));
        assert_eq!(ends(&mut network), [(0, 400 * BYTE)]);
    }

    #[test]
    fn links_are_expected_once_and_eight_on_a_side() {
        let mut network = FlowNetwork::new();
        let links: Vec<LinkId> = (0..20).map(|_| network.add_link(Rate(GBPS))).collect();
        network.expect(&links[..9], &links[9..12]);
        network.expect(&[], &links[..2]);
        assert!(network.grids.grids.is_empty());
        network.expect(&links[..8], &links[8..16]);
        network.expect(&links[16..18], &links[15..16]);
        assert_eq!(network.grids.grids.len(), 1);
        network.start(Time(0), Bytes(1), &links[16..17], 0);
        network.expect(&links[16..17], &links[18..19]);
        assert_eq!(network.grids.grids.len(), 1);
    }

    #[test]
    fn the_middle_of_paths_knows_the_rates_in_cells() {
        let (mut network, [a, b, c, d, between, _]) = network(80);
        network.start(Time(0), Bytes(100), &[a, between, c], 0);
        network.start(Time(0), Bytes(200), &[a, between, d], 1);
        network.start(Time(0), Bytes(300), &[b, between, d], 2);
        let mut loads = Vec::new();
        while let Some(next) = network.next_completion() {
            loads.push((network.load_of(between), next.0));
            network.advance(next, &mut Vec::new());
        }
        // Each of the first line has half of it, the last one what the second leaves.
        assert_eq!(loads, [(12e9, 200 * BYTE), (8e9, 400 * BYTE), (8e9, 500 * BYTE)]);
        assert_eq!(network.load_of(between), 0.0);
    }

    #[test]
    fn middles_are_added_up_anew() {
        let (mut network, [a, _, _, d, between, _]) = network(80);
        network.start(Time(0), Bytes(100), &[a, between, d], 0);
        network.next_completion();
        let number = between.0 as usize + 1;
        network.store.links[number].in_cells = 7.0;
        network.renew_middles();
        assert_eq!(network.store.links[number].in_cells, 8e9);
        assert_eq!((network.load_of(between), network.load_of(a)), (8e9, 8e9));
    }
}
