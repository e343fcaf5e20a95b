//! Makespan over port bound, and time per call, of every allocator on synthetic demand.

use std::time::Instant;

use lightloom_model::{Allocator, Rate};
use lightloom_schedule::{EpsRates, Request, allocate, port_bound};

const ALLOCATORS: [Allocator; 6] = [
    Allocator::Static,
    Allocator::Paper,
    Allocator::Reference,
    Allocator::Greedy,
    Allocator::Parametric,
    Allocator::Best,
];

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

fn demand(kind: &str, n: usize, random: &mut Random) -> Vec<u64> {
    let popularity: Vec<f64> = (0..n).map(|_| (0.774 * random.normal()).exp()).collect();
    let sum: f64 = popularity.iter().sum();
    let mut bytes = Vec::new();
    for _ in 0..n {
        let row: Vec<f64> = (0..n)
            .map(|j| match kind {
                "mixtral" => random.gamma(340.0 * popularity[j] / sum * n as f64 / 8.0),
                "pair" => random.gamma(1.0),
                _ => random.gamma(0.15),
            })
            .collect();
        let total: f64 = row.iter().sum();
        bytes.extend(row.iter().map(|share| (share / total * 4e8) as u64));
    }
    bytes
}

fn main() {
    let draws: usize = std::env::args().nth(1).map_or(20, |text| text.parse().expect("a number"));
    let sizes: Vec<usize> = match std::env::args().nth(2) {
        Some(size) => vec![size.parse().expect("a number")],
        None => vec![4, 8, 16, 32, 64, 128],
    };
    let rate = Rate(400_000_000_000);
    for kind in ["mixtral", "pair", "sparse"] {
        for &n in &sizes {
            for split in [false, true] {
                print!("{kind:8} {n:4} {:5}", if split { "split" } else { "whole" });
                for allocator in ALLOCATORS {
                    let mut random = Random(0x9E37_79B9_7F4A_7C15);
                    let (mut sum, mut seconds) = (0.0, 0.0);
                    for _ in 0..draws {
                        let demand = demand(kind, n, &mut random);
                        let request = Request {
                            servers: n,
                            demand: &demand,
                            ports: &vec![6; n],
                            allowed: None,
                            circuit_rate: rate,
                            eps_rates: EpsRates::Equal(Rate(2 * rate.0)),
                            split,
                            previous: None,
                        };
                        let start = Instant::now();
                        let allocation = allocate(allocator, &request);
                        seconds += start.elapsed().as_secs_f64();
                        sum += allocation.makespan / port_bound(&request);
                    }
                    let each = draws as f64;
                    print!("  {:.3} {:7.1} us", sum / each, seconds / each * 1e6);
                }
                println!();
            }
        }
    }
}
