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

use super::bitset::{Bits, Lines};
use super::demand::Demand;
use super::moments::{Moments, NEVER, START};

const NOBODY: i32 = -1;

/// One side of the crossbar, and what it is to the other.
pub(super) struct Side<const W: usize> {
    pub count: usize,
    /// What the demand calls each line.
    names: Lines<u16, W>,
    /// Lines of the other side to which a line may be joined.
    pub wanted: Lines<Bits<W>, W>,
    pub partner: Lines<i32, W>,
    pub due: Moments<W>,
    pub free: Bits<W>,
    /// Free lines that may find a free partner: of any two others one does not want the other.
    pub fresh: Bits<W>,
    /// Bytes that a line had left for another when they were joined, or has now if they are not.
    pub left: Vec<[[u64; 64]; W]>,
}

impl<const W: usize> Side<W> {
    fn new(sums: &[u64]) -> Self {
        let count = sums.len();
        let mut order: Vec<u16> = (0..count as u16).collect();
        order.sort_by_key(|&line| std::cmp::Reverse(sums[usize::from(line)]));
        let mut names = Lines::all(0);
        names.iter_mut().zip(order).for_each(|(name, line)| *name = line);
        Self {
            count,
            names,
            wanted: Lines::all(Bits::EMPTY),
            partner: Lines::all(NOBODY),
            due: Moments::never(count),
            free: Bits::below(count),
            fresh: Bits::below(count),
            left: vec![[[0; 64]; W]; count],
        }
    }

    fn fill(&mut self, line: usize, other: usize, bytes: u64) {
        self.wanted[line].insert(other);
        self.left[line][other / 64 % W][other % 64] = bytes;
    }

    /// Sets the due times of free lines.
    fn set_dues(&mut self, end: u64) {
        for (line, left) in self.left.iter().enumerate() {
            self.due.set(line, end - left.as_flattened().iter().sum::<u64>());
        }
    }

    #[inline]
    pub(super) fn left(&self, line: usize, other: usize) -> u64 {
        self.left[line][other / 64 % W][other % 64]
    }

    /// Moves the due time by what is sent to `other` from now on.
    #[inline]
    fn join(&mut self, line: usize, other: usize, bytes: u64) {
        self.partner[line] = other as i32;
        self.free.remove(line);
        self.due.set(line, self.due.of(line) + bytes);
    }

    /// The reverse of `join`, when `bytes` are left.
    #[inline]
    fn part(&mut self, line: usize, other: usize, bytes: u64) {
        self.due.set(line, self.due.of(line) - bytes);
        self.release(line, other, bytes);
    }

    #[inline]
    fn release(&mut self, line: usize, other: usize, bytes: u64) {
        self.partner[line] = NOBODY;
        self.free.insert(line);
        self.fresh.insert(line);
        self.left[line][other / 64 % W][other % 64] = bytes;
    }

    /// The free line of the other side that a free line has most left for.
    #[inline]
    fn largest(&self, line: usize, free: &Bits<W>) -> Option<usize> {
        let left = &self.left[line];
        let (mut largest, mut at) = (0, None);
        self.wanted[line].and(free).each(|other| {
            let bytes = left[other / 64 % W][other % 64];
            if bytes > largest {
                (largest, at) = (bytes, Some(other));
            }
        });
        at
    }
}

pub(super) const ROWS: usize = 0;
pub(super) const COLUMNS: usize = 1;

pub(super) struct State<const W: usize> {
    pub now: u64,
    /// A line that would run out of slack within this time must be joined.
    pub within: u64,
    pub sides: [Side<W>; 2],
    /// When the row has sent all to the column that it is joined to.
    finish: Moments<W>,
    /// Whence the search for an alternating path came to a line of the other side.
    from: Vec<usize>,
    queue: Vec<usize>,
    /// What each row is joined to, by the names that the demand has for lines.
    pub matching: Vec<i32>,
}

impl<const W: usize> State<W> {
    /// The state at the start, and the end, when the longest line has been served.
    ///
    /// Lines are numbered anew, the longest first, so that these choose first among pairs: that
    /// makes for longer and fewer slots.
    pub(super) fn new(demand: &Demand) -> (Self, u64) {
        let (rows, columns) = (demand.rows, demand.columns);
        let mut sums = [vec![0; rows], vec![0; columns]];
        for row in 0..rows {
            for (column, &bytes) in demand.row(row).iter().enumerate() {
                sums[ROWS][row] += bytes;
                sums[COLUMNS][column] += bytes;
            }
        }
        let mut sides = sums.each_ref().map(|sums| Side::new(sums));
        for row in 0..rows {
            let bytes = demand.row(sides[ROWS].names[row].into());
            for column in 0..columns {
                let bytes = bytes[usize::from(sides[COLUMNS].names[column])];
                if bytes > 0 {
                    sides[ROWS].fill(row, column, bytes);
                    sides[COLUMNS].fill(column, row, bytes);
                }
            }
        }
        let longest = sums.iter().flatten().copied().max().unwrap_or(0);
        let end = START + longest;
        for side in &mut sides {
            side.set_dues(end);
        }
        let state = Self {
            now: START,
            within: 1,
            sides,
            finish: Moments::never(rows),
            from: vec![0; rows.max(columns)],
            queue: Vec::with_capacity(rows.max(columns)),
            matching: vec![NOBODY; rows],
        };
        (state, end)
    }

    pub(super) fn earliest_due(&self) -> u64 {
        self.sides[ROWS].due.earliest().min(self.sides[COLUMNS].due.earliest())
    }

    #[inline]
    fn join(&mut self, row: usize, column: usize) {
        let [rows, columns] = &mut self.sides;
        let bytes = rows.left(row, column);
        rows.join(row, column, bytes);
        columns.join(column, row, bytes);
        self.matching[usize::from(rows.names[row])] = columns.names[column].into();
        self.finish.set(row, self.now + bytes);
    }

    #[inline]
    pub(super) fn part(&mut self, row: usize, column: usize) {
        let [rows, columns] = &mut self.sides;
        let bytes = self.finish.of(row) - self.now;
        rows.part(row, column, bytes);
        columns.part(column, row, bytes);
        self.matching[usize::from(rows.names[row])] = NOBODY;
        self.finish.set(row, NEVER);
    }

    /// Moves on to the end of the slot and parts pairs that have finished.
    pub(super) fn advance(&mut self, next: u64) {
        self.now = next;
        let [rows, columns] = &mut self.sides;
        self.finish.until(next).each(|row| {
            let column = rows.partner[row] as usize;
            rows.release(row, column, 0);
            rows.wanted[row].remove(column);
            columns.release(column, row, 0);
            columns.wanted[column].remove(row);
            self.matching[usize::from(rows.names[row])] = NOBODY;
            self.finish.set(row, NEVER);
        });
    }

    /// Joins free lines that want each other, each to the one that it has most left for.
    ///
    /// Rows and columns take turns, so that the longest lines of both choose first.
    pub(super) fn refill(&mut self) {
        let mut fresh = self.sides.each_mut().map(|side| std::mem::take(&mut side.fresh));
        for word in 0..W {
            while let Some((side, line)) = self.next_fresh(&fresh, word) {
                fresh[side].remove(line);
                let other = self.sides[side].largest(line, &self.sides[1 - side].free);
                if let Some(other) = other {
                    let (row, column) = pair(side, line, other);
                    self.join(row, column);
                }
            }
        }
    }

    /// Side and number of the first line of a word that is fresh and still free.
    #[inline]
    fn next_fresh(&self, fresh: &[Bits<W>; 2], word: usize) -> Option<(usize, usize)> {
        let free = |side: usize| fresh[side].word(word) & self.sides[side].free.word(word);
        let (rows, columns) = (free(ROWS), free(COLUMNS));
        let place = (rows | columns).trailing_zeros() as usize;
        let side = if rows.trailing_zeros() as usize == place { ROWS } else { COLUMNS };
        (place < 64).then_some((side, 64 * word + place))
    }

    /// Joins all lines that must be joined; whether that is possible with the pairs that may be.
    pub(super) fn join_urgent(&mut self) -> bool {
        let until = self.now + (self.within - 1);
        for side in [ROWS, COLUMNS] {
            let Side { due, free, .. } = &self.sides[side];
            for line in due.until(until).and(free).iter() {
                // A search for another line may have joined this one.
                if self.sides[side].free.contains(line) && !self.augment(side, line) {
                    return false;
                }
            }
        }
        true
    }

    /// Joins an urgent line by an alternating path: to a free line of the other side or, failing
    /// that, in the place of the line of its own side that has most slack.
    fn augment(&mut self, side: usize, root: usize) -> bool {
        let [rows, columns] = &self.sides;
        let (own, others) = if side == ROWS { (rows, columns) } else { (columns, rows) };
        let mut fresh = Bits::below(others.count);
        self.queue.clear();
        self.queue.push(root);
        let mut head = 0;
        while head < self.queue.len() {
            let line = self.queue[head];
            head += 1;
            let reached = own.wanted[line].and(&fresh);
            if let Some(end) = reached.and(&others.free).first() {
                self.from[end] = line;
                self.flip(side, root, end);
                return true;
            }
            fresh = fresh.minus(&reached);
            reached.each(|other| {
                self.from[other] = line;
                self.queue.push(others.partner[other] as usize);
            });
        }
        let Some(line) = self.slackest(side) else { return false };
        let other = own.partner[line] as usize;
        let (row, column) = pair(side, line, other);
        self.part(row, column);
        self.flip(side, root, other);
        true
    }

    /// The line with most slack, and no less than must remain, of those that a search has reached.
    fn slackest(&self, side: usize) -> Option<usize> {
        let own = &self.sides[side];
        let (mut largest, mut slackest) = (self.within - 1, None);
        for &line in &self.queue[1..] {
            let row = if side == ROWS { line } else { own.partner[line] as usize };
            let slack = own.due.of(line).saturating_sub(self.finish.of(row));
            if slack > largest {
                (largest, slackest) = (slack, Some(line));
            }
        }
        slackest
    }

    /// Joins along the path that leads from `root` to the free line `end`.
    fn flip(&mut self, side: usize, root: usize, mut end: usize) {
        loop {
            let line = self.from[end];
            let before = self.sides[side].partner[line];
            if line != root {
                let (row, column) = pair(side, line, before as usize);
                self.part(row, column);
            }
            let (row, column) = pair(side, line, end);
            self.join(row, column);
            if line == root {
                return;
            }
            end = before as usize;
        }
    }
}

/// Row and column of a line of one side and one of the other.
#[inline]
fn pair(side: usize, line: usize, other: usize) -> (usize, usize) {
    if side == ROWS { (line, other) } else { (other, line) }
}
