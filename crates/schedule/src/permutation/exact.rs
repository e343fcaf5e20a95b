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

use std::cmp::Reverse;

use super::bitset::{Bits, Lines};
use super::demand::Demand;
use super::largest::{largest_at, largest_masked};
use super::moments::{Moments, NEVER, START, earlier, positive};

const NOBODY: i32 = -1;

/// Bytes left for a line, and its number such that of two with as much the lower one is greater:
/// finding the most takes one comparison per line. (Bytes of 2^53 and ten bits fit; as floats
/// these are ordered as [`super::moments`] says.)
#[inline]
fn pack<const L: usize>(line: usize, bytes: u64) -> u64 {
    START + (bytes * L as u64) + (L - 1 - line) as u64
}

/// Line and bytes.
#[inline]
fn unpack<const L: usize>(packed: u64) -> (usize, u64) {
    let (bytes, number) = ((packed - START) / L as u64, packed as usize % L);
    (L - 1 - number, bytes)
}

/// One side of the crossbar, and what it is to the other.
pub(super) struct Side<const L: usize, const W: usize> {
    pub count: usize,
    /// What the demand calls each line.
    names: Lines<u16, L>,
    /// Lines of the other side to which a line may be joined.
    pub wanted: Lines<Bits<W>, L>,
    /// What lines are joined to that are not free.
    pub partner: Lines<u16, L>,
    pub due: Moments<L, W>,
    pub free: Bits<W>,
    /// All bits of each line that is free.
    masks: Lines<u64, L>,
    /// Free lines that may find a free partner: of any two others one does not want the other.
    pub fresh: Bits<W>,
    /// Bytes that a line had left for another when they were joined, or has now if they are not,
    /// packed; 0 if there are none.
    left: Box<[Lines<u64, L>; L]>,
}

impl<const L: usize, const W: usize> Side<L, W> {
    /// Lines with such sums, called by such names; `bytes` are what a line has for each other.
    #[inline]
    fn new<I: Iterator<Item = u64>>(
        sums: &[u64],
        names: Lines<u16, L>,
        end: u64,
        bytes: impl Fn(usize) -> I,
    ) -> Self {
        let count = sums.len();
        let (mut wanted, mut due) = (Lines::all(Bits::EMPTY), Moments::never(count));
        let (mut masks, mut left) = (Lines::all(0), Vec::with_capacity(L));
        for line in 0..count {
            let name = usize::from(names[line]);
            due.set(line, end - sums[name]);
            masks[line] = u64::MAX;
            let mut sums = Lines::all(0);
            for (other, (bytes, sums)) in bytes(name).zip(sums.iter_mut()).enumerate() {
                *sums = if bytes > 0 { pack::<L>(other, bytes) } else { 0 };
            }
            wanted[line] = positive(sums.as_array());
            left.push(sums);
        }
        left.resize(L, Lines::all(0));
        Self {
            count,
            names,
            wanted,
            partner: Lines::all(0),
            due,
            free: Bits::below(count),
            masks,
            fresh: Bits::below(count),
            left: left.try_into().unwrap_or_else(|_| unreachable!("there are L lines")),
        }
    }

    #[inline]
    pub(super) fn left(&self, line: usize, other: usize) -> u64 {
        self.left[line % L][other].saturating_sub(START) / L as u64
    }

    #[inline]
    fn set_left(&mut self, line: usize, other: usize, packed: u64) {
        self.left[line % L][other] = packed;
    }

    /// Moves the due time by what is sent to `other` from now on.
    #[inline]
    fn join(&mut self, line: usize, other: usize, bytes: u64) {
        self.partner[line] = other as u16;
        self.free.remove(line);
        self.masks[line] = 0;
        self.due.set(line, self.due.of(line) + bytes);
    }

    /// The reverse of `join`, when `bytes` are left.
    #[inline]
    fn part(&mut self, line: usize, other: usize, bytes: u64) {
        self.due.set(line, self.due.of(line) - bytes);
        self.set_left(line, other, pack::<L>(other, bytes));
        self.release(line);
    }

    /// Lets a line go that has nothing left for `other`; it is free when it is released.
    #[inline]
    fn finish(&mut self, line: usize, other: usize) {
        self.wanted[line].remove(other);
        self.set_left(line, other, 0);
        self.masks[line] = u64::MAX;
    }

    #[inline]
    fn release(&mut self, line: usize) {
        self.free.insert(line);
        self.masks[line] = u64::MAX;
        self.fresh.insert(line);
    }

    #[inline]
    fn release_all(&mut self, lines: &Bits<W>) {
        self.free = self.free.or(lines);
        self.fresh = self.fresh.or(lines);
    }

    /// The line of the other side, one of `count` free ones, that a free line has most left for,
    /// and how much. `ALL` as in [`State::refill`].
    #[inline]
    fn largest<const ALL: bool>(
        &self,
        line: usize,
        (others, count): (&Self, usize),
    ) -> Option<(usize, u64)> {
        let left = self.left[line % L].as_array();
        let places = self.wanted[line].and(&others.free);
        let largest = if ALL {
            largest_masked(left, &places, (others.masks.as_array(), count))
        } else {
            largest_at(left, &places)
        };
        (largest > 0).then(|| unpack::<L>(largest))
    }
}

/// Lines by falling sums, and of equal ones as they are numbered.
#[inline]
fn longest_first<const L: usize>(sums: &[u64]) -> Lines<u16, L> {
    let mut order = [(Reverse(0), 0); L];
    let order = &mut order[..sums.len()];
    for (line, (own, &sum)) in order.iter_mut().zip(sums).enumerate() {
        *own = (Reverse(sum), line as u16);
    }
    order.sort_unstable();
    let mut names = Lines::all(0);
    names.iter_mut().zip(order).for_each(|(name, own)| *name = own.1);
    names
}

pub(super) const ROWS: usize = 0;
pub(super) const COLUMNS: usize = 1;

pub(super) struct State<const L: usize, const W: usize> {
    pub now: u64,
    /// A line that would run out of slack within this time must be joined.
    pub within: u64,
    pub sides: [Side<L, W>; 2],
    /// When the row has sent all to the column that it is joined to.
    finish: Moments<L, W>,
    /// Whence the search for an alternating path came to a line of the other side.
    from: Lines<u16, L>,
    /// Lines that the search has reached, in this order.
    queue: Lines<u16, L>,
    reached: usize,
    matching: Lines<i32, L>,
}

impl<const L: usize, const W: usize> State<L, W> {
    /// The state at the start, and the end, when the longest line has been served.
    ///
    /// Lines are numbered anew, the longest first, so that these choose first among pairs: that
    /// makes for longer and fewer slots.
    pub(super) fn new(demand: &Demand) -> (Self, u64) {
        let (rows, columns) = (demand.rows, demand.columns);
        let mut sums = [[0; L]; 2];
        let [row_sums, column_sums] = &mut sums;
        for (row, sum) in row_sums[..rows].iter_mut().enumerate() {
            for (column_sum, &bytes) in column_sums.iter_mut().zip(demand.row(row)) {
                *column_sum += bytes;
                *sum += bytes;
            }
        }
        let longest = sums.iter().flatten().copied().max().unwrap_or(0);
        let end = START + longest;
        let names = [longest_first(&sums[ROWS][..rows]), longest_first(&sums[COLUMNS][..columns])];
        let others = names.each_ref().map(Lines::as_array);
        let of_row = |row: usize| {
            let bytes = demand.row(row);
            others[COLUMNS][..columns].iter().map(|&column| bytes[usize::from(column)])
        };
        let of_column = |column: usize| {
            let cell = move |&row: &u16| demand.bytes[usize::from(row) * columns + column];
            others[ROWS][..rows].iter().map(cell)
        };
        let sides = [
            Side::new(&sums[ROWS][..rows], names[ROWS], end, of_row),
            Side::new(&sums[COLUMNS][..columns], names[COLUMNS], end, of_column),
        ];
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
        (state, end)
    }

    /// What each row is joined to, by the names that the demand has for lines, and more.
    #[inline]
    pub(super) fn matching(&self) -> &[i32; L] {
        self.matching.as_array()
    }

    /// The earliest due time of any line.
    #[inline]
    pub(super) fn earliest_due(&mut self) -> u64 {
        let [rows, columns] = &mut self.sides;
        rows.due.look();
        columns.due.look();
        earlier(rows.due.earliest(), columns.due.earliest())
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
    #[inline]
    pub(super) fn advance(&mut self, next: u64) {
        self.now = next;
        let [rows, columns] = &mut self.sides;
        self.finish.look();
        let done = self.finish.until(next);
        let mut free = Bits::EMPTY;
        done.each(|row| {
            let column = usize::from(rows.partner[row]);
            rows.finish(row, column);
            columns.finish(column, row);
            free.insert(column);
            self.matching[rows.names[row].into()] = NOBODY;
            self.finish.set(row, NEVER);
        });
        rows.release_all(&done);
        columns.release_all(&free);
    }

    /// Joins free lines that want each other, each to the one that it has most left for.
    ///
    /// Rows and columns take turns, so that the longest lines of both choose first. `ALL` says that
    /// whatever has bytes left may be joined.
    #[inline]
    pub(super) fn refill<const ALL: bool>(&mut self) {
        let fresh = self.sides.each_mut().map(|side| std::mem::take(&mut side.fresh));
        let mut free = self.sides.each_ref().map(|side| side.free.count());
        for word in 0..W {
            let [mut rows, mut columns] = fresh.each_ref().map(|lines| lines.word(word));
            loop {
                rows &= self.sides[ROWS].free.word(word);
                columns &= self.sides[COLUMNS].free.word(word);
                let place = rows | columns;
                if place == 0 {
                    break;
                }
                let first = place & place.wrapping_neg();
                let line = 64 * word + place.trailing_zeros() as usize;
                if rows & first != 0 {
                    rows ^= first;
                    self.choose::<ROWS, ALL>(line, &mut free);
                } else {
                    columns ^= first;
                    self.choose::<COLUMNS, ALL>(line, &mut free);
                }
            }
        }
    }

    /// Joins a free line to the free one that it has most left for, if there is any.
    #[inline]
    fn choose<const SIDE: usize, const ALL: bool>(&mut self, line: usize, free: &mut [usize; 2]) {
        let others = (&self.sides[1 - SIDE], free[1 - SIDE]);
        let largest = self.sides[SIDE].largest::<ALL>(line, others);
        if let Some((other, bytes)) = largest {
            let (row, column) = pair(SIDE, line, other);
            self.join(row, column, bytes);
            for count in free {
                *count -= 1;
            }
        }
    }

    /// Joins the lines that are due and free; whether that is possible with the pairs that may be.
    #[inline]
    pub(super) fn join_urgent(&mut self, due: &[Bits<W>; 2]) -> bool {
        for (side, due) in due.iter().enumerate() {
            for word in 0..W {
                let mut places = due.word(word);
                loop {
                    // A search for another line may have joined this one.
                    places &= self.sides[side].free.word(word);
                    if places == 0 {
                        break;
                    }
                    if !self.augment(side, 64 * word + places.trailing_zeros() as usize) {
                        return false;
                    }
                }
            }
        }
        true
    }

    /// Joins an urgent line by an alternating path: to a free line of the other side or, failing
    /// that, in the place of the line of its own side that has most slack.
    fn augment(&mut self, side: usize, root: usize) -> bool {
        let [rows, columns] = &self.sides;
        let (lines, others) = if side == ROWS { (rows, columns) } else { (columns, rows) };
        let mut fresh = Bits::below(others.count);
        self.queue[0] = root as u16;
        self.reached = 1;
        let mut head = 0;
        while head < self.reached {
            let line = usize::from(self.queue[head]);
            head += 1;
            let reached = lines.wanted[line].and(&fresh);
            if let Some(end) = reached.and(&others.free).first() {
                self.from[end] = line as u16;
                self.flip(side, root, end);
                return true;
            }
            fresh = fresh.minus(&reached);
            reached.each(|other| {
                self.from[other] = line as u16;
                self.queue[self.reached] = others.partner[other];
                self.reached += 1;
            });
        }
        let Some(line) = self.slackest(side) else { return false };
        let other = usize::from(lines.partner[line]);
        let (row, column) = pair(side, line, other);
        self.part(row, column);
        self.flip(side, root, other);
        true
    }

    /// The line with most slack, and no less than must remain, of those that a search has reached.
    fn slackest(&self, side: usize) -> Option<usize> {
        let lines = &self.sides[side];
        let (mut largest, mut slackest) = (self.within - 1, None);
        for &line in &self.queue.as_array()[1..self.reached] {
            let line = usize::from(line);
            let row = if side == ROWS { line } else { usize::from(lines.partner[line]) };
            let slack = lines.due.of(line).saturating_sub(self.finish.of(row));
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
            let before = usize::from(self.sides[side].partner[line]);
            if line != root {
                let (row, column) = pair(side, line, before);
                self.part(row, column);
            }
            let (row, column) = pair(side, line, end);
            let bytes = self.sides[ROWS].left(row, column);
            self.join(row, column, bytes);
            if line == root {
                return;
            }
            end = before;
        }
    }
}

/// Row and column of a line of one side and one of the other.
#[inline]
fn pair(side: usize, line: usize, other: usize) -> (usize, usize) {
    if side == ROWS { (line, other) } else { (other, line) }
}
