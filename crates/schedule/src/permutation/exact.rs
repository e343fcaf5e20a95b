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
use super::demand::{Demand, MAX_LINES};
use super::moments::{Moments, NEVER, START};

const NOBODY: i32 = -1;

/// Bytes left for a line, and its number such that of two with as much the lower one is greater:
/// finding the most takes one comparison per line. (Bytes of 2^53 and ten bits fit.)
#[inline]
fn pack(line: usize, bytes: u64) -> u64 {
    (bytes * MAX_LINES as u64) | (MAX_LINES - 1 - line) as u64
}

/// Line and bytes.
#[inline]
fn unpack(packed: u64) -> (usize, u64) {
    let (bytes, number) = (packed / MAX_LINES as u64, packed as usize % MAX_LINES);
    (MAX_LINES - 1 - number, bytes)
}

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
    /// Bytes that a line had left for another when they were joined, or has now if they are not,
    /// packed.
    left: Vec<[[u64; 64]; W]>,
}

impl<const W: usize> Side<W> {
    fn new(sums: &[u64], end: u64) -> Self {
        let count = sums.len();
        let mut order: Vec<u16> = (0..count as u16).collect();
        order.sort_by_key(|&line| std::cmp::Reverse(sums[usize::from(line)]));
        let (mut names, mut due) = (Lines::all(0), Moments::never(count));
        for (line, name) in order.into_iter().enumerate() {
            names[line] = name;
            due.set(line, end - sums[usize::from(name)]);
        }
        Self {
            count,
            names,
            wanted: Lines::all(Bits::EMPTY),
            partner: Lines::all(NOBODY),
            due,
            free: Bits::below(count),
            fresh: Bits::below(count),
            left: vec![[[0; 64]; W]; count],
        }
    }

    #[inline]
    fn fill(&mut self, line: usize, other: usize, bytes: u64) {
        self.wanted[line].insert(other);
        self.set_left(line, other, bytes);
    }

    #[inline]
    pub(super) fn left(&self, line: usize, other: usize) -> u64 {
        unpack(self.left[line][other / 64 % W][other % 64]).1
    }

    #[inline]
    fn set_left(&mut self, line: usize, other: usize, bytes: u64) {
        self.left[line][other / 64 % W][other % 64] = pack(other, bytes);
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
        self.set_left(line, other, bytes);
        self.release(line);
    }

    /// Lets a line go that has nothing left for `other`.
    #[inline]
    fn finish(&mut self, line: usize, other: usize) {
        self.wanted[line].remove(other);
        self.set_left(line, other, 0);
        self.release(line);
    }

    #[inline]
    fn release(&mut self, line: usize) {
        self.partner[line] = NOBODY;
        self.free.insert(line);
        self.fresh.insert(line);
    }

    /// The free line of the other side that a free line has most left for, and how much.
    #[inline]
    fn largest(&self, line: usize, free: &Bits<W>) -> Option<(usize, u64)> {
        let words = self.wanted[line].words().iter().zip(free.words());
        let mut largest = 0;
        for ((wanted, free), left) in words.zip(&self.left[line]) {
            let mut places = wanted & free;
            while places != 0 {
                largest = left[places.trailing_zeros() as usize % 64].max(largest);
                places &= places - 1;
            }
        }
        (largest > 0).then(|| unpack(largest))
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
    from: Lines<u16, W>,
    /// Lines that the search has reached, in this order.
    queue: Lines<u16, W>,
    reached: usize,
    matching: Lines<i32, W>,
}

impl<const W: usize> State<W> {
    /// The state at the start, and the end, when the longest line has been served.
    ///
    /// Lines are numbered anew, the longest first, so that these choose first among pairs: that
    /// makes for longer and fewer slots.
    pub(super) fn new(demand: &Demand) -> (Box<Self>, u64) {
        let (rows, columns) = (demand.rows, demand.columns);
        let mut sums = [vec![0; rows], vec![0; columns]];
        let [row_sums, column_sums] = &mut sums;
        for (row, sum) in row_sums.iter_mut().enumerate() {
            for (column_sum, &bytes) in column_sums.iter_mut().zip(demand.row(row)) {
                *column_sum += bytes;
                *sum += bytes;
            }
        }
        let longest = sums.iter().flatten().copied().max().unwrap_or(0);
        let end = START + longest;
        let mut sides = [Side::new(&sums[ROWS], end), Side::new(&sums[COLUMNS], end)];
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
        let state = Self {
            now: START,
            within: 1,
            sides,
            finish: Moments::never(rows),
            from: Lines::all(0),
            queue: Lines::all(0),
            reached: 0,
            matching: Lines::all(NOBODY),
        };
        (Box::new(state), end)
    }

    /// What each row is joined to, by the names that the demand has for lines.
    pub(super) fn matching(&self) -> &[i32] {
        &self.matching.as_slice()[..self.sides[ROWS].count]
    }

    /// The earliest due time of any line.
    #[inline]
    pub(super) fn earliest_due(&mut self) -> u64 {
        let [rows, columns] = &mut self.sides;
        rows.due.look();
        columns.due.look();
        rows.due.earliest().min(columns.due.earliest())
    }

    /// The lines of each side that are due by a moment, if none has changed since the last look.
    #[inline]
    pub(super) fn due_by(&self, moment: u64) -> [Bits<W>; 2] {
        self.sides.each_ref().map(|side| side.due.until(moment))
    }

    #[inline]
    fn join(&mut self, row: usize, column: usize, bytes: u64) {
        let [rows, columns] = &mut self.sides;
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
        self.finish.look();
        self.finish.until(next).each(|row| {
            let column = rows.partner[row] as usize;
            rows.finish(row, column);
            columns.finish(column, row);
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
                let largest = self.sides[side].largest(line, &self.sides[1 - side].free);
                if let Some((other, bytes)) = largest {
                    let (row, column) = pair(side, line, other);
                    self.join(row, column, bytes);
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

    /// Joins the lines that are due and free; whether that is possible with the pairs that may be.
    #[inline]
    pub(super) fn join_urgent(&mut self, due: &[Bits<W>; 2]) -> bool {
        for (side, due) in due.iter().enumerate() {
            for line in due.and(&self.sides[side].free).iter() {
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
        self.queue[0] = root as u16;
        self.reached = 1;
        let mut head = 0;
        while head < self.reached {
            let line = usize::from(self.queue[head]);
            head += 1;
            let reached = own.wanted[line].and(&fresh);
            if let Some(end) = reached.and(&others.free).first() {
                self.from[end] = line as u16;
                self.flip(side, root, end);
                return true;
            }
            fresh = fresh.minus(&reached);
            reached.each(|other| {
                self.from[other] = line as u16;
                self.queue[self.reached] = others.partner[other] as u16;
                self.reached += 1;
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
        for &line in &self.queue.as_slice()[1..self.reached] {
            let line = usize::from(line);
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
            let line = usize::from(self.from[end]);
            let before = self.sides[side].partner[line];
            if line != root {
                let (row, column) = pair(side, line, before as usize);
                self.part(row, column);
            }
            let (row, column) = pair(side, line, end);
            let bytes = self.sides[ROWS].left(row, column);
            self.join(row, column, bytes);
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
