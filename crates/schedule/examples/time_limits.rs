//! `auto` under a time limit against `critical`, `bvn` and `greedy` alone, in processor time.
//!
//! The machine may be busy: a limit is so many steps of the search as take no longer than that of
//! a processor, found by bisection. Printed are, per number of lines and kind of demand, means over
//! delays and draws of the length over the lower bound: of `auto` at 1, 5 and 25 ms, and of each
//! method alone with the milliseconds that it takes. Then worst ratios of lengths: of `auto` over
//! any method that takes no longer than the limit, for each limit; over each method at exactly its
//! own time (to 25 ms), in which `auto` has tried others too; and over `auto` at a lower limit.
//!
//! `cargo run --release -p lightloom-schedule --example time_limits 16,64,256 3 10,100,1000`:
//! lines, draws and delays in microseconds, the longest line being 10 ms.

use lightloom_schedule::permutation::{Budget, Demand, Method, Schedule, decompose_within};
use rustix::time::{ClockId, clock_gettime};

#[path = "../tests/all/common/regimes.rs"]
mod regimes;

use regimes::Random;

const LIMITS_MS: [f64; 3] = [1.0, 5.0, 25.0];
const ALONE: [Method; 3] = [Method::Critical, Method::Bvn, Method::Greedy];
/// Bytes that a port sends in a microsecond, at 400 Gb/s.
const BYTES_PER_US: u64 = 50_000;
/// Each time is the least of so many, unless it is long.
const TURNS: usize = 3;
const LONG_MS: f64 = 100.0;

/// Bytes whose longest line is 10 ms; *hot*: an eighth of the columns receive ten times as much.
fn demand(kind: &str, n: usize, random: &mut Random) -> Vec<u64> {
    let mut shares = regimes::weights(if kind == "hot" { "pair" } else { kind }, n, 0.95, random);
    if kind == "hot" {
        shares
            .iter_mut()
            .enumerate()
            .filter(|(cell, _)| cell % n < n.div_ceil(8))
            .for_each(|(_, share)| *share *= 10.0);
    }
    let row = |i: usize| shares[i * n..(i + 1) * n].iter().sum::<f64>();
    let column = |j: usize| (0..n).map(|i| shares[i * n + j]).sum::<f64>();
    let longest = (0..n).map(|line| row(line).max(column(line))).fold(0.0, f64::max);
    shares.iter().map(|share| (share / longest * 5e8) as u64).collect()
}

/// Milliseconds of this thread on a processor.
fn processor_ms() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e3 + time.tv_nsec as f64 * 1e-6
}

/// A schedule, and the least milliseconds of a few turns.
fn timed(turns: usize, mut make: impl FnMut() -> Schedule) -> (Schedule, f64) {
    let mut minimum = f64::INFINITY;
    let mut found = None;
    for _ in 0..turns {
        let start = processor_ms();
        let made = make();
        minimum = minimum.min(processor_ms() - start);
        found = Some(made);
        if minimum > LONG_MS {
            break;
        }
    }
    (found.expect("one turn"), minimum)
}

/// What `auto` finds by as many steps as take no longer than a limit.
fn within(demand: &Demand, limit_ms: f64) -> Schedule {
    let by = |steps: u64, turns: usize| {
        timed(turns, || decompose_within(demand, Method::Auto, &Budget::of_steps(steps)))
    };
    let (mut low, mut high) = (0_u64, 1_u64);
    let mut best = by(0, 1).0;
    while high < 1 << 40 {
        let (found, time) = by(high, 1);
        if time > limit_ms {
            break;
        }
        (low, best) = (high, found);
        high *= 2;
    }
    while high - low > 1 + low / 16 {
        let middle = low + (high - low) / 2;
        let (found, time) = by(middle, TURNS);
        if time > limit_ms {
            high = middle;
        } else {
            (low, best) = (middle, found);
        }
    }
    best
}

#[derive(Default)]
struct Row {
    cases: f64,
    limited: [f64; LIMITS_MS.len()],
    alone: [(f64, f64); ALONE.len()],
    /// Over methods within each limit.
    within: [f64; LIMITS_MS.len()],
    /// Over each method in its own time.
    own: [f64; ALONE.len()],
    longer: f64,
}

impl Row {
    fn add(&mut self, demand: &Demand) {
        self.cases += 1.0;
        let mut before = u64::MAX;
        let limited = LIMITS_MS.map(|limit_ms| within(demand, limit_ms));
        for (found, sum) in limited.iter().zip(&mut self.limited) {
            *sum += over_bound(found);
            self.longer = self.longer.max(found.length as f64 / before as f64);
            before = found.length;
        }
        for (index, &method) in ALONE.iter().enumerate() {
            let unlimited = Budget::unlimited();
            let (alone, time) = timed(TURNS, || decompose_within(demand, method, &unlimited));
            self.alone[index].0 += over_bound(&alone);
            self.alone[index].1 += time;
            let over = |ours: &Schedule| ours.length as f64 / alone.length as f64;
            if time <= LIMITS_MS[LIMITS_MS.len() - 1] {
                self.own[index] = self.own[index].max(over(&within(demand, time)));
            }
            for (limit, ours) in limited.iter().enumerate() {
                if time <= LIMITS_MS[limit] {
                    self.within[limit] = self.within[limit].max(over(ours));
                }
            }
        }
    }

    fn text(&self) -> String {
        let limited: Vec<String> =
            self.limited.iter().map(|sum| format!("{:.3}", sum / self.cases)).collect();
        let alone: Vec<String> = self
            .alone
            .iter()
            .map(|(ratio, ms)| format!("{:.3} ({:.2} ms)", ratio / self.cases, ms / self.cases))
            .collect();
        let worst = self.within.iter().chain(&self.own).chain([&self.longer]);
        let text = |&ratio: &f64| if ratio > 0.0 { format!("{ratio:.3}") } else { "-".into() };
        let worst: Vec<String> = worst.map(text).collect();
        [limited, alone, worst].concat().join(" | ")
    }
}

fn over_bound(found: &Schedule) -> f64 {
    found.length as f64 / found.lower_bound as f64
}

fn numbers(text: &str) -> Vec<u64> {
    text.split(',').map(|word| word.parse().expect("whole numbers with commas")).collect()
}

fn main() {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let or = |index: usize, default: &str| given.get(index).cloned().unwrap_or(default.to_owned());
    println!(
        "| lines | demand | 1 ms | 5 ms | 25 ms | `critical` | `bvn` | `greedy` | over any, 1 ms \
         | 5 ms | 25 ms | over `critical`, own time | `bvn` | `greedy` | over a lower limit |"
    );
    println!("|---:|---|{}", "---:|".repeat(13));
    for lines in numbers(&or(0, "16,64,256")) {
        let lines = lines as usize;
        for kind in or(3, "mixtral,pair,sparse,uniform,hot").split(',') {
            let mut row = Row::default();
            let mut random = Random(0x9E37_79B9_7F4A_7C15);
            for _ in 0..numbers(&or(1, "3"))[0] {
                let bytes = demand(kind, lines, &mut random);
                for delay_us in numbers(&or(2, "10,100,1000")) {
                    let demand = Demand::new(lines, lines, &bytes, delay_us * BYTES_PER_US, false);
                    row.add(&demand.expect("valid"));
                }
            }
            println!("| {lines} | {kind} | {} |", row.text());
        }
    }
}
