//! Length over bound, slots and time of every method that makes schedules of permutations.

use std::time::Instant;

use lightloom_schedule::permutation::{Demand, Method, check, decompose};

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

fn main() {
    let mut arguments = std::env::args().skip(1);
    let draws: usize = arguments.next().map_or(4, |text| text.parse().expect("a number"));
    let sizes: Vec<usize> = arguments.next().map_or(vec![8, 16, 32, 64], |text| {
        text.split(',').map(|size| size.parse().expect("numbers")).collect()
    });
    let methods: Vec<Method> = arguments
        .next()
        .map_or(Method::SINGLE.into_iter().chain([Method::Auto]).collect(), |text| {
            text.split(',').map(|name| Method::named(name).expect("a method")).collect()
        });
    let delays: Vec<u64> = arguments.next().map_or(vec![0, 1, 10, 100, 1_000, 25_000], |text| {
        text.split(',').map(|size| size.parse().expect("numbers")).collect()
    });
    for kind in ["moe", "pair", "sparse", "uniform"] {
        for &n in &sizes {
            for &delay in &delays {
                print!("{kind:8} {n:4} {delay:6} us");
                for &method in &methods {
                    let mut random = Random(0x9E37_79B9_7F4A_7C15);
                    let (mut worst, mut sum, mut slots) = (0.0_f64, 0.0, 0);
                    let mut best = f64::INFINITY;
                    for _ in 0..draws {
                        let bytes = demand(kind, n, &mut random);
                        let demand = Demand::new(n, n, &bytes, delay * 50_000, false).unwrap();
                        let start = Instant::now();
                        let found = decompose(&demand, method, None);
                        best = best.min(start.elapsed().as_secs_f64());
                        check(&demand, &found).unwrap();
                        let ratio = found.length as f64 / found.lower_bound as f64;
                        worst = worst.max(ratio);
                        sum += ratio;
                        slots += found.plan.configurations();
                    }
                    let name = method.name();
                    let (mean, slots) = (sum / draws as f64, slots / draws);
                    print!("  {name} {mean:.3} {worst:.3} {slots:5} {:9.1}us", best * 1e6);
                }
                println!();
            }
        }
    }
}
