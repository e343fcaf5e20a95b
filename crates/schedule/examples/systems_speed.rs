//! Calls one function of coloring or matching a number of times and prints the best time.
//!
//! `valgrind --tool=callgrind` on two runs with different numbers of calls gives the
//! instructions of one call.

use std::hint::black_box;
use std::time::Instant;

use lightloom_schedule::coloring::{FabricShape, Pods, route_permutation};
use lightloom_schedule::matching::{assign, match_general};

#[path = "../tests/all/common/regimes.rs"]
mod regimes;

use regimes::Random;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, size, leaf, calls] = &arguments[..] else {
        panic!("expected: two|three|assign|general SIZE LEAF CALLS");
    };
    let [size, leaf, calls] =
        [size, leaf, calls].map(|text| text.parse::<u32>().expect("a number"));
    let pods = (name == "three").then_some(Pods { leaves: leaf, cores: leaf });
    let shape = FabricShape { leaf, spines: leaf, pods };
    let n = size as usize;
    let matching = name == "assign" || name == "general";
    let count = if matching { size * size } else { size };
    let order = Random(0x9E37_79B9_7F4A_7C15).shuffled(count);
    // Exponentially distributed weights, symmetric.
    let weight = |a: usize, b: usize| {
        let draw = f64::from(order[a.min(b) * n + a.max(b)] + 1) / (n * n) as f64;
        (-1e9 * draw.ln()) as i64
    };
    let cells = if matching { n * n } else { 0 };
    let weights: Vec<i64> = (0..cells).map(|cell| weight(cell / n, cell % n)).collect();
    let mut best = f64::INFINITY;
    for _ in 0..calls {
        let start = Instant::now();
        match name.as_str() {
            "assign" => drop(black_box(assign(n, n, black_box(&weights)))),
            "general" => drop(black_box(match_general(n, black_box(&weights)))),
            _ => drop(black_box(route_permutation(black_box(&order), &shape))),
        }
        best = best.min(start.elapsed().as_secs_f64());
    }
    println!("{name} {size} {leaf}: {:.1} us", best * 1e6);
}
