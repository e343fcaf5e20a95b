//! What is decided of a schedule of so many slots, and what that asks of their holds.
//!
//! Each pair has a set of slots; those of the pairs of a line are disjoint. Slots are numbered by
//! falling holds. In a line with u pairs that are open and u + e slots that these may have, any m
//! pairs have at most m + e slots, since each other pair has one. So the m + e longest of the slots
//! are held at least as long as the m largest pairs take; and of the r + e largest pairs at least
//! r have one slot each, so that the r-th longest slot is held for the (r + e)-th largest pair.

use super::super::demand::Demand;
use super::holds::{Holds, Row, members};

/// Lines, rows and columns together, of a demand that is searched.
pub(super) const MAX_LINES: usize = 16;

/// A set of slots that a pair may have.
#[derive(Debug, Clone, Copy)]
pub(super) struct Choice {
    pub slots: u16,
    /// What the holds of a schedule with this choice are together at least.
    pub bound: i64,
}

/// A pair whose slots are not decided.
#[derive(Debug, Clone)]
pub(super) struct Open {
    /// Row and column; columns are counted after the rows.
    pub lines: [usize; 2],
    pub bytes: i64,
    pub choices: Vec<Choice>,
    /// The slots of any choice.
    pub any: u16,
}

impl Open {
    fn meets(&self, line: usize) -> bool {
        self.lines.contains(&line)
    }

    /// Keeps some choices; says whether there are any.
    pub(super) fn retain(&mut self, keep: impl FnMut(&mut Choice) -> bool) -> bool {
        self.choices.retain_mut(keep);
        self.any = self.choices.iter().fold(0, |any, choice| any | choice.slots);
        self.any != 0
    }
}

/// What is decided.
#[derive(Debug, Clone)]
pub(super) struct Node {
    /// Largest first.
    pub open: Vec<Open>,
    /// Row, column and slots of the pairs that are decided.
    pub decided: Vec<([usize; 2], u16)>,
    /// What these ask for, and the order of the holds.
    pub rows: Vec<Row>,
    /// The least holds, as far as they have been found.
    pub holds: Box<Holds>,
}

/// The first slots of a set.
fn first(set: u16, count: usize) -> u16 {
    let others = (0..count).fold(set, |set, _| set & set.wrapping_sub(1));
    set & !others
}

/// What a pair with these slots asks for. None of several can be spared.
pub(super) fn rows_of_choice(slots: u16, bytes: i64, rows: &mut Vec<Row>) {
    rows.push(Row::at_least(slots, bytes));
    if slots.count_ones() > 1 {
        rows.extend(members(slots).map(|one| Row::at_most(slots & !(1 << one), bytes - 1)));
    }
}

impl Node {
    /// Nothing is decided of so many slots; all holds are together at least `bound`.
    pub(super) fn new(demand: &Demand, slots: usize, bound: i64) -> Self {
        let (mut open, mut peers) = (Vec::new(), [0; MAX_LINES]);
        for (bytes, cell) in demand.largest_pairs() {
            let (row, column) = (cell as usize / demand.columns, cell as usize % demand.columns);
            let lines = [row, demand.rows + column];
            for line in lines {
                peers[line] += 1;
            }
            let bytes = i64::try_from(bytes).expect("at most 2^44");
            open.push(Open { lines, bytes, choices: Vec::new(), any: 0 });
        }
        for pair in &mut open {
            let limit = 1 + slots - pair.lines.iter().map(|&line| peers[line]).max().unwrap_or(0);
            let sets = (1..1_u16 << slots).filter(|set| set.count_ones() as usize <= limit);
            pair.choices = sets.map(|slots| Choice { slots, bound }).collect();
            pair.any = (1 << slots) - 1;
        }
        let mut rows: Vec<Row> = (0..slots - 1).map(Row::in_order).collect();
        rows.push(Row::at_least(1 << (slots - 1), 1));
        Self { open, decided: Vec::new(), rows, holds: Box::new(Holds::new(slots)) }
    }

    /// What the open pairs of a line ask for, but one pair that has these slots; says how many more
    /// slots than one each they may have, or nothing if there are not enough.
    fn rows_of_line(
        &self,
        line: usize,
        (but, taken): (usize, u16),
        rows: &mut Vec<Row>,
    ) -> Option<usize> {
        let own = || {
            let pairs = self.open.iter().enumerate();
            pairs.filter(move |(number, pair)| *number != but && pair.meets(line)).map(|it| it.1)
        };
        let (mut count, mut any) = (0, 0);
        for pair in own() {
            if pair.any & !taken == 0 {
                return None;
            }
            (count, any) = (count + 1, any | (pair.any & !taken));
        }
        let more = (any.count_ones() as usize).checked_sub(count)?;
        let (mut together, mut longest, mut sum) = (first(any, more), any, 0);
        for (number, pair) in own().enumerate() {
            let others = any & !together;
            together |= others & others.wrapping_neg();
            sum += pair.bytes;
            rows.push(Row::at_least(together, sum));
            if number >= more {
                rows.push(Row::at_least(longest & longest.wrapping_neg(), pair.bytes));
                longest &= longest - 1;
            }
            rows.push(Row::at_least(first(pair.any & !taken, 1 + more), pair.bytes));
        }
        Some(more)
    }

    /// What the open pairs ask for, none of which may have more slots than its lines can spare; or
    /// nothing if there are not enough.
    pub(super) fn rows_of_lines(&mut self, rows: &mut Vec<Row>) -> Option<()> {
        for line in 0..MAX_LINES {
            let more = self.rows_of_line(line, (usize::MAX, 0), rows)?;
            for pair in self.open.iter_mut().filter(|pair| pair.meets(line)) {
                if !pair.retain(|choice| choice.slots.count_ones() as usize <= 1 + more) {
                    return None;
                }
            }
        }
        Some(())
    }

    /// What an open pair with these slots asks for, and the other pairs of its lines then.
    pub(super) fn rows_with(&self, pair: usize, slots: u16, rows: &mut Vec<Row>) -> Option<()> {
        let Open { lines, bytes, .. } = self.open[pair];
        rows_of_choice(slots, bytes, rows);
        for line in lines {
            self.rows_of_line(line, (pair, slots), rows)?;
        }
        Some(())
    }

    /// The same with an open pair decided, if the other pairs of its lines have slots left.
    pub(super) fn with(&self, pair: usize, slots: u16) -> Option<Self> {
        let mut next = self.clone();
        let Open { lines, bytes, .. } = next.open.remove(pair);
        rows_of_choice(slots, bytes, &mut next.rows);
        next.decided.push((lines, slots));
        for other in
            next.open.iter_mut().filter(|other| lines.iter().any(|&line| other.meets(line)))
        {
            if !other.retain(|choice| choice.slots & slots == 0) {
                return None;
            }
        }
        Some(next)
    }
}
