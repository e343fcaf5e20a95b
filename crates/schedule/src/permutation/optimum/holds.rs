//! The least holds of slots under what is known of them: a linear program, in whole numbers.
//!
//! The sum of all holds is least under rows, each of which says that the holds of some slots, less
//! those of others, are at least so many bytes. Rows are added one by one (the dual simplex method,
//! Lemke 1954): the one that is added becomes tight, and of the tight ones that leaves which keeps
//! all prices from becoming negative, so that the sum bounds from below whatever meets the rows.
//! One number divides all others (Edmonds 1967, Bareiss 1968): nothing is rounded, and a bound is a
//! proof. O(K^2) for each row that is added to those of K slots.

/// Slots of which the holds can be found.
pub(super) const MAX_SLOTS: usize = 12;

/// The largest number by which bytes are multiplied; with larger ones they might not fit 64 bits.
const LARGEST: i64 = 1 << 10;

/// The largest sum of bytes of a row, likewise.
pub(super) const MAX_BYTES: u64 = 1 << 44;

/// Slots of half of all sets that are added up beforehand.
const HALF: usize = MAX_SLOTS / 2;

type Vector = [i64; MAX_SLOTS];

/// The holds of some slots, less those of others, are at least so many bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Row {
    more: u16,
    less: u16,
    bytes: i64,
}

impl Row {
    pub(super) fn at_least(slots: u16, bytes: i64) -> Self {
        Self { more: slots, less: 0, bytes }
    }

    pub(super) fn at_most(slots: u16, bytes: i64) -> Self {
        Self { more: 0, less: slots, bytes: -bytes }
    }

    /// A slot is held at least as long as the next one.
    pub(super) fn in_order(slot: usize) -> Self {
        Self { more: 1 << slot, less: 2 << slot, bytes: 0 }
    }
}

/// What became of a row that was added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Added {
    /// It is met.
    Met,
    /// No holds meet all rows.
    Never,
    /// It was left out, since numbers would become too large; the sum is a bound all the same.
    LeftOut,
}

/// The least holds under the rows that were added.
#[derive(Debug, Clone)]
pub(super) struct Holds {
    slots: usize,
    /// What all other numbers but bytes of rows are multiplied by.
    scale: i64,
    /// What each slot is held longer per byte that a tight row asks for more; row by row.
    inverse: [Vector; MAX_SLOTS],
    held: Vector,
    /// What the sum becomes larger per byte that a tight row asks for more.
    prices: Vector,
    sum: i64,
    /// Holds of each set of the first slots, and of the others, added up.
    low: [i64; 1 << HALF],
    high: [i64; 1 << HALF],
}

/// The slots of a set.
pub(super) fn members(mut set: u16) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let slot = set.trailing_zeros() as usize;
        (set != 0).then(|| {
            set &= set - 1;
            slot
        })
    })
}

impl Holds {
    /// None of the slots is held at all, as no row asks for. That a hold is not negative is a row
    /// like others; where it is left out, the sum is a bound all the same.
    pub(super) fn new(slots: usize) -> Self {
        let (mut inverse, mut prices) = ([[0; MAX_SLOTS]; MAX_SLOTS], [0; MAX_SLOTS]);
        for slot in 0..slots {
            (inverse[slot][slot], prices[slot]) = (1, 1);
        }
        let (held, low, high) = ([0; MAX_SLOTS], [0; 1 << HALF], [0; 1 << HALF]);
        Self { slots, scale: 1, inverse, held, prices, sum: 0, low, high }
    }

    /// What the holds are together, rounded up.
    pub(super) fn sum(&self) -> i64 {
        (self.sum + self.scale - 1).div_euclid(self.scale)
    }

    /// Whether the holds are together more than so many bytes.
    pub(super) fn exceed(&self, limit: i64) -> bool {
        self.sum > limit * self.scale
    }

    /// The holds, if they are whole bytes, else the first slot whose hold is not and its bytes,
    /// rounded down.
    pub(super) fn whole(&self) -> Result<Vec<i64>, (usize, i64)> {
        let holds = self.held[..self.slots].iter();
        holds
            .enumerate()
            .map(|(slot, hold)| {
                let bytes = hold.div_euclid(self.scale);
                if bytes * self.scale == *hold { Ok(bytes) } else { Err((slot, bytes)) }
            })
            .collect()
    }

    /// What a row asks for beyond what is held, times the scale.
    #[inline]
    pub(super) fn missing(&self, row: &Row) -> i64 {
        let of = |set: u16| {
            let set = usize::from(set);
            self.low[set % (1 << HALF)] + self.high[(set >> HALF) % (1 << HALF)]
        };
        row.bytes * self.scale - of(row.more) + of(row.less)
    }

    /// The row as a sum of tight ones, and which of these leaves if it becomes tight.
    #[inline]
    fn leaving(&self, row: &Row) -> (Vector, Option<usize>) {
        let mut parts = [0; MAX_SLOTS];
        for (part, own) in parts.iter_mut().zip(&self.inverse[..self.slots]) {
            let of = |set| members(set).map(|slot| own[slot]).sum::<i64>();
            *part = of(row.more) - of(row.less);
        }
        let mut leaving: Option<usize> = None;
        for tight in (0..self.slots).filter(|&tight| parts[tight] > 0) {
            let less = |other: usize| {
                self.prices[tight] * parts[other] < self.prices[other] * parts[tight]
            };
            if leaving.is_none_or(less) {
                leaving = Some(tight);
            }
        }
        (parts, leaving)
    }

    /// Whether holds that meet a row, too, are surely more than so many bytes.
    pub(super) fn exclude(&self, row: &Row, limit: i64) -> bool {
        let missing = self.missing(row);
        if missing <= 0 {
            return false;
        }
        let (parts, leaving) = self.leaving(row);
        leaving.is_none_or(|tight| {
            let room = i128::from(limit * self.scale - self.sum) * i128::from(parts[tight]);
            room < i128::from(missing) * i128::from(self.prices[tight])
        })
    }

    /// Adds a row that is not met.
    pub(super) fn add(&mut self, row: &Row) -> Added {
        let missing = self.missing(row);
        let (parts, leaving) = self.leaving(row);
        let Some(tight) = leaving else { return Added::Never };
        let (scale, next) = (self.scale, parts[tight]);
        let (shares, price) = (self.inverse[tight], self.prices[tight]);
        let mut inverse = self.inverse;
        let mut largest = next;
        for other in (0..self.slots).filter(|&other| other != tight) {
            for (cell, share) in inverse[other][..self.slots].iter_mut().zip(shares) {
                *cell = *cell * next - parts[other] * share;
                if scale > 1 {
                    *cell /= scale;
                }
                largest = largest.max(cell.abs());
            }
        }
        if largest > LARGEST {
            return Added::LeftOut;
        }
        self.inverse = inverse;
        self.scale = next;
        let turn = |old: i64, change: i64| {
            let all = i128::from(old) * i128::from(next) + i128::from(change) * i128::from(missing);
            i64::try_from(all / i128::from(scale)).expect("rows and shares are small")
        };
        for (hold, share) in self.held[..self.slots].iter_mut().zip(shares) {
            *hold = turn(*hold, share);
        }
        self.sum = turn(self.sum, price);
        for other in (0..self.slots).filter(|&other| other != tight) {
            self.prices[other] = (self.prices[other] * next - parts[other] * price) / scale;
        }
        self.add_up();
        Added::Met
    }

    fn add_up(&mut self) {
        let (first, others) = self.held[..self.slots].split_at(HALF.min(self.slots));
        for (sums, holds) in [(&mut self.low, first), (&mut self.high, others)] {
            for (slot, hold) in holds.iter().enumerate() {
                for set in 0..1 << slot {
                    sums[set + (1 << slot)] = sums[set] + hold;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Adds what is not met until all is, or no holds meet all.
    fn fit(slots: usize, rows: &[Row]) -> Option<Holds> {
        let mut holds = Holds::new(slots);
        for _ in 0..200 {
            let Some(row) = rows.iter().find(|row| holds.missing(row) > 0) else {
                return Some(holds);
            };
            match holds.add(row) {
                Added::Met => assert!(holds.missing(row) == 0),
                Added::Never => return None,
                Added::LeftOut => panic!("four slots have small numbers"),
            }
        }
        panic!("{rows:?} never end");
    }

    /// The least sum of whole holds of up to six bytes, and the holds in fours.
    fn minimum(slots: usize, rows: &[Row]) -> Option<i64> {
        let all = (0..7_i64.pow(slots as u32)).map(|number| {
            (0..slots).map(|slot| number / 7_i64.pow(slot as u32) % 7).collect::<Vec<i64>>()
        });
        let is_met = |holds: &Vec<i64>| {
            let of = |set| members(set).map(|slot| holds[slot]).sum::<i64>();
            rows.iter().all(|row| of(row.more) - of(row.less) >= row.bytes)
        };
        all.filter(is_met).map(|holds| holds.iter().sum()).min()
    }

    proptest! {
        /// Holds that meet all rows, and a sum that no whole holds beat: the optimum. Each row is
        /// foreseen by `exclude` as `add` makes it.
        #[test]
        fn the_sum_is_the_least(
            rows in prop::collection::vec((1..16_u16, 0..16_u16, -3..7_i64), 1..7)
        ) {
            let of = |(more, less, bytes): (u16, u16, i64)| Row { more, less: less & !more, bytes };
            let mut rows: Vec<Row> = rows.into_iter().map(of).collect();
            rows.extend((0..4).map(|slot| Row::at_least(1 << slot, 0)));
            let best = minimum(4, &rows);
            let Some(holds) = fit(4, &rows) else {
                prop_assert_eq!(best, None);
                return Ok(());
            };
            if let Some(best) = best {
                prop_assert!(holds.sum() <= best && !holds.exceed(best));
            }
            if let Ok(whole) = holds.whole() {
                prop_assert_eq!(whole.iter().sum::<i64>(), holds.sum());
                prop_assert!(whole.iter().all(|&hold| hold >= 0));
            }
            for more in 1..16 {
                let row = Row::at_least(more, 9);
                let mut next = holds.clone();
                if holds.missing(&row) <= 0 {
                    prop_assert!(!holds.exclude(&row, holds.sum()));
                } else if next.add(&row) == Added::Met {
                    prop_assert!(!holds.exclude(&row, next.sum()));
                    prop_assert!(holds.exclude(&row, next.sum() - 1));
                }
            }
        }
    }

    /// Two of three slots each for 1 byte: half a byte each.
    #[test]
    fn holds_in_a_circle_are_halves() {
        let rows = [0b011, 0b110, 0b101].map(|slots| Row::at_least(slots, 1));
        let holds = fit(3, &rows).unwrap();
        assert_eq!((holds.sum, holds.scale, holds.sum()), (3, 2, 2));
        assert_eq!(holds.whole(), Err((0, 0)));
        assert!(holds.exceed(1) && !holds.exceed(2));
    }

    #[test]
    fn rows_that_contradict_each_other_have_no_holds() {
        let rows = [Row::at_least(0b011, 9), Row::at_most(0b001, 4), Row::at_most(0b010, 4)];
        assert!(fit(2, &rows).is_none());
        assert_eq!(fit(2, &rows[..2]).unwrap().sum(), 9);
        let in_order = [Row::in_order(0), Row::at_least(0b10, 5)];
        assert_eq!(fit(2, &in_order).unwrap().whole(), Ok(vec![5, 5]));
    }
}
