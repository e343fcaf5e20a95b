//! What the exact decompositions share: lines with slack, and alternating paths that keep it.
//!
//! A line is *critical* when its remaining sum is all the time that is left, and it has *slack*
//! otherwise. A slot that joins all critical lines shortens the longest line by all of its hold;
//! such a matching always exists (Mendelsohn and Dulmage 1958, with Hall's theorem for each side).
//! Lines with slack may idle, or finish before the slot ends, so nothing is stuffed and there are
//! far fewer slots than pairs.
//!
//! Every line has a *due* time: the moment when it will have no slack if it sends no more than
//! what it is joined to. It is constant while a pair is joined, whether it sends or has finished,
//! so a slot may last until the earliest due time, and only lines that change are touched.

use super::bitset::Bits;
use super::demand::Demand;

const NOBODY: i32 = -1;

/// One side of the crossbar.
pub(super) struct Side<const W: usize> {
    /// Lines of the other side to which a line may be joined.
    pub wanted: Vec<Bits<W>>,
    pub partner: Vec<i32>,
    pub due: Vec<u64>,
    pub free: Bits<W>,
}

impl<const W: usize> Side<W> {
    fn new(lines: usize) -> Self {
        Self {
            wanted: vec![Bits::EMPTY; lines],
            partner: vec![NOBODY; lines],
            due: vec![0; lines],
            free: Bits::below(lines),
        }
    }
}

pub(super) const ROWS: usize = 0;
pub(super) const COLUMNS: usize = 1;

pub(super) struct State<const W: usize> {
    columns: usize,
    pub now: u64,
    /// A line that would run out of slack within this time must be joined.
    pub within: u64,
    /// Bytes left when the pair was joined, or now if it is not.
    pub left: Vec<u64>,
    pub sides: [Side<W>; 2],
    /// When the row has sent all to the column that it is joined to.
    finish: Vec<u64>,
    /// Whence the search for an alternating path came to a line of the other side.
    from: Vec<usize>,
    queue: Vec<usize>,
}

impl<const W: usize> State<W> {
    /// The state at the start, and the end: the longest line.
    pub(super) fn new(demand: &Demand) -> (Self, u64) {
        let (rows, columns) = (demand.rows, demand.columns);
        let mut sides = [Side::new(rows), Side::new(columns)];
        // Sums of lines first, due times below.
        for row in 0..rows {
            for (column, &bytes) in demand.row(row).iter().enumerate() {
                if bytes > 0 {
                    sides[ROWS].wanted[row].insert(column);
                    sides[COLUMNS].wanted[column].insert(row);
                    sides[ROWS].due[row] += bytes;
                    sides[COLUMNS].due[column] += bytes;
                }
            }
        }
        let sums = sides.iter().flat_map(|side| &side.due);
        let end = sums.copied().max().unwrap_or(0);
        for side in &mut sides {
            side.due.iter_mut().for_each(|sum| *sum = end - *sum);
        }
        let state = Self {
            columns,
            now: 0,
            within: 1,
            left: demand.bytes.to_vec(),
            sides,
            finish: vec![u64::MAX; rows],
            from: vec![0; rows.max(columns)],
            queue: Vec::with_capacity(rows.max(columns)),
        };
        (state, end)
    }

    pub(super) fn earliest_due(&self) -> u64 {
        let earliest = |side: &Side<W>| side.due.iter().copied().min().unwrap_or(u64::MAX);
        earliest(&self.sides[ROWS]).min(earliest(&self.sides[COLUMNS]))
    }

    #[inline]
    fn join(&mut self, row: usize, column: usize) {
        let bytes = self.left[row * self.columns + column];
        for (side, line, other) in [(ROWS, row, column), (COLUMNS, column, row)] {
            let side = &mut self.sides[side];
            side.partner[line] = other as i32;
            side.due[line] += bytes;
            side.free.remove(line);
        }
        self.finish[row] = self.now + bytes;
    }

    #[inline]
    pub(super) fn part(&mut self, row: usize, column: usize) {
        let bytes = self.finish[row] - self.now;
        for (side, line) in [(ROWS, row), (COLUMNS, column)] {
            let side = &mut self.sides[side];
            side.partner[line] = NOBODY;
            side.due[line] -= bytes;
            side.free.insert(line);
        }
        self.left[row * self.columns + column] = bytes;
        self.finish[row] = u64::MAX;
    }

    /// Moves on to the end of the slot and parts pairs that have finished.
    pub(super) fn advance(&mut self, next: u64) {
        self.now = next;
        for row in 0..self.finish.len() {
            if self.finish[row] <= next {
                let column = self.sides[ROWS].partner[row] as usize;
                self.finish[row] = next;
                self.part(row, column);
                self.sides[ROWS].wanted[row].remove(column);
                self.sides[COLUMNS].wanted[column].remove(row);
            }
        }
    }

    /// Joins free lines that want each other.
    pub(super) fn refill(&mut self) {
        for row in self.sides[ROWS].free.iter() {
            let open = self.sides[ROWS].wanted[row].and(&self.sides[COLUMNS].free);
            let bytes = |&column: &usize| self.left[row * self.columns + column];
            if let Some(column) = open.iter().max_by_key(bytes) {
                self.join(row, column);
            }
        }
    }

    /// Joins all lines that must be joined; whether that is possible with the pairs that may be.
    pub(super) fn join_urgent(&mut self) -> bool {
        for side in [ROWS, COLUMNS] {
            for line in self.sides[side].free.iter() {
                let urgent = self.sides[side].due[line] - self.now < self.within;
                // A search for another line may have joined this one.
                if urgent && self.sides[side].free.contains(line) && !self.augment(side, line) {
                    return false;
                }
            }
        }
        true
    }

    /// Joins an urgent line by an alternating path: to a free line of the other side or, failing
    /// that, in the place of the line of its own side that has most slack.
    fn augment(&mut self, side: usize, root: usize) -> bool {
        let mut fresh = Bits::below(self.sides[1 - side].partner.len());
        let (mut largest, mut relieved) = (self.within - 1, None);
        self.queue.clear();
        self.queue.push(root);
        let mut head = 0;
        while head < self.queue.len() {
            let line = self.queue[head];
            head += 1;
            let reached = self.sides[side].wanted[line].and(&fresh);
            if let Some(end) = reached.and(&self.sides[1 - side].free).first() {
                self.from[end] = line;
                self.flip(side, root, end);
                return true;
            }
            fresh = fresh.minus(&reached);
            for other in reached.iter() {
                self.from[other] = line;
                let next = self.sides[1 - side].partner[other] as usize;
                self.queue.push(next);
                let row = if side == ROWS { next } else { other };
                let slack = self.sides[side].due[next].saturating_sub(self.finish[row]);
                if slack > largest {
                    (largest, relieved) = (slack, Some(other));
                }
            }
        }
        let Some(other) = relieved else { return false };
        let line = self.sides[1 - side].partner[other] as usize;
        let (row, column) = if side == ROWS { (line, other) } else { (other, line) };
        self.part(row, column);
        self.flip(side, root, other);
        true
    }

    /// Joins along the path that leads from `root` to the free line `end`.
    fn flip(&mut self, side: usize, root: usize, mut end: usize) {
        let pair = |line, other| if side == ROWS { (line, other) } else { (other, line) };
        loop {
            let line = self.from[end];
            let before = self.sides[side].partner[line];
            if line != root {
                let (row, column) = pair(line, before as usize);
                self.part(row, column);
            }
            let (row, column) = pair(line, end);
            self.join(row, column);
            if line == root {
                return;
            }
            end = before as usize;
        }
    }
}
