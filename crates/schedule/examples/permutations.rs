//! Length over bound, slots and time of every method that makes schedules of permutations.

use std::time::Instant;

use lightloom_schedule::permutation::{Demand, Method, Schedule, check, decompose};

struct Random(u64);

impl Random {
    fn uniform(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        let (u, v) = (self.uniform(), self.uniform());
        (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
    }

    /// Marsaglia and Tsang (2000), with the power of a uniform for shapes below 1.
    fn gamma(&mut self, shape: f64) -> f64 {
        if shape < 1.0 {
            return self.gamma(shape + 1.0) * self.uniform().powf(1.0 / shape);
        }
        let d = shape - 1.0 / 3.0;
        loop {
            let x = self.normal();
            let v = (1.0 + x / (9.0 * d).sqrt()).powi(3);
            if v > 0.0 && self.uniform().ln() < 0.5 * x * x + d - d * v + d * v.ln() {
                return d * v;
            }
        }
    }
}

/// Bytes whose longest line is 10 ms at 400 Gb/s.
fn demand(kind: &str, n: usize, random: &mut Random) -> Vec<u64> {
    let popularity: Vec<f64> = (0..n).map(|_| (0.95 * random.normal()).exp()).collect();
    let sum: f64 = popularity.iter().sum();
    let mut shares = Vec::new();
    for _ in 0..n {
        let row: Vec<f64> = (0..n)
            .map(|j| match kind {
                "moe" => random.gamma(340.0 * popularity[j] / sum * n as f64 / 8.0),
                "pair" => random.gamma(1.0),
                "sparse" => random.gamma(0.15),
                _ => (random.uniform() * 1000.0).ceil(),
            })
            .collect();
        let total: f64 = if kind == "uniform" { 1.0 } else { row.iter().sum() };
        shares.extend(row.iter().map(|share| share / total));
    }
    let row = |i: usize| shares[i * n..(i + 1) * n].iter().sum::<f64>();
    let column = |j: usize| (0..n).map(|i| shares[i * n + j]).sum::<f64>();
    let longest = (0..n).map(|line| row(line).max(column(line))).fold(0.0, f64::max);
    shares.iter().map(|share| (share / longest * 5e8) as u64).collect()
}

/// What is timed; not inlined, so that callgrind can count it by its name.
#[inline(never)]
fn timed(demand: &Demand, method: Method) -> Schedule {
    decompose(demand, method, None)
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
        let found = timed(&demand, method);
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
}

fn numbers<T: std::str::FromStr>(text: &str) -> Vec<T> {
    text.split(',').map(|word| word.parse().ok().expect("whole numbers with commas")).collect()
}

/// Arguments: draws, sizes, methods, delays in microseconds, `partial`.
fn main() {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let or = |index: usize, default: &str| given.get(index).cloned().unwrap_or(default.to_owned());
    let options = Options { draws: numbers(&or(0, "4"))[0], partial: or(4, "") == "partial" };
    let methods = or(2, "round-robin,open-shop,bvn,threshold,maximal,critical,auto");
    for kind in ["moe", "pair", "sparse", "uniform"] {
        for &lines in &numbers(&or(1, "8,16,32,64")) {
            for &delay_us in &numbers(&or(3, "0,1,10,100,1000,25000")) {
                print!("{kind:8} {lines:4} {delay_us:6} us");
                for name in methods.split(',') {
                    let method = Method::named(name).expect("a method");
                    print!("{}", measure(kind, lines, delay_us, method, &options));
                }
                println!();
            }
        }
    }
}
