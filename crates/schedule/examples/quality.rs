//! Makespan over port bound, and time per call, of every allocator on synthetic demand.

use std::time::Instant;

use lightloom_model::{Allocator, Rate};
use lightloom_schedule::{EpsRates, Request, allocate, port_bound};

#[path = "../tests/all/common/regimes.rs"]
mod regimes;

use regimes::{Random, demand};

const ALLOCATORS: [Allocator; 6] = [
    Allocator::Static,
    Allocator::Paper,
    Allocator::Reference,
    Allocator::Greedy,
    Allocator::Parametric,
    Allocator::Best,
];

fn main() {
    let draws: usize = std::env::args().nth(1).map_or(20, |text| text.parse().expect("a number"));
    let sizes: Vec<usize> = match std::env::args().nth(2) {
        Some(size) => vec![size.parse().expect("a number")],
        None => vec![4, 8, 16, 32, 64, 128],
    };
    let rate = Rate(400_000_000_000);
    for kind in ["mixtral", "pair", "sparse"] {
        for &n in &sizes {
            let (ports, eps_rates) = (vec![6; n], EpsRates::Equal(Rate(2 * rate.0)));
            for split in [false, true] {
                print!("{kind:8} {n:4} {:5}", if split { "split" } else { "whole" });
                for allocator in ALLOCATORS {
                    let mut random = Random(0x9E37_79B9_7F4A_7C15);
                    let (mut sum, mut seconds) = (0.0, 0.0);
                    for _ in 0..draws {
                        let demand = demand(kind, n, &mut random);
                        let request =
                            Request::new(&demand, &ports, rate, eps_rates, split).unwrap();
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
