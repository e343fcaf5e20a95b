//! List scheduling of an open shop, the longest remaining line first.
//!
//! Rows are machines, columns are jobs, and each pair is one operation that is not interrupted. As
//! soon as a line is free it begins the pair whose other line is free and has most left to send;
//! where both lines of a finished pair are free the longer one chooses first. No pair waits while
//! both its lines are idle, so the length is at most twice the bound (Racsmany's bound for dense
//! open-shop schedules).

use super::bitset::{Bits, with_words};
use super::{Demand, Transfer};

/// Transfers of a demand if each costs its two ports the delay, sorted by start.
pub fn transfers(demand: &Demand, delay: u64) -> Vec<Transfer> {
    with_words!(demand.rows.max(demand.columns), run(demand, delay))
}

const ROW: usize = 0;
const COLUMN: usize = 1;
const NEVER: u64 = u64::MAX;

/// One side of the crossbar.
struct Side<const W: usize> {
    /// Lines of the other side that it has not begun to serve.
    wants: Vec<Bits<W>>,
    /// Time that these take.
    load: Vec<u64>,
    free: Bits<W>,
}

impl<const W: usize> Side<W> {
    fn new(lines: usize) -> Self {
        let wants = vec![Bits::EMPTY; lines];
        Self { wants, load: vec![0; lines], free: Bits::below(lines) }
    }
}

struct Shop<'a, const W: usize> {
    demand: &'a Demand<'a>,
    delay: u64,
    sides: [Side<W>; 2],
    ends: Ends,
    /// Column that each row sends to, if any.
    partner: Vec<usize>,
    /// Load, side and number of lines that have just become free.
    freed: Vec<(u64, usize, usize)>,
    transfers: Vec<Transfer>,
}

fn run<const W: usize>(demand: &Demand, delay: u64) -> Vec<Transfer> {
    let mut shop = Shop::<W>::new(demand, delay);
    shop.begin(0);
    while let Some(now) = shop.ends.first() {
        // All that ends now is free before anything begins.
        while shop.ends.first() == Some(now) {
            let row = shop.ends.pop();
            shop.free(ROW, row);
            shop.free(COLUMN, shop.partner[row]);
        }
        shop.begin(now);
    }
    shop.transfers
}

impl<'a, const W: usize> Shop<'a, W> {
    fn new(demand: &'a Demand<'a>, delay: u64) -> Self {
        let (rows, columns) = (demand.rows, demand.columns);
        let mut sides = [Side::new(rows), Side::new(columns)];
        let mut pairs = 0;
        for row in 0..rows {
            let (mut wants, mut load) = (Bits::EMPTY, 0);
            for (column, &bytes) in demand.row(row).iter().enumerate() {
                if bytes > 0 {
                    wants.insert(column);
                    load += bytes + delay;
                    sides[COLUMN].wants[column].insert(row);
                    sides[COLUMN].load[column] += bytes + delay;
                    pairs += 1;
                }
            }
            sides[ROW].wants[row] = wants;
            sides[ROW].load[row] = load;
        }
        let lines = |side: usize| {
            let load = sides[side].load.iter().enumerate();
            load.map(move |(line, &load)| (load, side, line))
        };
        let freed = lines(ROW).chain(lines(COLUMN)).collect();
        let transfers = Vec::with_capacity(pairs);
        let ends = Ends::new(rows);
        Self { demand, delay, sides, ends, partner: vec![0; rows], freed, transfers }
    }

    fn free(&mut self, side: usize, line: usize) {
        self.sides[side].free.insert(line);
        self.freed.push((self.sides[side].load[line], side, line));
    }

    /// Lets the lines that have become free choose, the longest first.
    fn begin(&mut self, now: u64) {
        let later = |x: &(u64, usize, usize), y: &(u64, usize, usize)| {
            y.0.cmp(&x.0).then((x.1, x.2).cmp(&(y.1, y.2)))
        };
        // Nearly always these are the two ends of one circuit.
        match self.freed.as_mut_slice() {
            [row, column] => {
                if later(row, column).is_gt() {
                    std::mem::swap(row, column);
                }
            }
            freed => freed.sort_unstable_by(later),
        }
        for index in 0..self.freed.len() {
            let (_, side, line) = self.freed[index];
            if self.sides[side].free.contains(line) {
                let open = self.sides[side].wants[line].and(&self.sides[1 - side].free);
                if let Some(other) = longest(&open, &self.sides[1 - side].load) {
                    let (row, column) = if side == ROW { (line, other) } else { (other, line) };
                    self.join(row, column, now);
                }
            }
        }
        self.freed.clear();
    }

    fn join(&mut self, row: usize, column: usize, now: u64) {
        let bytes = self.demand.bytes[row * self.demand.columns + column];
        for (side, line, other) in [(ROW, row, column), (COLUMN, column, row)] {
            let side = &mut self.sides[side];
            side.wants[line].remove(other);
            side.load[line] -= bytes + self.delay;
            side.free.remove(line);
        }
        self.partner[row] = column;
        self.ends.set(row, now + self.delay + bytes);
        self.transfers.push(Transfer { row: row as u32, column: column as u32, start: now, bytes });
    }
}

/// The line with the largest load, the lowest of equals.
#[inline]
fn longest<const W: usize>(lines: &Bits<W>, load: &[u64]) -> Option<usize> {
    let mut best = None;
    // What is left of a wanted line is more than nothing.
    let mut most = 0;
    lines.each(|line| {
        if load[line] > most {
            (most, best) = (load[line], Some(line));
        }
    });
    best
}

/// When each row ends: a tree of minima over the rows.
///
/// Node k is the earlier of nodes 2k and 2k + 1; the last half are the rows.
struct Ends {
    time: Vec<u64>,
    row: Vec<u32>,
}

impl Ends {
    fn new(rows: usize) -> Self {
        let leaves = rows.next_power_of_two();
        let row = (0..2 * leaves).map(|node| (node % leaves) as u32).collect();
        Self { time: vec![NEVER; 2 * leaves], row }
    }

    #[inline]
    fn first(&self) -> Option<u64> {
        (self.time[1] != NEVER).then_some(self.time[1])
    }

    /// Takes out a row that ends first.
    #[inline]
    fn pop(&mut self) -> usize {
        let row = self.row[1] as usize;
        self.set(row, NEVER);
        row
    }

    #[inline]
    fn set(&mut self, row: usize, time: u64) {
        let leaves = self.time.len() / 2;
        let (mut node, mut earliest, mut who) = (leaves + row, time, row as u32);
        self.time[node] = time;
        // What climbs stays in registers, so that only the siblings are loaded.
        while node > 1 {
            let (other, other_who) = (self.time[node ^ 1], self.row[node ^ 1]);
            who = if other < earliest { other_who } else { who };
            earliest = earliest.min(other);
            node /= 2;
            self.time[node] = earliest;
            self.row[node] = who;
        }
    }
}
