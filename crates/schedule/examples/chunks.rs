//! Chunks over circuits and packets: length or lateness over the bound, by regime and compute time.
//!
//! ```text
//! cargo run --release -p lightloom-schedule --example chunks -- 8,16 4 2
//! cargo run --release -p lightloom-schedule --example chunks -- 8,16 4 2 deadlines
//! ```
//!
//! The numbers are chunks per pair and draws.

use std::time::Instant;

use lightloom_model::Rate;
use lightloom_schedule::hybrid::{
    Chunk, ChunkDemand, ChunkMethod, ChunkSchedule, HybridBudget, PortRates, check_chunks,
    schedule_chunks,
};

#[path = "../tests/all/common/regimes.rs"]
mod regimes;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let sizes = words.first().map_or("8,16", String::as_str);
    let number = |index: usize, usual| words.get(index).map_or(usual, |w| w.parse().expect("some"));
    let (chunks, draws) = (number(1, 4), number(2, 1));
    println!("| regime | n | compute | together | in order | pipelined | of the better one | ms |");
    println!("|---|---:|---:|---:|---:|---:|---:|---:|");
    for kind in regimes::KINDS {
        for size in sizes.split(',') {
            let n = size.parse().expect("sizes such as 8,16");
            for compute in [25, 100, 200] {
                row(kind, n, [chunks, compute, draws]);
            }
        }
    }
}

fn has_deadlines() -> bool {
    std::env::args().nth(4).is_some_and(|word| word == "deadlines")
}

/// Each pair in so many chunks of alike size, released one after another over the compute time.
fn divided(
    bytes: &[u64],
    n: usize,
    chunks: u64,
    compute: u64,
    random: &mut regimes::Random,
) -> Vec<Chunk> {
    let mut found = Vec::new();
    for (cell, &all) in bytes.iter().enumerate() {
        let mut left = all;
        for index in 0..chunks {
            let share = (all as f64 / chunks as f64 * (0.5 + random.uniform())) as u64;
            let bytes = if index + 1 == chunks { left } else { share.min(left) };
            left -= bytes;
            let (row, column) = ((cell / n) as u32, (cell % n) as u32);
            let release = compute * (index + 1) / chunks;
            let deadline = has_deadlines().then_some(compute * index / chunks);
            found.push(Chunk { row, column, bytes, release, deadline });
        }
    }
    found
}

/// Means and maxima over delays of 0.1, 1 and 10 % of the longest line, and an EPS of 0, 1/10, 1/4
/// and 1/2 of the circuits' rate; the compute time is in percent of the longest line.
fn row(kind: &str, n: usize, [chunks, compute, draws]: [u64; 3]) {
    let mut over = [const { Vec::new() }; 3];
    let (mut ratio, mut times) = (Vec::new(), [0.0; 3]);
    for draw in 0..draws {
        let mut random = regimes::Random(0x9E37_79B9_7F4A_7C15 ^ (draw * 7_919 + 1));
        let bytes = regimes::demand(kind, n, &mut random);
        let rows = bytes.chunks_exact(n).map(|row| row.iter().sum::<u64>());
        let columns = (0..n).map(|c| bytes.iter().skip(c).step_by(n).sum::<u64>());
        let longest = rows.chain(columns).max().expect("a line");
        let chunks = divided(&bytes, n, chunks, longest * compute / 100, &mut random);
        for per_mille in [1, 10, 100] {
            for eps in [0, 10, 25, 50] {
                let rates = PortRates { circuit: Rate(100), eps: Rate(eps) };
                let delay = longest * per_mille / 1_000;
                let demand = ChunkDemand::new(n, n, &chunks, delay, rates).expect("it fits");
                let mut aims = [0.0; 3];
                for (index, &method) in ChunkMethod::ALL.iter().enumerate() {
                    let start = Instant::now();
                    let found = schedule_chunks(&demand, method, &HybridBudget::USUAL);
                    times[index] += start.elapsed().as_secs_f64() * 1e3;
                    check_chunks(&demand, &found).expect("a schedule");
                    let (aim, bound) = aim(&found);
                    aims[index] = aim;
                    over[index].push(aim / bound);
                }
                ratio.push(aims[0] / aims[1].min(aims[2]));
            }
        }
    }
    let text = |values: &[f64]| {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        format!("{mean:.3} ({:.2})", values.iter().copied().fold(0.0, f64::max))
    };
    let [ours, in_order, together] = over.each_ref().map(|values| text(values));
    let took = times.map(|time| format!("{:.0}", time / ratio.len() as f64));
    println!(
        "| {kind} | {n} | {compute} % | {together} | {in_order} | {ours} | {} | {} |",
        text(&ratio),
        took.join(" / ")
    );
}

/// What was to be small, and its bound.
fn aim(found: &ChunkSchedule) -> (f64, f64) {
    match (found.lateness, found.lateness_bound) {
        (Some(late), Some(bound)) => (late as f64, bound as f64),
        _ => (found.length as f64, found.lower_bound as f64),
    }
}
