//! Schedules that keep the matchings of an earlier one, against `auto` computed anew, where each
//! pair of the demand has become larger or smaller by up to a part of it.
//!
//! ```text
//! cargo run --release -p lightloom-schedule --example previous -- 3 8,16,32,64
//! ```

use std::time::Instant;

use lightloom_schedule::permutation::{
    Budget, Demand, Matchings, Method, Slots, check, decompose, decompose_from,
};

#[path = "../tests/all/common/regimes.rs"]
mod regimes;

/// Delays as parts of the longest line, and drift, in 1/10,000.
const DELAYS: [u64; 4] = [1, 10, 100, 1_000];
const DRIFTS: [u64; 4] = [100, 500, 1_000, 2_000];

/// Lengths and times of what was kept, as parts of those anew.
#[derive(Default)]
struct Tally {
    lengths: Vec<f64>,
    kept: f64,
    anew: f64,
}

impl Tally {
    fn add(&mut self, length: f64, kept: f64, anew: f64) {
        self.lengths.push(length);
        self.kept += kept;
        self.anew += anew;
    }

    fn text(&self) -> String {
        let mean = self.lengths.iter().sum::<f64>() / self.lengths.len() as f64;
        let worst = self.lengths.iter().copied().fold(0.0, f64::max);
        let within = self.lengths.iter().filter(|&&length| length <= 1.015).count();
        format!(
            "{mean:.3} ({worst:.3}), {:3.0} % within 1.5 %, time {:.3}, {:.3} ms",
            100.0 * within as f64 / self.lengths.len() as f64,
            self.kept / self.anew,
            1e3 * self.kept / self.lengths.len() as f64
        )
    }
}

#[inline(never)]
fn timed_kept(demand: &Demand, previous: &Slots) -> (u64, f64) {
    let start = Instant::now();
    let unlimited = Budget::unlimited();
    let found = decompose_from(demand, previous, new_slots(), Method::Previous, &unlimited)
        .expect("it fits");
    let took = start.elapsed().as_secs_f64();
    check(demand, &found).expect("a schedule");
    assert!(found.new_slots <= Some(new_slots()));
    (found.length, took)
}

/// Slots that may be added.
fn new_slots() -> usize {
    std::env::args().nth(3).map_or(0, |word| word.parse().expect("a number of slots"))
}

fn slots_of(demand: &Demand) -> (Slots, u64, f64) {
    let start = Instant::now();
    let found = decompose(demand, Method::Auto, None);
    let took = start.elapsed().as_secs_f64();
    let Matchings::Slots(slots) = found.plan else { unreachable!("all-stop") };
    (slots, found.length, took)
}

/// One drawn demand at one delay: an earlier schedule, and then each drift.
fn measure(kind: &str, n: usize, draw: u64, delay: u64, mut add: impl FnMut(usize, [f64; 3])) {
    let mut random = regimes::Random(0x9E37_79B9_7F4A_7C15 ^ (draw * 7_919 + 1));
    let bytes = regimes::demand(kind, n, &mut random);
    let rows = bytes.chunks_exact(n).map(|row| row.iter().sum::<u64>());
    let columns = (0..n).map(|c| bytes.iter().skip(c).step_by(n).sum::<u64>());
    let longest = rows.chain(columns).max().expect("a line");
    let delay = longest * delay / 10_000;
    let (previous, ..) = slots_of(&Demand::new(n, n, &bytes, delay, false).expect("it fits"));
    for (index, drift) in DRIFTS.into_iter().enumerate() {
        let part = drift as f64 / 1e4;
        let drifted =
            |&bytes: &u64| (bytes as f64 * (1.0 + part * (2.0 * random.uniform() - 1.0))) as u64;
        let bytes: Vec<u64> = bytes.iter().map(drifted).collect();
        let demand = Demand::new(n, n, &bytes, delay, false).expect("it fits");
        let (_, anew, took_anew) = slots_of(&demand);
        let (kept, took) = timed_kept(&demand, &previous);
        add(index, [kept as f64 / anew as f64, took, took_anew]);
    }
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let draws: u64 = words.first().map_or(Ok(3), |word| word.parse()).expect("a number of draws");
    let sizes = words.get(1).map_or("8,16,32,64", String::as_str);
    let sizes: Vec<usize> =
        sizes.split(',').map(|size| size.parse().expect("sizes such as 8,16")).collect();
    let mut by_delay: [[Tally; 4]; 4] = Default::default();
    for &n in &sizes {
        for kind in regimes::KINDS {
            let mut all = Tally::default();
            for (draw, delay) in (0..draws).flat_map(|draw| (0..4).map(move |delay| (draw, delay)))
            {
                measure(kind, n, draw, DELAYS[delay], |drift, [length, kept, anew]| {
                    by_delay[delay][drift].add(length, kept, anew);
                    all.add(length, kept, anew);
                });
            }
            println!("{n:3} lines, {kind:8}: {}", all.text());
        }
    }
    for (delay, tallies) in DELAYS.iter().zip(&by_delay) {
        for (drift, tally) in DRIFTS.iter().zip(tallies) {
            let (delay, drift) = (*delay as f64 / 100.0, drift / 100);
            println!("delay {delay:5} %, drift {drift:2} %: {}", tally.text());
        }
    }
}
