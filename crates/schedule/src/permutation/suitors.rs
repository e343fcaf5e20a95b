//! Greedy matching by weight: what taking the heaviest pair again and again comes to.
//!
//! Each row asks for the column of its heaviest pair among those that have no heavier one yet; a
//! row that is outbid asks anew (Manne and Halappanavar, "New effective multithreaded matching
//! algorithms", 2014). That takes two or three looks at a row, where sorting or searching for the
//! heaviest of all takes as many as there are rows if these want the same columns. Weights are
//! 32-bit floats, and four are looked at together.

const LANES: usize = 4;

/// A pair that has nothing left: it is never joined.
const NOTHING: f32 = f32::NEG_INFINITY;

const NOBODY: usize = usize::MAX;

pub(super) struct Suitors {
    /// Columns, rounded up to whole lanes.
    stride: usize,
    columns: usize,
    /// Bytes of each pair, or [`NOTHING`].
    bytes: Vec<f32>,
    /// What a line adds to the weight of its pairs.
    pub row_extra: Vec<f32>,
    pub column_extra: Vec<f32>,
    /// Weight and row of the heaviest pair that a column has been asked for.
    weight: Vec<f32>,
    suitor: Vec<usize>,
}

impl Suitors {
    pub(super) fn new(rows: usize, columns: usize, bytes: &[u64]) -> Self {
        let stride = columns.next_multiple_of(LANES);
        let mut suitors = Self {
            stride,
            columns,
            bytes: vec![NOTHING; rows * stride],
            row_extra: vec![0.0; rows],
            column_extra: vec![0.0; stride],
            weight: vec![0.0; stride],
            suitor: vec![NOBODY; columns],
        };
        for (cell, &bytes) in bytes.iter().enumerate() {
            suitors.set(cell, bytes);
        }
        suitors
    }

    /// Sets the bytes of a pair, numbered row after row.
    pub(super) fn set(&mut self, cell: usize, bytes: u64) {
        let (row, column) = (cell / self.columns, cell % self.columns);
        let weight = if bytes > 0 { bytes as f32 } else { NOTHING };
        self.bytes[row * self.stride + column] = weight;
    }

    /// Bytes of the largest pair.
    pub(super) fn largest(&self) -> f32 {
        let larger = |one: [f32; LANES], other: &[f32; LANES]| {
            std::array::from_fn(|i| if one[i] > other[i] { one[i] } else { other[i] })
        };
        let largest = self.bytes.as_chunks().0.iter().fold([NOTHING; LANES], larger);
        largest.into_iter().fold(NOTHING, f32::max)
    }

    /// Column of each row, or -1.
    pub(super) fn matching(&mut self) -> Vec<i32> {
        self.weight.fill(0.0);
        self.suitor.fill(NOBODY);
        for row in 0..self.row_extra.len() {
            let mut bidder = row;
            while bidder != NOBODY
                && let Some((column, weight)) = self.heaviest(bidder)
            {
                self.weight[column] = weight;
                bidder = std::mem::replace(&mut self.suitor[column], bidder);
            }
        }
        let mut matching = vec![-1; self.row_extra.len()];
        for (column, &row) in self.suitor.iter().enumerate().filter(|pair| *pair.1 != NOBODY) {
            matching[row] = column as i32;
        }
        matching
    }

    /// Column and weight of the heaviest pair of a row that is heavier than what its column has.
    fn heaviest(&self, row: usize) -> Option<(usize, f32)> {
        let extra = self.row_extra[row];
        let bytes = self.bytes[row * self.stride..(row + 1) * self.stride].as_chunks::<LANES>().0;
        let columns = self.column_extra.as_chunks::<LANES>().0;
        let weights = self.weight.as_chunks::<LANES>().0;
        let (mut heaviest, mut at) = ([0.0_f32; LANES], [0_u32; LANES]);
        for (group, ((bytes, column), weight)) in bytes.iter().zip(columns).zip(weights).enumerate()
        {
            // Masks instead of branches, so that the lanes stay together.
            let values: [f32; LANES] = std::array::from_fn(|i| bytes[i] + extra + column[i]);
            let floor: [f32; LANES] =
                std::array::from_fn(
                    |i| if weight[i] > heaviest[i] { weight[i] } else { heaviest[i] },
                );
            let mask: [u32; LANES] =
                std::array::from_fn(|i| if values[i] > floor[i] { u32::MAX } else { 0 });
            let choose = |i: usize, new: u32, old: u32| new & mask[i] | old & !mask[i];
            heaviest = std::array::from_fn(|i| {
                f32::from_bits(choose(i, values[i].to_bits(), heaviest[i].to_bits()))
            });
            at = std::array::from_fn(|i| choose(i, group as u32, at[i]));
        }
        let place = |lane: usize| (LANES * at[lane] as usize + lane, heaviest[lane]);
        let of_lanes = (0..LANES).map(place).filter(|found| found.1 > 0.0);
        of_lanes.max_by(|x, y| x.1.total_cmp(&y.1).then(y.0.cmp(&x.0)))
    }
}
