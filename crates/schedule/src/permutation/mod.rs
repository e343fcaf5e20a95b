//! Schedules of permutations: demand to matchings that are held one after another.
//!
//! A crossbar joins every row (source) to at most one column (destination) at a time. The demand
//! is whole bytes per pair, and the *delay* is the bytes that a port could have sent while the
//! crossbar changes, so that every quantity is exact.
//!
//! - All-stop: nothing is sent while the crossbar changes. A schedule is a list of slots, each a
//!   matching and a hold; its length is the sum of holds plus one delay per slot, the first
//!   included.
//! - Partial reconfiguration: a new circuit costs its own two ports the delay and disturbs no
//!   other. A schedule is a list of transfers with start times.
//!
//! A pair that is joined sends the smaller of what is left and the hold; nothing is stuffed. Line
//! rates are equal, and propagation, relaying and copies inside a server are left out.

#![allow(clippy::cast_possible_wrap, reason = "a line is below 1,024")]

mod assignment;
mod auto;
mod bitset;
mod bound;
mod bvn;
mod check;
mod critical;
mod exact;
mod fewest;
mod improve;
mod maximal;
mod open_shop;
mod rebuild;
mod round_robin;
mod slots;
mod threshold;

pub use check::check;
pub use slots::{Plan, Slots, Transfer};

use std::time::Instant;

use lightloom_model::{Invalid, choices};

/// Rows and columns that a demand may have.
pub const MAX_LINES: usize = 1_024;
/// Bytes that a pair may want: the whole numbers that a double holds exactly.
pub const MAX_BYTES: u64 = 1 << 53;

choices! {
    /// How demand becomes matchings.
    pub enum Method: "permutation method" {
        RoundRobin = "round-robin": "Cyclic shifts, each held to the largest demand on it",
        OpenShop = "open-shop":
            "List scheduling of an open shop, the longest remaining line first",
        Bvn = "bvn": "Birkhoff-von Neumann: the sum of holds is the longest line",
        Threshold = "threshold": "Matchings that can be held longest first, exact like `bvn`",
        Maximal = "maximal": "Maximal (greedy) matchings, at most twice the longest line",
        Critical = "critical":
            "Whatever shortens the critical lines most, with an eye on the delay",
        Auto = "auto": "The shortest of all the others",
    }
}

impl Method {
    /// Every method but `Auto`, cheapest first.
    pub fn single() -> impl Iterator<Item = Self> {
        Self::ALL.iter().copied().filter(|&method| method != Self::Auto)
    }
}

/// What to schedule.
#[derive(Debug, Clone, Copy)]
pub struct Demand<'a> {
    rows: usize,
    columns: usize,
    bytes: &'a [u64],
    delay: u64,
    partial: bool,
}

impl<'a> Demand<'a> {
    /// Demand of `rows` sources and `columns` destinations, row after row.
    ///
    /// # Errors
    /// If sizes do not fit, or are so large that the length might not fit 64 bits.
    pub fn new(
        rows: usize,
        columns: usize,
        bytes: &'a [u64],
        delay: u64,
        partial: bool,
    ) -> Result<Self, Invalid> {
        if rows > MAX_LINES || columns > MAX_LINES {
            let text = format!("demand of {rows} x {columns}: expected at most {MAX_LINES} lines");
            return Err(Invalid(text));
        }
        if bytes.len() != rows * columns {
            let text = format!("{} values are not {rows} x {columns}", bytes.len());
            return Err(Invalid(text));
        }
        let largest = bytes.iter().copied().max().unwrap_or(0);
        if largest > MAX_BYTES {
            let cell = bytes.iter().position(|&one| one == largest).expect("it is there");
            let (row, column) = (cell / columns, cell % columns);
            let text = format!("demand[{row}, {column}] is {largest}: expected at most 2^53");
            return Err(Invalid(text));
        }
        if largest.saturating_mul(rows.max(columns) as u64) > 1 << 61 {
            let text = format!("demand of up to {largest} bytes: too much for {rows} x {columns}");
            return Err(Invalid(text));
        }
        let slots = (rows * columns + rows + columns) as u64;
        if slots.checked_mul(delay).is_none_or(|all| all > 1 << 62) {
            let text = format!("delay of {delay} bytes: too long for {rows} x {columns}");
            return Err(Invalid(text));
        }
        Ok(Self { rows, columns, bytes, delay, partial })
    }

    /// Bytes that no schedule can beat.
    ///
    /// With partial reconfiguration a line needs its sum and a delay for each of its peers.
    /// All-stop, see `bound.rs`: at least the longest line, and a delay for each peer of the
    /// busiest.
    pub fn lower_bound(&self) -> u64 {
        if self.partial || self.delay == 0 {
            return self.line_bounds().own;
        }
        let lines = self.line_bounds();
        bound::all_stop(self, lines.longest, lines.busiest as usize)
    }

    /// An all-stop bound in one pass.
    fn simple_bound(&self) -> u64 {
        let lines = self.line_bounds();
        lines.longest + lines.busiest * self.delay
    }

    fn line_bounds(&self) -> LineBounds {
        let mut columns = vec![(0_u64, 0_u64); self.columns];
        let mut bounds = LineBounds::default();
        for row in self.bytes.chunks_exact(self.columns.max(1)) {
            let (mut sum, mut degree) = (0, 0);
            for (column, &bytes) in columns.iter_mut().zip(row) {
                let wanted = u64::from(bytes > 0);
                sum += bytes;
                degree += wanted;
                column.0 += bytes;
                column.1 += wanted;
            }
            bounds.take(sum, degree, self.delay);
        }
        for (sum, degree) in columns {
            bounds.take(sum, degree, self.delay);
        }
        bounds
    }

    fn row(&self, row: usize) -> &'a [u64] {
        &self.bytes[row * self.columns..(row + 1) * self.columns]
    }
}

/// Largest values of any line: its sum, its peers, its sum with a delay for each peer.
#[derive(Default)]
struct LineBounds {
    longest: u64,
    busiest: u64,
    own: u64,
}

impl LineBounds {
    fn take(&mut self, sum: u64, degree: u64, delay: u64) {
        self.longest = self.longest.max(sum);
        self.busiest = self.busiest.max(degree);
        self.own = self.own.max(sum + degree * delay);
    }
}

/// Matchings over time, with the certificate of their length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    /// The method whose matchings these are, never `Auto`.
    pub method: Method,
    /// The matchings or transfers.
    pub plan: Plan,
    /// Bytes that a port could send from the first reconfiguration to the last byte.
    pub length: u64,
    /// Bytes that no schedule can beat.
    pub lower_bound: u64,
}

impl Schedule {
    fn of(method: Method, plan: Plan, demand: &Demand, lower_bound: u64) -> Self {
        let length = plan.length(demand.delay);
        debug_assert!(length >= lower_bound, "{length} is below the bound {lower_bound}");
        Self { method, plan, length, lower_bound }
    }
}

/// Schedules a demand.
///
/// `until` bounds the time that `Auto` takes, softly: a method that has begun is finished, and
/// there is always a schedule. Apart from that the same demand yields the same schedule.
pub fn decompose(demand: &Demand, method: Method, until: Option<Instant>) -> Schedule {
    match method {
        Method::Auto => auto::decompose(demand, until),
        one => Schedule::of(one, plan_by(demand, one), demand, demand.lower_bound()),
    }
}

fn plan_by(demand: &Demand, method: Method) -> Plan {
    match method {
        Method::Bvn => Plan::Slots(bvn::decompose(demand)),
        Method::Maximal => Plan::Slots(maximal::decompose(demand)),
        Method::Threshold => Plan::Slots(threshold::decompose(demand)),
        Method::OpenShop if demand.partial => {
            Plan::Transfers(open_shop::transfers(demand, demand.delay))
        }
        Method::OpenShop => {
            Plan::Slots(Slots::of_transfers(demand.rows, &open_shop::transfers(demand, 0), 0))
        }
        Method::RoundRobin => Plan::Slots(round_robin::decompose(demand)),
        Method::Critical => Plan::Slots(critical::decompose(demand)),
        Method::Auto => unreachable!("auto is made of the others"),
    }
}
