//! Length over bound, slots and time of every method that makes schedules of permutations.

use std::time::{Duration, Instant};

use lightloom_schedule::permutation::{Demand, Method, Schedule, check, decompose};

#[path = "../tests/all/common/regimes.rs"]
mod regimes;

use regimes::Random;

/// Deviation of the logarithm of the columns of `moe`.
const SKEW: f64 = 0.95;

/// Bytes whose longest line is 10 ms at 400 Gb/s.
fn demand(kind: &str, n: usize, random: &mut Random) -> Vec<u64> {
    let mut shares =
        regimes::weights(if kind == "moe" { "mixtral" } else { kind }, n, SKEW, random);
    if kind == "uniform" {
        for share in &mut shares {
            *share = (*share * 1000.0).ceil();
        }
    } else {
        shares.chunks_exact_mut(n).for_each(regimes::normalize);
    }
    let row = |i: usize| shares[i * n..(i + 1) * n].iter().sum::<f64>();
    let column = |j: usize| (0..n).map(|i| shares[i * n + j]).sum::<f64>();
    let longest = (0..n).map(|line| row(line).max(column(line))).fold(0.0, f64::max);
    shares.iter().map(|share| (share / longest * 5e8) as u64).collect()
}

/// What is timed; not inlined, so that callgrind can count it by its name.
#[inline(never)]
fn timed(demand: &Demand, method: Method, limit: Option<Duration>) -> Schedule {
    decompose(demand, method, limit.map(|limit| Instant::now() + limit))
}

/// Mean and worst length over bound, slots per draw, and the best time.
fn measure(kind: &str, lines: usize, delay_us: u64, method: Method, options: &Options) -> String {
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let (mut worst, mut sum, mut slots, mut best) = (0.0_f64, 0.0, 0, f64::INFINITY);
    for _ in 0..options.draws {
        let bytes = demand(kind, lines, &mut random);
        // 400 Gb/s are 50,000 bytes per microsecond.
        let demand = Demand::new(lines, lines, &bytes, delay_us * 50_000, options.partial);
        let demand = demand.expect("valid");
        let start = Instant::now();
        let found = timed(&demand, method, options.limit);
        best = best.min(start.elapsed().as_secs_f64());
        check(&demand, &found).expect("valid");
        let ratio = found.length as f64 / found.lower_bound as f64;
        worst = worst.max(ratio);
        sum += ratio;
        slots += found.plan.configurations();
    }
    let (mean, slots) = (sum / options.draws as f64, slots / options.draws);
    format!("  {} {mean:.3} {worst:.3} {slots:5} {:8.1} us", method.name(), best * 1e6)
}

struct Options {
    draws: usize,
    partial: bool,
    limit: Option<Duration>,
}

fn numbers<T: std::str::FromStr>(text: &str) -> Vec<T> {
    text.split(',').map(|word| word.parse().ok().expect("whole numbers with commas")).collect()
}

/// Arguments: draws, sizes, methods, delays in microseconds, `partial` or not, limit in ms or `-`,
/// kinds of demand.
fn main() {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let or = |index: usize, default: &str| given.get(index).cloned().unwrap_or(default.to_owned());
    let limit = given.get(5).filter(|text| *text != "-");
    let limit = limit.map(|text| Duration::from_millis(numbers(text)[0]));
    let partial = or(4, "") == "partial";
    let options = Options { draws: numbers(&or(0, "4"))[0], partial, limit };
    let methods = or(2, "round-robin,open-shop,bvn,threshold,maximal,greedy,critical,auto");
    for kind in or(6, "moe,pair,sparse,uniform").split(',') {
        for &lines in &numbers(&or(1, "8,16,32,64")) {
            for &delay_us in &numbers(&or(3, "0,1,10,100,1000,25000")) {
                print!("{kind:8} {lines:4} {delay_us:6} us");
                for name in methods.split(',') {
                    let method = name.parse().expect("a method");
                    print!("{}", measure(kind, lines, delay_us, method, &options));
                }
                println!();
            }
        }
    }
}
